"""Quadratic functionals of tokens, pooled over a sequence: attention of keys and queries that are not told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.data_analysis.signals import PositiveSignal
from glassformer.designs.pooled import PooledDesign
from glassformer.sklearn.base import SequenceEstimator
from glassformer.sklearn.classifier import SequenceClassifier
from glassformer.sklearn.regressor import SequenceRegressor
from glassformer.sklearn.sequences import Sequences

PAIRS = ("self", "all")


@dataclass(eq=False, repr=False, kw_only=True)
class _Attention(SequenceEstimator):
    """A symmetric matrix between tokens, the same at all positions."""

    by_position: ClassVar[bool] = False
    penalties: ClassVar[tuple[str, ...]] = (*SequenceEstimator.penalties, "trace")
    signals: ClassVar[Any] = PositiveSignal

    pairs: str = "self"
    linear: bool = True

    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> PooledDesign:
        if self.pairs not in PAIRS:
            raise ParameterError("pairs", self.pairs, f"one of {', '.join(PAIRS)}")
        roots = np.sqrt(given.lengths).astype(scaled.dtype)[:, None, None]
        if self.linear:
            ones = np.broadcast_to(given.there[:, :, None].astype(scaled.dtype), (*scaled.shape[:2], 1))
            scaled = np.concatenate([scaled, ones], axis=2)
        scaled = scaled / roots
        if self.pairs == "all":
            scaled = scaled.sum(axis=1, keepdims=True) / roots
        if weights is not None:
            if not np.ptp(scaled, axis=0).any():
                # Sequences that are all alike tell nothing: what is left around their centre would be rounding.
                scaled = np.zeros_like(scaled)
            self.centre_ = np.einsum("n,ntd,nte->de", weights, scaled, scaled, optimize=True) / weights.sum()
        return PooledDesign(scaled, self.centre_)

    def _coefficients(self, matrix: Array) -> Array:
        own = matrix[: self.shape_[1], : self.shape_[1]]
        columns = self.scaling_.columns
        back = columns @ own @ columns.T if columns.ndim == 2 else columns[:, None] * own * columns
        return np.asarray(0.5 * (back + back.T) / len(matrix))

    def _constants(self) -> Array:
        """What each signal makes of the centre of the fields, shape (signals,)."""
        return np.array([np.sum(matrix * self.centre_) / len(matrix) for matrix in self.signals_])


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionRegressor(_Attention, SequenceRegressor):
    r"""Regression on pairs of tokens, :math:`y = \langle \tilde x_a^TS\tilde x_b\rangle_{ab} + b`, ``S`` of low rank.

    Tokens :math:`\tilde x` are those of the inputs around their mean over all positions. The mean is over each token
    with itself (``pairs="self"``: a quadratic network), or over all pairs of a sequence (``"all"``: attention scores
    of keys equal to queries). Any order of the tokens gives the same, and new sequences may have any length.

    Args:
        shape: as for :class:`~glassformer.sklearn.bilinear.BilinearRegressor`, like all that is not listed here.
        pairs: ``"self"`` or ``"all"``.
        linear: whether tokens get a constant feature as well, so that labels may depend on them linearly.
        solver: ``"risk"``; ``"bayes"``, message passing for a matrix ``S``, or ``-S``, of keys that equal queries, of
            estimated width and noise; one that is neither positive nor negative is noticed, and the risk is minimised.
        loss: as there.
        penalty: ``"nuclear"``, ``"ridge"``, ``"elastic"``, or ``"trace"`` for positive ``S``: weight decay on keys that
            equal queries.
        strength: as there, by theory for the penalty ``"trace"``.
        strengths: as there.
        folds: as there.
        scale: as there; tokens of all positions have one scale.
        tolerance: as there.
        max_iterations: as there.
        random_state: as there.

    Attributes:
        coef_: ``S``, shape (d, d), in the units of the inputs.
        rank_: as there, of the matrix that was learned, the constant feature included.
        singular_values_: of ``S``, falling.
        strength_: that was used.
        solver_: as there.
        cross_validation_: as there.
        shape_: (L, d).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.standard_normal((300, 3, 6)), rng.standard_normal(6)
        >>> y = np.mean((X @ w) ** 2, axis=1)
        >>> found = AttentionRegressor(strength="simplest", strengths=10).fit(X, y)
        >>> bool(found.score(X, y) > 0.9), found.coef_.shape
        (True, (6, 6))
    """

    def _seen_mean(self) -> float:
        return float(self.unit_ * self._constants()[0])


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionClassifier(_Attention, SequenceClassifier):
    r"""Classification with log-odds :math:`\langle \tilde x_a^T S\,\tilde x_b\rangle_{ab} + b`, ``S`` of low rank.

    Of more than two classes each has a matrix of its own and is told from the rest; with ``loss="softmax"`` all are
    learned at once.

    Args:
        shape: as for :class:`AttentionRegressor`, like all that is not listed here.
        pairs: as there.
        linear: as there.
        solver: ``"risk"``; ``"bayes"``, of two classes, as there, for a threshold of a noisy field.
        loss: ``"logistic"`` or ``"softmax"``, which give probabilities, ``"hinge"`` or ``"square"``.
        class_weight: as for :class:`~glassformer.sklearn.bilinear.BilinearClassifier`.
        penalty: as there.
        strength: as there, by theory also of two classes and the logistic loss; each class has its own, but for
            ``loss="softmax"``.
        strengths: as there.
        folds: as there; classes have equal shares in them.
        scale: as there.
        tolerance: as there.
        max_iterations: as there.
        random_state: as there.

    Attributes:
        classes_: in ascending order.
        coef_: shape (d, d), or (classes, d, d) of more than two; so for the others.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((300, 2, 4))
        >>> y = (X[:, :, 0] ** 2).sum(axis=1) > 1.4
        >>> bool(AttentionClassifier(strength=0.3).fit(X, y).score(X, y) > 0.85)
        True
    """

    loss: Any = "logistic"
    class_weight: Any = None

    def _seen_means(self) -> Array:
        return self._constants()
