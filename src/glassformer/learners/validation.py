"""How well a penalised fit does on samples that it has not seen: fold by fold, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.designs.base import Design
from glassformer.learners.algorithms.approximate_loo import LeftOut, left_out
from glassformer.learners.algorithms.penalised_fit import prepared, weights_of
from glassformer.learners.algorithms.several_classes import SeveralClasses
from glassformer.learners.algorithms.weighted_loss import Shifted
from glassformer.learners.risk_path import ITERATION, STRENGTHS, RiskPath, followed, strengths_of
from glassformer.risk.loss_base import Loss
from glassformer.risk.losses import loss_of

if TYPE_CHECKING:
    import pandas

# Tolerance of folds, in those of the estimate.
_LOOSER = 10.0
# Strengths and constants whose squares are finite.
_LARGEST = 1e150


@dataclass(frozen=True, eq=False)
class CrossValidation(DisplayMixin):
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


def cross_validate(
    design: Design | SeveralClasses,
    labels: ArrayLike,
    loss: Any = "square",
    penalty: str = "nuclear",
    strengths: ArrayLike | int = STRENGTHS,
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
        design: as for :func:`~glassformer.learners.risk_path.risk_path`, with its inputs in one array.
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
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> found = cross_validate(design, design.forward(signal, 0) + 0.3 * rng.standard_normal(150), strengths=8)
        >>> bool(found.strengths[-1] < found.best < found.strengths[0])
        True
    """
    require_arguments(cross_validate, locals())
    own = loss_of(loss)
    fit = prepared(design, labels, loss, penalty, intercept, weights)
    wanted = strengths_of(fit, strengths)
    y, w = np.asarray(labels, dtype=float), weights_of(weights, len(np.asarray(labels)))
    limit = settings or ITERATION
    limit = replace(limit, tolerance=min(_LOOSER * limit.tolerance, 0.5))

    def path_of(part: Any, own_labels: Array, own_weights: Array) -> RiskPath:
        # A function of its own: the inputs of one fold are gone before those of the next are made.
        return followed(prepared(part, own_labels, loss, penalty, intercept, own_weights), wanted, limit)

    losses, converged = [], True
    for held, path, fields in _without_each(_folds(y, groups, folds, seed, own.binary), design, y, w, path_of):
        converged &= path.converged
        losses.append([_mean_loss(own, y[held], h, w[held]) for h in fields])
    return CrossValidation(wanted, np.array(losses), converged)


def leave_one_out(
    design: Design | SeveralClasses,
    labels: ArrayLike,
    estimate: Array,
    strength: float,
    loss: Any = "square",
    penalty: str = "nuclear",
    *,
    intercept: bool | float = False,
    weights: ArrayLike | None = None,
) -> LeftOut:
    """What a minimiser would have said of each of its samples without having seen it, to first order.

    Equation :eq:`leave-one-out` of the documentation.

    Args:
        design: as for :func:`~glassformer.learners.risk_path.risk_path`, with its inputs in one array.
        labels: as there.
        estimate: the minimiser, shape (L, d).
        strength: at which it is one.
        loss: as there, without kinks.
        penalty: as there.
        intercept: whether a constant was fitted, in which the left-out samples had their part: it is found again. Or
            its value, 0 where none was.
        weights: as there, > 0.

    Returns:
        Fields without the sample, the intercept included, and degrees of freedom of the fit.

    Raises:
        IncompatibleError: a loss with kinks.

    Example:
        >>> from glassformer.learners.risk_path import risk_path
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> labels = design.forward(signal, 0) + 0.5 * rng.standard_normal(150)
        >>> estimate = risk_path(design, labels, strengths=[0.3]).estimates[0]
        >>> seen, unseen = design.forward(estimate, 0), leave_one_out(design, labels, estimate, 0.3)
        >>> bool(np.std(labels - seen) < 0.5 < np.std(labels - unseen.fields)), bool(unseen.degrees < 100)
        (True, True)
    """
    require_arguments(leave_one_out, locals())
    fit = prepared(design, labels, loss, penalty, bool(intercept), weights)
    if np.shape(estimate) != fit.design.signal_shape:
        raise ParameterError("estimate", estimate, f"a matrix of shape {fit.design.signal_shape}, as the inputs")
    for name, value, low in (("strength", strength, 0), ("intercept", float(intercept), -_LARGEST)):
        if not low <= value <= _LARGEST:
            raise ParameterError(name, value, f"a number from {low:g} to {_LARGEST:g}")
    if not np.isfinite(fit.loss.sharpness):
        raise IncompatibleError(f"loss {fit.loss.name} has kinks, and no errors without a sample: use square or huber")
    asked = isinstance(intercept, bool | np.bool_)
    shift = fit.best_intercept(fit.design.forward(estimate, 0)) if asked else float(intercept)
    found = left_out(fit.at(strength, Shifted(fit.loss, shift)), estimate, constant=fit.intercept)
    return found._replace(fields=found.fields + shift)


def validation_split(
    design: Design | SeveralClasses,
    labels: ArrayLike,
    strength: float,
    loss: Any = "square",
    penalty: str = "nuclear",
    *,
    folds: int = 10,
    seed: int = 0,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> Array:
    """What minimisers on the other folds say of each sample, shape (n,), the intercept included.

    Dearer than :func:`leave_one_out`, and not to first order as equation :eq:`leave-one-out` of the documentation: also
    right where a fit leaves samples no freedom.

    Args:
        design: as for :func:`cross_validate`, and so are all others of these names.
        labels: as there.
        strength: of all minimisers.
        loss: as there.
        penalty: as there.
        folds: as there.
        seed: as there.
        intercept: as there.
        weights: as there.
        groups: as there.
        settings: as there.

    Raises:
        ParameterError: as there.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(30, (10, 10), rng)
        >>> labels = rng.standard_normal(30)
        >>> bool(np.std(labels - validation_split(design, labels, 1e-6)) > 0.9 * np.std(labels))
        True
    """
    flags = _folds(np.asarray(labels, dtype=float), groups, folds, seed, loss_of(loss).binary)
    return _fields_of(flags, design, labels, strength, loss, penalty, intercept, weights, settings)


def held_back_alone(
    design: Design | SeveralClasses,
    labels: ArrayLike,
    samples: ArrayLike,
    strength: float,
    loss: Any = "square",
    penalty: str = "nuclear",
    *,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> Array:
    """What minimisers on all others say of each of some samples, the intercept included: one fit for each of them.

    Dearer than :func:`validation_split`, whose fits have fewer samples: next to as many as unknowns that is another
    error. What equation :eq:`leave-one-out` of the documentation is to first order.

    Args:
        design: as for :func:`validation_split`, and so are all others of these names.
        labels: as there.
        samples: numbers of those that are held back, shape (k,).
        strength: as there.
        loss: as there.
        penalty: as there.
        intercept: as there.
        weights: as there.
        settings: as there.

    Returns:
        Fields, shape (k,).

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design, labels = DenseDesign.sample(30, (10, 10), rng), rng.standard_normal(30)
        >>> found = held_back_alone(design, labels, [3, 7], 0.1)
        >>> bool(np.allclose(found[1], held_back_alone(design, labels, [7], 0.1)))
        True
    """
    every, chosen = np.arange(len(np.asarray(labels))), np.asarray(samples)
    flags = [every == sample for sample in chosen]
    return _fields_of(flags, design, labels, strength, loss, penalty, intercept, weights, settings)[chosen]


def _fields_of(
    flags: list[NDArray[np.bool_]],
    design: Design | SeveralClasses,
    labels: ArrayLike,
    strength: float,
    loss: Any,
    penalty: str,
    intercept: bool,
    weights: ArrayLike | None,
    settings: Iteration | None,
) -> Array:
    """Of the samples that are held back, by minimisers on the others; NaN elsewhere."""
    y, w = np.asarray(labels, dtype=float), weights_of(weights, len(np.asarray(labels)))
    found = np.full_like(y, np.nan)

    def path_of(part: Any, own_labels: Array, own_weights: Array) -> RiskPath:
        fit = prepared(part, own_labels, loss, penalty, intercept, own_weights)
        return followed(fit, strengths_of(fit, [strength]), settings or ITERATION)

    for held, _, (fields,) in _without_each(flags, design, y, w, path_of):
        found[held] = fields
    return found


def _without_each(
    folds: list[NDArray[np.bool_]], design: Any, labels: Array, weights: Array, path_of: Callable[..., RiskPath]
) -> Iterator[tuple[NDArray[np.bool_], RiskPath, list[Array]]]:
    """Each fold, the path of the other samples, and what that says of those of the fold at every strength."""
    for held in folds:
        kept = np.logical_and(~held, weights > 0)
        path = path_of(design.rows(kept), labels[kept], weights[kept])
        away = design.rows(held)
        yield held, path, [away.forward(s, 0) + b for s, b in zip(path.estimates, path.intercepts, strict=True)]


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
