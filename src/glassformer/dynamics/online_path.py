"""What online gradient descent did in time: overlaps, powers, errors and when rows were found."""

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
from glassformer.core.solution import Status
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.numerics.roots import root_by_growth

if TYPE_CHECKING:
    import pandas

# Of a step in time.
TOLERANCE = 1e-4
# A rise from one time to the next of which nothing is known in between.
_STEEP = 0.25


@dataclass(frozen=True, eq=False)
class OnlinePath(DisplayMixin):
    """Overlap and power in time, from one start or as means over several.

    Attributes:
        time: steps over dimension, shape (times,).
        replicas: overlap and power of each set of points from each start, shape (times, sets, starts, 2, P, P), rows
            with the signs, among those that labels are blind to, that suit them best; NaN after a failure.
        labels: squared error on labels without noise, shape (times, sets, starts).
        status: converged if every time was reached, and no row's power grows without end (``diverging``).
        teacher: its power from each start, shape (starts, P, P).
    """

    time: Array
    replicas: Array
    labels: Array
    status: Status
    teacher: Array
    drawing = "plot_online"

    def to_pandas(self) -> pandas.DataFrame:
        """One row per time."""
        import pandas

        columns = {"time": self.time, "error": self.error.value, "cosine": self.cosine.value}
        columns |= {"error_estimate": self.error.error, "plugin_error": self.test_error.value}
        parts = {name: part for column in columns.items() for name, part in scalar_columns(*column).items()}
        return pandas.DataFrame({**parts, "status": str(self.status)})

    @property
    def overlap(self) -> Estimate:
        """``M``, shape (times, P, P)."""
        return _estimated(self.replicas[..., 0, :, :])

    @property
    def power(self) -> Estimate:
        """``Q``, shape (times, P, P)."""
        return _estimated(self.replicas[..., 1, :, :])

    @property
    def test_error(self) -> Estimate:
        """Squared error on the label of a new sample, its own noise left out, shape (times,)."""
        return _estimated(self.labels)

    @property
    def cosine(self) -> Estimate:
        """Cosine similarity of each row with its truth, shape (times, P)."""
        return _estimated(self._cosines)

    @property
    def row_error(self) -> Estimate:
        """Squared distance of each row from its truth, over ``d``, shape (times, P)."""
        return _estimated(self._distances)

    @property
    def error(self) -> Estimate:
        """Their mean over the rows, shape (times,)."""
        return _estimated(self._distances.mean(axis=-1))

    def arrival(self, level: float = 0.5) -> Estimate:
        """The first time at which the cosine similarity of each row exceeds a level, shape (P,).

        Infinite, with an infinite error, for rows that some set of points does not find within the time followed. The
        order of the finite ones is the order of learning; from a start of size one over the root of the dimension they
        are the times of escape. Between two of the times followed a path is interpolated; the error holds what a rise
        by a quarter or more leaves open between them, all of the way, and of smaller ones the share that bends.

        Args:
            level: in [0, 1).

        Raises:
            ParameterError: another level.
        """
        if not (is_number(level) and 0 <= level < 1):
            raise ParameterError("level", level, "a number in [0, 1)")
        paths = np.moveaxis(self._cosines, 0, -1)
        found = np.apply_along_axis(lambda path: _crossing(self.time, path, level), -1, paths)
        missed = ~np.isfinite(found[..., 0]).all(axis=(0, 1))
        known, between = np.moveaxis(np.where(missed[:, None], 0.0, found), -1, 0)
        value, error = (part[0] for part in _estimated(known[None]))
        error = error + between.mean(axis=(0, 1))
        return Estimate(np.where(missed, np.inf, value), np.where(missed, np.inf, error))

    @property
    def _rows(self) -> tuple[Array, Array, Array]:
        """Overlaps of rows with their own truth, their powers, shape (times, sets, starts, P), and those of truths."""
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


def _estimated(replicas: Array) -> Estimate:
    """Means over sets and starts, the second and third axis, with what sampling and steps in time leave of error."""
    means = replicas.mean(axis=2)
    count = means.shape[1]
    value, blur = np.mean(means, axis=1), np.std(means, axis=1, ddof=1) / np.sqrt(count)
    return Estimate(value, np.asarray(confidence_factor(count) * blur + TOLERANCE * np.abs(value)))


def _crossing(time: Array, path: Array, level: float) -> tuple[float, float]:
    """When a path, shape (times,), first exceeds a level, and what is open of it; infinite where it does not."""
    above = path > level
    k = int(np.argmax(above))
    if k == 0 or not above[k]:
        return (float(time[0]) if above[0] else np.inf), 0.0
    low, high, rise = time[k - 1], time[k], path[k] - path[k - 1]
    found = np.interp(level, path[k - 1 : k + 1], time[k - 1 : k + 1])
    share = min(1.0, float(rise / _STEEP)) ** 2
    near = slice(max(k - 2, 0), k + 2)
    if share < 1 and len(time[near]) > 2:
        curve = PchipInterpolator(time[near], path[near])
        found = np.clip(root_by_growth(lambda t: float(curve(t)) - level, low, high, bounds=(low, high)), low, high)
    return float(found), share * float(max(found - low, high - found))
