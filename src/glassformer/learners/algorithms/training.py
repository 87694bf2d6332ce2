"""Minimising a training error by gradients, step by step in compiled blocks, on whatever device JAX finds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer.core.checkpoints import Checkpoint, leaves, stacked, unleaved, unstacked
from glassformer.core.integral import Array
from glassformer.core.numerics.compiled import Specialised
from glassformer.core.progress import note
from glassformer.core.settings import Training
from glassformer.core.solution import Status

# Steps between two looks at the training error; looks over which it must still fall by a share to go on.
_BLOCK, _LOOKS, _FALLING = 100, 20, 0.01
# Halvings of the learning rate after a divergence, and the growth of the training error that counts as one; halvings
# where the training error no longer falls.
_HALVINGS, _DIVERGED, _COOLINGS = 8, 1e3, 6
# Share of the learning rate with which exploring weights settle.
_SETTLING = 0.1
# Fall that the gradient promises, over the looks and at the usual rate after all halvings, of what counts as a floor.
_DRIVEN = 0.1

Loss = Callable[[Any, Any], Any]
"""``loss(parameters, data)``: training errors of independent starts, shape (starts,)."""

Watch = Callable[[int, Any, Array], dict[str, Any]]
"""``watch(steps, parameters, errors)``: what to remember, numbers or arrays under names."""


@dataclass(frozen=True)
class Schedule:
    """Data that change on the way, for annealing; nothing counts as a floor before they have their final form.

    Attributes:
        at: ``at(data, steps)``, the data to use after so many steps.
        steps: from when on they no longer change.
    """

    at: Callable[[Any, int], Any]
    steps: int


@dataclass(frozen=True)
class Trained:
    """Where training ended.

    Attributes:
        parameters: a tree of arrays, the starts along the first axes.
        loss: training error of every start, shape (starts,).
        steps: gradient steps taken.
        learning_rate: what was used at the end, after halvings and with what follows exploration.
        status: converged at the floor, or where it no longer falls; else why it stopped.
        history: training errors after every block of steps, shape (blocks, starts), the start first.
        residual: share by which the largest training error fell over the last looks.
        records: what ``watch`` returned at the start and after every block.
    """

    parameters: Any
    loss: Array
    steps: int
    learning_rate: float
    status: Status
    history: Array
    residual: float
    records: list[dict[str, Any]]


@dataclass
class _Counts:
    """The numbers of a run, all that decides how it goes on beside arrays.

    Attributes:
        rate: present learning rate.
        halvings: divergences so far.
        steps: gradient steps since the last of them.
        begun: blocks before what counts as a plateau: cooling, annealing, exploration.
        coolings: halvings of the rate where the training error no longer fell.
        reached: total training error at the last of them.
        power: what the floor is measured against.
        label: how the run ended, empty while it goes on.
    """

    rate: float
    power: float
    halvings: int = 0
    steps: int = 0
    begun: int = 0
    coolings: int = 0
    reached: float = np.inf
    label: str = ""


@dataclass
class _Run:
    """A run between two blocks of steps."""

    parameters: Any
    state: Any
    counts: _Counts
    losses: list[Array] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def arrays(self) -> dict[str, Array]:
        """Everything, as named arrays."""
        kept = leaves(jax.tree.leaves((self.parameters, self.state)))
        kept |= {f"count_{name}": np.array(value) for name, value in asdict(self.counts).items()}
        return {**kept, **stacked(self.records), "losses": np.array(self.losses)}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take the place of the run that :meth:`arrays` describes, which began as this one did."""
        structure = jax.tree.structure((self.parameters, self.state))
        self.parameters, self.state = jax.tree.unflatten(structure, map(jnp.asarray, unleaved(arrays)))
        counts: dict[str, Any] = {name: arrays[f"count_{name}"].item() for name in asdict(self.counts)}
        self.counts = _Counts(**counts)
        self.losses = list(arrays["losses"])
        self.records = unstacked(arrays)


def train(
    loss: Loss,
    parameters: Any,
    data: Any,
    power: float,
    settings: Training,
    rates: dict[str, float],
    watch: Watch | None = None,
    checkpoint: Checkpoint | None = None,
    schedule: Schedule | None = None,
) -> Trained:
    """Descend the training errors of all starts at once until they are at their floor or no longer fall.

    Args:
        loss: traceable; the same object at every call, or it is compiled again.
        parameters: initial parameters, a tree of arrays.
        data: a tree of arrays, what the loss takes beside the parameters.
        power: training error of predicting zero, against which the floor is measured.
        settings: optimizer, learning rate, steps allowed.
        rates: learning rates of the optimizers, for settings that leave them open; the first is the default optimizer.
        watch: called with steps taken, parameters and training errors at the start and after every block.
        checkpoint: where to continue from, and to leave the state now and then; the outcome is that of one go.
        schedule: how the data change on the way; None for data that do not.
    """
    (name, rate), checkpoint = settings.rule(rates), checkpoint or Checkpoint()
    watch = watch or (lambda steps, parameters, errors: {})
    schedule = schedule or Schedule(lambda data, steps: data, 0)
    first = np.asarray(loss(parameters, schedule.at(data, 0)))
    power = max(power, float(np.max(first)))

    def begin(rate: float, halvings: int) -> _Run:
        state = _optimizer(name, rate, settings.momentum, settings.weight_decay).init(parameters)
        records = [watch(0, parameters, first)]
        return _Run(parameters, state, _Counts(rate, power, halvings), [first], records)

    run = begin(rate, 0)
    stored = checkpoint.load()
    if stored is not None:
        run.restore(stored)
    while run.counts.steps < settings.max_steps and not run.counts.label:
        _advance(run, loss, schedule, data, settings, (name, rates["sgd"]), watch)
        if run.counts.label == str(Status.NON_FINITE) and run.counts.halvings < _HALVINGS - 1:
            run = begin(0.5 * run.counts.rate, run.counts.halvings + 1)
        worst = float(np.max(run.losses[-1]))
        note(f"step {run.counts.steps} of at most {settings.max_steps}, training error {worst / power:.1e}")
        checkpoint.offer(run.arrays)
    counts = run.counts
    status = next((s for s in Status if str(s) == counts.label), Status.ITERATION_LIMIT)
    fall = _fall(run.losses) if len(run.losses) > 1 else 1.0
    history = np.array(run.losses)
    last = _rate(counts, settings.explore or 0)
    return Trained(run.parameters, history[-1], counts.steps, last, status, history, fall, run.records)


def _advance(
    run: _Run,
    loss: Loss,
    schedule: Schedule,
    data: Any,
    settings: Training,
    usual: tuple[str, float],
    watch: Watch,
) -> None:
    """One block of steps, and what follows from the training errors after it."""
    counts, explore = run.counts, settings.explore or 0
    data = schedule.at(data, counts.steps)
    optimizer = _optimizer(usual[0], _rate(counts, explore), settings.momentum, settings.weight_decay)
    block = min(_BLOCK, settings.max_steps - counts.steps)
    run.parameters, run.state, errors = _block(loss, optimizer, run.parameters, run.state, data, block)
    counts.steps += block
    run.losses.append(np.asarray(errors))
    worst, total = float(np.max(run.losses[-1])), float(np.sum(run.losses[-1]))
    if not np.isfinite(worst) or worst > _DIVERGED * counts.power:
        counts.label = str(Status.NON_FINITE)
        return
    run.records.append(watch(counts.steps, run.parameters, run.losses[-1]))
    if counts.steps < schedule.steps or counts.steps <= explore:
        counts.begun = len(run.losses)
    elif worst <= settings.floor * counts.power:
        counts.label = str(Status.CONVERGED)
    elif _flat(run.losses[counts.begun :]):
        # Just below the edge of stability the training error may hover: a shorter step tells whether it is a floor.
        if counts.coolings == _COOLINGS or total > (1 - _FALLING) * counts.reached:
            slow = _slope(loss, run.parameters, data) * usual[1] / 2**_COOLINGS
            at_floor = slow * _BLOCK * _LOOKS <= _DRIVEN
            counts.label = str(Status.CONVERGED if at_floor else Status.ITERATION_LIMIT)
        else:
            counts.reached, counts.begun = total, len(run.losses)
            counts.coolings, counts.rate = counts.coolings + 1, 0.5 * counts.rate


def _rate(counts: _Counts, explore: int) -> float:
    """The learning rate of the next step."""
    return counts.rate * (_SETTLING if 0 < explore <= counts.steps else 1.0)


def _flat(history: list[Array]) -> bool:
    """True when the sum of the training errors fell by no hundredth over the last looks, nor faster than before."""
    if len(history) <= 2 * _LOOKS:
        return False
    ends = [float(np.sum(history[-1 - k * _LOOKS])) for k in range(3)]
    now, before = ends[1] - ends[0], ends[2] - ends[1]
    return now <= _FALLING * ends[1] and now <= abs(before)


def _fall(history: list[Array]) -> float:
    old, new = history[max(-len(history), -1 - _LOOKS)], history[-1]
    return float(np.max((old - new) / np.where(old > 0, old, 1.0)))


def _slope(loss: Loss, parameters: Any, data: Any) -> float:
    """Relative fall of the training error per unit of learning rate: no floor where this is large."""
    value, gradient = jax.value_and_grad(lambda p: jnp.sum(loss(p, data)))(parameters)
    square = sum(float(jnp.sum(part**2)) for part in jax.tree.leaves(gradient))
    return square / max(float(value), 1e-300)


def _optimizer(name: str, rate: float, momentum: float, decay: float) -> Any:
    rule = optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=momentum or None)
    # The share that decays is that of a step: it goes with the learning rate.
    return optax.chain(rule, optax.add_decayed_weights(-rate * decay)) if decay else rule


def _block(loss: Loss, optimizer: Any, parameters: Any, state: Any, data: Any, steps: int) -> Any:
    return Specialised(_steps, loss=loss, optimizer=optimizer, steps=steps)(parameters, state, data)


def _steps(parameters: Any, state: Any, data: Any, loss: Loss, optimizer: Any, steps: int) -> Any:
    def total(parameters: Any) -> Any:
        return jnp.sum(loss(parameters, data))

    def step(_: int, carried: Any) -> Any:
        parameters, state = carried
        change, state = optimizer.update(jax.grad(total)(parameters), state, parameters)
        return optax.apply_updates(parameters, change), state

    parameters, state = jax.lax.fori_loop(0, steps, step, (parameters, state))
    return parameters, state, loss(parameters, data)
