r"""Online stochastic gradient descent: one pass over the samples, and its equations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.settings import decay_rate, positive, positive_integer, setting, unit_interval
from glassformer.learners.base import FitResult, Learner, LearnerInfo, StepContext, Theory
from glassformer.learners.descent import RowDescent, initialisation, small_size, squared_errors
from glassformer.learners.registry import require_compatible

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.dynamics.online_sgd import Pace, Start
    from glassformer.learners.data_set import DataSet

# Default initial cosine of theory for even labels: that of a random start in 10^6 dimensions.
_RANDOM_COSINE = 1e-3
# Number of input entries per compiled call (32 MB).
_ENTRIES_PER_CALL = 1 << 22
# Size of a weight above which descent counts as diverging; the teacher's weights are of order one.
_DIVERGED = 1e6


@dataclass(frozen=True)
class OnlineSGD(RowDescent):
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
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        overlap: cosine similarity of the start with the truth, which requires the teacher; None for a random start.
        looks: number of entries of the history.
        points: number of sampled fields in each of eight sets in the equations, a power of two.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, points=32)  # error 2 exp(-(2 eta - eta^2/b) t)
        >>> learner = OnlineSGD(learning_rate=0.5, batch=1, points=64)
        >>> learner.theory(model, np.array([0.0, 2.0]))["error"].round(3).tolist()
        [2.0, 0.446]
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="online-sgd",
        title="online stochastic gradient descent",
        family="descent",
        papers=("saad1995on",),
        storages=("generated", "float64", "float32"),
        trajectory_settings=("learning_rate", "batch", "weight_decay", "init", "small", "overlap", "points"),
    )

    learning_rate: float = setting(1.0, "learning rate, for the mean loss of a batch (default 1)", positive)
    batch: int = setting(4, "samples per step (default 4)", positive_integer)
    weight_decay: float = setting(
        0.0, "weight decay: steps shrink the weights by rate * decay / d (default 0)", decay_rate
    )
    init: str = initialisation()
    small: float = small_size()
    overlap: float | None = setting(
        None, "cosine between the initial weights and the teacher", unit_interval, "start_overlap"
    )
    looks: int = setting(50, "number of entries of the history", positive_integer)
    points: int = setting(
        2048, "number of sampled fields in each set of the equations, a power of two", positive_integer, "field_points"
    )

    @property
    def pace(self) -> Pace:
        """Learning rate, batch size and weight decay, for the equations."""
        from glassformer.dynamics.online_sgd import Pace

        return Pace(self.learning_rate, self.batch, self.weight_decay)

    def theory(self, model: Any) -> Theory:
        return OnlineEquations(self, model, instead="trajectory, which has its equations in time, or simulate")

    def cosine(self, given: float | None) -> float | None:
        """Return the cosine of the start with the truth: the given one, or that of the settings."""
        if given is not None and self.overlap is not None:
            raise IncompatibleError(
                f"overlap = {given:g} and start_overlap = {self.overlap:g} exclude each other: give one of them"
            )
        return self.overlap if given is None else given

    def start(self, model: Any, cosine: float | None) -> Start:
        """Return the start of the equations; for even labels, which never leave zero overlap, with a small overlap."""
        from glassformer.dynamics.online_sgd import cosine_start

        channel, cosine = model.channel, self.cosine(cosine)
        return cosine_start(
            channel.rows, _RANDOM_COSINE * channel.even if cosine is None else cosine, self.initial_size
        )

    def learn(self, model: Any, data: DataSet) -> FitResult:
        teacher, gram = data.teacher, model.prior.gram
        weights = data.rng.standard_normal(model.signal_shape(data.design))
        if self.overlap is not None:
            if teacher is None:
                raise IncompatibleError(
                    f"overlap = {self.overlap:g} of the start with the truth needs the true signal: use overlap = None"
                )
            weights = self.overlap * teacher + (1 - self.overlap**2) ** 0.5 * weights

        def watch(weights: Array) -> dict[str, Any]:
            if teacher is None:
                return {}
            overlaps = {"overlap": gram(weights, teacher), "power": gram(weights, weights)}
            return {**data.errors_of(model, weights), **overlaps, "teacher": gram(teacher, teacher)}

        start = self.initial_size * weights
        return one_pass_sgd(data.design, data.labels, model.traceable_label, start, self, watch)


@dataclass(frozen=True)
class OnlineEquations(Theory):
    """Theory of online SGD in time; the error at a sample ratio is a point of the trajectory."""

    history_includes_start: ClassVar[bool] = True

    @property
    def _sgd(self) -> OnlineSGD:
        return cast(OnlineSGD, self.learner)

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        from glassformer.dynamics.online_sgd import online_sgd

        sgd = self._sgd
        if sgd.overlap is None and self.model.channel.even:
            raise IncompatibleError(
                "for even labels the time to leave a random start grows with d: use trajectory with d"
            )
        order = np.argsort(alpha)
        times = np.asarray(alpha, dtype=float)[order] / sgd.batch
        error = online_sgd(self.model, times, sgd.pace, sgd.start(self.model, None), sgd.points).error
        back = np.argsort(order)
        return {"error": error.value[back], "error_estimate": error.error[back]}

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        from glassformer.dynamics.online_sgd import online_trajectory

        require_compatible(self.learner, self.model)
        start = self._sgd.start(self.model, context.overlap) if context.measured is None else context.measured
        return online_trajectory(self.model, alpha, context.steps, self._sgd.pace, start, self._sgd.points)

    def simulated(self, context: StepContext) -> Learner:
        """Return online SGD with an entry of the history for every step, from this cosine with the truth."""
        return replace(self._sgd, looks=context.steps, overlap=self._sgd.cosine(context.overlap))

    def begun(self, context: StepContext, histories: Sequence[Sequence[dict[str, Any]]]) -> StepContext:
        """Return the context with the starts of the runs."""
        from glassformer.dynamics.online_sgd import Start

        return replace(context, measured=Start.of_runs(histories))


def one_pass_sgd(
    design: Any,
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
        settings: batch size, learning rate and weight decay, and number of records.
        watch: called with the weights at the start and after equal shares of the samples; its result is recorded with
            the number of ``samples`` so far and the ``time``, steps over dimension.

    Returns:
        :class:`~glassformer.learners.base.FitResult` with the weights at the end; ``residual`` is their relative change
        since the last record.

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
    d, batch, looks = weights.shape[1], settings.batch, settings.looks
    steps = design.samples // batch
    ends = np.rint(np.arange(looks + 1) * steps / looks).astype(int)
    steps_per_call = min(max(1, _ENTRIES_PER_CALL // (batch * design.inputs_per_sample)), -(-steps // looks))
    stream, flat = _Stream(design.parts()), np.asarray(labels, dtype=float).reshape(len(labels), -1)
    rates = np.array([settings.learning_rate, settings.learning_rate * settings.weight_decay / d])

    def record(step: int, current: Array) -> dict[str, Any]:
        return {"samples": step * batch, "time": step / d, **(watch(current) if watch else {})}

    def result(weights: Array, steps: int, status: Status, residual: float) -> FitResult:
        return FitResult(weights[None], status=status, iterations=steps, residual=residual, history=records)

    current = previous = np.asarray(weights, dtype=float)
    records, powers = [record(0, current)], [_largest_power(current)]
    for begin, end in pairwise(ends):
        previous = current
        for first in range(begin, end, steps_per_call):
            count = min(steps_per_call, end - first)
            inputs = stream.take(count * batch)
            targets = flat[first * batch : (first + count) * batch]
            current = _train_on_batches(link, rates, current, inputs, targets, batch)
        if not np.max(np.abs(current)) < _DIVERGED:
            status = Status.NON_FINITE if np.isnan(current).any() else Status.DIVERGING
            return result(previous, int(begin), status, np.inf)
        powers.append(_largest_power(current))
        records.append(record(int(end), current))
        note(f"step {end} of {steps}")
    moved = float(np.linalg.norm(current - previous) / np.linalg.norm(current))
    diverged = diverges(ends.astype(float), np.array(powers), max(1.0, powers[0]))
    return result(current, steps, Status.DIVERGING if diverged else Status.CONVERGED, moved)


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


def _steps(rates: Any, weights: Any, inputs: Any, targets: Any, link: Callable[[Any], Any]) -> Any:
    import jax

    def loss(weights: Any, x: Any, y: Any) -> Any:
        return 0.5 * squared_errors(weights, x, y, link) / len(x)

    def step(weights: Any, batch: Any) -> Any:
        rate, decay = rates
        return weights - rate * jax.grad(loss)(weights, *batch) - decay * weights, None

    return jax.lax.scan(step, weights, (inputs, targets))[0]
