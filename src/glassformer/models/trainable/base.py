"""Interface of trainable models: parametrised signals and their training errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from glassformer.core.errors import IncompatibleError

if TYPE_CHECKING:
    import jax
    from numpy.typing import NDArray

    from glassformer.core.estimate import Array

# Gradient steps between evaluations of the objective and of schedules.
BLOCK = 100

Loss: TypeAlias = "Callable[[tuple[jax.Array, ...], tuple[jax.Array, ...]], jax.Array]"
"""``loss(parameters, data)`` returns the training errors of independent starts, shape (starts,)."""
FieldError: TypeAlias = "Callable[..., jax.Array]"
"""``error(fields, labels, *numbers)`` returns the training errors of all starts from the fields of a design, shape
(starts, samples, ...), the labels, and the numbers among the data of a student."""
Gradient: TypeAlias = "Callable[[tuple[jax.Array, ...], tuple[jax.Array, ...]], tuple[jax.Array, ...]]"


@dataclass(frozen=True)
class Schedule:
    """An annealing schedule: training data that change with the number of steps.

    Attributes:
        at: ``at(data, steps)``, the data after this number of steps.
        steps: number of steps after which the data no longer change; training never ends before.
    """

    at: Callable[[tuple[jax.Array, ...], int], tuple[jax.Array, ...]]
    steps: int


@dataclass(frozen=True)
class Student:
    """A parametrised signal, and its training error on data.

    Attributes:
        parameters: shapes of the parameters of one start, drawn standard normal or small.
        data: arguments of the loss after the parameters: numbers, and arrays whose first axis runs over the samples, so
            that batches can be taken.
        loss: training errors of all starts.
        error: the same as a function of the fields.
        signals: signals of all starts, shape (starts, rows, columns), from the parameters.
        power: training error of predicting zero, a quarter of the sum of the squared labels.
        samples: number of labels.
        unit: unit of the singular values.
        rates: learning rates of the optimizers, the default one first.
        distance: squared error of a signal, given the true signal.
        schedule: annealing schedule, None for constant data.
        gradient: ``gradient(parameters, data)``, that of the sum of the losses, for losses that JAX cannot trace; None
            for others.
    """

    parameters: tuple[tuple[int, ...], ...]
    data: tuple[NDArray[Any], ...]
    loss: Loss
    error: FieldError
    signals: Callable[[tuple[jax.Array, ...]], jax.Array]
    power: float
    samples: int
    unit: float
    rates: Mapping[str, float]
    distance: Callable[[Array, Array], float]
    schedule: Schedule | None = None
    gradient: Gradient | None = None


@dataclass(frozen=True)
class Convex:
    """The convex risk that gradient descent with weight decay minimises at full width.

    The risk is half the sum of squared residuals plus a weighted nuclear norm, or trace, of the signal.

    Attributes:
        weight: ``weight(width, (rows, columns))``, weight of the nuclear norm or trace per unit of weight decay.
        positive: whether signals are positive symmetric matrices.
    """

    weight: Callable[[int, tuple[int, int]], float]
    positive: bool = False


@dataclass(frozen=True)
class Parametrisation:
    """Parametrisation of the signal of a model for training.

    Attributes:
        rates: learning rates of the optimizers, the default one first.
        student: ``student(design, labels, width)``, the student on the first instance of a design.
        exploring: optimizer, learning rate and steps of an exploration that brings the mean over starts close to the
            Bayes-optimal estimate; None if exploration does not help.
        convex: the risk that descent with weight decay minimises, for square loss of linear labels; None otherwise.
        floor: objective, relative to the power of the labels, that counts as zero.
        reached: what descent is known to reach, for a note; empty if nothing is known.
    """

    rates: Mapping[str, float]
    student: Callable[[Any, Any, int], Student]
    exploring: tuple[str, float, int] | None = None
    convex: Convex | None = None
    floor: float = 1e-9
    reached: str = ""


class Trainable:
    """Default of all models: gradient descent is not available. Models override the properties they provide.

    The error messages complete the sentence "learner NAME ...".
    """

    name: Any

    @property
    def parametrisation(self) -> Parametrisation:
        """Parametrisation of the signal.

        Raises:
            IncompatibleError: the model has no parametrisation.
        """
        raise IncompatibleError(f"descends on the factors of a matrix, and model {self.name} has none")

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """Label as a differentiable JAX function of the projections ``Z`` of the tokens on the rows of weights.

        Raises:
            IncompatibleError: labels are not differentiable.
        """
        raise IncompatibleError(f"needs labels that JAX can differentiate in the rows, and model {self.name} has none")
