"""Inputs of the estimators: arrays of three axes, flat arrays, and lists of sequences of unequal length."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, validate_data

from glassformer.core.checks import is_whole
from glassformer.core.errors import DataError, DataWarning, ParameterError
from glassformer.core.estimate import Array
from glassformer.learners.data_validation import (
    entry_index,
    refuse_dates,
    refuse_masked,
    refuse_nested,
    require_squares,
)
from glassformer.sklearn.parameters import Parameters

_POSITIONS = "weights belong to positions: cut the sequences, or use AttentionRegressor or AttentionClassifier"


class Sequences(NamedTuple):
    """Samples padded to the same number of tokens, and a mask of the tokens.

    Attributes:
        values: shape (n, L, d), zero where there is no token; float64 or float32, as given.
        present: shape (n, L), True where there is a token; None if all are.
    """

    values: Array
    present: NDArray[np.bool_] | None

    def at(self, where: NDArray[np.bool_]) -> Sequences:
        """Return some of the samples."""
        return Sequences(self.values[where], None if self.present is None else self.present[where])

    @property
    def lengths(self) -> Array:
        """Number of tokens of each sample, at least one, shape (n,)."""
        n, length = self.values.shape[:2]
        return np.full(n, float(length)) if self.present is None else self.present.sum(axis=1).clip(1).astype(float)

    @property
    def mask(self) -> Array:
        """One where there is a token, shape (n, L) or (1, 1)."""
        return np.ones((1, 1)) if self.present is None else self.present.astype(float)


def check_sequences(estimator: Parameters, X: Any, fitted: tuple[int, int] | None = None) -> Sequences:
    """Return the inputs of an estimator, checked as scikit-learn does.

    Args:
        estimator: its parameter ``shape`` is that of one sample of a flat array, (L, d), of which one may be -1; None
            for a single token, with a warning. Training data set its number of features, which is checked for new data.
            Without ``by_position`` new sequences may have any length.
        X: shape (n, L, d) or, flat, (n, L d), or a list of arrays (L_i, d).
        fitted: the fitted shape, for new data; None for training data.

    Warns:
        DataWarning: samples are flat and their shape is not given.

    Raises:
        ParameterError: the data do not have this shape.
        DataError: tokens have different dimensions, or the inputs are not sequences.
        ValueError: scikit-learn refuses the data.
    """
    refuse_masked("X", X)
    parts = _list_of_sequences(X)
    if parts:
        return _pad(estimator, parts, fitted)
    X = X if hasattr(X, "toarray") else _as_table(X)
    refuse_dates("X", X)
    refuse_nested("X", X)
    if getattr(X, "shape", ())[:1] == (0,):
        # The check of scikit-learn does not take arrays of three axes.
        least, kind = 2 if fitted is None else 1, type(estimator).__name__
        text = f"Found array with 0 sample(s) (shape={X.shape}) while a minimum of {least} is required by {kind}."
        raise ValueError(text)
    dimensions = getattr(X, "ndim", 2)
    if dimensions > 3:
        raise DataError("X", X.shape, "a shape (n, L, d), or flat (n, L d), or a list of arrays (L_i, d)")
    if dimensions < 3:
        flat, shape = _validate(estimator, X, None, fitted is None), estimator.shape if fitted is None else fitted
        if shape is None and flat.shape[1] > 1:
            text = f"X = {flat.shape} is flat, and every sample is treated as a single token"
            warnings.warn(f"{text}: give shape=(L, d), or shape=(1, -1) for one token", DataWarning, stacklevel=4)
        return Sequences(flat.reshape(len(flat), *shape_of(shape, flat.shape[1])), None)
    own = (int(X.shape[1]), int(X.shape[2]))
    if fitted is None and estimator.shape is not None and shape_of(estimator.shape, own[0] * own[1]) != own:
        raise ParameterError("shape", estimator.shape, f"None, or {own}, that of the samples of X")
    if fitted is not None and (own[1] != fitted[1] or (estimator.by_position and own[0] != fitted[0])):
        remedy = "; give shorter sequences as a list of arrays (L_i, d)" if estimator.by_position else ""
        raise DataError("X", X.shape, f"samples of shape {tuple(fitted)}, as fitted{remedy}")
    flat = _validate(estimator, X.reshape(len(X), -1), own, fitted is None)
    return Sequences(flat.reshape(-1, *own), None)


def _as_table(X: Any) -> Any:
    """Return a data frame of any package as one of pandas, so that scikit-learn knows the names of its columns.

    Anything else is converted to an array.
    """
    if hasattr(X, "iloc"):
        return X
    if not all(isinstance(name, str) for name in getattr(X, "columns", [None])):
        # Tables of Arrow have columns without names.
        return np.asarray(X)
    import pandas

    return pandas.DataFrame({name: np.asarray(X[name]) for name in X.columns})


def _validate(estimator: Parameters, flat: ArrayLike, shape: tuple[int, int] | None, reset: bool) -> Array:
    """Check flat samples as scikit-learn does; errors name the first entry that is not finite.

    The number of features is checked unless samples have a shape and the estimator allows any number of tokens.
    """
    checks: dict[str, Any] = {"dtype": [np.float64, np.float32], "ensure_min_samples": 2 if reset else 1}
    try:
        if shape is not None and not (reset or estimator.by_position):
            checked = check_array(flat, estimator=estimator, input_name="X", **checks)
        else:
            checked = validate_data(estimator, flat, reset=reset, **checks)
    except ValueError as error:
        place = _first_bad(flat, shape) if "NaN" in str(error) or "infinity" in str(error) else ""
        if not place:
            raise
        head, *rest = str(error).split("\n", 1)
        raise ValueError("\n".join([f"{head} The first is {place}.", *rest])) from error
    require_squares("X", checked, shape)
    return np.asarray(checked)


def shape_of(shape: tuple[int, int] | None, features: int) -> tuple[int, int]:
    """Return the number of tokens and their dimension, from a given shape and the number of features.

    Raises:
        ParameterError: the shape does not have this number of features.

    Example:
        >>> shape_of(None, 6), shape_of((2, -1), 6)
        ((1, 6), (2, 3))
    """
    given = (1, -1) if shape is None else shape
    allowed = f"None, or (L, d) with L d = {features}, the number of features; one of them may be -1"
    if not (isinstance(given, tuple | list) and len(given) == 2 and all(is_whole(k, -1) and k != 0 for k in given)):
        raise ParameterError("shape", shape, allowed)
    length, d = (int(k) for k in given)
    length = features // d if length == -1 and d > 0 else length
    d = features // length if d == -1 and length > 0 else d
    if length < 1 or length * d != features:
        raise ParameterError("shape", shape, allowed)
    return length, d


def _list_of_sequences(X: Any) -> list[NDArray[Any]]:
    """Return sequences of unequal length one by one; an empty list if X is an array."""
    if not isinstance(X, list | tuple) and getattr(getattr(X, "dtype", None), "kind", "") != "O":
        return []
    if len(X) > 0 and all(getattr(one, "ndim", 0) == 2 for one in X):
        return [np.asarray(one) for one in X]
    try:
        np.asarray(X)
    except ValueError:
        sequences = []
        for k, one in enumerate(X):
            try:
                tokens = np.asarray(one)
            except ValueError:
                tokens = np.zeros(())
            if tokens.ndim != 2:
                raise DataError(f"X[{k}]", one, "tokens of one dimension, a list of L_i lists of d numbers") from None
            sequences.append(tokens)
        return sequences
    return []


def _pad(estimator: Parameters, parts: list[NDArray[Any]], fitted: tuple[int, int] | None) -> Sequences:
    for k, one in enumerate(parts):
        refuse_dates(f"X[{k}]", one)
    widths = {int(one.shape[1]) for one in parts}
    if len(widths) > 1:
        raise DataError("X", f"<tokens of dimension {sorted(widths)}>", "tokens of one dimension in all sequences")
    empty = [k for k, one in enumerate(parts) if len(one) == 0]
    if empty:
        raise DataError(
            "X", f"<no token in X[{empty[0]}]>", "sequences of at least one token", "remove empty sequences"
        )
    longest, (d,) = max(len(one) for one in parts), widths
    length = longest if fitted is None or not estimator.by_position else fitted[0]
    if fitted is not None and (d != fitted[1] or longest > length):
        positions = f"at most {length} of dimension {fitted[1]}", _POSITIONS
        allowed, remedy = positions if estimator.by_position else (f"tokens of dimension {fitted[1]}", "")
        raise DataError("X", f"<{longest} tokens of dimension {d}>", f"{allowed}, as fitted", remedy)
    single = all(one.dtype == np.float32 for one in parts)
    values = np.zeros((len(parts), length, d), dtype=np.float32 if single else np.float64)
    present = np.zeros((len(parts), length), dtype=bool)
    for k, one in enumerate(parts):
        values[k, : len(one)], present[k, : len(one)] = one, True
    flat = _validate(estimator, values.reshape(len(parts), -1), (length, d), fitted is None)
    return Sequences(flat.reshape(values.shape), None if present.all() else present)


def _first_bad(flat: ArrayLike, shape: tuple[int, ...] | None) -> str:
    """Return the first entry that is not finite with its index; empty if there is none."""
    try:
        values = np.asarray(flat, dtype=float)
    except (TypeError, ValueError):
        return ""
    if values.ndim != 2 or np.all(np.isfinite(values)):
        return ""
    place = int(np.argmin(np.isfinite(values)))
    return f"X[{entry_index(place, values.shape[1:] if shape is None else shape)}] = {values.flat[place]}"
