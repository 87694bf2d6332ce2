"""Estimators beside linear models on flat inputs, on real data: error on held-out samples and processor time.

All estimators learn from the same samples of every split, one after the other in one process. Standard errors of means
over repeated splits contain the correction of Nadeau and Bengio (2003) for training sets that overlap. BasicMotions is
read from sktime, where it is installed: 100 steps of 6 sensors.

    python benchmarks/bench_own_data.py [--quick] [NAME ...]
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from check_real_data import digits, series
from sklearn.datasets import load_breast_cancer, load_sample_image
from sklearn.linear_model import LassoCV, LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedKFold, RepeatedStratifiedKFold, ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from glassformer.sklearn import BilinearClassifier, BilinearRegressor, forecast

QUICK = "--quick" in sys.argv
REPEATS = 1 if QUICK else 5


class Problem(NamedTuple):
    """A data set, its splits, and whether labels are classes."""

    name: str
    X: np.ndarray
    y: np.ndarray
    splits: Any
    classes: bool


def folds(classes: bool) -> Any:
    kind = RepeatedStratifiedKFold if classes else RepeatedKFold
    return kind(n_splits=5, n_repeats=REPEATS, random_state=0)


def photographs(samples: int, size: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Patches of two photographs, and the brightness of the pixel to the right of the middle row."""
    rng = np.random.default_rng(0)
    patches, targets = [], []
    for name in ("china.jpg", "flower.jpg"):
        image = load_sample_image(name).mean(axis=2) / 255
        rows = rng.integers(0, image.shape[0] - size, samples // 2)
        columns = rng.integers(0, image.shape[1] - size, samples // 2)
        patches += [image[i : i + size, j : j + size] for i, j in zip(rows, columns, strict=True)]
        targets += [image[i + size // 2, j + size] for i, j in zip(rows, columns, strict=True)]
    return np.array(patches), np.array(targets)


def problems() -> Iterator[Problem]:
    X, y = digits()
    pair = (y == 3) | (y == 8)
    yield Problem("digits, 3 against 8", X[pair], y[pair], folds(True), True)
    few = StratifiedShuffleSplit(4 * REPEATS, train_size=40, random_state=0)
    yield Problem("the same, 40 samples", X[pair], y[pair], few, True)
    cancer = load_breast_cancer()
    yield Problem("breast cancer", cancer.data.reshape(-1, 3, 10), cancer.target, folds(True), True)
    yield Problem("digits as numbers", X, y.astype(float), folds(False), False)
    split = ShuffleSplit(4 * REPEATS, train_size=150, random_state=0)
    yield Problem("next pixel of photographs", *photographs(3000), split, False)
    motions = series("BasicMotions")
    if motions is None:
        print("BasicMotions: sktime is not installed")
    else:
        for steps in (5, 2, 10):
            X = motions[0].reshape(len(motions[0]), 100 // steps, steps, -1).mean(axis=2)
            yield Problem(f"BasicMotions, averaged over {steps} steps", X, motions[1], folds(True), True)


def flat(inner: Any) -> Any:
    return make_pipeline(FunctionTransformer(lambda X: X.reshape(len(X), -1)), StandardScaler(), inner)


def estimators(problem: Problem) -> dict[str, Callable[[], Any]]:
    """Return the estimators; differences are from the second one."""
    if problem.classes:
        return {
            "BilinearClassifier": BilinearClassifier,
            "LogisticRegressionCV": lambda: flat(
                LogisticRegressionCV(
                    cv=5, l1_ratios=(0,), use_legacy_attributes=False, max_iter=1000, scoring="neg_log_loss"
                )
            ),
            'BilinearClassifier(refit="rank")': lambda: BilinearClassifier(refit="rank"),
        }
    return {
        "BilinearRegressor": BilinearRegressor,
        "RidgeCV": lambda: flat(RidgeCV(np.logspace(-3, 5, 25))),
        "LassoCV": lambda: flat(LassoCV(cv=5)),
        'BilinearRegressor(penalty="ridge")': lambda: BilinearRegressor(penalty="ridge"),
    }


def scores(problem: Problem, found: Any, test: np.ndarray) -> list[float]:
    """Return the share of wrong classes and the log-loss, or the mean square relative to the variance."""
    X, y = problem.X[test], problem.y[test]
    if not problem.classes:
        return [float(np.mean((found.predict(X) - y) ** 2) / np.var(problem.y))]
    return [float(np.mean(found.predict(X) != y)), float(log_loss(y, found.predict_proba(X)))]


def spread(values: np.ndarray, share: float) -> np.ndarray:
    """Return the corrected standard error of means over splits with this ratio of test to training samples."""
    return np.sqrt((1 / len(values) + share) * values.var(axis=0, ddof=1))


def report(problem: Problem) -> None:
    kinds = estimators(problem)
    found = {name: ([], []) for name in kinds}
    for train, test in problem.splits.split(problem.X, problem.y):
        for name, make in kinds.items():
            start = time.process_time()
            fitted = make().fit(problem.X[train], problem.y[train])
            found[name][1].append(time.process_time() - start)
            found[name][0].append(scores(problem, fitted, test))
    # Test sets that are larger than the training set do not make the training sets overlap more.
    share = min(len(test) / len(train), len(train) / len(problem.y))
    errors = {name: np.array(one[0]) for name, one in found.items()}
    seconds = {name: np.array(one[1]) for name, one in found.items()}
    peer = list(kinds)[1]
    print(f"\n{problem.name}: {len(train)} training samples of {problem.X.shape[1]} x {problem.X.shape[2]}")
    for name in kinds:
        mean, error = errors[name].mean(axis=0), spread(errors[name], share)
        gain = errors[peer] - errors[name]
        text = ", ".join(f"{one:.4f} +- {other:.4f}" for one, other in zip(mean, error, strict=True))
        better = ", ".join(
            f"{one:.4f} +- {other:.4f}" for one, other in zip(gain.mean(axis=0), spread(gain, share), strict=True)
        )
        ratio = np.median(seconds[name] / seconds[peer])
        print(
            f"  {name:36s} {text}; less than {peer} by {better}; {1e3 * np.median(seconds[name]):.0f} ms, {ratio:.2f}"
        )


def forecasts() -> None:
    """Forecasts from 200 digits as numbers, relative to their variance: of low rank, and of any matrix."""
    X, y = digits()
    pilot = np.random.default_rng(0).permutation(len(y))[:200]
    for penalty in ("nuclear", "ridge"):
        ahead = forecast(BilinearRegressor(penalty=penalty), X[pilot], y[pilot].astype(float), [1438], splits=2)
        error, low, high = (float(one[0] / np.var(y)) for one in (ahead.error, ahead.low, ahead.high))
        print(f"{penalty}: forecast for 1438 digits {error:.3f} ({low:.3f} to {high:.3f}), agrees {ahead.agrees}")


def main() -> None:
    warnings.simplefilter("ignore")
    names = [one for one in sys.argv[1:] if not one.startswith("--")]
    for problem in problems():
        if not names or any(one in problem.name for one in names):
            report(problem)
    if not names or "forecast" in names:
        forecasts()


if __name__ == "__main__":
    main()
