r"""Minimising a training error by gradients, step by step in compiled blocks, on whatever device JAX finds.

What is minimised is the objective :math:`\mathcal L + \frac w2\|\theta\|^2`, training error and weight decay, whatever
the optimizer: the decay is part of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer.core.checkpoints import Checkpoint, pack_leaves, pack_records, unpack_leaves, unpack_records
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.solution import Status
from glassformer.models.trainable.base import Loss, Schedule
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

if TYPE_CHECKING:
    from glassformer.learners.gradient_descent import GradientDescent


@dataclass(frozen=True)
class Patience:
    """When training is looked at, slowed down, begun anew and ended.

    Attributes:
        block: steps between two looks at the training error.
        looks: looks over which it must still fall to go on.
        settled: the same where weights have explored: they settle within few, and what they then do not fit is noise.
        falling: share by which it must.
        halvings: of the learning rate after a divergence.
        diverged: growth of the training error that counts as one.
        coolings: halvings of the learning rate where the training error no longer falls.
        settling: share of the learning rate with which exploring weights settle.
        driven: fall that the gradient promises, at the usual rate after all halvings, of a floor.
        shares: parts of the samples that exploring steps take in turn, in an order drawn for every block: weights
            wander as far or farther in as many steps, at half the price.
    """

    block: int = 100
    looks: int = 20
    settled: int = 5
    falling: float = 0.01
    halvings: int = 8
    diverged: float = 1e3
    coolings: int = 6
    settling: float = 0.1
    driven: float = 0.1
    shares: int = 2


_POLICY = Patience()
# Ends from which a run begins again with half the learning rate.
_FAILED = (str(Status.DIVERGING), str(Status.NON_FINITE))


Watch = Callable[[int, Any, Array], dict[str, Any]]
"""``watch(steps, parameters, errors)``: what to remember, numbers or arrays under names."""


@dataclass(frozen=True)
class Trained:
    """Where training ended.

    Attributes:
        parameters: a tree of arrays, the starts along the first axes.
        loss: training error of every start, without the decay, shape (starts,).
        steps: gradient steps taken.
        learning_rate: what was used at the end, after halvings and with what follows exploration.
        status: converged at the floor, or where it no longer falls; else why it stopped.
        history: objectives after every block of steps, shape (blocks, starts), the start first.
        residual: share by which the largest objective fell over the last looks.
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


class _Objective(NamedTuple):
    """Training error, of data that count so many times, and weight decay; equal ones are compiled once."""

    loss: Loss
    decay: float
    times: int = 1

    def __call__(self, parameters: Any, data: Any) -> Any:
        """Objectives of all starts, shape (starts,)."""
        errors = self.times * self.loss(parameters, data)
        if self.decay == 0:
            return errors
        squares = [jnp.sum(part.reshape(len(part), -1) ** 2, axis=1) for part in jax.tree.leaves(parameters)]
        return errors + 0.5 * self.decay * sum(squares)


@dataclass
class _Counts:
    """The numbers of a run, all that decides how it goes on beside arrays.

    Attributes:
        rate: present learning rate.
        halvings: divergences so far.
        steps: gradient steps since the last of them.
        begun: blocks before what counts as a plateau: cooling, annealing, exploration.
        coolings: halvings of the rate where the objective no longer fell.
        reached: total objective at the last of them.
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
        kept = pack_leaves(jax.tree.leaves((self.parameters, self.state)))
        kept |= {f"count_{name}": np.array(value) for name, value in asdict(self.counts).items()}
        return {**kept, **pack_records(self.records), "losses": np.array(self.losses)}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Take the place of the run that :meth:`arrays` describes, which began as this one did."""
        structure = jax.tree.structure((self.parameters, self.state))
        self.parameters, self.state = jax.tree.unflatten(structure, map(jnp.asarray, unpack_leaves(arrays)))
        counts: dict[str, Any] = {name: arrays[f"count_{name}"].item() for name in asdict(self.counts)}
        self.counts = _Counts(**counts)
        self.losses = list(arrays["losses"])
        self.records = unpack_records(arrays)


def train(
    loss: Loss,
    parameters: Any,
    data: Any,
    power: float,
    settings: GradientDescent,
    rates: Mapping[str, float],
    watch: Watch | None = None,
    checkpoint: Checkpoint | None = None,
    schedule: Schedule | None = None,
) -> Trained:
    """Descend the objectives of all starts at once until they are at their floor or no longer fall.

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
    objective = _Objective(loss, settings.weight_decay)
    data_first = schedule.at(data, 0)
    first, errors = (np.asarray(function(parameters, data_first)) for function in (objective, loss))
    power = max(power, float(np.max(first)))

    def begin(rate: float, halvings: int) -> _Run:
        state = _optimizer(name, rate, settings.momentum).init(parameters)
        return _Run(parameters, state, _Counts(rate, power, halvings), [first], [watch(0, parameters, errors)])

    run = begin(rate, 0)
    stored = checkpoint.load()
    if stored is not None:
        run.restore(stored)
    while run.counts.steps < settings.max_steps and not run.counts.label:
        _advance(run, objective, schedule, data, settings, (name, rates["sgd"]), watch)
        if run.counts.label in _FAILED and run.counts.halvings < _POLICY.halvings - 1:
            run = begin(0.5 * run.counts.rate, run.counts.halvings + 1)
        worst = float(np.max(run.losses[-1]))
        note(f"step {run.counts.steps} of at most {settings.max_steps}, objective {worst / power:.1e}")
        checkpoint.offer(run.arrays)
    counts = run.counts
    status = next((s for s in Status if str(s) == counts.label), Status.ITERATION_LIMIT)
    fall = _fall(run.losses) if len(run.losses) > 1 else 1.0
    last = _rate(counts, settings.explore or 0)
    errors = (
        run.losses[-1] if objective.decay == 0 else np.asarray(loss(run.parameters, schedule.at(data, counts.steps)))
    )
    return Trained(run.parameters, errors, counts.steps, last, status, np.array(run.losses), fall, run.records)


def _advance(
    run: _Run,
    objective: _Objective,
    schedule: Schedule,
    data: Any,
    settings: GradientDescent,
    usual: tuple[str, float],
    watch: Watch,
) -> None:
    """One block of steps, and what follows from the objectives after it."""
    counts, explore = run.counts, settings.explore or 0
    data = schedule.at(data, counts.steps)
    optimizer = _optimizer(usual[0], _rate(counts, explore), settings.momentum)
    block = min(_POLICY.block, settings.max_steps - counts.steps)
    # Far above any floor single precision wanders as well as double precision, in half the time.
    inputs = jax.tree.leaves(data)[0]
    order = _order(len(inputs), counts.steps) if counts.steps < explore else None
    kind = inputs.dtype if order is None else np.dtype(np.float32)
    begin = _converted((run.parameters, run.state, data), kind)
    with jax_settings(kind == np.float64):
        run.parameters, run.state, values, errors = _block(objective, optimizer, (*begin, order), block)
    counts.steps += block
    run.losses.append(np.asarray(values))
    worst, total = float(np.max(run.losses[-1])), float(np.sum(run.losses[-1]))
    if not np.isfinite(worst) or worst > _POLICY.diverged * counts.power:
        counts.label = str(Status.DIVERGING if np.isfinite(worst) else Status.NON_FINITE)
        return
    run.records.append(watch(counts.steps, run.parameters, np.asarray(errors)))
    if counts.steps < schedule.steps or counts.steps <= explore:
        counts.begun = len(run.losses)
    elif worst <= settings.floor * counts.power:
        counts.label = str(Status.CONVERGED)
    elif _flat(run.losses[counts.begun :], _POLICY.settled if explore else _POLICY.looks):
        # Just below the edge of stability the objective may hover: a shorter step tells whether it is a floor.
        if counts.coolings == _POLICY.coolings or total > (1 - _POLICY.falling) * counts.reached:
            slow = _slope(objective, run.parameters, data) * usual[1] / 2**_POLICY.coolings
            at_floor = slow * _POLICY.block * _POLICY.looks <= _POLICY.driven
            counts.label = str(Status.CONVERGED if at_floor else Status.ITERATION_LIMIT)
        else:
            counts.reached, counts.begun = total, len(run.losses)
            counts.coolings, counts.rate = counts.coolings + 1, 0.5 * counts.rate


def _order(samples: int, steps: int) -> Any:
    """Samples of the shares, shape (shares, samples of each), in the block after so many steps."""
    shares = min(_POLICY.shares, samples)
    drawn = np.random.default_rng(steps).permutation(samples)[: samples // shares * shares]
    return jnp.asarray(drawn.reshape(shares, -1), dtype=jnp.int32)


def _converted(tree: Any, kind: np.dtype[Any]) -> Any:
    """The same with all floating numbers of one kind."""
    return jax.tree.map(lambda part: part.astype(kind) if jnp.issubdtype(part.dtype, jnp.floating) else part, tree)


def _rate(counts: _Counts, explore: int) -> float:
    """The learning rate of the next step."""
    return counts.rate * (_POLICY.settling if 0 < explore <= counts.steps else 1.0)


def _flat(history: list[Array], looks: int) -> bool:
    """True when the sum of the objectives fell by no hundredth over the last looks, nor faster than before."""
    if len(history) <= 2 * looks:
        return False
    ends = [float(np.sum(history[-1 - k * looks])) for k in range(3)]
    now, before = ends[1] - ends[0], ends[2] - ends[1]
    return now <= _POLICY.falling * ends[1] and now <= abs(before)


def _fall(history: list[Array]) -> float:
    old, new = history[max(-len(history), -1 - _POLICY.looks)], history[-1]
    return float(np.max((old - new) / np.where(old > 0, old, 1.0)))


def _slope(objective: _Objective, parameters: Any, data: Any) -> float:
    """Relative fall of the objective per unit of learning rate: no floor where this is large."""
    value, gradient = jax.value_and_grad(lambda p: jnp.sum(objective(p, data)))(parameters)
    square = sum(float(jnp.sum(part**2)) for part in jax.tree.leaves(gradient))
    return square / max(float(value), 1e-300)


def _optimizer(name: str, rate: float, momentum: float) -> Any:
    return optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=momentum or None)


def _block(objective: _Objective, optimizer: Any, arrays: tuple[Any, ...], steps: int) -> Any:
    return CachedJit(_steps, objective=objective, optimizer=optimizer, steps=steps)(*arrays)


def _steps(
    parameters: Any, state: Any, data: Any, order: Any, objective: _Objective, optimizer: Any, steps: int
) -> Any:
    """Steps on all data, or on the shares of an order in turn; and the objectives on all data in the end."""
    shares = [data] if order is None else [_part(data, chosen) for chosen in order]
    counted = objective._replace(times=len(shares))

    def step(share: Any, carried: Any) -> Any:
        parameters, state = carried
        slope = jax.grad(lambda parameters: jnp.sum(counted(parameters, share)))(parameters)
        change, state = optimizer.update(slope, state, parameters)
        return optax.apply_updates(parameters, change), state

    def each(_: int, carried: Any) -> Any:
        for share in shares:
            carried = step(share, carried)
        return carried

    rounds, rest = divmod(steps, len(shares))
    carried = jax.lax.fori_loop(0, rounds, each, (parameters, state))
    for share in shares[:rest]:
        carried = step(share, carried)
    parameters, state = carried
    values = objective(parameters, data)
    return parameters, state, values, objective.loss(parameters, data) if objective.decay else values


def _part(data: Any, chosen: Any) -> Any:
    """Data of the chosen samples; what is one number for all of them is kept."""
    return jax.tree.map(lambda part: part[chosen] if part.ndim else part, data)
