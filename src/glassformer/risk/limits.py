"""Error of the minimiser of a regularised risk as a function of the sample ratio."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.models.base import Model, require_theory
from glassformer.risk.fixed_points import FixedPoints, fixed_points, refine_averages
from glassformer.risk.loss_base import Loss
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.problem import NEGLIGIBLE_NOISE, SMALL_STRENGTH, RiskProblem, positive_alpha, risk_problem
from glassformer.risk.tuning import best_strength

# Training loss relative to the test loss below which all labels are fitted (beyond rounding errors).
_FITTED = 1e-20
# Best strengths below this share of lambda_max are noted (a convention).
_WEAK = 1e-3
# Relative distance below which a rank is that of the student's width.
_REACHED = 1e-6
# Number of best strengths in a note; all are in the column.
_LISTED = 6


def risk_limits(
    model: Model,
    alpha: ArrayLike,
    loss: Loss,
    penalty: Penalty,
    strength: float | None,
    throw: bool = True,
    student_rho: float | None = None,
) -> Table:
    r"""Return error, overlap and spectrum of the minimiser of a regularised risk at each sample ratio.

    Equation :eq:`regularised-risk` of the documentation.

    The estimate minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,[w_1 N\|S\|_* + \frac{w_2}2\|S\|_F^2]`, with
    :math:`N = (dL)^{1/4}` for bilinear sequence regression. For attention-indexed models it is positive and minimises
    :math:`\frac14\sum_\mu\|Y_\mu - h_\mu\|_F^2 + \lambda d\,\mathrm{Tr}\,S`, the effect of weight decay on factors of
    full width. With the penalty ``pinned`` the trace of the estimate equals that of the teacher, which labels that are
    not centred, :math:`x_a^TSx_b/\sqrt d`, determine; weight decay then has no effect.

    Args:
        model: model of the teacher: a prior of extensive width, and labels that correlate with their fields.
        alpha: sample ratios, finite and > 0.
        loss: convex loss from :mod:`glassformer.risk.losses`.
        penalty: penalty from :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss). None for the best strength:
            of least error, or for classification of the largest cosine, which has the least label error for signs and
            hardmax; and None for the penalty ``pinned``.
        throw: raise an error if a row did not converge.
        student_rho: width of the student over ``d``, for the penalties nuclear and trace; None for full width.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error``
        (:math:`E = Q_0 - 2m + q`), ``overlap`` (``m``), ``power`` (``q``), ``cosine`` (:math:`m/\sqrt{qQ_0}`),
        ``label_error`` (share of new noiseless labels +1 and -1, or of rows of hardmax labels, that the fitted field
        predicts wrongly, as in :func:`~glassformer.bayes_optimal.limits.limits`), ``training_loss`` and ``test_loss``
        (means of the loss over samples), ``rank`` (of the estimate, relative to the smaller side), ``degrees`` (degrees
        of freedom of the fit), ``effective_noise`` (:math:`\tau^2`), ``threshold`` (:math:`\theta`, by which singular
        values are lowered), ``strength`` (NaN if it has no effect), ``error_estimate`` (absolute, of ``error``),
        ``residual`` and ``iterations``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: model, loss and penalty are incompatible.
        ConvergenceError: with ``throw``, a row did not converge.

    Source: derived here; for positive matrices Erba et al., arXiv:2505.17958.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
        >>> risk_limits(model, [0.5], Square(), penalty_of("nuclear"), 0.1)["error"].round(8)
        array([0.24076464])
    """
    require_arguments(risk_limits, locals())
    alpha = positive_alpha(alpha)
    require_theory(model)
    problem = risk_problem(model, loss, penalty, strength, student_rho)
    if strength is None:
        points = best_strength(problem, alpha)
    else:
        points = fixed_points(problem, alpha, np.full_like(alpha, strength))
    points = refine_averages(problem, alpha, points)
    # At strength zero the threshold is that of the small strength of the limit, except for least squares.
    noisy = points.conjugate.noise > NEGLIGIBLE_NOISE
    limit = (points.strength == 0) & noisy & ~problem.is_least_squares(alpha, points.strength)
    small = np.where(limit, SMALL_STRENGTH, points.strength)
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = problem.threshold(small, points.conjugate)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            **problem.columns(points.order),
            "training_loss": points.averages.training_loss,
            "test_loss": points.averages.test_loss,
            "rank": points.order.rank,
            "degrees": points.order.degrees,
            "effective_noise": np.where(noisy, points.conjugate.noise, 0.0),
            "threshold": threshold,
            "strength": points.strength,
            "error_estimate": points.error_estimate,
            "residual": points.residual,
            "iterations": points.iterations.astype(float),
        },
        status=points.statuses(),
        notes=_notes(problem, alpha, points, strength),
    )
    if throw:
        table.raise_unless_converged()
    return table


def _notes(problem: RiskProblem, alpha: Array, points: FixedPoints, strength: float | None) -> list[str]:
    """Return notes on best strengths, on narrow students, and on ratios at which several positive matrices fit."""
    if problem.width is not None:
        narrow = points.order.rank > problem.width * (1 - _REACHED)
        ratios = ", ".join(f"{a:g}" for a in alpha[narrow])
        text = (
            f"alpha = {ratios}: the student is narrower than the minimum, and the theory replica symmetric, a heuristic"
        )
        return [
            *([text] if narrow.any() else []),
            *(strength_notes(problem, alpha, points) if strength is None else []),
        ]
    if not problem.penalty.pinned:
        return strength_notes(problem, alpha, points) if strength is None else []
    fitted = ~points.converged & (points.averages.training_loss <= _FITTED * points.averages.test_loss)
    if not fitted.any():
        return []
    ratios = ", ".join(f"{a:g}" for a in alpha[fitted])
    return [
        f"alpha = {ratios}: several positive matrices of the known trace fit all labels, and the minimiser is not "
        "unique: raise alpha, or use penalty trace with a strength"
    ]


def strength_notes(problem: RiskProblem, alpha: Array, points: FixedPoints) -> list[str]:
    """Return notes on best strengths: their values, and which are at an end of the search or not of least error."""
    none, weak = points.strength == 0, points.strength <= _WEAK * problem.lambda_max(alpha)
    notes = [("the best strength is zero, the limit of no penalty", none)]
    if not problem.loss.quadratic:
        text = "the best strength is nearly no penalty, below 0.1 % of one that dominates the labels"
        notes.append((text, weak & ~none))
    if problem.labels.has_label_error:
        what = (
            "least label_error" if problem.labels.has_intercept else "largest cosine (for signs, of least label_error)"
        )
        text = f"the best strength is that of the {what}, not of least error"
        notes.append((text, points.order.error > problem.power))
    values = ", ".join(f"{strength:.4g}" for strength in points.strength[:_LISTED])
    more = ", ... (column strength)" if len(alpha) > _LISTED else ""
    return [
        f"best strength: {values}{more}",
        *(f"alpha = {', '.join(f'{a:g}' for a in alpha[rows])}: {text}" for text, rows in notes if rows.any()),
    ]
