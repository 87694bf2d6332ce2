r"""The order parameters of the penalised estimate of a matrix in noise.

Regularised risk minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,p(S)`, with a penalty on the singular values in
units of :math:`(dL)^{1/4}` (for positive matrices on the eigenvalues). In the limit of large sizes the estimate is the
proximal map of the penalty, applied to :math:`Y = S + \tau Z`: with the nuclear norm and half the squared norm,
singular values are lowered by a threshold :math:`\theta` and multiplied by a gain.

Labels that are not centred, :math:`y = x^TSx/\sqrt d`, determine the trace of ``S`` from very few samples. The trace is
then pinned: weight decay has no effect, and the threshold follows from the trace of the estimate.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import PchipInterpolator

from glassformer.core.estimate import Array
from glassformer.priors.base import ScalarPrior
from glassformer.random_matrices.atoms import LawNodes, SpectralLaw
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.penalty_base import Penalty

# Newton steps for the threshold of a pinned trace: largest number (6 to 10 are usual), and last relative step.
_STEPS, _LAST_STEP = 60, 1e-13
# Largest share of the singular values that a quadrature may miss (chosen by trial).
_MISSED_MASS = 1e-4
_ROUNDING = 4e-16
# Corrections of the value of a rank by the share above it: two leave an error of 1e-9. A smaller share is moved across
# the cut as it is, which changes averages by its square.
_CORRECTIONS, _MOVED_SHARE = 2, 1e-5


def threshold_of(penalty: Penalty, prior: ScalarPrior, strength: Array, conjugate: ConjugateParameters) -> Array:
    r"""Return :math:`\theta`, below which singular values of the noisy matrix are set to zero, shape (batch,)."""
    if penalty.pinned:
        return _threshold_of_trace(prior.noisy_law(conjugate.noise), conjugate.m_hat / conjugate.v_hat)
    return penalty.kink * strength / conjugate.m_hat


def matrix_order(
    penalty: Penalty, prior: ScalarPrior, strength: Array, conjugate: ConjugateParameters, width: float | None = None
) -> OrderParameters:
    r"""Return the order parameters of the penalised estimate of a matrix in noise.

    With the Bayes-optimal denoiser :math:`\hat s`, the law :math:`\nu` of the singular values of the noisy matrix and
    the estimate :math:`f`, the minimiser of :math:`\frac12\hat Vf^2 - \hat msf + \lambda r(f)`,

    .. math:: &m = \int\nu\,f\hat s, \quad q = \int\nu\,f^2, \quad
       E = \mathrm{MMSE}(\tau^2) + \int\nu\,(f - \hat s)^2, \\
       &V = \frac1{\hat m}\int\nu\,f\,\frac{s - \hat s}{\tau^2}, \quad \mathrm{df} = (\hat V + \lambda w_2)\,V .

    For :math:`r = w_1|f| + \frac{w_2}2f^2` it is :math:`f = \kappa(s-\theta)_+` with
    :math:`\theta = \lambda w_1/\hat m` and the gain :math:`\kappa = \hat m/(\hat V + \lambda w_2)`.

    Args:
        penalty: of singular values, or of eigenvalues if the matrices of the prior are symmetric.
        prior: prior of the teacher.
        strength: :math:`\lambda\ge 0` per degree of freedom, shape (batch,); NaN if it has no effect.
        conjugate: conjugate parameters.
        width: largest share of nonzero values; None if it is unbounded. Only the largest values are then left, which is
            replica symmetric: a heuristic below the rank of the minimum.
    """
    stiffness = conjugate.v_hat + penalty.square * np.nan_to_num(strength)
    gain = conjugate.m_hat / stiffness
    power = prior.second_moment
    if penalty.quadratic and not prior.symmetric:
        one = np.ones_like(gain)
        error = (1 - gain) ** 2 * power + gain**2 * conjugate.noise
        total = gain**2 * (power + conjugate.noise)
        return OrderParameters(gain * power, total, 1 / stiffness, error, one, one, _ROUNDING * error)
    law = prior.noisy_law(conjugate.noise)
    threshold = threshold_of(penalty, prior, strength, conjugate)
    cut, nodes = (threshold, law.nodes(threshold)) if width is None else _largest_values(law, width, threshold)
    s, weight, denoised = nodes
    # The estimate in units of the gain, which is one for penalties that are not known to contain a square.
    if penalty.parts is None:
        field = s * gain[:, None]
        lowered = np.maximum(penalty.proximal(field, (strength / conjugate.v_hat)[:, None]), 0.0) / gain[:, None]
    else:
        lowered = np.where(s > cut[:, None], s - threshold[:, None], 0.0)
    rank, mass = np.sum(weight * (lowered > 0), axis=1), np.sum(weight, axis=1)
    weight = weight * law.unit[:, None]
    mmse = law.mmse()
    overlap, square = np.sum(weight * lowered * denoised, axis=1), np.sum(weight * lowered**2, axis=1)
    error = mmse.value + np.sum(weight * (gain[:, None] * lowered - denoised) ** 2, axis=1)
    degrees = np.sum(weight * lowered * (s - denoised), axis=1) / conjugate.noise
    # The difference of two expressions of the error estimates the quadrature error.
    error_estimate = mmse.error + np.abs(error - (power - 2 * gain * overlap + gain**2 * square))
    error_estimate = np.where(np.abs(mass - 1) > _MISSED_MASS, np.inf, error_estimate)
    return OrderParameters(gain * overlap, gain**2 * square, degrees / stiffness, error, degrees, rank, error_estimate)


def value_of_rank(law: SpectralLaw, share: float) -> Array:
    """Return the value above which there is this share of the values of each law, shape (batch,).

    Interpolated between the nodes of a quadrature, and corrected by the exact share above it.

    Example:
        >>> from glassformer.priors.bilinear import BilinearPrior
        >>> law = BilinearPrior(beta=1.0, rho=0.5).noisy_law(np.array([0.1]))
        >>> cut = value_of_rank(law, 0.2)
        >>> s, weight, _ = law.nodes(cut)
        >>> round(float(np.sum(weight[s > cut])), 9)
        0.2
    """
    found, slopes = _near_rank(law.nodes(0.0), share)
    for _ in range(_CORRECTIONS):
        found = found - slopes * (_share_above(law.nodes(found), found) - share)
    return found


def _near_rank(nodes: LawNodes, share: float) -> tuple[Array, Array]:
    """Return the value of a rank as interpolated between the nodes of a quadrature, and its slope in the share."""
    found, slopes = np.empty(len(nodes.s)), np.empty(len(nodes.s))
    for row, (values, own) in enumerate(zip(nodes.s, nodes.weight, strict=True)):
        # Nodes of negligible weight at the edges of bulks share their rank.
        order = np.flatnonzero(own > _ROUNDING)
        order = order[np.argsort(values[order])]
        at, mass = values[order], own[order]
        above = 1 - np.cumsum(mass) + 0.5 * mass
        inverse = PchipInterpolator(above[::-1], at[::-1])
        found[row], slopes[row] = inverse(share), inverse.derivative()(share)
    return found, slopes


def _share_above(nodes: LawNodes, cut: Array) -> Array:
    return np.asarray(np.sum(nodes.weight * (nodes.s > cut[:, None]), axis=1))


def _largest_values(law: SpectralLaw, share: float, threshold: Array) -> tuple[Array, LawNodes]:
    """Return the values above which there is at most this share, not below a threshold, and a quadrature split there.

    The share that is missed, or too much, is moved across the cut, from and to the nearest nodes.
    """
    cut, nodes = threshold, law.nodes(threshold)
    wide = _share_above(nodes, cut) > share
    if not wide.any():
        return cut, nodes
    found, slopes = _near_rank(nodes, share)
    for correction in range(_CORRECTIONS + 1):
        cut = np.where(wide, found, threshold)
        nodes = law.nodes(cut)
        missed = np.where(wide, share - _share_above(nodes, cut), 0.0)
        if correction == _CORRECTIONS or np.all(np.abs(missed) <= _MOVED_SHARE):
            break
        found = found + slopes * missed
    rows, beyond, weight = np.arange(len(cut)), nodes.s - cut[:, None], nodes.weight.copy()
    weight[rows, np.argmin(np.where(beyond > 0, beyond, np.inf), axis=1)] += missed
    weight[rows, np.argmin(np.where(beyond > 0, np.inf, -beyond), axis=1)] -= missed
    return cut, nodes._replace(weight=weight)


def _threshold_of_trace(law: SpectralLaw, gain: Array) -> Array:
    r"""Return the threshold at which :math:`\kappa\int\nu(s-\theta)_+` is the trace of the signal.

    Noise does not change the trace. The integral is a convex and decreasing function of the threshold, so that Newton
    steps from the left never overshoot.
    """
    theta = np.zeros_like(gain)
    s, weight, _ = law.nodes(theta)
    goal = np.sum(weight * s, axis=1) / gain
    for _ in range(_STEPS):
        s, weight, _ = law.nodes(theta)
        lowered = np.maximum(s - theta[:, None], 0.0)
        step = (np.sum(weight * lowered, axis=1) - goal) / np.sum(weight * (lowered > 0), axis=1)
        theta = theta + step
        if np.all(np.abs(step) <= _LAST_STEP * (1 + np.abs(theta))):
            break
    return theta
