"""Anderson extrapolation of fixed-point iterations from several steps."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from glassformer.core.estimate import Array

# Number of steps, and relative cutoff of singular values.
_STEPS, _CUTOFF = 12, 1e-10
# Extrapolation starts anew if the residual grows by this factor.
_WORSE = 2.0


@dataclass
class Anderson:
    """The combination of the last steps with the smallest combined residual.

    Attributes:
        steps: largest number of steps.
        points: the last points.
        residuals: the plain steps from them.

    Example:
        >>> slow, x, found = np.array([0.9, -0.5]), np.zeros(2), Anderson()
        >>> for _ in range(4):
        ...     x = found.next(x, slow * x + 1 - x)
        >>> bool(np.allclose(x, 1 / (1 - slow)))
        True
    """

    steps: int = _STEPS
    points: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    def next(self, v: Array, residual: Array) -> Array:
        """Return the point after ``v``, where the plain step is ``residual``."""
        if self.residuals and np.linalg.norm(residual) > _WORSE * np.linalg.norm(self.residuals[-1]):
            self.points.clear()
            self.residuals.clear()
        self.points.append(v)
        self.residuals.append(residual)
        del self.points[: -self.steps], self.residuals[: -self.steps]
        if len(self.points) == 1:
            return v + residual
        changes = np.diff(np.array(self.residuals), axis=0)
        weights = np.linalg.lstsq(changes.T, residual, rcond=_CUTOFF)[0]
        moved = np.diff(np.array(self.points), axis=0) + changes
        return np.asarray(v + residual - weights @ moved)
