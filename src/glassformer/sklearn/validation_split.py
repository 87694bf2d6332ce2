"""Errors of an estimator on samples that were held back, against the number it has learned from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from glassformer.core.estimate import Array


def on_the_rest(estimator: Any, X: Any, y: Array, parts: Array, splits: int) -> tuple[Array, Array]:
    """Mean errors on what each part leaves, and their standard errors, as those of one split."""
    rng = check_random_state(0)
    found = np.zeros((len(parts), splits))
    blur = np.zeros_like(found)
    for k, part in enumerate(parts.astype(int)):
        for split in range(splits):
            order = rng.permutation(len(y))
            order = _even(y, order) if is_classifier(estimator) else order
            misses = missed(estimator, X, y, order[:part], order[part:])
            # None that is missed, of flags, leaves open how many would be.
            told = np.append(misses, [0.0, 1.0]) if is_classifier(estimator) else misses
            found[k, split], blur[k, split] = misses.mean(), told.std() / np.sqrt(len(told))
    return found.mean(axis=1), blur.mean(axis=1)


class Nested(NamedTuple):
    """Errors on all samples, each held back with a fold, of estimators that learn from more and more of the others.

    Attributes:
        error: mean over all samples, shape (parts,).
        common: standard error that all of them share, since they are on the same samples, relative to them.
        apart: standard error of each beside that, relative to it.
    """

    error: Array
    common: float
    apart: float


def on_folds(estimator: Any, X: Any, y: Array, parts: Array, folds: int) -> Nested:
    """What nested parts of the samples outside of each fold make of it."""
    order = check_random_state(0).permutation(len(y))
    order = _even(y, order) if is_classifier(estimator) else order
    misses = np.zeros((len(parts), len(y)))
    turns = np.arange(len(y)) % folds
    for fold in range(folds):
        held, others = order[turns == fold], order[turns != fold]
        for k, part in enumerate(parts.astype(int)):
            misses[k, held] = missed(estimator, X, y, others[:part], held)
    # Of two more samples, one of them missed by as much as any: where none is missed the error is not known to be zero.
    error = (misses.sum(axis=1) + misses.max(initial=1e-300)) / (len(y) + 2)
    share = misses / error[:, None]
    common = share.mean(axis=0).std() / np.sqrt(len(y))
    each = np.stack([share[:, order[turns == fold]].mean(axis=1) for fold in range(folds)])
    rest = each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
    freedom = (folds - 1) * (len(parts) - 1)
    return Nested(misses.mean(axis=1), float(common), float(np.sqrt(np.sum(rest**2) / freedom / folds)))


def missed(estimator: Any, X: Any, y: Array, learned: Any, rest: Any) -> Array:
    """Squared errors, or flags of wrong classes, on some samples after learning from others."""
    told = clone(estimator).fit(_samples(X, learned), y[learned]).predict(_samples(X, rest))
    return np.asarray(told != y[rest] if is_classifier(estimator) else (told - y[rest]) ** 2, dtype=float)


def _samples(X: Any, rows: Any) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def _even(y: Array, order: Any) -> Any:
    """The order, moved so that classes have their shares in every beginning of it."""
    place, drawn = np.empty(len(order)), y[order]
    for one in np.unique(drawn):
        own = drawn == one
        place[own] = (np.arange(own.sum()) + 0.5) / own.sum()
    return order[np.argsort(place, kind="stable")]
