r"""The estimate that a penalty makes of one row of weights, and its averages.

The estimate of one weight is the proximal map of the penalty, applied to the weight seen through noise,
:math:`w^* + \tau\xi`. For ridge, lasso and elastic net it is the soft threshold :math:`w = \kappa\,\mathrm{soft}(w^* +
\tau\xi, \theta)`, whose moments are closed forms for weights from mixtures of Gaussians and points. Other penalties and
laws have quadratures.

On features of covariance :math:`\Sigma` the penalty is on the weights themselves, :math:`r(w_i)` in the basis in which
:math:`\Sigma` is diagonal, while order parameters are those of :math:`W\Sigma^{1/2}`, which labels see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels
from glassformer.priors.law import Law
from glassformer.priors.rows import WeightComponents, WeightRowsPrior
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.penalty_base import Penalty

# Thresholds in units of the noise, among which the best one is.
_THRESHOLDS = (0.0, 12.0)
_ROUNDING = 4e-16
# Quadrature over a weight seen through noise: Gauss nodes of two rules, panels at most, drawn weights, the factor by
# which the law reaches farther than these, and standard deviations of the noise beyond it. Panels of a Gaussian.
_NODES, _MOST_PANELS, _DRAWN, _FARTHER, _REACH, _PANELS = (8, 10), 4000, 4096, 3.0, 9.0, 32


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


def weight_moments(penalty: Penalty, prior: Any, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
    r"""Return the order parameters, and the averages that stability and free energy need.

    Args:
        penalty: of every weight.
        prior: of the teacher's row, of independent weights.
        strength: :math:`\lambda\\ge 0`, shape (batch,).
        conjugate: conjugate parameters.
    """
    components = prior.weight_components
    if components is None:
        return _by_quadrature(penalty, partial(_seen_law, prior.law), strength, conjugate)
    if penalty.parts is None:
        return _by_quadrature(penalty, partial(_seen_mixture, components), strength, conjugate)
    return _closed_form(penalty, components, strength, conjugate)


def _closed_form(
    penalty: Penalty, components: WeightComponents, strength: Array, conjugate: ConjugateParameters
) -> WeightMoments:
    r"""Return moments of a soft threshold over a mixture.

    A component of mean :math:`\mu` and variance :math:`\sigma^2` is seen as :math:`y \sim N(\mu, S)`,
    :math:`S = \sigma^2 + \tau^2`, and then estimated as :math:`\mu + c\,(y - \mu)`, :math:`c = \sigma^2/S`. The
    error is the sum of the posterior variance and the squared distance of both estimates.
    """
    absolute, quadratic = penalty.parts
    weight, mean, own, scale = (np.asarray(part)[:, None] for part in components)
    tau, m_hat = conjugate.noise, conjugate.m_hat
    stiffness = conjugate.v_hat + quadratic * strength / scale
    gain, total = m_hat / stiffness, own + tau
    share, rest = own / total, tau / total
    theta = absolute * strength / np.sqrt(scale) / m_hat
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
    return WeightMoments(order, average(active / stiffness**2), absolute * size + 0.5 * quadratic * square)


class _Seen(NamedTuple):
    """Nodes of weights seen through noise: their weights, posterior means and variances, and the eigenvalue."""

    field: Array
    weight: Array
    mean: Array
    variance: Array
    eigenvalue: float


# Returns nodes from the variance of the noise, the threshold of the estimate and the number of nodes of a panel.
_Rule = Callable[[float, float, int], Iterable[_Seen]]


def _by_quadrature(penalty: Penalty, rule: _Rule, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
    """Return moments by averages over weights seen through noise, one point at a time."""
    rows = [
        _averages(penalty, rule, *point)
        for point in zip(strength, conjugate.noise, conjugate.m_hat, conjugate.v_hat, strict=True)
    ]
    value, error = (np.array(part).T for part in zip(*rows, strict=True))
    overlap, power, susceptibility, total, degrees, rank, response_square, cost = value
    order = OrderParameters(overlap, power, susceptibility, total, degrees, rank, error[3])
    return WeightMoments(order, response_square, cost)


def _averages(
    penalty: Penalty, rule: _Rule, strength: float, noise: float, m_hat: float, v_hat: float
) -> tuple[Array, Array]:
    """Return averages at one point, and their errors: the difference of two rules, and the mass they miss."""
    threshold, totals = penalty.kink * strength / m_hat, []
    for nodes in _NODES:
        total = np.zeros(9)
        for seen in rule(noise, threshold, nodes):
            # The penalty is on the weight without the root of the eigenvalue.
            root = np.sqrt(seen.eigenvalue)
            field, step = m_hat * seen.field / (v_hat * root), strength / (v_hat * seen.eigenvalue)
            own = penalty.proximal(field, step)
            response = penalty.proximal_slope(field, step) / v_hat
            estimate = root * own
            parts = (
                estimate * seen.mean,
                estimate**2,
                response,
                seen.variance + (estimate - seen.mean) ** 2,
                response * (v_hat + penalty.square * strength / seen.eigenvalue),
                own != 0,
                response**2,
                penalty.value(own),
                np.ones_like(own),
            )
            total += [seen.weight @ part for part in parts]
        totals.append(total)
    coarse, fine = totals
    return fine[:-1], np.abs(fine - coarse)[:-1] + abs(fine[-1] - 1)


def _seen_mixture(components: WeightComponents, noise: float, threshold: float, nodes: int) -> Iterator[_Seen]:
    """Yield nodes for the weights of every Gaussian of a mixture."""
    for probability, mean, own, eigenvalue in zip(*components, strict=True):
        deviation = np.sqrt(own + noise)
        seen, weight = gauss_panels(_split(_REACH * deviation, mean, threshold / np.sqrt(eigenvalue), _PANELS), nodes)
        density = probability * np.exp(-0.5 * ((seen - mean) / deviation) ** 2) / (np.sqrt(2 * np.pi) * deviation)
        share = own / (own + noise)
        variance = np.full_like(seen, share * noise)
        yield _Seen(seen, weight * density, mean + share * (seen - mean), variance, eigenvalue)


def _seen_law(law: Law, noise: float, threshold: float, nodes: int) -> Iterator[_Seen]:
    """Yield nodes for weights of any law: panels as narrow as the noise, with ends at the threshold."""
    deviation = float(np.sqrt(noise))
    reach = _FARTHER * float(np.max(np.abs(law.sample((_DRAWN,), np.random.default_rng(0))))) + _REACH * deviation
    count = int(np.clip(np.ceil(2 * reach / deviation), 64, _MOST_PANELS))
    seen, weight = gauss_panels(_split(reach, 0.0, threshold, count), nodes)
    field, precision = (seen / noise)[:, None], np.array([[1 / noise]])
    log_density = law.log_partition(field, precision) - 0.5 * seen**2 / noise
    weight = weight * np.exp(log_density) / np.sqrt(2 * np.pi * noise)
    mean, covariance = law.posterior(field, precision)
    yield _Seen(seen, weight, mean[:, 0], covariance[:, 0, 0], 1.0)


def _split(reach: float, centre: float, threshold: float, count: int) -> Array:
    """Return the edges of panels around a centre, thresholds of both signs among them."""
    cuts = [cut for cut in (-threshold, threshold) if abs(cut - centre) < reach]
    return np.unique(np.concatenate([np.linspace(centre - reach, centre + reach, count + 1), cuts]))


def lasso_dimension(prior: WeightRowsPrior) -> float | None:
    """Return exact labels per unknown that recovery by the lasso needs; None for laws that are not mixtures.

    It is the statistical dimension of the descent cone of the sum of absolute values, which depends on the share of
    weights that are not zero alone (Donoho and Tanner).
    """
    if prior.weight_components is None:
        return None
    weights, means, variances, scales = prior.weight_components
    if np.ptp(scales) > 0:
        return 1.0
    zero = float(np.sum(weights[(means == 0) & (variances == 0)]))

    def dimension(threshold: float) -> float:
        return (1 - zero) * (1 + threshold**2) + zero * 2 * float(_tail(np.array(-threshold), np.array(1.0)).second)

    return float(minimize_scalar(dimension, bounds=_THRESHOLDS, method="bounded", options={"xatol": 1e-10}).fun)


class _Tail(NamedTuple):
    """Probability of a normal variable above zero, and the first two moments of its positive part."""

    probability: Array
    first: Array
    second: Array


def _tail(mean: Array, variance: Array) -> _Tail:
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
