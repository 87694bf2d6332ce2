r"""The training loop: gradient descent on a training error in compiled blocks of steps, on any device of JAX.

The objective of every optimizer is :math:`\mathcal L + \frac w2\|\theta\|^2`: training error plus weight decay, which
is part of the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer.core.checkpoints import Checkpoint, pack_leaves, pack_records, unpack_leaves, unpack_records
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.status import Status
from glassformer.dynamics.matrix_descent import optimizer_of
from glassformer.models.trainable.base import BLOCK, Gradient, Loss, Schedule, Student
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

# All numbers were chosen by trial on bsr and aim at d from 10 to 100.
# The objective is flat if it falls by less than this share over this number of blocks; over fewer blocks after
# exploration, when further steps mainly fit noise.
_FLAT_SHARE, _FLAT_BLOCKS, _FLAT_BLOCKS_EXPLORED = 0.01, 20, 5
# Growth of the objective that counts as divergence, and largest number of runs, each with half the learning rate.
_DIVERGED, _RESTARTS = 1e3, 8
# Largest number of halvings of the learning rate when the objective is flat.
_COOLINGS = 6
# Factor of the learning rate after exploration.
_SETTLING = 0.1
# Objective, relative to the power, that counts as zero by default.
_FLOOR = 1e-9
# The objective is at its floor if the gradient predicts a smaller relative fall, at the usual rate after all halvings.
_FLOOR_FALL = 0.1
# Number of parts of the samples that exploration steps use in turn: it explores as far in as many steps at half the
# cost.
_SHARES = 2
_RESTARTED = (str(Status.DIVERGING), str(Status.NON_FINITE))

Arrays = tuple[jax.Array, ...]
Watch = Callable[[int, Arrays, Array], dict[str, Any]]
"""``watch(steps, parameters, errors)`` returns what to record: numbers or arrays by name."""


class TrainingSettings(Protocol):
    """Settings of training; see :class:`~glassformer.GradientDescent`."""

    def rule(self, rates: Mapping[str, float]) -> tuple[str, float]: ...

    @property
    def momentum(self) -> float: ...

    @property
    def weight_decay(self) -> float: ...

    @property
    def explore(self) -> int | None: ...

    @property
    def steps(self) -> int: ...

    @property
    def floor(self) -> float | None: ...


@dataclass(frozen=True)
class TrainingResult:
    """Result of training.

    Attributes:
        parameters: arrays with the starts along the first axes.
        loss: training error of every start, without weight decay, shape (starts,).
        steps: number of gradient steps.
        learning_rate: learning rate at the end, after halvings and exploration.
        status: converged if the objective is at its floor or flat; otherwise the reason why training stopped.
        history: objectives at the start and after every block of steps, shape (blocks, starts).
        residual: relative fall of the objectives over the last blocks, the largest of all starts.
        records: results of ``watch`` at the start and after every block.
    """

    parameters: Arrays
    loss: Array
    steps: int
    learning_rate: float
    status: Status
    history: Array
    residual: float
    records: list[dict[str, Any]]


class _Objective(NamedTuple):
    """Training error times ``times``, plus weight decay; equal objectives are compiled once.

    Attributes:
        slope: gradient of the sum of the losses, if JAX cannot trace them.
    """

    loss: Loss
    decay: float
    slope: Gradient | None = None
    times: int = 1

    def __call__(self, parameters: Arrays, data: Arrays) -> jax.Array:
        """Return the objectives of all starts, shape (starts,)."""
        errors: jax.Array = self.times * self.loss(parameters, data)
        if self.decay == 0:
            return errors
        squares = [jnp.sum(part.reshape(len(part), -1) ** 2, axis=1) for part in parameters]
        return errors + 0.5 * self.decay * sum(squares)

    def gradient(self, parameters: Arrays, data: Arrays) -> Arrays:
        """Return the gradient of the sum of the objectives."""
        if self.slope is None:
            return jax.grad(lambda parameters: jnp.sum(self(parameters, data)))(parameters)
        slopes = self.slope(parameters, data)
        return tuple(self.times * slope + self.decay * part for slope, part in zip(slopes, parameters, strict=True))


@dataclass
class _Counters:
    """Numbers of the state of training, which together with the arrays determine how it continues.

    Attributes:
        rate: present learning rate.
        power: unit of the floor.
        restarts: number of divergences so far.
        steps: number of gradient steps since the last restart.
        flat_from: first block in the test for flatness, after cooling, annealing or exploration.
        coolings: number of halvings of the rate at a flat objective.
        objective_at_cooling: total objective at the last halving.
        ended: status at the end, empty before.
    """

    rate: float
    power: float
    restarts: int = 0
    steps: int = 0
    flat_from: int = 0
    coolings: int = 0
    objective_at_cooling: float = np.inf
    ended: str = ""

    def learning_rate(self, explore: int) -> float:
        """Return the learning rate of the next step."""
        return self.rate * (_SETTLING if 0 < explore <= self.steps else 1.0)


@dataclass
class _Training:
    """Training between two blocks of steps."""

    parameters: Arrays
    optimizer_state: optax.OptState
    counters: _Counters
    history: list[Array] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def arrays(self) -> dict[str, Array]:
        """Return the state as named arrays."""
        kept = pack_leaves(jax.tree.leaves((self.parameters, self.optimizer_state)))
        kept |= {f"count_{name}": np.array(value) for name, value in asdict(self.counters).items()}
        return {**kept, **pack_records(self.records), "history": np.array(self.history)}

    def restore(self, arrays: dict[str, Array]) -> None:
        """Set the state to one that :meth:`arrays` returned in the same training."""
        structure = jax.tree.structure((self.parameters, self.optimizer_state))
        self.parameters, self.optimizer_state = jax.tree.unflatten(structure, map(jnp.asarray, unpack_leaves(arrays)))
        counters: dict[str, Any] = {name: arrays[f"count_{name}"].item() for name in asdict(self.counters)}
        self.counters = _Counters(**counters)
        self.history = list(arrays["history"])
        self.records = unpack_records(arrays)


def train(
    student: Student, parameters: Arrays, settings: TrainingSettings, watch: Watch, checkpoint: Checkpoint | None = None
) -> TrainingResult:
    """Return the result of minimising the objectives of all starts until they are at their floor or flat.

    Args:
        student: training error and data, learning rates, and the annealing schedule of the data. A loss that is a new
            object at every call would be compiled again.
        parameters: of all starts, with the starts along the first axes.
        settings: optimizer, learning rate, largest number of steps.
        watch: called with the number of steps, parameters and training errors at the start and after every block.
        checkpoint: checkpoint to continue from and to save to; an interrupted run gives the same result.
    """
    (name, rate), checkpoint = settings.rule(student.rates), checkpoint or Checkpoint()
    schedule = student.schedule or Schedule(lambda data, steps: data, 0)
    data: Arrays = tuple(map(jnp.asarray, student.data))
    objective = _Objective(student.loss, settings.weight_decay, student.gradient)
    explore = settings.explore or 0
    first, errors = (np.asarray(one(parameters, schedule.at(data, 0))) for one in (objective, student.loss))
    power = max(student.power, float(np.max(first)))

    def begin(rate: float, restarts: int) -> _Training:
        state = optimizer_of(name, rate, settings.momentum).init(parameters)
        return _Training(parameters, state, _Counters(rate, power, restarts), [first], [watch(0, parameters, errors)])

    run = begin(rate, 0)
    stored = checkpoint.load()
    if stored is not None:
        run.restore(stored)
    while run.counters.steps < settings.steps and not run.counters.ended:
        _train_block(run, objective, schedule, data, settings, (name, student.rates["sgd"]), watch)
        if run.counters.ended in _RESTARTED and run.counters.restarts < _RESTARTS - 1:
            run = begin(0.5 * run.counters.rate, run.counters.restarts + 1)
        worst = float(np.max(run.history[-1]))
        note(f"step {run.counters.steps} of at most {settings.steps}, objective {worst / power:.1e}")
        checkpoint.offer(run.arrays)
    steps, last = run.counters.steps, run.history[-1]
    status = next((s for s in Status if str(s) == run.counters.ended), Status.ITERATION_LIMIT)
    fall = 1.0
    if len(run.history) > 1:
        before = run.history[max(-len(run.history), -1 - _FLAT_BLOCKS)]
        fall = float(np.max((before - last) / np.where(before > 0, before, 1.0)))
    errors = last if objective.decay == 0 else np.asarray(student.loss(run.parameters, schedule.at(data, steps)))
    rate = run.counters.learning_rate(explore)
    return TrainingResult(run.parameters, errors, steps, rate, status, np.array(run.history), fall, run.records)


def _train_block(
    run: _Training,
    objective: _Objective,
    schedule: Schedule,
    data: Arrays,
    settings: TrainingSettings,
    optimizer_and_usual_rate: tuple[str, float],
    watch: Watch,
) -> None:
    """Take one block of steps, and update rate and status from the objectives."""
    counters, explore = run.counters, settings.explore or 0
    name, usual_rate = optimizer_and_usual_rate
    data = schedule.at(data, counters.steps)
    optimizer = optimizer_of(name, counters.learning_rate(explore), settings.momentum)
    block = min(BLOCK, settings.steps - counters.steps)
    inputs = data[0]
    order = _share_order(len(inputs), counters.steps) if counters.steps < explore else None
    # Exploration is far above the floor, where single precision suffices and takes half the time.
    kind = inputs.dtype if order is None else np.dtype(np.float32)
    begin = jax.tree.map(
        lambda part: part.astype(kind) if jnp.issubdtype(part.dtype, jnp.floating) else part,
        (run.parameters, run.optimizer_state, data),
    )
    with jax_settings(kind == np.float64):
        run.parameters, run.optimizer_state, values, errors = _compiled_block(
            objective, optimizer, (*begin, order), block
        )
    counters.steps += block
    run.history.append(np.asarray(values))
    worst, total = float(np.max(run.history[-1])), float(np.sum(run.history[-1]))
    if not np.isfinite(worst) or worst > _DIVERGED * counters.power:
        counters.ended = str(Status.DIVERGING if np.isfinite(worst) else Status.NON_FINITE)
        return
    run.records.append(watch(counters.steps, run.parameters, np.asarray(errors)))
    if counters.steps < schedule.steps or counters.steps <= explore:
        counters.flat_from = len(run.history)
    elif worst <= (_FLOOR if settings.floor is None else settings.floor) * counters.power:
        counters.ended = str(Status.CONVERGED)
    elif _is_flat(run.history[counters.flat_from :], _FLAT_BLOCKS_EXPLORED if explore else _FLAT_BLOCKS):
        # At the edge of stability the objective may fluctuate above its floor; a smaller rate then reduces it.
        if counters.coolings == _COOLINGS or total > (1 - _FLAT_SHARE) * counters.objective_at_cooling:
            fall = _relative_slope(objective, run.parameters, data) * usual_rate / 2**_COOLINGS * BLOCK * _FLAT_BLOCKS
            counters.ended = str(Status.CONVERGED if fall <= _FLOOR_FALL else Status.ITERATION_LIMIT)
        else:
            counters.objective_at_cooling, counters.flat_from = total, len(run.history)
            counters.coolings, counters.rate = counters.coolings + 1, 0.5 * counters.rate


def _share_order(samples: int, steps: int) -> jax.Array:
    """Return the samples of each part, shape (parts, samples), in the block after this number of steps."""
    shares = min(_SHARES, samples)
    drawn = np.random.default_rng(steps).permutation(samples)[: samples // shares * shares]
    return jnp.asarray(drawn.reshape(shares, -1), dtype=jnp.int32)


def _is_flat(history: list[Array], blocks: int) -> bool:
    """Return whether the sum of the objectives fell by less than 1 % over this number of blocks, and no faster."""
    if len(history) <= 2 * blocks:
        return False
    last, middle, first = (float(np.sum(history[-1 - k * blocks])) for k in range(3))
    now, before = middle - last, first - middle
    return now <= _FLAT_SHARE * middle and now <= abs(before)


def _relative_slope(objective: _Objective, parameters: Arrays, data: Arrays) -> float:
    """Return the relative fall of the objective per unit of learning rate."""
    value = float(jnp.sum(objective(parameters, data)))
    square = sum(float(jnp.sum(part**2)) for part in objective.gradient(parameters, data))
    return square / max(value, 1e-300)


def _compiled_block(
    objective: _Objective, optimizer: optax.GradientTransformation, arrays: tuple[Any, ...], steps: int
) -> Any:
    fixed: dict[str, Any] = {"objective": objective, "optimizer": optimizer, "steps": steps}
    block = CachedJit(_steps, **fixed) if objective.slope is None else partial(_steps, **fixed)
    return block(*arrays)


def _updated(
    gradient: Arrays, state: optax.OptState, parameters: Arrays, optimizer: optax.GradientTransformation
) -> tuple[Arrays, optax.OptState]:
    """Return parameters and state of the optimizer after a step."""
    change, state = optimizer.update(gradient, state, parameters)
    return optax.apply_updates(parameters, change), state


def _steps(
    parameters: Arrays,
    state: optax.OptState,
    data: Arrays,
    order: jax.Array | None,
    objective: _Objective,
    optimizer: optax.GradientTransformation,
    steps: int,
) -> tuple[Arrays, optax.OptState, jax.Array, jax.Array]:
    """Return parameters and state after steps on all data or on parts in turn, and objectives and errors at the end."""
    # Scalars apply to all samples and are in every part.
    shares = [data] if order is None else [tuple(part[own] if part.ndim else part for part in data) for own in order]
    scaled = objective._replace(times=len(shares))

    def step(share: Arrays, carried: tuple[Arrays, optax.OptState]) -> tuple[Arrays, optax.OptState]:
        parameters, state = carried
        gradient = scaled.gradient(parameters, share)
        if scaled.slope is not None:
            return CachedJit(_updated, optimizer=optimizer)(gradient, state, parameters)
        return _updated(gradient, state, parameters, optimizer)

    def all_shares(_: int, carried: tuple[Arrays, optax.OptState]) -> tuple[Arrays, optax.OptState]:
        for share in shares:
            carried = step(share, carried)
        return carried

    rounds, rest = divmod(steps, len(shares))
    carried = (parameters, state)
    if scaled.slope is None:
        carried = jax.lax.fori_loop(0, rounds, all_shares, carried)
    else:
        for number in range(rounds):
            carried = all_shares(number, carried)
    for share in shares[:rest]:
        carried = step(share, carried)
    parameters, state = carried
    values = objective(parameters, data)
    return parameters, state, values, objective.loss(parameters, data) if objective.decay else values
