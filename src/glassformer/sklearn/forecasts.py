"""What more samples would bring: the learning curve of an estimator beyond the data in hand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils import check_consistent_length, column_or_1d

from glassformer.core.checks import require_integer, require_name
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, DataWarning, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import to_json_types
from glassformer.core.solution import Status
from glassformer.data_analysis.width import EstimatedModel
from glassformer.learners.data_arrays import first_bad
from glassformer.sklearn.power_laws import PowerLaws
from glassformer.sklearn.theory_curves import CONFIDENCE, Curve
from glassformer.sklearn.validation_split import on_folds, on_the_rest


@dataclass(frozen=True)
class Parts:
    """Which shares of the samples are learned from, and what an interval is."""

    shares: tuple[float, float] = (0.5, 0.75)  # of the pilot set that are learned from to check theory on the rest
    nested: tuple[float, ...] = (0.25, 0.35, 0.5, 0.65, 0.8, 1.0)  # of what folds leave, to continue what they measure
    fewest: int = 20  # samples of one
    cautious: float = 2.4  # standard deviations of 95 per cent that are those of a few hundred squares


_POLICY = Parts()


@dataclass(frozen=True, eq=False)
class Forecast(DisplayMixin):
    """Errors of predictions of new labels against the number of samples.

    Attributes:
        quantity: mean squares, noise included, or shares of wrong classes.
        by: ``"theory"``, or ``"measured"``: a power law through what was measured.
        n: numbers of samples, rising.
        error: by theory with the estimated width and noise, or by the nearest law. NaN where theory did not settle, or
            where held-back samples contradict it.
        low: of the band of 95 per cent: what width and noise may be, the variance of the labels, and what held-back
            samples contradict; or all laws that fit. NaN where theory did not settle.
        high: of it.
        r2: share of the variance of the labels that is predicted; NaN of classes, and where ``error`` is.
        checked_n: numbers of samples of the parts of the pilot set that were learned from.
        measured: error on the rest, and ``measured_error``, its standard error.
        checked: what theory, or the law, says at ``checked_n``.
        widened: by which share of the error held-back samples widen the band; zero where they agree, NaN where theory
            did not settle.
        estimated: width and noise, of numbers with mean zero and variance one, or of classes; None without theory.
        status: of message passing, which estimates them, or of theory; no forecast is to be believed of one that is
            not ``converged``.
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
        """Whether theory settled, and held-back samples agree with it within its band and two standard errors."""
        return self.widened == 0

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per number of samples, those of the check first."""
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
        """The forecast in types that JSON knows."""
        told = {"quantity": self.quantity, "by": self.by, "widened": self.widened}
        if self.estimated is not None:
            told |= {"rho": self.estimated.rho, "noise": self.estimated.noise}
        return {**to_json_types(told), "status": str(self.status), "points": to_json_types(self.rows())}

    def to_pandas(self) -> Any:
        """A data frame with one row per number of samples."""
        import pandas

        return pandas.DataFrame(self.rows())


def forecast(estimator: Any, X: Any, y: ArrayLike, n: ArrayLike, *, by: str = "theory", splits: int = 4) -> Forecast:
    r"""The learning curve of an estimator to more samples, from a pilot set.

    Width and noise are estimated from the pilot set
    (:func:`~glassformer.data_analysis.width.estimate_model`). Theory has the error ``E`` of the estimate at the
    sample ratio of ``n``, in units of the signal; predictions of numbers are off by :math:`P(E + \Delta)`, those of two
    classes are wrong as often as a threshold of the field that they know. The band is what the intervals of width and
    noise, and the variance of that many labels, leave open, the worst of both. The estimator is fitted to parts of the
    pilot set as well and predicts the rest: where these errors lie outside of the band, by more than two standard
    errors, theory is contradicted. Then ``error`` is NaN, the band is widened by as much, and ``agrees`` is false.

    Of estimators without a theory, of scikit-learn for instance, ``by="measured"`` continues what folds of the pilot
    set measure, each held back from six numbers of the others: :math:`e(n) = c + a\,n^{-b}`. Its band is that of all
    such laws within two standard errors, and of what the samples of one pilot set have in common. It knows nothing of
    thresholds: an error that falls at once beyond the pilot set is not foreseen.

    Args:
        estimator: any of this package with ``solver="bayes"``, or with a strength that is chosen (``"cv"``,
            ``"theory"``), the square loss for numbers and the logistic one for classes, of which there are two, and for
            attention the penalty ``"trace"``; with ``by="measured"`` any regressor or classifier. It is cloned, not
            changed.
        X: pilot inputs, in any of the forms that the estimator takes.
        y: their labels, shape (samples,).
        n: numbers of samples.
        by: ``"theory"`` or ``"measured"``.
        splits: how often each part is drawn; with ``by="measured"`` how many folds.

    Returns:
        :class:`Forecast`.

    Warns:
        DataWarning: theory did not settle, or held-back samples contradict it: there is no number, and why.

    Raises:
        IncompatibleError: there is no theory of this estimator, or of these labels.
        ParameterError: an argument, or a parameter of the estimator, is out of the range of that theory.

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
    require_name("by", by, WAYS)
    return WAYS[by](estimator, X, column_or_1d(y, warn=True), _numbers_of(n), splits)


def _by_theory(estimator: Any, X: Any, y: Any, wanted: Array, splits: int) -> Forecast:
    curve = Curve.of(clone(estimator), X, y)
    parts = _parts(y, _POLICY.shares)
    measured, blur = on_the_rest(estimator, X, y, parts, splits)
    error, low, high, status = curve.band(np.concatenate([parts, wanted]))
    count = len(parts)
    outside = np.maximum(low[:count] - measured, measured - high[:count]) - CONFIDENCE * blur
    widened = float(np.max(np.maximum(outside, 0.0) / error[:count])) if status.ok else np.nan
    checked, error, low, high = error[:count], error[count:], low[count:], high[count:]
    low, high = np.maximum(low - widened * error, 0.0), high + widened * error
    against = _against(status, parts, checked, measured) if widened != 0 else ""
    if against:
        warnings.warn(f"no forecast by theory: {against}; use by = measured", DataWarning, stacklevel=3)
        error = np.full_like(error, np.nan)
    return Forecast(
        quantity=curve.quantity,
        by="theory",
        n=wanted,
        error=error,
        low=low,
        high=high,
        r2=_explained(estimator, error, y),
        checked_n=parts,
        measured=measured,
        measured_error=blur,
        checked=checked,
        widened=widened,
        estimated=curve.estimated,
        status=status,
    )


def _against(status: Status, parts: Array, checked: Array, measured: Array) -> str:
    """Why theory gives no number."""
    if not status.ok:
        return f"message passing, which estimates width and noise, or theory itself did not settle ({status})"
    pairs = zip(parts, checked, measured, strict=True)
    told = ", ".join(f"{there:.3g} for {own:.3g} at n = {n:.0f}" for n, own, there in pairs)
    return f"errors on held-back samples contradict it ({told})"


def _by_measurements(estimator: Any, X: Any, y: Any, wanted: Array, splits: int) -> Forecast:
    require_integer("splits", splits, 2)
    check_consistent_length(X, y)
    if y.dtype.kind == "O" and any(one is None for one in y):
        raise DataError("y", "<None>", "labels, none of them missing", "remove the samples without one")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        raise DataError("y", first_bad("y", y), "finite entries", "remove or repair the samples")
    if len(np.unique(y)) < 2:
        raise DataError("y", f"<{len(y)} times {y[0]}>", "labels that vary")
    parts = _parts(y, tuple(share * (1 - 1 / splits) for share in _POLICY.nested))
    found = on_folds(estimator, X, y, parts, splits)
    laws = PowerLaws.through(parts, found.error, found.apart * found.error)
    low, error, high = laws.band(wanted, _POLICY.cautious)
    # What all errors have in common is a factor.
    with np.errstate(divide="ignore"):
        down, up = (np.hypot(np.log(end / error), _POLICY.cautious * found.common) for end in (low, high))
    low, high = error * np.exp(-down), error * np.exp(up)
    return Forecast(
        quantity="share of wrong classes" if is_classifier(estimator) else "mean squared error",
        by="measured",
        n=wanted,
        error=error,
        low=low,
        high=high,
        r2=_explained(estimator, error, y),
        checked_n=parts,
        measured=found.error,
        measured_error=np.hypot(found.common, found.apart) * found.error,
        checked=laws.band(parts)[1],
        widened=0.0,
        estimated=None,
        status=Status.CONVERGED,
    )


WAYS: dict[str, Callable[[Any, Any, Any, Array, int], Forecast]] = {
    "theory": _by_theory,
    "measured": _by_measurements,
}


def _numbers_of(n: ArrayLike) -> Array:
    listed = np.unique(np.atleast_1d(np.asarray(n)))
    if not listed.size:
        raise ParameterError("n", n, "an integer >= 1, or several")
    for one in listed.tolist():
        require_integer("n", one)
    return listed.astype(float)


def _explained(estimator: Any, error: Array, y: Any) -> Array:
    """Shares of the variance of labels; NaN of classes."""
    return np.full_like(error, np.nan) if is_classifier(estimator) else 1 - error / float(np.var(y))


def _parts(y: Any, shares: tuple[float, ...]) -> Array:
    """Numbers of samples of these shares of the pilot set."""
    found = np.array([int(share * len(y)) for share in shares], dtype=float)
    if found.min() < _POLICY.fewest:
        fewest = int(np.ceil(_POLICY.fewest / min(shares)))
        raise ParameterError("X", len(y), f"{fewest} samples at least, to learn from parts of them")
    return found
