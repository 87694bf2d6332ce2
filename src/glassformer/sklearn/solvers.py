"""Solvers of the estimators: regularised risk and message passing."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from glassformer.core.checks import is_number, require_integer
from glassformer.core.errors import DataError, DataWarning, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.data_analysis.directions import NOISE_MATRICES, Directions
from glassformer.data_analysis.estimated_model import EstimatedModel
from glassformer.designs.dense import DenseDesign
from glassformer.learners.leave_one_out import leave_one_out, ridge_leave_one_out
from glassformer.learners.proximal_gradient import NARROW
from glassformer.learners.risk_path import STRENGTHS, RiskPath, parse_strengths, rank_of, risk_path
from glassformer.learners.validation import (
    CrossValidation,
    cross_validate,
    out_of_fold_predictions,
)
from glassformer.numerics.decompositions import singular_values, svd
from glassformer.risk.losses import loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.sklearn.assumed_model import AssumedModel
from glassformer.sklearn.fit_task import FitTask
from glassformer.sklearn.parameters import Parameters
from glassformer.sklearn.predictive_distributions import (
    ErrorDistribution,
    LeaveOneOutErrors,
    PosteriorErrors,
    ProbitProbabilities,
)

# Largest number of degrees of freedom per sample with accurate approximate leave-one-out. Above it, residuals come from
# folds, rescaled to the exact leave-one-out residuals of a few samples (all chosen by trial).
_ACCURATE, _FOLDS, _EXACT = 0.7, 10, 20


class FittedSignal(NamedTuple):
    """A learned signal.

    Attributes:
        matrix: acts on scaled inputs; one each for several classes.
        intercept: added to the fields; a number, or one per class.
        strength: of the penalty; NaN without one.
        iterations: steps of the last run.
        solver: solver of the result: ``"gamp"``, ``"vamp"`` or ``"risk"``.
        validation: cross-validation that chose the strength, if any.
        estimated: width and noise, if they were needed.
        errors: distribution of the errors of predictions, if it is known.
        probabilities: class probabilities, if fields are not log-odds.
        directions: singular values beside those of noise; None if they are unknown.
    """

    matrix: Array
    intercept: Any
    strength: float
    iterations: int
    solver: str = "risk"
    validation: CrossValidation | None = None
    estimated: EstimatedModel | None = None
    errors: ErrorDistribution | None = None
    probabilities: ProbitProbabilities | None = None
    directions: Directions | None = None

    @property
    def rank(self) -> int:
        """Number of directions that exceed the noise, or of all if that is unknown."""
        return rank_of(self.matrix) if self.directions is None else self.directions.rank


class ChosenStrength(NamedTuple):
    """A strength, and the origin of the choice.

    Attributes:
        strength: for labels in these units.
        unit: of the labels.
        validation: cross-validation that chose it, if any.
        estimated: width and noise, if they chose it.
        calibrate: replaces fitted log-odds by the probabilities of theory, if they are known.
    """

    strength: float
    unit: float = 1.0
    validation: CrossValidation | None = None
    estimated: EstimatedModel | None = None
    calibrate: Callable[[FittedSignal], FittedSignal] | None = None


def check_parameters(settings: Parameters) -> None:
    """Raise for invalid parameters, including those that these data do not use.

    Raises:
        ParameterError: a parameter of an estimator is out of range.
    """
    solver_of(settings.solver)
    if settings.predicts_numbers or settings.loss != "softmax":
        loss_of(settings.loss)
    if not (_is_strength(settings.strength) or (isinstance(settings.strength, str) and settings.strength in CHOICES)):
        raise ParameterError("strength", settings.strength, f"{', '.join(CHOICES)}, or a number > 0")
    parse_strengths(settings.strengths)
    require_integer("folds", settings.folds, 2)
    if settings.refit not in (None, "rank"):
        require_integer("refit", settings.refit)
    _ = settings.iteration
    check_random_state(settings.random_state)


# Regularised risk -----------------------------------------------------------------------------------------------------


def minimise_risk(settings: Parameters, task: FitTask) -> FittedSignal:
    """Return the minimiser of a regularised risk, at a given strength or at the best one."""
    if settings.refit is not None and task.labels.ndim > 1:
        raise IncompatibleError(f"refit = {settings.refit} and loss = softmax exclude each other: use loss = logistic")
    given = settings.strength
    chosen = ChosenStrength(float(given)) if _is_strength(given) else CHOICES[given](settings, task)
    strengths = np.array([chosen.strength])
    if chosen.validation is not None:
        strengths = chosen.validation.strengths[chosen.validation.strengths >= chosen.strength]
    scaled = task._replace(labels=task.labels / chosen.unit)
    path = _path(settings, scaled, strengths)
    if not path.converged:
        limit = settings.max_iterations
        text = f"no minimum was reached in max_iterations = {limit}: increase it, the strength, or tolerance"
        warnings.warn(text, ConvergenceWarning, stacklevel=4)
    if _is_strength(given) and penalty_of(settings.penalty).kink > 0 and not path.estimates.any():
        _warn_of_zero(settings, scaled)
    signal = FittedSignal(
        matrix=chosen.unit * path.estimates[-1],
        intercept=chosen.unit * path.intercepts[-1],
        strength=chosen.strength,
        iterations=path.iterations,
        validation=chosen.validation,
        estimated=chosen.estimated,
        **_directions_and_errors(settings, scaled, path, chosen),
    )
    if settings.refit is not None:
        return _refit(settings, task, signal)
    return signal if chosen.calibrate is None else chosen.calibrate(signal)


def _warn_of_zero(settings: Parameters, task: FitTask) -> None:
    """Warn of a strength with a fit of zero, unless data that do not vary have no other fit."""
    if task.intercept and not np.ptp(task.labels[task.weights > 0], axis=0).any():
        return
    smaller = _path(settings, task, 2)
    given, largest = settings.strength, float(smaller.strengths[0])
    if given > largest and smaller.estimates.any():
        text = f"strength = {given:g} gives a fit of zero: the largest useful one is {largest:.3g}, give a smaller one"
        warnings.warn(text, DataWarning, stacklevel=5)


def _refit(settings: Parameters, task: FitTask, signal: FittedSignal) -> FittedSignal:
    """Return the fit in the span of the leading singular vectors, by a ridge penalty of its own."""
    largest = rank_of(signal.matrix)
    if largest == 0:
        return signal._replace(errors=None)
    rank = min(largest, max(signal.rank, 1) if settings.refit == "rank" else int(settings.refit))
    left, _, right = svd(signal.matrix)
    left, right = left[:, :rank], right[:rank]
    core = task._replace(design=DenseDesign(rank * task.design.rotated(left, right.T)))
    ridge = clone(settings).set_params(penalty="ridge", strengths=STRENGTHS)
    strength = _by_validation(ridge, core, lambda validation: validation.best).strength
    path = _path(ridge, core, [strength])
    return signal._replace(matrix=left @ path.estimates[0] @ right, intercept=path.intercepts[0], errors=None)


def _directions_and_errors(
    settings: Parameters, task: FitTask, path: RiskPath, chosen: ChosenStrength
) -> dict[str, Any]:
    """Return the directions, and the errors of a regression, by leave-one-out; nothing for losses with kinks."""
    if task.labels.ndim > 1 or not np.isfinite(loss_of(task.loss).sharpness):
        return {}
    merged, matrix = task.merged(), path.estimates[-1]
    problem = (merged.design, merged.labels, matrix, chosen.strength, task.loss, settings.penalty)
    # With an intercept, since the remaining samples do not have mean zero.
    left_out = leave_one_out(*problem, intercept=True, weights=merged.weights)
    found = _directions(settings, merged, matrix, float(path.intercepts[-1]), left_out.degrees)
    directions = None if found is None else found.scaled(chosen.unit)
    if not settings.predicts_numbers:
        return {"directions": directions}
    residuals, samples = merged.labels - left_out.fields, len(merged.labels)
    if len(np.unique(merged.groups)) < samples:
        # Other samples of a group would tell about a sample that is left out alone.
        residuals = _residuals_of_folds(settings, merged, chosen.strength)
    elif samples > 1 and left_out.degrees > _ACCURATE * samples:
        residuals = _exact_residuals(settings, merged, chosen.strength)
    share = min(left_out.degrees / samples, 1.0)
    errors = LeaveOneOutErrors(chosen.unit * residuals, merged.weights, share, merged.design.variances())
    return {"directions": directions, "errors": errors}


def _directions(
    settings: Parameters, task: FitTask, matrix: Array, intercept: float, degrees: float
) -> Directions | None:
    r"""Return the values of a minimiser beside those of noise; None where the fit has no freedom left.

    With the scores ``g`` of the loss and its mean second derivative ``c``, less the degrees of freedom of the fit,
    :math:`\hat S - \mathrm{adjoint}(g)/(\alpha c)` is the signal seen through noise, as in message passing. Scores with
    random signs are noise alone.
    """
    signal = settings.signals.from_labels(task.design, task.labels)
    fields = task.design.forward(matrix, 0) + intercept
    score, curvature = loss_of(task.loss).score(task.labels, fields, NARROW)
    mean_curvature = float(np.mean(task.weights * curvature)) * (1 - degrees / len(task.labels))
    precision = signal.design.sample_ratio * mean_curvature
    if not precision > 0:
        return None

    def noise(scores: Array) -> Array:
        return np.asarray(
            signal.sign * signal.in_design_units(signal.design.adjoint(task.weights * scores, 0)) / precision
        )

    signs = np.random.default_rng(0).choice([-1.0, 1.0], (NOISE_MATRICES, len(score)))
    alone = (singular_values(noise(one * score)) for one in signs)
    return Directions.beside_noise(singular_values(matrix), singular_values(matrix + noise(score)), alone)


def _exact_residuals(settings: Parameters, task: FitTask, strength: float) -> Array:
    """Return leave-one-out residuals: exact for ridge, else those of folds, rescaled to the size of a few exact ones.

    Folds leave out more than one sample, which changes the error if there are about as many samples as unknowns.
    """
    loss, penalty = loss_of(settings.loss), penalty_of(settings.penalty)
    if loss.quadratic and penalty.quadratic:
        square = strength * penalty.square
        return np.asarray(task.labels - ridge_leave_one_out(task.design, task.labels, square, task.weights))
    few = np.random.default_rng(0).permutation(len(task.labels))[:_EXACT]
    exact = _residuals_of_folds(settings, task, strength, [[sample] for sample in few])[few]
    folded = _residuals_of_folds(settings, task, strength)
    sizes = [float(np.average(part**2, weights=task.weights[few])) for part in (exact, folded[few])]
    return np.asarray(folded * np.sqrt(sizes[0] / max(sizes[1], 1e-300)))


def _residuals_of_folds(
    settings: Parameters, task: FitTask, strength: float, folds: int | list[list[int]] | None = None
) -> Array:
    """Return residuals of fits without the fold of each sample; by default samples of one group are in one fold."""
    distinct = len(np.unique(task.groups))
    predictions = out_of_fold_predictions(
        *(task.design, task.labels, strength, task.loss, settings.penalty),
        folds=min(_FOLDS, distinct) if folds is None else folds,
        intercept=True,
        weights=task.weights,
        groups=task.groups if folds is None and distinct < len(task.labels) else None,
        settings=settings.iteration,
    )
    return np.asarray(task.labels - predictions)


def _path(settings: Parameters, task: FitTask, strengths: ArrayLike | int) -> RiskPath:
    """Return the minimisers at these strengths, or at a number of them."""
    return risk_path(
        *(task.design, task.labels, task.loss, settings.penalty, strengths),
        intercept=task.intercept,
        weights=task.weights,
        settings=settings.iteration,
    )


# Message passing ------------------------------------------------------------------------------------------------------


def by_message_passing(settings: Parameters, task: FitTask) -> FittedSignal:
    """Return the posterior mean at the estimated width and noise; the minimiser of a risk if that does not converge."""
    if settings.predicts_numbers and settings.loss != "square":
        raise IncompatibleError(
            f"solver = {settings.solver} and loss = {settings.loss!r} of {type(settings).__name__} exclude each other: "
            "its noise is Gaussian, use solver = risk"
        )
    if settings.refit is not None:
        raise IncompatibleError(
            f"solver = {settings.solver} and refit = {settings.refit} exclude each other: a posterior mean has no "
            "penalty, use refit = None"
        )
    assumed = AssumedModel.of(settings, task, f"solver = {settings.solver}")
    for name, estimated in assumed.estimates():
        if estimated.status.ok:
            return _posterior(settings, assumed, estimated, name)
    remedy = "; scale = whiten may help" if settings.scale != "whiten" else ""
    text = f"message passing did not converge ({estimated.status}): regularised risk is fitted instead{remedy}"
    warnings.warn(text, DataWarning, stacklevel=4)
    return minimise_risk(settings, task)._replace(estimated=estimated)


def _posterior(settings: Parameters, assumed: AssumedModel, estimated: EstimatedModel, name: str) -> FittedSignal:
    """Return the posterior, calibrated by the fields of samples that do not depend on their own labels."""
    signal, solution, settled = assumed.signal, estimated.solution, estimated.settled
    unit = float(np.sqrt(estimated.power))
    matrix, error = unit * signal.in_design_units(solution.value[0]), signal.error(float(solution.error_estimate[0]))
    posterior = FittedSignal(
        matrix=matrix,
        intercept=signal.sign * settled.offset,
        strength=np.nan,
        iterations=int(solution.iterations[0]),
        solver=name,
        estimated=estimated,
        directions=_in_units_of(matrix, estimated.directions),
    )
    if settings.predicts_numbers:
        return posterior._replace(errors=PosteriorErrors(unit, error, settled.noise))
    return posterior._replace(probabilities=ProbitProbabilities(error, settled.noise))


def _in_units_of(matrix: Array, directions: Directions | None) -> Directions | None:
    """Return directions of a matrix that was multiplied by a number."""
    if directions is None or not directions.values[0] > 0:
        return directions
    return directions.scaled(float(singular_values(matrix)[0]) / float(directions.values[0]))


SOLVERS: dict[str, Callable[[Parameters, FitTask], FittedSignal]] = {
    "risk": minimise_risk,
    "bayes": by_message_passing,
}


def solver_of(name: object) -> Callable[[Parameters, FitTask], FittedSignal]:
    """Return the solver of this name.

    Raises:
        ParameterError: the name is unknown.
    """
    if not (isinstance(name, str) and name in SOLVERS):
        raise ParameterError("solver", name, f"one of {', '.join(SOLVERS)}")
    return SOLVERS[name]


# Choice of the strength -----------------------------------------------------------------------------------------------


def _is_strength(value: float | str) -> bool:
    return not isinstance(value, str) and is_number(value) and 0 < value < np.inf


def _by_validation(settings: Parameters, task: FitTask, pick: Callable[[CrossValidation], float]) -> ChosenStrength:
    distinct = len(np.unique(task.groups))
    folds = min(int(settings.folds), distinct)
    if folds < settings.folds:
        what = "groups" if distinct < len(np.unique(task.equal)) else "samples"
        text = (
            f"folds = {settings.folds}, but there are {distinct} different {what}: cross-validation has {folds} folds"
        )
        warnings.warn(text, DataWarning, stacklevel=5)
    if folds < 2:
        # A single distinct sample: there is no second fold.
        return ChosenStrength(float(_path(settings, task, 2).strengths[0]))
    seed = int(check_random_state(settings.random_state).randint(2**31 - 1))
    try:
        validation = cross_validate(
            *(task.design, task.labels, task.loss, settings.penalty, settings.strengths),
            folds=folds,
            seed=seed,
            intercept=task.intercept,
            weights=task.weights,
            groups=task.groups,
            settings=settings.iteration,
        )
    except DataError as error:
        # No loss rates a class that cannot be held out; invalid labels are refused by the path as well.
        largest = float(_path(settings, task, 2).strengths[0])
        text = (
            f"{error}. The strength is not chosen by cross-validation: the largest useful one, {largest:.3g}, is taken"
        )
        warnings.warn(text, DataWarning, stacklevel=5)
        return ChosenStrength(largest)
    return ChosenStrength(pick(validation), validation=validation)


def _by_theory(settings: Parameters, task: FitTask) -> ChosenStrength:
    """Return the best strength by the theory of the estimated model; if that fails, by cross-validation."""
    assumed = AssumedModel.of(settings, task, f"strength = {settings.strength}")
    signal = assumed.signal
    if signal.penalty not in ("", settings.penalty):
        raise IncompatibleError(
            f"strength = {settings.strength} and penalty = {settings.penalty} of {type(settings).__name__} exclude "
            f"each other: theory is for positive matrices, use penalty = {signal.penalty}, or strength = cv"
        )
    estimated = assumed.estimate()
    strength, cosine = assumed.best_strength(settings, estimated) if estimated.status.ok else (0.0, 0.0)
    if not strength > 0:
        lost = f"the estimates of width and noise did not converge ({estimated.status})"
        reason = lost if not estimated.status.ok else "the theory gives no strength > 0"
        warnings.warn(f"strength = theory: {reason}; cross-validation chooses the strength", DataWarning, stacklevel=5)
        return _by_validation(settings, task, lambda one: one.best)._replace(estimated=estimated)

    def calibrate(fitted: FittedSignal) -> FittedSignal:
        # The strength minimises the share of wrong labels, which does not depend on the scale of the log-odds: they are
        # too large for few samples, and too small for many.
        matrix, error = assumed.posterior_scale(fitted.matrix, cosine)
        probabilities = ProbitProbabilities(error, estimated.settled.noise)
        intercept = signal.sign * estimated.settled.offset
        directions = _in_units_of(matrix, fitted.directions)
        return fitted._replace(matrix=matrix, intercept=intercept, probabilities=probabilities, directions=directions)

    unit = float(np.sqrt(estimated.power))
    return ChosenStrength(strength, unit, None, estimated, None if settings.predicts_numbers else calibrate)


CHOICES: dict[str, Callable[[Parameters, FitTask], ChosenStrength]] = {
    "cv": partial(_by_validation, pick=lambda validation: validation.best),
    "simplest": partial(_by_validation, pick=lambda validation: validation.simplest),
    "theory": _by_theory,
}
