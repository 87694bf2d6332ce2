"""What all estimators share: inputs of any form, scaling, one signal per target, and what is told of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from glassformer.core.checks import is_number, require_name
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.integral import Array
from glassformer.core.numerics.decompositions import singular_values
from glassformer.learners.algorithms.several_classes import SeveralClasses, SoftmaxLoss
from glassformer.learners.own_data.arrays import require_squares
from glassformer.learners.risk_path import rank_of
from glassformer.sklearn.misses import Misses
from glassformer.sklearn.scaling import learned
from glassformer.sklearn.sequences import Sequences, sequences
from glassformer.sklearn.solvers import Signal, Task, require_settings, solver_of

# Labels that differ by this share of their mean differ by rounding.
_ROUNDING = 1e-13


@dataclass(eq=False, repr=False)
class SequenceEstimator(BaseEstimator):
    """Base of the estimators, their parameters its fields; a target is what one signal is learned from."""

    has_theory: ClassVar[bool] = True
    """Whether the theory of its solver tells its learning curve, for the parameters that it is known of."""
    signals: ClassVar[Any]
    """What may be behind targets, an :class:`~glassformer.learners.own_data.signals.UnknownSignal`."""
    predicts_numbers: ClassVar[bool] = True
    """Whether targets are numbers, and have intervals."""
    by_position: ClassVar[bool] = True
    """Whether tokens of different positions are seen by different weights."""
    penalties: ClassVar[tuple[str, ...]] = ("nuclear", "ridge", "elastic")
    """Those that may be asked for; others are for matrices of another kind, or leave no strength to choose."""

    shape: Any = None
    _: KW_ONLY
    solver: str = "risk"
    loss: Any = "square"
    penalty: str = "nuclear"
    strength: Any = "cv"
    strengths: Any = 20
    folds: int = 5
    scale: str = "features"
    tolerance: float = 1e-4
    max_iterations: int = 5000
    random_state: Any = 0

    @abstractmethod
    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> Any:
        """The design of scaled tokens; with weights, of those that are learned from."""

    @abstractmethod
    def _coefficients(self, matrix: Array) -> Array:
        """What sees tokens as they are given as the signal of this matrix sees scaled ones."""

    @abstractmethod
    def _labels(self, y: Any) -> Any:
        """Labels that were given, checked."""

    @abstractmethod
    def _targets(self, labels: Any, weights: Array) -> list[Array]:
        """What signals are learned from; one with columns is for as many signals at once."""

    def posed(self, X: Any, y: Any, sample_weight: Any = None) -> list[Task]:
        """What there is to learn, of the samples that weigh anything: one task per target."""
        require_settings(self)
        require_name("penalty", self.penalty, self.penalties)
        given = sequences(self, X, self.shape, reset=True)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        labels = self._labels(column_or_1d(y, warn=True))
        check_consistent_length(given.values, labels)
        weights = _weights(sample_weight, given)
        targets = self._targets(labels, weights)
        kept = weights > 0
        part = given if kept.all() else given.at(kept)
        self.shape_ = (int(given.values.shape[1]), int(given.values.shape[2]))
        self.scaling_ = learned(part, weights[kept], self.scale, self.by_position)
        tokens = self.scaling_.apply(part)
        design = self._design(tokens, part, weights[kept])
        return [self._task(design, tokens, target[kept], weights[kept], part) for target in targets]

    def _task(self, design: Any, tokens: Array, target: Array, weights: Array, given: Sequences) -> Task:
        groups, intercept = _repeated(given, target), not self.predicts_numbers or self.loss != "square"
        if target.ndim == 2:
            several = SeveralClasses(design, target.shape[1])
            return Task(several, tokens, target, weights, groups, intercept, SoftmaxLoss())
        loss = "logistic" if isinstance(self.loss, str) and self.loss == "softmax" else self.loss
        return Task(design, tokens, target, weights, groups, intercept, loss)

    def _learned(self, tasks: list[Task]) -> list[Signal]:
        """One signal per target, or per column of one."""
        solve, found = solver_of(self.solver), []
        for task in tasks:
            one = solve(self, task)
            if task.labels.ndim == 1:
                found.append(one)
                continue
            parts = zip(one.matrix, one.intercept, strict=True)
            found += [one._replace(matrix=matrix, intercept=shift) for matrix, shift in parts]
        return found

    def _tell(self, signals: list[Signal], units: float) -> None:
        """Attributes, those of one signal without an axis over them."""
        self.signals_ = [one.matrix for one in signals]
        each: dict[str, list[Any]] = {
            "coef_": [units * self._coefficients(one.matrix) for one in signals],
            "rank_": [rank_of(one.matrix) for one in signals],
            "strength_": [one.strength for one in signals],
        }
        each["singular_values_"] = [singular_values(one) for one in each["coef_"]]
        single = len(signals) == 1
        for name, values in each.items():
            setattr(self, name, values[0] if single else np.array(values))
        self.solver_ = signals[0].solver
        self.estimated_model_ = signals[0].estimated if single else [one.estimated for one in signals]
        self.n_iter_ = max(1, max(one.iterations for one in signals))
        self.cross_validation_ = signals[0].validation if single else [one.validation for one in signals]

    def _seen(self, X: Any) -> Any:
        """The design of new samples."""
        check_is_fitted(self)
        given = sequences(self, X, self.shape_, reset=False)
        return self._design(self.scaling_.apply(given), given, None)

    def _fields(self, design: Any) -> Array:
        """Of all signals, shape (n, signals), without intercepts."""
        return np.stack([design.forward(matrix, 0) for matrix in self.signals_], axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Numbers from sequences."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from samples.

        Args:
            X: shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d) of sequences of unequal length.
            y: numbers, shape (n,).
            sample_weight: >= 0, shape (n,); samples of weight zero do not count.

        Raises:
            ValueError: data or parameters that scikit-learn, or the package, refuses; they are named.
        """
        (signal,) = self._learned(self.posed(X, y, sample_weight))
        self.offset_ += self.unit_ * signal.intercept
        self.misses_ = signal.misses
        self._tell([signal], self.unit_)
        self.intercept_ = self.offset_ - self._seen_mean()
        return self

    def _labels(self, y: Any) -> Array:
        return _numbers(y)

    def _targets(self, labels: Array, weights: Array) -> list[Array]:
        """Of mean zero and variance one."""
        share = weights / weights.sum()
        self.offset_ = float(share @ labels)
        away = labels - self.offset_
        # In units of the largest: squares of small labels are below the smallest number.
        largest = max(float(np.abs(away).max()), np.finfo(float).tiny)
        spread = largest * float(np.sqrt(share @ (away / largest) ** 2))
        if spread <= _ROUNDING * abs(self.offset_):
            away, spread = np.zeros_like(labels), 1.0
        self.unit_ = spread
        return [away / spread]

    @abstractmethod
    def _seen_mean(self) -> float:
        """What the coefficients make of the mean that was subtracted from inputs."""

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions, shape (n,), of samples in any of the forms of :meth:`fit`.

        Args:
            X: samples.
            return_std: whether standard deviations of new labels around the predictions are returned beside them: of
                message passing those of its posterior, with the noise; of risk those of the samples that were learned
                from around predictions without them.

        Raises:
            IncompatibleError: standard deviations of a fit whose loss has kinks.
        """
        found, design = self._predicted(X)
        if not return_std:
            return found
        return found, self.unit_ * self._known_misses().deviation(design.variances())

    def predict_interval(self, X: Any, coverage: float = 0.9) -> Array:
        """Intervals that hold new labels with a probability of ``coverage``, shape (n, 2): their ends.

        Those of message passing are Gaussian, with the variance of its posterior and the noise. Those of risk are as
        wide as the samples that were learned from would need, each predicted without itself; no law of errors is
        assumed.

        Args:
            X: samples in any of the forms of :meth:`fit`.
            coverage: in (0, 1).

        Raises:
            ParameterError: ``coverage`` is out of range.
            IncompatibleError: of a fit whose loss has kinks.
        """
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ParameterError("coverage", coverage, "a number in (0, 1)")
        found, design = self._predicted(X)
        half = self.unit_ * self._known_misses().half_width(design.variances(), float(coverage))
        return np.column_stack([found - half, found + half])

    def _predicted(self, X: Any) -> tuple[Array, Any]:
        design = self._seen(X)
        return np.asarray(self.offset_ + self.unit_ * self._fields(design)[:, 0]), design

    def _known_misses(self) -> Misses:
        if self.misses_ is None:
            raise IncompatibleError(f"loss = {self.loss!r} has kinks, and no intervals: use square or huber")
        return self.misses_


def _require_chances(estimator: Any) -> bool:
    if estimator.has_chances:
        return True
    raise AttributeError(f"loss = {estimator.loss!r} gives no probabilities: use loss='logistic' or 'softmax'")


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
    """Classes from sequences; of more than two all at once, by softmax, or each against the rest."""

    predicts_numbers: ClassVar[bool] = False
    # Of classes there is one unit only.
    unit_ = 1.0

    @property
    def has_chances(self) -> bool:
        """Whether the loss gives probabilities."""
        return isinstance(self.loss, str) and self.loss in ("logistic", "softmax")

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from samples.

        Args:
            X: shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d) of sequences of unequal length.
            y: classes, numbers or names, shape (n,).
            sample_weight: >= 0, shape (n,); samples of weight zero do not count.

        Raises:
            ValueError: data or parameters that scikit-learn, or the package, refuses; they are named.
        """
        signals = self._learned(self.posed(X, y, sample_weight))
        self._tell(signals, 1.0)
        offsets = np.array([one.intercept for one in signals])
        self.offsets_, self.chances_ = offsets, signals[0].chances
        means = self._seen_means()
        self.intercept_ = float(offsets[0] - means[0]) if len(signals) == 1 else offsets - means
        return self

    def _labels(self, y: Any) -> Any:
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return y

    def _targets(self, labels: Any, weights: Array) -> list[Array]:
        """Each class against the rest, the second of two against the first; or one column per class."""
        self.classes_ = np.unique(labels)
        present = np.unique(labels[weights > 0])
        if len(present) < 2:
            raise ValueError(f"y has samples of one class only, {present.tolist()}: expected two classes or more")
        if self._at_once:
            return [np.where(labels[:, None] == self.classes_, 1.0, 0.0)]
        singled = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(labels == one, 1.0, -1.0) for one in singled]

    @abstractmethod
    def _seen_means(self) -> Array:
        """What the coefficients of each class make of the mean that was subtracted from inputs."""

    @property
    def _at_once(self) -> bool:
        """Whether classes have a softmax; of two it is the logistic loss."""
        return len(self.classes_) > 2 and isinstance(self.loss, str) and self.loss == "softmax"

    def decision_function(self, X: Any) -> Array:
        """Log-odds (logistic loss, message passing) of the second class, or of each of several, (n, classes)."""
        design = self._seen(X)
        fields = self._fields(design) + self.offsets_
        if self.chances_ is not None:
            return self.chances_.odds(fields[:, 0], design.variances())
        return fields[:, 0] if len(self.classes_) == 2 else fields

    def predict(self, X: Any) -> Array:
        """The most probable class of each sample, shape (n,)."""
        odds = self.decision_function(X)
        return np.asarray(self.classes_[(odds > 0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)])

    @available_if(_require_chances)
    def predict_proba(self, X: Any) -> Array:
        """Probabilities, shape (n, classes); of several by softmax, or against the rest and normalised."""
        odds = self.decision_function(X)
        if self._at_once:
            return np.asarray(softmax(odds, axis=1))
        chance = expit(odds)
        if chance.ndim == 1:
            return np.column_stack([1 - chance, chance])
        total = chance.sum(axis=1, keepdims=True)
        return np.where(total > 0, chance / np.where(total > 0, total, 1.0), 1 / chance.shape[1])


def _numbers(y: Any) -> Array:
    try:
        found = np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise ValueError("Unknown label type: y has entries that are no numbers: use a classifier") from error
    if not np.all(np.isfinite(found)):
        first = int(np.argmin(np.isfinite(found)))
        raise ValueError(f"Input y contains NaN or infinity: y[{first}] = {found[first]}")
    require_squares("y", found)
    return found


def _weights(sample_weight: Any, given: Sequences) -> Array:
    weights = np.asarray(_check_sample_weight(sample_weight, given.values.reshape(len(given.values), -1), dtype=float))
    if np.any(weights < 0) or not np.any(weights > 0):
        raise ParameterError("sample_weight", sample_weight, "numbers >= 0, not all of them zero")
    return weights


def _repeated(given: Sequences, target: Array) -> NDArray[np.int64]:
    """One number per distinct sample, in an order that does not depend on how often it occurs."""
    first = given.values.reshape(len(target), -1)[:, 0]
    if len(np.unique(first)) == len(first):
        return np.argsort(np.argsort(first, kind="stable"), kind="stable").astype(np.int64)
    # A token of zeros is another thing than none.
    rows = np.column_stack([given.values.reshape(len(target), -1), given.lengths, target])
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1], dtype=np.int64).ravel()
