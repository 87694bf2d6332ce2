"""One function for each kind of result, which draws it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.bayes_optimal.free_entropy import Landscape
from glassformer.bayes_optimal.threshold_results import Thresholds
from glassformer.core.display import DisplayMixin, readable_name
from glassformer.core.estimate import Array
from glassformer.core.results import Table, error_column
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.data_analysis.diagnosis import Diagnosis
from glassformer.data_analysis.directions import Directions
from glassformer.data_analysis.estimated_model import EstimatedModel
from glassformer.dynamics.online_path import OnlinePath
from glassformer.learners.labels import learner_label
from glassformer.learners.risk_path import RiskPath
from glassformer.learners.validation import CrossValidation
from glassformer.plotting.curves import Branch, draw_curve, draw_runs, mark_unsettled, rows_of
from glassformer.plotting.legend import Drawn, entry_once, label_axes, name_curves
from glassformer.plotting.style import (
    Picture,
    canvas,
    colors,
    error_label,
    label_alpha,
    next_color,
    title_of,
    title_parts,
)
from glassformer.verbs.compare import Comparison
from glassformer.verbs.instances import Simulation
from glassformer.verbs.phase_diagram import PhaseDiagram
from glassformer.verbs.plan import Plan
from glassformer.verbs.spectrum import EstimateSpectrum
from glassformer.verbs.width_plan import WidthPlan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D
    from matplotlib.typing import ColorType

    from glassformer.sklearn.forecasts import Forecast

# Free entropies may diverge at the largest overlap: overlaps up to this share of it set the height of the picture, and
# the picture is at most this many times as high as the differences between maxima and minima (both chosen by trial).
_INNER, _MARGIN = 0.97, 4.0
# Only the first line, at the bottom, is solid, so that thresholds that coincide stay visible.
_MARKERS, _LINES = "os^vDPX*", ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 3)), (0, (1, 2)), (0, (9, 3)))
# Errors after steps that stay above this share of their largest value are drawn from their least value on.
_FROM_ZERO = 0.5
# A line through fewer points suggests values between them: they are marked, or not joined.
_CURVE = 10
# Most bins of a histogram, values per bin, and values below this share of the largest that count as zero (conventions).
_BINS, _PER_BIN, _ZERO = 40, 8, 1e-9
# Quantities as an axis names them.
_QUANTITIES = {
    "label_error": "test error on noiseless labels",
    "prediction_error": "prediction error",
    "test_error": "squared error on noisy labels",
}


# --- errors against the sample ratio, and step by step ----------------------------------------------------------------


def plot_limits(table: Table, path: Path | Picture, runs: Simulation | None = None) -> None:
    """Draw the error against the sample ratio, dashed where message passing stays above the Bayes-optimal error.

    Args:
        table: limits.
        path: the picture.
        runs: of the same model, drawn as points beside the lines.
    """
    alpha, error = table["alpha"], table[table.main]
    reached = table.columns.get("algorithmic_error", error)
    two = np.array([status is Status.BISTABLE for status in table.status])
    best, upper = Branch(two, error != reached), Branch(two, np.zeros_like(two))
    learner, bars = learner_label(table.parameters), table[error_column(table.main)]
    rows = list(rows_of(table["row_error"])) if "row_error" in table.columns else []
    with canvas(path) as (axes,):
        shades, color = colors(len(rows), axes) if len(rows) > 1 else [], next_color(axes)
        marker = "o" if runs is None and _few(path, alpha) else None
        look: dict[str, Any] = {"color": color, "marker": marker, "ms": 3, "label": learner}
        curves: list[tuple[Drawn, str]] = [(draw_curve(axes, alpha, error, bars, best, **look), learner)]
        if "new_task_error" in table.columns:
            label = f"{learner}, new tasks"
            new = draw_curve(axes, alpha, table["new_task_error"], branch=best, color=color, ls="--", label=label)
            curves.append((new, label))
        for k, ((label, values), shade) in enumerate(zip(rows, shades, strict=False)):
            line = draw_curve(axes, alpha, values, branch=best, lw=1, ls="-.", color=shade, label=label)
            curves.append((line, label))
            if runs is not None and "row_error" in runs.columns:
                measured, errors = (list(rows_of(runs[name]))[k][1] for name in ("row_error", "row_standard_error"))
                draw_runs(axes, runs["alpha"], measured, errors, color=shade, ms=3)
        above = bool(np.any(reached > error + 1e-6))
        other = next_color(axes) if above or runs is not None else None
        if above:
            label = "message passing"
            curves.append((draw_curve(axes, alpha, reached, branch=upper, ls="--", color=other, label=label), label))
        mark_unsettled(axes, alpha, error, table.status)
        if runs is not None:
            curves.append(_draw_means(axes, runs, other, zorder=4))
        _finish(axes, table, curves, learner)


def _few(path: Path | Picture, alpha: Array) -> bool:
    """Return whether points are marked: where they are few, unless other curves may lie on the same axes."""
    shared = isinstance(path, Picture) and path.axes is not None
    return len(alpha) < (2 if shared else _CURVE)


def plot_simulation(result: Simulation, path: Path | Picture) -> None:
    """Draw the mean errors of runs with their standard errors, and theory; of each row where there are several."""
    alpha = result["alpha"]
    line = "-" if len(alpha) >= _CURVE else "none"
    with canvas(path) as (axes,):
        names = ("row_error", "row_standard_error", "row_theory")
        rows = list(zip(*(rows_of(result[name]) for name in names), strict=True)) if names[2] in result.columns else []
        shades, color = colors(len(rows), axes) if len(rows) > 1 else [], next_color(axes)
        expected = result[error_column(result.main, "theory")]
        (theory,) = axes.plot(alpha, expected, ls=line, color=color, marker="s", mfc="none", label="theory")
        curves = [(theory, "theory"), _draw_means(axes, result, next_color(axes))]
        for ((name, error), (_, standard_error), (_, values)), shade in zip(rows, shades, strict=False):
            axes.plot(alpha, values, ls=line, color=shade, marker="s", mfc="none", ms=4, lw=1)
            curves.append((draw_runs(axes, alpha, error, standard_error, ms=3, color=shade, label=name), name))
        _finish(axes, result, curves, result.parameters["learner"])


def _draw_means(axes: Axes, runs: Simulation, color: ColorType | None, **look: Any) -> tuple[Drawn, str]:
    """Draw mean errors of runs; the legend has the algorithm, the number of runs and their size."""
    count = len(runs.instances[0])
    label = f"{runs.parameters['learner']}, {runs_label(count)}, $d = {runs.parameters['d']}$"
    mean, bars = runs[runs.main], runs[error_column(runs.main, "standard_error")]
    marks = draw_runs(axes, runs["alpha"], mean, bars, color=color, ms=4, label=label, **look)
    mark_unsettled(axes, runs["alpha"], mean, runs.status)
    return marks, label


def plot_comparison(found: Comparison, path: Path | Picture) -> None:
    """Draw every learner in its own colour: theory as a line, runs as marks with standard errors.

    The legend has an entry for what runs are, and names those whose curve has no entry of its own.
    """
    with canvas(path) as (axes,):
        names = list(dict.fromkeys(_colored(one.label) for one in found.curves))
        shades = dict(zip(names, colors(len(names), axes), strict=True))
        drawn = {one.label for one in found.curves if not one.runs}
        for one in found.curves:
            color = shades[_colored(one.label)]
            if one.runs:
                label = None if one.label in drawn else one.label
                draw_runs(axes, one.alpha, one.value, one.bar, color=color, ms=5, label=label, zorder=4)
            else:
                look: dict[str, Any] = {
                    "color": color,
                    "label": one.label,
                    "ls": "--" if one.label == "message passing" else "-",
                }
                draw_curve(axes, one.alpha, one.value, one.bar, marker="." if len(one.alpha) < _CURVE else None, **look)
            # Two branches are drawn as two curves.
            status = [Status.CONVERGED if each is Status.BISTABLE else each for each in one.status]
            mark_unsettled(axes, one.alpha, one.value, status)
        unit = found.parameters["alpha"]
        y = (
            error_label(unit)
            if found.quantity == "error"
            else _QUANTITIES.get(found.quantity, readable_name(found.quantity))
        )
        label_axes(axes, label_alpha(unit), y)
        axes.set_title(title_of(found.model, found.parameters))
        axes.set_ylim(bottom=0)
        if found.parameters.get("d") is not None:
            name_runs(axes, int(found.parameters["instances"]), found.parameters["d"])
        axes.legend()


def name_runs(axes: Axes, count: int, d: int | None) -> None:
    """Add an entry to the legend that says what marks are: means of runs at a size, with standard errors."""
    size, bars = "" if d is None else f", $d = {d}$", ", standard errors" if count > 1 else ""
    label = entry_once(axes, f"{runs_label(count)}{size}{bars}")
    nowhere, bar = np.full(1, np.nan), np.full(1, 1.0 if count > 1 else np.nan)
    draw_runs(axes, nowhere, nowhere, bar, color="0.5", ms=4, label=label)


def _colored(label: str) -> str:
    """Return the name of a color: runs of message passing have that of the Bayes-optimal curve, which they reach."""
    return "Bayes-optimal" if label == "message passing" else label


def runs_label(count: int) -> str:
    """Return the legend of marks of runs.

    Example:
        >>> runs_label(1), runs_label(3)
        ('1 run', 'mean of 3 runs')
    """
    return "1 run" if count == 1 else f"mean of {count} runs"


def plot_branches(table: Table, path: Path | Picture) -> None:
    """Draw the fixed points continued upwards and downwards in the sample ratio."""
    alpha, two = table["alpha"], table["two_branches"] > 0
    upper, lower = Branch(two, np.zeros_like(two)), Branch(two, two)
    with canvas(path) as (axes,):
        up, down = table["error_up"], table["error_down"]
        blue, red = next_color(axes), next_color(axes)
        curves = []
        for values, branch, color, marker, label in (
            (up, upper, red, ">", "upwards, uninformed start"),
            (down, lower, blue, "<", "downwards, informed start"),
        ):
            line = draw_curve(axes, alpha, values, branch=branch, color=color, marker=marker, ms=4, label=label)
            curves.append((line, label))
        # The status of a row is that of both branches together.
        mark_unsettled(axes, np.tile(alpha, 2), np.append(up, down), [*table.status] * 2)
        _finish(axes, table, curves, "Bayes-optimal")


def plot_trajectory(table: Table, path: Path | Picture) -> None:
    """Draw the errors after every step."""
    with canvas(path) as (axes,):
        curves = draw_trajectory(axes, table)
        if "d" in table.parameters:
            axes.plot([], [], color="0.5", label=entry_once(axes, "theory"))
            name_runs(axes, int(table.parameters["instances"]), table.parameters["d"])
        quantity = _quantity_in_steps(table)
        lines = list(rows_of(table[quantity]))
        steps, status = np.tile(table["iteration"], len(lines)), [*table.status] * len(lines)
        mark_unsettled(axes, steps, np.concatenate([values for _, values in lines]), status)
        words = {"label_error": "test error on noiseless labels"}
        learner = str(table.parameters.get("learner", "message passing"))
        high = np.nanmin(table[quantity]) > _FROM_ZERO * np.nanmax(table[quantity])
        _finish(axes, table, curves, learner, x="step", y=words.get(quantity), bottom=None if high else 0.0)
        whole_numbers(axes)


def _quantity_in_steps(table: Table) -> str:
    """Return what is drawn after every step: errors on labels where they are what a loss of classes lowers."""
    return next(name for name in ("label_error", "row_error", table.main) if name in table.columns)


def draw_trajectory(axes: Axes, table: Table) -> list[tuple[Drawn, str]]:
    """Draw the errors of each row after every step, and return the lines with their labels.

    Runs are marks with their standard errors.
    """
    name, curves = _quantity_in_steps(table), list[tuple[Drawn, str]]()
    ratios = np.unique(table["alpha"])
    shades = iter(colors(len(ratios) * int(np.prod(table[name].shape[1:])), axes))
    for alpha in ratios:
        at = table["alpha"] == alpha
        measured = [f"measured_{name}", f"measured_{error_column(name, 'standard_error')}"]
        runs = [list(rows_of(table[one][at])) for one in measured if one in table.columns]
        for k, (row, values) in enumerate(rows_of(table[name][at])):
            color, label = next(shades), ", ".join(filter(None, [row, rf"$\alpha = {alpha:.4g}$"]))
            curves += [(line, label) for line in axes.plot(table["iteration"][at], values, color=color, label=label)]
            if runs:
                draw_runs(axes, table["iteration"][at], *(part[k][1] for part in runs), color=color, ms=3)
    return curves


def plot_online(found: OnlinePath, path: Path | Picture) -> None:
    """Draw the cosine similarity of each row with its truth in time."""
    with canvas(path) as (axes,):
        rows = list(zip(rows_of(found.cosine.value), rows_of(found.cosine.error), strict=True))
        for ((name, values), (_, error)), color in zip(rows, colors(len(rows), axes), strict=True):
            draw_curve(axes, found.time, values, error, color=color, label=name or "row 1")
        axes.set(xlabel="time (steps over dimension)", ylabel="cosine similarity with the truth")
        axes.legend()


def whole_numbers(axes: Axes) -> None:
    """Put ticks of the horizontal axis at whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _finish(
    axes: Axes,
    table: Table,
    curves: Sequence[tuple[Drawn, str]],
    learner: str,
    x: str | None = None,
    y: str | None = None,
    bottom: float | None = 0.0,
) -> None:
    """Add labels, title and legend to the errors of a learner, by default against the sample ratio and from zero."""
    unit = table.parameters["alpha"]
    own = error_label(unit) if table.main == "error" else _QUANTITIES[table.main]
    label_axes(axes, x or label_alpha(unit), y or own)
    name_curves(axes, curves, learner, title_parts(table.model, table.parameters))
    axes.set_ylim(bottom=bottom)
    axes.legend()


# --- thresholds -------------------------------------------------------------------------------------------------------


def plot_thresholds(found: Thresholds, path: Path | Picture) -> None:
    """Draw thresholds as marks on the axis of the sample ratio, with their errors; infinite ones at its end."""
    entries = [entry for entry in found.entries if not np.isnan(entry.alpha)]
    largest = max((entry.alpha for entry in entries if np.isfinite(entry.alpha)), default=0.0)
    with canvas(path, size=(6.2, 2.6)) as (axes,):
        for row, (entry, color) in enumerate(zip(entries, colors(len(entries)), strict=True)):
            if np.isfinite(entry.alpha):
                look: dict[str, Any] = {"fmt": "o", "capsize": 3, "color": color, "clip_on": False}
                axes.errorbar([entry.alpha], [row], xerr=[entry.error_estimate], **look)
                axes.annotate(f"{entry.alpha:.4g}", (entry.alpha, row), (6, -4), textcoords="offset points")
            else:
                edge = axes.get_yaxis_transform()
                axes.plot([1], [row], ">", color=color, transform=edge, clip_on=False)
                axes.annotate("never", (1, row), (-8, -4), xycoords=edge, textcoords="offset points", ha="right")
        axes.set_yticks(range(len(entries)), [readable_name(entry.name) for entry in entries])
        axes.set(xlabel=label_alpha(found.parameters["alpha"]), title=title_of(found.model, found.parameters))
        # Marks at zero do not touch the names.
        axes.tick_params(axis="y", pad=8)
        axes.margins(y=0.2)
        axes.set_xlim(0, 1.3 * largest or 1.0)


def plot_phase_diagram(found: PhaseDiagram, path: Path | Picture) -> None:
    """Draw thresholds against the parameter, with their errors; those that are infinite everywhere are left out."""
    names = [name for name in found.names if np.isfinite(found.curve(name)).any()]
    whole = all(isinstance(value, int) for value in found.values)
    with canvas(path) as (axes,):
        curves = []
        for name, color, marker, line in zip(names, colors(len(names), axes), cycle(_MARKERS), cycle(_LINES)):
            look: dict[str, Any] = {
                "color": color,
                "marker": marker,
                "mfc": "none",
                "ms": 6,
                "label": readable_name(name),
            }
            # There are no values between two whole numbers: the line only guides the eye.
            look |= {"ls": ":", "lw": 0.8} if whole else {"ls": line, "lw": 1.2}
            values = np.asarray(found.values, dtype=float)
            curve = draw_curve(axes, values, found.curve(name), found.curve_error(name), **look)
            curves.append((curve, readable_name(name)))
        if whole:
            whole_numbers(axes)
        label_axes(axes, found.parameter, label_alpha(found.thresholds[0].parameters["alpha"]))
        name_curves(axes, curves, "Bayes-optimal", title_parts(found.model, found.parameters))
        if names:
            # Long enough to show how the line is dashed beside the mark.
            axes.legend(handlelength=3.5)


def plot_plan(found: Plan, path: Path | Picture) -> None:
    """Draw the error curves of the plan, the target, and the sample ratios that reach it."""
    curves = {name: values for name, values in found.curves.items() if name != "alpha"}
    with canvas(path) as (axes,):
        lines = []
        for (name, values), color, line in zip(curves.items(), colors(len(curves), axes), cycle(_LINES), strict=False):
            look: dict[str, Any] = {"color": color, "ls": line, "marker": ".", "ms": 4, "label": readable_name(name)}
            lines.append((draw_curve(axes, found.curves["alpha"], values, **look), readable_name(name)))
        axes.axhline(found.target, color="0.5", ls="--", lw=1, label=entry_once(axes, f"target {found.target:g}"))
        reached = [entry.alpha for entry in found.entries if np.isfinite(entry.alpha) and entry.alpha > 0]
        for k, alpha in enumerate(reached):
            axes.plot([alpha], [found.target], "o", color="C1")
            # Labels are one above the other, since the ratios may be close.
            axes.annotate(f"{alpha:.4g}", (alpha, found.target), (6, 6 + 12 * k), textcoords="offset points")
        axes.set(xscale="log", yscale="log")
        axes.set_ylim(bottom=found.target / 20, top=20.0 * max(1.0, found.target))
        label_axes(axes, label_alpha(found.parameters["alpha"]), found.quantity.replace("_", " "))
        name_curves(axes, lines, learner_label(found.parameters), title_parts(found.model, found.parameters))
        axes.legend()


# --- free entropy -----------------------------------------------------------------------------------------------------


def plot_landscapes(curves: Sequence[Landscape], path: Path | Picture) -> None:
    """Draw the free entropy against the overlap, each curve from its value at the overlap without data."""
    with canvas(path) as (axes,):
        lines = []
        for curve, color in zip(curves, colors(len(curves), axes), strict=True):
            lines.append((draw_landscape(axes, curve, color), f"{curve.alpha:g}"))
        axes.set_ylim(*height_limits(curves))
        # Priors with a known mean, such as that of positive matrices, have an overlap without data.
        first = f"{round(max(curve.overlap[0] for curve in curves), 3):g}"
        axes.set(xlabel=r"overlap $q$", ylabel=rf"free entropy $\Phi(q) - \Phi({first})$ [nats]")
        name_curves(axes, lines, "Bayes-optimal", title_parts(curves[0].model, curves[0].parameters))
        axes.legend(title=r"$\alpha$")


def plot_landscape(curve: Landscape, path: Path | Picture) -> None:
    """Draw the free entropy against the overlap at one sample ratio."""
    plot_landscapes([curve], path)


def draw_landscape(axes: Axes, curve: Landscape, color: ColorType) -> Line2D:
    """Draw one landscape and its maxima, and return its line."""
    height = height_of(curve)
    (line,) = axes.plot(curve.overlap, height, color=color, label=f"{curve.alpha:g}")
    axes.plot(curve.maxima, np.interp(curve.maxima, curve.overlap, height), "o", color=color, ms=4)
    mark_unsettled(axes, curve.overlap, height, curve.status)
    return line


def height_limits(curves: Sequence[Landscape], share: float = _INNER) -> tuple[float, float]:
    """Return limits that show all extrema, and the curve up to a share of the largest overlap, where it may diverge."""
    inner = np.concatenate([height_of(curve)[curve.overlap <= curve.largest - (1 - share)] for curve in curves])
    turns = [np.append(curve.maxima, curve.minima) for curve in curves]
    marked = np.concatenate([np.interp(at, c.overlap, height_of(c)) for at, c in zip(turns, curves, strict=True)])
    low, high = np.nanmin(inner), np.nanmax(inner)
    if marked.size:
        most = _MARGIN * max(np.ptp(np.append(marked, 0.0)), np.finfo(float).tiny)
        low, high = max(low, marked.min() - most), max(min(high, marked.max() + most), marked.max())
    margin = 0.08 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def height_of(curve: Landscape) -> Array:
    """Return the free entropy relative to its value at the overlap without data."""
    return np.asarray(curve.free_entropy - curve.free_entropy[0])


# --- singular values --------------------------------------------------------------------------------------------------


def plot_spectra(laws: Sequence[EstimateSpectrum], path: Path | Picture, runs: Simulation | None = None) -> None:
    """Draw the density of the values of estimates, that of the teacher, and histograms of runs."""
    with canvas(path) as (axes,):
        lines = []
        for law, color in zip(laws, colors(len(laws), axes), strict=True):
            name = f"{law.alpha:g}" + (f", {100 * law.atom:.2g} % zero" if law.atom > 0 else "")
            (line,) = axes.plot(law["value"], law["density"], color=color, label=name)
            lines.append((line, name))
            if runs is not None:
                _draw_values(axes, law, runs, color)
        prior = laws[0]["prior_density"]
        if np.isfinite(prior).any():
            first = max(laws, key=lambda law: law["value"].max())
            axes.plot(first["value"], first["prior_density"], color="0.5", ls=":", label="teacher")
        # Densities of square matrices may grow without bound at zero.
        inner = np.concatenate([law["density"][law["value"] > 0.05 * law["value"].max()] for law in laws])
        axes.set_ylim(0, 1.2 * float(np.nanmax(inner)))
        axes.set(xlabel="singular value, or eigenvalue, of the estimate", ylabel="density")
        name_curves(axes, lines, learner_label(laws[0].parameters), title_parts(laws[0].model, laws[0].parameters))
        axes.legend(title=r"$\alpha$")


def plot_spectrum(law: EstimateSpectrum, path: Path | Picture, runs: Simulation | None = None) -> None:
    """Draw the law of the values of an estimate at one sample ratio, with a histogram of those of runs."""
    plot_spectra([law], path, runs)


def _draw_values(axes: Axes, law: EstimateSpectrum, runs: Simulation, color: ColorType) -> None:
    """Draw the histogram of the values of runs at the sample ratio of a law."""
    point = int(np.argmin(np.abs(runs["alpha"] - law.alpha)))
    values = runs.of_instances("singular_values")[point].ravel()
    other = values[np.abs(values) > _ZERO * np.abs(values).max()]
    heights, ends = np.histogram(other, bins=min(_BINS, max(len(other) // _PER_BIN, 1)))
    axes.stairs(heights / len(values) / np.diff(ends), ends, fill=True, alpha=0.25, color=color)


# --- data, and solvers ------------------------------------------------------------------------------------------------


def plot_risk_path(found: RiskPath, path: Path | Picture) -> None:
    """Draw the rank of the estimate against the strength."""
    with canvas(path) as (axes,):
        axes.plot(found.strengths, found.ranks, "o-", ms=4, drawstyle="steps-mid", color=next_color(axes))
        mark_unsettled(axes, found.strengths, found.ranks, found.status)
        axes.set(xscale="log", xlabel=r"strength $\lambda$", ylabel="rank of the estimate")


def plot_width_plan(found: WidthPlan, path: Path | Picture) -> None:
    """Draw the error of students over their widths, with the full width and the target."""
    with canvas(path) as (axes,):
        color, width, error = next_color(axes), found["student_rho"], found[found.quantity]
        axes.plot(width, error, "o-", ms=4, color=color)
        mark_unsettled(axes, width, error, found.status)
        axes.plot(found.best, error.min(), "o", ms=9, mfc="none", color=color, label=f"best width, {found.best:.3g} d")
        axes.axhline(found.target, color="0.5", lw=1, ls="--", label="target, reached by full width")
        axes.set(xscale="log", yscale="log", xlabel="width of the student over d", ylabel=readable_name(found.quantity))
        axes.set_title(rf"{found.model}, $\alpha$ = {found.alpha:.4g}")
        axes.legend()


def plot_directions(found: Directions, path: Path | Picture) -> None:
    """Draw the values of an estimate before and after it shrinks them, beside those of noise."""
    with canvas(path) as (axes,):
        order, color, other = np.arange(1, len(found.values) + 1), next_color(axes), next_color(axes)
        axes.plot(order, found.seen, "o", ms=4, color=color, label="before shrinkage")
        axes.plot(order, found.values, "o", ms=4, mfc="none", color=color, label="estimate")
        axes.plot(order, found.noise, "-", color=other, label="noise alone, mean")
        axes.axhline(found.threshold, color=other, lw=1, ls="--", label="noise alone, largest")
        axes.set(xlabel="direction", ylabel="singular value", ylim=(0, None))
        axes.locator_params(axis="x", integer=True)
        axes.legend(title=f"{found.rank} of {len(order)} exceed the noise")


def plot_cross_validation(found: CrossValidation, path: Path | Picture) -> None:
    """Draw the loss on held-out samples against the strength, with the best and the simplest choice."""
    with canvas(path) as (axes,):
        color, chosen = next_color(axes), next_color(axes)
        axes.errorbar(found.strengths, found.mean, found.standard_error, fmt="o-", ms=4, capsize=2, color=color)
        axes.axvline(found.best, color=chosen, lw=1, label="smallest loss")
        axes.axvline(found.simplest, color=chosen, lw=1, ls="--", label="largest within one standard error")
        axes.set(xscale="log", xlabel=r"strength $\lambda$", ylabel="loss on held-out samples")
        axes.legend()


def plot_history(found: Solution, path: Path | Picture) -> None:
    """Draw the residual after every iteration."""
    with canvas(path) as (axes,):
        for residuals, color in zip(found.history.T, colors(found.history.shape[1], axes), strict=True):
            axes.plot(np.arange(1, len(residuals) + 1), residuals, color=color)
        axes.set(yscale="log", xlabel="iteration", ylabel="residual")


def plot_estimate(found: EstimatedModel, path: Path | Picture) -> None:
    """Draw the residuals of the message passing that gives the estimate."""
    plot_history(found.solution, path)


def plot_numbers(found: DisplayMixin, path: Path | Picture) -> None:
    """Draw a few named numbers as bars, with error bars where they are known."""
    frame = found.to_pandas()
    value = frame["value"].where(np.isfinite(frame["value"]))
    with canvas(path) as (axes,):
        axes.barh(frame["quantity"], value, xerr=frame.get("error_estimate"), color="C0", capsize=3)
        axes.set(xlabel="value", title=found.title)
        axes.invert_yaxis()


def plot_diagnosis(found: Diagnosis, path: Path | Picture) -> None:
    """Draw the measured properties in units of their harmless limits."""
    findings = [*found.findings, *found.labels]
    # A property without a harmless value has no such unit: it is drawn as one.
    sizes = [one.value / (one.limit + one.chance or one.value or 1.0) for one in findings]
    with canvas(path) as (axes,):
        axes.barh([one.name for one in findings], sizes, color=["C0" if one.harmless else "C1" for one in findings])
        axes.axvline(1, color="0.5", ls="--", lw=1)
        axes.set_xlabel("in units of the harmless limit")
        axes.invert_yaxis()


def plot_forecast(found: Forecast, path: Path | Picture) -> None:
    """Draw the learning curve, its 95 % band, and errors on held-out samples with two standard errors."""
    source, held_out = {"theory": "theory", "measured": "power law"}[found.by], "held-out samples, 2 standard errors"
    with canvas(path) as (axes,):
        curve, points = next_color(axes), next_color(axes)
        axes.fill_between(found.n, found.low, found.high, color=curve, alpha=0.2, lw=0, label="95 % band")
        n = np.concatenate([found.checked_n, found.n])
        axes.plot(n, np.concatenate([found.checked, found.error]), ".-", color=curve, label=source)
        draw_runs(axes, found.checked_n, found.measured, 2 * found.measured_error, color=points, label=held_out)
        axes.set(xscale="log", xlabel="samples", ylabel=f"{found.quantity} of predictions")
        axes.legend()
