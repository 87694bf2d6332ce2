"""What the estimate of a model of one row is measured by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.models.students.base import Trainable

if TYPE_CHECKING:
    from glassformer.core.integral import Array


class OneRow(Trainable):
    """A model whose overlap is a number."""

    prior: Any
    channel: Any
    followed: ClassVar[tuple[str, ...]] = ("error",)
    """What is worth following on the way to an estimate."""

    def signal_shape(self, design: Any) -> tuple[int, ...]:
        """Shape of the signal behind a design."""
        shape: tuple[int, ...] = design.signal_shape
        return shape

    def measured(self, estimate: Array, signal: Array, variance: Any = None) -> dict[str, Any]:
        """Errors of an estimate, up to a global sign where labels are blind to it.

        Args:
            estimate: of the signal.
            signal: the true one.
            variance: posterior variance that the estimate claims; ignored.
        """
        del variance
        error = self.prior.power(estimate - signal)
        if self.channel.even:
            error = min(error, self.prior.power(estimate + signal))
        return {"error": error, "prior_error": self.prior.power(signal - self.prior.mean(signal.shape))}
