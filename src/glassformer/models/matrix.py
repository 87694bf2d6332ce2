"""What the loops need to know of a model of several rows, whose overlaps are matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from glassformer.core.integral import Array
from glassformer.models.base import FiniteSize
from glassformer.models.channels.multi_index.base import MultiIndexChannel
from glassformer.models.priors.matrix import MatrixPrior


class MatrixModel(ABC):
    """A model of ``P`` rows: the same parts as any other, with matrices where others have numbers."""

    channel: MultiIndexChannel
    """What is reported."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name, as the command line spells it."""

    @property
    @abstractmethod
    def prior(self) -> MatrixPrior:
        """What is learned."""

    @property
    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """The parameters that define the model, by name, as plain numbers and strings."""

    @property
    def row_names(self) -> tuple[str, ...]:
        """What the rows are, in messages and plots."""
        return tuple(f"row {k + 1}" for k in range(self.prior.rows))

    @property
    def last_layer(self) -> Array | None:
        """One for the rows of the last layer, zero for others, shape (P,); None where there are no layers."""
        return None

    @abstractmethod
    def at_size(self, d: int) -> FiniteSize[MatrixModel]:
        """The model at token dimension ``d``."""
