"""Curves and runs on axes: error bars, marks of statuses, and jumps as dotted lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.plotting.legend import entry_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import ErrorbarContainer
    from matplotlib.lines import Line2D

# A step is a jump if it is this share of the axis and this many times steeper than the curve on either side of it
# (chosen by trial).
_HIGH, _STEEP = 0.05, 5.0
# Share of the largest value below which an error bar is not drawn.
_SHORT = 2e-3


@dataclass(frozen=True)
class Branch:
    """The branch of a hard phase that a curve over the sample ratio is on.

    Attributes:
        two: points at which there are two branches.
        lower: points at which the curve is on the branch of the smaller error, which continues beyond the other one.

    Example:
        >>> two = np.array([False, True, True, False])
        >>> Branch(two, two).ends, Branch(two, np.zeros_like(two)).ends
        (array([ True, False, False]), array([False, False,  True]))
    """

    two: NDArray[np.bool_]
    lower: NDArray[np.bool_]

    def at(self, order: NDArray[np.int64]) -> Branch:
        """Return the points in another order."""
        return Branch(self.two[order], self.lower[order])

    @property
    def ends(self) -> NDArray[np.bool_]:
        """Steps at which the curve changes from one branch to the other."""
        low, upper = self.two & self.lower, self.two & ~self.lower
        return np.asarray((~low[:-1] & low[1:]) | (low[:-1] & upper[1:]) | (upper[:-1] & ~self.two[1:]))


def draw_curve(
    axes: Axes, alpha: Array, value: Array, error: Array | None = None, branch: Branch | None = None, **look: Any
) -> Line2D:
    """Draw a line through the points, dotted where the curve jumps, with error bars where errors are known."""
    order = np.argsort(alpha, kind="stable")
    # Errors without bound have no place in the plot.
    alpha, value = alpha[order], np.where(np.isfinite(value[order]), value[order], np.nan)
    places = jumps(alpha, value, branch and branch.at(order))
    (line,) = axes.plot(*(np.insert(part, places + 1, np.nan) for part in (alpha, value)), **look)
    for k in places:
        axes.plot(alpha[k : k + 2], value[k : k + 2], ":", color=line.get_color(), lw=0.8)
    if error is not None:
        # Bars shorter than their caps would look like ticks on the line.
        visible = error[order] > _SHORT * np.nanmax(np.abs(value), initial=0.0)
        if visible.any():
            bars = alpha[visible], value[visible], error[order][visible]
            axes.errorbar(*bars, fmt="none", elinewidth=1, capsize=2, ecolor=line.get_color())
    return line


def draw_runs(axes: Axes, x: Array, mean: Array, standard_error: Array, **look: Any) -> ErrorbarContainer:
    """Draw means of runs as separate marks, with their standard errors if they are known."""
    return axes.errorbar(
        x, mean, None if np.all(np.isnan(standard_error)) else standard_error, fmt="o", capsize=2, **look
    )


def jumps(alpha: Array, value: Array, branch: Branch | None = None) -> NDArray[np.int64]:
    """Return the points after which a curve, sorted along ``alpha``, jumps: it changes its branch, or is much steeper.

    The error falls like a square root near the end of its branch, so that slopes alone do not identify such a jump.

    Example:
        >>> alpha = np.linspace(0.0, 1.0, 11)
        >>> jumps(alpha, np.where(alpha < 0.45, 1 - 0.1 * alpha, 0.0))
        array([4])
        >>> jumps(alpha, np.exp(-3 * alpha)).size
        0
    """
    step = np.abs(np.diff(value))
    large = np.nan_to_num(step) > _HIGH * np.nanmax(np.abs(value), initial=0.0)
    change = np.zeros_like(large) if branch is None else branch.ends
    if len(alpha) >= 4:
        slope = step / np.maximum(np.diff(alpha), np.finfo(float).tiny)
        before, after = np.append(np.nan, slope[:-1]), np.append(slope[1:], 0.0)
        # Errors may fall steeply from their value without data: the first step of a line is no jump.
        change = change | (np.isfinite(before) & (slope > _STEEP * np.fmax(before, after)))
    return np.flatnonzero(large & change)


def mark_unsettled(axes: Axes, alpha: Array, value: Array, status: Sequence[Status | str]) -> None:
    """Mark every point that did not converge, with one entry of the legend for each status."""
    names = np.array([str(one) for one in status])
    alpha, value, names = (part[np.isfinite(value)] for part in (alpha, value, names))
    failed = sorted({*names} - {str(Status.CONVERGED)})
    for name, marker in zip(failed, "xP1*2v" * len(names), strict=False):
        at = names == name
        look: dict[str, Any] = {"ms": 7, "mfc": "none", "ls": "none", "zorder": 5, "clip_on": False}
        label = entry_once(axes, name.replace("_", " "))
        axes.plot(alpha[at], value[at], marker, color="0.5", label=label, **look)


def rows_of(column: Array) -> Iterator[tuple[str, Array]]:
    """Iterate over the rows of a column of numbers or of vectors, with their names; a single row has no name."""
    flat = column.reshape(len(column), -1)
    for k in range(flat.shape[1]):
        yield f"row {k + 1}" if flat.shape[1] > 1 else "", flat[:, k]
