"""The result of a solver: a value with its status, residual and error estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.display import DisplayMixin
from glassformer.core.errors import ConvergenceError
from glassformer.core.status import Status

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class Solution(DisplayMixin):
    """The result of a batch of iterations. The batch is the first axis of every field.

    Attributes:
        value: the fixed points, shape ``(batch, ...)``.
        status: one :class:`Status` per batch element.
        residual: undamped residual :math:`|F(x) - x|` at ``value``, shape ``(batch,)``.
        iterations: evaluations of the map for each element, shape ``(batch,)``.
        error_estimate: residual amplified by the distance to the fixed point, plus integration error, ``(batch,)``.
        history: residual after each iteration, shape ``(iterations, batch)``; NaN once an element has stopped.
        extra: further arrays by name, for instance ``q_hat``.

    Example:
        >>> one = np.ones(1)
        >>> found = Solution(one, [Status.ITERATION_LIMIT], 1e-3 * one, one, 1e-2 * one, np.ones((1, 1)))
        >>> found.converged, found.settled
        (False, array([False]))
    """

    value: NDArray[np.float64]
    status: Sequence[Status]
    residual: NDArray[np.float64]
    iterations: NDArray[np.int64]
    error_estimate: NDArray[np.float64]
    history: NDArray[np.float64]
    extra: dict[str, Any] = field(default_factory=dict)
    drawing = "plot_history"

    @property
    def converged(self) -> bool:
        """True when every element has status ``CONVERGED``."""
        return bool(self.settled.all())

    @property
    def settled(self) -> NDArray[np.bool_]:
        """True for each element of status ``CONVERGED``, shape ``(batch,)``."""
        return np.array([status.ok for status in self.status], dtype=bool)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per element: status, residual, iterations and error estimate."""
        import pandas

        ends = {"status": [str(status) for status in self.status]}
        names = ("residual", "iterations", "error_estimate")
        return pandas.DataFrame({**{name: getattr(self, name) for name in names}, **ends})

    def at(self, where: NDArray[Any]) -> Solution:
        """Return the elements ``where``, given by indices or a boolean mask."""
        return replace(
            self,
            **{name: getattr(self, name)[where] for name in _PER_ELEMENT},
            status=np.array(self.status, dtype=object)[where].tolist(),
            history=self.history[:, where],
            extra={name: own[where] for name, own in self.extra.items()},
        )

    def merge_where(self, where: NDArray[Any], other: Solution) -> Solution:
        """Return a copy whose elements ``where`` (indices or a boolean mask) are replaced by those of ``other``."""
        status = np.array(self.status, dtype=object)
        status[where] = other.status
        return replace(
            self,
            **{name: _replace_where(getattr(self, name), where, getattr(other, name)) for name in _PER_ELEMENT},
            status=status.tolist(),
            extra={name: _replace_where(own, where, other.extra[name]) for name, own in self.extra.items()},
        )

    def raise_unless_converged(self) -> Solution:
        """Return ``self``, or raise :class:`ConvergenceError` naming the first element that did not converge."""
        for status in self.status:
            if not status.ok:
                raise ConvergenceError(status, self)
        return self


_PER_ELEMENT = ("value", "residual", "iterations", "error_estimate")


def _replace_where(base: NDArray[Any], where: NDArray[Any], values: NDArray[Any]) -> NDArray[Any]:
    merged = np.array(base)
    merged[where] = values
    return merged
