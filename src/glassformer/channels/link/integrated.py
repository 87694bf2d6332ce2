"""Base of the channels of one field whose errors on labels are integrals."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from glassformer.channels.scalar.base import ScalarChannel
from glassformer.core.estimate import Array, Estimate


class IntegratedChannel(ScalarChannel):
    """A channel whose errors on new labels are integrals, with error estimates."""

    @abstractmethod
    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        """Return the integrals among the errors of :meth:`label_error`."""

    def label_error(self, variance: Array) -> dict[str, Array]:
        errors = {name: estimate.value for name, estimate in self.label_integrals(variance).items()}
        return {**errors, "label_noise": np.full(np.shape(variance), self.labels.noise)}
