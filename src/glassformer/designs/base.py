"""What a design must provide: the linear map from signals to fields, and back."""

from __future__ import annotations

from abc import ABC, abstractmethod

from glassformer.integral import Array


class Design(ABC):
    r"""Inputs of a batch of instances, and the fields :math:`h = \mathrm{forward}(S)` they make of a signal.

    Fields of a unit-power signal independent of the inputs have unit variance.
    """

    @property
    @abstractmethod
    def instances(self) -> int:
        """Number of instances, each with inputs of its own."""

    @property
    @abstractmethod
    def samples(self) -> int:
        """Number of samples per instance."""

    @property
    @abstractmethod
    def signal_shape(self) -> tuple[int, int]:
        """Shape of one signal."""

    @property
    @abstractmethod
    def sample_ratio(self) -> float:
        r""":math:`\hat q` per unit of :math:`E g^2`: samples per signal entry for independent entries."""

    @abstractmethod
    def forward(self, signal: Array, instance: int) -> Array:
        """Fields of one instance, shape ``(samples,)``, from a signal of ``signal_shape``."""

    @abstractmethod
    def adjoint(self, score: Array, instance: int) -> Array:
        """The transpose of ``forward``: shape ``signal_shape`` from shape ``(samples,)``."""
