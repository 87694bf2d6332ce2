"""Ridge regression on the entries of the token matrices."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.errors import ParameterError
from glassformer.integral import Array


def ridge_error(alpha: ArrayLike, noise: float = 0.0, regularisation: float | None = None) -> Array:
    r"""Error of ridge regression that ignores the structure of the signal, in the limit of large dimensions.

    The estimator minimises :math:`\sum_\mu (y_\mu - \mathrm{Tr}(X_\mu S^T)/\sqrt{dL})^2 + \lambda\|S\|_F^2` for
    labels :math:`y = \mathrm{Tr}(X S^T)/\sqrt{dL} + \sqrt\Delta\,z` and any signal of unit power per entry;
    :math:`E = \|\hat S - S\|_F^2/(dL)` depends on nothing else. With
    :math:`t = \sqrt{(\alpha + \lambda - 1)^2 + 4\lambda}`,

    .. math:: u = \frac2{\alpha + \lambda + 1 + t}, \quad v = 1 - \alpha u, \quad
       E = (v^2 + \alpha\Delta u^2)\,\frac{\lambda + v}{\lambda + v^2},

    which is the source's expression in a form that adds positive terms only. At :math:`\lambda = \Delta`, the best
    choice, :math:`E = v`: the Bayes-optimal error for a signal of independent Gaussian entries. The limit
    :math:`\lambda\to 0` is the interpolator of least norm, with
    :math:`E = \max(1-\alpha, 0) + \Delta\min(\alpha, 1)/|1-\alpha|`.

    Args:
        alpha: sample ratio :math:`n/(dL)`, finite and >= 0, any shape.
        noise: variance :math:`\Delta \ge 0` of the label noise.
        regularisation: :math:`\lambda \ge 0`; None takes :math:`\lambda = \Delta`.

    Returns:
        The error, shape of ``alpha``; infinite for :math:`\lambda = 0 < \Delta` at :math:`\alpha = 1`.

    Raises:
        ParameterError: an argument is negative or not finite.

    Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858.

    Example:
        >>> ridge_error([0.0, 0.5, 2.0])
        array([1. , 0.5, 0. ])
        >>> ridge_error(1.0, noise=0.5).round(12)  # the positive root of E^2 + E/2 = 1/2
        np.float64(0.5)
        >>> bool(ridge_error(1.0, noise=0.5, regularisation=1.0) > 0.5)
        True
    """
    alpha = np.asarray(alpha, dtype=float)
    if not np.all(np.isfinite(alpha) & (alpha >= 0)):
        raise ParameterError("alpha", alpha, "finite and >= 0")
    if not (np.isfinite(noise) and noise >= 0):
        raise ParameterError("noise", noise, "finite and >= 0")
    strength = noise if regularisation is None else regularisation
    if not (np.isfinite(strength) and strength >= 0):
        raise ParameterError("regularisation", regularisation, "finite and >= 0, or None")
    if strength == 0:
        return _least_norm_error(alpha, noise)
    u, v = _shrinkage(alpha, strength)
    return np.asarray((v**2 + alpha * noise * u**2) * ((strength + v) / (strength + v**2)))[()]


def _shrinkage(alpha: Array, strength: float) -> tuple[Array, Array]:
    """``u`` and ``v`` of :func:`ridge_error`; ``v`` solves ``v^2 + (alpha + lambda - 1) v = lambda``."""
    excess = strength + (alpha - 1)
    t = np.hypot(excess, 2 * np.sqrt(strength))
    u = 2 / (alpha + strength + 1 + t)
    # Of the two forms of the root, the one without a difference of nearly equal numbers.
    v = np.where(excess > 0, 2 * strength / (np.abs(excess) + t), (t - excess) / 2)
    return u, v


def _least_norm_error(alpha: Array, noise: float) -> Array:
    bias = np.maximum(1 - alpha, 0.0)
    if noise == 0:
        return np.asarray(bias)[()]
    with np.errstate(divide="ignore"):
        return np.asarray(bias + noise * np.minimum(alpha, 1.0) / np.abs(1 - alpha))[()]
