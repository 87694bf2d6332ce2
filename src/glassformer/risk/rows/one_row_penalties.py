r"""Penalties on one row of weights: ridge, lasso and elastic net, and the estimate that they make.

The estimate of one weight is the soft threshold of the weight seen through noise, :math:`w = \kappa\,
\mathrm{soft}(w^* + \tau\xi, \theta)`. Its moments are closed forms for weights from mixtures of Gaussians and points,
and quadratures for any other law.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.risk.penalties import STRONG_RIDGE, ConjugateParameters, OrderParameters, Penalty

# Standard deviations of a weight seen through noise beyond which no weight survives a threshold (a convention).
_FARTHEST = 6.0
# Thresholds in units of the noise, among which the best one is.
_THRESHOLDS = (0.0, 12.0)
_ROUNDING = 4e-16
# Quadrature over a weight of any law seen through noise: Gauss nodes of two rules, panels at most, drawn weights, the
# factor by which the law reaches farther than these, and standard deviations of the noise beyond it.
_NODES, _MOST_PANELS, _DRAWN, _FARTHER, _REACH = (8, 10), 4000, 4096, 3.0, 9.0


class WeightMoments(NamedTuple):
    r"""Averages over the weights of one row, shape (batch,).

    Attributes:
        order: order parameters.
        response_square: :math:`E(dw/db)^2`.
        penalty: :math:`E\,r(w)`.
    """

    order: OrderParameters
    response_square: Array
    penalty: Array


@dataclass(frozen=True)
class WeightPenalty(Penalty):
    r"""The penalty :math:`r(w) = w_1|w| + \frac{w_2}2w^2` on every weight of a row.

    On features of covariance :math:`\Sigma` the penalty is on the weights themselves, :math:`r(w_i)` in the basis in
    which :math:`\Sigma` is diagonal, while order parameters are those of :math:`W\Sigma^{1/2}`, which labels see.

    Attributes:
        spectral: :math:`w_1`.
        square: :math:`w_2`.
    """

    spectral: float
    square: float

    # Some of infinitely many weights exceed any threshold.
    reaches_zero = False

    def order_parameters(self, prior: Any, strength: Array, conjugate: ConjugateParameters) -> OrderParameters:
        return self.moments(prior, strength, conjugate).order

    def moments(self, prior: Any, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
        r"""Return the order parameters, and the averages that stability and free energy need.

        Args:
            prior: of the teacher's row.
            strength: :math:`\lambda\\ge 0`, shape (batch,).
            conjugate: conjugate parameters.
        """
        components = prior.weight_components
        if components is None:
            return self._by_quadrature(prior.law, strength, conjugate)
        return self._closed_form(components, strength, conjugate)

    def _closed_form(self, components: Any, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
        r"""Return moments over a mixture.

        A component of mean :math:`\mu` and variance :math:`\sigma^2` is seen as :math:`y \sim N(\mu, S)`,
        :math:`S = \sigma^2 + \tau^2`, and then estimated as :math:`\mu + c\,(y - \mu)`, :math:`c = \sigma^2/S`. The
        error is the sum of the posterior variance and the squared distance of both estimates.
        """
        weight, mean, own, scale = (np.asarray(part)[:, None] for part in components)
        tau, m_hat = conjugate.noise, conjugate.m_hat
        stiffness = conjugate.v_hat + self.square * strength / scale
        gain, total = m_hat / stiffness, own + tau
        share, rest = own / total, tau / total
        theta = self.spectral * strength / np.sqrt(scale) / m_hat
        upper, lower = _tail(mean - theta, total), _tail(-mean - theta, total)
        active = upper.probability + lower.probability
        first, second = upper.first - lower.first, upper.second + lower.second
        error = own * rest
        for tail, sign in ((upper, 1.0), (lower, -1.0)):
            # On either side of the threshold the estimate is off by A (|y| - theta) + B.
            slope, offset = gain - share, -share * theta - sign * rest * mean
            error = error + slope**2 * tail.second + 2 * slope * offset * tail.first + offset**2 * tail.probability
        error = error + _middle(mean, total, theta, share)

        def average(values: Array) -> Array:
            return np.asarray(np.sum(weight * values, axis=0))

        found = average(error)
        order = OrderParameters(
            overlap=average(gain * (mean * first + own * active)),
            power=average(gain**2 * second),
            susceptibility=average(active / stiffness),
            error=found,
            degrees=average(active),
            rank=average(active),
            error_estimate=_ROUNDING * found,
        )
        size = average(gain * (upper.first + lower.first) / np.sqrt(scale))
        square = average(gain**2 * second / scale)
        penalty = self.spectral * size + 0.5 * self.square * square
        return WeightMoments(order, average(active / stiffness**2), penalty)

    def _by_quadrature(self, law: Any, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
        """Return moments over any law, from its averages over fields, one point at a time."""
        rows = [
            self._averages(law, *point)
            for point in zip(strength, conjugate.noise, conjugate.m_hat, conjugate.v_hat, strict=True)
        ]
        value, error = (np.array(part).T for part in zip(*rows, strict=True))
        overlap, power, active, total, size, square = value
        stiffness = conjugate.v_hat + self.square * strength
        order = OrderParameters(overlap, power, active / stiffness, total, active, active, error[3])
        return WeightMoments(order, active / stiffness**2, self.spectral * size + 0.5 * self.square * square)

    def _averages(self, law: Any, strength: float, noise: float, m_hat: float, v_hat: float) -> tuple[Array, Array]:
        """Return averages at one point, and their errors: the difference of two rules, and the mass they miss."""
        stiffness, precision = v_hat + self.square * strength, np.array([[1 / noise]])
        gain, theta = m_hat / stiffness, self.spectral * strength / m_hat
        edges, rules = _panel_edges(law, float(np.sqrt(noise)), theta), []
        for nodes in _NODES:
            seen, weight = gauss_panels(edges, nodes)
            field = (seen / noise)[:, None]
            log_density = law.log_partition(field, precision) - 0.5 * seen**2 / noise
            weight = weight * np.exp(log_density) / np.sqrt(2 * np.pi * noise)
            mean, covariance = law.posterior(field, precision)
            true, estimate = mean[:, 0], gain * np.sign(seen) * np.maximum(np.abs(seen) - theta, 0.0)
            error = covariance[:, 0, 0] + (estimate - true) ** 2
            size, active = np.abs(estimate), np.abs(seen) > theta
            rules.append(
                np.array(
                    [weight @ part for part in (estimate * true, size**2, active, error, size, size**2, 1.0 + 0 * seen)]
                )
            )
        coarse, fine = rules
        return fine[:-1], np.abs(fine - coarse)[:-1] + abs(fine[-1] - 1)

    def largest_strength(self, prior: Any, conjugate: ConjugateParameters) -> Array:
        if self.spectral == 0:
            return np.asarray(STRONG_RIDGE * conjugate.m_hat / self.square)
        return np.asarray(_FARTHEST * conjugate.m_hat * np.sqrt(1 + conjugate.noise) / self.spectral)

    def exact_dimension(self, prior: Any) -> float | None:
        """Return exact labels per unknown that recovery needs.

        For the lasso it is the statistical dimension of the descent cone of the sum of absolute values, which depends
        on the share of weights that are not zero alone (Donoho and Tanner).
        """
        if self.spectral == 0:
            return 1.0
        if self.square > 0 or prior.weight_components is None:
            return None
        weights, means, variances, scales = prior.weight_components
        if np.ptp(scales) > 0:
            return 1.0
        zero = float(np.sum(weights[(means == 0) & (variances == 0)]))

        def dimension(threshold: float) -> float:
            return (1 - zero) * (1 + threshold**2) + zero * 2 * float(_tail(-threshold, 1.0).second)

        return float(minimize_scalar(dimension, bounds=_THRESHOLDS, method="bounded", options={"xatol": 1e-10}).fun)


def _panel_edges(law: Any, deviation: float, theta: float) -> Array:
    """Return panels of the weight seen through noise, as narrow as the noise, with ends at the threshold."""
    drawn = law.sample((_DRAWN,), np.random.default_rng(0))
    reach = _FARTHER * float(np.max(np.abs(drawn))) + _REACH * deviation
    count = int(np.clip(np.ceil(2 * reach / deviation), 64, _MOST_PANELS))
    cuts = [cut for cut in (-theta, theta) if abs(cut) < reach]
    return np.unique(np.concatenate([np.linspace(-reach, reach, count + 1), cuts]))


class _Tail(NamedTuple):
    """Probability of a normal variable above zero, and the first two moments of its positive part."""

    probability: Any
    first: Any
    second: Any


def _tail(mean: Any, variance: Any) -> _Tail:
    deviation = np.sqrt(variance)
    ratio = mean / deviation
    probability, density = ndtr(ratio), np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    # The terms cancel far below zero.
    first = np.maximum(mean * probability + deviation * density, 0.0)
    second = np.maximum((mean**2 + variance) * probability + mean * deviation * density, 0.0)
    return _Tail(probability, first, second)


def _middle(mean: Array, variance: Array, theta: Array, share: Array) -> Array:
    r"""Return :math:`E[(c\,y + (1-c)\mu)^2;\,|y| < \theta]` for :math:`y \sim N(\mu, S)`."""
    deviation = np.sqrt(variance)
    low, high = (-theta - mean) / deviation, (theta - mean) / deviation
    # Of the two tails that leave the same probability the smaller ones have no rounding errors.
    flip = low > 0
    probability = np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    density = [np.exp(-0.5 * end**2) / np.sqrt(2 * np.pi) for end in (low, high)]
    # With y = mu + sqrt(S) x the estimate is mu + c sqrt(S) x.
    first = density[0] - density[1]
    second = probability + low * density[0] - high * density[1]
    size = share * deviation
    return np.asarray(np.maximum(mean**2 * probability + 2 * mean * size * first + size**2 * second, 0.0))


WEIGHT_PENALTIES: dict[str, WeightPenalty] = {
    "ridge": WeightPenalty(0.0, 1.0),
    "lasso": WeightPenalty(1.0, 0.0),
    "elastic": WeightPenalty(0.5, 0.5),
}


def weight_penalty(name: object) -> WeightPenalty:
    """Return the penalty of this name.

    Raises:
        ParameterError: the name is unknown.

    Example:
        >>> weight_penalty("lasso")
        WeightPenalty(spectral=1.0, square=0.0)
    """
    if not (isinstance(name, str) and name in WEIGHT_PENALTIES):
        raise ParameterError("penalty", name, f"for one row one of {', '.join(WEIGHT_PENALTIES)}")
    return WEIGHT_PENALTIES[name]
