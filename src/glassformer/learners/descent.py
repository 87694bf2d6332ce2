"""Base classes and common settings of the learners that descend gradients."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from glassformer.core.checks import real_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.frozen import set_fields
from glassformer.learners.base import Learner
from glassformer.priors.features import whitens

if TYPE_CHECKING:
    import jax

    from glassformer.core.estimate import Array
    from glassformer.models.base import Model

# Starts of descent by their forms, and what each means.
_FORMS = {
    "prior": "prior",
    "small": "small:SIZE with a number > 0",
    "overlap": "overlap:COSINE with a number in [0, 1)",
    "matrices": "a pair of matrices, overlap m and power C",
}


@dataclass(frozen=True)
class Initialisation:
    """The first parameters of a descent.

    Attributes:
        size: standard deviation of the parameters.
        overlap: cosine of every row with the teacher's; None for a random start.
        matrices: overlap m, shape (P, P*), and power C, shape (P, P), in rows of numbers; None for rows of equal power.

    Example:
        >>> Initialisation.parse("small:0.001"), Initialisation.parse("overlap:0.3").overlap
        (Initialisation(size=0.001, overlap=None, matrices=None), 0.3)
    """

    size: float = 1.0
    overlap: float | None = None
    matrices: Any = None

    @classmethod
    def parse(cls, given: object, forms: tuple[str, ...] = tuple(_FORMS)) -> Self:
        """Return the start that a text or a pair of matrices stands for.

        Args:
            given: ``"prior"``, ``"small:SIZE"``, ``"overlap:COSINE"``, or a pair of matrices.
            forms: of these, the forms that are allowed.

        Raises:
            ParameterError: it is none of the allowed starts.
        """
        pair = isinstance(given, tuple | list) and len(given) == 2 and not any(isinstance(one, str) for one in given)
        if isinstance(given, tuple | list) and pair and "matrices" in forms:
            overlap, power = (np.atleast_2d(real_numbers("start", part)).tolist() for part in given)
            return cls(matrices=(_rows(overlap), _rows(power)))
        form, _, text = given.partition(":") if isinstance(given, str) else ("", "", "")
        if given == "prior" and "prior" in forms:
            return cls()
        with suppress(ValueError):
            number = float(text)
            if form == "small" and "small" in forms and 0 < number < np.inf:
                return cls(size=number)
            if form == "overlap" and "overlap" in forms and 0 <= number < 1:
                return cls(overlap=number)
        *others, last = (_FORMS[one] for one in forms)
        raise ParameterError("start", given, f"{', '.join(others)}, or {last}")


def _rows(matrix: list[list[float]]) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix))


class Descent(Learner):
    """Gradient descent from a start."""

    trained_property: ClassVar[str]
    """Property of a model that defines what is trained; it raises an error for models that cannot be trained."""
    start_forms: ClassVar[tuple[str, ...]] = ("prior", "small")
    """Forms of the start, see :meth:`Initialisation.parse`."""
    start: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        matrices = self.initialisation.matrices
        if matrices is not None:
            # Settings are compared with each other, which arrays cannot.
            set_fields(self, start=matrices)

    @property
    def initialisation(self) -> Initialisation:
        """The first parameters."""
        return Initialisation.parse(self.start, self.start_forms)

    def check(self, model: Model) -> None:
        # Raises an error for models that cannot be trained.
        getattr(model, self.trained_property)


class MatrixDescent(Descent):
    """Gradient descent on the parameters of a signal that is one matrix."""

    trained_property: ClassVar[str] = "parametrisation"
    averages: ClassVar[bool] = False
    """Whether the estimate is the mean over all starts."""
    momentum: float
    weight_decay: float
    initialisations: int | None
    student_width: Any
    steps: int | None

    @abstractmethod
    def rule(self, rates: Mapping[str, float]) -> tuple[str, float]:
        """Return optimizer and learning rate; unset ones are the defaults in ``rates``, the first optimizer first."""

    @abstractmethod
    def width_at(self, columns: int) -> int | None:
        """Return the width of the student of a signal with so many columns; None for the teacher's."""

    @abstractmethod
    def estimates(self, signals: Array) -> Array:
        """Return the estimates from the signals of all starts."""

    @abstractmethod
    def at_fixed_rate(self, optimizer: str, learning_rate: float, steps: int) -> Learner:
        """Return the descent of so many steps at this rate, without restarts, exploration or early end."""


class RowDescent(Descent):
    """Gradient descent on the rows of a model's weights, with the model's own label function."""

    trained_property: ClassVar[str] = "traceable_label"
    start_forms: ClassVar[tuple[str, ...]] = ("prior", "small", "overlap")
    learning_rate: Any
    weight_decay: float

    def check(self, model: Model) -> None:
        super().check(model)
        refuse_side_information(model)
        if whitens(model.prior):
            raise IncompatibleError(
                "needs unwhitened features, and those of a model with feature_spectrum are drawn whitened"
            )

    def cosine(self, given: float | None) -> float | None:
        """Return the cosine of the start with the truth: the given one, or that of the settings.

        Raises:
            IncompatibleError: both are given.
        """
        own = self.initialisation
        if given is not None and (own.overlap is not None or own.matrices is not None):
            start = self.start if isinstance(self.start, str) else "the given matrices"
            raise IncompatibleError(f"overlap = {given:g} and start = {start} exclude each other: give one of them")
        return own.overlap if given is None else given


class SameSamplesDescent(RowDescent):
    """Descent on the same samples again and again."""

    passes: int
    steps: int | None
    record_every: int


class OnePassDescent(RowDescent):
    """Descent on batches of new samples."""

    batch: int

    @abstractmethod
    def record_steps(self, steps: int) -> Array:
        """Return the steps after which a run is recorded."""

    @abstractmethod
    def in_intervals(self, intervals: int, overlap: float | None = None) -> Learner:
        """Return the descent recorded after equal shares of the samples, from a given cosine with the truth."""


def refuse_side_information(model: Model) -> None:
    """Raise for a model with side information: the learner learns from samples alone.

    Raises:
        IncompatibleError: there is some; the message completes the sentence "learner NAME ...".
    """
    if model.prior.side > 0:
        raise IncompatibleError(
            f"learns from samples only and cannot use side_information = {model.parameters['side_information']:g}"
        )


def squared_errors(weights: jax.Array, inputs: jax.Array, labels: jax.Array, link: Callable[[Any], Any]) -> jax.Array:
    r"""Return :math:`\sum_\mu\|g(WX_\mu^T/\sqrt d) - y_\mu\|^2`, traceable, for labels of shape (samples, entries)."""
    import jax
    import jax.numpy as jnp

    fields = jnp.swapaxes(inputs @ weights.T, 1, 2) / np.sqrt(inputs.shape[-1])
    predicted = jax.vmap(link)(fields).reshape(len(inputs), -1)
    return jnp.sum((predicted - labels) ** 2)
