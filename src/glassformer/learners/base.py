"""What a learner declares: for which models it is, how it learns from data, and the equations of its error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.errors import IncompatibleError
from glassformer.core.settings import check_settings

if TYPE_CHECKING:
    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.core.status import Status
    from glassformer.learners.data_set import DataSet
    from glassformer.models.comparison import NewInputs

# Ways to store the inputs: in one array; and, for learners that only multiply with them, in parts or not at all.
IN_ONE_ARRAY = ("float64", "float32")
IN_ANY_FORM = (*IN_ONE_ARRAY, "sharded", "generated")


@dataclass(frozen=True, kw_only=True)
class LearnerInfo:
    """What tables, command line and sweeps know of a learner without calling it.

    Attributes:
        name: on the command line.
        title: what it is, in a few words.
        family: a refusal proposes learners of the same family first.
        papers: keys of the papers behind it, beyond those behind the models.
        storages: ways to store the inputs that it can learn from.
        resumable: whether it leaves a state from which an interrupted run continues.
        limit_settings: settings that change its limits; None where no limits are known.
        trajectory_settings: settings that change its trajectory.
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
    """A way to learn from data. Subclasses are frozen data classes whose fields are their settings.

    A learner declares ``info`` and provides ``incompatibility``, ``theory`` and ``learn``; it may provide
    ``completed``, ``alternatives`` and ``equations``. It reads the properties that a model declares, for instance
    whether the channel is linear, and never checks its type.
    """

    info: ClassVar[LearnerInfo]

    @abstractmethod
    def incompatibility(self, model: Any) -> str | None:
        """Return why it cannot learn from this model, as the end of a sentence "algorithm NAME ..."; else None."""

    def completed(self, model: Any) -> Self:
        """Return the learner with every open setting as this model determines it."""
        del model
        return self

    def alternatives(self) -> Iterable[Self]:
        """Return the learner with other settings, to try where these are incompatible with a model."""
        return ()

    @abstractmethod
    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        """Return its error in the limit of large sizes, or the reason why it is not known.

        Args:
            model: at the ratios of the data.
            alpha: sample ratios, shape (points,).
            optimum: result of :func:`~glassformer.bayes_optimal.limits.limits` there, where it is already known.
        """

    def equations(self, model: Any) -> Equations:
        """Return the equations behind its limits, thresholds and trajectory on a model."""
        return Equations(self, model)

    @abstractmethod
    def learn(self, model: Any, data: DataSet) -> FitResult:
        """Learn from a data set.

        Args:
            model: that the labels are believed to come from.
            data: inputs, labels and what else there is.
        """

    # What follows is the same for every learner.

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return self.info.name

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        """Return its error at each sample ratio in the limit of large sizes, with error estimates.

        Args:
            model: a model for which its theory is known.
            alpha: sample ratios, a number or shape (points,).
            throw: raise when a row did not converge.

        Raises:
            IncompatibleError: its theory is not known.
            ConvergenceError: with ``throw``, a row did not converge.
        """
        return self.equations(model).limits(alpha, throw)

    def thresholds(self, model: Any) -> Thresholds:
        """Return the sample ratios at which its error changes its behaviour.

        Raises:
            IncompatibleError: none are known.
        """
        return self.equations(model).thresholds()

    def branches(self, model: Any, alpha: Any) -> Table:
        """Return the fixed points of its theory, followed up and down in the sample ratio.

        Args:
            model: a model for which its theory is known.
            alpha: sample ratios, at least two, in increasing order.

        Raises:
            IncompatibleError: its theory is not known.
        """
        return self.equations(model).branches(alpha)

    def trajectory(self, model: Any, alpha: Any, steps: int, overlap: Any = None) -> Table | str:
        """Return its error after every step, or the reason why it is not known; see :meth:`Equations.trajectory`."""
        return self.equations(model).trajectory(alpha, steps, overlap)


@dataclass(frozen=True)
class Equations:
    """Equations of a learner on a model, in the limit of large sizes. A subclass overrides those that are known.

    Attributes:
        learner: the learner.
        model: at the ratios of the data.
        instead: what to use where limits are not known.
    """

    learner: Learner
    model: Any
    instead: str = "simulate, or learner risk"

    history_includes_start: ClassVar[bool] = False
    """Whether the first entry of a run's history is its start, before the first step."""

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
        """Return the columns of the limits that the command line prints beside the error."""
        return [name for name in ("cosine", "rank", "strength") if name in table.columns]

    def curves(self, table: Table, quantity: str) -> dict[str, tuple[Array, Array]]:
        """Return curves by name: a quantity, and the error of the estimate that it belongs to.

        Args:
            table: the limits.
            quantity: a column of them.
        """
        return {self.learner.name: (table[quantity], table["error"])}

    def trajectory(self, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        """Return the error after every step, or the reason why it is not known.

        Args:
            alpha: sample ratios, shape (points,).
            steps: number of steps.
            overlap: with the truth before the first step, or what :meth:`initial_overlap` returns; its own start by
                default.
        """
        del alpha, steps, overlap
        title = self.learner.info.title
        return f"no equations are known for the steps of {title}: use gamp, vamp, risk or online-sgd"

    def simulated(self, steps: int, overlap: float | None = None) -> Learner:
        """Return the learner whose runs on data the trajectory describes."""
        del steps, overlap
        return self.learner

    def initial_overlap(self, d: int, overlap: float | None, histories: Sequence[Sequence[dict[str, Any]]]) -> Any:
        """Return the overlap that the trajectory starts from where it is compared with runs.

        Args:
            d: token dimension of the runs.
            overlap: the one that the user gave, if any.
            histories: of the runs.
        """
        del d, histories
        return overlap


@dataclass(frozen=True, kw_only=True)
class FitStatus:
    """How learning from one data set ended; None where a learner has no such quantity.

    Attributes:
        status: how it ended.
        iterations: steps taken.
        residual: residual of the learner's own condition of convergence.
        claimed_error: its own estimate of the error.
        nishimori_ratio: measured over predicted residual variance, close to 1 for a run that can be trusted; NaN where
            sampled scores are too noisy for it.
        damping: damping at the end.
        training_error: mean squared residual on the training samples.
        training_loss: mean of its loss on them.
        free_energy: minimum of the risk over the dimension.
        rank: share of the singular values of its estimate that are not zero.
        early_stopped_error: least error along the way, by an oracle that knows the teacher.
        history: quantities along the way, one dictionary for each step or block of steps.
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
    """Estimates from one data set, beside the attributes of :class:`FitStatus`.

    Attributes:
        estimates: equally good estimates of the signal, the first axis runs over them; errors are means over them.
        variance: posterior covariance of the fields that it claims, a number or shape (P, P); None where it claims
            none.
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
        """Return the first instance of a solution, with further attributes."""
        return cls(
            solution.value[:1],
            status=solution.status[0],
            iterations=int(solution.iterations[0]),
            residual=float(solution.residual[0]),
            **more,
        )
