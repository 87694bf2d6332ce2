r"""The curve along which the law of a noisy Wishart matrix is rational.

Its parameter ``s`` is the denoised eigenvalue over the root of the width; :mod:`~glassformer.models.spectra.symmetric`
has the equations.
"""

from __future__ import annotations

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.numerics.roots import bracketed_root

# Beyond exp(+-_FAR) of its bracket no parameter of the curve lies.
_FAR = 80.0


def eigenvalue_at(rho: Array | float, noise: Array | float, s: Array) -> tuple[Array, Array]:
    """Eigenvalue, and its derivative, along the curve."""
    root = np.sqrt(rho)
    value = noise / (root * (noise + s)) + noise * root * (1 - 1 / s) + root * s
    return np.asarray(value), np.asarray(root * (1 + noise / s**2) - noise / (root * (noise + s) ** 2))


def eigenvalue_of(rho: float, noise: float, G: Array) -> tuple[Array, Array]:
    """The functional equation of the Stieltjes transform, and its derivative."""
    rest = np.sqrt(rho) - G
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        return 1 / G + rho / rest + noise * G, -1 / G**2 + rho / rest**2 + noise


def direction_at(rho: Array | float, noise: Array | float, log_s: Array) -> tuple[Array, Array]:
    r""":math:`\mathrm{Re}\,G/|G|` along the curve, and its derivative in ``log_s``."""
    s, excess = np.exp(log_s), np.expm1(log_s)
    w, root = np.sqrt(noise + s), np.sqrt(rho)
    value = 0.5 / (root * w) + 0.5 * root * excess / s * w
    slope = -0.25 * s / (root * w**3) + 0.5 * root * (w / s + 0.5 * excess / w)
    return np.asarray(value), np.asarray(slope)


def critical_points(rho: Array, noise: Array) -> tuple[Array, Array]:
    r"""Maximum and minimum of :math:`\psi`, where :math:`(\Delta+s)[1 + (2\Delta+s)/s^2] = 1/\rho`; NaN for none."""

    def bend(t: Array) -> tuple[Array, Array]:
        s = np.exp(t)
        a, b = 4 * noise**2 / s**3, 3 * noise / s**2
        return -np.log(a + b), (3 * a + 2 * b) / (a + b)

    # Both terms are 1 or less at the sum of the places where either is 1, and one of them is 1 at the larger.
    one, other = np.log(4 * noise**2) / 3, np.log(3 * noise) / 2
    lowest = bracketed_root(bend, np.maximum(one, other) - 1e-9, np.logaddexp(one, other) + 1e-9)

    peak, dip = np.full_like(rho, np.nan), np.full_like(rho, np.nan)
    two = _level(rho, noise, lowest, 1.0)[0] < 0
    if np.any(two):
        at = rho[two], noise[two]
        # On either side one term of the sum alone reaches 1/rho.
        left = 0.5 * np.log(2 * noise[two] ** 2 * rho[two]) - 1e-9
        right = -np.log(rho[two]) + 1e-9
        peak[two] = np.exp(bracketed_root(lambda t: _level(*at, t, -1.0), np.minimum(left, lowest[two]), lowest[two]))
        dip[two] = np.exp(bracketed_root(lambda t: _level(*at, t, 1.0), lowest[two], np.maximum(right, lowest[two])))
    return peak, dip


def _level(rho: Array, noise: Array, t: Array, sign: float) -> tuple[Array, Array]:
    r"""Log-ratio, and slope, with the sign of :math:`\psi'` at ``s = exp(t)``."""
    s = np.exp(t)
    total = noise + s + 2 * (noise / s) ** 2 + 3 * noise / s + 1
    slope = s - 4 * (noise / s) ** 2 - 3 * noise / s
    return sign * np.log(rho * total), sign * slope / total


def crossing(rho: Array, noise: Array, level: float, low: Array, high: Array, rise: float) -> Array:
    r"""Value of ``s`` in ``[low, high]`` at which the monotone :math:`\psi` takes the given level."""

    def condition(t: Array) -> tuple[Array, Array]:
        value, slope = direction_at(rho, noise, t)
        # Close to linear in log s where psi is large.
        return rise * (np.arcsinh(value) - np.arcsinh(level)), rise * slope / np.sqrt(1 + value**2)

    with np.errstate(divide="ignore"):
        ends = np.maximum(np.log(low), -_FAR), np.minimum(np.log(high), _FAR)
    # A bulk of noise may be so short in log s that its ends are needed to the last digit.
    return np.exp(bracketed_root(condition, *ends, last_step=1e-13))
