"""Panels of results that are no curves over the sample ratio: step by step, phase diagrams, layers in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas

from glassformer.core.estimate import Array
from glassformer.learners.base import Learner
from glassformer.learners.gamp import MessagePassing
from glassformer.papers.drawing import Axis, RunSize, Series, first_passage, legend_entry
from glassformer.papers.recipe import Context, Part
from glassformer.plotting.plots import draw_trajectory, whole_numbers
from glassformer.plotting.style import label_alpha
from glassformer.verbs.instances import Simulation
from glassformer.verbs.phase_diagram import phase_diagram
from glassformer.verbs.simulate import simulate
from glassformer.verbs.trajectory import trajectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from glassformer.core.results import Table
    from glassformer.models.base import Model

COSINE = "cosine similarity with the truth"


def steps_panel(
    _: Context,
    model: Model,
    alpha: Sequence[float],
    steps: int,
    size: RunSize,
    title: str,
) -> Part:
    """Errors after every step of message passing, means of runs as marks beside theory.

    Args:
        model: of the data.
        alpha: sample ratios.
        steps: number of steps.
        size: of the runs.
        title: above the plot; sizes and numbers of runs are added.
    """
    d, instances = size
    table = trajectory(model, alpha, MessagePassing(), steps=steps, d=d, instances=instances, throw=False)
    lines = ["largest distance of runs from theory, over all steps, and at the last"]
    for ratio in np.unique(table["alpha"]):
        gap = np.abs(table["measured_error"] - table["error"])[table["alpha"] == ratio]
        lines.append(f"  alpha {ratio:.4g}: {np.nanmax(gap):.4f}, {gap[-1]:.4f}")
    lines.append(f"runs: d = {d}, {instances} instances")
    settings = {"xlabel": "step of message passing", "ylabel": "estimation error", "ylim": (0, 1.05)}
    settings["title"] = f"{title}\n{size.marks}"
    legend = {"title": "state evolution (lines), runs (marks)"}
    axis = Axis([], 1, settings, legend=legend, annotate=partial(_draw_steps, table=table))
    return Part([axis], [table.to_pandas()], lines)


def _draw_steps(axes: Axes, table: Table) -> None:
    draw_trajectory(axes, table)
    whole_numbers(axes)


def phase_panel(
    _: Context,
    model: Model,
    parameter: str,
    values: Sequence[float] | Array,
    curves: Mapping[str, str],
    row: Mapping[str, str],
    settings: Mapping[str, str],
) -> Part:
    """Thresholds of a model against a parameter.

    Args:
        model: of the data.
        parameter: its name.
        values: of the parameter.
        curves: thresholds that are drawn, with their entries in the legend.
        row: columns of its rows in the data.
        settings: arguments of ``Axes.set``.
    """
    diagram = phase_diagram(model, parameter, values)
    series = [
        Series(diagram.values, diagram.curve(name), k, "-o", label, diagram.curve_error(name), {"ms": 3})
        for k, (name, label) in enumerate(curves.items())
    ]
    lines = [f"thresholds over {parameter}: {', '.join(curves)}"]
    for k, value in enumerate(diagram.values):
        cells = ", ".join(f"{diagram.curve(name)[k]:.4f}" for name in curves)
        lines.append(f"  {parameter} = {value:g}: {cells}")
    look = {"ylabel": label_alpha(model.parameters["alpha"]), "ylim": (0, None), **settings}
    return Part([Axis(series, len(series), look, legend={})], [diagram.to_pandas().assign(**row)], lines)


@dataclass(frozen=True)
class RowsPanel:
    """Cosine similarities of the rows of an estimate with the truth, run by run, in time.

    Attributes:
        model: of the data.
        alpha: sample ratio.
        learner: whose history is drawn.
        size: of the runs.
        unit: label of the time axis.
        title: above the plot; sizes and numbers of runs are added.
        time: entry of the history that is the time; empty for the number of the step.
        steps: times that are drawn, of runs that may stop earlier and then stay; None for all.
        theory: from the runs, theory to draw beside them and a sentence about it.
    """

    model: Model
    alpha: float
    learner: Learner
    size: RunSize
    unit: str
    title: str
    time: str = ""
    steps: int | None = None
    theory: Callable[[Simulation, Array], tuple[list[Series], str]] | None = None

    def __call__(self, _: Context) -> Part:
        """Run the learner, and draw its history."""
        (d, instances), unit = self.size, self.unit
        runs = simulate(self.model, [self.alpha], self.learner, d=d, instances=instances)
        cosines, times = self._history(runs)
        series, lines, columns = [], [], {"time": times}
        for k, name in enumerate(self.model.row_names):
            row = cosines[:, :, k]
            columns[f"cosine_{k + 1}"] = row.mean(axis=0)
            series += [Series(times, one, k, "-", None if j else name, look={"lw": 1}) for j, one in enumerate(row)]
            passages = [t for t in (first_passage(one, times) for one in row) if np.isfinite(t)]
            mean = f", on average at {np.mean(passages):.2g} ({unit})" if passages else ""
            lines.append(f"{name}: cosine above 1/2 in {len(passages) or 'none'} of {len(row)} runs{mean}")
        lines.append(f"runs: d = {d}, {instances} instances")
        series.append(legend_entry("thin: single runs", "-", lw=1))
        if self.theory is not None:
            further, line = self.theory(runs, cosines)
            series, lines = [*series, *further], [*lines, line]
        title = rf"{self.title}, $\alpha = {self.alpha:g}$" + f"\n{instances} runs at $d = {d}$"
        settings = {"xlabel": unit, "ylabel": COSINE, "ylim": (-0.03, 1.05), "title": title}
        axis = Axis(series, len(self.model.row_names), settings, legend={"loc": "best"})
        data = pandas.DataFrame(columns).assign(alpha=runs["alpha"][0], status=str(runs.status[0]))
        return Part([axis], [data], lines)

    def _history(self, runs: Simulation) -> tuple[Array, Array]:
        """Return cosines after the start, shape (runs, times, rows), and their times."""
        own = runs.instances[0]
        count = self.steps or len(own[0].history)
        # A run that has settled stays where it is.
        cosines = np.abs([([step["cosine"] for step in run.history] + [run.cosine] * count)[:count] for run in own])
        times = np.arange(1.0, count + 1)
        if self.time:
            times = np.array([step[self.time] for step in own[0].history])
        return cosines[:, times > 0], times[times > 0]
