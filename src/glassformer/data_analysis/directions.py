"""Directions of an estimated matrix: its singular values beside those of noise alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from glassformer.core.display import DisplayMixin
from glassformer.core.estimate import Array

if TYPE_CHECKING:
    import pandas

# Number of random matrices of noise; directions of the signal exceed their largest singular value (chosen by trial).
NOISE_MATRICES = 20
# Values below this share of the largest are zero.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Directions(DisplayMixin):
    """Singular values of an estimate, or sizes of eigenvalues, beside those of noise of the same size and strength.

    Estimates shrink the values of a matrix, the signal seen through noise. Its values are compared with those of
    20 matrices of noise alone: for regularised risk, what the scores of the loss give with random signs.

    Attributes:
        values: of the estimate, which acts on scaled inputs, descending, shape (k,).
        seen: the values before the estimate shrinks them, descending, shape (k,).
        noise: mean of the values of matrices of noise, each in descending order, shape (k,).
        threshold: largest value of all these matrices.

    Example:
        >>> noise = np.random.default_rng(0).random((9, 3))
        >>> found = Directions.beside_noise(np.array([2.0, 0, 0]), np.array([3.0, 0.9, 0.1]), noise)
        >>> found.rank, found.to_pandas()["signal"].tolist()
        (1, [True, False, False])
    """

    values: Array
    seen: Array
    noise: Array
    threshold: float
    drawing = "plot_directions"

    @classmethod
    def beside_noise(cls, values: Array, seen: Array, noise: Iterable[Array]) -> Directions:
        """Compare values with those of noise matrices, in any order; sizes count."""
        alone = np.array([_descending(one) for one in noise])
        own = _descending(values)
        own = np.where(own > _ROUNDING * own[0], own, 0.0)
        return cls(own, _descending(seen), alone.mean(axis=0), float(alone.max()))

    @property
    def signal(self) -> NDArray[np.bool_]:
        """Which directions exceed the noise, and are not set to zero."""
        return (self.seen > self.threshold) & (self.values > 0)

    @property
    def rank(self) -> int:
        """Number of directions that exceed the noise."""
        return int(np.sum(self.signal))

    def scaled(self, factor: float) -> Directions:
        """Return the directions of a matrix in another unit."""
        return Directions(factor * self.values, factor * self.seen, factor * self.noise, factor * self.threshold)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per direction."""
        import pandas

        columns = {"value": self.values, "seen": self.seen, "noise": self.noise, "signal": self.signal}
        return pandas.DataFrame({"direction": np.arange(1, len(self.values) + 1), **columns})


def _descending(values: Array) -> Array:
    return np.sort(np.abs(values))[::-1]
