r"""What a prior of several rows must provide: overlaps and precisions are matrices over the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from glassformer.core.deprecated import former
from glassformer.core.integral import Array, Integral


@dataclass(frozen=True)
class Estimate:
    """What a prior makes of one noisy observation of its signal.

    Attributes:
        signal: posterior mean, shape ``(L, d)``; of several rows (P, ...).
        variance: posterior variance of the field ``h`` of a new input; of several rows their covariance, shape (P, P).
        onsager: coefficient of the previous score in the next field; equal to ``variance`` for priors that see the
            observation only.
        memory: what the prior wants back at its next call, or None.
    """

    signal: Array
    variance: Any
    onsager: Any
    memory: Any = None


class Prior(ABC):
    r"""A prior of ``P`` rows seen through its denoising problem at the precision matrix :math:`\hat Q`.

    Around its mean every row has unit power: the posterior covariance is the identity before any data. Sample sizes
    count in units that hold ``degrees`` free entries of a row, so :math:`\hat Q = (\alpha/\mathrm{degrees})\,E\sum_l
    g_l g_l^T`.
    """

    dimension = former("dimension", "mmse_dimension")
    moment = former("moment", "self_overlap")

    @property
    def in_rows(self) -> Self:
        """Itself: it has rows already."""
        return self

    @property
    def overlap_shape(self) -> tuple[int, ...]:
        """Shape of an overlap in results: (P, P)."""
        return self.rows, self.rows

    @property
    def random_start(self) -> float:
        """Size of the random start that message passing on even labels needs, to leave what they are blind to."""
        return 1e-3

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``."""

    @property
    def degrees(self) -> float:
        """Free entries of a row per unit in which sample sizes are counted."""
        return 1.0

    @property
    @abstractmethod
    def mmse_dimension(self) -> float:
        """Degrees of freedom of all rows per natural sample size."""

    @property
    def diagonal(self) -> bool:
        r"""True when rows are denoised one by one, and the off-diagonal part of :math:`\hat Q` is neglected."""
        return False

    @property
    def rotational(self) -> bool:
        """True when rotated rows have the law of rows, so that a mixture of rows can be learned apart from others."""
        return False

    @property
    def symmetric(self) -> bool:
        """True when rows are symmetric matrices."""
        return False

    @property
    def stepwise(self) -> bool:
        """True when a denoiser finds its fixed point in several calls, from what it kept of the last one."""
        return False

    @property
    def side(self) -> float:
        """Precision with which every weight is known beforehand."""
        return 0.0

    def side_observation(self, signal: Array, rng: np.random.Generator) -> tuple[float, Array] | None:
        r"""Strength ``s`` and :math:`\sqrt s\,W` plus standard normal noise, known beforehand; None for nothing."""
        if self.side == 0:
            return None
        return self.side, np.sqrt(self.side) * signal + rng.standard_normal(signal.shape)

    @property
    def onset(self) -> float:
        r"""Largest :math:`\hat Q` of a row at which nothing is known of it."""
        return 0.0

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P); the overlap at posterior covariance ``V`` is this less V."""
        return np.eye(self.rows)

    def allowed(self, matrices: Array) -> Array:
        """The part of symmetric matrices that overlaps can have: all of it, unless rows never see each other."""
        return matrices

    @abstractmethod
    def covariance(self, q_hat: Integral) -> Integral:
        r"""Posterior covariance ``V``, shape (batch, P, P), from :math:`\hat Q` and its error, of that shape."""

    @abstractmethod
    def profile(self, points: int) -> tuple[Array, Array]:
        """Precisions of a row seen apart from the others, from almost none to almost all, and its variances there."""

    @abstractmethod
    def entropy(self, q_hat: Array, variance: Array) -> Integral:
        r"""Prior part of the free entropy, :math:`\Psi(\hat Q) - \mathrm{Tr}\,Q\hat Q/2`, shape (batch,)."""

    @abstractmethod
    def sample(self, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Draw one signal; ``shape`` is (P, ...)."""

    @abstractmethod
    def mean(self, shape: tuple[int, ...]) -> Array:
        """The estimate before any data."""

    @abstractmethod
    def denoise(self, field: Array, precision: Array, memory: Any = None) -> Estimate:
        r"""Posterior mean from natural parameters ``field`` :math:`A Y` and ``precision`` ``A``, shape (P, P)."""

    def mix(self, old: Estimate, new: Estimate, weight: float) -> Estimate:
        """The estimate ``weight * old + (1 - weight) * new`` that a damped iteration goes on with."""
        return replace(new, signal=weight * old.signal + (1 - weight) * new.signal)

    def power_deviation(self, shape: tuple[int, ...]) -> float:
        """Standard deviation of the power of a row of finite size around its limit 1."""
        return float(np.sqrt(2 / np.prod(shape[1:])))

    @abstractmethod
    def gram(self, first: Array, second: Array) -> Array:
        """Inner products of rows, shape (P, P), in the unit in which errors and overlaps are counted."""
