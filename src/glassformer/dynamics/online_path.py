"""Results of online SGD: overlaps, powers and errors as functions of time, and the times at which rows are learned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.interpolate import PchipInterpolator

from glassformer.core.checks import is_number
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.results import scalar_columns
from glassformer.core.status import Status
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.numerics.roots import root_by_growth

if TYPE_CHECKING:
    import pandas

# Relative tolerance of a step in time.
TOLERANCE = 1e-4
# Rise of the cosine between two times above which interpolation has no accuracy (chosen by trial).
_STEEP = 0.25


@dataclass(frozen=True, eq=False)
class OnlinePath(DisplayMixin):
    """Overlap and power as functions of time, from one start or as means over several starts.

    Attributes:
        time: steps over dimension, shape (times,).
        replicas: overlap and power for each set of points and each start, shape (times, sets, starts, 2, P, P). Signs
            that labels do not depend on are those of the largest overlap. NaN after a failure.
        labels: squared error on labels without noise, shape (times, sets, starts).
        status: ``converged`` if all times were reached and no power of a row diverges.
        teacher: power of the teacher of each start, shape (starts, P, P).
    """

    time: Array
    replicas: Array
    labels: Array
    status: Status
    teacher: Array
    drawing = "plot_online"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per time."""
        import pandas

        columns = {"time": self.time, "error": self.error.value, "cosine": self.cosine.value}
        columns |= {"error_estimate": self.error.error, "plugin_error": self.test_error.value}
        parts = {name: part for column in columns.items() for name, part in scalar_columns(*column).items()}
        return pandas.DataFrame({**parts, "status": str(self.status)})

    @property
    def overlap(self) -> Estimate:
        """Overlap ``M``, shape (times, P, P)."""
        return _estimate(self.replicas[..., 0, :, :])

    @property
    def power(self) -> Estimate:
        """Power ``Q``, shape (times, P, P)."""
        return _estimate(self.replicas[..., 1, :, :])

    @property
    def test_error(self) -> Estimate:
        """Squared error on new labels without noise, shape (times,)."""
        return _estimate(self.labels)

    @property
    def cosine(self) -> Estimate:
        """Cosine similarity of each row with its truth, shape (times, P)."""
        return _estimate(self._cosines)

    @property
    def row_error(self) -> Estimate:
        """Squared distance of each row from its truth, over ``d``, shape (times, P)."""
        return _estimate(self._distances)

    @property
    def error(self) -> Estimate:
        """Mean of :attr:`row_error` over the rows, shape (times,)."""
        return _estimate(self._distances.mean(axis=-1))

    def arrival(self, level: float = 0.5) -> Estimate:
        """Return the first time at which the cosine similarity of each row exceeds a level, shape (P,).

        The time is infinite, with an infinite error, for rows that are not learned in some set of points. The order of
        the times is the order of learning; from a start with an overlap of about ``1/sqrt(d)`` they are escape times.
        Between two times the path is interpolated. The error includes that of the interpolation: the whole interval if
        the cosine rises by at least a quarter in it, and a share of it otherwise.

        Args:
            level: in [0, 1).

        Raises:
            ParameterError: ``level`` is out of range.
        """
        if not (is_number(level) and 0 <= level < 1):
            raise ParameterError("level", level, "a number in [0, 1)")
        paths = np.moveaxis(self._cosines, 0, -1)
        crossings = np.apply_along_axis(lambda path: _first_crossing(self.time, path, level), -1, paths)
        missed = ~np.isfinite(crossings[..., 0]).all(axis=(0, 1))
        times, interpolation_errors = np.moveaxis(np.where(missed[:, None], 0.0, crossings), -1, 0)
        value, error = (part[0] for part in _estimate(times[None]))
        error = error + interpolation_errors.mean(axis=(0, 1))
        return Estimate(np.where(missed, np.inf, value), np.where(missed, np.inf, error))

    @property
    def _rows(self) -> tuple[Array, Array, Array]:
        """Overlaps of rows with their truth and powers of rows, shape (times, sets, starts, P); powers of the truth."""
        diagonal = np.diagonal(self.replicas, axis1=-2, axis2=-1)
        return diagonal[..., 0, :], diagonal[..., 1, :], np.diagonal(self.teacher, axis1=-2, axis2=-1)

    @property
    def _cosines(self) -> Array:
        overlap, power, truth = self._rows
        return np.asarray(overlap / np.sqrt(np.maximum(power * truth, np.finfo(float).tiny)))

    @property
    def _distances(self) -> Array:
        overlap, power, truth = self._rows
        return np.asarray(truth - 2 * overlap + power)


def _estimate(replicas: Array) -> Estimate:
    """Return means over sets and starts, the second and third axes, with errors of sampling and of time steps."""
    means = replicas.mean(axis=2)
    count = means.shape[1]
    value, standard_error = np.mean(means, axis=1), np.std(means, axis=1, ddof=1) / np.sqrt(count)
    return Estimate(value, np.asarray(confidence_factor(count) * standard_error + TOLERANCE * np.abs(value)))


def _first_crossing(time: Array, path: Array, level: float) -> tuple[float, float]:
    """Return the first time at which a path, shape (times,), exceeds a level, or infinity; interpolation error."""
    above = path > level
    k = int(np.argmax(above))
    if k == 0 or not above[k]:
        return (float(time[0]) if above[0] else np.inf), 0.0
    low, high, rise = time[k - 1], time[k], path[k] - path[k - 1]
    crossing = np.interp(level, path[k - 1 : k + 1], time[k - 1 : k + 1])
    share = min(1.0, float(rise / _STEEP)) ** 2
    near = slice(max(k - 2, 0), k + 2)
    if share < 1 and len(time[near]) > 2:
        curve = PchipInterpolator(time[near], path[near])
        root = root_by_growth(lambda t: float(curve(t)) - level, low, high, bounds=(low, high))
        crossing = np.clip(root, low, high)
    return float(crossing), share * float(max(crossing - low, high - crossing))
