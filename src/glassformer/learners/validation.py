"""Cross-validation of a penalised fit, and out-of-fold predictions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, DataWarning, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.designs.stored import StoredDesign
from glassformer.learners.multiclass import MulticlassDesign
from glassformer.learners.risk_path import (
    ITERATION,
    STRENGTHS,
    PenalisedProblem,
    RiskPath,
    parse_strengths,
    sample_weights,
)
from glassformer.risk.losses import loss_of

if TYPE_CHECKING:
    import pandas

# Tolerance of the fits to folds, relative to the given one: sampling errors of held-out losses are larger anyway.
_LOOSER = 10.0
# Relative fall of the loss over a factor of ten of the strength below which it no longer changes, share of the largest
# loss below which labels are predicted exactly, and factor by which the search may leave the first grid (conventions).
_FLAT, _EXACT, _FARTHEST = 1e-3, 1e-5, 1e4

# Strength, estimate and intercept.
_Start = tuple[float, Array, Any]


@dataclass(frozen=True, eq=False)
class CrossValidation(DisplayMixin):
    """Loss on held-out samples at several strengths.

    Attributes:
        strengths: shape (k,), the largest first.
        losses: mean loss per held-out sample, shape (folds, k), of the folds with samples of positive weight whose
            training samples have all classes.
        converged: whether all fits converged.
    """

    strengths: Array
    losses: Array
    converged: bool
    drawing = "plot_cross_validation"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per strength."""
        import pandas

        columns = {"strength": self.strengths, "loss": self.mean, "standard_error": self.standard_error}
        return pandas.DataFrame(columns)

    @property
    def mean(self) -> Array:
        """Mean loss over the folds, shape (k,)."""
        return self.losses.mean(axis=0)

    @property
    def standard_error(self) -> Array:
        """Standard error of the mean, shape (k,); NaN for a single fold."""
        if len(self.losses) < 2:
            return np.full(len(self.strengths), np.nan)
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best(self) -> float:
        """Strength of least mean loss."""
        return float(self.strengths[np.argmin(self.mean)])

    @property
    def simplest(self) -> float:
        """Largest strength with a mean loss within one standard error of the least."""
        least = int(np.argmin(self.mean))
        allowed = self.mean[least] + np.nan_to_num(self.standard_error[least])
        return float(self.strengths[np.argmax(self.mean <= allowed)])

    @property
    def at_the_end(self) -> bool:
        """Whether the mean loss still falls at the smallest strength, so that a smaller one may be better.

        It no longer falls where the fit is nearly that without a penalty, which may interpolate the labels.
        """
        return _falls(self.strengths, self.mean)

    def joined(self, other: CrossValidation) -> CrossValidation:
        """Return the losses of the same folds at the strengths of both."""
        strengths = np.concatenate([self.strengths, other.strengths])
        losses, order = np.concatenate([self.losses, other.losses], axis=1), np.argsort(-strengths, kind="stable")
        return CrossValidation(strengths[order], losses[:, order], self.converged and other.converged)


def cross_validate(
    design: StoredDesign | MulticlassDesign,
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
    """Return the loss on held-out samples at every strength of a path, one warm-started path per fold.

    Args:
        design: inputs in one array, as for :func:`~glassformer.learners.risk_path.risk_path`.
        labels: labels, as for ``risk_path``.
        loss: loss, as for ``risk_path``, also evaluated on held-out samples.
        penalty: penalty, as for ``risk_path``.
        strengths: strengths, as for ``risk_path``, the same in all folds. A number of strengths is that of a first
            grid, which is extended until the best strength lies inside, or the loss no longer changes.
        folds: number of folds, of equal size up to one sample and drawn at random; for classes (labels +1 and -1, or
            one column per class) stratified. With a loss of classes, a fold does not count if its training samples lack
            a class.
        seed: seed of the random folds.
        intercept: whether an intercept is fitted.
        weights: weights of the samples, as for ``risk_path``, also of the losses on held-out samples.
        groups: integers, one per sample; samples of one group, for instance repetitions, are in the same fold.
        settings: settings, as for ``risk_path``; gaps of ten times the tolerance are accepted, because sampling errors
            of held-out losses are larger.

    Warns:
        DataWarning: the best strength is an end of the search, or the training samples of some folds lack a class.

    Raises:
        ParameterError: an argument is out of range, or there are fewer samples, or groups, than folds.
        DataError: a class is too small to be held out: its samples are equal, or of one group.

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
    problem = PenalisedProblem.of(design, labels, loss, penalty, intercept, weights)
    wanted = problem.strengths(strengths)
    y, w = np.asarray(labels, dtype=float), sample_weights(weights, len(np.asarray(labels)))
    limit = settings or ITERATION
    limit = replace(limit, tolerance=min(_LOOSER * limit.tolerance, 0.5))
    fits = _Fits(design, y, loss, penalty, intercept, w, limit)
    counted = _counted_folds(_folds(y, groups, folds, seed), y, w, own.binary)

    def validate(at: Array, starts: list[_Start] | None = None) -> tuple[CrossValidation, list[_Start]]:
        """Return the losses at some strengths, and the last fit of every fold."""
        losses, ends, converged = [], [], True
        for fold, path, fields in fits.without(counted, at, starts):
            converged &= path.converged
            ends.append((float(path.strengths[-1]), path.estimates[-1], path.intercepts[-1]))
            values = [own.value(y[fold], h).reshape(int(fold.sum()), -1).sum(axis=1) for h in fields]
            total = float(np.sum(w[fold]))
            losses.append([float(np.sum(w[fold] * value) / total) for value in values])
        return CrossValidation(at, np.array(losses), converged), ends

    found, ends = validate(wanted)
    # Beyond the strength of an estimate of zero nothing changes.
    from_zero = problem.penalty.kink > 0 and found.strengths[0] >= problem.largest_strength * (1 - _FLAT)
    if isinstance(parse_strengths(strengths), int):
        found = _extend(found, ends, from_zero, validate)
    _warn_of_ends(found, from_zero)
    return found


def _extend(
    found: CrossValidation, ends: list[_Start], from_zero: bool, validate: Callable[..., Any]
) -> CrossValidation:
    """Return the validation on a longer grid: until the best strength lies inside, or the loss no longer changes.

    Args:
        found: validation on the first grid.
        ends: last fit of every fold.
        from_zero: whether the first estimate is zero, so that no larger strength is better.
        validate: validates further strengths, from given fits.
    """
    ratio, largest, smallest = found.strengths[0] / found.strengths[1], found.strengths[0], found.strengths[-1]
    # A factor of ten at a time, or one strength of a coarse grid.
    steps = ratio ** np.arange(1, max(1, round(np.log(10) / np.log(ratio))) + 1)
    while found.converged and found.at_the_end and found.strengths[-1] > smallest / _FARTHEST:
        more, ends = validate(found.strengths[-1] / steps, ends)
        found = found.joined(more)
    while not from_zero and found.converged and _rises(found) and found.strengths[0] < largest * _FARTHEST:
        found = found.joined(validate(found.strengths[0] * steps[::-1])[0])
    return found


def _falls(strengths: Array, losses: Array) -> bool:
    """Return whether losses fall up to the last strength, by a share within a factor of ten that is not negligible."""
    last = losses[-1]
    if np.argmin(losses) < len(losses) - 1 or last <= _EXACT * np.max(losses):
        return False
    near = np.abs(np.log(strengths / strengths[-1])) <= np.log(10) * (1 + _FLAT)
    before = losses[min(int(np.argmax(near)), len(losses) - 2)]
    return bool(before - last > _FLAT * abs(before))


def _rises(found: CrossValidation) -> bool:
    """Return whether the mean loss falls up to the largest strength, so that a larger one may be better."""
    return _falls(found.strengths[::-1], found.mean[::-1])


def _warn_of_ends(found: CrossValidation, from_zero: bool) -> None:
    """Warn if the best strength is an end of the search."""
    if not (found.at_the_end or (_rises(found) and not from_zero)):
        return
    end, other = ("smallest", "smaller") if found.at_the_end else ("largest", "larger")
    remedy = f"give {other} strengths" if found.converged else "increase max_iterations, since fits did not converge"
    text = f"the best strength, {found.best:.3g}, is the {end} of the search, and a {other} one may be better: {remedy}"
    warnings.warn(text, DataWarning, stacklevel=3)


def out_of_fold_predictions(
    design: StoredDesign | MulticlassDesign,
    labels: ArrayLike,
    strength: float,
    loss: Any = "square",
    penalty: str = "nuclear",
    *,
    folds: int | Sequence[ArrayLike] = 10,
    seed: int = 0,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> Array:
    """Return the field of each sample by a fit without its fold, including the intercept, shape (n,).

    The calculation takes longer than :func:`~glassformer.learners.leave_one_out.leave_one_out` but makes no first-order
    approximation (equation :eq:`leave-one-out` of the documentation), so that it is also valid for fits without
    remaining degrees of freedom. Fits without a fold use fewer samples than fits without one sample, which changes
    their error if there are about as many samples as unknowns. Folds of one sample each are exact.

    Args:
        design: inputs, as for :func:`cross_validate`.
        labels: labels, as for ``cross_validate``.
        strength: strength of all fits.
        loss: loss, as for ``cross_validate``.
        penalty: penalty, as for ``cross_validate``.
        folds: number of folds, or the indices of the samples in each fold; samples in no fold have NaN.
        seed: seed of the random folds.
        intercept: whether an intercept is fitted.
        weights: weights of the samples, as for ``cross_validate``.
        groups: groups, as for ``cross_validate``, if ``folds`` is a number.
        settings: tolerance and largest number of steps.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: ``folds`` are indices, and there are groups.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design, labels = DenseDesign.sample(30, (10, 10), rng), rng.standard_normal(30)
        >>> bool(np.std(labels - out_of_fold_predictions(design, labels, 1e-6)) > 0.9 * np.std(labels))
        True
        >>> np.flatnonzero(np.isfinite(out_of_fold_predictions(design, labels, 0.1, folds=[[3], [7]])))
        array([3, 7])
    """
    require_arguments(out_of_fold_predictions, locals(), but=("folds",))
    y, w = np.asarray(labels, dtype=float), sample_weights(weights, len(np.asarray(labels)))
    if isinstance(folds, Sequence):
        if groups is not None:
            raise IncompatibleError(
                "groups and the indices of the folds exclude each other: give folds of whole groups, or how many"
            )
        split = [_flags(fold, len(y)) for fold in folds]
    else:
        split = _folds(y, groups, folds, seed)
    predictions = np.full_like(y, np.nan)
    fits = _Fits(design, y, loss, penalty, intercept, w, settings or ITERATION)
    for fold, _, (fields,) in fits.without(split, [strength]):
        predictions[fold] = fields
    return predictions


class _Fits(NamedTuple):
    """Fits of a loss and a penalty to parts of the samples, with the arguments of :func:`cross_validate`."""

    design: StoredDesign | MulticlassDesign
    labels: Array
    loss: Any
    penalty: str
    intercept: bool
    weights: Array
    settings: Iteration

    def without(
        self, folds: list[NDArray[np.bool_]], strengths: ArrayLike, starts: list[_Start] | None = None
    ) -> Iterator[tuple[NDArray[np.bool_], RiskPath, list[Array]]]:
        """Yield each fold, the path on the other samples, and the fields of the fold's samples at every strength."""
        for k, fold in enumerate(folds):
            fitted = self._path(np.logical_and(~fold, self.weights > 0), strengths, starts[k] if starts else None)
            held_out, ends = self.design.rows(fold), zip(fitted.estimates, fitted.intercepts, strict=True)
            yield fold, fitted, [held_out.forward(estimate, 0) + shift for estimate, shift in ends]

    def _path(self, training: NDArray[np.bool_], strengths: ArrayLike, start: _Start | None) -> RiskPath:
        # A separate function, so that the inputs of one fold are freed before those of the next are copied.
        part, labels, weights = self.design.rows(training), self.labels[training], self.weights[training]
        problem = PenalisedProblem.of(part, labels, self.loss, self.penalty, self.intercept, weights)
        return problem.path(problem.strengths(strengths), self.settings, start)


def _flags(fold: ArrayLike, samples: int) -> NDArray[np.bool_]:
    """Return flags of the samples in a fold that is given by their indices."""
    indices = np.asarray(fold)
    inside = indices.dtype.kind in "iu" and indices.size > 0 and indices.min() >= 0 and indices.max() < samples
    flags = np.isin(np.arange(samples), indices)
    if not inside or flags.all():
        raise ParameterError("folds", fold, f"indices from 0 to {samples - 1} of some, not all, of the samples")
    return flags


def _classes(labels: Array) -> Array | None:
    """Return the class of each sample, for labels +1 and -1 or with one column per class; None for other numbers."""
    if labels.ndim > 1:
        return np.asarray(labels.argmax(axis=-1))
    return labels if np.all(np.abs(labels) == 1) else None


def _counted_folds(
    folds: list[NDArray[np.bool_]], labels: Array, weights: Array, binary: bool
) -> list[NDArray[np.bool_]]:
    """Return the folds with samples of positive weight whose training samples have all classes.

    Without samples of a class the best intercept is infinite, and so is the loss of held-out samples of this class.
    Losses of numbers have a finite one for labels +1 and -1 as well.

    Raises:
        ParameterError: fewer than two folds have weight.
        DataError: the held-out samples of these folds are of one class, so that their loss is no measure of the fit.
    """
    weighted = [fold & (weights > 0) for fold in folds if np.any(weights[fold] > 0)]
    if len(weighted) < 2:
        allowed = "positive in two or more folds"
        raise ParameterError("weights", f"<positive in {len(weighted)} of {len(folds)} folds>", allowed)
    classes = _classes(labels) if binary or labels.ndim > 1 else None
    if classes is None:
        return weighted
    present, sizes = np.unique(classes[weights > 0], return_counts=True)
    counted = [fold for fold in weighted if np.isin(present, classes[~fold & (weights > 0)]).all()]
    if len(present) < 2 or len(counted) == len(weighted):
        return weighted
    smallest = f"a class with {sizes.min()} sample{'s' if sizes.min() > 1 else ''}"
    remedy = "give every class two or more samples that differ, and are not of one group"
    if len(np.unique(classes[np.any(counted, axis=0)])) < 2:
        raise DataError("y", f"<{smallest}>", "classes that can be held out of the training samples", remedy)
    missed = f"{len(weighted) - len(counted)} of {len(weighted)} folds"
    text = f"cross-validation does not count {missed}, whose training samples lack {smallest}: {remedy}"
    warnings.warn(text, DataWarning, stacklevel=3)
    return counted


def _folds(labels: Array, groups: ArrayLike | None, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Return flags of the samples in each fold; folds of classes are stratified."""
    require_integer("folds", folds, 2)
    given = np.arange(len(labels)) if groups is None else np.asarray(groups)
    if given.shape != (len(labels),):
        raise ParameterError("groups", given.shape, f"{len(labels)} whole numbers, one per sample")
    _, first, own = np.unique(given, return_index=True, return_inverse=True)
    if len(first) < 2:
        what = "one sample" if len(given) < 2 else f"one group of {len(given)} samples"
        raise ParameterError("groups", f"<{what}>", "two or more groups, since one is left out in each fold")
    if folds > len(first):
        raise ParameterError("folds", folds, f"an integer from 2 to {len(first)}, the number of samples or groups")
    order = np.random.default_rng(int(seed)).permutation(len(first))
    if (classes := _classes(labels)) is not None:
        order = order[np.argsort(classes[first][order], kind="stable")]
    number = np.empty(len(first), dtype=int)
    number[order] = np.arange(len(first)) % folds
    return [number[own] == k for k in range(folds)]
