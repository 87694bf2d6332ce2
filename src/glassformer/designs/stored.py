"""Base of designs whose inputs are one array in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.frozen import set_fields
from glassformer.designs.base import Design
from glassformer.numerics.decompositions import square_root

_STORAGE: dict[str, Any] = {"float64": np.float64, "float32": np.float32}
# Numbers of a temporary array that a core's cache holds.
_CACHED = 1 << 16


@dataclass(frozen=True)
class StoredDesign(Design):
    """Inputs of shape ``(instances, samples, ...)``, two axes per sample, float64 or float32, never copied.

    Raises:
        DataError: wrong number of dimensions, an empty axis, another type, or values that are not finite.
    """

    inputs: NDArray[Any]

    revealed: ClassVar[Literal[False]] = False
    axes: ClassVar[str]
    """Names of the axes of one instance, as messages print them."""

    def __post_init__(self) -> None:
        inputs = self.inputs
        kind = getattr(inputs, "dtype", type(inputs).__name__)
        if kind not in (np.float64, np.float32):
            raise DataError("X", f"<{kind}>", "a NumPy array of type float64 or float32")
        if np.ma.is_masked(inputs):
            raise DataError("X", "<a masked array>", "entries that are all known", "fill the masked ones")
        batch = inputs[None] if inputs.ndim == 3 else inputs
        if batch.ndim != 4 or 0 in batch.shape:
            raise DataError("X", inputs.shape, f"a shape ({self.axes}) or (instances, {self.axes}), no axis empty")
        # A sum is finite exactly where all terms are (short of overflow), and needs no array of flags.
        with np.errstate(over="ignore", invalid="ignore"):
            for instance, block in enumerate(batch):
                if not np.isfinite(block.sum(dtype=np.float64)):
                    raise DataError("X", f"<instance {instance}>", "finite entries", "remove or repair the samples")
        set_fields(self, inputs=batch)

    @classmethod
    def sample(cls, samples: int, shape: tuple[int, int], rng: np.random.Generator, storage: str = "float64") -> Self:
        """Return one instance with standard normal entries.

        A longer draw from the same generator state begins alike.
        """
        return cls(rng.standard_normal((samples, *shape), dtype=type_of_storage(storage))[None])

    def first(self, samples: int) -> Self:
        """Return the design of the first samples alone, sharing memory with this one."""
        return type(self)(self.inputs[:, :samples])

    def rows(self, where: NDArray[Any] | slice) -> Self:
        """Return the design of some samples of the first instance, by their indices or flags."""
        return replace(self, inputs=self.inputs[0][where])

    @property
    def instances(self) -> int:
        return int(self.inputs.shape[0])

    @property
    def samples(self) -> int:
        return int(self.inputs.shape[1])

    @property
    def input_shape(self) -> tuple[int, int]:
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])

    def parts(self, instance: int = 0) -> Iterator[Array]:
        yield self.inputs[instance]

    @property
    def inputs_per_sample(self) -> int:
        """Numbers of one sample's input."""
        return int(np.prod(self.inputs.shape[2:]))

    def _blocks(self, tokens: int) -> list[slice]:
        """Return blocks of samples of ``tokens`` rows each: they stay in the cache, or have as many rows as columns.

        With fewer rows, the matrix that they are multiplied with would be read too often.
        """
        d = int(self.inputs.shape[3])
        size = max(1, max(d, _CACHED // d) // tokens)
        return [slice(start, start + size) for start in range(0, self.samples, size)]


class SquareDesign(StoredDesign):
    """Base of designs whose fields are quadratic in the tokens: signals are square matrices of shape (d, d)."""

    @property
    def signal_shape(self) -> tuple[int, int]:
        d = int(self.inputs.shape[3])
        return d, d


def type_of_storage(storage: str) -> Any:
    """Return the type of the numbers of a storage.

    Raises:
        ParameterError: it is neither float64 nor float32.
    """
    if storage not in _STORAGE:
        raise ParameterError("storage", storage, " or ".join(_STORAGE))
    return _STORAGE[storage]


def normal_fields(signals: Array, columns: int, samples: int, rng: np.random.Generator) -> Array:
    """Return fields that are sums over independent inputs.

    They are normal, with the inner products of the signals as covariance.

    Args:
        signals: shape ``(signals, P, *row_shape)``.
        columns: independent fields of each row.
        samples: how many.
        rng: what they are drawn from.

    Returns:
        Shape (signals, samples, P, columns).
    """
    flat = signals.reshape(signals.shape[0] * signals.shape[1], -1)
    root = square_root(flat @ flat.T / flat.shape[1])
    fields = root @ rng.standard_normal((samples, len(flat), columns))
    return np.moveaxis(fields.reshape(samples, *signals.shape[:2], columns), 1, 0)
