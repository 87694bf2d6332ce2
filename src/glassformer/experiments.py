"""What every simulation shares: its table, whole numbers of samples, memory that must suffice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.errors import ParameterError
from glassformer.integral import Array
from glassformer.models import FiniteSize
from glassformer.results import Table, plain

ALGORITHMS = ("gamp",)


@dataclass(frozen=True)
class Simulation(Table):
    """A :class:`~glassformer.results.Table` that also keeps every single run, in ``instances[point][instance]``."""

    instances: Sequence[Sequence[Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary per sample ratio, with the list of its runs."""
        rows = super().rows()
        for row, runs in zip(rows, self.instances, strict=True):
            row["instances"] = [plain(vars(run)) for run in runs]
        return rows


def standard_error(samples: Array) -> Array:
    """Standard error of the mean over the last axis; NaN for a single sample."""
    count = samples.shape[1]
    if count == 1:
        return np.full(len(samples), np.nan)
    return np.asarray(np.std(samples, axis=1, ddof=1) / np.sqrt(count))


def whole_samples(alpha: Array, size: FiniteSize[Any], d: int) -> NDArray[np.int64]:
    """Whole numbers of samples, at least one each."""
    for value in alpha[np.rint(alpha * size.unit) < 1]:
        raise ParameterError("alpha", float(value), f"at least one sample at d = {d}, so alpha >= {1 / size.unit:.3g}")
    return np.rint(alpha * size.unit).astype(np.int64)


def require_whole_numbers(d: int, instances: int, seed: int, algorithm: str) -> None:
    """Raise unless sizes and seed are whole numbers and the algorithm is known."""
    for name, value, low in (("d", d, 2), ("instances", instances, 1), ("seed", seed, 0)):
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < low:
            raise ParameterError(name, value, f"an integer >= {low}")
    if algorithm not in ALGORITHMS:
        raise ParameterError("algorithm", algorithm, f"one of {', '.join(ALGORITHMS)}")


def require_memory(samples: int, shape: tuple[int, int], storage: str) -> None:
    """Raise if the inputs would not fit into the memory that is available."""
    size = samples * shape[0] * shape[1] * (4 if storage == "float32" else 8)
    try:
        available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return
    if size > 0.9 * available:
        raise ParameterError(
            "d",
            shape[1],
            f"inputs that fit into memory ({size / 1e9:.1f} GB needed, {available / 1e9:.1f} GB available)",
            "use a smaller d or alpha, or storage float32",
        )
