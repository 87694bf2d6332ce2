r"""Gradient descent on the rows of a student, on data that it sees again and again, and how its batches are drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.core.arrays import AnyArray
from glassformer.core.checkpoints import Checkpoint, pack_records, unpack_records
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.status import Status
from glassformer.dynamics.descent_settings import DescentSettings
from glassformer.learners.base import FitResult
from glassformer.learners.row_fit import RowFit
from glassformer.models.comparison import NewInputs
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.risk.rows.student import Student

if TYPE_CHECKING:
    from glassformer.models.base import Model

# Mean square of a weight above which descent counts as diverging; the teacher's is one.
DIVERGED = 1e6
# A random batch has room for this many standard deviations more samples than its mean: one of 1e9 exceeds it.
_ROOM = 6.0
# Distance below which a quotient counts as a whole number.
_WHOLE = 1e-9


@dataclass(frozen=True)
class Batches:
    """The samples of every gradient step.

    Attributes:
        samples: number of all samples.
        share: of the samples in a batch.
        repeats: consecutive steps on the same batch.
        epochs: whether a pass uses every sample once, in random order; otherwise a sample is in a batch with
            probability ``share``, independently, as in the mean-field equations.
        key: of the random numbers. The samples of a step depend on nothing else.
    """

    samples: int
    share: float
    repeats: int
    epochs: bool
    key: int

    @property
    def size(self) -> int:
        """Number of samples in a batch of a pass, the mean number in a random one."""
        return max(1, int(self.share * self.samples + _WHOLE))

    @property
    def per_pass(self) -> int:
        """Number of gradient steps in a pass over the samples."""
        return self._batches * self.repeats

    @property
    def _batches(self) -> int:
        """Number of batches in a pass, that of theory unless there are fewer samples."""
        return min(int(1 / self.share + _WHOLE), self.samples // self.size)

    @property
    def full(self) -> bool:
        """Whether every batch has all samples."""
        return self.share == 1 or (self.epochs and self.size >= self.samples)

    def of_steps(self, first: int, last: int) -> tuple[NDArray[np.int32], Array]:
        """Return the samples of the steps from ``first`` to before ``last``, and weights 0 where there are fewer.

        Both have shape (steps, places).
        """
        numbers = range(first // self.repeats, (last - 1) // self.repeats + 1)
        drawn = [self._in_pass(number) if self.epochs else self._random(number) for number in numbers]
        chosen, weights = (np.array(part) for part in zip(*drawn, strict=True))
        places = np.arange(first, last) // self.repeats - numbers[0]
        return chosen[places].astype(np.int32), weights[places]

    def _in_pass(self, number: int) -> tuple[NDArray[np.intp], Array]:
        one, place = divmod(number, self._batches)
        order = np.random.default_rng([self.key, one]).permutation(self.samples)
        return order[place * self.size : (place + 1) * self.size], np.ones(self.size)

    def _random(self, number: int) -> tuple[NDArray[np.intp], Array]:
        mean = self.share * self.samples
        room = min(self.samples, int(mean + _ROOM * np.sqrt(mean) + _ROOM))
        drawn = np.flatnonzero(np.random.default_rng([self.key, number]).random(self.samples) < self.share)[:room]
        return np.pad(drawn, (0, room - len(drawn))), (np.arange(room) < len(drawn)).astype(float)


class DescentRun(NamedTuple):
    """The end of a run.

    Attributes:
        weights: shape (P, d).
        status: converged after the last step, diverging or non-finite.
        steps: gradient steps taken.
        moved: change of the weights over the last fifth of the steps, at least one batch, relative to their norm.
        records: what was watched.
    """

    weights: Array
    status: Status
    steps: int
    moved: float
    records: list[dict[str, Any]]


@dataclass(frozen=True)
class DescentData:
    """A student and the data that its rows are fitted to.

    Attributes:
        student: prediction and loss.
        design: tokens, or inputs that are revealed.
        targets: labels as the loss takes them, shape (samples, entries).
        spectrum: eigenvalue of the covariance of every feature, shape (d,); inputs are those of white features.
    """

    student: Student
    design: Any
    targets: Array
    spectrum: Array

    @cached_property
    def _on_device(self) -> tuple[jax.Array, jax.Array]:
        """Inputs, shape (samples, L, heads * d), and targets, which the loss of every record and all steps share."""
        return jnp.asarray(self.design.inputs[0], dtype=float), jnp.asarray(self.targets, dtype=float)

    def training_loss(self, weights: Array) -> float:
        """Return the mean loss of all samples."""
        with jax_settings():
            if self.design.revealed:
                fields = self.design.forward(weights, 0)
                loss = CachedJit(_loss_of_fields, student=self.student)(fields, self.targets)
            else:
                loss = CachedJit(_loss, student=self.student)(jnp.asarray(weights, dtype=float), *self._on_device)
            return float(loss) / len(self.targets)

    def descend(
        self,
        weights: Array,
        settings: DescentSettings,
        batches: Batches,
        at: NDArray[np.int_],
        watch: Callable[[int, Array], dict[str, Any]],
        checkpoint: Checkpoint | None = None,
    ) -> DescentRun:
        r"""Return the end of gradient descent from given weights, equation :eq:`descent-steps` of the documentation.

        Args:
            weights: shape (P, d), of white features.
            settings: number of steps, learning rates, momentum, weight decay.
            batches: samples of every step.
            at: steps after which the weights are watched, increasing, the last one at the end.
            watch: called with step and weights; its result is recorded.
            checkpoint: checkpoint to continue from and to save to; an interrupted run gives the same result.
        """
        checkpoint, records = checkpoint or Checkpoint(), list[dict[str, Any]]()
        mark = max(settings.steps - max(settings.steps // 5 // batches.repeats, 1) * batches.repeats, 0)
        now, velocity, marked, done = np.asarray(weights, dtype=float), np.zeros_like(weights), weights, 0
        stored = checkpoint.load()
        if stored is not None:
            now, velocity, marked = stored["weights"]
            done, records = int(stored["steps"]), unpack_records(stored)
        elif len(at) and at[0] == 0:
            records.append(watch(0, now))
        with jax_settings():
            ends = np.unique([done, mark, *at])
            for first, last in pairwise(ends[ends >= done]):
                chosen = batches.of_steps(first, last) if not batches.full else (None, None)
                block = _Block(settings.rates[first:last], *chosen)
                after, velocity = self._after(block, (now, velocity), settings)
                power = np.mean(after**2) if np.all(np.isfinite(after)) else np.inf
                if power > DIVERGED:
                    status = Status.DIVERGING if np.isfinite(power) else Status.NON_FINITE
                    return DescentRun(now, status, int(first), np.inf, records)
                now, done = after, int(last)
                marked = now if last <= mark else marked
                if last in at:
                    records.append(watch(done, now))
                note(f"step {done} of {settings.steps}")
                checkpoint.offer(partial(_state, now, velocity, marked, done, records))
        return DescentRun(now, Status.CONVERGED, done, relative_change(marked, now), records)

    def _after(self, block: _Block, state: tuple[Array, Array], settings: DescentSettings) -> tuple[Array, Array]:
        """Return weights and velocity after a block of steps."""
        update = _Update(settings.momentum, settings.weight_decay, settings.nesterov)
        if self.design.revealed:
            return self._after_revealing(block, state, update)
        data = (*self._on_device, jnp.asarray(self.spectrum, dtype=float))
        numbers = np.array([update.momentum, update.decay])
        arguments = jax.tree.map(jnp.asarray, (state, block, numbers))
        weights, velocity = CachedJit(_steps, student=self.student, nesterov=update.nesterov)(*arguments, data)
        return np.asarray(weights), np.asarray(velocity)

    def _after_revealing(self, block: _Block, state: tuple[Array, Array], update: _Update) -> tuple[Array, Array]:
        """Return weights and velocity after steps on inputs seen through products alone."""
        slopes = CachedJit(_slopes, student=self.student)
        for number, rate in enumerate(block.rates):
            chosen, counted = (None if part is None else part[number] for part in block[1:])
            scores = np.asarray(slopes(self.design.forward(state[0], 0), self.targets, chosen, counted))
            slope = self.spectrum * self.design.metric * self.design.adjoint(scores, 0)
            state = update(state, slope, rate)
        return state


def _state(now: Array, velocity: Array, marked: Array, steps: int, records: list[dict[str, Any]]) -> dict[str, Array]:
    return {"weights": np.array([now, velocity, marked]), "steps": np.array(steps), **pack_records(records)}


def relative_change(before: Array, after: Array) -> float:
    """Return the distance of weights from earlier ones, relative to their norm.

    Example:
        >>> relative_change(np.array([3.0, 3.0]), np.array([3.0, 4.0]))
        0.2
    """
    return float(np.linalg.norm(after - before) / np.linalg.norm(after)) if np.any(after) else 0.0


def record_steps(steps: int, every: int) -> NDArray[np.int_]:
    """Return the steps after which weights are recorded: the start, one in ``every``, and the end.

    Example:
        >>> record_steps(7, 3).tolist()
        [0, 3, 6, 7]
    """
    return np.append(np.arange(0, steps, every), steps)


@dataclass(frozen=True, kw_only=True)
class DescentFit(RowFit):
    """Rows at the end of descent."""

    def measured(self, model: Model, signal: Array, new: NewInputs) -> dict[str, Any]:
        """Return the errors of the rows; rows of the teacher's own link are measured as every estimate of a model."""
        own = super().measured(model, signal, new)
        return {**own, **FitResult.measured(self, model, signal, new)} if self.student.own_link else own


class _Block(NamedTuple):
    """Steps that are compiled together.

    Attributes:
        rates: learning rate of every step, shape (steps,).
        chosen: samples of every step, shape (steps, places); None for all samples.
        counted: weights of these samples, of the same shape.
    """

    rates: AnyArray
    chosen: AnyArray | None
    counted: AnyArray | None


class _Update(NamedTuple):
    """A gradient step with momentum and weight decay."""

    momentum: Any
    decay: Any
    nesterov: bool

    def __call__(self, state: tuple[Any, Any], slope: Any, rate: Any) -> tuple[Any, Any]:
        """Return weights and velocity after a step along this slope, of arrays of NumPy or JAX."""
        weights, velocity = state
        push = -rate * (slope + self.decay * weights)
        velocity = self.momentum * velocity + push
        return weights + (self.momentum * velocity + push if self.nesterov else velocity), velocity


def _loss(
    weights: jax.Array, inputs: jax.Array, targets: jax.Array, student: Student, counted: jax.Array | None = None
) -> jax.Array:
    """Return the sum of the losses, of samples with weights."""
    length = weights.shape[1]
    heads = inputs.shape[2] // length
    parts = inputs.reshape(*inputs.shape[:2], heads, length)
    fields = jnp.einsum("nlhd,rhd->nrhl", parts, weights.reshape(-1, heads, length)) / np.sqrt(length)
    return _loss_of_fields(fields.reshape(len(inputs), len(weights), -1), targets, student, counted)


def _loss_of_fields(
    fields: jax.Array, targets: jax.Array, student: Student, counted: jax.Array | None = None
) -> jax.Array:
    losses = jax.vmap(student.cost)(targets, fields)
    return jnp.sum(losses) if counted is None else counted @ losses


def _slopes(
    fields: jax.Array,
    targets: jax.Array,
    chosen: jax.Array | None,
    counted: jax.Array | None,
    student: Student,
) -> jax.Array:
    """Return the derivative of the loss of the chosen samples in the fields of all samples."""

    def loss(fields: jax.Array) -> jax.Array:
        one, labels = (fields, targets) if chosen is None else (fields[chosen], targets[chosen])
        return _loss_of_fields(one, labels, student, counted)

    return jax.grad(loss)(fields)


def _steps(
    state: tuple[jax.Array, jax.Array],
    block: _Block,
    momentum_and_decay: jax.Array,
    data: tuple[jax.Array, jax.Array, jax.Array],
    student: Student,
    nesterov: bool,
) -> tuple[jax.Array, jax.Array]:
    """Return weights and velocity after a step with each of the rates."""
    update = _Update(momentum_and_decay[0], momentum_and_decay[1], nesterov)
    inputs, targets, spectrum = data

    def step(state: tuple[jax.Array, jax.Array], one: _Block) -> tuple[tuple[jax.Array, jax.Array], None]:
        x, y = (inputs, targets) if one.chosen is None else (inputs[one.chosen], targets[one.chosen])
        # Slopes in the weights of features as they are, seen by those of white ones.
        slope = spectrum * jax.grad(_loss)(state[0], x, y, student, one.counted)
        return update(state, slope, one.rates), None

    return jax.lax.scan(step, state, block)[0]
