"""Cross-validation of a penalised fit, and out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from glassformer.learners.multiclass import MulticlassDesign
from glassformer.learners.risk_path import ITERATION, STRENGTHS, PenalisedProblem, RiskPath, sample_weights
from glassformer.risk.losses import loss_of

if TYPE_CHECKING:
    import pandas

# Tolerance of the fits to folds, relative to the given one: sampling errors of held-out losses are larger anyway.
_LOOSER = 10.0


@dataclass(frozen=True, eq=False)
class CrossValidation(DisplayMixin):
    """Loss on held-out samples at several strengths.

    Attributes:
        strengths: shape (k,), the largest first.
        losses: mean loss per held-out sample, shape (folds, k), of the folds with samples of positive weight.
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
        """Standard error of the mean, shape (k,)."""
        return np.asarray(self.losses.std(axis=0, ddof=1) / np.sqrt(len(self.losses)))

    @property
    def best(self) -> float:
        """Strength of least mean loss."""
        return float(self.strengths[np.argmin(self.mean)])

    @property
    def simplest(self) -> float:
        """Largest strength with a mean loss within one standard error of the least."""
        least = int(np.argmin(self.mean))
        allowed = self.mean[least] + self.standard_error[least]
        return float(self.strengths[np.argmax(self.mean <= allowed)])

    @property
    def at_the_end(self) -> bool:
        """Whether the best strength is the smallest one of the path, so that a smaller one may be better."""
        return int(np.argmin(self.mean)) == len(self.strengths) - 1


def cross_validate(
    design: Design | MulticlassDesign,
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
        strengths: strengths, as for ``risk_path``, the same in all folds.
        folds: number of folds, of equal size up to one sample and drawn at random; for labels +1 and -1 stratified.
        seed: seed of the random folds.
        intercept: whether an intercept is fitted.
        weights: weights of the samples, as for ``risk_path``, also of the losses on held-out samples.
        groups: integers, one per sample; samples of one group, for instance repetitions, are in the same fold.
        settings: settings, as for ``risk_path``; gaps of ten times the tolerance are accepted, because sampling errors
            of held-out losses are larger.

    Raises:
        ParameterError: an argument is out of range, or there are fewer samples, or groups, than folds.

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
    wanted = PenalisedProblem.of(design, labels, loss, penalty, intercept, weights).strengths(strengths)
    y, w = np.asarray(labels, dtype=float), sample_weights(weights, len(np.asarray(labels)))
    limit = settings or ITERATION
    limit = replace(limit, tolerance=min(_LOOSER * limit.tolerance, 0.5))
    losses, converged = [], True
    # A fold without weight has no loss.
    weighted = [fold for fold in _folds(y, groups, folds, seed, own.binary) if np.any(w[fold] > 0)]
    if len(weighted) < 2:
        raise ParameterError(
            "weights", f"<positive in {len(weighted)} of {folds} folds>", "positive in two or more folds"
        )
    for fold, path, fields in _paths_without(weighted, design, y, loss, penalty, wanted, intercept, w, limit):
        converged &= path.converged
        values = [own.value(y[fold], h).reshape(int(fold.sum()), -1).sum(axis=1) for h in fields]
        total = float(np.sum(w[fold]))
        losses.append([float(np.sum(w[fold] * value) / total) for value in values])
    return CrossValidation(wanted, np.array(losses), converged)


def out_of_fold_predictions(
    design: Design | MulticlassDesign,
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
        split = _folds(y, groups, folds, seed, loss_of(loss).binary)
    predictions = np.full_like(y, np.nan)
    for fold, _, (fields,) in _paths_without(
        split, design, y, loss, penalty, [strength], intercept, w, settings or ITERATION
    ):
        predictions[fold] = fields
    return predictions


def _paths_without(
    folds: list[NDArray[np.bool_]],
    design: Any,
    labels: Array,
    loss: Any,
    penalty: str,
    strengths: ArrayLike,
    intercept: bool,
    weights: Array,
    settings: Iteration,
) -> Iterator[tuple[NDArray[np.bool_], RiskPath, list[Array]]]:
    """Yield each fold, the path on the other samples, and the fields of the fold's samples at every strength."""

    def path(training: NDArray[np.bool_]) -> RiskPath:
        # A separate function, so that the inputs of one fold are freed before those of the next are copied.
        part = design.rows(training)
        problem = PenalisedProblem.of(part, labels[training], loss, penalty, intercept, weights[training])
        return problem.path(problem.strengths(strengths), settings)

    for fold in folds:
        fitted = path(np.logical_and(~fold, weights > 0))
        held_out = design.rows(fold)
        yield (
            fold,
            fitted,
            [held_out.forward(s, 0) + b for s, b in zip(fitted.estimates, fitted.intercepts, strict=True)],
        )


def _flags(fold: ArrayLike, samples: int) -> NDArray[np.bool_]:
    """Return flags of the samples in a fold that is given by their indices."""
    indices = np.asarray(fold)
    inside = indices.dtype.kind in "iu" and indices.size > 0 and indices.min() >= 0 and indices.max() < samples
    flags = np.isin(np.arange(samples), indices)
    if not inside or flags.all():
        raise ParameterError("folds", fold, f"indices from 0 to {samples - 1} of some, not all, of the samples")
    return flags


def _folds(labels: Array, groups: ArrayLike | None, folds: int, seed: int, binary: bool) -> list[NDArray[np.bool_]]:
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
    order = np.random.default_rng(seed).permutation(len(first))
    if binary or labels.ndim > 1:
        kind = labels if binary else labels.argmax(axis=-1)
        order = order[np.argsort(kind[first][order], kind="stable")]
    number = np.empty(len(first), dtype=int)
    number[order] = np.arange(len(first)) % folds
    return [number[own] == k for k in range(folds)]
