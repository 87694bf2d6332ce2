"""The bilinear prior at fixed width, whose two factors are estimated separately: Gaussian factors and any law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.settings import positive_integer
from glassformer.numerics.decompositions import svd
from glassformer.numerics.quasi_random import mean_and_error
from glassformer.priors.base import SignalEstimate
from glassformer.priors.bilinear import LowWidthPrior
from glassformer.priors.law import Law
from glassformer.priors.laws import Gaussian

# Size of the spectral start relative to a factor of unit variance (chosen by trial).
_SPECTRAL_SIZE = 0.3
# Range and number of the precisions at which a single weight is tabulated. Interpolation has a relative error of
# _INTERPOLATION. The table ends where the variance is below _NOTHING.
_PRECISIONS, _POINTS = (1e-4, 1e10), 320
_NOTHING, _INTERPOLATION = 1e-30, 1e-9
# Relative decrease of the sample ratio along the curve that is more than rounding: a fold (a convention).
_FOLD = 1e-9
# Largest number of factors for which equal overlaps were checked.
_WIDEST = 2


class Factors(NamedTuple):
    """Estimated factors, shapes (L, r) and (d, r), and their posterior covariances, shape (r, r)."""

    left: Array
    right: Array
    left_covariance: Array
    right_covariance: Array


@dataclass(frozen=True)
class FactorPrior(LowWidthPrior):
    r""":math:`S = U V^T/\sqrt r` with ``r`` fixed while ``L`` and ``d`` grow.

    Its theory is that of vanishing width. Its denoiser keeps the two factors and updates one from the other
    (rank-``r`` approximate message passing), so that, unlike a denoiser that sees the observation only, it has a
    memory and an Onsager coefficient of its own.

    Args:
        beta: :math:`L/d`, finite and positive.
        width: ``r``.

    Raises:
        ParameterError: an argument is out of range.

    Source: Erba et al., arXiv:2410.18858 (low-width limit).

    Example:
        >>> FactorPrior(beta=1.0, width=2).sample((30, 30), np.random.default_rng(0)).shape
        (30, 30)
    """

    width: int = 1

    stepwise = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if np.isinf(self.beta):
            raise ParameterError("beta", self.beta, "finite when width is given")
        positive_integer("width", self.width)

    def factor_width(self, columns: int) -> int:
        del columns
        return self.width

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        """Draw ``S`` of shape ``(L, d)``."""
        length, dimension = shape
        left, right = rng.standard_normal((length, self.width)), rng.standard_normal((dimension, self.width))
        return np.asarray(left @ right.T / np.sqrt(self.width))

    def power_deviation(self, shape: tuple[int, int]) -> float:
        r"""Return the standard deviation of :math:`\|S\|_F^2/(dL)` around 1 at finite size."""
        return float(np.sqrt(2 * (1 / shape[0] + 1 / shape[1]) / self.width))

    def mix(self, old: SignalEstimate, new: SignalEstimate, weight: float) -> SignalEstimate:
        """Damp the factors, so that signal and memory remain consistent."""
        if old.memory is None or new.memory is None:
            return new
        mixed = Factors(*(weight * a + (1 - weight) * b for a, b in zip(old.memory, new.memory, strict=True)))
        return replace(new, signal=self._product(mixed).reshape(new.signal.shape), memory=mixed)

    def _product(self, factors: Factors) -> Array:
        return factors.left @ factors.right.T / np.sqrt(self.width)

    def denoise(self, field: Array, precision: float, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        r"""Update both factors once from the natural parameters ``field`` :math:`= A Y` and ``precision`` ``A``.

        .. math:: U' = [Y V/\sqrt r - (\kappa d/r)\,U C_V]\,C_U', \quad C_U' = (I + \kappa V^TV/r)^{-1}, \quad
           V' = [Y^T U'/\sqrt r - (\kappa L/r)\,V C_U']\,C_V', \quad C_V' = (I + \kappa U'^TU'/r)^{-1},

        with ``Y`` the field and :math:`\kappa` the precision. Without memory the factors start from the leading
        singular vectors of the field.
        """
        length, dimension = field.shape
        r, kappa = self.width, precision
        if memory is None:
            memory = self._spectral_start(field)
        left, right, _, right_cov = memory
        new_left, new_left_cov = self._rows(
            field @ right / np.sqrt(r) - kappa * dimension / r * left @ right_cov, kappa / r * right.T @ right
        )
        overlap_left = new_left.T @ new_left / length
        new_right, new_right_cov = self._rows(
            field.T @ new_left / np.sqrt(r) - kappa * length / r * right @ new_left_cov,
            kappa * length / r * overlap_left,
        )
        overlap_right = new_right.T @ new_right / dimension
        crossed = np.trace(overlap_left @ new_right_cov)
        onsager = np.trace(right.T @ new_right @ new_left_cov) / dimension + crossed
        variance = crossed + np.trace(overlap_right @ new_left_cov) + np.trace(new_left_cov @ new_right_cov)
        factors = Factors(new_left, new_right, new_left_cov, new_right_cov)
        return SignalEstimate(self._product(factors), float(variance / r), float(onsager / r), factors)

    def _rows(self, field: Array, precision: Array) -> tuple[Array, Array]:
        """Return the posterior means of the rows of a factor, shape (n, r), and their mean covariance, shape (r, r)."""
        covariance = np.asarray(np.linalg.inv(np.eye(self.width) + precision), dtype=float)
        return field @ covariance, covariance

    def _spectral_start(self, field: Array) -> Factors:
        u, _, v = svd(field)
        left = _SPECTRAL_SIZE * np.sqrt(field.shape[0]) * u[:, : self.width]
        right = _SPECTRAL_SIZE * np.sqrt(field.shape[1]) * v[: self.width].T
        return Factors(left, right, np.eye(self.width), np.eye(self.width))


@dataclass(frozen=True)
class SeparableFactorPrior(FactorPrior):
    r""":math:`S = UV^T/\sqrt r` with ``r`` fixed, and independent entries of both factors of a law of your own.

    A noisy observation of all of ``S`` is one of the rows of ``U`` with the precision :math:`(x/\beta)\,Q_V`, and of
    those of ``V`` with :math:`x\,Q_U`, where :math:`x = (1+\beta)\,\hat q` and :math:`Q` are overlaps of the factors.
    In the basis of the true columns these are multiples of the identity, and every entry is observed alone: with
    :math:`o(a)` the overlap of a single weight at precision ``a``,

    .. math:: q_U = o(a), \quad q_V = o(b), \quad a = \tfrac{x}{\beta}\,q_V, \quad b = x\,q_U, \quad q = q_Uq_V,

    so that :math:`b\,o(b) = \beta\,a\,o(a)`: ``a`` runs along the whole curve. With Gaussian entries,
    :math:`o(a) = a/(1+a)`, this is the closed form of :class:`~glassformer.priors.bilinear.LowWidthPrior`. With
    :math:`i(a)` the mutual information of a single weight,

    .. math:: I(\hat q) = \bigl[\tfrac x2\,(1-q_U)(1-q_V) + \beta\,i(a) + i(b)\bigr]/(1+\beta).

    Args:
        beta: :math:`L/d`, finite and positive.
        width: ``r``.
        law: of every entry, of mean zero and variance one.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the factors have two solutions at one :math:`\hat q` (a hard phase inside the prior), so that
            the MMSE is not a function of :math:`\hat q`.

    Source: derived here; checked against message passing in ``benchmarks/check_priors.py``.

    Example:
        >>> from glassformer.priors.laws import Rademacher
        >>> prior = SeparableFactorPrior(beta=1.0, width=1, law=Rademacher())
        >>> round(float(prior.mmse(np.array([1.0])).value[0]), 4)
        0.6175
    """

    law: Law = field(default_factory=Gaussian)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width > _WIDEST:
            raise IncompatibleError(
                f"width = {self.width} and prior = {self.law.label} exclude each other: overlaps of more than "
                f"{_WIDEST} factors that are not Gaussian have not been checked; use Gaussian factors"
            )
        self.law.validate(self.width)
        # A law with a hard phase is refused when the prior is created.
        _ = self._curve

    @property
    def mmse_dimension(self) -> float:
        return self.law.mmse_dimension

    @cached_property
    def _curve(self) -> _FactorCurve:
        return _factor_curve(self.law, self.beta)

    def mmse(self, q_hat: Array) -> Estimate:
        curve, u = self._curve, self._position(q_hat)
        low = u < curve.position[0]
        with np.errstate(over="ignore"):
            value = np.exp(curve.log_variance(np.maximum(u, curve.position[0])))
            first = 1 - (1 - np.exp(curve.log_variance(curve.position[0]))) * np.exp(2 * (u - curve.position[0]))
        value = np.where(low, first, value)
        relative = np.interp(u, curve.position, curve.error) + _INTERPOLATION
        return Estimate(value, np.where(np.isneginf(u), 0.0, relative * value))

    def mutual_information(self, q_hat: Array) -> Estimate:
        curve, u, half = self._curve, self._position(q_hat), 0.5 * np.asarray(q_hat, dtype=float)
        if self.mmse_dimension == 0:
            # The table of discrete weights ends at precisions at which they are known.
            u = np.minimum(u, curve.position[-1])
        start = curve.position[0]
        # Beyond the onset I falls behind q_hat/2 with the third power of the distance.
        behind = 0.5 * self.weak_recovery_onset * (1 + np.exp(start)) - curve.information(start)
        first = half - behind * np.exp(3 * np.minimum(u - start, 0.0))
        value = np.where(u < start, first, curve.information(np.maximum(u, start)))
        return Estimate(value, np.interp(u, curve.position, curve.information_error) + _INTERPOLATION * value)

    def _position(self, q_hat: Array) -> Array:
        r"""Return :math:`\log(x/\sqrt\beta - 1)`, which runs from minus to plus infinity beyond the onset."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.maximum(np.asarray(q_hat, dtype=float) / self.weak_recovery_onset - 1, 0.0)))

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        left, right = (self.law.sample((size, self.width), rng) for size in shape)
        return np.asarray(left @ right.T / np.sqrt(self.width))

    def power_deviation(self, shape: tuple[int, int]) -> float:
        kurtosis = self.law.fourth_moment - 1
        return float(np.sqrt(kurtosis * (1 / shape[0] + 1 / shape[1]) / self.width))

    def _rows(self, field: Array, precision: Array) -> tuple[Array, Array]:
        mean, covariance = self.law.posterior(field, precision)
        return mean, np.asarray(covariance.mean(axis=0))


class _FactorCurve(NamedTuple):
    r"""Error and information along the curve, against :math:`u = \log(x/\sqrt\beta - 1)`."""

    position: Array
    error: Array
    log_variance: Any
    information: Any
    information_error: Array


@lru_cache(maxsize=16)
def _factor_curve(law: Law, beta: float) -> _FactorCurve:
    weight = _weight_table(law)
    a = weight.precision
    log_gain = np.log(a * weight.overlap)
    # The other factor has b o(b) = beta a o(a); points outside the table are left out.
    wanted = log_gain + np.log(beta)
    inside = (wanted >= log_gain[0]) & (wanted <= log_gain[-1])
    a, wanted = a[inside], wanted[inside]
    log_b = scipy.interpolate.make_interp_spline(log_gain, np.log(weight.precision), k=5)(wanted)
    variances, information, errors, information_errors = [], [], [], []
    for log_precision in (np.log(a), log_b):
        variances.append(np.exp(weight.log_variance(log_precision)))
        information.append(weight.information(log_precision))
        errors.append(np.interp(log_precision, np.log(weight.precision), weight.error))
        information_errors.append(np.interp(log_precision, np.log(weight.precision), weight.information_error))
    first, second = variances
    x = np.exp(log_b) / (1 - first)
    # Points below the onset belong to a fold whose beginning is outside the table.
    if np.any(np.diff(x) < -_FOLD * x[1:]) or np.any(x <= np.sqrt(beta)):
        raise IncompatibleError(
            f"prior = {law.label} and a fixed width exclude each other at beta = {beta:g}: the factors have a hard "
            "phase of their own, for which no single error stands; take a law closer to Gaussian (less sparse), or the "
            "rows of a multi-index model"
        )
    u = np.log(x / np.sqrt(beta) - 1)
    rising = np.append(True, np.diff(u) > 0)
    variance = first + second - first * second
    shared = 0.5 * x * first * second
    total = (shared + beta * information[0] + information[1]) / (1 + beta)
    total_error = (shared * (errors[0] + errors[1]) + beta * information_errors[0] + information_errors[1]) / (1 + beta)
    return _FactorCurve(
        u[rising],
        np.maximum(errors[0], errors[1])[rising],
        scipy.interpolate.make_interp_spline(u[rising], np.log(variance)[rising], k=5),
        scipy.interpolate.make_interp_spline(u[rising], total[rising], k=5),
        total_error[rising],
    )


class _WeightTable(NamedTuple):
    """A single weight at tabulated precisions, with splines over their logarithm."""

    precision: Array
    overlap: Array
    error: Array
    log_variance: Any
    information: Any
    information_error: Array


@lru_cache(maxsize=16)
def _weight_table(law: Law) -> _WeightTable:
    precision = np.geomspace(*_PRECISIONS, _POINTS)
    variance, error, information, information_error = [], [], [], []
    for value in precision:
        found, uncertainty = _averaged(law, value, lambda b, a: law.posterior(b, a)[1][:, 0, 0])
        if found < _NOTHING:
            break
        variance.append(found)
        error.append(uncertainty / found)
        log_partition, uncertainty = _averaged(law, value, law.log_partition)
        information.append(0.5 * value - log_partition)
        information_error.append(uncertainty)
    precision, spread = precision[: len(variance)], np.array(variance)
    log_precision = np.log(precision)
    return _WeightTable(
        precision,
        1 - spread,
        np.array(error),
        scipy.interpolate.make_interp_spline(log_precision, np.log(spread), k=5),
        scipy.interpolate.make_interp_spline(log_precision, information, k=5),
        np.array(information_error),
    )


def _averaged(law: Law, precision: float, function: Callable[[Array, Array], Array]) -> tuple[float, float]:
    """Return the average of a function of field and precision of a single weight, and its error."""
    matrix = np.array([[precision]])
    value, error = mean_and_error(law.estimates(matrix, lambda field: function(field, matrix)))
    return float(value), float(error)
