r"""The theory of one convex row: the minimiser of a loss and a penalty over one vector of weights.

Equations :eq:`one-row-risk` of the documentation. The labels enter as for matrices
(:mod:`glassformer.risk.label_averages`), the weights by :mod:`glassformer.risk.rows.one_row_weights`, and the
iteration is that of :mod:`glassformer.risk.fixed_points`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.models.base import Model, require_theory
from glassformer.priors.features import whitens
from glassformer.risk.fixed_points import FixedPoints, fixed_points, fixed_points_near, refine_averages
from glassformer.risk.limits import strength_notes
from glassformer.risk.loss_base import Loss, sign_labels_error
from glassformer.risk.losses import Hinge
from glassformer.risk.order_parameters import ConjugateParameters, OrderParameters
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.problem import SMALL_STRENGTH, Flags, RiskProblem, positive_alpha
from glassformer.risk.rows.class_averages import ClassAverages
from glassformer.risk.rows.one_row_averages import OneRowAverages
from glassformer.risk.rows.one_row_weights import WeightMoments, lasso_dimension, weight_moments
from glassformer.risk.tuning import best_strength

# Strength of the hinge from which the search for the largest margin begins (chosen by trial), and strength that stands
# for the limit of no penalty, to which errors converge in proportion to the strength.
_WEAK, _TINY = 1e-3, 1e-12
# Standard deviations of a weight seen through noise beyond which no weight survives a threshold (a convention).
_FARTHEST = 6.0
# Slopes of labels on their field that are rounding.
_NO_SLOPE = 1e-9


@dataclass(frozen=True)
class OneRowProblem(RiskProblem):
    r"""Minimise :math:`\sum_\mu\ell(y_\mu, z_\mu) + \lambda\sum_i r(w_i)` over one row of weights.

    Attributes:
        has_intercept: whether a number is fitted that is added to the field.
    """

    penalty: Penalty
    given_averages: OneRowAverages | None = None
    has_intercept: bool = False

    some_estimate = "some weights separate"

    @property
    def power(self) -> float:
        return 1.0

    @property
    def positive(self) -> bool:
        return False

    @property
    def reaches_zero(self) -> bool:
        # Some of infinitely many weights exceed any threshold.
        return False

    def moments(self, strength: Array, conjugate: ConjugateParameters) -> WeightMoments:
        """Return the order parameters, and the averages that stability and free energy need."""
        return weight_moments(self.penalty, self.model.prior, strength, conjugate)

    def order_parameters(self, strength: Array, conjugate: ConjugateParameters) -> OrderParameters:
        return self.moments(strength, conjugate).order

    def largest_value(self, noise: Array) -> Array:
        return np.asarray(_FARTHEST * np.sqrt(1 + noise))

    @property
    def norm_dimension(self) -> float | None:
        return lasso_dimension(self.model.prior)

    @property
    def rank(self) -> float:
        components = self.model.prior.weight_components
        if components is None:
            return np.nan
        return float(np.sum(components.weights[(components.means != 0) | (components.variances > 0)]))

    @cached_property
    def labels(self) -> OneRowAverages:
        if self.given_averages is not None:
            return self.given_averages
        return averages_of(self.model, self.loss, self.has_intercept)

    def is_least_squares(self, alpha: Array, strength: Array) -> Flags:
        alike = not whitens(self.model.prior) and self.penalty.quadratic
        quadratic = np.full(alpha.shape, self.loss.quadratic)
        return np.asarray(quadratic & (strength == 0) & ((alpha >= 1) | alike))

    def conjugate_parameters(self, alpha: Array, order: OrderParameters) -> ConjugateParameters:
        return self.conjugate_from_averages(alpha, self.labels.without_losses(order))

    def tuned_error(self, order: OrderParameters) -> Array:
        """Return the squared difference of the field from the linear part of the label."""
        slope, _ = self.labels.regression
        return np.asarray(order.error + (slope**2 - 1) - 2 * (slope - 1) * order.overlap)

    def columns(self, order: OrderParameters) -> dict[str, Array]:
        """Return order parameters, and how well the estimate predicts, as columns of a table.

        Overlap and power are matrices of shape (1, 1), cosines have shape (1,).
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = order.overlap / np.sqrt(order.power)
        columns = {
            "overlap": order.overlap[:, None, None],
            "power": order.power[:, None, None],
            "cosine": cosine[:, None],
            "error": order.error,
        }
        if self.labels.signs:
            columns["label_error"] = self.labels.label_error(order)
        if not self.labels.signs or not (self.model.channel.labels.discrete or self.loss.binary):
            columns["prediction_error"] = self.labels.prediction_error(order)
        return columns

    def fits(self, alpha: Array) -> Flags:
        """Return where some weights of finite norm fit all labels, or separate them, in the limit of no penalty."""
        if self.loss.quadratic or self.loss.exact_fit.quadratic:
            return np.asarray((alpha < 1) | (self.labels.exact_components > 0))
        return np.asarray(alpha < self.labels.separability)

    @property
    def at_exact_fit(self) -> OneRowProblem:
        """The problem of the least penalty among weights that fit all labels."""
        labels = self.labels.at_exact_fit
        return replace(self, loss=labels.loss, given_averages=labels)


class OneRowPoints(NamedTuple):
    """Fixed points of one row, arrays of shape (batch,).

    Attributes:
        problem: model, loss and penalty.
        points: order parameters, averages, iterations.
        intercept: added to the field.
        stability: the replicon's radius.
        free_energy: minimum of the risk over ``d``.
        unbounded: where the weights grow without end as the strength vanishes, and only their direction has a limit:
            ``points`` are those of weights with margin one.
    """

    problem: OneRowProblem
    points: FixedPoints
    intercept: Array
    stability: Array
    free_energy: Array
    unbounded: Flags

    def statuses(self) -> list[Status]:
        """Return the status of every row."""
        return self.points.statuses()

    def columns(self) -> dict[str, Array]:
        """Return the columns of a table."""
        points, infinite = self.points, np.where(self.unbounded, np.inf, 1.0)
        found = self.problem.columns(points.order)
        for name in ("overlap", "power"):
            found[name] = found[name] * infinite[:, None, None]
        found["error"] = found["error"] * infinite
        found["training_loss"] = points.averages.training_loss
        found["test_loss"] = points.averages.test_loss * infinite
        found |= {"stability": self.stability, "free_energy": self.free_energy, "strength": points.strength}
        if self.problem.has_intercept:
            found["intercept"] = self.intercept * infinite
        return {
            **found,
            "error_estimate": points.error_estimate,
            "residual": points.residual,
            "iterations": points.iterations.astype(float),
        }

    def at(self, rows: Any) -> OneRowPoints:
        """Return some of the fixed points."""
        return OneRowPoints(self.problem, self.points.at(rows), *(part[rows] for part in self[2:]))

    @classmethod
    def merge(cls, chosen: Flags, first: OneRowPoints, second: OneRowPoints) -> OneRowPoints:
        """Return the rows of ``first`` where ``chosen``, and the rows of ``second`` elsewhere."""
        arrays: list[Any] = []
        for one, other in zip(first[2:], second[2:], strict=True):
            both = np.empty(len(chosen), dtype=one.dtype)
            both[chosen], both[~chosen] = one, other
            arrays.append(both)
        return cls(second.problem, FixedPoints.merge(chosen, first.points, second.points), *arrays)


def averages_of(model: Model, loss: Loss, intercept: bool) -> OneRowAverages:
    """Return the averages over the labels of a model of one index and one token."""
    kind = OneRowAverages if model.channel.fields.states is None else ClassAverages
    return kind.of(model, loss, intercept)


def one_row_problem(
    model: Model, loss: Loss, penalty: Penalty, strength: float | None, intercept: bool = False
) -> OneRowProblem:
    """Return the problem if model, loss, penalty and strength go together.

    Raises:
        IncompatibleError: they do not.
    """
    channel = model.channel
    if (channel.fields.rows, channel.fields.columns) != (1, 1):
        raise IncompatibleError(f"model {model.name}: this theory is for one index and one token")
    averages = averages_of(model, loss, intercept)
    if loss.binary and not averages.signs:
        values = np.unique(averages.joint.y).tolist() if channel.labels.discrete else ()
        raise sign_labels_error(loss.name, model, values)
    if strength == 0 and channel.fields.states is not None:
        raise IncompatibleError("strength = 0 is no limit for classes of a mixture: give a small one, such as 1e-6")
    slope, _ = averages.regression
    if slope < -_NO_SLOPE:
        reason = f"labels of channel {channel.label} fall with their field, E[h y] = {slope:.3g}"
        raise IncompatibleError(f"{reason}: turn the sign of the field in the link")
    if strength == 0 and loss.exact_fit is None:
        raise IncompatibleError(f"strength = 0 of loss {loss.name} has no known limit: give one > 0")
    if strength == 0 and loss.unbounded and not (penalty.quadratic or penalty.is_norm):
        reason = f"strength = 0 of loss {loss.name} and penalty {penalty.name}: the estimate grows without end"
        raise IncompatibleError(f"{reason}: use ridge or lasso, or give one > 0")
    return OneRowProblem(model, loss.adapted(channel), penalty, has_intercept=intercept)


def one_row_points(
    model: Model,
    alpha: Array,
    loss: Loss,
    penalty: Penalty,
    strength: float | None,
    intercept: bool = False,
) -> OneRowPoints:
    r"""Return the minimisers of a risk of one row at sample ratios.

    Args:
        model: of one index and one token.
        alpha: sample ratios ``n/d > 0``, shape (batch,).
        loss: of a label and a field, convex.
        penalty: of the weights.
        strength: :math:`\lambda\ge 0`, 0 for the limit of small strength; None for the best one.
        intercept: whether a number is fitted that is added to the field.

    Raises:
        IncompatibleError: they do not go together.

    Source: Salehi, Abbasi and Hassibi, arXiv:1906.03761; Aubin, Krzakala, Lu and Zdeborova, arXiv:2006.06560.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> from glassformer.risk.losses import Logistic
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> found = one_row_points(model, np.array([1.0]), Logistic(), penalty_of("ridge"), 0.1)
        >>> found.columns()["power"].round(6).ravel(), found.columns()["label_error"].round(7)
        (array([2.317383]), array([0.2558643]))
    """
    problem = one_row_problem(model, loss, penalty, strength, intercept)
    if strength is None:
        points = best_strength(problem, alpha)
    elif strength > 0 or problem.loss.quadratic:
        points = fixed_points(problem, alpha, np.full_like(alpha, strength))
    else:
        return _limit_of_no_penalty(problem, alpha)
    return _completed(problem, alpha, refine_averages(problem, alpha, points))


def _limit_of_no_penalty(problem: OneRowProblem, alpha: Array) -> OneRowPoints:
    """Return the limit of small strength: the least penalty where labels can be fitted, else the best fit."""
    fits = problem.fits(alpha)
    if not fits.any():
        return _best_fit(problem, alpha)
    if not fits.all():
        return OneRowPoints.merge(
            fits, _limit_of_no_penalty(problem, alpha[fits]), _limit_of_no_penalty(problem, alpha[~fits])
        )
    exact = problem.at_exact_fit
    if exact.loss.quadratic:
        points = fixed_points(replace(problem, loss=exact.loss), alpha, np.zeros_like(alpha))
        found = _completed(replace(problem, loss=exact.loss), alpha, points)
    else:
        found = _completed(exact, alpha, _largest_margin(exact, alpha))
    points = found.points
    some = points.order._replace(susceptibility=np.ones_like(alpha))
    averages = points.averages._replace(
        training_loss=np.zeros_like(alpha), test_loss=problem.labels.averages(some).test_loss
    )
    zero = np.zeros_like(alpha)
    return found._replace(
        problem=problem,
        points=points._replace(averages=averages, strength=zero),
        free_energy=zero,
        unbounded=np.full(alpha.shape, problem.loss.unbounded),
    )


def _largest_margin(exact: OneRowProblem, alpha: Array) -> FixedPoints:
    """Return the weights of least penalty whose margins are one, which those of a weakly penalised hinge approach."""
    hinge = replace(exact, loss=Hinge(), given_averages=replace(exact.labels, loss=Hinge()))
    near = fixed_points(hinge, alpha, np.full_like(alpha, _WEAK), estimated=False)
    start = near.conjugate.logarithms - np.log([1.0, _WEAK, _WEAK])
    return refine_averages(exact, alpha, fixed_points_near(exact, alpha, np.ones_like(alpha), start))


def _best_fit(problem: OneRowProblem, alpha: Array) -> OneRowPoints:
    """Return the minimiser without a penalty, where no weights fit all labels."""
    weak, weaker = (fixed_points(problem, alpha, np.full_like(alpha, strength)) for strength in (4 * _TINY, _TINY))
    points = refine_averages(problem, alpha, weaker)
    change = np.abs(weak.order.error - weaker.order.error)
    points = points._replace(error_estimate=points.error_estimate + 2 * change)
    found = _completed(problem, alpha, points)
    return found._replace(points=points._replace(strength=np.zeros_like(alpha)))


def _completed(problem: OneRowProblem, alpha: Array, points: FixedPoints) -> OneRowPoints:
    """Return fixed points with what follows from them.

    At strength zero conjugate parameters are in units of a small strength.
    """
    labels = problem.labels
    strength = np.where(points.strength == 0, SMALL_STRENGTH, points.strength)
    # As many labels as weights, some of them noise, make the power of least squares infinite.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        moments = problem.moments(strength, points.conjugate)
        order = points.order._replace(susceptibility=moments.order.susceptibility)
        slopes = replace(labels, interpolating=False).slope_square(order)
        if labels.interpolating:
            slopes = 1 / order.susceptibility**2
        stability = alpha * slopes * moments.response_square
        free_energy = alpha * points.averages.training_loss + points.strength * moments.penalty
    recovered = (points.strength == 0) & problem.recovers(alpha)
    if recovered.any():
        # Noise shrinks by this factor in every step of message passing with the best threshold.
        stability[recovered] = problem.statistical_dimension[0] / alpha[recovered]
    return OneRowPoints(
        problem=problem,
        points=points,
        intercept=labels.intercept(points.order),
        stability=np.asarray(stability),
        free_energy=np.where(points.strength == 0, alpha * points.averages.training_loss, free_energy),
        unbounded=np.zeros(alpha.shape, dtype=bool),
    )


def one_row_limits(
    model: Model,
    alpha: ArrayLike,
    loss: Loss,
    penalty: Penalty,
    strength: float | None,
    intercept: bool = False,
    throw: bool = True,
) -> Table:
    r"""Return overlap, errors and free energy of the minimiser of a risk of one row at each sample ratio.

    Equation :eq:`one-row-risk` of the documentation.

    Args:
        model: of one index and one token.
        alpha: sample ratios, finite and > 0.
        loss: as for :func:`one_row_points`.
        penalty: as there.
        strength: as there.
        intercept: as there.
        throw: raise when a row did not converge.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``overlap`` and ``power`` (shape (1, 1)),
        ``cosine`` (shape (1,)), ``error`` (:math:`E = 1 - 2m + q`), ``label_error`` (share of new labels +1 and -1,
        without their own noise where they have any without it, that the sign of the field misses) or
        ``prediction_error`` (squared difference of new labels, without noise, from the field; also for losses of
        numbers on labels +1 and -1 that are random at any field, of their mean), ``training_loss``,
        ``test_loss``, ``stability`` (the replicon's radius, at most one), ``free_energy`` (minimum of the risk over
        ``d``), ``strength``, ``intercept`` where one is fitted, ``error_estimate`` (absolute, of ``error``),
        ``residual`` and ``iterations``. Where weights grow without end as the strength vanishes, their power is
        infinite and their direction has a limit.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the model, loss and penalty do not go together.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> from glassformer.risk.losses import Hinge
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> one_row_limits(model, [1.0], Hinge(), penalty_of("ridge"), 0.5)["label_error"].round(6)
        array([0.263176])
    """
    alpha = positive_alpha(alpha)
    require_theory(model)
    found = one_row_points(model, alpha, loss, penalty, strength, intercept)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={"alpha": alpha, **found.columns()},
        status=found.statuses(),
        notes=strength_notes(found.problem, alpha, found.points) if strength is None else [],
    )
    if throw:
        table.raise_unless_converged()
    return table
