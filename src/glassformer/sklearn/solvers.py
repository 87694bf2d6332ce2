"""How estimators learn: the table of solvers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from glassformer.core.checks import is_number, require_integer
from glassformer.core.errors import DataWarning, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.data_analysis.width import EstimatedModel
from glassformer.data_analysis.widths import SEARCH
from glassformer.learners.algorithms.approximate_loo import left_out_of_ridge
from glassformer.learners.risk_path import RiskPath, asked_strengths, rank_of, risk_path
from glassformer.learners.validation import (
    CrossValidation,
    cross_validate,
    held_back_alone,
    leave_one_out,
    validation_split,
)
from glassformer.numerics.decompositions import singular_values
from glassformer.risk.losses import loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.sklearn.class_probabilities import Chances, ProbitChances
from glassformer.sklearn.residual_distribution import LeftOutMisses, Misses, PosteriorMisses
from glassformer.sklearn.unknown import Unknown

# Degrees of freedom of a fit per sample up to which leaving one out to first order is right, folds beyond, and samples
# that are left out alone to see by how much folds are wrong.
_FREE, _FOLDS, _ALONE = 0.7, 10, 20
# Width of the envelope whose curvature is taken for that of a loss.
_NARROW = 1e-6


class Task(NamedTuple):
    """One signal to be learned.

    Attributes:
        design: of the scaled inputs.
        tokens: these inputs, one with unit spread at every place that holds one, shape (n, L, d).
        labels: +1 and -1, or numbers of mean zero and variance one.
        weights: of the samples, > 0.
        equal: one number for samples that are equal.
        groups: one number for samples that are held back together: those that are equal, or of one group.
        intercept: whether a constant is to be fitted.
        loss: of labels and fields.
    """

    design: Any
    tokens: Array
    labels: Array
    weights: Array
    equal: NDArray[np.int64]
    groups: NDArray[np.int64]
    intercept: bool
    loss: Any

    def merged(self) -> Task:
        """The same problem with every sample once, in the weight of all that are equal: they are left out together."""
        _, first, own = np.unique(self.equal, return_index=True, return_inverse=True)
        if len(first) == len(own):
            return self
        once = np.isin(np.arange(len(own)), first)
        return self._replace(
            design=self.design.rows(once),
            tokens=self.tokens[once],
            labels=self.labels[once],
            weights=np.asarray(np.bincount(own, self.weights)[own[once]], dtype=float),
            equal=self.equal[once],
            groups=self.groups[once],
        )


class Signal(NamedTuple):
    """What was learned.

    Attributes:
        matrix: that sees scaled inputs; of several classes one each.
        intercept: what is added to its fields; a number, or one per class.
        strength: of the penalty; NaN without one.
        iterations: steps of the last run.
        solver: that was used in the end: ``"gamp"``, ``"vamp"`` or ``"risk"``.
        validation: what chose the strength, if anything did.
        estimated: width and noise, where they were asked for.
        misses: by how much predictions of new labels miss them, where that is known.
        chances: of classes, where fields are no log-odds themselves.
        rank: directions that stand out of the noise; None where that is not known.
    """

    matrix: Array
    intercept: Any
    strength: float
    iterations: int
    solver: str = "risk"
    validation: CrossValidation | None = None
    estimated: EstimatedModel | None = None
    misses: Misses | None = None
    chances: Chances | None = None
    rank: int | None = None


class Chosen(NamedTuple):
    """A strength.

    Attributes:
        strength: of labels in these units.
        unit: of the labels.
        validation: what chose it, if that was done on held-back samples.
        estimated: width and noise, if those chose it.
        read: makes probabilities of what was learned, where theory tells more of them than log-odds that were fitted.
    """

    strength: float
    unit: float = 1.0
    validation: CrossValidation | None = None
    estimated: EstimatedModel | None = None
    read: Callable[[Signal], Signal] | None = None


def require_settings(settings: Any) -> None:
    """Raise for values that have no meaning, whether they are needed for these data or not.

    Raises:
        ParameterError: a parameter of an estimator is out of range.
    """
    solver_of(settings.solver)
    if settings.predicts_numbers or settings.loss != "softmax":
        loss_of(settings.loss)
    if not (_is_strength(settings.strength) or (isinstance(settings.strength, str) and settings.strength in CHOICES)):
        raise ParameterError("strength", settings.strength, f"{', '.join(CHOICES)}, or a number > 0")
    asked_strengths(settings.strengths)
    require_integer("folds", settings.folds, 2)
    _limit(settings)
    check_random_state(settings.random_state)


def by_risk(settings: Any, task: Task) -> Signal:
    """The minimiser of a regularised risk, at a given strength or the best one."""
    chosen = _chosen(settings, task)
    wanted = np.array([chosen.strength])
    if chosen.validation is not None:
        wanted = chosen.validation.strengths[chosen.validation.strengths >= chosen.strength]
    scaled = task._replace(labels=task.labels / chosen.unit)
    path = risk_path(*_problem(settings, scaled), wanted, **_shared(settings, scaled))
    if not path.converged:
        text = f"a minimum was not reached within max_iterations = {settings.max_iterations}: raise it, or tolerance"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
    matrix, intercept = chosen.unit * path.estimates[-1], chosen.unit * path.intercepts[-1]
    found = Signal(matrix, intercept, chosen.strength, path.iterations)
    found = found._replace(
        validation=chosen.validation, estimated=chosen.estimated, **_left_out(settings, scaled, path, chosen)
    )
    return found if chosen.read is None else chosen.read(found)


def _left_out(settings: Any, task: Task, path: RiskPath, chosen: Chosen) -> dict[str, Any]:
    """The rank, and the misses of a regression, by what others say of every sample; nothing of losses with kinks."""
    if task.labels.ndim > 1 or not np.isfinite(loss_of(task.loss).sharpness):
        return {}
    once, matrix = task.merged(), path.estimates[-1]
    problem = (once.design, once.labels, matrix, chosen.strength, task.loss, settings.penalty)
    # With a constant of their own: the others tell a sample where all of them together have mean zero.
    found = leave_one_out(*problem, intercept=True, weights=once.weights)
    rank = _rank(settings, once, matrix, float(path.intercepts[-1]), found.degrees)
    if not settings.predicts_numbers:
        return {"rank": rank}
    missed, several = once.labels - found.fields, len(once.labels)
    if several > 1 and found.degrees > _FREE * several:
        # The first order is not that of a fit which follows every label.
        missed = _missed(settings, once, chosen.strength)
    share = min(found.degrees / several, 1.0)
    return {
        "rank": rank,
        "misses": LeftOutMisses(chosen.unit * missed, once.weights, share, once.design.variances()),
    }


def _rank(settings: Any, task: Task, matrix: Array, intercept: float, degrees: float) -> int:
    r"""Directions of a minimiser that stand out of the noise, at most its rank.

    With the slopes ``g`` of the loss and its mean curvature ``c``, less what the fit took,
    :math:`\hat S - \mathrm{adjoint}(g)/(\alpha c)` is the signal seen through noise, as in message passing. Slopes of
    random signs are noise alone.
    """
    signal = settings.signals.behind(task.design, task.labels)
    fields = task.design.forward(matrix, 0) + intercept
    score, bend = loss_of(task.loss).score(task.labels, fields, _NARROW)
    curvature = float(np.mean(task.weights * bend)) * (1 - degrees / len(task.labels))
    precision = signal.design.sample_ratio * curvature
    largest = rank_of(matrix)
    if not (largest and precision > 0):
        return largest

    def seen(scores: Array) -> Array:
        return np.asarray(signal.sign * signal.given(signal.design.adjoint(task.weights * scores, 0)) / precision)

    signs = np.random.default_rng(0).choice([-1.0, 1.0], (SEARCH.noises, len(score)))
    alone = max(singular_values(seen(one * score))[0] for one in signs)
    return min(largest, int(np.sum(singular_values(matrix + seen(score)) > alone)))


def _missed(settings: Any, task: Task, strength: float) -> Array:
    """By what every sample is missed without it: of ridge exactly; else by folds, in the size that single ones have.

    Folds take more samples away than one, which is another error next to as many samples as unknowns.
    """
    loss, penalty = loss_of(settings.loss), penalty_of(settings.penalty)
    if loss.quadratic and penalty.spectral == 0:
        square = strength * penalty.square
        return np.asarray(task.labels - left_out_of_ridge(task.design, task.labels, square, task.weights))
    several, shared = len(task.labels), {**_shared(settings, task), "intercept": True}
    design, labels, *kind = _problem(settings, task)
    few = np.random.default_rng(0).permutation(several)[:_ALONE]
    alone = labels[few] - held_back_alone(design, labels, few, strength, *kind, **shared)
    folded = labels - validation_split(design, labels, strength, *kind, folds=min(_FOLDS, several), **shared)
    sizes = [float(np.average(part**2, weights=task.weights[few])) for part in (alone, folded[few])]
    return np.asarray(folded * np.sqrt(sizes[0] / max(sizes[1], 1e-300)))


def by_message_passing(settings: Any, task: Task) -> Signal:
    """The posterior mean at the estimated width and noise; where that does not settle, the minimiser of a risk."""
    if settings.predicts_numbers and settings.loss != "square":
        raise IncompatibleError(
            f"solver = {settings.solver} and loss = {settings.loss!r} of {type(settings).__name__} exclude each other: "
            "its noise is Gaussian, use solver = risk"
        )
    unknown = Unknown.of(settings, task, f"solver = {settings.solver}")
    for name, found in unknown.attempts():
        if found.status.ok:
            return _posterior(settings, unknown, found, name)
    remedy = "; scale = whiten may help" if settings.scale != "whiten" else ""
    text = f"message passing did not settle ({found.status}): regularised risk is fitted instead{remedy}"
    warnings.warn(text, DataWarning, stacklevel=4)
    return by_risk(settings, task)._replace(estimated=found)


def _posterior(settings: Any, unknown: Unknown, found: EstimatedModel, name: str) -> Signal:
    """What a posterior says of new samples, by the fields of samples that have not seen their own labels."""
    sign, unit, last, settled = unknown.signal.sign, float(np.sqrt(found.power)), found.solution, found.settled
    matrix, steps = unit * unknown.signal.given(last.value[0]), int(last.iterations[0])
    error = unknown.signal.error(float(last.error_estimate[0]))
    rank = min(found.rank, rank_of(matrix))
    one = Signal(matrix, sign * settled.offset, np.nan, steps, name, estimated=found, rank=rank)
    if settings.predicts_numbers:
        return one._replace(misses=PosteriorMisses(unit, error, settled.noise))
    return one._replace(chances=ProbitChances(error, settled.noise))


SOLVERS: dict[str, Callable[[Any, Task], Signal]] = {"risk": by_risk, "bayes": by_message_passing}


def solver_of(name: object) -> Callable[[Any, Task], Signal]:
    """The solver of this name.

    Raises:
        ParameterError: there is none.
    """
    if not (isinstance(name, str) and name in SOLVERS):
        raise ParameterError("solver", name, f"one of {', '.join(SOLVERS)}")
    return SOLVERS[name]


def _problem(settings: Any, task: Task) -> tuple[Any, Array, Any, str]:
    return task.design, task.labels, task.loss, settings.penalty


def _limit(settings: Any) -> Iteration:
    return Iteration(tolerance=settings.tolerance, max_iterations=settings.max_iterations)


def _shared(settings: Any, task: Task) -> dict[str, Any]:
    return {"intercept": task.intercept, "weights": task.weights, "settings": _limit(settings)}


def _is_strength(asked: Any) -> bool:
    return is_number(asked) and 0 < asked < np.inf


def _chosen(settings: Any, task: Task) -> Chosen:
    """The strength asked for, and what chose it."""
    asked = settings.strength
    return Chosen(float(asked)) if _is_strength(asked) else CHOICES[asked](settings, task)


def _validated(settings: Any, task: Task, pick: Callable[[CrossValidation], float]) -> Chosen:
    distinct = len(np.unique(task.groups))
    folds = min(int(settings.folds), distinct)
    if folds < settings.folds:
        what = "groups" if distinct < len(np.unique(task.equal)) else "samples"
        text = f"folds = {settings.folds}, of {distinct} {what} that differ: cross-validation has {folds} folds"
        warnings.warn(text, DataWarning, stacklevel=6)
    problem, shared = _problem(settings, task), _shared(settings, task)
    if folds < 2:
        # A single sample, however often: nothing to hold back.
        return Chosen(float(risk_path(*problem, 2, **shared).strengths[0]))
    seed = int(check_random_state(settings.random_state).randint(2**31 - 1))
    found = cross_validate(*problem, settings.strengths, folds=folds, seed=seed, groups=task.groups, **shared)
    return Chosen(pick(found), validation=found)


def _by_theory(settings: Any, task: Task) -> Chosen:
    """The best strength by the theory of the estimated width and noise; where that fails, by cross-validation."""
    unknown = Unknown.of(settings, task, f"strength = {settings.strength}")
    if unknown.signal.penalty not in ("", settings.penalty):
        raise IncompatibleError(
            f"strength = {settings.strength} and penalty = {settings.penalty} of {type(settings).__name__} exclude "
            f"each other: theory is for positive matrices, use penalty = {unknown.signal.penalty}, or strength = cv"
        )
    found = unknown.estimated()
    strength, cosine = unknown.best_strength(settings, found) if found.status.ok else (0.0, 0.0)
    if strength > 0:
        read = None if settings.predicts_numbers else partial(_read, unknown, found, cosine)
        return Chosen(strength, float(np.sqrt(found.power)), estimated=found, read=read)
    reason = f"width and noise were not found ({found.status})" if not found.status.ok else "it names no strength > 0"
    warnings.warn(f"strength = theory: {reason}; cross-validation chooses instead", DataWarning, stacklevel=6)
    return _validated(settings, task, lambda one: one.best)._replace(estimated=found)


def _read(unknown: Unknown, found: EstimatedModel, cosine: float, one: Signal) -> Signal:
    """The estimate as what it says of the signal, whose threshold is that of the estimated noise and offset.

    Log-odds fitted at the strength of fewest wrong labels have no scale of their own: with few samples they are too
    sure, with many too cautious.
    """
    matrix, error = unknown.aligned(one.matrix, cosine)
    chances = ProbitChances(error, found.settled.noise)
    return one._replace(matrix=matrix, intercept=unknown.signal.sign * found.settled.offset, chances=chances)


CHOICES: dict[str, Callable[[Any, Task], Chosen]] = {
    "cv": partial(_validated, pick=lambda found: found.best),
    "simplest": partial(_validated, pick=lambda found: found.simplest),
    "theory": _by_theory,
}
