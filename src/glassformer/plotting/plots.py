"""Plots of single results, for ``--plot``: all that a result may name as its drawing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.display import DisplayMixin
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.solution import Solution, Status
from glassformer.data_analysis.diagnosis import Diagnosis
from glassformer.data_analysis.width import EstimatedModel
from glassformer.dynamics.online_path import OnlinePath
from glassformer.experiments.instances import Simulation
from glassformer.learners.risk_path import RiskPath
from glassformer.learners.validation import CrossValidation
from glassformer.plotting.curves import Branch, draw_curve, draw_runs, mark_unsettled, rows_of
from glassformer.plotting.legend_places import plot_phase_diagram as plot_phase_diagram
from glassformer.plotting.legend_places import plot_plan as plot_plan
from glassformer.plotting.legend_places import plot_thresholds as plot_thresholds
from glassformer.plotting.style import Picture, canvas, colors, error_label, label_alpha
from glassformer.plotting.titles import title_of
from glassformer.state_evolution.free_entropy import Landscape

# Overlaps up to here, as a share of the largest, say how high a landscape is drawn: beyond, it may diverge. How much
# larger than the differences between its maxima and minima the drawing is.
_INNER, _ROOM = 0.97, 4.0
# Where a forecast comes from.
_BY = {"theory": "theory", "measured": "power law"}


def plot_limits(table: Table, path: Path | Picture, runs: Simulation | None = None) -> None:
    """Error against the sample ratio; dashed where message passing stays above the Bayes-optimal one.

    Args:
        table: limits.
        path: the picture.
        runs: of the same model, drawn as points beside the lines.
    """
    alpha, error = table["alpha"], table["error"]
    reached = table.columns.get("algorithmic_error", error)
    two = np.array([status is Status.BISTABLE for status in table.status])
    best, upper = Branch(two, error != reached), Branch(two, np.zeros_like(two))
    with canvas(path) as (axes,):
        who = str(table.parameters.get("learner", "Bayes-optimal"))
        # Beside points that are measured a line has none.
        marker = "o" if runs is None else None
        draw_curve(axes, alpha, error, table["error_estimate"], best, color="C0", marker=marker, ms=3, label=who)
        _draw_rows(axes, table, best, runs)
        if np.any(reached > error + 1e-6):
            draw_curve(axes, alpha, reached, branch=upper, ls="--", color="C1", label="message passing")
        mark_unsettled(axes, alpha, error, table.status)
        if runs is not None:
            look = {"color": "C1", "ms": 4, "zorder": 4, "label": _runs_label(runs)}
            draw_runs(axes, runs["alpha"], runs["error"], runs["standard_error"], **look)
            mark_unsettled(axes, runs["alpha"], runs["error"], runs.status)
        _finish(axes, table.model, table.parameters)


def _runs_label(runs: Simulation) -> str:
    """The algorithm, the number of runs and their size."""
    count = len(runs.instances[0])
    many = "1 run" if count == 1 else f"mean of {count} runs"
    return f"{runs.parameters['algorithm']}, {many}, $d = {runs.parameters['d']}$"


def _draw_rows(axes: Any, table: Table, branch: Branch, runs: Simulation | None) -> None:
    """The error of each row where there are several, and of the runs'."""
    name = "row_error"
    rows = list(rows_of(table[name])) if name in table.columns else []
    if len(rows) > 1:
        measured: Any = [None] * len(rows)
        if runs is not None and name in runs.columns:
            columns = (rows_of(runs[column]) for column in (name, _blur_of(name)))
            measured = [(mean, blur) for (_, mean), (_, blur) in zip(*columns, strict=True)]
        for (label, values), own, color in zip(rows, measured, colors(len(rows)), strict=True):
            draw_curve(axes, table["alpha"], values, branch=branch, lw=1, ls="-.", color=color, label=label)
            if own is not None and runs is not None:
                draw_runs(axes, runs["alpha"], *own, color=color, ms=3)


def plot_branches(table: Table, path: Path | Picture) -> None:
    """The fixed points followed up and down in the sample ratio."""
    alpha, two = table["alpha"], table["two_branches"] > 0
    upper, lower = Branch(two, np.zeros_like(two)), Branch(two, two)
    with canvas(path) as (axes,):
        up, down = table["error_up"], table["error_down"]
        draw_curve(axes, alpha, up, branch=upper, color="C1", marker=">", ms=4, label="upwards, from ignorance")
        draw_curve(axes, alpha, down, branch=lower, color="C0", marker="<", ms=4, label="downwards, informed")
        mark_unsettled(axes, alpha, up, table.status)
        _finish(axes, table.model, table.parameters)


def plot_trajectory(table: Table, path: Path | Picture) -> None:
    """Errors after every step."""
    with canvas(path) as (axes,):
        draw_trajectory(axes, table)
        _tell_runs_from_theory(axes, table.parameters)
        mark_unsettled(axes, table["iteration"], table["error"], table.status)
        _finish(axes, table.model, table.parameters)
        axes.set_xlabel("step")


def draw_trajectory(axes: Any, table: Table, names: Sequence[str] = ()) -> None:
    """Errors after every step, of each row where there are several; runs as marks with their standard errors."""
    ratios = np.unique(table["alpha"])
    error = "row_error" if "row_error" in table.columns else "error"
    shades = iter(colors(len(ratios) * int(np.prod(table[error].shape[1:]))))
    measured = f"measured_{error}"
    for alpha in ratios:
        at = table["alpha"] == alpha
        theory = list(rows_of(table[error][at], names))
        for k, (row, values) in enumerate(theory):
            color = next(shades)
            label = ", ".join(filter(None, [row, rf"$\alpha = {alpha:.4g}$"]))
            axes.plot(table["iteration"][at], values, color=color, label=label)
            if measured in table.columns:
                marks, blur = (list(rows_of(table[name][at]))[k][1] for name in (measured, _blur_of(measured)))
                draw_runs(axes, table["iteration"][at], marks, blur, color=color, ms=3)


def _tell_runs_from_theory(axes: Any, parameters: dict[str, Any]) -> None:
    """What lines and marks stand for, where there are both."""
    if "d" in parameters:
        none = np.zeros(0)
        axes.plot(none, none, color="0.5", label="theory")
        label = f"mean of {parameters['instances']} runs, $d = {parameters['d']}$"
        draw_runs(axes, none, none, none, color="0.5", ms=3, label=label)


def _blur_of(name: str) -> str:
    """The column of the standard errors of a column of errors."""
    return name.replace("error", "standard_error")


def plot_simulation(result: Simulation, path: Path | Picture) -> None:
    """Mean error of the runs with its standard error, and theory, of each row where there are several."""
    alpha, parameters = result["alpha"], result.parameters
    with canvas(path) as (axes,):
        # Few points are no curve: a line between them would claim values that were not computed.
        line = "-" if len(alpha) >= 10 else "none"
        axes.plot(alpha, result["theory"], ls=line, color="C0", marker="s", mfc="none", label="theory")
        look = {"ms": 4, "color": "C1", "label": _runs_label(result)}
        draw_runs(axes, alpha, result["error"], result["standard_error"], **look)
        _draw_run_rows(axes, result, line)
        mark_unsettled(axes, alpha, result["error"], result.status)
        _finish(axes, result.model, parameters)


def _draw_run_rows(axes: Any, result: Simulation, line: str) -> None:
    """The error of each row of the runs beside its theory, where there are several."""
    names = ("row_error", _blur_of("row_error"), "row_theory")
    rows = list(zip(*(rows_of(result[name]) for name in names), strict=True)) if names[0] in result.columns else []
    if len(rows) > 1:
        for ((name, error), (_, blur), (_, theory)), color in zip(rows, colors(len(rows)), strict=True):
            axes.plot(result["alpha"], theory, ls=line, color=color, marker="s", mfc="none", ms=4, lw=1)
            draw_runs(axes, result["alpha"], error, blur, ms=3, color=color, label=name)


def plot_landscapes(curves: Sequence[Landscape], path: Path | Picture) -> None:
    """Free entropy against the overlap, each curve from its value at zero overlap."""
    with canvas(path) as (axes,):
        for curve, color in zip(curves, colors(len(curves)), strict=True):
            draw_landscape(axes, curve, color)
        limit_height(axes, curves)
        axes.set_xlabel(r"overlap $q$")
        axes.set_ylabel(r"free entropy $\Phi(q) - \Phi(0)$ [nats]")
        axes.set_title(title_of(curves[0].model, curves[0].parameters), fontsize=11)
        axes.legend(title=r"$\alpha$")


def plot_landscape(curve: Landscape, path: Path | Picture) -> None:
    """Free entropy against the overlap at one sample ratio."""
    plot_landscapes([curve], path)


def plot_online(found: OnlinePath, path: Path | Picture) -> None:
    """Cosine similarity of each row with its truth in time."""
    with canvas(path) as (axes,):
        rows = list(rows_of(found.cosine.value))
        blurs = [values for _, values in rows_of(found.cosine.error)]
        for (name, values), blur, color in zip(rows, blurs, colors(len(rows)), strict=True):
            draw_curve(axes, found.time, values, blur, color=color, label=name or "row 1")
        axes.set(xlabel="time (steps over dimension)", ylabel="cosine similarity with the truth")
        axes.legend()


def plot_risk_path(found: RiskPath, path: Path | Picture) -> None:
    """Rank of the estimate against the strength."""
    with canvas(path) as (axes,):
        axes.plot(found.strengths, found.ranks, "o-", ms=4, drawstyle="steps-mid", color="C0")
        mark_unsettled(axes, found.strengths, found.ranks, found.status)
        axes.set(xscale="log", xlabel=r"strength $\lambda$", ylabel="rank of the estimate")


def plot_cross_validation(found: CrossValidation, path: Path | Picture) -> None:
    """Loss on held-back samples against the strength, with the best and the simplest choice."""
    with canvas(path) as (axes,):
        axes.errorbar(found.strengths, found.mean, found.standard_error, fmt="o-", ms=4, capsize=2, color="C0")
        axes.axvline(found.best, color="C1", lw=1, label="least loss")
        axes.axvline(found.simplest, color="C1", lw=1, ls="--", label="largest within a standard error")
        axes.set(xscale="log", xlabel=r"strength $\lambda$", ylabel="loss on held-back samples")
        axes.legend()


def plot_history(found: Solution, path: Path | Picture) -> None:
    """Residual after every iteration."""
    with canvas(path) as (axes,):
        for residuals, color in zip(found.history.T, colors(found.history.shape[1]), strict=True):
            axes.plot(np.arange(1, len(residuals) + 1), residuals, color=color)
        axes.set(yscale="log", xlabel="iteration", ylabel="residual")


def plot_estimate(found: EstimatedModel, path: Path | Picture) -> None:
    """Residual of the message passing that the estimate rests on."""
    plot_history(found.solution, path)


def plot_numbers(found: DisplayMixin, path: Path | Picture) -> None:
    """A few named numbers as bars, with error bars where they are known."""
    frame = found.to_pandas()
    value = frame["value"].where(np.isfinite(frame["value"]))
    with canvas(path) as (axes,):
        axes.barh(frame["quantity"], value, xerr=frame.get("error_estimate"), color="C0", capsize=3)
        axes.set(xlabel="value", title=found.title)
        axes.invert_yaxis()


def plot_diagnosis(found: Diagnosis, path: Path | Picture) -> None:
    """What was measured, as multiples of what is harmless."""
    all_of_it = [*found.findings, *found.labels]
    # Of something whose mere presence harms there is no multiple: it is drawn as the rest that does.
    sizes = [one.value / (one.limit + one.chance or one.value or 1.0) for one in all_of_it]
    with canvas(path) as (axes,):
        axes.barh([one.name for one in all_of_it], sizes, color=["C0" if one.harmless else "C1" for one in all_of_it])
        axes.axvline(1, color="0.5", ls="--", lw=1)
        axes.set_xlabel("times what is harmless")
        axes.invert_yaxis()


def plot_forecast(found: Any, path: Path | Picture) -> None:
    """The learning curve, its band of 95 per cent, and what held-back samples measured, with two standard errors."""
    with canvas(path) as (axes,):
        axes.fill_between(found.n, found.low, found.high, color="C0", alpha=0.2, lw=0, label="band")
        n = np.concatenate([found.checked_n, found.n])
        axes.plot(n, np.concatenate([found.checked, found.error]), ".-", color="C0", label=_BY[found.by])
        draw_runs(axes, found.checked_n, found.measured, 2 * found.measured_error, color="C1", label="held back")
        axes.set(xscale="log", xlabel="samples", ylabel=f"{found.quantity} of predictions")
        axes.legend()


def draw_landscape(axes: Any, curve: Landscape, color: Any) -> None:
    """One landscape and its maxima."""
    height = height_of(curve)
    axes.plot(curve.overlap, height, color=color, label=f"{curve.alpha:g}")
    axes.plot(curve.maxima, np.interp(curve.maxima, curve.overlap, height), "o", color=color, ms=4)
    mark_unsettled(axes, curve.overlap, height, curve.status)


def limit_height(axes: Any, curves: Sequence[Landscape], share: float = _INNER) -> None:
    """Show what :func:`height_limits` finds worth it."""
    axes.set_ylim(*height_limits(curves, share))


def height_limits(curves: Sequence[Landscape], share: float = _INNER) -> tuple[float, float]:
    """Ends that hold all maxima, the rest up to a share of the largest overlap: there a free entropy may diverge."""
    inner = np.concatenate([height_of(curve)[curve.overlap <= curve.largest - (1 - share)] for curve in curves])
    turns = [np.append(curve.maxima, curve.minima) for curve in curves]
    marked = np.concatenate([np.interp(at, c.overlap, height_of(c)) for at, c in zip(turns, curves, strict=True)])
    low, high = np.nanmin(inner), np.nanmax(inner)
    if marked.size:
        # What is said of maxima must be seen: the rest takes at most so many times their height.
        room = _ROOM * max(np.ptp(np.append(marked, 0.0)), np.finfo(float).tiny)
        low, high = max(low, marked.min() - room), max(min(high, marked.max() + room), marked.max())
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def height_of(curve: Landscape) -> Array:
    """Free entropy above that of zero overlap."""
    return np.asarray(curve.free_entropy - curve.free_entropy[0])


def _finish(axes: Any, model: str, parameters: dict[str, Any]) -> None:
    axes.set_xlabel(label_alpha(parameters["alpha"]))
    axes.set_ylabel(error_label(parameters["alpha"]))
    axes.set_ylim(bottom=0)
    axes.set_title(title_of(model, parameters), fontsize=11)
    axes.legend()
