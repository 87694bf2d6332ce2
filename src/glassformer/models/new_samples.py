"""New samples of a model, on which labels are predicted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.label_errors import NewSamples
from glassformer.core.estimate import Array


@dataclass(frozen=True)
class Draws:
    """How many new samples one estimate is judged on."""

    samples: int = 4096


_POLICY = Draws()


@dataclass(frozen=True)
class NewInputs:
    """Inputs that nothing has been learned from, the same ones for every estimate.

    Attributes:
        design: of the model, at its size.
        shape: of the input of one sample.
        seed: of the inputs.

    Example:
        >>> from glassformer import AttentionIndexed
        >>> size = AttentionIndexed(rho=0.5, tokens=2, channel="linear").at_size(10)
        >>> teacher = size.model.prior.sample((10, 10), np.random.default_rng(0))
        >>> found = NewInputs(size.design, size.input_shape, (0, 1)).samples(teacher[None], teacher[None])
        >>> found.fields.shape, bool(np.all(found.fields == found.estimated))
        ((4096, 1, 3), True)
    """

    design: Any
    shape: tuple[int, int]
    seed: tuple[int, ...]

    def samples(self, estimate: Array, truth: Array) -> NewSamples:
        """Fields that an estimate and the truth, shape ``(P, *row_shape)``, have on them."""
        rng = np.random.default_rng(self.seed)
        signals = np.stack([estimate, truth])
        estimated, fields = self.design.new_fields(signals, self.shape, _POLICY.samples, rng)
        deviations = rng.standard_normal((len(fields), 2, *fields.shape[1:]))
        return NewSamples(estimated, fields, deviations)
