"""Estimators of classes: log-odds, classes and their probabilities."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.sklearn.base import SequenceEstimator


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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from samples.

        Args:
            X: shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d) of sequences of unequal length.
            y: classes, numbers or names, shape (n,).
            sample_weight: >= 0, shape (n,); samples of weight zero do not count.
            groups: numbers or names, shape (n,): samples of one group are held back together by the cross-validation
                that chooses the strength.

        Raises:
            ValueError: data or parameters that scikit-learn, or the package, refuses; they are named.
        """
        signals = self._learned(self.posed(X, y, sample_weight, groups))
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

    def _weighed(self, labels: Any, weights: Array) -> Array:
        """The weights of samples times those of their classes."""
        if self.class_weight is None:
            return weights
        if not (isinstance(self.class_weight, Mapping) or self.class_weight == "balanced"):
            raise ParameterError("class_weight", self.class_weight, "balanced, a dictionary of classes, or None")
        return weights * compute_sample_weight(self.class_weight, labels)

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
