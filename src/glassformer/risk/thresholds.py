"""Thresholds of a regularised risk: weak recovery, interpolation of the labels, and perfect recovery."""

from __future__ import annotations

import numpy as np

from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds
from glassformer.core.checks import require_arguments
from glassformer.models.base import Model, require_theory
from glassformer.numerics.roots import root_by_growth
from glassformer.risk.loss_base import Loss
from glassformer.risk.order_parameters import ConjugateParameters
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.problem import RiskProblem, risk_problem

# Logarithms of sample ratios: initial interval of the search for a root, and range of double precision.
_LOG_RATIOS, _LOG_BOUNDS = (-5.0, 5.0), (-150.0, 700.0)
# Logarithms of the effective noise: initial interval of the search, and range in which degrees of freedom change by
# more than rounding. At an end of the range, the change over the last stretch is the error of the limit.
_LOG_NOISES, _LOG_NOISE_RANGE, _STRETCH = (-5.0, 5.0), (-30.0, 40.0), 2.0
# Relative accuracy of a root, and reported relative error.
_ROOT, _REPORTED = 1e-12, 1e-9


def risk_thresholds(model: Model, loss: Loss, penalty: Penalty, strength: float | None) -> Thresholds:
    r"""Return the thresholds of weak recovery, interpolation and perfect recovery of a regularised risk.

    Equation :eq:`interpolation` of the documentation.

    - ``weak_recovery``: below this ratio a penalty of this strength gives an estimate of zero.
    - ``interpolation``: below this ratio some matrix fits all labels (square loss), or separates labels +1 and -1
      without a mistake (losses of binary labels), and without a penalty the loss vanishes. At this ratio the degrees of
      freedom of the fit with square loss equal the number of labels; for binary labels
      :math:`1/\alpha = \min_{c\le 0}E\,(Z + c\,y h)_+^2` with standard normal ``Z``.
    - ``perfect_recovery``: above this ratio the error of the interpolator of exact labels is zero. Any penalty of
      positive strength causes a bias.

    Args:
        model: model of the teacher.
        loss: convex loss from :mod:`glassformer.risk.losses`.
        penalty: penalty from :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda\ge 0`; None for the best one.

    Raises:
        IncompatibleError: model, loss and penalty are incompatible.

    Source: derived here; for binary labels Sur and Candes, arXiv:1803.06964.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
        >>> round(risk_thresholds(model, Square(), penalty_of("nuclear"), 0.0)["perfect_recovery"].alpha, 6)
        0.725255
    """
    require_arguments(risk_thresholds, locals())
    require_theory(model)
    return thresholds_of(risk_problem(model, loss, penalty, strength), strength)


def thresholds_of(problem: RiskProblem, strength: float | None) -> Thresholds:
    """Return the thresholds of :func:`risk_thresholds` of a problem."""
    model = problem.model
    entries = (_weak_recovery(problem, strength), _interpolation(problem), _perfect_recovery(problem, strength))
    return Thresholds(model.name, model.parameters, entries, False, "the risk is convex and has one minimum")


def _weak_recovery(problem: RiskProblem, strength: float | None) -> Threshold:
    """Return the sample ratio at which the strength is ``lambda_max``."""
    name = "weak_recovery"
    if strength is None or strength == 0 or not problem.reaches_zero:
        return Threshold(name, 0.0, 0.0, "the estimate is non-zero at any alpha > 0")

    def excess(log_ratio: float) -> float:
        return float(np.log(problem.lambda_max(np.exp([log_ratio]))[0] / strength))

    alpha = float(np.exp(root_by_growth(excess, *_LOG_RATIOS, bounds=_LOG_BOUNDS, xtol=_ROOT)))
    error = _REPORTED * alpha if alpha else float(np.exp(_LOG_BOUNDS[0]))
    return Threshold(name, alpha, error, "with fewer samples the penalised estimate is zero")


def _interpolation(problem: RiskProblem) -> Threshold:
    if problem.loss.quadratic:
        return _exact_fit(problem)
    if problem.labels.binary and problem.loss.binary:
        return _separability(problem)
    reason = f"no equation is known for the ratio below which loss {problem.loss.name} can vanish"
    return Threshold("interpolation", np.nan, 0.0, reason)


def _exact_fit(problem: RiskProblem) -> Threshold:
    """Return the sample ratio at which a fit without penalty has as many degrees of freedom as labels."""
    name = "interpolation"
    slope, rest = problem.labels.regression
    if rest == 0 or problem.labels.exact_components > 0:
        return Threshold(name, np.inf, 0.0, "exact linear labels can be fitted at any sample ratio")
    note = "with fewer samples all labels can be fitted: degrees of freedom = labels"
    per_ratio = problem.labels.components / problem.model.prior.degrees
    if not problem.positive:
        return Threshold(name, 1 / per_ratio, 0.0, note)

    def degrees_and_error(log_noise: float) -> tuple[float, float]:
        conjugate = ConjugateParameters.from_logarithms(np.array([[log_noise, 0.0, 0.0]]))
        order = problem.order_parameters(np.zeros(1), conjugate)
        return float(order.degrees[0]), float(order.error[0])

    def excess(log_noise: float) -> float:
        degrees, error = degrees_and_error(log_noise)
        return float(np.log(degrees) + log_noise - np.log(rest / slope**2 + error))

    root = root_by_growth(excess, *_LOG_NOISES, bounds=_LOG_NOISE_RANGE, xtol=_ROOT)
    log_noise = float(np.clip(root, *_LOG_NOISE_RANGE))
    degrees, _ = degrees_and_error(log_noise)
    error = _REPORTED * degrees
    if np.isinf(root):
        error += abs(degrees - degrees_and_error(log_noise - np.copysign(_STRETCH, root))[0])
    return Threshold(name, degrees / per_ratio, error / per_ratio, note)


def _separability(problem: RiskProblem) -> Threshold:
    """Return the sample ratio above which no matrix separates labels +1 and -1."""
    name = "interpolation"
    best = problem.labels.separability
    if np.isinf(best):
        return Threshold(name, np.inf, 0.0, "noiseless labels are separable at any sample ratio")
    alpha = problem.model.prior.degrees * best
    return Threshold(name, alpha, _REPORTED * alpha, f"with fewer samples {problem.some_estimate} the labels")


def _perfect_recovery(problem: RiskProblem, strength: float | None) -> Threshold:
    name = "perfect_recovery"
    if not problem.labels.exact_components > 0:
        return Threshold(name, np.nan, 0.0, "labels do not determine h for this loss")
    if strength:
        return Threshold(name, np.inf, 0.0, "a penalty causes a bias: the error vanishes only at strength 0")
    per_label = problem.model.prior.degrees / problem.labels.exact_components
    value, error = problem.statistical_dimension
    note = "of least penalty; extrapolated to zero noise" if error else "of least norm; closed form"
    return Threshold(name, value * per_label, error * per_label, f"of the interpolator {note}")
