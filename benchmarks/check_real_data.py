"""Estimators on data that ship inside packages, beside linear models and small networks: five folds, the same for all.

Digits of scikit-learn as 8 tokens of 8 features, classes and, as numbers, regression; of sktime, where it is installed,
BasicMotions (100 steps of 6 sensors) and JapaneseVowels (7 to 29 steps of 12 coefficients, padded for what takes no
sequences). Networks are trained by optax with weight decay. Accuracy or R2 with its standard error over the folds, time
per fold on a processor, rank (mean over classes and folds), and the share of held-back labels in intervals of 90 per
cent.

    python benchmarks/check_real_data.py [--folds 5] [--only digits]
"""

from __future__ import annotations

import argparse
import importlib.util
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.base import BaseEstimator, clone
from sklearn.cross_decomposition import PLSRegression
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV, RidgeClassifierCV, RidgeCV
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from glassformer.sklearn import AttentionClassifier, BilinearClassifier, BilinearRegressor, forecast

HIDDEN, EPOCHS, BATCH, RATE, DECAY = 64, 200, 64, 3e-3, 1e-2
STRENGTHS, COMPONENTS = np.logspace(-2, 4, 13), [2, 4, 8, 16, 32]


def digits() -> tuple[Any, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return X.reshape(-1, 8, 8), y


def series(name: str) -> tuple[Any, np.ndarray] | None:
    """One of the sets of sktime: its sequences of unequal length as a list; None where it is not installed."""
    found = importlib.util.find_spec("sktime")
    if found is None or found.origin is None:
        return None
    parts, classes = [], []
    for half in ("TRAIN", "TEST"):
        text = (Path(found.origin).parent / "datasets" / "data" / name / f"{name}_{half}.ts").read_text()
        for line in text.split("@data\n")[1].splitlines():
            *channels, label = line.split(":")
            parts.append(np.array([np.array(one.split(","), dtype=float) for one in channels]).T)
            classes.append(label)
    X = np.array(parts) if len({len(one) for one in parts}) == 1 else parts
    return X, np.unique(classes, return_inverse=True)[1]


def padded(X: Any) -> np.ndarray:
    longest = max(len(one) for one in X)
    return np.array([np.pad(one, ((0, longest - len(one)), (0, 0))) for one in X])


class Network(BaseEstimator):
    """A small network in JAX: softmax of several outputs, or one number."""

    def __init__(self, transformer: bool, classes: int) -> None:
        self.transformer, self.classes = transformer, classes

    def _start(self, key: Any, shape: tuple[int, int]) -> list[Any]:
        length, d = shape
        sizes = [(d, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (HIDDEN, HIDDEN)]
        first = sizes if self.transformer else [(length * d, HIDDEN)]
        keys = jax.random.split(key, len(first) + 2)
        made = [jax.random.normal(k, s) / np.sqrt(s[0]) for k, s in zip(keys, first, strict=False)]
        out = jax.random.normal(keys[-2], (HIDDEN, self.classes)) / np.sqrt(HIDDEN)
        return [
            made,
            out,
            jnp.zeros(HIDDEN),
            jnp.zeros(self.classes),
            0.1 * jax.random.normal(keys[-1], (length, HIDDEN)),
        ]

    def _apply(self, weights: list[Any], x: Any) -> Any:
        inner, out, bias, constant, places = weights
        if not self.transformer:
            return jax.nn.relu(x.reshape(len(x), -1) @ inner[0] + bias) @ out + constant
        embed, query, key, value, last = inner
        z = x @ embed + places
        seen = jax.nn.softmax((z @ query) @ jnp.swapaxes(z @ key, 1, 2) / np.sqrt(HIDDEN), axis=-1)
        z = z + seen @ z @ value
        return jnp.mean(z + jax.nn.relu(z @ last + bias), axis=1) @ out + constant

    def _loss(self, weights: list[Any], x: Any, y: Any) -> Any:
        found = self._apply(weights, x)
        if self.classes == 1:
            return jnp.mean((found[:, 0] - y) ** 2)
        return optax.softmax_cross_entropy_with_integer_labels(found, y.astype(int)).mean()

    def fit(self, X: Any, y: Any) -> Network:
        x = padded(X) if isinstance(X, list) else X
        spread = x.std(axis=0)
        self.mean_, self.scale_ = x.mean(axis=0), np.where(spread > 1e-6, spread, 1.0)
        self.length_ = x.shape[1]
        x = jnp.asarray((x - self.mean_) / self.scale_, dtype=jnp.float32)
        self.unit_ = (float(y.mean()), float(y.std())) if self.classes == 1 else (0.0, 1.0)
        target = jnp.asarray((y - self.unit_[0]) / self.unit_[1], dtype=jnp.float32)
        weights = self._start(jax.random.PRNGKey(0), x.shape[1:])
        batches = max(1, len(x) // BATCH)
        rule = optax.adamw(optax.cosine_decay_schedule(RATE, EPOCHS * batches), weight_decay=DECAY)

        def step(carry: Any, where: Any) -> Any:
            weights, state = carry
            slope = jax.grad(self._loss)(weights, x[where], target[where])
            change, state = rule.update(slope, state, weights)
            return (optax.apply_updates(weights, change), state), None

        rng = np.random.default_rng(0)
        size = min(BATCH, len(x))
        order = np.concatenate(
            [rng.permutation(len(x))[: batches * size].reshape(batches, size) for _ in range(EPOCHS)]
        )
        (self.weights_, _), _ = jax.jit(lambda w: jax.lax.scan(step, (w, rule.init(w)), jnp.asarray(order)))(weights)
        return self

    def predict(self, X: Any) -> np.ndarray:
        x = padded([*X, np.zeros((self.length_, X[0].shape[1]))])[:-1] if isinstance(X, list) else X
        found = np.asarray(self._apply(self.weights_, jnp.asarray((x - self.mean_) / self.scale_, dtype=jnp.float32)))
        return self.unit_[0] + self.unit_[1] * found[:, 0] if self.classes == 1 else found.argmax(axis=1)


class Flat(BaseEstimator):
    """What takes no sequences: standardised, of one target, or of one per class of which the largest counts."""

    def __init__(self, inner: Any, classes: int = 1) -> None:
        self.inner, self.classes = inner, classes

    def fit(self, X: Any, y: Any) -> Flat:
        x = padded(X) if isinstance(X, list) else X
        self.length_ = x.shape[1]
        self.found_ = make_pipeline(StandardScaler(), clone(self.inner))
        self.found_.fit(x.reshape(len(x), -1), np.eye(self.classes)[y] if self.classes > 1 else y)
        return self

    def predict(self, X: Any) -> np.ndarray:
        x = padded([*X, np.zeros((self.length_, X[0].shape[1]))])[:-1] if isinstance(X, list) else X
        found = np.asarray(self.found_.predict(x.reshape(len(x), -1)))
        return found.argmax(axis=1) if self.classes > 1 else found.reshape(len(x))


def classifiers(classes: int) -> dict[str, Any]:
    pls = GridSearchCV(PLSRegression(scale=False), {"n_components": COMPONENTS}, cv=3)
    return {
        "BilinearClassifier": BilinearClassifier(strengths=12, tolerance=1e-3),
        "BilinearClassifier, softmax": BilinearClassifier(loss="softmax", strengths=12, tolerance=1e-3),
        "AttentionClassifier": AttentionClassifier(strengths=12, tolerance=1e-3),
        "LogisticRegressionCV": Flat(
            LogisticRegressionCV(Cs=10, l1_ratios=(0,), use_legacy_attributes=False, max_iter=500)
        ),
        "RidgeClassifierCV": Flat(RidgeClassifierCV(STRENGTHS)),
        "partial least squares": Flat(pls, classes),
        "MLP": Network(False, classes),
        "transformer": Network(True, classes),
    }


def regressors() -> dict[str, Any]:
    return {
        "BilinearRegressor": BilinearRegressor(strengths=12),
        "RidgeCV": Flat(RidgeCV(STRENGTHS)),
        "partial least squares": Flat(GridSearchCV(PLSRegression(scale=False), {"n_components": COMPONENTS}, cv=3)),
        "MLP": Network(False, 1),
        "transformer": Network(True, 1),
    }


def of(X: Any, where: np.ndarray) -> Any:
    return X[where] if isinstance(X, np.ndarray) else [X[k] for k in where]


def cut(X: Any, length: int) -> Any:
    """Sequences that are not longer than those that were learned from."""
    return X if isinstance(X, np.ndarray) else [one[:length] for one in X]


def not_zero(values: np.ndarray) -> np.ndarray:
    """Numbers of singular values that are not zero, of each class."""
    return np.sum(values > 1e-10 * values.max(axis=-1, keepdims=True), axis=-1)


def table(
    name: str, X: Any, y: np.ndarray, estimators: dict[str, Any], splits: Any, score: Callable[..., float]
) -> None:
    print(f"\n{name}\n| estimator | score | s.e. | s per fold | rank | in 90 % intervals |\n|---|---|---|---|---|---|")
    folds = list(splits.split(np.zeros(len(y)), y))
    for title, estimator in estimators.items():
        scores, spent, ranks, inside = [], [], [], []
        for learned, held in folds:
            start = time.process_time()
            found = clone(estimator).fit(of(X, learned), y[learned])
            spent.append(time.process_time() - start)
            new = cut(of(X, held), max(len(X[k]) for k in learned))
            scores.append(score(y[held], found.predict(new)))
            ranks.append(np.mean(not_zero(found.singular_values_)) if hasattr(found, "rank_") else np.nan)
            if hasattr(found, "predict_interval"):
                low, high = found.predict_interval(new).T
                inside.append(np.mean((low <= y[held]) & (y[held] <= high)))
        error = np.std(scores, ddof=1) / np.sqrt(len(scores))
        rank = f"{np.mean(ranks):.1f}" if np.isfinite(ranks).all() else ""
        share = f"{np.mean(inside):.3f}" if inside else ""
        print(
            f"| {title} | {np.mean(scores):.3f} | {error:.3f} | {np.mean(spent):.1f} | {rank} | {share} |", flush=True
        )


def problems() -> Iterator[tuple[str, Any, np.ndarray]]:
    yield "digits", *digits()
    for name in ("BasicMotions", "JapaneseVowels"):
        found = series(name)
        if found is None:
            print(f"{name}: sktime is not installed")
            continue
        yield name, *found


def forecasts() -> None:
    """Errors of digits as numbers, and shares of wrong ones, from a fifth of the set, and what they come to be."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, most = X[order], y[order], 1437
    numbers = BilinearRegressor(shape=(8, 8))
    found = forecast(numbers, X[:359], y[:359].astype(float), [359, 700, most])
    print(f"by theory: agrees {found.agrees}, {found.status}")
    for n, error, low, high in zip(found.n.astype(int), found.error, found.low, found.high, strict=True):
        missed = np.mean((clone(numbers).fit(X[:n], y[:n]).predict(X[most:]) - y[most:]) ** 2)
        print(f"BilinearRegressor, {n} digits: {error:.2f} ({low:.2f} to {high:.2f}), measured {missed:.2f}")
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    for estimator in (plain, BilinearClassifier(shape=(8, 8), strengths=6, folds=3, tolerance=1e-3)):
        found = forecast(estimator, X[:359], y[:359], [700, most], by="measured")
        for n, error, low, high in zip(found.n.astype(int), found.error, found.low, found.high, strict=True):
            wrong = np.mean(clone(estimator).fit(X[:n], y[:n]).predict(X[most:]) != y[most:])
            print(
                f"{type(estimator).__name__}, {n} digits: {error:.3f} ({low:.3f} to {high:.3f}), measured {wrong:.3f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", help="one of the data sets, or forecast")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.only in (None, "forecast"):
        forecasts()
    for name, X, y in problems():
        if args.only not in (None, name):
            continue
        stratified = StratifiedKFold(args.folds, shuffle=True, random_state=0)
        estimators = classifiers(int(y.max()) + 1)
        if name == "digits":
            # Rows of an image are not tokens in any order.
            del estimators["AttentionClassifier"]
        table(f"{name}, accuracy", X, y, estimators, stratified, lambda y, p: float(np.mean(y == p)))
        if name == "digits":
            plain = KFold(args.folds, shuffle=True, random_state=0)
            table("digits as numbers, R2", X, y.astype(float), regressors(), plain, r2_score)


if __name__ == "__main__":
    main()
