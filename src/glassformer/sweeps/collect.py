"""The records of a sweep as one labelled data set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import DataError
from glassformer.core.results import scalar_columns
from glassformer.sweeps.store import Store

if TYPE_CHECKING:
    import pandas
    import xarray

# Dimensions of the values of each record, after the axes of the sweep.
_INNER = ("row", "column")


def collect(store: str | Path) -> xarray.Dataset:
    """Return all records of the sweep last run in a store, over its axes; see :meth:`~glassformer.Sweep.collect`."""
    require_arguments(collect, locals())
    import xarray

    source = Store.existing(store)
    sweep, keys = source.read_sweep()
    # Axes of numbers stay numbers, all other values are given by name.
    axes = {
        name: values if all(type(value) in (int, float) for value in values) else [str(value) for value in values]
        for name, values in sweep["axes"].items()
    }
    every = source.read()
    records = [every.get(key) for key in keys]
    # The largest shape of each value that occurs.
    inner = ("iteration", *_INNER) if sweep["verb"] == "trajectory" else _INNER
    sizes: dict[str, tuple[int, ...]] = {}
    for record in records:
        for name, value in record.values.items() if record else ():
            sizes[name] = max(sizes.get(name, ()), np.shape(value), key=lambda size: (len(size), size))
    if not sizes:
        raise DataError("store", "<no values>", "at least one record with values", "see `sweep status` for what failed")
    shape = tuple(len(values) for values in axes.values())
    variables: dict[str, Any] = {}
    for name, size in sizes.items():
        column = np.full((len(records), *size), np.nan)
        for k, record in enumerate(records):
            value = record.values.get(name) if record else None
            if value is not None:
                part = np.array(value, dtype=float)
                places: Any = (k, *map(slice, part.shape))
                column[places] = part
        variables[name] = ((*axes, *inner[: len(size)]), column.reshape(shape + size))
    for name, missing in (("status", "missing"), ("message", "")):
        texts = np.array([getattr(record, name) if record else missing for record in records], dtype=object)
        variables[name] = (tuple(axes), texts.reshape(shape))
    versions = ", ".join(sorted({record.version for record in records if record}))
    steps = {"iteration": np.arange(max(size[0] for size in sizes.values() if size))} if "iteration" in inner else {}
    found = xarray.Dataset(variables, coords={**axes, **steps}, attrs=_attributes(sweep, versions))
    for name in axes:
        if name in sweep["units"]:
            found[name].attrs["units"] = sweep["units"][name]
    return found


def to_frame(found: xarray.Dataset) -> pandas.DataFrame:
    """Return one line per point, for trajectories per iteration.

    Entries of vectors and matrices are columns, numbered from 1.
    """
    import pandas

    axes = [name for name in found.dims if name not in _INNER]
    flat = found.stack(point=axes).transpose("point", ...) if axes else found.expand_dims("point")
    # Numbers before vectors and matrices, whose entries take many columns.
    names = sorted(map(str, flat.data_vars), key=lambda name: flat[name].ndim > 1)
    columns = {label: part for name in names for label, part in scalar_columns(name, flat[name].to_numpy()).items()}
    return pandas.DataFrame({**{str(name): flat[name].to_numpy() for name in axes}, **columns})


def _attributes(sweep: dict[str, Any], version: str) -> dict[str, Any]:
    """Return all values that are the same at all points, in types that files of data sets have."""
    learner = sweep["learner"] if isinstance(sweep["learner"], dict) else {}
    fixed = {**learner, **sweep["options"], **sweep["accuracy"], **sweep["parameters"], **sweep["runs"]}
    fixed["learner"] = fixed.pop("name", None)
    known = {
        name: value if isinstance(value, int | float | str) and not isinstance(value, bool) else str(value)
        for name, value in fixed.items()
        if value is not None and name not in sweep["axes"]
    }
    return {"model": sweep["model"], "verb": sweep["verb"], "glassformer": version, **known}
