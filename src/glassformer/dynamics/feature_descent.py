r"""Gradient descent on the weights of features in time: on the same samples by contour integrals, and in one pass.

Descent on the same samples applies functions of :math:`X = \sum_\mu\phi_\mu\phi_\mu^T/p` to the weights. With the
effective strength ``s`` of :mod:`~glassformer.random_matrices.anisotropic_ridge` at complex strengths
:math:`z = s(\alpha - D_1(s))`,

.. math::
   (X+z)^{-1} &\simeq \frac{G}{\alpha - D_1}, \qquad G = (\Sigma+s)^{-1}, \\
   (X+z_1)^{-1}B(X+z_2)^{-1} &\simeq \frac{1}{(\alpha-D_1)(\alpha-D_1')}\Bigl[G_1BG_2 + \Sigma G_1G_2\,
   \frac{\mathrm{Tr}\,B\Sigma G_1G_2/p}{\alpha - \mathrm{Tr}\,\Sigma^2G_1G_2/p}\Bigr] .

The contour is a circle of ``s`` whose image encloses the spectrum of :math:`-X`: no equation has to be solved on it.
With fewer samples than features it may leave out the eigenvalue zero, of eigenvectors along which nothing is learned.
Errors of one pass over new samples solve linear differential equations in the mean and the square of the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.random_matrices.anisotropic_ridge import FeatureNodes, Quadratic

# Points of the contour at first and at last, and the relative change at which more do not matter.
_POINTS, _MOST_POINTS, _SETTLED = 128, 2048, 1e-8
# Relative accuracy of the differential equations, and of the ends of the spectrum.
_ACCURACY, _END = 1e-9, 1e-12
# Product of the number of points and the distance of singularities, in radii, at which an integral is accurate.
_DIGITS = 37.0
# Share of the spectrum beyond its upper end at which the contour may cross the axis.
_BEYOND = 0.3


class Filter(NamedTuple):
    r"""Functions of ``X`` at the steps, of which each maps complex numbers :math:`\zeta` to shape (steps, points).

    Attributes:
        start: what is left of the first weights.
        learned: share of the least squares weights that is learned, over :math:`\zeta`.
    """

    start: Callable[[Array], Array]
    learned: Callable[[Array], Array]


def descent_filter(steps: int, learning_rate: float, weight_decay: float) -> Filter:
    r"""Return the functions of gradient descent: :math:`u^k` and :math:`(1-u^k)/(w+\zeta)`, :math:`u=1-\eta(w+\zeta)`.

    Args:
        steps: number of steps.
        learning_rate: :math:`\eta`, for the sum over the samples.
        weight_decay: ``w``.
    """
    count = np.arange(steps + 1.0)[:, None]

    def start(x: Array) -> Array:
        return np.asarray((1 - learning_rate * (weight_decay + x)) ** count)

    return Filter(start, lambda x: (1 - start(x)) / (weight_decay + x))


def flow_filter(times: Array, alpha: float) -> Filter:
    r"""Return the functions of gradient flow, the limit of small steps, at times :math:`t=\eta\alpha\cdot` steps."""
    scale = np.asarray(times, dtype=float)[:, None] / alpha
    return Filter(lambda x: np.exp(-scale * x), lambda x: (1 - np.exp(-scale * x)) / x)


@dataclass(frozen=True)
class Contour:
    r"""Points of a circle of effective strengths, and the weights of integrals over their strengths.

    Attributes:
        s: effective strengths.
        z: strengths.
        weight: of the integrals, divided by :math:`\alpha - D_1`.
        left_out: effective strength of the eigenvalue zero, if it is left out; None if it is not.
    """

    s: Array
    z: Array
    weight: Array
    left_out: float | None


def largest_eigenvalue(nodes: FeatureNodes, alpha: float) -> float:
    """Return the upper end of the spectrum of ``X`` at a sample ratio > 0.

    Example:
        >>> one = np.ones(1)
        >>> round(largest_eigenvalue(FeatureNodes(one, one, one, 0.0, {}), 4.0), 12)  # (1 + sqrt(alpha))^2
        9.0
    """
    s = -_edge(nodes, alpha, float(nodes.values.max()))
    return float(-s * (alpha - nodes.weights @ (nodes.values / (nodes.values + s))))


def _edge(nodes: FeatureNodes, alpha: float, extreme: float) -> float:
    r"""Return the distance from zero of the effective strength at one end of the spectrum of ``-X``.

    There the strength is stationary, :math:`D_2 = \alpha`, on the axis beyond the largest or the smallest eigenvalue.
    """
    squares, away = nodes.weights * nodes.values**2, np.abs(nodes.values - extreme)

    def excess(log_distance: Array) -> tuple[Array, Array]:
        distance = np.exp(log_distance)[..., None]
        second = squares / (away + distance) ** 2
        return alpha - second.sum(axis=-1), (2 * distance * second / (away + distance)).sum(axis=-1)

    own = squares[nodes.values == extreme].sum()
    low, high = (0.5 * np.log(np.atleast_1d(part / alpha)) for part in (own, squares.sum()))
    distance = float(np.exp(bracketed_root(excess, low - 1, high + 1, last_step=_END)[0]))
    return extreme + (distance if extreme == nodes.values.max() else -distance)


def _effective(nodes: FeatureNodes, alpha: float, strength: float) -> float:
    """Return the effective strength of a strength; above zero, or at zero with fewer samples than features."""

    def excess(log_s: Array) -> tuple[Array, Array]:
        s = np.exp(log_s)
        share = nodes.values / (nodes.values + s[..., None])
        first, second = share @ nodes.weights, share**2 @ nodes.weights
        return alpha - first - strength / s, first - second + strength / s

    low = np.log(max(strength / alpha, np.finfo(float).tiny))
    high = np.log((strength + nodes.weights @ nodes.values) / alpha)
    return float(np.exp(bracketed_root(excess, np.array([low]), np.array([high]), last_step=_END)[0]))


def _right_end(nodes: FeatureNodes, alpha: float, margin: float) -> tuple[float, float | None]:
    """Return where the circle crosses the axis on the right, and the effective strength of zero if it is left out.

    The circle crosses at a strength of the margin, beyond zero, or between zero and the other eigenvalues, where fewer
    points are needed: their number is inverse to the distance from singularities, and on the right of zero they also
    resolve the phases of functions that grow there.
    """
    seen = nodes.values > 0
    fewer = alpha < nodes.weights[seen].sum()
    zero = _effective(nodes, alpha, 0.0) if fewer else 0.0
    # Of a single eigenvalue both edges lie on its sides.
    bottom = float(nodes.values[seen].min())
    bulk = -_edge(nodes, alpha, bottom) if bottom < nodes.values.max() else -bottom * (1 - alpha**-0.5)
    right, inner = _effective(nodes, alpha, margin), 0.5 * (zero + bulk)
    slope = float(alpha - nodes.weights @ (nodes.values / (nodes.values + right)) ** 2)
    far = max(_DIGITS / (right - (zero if fewer else bulk)), 2.0 * slope / margin)
    if far < _DIGITS / (zero - inner):
        return right, None
    return inner, zero if fewer else None


def contour(nodes: FeatureNodes, alpha: float, margin: float, points: int) -> Contour:
    r"""Return a circle around the spectrum, beyond whose ends it crosses the axis.

    On a circle around the eigenvalues the condition of a contour, a sum of squares of :math:`\ell/|\ell+s|` below
    ``alpha``, is hardest to satisfy where it crosses the axis: there it holds beyond the ends of the spectrum.
    """
    top, end = -_edge(nodes, alpha, float(nodes.values.max())), largest_eigenvalue(nodes, alpha)
    # Distance beyond the upper end, where the strength is quadratic in s.
    own = 2 * nodes.weights @ (nodes.values**2 / np.abs(nodes.values + top) ** 3)
    left = top - np.sqrt(2 * min(margin, _BEYOND * end) / own)
    right, left_out = _right_end(nodes, alpha, margin)
    turn = np.exp(2j * np.pi * (np.arange(points) + 0.5) / points)
    radius = 0.5 * (right - left)
    s = 0.5 * (right + left) + radius * turn
    share = nodes.values / (nodes.values + s[:, None])
    first, second = share @ nodes.weights, share**2 @ nodes.weights
    weight = radius * turn * (alpha - second) / points / (alpha - first)
    return Contour(s, s * (alpha - first), weight, left_out)


def descent_errors(
    nodes: FeatureNodes, alpha: float, steps: Filter, margin: float, start: float = 0.0
) -> tuple[dict[str, Array], float]:
    """Return the errors of descent on the same samples at every step, and their relative change by the last points.

    Equation :eq:`two-resolvents` of the documentation.

    Args:
        nodes: law of the features and errors by name.
        alpha: samples over features, > 0.
        steps: functions of ``X`` at the steps.
        margin: distance of the contour from the spectrum of ``X``.
        start: variance of the first weights.

    Returns:
        The errors of the nodes and ``training_error``, shape (steps,) each.

    Example:
        >>> one = np.ones(1)
        >>> white = FeatureNodes(one, one, one, 0.5, {"test_error": Quadratic(1.5, one, one)})
        >>> found, change = descent_errors(white, 2.0, flow_filter(np.array([0.0, 1e3]), 2.0), 1e-2)
        >>> found["test_error"].round(6)  # without data, and of least squares
        array([1.5, 1. ])
    """
    points, found, change = _POINTS, _errors_on(nodes, alpha, steps, contour(nodes, alpha, margin, _POINTS), start), 1.0
    while change > _SETTLED and points < _MOST_POINTS:
        points *= 2
        before = found
        found = _errors_on(nodes, alpha, steps, contour(nodes, alpha, margin, points), start)
        # Training errors may vanish: changes are compared with a thousandth of the error without data at least.
        floor = 1e-3 * next(iter(nodes.errors.values())).constant
        change = max(
            float(np.max(np.abs(value - before[name]) / np.maximum(np.abs(value), floor)))
            for name, value in found.items()
        )
    return found, change


def _errors_on(nodes: FeatureNodes, alpha: float, steps: Filter, on: Contour, start: float) -> dict[str, Array]:
    """Return the errors by integrals over one contour."""
    own, share, x = nodes.values, nodes.weights, -on.z
    g = 1 / (own + on.s[:, None])
    left, learned = steps.start(x), steps.learned(x)
    kept = learned * x

    def trace(function: Array, along: Array) -> Array:
        """Return the mean over the spectrum of a function of ``X`` times numbers along the eigenvectors."""
        return np.real(function @ (on.weight * (g @ (share * along))))

    one, power = np.ones_like(own), nodes.target**2
    training = trace((1 - kept) ** 2 * x, power) + start * trace(left**2 * x, one)
    training = training + nodes.noise * (trace(kept**2 - 2 * kept, one) + alpha)
    found: dict[str, Array] = {}
    # The circle is symmetric: pairs with a first point on the upper half have the other ones as conjugates.
    half = g[: len(g) // 2]
    carried = (half * (share * own * power)) @ g.T / (alpha - (half * (share * own**2)) @ g.T)
    for name, error in nodes.errors.items():
        direct = (half * (share * error.square * power)) @ g.T
        pairs = direct + carried * ((half * (share * error.square * own)) @ g.T)
        weighted = kept * on.weight
        signal = 2 * np.real(np.sum((weighted[:, : len(half)] @ pairs) * weighted, axis=1))
        scatter = trace(nodes.noise * learned * kept + start * left**2, error.square)
        if on.left_out is not None:
            # First weights stay along the eigenvectors of the eigenvalue zero.
            unseen = share @ (error.square * on.left_out / (own + on.left_out))
            scatter = scatter + start * np.real(steps.start(np.zeros(1, dtype=complex)))[:, 0] ** 2 * unseen
        found[name] = error.constant - 2 * trace(kept, error.linear * nodes.target) + signal + scatter
    return {**found, "training_error": training / alpha}


def one_pass_errors(
    nodes: FeatureNodes, times: Array, learning_rate: float, batch: int, weight_decay: float, start: float = 0.0
) -> dict[str, Array]:
    r"""Return the errors of online descent on new samples, at times of steps over features.

    Means :math:`\mu` and squares ``m`` of the weights along an eigenvector of eigenvalue :math:`\ell` follow

    .. math:: \dot\mu = \eta\ell(\theta-\mu) - \eta w\mu, \qquad
       \dot m = 2\eta\ell(\theta\mu - m) - 2\eta wm + \frac{\eta^2}b\,\ell E,

    with the error ``E`` on new labels.

    Args:
        nodes: law of the features and errors by name.
        times: increasing, from zero.
        learning_rate: :math:`\eta`, for the mean of a batch.
        batch: ``b``.
        weight_decay: ``w``.
        start: variance of the first weights.
    """
    own, target, count = nodes.values, nodes.target, len(nodes.values)
    law = next(iter(nodes.errors.values()))

    def error(of: Quadratic, mean: Array, square: Array) -> Array:
        return of.constant - 2 * (nodes.weights * of.linear) @ mean + (nodes.weights * of.square) @ square

    def change(_: float, state: Array) -> Array:
        mean, square = state[:count], state[count:]
        drift = own * (target - mean) - weight_decay * mean
        growth = 2 * own * (target * mean - square) - 2 * weight_decay * square
        scatter = learning_rate / batch * own * error(law, mean, square)
        return np.asarray(learning_rate * np.concatenate([drift, growth + scatter]))

    begin = np.append(np.zeros(count), np.full(count, start))
    if times[-1] == 0:
        states = np.tile(begin[:, None], len(times))
    else:
        span = (0.0, float(times[-1]))
        states = solve_ivp(change, span, begin, "DOP853", times, rtol=_ACCURACY, atol=1e-3 * _ACCURACY).y
    return {name: error(of, states[:count], states[count:]) for name, of in nodes.errors.items()}
