"""What a learner must provide: for which models it is, what its theory is, how it learns from data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.settings import check_settings, non_default_fields

if TYPE_CHECKING:
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution, Status
    from glassformer.learners.data_set import DataSet
    from glassformer.state_evolution.thresholds import Thresholds

# Ways of keeping the inputs: in one array; and, for learners that only multiply with them, in parts or not at all.
IN_ONE_ARRAY = ("float64", "float32")
IN_ANY_FORM = (*IN_ONE_ARRAY, "sharded", "generated")


@dataclass(frozen=True, kw_only=True)
class FitStatus:
    """How learning from one data set ended; what a learner does not have is None.

    Attributes:
        status: how it ended.
        iterations: steps taken.
        residual: what is left of the learner's own condition of convergence.
        claimed_error: its own estimate of the error.
        nishimori_ratio: measured over predicted residual variance, close to 1 for a run that can be trusted; NaN where
            sampled scores do not tell it.
        damping: damping at the end.
        training_error: mean squared residual on the samples learned from.
        training_loss: mean of its loss on them.
        rank: share of the singular values of its estimate that are not zero.
        early_stopped_error: least error along the way, by an oracle that knows the teacher.
        history: snapshots along the way, as dictionaries.
    """

    status: Status
    iterations: int
    residual: float
    claimed_error: float | None = None
    nishimori_ratio: float | None = None
    damping: float | None = None
    training_error: float | None = None
    training_loss: float | None = None
    rank: float | None = None
    early_stopped_error: float | None = None
    history: Sequence[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class FitResult(FitStatus):
    """What a learner made of one data set: beside the attributes of :class:`FitStatus` its estimates.

    Attributes:
        estimates: equally good estimates of the signal, the first axis runs over them; errors are means over them.
        variance: posterior covariance of the fields that it claims, a number or shape (P, P); None where it claims
            none.
    """

    estimates: Array
    variance: Any = None

    @classmethod
    def of(cls, found: Solution, **more: Any) -> FitResult:
        """The first instance of a solution, and what else there is."""
        return cls(
            found.value[:1],
            status=found.status[0],
            iterations=int(found.iterations[0]),
            residual=float(found.residual[0]),
            **more,
        )


class Learner(ABC):
    """What is done with data. Subclasses are frozen data classes whose fields are their settings.

    A learner asks a model what it declares (is the channel linear, can the label be traced), never what it is.
    """

    title: ClassVar[str]
    """What it is, in a few words."""
    family: ClassVar[str]
    """Learners that are like it: where it is refused, those of its family are proposed first."""
    papers: ClassVar[tuple[str, ...]] = ()
    """Keys of the papers behind it, beyond those behind the models."""
    instead: ClassVar[str] = "simulate, or learner risk"
    """What to use where limits have no theory of it."""
    in_theory: ClassVar[tuple[str, ...]] = ()
    """Settings that its theory depends on: others are refused where only theory is asked for."""
    in_trajectory: ClassVar[tuple[str, ...]] = ()
    """Settings that the theory of its steps depends on."""
    storages: ClassVar[tuple[str, ...]] = IN_ONE_ARRAY
    """Ways of keeping the inputs that it can learn from."""
    continues: ClassVar[bool] = False
    """Whether it leaves a state that an interrupted run continues from."""
    follows_start: ClassVar[bool] = False
    """Whether the first entry of its history is the start, before the first step."""

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def name(self) -> str:
        """Name on the command line."""
        from glassformer.learners.registry import name_of

        return name_of(type(self))

    @classmethod
    def adopted(cls, settings: Any) -> Self:
        """The learner of these settings, its own or those of a relative; what it has no use for is refused.

        Raises:
            ParameterError: settings of another learner.
        """
        if type(settings) is cls:
            return settings
        if not isinstance(settings, cls.relatives()):
            raise ParameterError("settings", type(settings).__name__, f"{cls.__name__}, for this algorithm")
        own = {one.name for one in fields(cls)}  # type: ignore[arg-type]
        given = non_default_fields(settings)
        for name, value in given.items():
            if name not in own:
                raise ParameterError(name, value, f"nothing: {cls.__name__} has no such setting")
        return cls(**given)

    @classmethod
    def relatives(cls) -> type[Learner]:
        """The class whose settings it takes for its own."""
        return cls

    @abstractmethod
    def incompatibility(self, model: Any) -> str | None:
        """Why it is not for this model, as it follows after "algorithm NAME"; None where it is."""

    def refusal(self, model: Any) -> str | None:
        """Why it is not for this model, and what to use instead; None where it is."""
        incompatibility = self.incompatibility(model)
        if incompatibility is None:
            return None
        from glassformer.learners.registry import proposals

        return f"algorithm {self.name} {incompatibility}: use {' or '.join(proposals(self, model))}"

    def require(self, model: Any) -> None:
        """Refuse a model that it is not for.

        Raises:
            IncompatibleError: it is not for this model; what to use instead is said.
        """
        refusal = self.refusal(model)
        if refusal is not None:
            raise IncompatibleError(refusal)

    def completed(self, model: Any) -> Self:
        """Itself, with settings that were left open as they are for this model."""
        del model
        return self

    def fitting(self, model: Any) -> Self:
        """Itself, or with other settings where these do not go with a model and others do."""
        del model
        return self

    def named(self, found: Any) -> Any:
        """A result of theory with its name among the parameters."""
        return replace(found, parameters={**found.parameters, "learner": self.name})

    @abstractmethod
    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        """Its error in the limit of large sizes, or the reason why there is none.

        Args:
            model: at the ratios of the data.
            alpha: sample ratios, shape (points,).
            optimum: what :func:`~glassformer.state_evolution.limits.limits` says there, if it is known already.
        """

    def limits(self, model: Any, alpha: Any, throw: bool = True) -> Table:
        """What it reaches at each sample ratio in the limit of large sizes, with error estimates.

        Args:
            model: with a learner of which there is a theory.
            alpha: sample ratios, a number or shape (points,).
            throw: raise when a row did not converge.

        Raises:
            IncompatibleError: there is no theory of it.
            ConvergenceError: with ``throw``, a row did not converge.
        """
        del model, alpha, throw
        raise IncompatibleError(f"no theory is known of what {self.title} reaches: use {self.instead}")

    def thresholds(self, model: Any) -> Thresholds:
        """Sample ratios at which what it reaches begins to differ.

        Args:
            model: with a learner of which there is a theory.

        Raises:
            IncompatibleError: none are known of it.
        """
        del model
        raise IncompatibleError(f"no thresholds are known of {self.title}: use learner gamp, or risk")

    def branches(self, model: Any, alpha: Any) -> Table:
        """Fixed points of its theory followed up and down in the sample ratio.

        Args:
            model: with a learner of which there is a theory.
            alpha: sample ratios, at least two, in increasing order.

        Raises:
            IncompatibleError: there is no theory of it.
        """
        del model, alpha
        raise IncompatibleError(f"fixed points of {self.title} are not followed: use learner gamp, or risk")

    def told(self, table: Table) -> list[str]:
        """Columns of its limits that are worth printing beside the error."""
        return [name for name in ("cosine", "rank", "strength") if name in table.columns]

    def curves(self, model: Any, table: Table, quantity: str) -> dict[str, tuple[Array, Array]]:
        """What reaches how much, by name: the quantity, and the error of the estimate that it belongs to.

        Args:
            model: whose limits they are.
            table: of its limits.
            quantity: a column of it.
        """
        del model
        return {self.name: (table[quantity], table["error"])}

    def trajectory(self, model: Any, alpha: Array, steps: int, overlap: Any = None) -> Table | str:
        """Its error after every step in the limit of large sizes, or the reason why there is none.

        Args:
            model: at the ratios of the data.
            alpha: sample ratios, shape (points,).
            steps: how many.
            overlap: with the truth before the first step, or what :meth:`beginning` returns; its own start by default.
        """
        del model, alpha, steps, overlap
        return f"no equations are known for the steps of {self.title}: use gamp, vamp, risk or online-sgd"

    def followed(self, steps: int, overlap: float | None = None) -> Self:
        """Itself as its trajectory describes it, for so many steps from such a start."""
        del steps, overlap
        return self

    def beginning(
        self, model: Any, d: int, overlap: float | None, histories: Sequence[Sequence[dict[str, Any]]]
    ) -> Any:
        """What its trajectory begins with, to be compared with runs.

        Args:
            model: at the ratios of the data.
            d: token dimension of the runs.
            overlap: that was asked for, if any.
            histories: of the runs.
        """
        del model, d, histories
        return overlap

    @abstractmethod
    def learn(self, model: Any, data: DataSet) -> FitResult:
        """Learn from a data set.

        Args:
            model: that the labels are believed to come from.
            data: inputs, labels and what else there is.
        """
