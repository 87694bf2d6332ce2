"""Sequences of tokens with independent entries, seen through one linear functional each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.designs.base import Design
from glassformer.errors import DataError, ParameterError
from glassformer.integral import Array

STORAGE: dict[str, Any] = {"float64": np.float64, "float32": np.float32}


@dataclass(frozen=True)
class DenseDesign(Design):
    r"""Inputs :math:`X_\mu \in \mathbb R^{L\times d}` with :math:`h_\mu = \mathrm{Tr}(X_\mu S^T)/\sqrt{dL}`.

    The array is kept as it comes, never copied. Stored in single precision it takes half the memory and half the
    time of a matrix product; scores and estimates stay in double precision, and fields carry a relative error of
    about 1e-7.

    Args:
        inputs: shape ``(instances, samples, L, d)`` or, for one instance, ``(samples, L, d)``; float64 or float32.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.

    Example:
        >>> design = DenseDesign(np.ones((3, 2, 2)))
        >>> design.forward(np.ones((2, 2)), 0)
        array([2., 2., 2.])
        >>> design.sample_ratio
        0.75
    """

    inputs: NDArray[Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "inputs", checked_inputs(self.inputs, "(samples, L, d)"))

    @classmethod
    def sample(
        cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64"
    ) -> DenseDesign:
        """One instance with standard normal entries. A longer draw from the same generator state begins alike."""
        if storage not in STORAGE:
            raise ParameterError("storage", storage, " or ".join(STORAGE))
        return cls(rng.standard_normal((samples, *shape), dtype=STORAGE[storage])[None])

    def first(self, samples: int) -> DenseDesign:
        """The design of the first samples alone, sharing memory with this one."""
        return DenseDesign(self.inputs[:, :samples])

    @property
    def instances(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def samples(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def signal_shape(self) -> tuple[int, int]:
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])

    @property
    def sample_ratio(self) -> float:
        return self.samples / self._size

    @property
    def _size(self) -> int:
        return self.signal_shape[0] * self.signal_shape[1]

    def forward(self, signal: Array, instance: int) -> Array:
        matrix = self.inputs[instance].reshape(self.samples, self._size)
        product = matrix @ signal.ravel().astype(matrix.dtype, copy=False)
        return product.astype(np.float64, copy=False) / np.sqrt(self._size)

    def adjoint(self, score: Array, instance: int) -> Array:
        matrix = self.inputs[instance].reshape(self.samples, self._size)
        product = score.astype(matrix.dtype, copy=False) @ matrix
        return product.reshape(self.signal_shape).astype(np.float64, copy=False) / np.sqrt(self._size)


def checked_inputs(inputs: NDArray[Any], shape: str) -> NDArray[Any]:
    """Inputs with an axis of instances in front; an error unless they are a finite array of four dimensions."""
    kind = getattr(inputs, "dtype", type(inputs).__name__)
    if kind not in (np.float64, np.float32):
        raise DataError("X", f"<{kind}>", "a NumPy array of type float64 or float32")
    batch = inputs[None] if inputs.ndim == 3 else inputs
    if batch.ndim != 4 or 0 in batch.shape:
        raise DataError("X", inputs.shape, f"a shape {shape} or (instances, {shape[1:]}, no axis empty")
    # A sum is finite exactly where all terms are (short of overflow), and needs no array of flags.
    with np.errstate(over="ignore", invalid="ignore"):
        for instance, block in enumerate(batch):
            if not np.isfinite(block.sum(dtype=np.float64)):
                raise DataError("X", f"<instance {instance}>", "finite entries", "remove or repair the samples")
    return batch
