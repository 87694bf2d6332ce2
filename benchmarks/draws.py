"""Draws of a check that are kept in a file, row by row, and the limit of a line through draws at several sizes."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array

# Fewest draws of a size that is extrapolated.
EXTRAPOLATED = 3
# Fewest draws with control variates: with fewer, their coefficients cost more than they bring.
FEWEST = 40

Row = dict[str, str]
Value = tuple[float, float]
"""A number and its standard error."""


class Found(NamedTuple):
    """What is known of a quantity.

    Attributes:
        means: values at every size.
        limit: that of large sizes; None if there are too few draws.
        plain: the limit without control variates and differences; None where there are none.
    """

    means: dict[int, Value]
    limit: Value | None = None
    plain: Value | None = None


def read_rows(path: Path) -> list[Row]:
    """Return the rows of a file, none if it does not exist."""
    if not path.exists():
        return []
    with path.open() as lines:
        return list(csv.DictReader(lines))


def append_row(path: Path, columns: Sequence[str], values: Mapping[str, object]) -> Row:
    """Append a row to a file, which begins with the names of its columns, and return it; values may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {name: _text(values.get(name, np.nan)) for name in columns}
    with path.open("a", newline="") as lines:
        writer = csv.DictWriter(lines, columns, lineterminator="\n")
        if lines.tell() == 0:
            writer.writeheader()
        writer.writerow(row)
    return row


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def fit(d: Array, values: Array, controls: Array, power: float = 1.0) -> Found:
    """Return means at every size after control variates, and the limit of a line in a power of 1/d.

    Deviations of draws and control variates are of order 1/d. Times ``d`` they have one spread and one slope at all
    sizes. The limit needs two sizes of :data:`EXTRAPOLATED` draws; None without them.

    Args:
        d: sizes of all draws.
        values: of all draws.
        controls: control variates of all draws, shape (draws, any).
        power: of 1/d in the difference of the mean from its limit.
    """
    varied = controls[:, np.ptp(controls, axis=0) > 0] if len(d) >= FEWEST else controls[:, :0]
    sizes, scaled = np.unique(d), d[:, None] * varied
    means, errors = _least_squares(np.column_stack([(d[:, None] == sizes) * d[:, None], scaled]), d * values)
    found = {int(size): (mean, error) for size, mean, error in zip(sizes, means, errors, strict=False)}
    several = [size for size in sizes if np.sum(d == size) >= EXTRAPOLATED]
    if len(several) < 2:
        return Found(found)
    columns = np.column_stack([d, d ** (1 - power), scaled])
    limit, plain = (_first(columns[:, :kept], d * values) for kept in (columns.shape[1], 2))
    return Found(found, limit, plain if scaled.shape[1] else None)


def _first(columns: Array, target: Array) -> Value:
    """Return the first coefficient of least squares and its standard error."""
    coefficients, errors = _least_squares(columns, target)
    return float(coefficients[0]), float(errors[0])


def _least_squares(columns: Array, target: Array) -> tuple[Array, Array]:
    """Return coefficients of least squares and their standard errors."""
    inverse = np.linalg.pinv(columns.T @ columns)
    coefficients = inverse @ columns.T @ target
    freedom = max(1, len(target) - columns.shape[1])
    variance = float(np.sum((target - columns @ coefficients) ** 2)) / freedom
    return coefficients, np.sqrt(variance * np.diag(inverse))
