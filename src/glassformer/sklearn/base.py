"""What all estimators share: inputs of any form, scaling, one signal per target, and what is told of it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, column_or_1d

from glassformer.core.checks import is_number, require_name
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.learners.algorithms.several_classes import SeveralClasses, SoftmaxLoss
from glassformer.learners.risk_path import rank_of
from glassformer.numerics.decompositions import singular_values
from glassformer.sklearn.scaling import learned
from glassformer.sklearn.sequences import Sequences, sequences
from glassformer.sklearn.solvers import Signal, Task, require_settings, solver_of


@dataclass(eq=False, repr=False)
class SequenceEstimator(BaseEstimator):
    """Base of the estimators, their parameters its fields; a target is what one signal is learned from."""

    has_theory: ClassVar[bool] = True
    """Whether the theory of its solver tells its learning curve, for the parameters that it is known of."""
    signals: ClassVar[Any]
    """What may be behind targets, an :class:`~glassformer.data_analysis.signals.UnknownSignal`."""
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

    def _weighed(self, labels: Any, weights: Array) -> Array:
        """Weights of samples, with what their labels make of them."""
        del labels
        return weights

    def posed(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> list[Task]:
        """What there is to learn, of the samples that weigh anything: one task per target."""
        require_settings(self)
        require_name("penalty", self.penalty, self.penalties)
        given = sequences(self, X, self.shape, reset=True)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        labels = self._labels(column_or_1d(y, warn=True))
        check_consistent_length(given.values, labels)
        weights = self._weighed(labels, _weights(sample_weight, given))
        targets = self._targets(labels, weights)
        kept = weights > 0
        part = given if kept.all() else given.at(kept)
        self.shape_ = (int(given.values.shape[1]), int(given.values.shape[2]))
        self.scaling_ = learned(part, weights[kept], self.scale, self.by_position)
        tokens = self.scaling_.apply(part)
        design = self._design(tokens, part, weights[kept])
        own = _groups(groups, given)[kept]
        return [self._task(design, tokens, target[kept], weights[kept], part, own) for target in targets]

    def _task(
        self, design: Any, tokens: Array, target: Array, weights: Array, given: Sequences, groups: NDArray[np.int64]
    ) -> Task:
        equal, intercept = _repeated(given, target), not self.predicts_numbers or self.loss != "square"
        loss = "logistic" if isinstance(self.loss, str) and self.loss == "softmax" else self.loss
        if target.ndim == 2:
            design, loss = SeveralClasses(design, target.shape[1]), SoftmaxLoss()
        return Task(design, tokens, target, weights, equal, _together(equal, groups), intercept, loss)

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
            "rank_": [rank_of(one.matrix) if one.rank is None else one.rank for one in signals],
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


def _weights(sample_weight: Any, given: Sequences) -> Array:
    if sample_weight is None or is_number(sample_weight):
        weights = np.full(len(given.values), 1.0 if sample_weight is None else float(sample_weight))
    else:
        weights = column_or_1d(check_array(sample_weight, ensure_2d=False, dtype=float, input_name="sample_weight"))
    check_consistent_length(weights, given.values)
    if np.any(weights < 0) or not np.any(weights > 0):
        raise ParameterError("sample_weight", sample_weight, "numbers >= 0, not all of them zero")
    return weights


def _groups(groups: Any, given: Sequences) -> NDArray[np.int64]:
    """One number per group that was given, for each sample; by default every sample is one."""
    if groups is None:
        return np.arange(len(given.values))
    own = column_or_1d(groups)
    check_consistent_length(given.values, own)
    return np.asarray(np.unique(own, return_inverse=True)[1], dtype=np.int64)


def _together(equal: NDArray[np.int64], groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number per set of samples that are equal, or of one group, or linked by others that are."""
    count = len(np.unique(groups))
    if count == len(groups):
        return equal
    first, size = np.unique(groups, return_inverse=True)[1], equal.max() + 1
    links = coo_array((np.ones(len(equal)), (equal, size + first)), shape=(size + count, size + count))
    return np.asarray(connected_components(links, directed=False)[1][equal], dtype=np.int64)


def _repeated(given: Sequences, target: Array) -> NDArray[np.int64]:
    """One number per distinct sample, in an order that does not depend on how often it occurs."""
    first = given.values.reshape(len(target), -1)[:, 0]
    if len(np.unique(first)) == len(first):
        return np.argsort(np.argsort(first, kind="stable"), kind="stable").astype(np.int64)
    # A token of zeros is another thing than none.
    rows = np.column_stack([given.values.reshape(len(target), -1), given.lengths, target])
    return np.asarray(np.unique(rows, axis=0, return_inverse=True)[1], dtype=np.int64).ravel()
