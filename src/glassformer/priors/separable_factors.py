"""The bilinear prior at fixed width, with factors of any law."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
import scipy

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import mean_and_error
from glassformer.priors.factors import FactorPrior
from glassformer.priors.law import Law
from glassformer.priors.laws import Gaussian


@dataclass(frozen=True)
class Table:
    """How what is learned of a factor is tabulated."""

    precisions: tuple[float, float] = (1e-4, 1e10)  # the least and the largest
    points: int = 320  # in between
    nothing: float = 1e-30  # variance below which nothing is left to learn
    interpolation: float = 1e-9  # its relative error
    fold: float = 1e-9  # relative decrease of the sample ratio that is more than rounding
    widest: int = 2  # factors whose overlaps were checked to be alike


_POLICY = Table()


@dataclass(frozen=True)
class SeparableFactorPrior(FactorPrior):
    r""":math:`S = UV^T/\sqrt r` with ``r`` fixed, and independent entries of both factors of a law of your own.

    A noisy observation of all of ``S`` is one of the rows of ``U`` with the precision :math:`(x/\beta)\,Q_V`, and of
    those of ``V`` with :math:`x\,Q_U`, where :math:`x = (1+\beta)\,\hat q` and :math:`Q` are overlaps of the factors.
    In the basis of the true columns these are multiples of the identity, and every entry is observed alone: with
    :math:`o(a)` the overlap of a single weight at precision ``a``,

    .. math:: q_U = o(a), \quad q_V = o(b), \quad a = \tfrac{x}{\beta}\,q_V, \quad b = x\,q_U, \quad q = q_Uq_V,

    so that :math:`b\,o(b) = \beta\,a\,o(a)`: ``a`` runs along the whole curve. With Gaussian entries,
    :math:`o(a) = a/(1+a)`, this is the closed form of :class:`~glassformer.priors.limits.LowWidthPrior`. With
    :math:`i(a)` the mutual information of a single weight,

    .. math:: I(\hat q) = \bigl[\tfrac x2\,(1-q_U)(1-q_V) + \beta\,i(a) + i(b)\bigr]/(1+\beta).

    Args:
        beta: :math:`L/d`, finite and positive.
        width: ``r``.
        law: of every entry, of mean zero and variance one.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: a law whose factors are known to two degrees at one :math:`\hat q`: a hard phase inside the
            prior, for which no single MMSE stands.

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
        if self.width > _POLICY.widest:
            raise IncompatibleError(
                f"width = {self.width} and prior = {self.law.label} exclude each other: overlaps of more than "
                f"{_POLICY.widest} factors that are not Gaussian have not been checked; use Gaussian factors"
            )
        self.law.validate(self.width)
        # A law that cannot be used is refused now, not when the first number is asked for.
        _ = self._curve

    @property
    def mmse_dimension(self) -> float:
        return self.law.mmse_dimension

    @cached_property
    def _curve(self) -> _Curve:
        return _curve(self.law, self.beta)

    def mmse(self, q_hat: Array) -> Estimate:
        curve, u = self._curve, self._position(q_hat)
        low = u < curve.position[0]
        with np.errstate(over="ignore"):
            value = np.exp(curve.log_variance(np.maximum(u, curve.position[0])))
            first = 1 - (1 - np.exp(curve.log_variance(curve.position[0]))) * np.exp(2 * (u - curve.position[0]))
        value = np.where(low, first, value)
        relative = np.interp(u, curve.position, curve.error) + _POLICY.interpolation
        return Estimate(value, np.where(np.isneginf(u), 0.0, relative * value))

    def mutual_information(self, q_hat: Array) -> Estimate:
        curve, u, half = self._curve, self._position(q_hat), 0.5 * np.asarray(q_hat, dtype=float)
        if self.mmse_dimension == 0:
            # The table of discrete weights ends where nothing is left to learn.
            u = np.minimum(u, curve.position[-1])
        start = curve.position[0]
        # Beyond the onset I falls behind q_hat/2 with the third power of the distance.
        behind = 0.5 * self.weak_recovery_onset * (1 + np.exp(start)) - curve.information(start)
        first = half - behind * np.exp(3 * np.minimum(u - start, 0.0))
        value = np.where(u < start, first, curve.information(np.maximum(u, start)))
        return Estimate(value, np.interp(u, curve.position, curve.information_error) + _POLICY.interpolation * value)

    def _position(self, q_hat: Array) -> Array:
        r""":math:`\log(x/\sqrt\beta - 1)`, which runs from minus to plus infinity beyond the onset."""
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


class _Curve(NamedTuple):
    r"""Error and information along the curve, against :math:`u = \log(x/\sqrt\beta - 1)`."""

    position: Array
    error: Array
    log_variance: Any
    information: Any
    information_error: Array


@lru_cache(maxsize=16)
def _curve(law: Law, beta: float) -> _Curve:
    weight = _weight(law)
    a = weight.precision
    log_gain = np.log(a * weight.overlap)
    # The other factor sits where its own b o(b) is beta times that; kept inside the table.
    wanted = log_gain + np.log(beta)
    kept = (wanted >= log_gain[0]) & (wanted <= log_gain[-1])
    a, wanted = a[kept], wanted[kept]
    log_b = scipy.interpolate.make_interp_spline(log_gain, np.log(weight.precision), k=5)(wanted)
    variances, information, errors, blurs = [], [], [], []
    for log_precision in (np.log(a), log_b):
        variances.append(np.exp(weight.log_variance(log_precision)))
        information.append(weight.information(log_precision))
        errors.append(np.interp(log_precision, np.log(weight.precision), weight.error))
        blurs.append(np.interp(log_precision, np.log(weight.precision), weight.information_error))
    first, second = variances
    x = np.exp(log_b) / (1 - first)
    # Factors that are known below the onset belong to a fold as well, whose beginning the table does not reach.
    if np.any(np.diff(x) < -_POLICY.fold * x[1:]) or np.any(x <= np.sqrt(beta)):
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
    blur = (shared * (errors[0] + errors[1]) + beta * blurs[0] + blurs[1]) / (1 + beta)
    return _Curve(
        u[rising],
        np.maximum(errors[0], errors[1])[rising],
        scipy.interpolate.make_interp_spline(u[rising], np.log(variance)[rising], k=5),
        scipy.interpolate.make_interp_spline(u[rising], total[rising], k=5),
        blur[rising],
    )


class _Weight(NamedTuple):
    """A single weight at tabulated precisions, and between them against their logarithm."""

    precision: Array
    overlap: Array
    error: Array
    log_variance: Any
    information: Any
    information_error: Array


@lru_cache(maxsize=16)
def _weight(law: Law) -> _Weight:
    precision = np.geomspace(*_POLICY.precisions, _POLICY.points)
    variance, error, information, information_error = [], [], [], []
    for value in precision:
        found, blur = _averaged(law, value, lambda b, a: law.posterior(b, a)[1][:, 0, 0])
        if found < _POLICY.nothing:
            break
        variance.append(found)
        error.append(blur / found)
        log_partition, blur = _averaged(law, value, law.log_partition)
        information.append(0.5 * value - log_partition)
        information_error.append(blur)
    precision, spread = precision[: len(variance)], np.array(variance)
    log_precision = np.log(precision)
    return _Weight(
        precision,
        1 - spread,
        np.array(error),
        scipy.interpolate.make_interp_spline(log_precision, np.log(spread), k=5),
        scipy.interpolate.make_interp_spline(log_precision, information, k=5),
        np.array(information_error),
    )


def _averaged(law: Law, precision: float, function: Callable[[Array, Array], Array]) -> tuple[float, float]:
    """Average of a function of field and precision of a single weight, and its error."""
    matrix = np.array([[precision]])
    value, error = mean_and_error(law.estimates(matrix, lambda field: function(field, matrix)))
    return float(value), float(error)
