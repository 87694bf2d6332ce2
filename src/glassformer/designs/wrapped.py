"""Base of designs that store or multiply the inputs of another design in another way."""

from __future__ import annotations

from abc import abstractmethod
from typing import Self

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.designs.base import Design


class WrappedDesign(Design):
    """A design that takes all properties that do not depend on the number of samples from another design."""

    instances = 1

    @property
    @abstractmethod
    def _inner(self) -> Design:
        """The other design, of any number of samples."""

    @classmethod
    def sample(cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Self:
        del samples, shape, rng, storage
        raise IncompatibleError(f"{cls.__name__} is made by its constructor")

    @property
    def signal_shape(self) -> tuple[int, int]:
        return self._inner.signal_shape

    @property
    def input_shape(self) -> tuple[int, int]:
        return self._inner.input_shape

    @property
    def several_rows(self) -> bool:
        return bool(self._inner.several_rows)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self._inner.row_shape

    @property
    def sample_ratio(self) -> float:
        return self.samples / self._inner.samples * self._inner.sample_ratio

    @property
    def field_shape(self) -> tuple[int, ...]:
        return (self.samples, *self._inner.field_shape[1:])

    @property
    def metric(self) -> float:
        return float(self._inner.metric)

    @property
    def damping(self) -> float:
        return float(self._inner.damping)
