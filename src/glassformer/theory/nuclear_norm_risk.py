r"""Error of nuclear-norm regularisation of a bilinear signal, in the limit of large sizes.

The estimator minimises :math:`\frac12\sum_\mu (y_\mu - h_\mu)^2 + \lambda (dL)^{1/4}\|S\|_*`. It sees the signal as if
through noise of variance :math:`\tau^2` and lowers the singular values it sees by :math:`\theta`; with the law of
:mod:`glassformer.models.spectra.rectangular` at :math:`R = \tau^2` for :math:`\beta\ge1` (else the transposed problem),
:math:`\nu` its mass on :math:`s > 0`, :math:`f = (s - \theta)_+` and :math:`\hat s` its Bayes-optimal denoiser,

.. math:: \tau^2 = \frac{\Delta + E}{\alpha}, \quad \theta = \frac\lambda{\alpha - \mathrm{df}}, \quad
   E = \mathrm{MMSE}(R) + \beta^{-1/2}\int\nu\,(f - \hat s)^2, \quad
   \mathrm{df} = \beta^{-1/2}\int\nu\,f\,\frac{s - \hat s}{R}.

Everything is parametrised by :math:`\eta = \theta/\tau`: at given :math:`\eta` the first equation has one root, along
which the strength :math:`\lambda` grows with :math:`\eta`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import scipy

from glassformer.core.errors import ParameterError
from glassformer.models.spectra.rectangular import RectangularLaw
from glassformer.theory.nuclear_norm import nuclear_norm_threshold

# Effective noise between which a fixed point is looked for, in units of the power of the signal.
_LEAST, _MOST = 1e-13, 1e9
# Accuracy of roots; where a first-order condition is solved, an error counts by its square.
_ROOT, _EXTREMUM = {"xtol": 1e-13, "rtol": 1e-12}, {"xtol": 1e-9, "rtol": 1e-8}
# Factor by which one root is looked for around the last one before it is looked for everywhere.
_NEAR = 1.5


@dataclass(frozen=True)
class NuclearNormRisk:
    r"""What nuclear-norm regularisation reaches at one sample ratio.

    Attributes:
        error: :math:`E = \|\hat S - S\|_F^2/(dL)`, 1 before any data.
        strength: :math:`\lambda`; zero for the interpolator of least norm.
        effective_noise: :math:`\tau^2`.
        threshold: :math:`\theta`, by which singular values are lowered.
        degrees: :math:`\mathrm{df}`, degrees of freedom of the fit per entry.
        training_error: mean squared residual, :math:`\tau^2(\alpha - \mathrm{df})^2/\alpha`.
    """

    error: float
    strength: float
    effective_noise: float
    threshold: float
    degrees: float
    training_error: float


def nuclear_norm_risk(beta: float, rho: float, alpha: float, noise: float, strength: float) -> NuclearNormRisk:
    r"""The estimator of least :math:`\frac12\sum_\mu (y_\mu - h_\mu)^2 + \lambda (dL)^{1/4}\|S\|_*`.

    Equation :eq:`nuclear-norm-risk` of the documentation.

    Args:
        beta: :math:`L/d`, finite and > 0.
        rho: :math:`r/d`, finite and > 0.
        alpha: sample ratio :math:`n/(dL)`, finite and > 0.
        noise: variance :math:`\Delta\ge 0` of the label noise.
        strength: :math:`\lambda\ge 0`; 0 is the limit of small strength, the interpolator of least nuclear norm (least
            squares from :math:`\alpha = 1` on).

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> round(nuclear_norm_risk(beta=1, rho=0.3, alpha=0.5, noise=0.0, strength=0.1).error, 8)
        0.24076464
    """
    problem = _Problem.checked(beta, rho, alpha, noise)
    if not 0 <= strength < np.inf:
        raise ParameterError("strength", strength, "finite and >= 0")
    return problem.at_strength(float(strength))


def best_nuclear_norm(beta: float, rho: float, alpha: float, noise: float) -> NuclearNormRisk:
    r"""The strength of least error; without noise that of interpolation.

    Equation :eq:`nuclear-norm-risk` of the documentation.

    At the best threshold :math:`\partial E/\partial\theta = 0`, that is :math:`\int_\theta\nu\,(f - \hat s) = 0`.

    Args:
        beta: :math:`L/d`, finite and > 0.
        rho: :math:`r/d`, finite and > 0.
        alpha: sample ratio :math:`n/(dL)`, finite and > 0.
        noise: variance :math:`\Delta\ge 0` of the label noise.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> best = best_nuclear_norm(beta=1, rho=0.3, alpha=0.5, noise=0.1)
        >>> round(best.error, 8), round(best.strength, 4)
        (0.37289523, 0.1158)
    """
    return _best(_Problem.checked(beta, rho, alpha, noise))


@lru_cache(maxsize=1024)
def _best(problem: _Problem) -> NuclearNormRisk:
    return problem.best()


class _Seen:
    """The signal seen through noise, its singular values lowered by a threshold."""

    def __init__(self, beta: float, rho: float, noise: float, threshold: float) -> None:
        law = RectangularLaw(beta, rho, noise)
        s, weight, shrunk = law.nodes(threshold)
        weight, kept = weight / np.sqrt(beta), np.maximum(s - threshold, 0.0)
        self.error = float(law.mmse().value[0] + weight @ (kept - shrunk) ** 2)
        self.degrees = float(weight @ (kept * (s - shrunk)) / noise)
        self.slope = float(weight @ np.where(s > threshold, shrunk - kept, 0.0))
        self.largest = float(np.nanmax(law.support))


@dataclass(frozen=True)
class _Problem:
    """Fixed points of one model at one sample ratio, ``beta >= 1``."""

    beta: float
    rho: float
    alpha: float
    noise: float

    @classmethod
    def checked(cls, beta: float, rho: float, alpha: float, noise: float) -> _Problem:
        for name, value in (("beta", beta), ("rho", rho), ("alpha", alpha)):
            if not 0 < value < np.inf:
                raise ParameterError(name, value, "finite and > 0")
        if not 0 <= noise < np.inf:
            raise ParameterError("noise", noise, "finite and >= 0")
        # The transposed matrix has the same singular values.
        beta, rho = (1 / beta, rho / beta) if beta < 1 else (beta, rho)
        return cls(float(beta), float(rho), float(alpha), float(noise))

    def at_strength(self, strength: float) -> NuclearNormRisk:
        """The fixed point of a given strength."""
        if strength == 0 and self.alpha >= 1:
            return self._least_squares()
        if strength == 0 and self.noise == 0 and self.alpha >= nuclear_norm_threshold(self.beta, self.rho):
            return NuclearNormRisk(0.0, 0.0, 0.0, 0.0, self.alpha, 0.0)
        largest = self._seen(self._unlearned, np.inf).largest
        if strength >= self.alpha * largest:
            return self._risk(self._unlearned, np.inf, strength)
        level = self._unlearned

        def excess_strength(log_eta: float) -> float:
            # The strength that belongs to eta less the one asked for, per threshold: finite at both ends.
            nonlocal level
            level = self._level(lambda r: float(np.exp(log_eta) * np.sqrt(r)), level)
            theta = float(np.exp(log_eta) * np.sqrt(level))
            return self.alpha - self._seen(level, theta).degrees - strength / theta

        high = float(np.log(largest / np.sqrt(self._unlearned)))
        low = high - 0.5
        while excess_strength(low) > 0:
            high, low = low, low - 0.5
        eta = float(np.exp(scipy.optimize.brentq(excess_strength, low, high, **_ROOT)))
        level = self._level(lambda r: float(eta * np.sqrt(r)), level)
        return self._risk(level, float(eta * np.sqrt(level)), strength)

    def best(self) -> NuclearNormRisk:
        """The fixed point of least error."""
        if self.noise == 0:
            return self.at_strength(0.0)
        level = self._level(self._best_threshold, self._unlearned)
        found = self._risk(level, self._best_threshold(level))
        # A threshold that asks for more degrees of freedom than there are samples is out of reach: interpolation is
        # what comes closest to it.
        return found if found.strength > 0 else self.at_strength(0.0)

    @property
    def _unlearned(self) -> float:
        """The effective noise of an estimate of zero."""
        return (1 + self.noise) / self.alpha

    def _least_squares(self) -> NuclearNormRisk:
        excess = self.alpha - 1
        level = self.noise / excess if excess > 0 else (np.inf if self.noise else 0.0)
        return NuclearNormRisk(level, 0.0, level, 0.0, 1.0, self.noise * excess / self.alpha)

    def _seen(self, level: float, threshold: float) -> _Seen:
        return _Seen(self.beta, self.rho, level, threshold)

    def _best_threshold(self, level: float) -> float:
        largest = self._seen(level, np.inf).largest
        ends = 1e-9 * largest, largest * (1 - 1e-9)
        return float(scipy.optimize.brentq(lambda x: -self._seen(level, x).slope, *ends, **_EXTREMUM))

    def _level(self, threshold: Callable[[float], float], near: float) -> float:
        r"""The root :math:`\tau^2` of :math:`\alpha\tau^2 = \Delta + E` with a threshold that depends on it."""

        def excess(log_level: float) -> float:
            level = float(np.exp(log_level))
            return self.alpha - (self.noise + self._seen(level, threshold(level)).error) / level

        least, most = max(self.noise / self.alpha, _LEAST), _MOST
        low, high = max(least, near / _NEAR), min(most, near * _NEAR)
        if excess(np.log(low)) > 0:
            low, high = least, low
        elif excess(np.log(high)) < 0:
            low, high = high, most
        if excess(np.log(low)) >= 0 or excess(np.log(high)) <= 0:
            # No root within reach: an estimate without error, or without bound.
            return low if excess(np.log(low)) >= 0 else high
        return float(np.exp(scipy.optimize.brentq(excess, np.log(low), np.log(high), **_ROOT)))

    def _risk(self, level: float, threshold: float, strength: float | None = None) -> NuclearNormRisk:
        seen = self._seen(level, threshold)
        left = self.alpha - seen.degrees
        strength = threshold * left if strength is None else strength
        return NuclearNormRisk(seen.error, strength, level, threshold, seen.degrees, level * left**2 / self.alpha)
