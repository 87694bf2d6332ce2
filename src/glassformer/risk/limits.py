"""Error of the minimiser of a regularised risk as a function of the sample ratio."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.models.base import Model, require_theory
from glassformer.risk.fixed_points import FixedPoints, fixed_points, refine_averages
from glassformer.risk.loss_base import Loss
from glassformer.risk.penalties import MatrixPenalty, OrderParameters
from glassformer.risk.problem import NEGLIGIBLE_NOISE, SMALL_STRENGTH, RiskProblem, risk_problem
from glassformer.risk.tuning import best_strength

# Best strengths below this share of the largest useful one are reported: little depends on them (a convention).
_WEAK = 1e-3


def risk_limits(
    model: Model, alpha: ArrayLike, loss: Loss, penalty: MatrixPenalty, strength: float | None, throw: bool = True
) -> Table:
    r"""Return error, overlap and spectrum of the minimiser of a regularised risk at each sample ratio.

    Equation :eq:`regularised-risk` of the documentation.

    The estimate minimises :math:`\sum_\mu\ell(y_\mu, h_\mu) + \lambda\,[w_1 N\|S\|_* + \frac{w_2}2\|S\|_F^2]`, with
    :math:`N = (dL)^{1/4}` for bilinear sequence regression. For attention-indexed models it is positive and minimises
    :math:`\frac14\sum_\mu\|Y_\mu - h_\mu\|_F^2 + \lambda d\,\mathrm{Tr}\,S`, the effect of weight decay on factors of
    full width. With the penalty ``pinned`` the trace is that of the teacher instead: labels that are not centred,
    :math:`x_a^TSx_b/\sqrt d`, show it, and weight decay has no effect.

    Args:
        model: of the teacher: a prior of extensive width and a channel from which a linear fit learns.
        alpha: sample ratios, finite and > 0.
        loss: convex, of :mod:`glassformer.risk.losses`.
        penalty: weights, of :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda\ge 0`, 0 for the interpolator of least norm (square loss). None for the strength of
            least error (for labels that are right or wrong, of the largest cosine, which has the least label error for
            signs and hardmax), and where the trace is pinned.
        throw: raise when a row did not converge.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error``
        (:math:`E = Q_0 - 2m + q`), ``overlap`` (``m``), ``power`` (``q``), ``cosine`` (:math:`m/\sqrt{qQ_0}`),
        ``label_error`` (share of new labels +1 and -1, or rows of hardmax labels, without their own noise, that the
        fitted field gets wrong, as in :func:`~glassformer.bayes_optimal.limits.limits`),
        ``training_loss`` and ``test_loss`` (means of the loss over samples), ``rank`` (of the estimate, per dimension
        of the smaller side), ``degrees`` (of freedom), ``effective_noise`` (:math:`\tau^2`), ``threshold``
        (:math:`\theta`, by which singular values are lowered), ``strength`` (NaN where it has no effect),
        ``error_estimate`` (absolute, of ``error``), ``residual`` and ``iterations``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the model, loss and penalty do not go together.
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
    alpha = validated_alpha(alpha)
    if np.any(alpha <= 0):
        raise ParameterError("alpha", float(alpha.min()), "> 0: regularised risk learns from samples")
    require_theory(model)
    problem = risk_problem(model, loss, penalty, strength)
    if strength is None:
        points = best_strength(problem, alpha)
    else:
        points = fixed_points(problem, alpha, np.full_like(alpha, strength))
    points = refine_averages(problem, alpha, points)
    # At strength zero the threshold is that of the small strength that stands for it, except for least squares.
    noisy = points.conjugate.noise > NEGLIGIBLE_NOISE
    limit = (points.strength == 0) & noisy & ~problem.is_least_squares(alpha, points.strength)
    small = np.where(limit, SMALL_STRENGTH, points.strength) / model.prior.degrees
    with np.errstate(divide="ignore", invalid="ignore"):
        threshold = penalty.threshold(model.prior, small, points.conjugate)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            **order_columns(problem, points.order),
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
        notes=_notes(problem, alpha, points) if strength is None else [],
    )
    if throw:
        table.raise_unless_converged()
    return table


def order_columns(problem: RiskProblem, order: OrderParameters) -> dict[str, Array]:
    """Return order parameters, and how well the estimate predicts, as columns of a table."""
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = order.overlap / np.sqrt(order.power * problem.power)
    columns = {"error": order.error, "overlap": order.overlap, "power": order.power, "cosine": cosine}
    if problem.labels.has_label_error:
        columns["label_error"] = problem.labels.label_error(order)
    return columns


def _notes(problem: RiskProblem, alpha: Array, points: FixedPoints) -> list[str]:
    """Report best strengths at an end of the search, or chosen by something else than the error."""
    none, weak = points.strength == 0, points.strength <= _WEAK * problem.lambda_max(alpha)
    notes = [("no penalty at all is best, the limit of small strength", none)]
    if not problem.loss.quadratic:
        text = "the best strength is below a thousandth of the largest useful one: it hardly matters"
        notes.append((text, weak & ~none))
    if problem.labels.has_label_error:
        text = "the best strength has the largest cosine (for signs the least label_error): the error is not tuned"
        notes.append((text, points.order.error > problem.power))
    return [f"alpha = {', '.join(f'{a:g}' for a in alpha[rows])}: {text}" for text, rows in notes if rows.any()]
