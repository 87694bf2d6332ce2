r"""Online stochastic gradient descent: one pass over the samples, and its equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.core.accuracy import POINTS
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_text
from glassformer.core.resources import require_resources
from glassformer.core.settings import checked_field, decay_rate, positive, positive_integer, setting, unit_interval
from glassformer.learners.base import FitResult, Learner, LearnerInfo, StepContext, Theory
from glassformer.learners.descent import Initialisation, OnePassDescent, squared_errors
from glassformer.learners.feature_descent import FeatureOnlineTheory, check_descent, one_pass_on_features
from glassformer.learners.registry import require_compatible

if TYPE_CHECKING:
    import jax

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.designs.generated import GeneratedDesign
    from glassformer.designs.stored import StoredDesign
    from glassformer.dynamics.online_sgd import Pace, Start
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model

# Remedy where limits are asked for.
_IN_TIME = "trajectory, which has its equations in time, or simulate"
# Default initial cosine of theory for even labels: that of a random start in 10^6 dimensions.
_RANDOM_COSINE = 1e-3
# Number of input entries per compiled call (32 MB).
_ENTRIES_PER_CALL = 1 << 22
# Memory of an entry of the history in bytes (measured, to an order of magnitude).
_ENTRY_BYTES = 2000
# Parts of a run at whose ends powers are compared, for the test of divergence (a convention).
_PARTS = 50
# Size of a weight above which descent counts as diverging; the teacher's weights are of order one.
_DIVERGED = 1e6


@dataclass(frozen=True)
class OnlineSGD(OnePassDescent):
    r"""Gradient descent on batches of new samples: one pass, in which each sample is used once.

    Equation :eq:`online-sgd` of the documentation.

    Every step descends :math:`\frac1{2b}\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2` by :math:`\eta` and shrinks the
    weights by :math:`\eta w/d`. After ``n`` samples the time is :math:`t = n/(bd) = \alpha/b`. A run ends with the
    samples, and counts as converged unless it diverges, whatever its error. It diverges if the power of a row at the
    end is ten times that of the teacher or the start, and twice its value at half the time.

    Args:
        learning_rate: :math:`\eta`.
        batch: ``b``, samples per step.
        weight_decay: ``w``.
        start: ``"prior"``, standard normal weights; ``"small:0.001"``, weights 0.001 times as large; ``"overlap:0.3"``,
            weights whose cosine with the truth, which simulations know, is 0.3.
        record_every: steps between two entries of the history, which also has the start and the end.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2)  # error 2 exp(-(2 eta - eta^2/b) t)
        >>> theory = OnlineSGD(learning_rate=0.5, batch=1).theory(model)
        >>> theory.of_runs(np.array([0.0, 2.0]))["error"].round(2).tolist()
        [2.0, 0.45]
    """

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"points": POINTS}
    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="online-sgd",
        title="online stochastic gradient descent",
        family="descent",
        papers=("saad1995on",),
        storages=("generated", "float64", "float32"),
        trajectory_settings=("learning_rate", "batch", "weight_decay", "start"),
        limit_accuracy=("points",),
        trajectory_accuracy=("points",),
    )

    learning_rate: float = setting(1.0, "learning rate, for the mean loss of a batch (default 1)", positive)
    batch: int = setting(4, "samples per step (default 4)", positive_integer)
    weight_decay: float = setting(
        0.0, "weight decay: steps shrink the weights by rate * decay / d (default 0)", decay_rate
    )
    start: Any = parameter("prior, small:SIZE, or overlap:COSINE with the truth", "prior", read=parse_text)
    record_every: int = setting(100, "steps between two entries of the history", positive_integer)

    @property
    def pace(self) -> Pace:
        """Learning rate, batch size and weight decay, for the equations."""
        from glassformer.dynamics.online_sgd import Pace

        return Pace(self.learning_rate, self.batch, self.weight_decay)

    def check(self, model: Model) -> None:
        if model.well_specified:
            super().check(model)
        else:
            check_descent(self)

    def theory(self, model: Model) -> Theory:
        if not model.well_specified:
            self.check(model)
            return FeatureOnlineTheory(self, model, instead=_IN_TIME)
        return OnlineTheory(self, model, instead=_IN_TIME)

    def first_state(self, model: Model, cosine: float | None) -> Start:
        """Return the start of the equations; for even labels, which never leave zero overlap, with a small overlap."""
        from glassformer.dynamics.online_sgd import cosine_start

        channel, cosine = model.channel, self.cosine(cosine)
        return cosine_start(
            channel.fields.rows,
            _RANDOM_COSINE * channel.labels.even if cosine is None else cosine,
            self.initialisation.size,
        )

    def record_steps(self, steps: int) -> Array:
        """Return the steps after which a run is recorded.

        Raises:
            ParameterError: the history would not fit into memory.
        """
        memory = _ENTRY_BYTES * steps / self.record_every
        require_resources("record_every", self.record_every, memory, "record less often", what="entries of a history")
        return np.append(np.arange(0, steps, self.record_every), steps)

    def in_intervals(self, intervals: int, overlap: float | None = None) -> OnlineSGD:
        own = {one.name: getattr(self, one.name) for one in fields(OnlineSGD)}
        return _OnlineInIntervals(**own, intervals=intervals, overlap=overlap)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        if not model.well_specified:
            return one_pass_on_features(self, model, data)
        teacher, gram = data.teacher, model.prior.gram
        weights, begin = data.rng.standard_normal(model.signal_shape(data.design)), self.initialisation
        if begin.overlap is not None:
            if teacher is None:
                raise IncompatibleError(
                    f"a start with overlap {begin.overlap:g} with the truth needs the true signal: use start = prior"
                )
            weights = begin.overlap * teacher + (1 - begin.overlap**2) ** 0.5 * weights

        def watch(weights: Array) -> dict[str, Any]:
            if teacher is None:
                return {}
            overlaps = {"overlap": gram(weights, teacher), "power": gram(weights, weights)}
            return {**data.errors_of(model, weights), **overlaps, "teacher": gram(teacher, teacher)}

        return one_pass_sgd(data.design, data.labels, model.traceable_label, begin.size * weights, self, watch)


@dataclass(frozen=True)
class _OnlineInIntervals(OnlineSGD):
    """Online SGD from a given cosine with the truth, recorded after equal shares of the samples.

    Args:
        intervals: number of these shares.
        overlap: the cosine; None for the start of the settings.
    """

    intervals: int = checked_field(1, positive_integer)
    overlap: float | None = checked_field(None, unit_interval)

    @property
    def initialisation(self) -> Initialisation:
        own = super().initialisation
        return own if self.overlap is None else replace(own, overlap=self.overlap)

    def record_steps(self, steps: int) -> Array:
        return equal_parts(steps, self.intervals)


@dataclass(frozen=True)
class OnlineTheory(Theory):
    """Theory of online SGD in time; the error at a sample ratio is a point of the trajectory."""

    learner: OnlineSGD

    history_includes_start: ClassVar[bool] = True

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        from glassformer.dynamics.online_sgd import online_sgd

        sgd = self.learner
        if sgd.initialisation.overlap is None and self.model.channel.labels.even:
            raise IncompatibleError(
                "for even labels the time to leave a random start grows with d: use trajectory with d"
            )
        order = np.argsort(alpha)
        times = np.asarray(alpha, dtype=float)[order] / sgd.batch
        error = online_sgd(self.model, times, sgd.pace, sgd.first_state(self.model, None), sgd.accurate("points")).error
        back = np.argsort(order)
        return {"error": error.value[back], "error_estimate": error.error[back]}

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.dynamics.online_sgd import online_trajectory

        require_compatible(self.learner, self.model)
        sgd = self.learner
        start = sgd.first_state(self.model, context.overlap) if context.measured is None else context.measured
        return online_trajectory(self.model, alpha, context.steps, sgd.pace, start, sgd.accurate("points"))

    def simulated(self, context: StepContext) -> Learner:
        """Return online SGD recorded after equal shares of the samples, from this cosine with the truth."""
        sgd = self.learner
        overlap = None if context.overlap is None else sgd.cosine(context.overlap)
        return sgd.in_intervals(context.steps, overlap)

    def begun(self, context: StepContext, histories: Sequence[Sequence[dict[str, Any]]]) -> StepContext:
        """Return the context with the starts of the runs."""
        from glassformer.dynamics.online_sgd import Start

        return replace(context, measured=Start.of_runs(histories))


def one_pass_sgd(
    design: StoredDesign | GeneratedDesign,
    labels: Array,
    link: Callable[[Any], Any],
    weights: Array,
    settings: OnlineSGD,
    watch: Callable[[Array], dict[str, Any]] | None = None,
) -> FitResult:
    r"""Return the result of training the rows of ``weights`` in one pass over the first instance of a design.

    .. math:: W \leftarrow W - \eta\,\nabla_W\frac1{2b}\sum_{\mu\in B}\bigl\|g(WX_\mu^T/\sqrt d) - y_\mu\bigr\|^2
       - \frac{\eta w}dW

    Equation :eq:`online-steps` of the documentation.

    Args:
        design: inputs of one head, stored or generated.
        labels: shape (samples, ...).
        link: differentiable JAX function from ``Z``, shape (P, L), to a label.
        weights: initial weights, shape (P, d).
        settings: batch size, learning rate and weight decay, and steps between two records.
        watch: called with the weights at the start, every so many steps and at the end; its result is recorded with the
            number of ``samples`` so far and the ``time``, steps over dimension.

    Returns:
        :class:`~glassformer.learners.base.FitResult` with the weights at the end; ``residual`` is their relative change
        over the last fiftieth of the steps.

    Raises:
        ParameterError: there are fewer samples than one batch.

    Example:
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> rng = np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(400, (1, 20), rng), rng.standard_normal((1, 20))
        >>> labels, start = design.forward(teacher, 0)[:, 0, 0], rng.standard_normal((1, 20))
        >>> found = one_pass_sgd(design, labels, lambda z: z[0, 0], start, OnlineSGD(learning_rate=0.5, batch=1))
        >>> found.iterations, bool(np.max(np.abs(found.estimates[0] - teacher)) < 0.05)
        (400, True)
    """
    from glassformer.core.progress import note
    from glassformer.core.status import Status
    from glassformer.numerics.sequences import diverges

    if settings.batch > design.samples:
        allowed = f"at most the number of samples, {design.samples}"
        raise ParameterError("batch", settings.batch, allowed, "raise alpha or d")
    d, batch = weights.shape[1], settings.batch
    steps = design.samples // batch
    parts, recorded = equal_parts(steps, _PARTS), settings.record_steps(steps)
    ends = np.union1d(parts, recorded)
    steps_per_call = max(1, _ENTRIES_PER_CALL // (batch * design.inputs_per_sample))
    stream, flat = _Stream(design.parts()), np.asarray(labels, dtype=float).reshape(len(labels), -1)
    rates = np.array([settings.learning_rate, settings.learning_rate * settings.weight_decay / d])

    def record(step: int, current: Array) -> dict[str, Any]:
        return {"samples": step * batch, "time": step / d, **(watch(current) if watch else {})}

    def result(weights: Array, steps: int, status: Status, residual: float) -> FitResult:
        return FitResult(weights[None], status=status, iterations=steps, residual=residual, history=records)

    current = previous = before = np.asarray(weights, dtype=float)
    # Several equal shares of the samples may end at one step.
    records = [record(0, current)] * np.count_nonzero(recorded == 0)
    powers = [_largest_power(current)] * np.count_nonzero(parts == 0)
    for begin, end in pairwise(ends):
        previous = current
        before = current if begin in parts else before
        for first in range(begin, end, steps_per_call):
            count = min(steps_per_call, end - first)
            inputs = stream.take(count * batch)
            targets = flat[first * batch : (first + count) * batch]
            current = _train_on_batches(link, rates, current, inputs, targets, batch)
        if not np.max(np.abs(current)) < _DIVERGED:
            status = Status.NON_FINITE if np.isnan(current).any() else Status.DIVERGING
            return result(previous, int(begin), status, np.inf)
        powers += [_largest_power(current)] * np.count_nonzero(parts == end)
        if end in recorded:
            records += [record(int(end), current)] * np.count_nonzero(recorded == end)
        note(f"step {end} of {steps}")
    moved = float(np.linalg.norm(current - before) / np.linalg.norm(current))
    diverged = diverges(parts.astype(float), np.array(powers), max(1.0, powers[0]))
    return result(current, steps, Status.DIVERGING if diverged else Status.CONVERGED, moved)


def equal_parts(steps: int, parts: int) -> Array:
    """Return the ends of equal parts of a number of steps, with zero.

    Example:
        >>> equal_parts(10, 4).tolist(), equal_parts(2, 4).tolist()
        ([0, 2, 5, 8, 10], [0, 0, 1, 2, 2])
    """
    return np.asarray(np.rint(np.arange(parts + 1) * steps / parts).astype(int))


def _largest_power(weights: Array) -> float:
    return float(np.max(np.mean(weights**2, axis=1)))


@dataclass
class _Stream:
    """Samples in order, from an iterator over parts of any size."""

    parts: Iterator[Array]
    rest: Array | None = None

    def take(self, count: int) -> Array:
        """Return the next samples."""
        taken: list[Array] = []
        while count > 0:
            part = next(self.parts) if self.rest is None else self.rest
            taken.append(part[:count])
            self.rest = part[count:] if len(part) > count else None
            count -= len(taken[-1])
        return taken[0] if len(taken) == 1 else np.concatenate(taken)


def _train_on_batches(
    link: Callable[[Any], Any], rates: Array, weights: Array, inputs: Array, targets: Array, batch: int
) -> Array:
    """Return the weights after one step on each of the consecutive batches."""
    import jax.numpy as jnp

    from glassformer.numerics.cached_jit import CachedJit
    from glassformer.numerics.jax_settings import jax_settings

    with jax_settings():
        x, y = (jnp.asarray(part, dtype=float) for part in (inputs, targets))
        grouped = (part.reshape(-1, batch, *part.shape[1:]) for part in (x, y))
        return np.asarray(CachedJit(_steps, link=link)(jnp.asarray(rates), jnp.asarray(weights), *grouped))


def _steps(
    rates: jax.Array, weights: jax.Array, inputs: jax.Array, targets: jax.Array, link: Callable[[Any], Any]
) -> jax.Array:
    import jax

    def loss(weights: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        return 0.5 * squared_errors(weights, x, y, link) / len(x)

    def step(weights: jax.Array, batch: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, None]:
        rate, decay = rates
        return weights - rate * jax.grad(loss)(weights, *batch) - decay * weights, None

    return jax.lax.scan(step, weights, (inputs, targets))[0]
