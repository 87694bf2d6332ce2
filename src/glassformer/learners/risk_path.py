"""Regularised risk at many strengths in one run, and the best of them by cross-validation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from glassformer.core.checks import is_number, require_integer
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.integral import Array
from glassformer.core.numerics.decompositions import singular_values
from glassformer.core.settings import Iteration
from glassformer.core.showing import Shown
from glassformer.core.solution import Solution, Status
from glassformer.learners.algorithms.changed_loss import BestShift, Constant, Shifted, Weighted
from glassformer.learners.algorithms.left_out import LeftOut, left_out
from glassformer.learners.algorithms.proximal_gradient import Scale, least_risk, scale_of
from glassformer.learners.algorithms.risk import Risk
from glassformer.learners.algorithms.several_classes import BestConstants, best_constants
from glassformer.theory.risk.losses import Loss, loss_of
from glassformer.theory.risk.penalties import Penalty, penalty_of

if TYPE_CHECKING:
    import pandas

# Strengths of a path by default, the share of the largest useful one that the least is, and a margin for rounding.
_STRENGTHS, _LEAST, _EDGE = 20, 1e-3, 1 + 1e-6
# Rounds between estimate and intercept, which stands still within the tolerance times the spread of labels, and the
# flattest secant that is believed.
_ROUNDS, _FLATTEST = 30, -0.02
# Tolerance of folds, in those of the estimate.
_LOOSER = 10.0
# Singular values below this share of the largest one are rounding errors.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class RiskPath(Shown):
    """Minimisers at several strengths, the largest first.

    Attributes:
        strengths: shape (k,).
        estimates: shape (k, L, d).
        intercepts: what is added to the fields, shape (k,).
        gaps: certified duality gap at the intercept, relative to the risk of an estimate of zero, shape (k,).
        status: of each.
        iterations: steps of all together.
    """

    strengths: Array
    estimates: Array
    intercepts: Array
    gaps: Array
    status: tuple[Status, ...]
    iterations: int
    drawing = "plot_risk_path"

    def to_pandas(self) -> pandas.DataFrame:
        """One row per strength."""
        import pandas

        columns = {"strength": self.strengths, "rank": self.ranks, "intercept": self.intercepts, "gap": self.gaps}
        return pandas.DataFrame({**columns, "status": [str(status) for status in self.status]})

    @property
    def ranks(self) -> Array:
        """Of the estimates: singular values that are not zero."""
        return np.array([rank_of(one) for one in self.estimates])

    @property
    def converged(self) -> bool:
        """Whether all of them are."""
        return all(status.ok for status in self.status)


@dataclass(frozen=True)
class CrossValidation(Shown):
    """Loss on samples that were held back, at several strengths.

    Attributes:
        strengths: shape (k,), the largest first.
        losses: mean loss per held-back sample, shape (folds, k).
        converged: whether every estimate behind them is.
    """

    strengths: Array
    losses: Array
    converged: bool
    drawing = "plot_cross_validation"

    def to_pandas(self) -> pandas.DataFrame:
        """One row per strength."""
        import pandas

        columns = {"strength": self.strengths, "loss": self.mean, "standard_error": self.standard_error}
        return pandas.DataFrame(columns)

    @property
    def mean(self) -> Array:
        """Over the folds, shape (k,)."""
        return self.losses.mean(axis=0)

    @property
    def standard_error(self) -> Array:
        """Of the mean, shape (k,)."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best(self) -> float:
        """The strength of least mean loss."""
        return float(self.strengths[np.argmin(self.mean)])

    @property
    def simplest(self) -> float:
        """The largest strength whose mean loss is within one standard error of the least."""
        least = int(np.argmin(self.mean))
        allowed = self.mean[least] + self.standard_error[least]
        return float(self.strengths[np.argmax(self.mean <= allowed)])

    @property
    def at_the_end(self) -> bool:
        """Whether the best is the least strength looked at: less might be better."""
        return int(np.argmin(self.mean)) == len(self.strengths) - 1


class _Fit(NamedTuple):
    """One penalised problem over its inputs, at any strength."""

    design: Any
    labels: Array
    loss: Loss
    penalty: Penalty
    intercept: bool
    scale: Scale | None = None

    def at(self, strength: float, loss: Loss | None = None) -> Risk:
        rows, columns = self.design.signal_shape[-2:]
        unit = 1.0 if self.penalty.positive else float(rows * columns) ** 0.25
        spectral, square = strength * self.penalty.spectral * unit, strength * self.penalty.square
        return Risk(self.design, self.labels, loss or self.loss, spectral, square, self.penalty.positive)

    def best_intercept(self, fields: Array) -> Any:
        """The constant that, added to the fields, makes the loss least; of several fields one each."""
        if not self.intercept:
            return 0.0
        if fields.ndim > 1:
            return best_constants(self.loss, self.labels, fields, np.zeros(fields.shape[1]))

        def pull(shift: float) -> float:
            return float(np.sum(_slopes(self.loss, self.labels, fields + shift)))

        reach = 1.0 + float(np.max(np.abs(fields))) + float(np.max(np.abs(self.labels)))
        for _ in range(20):
            if pull(-reach) < 0 < pull(reach):
                return float(brentq(pull, -reach, reach, xtol=1e-10 * reach))
            reach *= 2
        return 0.0 if pull(-reach) < 0 else -reach

    def solved(self, strength: float, start: Array, shift: Any, settings: Iteration) -> tuple[Solution, Any]:
        """Estimate and intercept: both at once, or, of losses with kinks, in turn.

        In turn the intercept is found by secants of how far the best one is from that assumed.
        """
        if not self.intercept:
            return least_risk(self.at(strength), settings, start, self.scale), 0.0
        if self.labels.ndim > 1:
            found = least_risk(
                self.at(strength, BestConstants(self.loss, np.zeros(self.labels.shape[1]))), settings, start, self.scale
            )
            return found, self.best_intercept(self.design.forward(found.value[0], 0))
        if np.isfinite(self.loss.sharpness):
            nearby = Constant(float(shift))
            found = least_risk(self.at(strength, BestShift(self.loss, nearby)), settings, start, self.scale)
            return found, self.best_intercept(self.design.forward(found.value[0], 0))
        spread, slope, before = _spread(self.labels, self.loss.weights) or 1.0, -1.0, (np.nan, np.nan)
        for _ in range(_ROUNDS):
            found = least_risk(self.at(strength, Shifted(self.loss, shift)), settings, start, self.scale)
            start = found.value[0]
            away = self.best_intercept(self.design.forward(start, 0)) - shift
            if abs(away) <= settings.tolerance * spread:
                return found, shift
            if np.isfinite(before[0]) and shift != before[0]:
                slope = float(np.clip((away - before[1]) / (shift - before[0]), -1.0, _FLATTEST))
            before, shift = (shift, away), shift - away / slope
        return _unsettled(found), shift


def risk_path(
    design: Any,
    labels: ArrayLike,
    loss: Any = "square",
    penalty: str = "nuclear",
    strengths: ArrayLike | int = _STRENGTHS,
    *,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> RiskPath:
    r"""Minimisers of :math:`\sum_\mu w_\mu\,\ell(y_\mu, h_\mu + b) + \lambda\,p(S)`, from strong to weak penalties.

    Every minimiser begins where the one before ended, and carries a certificate of its own.

    Args:
        design: inputs, for instance :class:`~glassformer.models.designs.dense.DenseDesign`.
        labels: shape of the fields; +1 and -1 for ``"logistic"`` and ``"hinge"``.
        loss: as for :class:`~glassformer.learners.regularised_risk.RegularisedRisk`.
        penalty: as there.
        strengths: :math:`\lambda > 0`, in any order, in the units of that learner for bilinear models; or how many,
            from the one above which the estimate is zero, for ridge that which halves every direction, to a thousandth.
        intercept: whether a constant ``b`` without penalty is fitted.
        weights: :math:`w_\mu\ge 0`, one per sample; samples of weight zero are left out.
        settings: ``tolerance`` is the duality gap that is accepted (1e-4 by default); steps allowed at each strength.

    Raises:
        ParameterError: an unknown loss or penalty, or strengths or weights out of range.
        DataError: labels that do not match the inputs, or that the loss does not take.

    Example:
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> path = risk_path(design, design.forward(signal, 0) + 0.1 * rng.standard_normal(150), strengths=6)
        >>> path.ranks[:2].tolist(), path.converged
        ([0, 1], True)
    """
    fit = _prepared(design, labels, loss, penalty, intercept, weights)
    wanted = _strengths(fit, strengths)
    return _followed(fit, wanted, settings or Iteration(tolerance=1e-4, max_iterations=5000))


def cross_validate(
    design: Any,
    labels: ArrayLike,
    loss: Any = "square",
    penalty: str = "nuclear",
    strengths: ArrayLike | int = _STRENGTHS,
    *,
    folds: int = 5,
    seed: int = 0,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> CrossValidation:
    """Loss on held-back samples at every strength of a path, one warm-started path per fold.

    Args:
        design: as for :func:`risk_path`, with its inputs in one array.
        labels: as there.
        loss: as there; also what is measured on the samples that are held back.
        penalty: as there.
        strengths: as there; the same in all folds.
        folds: of as equal a size as possible, drawn at random; for labels +1 and -1 with equal shares of both.
        seed: of the draw.
        intercept: as there.
        weights: as there; they weigh losses on held-back samples as well.
        groups: whole numbers, one per sample: samples of one group, repetitions for instance, are held back together.
        settings: as there, but gaps of ten times the tolerance are accepted: losses on other samples are noisier.

    Raises:
        ParameterError: as there, or fewer samples, or groups, than folds.

    Example:
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> found = cross_validate(design, design.forward(signal, 0) + 0.3 * rng.standard_normal(150), strengths=8)
        >>> bool(found.strengths[-1] < found.best < found.strengths[0])
        True
    """
    own = loss_of(loss)
    fit = _prepared(design, labels, loss, penalty, intercept, weights)
    wanted = _strengths(fit, strengths)
    y, w = np.asarray(labels, dtype=float), _weights(weights, len(np.asarray(labels)))
    limit = settings or Iteration(tolerance=1e-4, max_iterations=5000)
    limit = replace(limit, tolerance=min(_LOOSER * limit.tolerance, 0.5))

    def path_of(part: Any, own_labels: Array, own_weights: Array) -> RiskPath:
        # A function of its own: the inputs of one fold are gone before those of the next are made.
        return _followed(_prepared(part, own_labels, loss, penalty, intercept, own_weights), wanted, limit)

    losses, converged = [], True
    for held in _folds(y, groups, folds, seed, own.binary):
        kept = np.logical_and(~held, w > 0)
        path = path_of(design.rows(kept), y[kept], w[kept])
        converged &= path.converged
        away = design.rows(held)
        fields = [away.forward(s, 0) + b for s, b in zip(path.estimates, path.intercepts, strict=True)]
        losses.append([_mean_loss(own, y[held], h, w[held]) for h in fields])
    return CrossValidation(wanted, np.array(losses), converged)


def leave_one_out(
    design: Any,
    labels: ArrayLike,
    estimate: Array,
    strength: float,
    loss: Any = "square",
    penalty: str = "nuclear",
    *,
    intercept: float = 0.0,
    weights: ArrayLike | None = None,
) -> LeftOut:
    """What a minimiser would have said of each of its samples without having seen it, to first order.

    Equation :eq:`leave-one-out` of the documentation.

    Args:
        design: as for :func:`risk_path`, with its inputs in one array.
        labels: as there.
        estimate: the minimiser, shape (L, d).
        strength: at which it is one.
        loss: as there, without kinks.
        penalty: as there.
        intercept: that was added to the fields; the left-out samples had their part in it.
        weights: as there, > 0.

    Returns:
        Fields without the sample, the intercept included, and degrees of freedom of the fit.

    Raises:
        IncompatibleError: a loss with kinks.

    Example:
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> labels = design.forward(signal, 0) + 0.5 * rng.standard_normal(150)
        >>> estimate = risk_path(design, labels, strengths=[0.3]).estimates[0]
        >>> seen, unseen = design.forward(estimate, 0), leave_one_out(design, labels, estimate, 0.3)
        >>> bool(np.std(labels - seen) < 0.5 < np.std(labels - unseen.fields)), bool(unseen.degrees < 100)
        (True, True)
    """
    fit = _prepared(design, labels, loss, penalty, True, weights)
    if not np.isfinite(fit.loss.sharpness):
        raise IncompatibleError(f"loss {fit.loss.name} has kinks, and no errors without a sample: use square or huber")
    found = left_out(fit.at(strength, Shifted(fit.loss, intercept)), estimate, constant=True)
    return found._replace(fields=found.fields + intercept)


def rank_of(matrix: Array) -> int:
    """Singular values that are not zero but for rounding.

    Example:
        >>> rank_of(np.diag([1.0, 1e-20]))
        1
    """
    values = singular_values(matrix)
    return int(np.sum(values > _ROUNDING * max(float(values[0]), 1e-300)))


def _followed(fit: _Fit, strengths: Array, settings: Iteration) -> RiskPath:
    start, shift = np.zeros(fit.design.signal_shape), fit.best_intercept(np.zeros_like(fit.labels))
    found, shifts = [], []
    for strength in strengths:
        solution, shift = fit.solved(float(strength), start, shift, settings)
        start = solution.value[0]
        found.append(solution)
        shifts.append(shift)
    return RiskPath(
        strengths,
        np.array([one.value[0] for one in found]),
        np.array(shifts),
        np.array([one.residual[0] for one in found]),
        tuple(one.status[0] for one in found),
        int(sum(one.iterations[0] for one in found)),
    )


def _prepared(
    design: Any, labels: ArrayLike, loss: Any, penalty: str, intercept: bool, weights: ArrayLike | None
) -> _Fit:
    own, y = loss_of(loss), np.asarray(labels, dtype=float)
    if y.shape != tuple(design.field_shape):
        raise DataError("y", y.shape, f"a shape {tuple(design.field_shape)} that matches X")
    if not np.all(np.isfinite(y)):
        raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
    if own.binary and not np.all(np.abs(y) == 1):
        raise DataError("y", float(y[np.abs(y) != 1][0]), f"+1 or -1, the labels of loss {own.name}")
    w = _weights(weights, len(y))
    if np.any(w == 0):
        design, y, w = design.rows(w > 0), y[w > 0], w[w > 0]
    if np.any(w != 1):
        own = Weighted(own, w.reshape(-1, *[1] * (y.ndim - 1)))
    fit = _Fit(design, y, own, penalty_of(penalty), intercept)
    return fit._replace(scale=scale_of(fit.at(1.0)))


def _weights(weights: ArrayLike | None, samples: int) -> Array:
    w = np.ones(samples) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (samples,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ParameterError("weights", weights, f"{samples} numbers >= 0, one per sample, not all of them zero")
    return w


def _strengths(fit: _Fit, strengths: ArrayLike | int) -> Array:
    """In falling order; as many as asked for, from the largest useful one."""
    if is_number(strengths) and float(strengths).is_integer():  # type: ignore[arg-type]
        require_integer("strengths", strengths, 2)
        largest = _largest_strength(fit)
        return np.asarray(np.geomspace(1.0, _LEAST, int(strengths)) * largest)  # type: ignore[arg-type]
    wanted = np.sort(np.atleast_1d(np.asarray(strengths, dtype=float)).ravel())[::-1]
    if not wanted.size or not np.all(np.isfinite(wanted)) or np.any(wanted <= 0):
        raise ParameterError("strengths", strengths, "finite numbers > 0, or how many of them (an integer >= 2)")
    return wanted


def _largest_strength(fit: _Fit) -> float:
    """The strength from which on the estimate is zero; of ridge, that of the loss along the strongest direction."""
    one = fit.at(1.0)
    if one.spectral == 0:
        assert fit.scale is not None
        bend = fit.loss.sharpness if np.isfinite(fit.loss.sharpness) else 1.0
        return float(fit.scale.largest * bend / one.square)
    nothing = np.zeros_like(fit.labels)
    slopes = _slopes(fit.loss, fit.labels, nothing + fit.best_intercept(nothing))
    pull = float(np.max(singular_values(fit.design.adjoint(slopes, 0))))
    return _EDGE * (pull or 1.0) / one.spectral


def _slopes(loss: Loss, labels: Array, fields: Array) -> Array:
    """Slopes of the loss; of one with kinks, those of a narrow envelope."""
    if np.isfinite(loss.sharpness):
        return loss.slope(labels, fields)
    return -loss.score(labels, fields, 1e-6)[0]


def _folds(labels: Array, groups: ArrayLike | None, folds: int, seed: int, binary: bool) -> list[NDArray[np.bool_]]:
    """Flags of the samples that each fold holds back."""
    require_integer("folds", folds, 2)
    given = np.arange(len(labels)) if groups is None else np.asarray(groups)
    if given.shape != (len(labels),):
        raise ParameterError("groups", given.shape, f"{len(labels)} whole numbers, one per sample")
    _, first, own = np.unique(given, return_index=True, return_inverse=True)
    if folds > len(first):
        raise ParameterError("folds", folds, f"an integer from 2 to {len(first)}, the number of samples or groups")
    order = np.random.default_rng(seed).permutation(len(first))
    if binary or labels.ndim > 1:
        kind = labels if binary else labels.argmax(axis=-1)
        order = order[np.argsort(kind[first][order], kind="stable")]
    number = np.empty(len(first), dtype=int)
    number[order] = np.arange(len(first)) % folds
    return [number[own] == k for k in range(folds)]


def _mean_loss(loss: Loss, labels: Array, fields: Array, weights: Array) -> float:
    values = loss.value(labels, fields).reshape(len(labels), -1).sum(axis=1)
    return float(np.sum(weights * values) / max(float(np.sum(weights)), 1e-300))


def _spread(labels: Array, weights: Any) -> float:
    """Standard deviation of weighted labels."""
    share = np.broadcast_to(weights, labels.shape) / np.sum(np.broadcast_to(weights, labels.shape))
    return float(np.sqrt(np.sum(share * (labels - np.sum(share * labels)) ** 2)))


def _unsettled(found: Solution) -> Solution:
    found.status[0] = Status.ITERATION_LIMIT  # type: ignore[index]
    return found
