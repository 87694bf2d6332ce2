"""What the loops need to know of a model of several rows, whose overlaps are matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from glassformer.core.integral import Array
from glassformer.models.base import FiniteSize
from glassformer.models.channels.multi_index.base import MultiIndexChannel
from glassformer.models.priors.matrix import MatrixPrior
from glassformer.models.students.base import Trainable


class MatrixModel(Trainable, ABC):
    """A model of ``P`` rows: the same parts as any other, with matrices where others have numbers."""

    channel: MultiIndexChannel
    """What is reported."""

    followed: ClassVar[tuple[str, ...]] = ("row_error", "cosine", "prediction_error", "plugin_error")
    """What is worth following on the way to an estimate."""

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

    def signal_shape(self, design: Any) -> tuple[int, ...]:
        """Shape of the signal behind a design: rows first."""
        return (self.prior.rows, *design.row_shape)

    def measured(self, estimate: Array, signal: Array, variance: Array | None = None) -> dict[str, Any]:
        """Errors, overlaps and cosines of an estimate, with the signs that make the overlaps largest.

        Args:
            estimate: of the signal, shape (P, ...).
            signal: the true one.
            variance: posterior covariance that the estimate claims, shape (P, P); none by default.
        """
        gram, known = self.prior.gram, self.prior.mean(signal.shape)
        overlap, own, true = gram(estimate, signal), gram(estimate, estimate), gram(signal, signal)
        signs = max(self.channel.symmetries, key=lambda s: float(s @ np.diag(overlap)))
        claimed = np.zeros_like(overlap) if variance is None else variance
        prediction, plugin = self.channel.errors_of(own, overlap, true, claimed)
        aligned = signs[:, None] * overlap
        powers = np.diag(own), np.diag(true)
        rows = powers[0] + powers[1] - 2 * np.diag(aligned)
        return {
            "error": float(np.mean(rows)),
            "prior_error": float(np.mean(np.diag(gram(signal - known, signal - known)))),
            "row_error": rows,
            "overlap": aligned,
            "cosine": np.diag(aligned) / np.sqrt(np.maximum(powers[0] * powers[1], 1e-300)),
            "prediction_error": prediction,
            "plugin_error": plugin,
        }

    @abstractmethod
    def at_size(self, d: int) -> FiniteSize[MatrixModel]:
        """The model at token dimension ``d``."""
