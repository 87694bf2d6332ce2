r"""Gradient descent on matrices of extensive width in time: order parameters and errors after every step, in the limit.

The sum over samples becomes a law of one sample (:mod:`~glassformer.dynamics.mean_field_samples`). The matrix keeps a
size: its factors make the steps non-separable, and no closed equations of a few numbers are known. Averages over the
matrix are self-averaging. Draws at two sizes ``d``, one a quarter of the other, are extrapolated linearly in
:math:`1/d`. Teacher and start of every draw have exactly the power that they have in the limit.

Two starts on the same data share all directions. Their overlap gives the mean of ``K`` starts:

.. math:: q_K = \frac{q + (K-1)\,q_{12}}K, \qquad E_K = Q_0 - 2m + q_K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.label_errors import new_samples, squared_errors_on, wrong_labels_on
from glassformer.channels.labelling import is_predictable
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, Table, error_column
from glassformer.core.status import Status
from glassformer.dynamics.matrix_descent import Rule, descend_matrix, student_of
from glassformer.dynamics.mean_field_samples import (
    Samples,
    coordinate_samples,
    has_room,
    revealed_samples,
    trajectory_samples,
)
from glassformer.models.base import FiniteSize, Model, require_theory
from glassformer.numerics.decompositions import singular_values
from glassformer.numerics.quasi_random import confidence_factor

# The smaller size is this part of the larger one, with as many times more draws: of all ratios with about the same
# error of the extrapolation, it has a small amplification of the spread.
_PART = 4
# Sizes within this share of those asked for are tried, for ratios that rounding changes least.
_NEARBY = 0.15
# Share of the difference of the two sizes that counts as error of the extrapolation: that of a term of second order
# with ten times the coefficient of the first (a convention).
_SECOND_ORDER = 0.2
# Quantiles of the singular values.
QUANTILES = (0.5, 0.75, 0.9)
# New samples on whose labels errors are measured: of the result, and of its spread. Powers of two.
_PREDICTIONS, _SPREAD_PREDICTIONS = 8192, 512
# New samples in memory at once, some tens of megabytes.
_AT_ONCE = 1 << 18
# Operations per number and direction of a step, and bytes of a number.
_WORK, _BYTES = 12.0, 4.0
# Draws have whole numbers of samples, rounded up and down so that their mean is that of the sample ratio: multiples of
# this number are evenly spread in [0, 1).
_GOLDEN = 0.6180339887498949
# Fewest trajectories.
_FEWEST = 32
# Relative change of a ratio by rounding above which it is noted.
_ROUNDED = 0.01


@dataclass(frozen=True)
class MatrixSettings:
    """What a descent on matrices depends on, in the limit.

    Attributes:
        rule: optimizer, rate, decay and steps.
        start: standard deviation of the first parameters.
        width: width of the student over ``d``; None for the teacher's.
        starts: number of starts whose signals are averaged; 1 for a single one.
        replicas: 2 to follow two starts on the same data, else 1.
        size: the larger ``d``.
        draws: draws at this size; there are four times as many at the smaller one.
        trajectories: of samples, for labels that are not linear.

    Raises:
        ParameterError: there are fewer than 32 trajectories.
    """

    rule: Rule
    start: float = 1.0
    width: float | None = None
    starts: int = 1
    replicas: int = 1
    size: int = 120
    draws: int = 4
    trajectories: int = 16_384

    def __post_init__(self) -> None:
        if self.trajectories < _FEWEST:
            raise ParameterError("trajectories", self.trajectories, f"an integer >= {_FEWEST}")

    @property
    def directions(self) -> int:
        """Largest number of directions on either side: one of every start at every step, and the teacher's."""
        return self.replicas * (self.rule.steps + 1) + 1


@dataclass(frozen=True, eq=False)
class MatrixPath:
    """Gradient descent on a matrix step by step. The first axis of all quantities counts steps.

    Attributes:
        model: of the teacher.
        alpha: sample ratio.
        settings: of the descent.
        estimates: quantities by name, with error estimates of 95 %; NaN after divergence.
        diverges_at: first step at which a draw has diverged; None without divergence.
        notes: on sizes, rounding and samples.
        final_values: singular values of single students after the last step, at the larger size, shape (students, k).
    """

    model: Model
    alpha: float
    settings: MatrixSettings
    estimates: dict[str, Estimate]
    diverges_at: int | None
    notes: tuple[str, ...]
    final_values: Array

    @property
    def status(self) -> Status:
        """``converged``, or ``diverging``."""
        return Status.CONVERGED if self.diverges_at is None else Status.DIVERGING

    @property
    def test_measure(self) -> str:
        """The error on labels by which steps are compared, or the error of the signal."""
        return next(name for name in ("prediction_error", "label_error", "error") if name in self.estimates)

    def early_stop(self, measure: str | None = None) -> int:
        """Return the step at which a measure is least, by default the error on new labels."""
        return int(np.nanargmin(self.estimates[measure or self.test_measure].value))


def matrix_path(model: Model, alpha: float, settings: MatrixSettings) -> MatrixPath:
    r"""Return gradient descent on a matrix of extensive width step by step, in the limit of large sizes.

    Equation :eq:`matrix-descent` of the documentation.

    Args:
        model: of the teacher: one matrix with both sides extensive.
        alpha: sample ratio.
        settings: of the steps, and of the draws.

    Raises:
        IncompatibleError: the model has no theory, no finite size, or no matrix of extensive width.
        ParameterError: memory or time would not suffice.

    Source: C. Gerbelot et al., arXiv:2210.06591; Y. M. Lu, arXiv:2101.07464.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> settings = MatrixSettings(Rule("sgd", 0.2, 0.0, 0.0, steps=3), size=40, draws=3)
        >>> matrix_path(model, 0.5, settings).estimates["error"].value.round(1).tolist()
        [2.0, 1.2, 1.1, 1.1]
    """
    require_theory(model)
    if not model.matrix_prior.extensive:
        raise IncompatibleError("the equations in time are for one matrix with both sides extensive: give rho")
    sizes = _sizes(model, settings)
    least = 1 / sizes[0].unit
    if alpha < least:
        allowed = f">= {least:.2g}, at least one sample at d = {_d(sizes[0])}"
        raise ParameterError("alpha", alpha, allowed, "or raise matrix_size")
    exact = not has_room(settings.directions, alpha * sizes[0].unit)
    _require_resources(model, alpha, settings, sizes, exact)
    counts = (_PART * settings.draws, settings.draws)
    jobs = [(place, draw) for place, count in enumerate(counts) for draw in range(count)]
    series: tuple[list[dict[str, Array]], ...] = ([], [])
    for place, draw in track(jobs, f"descent on matrices of d = {', '.join(str(_d(one)) for one in sizes)}"):
        series[place].append(_drawn(sizes[place], alpha, settings, exact, draw))
    drawn = tuple({name: np.array([one[name] for one in part]) for name in part[0]} for part in series)
    finite = np.min([np.isfinite(part["power"]).all(axis=0) for part in drawn], axis=0)
    diverges_at = None if finite.all() else int(np.argmin(finite))
    estimates = _estimates(model, settings, drawn)
    remarks, values = _remarks(model, sizes, settings, exact), np.concatenate(drawn[1]["final_values"])
    return MatrixPath(model, float(alpha), settings, estimates, diverges_at, remarks, values)


# --- sizes ------------------------------------------------------------------------------------------------------------


def _d(size: FiniteSize) -> int:
    return size.input_shape[1]


def _sizes(model: Model, settings: MatrixSettings) -> tuple[FiniteSize, FiniteSize]:
    """Return the model at two sizes, close to those asked for, at which ratios are nearly those of the model."""
    small = settings.size / _PART
    candidates = range(max(2, int(np.ceil(small * (1 - _NEARBY)))), int(small * (1 + _NEARBY)) + 2)
    best = min(candidates, key=lambda d: (round(_rounding(model, d, settings), 6), abs(d - small)))
    return model.at_size(best), model.at_size(_PART * best)


def _rounding(model: Model, d: int, settings: MatrixSettings) -> float:
    """Return the largest relative change of a ratio by rounding at a dimension."""
    asked, found = model.parameters, model.at_size(d).model.parameters
    numbers = [(value, found[name]) for name, value in asked.items() if isinstance(value, float) and value > 0]
    if settings.width is not None:
        numbers.append((settings.width, _columns(settings.width, d) / d))
    return max((abs(after / before - 1) for before, after in numbers), default=0.0)


def _columns(ratio: float, d: int) -> int:
    return max(1, round(ratio * d))


def _remarks(
    model: Model, sizes: tuple[FiniteSize, FiniteSize], settings: MatrixSettings, exact: bool
) -> tuple[str, ...]:
    """Return notes on sizes and samples of the draws."""
    small, large = map(_d, sizes)
    samples = "revealed exactly" if exact else "infinitely many"
    if not exact and not model.channel.labels.linear:
        samples = f"{settings.trajectories} trajectories"
    found = [
        f"draws: {_PART * settings.draws} at d = {small} and {settings.draws} at d = {large}, extrapolated in 1/d; "
        f"samples: {samples}"
    ]
    rounding = _rounding(model, small, settings)
    if rounding > _ROUNDED:
        found.append(f"rounding changes a ratio by {100 * rounding:.2g} % at d = {small}: raise matrix_size")
    if model.channel.labels.even:
        found.append(
            "even labels: a random start has an overlap of order 1/d, and runs leave it after a time of order log d, "
            "the later the larger d"
        )
    return tuple(found)


def _require_resources(
    model: Model, alpha: float, settings: MatrixSettings, sizes: tuple[FiniteSize, FiniteSize], exact: bool
) -> None:
    """Raise if directions do not fit into memory, or take too long."""
    components = model.channel.fields.columns
    rows, kept = float(settings.directions), 2
    if exact:
        rows = alpha * sizes[1].unit * components
    elif not model.channel.labels.linear:
        # Fresh fields are kept apart, for later ones to be orthogonal to them.
        rows, kept = float(settings.trajectories) * components, 3
    entries = float(np.prod(sizes[1].model.signal_shape(_kind(sizes[1]))))
    numbers = entries + rows
    # Of either side there are no more directions than numbers.
    count = min(float(settings.directions), numbers)
    memory = _BYTES * (2 * entries + kept * rows) * count
    work = 2.0 * settings.draws * _WORK * numbers * count * settings.rule.steps
    remedy = "use fewer steps, or a smaller matrix_size, or fewer draws"
    require_resources("steps", settings.rule.steps, memory, remedy, work, "directions of the descent")


def _kind(size: FiniteSize) -> Any:
    kind: Any = size.design
    return kind(np.zeros((1, *size.input_shape)))


# --- draws ------------------------------------------------------------------------------------------------------------


def _drawn(size: FiniteSize, alpha: float, settings: MatrixSettings, exact: bool, draw: int) -> dict[str, Array]:
    """Return order parameters after every step of one draw, each with an axis of steps first, and final values."""
    rng = np.random.default_rng([13, _d(size), draw])
    teacher = teacher_of(size, rng)
    samples = _samples(size, alpha * size.unit, settings, (draw * _GOLDEN) % 1 if exact else None, teacher, rng)
    return descended(size, samples, teacher, settings, rng)


def teacher_of(size: FiniteSize, rng: np.random.Generator) -> Array:
    """Return a teacher that has exactly the power of the limit."""
    model = size.model
    teacher = model.prior.sample(model.signal_shape(_kind(size)), rng)
    power = float(model.matrix_prior.second_moment)
    return teacher * np.sqrt(power / inner(model, teacher, teacher))


def descended(
    size: FiniteSize, samples: Samples, teacher: Array, settings: MatrixSettings, rng: np.random.Generator
) -> dict[str, Array]:
    """Return order parameters after every step of descent from random starts on samples, and final values."""
    model, d = size.model, _d(size)
    width = model.matrix_prior.factor_width(d) if settings.width is None else _columns(settings.width, d)
    student = student_of(model, samples, width)
    parameters = [rng.standard_normal((settings.replicas, *shape)) for shape in student.parameters]
    record = _Record(model, teacher, student.unit, samples.count, settings.rule.steps)
    start = _at_power(model, student, parameters, settings)
    descend_matrix(samples, student, start, settings.rule, record.watch)
    return record.series


def _samples(
    size: FiniteSize,
    count: float,
    settings: MatrixSettings,
    rounded_from: float | None,
    teacher: Array,
    rng: np.random.Generator,
) -> Samples:
    """Return samples; with a number in [0, 1) exactly revealed ones, as many as the whole number below the sum."""
    if rounded_from is not None:
        return revealed_samples(size, int(count + rounded_from), teacher, rng)
    if size.model.channel.labels.linear:
        return coordinate_samples(size, count, teacher, settings.directions, rng)
    return trajectory_samples(size, count, teacher, settings.trajectories, rng)


def _at_power(model: Model, student: Any, parameters: list[Array], settings: MatrixSettings) -> list[Array]:
    """Return first parameters whose signals have exactly the power of the limit; signals are of second degree."""
    signals = np.asarray(student.signals(tuple(parameters)), dtype=float)
    d, width = parameters[0].shape[1:]
    # Factors of a rectangular signal are independent; W W^T has a mean.
    limit = 1 + width / d if model.matrix_prior.symmetric else 1.0
    found = np.array([inner(model, one, one) for one in signals])
    scale = settings.start * (limit / found) ** 0.25
    return [scale[:, None, None] * part for part in parameters]


def inner(model: Model, first: Array, second: Array) -> float:
    """Return the inner product of two signals, in the unit of their errors."""
    return float(model.prior.gram(first[None], second[None])[0, 0])


class _Record:
    """Order parameters after every step of one draw; NaN for steps that are not taken."""

    def __init__(self, model: Model, teacher: Array, unit: float, samples: float, steps: int) -> None:
        self._model, self._teacher, self._unit, self._samples = model, teacher, unit, samples
        names = ("power", "overlap", "replica_overlap", "training_error", "nuclear_norm", "largest_singular_value")
        self.series = {name: np.full(steps + 1, np.nan) for name in names}
        self.series["singular_values"] = np.full((steps + 1, len(QUANTILES)), np.nan)
        self.series["teacher_power"] = np.full(steps + 1, inner(model, teacher, teacher))

    def watch(self, step: int, signals: Array, errors: Array) -> None:
        """Record the order parameters of all starts."""
        values = singular_values(signals) / self._unit
        first, *others = signals
        found = {
            "power": np.mean([inner(self._model, one, one) for one in signals]),
            "overlap": np.mean([inner(self._model, one, self._teacher) for one in signals]),
            "replica_overlap": inner(self._model, first, others[0]) if others else np.nan,
            # The loss is a quarter of the squared residuals.
            "training_error": 4 * np.mean(errors) / self._samples,
            "nuclear_norm": values.mean(),
            "largest_singular_value": values[:, 0].mean(),
            "singular_values": _quantiles(values[0]),
        }
        for name, value in found.items():
            self.series[name][step] = value
        self.series["final_values"] = values


def _quantiles(values: Array) -> Array:
    """Return the quantiles of decreasing numbers, as ``numpy.quantile`` does in ten times the time."""
    return np.interp(QUANTILES, np.linspace(0, 1, len(values)), values[::-1])


# --- the limit --------------------------------------------------------------------------------------------------------


def extrapolate(small: Array, large: Array, part: int = _PART) -> Estimate:
    """Return the limit of means that are linear in ``1/d``, with a 95 % error from draws and extrapolation.

    Args:
        small: draws at the smaller size along the first axis.
        large: draws at the size that is ``part`` times as large.
        part: ratio of the sizes.

    Example:
        >>> found = extrapolate(np.array([1.4, 1.4]), np.array([1.1, 1.1]))
        >>> round(float(found.value), 6), round(float(found.error), 6)
        (1.0, 0.06)
    """
    ratio = 1 / (part - 1)
    means = small.mean(axis=0), large.mean(axis=0)
    weighted = [
        weight**2 * draws.var(axis=0, ddof=1) / len(draws) for weight, draws in ((ratio, small), (1 + ratio, large))
    ]
    variance = weighted[0] + weighted[1]
    # Degrees of freedom of a sum of two variances (Welch, Satterthwaite): at least those of the fewer draws.
    spread = weighted[0] ** 2 / (len(small) - 1) + weighted[1] ** 2 / (len(large) - 1)
    degrees = np.divide(variance**2, spread, out=np.full(np.shape(variance), 1e6), where=np.asarray(spread > 0))
    factor = np.vectorize(lambda one: confidence_factor(1 + int(one)), otypes=[float])(np.nan_to_num(degrees, nan=1.0))
    value = means[1] + ratio * (means[1] - means[0])
    return Estimate(value, factor * np.sqrt(variance) + _SECOND_ORDER * np.abs(means[1] - means[0]))


def _estimates(model: Model, settings: MatrixSettings, drawn: tuple[dict[str, Array], ...]) -> dict[str, Estimate]:
    """Return all quantities in the limit."""
    small, large = (_averaged(model, settings, part) for part in drawn)
    names = ["error", "training_error", "overlap", "power", "nuclear_norm", "largest_singular_value", "singular_values"]
    if settings.replicas > 1:
        names.append("replica_overlap")
    found = {name: extrapolate(small[name], large[name]) for name in names}
    if model.channel.labels.linear:
        return {"error": found.pop("error"), "prediction_error": extrapolate(small["error"], large["error"]), **found}
    power = extrapolate(small["teacher_power"], large["teacher_power"]).value
    limit = {"overlap": found["overlap"].value, "power": found["power"].value, "teacher_power": power}
    value, coarse = (label_errors(model, limit, points) for points in (_PREDICTIONS, _PREDICTIONS // 2))
    spread = [label_errors(model, part, _SPREAD_PREDICTIONS) for part in (small, large)]
    for name, exact in value.items():
        error = extrapolate(spread[0][name], spread[1][name]).error
        found[name] = Estimate(exact, error + np.abs(exact - coarse[name]))
    return found


def _averaged(model: Model, settings: MatrixSettings, series: dict[str, Array]) -> dict[str, Array]:
    """Return the series with the power and the error of the mean of all starts."""
    own, count = series["power"], settings.starts
    power = own if count == 1 else (own + (count - 1) * series["replica_overlap"]) / count
    overlap = np.abs(series["overlap"]) if model.channel.labels.even else series["overlap"]
    error = series["teacher_power"] - 2 * overlap + power
    return {**series, "power": power, "overlap": overlap, "error": error}


def label_errors(model: Model, orders: dict[str, Array], points: int = _SPREAD_PREDICTIONS) -> dict[str, Array]:
    """Return errors on new labels at order parameters of any shape; NaN where these are not finite.

    Args:
        model: of the labels.
        orders: ``power``, ``overlap`` and ``teacher_power``, all of one shape.
        points: number of new samples, a power of two.
    """
    shape = np.shape(orders["power"])
    parts = np.array([np.broadcast_to(orders[name], shape).ravel() for name in ("power", "overlap", "teacher_power")])
    good = np.flatnonzero(np.isfinite(parts[0]))
    blocks = np.array_split(good, max(1, -(-len(good) * points // _AT_ONCE)))
    found = [_label_errors_at(model, parts[:, block], points) for block in blocks]
    filled = {name: np.full(parts.shape[1], np.nan) for name in found[0]}
    for name, values in filled.items():
        values[good] = np.concatenate([one[name] for one in found])
    return {name: values.reshape(shape) for name, values in filled.items()}


def _label_errors_at(model: Model, orders: Array, points: int) -> dict[str, Array]:
    """Return errors on new labels at powers, overlaps and powers of the teacher, shape (3, places)."""
    channel = model.channel
    own, cross, true = (part[:, None, None] for part in orders)
    samples = new_samples(channel, own, cross, true, points)
    found, none = {}, np.zeros((1, 1))
    if channel.labels.discrete:
        each = [samples._replace(estimated=own, fields=true) for own, true in zip(*samples[:2], strict=True)]
        found["label_error"] = np.array([wrong_labels_on(channel, one, none) for one in each])
    if is_predictable(channel):
        found["prediction_error"] = squared_errors_on(channel, samples, np.zeros((len(own), 1, 1)))[1]
    return found


# --- tables -----------------------------------------------------------------------------------------------------------


def path_table(paths: Sequence[MatrixPath]) -> Steps:
    """Return descent on matrices at several sample ratios as a table.

    Args:
        paths: of one model, one for each sample ratio.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0 at
        the start), ``error``, ``prediction_error`` and ``label_error`` on new labels, ``training_error`` (mean squared
        residual), ``overlap``, ``power``, ``nuclear_norm`` (mean of the singular values of the student),
        ``largest_singular_value``, ``singular_values`` (their quantiles :data:`QUANTILES`), with two starts
        ``replica_overlap``, the overlap of two starts on the same data, and error estimates of all. Singular values
        are in units of the square root of the longer side; those of attention are eigenvalues.
    """
    columns: dict[str, list[Array]] = {}
    status: list[Status] = []
    notes: list[str] = []
    for path in paths:
        count = path.settings.rule.steps + 1
        row = {"alpha": np.full(count, path.alpha), "iteration": np.arange(float(count))}
        row |= {name: part.value for name, part in path.estimates.items()}
        row |= {error_column(name): part.error for name, part in path.estimates.items()}
        for name, value in row.items():
            columns.setdefault(name, []).append(value)
        ends = count if path.diverges_at is None else path.diverges_at
        status += [Status.CONVERGED if step < ends else Status.DIVERGING for step in range(count)]
        notes += [*_doubts(path), *path.notes, *([] if path.diverges_at == 0 else [_summary(path)])]
    joined = {name: np.concatenate(values) for name, values in columns.items()}
    model = paths[0].model
    return Steps(model.name, dict(model.parameters), joined, status, list(dict.fromkeys(notes)))


def path_limits(paths: Sequence[MatrixPath]) -> Table:
    """Return what descent on matrices reaches at its last step, and where it is best stopped.

    Args:
        paths: of one model, one for each sample ratio.

    Returns:
        A table with one row per sample ratio: the columns of :func:`path_table` after the last step, ``steps``,
        ``early_stop`` (the step of least error on new labels), and ``early_stopped_error``,
        ``early_stopped_prediction_error`` and so on, the values there, with error estimates.
    """
    rows, notes = [], list[str]()
    for path in paths:
        stop, last = path.early_stop(), path.settings.rule.steps
        row: dict[str, Any] = {"alpha": path.alpha, "steps": float(last), "early_stop": float(stop)}
        for name, part in path.estimates.items():
            row |= {name: part.value[-1], error_column(name): part.error[-1]}
            if name.endswith("error") and name != "training_error":
                early = f"early_stopped_{name}"
                row |= {early: part.value[stop], error_column(early): part.error[stop]}
        rows.append(row)
        notes += [*_doubts(path), *path.notes]
    model = paths[0].model
    columns = {name: np.array([row[name] for row in rows], dtype=float) for name in rows[0]}
    return Table(
        model.name, dict(model.parameters), columns, [path.status for path in paths], list(dict.fromkeys(notes))
    )


def _summary(path: MatrixPath) -> str:
    """Return where to stop."""
    measures = [name for name in ("prediction_error", "label_error", "error") if name in path.estimates]
    least = []
    for name in measures:
        step, part = path.early_stop(name), path.estimates[name]
        where = "the last step" if step == path.settings.rule.steps else f"step {step}"
        least.append(f"{name} {part.value[step]:.4g} +- {part.error[step]:.2g} at {where}")
    return f"alpha = {path.alpha:g}: smallest values over all steps: {', '.join(least)}"


def _doubts(path: MatrixPath) -> list[str]:
    """Return the note on a divergence."""
    if path.diverges_at is None:
        return []
    return [
        f"alpha = {path.alpha:g}: a draw diverges at step {path.diverges_at}. Lower the learning rate, or raise the "
        "weight decay"
    ]
