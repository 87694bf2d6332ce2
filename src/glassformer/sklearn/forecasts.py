"""Forecast of the error of an estimator for more samples than a pilot set has."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_consistent_length, column_or_1d

from glassformer.core.checks import require_integer, require_name
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, DataWarning, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import to_json_types
from glassformer.core.status import Status
from glassformer.data_analysis.estimated_model import EstimatedModel
from glassformer.data_analysis.targets import CONFIDENCE
from glassformer.learners.data_validation import first_non_finite, refuse_dates, refuse_masked, refuse_mixed
from glassformer.sklearn.learning_curves import MEASURED, PowerLaws, TheoryCurve, errors_on_folds, errors_on_rest

# Shares of the pilot set for training when theory is checked on the rest; shares of the training folds when measured
# errors are extrapolated (both chosen by trial); smallest number of training samples.
_CHECKED_SHARES, _NESTED_SHARES, _FEWEST = (0.5, 0.75), (0.25, 0.35, 0.5, 0.65, 0.8, 1.0), 20
# Standard deviations of a 95 % interval of the mean of some hundred squares, which are not normal (measured).
_CAUTIOUS = 2.4


@dataclass(frozen=True, eq=False)
class Forecast(DisplayMixin):
    """Error of predictions of new labels as a function of the number of samples.

    Attributes:
        quantity: mean squared error, noise included, or share of wrong classes.
        by: ``"theory"``, or ``"measured"`` for a power law through measured errors.
        n: numbers of samples, rising.
        error: by theory with the estimated width and noise, or by the best power law. NaN if theory did not
            converge, or if held-out samples contradict it.
        low: lower end of the 95 % band, from the intervals of width and noise, the variance of the labels, and the
            disagreement with held-out samples; or from all power laws that fit. NaN if theory did not converge.
        high: upper end of the band.
        r2: predicted share of the variance of the labels; NaN for classes, and if ``error`` is NaN.
        checked_n: numbers of training samples of the parts of the pilot set.
        measured: error on the rest, and ``measured_error``, its standard error.
        checked: error by theory, or by the power law, at ``checked_n``.
        widened: share of the error by which held-out samples widen the band; zero if they agree, NaN if theory did
            not converge.
        estimated: width and noise, for numbers of mean zero and variance one, or for classes; None without theory.
        status: status of message passing, which gives these estimates, or of theory. Trust only ``converged`` ones.
    """

    quantity: str
    by: str

    n: Array
    error: Array
    low: Array
    high: Array
    r2: Array
    checked_n: Array
    measured: Array
    measured_error: Array
    checked: Array
    widened: float
    estimated: EstimatedModel | None
    status: Status
    drawing = "plot_forecast"

    @property
    def agrees(self) -> bool:
        """True if theory converged, and held-out samples agree with its band within two standard errors."""
        return self.widened == 0

    def rows(self) -> list[dict[str, Any]]:
        """Return one dictionary per number of samples, those of the check first."""
        nothing: dict[str, Any] = {"low": None, "high": None, "r2": None}
        checks = zip(self.checked_n, self.checked, self.measured, self.measured_error, strict=True)
        later = zip(self.n, self.error, self.low, self.high, self.r2, strict=True)
        return [
            *(
                {"n": int(n), "error": float(e), **nothing, "measured": float(m), "measured_error": float(b)}
                for n, e, m, b in checks
            ),
            *(
                {"n": int(n), "error": float(e), "low": float(low), "high": float(high), "r2": float(r2)}
                | {"measured": None, "measured_error": None}
                for n, e, low, high, r2 in later
            ),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the forecast in types that JSON knows."""
        summary = {"quantity": self.quantity, "by": self.by, "widened": self.widened}
        if self.estimated is not None:
            summary |= {"rho": self.estimated.rho, "noise": self.estimated.noise}
        return {**to_json_types(summary), "status": str(self.status), "points": to_json_types(self.rows())}

    def to_pandas(self) -> Any:
        """Return a data frame with one row per number of samples."""
        import pandas

        return pandas.DataFrame(self.rows())


def forecast(
    estimator: BaseEstimator, X: ArrayLike, y: ArrayLike, n: ArrayLike, *, by: str = "theory", splits: int = 4
) -> Forecast:
    r"""Return the learning curve of an estimator for more samples, from a pilot set.

    Width and noise are estimated from the pilot set
    (:func:`~glassformer.data_analysis.estimated_model.estimate_model`). Theory has the error ``E`` of the estimate at
    the sample ratio of ``n``, in units of the signal. Predictions of numbers have a mean squared error
    :math:`P(E + \Delta)`; predictions of two classes are wrong as often as a threshold of the predicted field. The band
    covers the intervals of width and noise and the standard error of the variance of the labels. The estimator is also
    fitted to parts of the pilot set and predicts the rest: errors outside of the band by more than two standard errors
    contradict theory. Then ``error`` is NaN, the band is widened to contain them, and ``agrees`` is false.

    For estimators without a theory, of scikit-learn for instance, ``by="measured"`` extrapolates errors on folds of the
    pilot set, for six numbers of training samples, by power laws :math:`e(n) = c + a\,n^{-b}`.
    The band contains all such laws within two standard errors, and the common error of all measurements on one pilot
    set. Power laws have no thresholds: a sudden fall of the error beyond the pilot set is not predicted.

    Args:
        estimator: any of this package with ``solver="bayes"``, or with a strength that is chosen (``"cv"``,
            ``"theory"``), the square loss for numbers and the logistic one for classes, of which there are two, and for
            attention the penalty ``"trace"``; with ``by="measured"`` any regressor or classifier. It is cloned, not
            changed.
        X: pilot inputs, in any of the forms that the estimator takes.
        y: their labels, shape (samples,).
        n: numbers of samples.
        by: ``"theory"`` or ``"measured"``.
        splits: number of random parts of each size; with ``by="measured"`` the number of folds.

    Returns:
        :class:`Forecast`.

    Warns:
        DataWarning: theory did not converge, or held-out samples contradict it: ``error`` is NaN.

    Raises:
        IncompatibleError: there is no theory of this estimator, or of these labels.
        ParameterError: an argument, or a parameter of the estimator, is out of the range of the theory.

    Example:
        >>> from glassformer.sklearn import BilinearRegressor
        >>> rng = np.random.default_rng(0)
        >>> S = rng.standard_normal((10, 1)) @ rng.standard_normal((1, 10))
        >>> X = rng.standard_normal((160, 10, 10))
        >>> y = np.einsum("nld,ld->n", X, S) + 3 * rng.standard_normal(160)
        >>> found = forecast(BilinearRegressor(solver="bayes"), X, y, [320, 640], splits=1)
        >>> bool(np.all(found.low < found.error) & np.all(found.error < found.high)), str(found.status)
        (True, 'converged')
    """
    require_integer("splits", splits)
    require_name("by", by, METHODS)
    refuse_masked("X", X)
    refuse_masked("y", y)
    if is_classifier(estimator):
        refuse_mixed("y", y)
    else:
        refuse_dates("y", y)
    numbers = np.unique(np.atleast_1d(np.asarray(n)))
    if not numbers.size:
        raise ParameterError("n", n, "an integer >= 1, or several")
    for one in numbers.tolist():
        require_integer("n", one)
    return METHODS[by](estimator, X, column_or_1d(y, warn=True), numbers.astype(float), splits)


def _by_theory(estimator: BaseEstimator, X: ArrayLike, y: NDArray[Any], n: Array, splits: int) -> Forecast:
    curve = TheoryCurve.of(clone(estimator), X, y)
    sizes = _training_sizes(y, _CHECKED_SHARES)
    measured, standard_error = errors_on_rest(estimator, X, y, sizes, splits)
    error, low, high, status = curve.band(np.concatenate([sizes, n]))
    count = len(sizes)
    outside = np.maximum(low[:count] - measured, measured - high[:count]) - CONFIDENCE * standard_error
    widened = float(np.max(np.maximum(outside, 0.0) / error[:count])) if status.ok else np.nan
    checked, error, low, high = error[:count], error[count:], low[count:], high[count:]
    low, high = np.maximum(low - widened * error, 0.0), high + widened * error
    if widened != 0:
        if status.ok:
            pairs = zip(sizes, checked, measured, strict=True)
            listed = ", ".join(f"{there:.3g} for {own:.3g} at n = {size:.0f}" for size, own, there in pairs)
            reason = f"errors on held-out samples contradict it ({listed})"
        else:
            reason = f"the estimates of width and noise, or the equations of theory, did not converge ({status})"
        warnings.warn(f"no forecast by theory: {reason}; use {MEASURED}", DataWarning, stacklevel=3)
        error = np.full_like(error, np.nan)
    return Forecast(
        quantity=curve.quantity,
        by="theory",
        n=n,
        error=error,
        low=low,
        high=high,
        r2=_explained_share(estimator, error, y),
        checked_n=sizes,
        measured=measured,
        measured_error=standard_error,
        checked=checked,
        widened=widened,
        estimated=curve.estimated,
        status=status,
    )


def _by_measurements(estimator: BaseEstimator, X: ArrayLike, y: NDArray[Any], n: Array, splits: int) -> Forecast:
    require_integer("splits", splits, 2)
    check_consistent_length(X, y)
    if y.dtype.kind == "O" and any(one is None for one in y):
        raise DataError("y", "<None>", "labels, none of them missing", "remove the samples without one")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError("y", first_non_finite("y", y), "finite entries", "remove or repair the samples")
    if len(np.unique(y)) < 2:
        raise DataError("y", f"<{len(y)} times {y[0]}>", "labels that vary")
    sizes = _training_sizes(y, tuple(share * (1 - 1 / splits) for share in _NESTED_SHARES))
    measured = errors_on_folds(estimator, X, y, sizes, splits)
    laws = PowerLaws.fit(sizes, measured.error, measured.separate * measured.error)
    low, error, high = laws.band(n, _CAUTIOUS)
    # The common error of all measurements is a factor.
    with np.errstate(divide="ignore"):
        down, up = (np.hypot(np.log(end / error), _CAUTIOUS * measured.common) for end in (low, high))
    return Forecast(
        quantity="share of wrong classes" if is_classifier(estimator) else "mean squared error",
        by="measured",
        n=n,
        error=error,
        low=error * np.exp(-down),
        high=error * np.exp(up),
        r2=_explained_share(estimator, error, y),
        checked_n=sizes,
        measured=measured.error,
        measured_error=np.hypot(measured.common, measured.separate) * measured.error,
        checked=laws.band(sizes)[1],
        widened=0.0,
        estimated=None,
        status=Status.CONVERGED,
    )


METHODS: dict[str, Callable[[BaseEstimator, ArrayLike, NDArray[Any], Array, int], Forecast]] = {
    "theory": _by_theory,
    "measured": _by_measurements,
}


def _explained_share(estimator: BaseEstimator, error: Array, y: NDArray[Any]) -> Array:
    """Return the predicted share of the variance of labels; NaN for classes."""
    return np.full_like(error, np.nan) if is_classifier(estimator) else 1 - error / float(np.var(y))


def _training_sizes(y: NDArray[Any], shares: tuple[float, ...]) -> Array:
    """Return numbers of samples from shares of the pilot set."""
    sizes = np.array([int(share * len(y)) for share in shares], dtype=float)
    if sizes.min() < _FEWEST:
        fewest = int(np.ceil(_FEWEST / min(shares)))
        raise ParameterError("X", len(y), f"at least {fewest} samples, since parts of them are used for training")
    return sizes
