"""Random laws of the inputs against runs, and statements of papers on mixtures and on hidden tokens.

Half of the laws are lists of hidden states, half of them samplers, and learners take turns: message passing on lists,
regularised risks, descent and online descent. A setting that is far from theory is repeated with other seeds at this
size and at twice and four times this size, and its distance extrapolated in 1/d.

python benchmarks/check_hidden_states.py --settings 24 --d 200
python benchmarks/check_hidden_states.py --kind published
"""

import argparse
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.nn import softmax

from glassformer import SGD, Accuracy, OnlineSGD, RegularisedRisk, SequenceMultiIndex, limits, simulate, trajectory
from glassformer.inputs import FieldLaw, FieldSampler, HiddenStates, HiddenToken, Mixture

# Shifts of the fields, in standard deviations.
_LARGEST = 1.5
# Tokens and signal of the hidden token, and samples of averages over its fields.
_TOKENS, _SIGNAL, _SAMPLES = 3, 4.0, 2**20
# Distance from theory, in standard errors, beyond which a setting is extrapolated in the size, and sizes of this fit.
_FAR, _SIZES = 2.5, (1, 2, 4)
# Points of sampled averages, and trajectories of the equations of descent.
_ACCURACY, _TRAJECTORIES = Accuracy(points=512), Accuracy(trajectories=2**14)
# Steps of descent.
_STEPS = 8


@dataclass(frozen=True)
class Listed(FieldLaw):
    """A list of hidden states."""

    probabilities: tuple[float, ...]
    shifts: Any
    label = "listed"

    def states(self, rows, tokens):
        return HiddenStates.of(self.probabilities, self.shifts)


@dataclass(frozen=True)
class Curved(FieldSampler):
    """Heavy-tailed fields that are mixed, with a square of each added to the next one."""

    degrees: float
    curvature: float
    mixing: tuple
    label = "curved"

    def draw(self, rng, samples, rows, tokens):
        fields = np.array(self.mixing) @ rng.standard_t(self.degrees, (samples, rows, tokens))
        return fields + self.curvature * np.roll(fields, 1, axis=2) ** 2


@dataclass(frozen=True)
class Bag(FieldSampler):
    """Tokens that carry a signal, each with a probability of its own, of a size that is drawn for every sample."""

    probabilities: tuple[float, ...]
    size: float
    label = "bag"

    def draw(self, rng, samples, rows, tokens):
        carries = rng.random((samples, 1, tokens)) < np.array(self.probabilities)
        return rng.standard_normal((samples, rows, tokens)) + carries * rng.exponential(self.size, (samples, 1, 1))


def listed(rng, states, rows, tokens):
    """Return a random list of hidden states."""
    weights = rng.dirichlet(np.full(states, 3.0))
    shifts = rng.uniform(-_LARGEST, _LARGEST, (states, rows, tokens))
    return Listed(tuple(weights / weights.sum()), tuple(tuple(map(tuple, one)) for one in shifts))


def sampler(rng, rows, tokens):
    """Return a random law without a density that anybody knows."""
    if rng.random() < 0.5:
        return Bag(tuple(rng.uniform(0.2, 0.8, tokens)), rng.uniform(0.5, 1.5))
    mixing = np.eye(rows) + 0.3 * rng.standard_normal((rows, rows))
    return Curved(rng.uniform(6.0, 12.0), rng.uniform(0.0, 0.2), tuple(map(tuple, mixing)))


def risk(rng, loss="square", **more):
    """Return a regularised risk of random strength."""
    return RegularisedRisk(loss, strength=float(rng.uniform(0.1, 1.0)), **more)


def descent(rng, **more):
    """Return descent of random rate and decay, from a start with an overlap."""
    rate, decay = (float(rng.uniform(*ends)) for ends in ((0.05, 0.2), (0.0, 0.1)))
    return SGD(learning_rate=rate, weight_decay=decay, start="overlap:0.3", **more)


def online(rng):
    """Return online descent of random rate, from a start with an overlap."""
    return OnlineSGD(learning_rate=float(rng.uniform(0.1, 0.5)), batch=2, start="overlap:0.3")


def setting(number):
    """Return model, sample ratio and learner: lists of states for even numbers, samplers for odd ones."""
    rng, turn = np.random.default_rng([1, number]), number // 2 % 6
    rows, tokens, states = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.integers(2, 5))
    readings = rng.standard_normal((states, rows, tokens)) / np.sqrt(rows * tokens)
    noise, alpha = float(rng.uniform(0.05, 0.5)), float(rng.uniform(1.0, 4.0))

    def smooth(z):
        return jnp.sum(readings[0] * z) + jnp.tanh(jnp.sum(readings[1] * z))

    def of_state(z, state):
        return jnp.sum(readings[state] * z)

    def side(z):
        return jnp.where(jnp.sum(readings[0] * z) > 0, 1.0, -1.0)

    law = sampler(rng, rows, tokens) if number % 2 else listed(rng, states, rows, tokens)
    if turn == 0 and number % 2 == 0:
        return SequenceMultiIndex(of_state, rows, tokens, noise=noise, inputs=law), alpha, "gamp"
    if turn == 1 and number % 2 == 0:
        classes = SequenceMultiIndex(None, inputs=listed(rng, 2, 1, 1))
        return classes, alpha, risk(rng, "logistic", intercept=True)
    if turn == 2 and number % 2 == 0:
        linear = risk(rng, student="linear", student_rows=1)
        return SequenceMultiIndex(of_state, rows, tokens, noise=noise, inputs=law), alpha, linear
    if turn == 1:
        return SequenceMultiIndex(side, rows, tokens, inputs=law), alpha, risk(rng, "logistic")
    informed = {"branch": "informed"}
    learners = (
        risk(rng, "huber", **informed),
        None,
        risk(rng, student="linear"),
        risk(rng, **informed),
        descent(rng),
        online(rng),
    )
    return SequenceMultiIndex(smooth, rows, tokens, noise=noise, inputs=law), alpha, learners[turn]


def distance(model, alpha, learner, d, instances, seed):
    """Return theory, its distance from runs, the standard error of this distance, and statuses of theory and runs."""
    if isinstance(learner, SGD | OnlineSGD):
        accuracy, steps = (_TRAJECTORIES, _STEPS) if isinstance(learner, SGD) else (None, 4)
        ask = {"steps": steps, "d": d, "instances": instances, "seed": seed, "accuracy": accuracy}
        row = trajectory(model, [alpha], learner, **ask)
        theory, estimate = row["error"][-1], row["error_estimate"][-1]
        gap, bar, status = row["measured_error"][-1] - theory, row["measured_standard_error"][-1], row.status[-1]
    else:
        storage = {"storage": "revealed"} if learner == "gamp" else {}
        row = simulate(model, [alpha], learner, d=d, instances=instances, seed=seed, **storage)
        theory, estimate = row["theory"][0], row["theory_error_estimate"][0]
        gap, bar, status = row["error"][0] - theory, row["standard_error"][0], row.status[0]
    # Error estimates of theory are two standard errors.
    return theory, gap, float(np.hypot(bar, 0.5 * np.nan_to_num(estimate))), status, row.notes


def in_large_sizes(model, alpha, learner, d, instances, seed):
    """Return the distance of runs from theory extrapolated to infinite size, and its standard error."""
    parts = [distance(model, alpha, learner, size * d, instances, seed + size) for size in _SIZES]
    design = np.stack([np.ones(len(_SIZES)), 1 / np.array(_SIZES)], axis=1)
    weights = np.array([1 / part[2] ** 2 for part in parts])
    covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
    return (covariance @ design.T @ (weights * [part[1] for part in parts]))[0], covariance[0, 0] ** 0.5


def random_laws(settings, d, instances):
    """Print the distance of runs from theory, in standard errors, for every setting."""
    distances = []
    for number in range(settings):
        model, alpha, learner = setting(number)
        model, seed = model.at_accuracy(_ACCURACY), 1000 * number
        theory, gap, error, status, notes = distance(model, alpha, learner, d, instances, seed)
        shape = f"P = {model.indices}, L = {model.tokens}, {model.inputs.label}, {getattr(learner, 'name', learner)}"
        text = f"{number:3d} {shape}, alpha {alpha:.2f}: theory {theory:.4f}, runs - theory {gap:+.4f} +- {error:.4f}"
        far = abs(gap) > _FAR * error
        if far:
            gap, error = in_large_sizes(model, alpha, learner, d, instances, seed + 100)
            text += f", in large sizes {gap:+.4f} +- {error:.4f}"
        distances.append(gap / error)
        unsettled = [note for note in notes if note.startswith("theory at alpha")]
        print(f"{text}: {distances[-1]:+.1f} standard errors, {status}", *unsettled, sep="; ", flush=True)
    for most in (1, 2, 3):
        within = sum(abs(one) <= most for one in distances)
        print(f"{within} of {settings} settings are within {most} standard errors")


def main():
    """Print distances of runs from theory, or statements of papers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["random", "published"], default="random")
    parser.add_argument("--settings", type=int, default=24)
    parser.add_argument("--d", type=int, default=200)
    parser.add_argument("--instances", type=int, default=8)
    options = parser.parse_args()
    if options.kind == "published":
        mixtures()
        hidden_tokens()
        return
    random_laws(options.settings, options.d, options.instances)


def mixtures():
    """Print errors of classifiers of two classes: arXiv:2002.11544 states which strength reaches the best possible one.

    Classes of equal weight: every loss reaches it at infinite strength. Unequal ones: the best strength is finite, and
    the error stays above. Few samples without penalty: a peak where the labels can just be fitted (square, n = d).
    """
    strengths = [0.001, 0.1, 1.0, 10.0, 1e4, None]
    for share in (0.5, 0.2):
        model = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0], [share, 1 - share]))
        print(f"weights {share:g} and {1 - share:g}, alpha 2: least error {limits(model, [2.0])['label_error'][0]:.6f}")
        for loss in ("square", "logistic", "hinge"):
            tables = [limits(model, [2.0], RegularisedRisk(loss, strength=one, intercept=True)) for one in strengths]
            errors = ", ".join(f"{table['strength'][0]:g}: {table['label_error'][0]:.6f}" for table in tables)
            print(f"  {loss:8s} {errors}")
    model, alpha = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0])), [0.5, 0.8, 1.0, 1.25, 2.0]
    peak = limits(model, alpha, RegularisedRisk("square", strength=1e-4))["label_error"]
    print("square, strength 0.0001:", ", ".join(f"alpha {a:g}: {one:.4f}" for a, one in zip(alpha, peak, strict=True)))


def hidden_tokens():
    """Print errors of softmax and linear attention on a hidden token: arXiv:2509.21936 states how they compare.

    Known rows: softmax is the posterior of the place and reaches the least error, and linear attention does not.
    Finitely many samples: softmax is above the least error, and below linear attention.
    """
    rng, places = np.random.default_rng(0), np.arange(_TOKENS)
    keys = rng.standard_normal((_SAMPLES, _TOKENS)) + _SIGNAL**0.5 * (places == 0)
    shares = np.asarray(softmax(_SIGNAL**0.5 * keys, axis=1))
    print(f"known rows: least {1 - np.mean(np.sum(shares**2, axis=1)):.4f}, ", end="")
    print(f"linear attention {_TOKENS / (_SIGNAL + _TOKENS):.4f}")
    model = SequenceMultiIndex(lambda z, place: z[1, place], 2, _TOKENS, noise=0.01, inputs=HiddenToken(_SIGNAL))
    for alpha in (4.0, 16.0, 64.0):
        print(f"alpha {alpha:g}: least {limits(model, [alpha], throw=False)['prediction_error'][0]:.4f}")
        students = {"softmax": lambda z: jnp.sum(softmax(z[0]) * z[1]), "linear": lambda z: z[0] @ z[1]}
        for name, student in students.items():
            learner = RegularisedRisk("square", strength=0.3, student=student, student_rows=2, branch="informed")
            runs = simulate(model, [alpha], learner, d=100, instances=3, accuracy=Accuracy(points=4096))
            error, bar = runs["prediction_error"][0], runs["prediction_standard_error"][0]
            failed = [note for note in runs.notes if note.startswith("theory at alpha")]
            theory = failed[0].partition(":")[0] if failed else f"theory {runs['prediction_theory'][0]:.4f}"
            print(f"  {name}: {theory}, runs {error:.4f} +- {bar:.4f}", flush=True)


if __name__ == "__main__":
    main()
