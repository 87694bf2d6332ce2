"""Plots of single results, for ``--plot``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.results import Table
from glassformer.experiments.instances import Simulation
from glassformer.interface.figures.style import canvas, colors, error_label, label_alpha
from glassformer.learners.plan import Plan
from glassformer.theory.free_entropy import Landscape
from glassformer.theory.phase_diagram import PhaseDiagram
from glassformer.theory.thresholds import Thresholds

# Parameters named in a title, by symbol.
_SYMBOLS = {
    "depth": "P",
    "indices": "P",
    "tokens": "T",
    "beta": r"\beta",
    "rho": r"\rho",
    "width": "r",
    "noise": r"\Delta",
}


def plot_limits(table: Table, path: Path) -> None:
    """Error against the sample ratio; dashed where message passing stays above the Bayes-optimal one."""
    with canvas(path) as (axes,):
        who = table.parameters.get("learner", "Bayes-optimal")
        axes.plot(table["alpha"], table["error"], color="#2b5c8a", marker="o", ms=3, label=who)
        if "algorithmic_error" in table.columns and np.any(table["algorithmic_error"] > table["error"] + 1e-6):
            axes.plot(table["alpha"], table["algorithmic_error"], "--", color="#b3402a", label="message passing")
        _finish(axes, table.parameters)


def plot_branches(table: Table, path: Path) -> None:
    """The fixed points followed up and down in the sample ratio."""
    with canvas(path) as (axes,):
        axes.plot(table["alpha"], table["error_up"], color="#b3402a", marker=">", ms=4, label="upwards, from ignorance")
        axes.plot(table["alpha"], table["error_down"], color="#2b5c8a", marker="<", ms=4, label="downwards, informed")
        _finish(axes, table.parameters)


def plot_trajectory(table: Table, path: Path) -> None:
    """Errors after every step."""
    with canvas(path) as (axes,):
        draw_trajectory(axes, table)
        _finish(axes, table.parameters)
        axes.set_xlabel("step")


def draw_trajectory(axes: Any, table: Table, names: Sequence[str] = ()) -> None:
    """Errors after every step, of each row where there are several; runs as marks with their standard errors."""
    ratios = np.unique(table["alpha"])
    error = "row_error" if "row_error" in table.columns else "error"
    rows = int(np.prod(table[error].shape[1:]))
    shades = iter(colors(len(ratios) * rows))
    for alpha in ratios:
        at = table["alpha"] == alpha
        for k in range(rows):
            row = [names[k] if names else f"row {k + 1}"] if rows > 1 else []
            color = next(shades)
            label = ", ".join([*row, rf"$\alpha = {alpha:.4g}$"])
            axes.plot(table["iteration"][at], _row(table[error], at, k), color=color, label=label)
            if f"measured_{error}" in table.columns:
                marks = _row(table[f"measured_{error}"], at, k)
                blur = _row(table[f"measured_{error.replace('error', 'standard_error')}"], at, k)
                axes.errorbar(table["iteration"][at], marks, _bars(blur), fmt="o", ms=3, capsize=2, color=color)


def _row(column: np.ndarray, at: np.ndarray, row: int) -> np.ndarray:
    """One row of a column of numbers or of vectors, where ``at`` says."""
    return np.asarray(column[at].reshape(int(at.sum()), -1)[:, row])


def plot_simulation(result: Simulation, path: Path) -> None:
    """Mean error of the runs with its standard error, and theory."""
    with canvas(path) as (axes,):
        # Few points are no curve: a line between them would claim values that were not computed.
        line = "-" if len(result["alpha"]) >= 10 else ""
        axes.plot(result["alpha"], result["theory"], line, color="#2b5c8a", marker="s", mfc="w", label="theory")
        parameters = result.parameters
        label = f"{parameters['algorithm'].upper()}, $d = {parameters['d']}$"
        axes.errorbar(
            result["alpha"],
            result["error"],
            _bars(result["standard_error"]),
            fmt="o",
            ms=4,
            capsize=2,
            label=label,
            color="#b3402a",
        )
        _finish(axes, parameters)


def plot_phase_diagram(found: PhaseDiagram, path: Path) -> None:
    """Thresholds against the parameter."""
    names = [entry.name for entry in found.thresholds[0].entries]
    with canvas(path) as (axes,):
        for name, color in zip(names, colors(len(names)), strict=True):
            axes.plot(found.values, found.curve(name), "-o", ms=3, color=color, label=name.replace("_", " "))
        axes.set_xlabel(found.parameter)
        axes.set_ylabel(label_alpha(found.thresholds[0].parameters["alpha"]))
        axes.legend()


def plot_thresholds(found: Thresholds, path: Path) -> None:
    """Thresholds as marks on the axis of the sample ratio."""
    entries = [entry for entry in found.entries if np.isfinite(entry.alpha)]
    with canvas(path, size=(6.2, 2.6)) as (axes,):
        for row, (entry, color) in enumerate(zip(entries, colors(len(entries)), strict=True)):
            axes.plot([entry.alpha], [row], "o", color=color)
            axes.annotate(f"{entry.alpha:.4g}", (entry.alpha, row), (6, -4), textcoords="offset points")
        axes.set_yticks(range(len(entries)), [entry.name.replace("_", " ") for entry in entries])
        axes.set_xlabel(label_alpha(found.parameters["alpha"]))
        axes.margins(x=0.3, y=0.2)


def plot_plan(found: Plan, path: Path) -> None:
    """The curves that were looked at, the target, and where it is reached."""
    curves = {name: values for name, values in found.curves.items() if name != "alpha"}
    with canvas(path) as (axes,):
        for (name, values), color in zip(curves.items(), colors(len(curves)), strict=True):
            axes.plot(found.curves["alpha"], values, ".-", ms=4, color=color, label=name.replace("_", " "))
        axes.axhline(found.target, color="0.4", ls="--", lw=1, label=f"target {found.target:g}")
        for entry in found.entries:
            if np.isfinite(entry.alpha) and entry.alpha > 0:
                axes.plot([entry.alpha], [found.target], "o", color="#b3402a")
                axes.annotate(f"{entry.alpha:.4g}", (entry.alpha, found.target), (6, 6), textcoords="offset points")
        axes.set(xscale="log", yscale="log", ylabel=found.quantity.replace("_", " "))
        axes.set_ylim(bottom=found.target / 20, top=20.0 * max(1.0, found.target))
        axes.set_xlabel(label_alpha(found.parameters["alpha"]))
        axes.legend()


def plot_landscapes(curves: Sequence[Landscape], path: Path) -> None:
    """Free entropy against the overlap, each curve from its value at zero overlap."""
    with canvas(path) as (axes,):
        for curve, color in zip(curves, colors(len(curves)), strict=True):
            draw_landscape(axes, curve, color)
        axes.set_xlabel(r"overlap $q$")
        axes.set_ylabel(r"free entropy $\Phi(q) - \Phi(0)$ [nats]")
        axes.legend(title=r"$\alpha$")


def draw_landscape(axes: Any, curve: Landscape, color: Any) -> None:
    """One landscape and its maxima."""
    height = curve.free_entropy - curve.free_entropy[0]
    axes.plot(curve.overlap, height, color=color, label=f"{curve.alpha:g}")
    axes.plot(curve.maxima, np.interp(curve.maxima, curve.overlap, height), "o", color=color, ms=4)


def _bars(errors: np.ndarray) -> np.ndarray | None:
    return None if np.all(np.isnan(errors)) else errors


def _finish(axes: Any, parameters: dict[str, Any]) -> None:
    axes.set_xlabel(label_alpha(parameters["alpha"]))
    axes.set_ylabel(error_label(parameters["alpha"]))
    axes.set_ylim(bottom=0)
    shown = [f"${symbol} = {parameters[name]:g}$" for name, symbol in _SYMBOLS.items() if name in parameters]
    kind = f"{parameters['channel']} channel" if "channel" in parameters else ""
    axes.set_title(", ".join([kind, *shown] if kind else shown), fontsize=11)
    axes.legend()
