r"""Penalties on a matrix, and what they make of one seen through noise.

Regularised risk minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,[w_1\|S\|_* + \frac{w_2}2\|S\|_F^2]`, the
nuclear norm in units of :math:`(dL)^{1/4}` (of the trace of positive matrices, in units of ``d``). In the limit of
large sizes the estimate is that of a matrix seen through noise, :math:`Y = S + \tau Z`, its singular values lowered by
a threshold :math:`\theta` and multiplied by a gain. Labels of networks that are not centred,
:math:`y = x^TSx/\sqrt d`, show the trace of ``S`` before anything else: it is pinned, weight decay has no effect any
more, and the threshold is what keeps the trace of the estimate where it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.random_matrices.nodes import SpectralLaw

# Steps of the search for a threshold, and the relative one after which to stop.
_STEPS, _LAST = 60, 1e-13
# Share of the singular values that a quadrature may miss: beyond, part of the law is wrong and nothing is known.
_MISSED = 1e-4


@dataclass(frozen=True)
class Penalty:
    """A sum of the nuclear norm and half the squared Frobenius norm, with these weights.

    Attributes:
        spectral: weight of the nuclear norm, or trace.
        square: weight of half the squared norm.
        positive: whether it is for positive matrices alone.
        pinned: whether the trace is known instead, and no strength has an effect.
    """

    spectral: float
    square: float
    positive: bool = False
    pinned: bool = False

    def threshold(self, prior: Any, strength: Array, fields: Fields) -> Array:
        r""":math:`\theta`, by which values of the noisy matrix are lowered, shape (batch,)."""
        if self.pinned:
            return _of_trace(prior.noisy_law(fields.noise), fields.gain / fields.stiffness)
        return self.spectral * strength / fields.gain


PENALTIES = {
    "nuclear": Penalty(1.0, 0.0),
    "ridge": Penalty(0.0, 1.0),
    "elastic": Penalty(0.5, 0.5),
    "trace": Penalty(1.0, 0.0, positive=True),
    "pinned": Penalty(1.0, 0.0, positive=True, pinned=True),
}


def penalty_of(name: object) -> Penalty:
    """The penalty of this name.

    Raises:
        ParameterError: there is none.

    Example:
        >>> penalty_of("ridge")
        Penalty(spectral=0.0, square=1.0, positive=False, pinned=False)
    """
    if not (isinstance(name, str) and name in PENALTIES):
        raise ParameterError("penalty", name, f"one of {', '.join(PENALTIES)}")
    return PENALTIES[name]


class Learned(NamedTuple):
    r"""What is learned at given fields, arrays of shape (batch,).

    Attributes:
        overlap: :math:`m`, of estimate and teacher.
        power: :math:`q`, of the estimate.
        susceptibility: :math:`V`.
        error: :math:`E = Q_0 - 2m + q`, as a sum of positive terms.
        degrees: degrees of freedom of the fit.
        rank: share of singular values that are not zero.
        blur: quadrature error of ``error``.
    """

    overlap: Array
    power: Array
    susceptibility: Array
    error: Array
    degrees: Array
    rank: Array
    blur: Array


class Fields(NamedTuple):
    r"""Conjugate parameters, shape (batch,): :math:`\tau^2 = \hat q/\hat m^2`, :math:`\hat m` and :math:`\hat V`."""

    noise: Array
    gain: Array
    stiffness: Array


def _of_trace(law: SpectralLaw, gain: Array) -> Array:
    r"""The threshold at which :math:`\kappa\int\nu(s-\theta)_+` is the trace of the signal, that of the noisy matrix.

    It is convex and falls: from the left Newton's steps never lead too far.
    """
    theta = np.zeros_like(gain)
    s, weight, _ = law.nodes(theta)
    goal = np.sum(weight * s, axis=1) / gain
    for _ in range(_STEPS):
        s, weight, _ = law.nodes(theta)
        kept = np.maximum(s - theta[:, None], 0.0)
        step = (np.sum(weight * kept, axis=1) - goal) / np.sum(weight * (kept > 0), axis=1)
        theta = theta + step
        if np.all(np.abs(step) <= _LAST * (1 + np.abs(theta))):
            break
    return theta


def learned(prior: Any, penalty: Penalty, strength: Array, fields: Fields) -> Learned:
    r"""The estimate that a penalty makes of the teacher's matrix seen through noise.

    With :math:`\theta = \lambda w_1/\hat m`, :math:`f = (s-\theta)_+` and
    :math:`\kappa = \hat m/(\hat V + \lambda w_2)`: :math:`m = \kappa\int\nu f\hat s`,
    :math:`q = \kappa^2\int\nu f^2`, :math:`V = \mathrm{df}/(\hat V + \lambda w_2)` and
    :math:`E = \mathrm{MMSE} + \int\nu(\kappa f - \hat s)^2`, ``nu`` the law of the noisy matrix.

    Args:
        prior: of the teacher; see :meth:`~glassformer.priors.matrix_base.ScalarPrior.noisy_law`.
        penalty: weights.
        strength: :math:`\lambda\ge 0`, shape (batch,); NaN where it has no effect.
        fields: conjugate parameters.
    """
    ridge = fields.stiffness + penalty.square * np.nan_to_num(strength)
    gain = fields.gain / ridge
    power = prior.second_moment
    if penalty.spectral == 0:
        one = np.ones_like(gain)
        error = (1 - gain) ** 2 * power + gain**2 * fields.noise
        return Learned(gain * power, gain**2 * (power + fields.noise), 1 / ridge, error, one, one, 4e-16 * error)
    law = prior.noisy_law(fields.noise)
    threshold = penalty.threshold(prior, strength, fields)
    s, weight, shrunk = law.nodes(threshold)
    kept = np.maximum(s - threshold[:, None], 0.0)
    rank, mass = np.sum(weight * (kept > 0), axis=1), np.sum(weight, axis=1)
    weight = weight * law.unit[:, None]
    mmse = law.mmse()
    overlap, square = np.sum(weight * kept * shrunk, axis=1), np.sum(weight * kept**2, axis=1)
    error = mmse.value + np.sum(weight * (gain[:, None] * kept - shrunk) ** 2, axis=1)
    degrees = np.sum(weight * kept * (s - shrunk), axis=1) / fields.noise
    blur = mmse.error + np.abs(error - (power - 2 * gain * overlap + gain**2 * square))
    blur = np.where(np.abs(mass - 1) > _MISSED, np.inf, blur)
    return Learned(gain * overlap, gain**2 * square, degrees / ridge, error, degrees, rank, blur)
