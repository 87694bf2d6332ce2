r"""The curve along which the law of a noisy Wishart matrix is rational.

Its parameter ``s`` is the denoised eigenvalue over the root of the width; :mod:`~glassformer.random_matrices.symmetric`
has the equations.
"""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array


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
