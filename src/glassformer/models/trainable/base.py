"""What of a model is trained by gradients: parametrised signals and their training errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError

if TYPE_CHECKING:
    from glassformer.core.estimate import Array

Loss = Callable[[Any, Any], Any]
"""``loss(parameters, data)`` returns the training errors of independent starts, shape (starts,)."""


@dataclass(frozen=True)
class Schedule:
    """Data that change during training, for annealing; training never ends before they have their final form.

    Attributes:
        at: ``at(data, steps)``, the data to use after so many steps.
        steps: after which they no longer change.
    """

    at: Callable[[Any, int], Any]
    steps: int


@dataclass(frozen=True)
class Student:
    """A parametrised signal, and its training error on data.

    Attributes:
        parameters: shapes of the parameters of one start, which are drawn standard normal, or small.
        data: arguments of the loss beside the parameters: arrays with the samples along their first axis, any part of
            which is valid data as well, and single numbers.
        loss: training errors of all starts.
        signals: signals of all starts, shape (starts, rows, columns), from the parameters.
        power: training error of predicting zero, a quarter of the sum of the squared labels.
        samples: number of labels.
        unit: of the singular values.
        rates: learning rates of the optimizers, the default one first.
        distance: squared error of a signal, given the true one.
        schedule: of data that change, see :class:`Schedule`.
    """

    parameters: tuple[tuple[int, ...], ...]
    data: tuple[Array, ...]
    loss: Loss
    signals: Callable[[Any], Any]
    power: float
    samples: int
    unit: float
    rates: Mapping[str, float]
    distance: Callable[[Array, Array], float]
    schedule: Schedule | None = None


@dataclass(frozen=True)
class Convex:
    """The convex risk whose minimum descent with weight decay reaches at full width.

    It is half the sum of squared residuals and a weighted norm of the signal; a training error is a fixed share of it.

    Attributes:
        weight: ``weight(width, (rows, columns))``, of the nuclear norm, or trace, for a unit of decay.
        positive: whether signals are positive symmetric matrices.
    """

    weight: Callable[[int, tuple[int, int]], float]
    positive: bool = False


@dataclass(frozen=True)
class Parametrisation:
    """How the signal of a model is trained.

    Attributes:
        rates: learning rates of the optimizers, the default one first.
        student: ``student(design, labels, width)``, on the first instance of a design.
        exploring: optimizer, learning rate and steps of an exploration after which means over starts are near the
            optimum; None where exploration gains nothing.
        convex: the risk that descent with decay minimises, for square loss of linear labels.
    """

    rates: Mapping[str, float]
    student: Callable[[Any, Any, int], Student]
    exploring: tuple[str, float, int] | None = None
    convex: Convex | None = None


class Trainable:
    """A model without anything to train by gradients; models override what they have.

    The errors complete the sentence "algorithm NAME".
    """

    name: Any

    @property
    def parametrisation(self) -> Parametrisation:
        """How its signal is trained as a whole.

        Raises:
            IncompatibleError: it has no parametrisation.
        """
        raise IncompatibleError(f"needs a parametrised signal, and model {self.name} has none")

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The label as a traceable and smooth function of the projections ``Z`` of the tokens on rows of weights.

        Raises:
            IncompatibleError: there is no such function.
        """
        raise IncompatibleError(f"needs a label that JAX can differentiate in the rows, and model {self.name} has none")
