r"""Hardmax attention of two tokens in closed form.

Three tokens are in :mod:`.hardmax_triple`, more in :mod:`.hardmax_sampled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, xlogy

from glassformer.channels.attention.prediction import largest_entries
from glassformer.channels.attention.shares import positions
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.scalar.base import Array, Estimate, PowerChannel
from glassformer.designs.token_pairs import to_matrices
from glassformer.numerics.normal import inverse_mills_ratio
from glassformer.numerics.quadrature import gauss_panels

# Correlation of the standardised row differences.
CORRELATION = 1 / 3
# Standard deviation of one of them given the other.
_ACROSS = np.sqrt(1 - CORRELATION**2)

# Row differences beyond this number of standard deviations have a certain label. Nodes of the two Gauss rules compared.
_REACH, _NODES = 9.0, (96, 72)
# Ratio of the standard deviations of omega and h - omega below which two Gauss-Hermite rules need fewer nodes.
_NARROW, _HERMITE_NODES = 0.5, (24, 18)
# Smallest probability of a label for which the closed form, a sum of terms of order one, keeps ten digits.
_LIKELY = 1e-5
# Nodes of the shared index, in units of sqrt(V): the posterior is between 0.7 and 1 of them wide.
_SHARED = np.linspace(-6.5, 6.5, 27)
# Newton steps to the mode of the shared index.
_NEWTON_STEPS = 6
# Gauss nodes over the correlation from none to that of the row differences: exact to rounding.
_CORRELATIONS = 10

_hermite_rule = lru_cache(maxsize=4)(np.polynomial.hermite_e.hermegauss)


@dataclass(frozen=True)
class HardmaxPairChannel(PowerChannel):
    r"""Hardmax attention :math:`y_a = \mathrm{argmax}_b\,h_{ab}` of ``T = 2`` tokens.

    Row 1 compares :math:`h_{11}` with :math:`h_{12}`, row 2 :math:`h_{22}` with :math:`h_{12}`: labels are the signs
    of two normal variables of variance ``3V`` and correlation 1/3, and :math:`Z_{out}` is a bivariate normal
    probability. Labels are integers 0 and 1, shape (..., 2).

    Args:
        power: :math:`Q_0 = E h_{12}^2`.

    Raises:
        DataError: a label is neither 0 nor 1.

    Source: arXiv:2506.01582.

    Example:
        >>> channel = HardmaxPairChannel(power=1.0)
        >>> score, omega = channel.score(np.array([0.0, 1.0]), np.zeros(3), 1.0), np.zeros(3)
        >>> bool(abs(np.sum(score * [np.sqrt(2), 1, np.sqrt(2)])) > 0 and score[1] < 0)  # h_12 is the smallest
        True
    """

    power: float = 1.0

    label = "hardmax"
    # Labels are discrete, so the information grows as the inverse square root of V: the rank is zero.
    labels = Labels(shape=(2,), discrete=True, probabilities=True)

    @property
    def fields(self) -> Fields:
        return Fields((3,), self.power)

    @property
    def tokens(self) -> int:
        """``T``."""
        return 2

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        return largest_entries(to_matrices(omega, 2), float(variance))

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        del rng
        return self.likeliest_label(h, 0.0)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return _posterior(y, omega, variance)[0]

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return _posterior(y, omega, variance)[1]

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return _posterior(y, omega, variance)[:2]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return _posterior(y, omega, variance)[2]

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        value, error = _plane_average(v, self.power, 0)
        return Estimate(value / v, error / v)

    def expected_log_partition(self, variance: Array) -> Estimate:
        return Estimate(*_plane_average(np.asarray(variance, dtype=float), self.power, 1))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``label_error``, the share of wrong rows, :math:`\arccos(q/Q_0)/\pi`.

        ``label_brier``: :math:`1/2 - \arcsin(q/Q_0)/\pi`.

        The first is the error of the argmax of :math:`\omega`, which is Bayes-optimal; the second is
        :math:`1 - E\sum_b p_{ab}^2` per row.
        """
        ratio = np.clip(np.asarray(variance) / self.power, 0, 1)
        # With q/Q_0 = 1 - ratio, half-angle forms stay precise for small ratios.
        angle = 2 * np.arcsin(np.sqrt(ratio / 2))
        overlap_angle = 2 * np.arcsin(np.sqrt((1 - np.sqrt(1 - ratio)) / 2))
        return {"label_error": overlap_angle / np.pi, "label_brier": angle / np.pi}


def _posterior(y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array, Array]:
    """Return score, minus its divergence, and log partition, in closed form unless the label is very unlikely."""
    sign = np.where(positions(y, 2) == np.array([0, 1]), 1.0, -1.0)
    score, curvature, log_z, likely = _closed_form(sign, omega, np.asarray(variance, dtype=float))
    if not likely.all():
        rare = np.logical_not(likely)
        spread = np.broadcast_to(variance, likely.shape)[rare]
        score[rare], curvature[rare], log_z[rare] = _by_shared_index(
            np.broadcast_to(sign, (*likely.shape, 2))[rare], np.broadcast_to(omega, score.shape)[rare], spread
        )
    return score, curvature, log_z


def _closed_form(sign: Array, omega: Array, variance: Array) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    r"""Return the results of :func:`_posterior` from :math:`Z = \Phi_2(h, k; r)`, and a mask where they are precise.

    With :math:`a = \partial_h\log Z`, :math:`b = \partial_k\log Z` and the density :math:`\varphi_2` of the plane,
    :math:`-\partial_h^2\log Z = a(a + h) + r\varphi_2/Z` and :math:`\partial_h\partial_k\log Z = \varphi_2/Z - ab`.
    """
    width, both = np.sqrt(3 * variance), sign[..., 0] * sign[..., 1]
    h, k = (
        sign[..., row] * (np.sqrt(2) * omega[..., entry] - omega[..., 1]) / width for row, entry in enumerate((0, 2))
    )
    r, root = CORRELATION * both, _ACROSS
    z = orthant(h, k, both)
    likely = z > _LIKELY
    safe, height, across = np.where(likely, z, 1.0), np.exp(-0.5 * h**2), (k - r * h) / root
    a = height * ndtr(across) / (np.sqrt(2 * np.pi) * safe)
    b = np.exp(-0.5 * k**2) * ndtr((h - r * k) / root) / (np.sqrt(2 * np.pi) * safe)
    density = height * np.exp(-0.5 * across**2) / (2 * np.pi * root * safe)
    first, second = sign[..., 0] * a / width, sign[..., 1] * b / width
    score = np.stack([np.sqrt(2) * first, -first - second, np.sqrt(2) * second], axis=-1)
    bends = a * (a + h) + b * (b + k) + 2 * r * density
    curvature = (3 * bends - 2 * both * (density - a * b)) / width**2
    return score, curvature, np.log(safe), likely


def _by_shared_index(sign: Array, omega: Array, variance: Array) -> tuple[Array, Array, Array]:
    r"""Return the results of :func:`_posterior` by integration over the shared index :math:`h_{12}`.

    Given this index the rows are independent. The integrand is log-concave with a curvature between 1/V and 2/V, so
    nodes around its mode are accurate even for labels that are very unlikely under ``omega``.
    """
    scale, shared = np.sqrt(variance), omega[:, 1]
    own, root = np.sqrt(2) * omega[:, ::2], np.sqrt(2 * variance)[:, None]
    x = shared
    for _ in range(_NEWTON_STEPS):
        a = sign * (own - x[:, None]) / root
        ratio = inverse_mills_ratio(a)
        slope = -(x - shared) / variance - np.sum(sign * ratio / root, axis=1)
        x = x + slope / (1 / variance + np.sum(ratio * (a + ratio) / root**2, axis=1))
    nodes = x[:, None] + scale[:, None] * _SHARED
    a = sign[:, :, None] * (own[:, :, None] - nodes[:, None]) / root[:, None]
    deviation = (nodes - shared[:, None]) / scale[:, None]
    exponent = -0.5 * deviation**2 + np.sum(log_ndtr(a), axis=1)
    top = np.max(exponent, axis=1)
    weight = np.exp(exponent - top[:, None])
    total = np.sum(weight, axis=1)
    weight, ratio = weight / total[:, None], inverse_mills_ratio(a)
    of_rows = sign * np.einsum("nm,nkm->nk", weight, ratio) / root
    mean = np.sum(weight * deviation, axis=1)
    spread = np.sum(weight * deviation**2, axis=1) - mean**2
    bends = of_rows**2 + np.einsum("nm,nkm->nk", weight, a * ratio) / root**2
    score = np.stack([np.sqrt(2) * of_rows[:, 0], mean / scale, np.sqrt(2) * of_rows[:, 1]], axis=1)
    curvature = 2 * np.sum(bends, axis=1) + (1 - spread) / variance
    step = _SHARED[1] - _SHARED[0]
    return score, curvature, top + np.log(total * step / np.sqrt(2 * np.pi))


def orthant(h: Array, k: Array, sign: Array | float) -> Array:
    r"""Return P(x < h, y < k) for standard normals of the correlation of row differences, times a sign.

    .. math:: \Phi_2(h, k; r) = \Phi(h)\Phi(k) + \frac1{2\pi}\int_0^{\arcsin r}d\theta\,
       \exp\Bigl[-\frac{h^2 + k^2 - 2hk\sin\theta}{2\cos^2\theta}\Bigr]

    Source: R. L. Plackett, Biometrika 41, 351 (1954).
    """
    theta, width = gauss_panels(np.array([0.0, np.arcsin(CORRELATION)]), _CORRELATIONS)
    squares, product, total = 0.5 * (h**2 + k**2), h * k * sign, np.zeros(np.shape(h))
    for angle, weight in zip(theta.tolist(), width.tolist(), strict=True):
        total += weight * np.exp((np.sin(angle) * product - squares) / np.cos(angle) ** 2)
    return np.asarray(ndtr(h) * ndtr(k) + sign / (2 * np.pi) * total)


def _of_differences(first: Array, second: Array) -> tuple[Array, Array]:
    r"""Return V E[|g|^2 | omega] and E[log Z | omega] at standardised row differences, in closed form."""
    square, log_z = np.zeros_like(first), np.zeros_like(first)
    for sign in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        h, k, r = sign[0] * first, sign[1] * second, sign[0] * sign[1] * CORRELATION
        z = np.maximum(orthant(h, k, sign[0] * sign[1]), 0.0)
        p = np.exp(-0.5 * h**2) / np.sqrt(2 * np.pi) * ndtr((k - r * h) / _ACROSS)
        s = np.exp(-0.5 * k**2) / np.sqrt(2 * np.pi) * ndtr((h - r * k) / _ACROSS)
        # A probability below rounding contributes nothing.
        square += (p**2 + s**2 + 2 * r * p * s) / np.where(z > 1e-13, z, np.inf)
        log_z += xlogy(z, z)
    return square, log_z


@lru_cache(maxsize=4)
def _box(nodes: int) -> tuple[Array, Array, tuple[Array, Array], tuple[Array, Array]]:
    """Return Gauss nodes and weights, and both functions on the box and where the label of the other row is certain."""
    x, w = np.polynomial.legendre.leggauss(nodes)
    x, w = _REACH * x, _REACH * w
    first, second = np.meshgrid(x, x, indexing="ij")
    square = np.exp(-(x**2)) / (2 * np.pi) / (ndtr(x) * ndtr(-x))
    log_z = np.asarray(ndtr(x) * log_ndtr(x) + ndtr(-x) * log_ndtr(-x))
    return x, w, _of_differences(first, second), (square, log_z)


def _plane_average(v: Array, power: float, which: int) -> tuple[Array, Array]:
    """Return the average over omega of a function of the row differences and its error, of the shape of ``v``."""
    ratio = np.sqrt(np.maximum(power - v, 0.0) / v)
    results = [np.empty(v.shape), np.empty(v.shape)]
    for result, nodes, hermite in zip(results, _NODES, _HERMITE_NODES, strict=True):
        wide = ratio >= _NARROW
        result[wide] = [_over_box(float(k), nodes, which) for k in ratio[wide]]
        result[~wide] = [_over_normal(float(k), hermite, which) for k in ratio[~wide]]
    return results[0], np.abs(results[0] - results[1]) + 1e-14


def _over_box(ratio: float, nodes: int, which: int) -> float:
    x, w, plane, strip = _box(nodes)
    one = w * np.exp(-0.5 * (x / ratio) ** 2) / (ratio * np.sqrt(2 * np.pi))
    # Density of the second difference given the first, and its mass beyond the box.
    centre, width = CORRELATION * x, ratio * _ACROSS
    other = w * np.exp(-0.5 * ((x - centre[:, None]) / width) ** 2) / (width * np.sqrt(2 * np.pi))
    beyond = ndtr((-_REACH - centre) / width) + ndtr((centre - _REACH) / width)
    return float(one @ np.sum(other * plane[which], axis=1) + 2 * one @ (beyond * strip[which]))


def _over_normal(ratio: float, nodes: int, which: int) -> float:
    t, w = _hermite_rule(nodes)
    w = w / np.sqrt(2 * np.pi)
    first = ratio * t[:, None]
    second = ratio * (CORRELATION * t[:, None] + _ACROSS * t)
    return float(w @ _of_differences(np.broadcast_to(first, second.shape), second)[which] @ w)
