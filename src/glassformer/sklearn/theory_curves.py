"""Learning curves by the theory of what an estimator does, with what its own pilot set leaves open."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple, Self

import numpy as np

from glassformer.core.checks import require_name
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.solution import Status
from glassformer.data_analysis.targets import Targets
from glassformer.data_analysis.width import EstimatedModel
from glassformer.learners.base import Learner
from glassformer.learners.bayes import MessagePassing
from glassformer.models.base import Model
from glassformer.sklearn.unknown import Unknown

# Standard deviations of an interval of 95 per cent.
CONFIDENCE = 2.0
# Where there is no theory, what needs none.
_MEASURED = "by = measured"


class Theory(NamedTuple):
    """What is known of a solver.

    Attributes:
        require: raises where that is nothing, of an estimator and of what its labels may be made of.
        learner: of the same, and of the model that was estimated.
        left: of a table of that learner's limits, what the best multiple of predicted fields leaves of fields of this
            power.
    """

    require: Callable[[Any, Unknown], None]
    learner: Callable[[Any, Unknown, EstimatedModel], Learner]
    left: Callable[[Table, float], Array]


def _require_risk(estimator: Any, unknown: Unknown) -> None:
    if estimator.strength not in ("cv", "theory"):
        raise ParameterError("strength", estimator.strength, f"cv or theory, or {_MEASURED}")
    if estimator.predicts_numbers and estimator.loss != "square":
        raise ParameterError("loss", estimator.loss, f"square, or {_MEASURED}")
    if unknown.signal.penalty not in ("", estimator.penalty):
        raise ParameterError("penalty", estimator.penalty, f"{unknown.signal.penalty}, or {_MEASURED}")
    if unknown.signal.sign < 0:
        text = f"no theory forecasts penalty = {estimator.penalty} of labels that fall with what it sees"
        raise IncompatibleError(f"{text}: use solver = bayes, or {_MEASURED}")


THEORIES = {
    "risk": Theory(
        _require_risk,
        lambda estimator, unknown, found: unknown.best_risk(estimator, found),
        lambda table, power: power * (1 - table["cosine"] ** 2),
    ),
    "bayes": Theory(
        lambda estimator, unknown: None,
        lambda estimator, unknown, found: MessagePassing(),
        lambda table, power: table["algorithmic_error"],
    ),
}


class Curve(NamedTuple):
    """By how much an estimator misses new labels, for the estimated model and for those at the ends of its intervals.

    Attributes:
        theory: of its solver.
        learner: whose theory that is.
        ends: models with their targets, the estimated one first; none where width and noise were not found.
        ratio: sample ratio of one sample.
        unit: of misses of labels, in those of targets.
        excess: share by which errors of this size may exceed theory.
        samples: of the pilot set.
        estimated: width and noise.
    """

    theory: Theory
    learner: Learner
    ends: list[tuple[Model, Targets]]
    ratio: float
    unit: float
    excess: float
    samples: int
    estimated: EstimatedModel

    @classmethod
    def of(cls, estimator: Any, X: Any, y: Any) -> Self:
        """The curve of an estimator, from a pilot set.

        Raises:
            IncompatibleError: there is no theory of it.
            ParameterError: none of these parameters.
        """
        if not getattr(estimator, "has_theory", False):
            name = type(estimator).__name__
            raise IncompatibleError(f"no theory forecasts {name}: use an estimator of this package, or {_MEASURED}")
        require_name("solver", estimator.solver, THEORIES)
        theory, tasks = THEORIES[estimator.solver], estimator.posed(X, y)
        unknown = Unknown.of(estimator, tasks[0], "theory", _MEASURED)
        theory.require(estimator, unknown)
        found = unknown.estimated()
        learner = theory.learner(estimator, unknown, found)
        ends = list(_ends(unknown, found)) if found.status.ok else []
        samples, excess = len(tasks[0].labels), unknown.signal.excess
        return cls(theory, learner, ends, unknown.ratio(found) / samples, estimator.unit_**2, excess, samples, found)

    @property
    def quantity(self) -> str:
        """By what labels are missed."""
        return self.estimated.settled.quantity

    def band(self, samples: Array) -> tuple[Array, Array, Array, Status]:
        """The error at these numbers of samples, the ends of its band, and how theory ended; NaN unless it settled."""
        found, status = [], [self.estimated.status]
        for model, targets in self.ends:
            table = self.learner.limits(model, samples * self.ratio, throw=False)
            *_, (error, _) = self.learner.curves(model, table, "error").values()
            left = self.theory.left(table, model.matrix_prior.second_moment)
            found.append(self.unit * np.stack(targets.missed(model.channel, error, left)))
            status += [one for one in table.status if one is not Status.BISTABLE]
        ended = next((one for one in status if not one.ok), Status.CONVERGED)
        if not ended.ok:
            nothing = np.full(len(samples), np.nan)
            return nothing, nothing, nothing, ended
        # The share of the signal is known as well as the variance of the labels is.
        doubt = CONFIDENCE * np.sqrt(2 / self.samples)
        low = np.min([(1 - doubt) * mended + rest for mended, rest in found], axis=0)
        high = np.max([(1 + doubt + self.excess) * mended + rest for mended, rest in found], axis=0)
        # So is what no estimate mends, whose share of the variance is in the ends already.
        error, floor = found[0].sum(axis=0), CONFIDENCE * self.ends[0][1].unit_error * found[0][1]
        low, high = error - np.hypot(error - low, floor), error + np.hypot(high - error, floor)
        return error, low, high, ended


def _ends(unknown: Unknown, found: EstimatedModel) -> Iterator[tuple[Model, Targets]]:
    """The estimated model, and those whose field and noise together have the same variance."""
    targets = found.settled.with_noise(found.noise, 1.0)
    model = unknown.signal.model(found.rho, targets.channel)
    yield model, targets
    power, total = model.matrix_prior.second_moment, model.matrix_prior.second_moment + found.noise
    for rho, noise in product(found.rho_interval, targets.noises(found.noise, found.noise_error)):
        own = unknown.signal.model(rho, targets.channel).matrix_prior.second_moment
        scaled = noise * own / power
        other = targets.with_noise(scaled, (own + scaled) / total)
        yield unknown.signal.model(rho, other.channel), other
