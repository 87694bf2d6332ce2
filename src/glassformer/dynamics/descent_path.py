r"""Gradient descent on samples that it sees again: overlaps, powers and errors after every step, with error bars.

The equations are those of :mod:`glassformer.dynamics.mean_field`. A run with all trajectories solves them. Runs with
independent sets of these trajectories give the errors: their spread, and the bias of few trajectories.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.checks import is_number, require_arguments
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, Table, error_column, scalar_columns
from glassformer.core.status import Status
from glassformer.dynamics.descent_settings import DescentSettings, DescentStart
from glassformer.dynamics.mean_field import (
    DIVERGED,
    DescentMoments,
    StepSettings,
    descent_moments,
    shared_moments,
)
from glassformer.dynamics.trajectories import Trajectories, draw_trajectories
from glassformer.dynamics.trajectory_space import padded_steps
from glassformer.models.base import Model, require_theory
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.numerics.sequences import diverges
from glassformer.risk.rows.averages import LabelSampler
from glassformer.risk.rows.comparison import label_quality, match_rows
from glassformer.risk.rows.student import Student, student_of

if TYPE_CHECKING:
    import pandas


# New samples in each set, on which losses and errors on labels are measured: at most, at least, and times the steps.
_MOST_SAMPLES, _FEWEST_SAMPLES, _PREDICTIONS = 8192, 1024, 1 << 20
# Histories of the size of the gradients: these, and the noise and odd parts of gradients, each a quarter as large, with
# their copies (measured).
_HISTORIES = 4.0
# Changes of the weights still to come at which they have settled, as a share of their norm: above those by rounding. On
# a plateau, which descent may leave after many steps, changes are larger.
_SETTLED = 1e-6
# The error is inversely proportional to the number of trajectories while the mean of the sets differs by less than this
# share from the run with all of them, and the value is below this multiple of its error (conventions).
_AGREEING, _SIGNIFICANT = 0.5, 2.0
# Distance from the minimum of the risk, as a share of that of the start, that counts as close (a convention).
_CLOSE = 0.01
# Sample ratios below this, and above its inverse, have powers that overflow.
_SMALLEST_ALPHA = 1e-100
# Largest error of a cosine that counts as determined (a convention).
_UNDETERMINED = 0.25


@dataclass(frozen=True, eq=False)
class DescentPath(DisplayMixin):
    """Gradient descent step by step, in the limit of large sizes. The first axis of all quantities counts steps.

    Attributes:
        model: of the teacher.
        student: prediction and loss.
        alpha: samples over dimension.
        descent: settings of the steps.
        overlaps: :math:`m` of the run with all trajectories, then of the runs with one set each, shape
            (1 + sets, steps + 1, P, P*); NaN after divergence, here and below.
        correlations: :math:`C(t,s)` of the same runs, shape (1 + sets, steps + 1, steps + 1, P, P).
        measures: losses and errors of the same runs, each of shape (1 + sets, steps + 1).
        status: ``converged``, ``diverging``, or ``integration_not_converged`` if there are too few trajectories for so
            small an overlap at the start.
        diverges_at: the step from which on the training loss only grows; None without divergence.
        settles_at: the step after which the weights change by less than 1e-6 of their norm, as they do at the end of
            full-batch descent, and are reported as constant; None otherwise.
    """

    model: Model
    student: Student
    alpha: float
    descent: DescentSettings
    overlaps: Array
    correlations: Array
    measures: dict[str, Array]
    status: Status
    diverges_at: int | None
    settles_at: int | None

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per step."""
        import pandas

        columns = {"iteration": np.arange(float(len(self.overlaps[0])))}
        for name, part in self.estimates.items():
            columns |= {name: part.value, error_column(name): part.error}
        parts = {name: part for column in columns.items() for name, part in scalar_columns(*column).items()}
        return pandas.DataFrame({**parts, "status": str(self.status)})

    @property
    def overlap(self) -> Estimate:
        """Overlap ``m``, shape (steps + 1, P, P*)."""
        return _estimate(self.overlaps)

    @property
    def power(self) -> Estimate:
        """Power ``C(t, t)``, shape (steps + 1, P, P)."""
        return _estimate(self._powers)

    @property
    def correlation(self) -> Estimate:
        """Correlation ``C(t, s)`` of the weights at two steps, shape (steps + 1, steps + 1, P, P)."""
        return _estimate(self.correlations)

    @property
    def cosine(self) -> Estimate:
        """Cosine of each row of the teacher with its partner, shape (steps + 1, P*)."""
        return _estimate(self._matches[0])

    @property
    def row_error(self) -> Estimate:
        """Squared distance of each row of the teacher from its partner, over ``d``, shape (steps + 1, P*)."""
        return _estimate(self._matches[1])

    @property
    def error(self) -> Estimate:
        """Mean of :attr:`row_error` over the rows, shape (steps + 1,)."""
        return _estimate(self._matches[1].mean(axis=-1))

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Error, cosine, overlap, power, losses and errors on labels, by name."""
        found = {"error": self.error, "cosine": self.cosine, "overlap": self.overlap, "power": self.power}
        return {**found, **self.errors}

    @property
    def errors(self) -> dict[str, Estimate]:
        """Training loss, loss on new samples, their difference, errors on new labels; each of shape (steps + 1,)."""
        return {name: _estimate(part) for name, part in self.measures.items()}

    def early_stop(self, measure: str = "test_loss") -> tuple[int, Estimate]:
        """Return the step at which a measure, ``error`` or one of :attr:`measures`, is least, and the measure there.

        Raises:
            ParameterError: there is no such measure.
        """
        found = self._estimate_of(measure)
        step = int(np.nanargmin(found.value))
        return step, Estimate(found.value[step], found.error[step])

    def within_error_from(self, measure: str = "test_loss") -> int:
        """Return the first step from which on a measure stays within its error of its value after the last step.

        Raises:
            ParameterError: there is no such measure.

        Example:
            >>> from glassformer import Accuracy, SequenceMultiIndex
            >>> model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1).at_accuracy(Accuracy(points=32))
            >>> settings = DescentSettings(steps=30, learning_rate=0.1, weight_decay=0.5, trajectories=1024)
            >>> descent_path(model, 4.0, settings).within_error_from() < 30
            True
        """
        found = self._estimate_of(measure)
        return _stays_below(np.abs(found.value - found.value[-1]), found.error[-1]) or 0

    def arrivals(self, level: float, measure: str = "test_loss") -> tuple[int | None, int | None]:
        """Return the first steps from which on a measure stays close to a level; None if its last value is not.

        Args:
            level: such as the measure at the minimum of the risk.
            measure: ``error`` or one of :attr:`measures`.

        Returns:
            The step from which on the distance is below 1 % of the distance of the start, and the step from which on it
            is below the error of the measure.

        Raises:
            ParameterError: there is no such measure.
        """
        found = self._estimate_of(measure)
        distance = np.abs(found.value - level)
        return _stays_below(distance, _CLOSE * distance[0]), _stays_below(distance, found.error)

    def arrival(self, level: float = 0.5) -> Estimate:
        """Return the first step at which the cosine of each row of the teacher is above a level; infinity if never.

        The error is that of the cosine over its slope between the steps before and after.

        Raises:
            ParameterError: ``level`` is out of range.
        """
        if not (is_number(level) and 0 <= level < 1):
            raise ParameterError("level", level, "a number in [0, 1)")
        cosine, rows = self.cosine, np.arange(self.overlaps.shape[-1])
        above = cosine.value > level
        step = np.argmax(above, axis=0)
        rise = cosine.value[step, rows] - cosine.value[np.maximum(step - 1, 0), rows]
        error = np.divide(cosine.error[step, rows], rise, out=np.zeros(len(rows)), where=rise > 0)
        never = ~above.any(axis=0)
        return Estimate(np.where(never, np.inf, step), np.where(never, np.inf, error))

    def _estimate_of(self, measure: str) -> Estimate:
        if measure not in ("error", *self.measures):
            raise ParameterError("measure", measure, f"one of error, {', '.join(self.measures)}")
        return self.estimates[measure]

    @cached_property
    def undetermined_from(self) -> int | None:
        """The step from which on the sets contradict the overlaps and their errors; None if they agree at the last one.

        Small overlaps grow by a factor in every step. Few trajectories change the factor, and the values of the sets
        then differ by more than an error that is inversely proportional to their number.
        """
        norms = np.sqrt(np.maximum(np.diagonal(self._powers, axis1=-2, axis2=-1), np.finfo(float).tiny))
        cosines = self.overlaps / norms[..., None]
        found, gap = _estimate(cosines), np.abs(cosines[1:].mean(axis=0) - cosines[0])
        size = np.abs(found.value)
        wrong = (gap > _AGREEING * size) & (size > _SIGNIFICANT * found.error) | (found.error > _UNDETERMINED)
        agree = np.flatnonzero(~wrong.any(axis=(1, 2)))
        begins = int(agree[-1]) + 1 if len(agree) else 0
        return begins if begins < len(cosines[0]) else None

    @property
    def _powers(self) -> Array:
        return np.moveaxis(np.diagonal(self.correlations, axis1=1, axis2=2), -1, 1)

    @cached_property
    def _matches(self) -> tuple[Array, Array]:
        """Cosines and errors of the teacher's rows, shapes (1 + sets, steps + 1, P*)."""
        shape = (*self.overlaps.shape[:2], self.overlaps.shape[-1])
        cosines, errors = np.full(shape, np.nan), np.full(shape, np.nan)
        for place in np.argwhere(np.isfinite(self.overlaps).all(axis=(2, 3))):
            one = tuple(place)
            match = match_rows(self.model, self.student, self._powers[one], self.overlaps[one])
            cosines[one], errors[one] = match.cosine, match.row_error
        return cosines, errors


def _stays_below(distance: Array, allowed: Array | float) -> int | None:
    """Return the first step from which on a distance is at most the allowed one; None if the last one is not."""
    away = np.flatnonzero(~(distance <= allowed))
    first = int(away[-1]) + 1 if len(away) else 0
    return first if first < len(distance) else None


def _estimate(runs: Array) -> Estimate:
    """Return the value of the first run, with all trajectories, with a 95 % error from those of the sets.

    The bias is inversely proportional to the number of trajectories: the first run has ``1 / (sets - 1)`` of the
    difference of the others from it, which the error includes.
    """
    mean, error = mean_and_error(runs[1:])
    sets = len(runs) - 1
    bias = np.abs(mean - runs[0]) / (sets - 1)
    return Estimate(runs[0], np.asarray(confidence_factor(sets) * error + bias))


def descent_path(
    model: Model,
    alpha: float,
    settings: DescentSettings = DescentSettings(),  # noqa: B008
    student: Student | None = None,
    start: DescentStart | None = None,
) -> DescentPath:
    r"""Return gradient descent on :math:`n = \alpha d` samples step by step, in the limit of large sizes.

    The equations are :eq:`mean-field-descent` of the documentation, solved in directions, :eq:`descent-directions`.
    :meth:`~glassformer.SGD.path` calls it with the settings of a learner.

    Args:
        model: of the teacher: a model of rows.
        alpha: samples over dimension.
        settings: of the steps, and of the sampling.
        student: prediction and loss; by default the teacher's own link with square loss.
        start: overlap and power of the first weights; by default rows of unit power without overlap.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model and student do not go together, or no theory is known.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.3).at_accuracy(Accuracy(points=32))
        >>> path = descent_path(model, 2.0, DescentSettings(steps=3, learning_rate=0.1, trajectories=1024))
        >>> path.overlap.value[1].diagonal().round(6)  # the learning rate times alpha
        array([0.2, 0.2])
    """
    require_arguments(descent_path, locals())
    if not (is_number(alpha) and _SMALLEST_ALPHA <= alpha <= 1 / _SMALLEST_ALPHA):
        raise ParameterError("alpha", alpha, f"a number from {_SMALLEST_ALPHA:g} to {1 / _SMALLEST_ALPHA:g}")
    if settings.batch * settings.base_points < 1:
        raise ParameterError(
            "batch",
            settings.batch,
            f"a share of the samples of at least {1 / settings.base_points:.2g}, so that a batch has a trajectory of "
            "every set",
            "or give more trajectories",
        )
    require_theory(model)
    if not model.overlap_shape:
        raise IncompatibleError(f"model {model.name} has no rows: its descent has no mean-field equations")
    fitted = student_of(model, "square") if student is None else student
    rows, teachers = fitted.rows, int(model.channel.fields.rows)
    begin = (DescentStart.of_cosine(rows, teachers) if start is None else start).checked(rows, teachers)
    classes = _feature_classes(model)
    _require_memory(settings, fitted, len(classes[0]))
    runs = _all_runs(model, float(alpha), settings, fitted, begin, classes)
    reached = min(settings.steps if one.finite else int(one.reached) for one in runs)
    overlaps = np.stack([one.overlap for one in runs])
    correlations = np.stack([one.correlation for one in runs])
    losses = np.stack([one.training_loss for one in runs])
    for part in (overlaps, correlations, losses):
        part[:, reached + 1 :] = np.nan
    correlations[:, :, reached + 1 :] = np.nan
    measures = {"training_loss": losses, **_on_new_samples(model, fitted, overlaps, correlations, reached)}
    measures["generalisation_gap"] = measures["test_loss"] - losses
    powers = np.trace(np.diagonal(correlations[0]), axis1=0, axis2=1)[: reached + 1]
    diverges_at = _divergence(powers, losses[0, : reached + 1], settings.steps)
    status = Status.CONVERGED if diverges_at is None else Status.DIVERGING
    last = max(int(one.reached) for one in runs)
    settles_at = last if diverges_at is None and last < settings.steps else None
    path = DescentPath(
        model, fitted, float(alpha), settings, overlaps, correlations, measures, status, diverges_at, settles_at
    )
    if diverges_at is None and path.undetermined_from is not None:
        return replace(path, status=Status.INTEGRATION_NOT_CONVERGED)
    return path


def _feature_classes(model: Model) -> tuple[Array, Array]:
    """Return eigenvalues of the covariance of the features, each once, and the shares of the features with them."""
    spectrum = np.array(model.prior.feature_spectrum)
    eigenvalues, places = np.unique(spectrum, return_inverse=True)
    return eigenvalues, np.asarray(np.bincount(places, np.full(spectrum.shape, 1 / spectrum.size)), dtype=float)


def _require_memory(settings: DescentSettings, student: Student, classes: int) -> None:
    """Raise if histories do not fit into memory."""
    steps, size = settings.steps + 1, student.rows * student.tokens
    # Order parameters of every run, and coordinates of weights in each class of features.
    square = (settings.sets + 1 + 2 * classes) * student.rows**2
    memory = 8.0 * steps * (_HISTORIES * size * settings.trajectories + square * steps)
    work = 4.0 * settings.trajectories * steps**2 * size * student.rows
    require_resources("steps", settings.steps, memory, "use fewer steps or trajectories", work)


def _all_runs(
    model: Model,
    alpha: float,
    settings: DescentSettings,
    student: Student,
    start: DescentStart,
    classes: tuple[Array, Array],
) -> list[DescentMoments]:
    """Return the order parameters of the run with all trajectories, and of the run with every set."""
    root = square_root(start.power - start.overlap @ start.overlap.T)
    heads, rows, teachers = round(1 / float(model.prior.degrees)), *start.overlap.shape
    same = (np.arange(rows)[:, None] - np.arange(teachers)) % heads == 0
    batches, rates = settings.batches, settings.rates
    times = settings.steps + 1
    padding = (0, padded_steps(settings.steps) - settings.steps)
    # Weights do not settle while batches or rates change.
    settles = settings.batch == 1 and np.all(rates == rates[0])
    steps = StepSettings(
        steps=settings.steps,
        alpha=alpha * heads,
        rates=np.pad(rates, padding),
        batches=np.pad(batches, padding),
        momentum=settings.momentum,
        nesterov=float(settings.nesterov),
        decay=settings.weight_decay,
        eigenvalues=classes[0],
        shares=classes[1],
        same_head=np.asarray((np.arange(rows)[:, None] - np.arange(rows)) % heads == 0, dtype=float),
        same_teacher=np.asarray(same, dtype=float),
        settled=_SETTLED if settles else 0.0,
    )
    sets = [draw_trajectories(model, student, settings, settings.sets, number) for number in range(settings.sets)]
    together = Trajectories(*(np.concatenate(parts, axis=-1) for parts in zip(*sets, strict=True)))
    found = []
    with jax_settings():
        # A power of two, as the points of a set are.
        devices = min(1 << (len(jax.devices()).bit_length() - 1), settings.base_points)
        function = CachedJit(descent_moments, student=student)
        if devices > 1:
            function = CachedJit(shared_moments, student=student, devices=devices)
        for data in track([together, *sets], "sets of trajectories"):
            # Arrays of NumPy have one type for any number, so that no executable is compiled twice.
            arguments = jax.tree.map(np.asarray, (start.overlap, root, steps, data))
            overlap, correlation, loss, *ending = (np.array(part) for part in function(*arguments))
            found.append(DescentMoments(overlap[:times], correlation[:times, :times], loss[:times], *ending))
    return found


def _on_new_samples(
    model: Model, student: Student, overlaps: Array, correlations: Array, reached: int
) -> dict[str, Array]:
    """Return the loss on new samples and errors on their labels, shape (1 + sets, steps + 1).

    Every set of trajectories has its own samples, and the run with all trajectories has all of them.
    """
    runs, times = overlaps.shape[:2]
    points = 2 ** int(np.log2(np.clip(_PREDICTIONS // times, _FEWEST_SAMPLES, _MOST_SAMPLES)))
    samples = LabelSampler(model, student, points, runs - 1).samples
    powers = np.moveaxis(np.diagonal(correlations, axis1=1, axis2=2), -1, 1)[:, : reached + 1]
    overlaps = overlaps[:, : reached + 1]
    roots = square_root(powers - overlaps @ np.swapaxes(overlaps, -1, -2))

    found = []
    for number in range(runs - 1):
        true, own, labels = (part[number] for part in (samples.true, samples.own, samples.labels))
        # The run with all trajectories and that of the set, one after the other.
        both = (part[[0, number + 1]].reshape(-1, *part.shape[2:]) for part in (overlaps, roots))
        with jax_settings():
            arguments = map(jnp.asarray, (*both, true, own, labels))
            losses, predictions = CachedJit(_loss_and_predictions, student=student)(*arguments)
        quality = label_quality(model, student, true, np.asarray(predictions))
        found.append({"test_loss": np.asarray(losses), **quality})
    columns = {}
    for name in found[0]:
        whole, own = np.swapaxes([one[name].reshape(2, -1) for one in found], 0, 1)
        columns[name] = np.full((runs, times), np.nan)
        columns[name][:, : reached + 1] = [whole.mean(axis=0), *own]
    return columns


def _loss_and_predictions(
    overlaps: jax.Array, roots: jax.Array, true: jax.Array, own: jax.Array, labels: jax.Array, student: Student
) -> tuple[jax.Array, jax.Array]:
    """Return mean losses, shape (times,), and predictions, shape (times, n, entries)."""

    def at_time(state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        overlap, root = state
        predictions = jax.vmap(student.predict)(overlap @ true + root @ own)
        return jnp.mean(jax.vmap(student.loss.of_vectors)(labels, predictions)), predictions

    return jax.lax.map(at_time, (overlaps, roots))


def _divergence(powers: Array, losses: Array, steps: int) -> int | None:
    """Return the step from which on the training loss only grows, if the power of the weights does; else None."""
    stopped = len(powers) <= steps or not np.all(np.isfinite(powers))
    if not stopped and not diverges(np.arange(len(powers), dtype=float), powers, max(1.0, float(powers[0]))):
        return None
    falls = np.flatnonzero(np.diff(losses[np.isfinite(losses)]) <= 0)
    return int(falls[-1]) + 1 if len(falls) else 0


def descent_table(paths: Sequence[DescentPath]) -> Steps:
    """Return gradient descent at several sample ratios as a table.

    Args:
        paths: of one model, one for each sample ratio.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0 at
        the start), ``error``, ``row_error``, ``cosine``, ``overlap``, ``power``, ``training_loss``, ``test_loss``,
        ``generalisation_gap``, ``label_error`` or ``prediction_error``, and error estimates of all but ``row_error``.
        Values after divergence are NaN, and a note names the step at which it begins. Other notes name the step of
        least loss on new samples, and the steps at which the cosines of the rows exceed one half.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.3).at_accuracy(Accuracy(points=32))
        >>> path = descent_path(model, 2.0, DescentSettings(steps=3, learning_rate=0.1, trajectories=1024))
        >>> descent_table([path])["iteration"].tolist()
        [0.0, 1.0, 2.0, 3.0]
    """
    columns: dict[str, list[Array]] = {}
    status: list[Status] = []
    notes: list[str] = []
    for path in paths:
        count = path.descent.steps + 1
        row = {"alpha": np.full(count, path.alpha), "iteration": np.arange(float(count))}
        row |= {name: part.value for name, part in path.estimates.items()} | {"row_error": path.row_error.value}
        row |= {error_column(name): part.error for name, part in path.estimates.items()}
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        begins = next((step for step in (path.diverges_at, path.undetermined_from) if step is not None), count)
        status += [Status.CONVERGED if step < begins else path.status for step in range(count)]
        notes += [_summary(path)] if path.diverges_at is None else []
        notes += _doubts(path)
    return Steps(
        model=paths[0].model.name,
        parameters=dict(paths[0].model.parameters),
        columns={name: np.concatenate(values) for name, values in columns.items()},
        status=status,
        notes=notes,
    )


def descent_limits(paths: Sequence[DescentPath]) -> Table:
    """Return what gradient descent reaches at its last step, and where it is best stopped, at several sample ratios.

    Args:
        paths: of one model, one for each sample ratio.

    Returns:
        A table with one row per sample ratio: the columns of :func:`descent_table` after the last step, NaN after
        divergence, ``steps``, ``early_stop`` (the step of least loss on new samples), ``early_stopped_error``,
        ``early_stopped_label_error`` and so on, the values there with their error estimates, and ``arrival`` (the first
        step at which the cosine of each row exceeds 1/2, infinity if never).

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.3).at_accuracy(Accuracy(points=32))
        >>> path = descent_path(model, 2.0, DescentSettings(steps=3, learning_rate=0.1, trajectories=1024))
        >>> descent_limits([path])["steps"].tolist()
        [3.0]
    """
    rows, notes = [], []
    for path in paths:
        estimates = path.estimates
        end = {name: part.value[-1] for name, part in estimates.items()}
        bars = {error_column(name): part.error[-1] for name, part in estimates.items()}
        more = {"row_error": path.row_error.value[-1], "steps": float(path.descent.steps)}
        measured = [name for name in ("error", *path.measures) if name in estimates and name != "training_loss"]
        stop = path.early_stop()[0]
        best = {f"early_stopped_{name}": Estimate(*(part[stop] for part in estimates[name])) for name in measured}
        more |= {"early_stop": float(stop), "arrival": path.arrival().value}
        notes += _doubts(path)
        more |= {name: part.value for name, part in best.items()}
        bars |= {error_column(name): part.error for name, part in best.items()}
        rows.append({"alpha": path.alpha, **end, **more, **bars})
    names = list(dict.fromkeys(name for row in rows for name in row))
    blank = {name: np.full_like(next(row[name] for row in rows if name in row), np.nan) for name in names}
    return Table(
        model=paths[0].model.name,
        parameters=dict(paths[0].model.parameters),
        columns={name: np.array([row.get(name, blank[name]) for row in rows], dtype=float) for name in names},
        status=[path.status for path in paths],
        notes=notes,
    )


def _summary(path: DescentPath) -> str:
    """Return what is seen of a path: where to stop, when it is nearly at its end, and when rows are found."""
    least, last = [], path.descent.steps
    measures = [name for name in ("test_loss", "label_error", "prediction_error", "error") if name in path.estimates]
    for name in measures:
        step, value = path.early_stop(name)
        where = "the last step" if step == last else f"step {step}"
        least.append(f"{name} {value.value:.4g} +- {value.error:.2g} at {where}")
    begins = {name: path.within_error_from(name) for name in measures}
    ends = [f"{name} from step {step} on" for name, step in begins.items() if step < last]
    rows = [f"{step:g}" if np.isfinite(step) else "never" for step in path.arrival().value]
    text = f"alpha = {path.alpha:g}: smallest values over all steps: {', '.join(least)}"
    text += f"; within their errors of the last step: {', '.join(ends)}" if ends else ""
    text += f"; cosines exceed 1/2 at step {', '.join(rows)}"
    return text if path.settles_at is None else f"{text}; weights settle at step {path.settles_at}"


def _doubts(path: DescentPath) -> list[str]:
    """Return the notes on a divergence, or on too few trajectories."""
    if path.diverges_at is None:
        if path.undetermined_from is None:
            return []
        return [
            f"alpha = {path.alpha:g}: from step {path.undetermined_from} on the sets of trajectories contradict each "
            "other. Raise trajectories, or the overlap of the start"
        ]
    computed = int(np.isfinite(path.power.value).all(axis=(1, 2)).sum()) - 1
    end = f"; the power of a row exceeds {DIVERGED:g} after step {computed}" if computed < path.descent.steps else ""
    return [
        f"alpha = {path.alpha:g}: descent diverges, the training loss only grows from step {path.diverges_at} "
        f"on{end}. Lower the learning rate, or raise the weight decay"
    ]
