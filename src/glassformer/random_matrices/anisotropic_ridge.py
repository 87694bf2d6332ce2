r"""Ridge regression on features of any covariance, in the limit of many features.

Labels are :math:`y = \phi\cdot\theta/\sqrt p + \sqrt\Delta\,z` with ``p`` features :math:`\phi` of covariance
:math:`\Sigma`, and the estimate minimises :math:`\sum_\mu(y_\mu - \phi_\mu\cdot\hat\theta/\sqrt p)^2 +
\lambda\|\hat\theta\|^2` at the sample ratio :math:`\alpha = n/p`. Everything follows from the effective strength ``s``,
the root of

.. math:: \lambda = s\,(\alpha - D_1(s)), \qquad D_k(s) = \frac1p\mathrm{Tr}\,\bigl[\Sigma(\Sigma+s)^{-1}\bigr]^k .

The mean estimate is :math:`\Sigma(\Sigma+s)^{-1}\theta`. With the variance :math:`B(s)` of a label around the
prediction of this mean, noise included, the squared error on new labels and on the training labels is

.. math:: E = \frac{B(s)}{1 - D_2(s)/\alpha}, \qquad E_{train} = \Bigl(1 - \frac{D_1(s)}\alpha\Bigr)^2E .

Source: Hastie, Montanari, Rosset, Tibshirani, arXiv:1903.08560; Dobriban, Wager, arXiv:1507.03003.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import is_number
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root

# Ratios below this one are computed at it, where the estimate vanishes to rounding.
_NO_DATA = 1e-100
# Smallest effective strength, relative to the mean eigenvalue, among which the root is sought.
_SMALLEST = 1e-200
# Grid and steps of the search for the best strength: between 1e-10 and 1e10 mean eigenvalues, then golden sections.
_DECADES, _PER_DECADE, _SECTIONS = 10, 2, 40
_GOLDEN = 0.5 * (np.sqrt(5) - 1)
# Rounding error of a sum over the spectrum, relative to it.
_ROUNDING = 1e-14


class RidgeFeatures(ABC):
    """The law of the features of a linear label, as ridge regression depends on it; all arguments have one shape."""

    @property
    @abstractmethod
    def mean(self) -> float:
        r"""Mean eigenvalue of the covariance, :math:`\mathrm{Tr}\,\Sigma/p`."""

    @abstractmethod
    def degrees(self, s: Array) -> tuple[Array, Array]:
        """Return :math:`D_1(s)` and :math:`D_2(s)`; at zero both are the share of the features that do not vanish."""

    @abstractmethod
    def unexplained(self, s: Array) -> Array:
        """Return the variance of a label around the prediction of the mean estimate, the noise included."""

    @abstractmethod
    def errors(self, fit: RidgeFit) -> dict[str, Array]:
        """Return the errors of fits as columns by name."""

    remark = default_property("", "What a note on the interpolation threshold adds.")

    def nodes(self, count: int) -> FeatureNodes:
        """Return a quadrature over the eigenvalues, for descent in time.

        Raises:
            IncompatibleError: there is none.
        """
        del count
        raise IncompatibleError("descent in time has no equations for these features: use learner ridge")


class Quadratic(NamedTuple):
    r"""An error :math:`c - 2\langle a\,\hat\theta\rangle + \langle b\,\hat\theta^2\rangle` of weights.

    Attributes:
        constant: ``c``.
        linear: ``a`` along every eigenvector.
        square: ``b``.
    """

    constant: float
    linear: Array
    square: Array


@dataclass(frozen=True, eq=False)
class FeatureNodes:
    """A quadrature over the eigenvalues of the covariance of features.

    Attributes:
        values: eigenvalues.
        weights: their shares, of sum one.
        target: weights of a label along the eigenvectors.
        noise: variance of a label that they leave.
        errors: errors of weights by name; the first is that on new labels of the law of the training labels.
    """

    values: Array
    weights: Array
    target: Array
    noise: float
    errors: dict[str, Quadratic]


class RidgeFit(NamedTuple):
    r"""Ridge regression at sample ratios; arrays of one shape.

    Attributes:
        ratio: samples over features.
        strength: :math:`\lambda`.
        s: effective strength.
        error: squared error on new labels of the law of the training labels, noise included.
        training_error: squared error on the training labels.
        error_estimate: absolute error of ``error`` by rounding; relative ones of other errors are similar.
    """

    ratio: Array
    strength: Array
    s: Array
    error: Array
    training_error: Array
    error_estimate: Array


@dataclass(frozen=True, eq=False)
class Eigenvalues(RidgeFeatures):
    r"""Features with given eigenvalues :math:`\ell` of their covariance, and random weights of given power.

    Args:
        values: :math:`\ell > 0`.
        weights: their shares, of sum one.
        power: mean square of the weights :math:`\theta` along the eigenvectors, of the shape of the values.
        noise: variance of the label noise.

    Example:
        >>> features = Eigenvalues(np.array([0.5, 1.5]), np.array([0.5, 0.5]), np.ones(2), 0.1)
        >>> fit = anisotropic_ridge(features, [0.5, 2.0], 0.1)
        >>> fit.error.round(6), features.errors(fit)["error"].round(6)
        (array([0.61607 , 0.180984]), array([0.58116 , 0.105072]))
    """

    values: Array
    weights: Array
    power: Array
    noise: float

    @property
    def mean(self) -> float:
        return float(self.weights @ self.values)

    def degrees(self, s: Array) -> tuple[Array, Array]:
        share = self.values / (self.values + np.asarray(s)[..., None])
        return share @ self.weights, share**2 @ self.weights

    def unexplained(self, s: Array) -> Array:
        return self.noise + self._lost(s) ** 2 @ (self.weights * self.values * self.power)

    def errors(self, fit: RidgeFit) -> dict[str, Array]:
        """Return the squared error of the weights as ``error``, and those on labels, without and with their noise."""
        scatter = 1 / (self.values + fit.s[..., None]) ** 2 @ (self.weights * self.values)
        ratio = np.maximum(fit.ratio, _NO_DATA)
        of_weights = self._lost(fit.s) ** 2 @ (self.weights * self.power) + fit.error / ratio * scatter
        return {"error": of_weights, "prediction_error": fit.error - self.noise, "test_error": fit.error}

    def _lost(self, s: Array) -> Array:
        """Return the share of the weights that the mean estimate leaves out, along every eigenvector."""
        s = np.asarray(s)[..., None]
        return s / (self.values + s)


def anisotropic_ridge(features: RidgeFeatures, ratio: ArrayLike, strength: float | None) -> RidgeFit:
    r"""Return ridge regression on features of a covariance at sample ratios.

    Equation :eq:`anisotropic-ridge` of the documentation.

    Args:
        features: their law.
        ratio: samples over features, :math:`\alpha\ge0`, shape (points,).
        strength: :math:`\lambda\ge0`; 0 for the interpolator of least norm, or least squares; None for the strength of
            least error on new labels.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> white = Eigenvalues(np.ones(1), np.ones(1), np.ones(1), 0.5)
        >>> anisotropic_ridge(white, [1.0], 0.5).error.round(12)  # E^2 + E/2 = 1/2, and the noise
        array([1.])
        >>> anisotropic_ridge(white, [1.0], None).strength.round(6)
        array([0.5])
    """
    alpha = np.atleast_1d(np.asarray(ratio, dtype=float))
    if not np.all(np.isfinite(alpha) & (alpha >= 0)):
        raise ParameterError("ratio", ratio, "finite and >= 0")
    if strength is None:
        return _fit(features, alpha, *_best(features, alpha))
    if not (is_number(strength) and 0 <= strength < np.inf):
        raise ParameterError("strength", strength, "None, or a finite number >= 0")
    return _fit(features, alpha, _effective(features, alpha, float(strength)), np.full_like(alpha, strength))


def interpolation_ratio(features: RidgeFeatures) -> float:
    """Return the sample ratio below which least squares without a penalty fits all labels."""
    return float(features.degrees(np.zeros(1))[0][0])


def _fit(features: RidgeFeatures, alpha: Array, s: Array, strength: Array) -> RidgeFit:
    ratio = np.maximum(alpha, _NO_DATA)
    first, second = features.degrees(s)
    rest = 1 - second / ratio
    with np.errstate(divide="ignore", invalid="ignore"):
        # Least squares with as many samples as features has no finite error.
        error = np.where(rest > _ROUNDING, features.unexplained(s) / rest, np.inf)
        kept = np.where(s > 0, strength / (s * ratio), 1 - first / ratio)
        training = np.where(kept == 0, 0.0, kept**2 * error)
        estimate = _ROUNDING * error * (1 + 1 / rest)
    return RidgeFit(alpha, strength, s, error, training, np.where(np.isfinite(error), estimate, 0.0))


def _effective(features: RidgeFeatures, alpha: Array, strength: float) -> Array:
    r"""Return ``s``; zero for least squares.

    :math:`\alpha - D_1(s) - \lambda/s` increases in ``s``, with the derivative :math:`D_1 - D_2 + \lambda/s` in its
    logarithm, and :math:`sD_1(s)` is at most the mean eigenvalue.
    """
    ratio, mean, found = np.maximum(alpha, _NO_DATA), features.mean, np.zeros_like(alpha)
    rows = ratio < (interpolation_ratio(features) if strength == 0 else np.inf)
    ratio = ratio[rows]

    def excess(log_s: Array) -> tuple[Array, Array]:
        s = np.exp(log_s)
        first, second = features.degrees(s)
        return ratio - first - strength / s, first - second + strength / s

    low = np.log(np.maximum(strength / ratio, _SMALLEST * mean))
    found[rows] = np.exp(bracketed_root(excess, low, np.log((strength + mean) / ratio), last_step=1e-10))
    return found


def _best(features: RidgeFeatures, alpha: Array) -> tuple[Array, Array]:
    """Return the effective strength of least error and its strength, by golden sections around the least of a grid."""
    least = _effective(features, alpha, 0.0)
    grid = np.linspace(-_DECADES, _DECADES, 2 * _DECADES * _PER_DECADE + 1) * np.log(10) + np.log(features.mean)
    logs = np.maximum(grid, np.log(np.maximum(least, np.exp(grid[0])))[:, None])
    ratio = np.maximum(alpha, _NO_DATA)[:, None]

    def error(log_s: Array) -> Array:
        s = np.exp(log_s)
        rest = 1 - features.degrees(s)[1] / ratio
        return np.where(rest > 0, features.unexplained(s) / np.where(rest > 0, rest, 1.0), np.inf)

    rows = np.arange(len(alpha))
    k = np.argmin(error(logs), axis=1)
    low = logs[rows, np.maximum(k - 1, 0)][:, None]
    high = logs[rows, np.minimum(k + 1, len(grid) - 1)][:, None]
    for _ in range(_SECTIONS):
        inner, outer = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        left = error(inner) <= error(outer)
        low, high = np.where(left, low, inner), np.where(left, outer, high)
    found = 0.5 * (low + high)
    # At the end of the range no penalty at all is best.
    end = np.log(np.maximum(least, _SMALLEST))[:, None]
    none = (error(end) <= (1 + _ROUNDING) * error(found))[:, 0]
    s = np.where(none, least, np.exp(found[:, 0]))
    return s, np.where(none, 0.0, s * (alpha - features.degrees(s)[0]))
