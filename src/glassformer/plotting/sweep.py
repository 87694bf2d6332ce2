"""The records of a sweep as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import xarray

from glassformer.core.errors import ParameterError
from glassformer.core.solution import Status
from glassformer.plotting.curves import Branch, draw_curve, draw_runs, mark_unsettled
from glassformer.plotting.style import Picture, canvas, colors, error_label, label_alpha
from glassformer.plotting.titles import title_of


def plot(found: xarray.Dataset, path: Path | Picture, quantity: str | None = None) -> None:
    """Draw one quantity over ``alpha``, or else over the longest axis, one curve per point of the others.

    Runs of several seeds are drawn as their means with standard errors, beside the theory of their size.

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
    points = _mean_over_seeds(_points(found, chosen))
    dims = points["value"].dims
    axis = "alpha" if "alpha" in dims else max(dims, key=lambda name: points.sizes[name])
    others = [name for name in dims if name != axis]
    curves = points.stack(curve=others) if others else points.expand_dims("curve")
    runs = found.attrs["compute"] == "simulate"
    with canvas(path) as (axes,):
        for k, color in enumerate(colors(curves.sizes["curve"])):
            curve = curves.isel(curve=k)
            label = ", ".join(f"{name} = {curve[name].item():g}" for name in others if curve[name].dtype.kind in "fi")
            _draw(axes, curve, axis, runs, color, label or None)
        places = xarray.broadcast(found[axis], curves["value"])[0].transpose(*curves["value"].dims)
        at, value, status = (part.to_numpy().ravel() for part in (places, curves["value"], curves["status"]))
        mark_unsettled(axes, at, value, status.tolist())
        unit = str(found[axis].attrs.get("units", ""))
        axes.set_xlabel(label_alpha(unit) if unit else str(axis))
        axes.set_ylabel(error_label(unit) if chosen == "error" else chosen.replace("_", " "))
        if "error" in chosen:
            axes.set_ylim(bottom=0)
        axes.set_title(title_of(found.attrs["model"], found.attrs), fontsize=11)
        if runs:
            _tell_runs_from_theory(axes, found, curves)
        if axes.get_legend_handles_labels()[0] and curves.sizes["curve"] <= 12:
            axes.legend()


def _tell_runs_from_theory(axes: Any, found: xarray.Dataset, curves: xarray.Dataset) -> None:
    """What marks and lines stand for."""
    none, count = np.zeros(0), found.sizes.get("seed", 1)
    size = f", $d = {found.attrs['d']}$" if "d" in found.attrs else ""
    label = ("1 run" if count == 1 else f"mean of {count} runs") + size
    draw_runs(axes, none, none, none, color="0.5", ms=4, label=label)
    if "theory" in curves and "alpha" in curves.sizes and np.isfinite(curves["theory"]).any():
        axes.plot(none, none, color="0.5", label="theory", **_theory_look(curves.sizes["alpha"]))


def _theory_look(points: int) -> dict[str, Any]:
    """A line; few points are no curve, and their line only leads the eye."""
    return {"lw": 1.0} if points >= 10 else {"lw": 0.8, "ls": ":", "marker": "s", "mfc": "none", "ms": 5}


def _points(found: xarray.Dataset, chosen: str) -> xarray.Dataset:
    """One quantity as ``value``, with its error bar ``blur``, its ``status`` and its branch."""
    value = found[chosen]
    others = [chosen.replace("error", "standard_error"), f"{chosen}_error_estimate"]
    own = {"error": ["standard_error", "error_estimate"]}.get(chosen, others)
    blur = next((found[name] for name in own if name in found and name != chosen), xarray.full_like(value, np.nan))
    points = {"value": value, "blur": blur, "status": found["status"], "lower": _on_lower_branch(found, chosen)}
    theory = chosen.replace("error", "theory")
    return xarray.Dataset(points | ({"theory": found[theory]} if theory in found else {}))


def _mean_over_seeds(points: xarray.Dataset) -> xarray.Dataset:
    """Means of the runs with their standard errors, and the first status that is not good."""
    if "seed" not in points.dims:
        return points
    count = points["value"].notnull().sum("seed")
    mean = points.drop_vars("status").mean("seed")
    deviation = (
        points["value"].std("seed", ddof=1) if points.sizes["seed"] > 1 else xarray.full_like(mean["value"], np.nan)
    )
    status = points["status"].reduce(lambda values, axis: np.apply_along_axis(_worst, axis, values), "seed")
    lower = points["lower"].any("seed")
    return mean.assign(blur=deviation / np.sqrt(count), status=status, lower=lower)


def _worst(statuses: Any) -> Any:
    return np.array(next((one for one in statuses if one != str(Status.CONVERGED)), str(Status.CONVERGED)), object)


def _on_lower_branch(found: xarray.Dataset, chosen: str) -> xarray.DataArray:
    """Where a quantity is that of the informed fixed point, if there are two."""
    if chosen == "algorithmic_error" or "algorithmic_error" not in found:
        return xarray.zeros_like(found["status"], dtype=bool)
    return found["error"] != found["algorithmic_error"]


def _draw(axes: Any, curve: xarray.Dataset, axis: Any, runs: bool, color: Any, label: str | None) -> None:
    """One curve; means of runs are not joined: a line would claim values that were not computed."""
    x, value, blur = (curve[name].to_numpy() for name in (axis, "value", "blur"))
    if runs:
        if "theory" in curve:
            axes.plot(x, curve["theory"].to_numpy(), color=color, **_theory_look(len(x)))
        draw_runs(axes, x, value, blur, color=color, label=label, ms=4)
    else:
        # Only over the sample ratio it is known in which direction which branch ends.
        two = (curve["status"] == str(Status.BISTABLE)).to_numpy() & (axis == "alpha")
        branch = Branch(two, curve["lower"].to_numpy())
        draw_curve(axes, x, value, blur, branch, marker=".", color=color, label=label)
