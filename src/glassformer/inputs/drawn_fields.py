"""Fields along the rows of the teacher that a function draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array

# Samples that are drawn to check a sampler.
_TRIED = 64


@dataclass(frozen=True)
class DrawnFields:
    """The law of the fields of a sampler, for given numbers of rows and tokens.

    Attributes:
        sampler: function of a generator and the numbers of samples, rows and tokens to fields, shape (samples, P, L).
        rows: ``P``.
        tokens: ``L``.
        label: name in messages.
        symmetric: whether permutations and sign changes of the rows that leave labels unchanged leave the law as it is.

    Raises:
        ParameterError: drawn fields have another shape, are not finite, or differ for equal generators.

    Example:
        >>> uniform = DrawnFields(lambda rng, *shape: rng.uniform(-1, 1, shape), rows=1, tokens=2, label="uniform")
        >>> uniform.draw(np.random.default_rng(0), 5).shape
        (5, 1, 2)
    """

    sampler: Callable[[np.random.Generator, int, int, int], Array]
    rows: int
    tokens: int
    label: str
    symmetric: bool = False

    def __post_init__(self) -> None:
        first, second = (self.draw(np.random.default_rng(0), _TRIED) for _ in range(2))
        if not np.array_equal(first, second):
            raise ParameterError("inputs", self.label, "a sampler that draws from its argument rng alone")

    def draw(self, rng: np.random.Generator, samples: int) -> Array:
        """Return the fields of independent samples, shape (samples, P, L)."""
        drawn, shape = np.asarray(self.sampler(rng, samples, self.rows, self.tokens)), (samples, self.rows, self.tokens)
        allowed = f"a sampler of finite numbers of shape {shape} for {samples} samples"
        if drawn.shape != shape or drawn.dtype.kind not in "biuf":
            raise ParameterError("inputs", f"{self.label}, which draws shape {drawn.shape}", allowed)
        if not np.all(np.isfinite(drawn)):
            raise ParameterError("inputs", f"{self.label}, which draws NaN or infinite numbers", allowed)
        return drawn.astype(float)
