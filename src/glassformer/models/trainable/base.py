"""What of a model is trained by gradients, and what every model says of it unless it says otherwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError

if TYPE_CHECKING:
    from glassformer.core.estimate import Array

Loss = Callable[[Any, Any], Any]
"""``loss(parameters, data)``: training errors of independent starts, shape (starts,)."""


@dataclass(frozen=True)
class Schedule:
    """Data that change on the way, for annealing; nothing counts as a floor before they have their final form.

    Attributes:
        at: ``at(data, steps)``, the data to use after so many steps.
        steps: from when on they no longer change.
    """

    at: Callable[[Any, int], Any]
    steps: int


@dataclass(frozen=True)
class Student:
    """What is trained on what: a parametrised signal, and its training error.

    Attributes:
        parameters: shapes of the parameters of one start; they are drawn standard normal, or small.
        data: what the loss takes beside the parameters: arrays with the samples along their first axis, of which any
            share is data as well, and single numbers.
        loss: training errors of all starts.
        signals: signals of all starts, shape (starts, rows, columns), from the parameters.
        power: training error of knowing nothing, a quarter of the sum of the squared labels.
        samples: number of labels.
        unit: singular values are given in units of this.
        rates: learning rates of the optimizers, the default one first.
        distance: squared error of a signal, given the true one.
        schedule: how the data change on the way, see :class:`Schedule`.
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
    """The convex risk whose least value descent with weight decay reaches where the width is full.

    It is half the sum of squared residuals and a weighted norm of the signal; a training error is some share of it.

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
        student: ``student(design, labels, width)``, what is trained on the first instance of a design.
        exploring: optimizer, learning rate and steps of exploration that bring means over starts near the optimum; None
            where that gains nothing.
        convex: the risk that descent with decay minimises, for square loss of linear labels.
    """

    rates: Mapping[str, float]
    student: Callable[[Any, Any, int], Student]
    exploring: tuple[str, float, int] | None = None
    convex: Convex | None = None


class Trainable:
    """What of a model can be trained by gradients: nothing, unless it says so.

    The errors complete the sentence "algorithm NAME".
    """

    name: Any

    @property
    def parametrisation(self) -> Parametrisation:
        """How its signal is trained as a whole.

        Raises:
            IncompatibleError: it is not.
        """
        raise IncompatibleError(f"trains a signal as a whole, which this model ({self.name}) has no way to")

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The label as a traceable and smooth function of the projections ``Z`` of the tokens on rows of weights.

        Raises:
            IncompatibleError: it is none.
        """
        raise IncompatibleError(f"trains rows through a traceable label, which this model ({self.name}) has not")
