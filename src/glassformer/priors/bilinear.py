r"""The bilinear prior :math:`S = U V^T/\sqrt r` with its Bayes-optimal denoiser, and limits with closed forms.

Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import positive
from glassformer.priors.base import ScalarPrior, SignalEstimate
from glassformer.priors.spectral import SpectralPrior
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold
from glassformer.random_matrices.rectangular import RectangularLaw


@dataclass(frozen=True)
class BilinearPrior(SpectralPrior):
    r""":math:`S = U V^T/\sqrt r`, ``U`` of shape (L, r), ``V`` of shape (d, r), independent standard normal entries.

    The denoising problem is to estimate ``S`` from :math:`Y = S + \sqrt R\,Z` with :math:`R = 1/\hat q` and standard
    normal ``Z``. The Bayes-optimal denoiser of bilinear sequence regression is rotationally invariant: it keeps the
    singular vectors of ``Y`` and shrinks each singular value ``s`` of :math:`Y/(dL)^{1/4}` to

    .. math:: \hat s = s - \frac{2R}{\sqrt\beta}\Bigl[\frac{\beta-1}{2s} + h(s)\Bigr], \qquad
        h(s) = \mathrm{P}\!\!\int\frac{\mu(x)}{s - x}\,dx , \qquad \beta \ge 1

    (for :math:`\beta<1` transpose). :math:`\mu` is the symmetrised asymptotic density of the singular values of
    :math:`Y/(dL)^{1/4}`, and ``h`` its Hilbert transform. The denoiser needs the spectrum of the noisy matrix only. For
    Gaussian factors its Stieltjes transform solves a quartic equation, which
    :class:`~glassformer.random_matrices.rectangular.RectangularLaw` solves: :meth:`noisy_law` returns this law, its
    ``denoise`` the formula above and its ``mmse`` the error.
    :meth:`~glassformer.priors.spectral.SpectralPrior.denoise` applies the formula to a matrix.

    Args:
        beta: :math:`L/d`, finite and positive.
        rho: :math:`r/d`, finite and positive.

    Raises:
        ParameterError: an argument is out of range.

    Source: Erba et al., arXiv:2410.18858 (Bayes-optimal error and GAMP-RIE).

    Example:
        >>> prior = BilinearPrior(beta=2.0, rho=0.5)
        >>> transposed = BilinearPrior(beta=0.5, rho=0.25)
        >>> bool(np.allclose(prior.mmse(np.array([3.0])).value, transposed.mmse(np.array([3.0])).value))
        True
        >>> round(prior.mmse_dimension, 3)  # rho (1 + beta - rho) / beta
        0.625
        >>> law, s = prior.noisy_law(np.array([0.1])), np.array([1.0])
        >>> shrunk = s - 2 * 0.1 / np.sqrt(2.0) * ((2.0 - 1) / (2 * s) + law.hilbert(s))
        >>> bool(np.isclose(law.denoise(s)[0], shrunk[0]))
        True
    """

    beta: float
    rho: float

    def __post_init__(self) -> None:
        positive("beta", self.beta)
        positive("rho", self.rho)

    @property
    def mmse_dimension(self) -> float:
        return self.rho * (1 + self.beta - self.rho) / self.beta if self.rho < min(1.0, self.beta) else 1.0

    @property
    def shape_ratio(self) -> float:
        return self.beta

    @property
    def convex_dimension(self) -> float:
        return nuclear_norm_threshold(self.beta, self.rho)

    @property
    def rank(self) -> float:
        return min(1.0, self.rho / min(1.0, self.beta))

    def noisy_law(self, noise: Array) -> RectangularLaw:
        return RectangularLaw(self.beta, self.rho, noise)

    def of_width(self, rho: float) -> BilinearPrior:
        return BilinearPrior(self.beta, rho)

    def factor_width(self, columns: int) -> int:
        return max(1, round(self.rho * columns))

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``S`` of shape ``(L, d)`` with width ``round(rho * d)``, at least one."""
        length, dimension = shape
        width = self.factor_width(dimension)
        left, right = rng.standard_normal((length, width)), rng.standard_normal((dimension, width))
        return left @ right.T / np.sqrt(width)

    def power_deviation(self, shape: tuple[int, int]) -> float:
        return float(np.sqrt(2 * (1 / shape[0] + 1 / shape[1]) / self.factor_width(shape[1])))


def exact(value: Array) -> Estimate:
    """Return a closed form, with its rounding error."""
    return Estimate(value, 4e-16 * np.abs(value))


@dataclass(frozen=True)
class GaussianMatrixPrior(ScalarPrior):
    r"""Width :math:`\rho\to\infty`: independent Gaussian entries, :math:`\mathrm{MMSE} = 1/(1+\hat q)`.

    Example:
        >>> float(GaussianMatrixPrior().mmse(np.array([3.0])).value[0])
        0.25
    """

    instead: ClassVar[str] = "give finite rho > 0 instead of rho = inf"
    mmse_dimension = 1.0
    rank = 1.0

    def mmse(self, q_hat: Array) -> Estimate:
        return exact(1 / (1 + np.asarray(q_hat, dtype=float)))

    def mutual_information(self, q_hat: Array) -> Estimate:
        return exact(0.5 * np.log1p(np.asarray(q_hat, dtype=float)))

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        return rng.standard_normal(shape)

    def denoise(self, field: Array, precision: float, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        del memory
        known = 1 / (1 + precision)
        return SignalEstimate(known * field, known, known)


@dataclass(frozen=True)
class LongSequencePrior(ScalarPrior):
    r"""Sequences much longer than tokens, :math:`\beta\to\infty` at fixed :math:`\rho = r/d`.

    With :math:`D = 1/\hat q` and :math:`b = 1 + \rho + \rho D`,
    :math:`\mathrm{MMSE} = 2\rho D/(b + \sqrt{b^2 - 4\rho})`.

    Args:
        rho: width ratio, finite and positive.

    Raises:
        ParameterError: ``rho`` is out of range.

    Example:
        >>> float(LongSequencePrior(rho=0.5).mmse(np.array([np.inf])).value[0])
        0.0
    """

    instead: ClassVar[str] = "give finite beta instead of beta = inf"
    shape_ratio = np.inf

    rho: float

    def __post_init__(self) -> None:
        positive("rho", self.rho)

    @property
    def mmse_dimension(self) -> float:
        return min(self.rho, 1.0)

    @property
    def rank(self) -> float:
        return min(self.rho, 1.0)

    def mmse(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        # Multiplied through by q_hat/(1 + q_hat), so that both ends of [0, inf] are ordinary numbers.
        rest = 1 / (1 + q_hat)
        with np.errstate(invalid="ignore"):
            share = np.where(np.isinf(q_hat), 1.0, q_hat * rest)
        b = (1 + self.rho) * share + self.rho * rest
        return exact(2 * self.rho * rest / (b + np.sqrt(np.maximum(b * b - 4 * self.rho * share**2, 0.0))))


@dataclass(frozen=True)
class LowWidthPrior(ScalarPrior):
    r"""Low width: :math:`\rho\to 0`, or any finite width.

    The sample ratio is :math:`\alpha_{LR} = n/(r(L+d))`. The two factors have overlaps

    .. math:: q_U = \frac{x^2-\beta}{x\,(x+\beta)}, \quad q_V = \frac{x^2-\beta}{x\,(x+1)}, \quad x = (1+\beta)\,\hat q,

    zero for :math:`x^2 \le \beta`, and the matrix has :math:`q = q_U q_V`; for :math:`\beta\to\infty`,
    :math:`q = \hat q/(1+\hat q)`.

    Args:
        beta: aspect ratio :math:`L/d > 0`, or infinity; ``beta`` and ``1/beta`` give the same overlap.

    Raises:
        ParameterError: ``beta`` is out of range.

    Example:
        >>> LowWidthPrior(beta=1.0).weak_recovery_onset
        0.5
        >>> float(LowWidthPrior(beta=1.0).mmse(np.array([0.5])).value[0])
        1.0
    """

    beta: float

    extensive = False

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise ParameterError("beta", self.beta, "> 0, or infinity")

    @property
    def weak_recovery_onset(self) -> float:
        return 0.0 if np.isinf(self.beta) else float(np.sqrt(self.beta) / (1 + self.beta))

    @property
    def mmse_dimension(self) -> float:
        return 1.0

    def factor_overlaps(self, q_hat: Array) -> tuple[Array, Array]:
        """Return ``q_U`` and ``q_V`` for finite ``beta``, same shape as ``q_hat``."""
        x = np.maximum((1 + self.beta) * np.asarray(q_hat, dtype=float), np.sqrt(self.beta))
        # Divided through by x^2: finite at x = infinity.
        gain = 1 - self.beta / x**2
        return gain / (1 + self.beta / x), gain / (1 + 1 / x)

    def mmse(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        if np.isinf(self.beta):
            return exact(1 / (1 + q_hat))
        x = np.maximum((1 + self.beta) * q_hat, np.sqrt(self.beta))
        t = 1 / x
        # 1 - q_U q_V over a common denominator, without the cancellation of that difference at large q_hat.
        value = ((1 + self.beta) * t + 3 * self.beta * t**2 - (self.beta * t**2) ** 2) / ((1 + t) * (1 + self.beta * t))
        return exact(np.where(x**2 <= self.beta, 1.0, value))

    def mutual_information(self, q_hat: Array) -> Estimate:
        q_hat = np.asarray(q_hat, dtype=float)
        if np.isinf(self.beta):
            return exact(0.5 * np.log1p(q_hat))
        beta, start = self.beta, np.sqrt(self.beta)
        x = np.maximum((1 + beta) * q_hat, start)

        def integral(x: Array) -> Array:
            return x - beta / x - (1 + beta) * np.log(x) + (beta - 1) * np.log((x + 1) / (x + beta))

        return exact(0.5 * (q_hat - (integral(x) - integral(start)) / (1 + beta)))


def bilinear_prior(beta: float, rho: float) -> ScalarPrior:
    """Return the prior of a product of factors at these ratios, limits included.

    Example:
        >>> bilinear_prior(1.0, 0.5), bilinear_prior(1.0, np.inf)
        (BilinearPrior(beta=1.0, rho=0.5), GaussianMatrixPrior())
    """
    if rho == 0:
        return LowWidthPrior(beta)
    if np.isinf(rho):
        return GaussianMatrixPrior()
    return LongSequencePrior(rho) if np.isinf(beta) else BilinearPrior(beta, rho)
