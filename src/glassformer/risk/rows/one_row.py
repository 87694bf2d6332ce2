r"""The theory of one convex row: the minimiser of a loss and a penalty over one vector of weights.

Equations :eq:`one-row-risk` of the documentation. The labels enter as for matrices
(:mod:`glassformer.risk.label_averages`), the weights by :mod:`glassformer.risk.rows.one_row_penalties`, and the
iteration is that of :mod:`glassformer.risk.fixed_points`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.models.base import Model, require_theory
from glassformer.risk.fixed_points import FixedPoints, fixed_points, refine_averages
from glassformer.risk.loss_base import Loss
from glassformer.risk.problem import Flags, RiskProblem
from glassformer.risk.rows.one_row_averages import OneRowAverages
from glassformer.risk.rows.one_row_penalties import WeightPenalty
from glassformer.risk.tuning import best_strength


@dataclass(frozen=True)
class OneRowProblem(RiskProblem):
    r"""Minimise :math:`\sum_\mu\ell(y_\mu, z_\mu) + \lambda\sum_i r(w_i)` over one row of weights.

    Attributes:
        has_intercept: whether a number is fitted that is added to the field.
    """

    penalty: WeightPenalty
    given_averages: OneRowAverages | None = None
    has_intercept: bool = False

    @property
    def power(self) -> float:
        return 1.0

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
        return OneRowAverages(self.model.channel, self.power, self.loss, has_intercept=self.has_intercept)

    def is_least_squares(self, alpha: Array, strength: Array) -> Flags:
        alike = not self.model.prior.whitens and self.penalty.spectral == 0
        quadratic = np.full(alpha.shape, self.loss.quadratic)
        return np.asarray(quadratic & (strength == 0) & ((alpha >= 1) | alike))

    def stability(self, alpha: Array, points: FixedPoints) -> Array:
        r"""Return the replicon's radius, :math:`\alpha E(\partial_\omega g)^2\,E(dw/db)^2`: below one."""
        moments = self.penalty.moments(self.model.prior, points.strength, points.conjugate)
        return np.asarray(alpha * self.labels.slope_square(points.order) * moments.response_square)

    def free_energy(self, alpha: Array, points: FixedPoints) -> Array:
        r"""Return the minimum of the risk over ``d``, :math:`\alpha E\,\ell + \lambda E\,r`."""
        moments = self.penalty.moments(self.model.prior, points.strength, points.conjugate)
        return np.asarray(alpha * points.averages.training_loss + points.strength * moments.penalty)


class OneRowPoints(NamedTuple):
    """Fixed points of one row, arrays of shape (batch,).

    Attributes:
        problem: model, loss and penalty.
        points: order parameters, averages, iterations.
        intercept: added to the field.
        stability: the replicon's radius.
        free_energy: minimum of the risk over ``d``.
        predictions: ``label_error`` of labels +1 and -1, ``prediction_error`` of others.
    """

    problem: OneRowProblem
    points: FixedPoints
    intercept: Array
    stability: Array
    free_energy: Array
    predictions: dict[str, Array]

    def statuses(self) -> list[Status]:
        """Return the status of every row."""
        return self.points.statuses()

    def columns(self) -> dict[str, Array]:
        """Return the columns of a table; overlap and power are matrices of shape (1, 1)."""
        order, points = self.points.order, self.points
        with np.errstate(divide="ignore", invalid="ignore"):
            cosine = order.overlap / np.sqrt(order.power)
        found = {
            "overlap": order.overlap[:, None, None],
            "power": order.power[:, None, None],
            "cosine": cosine[:, None],
            "error": order.error,
            **self.predictions,
            "training_loss": points.averages.training_loss,
            "test_loss": points.averages.test_loss,
            "stability": self.stability,
            "free_energy": self.free_energy,
            "strength": points.strength,
        }
        if self.problem.has_intercept:
            found["intercept"] = self.intercept
        return {
            **found,
            "error_estimate": points.error_estimate,
            "residual": points.residual,
            "iterations": points.iterations.astype(float),
        }


def one_row_problem(
    model: Any, loss: Loss, penalty: WeightPenalty, strength: float | None, intercept: bool = False
) -> OneRowProblem:
    """Return the problem if model, loss, penalty and strength go together.

    Raises:
        IncompatibleError: they do not.
    """
    channel = model.channel
    if (channel.rows, channel.columns) != (1, 1):
        raise IncompatibleError(f"model {model.name}: this theory is for one index and one token")
    if loss.binary and set(channel.values) != {-1.0, 1.0}:
        reason = f"loss {loss.name} is for labels +1 and -1, not for labels of channel {channel.label}"
        raise IncompatibleError(f"{reason}: use square or huber")
    return OneRowProblem(model, loss.adapted(channel), penalty, has_intercept=intercept)


def one_row_points(
    model: Any,
    alpha: Array,
    loss: Loss,
    penalty: WeightPenalty,
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
        >>> from glassformer.risk.rows.one_row_penalties import weight_penalty
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> found = one_row_points(model, np.array([1.0]), Logistic(), weight_penalty("ridge"), 0.1)
        >>> found.points.order.power.round(6), found.predictions["label_error"].round(7)
        (array([2.317383]), array([0.2558643]))
    """
    problem = one_row_problem(model, loss, penalty, strength, intercept)
    if strength is None:
        points = best_strength(problem, alpha)
    else:
        points = fixed_points(problem, alpha, np.full_like(alpha, strength))
    points = refine_averages(problem, alpha, points)
    return _completed(problem, alpha, points)


def _completed(problem: OneRowProblem, alpha: Array, points: FixedPoints) -> OneRowPoints:
    labels = problem.labels
    predictions = {}
    if labels.binary:
        predictions["label_error"] = labels.label_error(points.order)
    else:
        predictions["prediction_error"] = labels.prediction_error(points.order)
    return OneRowPoints(
        problem=problem,
        points=points,
        intercept=labels.intercept(points.order),
        stability=problem.stability(alpha, points),
        free_energy=problem.free_energy(alpha, points),
        predictions=predictions,
    )


def one_row_limits(
    model: Model, alpha: ArrayLike, loss: Loss, penalty: WeightPenalty, strength: float | None, throw: bool = True
) -> Table:
    r"""Return overlap, errors and free energy of the minimiser of a risk of one row at each sample ratio.

    Args:
        model: of one index and one token.
        alpha: sample ratios, finite and > 0.
        loss: as for :func:`one_row_points`.
        penalty: as there.
        strength: as there.
        throw: raise when a row did not converge.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``overlap`` and ``power`` (shape (1, 1)),
        ``cosine`` (shape (1,)), ``error`` (:math:`E = 1 - 2m + q`), ``label_error`` (share of new labels +1 and -1,
        without their own noise where they have any without it, that the sign of the field misses) or
        ``prediction_error`` (squared difference of new labels, without noise, from the field), ``training_loss``,
        ``test_loss``, ``stability`` (the replicon's radius, below one), ``free_energy`` (minimum of the risk over
        ``d``), ``strength``, ``error_estimate`` (absolute, of ``error``), ``residual`` and ``iterations``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the model, loss and penalty do not go together.
        ConvergenceError: with ``throw``, a row did not converge.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> from glassformer.risk.losses import Hinge
        >>> from glassformer.risk.rows.one_row_penalties import weight_penalty
        >>> model = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
        >>> one_row_limits(model, [1.0], Hinge(), weight_penalty("ridge"), 0.5)["label_error"].round(6)
        array([0.263176])
    """
    alpha = validated_alpha(alpha)
    if np.any(alpha <= 0):
        raise ParameterError("alpha", float(alpha.min()), "> 0: regularised risk learns from samples")
    require_theory(model)
    found = one_row_points(model, alpha, loss, penalty, strength)
    table = Table(
        model=model.name,
        parameters=model.parameters,
        columns={"alpha": alpha, **found.columns()},
        status=found.statuses(),
        notes=[],
    )
    if throw:
        table.raise_unless_converged()
    return table
