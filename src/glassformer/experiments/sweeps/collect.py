"""The records of a sweep as one labelled data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import DataError
from glassformer.core.results import scalar_columns
from glassformer.experiments.sweeps.store import Record, Store

if TYPE_CHECKING:
    import pandas
    import xarray


def collect(store: str | Path) -> xarray.Dataset:
    """All records of the sweep last run in a store, over its axes.

    Points without a record, and values that a record does not have, are NaN; ``status`` says why. Attributes name the
    model, its fixed parameters, the computation and the versions of the package that made the records.

    Raises:
        DataError: there is no sweep, or no record with values.

    Example:
        >>> import tempfile
        >>> from glassformer.experiments.sweeps.plan import Sweep
        >>> from glassformer.experiments.sweeps.run import run_sweep
        >>> folder = tempfile.mkdtemp()
        >>> _ = run_sweep(Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.2, 0.4, 0.6]}), folder)
        >>> dict(collect(folder).sizes)
        {'rho': 2, 'alpha': 3}
    """
    require_arguments(collect, locals())
    import xarray

    kept = Store.existing(store)
    sweep, keys = kept.sweep()
    axes = {name: _coordinate(values) for name, values in sweep["axes"].items()}
    every = kept.read()
    records = [every.get(key) for key in keys]
    shape = tuple(len(values) for values in axes.values())
    variables: dict[str, Any] = {}
    for name, size in _sizes(records).items():
        column = np.array([_value(record, name, size) for record in records]).reshape(shape + size)
        variables[name] = ((*axes, *("row", "column")[: len(size)]), column)
    statuses = np.array([record.status if record else "missing" for record in records], dtype=object)
    variables["status"] = (tuple(axes), statuses.reshape(shape))
    variables["message"] = (tuple(axes), np.array([r.message if r else "" for r in records], object).reshape(shape))
    versions = sorted({record.version for record in records if record})
    found = xarray.Dataset(variables, coords=axes, attrs=_attributes(sweep, ", ".join(versions)))
    for name in axes:
        if name in sweep["units"]:
            found[name].attrs["units"] = sweep["units"][name]
    return found


def to_frame(found: xarray.Dataset) -> pandas.DataFrame:
    """One line per point, vectors and matrices spread over columns with their indices from 1."""
    import pandas

    inner = ("row", "column")
    axes = [name for name in found.dims if name not in inner]
    flat = found.stack(point=axes).transpose("point", ...) if axes else found.expand_dims("point")
    # Numbers before vectors and matrices, whose entries take many columns.
    names = sorted(map(str, flat.data_vars), key=lambda name: flat[name].ndim > 1)
    columns = {label: part for name in names for label, part in scalar_columns(name, flat[name].to_numpy()).items()}
    return pandas.DataFrame({**{str(name): flat[name].to_numpy() for name in axes}, **columns})


def _coordinate(values: list[Any]) -> Any:
    """Numbers as they are, everything else by its name."""
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return values if numbers else [str(value) for value in values]


def _sizes(records: list[Record | None]) -> dict[str, tuple[int, ...]]:
    """Shapes of the values by name, the largest that occurs."""
    sizes: dict[str, tuple[int, ...]] = {}
    for record in records:
        for name, value in record.values.items() if record else ():
            sizes[name] = max(sizes.get(name, ()), np.shape(value), key=lambda size: (len(size), size))
    if not sizes:
        raise DataError("store", "<no values>", "at least one record with values", "see `sweep status` for what failed")
    return sizes


def _value(record: Record | None, name: str, size: tuple[int, ...]) -> Any:
    value = record.values.get(name) if record else None
    filled = np.full(size, np.nan)
    if value is not None:
        found = np.array(value, dtype=float)
        filled[tuple(slice(length) for length in found.shape)] = found
    return filled


def _attributes(sweep: dict[str, Any], version: str) -> dict[str, Any]:
    """What is the same at all points, in types that files of data sets know."""
    fixed = {**sweep["parameters"], **sweep["simulation"], **sweep["settings"]}
    known = {
        name: value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)
        for name, value in fixed.items()
        if value is not None and name not in sweep["axes"]
    }
    return {"model": sweep["model"], "compute": sweep["compute"], "glassformer": version, **known}
