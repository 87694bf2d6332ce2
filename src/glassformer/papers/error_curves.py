"""Errors against the sample ratio: curves of theory, and runs on data beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glassformer.bayes_optimal.limits import limits
from glassformer.bayes_optimal.thresholds import thresholds
from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.experiments.simulation import simulate
from glassformer.learners.base import Learner
from glassformer.papers.drawing import RUN_MARKS, Axis, FigureContent, Series, legend_entry
from glassformer.plotting.plots import draw_trajectory

if TYPE_CHECKING:
    import pandas

    from glassformer.experiments.instances import Simulation


class Runs(NamedTuple):
    """A learner on simulated data.

    Attributes:
        label: its name in legend and data.
        learner: with its settings.
        ratios: sample ratios, on the axis of the figure.
        d: token dimension.
        instances: runs per sample ratio.
        column: the error that is drawn: ``"relative_error"`` is free of the fluctuating power of small teachers.
        marker: its marks; those of a colour of their own have an entry of their own in the legend.
        color: None for that of the curve.
        storage: how inputs are kept.
    """

    label: str
    learner: Learner
    ratios: Sequence[float]
    d: int
    instances: int
    column: str = "error"
    marker: str = "o"
    color: Any = None
    storage: str = "float64"


@dataclass(frozen=True)
class ErrorCurve:
    """An error in theory, with runs beside it.

    Attributes:
        label: entry of the legend.
        model: of the data.
        learner: whose theory; None for the Bayes-optimal error.
        runs: learners on simulated data of the model.
        scale: multiplies the sample ratio on the axis, to show a collapse.
        style: of the line.
    """

    label: str
    model: Any
    learner: Learner | None = None
    runs: Sequence[Runs] = ()
    scale: float = 1.0
    style: str = "-"


class ComputedCurve(NamedTuple):
    """A curve with its theory and the tables of its runs."""

    curve: ErrorCurve
    theory: Table
    simulations: list[Simulation]


def compute(curves: Sequence[ErrorCurve], axis: Array) -> list[ComputedCurve]:
    """Compute theory at all positions on the axis, and the runs."""
    found = []
    for curve in curves:
        alpha = axis / curve.scale
        own = curve.learner
        theory = limits(curve.model, alpha, throw=False) if own is None else own.limits(curve.model, alpha, throw=False)
        simulations: list[Simulation] = []
        for k, runs in enumerate(curve.runs):
            # Two errors of the same runs, such as the last and the least along the way, take one simulation.
            same = [other.learner is runs.learner for other in curve.runs[:k]]
            if any(same):
                simulations.append(simulations[same.index(True)])
                continue
            ratios = np.array(runs.ratios) / curve.scale
            simulations.append(
                simulate(curve.model, ratios, runs.d, runs.instances, algorithm=runs.learner, storage=runs.storage)
            )
        found.append(ComputedCurve(curve, theory, simulations))
    return found


def curve_series(computed: Sequence[ComputedCurve], column: str = "error") -> list[Series]:
    """Lines of theory where it converged, in the colours of their order, and marks of the runs."""
    lines, marks, entries = [], [], {}
    for color, (curve, theory, simulations) in enumerate(computed):
        known = [status in (Status.CONVERGED, Status.BISTABLE) for status in theory.status]
        y = np.where(known, theory[column], np.nan)
        lines.append(Series(curve.scale * theory["alpha"], y, color, curve.style, curve.label))
        for runs, table in zip(curve.runs, simulations, strict=True):
            mean, error = measured(runs, table)
            # Marks of perfect recovery lie on the axis; relative errors may be outside the picture.
            look = {**RUN_MARKS, "clip_on": runs.column != "error"}
            mark = Series(curve.scale * table["alpha"], mean, color, runs.marker, None, error, look, table.status)
            if runs.color is None:
                name = f"{runs.label}, $d = {runs.d}$"
                entries[name] = legend_entry(name, runs.marker, ms=4, mec="k", mew=0.6)
            else:
                mark = mark._replace(color=runs.color, label=runs.label)
            marks.append(mark)
    return [*lines, *marks, *entries.values()]


def recovery_marks(computed: Sequence[ComputedCurve]) -> list[Series]:
    """Ticks on the axis where perfect recovery begins."""
    look = {"lw": 2.5, "solid_capstyle": "butt", "clip_on": False}
    places = [one.curve.scale * thresholds(one.curve.model)["perfect_recovery"].alpha for one in computed]
    ticks = [Series([x, x], [0, 0.035], k, look=look) for k, x in enumerate(places) if np.isfinite(x)]
    return [*ticks, legend_entry("perfect recovery", "|", ms=9, mew=2.5)] if ticks else []


def measured(runs: Runs, table: Simulation) -> tuple[Array, Array]:
    """Return the means of the runs and their standard errors, NaN where the table has none."""
    error = table.columns.get(runs.column.replace("error", "standard_error"))
    return table[runs.column], np.full(len(table["alpha"]), np.nan) if error is None else error


def frames(computed: Sequence[ComputedCurve], **names: Any) -> list[pandas.DataFrame]:
    """The data of every curve, then of its runs; ``source`` and ``curve`` say which."""
    found = []
    for curve, theory, simulations in computed:
        tables = [("theory", theory), *zip((runs.label for runs in curve.runs), simulations, strict=True)]
        found += [table.to_pandas().assign(source=source, curve=curve.label, **names) for source, table in tables]
    return found


def plain_label(label: str) -> str:
    r"""Return the label of a legend as plain text.

    Example:
        >>> plain_label(r"$\rho = 0.5$, GAMP")
        'rho = 0.5, GAMP'
    """
    return label.replace("$", "").replace("\\", "")


def summary_lines(computed: Sequence[ComputedCurve]) -> list[str]:
    """Describe the accuracy of theory, and compare each mean of runs with it."""
    lines = []
    for curve, theory, simulations in computed:
        lines.append(f"{plain_label(curve.label)}: {theory_accuracy(theory)}")
        for runs, table in zip(curve.runs, simulations, strict=True):
            head = f"  {runs.label}, d = {runs.d}, {runs.instances} instances"
            lines.append(f"{head} (in brackets: difference from theory in standard errors)")
            columns = ["error", "relative_error"] if runs.column in ("error", "relative_error") else [runs.column]
            for k, alpha in enumerate(table["alpha"]):
                expected = float(_theory_of(table, runs.column)[k])
                cells = "; relative to the signal ".join(_difference(table, name, k, expected) for name in columns)
                ended = status_counts([run.status for run in table.instances[k]])
                lines.append(f"    alpha {alpha:7.4f}  theory {expected:.4f}  measured {cells}  {ended}")
    return lines


def _theory_of(table: Simulation, column: str) -> Array:
    """The theory of the learner; where it has none, and for errors on labels, that of the optimum."""
    if column == "label_error":
        return table["label_theory"]
    return np.where(np.isnan(table["theory"]), table["theory_bayes_optimal"], table["theory"])


def _difference(table: Simulation, column: str, k: int, expected: float) -> str:
    """The mean of the runs, its standard error and its difference from theory in standard errors."""
    errors = table.columns.get(column.replace("error", "standard_error"))
    mean, error = float(table[column][k]), np.nan if errors is None else float(errors[k])
    gap = f"{(mean - expected) / error:+.1f}" if error > 1e-6 else "-"
    return f"{mean:.4f} +- {error:.4f} ({gap})"


def step_figure(table: Table, title: str) -> FigureContent:
    """Errors after every step of message passing, runs as marks beside state evolution."""
    settings = {"xlabel": "step of message passing", "ylabel": "estimation error", "ylim": (0, 1.05), "title": title}
    legend = {"title": "state evolution (lines), runs (marks)"}
    lines = ["largest distance of runs from theory, over all steps, and at the last"]
    for alpha in np.unique(table["alpha"]):
        gap = np.abs(table["measured_error"] - table["error"])[table["alpha"] == alpha]
        lines.append(f"  alpha {alpha:.4g}: {np.nanmax(gap):.4f}, {gap[-1]:.4f}")
    axis = Axis([], 1, settings, legend=legend, annotate=partial(draw_trajectory, table=table))
    return FigureContent([axis], table.to_pandas(), "\n".join(lines))


def theory_accuracy(table: Table) -> str:
    """The number of points, the largest error estimate and what did not converge."""
    worst = float(np.nanmax(table["error_estimate"]))
    return f"theory, {len(table.status)} points, largest error estimate {worst:.1e}, {status_counts(table.status)}"


def status_counts(statuses: Sequence[Any]) -> str:
    """Count statuses.

    Example:
        >>> status_counts(["converged", "iteration_limit", "converged"])
        '2 converged, 1 iteration_limit'
    """
    return ", ".join(f"{count} {name}" for name, count in sorted(Counter(map(str, statuses)).items()))
