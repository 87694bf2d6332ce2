"""Interface of a learner: compatible models, learning from data, and the equations of its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.errors import IncompatibleError
from glassformer.core.results import error_column
from glassformer.core.settings import check_settings

if TYPE_CHECKING:
    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.core.status import Status
    from glassformer.learners.data_set import DataSet
    from glassformer.models.comparison import NewInputs

# Storages of the inputs: in one array; for learners that only need products with them, also in parts or generated.
IN_ONE_ARRAY = ("float64", "float32")
IN_ANY_FORM = (*IN_ONE_ARRAY, "sharded", "generated")


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
    """

    name: str
    title: str
    family: str
    papers: tuple[str, ...] = ()
    storages: tuple[str, ...] = IN_ONE_ARRAY
    resumable: bool = False
    limit_settings: tuple[str, ...] | None = None
    trajectory_settings: tuple[str, ...] = ()


class Learner(ABC):
    """An algorithm that learns from data. Subclasses are frozen data classes whose fields are their settings.

    A learner defines ``info``, ``incompatibility``, ``theory`` and ``learn``, and optionally ``completed``,
    ``alternatives`` and ``equations``. It uses the declared properties of a model, for instance whether the channel is
    linear, and never its type.
    """

    info: ClassVar[LearnerInfo]

    @abstractmethod
    def incompatibility(self, model: Any) -> str | None:
        """Return the reason why the learner is incompatible with a model, or None.

        The reason completes the sentence "learner NAME ...".
        """

    def completed(self, model: Any) -> Self:
        """Return the learner with unset settings replaced by the defaults for this model."""
        del model
        return self

    def alternatives(self) -> Iterable[Self]:
        """Return the learner with other settings, for models that are incompatible with the present ones."""
        return ()

    @abstractmethod
    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array] | str:
        """Return what runs reach in the limit of large sizes, or the reason why it is not known.

        Columns by name: ``error``, and those of ``error_estimate``, ``row_error``, ``label_error``,
        ``prediction_error`` and ``plugin_error`` that are known, ``status`` and ``notes``, arrays of objects.

        Args:
            model: the model at the ratios of the data.
            alpha: sample ratios, shape (points,).
            optimum: result of :func:`~glassformer.bayes_optimal.limits.limits` at these ratios, if it is known.
        """

    def columns_of_limits(self, model: Any, alpha: Array) -> Mapping[str, Array]:
        """Return the columns of the limits as theory of runs, with the status of each row, and the notes."""
        import numpy as np

        table = self.limits(model, alpha, throw=False)
        more = {"status": table.status, "notes": table.notes}
        return {**table.columns, **{name: np.array(values, dtype=object) for name, values in more.items()}}

    def other_minima(self, model: Any) -> str | None:
        """Return why runs of any size may end elsewhere than theory says; None where they do not."""
        del model
        return None

    def equations(self, model: Any) -> Equations:
        """Return the equations of limits, thresholds and trajectory for a model."""
        return Equations(self, model)

    @abstractmethod
    def learn(self, model: Any, data: DataSet) -> FitResult:
        """Return the result of learning from a data set.

        Args:
            model: the assumed model of the labels.
            data: inputs, labels and optional side information, teacher and checkpoint.
        """

    # The methods below are common to all learners.

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.info.name

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        """Return the error at each sample ratio in the limit of large sizes, with error estimates.

        Args:
            model: a model for which the theory of the learner is known.
            alpha: sample ratios, a number or shape (points,).
            throw: raise an error if a row did not converge.

        Raises:
            IncompatibleError: the theory is not known.
            ConvergenceError: with ``throw``, a row did not converge.
        """
        return self.equations(model).limits(alpha, throw)

    def thresholds(self, model: Any) -> Thresholds:
        """Return the thresholds of the learner: sample ratios of weak recovery, perfect recovery and so on.

        Raises:
            IncompatibleError: no thresholds are known.
        """
        return self.equations(model).thresholds()

    def branches(self, model: Any, alpha: Any) -> Table:
        """Return the fixed points of the theory, followed up and down in the sample ratio.

        Args:
            model: a model for which the theory of the learner is known.
            alpha: sample ratios, at least two, in increasing order.

        Raises:
            IncompatibleError: the theory is not known.
        """
        return self.equations(model).branches(alpha)

    def trajectory(self, model: Any, alpha: Any, steps: int, overlap: Any = None) -> Table | str:
        """Return the error after every step, or the reason why it is not known; see :meth:`Equations.trajectory`."""
        from glassformer.bayes_optimal.solve import validated_alpha

        return self.equations(model).trajectory(validated_alpha(alpha), steps, overlap)


@dataclass(frozen=True)
class Equations:
    """Equations of a learner on a model, in the limit of large sizes. Subclasses override those that are known.

    Attributes:
        learner: the learner.
        model: the model at the ratios of the data.
        instead: remedy in the error message if limits are not known.
    """

    learner: Learner
    model: Any
    instead: str = "simulate, or learner risk"

    history_includes_start: ClassVar[bool] = False
    """Whether the history of a run begins with its start, before the first step."""

    def limits(self, alpha: Any, throw: bool = True) -> Table:
        """Return the error at each sample ratio; see :meth:`Learner.limits`."""
        del alpha, throw
        title = self.learner.info.title
        raise IncompatibleError(f"no theory is known for the limits of {title}: use {self.instead}")

    def thresholds(self) -> Thresholds:
        """Return the thresholds; see :meth:`Learner.thresholds`."""
        raise IncompatibleError(f"no thresholds of {self.learner.info.title} are known: use learner gamp, or risk")

    def branches(self, alpha: Any) -> Table:
        """Return the branches of fixed points; see :meth:`Learner.branches`."""
        del alpha
        raise IncompatibleError(f"no fixed points of {self.learner.info.title} are known: use learner gamp, or risk")

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

    @staticmethod
    def curve(table: Table, quantity: str, error: str = "error") -> tuple[Array, Array, Array]:
        """Return the curve of a column; without an error estimate of its own it depends on the column ``error``."""
        known = quantity if error_column(quantity) in table.columns else error
        return table[quantity], table[known], table[error_column(known)]

    def remark(self, alpha: float) -> str:
        """Return what a plan says of the learner at a sample ratio, if anything."""
        del alpha
        return ""

    def trajectory(self, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        """Return the error after every step, or the reason why it is not known.

        Args:
            alpha: sample ratios, shape (points,).
            steps: number of steps.
            overlap: overlap with the truth before the first step, or the result of :meth:`initial_overlap`; by default
                that of the learner's start.
        """
        del alpha, steps, overlap
        title = self.learner.info.title
        others = "gamp, vamp or risk, for rows of weights sgd or online-sgd"
        return f"no equations are known for the steps of {title}: use {others}"

    def simulated(self, steps: int, overlap: float | None = None, d: int | None = None) -> Learner:
        """Return the learner whose simulated steps the trajectory describes, of runs at dimension ``d`` if given."""
        del steps, overlap, d
        return self.learner

    def initial_overlap(self, d: int, overlap: float | None, histories: Sequence[Sequence[dict[str, Any]]]) -> Any:
        """Return the initial overlap of a trajectory that is compared with simulated runs.

        Args:
            d: token dimension of the runs.
            overlap: overlap given by the user, if any.
            histories: histories of the runs.
        """
        del d, histories
        return overlap


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

    def measured(self, model: Any, signal: Array, new: NewInputs) -> dict[str, Any]:
        """Return the errors of the estimates as the model measures them, means over the estimates.

        Args:
            model: of the labels.
            signal: the true one.
            new: inputs whose labels are predicted.
        """
        import numpy as np

        each = [model.measured(estimate, signal, self.variance, new=new) for estimate in self.estimates]
        means = {name: np.mean([one[name] for one in each], axis=0) for name in each[0]}
        return {name: float(mean) if np.ndim(mean) == 0 else mean for name, mean in means.items()}

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
