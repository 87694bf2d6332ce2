"""Interface of a learner: compatible models, learning from data, and the equations of its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeVar, cast

import numpy as np

from glassformer.core.accuracy import USUAL, Accuracy, WithAccuracy
from glassformer.core.errors import IncompatibleError
from glassformer.core.results import error_column
from glassformer.core.settings import check_settings
from glassformer.core.solution import Solution
from glassformer.core.status import Status

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.designs.base import Design
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model
    from glassformer.models.comparison import NewInputs

Labelled = TypeVar("Labelled", "Table", "Thresholds")

# Storages of the inputs: in one array; for learners that only need products with them, also revealed along the
# directions of these, in parts or generated.
IN_ONE_ARRAY = ("float64", "float32")
REVEALED = ("revealed", "revealed-float32", "revealed-equivalent")
BY_PRODUCTS = (*IN_ONE_ARRAY, *REVEALED)
IN_ANY_FORM = (*BY_PRODUCTS, "sharded", "generated")


@dataclass(frozen=True, kw_only=True)
class LearnerInfo:
    """Static properties of a learner, for tables, the command line and sweeps.

    Attributes:
        name: name on the command line.
        title: short description.
        family: group of learners; error messages propose learners of the same family first.
        papers: keys of the papers of the algorithm, in addition to those of the models.
        storages: supported storages of the inputs.
        resumable: whether an interrupted run can continue from a saved state.
        limit_settings: settings that change the limits; None if no limits are known.
        trajectory_settings: settings that change the trajectory.
        limit_accuracy: values of an accuracy that change the limits.
        trajectory_accuracy: those that change the trajectory.
        runs_have_accuracy: whether values of an accuracy change runs, or their theory beside them in simulations.
    """

    name: str
    title: str
    family: str
    papers: tuple[str, ...] = ()
    storages: tuple[str, ...] = IN_ONE_ARRAY
    resumable: bool = False
    limit_settings: tuple[str, ...] | None = None
    trajectory_settings: tuple[str, ...] = ()
    limit_accuracy: tuple[str, ...] = ()
    trajectory_accuracy: tuple[str, ...] = ()
    runs_have_accuracy: bool = True


def accuracy_used(learner: Learner | type[Learner], verb: str) -> Collection[str]:
    """Return the values of an accuracy on which the answer to a question depends, besides those of the model.

    Args:
        learner: the learner, or its class.
        verb: the question.
    """
    info, own = learner.info, tuple(learner.accuracy_defaults)
    return {
        "limits": info.limit_accuracy,
        "spectrum": info.limit_accuracy,
        "hysteresis": info.limit_accuracy,
        "plan": info.limit_accuracy,
        "thresholds": (),
        "trajectory": info.trajectory_accuracy,
        "simulate": (*info.limit_accuracy, *own) if info.runs_have_accuracy else (),
        "compare": own,
        "fit": own if info.runs_have_accuracy else (),
    }[verb]


@dataclass(frozen=True)
class StepContext:
    """What a trajectory is asked for, beside model and sample ratios.

    Attributes:
        steps: number of steps.
        overlap: overlap with the truth before the first step; None for that of the learner's start.
        d: token dimension of the runs beside theory; None for theory alone.
        measured: where runs began, as they measured it.
    """

    steps: int
    overlap: float | None = None
    d: int | None = None
    measured: Any = None


@dataclass(frozen=True)
class Learner(WithAccuracy, ABC):
    """An algorithm that learns from data. Subclasses are frozen data classes whose fields are their settings.

    A learner defines ``info``, ``check`` and ``learn``, and optionally ``completed``, ``alternatives``, ``theory`` and
    ``accuracy_defaults``. It uses the declared properties of a model, for instance whether the channel is linear, and
    never its type.
    """

    info: ClassVar[LearnerInfo]
    _accuracy: Accuracy = field(default=USUAL, kw_only=True, repr=False)

    @abstractmethod
    def check(self, model: Model) -> None:
        """Raise unless the learner can run on data of a model.

        Raises:
            IncompatibleError: it cannot. The message completes the sentence "learner NAME ...".
        """

    @abstractmethod
    def learn(self, model: Model, data: DataSet) -> FitResult:
        """Return the result of learning from a data set.

        Args:
            model: the assumed model of the labels.
            data: inputs, labels and optional side information, teacher and checkpoint.
        """

    def completed(self, model: Model) -> Self:
        """Return the learner with unset settings replaced by the defaults for this model."""
        return self

    def alternatives(self) -> Iterable[Self]:
        """Return the learner with other settings, for models that are incompatible with the present ones."""
        return ()

    def theory(self, model: Model) -> Theory:
        """Return what is known of the learner on a model in the limit of large sizes.

        Raises:
            IncompatibleError: nothing is known; the message has the remedy. The learner may run all the same.
        """
        raise IncompatibleError(f"no theory of {self.info.title} is known: use simulate")

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.info.name

    def varied(self, **settings: Any) -> Self:
        """Return the learner with other settings."""
        return cast(Self, replace(cast(Any, self), **settings))

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name, those of the accuracy of runs included."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if not one.name.startswith("_")}
        accuracy = self.accuracy_defaults if self.info.runs_have_accuracy else ()
        return {**own, **{name: self.accurate(name) for name in accuracy}}


class SpectralMap(NamedTuple):
    """What an estimate does to the singular values of a signal seen in noise.

    Attributes:
        noise: variance of the noise per entry.
        threshold: by which values are lowered, before a gain multiplies them; None for the Bayes-optimal denoiser.
        power: of the estimate, which determines the gain.
        rank: share of the values, the largest, that a narrow student keeps.
    """

    noise: float
    threshold: float | None = None
    power: float = 1.0
    rank: float = 1.0


@dataclass(frozen=True)
class Theory:
    """What is known of a learner on a model in the limit of large sizes. Subclasses override what is known.

    Attributes:
        learner: the learner.
        model: the model at the ratios of the data.
        instead: remedy in the error message if limits are not known.
    """

    learner: Learner
    model: Model
    instead: str = "simulate, or learner risk"

    history_includes_start: ClassVar[bool] = False
    """Whether the history of a run begins with its start, before the first step."""

    of_features: ClassVar[bool] = False
    """Whether it is that of a linear map of features, which needs no state evolution of the model."""

    crossing_width: ClassVar[float | None] = None
    """Relative width to which a plan narrows down sample ratios; None for the accuracy of the limits."""

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        """Return the error at each sample ratio, with error estimates.

        Args:
            alpha: sample ratios, a number or shape (points,).
            throw: raise an error if a row did not converge.

        Raises:
            IncompatibleError: the limits are not known.
            ConvergenceError: with ``throw``, a row did not converge.
        """
        title = self.learner.info.title
        raise IncompatibleError(f"no theory is known for the limits of {title}: use {self.instead}")

    def spectral_map(self, limit: Table) -> SpectralMap:
        """Return what the estimate does to the singular values of the signal in noise.

        Args:
            limit: limits at one sample ratio.

        Raises:
            IncompatibleError: it is not known.
        """
        del limit
        title = self.learner.info.title
        raise IncompatibleError(f"no law of the singular values of {title} is known: use learner gamp, ridge or risk")

    def values_after(self, alpha: float, step: int) -> tuple[Table, Array]:
        """Return the limits after a step, and singular values of single estimates, drawn at a finite size.

        Args:
            alpha: sample ratio.
            step: number of steps, at least 1.

        Raises:
            IncompatibleError: the learner has no steps, or no equations for them.
        """
        del alpha
        raise IncompatibleError(
            f"step = {step}: no singular values of {self.learner.info.title} after its steps are known: leave it out, "
            "or use learner gd"
        )

    def thresholds(self) -> Thresholds:
        """Return the sample ratios of weak recovery, perfect recovery and so on.

        Raises:
            IncompatibleError: no thresholds are known.
        """
        raise IncompatibleError(f"no thresholds of {self.learner.info.title} are known: use learner gamp, or risk")

    def hysteresis(self, alpha: ArrayLike) -> Table:
        """Return the fixed points, followed up and down in the sample ratio.

        Args:
            alpha: sample ratios, at least two, in increasing order.

        Raises:
            IncompatibleError: the fixed points are not known.
        """
        raise IncompatibleError(f"no fixed points of {self.learner.info.title} are known: use learner gamp, or risk")

    def trajectory(self, alpha: Array, context: StepContext) -> Table:
        """Return the error after every step.

        Args:
            alpha: sample ratios, shape (points,).
            context: number of steps, and where they begin.

        Raises:
            IncompatibleError: no equations of the steps are known.
        """
        title = self.learner.info.title
        others = "gamp, vamp or risk, for rows of weights sgd or online-sgd"
        raise IncompatibleError(f"no equations are known for the steps of {title}: use {others}")

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        """Return what runs reach in the limit of large sizes; by default the limits.

        Columns by name: ``error``, and those of ``error_estimate``, ``row_error``, ``label_error``,
        ``prediction_error`` and ``plugin_error`` that are known, ``status`` and ``notes``, arrays of objects.

        Args:
            alpha: sample ratios, shape (points,).
            optimum: Bayes-optimal limits at these ratios, if they are known.

        Raises:
            IncompatibleError: it is not known.
        """
        table = self.limits(alpha)
        more = {"status": table.status, "notes": table.notes}
        return {**table.columns, **{name: np.array(values, dtype=object) for name, values in more.items()}}

    def simulated(self, context: StepContext) -> Learner:
        """Return the learner whose simulated steps the trajectory describes."""
        return self.learner

    def begun(self, context: StepContext, histories: Sequence[Sequence[dict[str, Any]]]) -> StepContext:
        """Return the context of the theory beside runs, which begins where the runs began.

        Args:
            context: that of the runs, with their dimension.
            histories: histories of the runs.
        """
        return context

    @property
    def other_minima(self) -> str:
        """Why runs of any size may end elsewhere than theory says; empty where they do not."""
        return ""

    def display_columns(self, table: Table) -> list[str]:
        """Return the columns of the limits that the command line prints in addition to the error."""
        return table.known_columns(("cosine", "rank", "strength"))

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array, Array]]:
        """Return curves by name: a quantity, the column on which its error depends, and the error of that column.

        Args:
            table: the limits.
            quantity: a column of the limits.
        """
        return {self.learner.name: self.curve(table, quantity)}

    def remark(self, alpha: float) -> str:
        """Return what a plan says of the learner at a sample ratio, if anything."""
        return ""

    def labelled(self, found: Labelled, **parameters: object) -> Labelled:
        """Return a result with the name of the learner, and further parameters of it, among its parameters."""
        return replace(found, parameters={**found.parameters, "learner": self.learner.name, **parameters})

    @staticmethod
    def curve(table: Table, quantity: str, error: str | None = None) -> tuple[Array, Array, Array]:
        """Return the curve of a column; without an error estimate of its own it depends on the main one."""
        known = quantity if error_column(quantity) in table.columns else error or table.main
        return table[quantity], table[known], table[error_column(known)]


@dataclass(frozen=True, kw_only=True)
class FitStatus:
    """Diagnostics of learning from one data set; None for quantities that a learner does not have.

    Attributes:
        status: status of the run.
        iterations: number of steps.
        residual: residual of the convergence criterion of the learner.
        claimed_error: the learner's estimate of its error.
        nishimori_ratio: measured over predicted residual variance, close to 1 for a reliable run; NaN if sampled scores
            are too noisy to measure it.
        damping: damping at the end.
        training_error: mean squared residual on the training samples.
        training_loss: mean loss on the training samples.
        free_energy: minimum of the risk over the dimension.
        rank: share of the singular values of the estimate that are not zero.
        early_stopped_error: least error during training, which requires the teacher.
        history: quantities during the run, one dictionary for each step or block of steps.
    """

    status: Status
    iterations: int
    residual: float
    claimed_error: float | None = None
    nishimori_ratio: float | None = None
    damping: float | None = None
    training_error: float | None = None
    training_loss: float | None = None
    free_energy: float | None = None
    rank: float | None = None
    early_stopped_error: float | None = None
    history: Sequence[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class FitResult(FitStatus):
    """Estimates from one data set, in addition to the attributes of :class:`FitStatus`.

    Attributes:
        estimates: equally good estimates of the signal along the first axis; errors are means over the estimates.
        variance: claimed posterior covariance of the fields, a number or shape (P, P); None if the learner has none.
    """

    estimates: Array
    variance: Any = None

    def measured(self, model: Model, signal: Array, new: NewInputs) -> dict[str, Any]:
        """Return the errors of the estimates as the model measures them, means over the estimates.

        Args:
            model: of the labels.
            signal: the true one.
            new: inputs whose labels are predicted.
        """
        each = [model.measured(estimate, signal, self.variance, new=new) for estimate in self.estimates]
        means = {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}
        return {name: float(mean) if np.ndim(mean) == 0 else mean for name, mean in means.items()}

    def predicted(self, model: Model, design: Design) -> Array:
        """Return predictions of the labels of new inputs, shape (samples, ...): most probable ones, or their means.

        Args:
            model: of the labels.
            design: inputs of one instance.

        Raises:
            IncompatibleError: the law of labels given their fields is not known as a function.
        """
        from glassformer.channels.label_errors import predicted_labels

        channel, shape = model.channel, (model.channel.fields.rows, model.channel.fields.columns)
        claimed = np.zeros((shape[0], shape[0])) if self.variance is None else np.reshape(self.variance, 2 * shape[:1])
        fields = [np.asarray(design.forward(one, 0)).reshape(-1, *shape) for one in self.estimates]
        return np.asarray(predicted_labels(channel, np.array(fields), claimed))

    @classmethod
    def from_solution(cls, solution: Solution, **more: Any) -> FitResult:
        """Return the result for the first instance of a solution, with further attributes."""
        return cls(
            solution.value[:1],
            status=solution.status[0],
            iterations=int(solution.iterations[0]),
            residual=float(solution.residual[0]),
            **more,
        )


def certified_solution(
    matrix: Array, gap: float, tolerance: float, iterations: int, history: Sequence[float], **extra: float
) -> Solution:
    """Return the solution of one instance, converged if a bound on its distance from the minimum is small enough.

    Args:
        matrix: the estimate.
        gap: the bound.
        tolerance: largest bound that is accepted.
        iterations: number of steps.
        history: the bound after these steps.
        extra: further numbers by name.
    """
    status = Status.CONVERGED if gap <= tolerance else Status.ITERATION_LIMIT
    gaps, more = np.array([gap]), {name: np.array([value]) for name, value in extra.items()}
    return Solution(matrix[None], [status], gaps, np.array([iterations]), gaps, np.array(history)[:, None], more)
