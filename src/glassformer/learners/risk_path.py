"""Risk path: minimisers of a regularised risk on data at many strengths, with an intercept and sample weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy
from numpy.typing import ArrayLike

from glassformer.core.arrays import AnyArray
from glassformer.core.checks import is_number, is_whole, require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.designs.base import Design
from glassformer.learners.empirical_risk import EmpiricalRisk, gap_scale
from glassformer.learners.multiclass import BestIntercepts, MulticlassDesign, best_intercepts
from glassformer.learners.proximal_gradient import NARROW, InputScale, input_scale, largest_ratio, least_risk
from glassformer.learners.weighted_losses import BestIntercept, Intercept, WeightedLoss
from glassformer.numerics.decompositions import singular_values, svd
from glassformer.risk.loss_base import Loss
from glassformer.risk.losses import loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.risk.penalty_base import MATRICES, POSITIVE_MATRICES, Penalty

if TYPE_CHECKING:
    import pandas

# Default number of strengths, smallest strength relative to the largest, and settings at each strength.
STRENGTHS, _LEAST, ITERATION = 20, 1e-3, Iteration(tolerance=1e-4, max_iterations=5000)
# Singular values below this share of the largest one are rounding errors.
_ROUNDING = 1e-9
# Factor of the largest useful strength, so that the estimate is zero in spite of rounding errors.
_MARGIN = 1 + 1e-6


@dataclass(frozen=True, eq=False)
class RiskPath(DisplayMixin):
    """Minimisers at several strengths, the largest first.

    Attributes:
        strengths: shape (k,).
        estimates: shape (k, L, d).
        intercepts: shape (k,).
        gaps: certified duality gap at the intercept, relative to the risk of an estimate of zero, or to a hundred times
            the penalty if that is less; gaps of the size of rounding errors are relative to the risk of zero, shape
            (k,).
        status: status of each minimiser.
        iterations: total number of steps.
    """

    strengths: Array
    estimates: Array
    intercepts: Array
    gaps: Array
    status: tuple[Status, ...]
    iterations: int
    drawing = "plot_risk_path"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per strength."""
        import pandas

        columns = {"strength": self.strengths, "rank": self.ranks, "intercept": self.intercepts, "gap": self.gaps}
        return pandas.DataFrame({**columns, "status": [str(status) for status in self.status]})

    @property
    def ranks(self) -> Array:
        """Ranks of the estimates."""
        return np.array([rank_of(one) for one in self.estimates])

    @property
    def converged(self) -> bool:
        """Whether all minimisers converged."""
        return all(status.ok for status in self.status)


def risk_path(
    design: Design | MulticlassDesign,
    labels: ArrayLike,
    loss: Any = "square",
    penalty: str | Penalty = "nuclear",
    strengths: ArrayLike | int = STRENGTHS,
    *,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> RiskPath:
    r"""Return minimisers of :math:`\sum_\mu w_\mu\,\ell(y_\mu, h_\mu + b) + \lambda\,p(S)` at decreasing strengths.

    Each minimisation starts at the minimiser of the previous strength, and has its own certificate. A strength that is
    small beside the previous one is reached by others in between. Below the rounding errors of the risk, minimisers are
    those of the limit of strength 0.

    Args:
        design: inputs, for instance :class:`~glassformer.designs.dense.DenseDesign`.
        labels: labels in the shape of the fields; +1 and -1 for ``"logistic"`` and ``"hinge"``.
        loss: loss, as for :class:`~glassformer.learners.regularised_risk.RegularisedRisk`.
        penalty: penalty, as for the same class.
        strengths: :math:`\lambda > 0` in any order, in the units of the same class for bilinear models; or their
            number. Then the largest strength is the smallest one with an estimate of zero (for ridge, the one that
            halves the strongest direction), and the smallest is a thousandth of it.
        intercept: whether an intercept ``b`` without penalty is fitted.
        weights: :math:`w_\mu\ge 0`, one per sample; samples of weight zero are ignored.
        settings: accepted duality gap ``tolerance`` (1e-4 by default), and largest number of steps per strength.

    Raises:
        ParameterError: the loss or penalty is unknown, or strengths or weights are out of range.
        DataError: labels do not match the inputs, or are not allowed by the loss.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> path = risk_path(design, design.forward(signal, 0) + 0.1 * rng.standard_normal(150), strengths=6)
        >>> path.ranks[:2].tolist(), path.converged
        ([0, 1], True)
    """
    require_arguments(risk_path, locals())
    problem = PenalisedProblem.of(design, labels, loss, penalty, intercept, weights)
    return problem.path(problem.strengths(strengths), settings or ITERATION)


def rank_of(matrix: Array) -> int:
    """Return the number of singular values that are not zero up to rounding.

    Example:
        >>> rank_of(np.diag([1.0, 1e-20]))
        1
    """
    values = singular_values(matrix)
    return int(np.sum(values > _ROUNDING * max(float(values[0]), 1e-300)))


def parse_strengths(strengths: ArrayLike | int) -> Array | int:
    """Return strengths in decreasing order, or their number.

    Raises:
        ParameterError: strengths are neither positive numbers nor their number.
    """
    if is_whole(strengths, 0) or (is_number(strengths) and float(strengths).is_integer()):
        require_integer("strengths", strengths, 2)
        return int(strengths)
    wanted = np.sort(np.atleast_1d(np.asarray(strengths, dtype=float)).ravel())[::-1]
    if not wanted.size or not np.all(np.isfinite(wanted)) or np.any(wanted <= 0):
        raise ParameterError("strengths", strengths, "finite numbers > 0, or how many of them (an integer >= 2)")
    return wanted


def sample_weights(weights: ArrayLike | None, samples: int) -> Array:
    """Return the weights of the samples, ones by default.

    Raises:
        ParameterError: weights are not finite numbers >= 0, one per sample, or all of them vanish.
    """
    w = np.ones(samples) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (samples,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ParameterError("weights", weights, f"{samples} numbers >= 0, one per sample, not all of them zero")
    return w


@dataclass(frozen=True, eq=False)
class PenalisedProblem:
    """A problem of loss, penalty, intercept and sample weights on given inputs, for any strength."""

    design: Any
    labels: Array
    loss: Loss
    penalty: Penalty
    intercept: bool
    positive: bool = False

    @classmethod
    def of(
        cls,
        design: Any,
        labels: ArrayLike,
        loss: str | Loss | Callable[..., AnyArray],
        penalty: str | Penalty,
        intercept: bool,
        weights: ArrayLike | None,
    ) -> PenalisedProblem:
        """Return the problem on validated data, without samples of weight zero.

        Raises:
            DataError: labels do not match the inputs, or are not allowed by the loss.
            ParameterError: the loss or penalty is unknown, or weights are out of range.
        """
        own, y = loss_of(loss), np.asarray(labels, dtype=float)
        if y.shape != tuple(design.field_shape):
            raise DataError("y", y.shape, f"a shape {tuple(design.field_shape)} that matches X")
        if not np.all(np.isfinite(y)):
            raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
        if own.binary and not np.all(np.abs(y) == 1):
            raise DataError("y", float(y[np.abs(y) != 1][0]), f"+1 or -1, the labels of loss {own.name}")
        w = sample_weights(weights, len(y))
        if np.any(w == 0):
            design, y, w = design.rows(w > 0), y[w > 0], w[w > 0]
        if np.any(w != 1):
            own = WeightedLoss(own, w.reshape(-1, *[1] * (y.ndim - 1)))
        chosen = penalty_of(penalty, MATRICES, POSITIVE_MATRICES)
        problem = cls(design, y, own, chosen, intercept, positive=MATRICES not in chosen.signals)
        if problem.penalty.pinned:
            raise ParameterError("penalty", penalty, "a penalty with strengths, for instance trace: pinned has none")
        if problem.positive:
            pull = design.adjoint(y, 0)
            if pull.shape[-2] != pull.shape[-1] or not np.allclose(pull, np.swapaxes(pull, -1, -2)):
                allowed = "nuclear, ridge or elastic for these inputs, whose fields are not those of symmetric matrices"
                raise ParameterError("penalty", penalty, allowed)
        return problem

    @cached_property
    def scale(self) -> InputScale:
        """Scale of the inputs, with the fields of their entries for direct solutions of smooth problems."""
        smooth = bool(np.isfinite(self.loss.sharpness)) and (not self.penalty.quadratic or self.loss.quadratic)
        direct = smooth and self.penalty.parts is not None and self.labels.ndim == 1 and not self.positive
        return input_scale(self.at(1.0, self.fitted_loss(0.0)), with_entries=direct)

    def at(self, strength: float, loss: Loss | None = None) -> EmpiricalRisk:
        """Return the risk at a strength, with the problem's loss or another one."""
        rows, columns = self.design.signal_shape[-2:]
        unit = 1.0 if self.positive else float(rows * columns) ** 0.25
        return EmpiricalRisk(
            self.design, self.labels, loss or self.loss, self.penalty.times(strength, unit), self.positive
        )

    def strengths(self, strengths: ArrayLike | int) -> Array:
        """Return strengths in decreasing order; a number of strengths is replaced by a grid."""
        wanted = parse_strengths(strengths)
        if isinstance(wanted, int):
            return np.asarray(np.geomspace(1.0, _LEAST, wanted) * self.largest_strength)
        return wanted

    @property
    def largest_strength(self) -> float:
        """Smallest strength with an estimate of zero; for ridge, the one that halves the strongest direction."""
        risk = self.at(1.0, self.fitted_loss(0.0))
        return largest_ratio(risk, self.scale) * (1.0 if risk.penalty.kink == 0 else _MARGIN)

    def best_intercept(self, fields: Array) -> Any:
        """Return the intercept, or one intercept per field, that minimises the loss; 0 without an intercept."""
        if not self.intercept:
            return 0.0
        if fields.ndim > 1:
            return best_intercepts(self.loss, self.labels, fields, np.zeros(fields.shape[1]))

        def slope(shift: float) -> float:
            if np.isfinite(self.loss.sharpness):
                return float(np.sum(self.loss.slope(self.labels, fields + shift)))
            # A loss with kinks has the slopes of a narrow envelope.
            return -float(np.sum(self.loss.score(self.labels, fields + shift, NARROW)[0]))

        sizes = float(np.max(np.abs(fields))), float(np.max(np.abs(self.labels)))
        # In units of the data where these are small: the accuracy is relative to the end.
        end = (min(1.0, max(sizes)) or 1.0) + sum(sizes)
        for _ in range(20):
            if slope(-end) < 0 < slope(end):
                return float(scipy.optimize.brentq(slope, -end, end, xtol=1e-10 * end))
            end *= 2
        return end if slope(-end) < 0 else -end

    def path(self, strengths: Array, settings: Iteration, after: tuple[float, Array, Any] | None = None) -> RiskPath:
        """Return the minimisers at decreasing strengths, each from the minimiser before.

        Args:
            strengths: shape (k,).
            settings: tolerance and largest number of steps.
            after: a larger strength, and the estimate and intercept at it, for instance the end of another path; an
                estimate of zero by default.
        """
        if self.penalty.quadratic and self.scale.entries is not None:
            return self._ridge_path(strengths, settings, self.scale.entries)
        zero = np.zeros(self.design.signal_shape)
        previous, first, shift = after or (None, zero, self.best_intercept(np.zeros_like(self.labels)))
        solutions, shifts, estimates = [], [], [first]
        for k, strength in enumerate(strengths):
            start = estimates[-1]
            if k > 1 and strengths[k - 2] > strengths[k - 1]:
                # Minimisers are nearly linear in the logarithm of the strength, which halves the number of steps.
                before, last, now = np.log([strengths[k - 2], strengths[k - 1], strength])
                start = start + min((last - now) / (before - last), 1.0) * (start - estimates[-2])
            ratio = None if previous is None else float(previous / strength)
            solution, shift = self._solve(float(strength), start, shift, settings, ratio)
            previous = strength
            estimates.append(solution.value[0])
            solutions.append(solution)
            shifts.append(shift)
        return RiskPath(
            strengths,
            np.array([one.value[0] for one in solutions]),
            np.array(shifts),
            np.array([one.residual[0] for one in solutions]),
            tuple(one.status[0] for one in solutions),
            int(sum(one.iterations[0] for one in solutions)),
        )

    def _ridge_path(self, strengths: Array, settings: Iteration, entries: Array) -> RiskPath:
        """Return the minimisers of a square loss and a quadratic penalty, by one decomposition of the inputs."""
        weights = np.broadcast_to(self.loss.weights, self.labels.shape)
        share = weights / weights.sum() if self.intercept else np.zeros_like(weights)
        means, shift, root = share @ entries, share @ self.labels, np.sqrt(weights)
        inputs, labels = root[:, None] * (entries - means), (root * (self.labels - shift))[:, None]
        left, values, right = svd(inputs)
        squares = self.scale.unit * self.penalty.square * strengths
        # Linearly dependent inputs have singular values of the size of rounding errors, which small strengths amplify.
        rank = int(np.sum(values > np.finfo(float).eps * max(inputs.shape) * values[0]))
        left, values, right = left[:, :rank], values[:rank, None], right[:rank]
        # One column per strength.
        curvatures = values**2 + squares
        solutions = right.T @ (values / curvatures * (left.T @ labels))
        # The gap of a quadratic risk is known exactly. Solutions have no part outside the span of the inputs.
        gradients = right @ (inputs.T @ (inputs @ solutions - labels) + squares * solutions)
        excess, penalties = np.sum(gradients**2 / curvatures, axis=0) / 2, squares * np.sum(solutions**2, axis=0) / 2
        gaps = excess / [gap_scale(*each, self.scale.risk_of_zero) for each in zip(excess, penalties, strict=True)]
        return RiskPath(
            strengths,
            solutions.T.reshape(-1, *self.design.signal_shape),
            shift - means @ solutions,
            gaps,
            tuple(Status.CONVERGED if gap <= settings.tolerance else Status.ITERATION_LIMIT for gap in gaps),
            len(strengths),
        )

    def fitted_loss(self, shift: float) -> Loss:
        """Return the loss at the best intercept, or intercepts of several fields, if these are fitted."""
        if not self.intercept:
            return self.loss
        if self.labels.ndim > 1:
            return BestIntercepts(self.loss, np.zeros(self.labels.shape[1]))
        return BestIntercept(self.loss, Intercept(shift))

    def _solve(
        self, strength: float, start: Array, shift: Array | float, settings: Iteration, ratio: float | None
    ) -> tuple[Solution, Any]:
        """Return the estimate and the intercept of the joint minimum; the start is that of ``ratio`` this strength."""
        several = self.labels.ndim > 1
        loss = self.fitted_loss(0.0 if several else float(shift))
        solution = least_risk(self.at(strength, loss), settings, start, self.scale, ratio)
        if several or not self.intercept:
            return solution, self.best_intercept(self.design.forward(solution.value[0], 0))
        assert isinstance(loss, BestIntercept)
        # This evaluation updates the intercept to that of the solution, for which the certificate holds.
        loss.value(self.labels, self.design.forward(solution.value[0], 0))
        return solution, loss.intercept.value
