"""Generalised approximate message passing (GAMP) for any model: the learner, its theory, and the function ``gamp``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.bayes_optimal.hysteresis import follow_branches
from glassformer.bayes_optimal.limits import bayes_optimal_limits
from glassformer.bayes_optimal.solve import usual_iteration
from glassformer.bayes_optimal.trajectory import gamp_trajectory, random_overlap
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration, damping_setting, non_negative, open_unit_interval, setting
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.designs.base import Design
from glassformer.learners.base import IN_ANY_FORM, FitResult, Learner, LearnerInfo, SpectralMap, StepContext, Theory
from glassformer.learners.data_assumptions import Finding, claimed_error, label_power, violations, warn_of_violations
from glassformer.learners.data_set import DataSet, ErrorHistory
from glassformer.learners.data_validation import validate_data
from glassformer.learners.gamp_state import GampState
from glassformer.learners.gamp_step import GampStep
from glassformer.learners.message_passing import MessagePassingRun, message_passing
from glassformer.learners.registry import require_compatible
from glassformer.models.base import Model
from glassformer.priors.base import Side

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.results import Table
    from glassformer.priors.base import ScalarPrior

# Errors of the limits, besides that of the signal, that runs have as well.
_COMPARED = (
    *("row_error", "label_error", "prediction_error", "plugin_error"),
    *("state_error", "state_with_label_error"),
)


# Precision of an observation below which an estimate is the prior mean.
_LEAST_PRECISION = 1e-14


@dataclass(frozen=True)
class StateEvolution(Theory):
    """State evolution of the model: equations of the Bayes-optimal estimator and of message passing."""

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        return bayes_optimal_limits(self.model, alpha, self.iteration, throw=throw)

    def spectral_map(self, limit: Table) -> SpectralMap:
        precision = float(limit["q_hat"].ravel()[0])
        if not precision > _LEAST_PRECISION:
            raise IncompatibleError("nothing is learned at this sample ratio, and the estimate is the prior mean")
        return SpectralMap(1 / precision)

    @property
    def iteration(self) -> Iteration | None:
        """Tolerance and iteration limit of fixed points; None for the usual ones."""
        given = self.learner.given_accuracy.only(("tolerance", "max_iterations")).given
        return replace(usual_iteration(self.model.channel), **given) if given else None

    def thresholds(self) -> Thresholds:
        from glassformer.bayes_optimal.thresholds import bayes_optimal_thresholds

        return bayes_optimal_thresholds(self.model)

    def hysteresis(self, alpha: ArrayLike) -> Table:
        return follow_branches(self.model, alpha, self.iteration)

    def display_columns(self, table: Table) -> list[str]:
        discrete = "label_error" in table.columns
        if "row_error" not in table.columns:
            return table.known_columns(("label_error", "overlap"))
        return table.known_columns(("row_error", "label_error" if discrete else "prediction_error"))

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array, Array]]:
        """Return the curves of the Bayes-optimal estimator and of message passing (on labels for one row only)."""
        algorithmic, estimate = table["algorithmic_error"], table["error_estimate"]
        curves = {"bayes_optimal": self.curve(table, quantity)}
        if quantity == "error":
            return {**curves, "message_passing": (algorithmic, algorithmic, estimate)}
        if self.model.overlap_shape:
            return curves
        errors = self.model.channel.inference.label_errors(algorithmic[:, None, None], self.model.last_layer)
        return {**curves, "message_passing": (errors[quantity], algorithmic, estimate)}

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        table = self.limits(alpha) if optimum is None else optimum
        hard = np.array([status is Status.BISTABLE for status in table.status])
        # In a hard phase message passing reaches less than the optimum; the table has its error of the signal alone.
        known = {
            name: np.where(hard.reshape(-1, *[1] * (column.ndim - 1)), np.nan, column)
            for name, column in table.columns.items()
            if name in _COMPARED
        }
        own = {"error": table["algorithmic_error"], "error_estimate": table["error_estimate"]}
        return {**known, **own, "status": np.array(table.status, dtype=object)}

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        return gamp_trajectory(self.model, alpha, context.steps, context.overlap)

    def simulated(self, context: StepContext) -> Learner:
        """Return message passing without damping, from its usual start, which the equations describe."""
        if context.overlap is not None and not self.model.channel.labels.even:
            raise IncompatibleError(
                f"start = overlap:{context.overlap:g} is a start of theory alone, and runs start without it: leave out "
                "start or d"
            )
        channel = self.model.channel
        # Scores of classes do not depend on the estimate, so that the first step is the last.
        if np.any(channel.fields.shift_square) and channel.inference.sampled:
            raise IncompatibleError(
                "inputs that hidden states shift: the equations are those of undamped message passing, which leaves "
                "its fixed point on data (runs are damped); leave out d, or compare the limits with simulate"
            )
        undamped = self.learner.varied(damping=0.0, random_start=None)
        return undamped.at_accuracy(Accuracy(max_iterations=context.steps))

    def begun(self, context: StepContext, histories: Sequence[Sequence[dict[str, Any]]]) -> StepContext:
        """Return the context with the given overlap, or for even labels that of a random start at this size."""
        if (
            context.overlap is not None
            or context.d is None
            or not self.model.channel.labels.even
            or self.model.prior.side
        ):
            return context
        return replace(context, overlap=random_overlap(self.model, context.d))


@dataclass(frozen=True)
class MessagePassing(Learner):
    """Message passing for any model: the best error known to be reachable in polynomial time.

    Args:
        floor: posterior variance below which the signal counts as exactly known; None for 1e-9, or 1e-6 for sampled
            scores.
        damping: None for adaptive damping, or a fixed weight of the old state in [0, 1).
        random_start: size of a random start; None for the prior mean, or for even labels the default size of the prior.

    The ``tolerance`` of an :class:`~glassformer.Accuracy` is the root-mean-square change of the signal per undamped
    step, relative to its posterior standard deviation, below which a run has converged: 1e-3, or 5e-3 for sampled
    scores. At most ``max_iterations`` steps are taken, 300.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> MessagePassing(damping=1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: damping = 1.0 is not allowed: expected None, or a number in [0, 1)
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="gamp",
        title="message passing",
        family="Bayes-optimal",
        storages=IN_ANY_FORM,
        limit_settings=(),
        limit_accuracy=("tolerance", "max_iterations"),
    )
    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"tolerance": None, "max_iterations": 300}

    floor: float | None = setting(None, "posterior variance below which the signal counts as known", open_unit_interval)
    damping: float | None = damping_setting()
    random_start: float | None = setting(None, "size of a random start, for even labels", non_negative)

    def check(self, model: Model) -> None:
        if not model.well_specified:
            raise IncompatibleError(f"infers a signal from the law of its labels, and model {model.name} learns a map")
        if reason := model.channel.fields.density_unavailable_reason:
            raise IncompatibleError(reason)

    def theory(self, model: Model) -> Theory:
        require_compatible(self, model)
        return StateEvolution(self, model)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        return fit_gamp(model, data, self)


class MatrixMessagePassing(Learner):
    """Message passing on linear labels of one matrix without symmetry."""

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"tolerance": 1e-3, "max_iterations": 300}
    """Of the tolerance: change per step, in standard deviations of the error."""
    damping: float | None

    @property
    def gamp_settings(self) -> MessagePassing:
        """Damping, tolerance and iteration limit, as settings of GAMP."""
        accuracy = Accuracy(**{name: self.accurate(name) for name in self.accuracy_defaults})
        return MessagePassing(damping=self.damping).at_accuracy(accuracy)

    def check(self, model: Model) -> None:
        if model.overlap_shape or model.prior.symmetric or model.channel.fields.shape:
            raise IncompatibleError(
                f"needs a signal of one matrix without symmetry, not that of this model ({model.name})"
            )
        if not model.channel.labels.linear:
            raise IncompatibleError(f"learns from linear labels, not from those of channel {model.channel.label}")


@dataclass(frozen=True)
class MatrixStateEvolution(Theory):
    """State evolution of message passing on one matrix: its limits are those of :class:`MessagePassing`."""

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        return self.labelled(self._gamp.limits(alpha, throw))

    def thresholds(self) -> Thresholds:
        return self.labelled(self._gamp.thresholds())

    def hysteresis(self, alpha: ArrayLike) -> Table:
        return self.labelled(self._gamp.hysteresis(alpha))

    @property
    def _gamp(self) -> StateEvolution:
        require_compatible(self.learner, self.model)
        return StateEvolution(self.learner, self.model)

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        return self._gamp.of_runs(alpha, optimum)

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        require_compatible(self.learner, self.model)
        refuse_overlap(self.learner.name, context)
        return self.labelled(self._trajectory(alpha, context.steps))

    def _trajectory(self, alpha: Array, steps: int) -> Table:
        raise NotImplementedError

    def simulated(self, context: StepContext) -> Learner:
        """Return the learner without damping."""
        undamped = self.learner.varied(damping=0.0)
        return undamped.at_accuracy(Accuracy(max_iterations=context.steps))


def refuse_overlap(name: str, context: StepContext) -> None:
    """Raise for an overlap before the first step of a learner whose steps start without any.

    Raises:
        IncompatibleError: there is one.
    """
    if context.overlap is not None:
        raise IncompatibleError(
            f"start = overlap:{context.overlap:g} is for gamp and descent on rows: the steps of {name} start at zero "
            "overlap, leave start out"
        )


def gamp(
    model: Model,
    design: Design | ArrayLike,
    labels: ArrayLike,
    learner: MessagePassing | None = None,
    seed: int = 0,
    *,
    side: Side | None = None,
    start: Array | None = None,
    watch: Callable[[GampState], None] | None = None,
    accuracy: Accuracy | None = None,
) -> Solution:
    r"""Return the estimate of the signal by message passing, for every instance of the design.

    Equation :eq:`message-passing` of the documentation.

    Message passing assumes inputs of independent standard normal entries. If the inputs measurably violate this
    assumption, a warning describes the violation, and so does the status of a run that does not converge.

    Args:
        model: assumed prior and channel of the labels.
        design: inputs, an array of numbers of shape (samples, tokens, d) or (instances, samples, tokens, d) (for untied
            attention the query tokens before the key tokens), or a :class:`~glassformer.designs.base.Design`, for
            instance :class:`~glassformer.designs.dense.DenseDesign`. The type float32 is preserved.
        labels: labels as the channel draws them, shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one
            instance. Booleans become +1 and -1 for channels with these labels, and 1 and 0 otherwise.
        learner: damping, and size of a random start.
        seed: seed of a random start.
        side: side information on the signal, for models of several rows.
        start: initial signal, shape (P, ...), instead of the prior mean or a random start.
        watch: called with the :class:`~glassformer.learners.gamp_state.GampState` after every step.
        accuracy: tolerance, iteration limit, and points of sampled scores.

    Returns:
        :class:`Solution` whose ``value`` has shape ``(instances, L, d)``, for several rows (instances, P, ...).
        ``residual`` is the undamped root-mean-square step, and ``error_estimate`` the posterior variance (the
        algorithm's own estimate of its error, the mean over the rows). ``extra`` contains ``variance`` and
        ``precision`` (:math:`\hat q`), matrices for several rows, ``nishimori_ratio`` (measured over predicted residual
        variance, 1 in the limit of large sizes; NaN if sampled scores are too noisy to measure it) and ``damping`` at
        the end. A run that does not converge raises no error: see the status of each instance.

    Warns:
        DataWarning: the inputs, the size of the labels, or the residuals of linear labels contradict the model.

    Raises:
        DataError: inputs or labels are not finite numbers, or do not match each other or the model.
        ParameterError: a size parameter of the model is not that of the inputs.
        IncompatibleError: the design is that of another model.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)
        >>> signal, inputs = model.prior.sample((30, 30), rng), rng.standard_normal((540, 30, 30))
        >>> labels = np.einsum("nld,ld->n", inputs, signal) / 30 + 0.1 * rng.standard_normal(540)
        >>> solution = gamp(model, inputs, labels)
        >>> bool(np.mean((solution.value[0] - signal) ** 2) < 0.05)
        True
    """
    require_arguments(gamp, locals(), but=("design", "labels"))
    model, settings = model.at_accuracy(accuracy), (learner or MessagePassing()).at_accuracy(accuracy)
    own, y = validate_data(model, design, labels)
    violated = [[*violations(next(own.parts(k))), *label_power(model, own, y[k])] for k in range(own.instances)]
    warn_of_violations(next(filter(None, violated), ()))
    steps = [GampStep(model, own, y[k], k, settings, seed, side, start) for k in range(own.instances)]
    solution = blame_inputs(run_gamp(steps, watch), violated)
    contradicted = [() if violated[k] else claimed_error(model, own, y[k], solution, k) for k in range(own.instances)]
    warn_of_violations(next(filter(None, contradicted), ()))
    statuses = zip(solution.status, contradicted, strict=True)
    return replace(solution, status=[Status.CONTRADICTED if found else status for status, found in statuses])


def run_gamp(steps: Sequence[GampStep], watch: Callable[[GampState], None] | None = None) -> Solution:
    """Return the solution of a run of each step, one for each instance of a design."""
    runs = [message_passing(one, one.max_iterations, one.settings.damping, watch) for one in steps]
    return gamp_solution(steps[0].model, runs)


def blame_inputs(solution: Solution, violated: Sequence[Sequence[Finding]]) -> Solution:
    """Return a solution whose runs that did not converge have the violations of their instance as their status."""
    statuses = zip(solution.status, violated, strict=True)
    return replace(solution, status=[Status.MISTAKEN if found and not one.ok else one for one, found in statuses])


def gamp_solution(model: Model, runs: list[MessagePassingRun[GampState]]) -> Solution:
    """Return the solution of one run for each instance."""
    states, shape = [run.state for run in runs], (len(runs), *model.overlap_shape)
    signals = np.array([state.estimate.signal for state in states])
    longest = max(len(run.step_sizes) for run in runs)
    steps = [np.pad(run.step_sizes, (0, longest - len(run.step_sizes)), constant_values=np.nan) for run in runs]
    return Solution(
        value=signals if model.overlap_shape else signals[:, 0],
        status=[run.status for run in runs],
        residual=np.array([state.step_size for state in states]),
        iterations=np.array([len(run.step_sizes) for run in runs]),
        error_estimate=np.array([state.claimed_error for state in states]),
        history=np.array(steps).T,
        extra={
            "variance": np.array([state.estimate.variance for state in states]).reshape(shape),
            "precision": np.array([state.precision for state in states]).reshape(shape),
            "nishimori_ratio": np.array([state.nishimori_ratio for state in states]),
            "damping": np.array([state.damping for state in states]),
        },
    )


def fit_gamp(
    model: Model,
    data: DataSet,
    settings: MessagePassing,
    assumed_prior: ScalarPrior | None = None,
    step: type[GampStep] = GampStep,
) -> FitResult:
    """Return the result of message passing on a data set, with the errors of every step.

    ``assumed_prior`` replaces the model's own prior, and ``step`` the algorithm.
    """
    own, y = validate_data(model, data.design, data.labels)
    errors = ErrorHistory(model, data.teacher)

    def watch(state: GampState) -> None:
        if state.first:
            errors.clear()
        else:
            estimate = state.estimate.signal if model.overlap_shape else state.estimate.signal[0]
            errors.append(estimate, state.estimate.variance)

    first = step(model, own, y[0], 0, settings, data.seed, data.side, assumed_prior=assumed_prior)
    solution = run_gamp([first], watch)
    return FitResult.from_solution(
        solution,
        variance=solution.extra["variance"][0],
        claimed_error=float(solution.error_estimate[0]),
        nishimori_ratio=float(solution.extra["nishimori_ratio"][0]),
        damping=float(solution.extra["damping"][0]),
        history=errors.entries(),
    )
