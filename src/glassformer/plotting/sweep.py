"""The records of a sweep as a picture."""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray
from numpy.typing import NDArray

from glassformer.core.errors import ParameterError
from glassformer.core.results import error_column
from glassformer.core.status import Status
from glassformer.plotting.curves import Branch, draw_curve, draw_runs, mark_unsettled
from glassformer.plotting.plots import name_runs
from glassformer.plotting.style import Picture, canvas, colors, error_label, label_alpha, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType

# Most curves that have an entry in the legend each (a convention); of more, evenly chosen ones have an entry.
_ENTRIES = 12


def plot(found: xarray.Dataset, path: Path | Picture, quantity: str | None = None) -> None:
    """Draw one quantity over ``alpha``, or without it over the longest axis, one curve per point of the other axes.

    Trajectories are drawn over their iterations.

    Runs of several seeds are drawn as their means with standard errors, together with the theory of their size.

    Args:
        found: the result of :meth:`~glassformer.Sweep.collect`.
        path: the picture, in the format of its ending.
        quantity: a variable of one number per point; by default ``error``, if there is one.

    Raises:
        ParameterError: there is no such variable.
    """
    names = [name for name in found.data_vars if not {"row", "column"} & set(found[name].dims)]
    drawable = [str(name) for name in names if np.issubdtype(found[name].dtype, np.number)]
    chosen = quantity or ("error" if "error" in drawable else drawable[0])
    if chosen not in drawable:
        raise ParameterError("quantity", chosen, f"one of {', '.join(drawable)}")
    points = _mean_over_seeds(_points(found, chosen))
    dims = points["value"].dims
    named = {name for name in dims if points[name].dtype.kind not in "fi"}
    first = [name for name in ("iteration", "alpha") if name in dims]
    axis = first[0] if first else max(dims, key=lambda name: (name not in named, points.sizes[name]))
    others = [name for name in dims if name != axis]
    words = points[axis].to_numpy()
    if axis in named:
        # Values that are no numbers are drawn one beside the other, in their order.
        points, found = (one.assign_coords({axis: np.arange(len(words))}) for one in (points, found))
    curves = points.stack(curve=others) if others else points.expand_dims("curve")
    runs, count = found.attrs["verb"] == "simulate", curves.sizes["curve"]
    with canvas(path) as (axes,):
        for k, color in enumerate(colors(count)):
            curve = curves.isel(curve=k)
            values = {name: curve[name].item() for name in others}
            label = ", ".join(f"{n} = {one}" if n in named else f"{n} = {one:g}" for n, one in values.items())
            _draw(axes, curve, axis, runs, color, label if k % -(-count // _ENTRIES) == 0 else None, axis in named)
        places = xarray.broadcast(found[axis], curves["value"])[0].transpose(*curves["value"].dims)
        at, value, status = (part.to_numpy().ravel() for part in (places, curves["value"], curves["status"]))
        mark_unsettled(axes, at, value, status.tolist())
        unit = str(found[axis].attrs.get("units", ""))
        axes.set_xlabel(label_alpha(unit) if axis == "alpha" else f"{axis} ({unit})" if unit else str(axis))
        if axis in named:
            axes.set_xticks(range(len(words)), words.tolist())
        axes.set_ylabel(error_label(unit) if chosen == "error" else chosen.replace("_", " "))
        if "error" in chosen:
            axes.set_ylim(bottom=0)
        axes.set_title(title_of(found.attrs["model"], found.attrs))
        if runs:
            name_runs(axes, found.sizes.get("seed", 1), found.attrs.get("d"))
            if "theory" in curves and axis == "alpha" and np.isfinite(curves["theory"]).any():
                axes.plot([], [], color="0.5", label="theory", **_theory_look(curves.sizes["alpha"]))
        if axes.get_legend_handles_labels()[0]:
            axes.legend()


def _theory_look(points: int) -> dict[str, Any]:
    """Return the look of theory: a line, or squares with a dotted line as a guide to the eye for few points."""
    return {"lw": 1.0} if points >= 10 else {"lw": 0.8, "ls": ":", "marker": "s", "mfc": "none", "ms": 5}


def _points(found: xarray.Dataset, chosen: str) -> xarray.Dataset:
    """Return one quantity as ``value``, with its error bar, status, branch and theory."""
    value = found[chosen]
    # The error estimate of a threshold has the whole name of the threshold.
    names = [error_column(chosen, "standard_error"), error_column(chosen), f"{chosen}_error_estimate"]
    error = next((found[name] for name in names if name in found and name != chosen), xarray.full_like(value, np.nan))
    # With two fixed points, the error is that of the informed one.
    two = chosen != "algorithmic_error" and "algorithmic_error" in found
    lower = found["error"] != found["algorithmic_error"] if two else xarray.zeros_like(found["status"], dtype=bool)
    # A trajectory has one status for all its iterations.
    status, lower = (one.broadcast_like(value) for one in (found["status"], lower))
    points = {"value": value, "error": error, "status": status, "lower": lower}
    theory = error_column(chosen, "theory")
    return xarray.Dataset(points | ({"theory": found[theory]} if theory in found else {}))


def _mean_over_seeds(points: xarray.Dataset) -> xarray.Dataset:
    """Return means of the runs with their standard errors, and the first status that is not ``converged``."""
    if "seed" not in points.dims:
        return points
    mean = points.drop_vars("status").mean("seed")
    error = xarray.full_like(mean["value"], np.nan)
    if points.sizes["seed"] > 1:
        error = points["value"].std("seed", ddof=1) / np.sqrt(points["value"].notnull().sum("seed"))

    def worst(statuses: NDArray[np.object_]) -> NDArray[np.object_]:
        return np.array(next((one for one in statuses if one != str(Status.CONVERGED)), str(Status.CONVERGED)), object)

    status = points["status"].reduce(lambda values, axis: np.apply_along_axis(worst, axis, values), "seed")
    return mean.assign(error=error, status=status, lower=points["lower"].any("seed"))


def _draw(
    axes: Axes,
    curve: xarray.Dataset,
    axis: Hashable,
    runs: bool,
    color: ColorType,
    label: str | None,
    separate: bool,
) -> None:
    """Draw one curve. Means of runs and separate points are not joined, which would suggest values between them."""
    x, value, error = (curve[name].to_numpy().astype(float) for name in (axis, "value", "error"))
    if runs or separate:
        if "theory" in curve:
            axes.plot(x, curve["theory"].to_numpy(), color=color, **_theory_look(len(x)))
        draw_runs(axes, x, value, error, color=color, label=label, ms=4)
    else:
        # The direction in which a branch ends is known for the sample ratio only.
        two = (curve["status"] == str(Status.BISTABLE)).to_numpy() & (axis == "alpha")
        draw_curve(axes, x, value, error, Branch(two, curve["lower"].to_numpy()), marker=".", color=color, label=label)
