"""Dense inputs whose tokens are correlated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.designs.dense import DenseDesign

# Samples whose tokens are mixed at a time: what there is twice in memory.
_BLOCK = 1024


@dataclass(frozen=True)
class CorrelatedDesign:
    r"""A kind of :class:`~glassformer.designs.dense.DenseDesign`: inputs :math:`X = C^{1/2} Z`, shape (L, d).

    ``Z`` has standard normal entries, so that tokens have the covariance :math:`E\,x_l\cdot x_m/d = C_{lm}`. Fields
    have unit variance for a unit diagonal of ``C`` and a signal of independent tokens. Like a class of designs it has
    ``sample``, and makes a design when called: of independent numbers, which it correlates.

    Args:
        root: :math:`C^{1/2}`, shape (L, L).

    Example:
        >>> from glassformer.models.token_correlation import correlation_root
        >>> kind = CorrelatedDesign(correlation_root(0.5, 2))
        >>> design = kind.sample(4000, (2, 3), np.random.default_rng(0))
        >>> bool(abs(np.mean(design.inputs[0, :, 0] * design.inputs[0, :, 1]) - 0.5) < 0.05)
        True
    """

    root: tuple[tuple[float, ...], ...]

    def __call__(self, independent: NDArray[Any]) -> DenseDesign:
        return DenseDesign(self._mixed(independent))

    def sample(
        self, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> DenseDesign:
        """One instance of random inputs. A longer draw from the same generator state begins alike."""
        design = DenseDesign.sample(samples, shape, rng, storage)
        inputs = design.inputs[0]
        for begin in range(0, samples, _BLOCK):
            block = slice(begin, begin + _BLOCK)
            inputs[block] = self._mixed(inputs[block])
        return design

    def _mixed(self, independent: NDArray[Any]) -> NDArray[Any]:
        """Every input times the root, in its own precision."""
        return np.asarray(np.array(self.root, dtype=independent.dtype) @ independent)
