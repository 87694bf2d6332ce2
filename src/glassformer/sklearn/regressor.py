"""Estimators of numbers: predictions, and how far they may be off."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin

from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.learners.data_arrays import require_squares
from glassformer.sklearn.base import SequenceEstimator
from glassformer.sklearn.residual_distribution import Misses

# Labels that differ by this share of their mean differ by rounding.
_ROUNDING = 1e-13


class SequenceRegressor(RegressorMixin, SequenceEstimator):
    """Numbers from sequences."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from samples.

        Args:
            X: shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d) of sequences of unequal length.
            y: numbers, shape (n,).
            sample_weight: >= 0, shape (n,); samples of weight zero do not count.
            groups: numbers or names, shape (n,): samples of one group are held back together by the cross-validation
                that chooses the strength.

        Raises:
            ValueError: data or parameters that scikit-learn, or the package, refuses; they are named.
        """
        (signal,) = self._learned(self.posed(X, y, sample_weight, groups))
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
