"""Thresholds of perfect recovery by minimal nuclear norm or trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy

from glassformer.core.checks import require_arguments
from glassformer.core.errors import ParameterError
from glassformer.numerics.quadrature import tanh_sinh

# Nodes of the tanh-sinh rule: integrands with two square-root edges are exact to rounding.
_NODES = 161


def nuclear_norm_threshold(beta: float, rho: float, student_rho: float = np.inf) -> float:
    r"""Return the sample ratio above which minimal nuclear norm recovers the signal perfectly.

    Equation :eq:`nuclear-norm-threshold` of the documentation.

    The estimator minimises :math:`\|S\|_*` subject to :math:`\mathrm{Tr}(X_\mu S^T)/\sqrt{dL} = y_\mu`. Its threshold
    is the normalised statistical dimension of the nuclear norm's descent cone. For :math:`\beta = L/d \ge 1`, with
    :math:`b = 1/\beta`, :math:`\gamma = b(1-\rho)/(1-\rho b)` and ``t`` of the Marchenko-Pastur law of ratio
    :math:`\gamma` on :math:`(1 \pm \sqrt\gamma)^2`,

    .. math:: \alpha = \rho + b\rho - b\rho^2
       + (1 - \rho b)\,\min_\ell \left[\rho\ell^2 + (1-\rho)\,E(\sqrt t - \ell)_+^2\right].

    For :math:`\beta < 1` the transposed problem is solved; :math:`\beta\to\infty` gives
    :math:`2\rho - \rho^2`, and a matrix of full rank, :math:`\rho \ge \min(1, \beta)`, needs
    :math:`\alpha = 1`.

    A student of width :math:`\kappa d` keeps as many singular values: the mean is then over the largest ones of the
    noise, a share :math:`(\kappa-\rho)/(1-\rho)`. At :math:`\kappa = \rho` that is counting, :math:`\rho + b\rho -
    b\rho^2`. Replica symmetric, a conjecture below full width.

    Args:
        beta: :math:`L/d > 0`, or infinity.
        rho: :math:`r/d \ge 0`, or infinity.
        student_rho: width of the student over ``d``, at least ``rho``; by default full width.

    Returns:
        :math:`\alpha = n/(dL)`.

    Raises:
        ParameterError: an argument is out of range.

    Source: Donoho, Gavish, Montanari, "The phase transition of matrix recovery from Gaussian measurements matches the
    minimax MSE of matrix denoising", PNAS 2013; arXiv:2410.18858 in these units. Narrow students: derived here;
    arXiv:2601.10483 has a threshold over widths for quadratic networks.

    Example:
        >>> round(nuclear_norm_threshold(beta=1, rho=0.1), 6)
        0.351144
        >>> [round(nuclear_norm_threshold(1, 0.1, width), 4) for width in (0.1, 0.2, 0.5)]
        [0.19, 0.329, 0.3511]
        >>> nuclear_norm_threshold(beta=float("inf"), rho=0.5)
        0.75
        >>> nuclear_norm_threshold(beta=0.5, rho=0.5)  # rank min(L, d)
        1.0
    """
    require_arguments(nuclear_norm_threshold, locals())
    _validate_beta(beta)
    if not rho >= 0:
        raise ParameterError("rho", rho, ">= 0, or infinity")
    if not student_rho >= rho:
        raise ParameterError("student_rho", student_rho, f"at least rho = {rho}: narrower students cannot be exact")
    if beta < 1:
        beta, rho, student_rho = 1 / beta, rho / beta, student_rho / beta
    if rho >= 1:
        return 1.0
    if rho == 0:
        return 0.0
    if np.isinf(beta):
        return float(rho * (2 - rho))
    b = 1 / beta
    width = float(np.sqrt(b * (1 - rho) / (1 - rho * b)))
    least = _largest_values(partial(_excess_moment, 0.0, width, 0), (1 - width, 1 + width), rho, student_rho)
    level = scipy.optimize.brentq(
        lambda x: (1 - rho) * _excess_moment(x, width, 1, least) - rho * x, 0.0, 1 + width, xtol=1e-15, rtol=4e-15
    )
    cost = rho * level**2 + (1 - rho) * _excess_moment(level, width, 2, least)
    return float(rho * (1 + b * (1 - rho)) + (1 - rho * b) * cost)


def trace_dimension(rho: float, student_rho: float = np.inf) -> float:
    r"""Return the labels per unknown above which the positive matrix of least trace that fits the labels is the signal.

    With the semicircle law of ``x`` on [-2, 2],

    .. math:: \min_\eta\,\bigl\{1 - (1-\rho)^2 + \rho\eta^2 + (1-\rho)\,E(\sqrt{1-\rho}\,x - \eta)_+^2\bigr\},

    in units of :math:`d^2/2` linear labels, :math:`\alpha\,T(T+1)` of an attention-indexed model.

    Args:
        rho: :math:`r/d > 0`; from 1 on the answer is 1.
        student_rho: width of the student over ``d``, at least ``rho``, as of :func:`nuclear_norm_threshold`.

    Example:
        >>> [round(trace_dimension(rho) / 2, 6) for rho in (0.1, 0.3, 0.5)]
        [0.157572, 0.327155, 0.422175]
    """
    if not student_rho >= rho:
        raise ParameterError("student_rho", student_rho, f"at least rho = {rho}: narrower students cannot be exact")
    if rho >= 1:
        return 1.0
    rule, root = tanh_sinh(_NODES), np.sqrt(1 - rho)

    def excess(level: float, power: int, least: float = -2.0) -> float:
        start = min(max(level / root, least), 2.0)
        x, rest = start + (2 - start) * rule.from_left, (2 - start) * rule.from_right
        density = np.sqrt(rest * (2 + x)) / (2 * np.pi)
        return float((2 - start) * (rule.weight @ (density * (root * x - level) ** power)))

    least = _largest_values(partial(excess, -2.0 * root, 0), (-2.0, 2.0), rho, student_rho)
    level = scipy.optimize.brentq(lambda eta: rho * eta - (1 - rho) * excess(eta, 1, least), 0.0, 2 * root, xtol=1e-15)
    return float(1 - (1 - rho) ** 2 + rho * level**2 + (1 - rho) * excess(level, 2, least))


def _largest_values(mass: Callable[[float], float], ends: tuple[float, float], rho: float, student_rho: float) -> float:
    """Return the value of the noise above which a student has room, the lower end if it has for all."""
    room = (min(student_rho, 1.0) - rho) / (1 - rho)
    if room >= 1:
        return ends[0]
    if room <= 0:
        return ends[1]
    return float(scipy.optimize.brentq(lambda least: mass(least) - room, *ends, xtol=1e-14))


def nuclear_norm_threshold_low_width(beta: float) -> float:
    r"""Return the nuclear-norm threshold for width :math:`\rho\to 0`, per degree of freedom of the factors.

    With :math:`b = \min(\beta, 1/\beta)`,

    .. math:: \alpha_{LR} = \frac{n}{r(L+d)} = 1 + \frac{(1 + \sqrt b)^2}{1 + b}.

    It is approached slowly, by terms of order :math:`\rho^{2/5}`.

    Args:
        beta: :math:`L/d > 0`, or infinity.

    Returns:
        :math:`\alpha_{LR}`, between 2 (infinite ``beta``) and 3 (square).

    Raises:
        ParameterError: ``beta`` is out of range.

    Source: the limit of :func:`nuclear_norm_threshold` (Donoho, Gavish, Montanari 2013), where the minimum is at the
    edge :math:`\ell = 1 + \sqrt b`; arXiv:2410.18858.

    Example:
        >>> nuclear_norm_threshold_low_width(1.0)
        3.0
    """
    _validate_beta(beta)
    b = min(beta, 1 / beta)
    return float(1 + (1 + np.sqrt(b)) ** 2 / (1 + b))


def _validate_beta(beta: float) -> None:
    if not beta > 0:
        raise ParameterError("beta", beta, "> 0, or infinity")


def _excess_moment(level: float, width: float, power: int, least: float = 0.0) -> float:
    r"""Return the moment :math:`E(\sqrt t - \ell)_+^k` of the Marchenko-Pastur law of ratio ``width**2 <= 1``.

    Over :math:`\sqrt t` above ``least``.

    In the angle :math:`\sqrt t = 1 + \sqrt\gamma\cos\varphi` both square-root edges disappear.
    """
    end = np.arccos(np.clip((max(level, least) - 1) / width, -1.0, 1.0))
    rule = tanh_sinh(_NODES)
    # For a square matrix sqrt(t) vanishes at the far end of the angle, so it is built from the distance to that end.
    rest = (np.pi - end) + end * rule.from_right
    root = (1 - width) + 2 * width * np.sin(rest / 2) ** 2
    density = np.sin(rest) ** 2 * np.sqrt((root + 1 + width) * (root + 1 - width)) / (np.pi * root)
    return float(end * (rule.weight @ (density * np.maximum(root - level, 0.0) ** power)))
