"""The records of a sweep as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray

from glassformer.core.errors import ParameterError
from glassformer.interface.figures.curves import draw_curve, draw_runs, mark_unsettled
from glassformer.interface.figures.style import canvas, colors


def plot(found: xarray.Dataset, path: Path, quantity: str | None = None) -> None:
    """Draw one quantity over ``alpha``, or else over the longest axis, one curve per point of the others.

    Args:
        found: what :func:`collect` returns.
        path: the picture, in the format of its ending.
        quantity: a variable of one number per point; ``error`` if there is one.

    Raises:
        ParameterError: there is no such variable.
    """
    names = [name for name in found.data_vars if not {"row", "column"} & set(found[name].dims)]
    drawable = [str(name) for name in names if np.issubdtype(found[name].dtype, np.number)]
    chosen = quantity or ("error" if "error" in drawable else drawable[0])
    if chosen not in drawable:
        raise ParameterError("quantity", chosen, f"one of {', '.join(drawable)}")
    points = _points(found, chosen)
    dims = points["value"].dims
    axis = "alpha" if "alpha" in dims else max(dims, key=lambda name: points.sizes[name])
    others = [name for name in dims if name != axis]
    curves = points.stack(curve=others) if others else points.expand_dims("curve")
    with canvas(path) as (axes,):
        for k, color in enumerate(colors(curves.sizes["curve"])):
            curve = curves.isel(curve=k)
            label = ", ".join(f"{name} = {curve[name].item():g}" for name in others if curve[name].dtype.kind in "fi")
            _draw(axes, curve, found[axis].to_numpy(), found.attrs["compute"] == "simulate", color, label or None)
        places = xarray.broadcast(found[axis], curves["value"])[0].transpose(*curves["value"].dims)
        at, value, status = (part.to_numpy().ravel() for part in (places, curves["value"], curves["status"]))
        mark_unsettled(axes, at, value, status.tolist())
        axes.set_xlabel(f"{axis} = {found[axis].attrs['units']}" if "units" in found[axis].attrs else str(axis))
        axes.set_ylabel(chosen.replace("_", " "))
        if others and curves.sizes["curve"] <= 12:
            axes.legend()


def _points(found: xarray.Dataset, chosen: str) -> xarray.Dataset:
    """One quantity as ``value``, with its error bar ``blur`` and its ``status``."""
    value = found[chosen]
    own = {"error": ["standard_error", "error_estimate"]}.get(chosen, [chosen.replace("error", "standard_error")])
    blur = next((found[name] for name in own if name in found and name != chosen), xarray.full_like(value, np.nan))
    return xarray.Dataset({"value": value, "blur": blur, "status": found["status"]})


def _draw(axes: Any, curve: xarray.Dataset, x: Any, runs: bool, color: Any, label: str | None) -> None:
    """One curve; means of runs are not joined: a line would claim values that were not computed."""
    value, blur = curve["value"].to_numpy(), curve["blur"].to_numpy()
    if runs:
        draw_runs(axes, x, value, blur, color=color, label=label, ms=4)
    else:
        draw_curve(axes, x, value, blur, marker=".", color=color, label=label)
