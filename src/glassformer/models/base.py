"""What the loops need to know of a model: its prior, its channel, and what it is at a finite size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

from glassformer.core.checks import is_number as is_number
from glassformer.core.errors import IncompatibleError
from glassformer.core.resources import require_resources
from glassformer.models.channels.base import Channel
from glassformer.models.designs.base import Design
from glassformer.models.priors.base import Prior

# Ratios beyond these equal their limits to rounding, and would only lose digits.
SMALLEST, LARGEST = 1e-9, 1e9


AnyModel = TypeVar("AnyModel", covariant=True)


@dataclass(frozen=True)
class FiniteSize(Generic[AnyModel]):
    """A model at a finite size, and how to draw from it.

    Attributes:
        model: the model at the ratios that whole numbers allow.
        design: the class of its inputs.
        input_shape: shape of one sample's input.
        unit: number of samples at sample ratio one.
    """

    model: AnyModel
    design: type[Design]
    input_shape: tuple[int, int]
    unit: float


class Model(Protocol):
    """What the loops need to know of a model."""

    @property
    def name(self) -> str:
        """Short name, as the command line spells it."""

    @property
    def prior(self) -> Prior:
        """What is learned."""

    @property
    def channel(self) -> Channel:
        """What is reported."""

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that define the model, by name, as plain numbers and strings."""

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Sample ratios at which estimators other than the Bayes-optimal one recover perfectly, by name."""

    def at_size(self, d: int) -> FiniteSize[Model]:
        """The model at token dimension ``d``.

        Raises:
            IncompatibleError: the model is a limit without data.
        """


def counting_threshold(model: Model) -> float:
    """Sample ratio at which noiseless labels are as many as the unknowns; infinite where labels never fix the field.

    Equation :eq:`counting` of the documentation.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> counting_threshold(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        0.75
    """
    rank = model.channel.rank
    return model.prior.degrees * model.prior.dimension / rank if rank > 0 else np.inf


def is_ratio(value: object) -> bool:
    """True for a number in the range of ratios for which the theory keeps its digits."""
    return is_number(value) and bool(SMALLEST <= value <= LARGEST)  # type: ignore[operator]


def no_data(limit: str, remedy: str) -> IncompatibleError:
    """The error of a model that is a limit of infinite or vanishing ratios, and has nothing to be drawn from."""
    return IncompatibleError(f"{limit} is a limit without data: {remedy}")


def require_teacher(sizes: dict[str, tuple[float, object]], shape: tuple[int, int], width: int) -> None:
    """Raise if a signal of this shape and its factors would not fit into memory; the parameter of most is to blame.

    Args:
        sizes: what sets the size: by the names of parameters, how large they make it, and their values.
        shape: of the signal.
        width: of its factors.

    Example:
        >>> require_teacher({"d": (100, 100), "rho": (50, 0.5)}, (100, 100), 50)
    """
    name = max(sizes, key=lambda name: sizes[name][0])
    memory = 8.0 * (4 * shape[0] * shape[1] + 2 * width * sum(shape))
    require_resources(name, sizes[name][1], memory, "use a smaller d, or smaller ratios", what="a teacher")
