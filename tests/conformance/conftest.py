"""The models every check of this folder runs over: channels and shapes, limits included."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, limits
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.channels.scalar.sign import NoisySignChannel
from glassformer.designs.dense import DenseDesign
from glassformer.verbs.instances import Simulation
from glassformer.verbs.simulate import simulate

# A new channel needs one line here.
CHANNELS = {
    "linear": {"channel": "gaussian", "noise": 0.0},
    "noisy": {"channel": "gaussian", "noise": 0.1},
    "sign": {"channel": "sign"},
    "noisy sign": {"channel": NoisySignChannel(0.3, 0.5)},
    "absolute": {"channel": "absolute"},
    "tanh": {"channel": np.tanh, "noise": 0.1},
}
SHAPES = {
    "square": {"beta": 1.0, "rho": 0.5},
    "wide": {"beta": 0.5, "rho": 0.4},
    "long": {"beta": 5.0, "rho": 0.5},
    "full rank": {"beta": 2.0, "rho": 1.5},
    "rho=0": {"beta": 2.0, "rho": 0.0},
    "beta=inf": {"beta": np.inf, "rho": 0.5},
    "both": {"beta": np.inf, "rho": 0.0},
    "rho=inf": {"beta": 1.0, "rho": np.inf},
    "width=2": {"beta": 1.5, "width": 2},
}
# Channels that are integrated at every step go with the shapes that differ most; the others with all.
INTEGRATED = {"noisy sign": ("square",), "absolute": ("square", "rho=0"), "tanh": ("square", "width=2")}
MODELS = {
    f"{shape} {channel}": BilinearSequenceRegression(**SHAPES[shape], **CHANNELS[channel])
    for shape in SHAPES
    for channel in CHANNELS
    if shape in INTEGRATED.get(channel, SHAPES)
}

# Sizes with data: token dimension by shape, sample ratio by channel in units of the degrees of freedom, instances by
# channel. A noisy link is integrated at every sample: few, and small.
SIZES = {"square": 50, "wide": 70, "long": 24, "width=2": 60}
RATIOS = {"linear": 0.6, "noisy": 0.8, "sign": 1.5, "tanh": 1.0}
INSTANCES = {"linear": 4, "noisy": 4, "sign": 4, "tanh": 3}
# Narrow matrices from well above the weak-recovery threshold on: near it finite-size noise dominates at these sizes.
# Without noise that leaves the phase of perfect recovery only.
NARROW_RATIOS = {"linear": 1.5, "noisy": 1.3, "sign": 2.5, "tanh": 1.8}
CASES = [(s, c) for s in SIZES for c in RATIOS if c != "tanh" or s in ("square", "width=2")]
# Every shape and every channel is in the suite, the other pairs of them are among the thorough tests.
IN_THE_SUITE = {
    *(("square", "linear"), ("square", "sign"), ("wide", "noisy"), ("long", "linear")),
    *(("width=2", "sign"), ("width=2", "tanh")),
}


@dataclass(frozen=True)
class Case:
    """A model with data at one sample ratio, and what message passing made of it."""

    model: BilinearSequenceRegression
    alpha: float
    d: int
    result: Simulation


def one_instance(model: BilinearSequenceRegression, d: int, alpha: float, seed: int = 3):
    """Teacher, inputs and labels of one instance."""
    rng = np.random.default_rng(seed)
    shape = (round(model.beta * d), d)
    size = model.width * sum(shape) if model.width else shape[0] * shape[1]
    signal, design = model.prior.sample(shape, rng), DenseDesign.sample(round(alpha * size), shape, rng)
    return signal, design, model.channel.sample(design.forward(signal, 0), rng)


@pytest.fixture(scope="session")
def draw():
    return one_instance


# Every shape and every channel of the table is in the suite, its other pairs are among the thorough tests.
PAIRS = {"square linear", "square noisy", "square sign", "wide noisy", "long linear", "full rank sign", "rho=0 linear"}
PAIRS |= {"rho=0 noisy", "beta=inf sign", "both noisy", "rho=inf linear", "width=2 linear", "width=2 sign"}
PAIRS |= {f"{shape} {channel}" for channel, shapes in INTEGRATED.items() for shape in shapes}


# Of the session: what is computed of one model serves several files.
@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=() if name in PAIRS else pytest.mark.thorough, id=name) for name in MODELS],
)
def model(request):
    return MODELS[request.param]


@pytest.fixture(scope="session")
def alphas(model):
    """From no data to beyond perfect recovery, dense where the limits change fastest."""
    return model.prior.mmse_dimension * np.array([0.0, 0.2, 0.4, 0.6, 0.8, 0.95, 1.05, 1.3, 2.0, 4.0])


@pytest.fixture(scope="session")
def curve(model, alphas):
    return limits(model, alphas, throw=False)


@pytest.fixture(scope="session")
def ends(model, alphas):
    """Where state evolution leads from either start."""
    return {start: state_evolution(model, alphas, start) for start in ("uninformed", "informed")}


# One of them in the fast part of the tests.
QUICK = ("square", "sign")


def marks_of(case):
    """One case is quick, some are slow, the rest are thorough."""
    if case not in IN_THE_SUITE:
        return pytest.mark.thorough
    return () if case == QUICK else pytest.mark.slow


@pytest.fixture(
    scope="module",
    params=[pytest.param(case, marks=marks_of(case), id=" ".join(case)) for case in CASES],
)
def case(request):
    shape, channel = request.param
    model = MODELS[f"{shape} {channel}"]
    ratio = NARROW_RATIOS[channel] if model.counts_low_rank else RATIOS[channel]
    d = SIZES[shape] if channel != "tanh" else 30
    alpha = ratio * model.prior.mmse_dimension
    return Case(model, alpha, d, simulate(model, [alpha], d=d, instances=INSTANCES[channel], seed=11))
