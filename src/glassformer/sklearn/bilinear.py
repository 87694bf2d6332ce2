"""Linear functionals of a sequence whose weights are a matrix of low rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from glassformer.core.estimate import Array
from glassformer.data_analysis.signals import BilinearSignal
from glassformer.designs.dense import DenseDesign
from glassformer.sklearn.base import SequenceEstimator
from glassformer.sklearn.classifier import SequenceClassifier
from glassformer.sklearn.regressor import SequenceRegressor
from glassformer.sklearn.sequences import Sequences


class _Bilinear(SequenceEstimator):
    """Weights of tokens and features: one matrix."""

    signals: ClassVar[Any] = BilinearSignal

    def _design(self, scaled: Array, given: Sequences, weights: Array | None) -> DenseDesign:
        return DenseDesign(scaled)

    def _coefficients(self, matrix: Array) -> Array:
        return self.scaling_.back(matrix) / np.sqrt(matrix.size)


@dataclass(eq=False, repr=False, kw_only=True)
class BilinearRegressor(_Bilinear, SequenceRegressor):
    r"""Regression :math:`y = \mathrm{Tr}\,X^TC + b` on sequences ``X`` of shape (L, d), with ``C`` of low rank.

    Args:
        shape: of one sample of flat inputs, (L, d), of which one may be -1; None for a single token, which a warning
            says. Inputs of shape (n, L, d), which stay float32 where they are that, and lists of arrays (L_i, d), which
            are padded and masked, bring their own.
        solver: ``"risk"``, the minimiser of a loss and a penalty
            (:class:`~glassformer.learners.regularised_risk.RegularisedRisk`); ``"bayes"``, message passing with the
            width and the noise that :func:`~glassformer.data_analysis.width.estimate_model` finds, for inputs that
            are close to independent numbers once they are scaled; where it does not settle, that which takes the
            singular values of the inputs as they are. Where that does not settle either, a warning says so and the
            risk is minimised instead.
        loss: ``"square"``, ``"huber"``, or a convex function of a label and a field that JAX can differentiate.
        penalty: ``"nuclear"``, ``"ridge"`` or ``"elastic"``.
        strength: of the penalty: ``"cv"`` for the best by cross-validation, ``"simplest"`` for the largest one within a
            standard error of it, ``"theory"`` for the best by the theory of the estimated width and noise, or a number
            > 0, in the units of scaled inputs and targets (for ``"theory"``, of the signal's share in the latter).
        strengths: how many strengths cross-validation looks at, along one warm-started path; or the strengths.
        folds: of cross-validation. Samples that are equal are held back together, and so are those of one group where
            :meth:`fit` is given groups.
        scale: ``"features"``, in units of the standard deviations of features and of tokens; ``"whiten"``, uncorrelated
            features and tokens; ``"none"``. Means are subtracted in any case; all is learned in :meth:`fit`.
        tolerance: certified duality gap that is accepted, relative to the risk of an estimate of zero.
        max_iterations: steps allowed at each strength.
        random_state: of the folds.

    Attributes:
        coef_: ``C``, shape (L, d), in the units of the inputs.
        intercept_: ``b``, for sequences of full length.
        rank_: numerical rank of ``C``: directions that stand out of the noise. Counted are the singular values of the
            signal as it is seen before the penalty or the posterior shrinks it,
            :math:`\hat S + \mathrm{adjoint}(g)/\hat q` with the scores ``g`` of the residuals, beyond the largest one
            of noise alone (scores of random signs; for ``"bayes"``, white noise). At most the number of singular values
            that are not zero; of losses with kinks, and of softmax, that number itself.
        singular_values_: of ``C``, falling.
        strength_: that was used.
        cross_validation_: :class:`~glassformer.learners.validation.CrossValidation` that chose it, or None.
        solver_: that was used in the end: ``"risk"``, or ``"gamp"`` or ``"vamp"``, message passing for independent
            inputs or by their singular values.
        estimated_model_: :class:`~glassformer.data_analysis.width.EstimatedModel`, where it was asked for.
        shape_: (L, d).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((200, 6, 8))
        >>> C = np.outer(rng.standard_normal(6), rng.standard_normal(8))
        >>> y = np.einsum("nld,ld->n", X, C) + 0.1 * rng.standard_normal(200)
        >>> found = BilinearRegressor(strength="simplest", strengths=10).fit(X, y)
        >>> found.rank_ < 6, bool(found.score(X, y) > 0.95)
        (True, True)
    """

    def _seen_mean(self) -> float:
        return float(np.sum(self.coef_ * self.scaling_.mean))


@dataclass(eq=False, repr=False, kw_only=True)
class BilinearClassifier(_Bilinear, SequenceClassifier):
    r"""Classification of sequences ``X`` of shape (L, d), log-odds :math:`\mathrm{Tr}\,X^TC + b`, ``C`` of low rank.

    Of more than two classes each has a matrix of its own and is told from the rest; with ``loss="softmax"`` all are
    learned at once.

    Args:
        shape: as for :class:`BilinearRegressor`, like all that is not listed here.
        solver: ``"risk"``; ``"bayes"``, of two classes, message passing for a threshold of a noisy field
            (:class:`~glassformer.channels.scalar.sign.NoisySignChannel`) of estimated width, noise and offset.
        loss: ``"logistic"`` or ``"softmax"``, which give probabilities, ``"hinge"`` or ``"square"``.
        class_weight: weights of the classes, a dictionary; ``"balanced"`` for classes that weigh equally; None for
            samples that do. They multiply ``sample_weight``.
        penalty: as there.
        strength: as there, by theory of two classes and the logistic loss; each class has its own, but for
            ``loss="softmax"``.
        strengths: as there.
        folds: as there; classes have equal shares in them.
        scale: as there.
        tolerance: as there.
        max_iterations: as there.
        random_state: as there.

    Attributes:
        classes_: in ascending order.
        coef_: shape (L, d), or (classes, L, d) of more than two; so for the others. Of message passing it is that of
            the field, :meth:`decision_function` has its log-odds.
        intercept_: a number, or one per class.
        rank_: as there, like the rest.

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

    def _seen_means(self) -> Array:
        coefficients = np.reshape(self.coef_, (-1, *self.shape_))
        return np.einsum("kld,ld->k", coefficients, self.scaling_.mean)
