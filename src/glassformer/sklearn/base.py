"""Base classes of the estimators: checked inputs, scaling, one signal per target, fitted attributes."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from glassformer.core.checks import is_number, require_name
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import boolean
from glassformer.data_analysis.signals import BilinearSignal, PositiveSignal
from glassformer.designs.dense import DenseDesign
from glassformer.designs.pooled import PooledDesign
from glassformer.learners.data_validation import refuse_dates, refuse_masked, refuse_mixed
from glassformer.learners.leave_one_out import MatrixDesign
from glassformer.learners.multiclass import MulticlassDesign, SoftmaxLoss
from glassformer.learners.risk_path import rank_of
from glassformer.numerics.decompositions import singular_values
from glassformer.sklearn.fit_task import FitTask
from glassformer.sklearn.parameters import Parameters
from glassformer.sklearn.scaling import fit_scaling
from glassformer.sklearn.sequences import Sequences, check_sequences
from glassformer.sklearn.solvers import FittedSignal, check_parameters, solver_of

PAIRS = ("self", "all")


class SequenceEstimator(Parameters):
    """Base of the estimators. One signal is learned from each target."""

    unit_: float
    """Unit of the targets."""

    @abstractmethod
    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> MatrixDesign:
        """Return the design of scaled tokens; with weights, the design of the training data."""

    @abstractmethod
    def _coefficients(self, matrix: Array) -> Array:
        """Return coefficients of the tokens as given, from the signal that acts on scaled tokens."""

    @abstractmethod
    def _constants(self) -> Array:
        """Return the fields that each signal, in scaled units, has at the subtracted means, shape (signals,)."""

    @abstractmethod
    def _labels(self, y: NDArray[Any]) -> NDArray[Any]:
        """Return checked labels."""

    @abstractmethod
    def _targets(self, labels: NDArray[Any], weights: Array) -> list[Array]:
        """Return the targets of the signals; a target with columns is for as many signals at once."""

    @abstractmethod
    def _set_fields(self, signals: list[FittedSignal]) -> None:
        """Set the attributes that predictions need besides the signals."""

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> Self:
        """Fit the estimator.

        Args:
            X: shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d) of sequences of unequal length.
            y: numbers, or for classifiers classes, numbers or names, shape (n,).
            sample_weight: >= 0, shape (n,); samples of weight zero are ignored.
            groups: numbers or names, shape (n,): samples of one group are in the same fold of the cross-validation that
                chooses the strength, and are left out together for the errors of predicted numbers (``solver="risk"``).

        Raises:
            ValueError: scikit-learn or the package refuses data or parameters; the message names them.
        """
        tasks = self.training_tasks(X, y, sample_weight, groups)
        signals = self._fit_signals(tasks)
        self._set_attributes(signals, self.unit_, tasks[0])
        self._set_fields(signals)
        return self

    def _total_weights(self, labels: NDArray[Any], weights: Array) -> Array:
        """Return the weights of samples times the weights of their labels."""
        return weights

    def training_tasks(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, groups: ArrayLike | None = None
    ) -> list[FitTask]:
        """Return one task per target, on the samples of positive weight; sets the scaling."""
        check_parameters(self)
        require_name("penalty", self.penalty, self.penalties)
        refuse_masked("y", y)
        _refuse_rows_of_tokens(X, y)
        given = check_sequences(self, X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        if self.predicts_numbers:
            refuse_dates("y", y)
        else:
            refuse_mixed("y", y)
        labels = self._labels(column_or_1d(y, warn=True))
        check_consistent_length(given.values, labels)
        weights = self._total_weights(labels, _sample_weights(sample_weight, given))
        targets = self._targets(labels, weights)
        positive = weights > 0
        part = given if positive.all() else given.at(positive)
        self.shape_ = (int(given.values.shape[1]), int(given.values.shape[2]))
        self.scaling_ = fit_scaling(part, weights[positive], self.scale, self.by_position)
        tokens = self.scaling_.apply(part)
        design = self._design(tokens, part, weights[positive])
        group = _group_numbers(groups, given)[positive]
        return [self._task(design, tokens, target[positive], weights[positive], part, group) for target in targets]

    def _task(
        self,
        design: MatrixDesign,
        tokens: Array,
        target: Array,
        weights: Array,
        given: Sequences,
        groups: NDArray[np.int64],
    ) -> FitTask:
        equal, intercept = _distinct_samples(given, target), not self.predicts_numbers or self.loss != "square"
        linked = _connected_groups(equal, groups)
        loss = "logistic" if isinstance(self.loss, str) and self.loss == "softmax" else self.loss
        if target.ndim == 2:
            several, loss = MulticlassDesign(design, target.shape[1]), SoftmaxLoss()
            return FitTask(several, tokens, target, weights, equal, linked, intercept, loss)
        return FitTask(design, tokens, target, weights, equal, linked, intercept, loss)

    def _fit_signals(self, tasks: list[FitTask]) -> list[FittedSignal]:
        """Solve the tasks; return one signal per target, or per column of a target."""
        solve, signals = solver_of(self.solver), []
        for task in tasks:
            solution = solve(self, task)
            if task.labels.ndim == 1:
                signals.append(solution)
                continue
            parts = zip(solution.matrix, solution.intercept, strict=True)
            signals += [solution._replace(matrix=matrix, intercept=shift) for matrix, shift in parts]
        return signals

    def _set_attributes(self, signals: list[FittedSignal], units: float, task: FitTask) -> None:
        """Set the fitted attributes; those of a single signal have no axis over signals."""
        self.signals_ = [one.matrix for one in signals]
        each: dict[str, list[Any]] = {
            "coef_": [units * self._coefficients(one.matrix) for one in signals],
            "rank_": [rank_of(one.matrix) for one in signals],
            "signal_rank_": [one.rank for one in signals],
            "strength_": [one.strength for one in signals],
        }
        each["singular_values_"] = [singular_values(one) for one in each["coef_"]]
        single = len(signals) == 1
        for name, values in each.items():
            setattr(self, name, values[0] if single else np.array(values))
        self.spectrum_ = signals[0].directions if single else [one.directions for one in signals]
        self.solver_ = signals[0].solver
        self.estimated_model_ = signals[0].estimated if single else [one.estimated for one in signals]
        self.n_iter_ = max(1, max(one.iterations for one in signals))
        self.cross_validation_ = signals[0].validation if single else [one.validation for one in signals]

    def _new_design(self, X: ArrayLike) -> MatrixDesign:
        """Return the design of new samples."""
        check_is_fitted(self)
        given = check_sequences(self, X, self.shape_)
        return self._design(self.scaling_.apply(given), given, None)

    def _fields(self, design: MatrixDesign) -> Array:
        """Return the fields of all signals without intercepts, shape (n, signals)."""
        return np.stack([design.forward(matrix, 0) for matrix in self.signals_], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class BilinearEstimator(SequenceEstimator):
    """Linear functionals of a sequence whose weights, one per token and feature, are a matrix of low rank."""

    signals: ClassVar[Any] = BilinearSignal

    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> DenseDesign:
        return DenseDesign(scaled)

    def _coefficients(self, matrix: Array) -> Array:
        return self.scaling_.coefficients(matrix) / np.sqrt(matrix.size)

    def _constants(self) -> Array:
        return np.array([np.sum(self._coefficients(matrix) * self.scaling_.mean) for matrix in self.signals_])

    def _set_attributes(self, signals: list[FittedSignal], units: float, task: FitTask) -> None:
        super()._set_attributes(signals, units, task)
        # That of the task is for all classes at once where they have a softmax.
        design = DenseDesign(task.tokens)
        fields = np.stack([design.forward(one.matrix, 0) for one in signals])
        share = task.weights / task.weights.sum()
        fields -= (fields @ share)[:, None]
        inverse = np.linalg.pinv((share * fields) @ fields.T)
        covariances = [
            np.sqrt(one.matrix.size) * design.adjoint(share * field, 0)
            for one, field in zip(signals, fields, strict=True)
        ]
        patterns = [self.scaling_.patterns(one) / units for one in np.tensordot(inverse, covariances, 1)]
        self.patterns_ = patterns[0] if len(signals) == 1 else np.array(patterns)


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionEstimator(SequenceEstimator):
    """Quadratic functionals of tokens, pooled over a sequence: a symmetric matrix, the same at all positions."""

    by_position: ClassVar[bool] = False
    penalties: ClassVar[tuple[str, ...]] = (*SequenceEstimator.penalties, "trace")
    signals: ClassVar[Any] = PositiveSignal

    pairs: str = "self"
    linear: bool = True

    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> PooledDesign:
        if self.pairs not in PAIRS:
            raise ParameterError("pairs", self.pairs, f"one of {', '.join(PAIRS)}")
        boolean("linear", self.linear)
        roots = np.sqrt(given.lengths).astype(scaled.dtype)[:, None, None]
        if self.linear:
            ones = np.broadcast_to(given.mask[:, :, None].astype(scaled.dtype), (*scaled.shape[:2], 1))
            scaled = np.concatenate([scaled, ones], axis=2)
        scaled = scaled / roots
        if self.pairs == "all":
            scaled = scaled.sum(axis=1, keepdims=True) / roots
        if weights is not None:
            if not np.ptp(scaled, axis=0).any():
                # Differences of equal sequences from their centre would be rounding errors.
                scaled = np.zeros_like(scaled)
            self.centre_ = np.einsum("n,ntd,nte->de", weights, scaled, scaled, optimize=True) / weights.sum()
        return PooledDesign(scaled, self.centre_)

    def _coefficients(self, matrix: Array) -> Array:
        own = matrix[: self.shape_[1], : self.shape_[1]]
        columns = self.scaling_.columns
        back = columns @ own @ columns.T if columns.ndim == 2 else columns[:, None] * own * columns
        return np.asarray(0.5 * (back + back.T) / len(matrix))

    def _constants(self) -> Array:
        return np.array([np.sum(matrix * self.centre_) / len(matrix) for matrix in self.signals_])


def _refuse_rows_of_tokens(X: Any, y: ArrayLike) -> None:
    """Raise for a data frame with one row per token, whose index has the samples as its first level."""
    samples = len(getattr(getattr(X, "index", None), "levels", [()])[0])
    if not samples or len(X) == samples or np.shape(y)[:1] != (samples,):
        return
    tokens, rest = divmod(len(X), samples)
    remedy = f"X.to_numpy().reshape({samples}, {tokens}, {X.shape[1]})"
    remedy = "[one.to_numpy() for _, one in X.groupby(level=0)], a list of arrays (L_i, d)" if rest else remedy
    raise DataError("X", f"<{len(X)} rows of {samples} samples>", "one row per sample", f"give {remedy}")


def _sample_weights(sample_weight: ArrayLike | None, given: Sequences) -> Array:
    refuse_masked("sample_weight", sample_weight)
    refuse_dates("sample_weight", sample_weight)
    if sample_weight is None or is_number(sample_weight):
        weights = np.full(len(given.values), np.asarray(1.0 if sample_weight is None else sample_weight, dtype=float))
    else:
        weights = column_or_1d(check_array(sample_weight, ensure_2d=False, dtype=float, input_name="sample_weight"))
    check_consistent_length(weights, given.values)
    if np.any(weights < 0) or not np.any(weights > 0):
        raise ParameterError("sample_weight", sample_weight, "numbers >= 0, not all of them zero")
    return weights


def _group_numbers(groups: ArrayLike | None, given: Sequences) -> NDArray[np.int64]:
    """Return the number of each sample's group; by default every sample is a group."""
    if groups is None:
        return np.arange(len(given.values))
    refuse_masked("groups", groups)
    own = column_or_1d(groups)
    check_consistent_length(given.values, own)
    missing = [place for place, one in enumerate(own.tolist()) if one is None or one != one]
    if missing:
        allowed = "numbers or names, none of them missing"
        raise DataError("groups", f"<{own[missing[0]]} of sample {missing[0]}>", allowed, "give every sample a group")
    refuse_mixed("groups", groups)
    return np.asarray(np.unique(own, return_inverse=True)[1], dtype=np.int64)


def _connected_groups(equal: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return one number per set of samples that are linked by equality or by a common group."""
    count = len(np.unique(groups))
    if count == len(groups):
        return equal
    first, size = np.unique(groups, return_inverse=True)[1], equal.max() + 1
    links = coo_array((np.ones(len(equal)), (equal, size + first)), shape=(size + count, size + count))
    linked = np.asarray(connected_components(links, directed=False)[1][equal], dtype=np.int64)
    if equal.max() > 0 and linked.max() == 0:
        allowed = "two or more groups without equal samples in common"
        raise DataError("groups", f"<one group of {len(linked)} samples>", allowed, "fit without groups")
    return linked


def _distinct_samples(given: Sequences, target: Array) -> NDArray[np.int64]:
    """Return one number per distinct sample, in an order that does not depend on how often it occurs."""
    first = given.values.reshape(len(target), -1)[:, 0]
    if len(np.unique(first)) == len(first):
        return np.argsort(np.argsort(first, kind="stable"), kind="stable").astype(np.int64)
    # Lengths distinguish tokens that are zero from padding.
    rows = np.column_stack([given.values.reshape(len(target), -1), given.lengths, target])
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1], dtype=np.int64).ravel()
