r"""What a prior must provide: what those of one row and of several share, and overlaps that are matrices over rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array, Estimate


@dataclass(frozen=True)
class SignalEstimate:
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


@dataclass(frozen=True)
class Side:
    r"""Side information: what is known beforehand is :math:`\sqrt s\,W` plus standard normal noise.

    Attributes:
        strength: :math:`s`.
        observation: shape (P, ...).
    """

    strength: float
    observation: Array


class SignalPrior(ABC):
    """What priors of one row, whose overlaps are numbers, and of several, whose overlaps are matrices, both declare.

    Around its mean every row has unit power. Sample sizes count in units that hold ``degrees`` free entries of a row.
    """

    overlap_shape = default_property((), "Shape of an overlap in results: empty for numbers, (P, P) for matrices.")
    degrees = default_property(1.0, "Free entries of a row per unit in which sample sizes are counted.")
    symmetric = default_property(False, "True when rows are symmetric matrices.")
    stepwise = default_property(
        False, "True when a denoiser finds its fixed point in several calls, from what it kept."
    )
    weak_recovery_onset = default_property(
        0.0, r"Largest :math:`\hat q`, or :math:`\hat Q` of a row, at which nothing is known of it."
    )
    side = default_property(0.0, "Precision with which every weight is known beforehand.")
    whitens = default_property(False, "True when inputs are drawn as features divided by the root of their covariance.")

    @property
    @abstractmethod
    def mmse_dimension(self) -> float:
        r"""Degrees of freedom per natural sample size, :math:`\lim_{\hat q\to\infty} \hat q\,\mathrm{MMSE}(\hat q)`."""

    @abstractmethod
    def sample(self, shape: tuple[Any, ...], rng: np.random.Generator) -> Array:
        """Draw one signal of the given shape, (L, d) or (P, ...)."""

    def mean(self, shape: tuple[Any, ...]) -> Array:
        """The estimate before any data; its error is 1."""
        return np.zeros(shape)

    @abstractmethod
    def denoise(self, field: Array, precision: Any, memory: Any = None) -> SignalEstimate:
        r"""Posterior mean from ``field`` :math:`A Y`, :math:`Y = S + A^{-1/2}Z`, and ``precision`` ``A``."""

    def mix(self, old: SignalEstimate, new: SignalEstimate, weight: float) -> SignalEstimate:
        """The estimate ``weight * old + (1 - weight) * new`` that a damped iteration goes on with."""
        return replace(new, signal=weight * old.signal + (1 - weight) * new.signal)

    def power_deviation(self, shape: tuple[Any, ...]) -> float:
        """Standard deviation of the power of a row of finite size around its limit 1."""
        return float(np.sqrt(2 / np.prod(shape[bool(self.overlap_shape) :])))

    def side_observation(self, signal: Array, rng: np.random.Generator) -> Side | None:
        """What is known beforehand of a signal; None for nothing."""
        if self.side == 0:
            return None
        return Side(self.side, np.sqrt(self.side) * signal + rng.standard_normal(signal.shape))


class Prior(SignalPrior):
    r"""A prior of ``P`` rows seen through its denoising problem at the precision matrix :math:`\hat Q`, shape (P, P).

    The posterior covariance is the identity before any data, and :math:`\hat Q = (\alpha/\mathrm{degrees})\,E\sum_l
    g_l g_l^T`.
    """

    random_start = default_property(
        1e-3, "Size of the random start of message passing on labels that are blind to signs."
    )
    diagonal = default_property(False, "True when every row has a prior of its own, and none is a weight vector.")
    second_order = default_property(
        False, r"True when the off-diagonal part of :math:`\hat Q` counts to second order alone."
    )
    rotational = default_property(
        False,
        "True when rotated rows have the law of rows, so that a mixture of rows can be learned apart from others.",
    )
    growth = default_property(1.0, r"Overlap of an unknown row per unit of a small :math:`\hat Q`.")

    @property
    def in_rows(self) -> Self:
        """Itself: it has rows already."""
        return self

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``."""

    @property
    def overlap_shape(self) -> tuple[int, ...]:
        return self.rows, self.rows

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P); the overlap at posterior covariance ``V`` is this less V."""
        return np.eye(self.rows)

    def allowed(self, matrices: Array) -> Array:
        """The part of symmetric matrices that overlaps can have: all of it, unless rows never see each other."""
        return matrices

    @abstractmethod
    def covariance(self, q_hat: Estimate) -> Estimate:
        r"""Posterior covariance ``V``, shape (batch, P, P), from :math:`\hat Q` and its error, of that shape."""

    @abstractmethod
    def profile(self, points: int) -> tuple[Array, Array]:
        """Precisions of a row seen apart from the others, from almost none to almost all, and its variances there."""

    @abstractmethod
    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        r"""Prior part of the free entropy, :math:`\Psi(\hat Q) - \mathrm{Tr}\,Q\hat Q/2`, shape (batch,)."""

    @abstractmethod
    def gram(self, first: Array, second: Array) -> Array:
        """Inner products of rows, shape (P, P), in the unit in which errors and overlaps are counted."""
