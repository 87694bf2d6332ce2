"""Links of one index and one token: scalar channels with fields in the shape of multi-index models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.base import Inference
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.link.integrated import IntegratedChannel
from glassformer.channels.link.label_law import LabelLawChannel
from glassformer.channels.link.label_noise import LabelNoiseChannel
from glassformer.channels.link.tracing import has_slope, trace_error
from glassformer.channels.scalar.base import ScalarInference
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


class SingleIndexChannel(IntegratedChannel):
    """Base of these channels: fields of shape (n, 1, 1), and errors on labels with standard errors."""

    function: Any
    """A :class:`~glassformer.channels.link.contract.Link`."""

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per field, from fields of shape (n,) or, as designs of several rows give them, (n, 1, 1)."""
        return super().sample(fields.reshape(len(fields)), rng)  # type: ignore[safe-super]

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        function: Callable[[Any], Any] = self.function.function
        if trace_error(function, (1, 1)) is not None or not has_slope(function, (1, 1)):
            raise IncompatibleError("needs a label of single projections that JAX can differentiate")
        return function

    @property
    def inference(self) -> Inference:
        return SingleIndexInference(self)


@dataclass(frozen=True, eq=False)
class SingleIndexInference(ScalarInference):
    """Inference with standard errors of the errors on labels."""

    channel: IntegratedChannel

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        del last_layer, decisions
        found = {"label_noise": np.full(len(variance), self.channel.labels.noise)}
        for name, integral in self.channel.label_integrals(variance[:, 0, 0]).items():
            found[name], found[name.replace("error", "standard_error")] = integral
        return found


class SingleIndexLink(SingleIndexChannel, LinkChannel):
    """A link with Gaussian noise, or none."""


class SingleIndexLabelNoise(SingleIndexChannel, LabelNoiseChannel):
    """A link of few values with label noise given by a confusion matrix."""


class SingleIndexLabelLaw(SingleIndexChannel, LabelLawChannel):
    """Labels of any law around a link."""
