"""The classifiers: log-odds, classes and their probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.sklearn.base import AttentionEstimator, BilinearEstimator, SequenceEstimator
from glassformer.sklearn.solvers import FittedSignal


def _require_probabilities(estimator: SequenceClassifier) -> bool:
    if estimator.has_probabilities:
        return True
    raise AttributeError(f"loss = {estimator.loss!r} gives no probabilities: use loss='logistic' or 'softmax'")


class SequenceClassifier(ClassifierMixin, SequenceEstimator):
    """Base of the classifiers. More than two classes have a softmax, or are learned each against the rest."""

    predicts_numbers: ClassVar[bool] = False
    # Targets of classes are not rescaled.
    unit_ = 1.0

    @property
    def has_probabilities(self) -> bool:
        """True when the loss gives probabilities."""
        return isinstance(self.loss, str) and self.loss in ("logistic", "softmax")

    def _set_fields(self, signals: list[FittedSignal]) -> None:
        self.offsets_ = np.array([one.intercept for one in signals])
        self.class_probabilities_ = signals[0].probabilities
        intercepts = self.offsets_ - self._constants()
        self.intercept_ = float(intercepts[0]) if len(signals) == 1 else intercepts

    def theory_unavailable_reason(self, weighted: bool) -> str:
        if weighted:
            return "sample_weight" if self.class_weight is None else "class_weight"
        if len(self.classes_) > 2:
            return f"{len(self.classes_)} classes (a class against all others is not a threshold of one field)"
        if not self.has_probabilities:
            return f"loss = {self.loss!r} (theory of two classes is for a threshold of a noisy field: use logistic)"
        return ""

    def _labels(self, y: NDArray[Any]) -> NDArray[Any]:
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return y

    def _total_weights(self, labels: NDArray[Any], weights: Array) -> Array:
        if self.class_weight is None:
            return weights
        if not (isinstance(self.class_weight, Mapping) or self.class_weight == "balanced"):
            raise ParameterError("class_weight", self.class_weight, "balanced, a dictionary of classes, or None")
        return weights * compute_sample_weight(self.class_weight, labels)

    def _targets(self, labels: NDArray[Any], weights: Array) -> list[Array]:
        """Return each class against the rest, the second of two against the first; or one column per class."""
        self.classes_ = np.unique(labels)
        present = np.unique(labels[weights > 0])
        if len(present) < 2:
            raise ValueError(f"y has samples of one class only, {present.tolist()}: expected at least two classes")
        if self._has_softmax:
            return [np.where(labels[:, None] == self.classes_, 1.0, 0.0)]
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        return [np.where(labels == one, 1.0, -1.0) for one in positive]

    @property
    def _has_softmax(self) -> bool:
        """True for a softmax of more than two classes; two classes have the logistic loss."""
        return len(self.classes_) > 2 and isinstance(self.loss, str) and self.loss == "softmax"

    def decision_function(self, X: ArrayLike) -> Array:
        """Return log-odds (logistic loss, message passing) of the second class, or of each of several, (n, classes)."""
        design = self._new_design(X)
        fields = self._fields(design) + self.offsets_
        if self.class_probabilities_ is not None:
            return self.class_probabilities_.log_odds(fields[:, 0], design.variances())
        return fields[:, 0] if len(self.classes_) == 2 else fields

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable class of each sample, shape (n,)."""
        odds = self.decision_function(X)
        return np.asarray(self.classes_[(odds > 0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)])

    @available_if(_require_probabilities)
    def predict_proba(self, X: ArrayLike) -> Array:
        """Return probabilities, shape (n, classes); by softmax, or each against the rest and normalised."""
        odds = self.decision_function(X)
        if self._has_softmax:
            return np.asarray(softmax(odds, axis=1))
        probability = expit(odds)
        if probability.ndim == 1:
            return np.column_stack([1 - probability, probability])
        total = probability.sum(axis=1, keepdims=True)
        return np.where(total > 0, probability / np.where(total > 0, total, 1.0), 1 / probability.shape[1])


@dataclass(eq=False, repr=False, kw_only=True)
class BilinearClassifier(BilinearEstimator, SequenceClassifier):
    r"""Classification of sequences ``X`` of shape (L, d), log-odds :math:`\mathrm{Tr}\,X^TC + b`, ``C`` of low rank.

    Each of more than two classes has a matrix of its own, against the rest; with ``loss="softmax"`` all are
    learned at once.

    Args:
        shape: as for :class:`~glassformer.sklearn.regressor.BilinearRegressor`,
            like all parameters that are not listed here.
        solver: ``"risk"``; ``"bayes"``, of two classes, message passing for a threshold of a noisy field
            (:class:`~glassformer.channels.scalar.sign.NoisySignChannel`) of estimated width, noise and offset.
        loss: ``"logistic"`` or ``"softmax"``, which give probabilities, ``"hinge"`` or ``"square"``.
        class_weight: dictionary of weights of the classes; ``"balanced"`` for classes of equal weight; None for samples
            of equal weight. They multiply ``sample_weight``.
        strength: ``"theory"`` needs two classes and the logistic loss; each class has its own strength, except for
            ``loss="softmax"``.
        folds: number of folds, all with the same shares of the classes. A fold whose training samples lack a class does
            not count, with a warning.

    Attributes:
        classes_: in ascending order.
        coef_: shape (L, d), or (classes, L, d) for more than two; likewise the others. For message passing these are
            coefficients of the field; :meth:`decision_function` has the log-odds.
        intercept_: a number, or one per class.
        patterns_: as for :class:`~glassformer.sklearn.regressor.BilinearRegressor`, with the inverse covariance of the
            fields of all classes.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((200, 4, 5))
        >>> y = np.where(X[:, 0, 0] + X[:, 1, 0] > 0, "up", "down")
        >>> found = BilinearClassifier(strength=1.0).fit(X, y)
        >>> bool(found.score(X, y) > 0.9), found.predict_proba(X).shape
        (True, (200, 2))
    """

    loss: Any = "logistic"
    class_weight: Any = None


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionClassifier(AttentionEstimator, SequenceClassifier):
    r"""Classification with log-odds :math:`\langle \tilde x_a^T S\,\tilde x_b\rangle_{ab} + b`, ``S`` of low rank.

    Each of more than two classes has a matrix of its own, against the rest; with ``loss="softmax"`` all are
    learned at once.

    Args:
        shape: as for :class:`~glassformer.sklearn.regressor.AttentionRegressor`,
            like all parameters that are not listed here.
        solver: ``"risk"``; ``"bayes"``, of two classes, for a threshold of a noisy field.
        loss: ``"logistic"`` or ``"softmax"``, which give probabilities, ``"hinge"`` or ``"square"``.
        class_weight: as for :class:`BilinearClassifier`.
        strength: ``"theory"`` needs two classes, the logistic loss and the penalty ``"trace"``; each class has its own
            strength, except for ``loss="softmax"``.
        folds: number of folds, all with the same shares of the classes. A fold whose training samples lack a class does
            not count, with a warning.

    Attributes:
        classes_: in ascending order.
        coef_: shape (d, d), or (classes, d, d) for more than two; likewise the others.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((300, 2, 4))
        >>> y = (X[:, :, 0] ** 2).sum(axis=1) > 1.4
        >>> bool(AttentionClassifier(strength=0.3).fit(X, y).score(X, y) > 0.85)
        True
    """

    loss: Any = "logistic"
    class_weight: Any = None
