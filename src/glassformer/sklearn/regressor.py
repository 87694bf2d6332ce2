"""The regressors: predictions of numbers with standard deviations and intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.learners.data_validation import require_squares
from glassformer.learners.leave_one_out import MatrixDesign
from glassformer.sklearn.base import AttentionEstimator, BilinearEstimator, SequenceEstimator
from glassformer.sklearn.predictive_distributions import ErrorDistribution
from glassformer.sklearn.solvers import FittedSignal

# Differences of labels below this share of their mean are rounding errors.
_ROUNDING = 1e-13


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Base of the regressors."""

    def _set_fields(self, signals: list[FittedSignal]) -> None:
        self.offset_ += self.unit_ * signals[0].intercept
        self.error_distribution_ = signals[0].errors
        self.intercept_ = self.offset_ - self.unit_ * float(self._constants()[0])

    def _labels(self, y: NDArray[Any]) -> Array:
        try:
            labels = np.asarray(y, dtype=float)
        except (TypeError, ValueError) as error:
            raise ValueError("Unknown label type: y has entries that are not numbers: use a classifier") from error
        if not np.all(np.isfinite(labels)):
            first = int(np.argmin(np.isfinite(labels)))
            raise ValueError(f"Input y contains NaN or infinity: y[{first}] = {labels[first]}")
        require_squares("y", labels)
        return labels

    def _targets(self, labels: Array, weights: Array) -> list[Array]:
        """Return the labels with mean zero and variance one; sets the offset and the unit."""
        share = weights / weights.sum()
        self.offset_ = float(share @ labels)
        centred = labels - self.offset_
        # In units of the largest label, since squares of small numbers underflow.
        largest = max(float(np.abs(centred).max()), np.finfo(float).tiny)
        spread = largest * float(np.sqrt(share @ (centred / largest) ** 2))
        if spread <= _ROUNDING * abs(self.offset_):
            centred, spread = np.zeros_like(labels), 1.0
        self.unit_ = spread
        return [centred / spread]

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """Return predictions, shape (n,), of samples in any of the forms of :meth:`fit`.

        Args:
            X: samples.
            return_std: True to return standard deviations of new labels around the predictions as well: for message
                passing from the posterior and the noise, for risk from leave-one-out residuals.

        Raises:
            IncompatibleError: standard deviations, where the loss of the fit has kinks, or with ``refit``.
        """
        predictions, design = self._predict(X)
        if not return_std:
            return predictions
        return predictions, self.unit_ * self._require_errors().deviation(design.variances())

    def predict_interval(self, X: ArrayLike, coverage: float = 0.9) -> Array:
        """Return the ends of intervals that contain new labels with probability ``coverage``, shape (n, 2).

        For message passing they are Gaussian, with the variance of its posterior and the noise. For risk they are
        quantiles of leave-one-out residuals of the training samples, without a parametric law of errors.

        Args:
            X: samples in any of the forms of :meth:`fit`.
            coverage: in (0, 1).

        Raises:
            ParameterError: ``coverage`` is out of range.
            IncompatibleError: the loss of the fit has kinks, or ``refit`` is set.
        """
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ParameterError("coverage", coverage, "a number in (0, 1)")
        predictions, design = self._predict(X)
        half = self.unit_ * self._require_errors().half_width(design.variances(), float(coverage))
        return np.column_stack([predictions - half, predictions + half])

    def _predict(self, X: ArrayLike) -> tuple[Array, MatrixDesign]:
        design = self._new_design(X)
        return np.asarray(self.offset_ + self.unit_ * self._fields(design)[:, 0]), design

    def _require_errors(self) -> ErrorDistribution:
        if self.error_distribution_ is None:
            if self.refit is not None:
                raise IncompatibleError(f"refit = {self.refit!r} and intervals exclude each other: use refit = None")
            raise IncompatibleError(f"loss = {self.loss!r} has kinks, and there are no intervals: use square or huber")
        return self.error_distribution_


@dataclass(eq=False, repr=False, kw_only=True)
class BilinearRegressor(BilinearEstimator, SequenceRegressor):
    r"""Regression :math:`y = \mathrm{Tr}\,X^TC + b` on sequences ``X`` of shape (L, d), with ``C`` of low rank.

    Args:
        shape: of one sample of flat inputs, (L, d), one of them may be -1; None for a single token, with a warning.
            Inputs of shape (n, L, d), which stay float32 if they are, and lists of arrays (L_i, d), which are padded
            and masked, have their own shape.
        solver: ``"risk"``, the minimiser of a loss and a penalty
            (:class:`~glassformer.learners.regularised_risk.RegularisedRisk`); ``"bayes"``, message passing with
            estimated width and noise (:func:`~glassformer.data_analysis.estimated_model.estimate_model`), for scaled
            inputs that are close to independent numbers. If it does not converge, message passing with the singular
            values of the inputs is tried. If that does not converge either, the risk is minimised, with a warning.
        loss: ``"square"``, ``"huber"``, or a convex function of a label and a field that JAX can differentiate.
        penalty: ``"nuclear"``, ``"ridge"`` or ``"elastic"``.
        strength: of the penalty: ``"cv"`` for the best by cross-validation, ``"simplest"`` for the largest within a
            standard error of it, ``"theory"`` for the best by the theory of the estimated width and noise, or a number
            > 0, in the units of scaled inputs and targets (for ``"theory"``, of the signal's part of the targets).
        strengths: number of strengths that cross-validation tries, along one warm-started path, and adds to until the
            best one lies inside, or the loss no longer changes; or the strengths.
        folds: number of folds of cross-validation. Equal samples are in the same fold, and so are samples of one group
            if :meth:`fit` has ``groups``.
        refit: removes the bias of the penalty, which shrinks all singular values: ``"rank"`` fits the matrix again in
            the span of its ``signal_rank_`` leading pairs of singular vectors (at least one), a number in the span of
            as many pairs, with a ridge penalty of its own by cross-validation. It is for reading the matrix:
            predictions are not better in general, and have no intervals. None for no second fit.
        scale: ``"features"``, in units of the standard deviations of features and of tokens; ``"whiten"``, uncorrelated
            features and tokens; ``"none"``. Means are subtracted in any case; all is learned in :meth:`fit`.
        tolerance: accepted duality gap, relative to the risk of an estimate of zero, or to a hundred times the penalty
            if that is less.
        max_iterations: steps allowed at each strength.
        random_state: seed of the folds.

    Attributes:
        coef_: ``C``, shape (L, d), in the units of the inputs.
        intercept_: ``b``, for sequences of full length.
        rank_: rank of ``C``, up to rounding.
        spectrum_: :class:`~glassformer.data_analysis.directions.Directions`: singular values of the fit to scaled
            inputs, before a ``refit``, beside those of noise of the same size and strength; None if they are unknown,
            for several classes one each.
        signal_rank_: number of directions of ``C`` that exceed the noise, at most ``rank_``: those of ``spectrum_``.
            It may be 0 for a fit that predicts: many weak directions predict together. It counts the singular values
            of the noisy signal before the penalty or the posterior shrinks it,
            :math:`\hat S + \mathrm{adjoint}(g)/\hat q` with the scores ``g`` of the residuals, beyond the largest one
            of noise alone (scores of random signs; for ``"bayes"``, white noise). For losses with kinks, and for
            softmax, it equals ``rank_``.
        singular_values_: of ``C``, in falling order.
        patterns_: covariance of the inputs with the predictions over the variance of the predictions, shape (L, d). An
            input without signal may have a large coefficient, because it cancels noise of other inputs, and has no
            pattern. Source: Haufe et al., NeuroImage 87, 96 (2014).
        strength_: strength that was used.
        cross_validation_: :class:`~glassformer.learners.validation.CrossValidation` that chose it, or None.
        solver_: solver of the result: ``"risk"``, or message passing, ``"gamp"`` for independent inputs or
            ``"vamp"`` by their singular values.
        estimated_model_: :class:`~glassformer.data_analysis.estimated_model.EstimatedModel`, if it was needed.
        shape_: (L, d).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X = rng.standard_normal((200, 6, 8))
        >>> C = np.outer(rng.standard_normal(6), rng.standard_normal(8))
        >>> y = np.einsum("nld,ld->n", X, C) + 0.1 * rng.standard_normal(200)
        >>> found = BilinearRegressor(strength="simplest", strengths=10).fit(X, y)
        >>> found.signal_rank_ <= found.rank_ <= 6, bool(found.score(X, y) > 0.95)
        (True, True)
    """


@dataclass(eq=False, repr=False, kw_only=True)
class AttentionRegressor(AttentionEstimator, SequenceRegressor):
    r"""Regression on pairs of tokens, :math:`y = \langle \tilde x_a^TS\tilde x_b\rangle_{ab} + b`, ``S`` of low rank.

    Tokens :math:`\tilde x` are those of the inputs around their mean over all positions. The mean is over each token
    with itself (``pairs="self"``: a quadratic network), or over all pairs of a sequence (``"all"``: attention scores
    of keys equal to queries). Predictions do not depend on the order of the tokens, and new sequences may have any
    length.

    Args:
        shape: as for :class:`BilinearRegressor`, like all parameters and attributes that are not listed here.
        pairs: ``"self"`` or ``"all"``.
        linear: True to give tokens a constant feature as well, so that labels may depend on them linearly.
        solver: ``"risk"``; ``"bayes"``, message passing for a matrix ``S``, or ``-S``, of keys that equal queries, of
            estimated width and noise; if it is neither positive nor negative, the risk is minimised instead.
        penalty: ``"nuclear"``, ``"ridge"``, ``"elastic"``, or ``"trace"`` for positive ``S``: weight decay on keys that
            equal queries.
        strength: ``"theory"`` needs the penalty ``"trace"``.
        scale: tokens of all positions have one scale.

    Attributes:
        coef_: ``S``, shape (d, d), in the units of the inputs.
        rank_: rank of the learned matrix with the constant feature, up to rounding.
        signal_rank_, spectrum_: its directions that exceed the noise, as in :class:`BilinearRegressor`.
        singular_values_: of ``S``, in falling order.
        strength_: strength that was used.
        shape_: (L, d).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> X, w = rng.standard_normal((300, 3, 6)), rng.standard_normal(6)
        >>> y = np.mean((X @ w) ** 2, axis=1)
        >>> found = AttentionRegressor(strength="simplest", strengths=10).fit(X, y)
        >>> bool(found.score(X, y) > 0.9), found.coef_.shape
        (True, (6, 6))
    """
