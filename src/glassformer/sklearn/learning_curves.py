"""Learning curves of estimators: by theory, measured on held-out samples, and extrapolated by power laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import check_random_state

from glassformer.core.checks import require_name
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.data_analysis.estimated_model import EstimatedModel
from glassformer.data_analysis.targets import CONFIDENCE, Targets
from glassformer.learners.base import Learner
from glassformer.learners.gamp import MessagePassing
from glassformer.models.base import Model
from glassformer.sklearn.assumed_model import AssumedModel
from glassformer.sklearn.base import SequenceEstimator
from glassformer.sklearn.parameters import Parameters
from glassformer.verbs.limits import limits

# Alternative in messages if there is no theory.
MEASURED = "by = measured with splits >= 2"
# Smallest relative standard error of one measurement: folds without any wrong class show none (a convention).
_LEAST_SEPARATE = 1e-4
# Grid of power laws: exponents, and the share of the mean measured error that is left at infinitely many samples.
_EXPONENTS, _FLOOR_SHARES = np.linspace(0.1, 2.0, 96), np.linspace(0.0, 1.0, 101)


# By theory ------------------------------------------------------------------------------------------------------------


class SolverTheory(NamedTuple):
    """Theory of a solver.

    Attributes:
        check: raises if the theory does not cover an estimator or its assumed model.
        learner: returns the learner, from the same and the estimated model.
        rescaled_error: from a table of that learner's limits and the power of the fields, returns the error of the best
            multiple of the predicted fields.
    """

    check: Callable[[Parameters, AssumedModel], None]
    learner: Callable[[Parameters, AssumedModel, EstimatedModel], Learner]
    rescaled_error: Callable[[Table, float], Array]


def _check_risk(estimator: Parameters, assumed: AssumedModel) -> None:
    if estimator.strength not in ("cv", "theory"):
        raise ParameterError("strength", estimator.strength, f"cv or theory, or {MEASURED}")
    if estimator.refit is not None:
        raise ParameterError("refit", estimator.refit, f"None, or {MEASURED}")
    if estimator.predicts_numbers and estimator.loss != "square":
        raise ParameterError("loss", estimator.loss, f"square, or {MEASURED}")
    if assumed.signal.penalty not in ("", estimator.penalty):
        raise ParameterError("penalty", estimator.penalty, f"{assumed.signal.penalty}, or {MEASURED}")
    if assumed.signal.sign < 0:
        text = f"there is no theory of penalty = {estimator.penalty} for labels that decrease with their quadratic form"
        raise IncompatibleError(f"{text}: use solver = bayes, or {MEASURED}")


THEORIES = {
    "risk": SolverTheory(
        _check_risk,
        lambda estimator, assumed, estimated: assumed.risk(estimator, estimated),
        lambda table, power: power * (1 - table["cosine"] ** 2),
    ),
    "bayes": SolverTheory(
        lambda estimator, assumed: None,
        lambda estimator, assumed, estimated: MessagePassing(),
        lambda table, power: table["algorithmic_error"],
    ),
}


class TheoryCurve(NamedTuple):
    """Learning curve of an estimator by theory, for the estimated model and for the ends of its intervals.

    Attributes:
        theory: of its solver.
        learner: of that theory.
        ends: models with their targets, the estimated one first; empty if the estimates did not converge.
        ratio: sample ratio of one sample.
        unit: of squared errors of labels, in units of the targets.
        excess: share by which errors of this size may exceed theory.
        samples: number of samples of the pilot set.
        estimated: width and noise.
    """

    theory: SolverTheory
    learner: Learner
    ends: list[tuple[Model, Targets]]
    ratio: float
    unit: float
    excess: float
    samples: int
    estimated: EstimatedModel

    @classmethod
    def of(cls, estimator: SequenceEstimator, X: ArrayLike, y: NDArray[Any]) -> Self:
        """Return the curve of an estimator, from a pilot set.

        Raises:
            IncompatibleError: there is no theory of the estimator.
            ParameterError: theory does not cover its parameters.
        """
        if not getattr(estimator, "has_theory", False):
            name = type(estimator).__name__
            raise IncompatibleError(f"there is no theory of {name}: use an estimator of this package, or {MEASURED}")
        require_name("solver", estimator.solver, THEORIES)
        theory, task = THEORIES[estimator.solver], estimator.training_tasks(X, y)[0]
        assumed = AssumedModel.of(estimator, task, "theory", MEASURED)
        theory.check(estimator, assumed)
        estimated = assumed.estimate()
        samples = len(task.labels)
        return cls(
            theory=theory,
            learner=theory.learner(estimator, assumed, estimated),
            ends=list(_ends(assumed, estimated)) if estimated.status.ok else [],
            ratio=assumed.sample_ratio(estimated) / samples,
            unit=estimator.unit_**2,
            excess=assumed.signal.excess,
            samples=samples,
            estimated=estimated,
        )

    @property
    def quantity(self) -> str:
        """Measure of the error of labels."""
        return self.estimated.settled.quantity

    def band(self, samples: Array) -> tuple[Array, Array, Array, Status]:
        """Return the error at these numbers of samples, the ends of its band, and the status; NaN unless converged."""
        parts, status = [], [self.estimated.status]
        for model, targets in self.ends:
            table = limits(model, samples * self.ratio, self.learner, throw=False)
            *_, (error, *_) = self.learner.theory(model).curves(table, "error").values()
            rescaled = self.theory.rescaled_error(table, model.matrix_prior.second_moment)
            parts.append(self.unit * np.stack(targets.label_errors(model.channel, error, rescaled)))
            status += [one for one in table.status if one is not Status.BISTABLE]
        ended = next((one for one in status if not one.ok), Status.CONVERGED)
        if not ended.ok:
            nothing = np.full(len(samples), np.nan)
            return nothing, nothing, nothing, ended
        # The power of the signal is known as accurately as the variance of the labels.
        doubt = CONFIDENCE * np.sqrt(2 / self.samples)
        low = np.min([(1 - doubt) * reducible + rest for reducible, rest in parts], axis=0)
        high = np.max([(1 + doubt + self.excess) * reducible + rest for reducible, rest in parts], axis=0)
        # The same holds for the irreducible error, whose share of the variance is in the ends already.
        error, floor = parts[0].sum(axis=0), CONFIDENCE * self.ends[0][1].unit_error * parts[0][1]
        low, high = error - np.hypot(error - low, floor), error + np.hypot(high - error, floor)
        return error, low, high, ended


def _ends(assumed: AssumedModel, estimated: EstimatedModel) -> Iterator[tuple[Model, Targets]]:
    """Yield the estimated model, then the ends of its intervals with the same variance of field and noise together."""
    targets = estimated.settled.with_noise(estimated.noise, 1.0)
    model = assumed.signal.model(estimated.rho, targets.channel)
    yield model, targets
    power, total = model.matrix_prior.second_moment, model.matrix_prior.second_moment + estimated.noise
    for rho, noise in product(estimated.rho_interval, targets.noise_interval(estimated.noise, estimated.noise_error)):
        own = assumed.signal.model(rho, targets.channel).matrix_prior.second_moment
        scaled = noise * own / power
        other = targets.with_noise(scaled, (own + scaled) / total)
        yield assumed.signal.model(rho, other.channel), other


# Measured -------------------------------------------------------------------------------------------------------------


def errors_on_rest(
    estimator: BaseEstimator, X: ArrayLike, y: NDArray[Any], sizes: Array, splits: int
) -> tuple[Array, Array]:
    """Return mean errors on the rest of random training sets of these sizes, and standard errors of one split."""
    rng = check_random_state(0)
    error, standard_error = np.zeros((len(sizes), splits)), np.zeros((len(sizes), splits))
    for k, size in enumerate(sizes.astype(int)):
        for split in range(splits):
            order = _stratify(estimator, y, rng.permutation(len(y)))
            errors = _test_errors(estimator, X, y, order[:size], order[size:])
            # One correct and one wrong class are added: zero errors in a few samples do not prove a zero error.
            extended = np.append(errors, [0.0, 1.0]) if is_classifier(estimator) else errors
            error[k, split], standard_error[k, split] = errors.mean(), extended.std() / np.sqrt(len(extended))
    return error.mean(axis=1), standard_error.mean(axis=1)


class NestedErrors(NamedTuple):
    """Errors on all samples, each held out with its fold, for several numbers of training samples.

    Attributes:
        error: mean over all samples, shape (sizes,). If all classes are right for some size, one correct and one wrong
            class are added at every size.
        common: relative standard error that all errors share, since their samples are the same.
        separate: remaining relative standard error of each.
    """

    error: Array
    common: float
    separate: float


def errors_on_folds(estimator: BaseEstimator, X: ArrayLike, y: NDArray[Any], sizes: Array, folds: int) -> NestedErrors:
    """Return errors on every fold of estimators that learn from nested parts of the other folds."""
    order = _stratify(estimator, y, check_random_state(0).permutation(len(y)))
    errors, turns = np.zeros((len(sizes), len(y))), np.arange(len(y)) % folds
    for fold in range(folds):
        held_out, others = order[turns == fold], order[turns != fold]
        for k, size in enumerate(sizes.astype(int)):
            errors[k, held_out] = _test_errors(estimator, X, y, others[:size], held_out)
    # Two samples are added, one with the largest error: zero errors in a few samples do not prove a zero error.
    classes = is_classifier(estimator)
    largest = 1.0 if classes else errors.max(initial=1e-300)
    error = (errors.sum(axis=1) + largest) / (len(y) + 2)
    share = errors / error[:, None]
    all_right = classes and not errors.any(axis=1).all()
    shares = np.append(share, np.outer(1 / error, [0.0, largest]), axis=1) if all_right else share
    common = shares.mean(axis=0).std() / np.sqrt(len(y))
    each = np.stack([share[:, order[turns == fold]].mean(axis=1) for fold in range(folds)])
    rest = each - each.mean(axis=0) - each.mean(axis=1, keepdims=True) + each.mean()
    freedom = (folds - 1) * (len(sizes) - 1)
    separate = max(float(np.sqrt(np.sum(rest**2) / freedom / folds)), _LEAST_SEPARATE)
    return NestedErrors(error if all_right else errors.mean(axis=1), float(common), separate)


def _test_errors(
    estimator: BaseEstimator, X: ArrayLike, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> Array:
    """Return squared errors, or flags of wrong classes."""
    predicted = clone(estimator).fit(_take(X, train), y[train]).predict(_take(X, test))
    return np.asarray(predicted != y[test] if is_classifier(estimator) else (predicted - y[test]) ** 2, dtype=float)


def _take(X: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[row] for row in rows]


def _stratify(estimator: BaseEstimator, y: NDArray[Any], order: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the order, changed so that every initial part of it has the shares of the classes."""
    if not is_classifier(estimator):
        return order
    place, labels = np.empty(len(order)), y[order]
    for one in np.unique(labels):
        own = labels == one
        place[own] = (np.arange(own.sum()) + 0.5) / own.sum()
    return order[np.argsort(place, kind="stable")]


# Extrapolated ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PowerLaws:
    r"""Power laws :math:`c + a\,(n/n_0)^{-b}` on a grid of ``b`` and ``c``, with the best ``a`` of each.

    Attributes:
        unit: :math:`n_0`, the largest measured number of samples.
        floor: ``c``, shape (k,).
        scale: ``a``, >= 0, shape (k,).
        exponent: ``b``, shape (k,).
        distance: squared distance from the measurements in units of their errors, shape (k,).
        freedom: number of measurements beyond the three parameters of a law, at least one.
    """

    unit: float
    floor: Array
    scale: Array
    exponent: Array
    distance: Array
    freedom: int

    @classmethod
    def fit(cls, samples: Array, measured: Array, standard_error: Array) -> PowerLaws:
        """Fit laws to errors measured at several numbers of samples.

        Args:
            samples: shape (m,), m > 1.
            measured: shape (m,), >= 0.
            standard_error: > 0, shape (m,).

        Example:
            >>> n = np.array([10.0, 20.0, 40.0, 80.0])
            >>> laws = PowerLaws.fit(n, 0.1 + 2 / n, np.full(4, 1e-3))
            >>> low, error, high = laws.band(np.array([160.0]))
            >>> bool(low[0] < 0.1125 < high[0]), round(float(error[0]), 2)
            (True, 0.11)
        """
        unit, weight = float(samples.max()), 1 / standard_error**2
        # The unit of floors is the mean of the measurements, since the smallest one is low by chance.
        mean = float(weight @ measured / weight.sum())
        exponent, floor = (grid.ravel() for grid in np.meshgrid(_EXPONENTS, _FLOOR_SHARES * mean))
        shape, above = (samples / unit) ** -exponent[:, None], measured - floor[:, None]
        scale = np.maximum((shape * above) @ weight / (shape**2 @ weight), 0.0)
        distance = (above - scale[:, None] * shape) ** 2 @ weight
        return cls(unit, floor, scale, exponent, distance, max(1, len(samples) - 3))

    def band(self, samples: Array, deviations: float = 2.0) -> tuple[Array, Array, Array]:
        """Return the least, best and largest error of the laws within this number of standard deviations.

        If the best law differs from the measurements by more than their errors, the errors are scaled up.
        """
        least = float(self.distance.min())
        allowed = self.distance <= least + deviations**2 * max(1.0, least / self.freedom)
        shape = (samples / self.unit) ** -self.exponent[:, None]
        error = self.floor[:, None] + self.scale[:, None] * shape
        return error[allowed].min(axis=0), error[int(np.argmin(self.distance))], error[allowed].max(axis=0)
