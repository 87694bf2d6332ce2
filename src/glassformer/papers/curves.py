"""Panels of curves over the sample ratio, with runs at finite sizes beside them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.results import Table
from glassformer.core.status import Status
from glassformer.learners.base import Learner
from glassformer.numerics.quasi_random import normal_score
from glassformer.papers.drawing import RUN_MARKS, Axis, Series, legend_entry, runs_entry
from glassformer.papers.recipe import Context, Part
from glassformer.plotting.plots import runs_label
from glassformer.plotting.style import error_label, label_alpha, signal_power
from glassformer.verbs.instances import standard_error
from glassformer.verbs.limits import limits
from glassformer.verbs.simulate import simulate
from glassformer.verbs.thresholds import thresholds

if TYPE_CHECKING:
    import pandas
    from matplotlib.typing import ColorType

    from glassformer.models.base import Model
    from glassformer.verbs.instances import Simulation

# Quantity of models of several rows: a line for each row.
OVERLAP = "row_overlap"
# Thresholds that panels mark.
WEAK, PERFECT = "weak_recovery", "perfect_recovery"
# Colours of the Bayes-optimal error and of learners, and the label of their errors on signs and classes.
SHADES = ("0.1", "#2b5c8a", "#b3402a", "#3f8f5b", "#8a5ca8")
LABEL_ERROR = "test error on noiseless labels"
# Two sample ratios closer than this are one.
_SAME = 1e-9
# Points of a line from which on they are not marked one by one.
_CURVE = 20


@dataclass(frozen=True)
class Runs:
    """A learner on simulated data.

    Attributes:
        label: its name in legend and summary.
        learner: with its settings.
        ratios: sample ratios, on the axis of the figure.
        d: token dimension.
        instances: runs per sample ratio.
        column: the error that is drawn: ``"relative_error"`` is free of the fluctuating power of small teachers.
        marker: its marks.
        color: None for that of the curve.
        storage: how inputs are kept.
        row: columns of its rows in the data; by default ``source`` is the label.
    """

    label: str
    learner: Learner
    ratios: Sequence[float] | Array
    d: int
    instances: int
    column: str = "error"
    marker: str = "o"
    color: ColorType | int | None = None
    storage: str = "float64"
    row: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Curve:
    """A quantity in theory, with runs beside it.

    Attributes:
        label: its name in legend, data and summary.
        model: of the data.
        learner: whose theory; None for Bayes-optimal learning.
        runs: learners on simulated data of the model.
        scale: multiplies the sample ratio on the axis, to show a collapse.
        style: of the line.
        color: a colour of Matplotlib, or the number of one of the panel's colours; None for its own.
        width: of the line; None for the usual one.
        ratios: sample ratios on the axis; None for those of the panel.
        threshold: sample ratio on the axis that has a dotted vertical line, and is among the ratios.
        in_legend: whether it has an entry of its own in the legend.
        row: columns of its rows in the data.
    """

    label: str
    model: Model
    learner: Learner | None = None
    runs: Sequence[Runs] = ()
    scale: float = 1.0
    style: str = "-"
    color: ColorType | int | None = None
    width: float | None = None
    ratios: Array | None = None
    threshold: float | None = None
    in_legend: bool = True
    row: Mapping[str, Any] = field(default_factory=dict)


class ComputedCurve(NamedTuple):
    """A curve with its theory and the tables of its runs."""

    curve: Curve
    theory: Table
    simulations: list[Simulation]


@dataclass(frozen=True)
class Overlay:
    """What a panel has beyond its curves: plotted series, lines of the summary, and rows of the data."""

    series: Sequence[Series] = ()
    lines: Sequence[str] = ()
    frames: Sequence[pandas.DataFrame] = ()


Comparison = Callable[[Path, Sequence[ComputedCurve]], Overlay]
"""Compares curves with published data in a folder."""


@dataclass(frozen=True)
class CurvesPanel:
    """Curves over the sample ratio.

    Attributes:
        curves: from the back to the front. A curve that a panel before has as well is computed once.
        ratios: sample ratios on the axis.
        title: above the plot; sizes and numbers of runs are added.
        quantity: the column that is drawn, ``OVERLAP`` for that of each row; or several, with their entries in the
            legend, each in a colour of its own.
        settings: arguments of ``Axes.set`` that differ from the usual ones.
        marks: thresholds that are marked, whose exact values are among the ratios of the curve: ``PERFECT`` by ticks on
            the axis, ``WEAK`` by dotted lines.
        verticals: further dotted lines: position, colour, entry of the legend.
        colors: how many colours there are; None for one per curve.
        entries: further entries of the legend.
        legend: arguments of ``Axes.legend``.
        runs_only: the data hold the errors that are drawn of the runs, by algorithm and noise, and nothing else.
        indented: the summary has the title above the curves.
        further: lines drawn and said beyond the curves, made from them.
        published: comparison with published data in a folder.
    """

    curves: Sequence[Curve]
    ratios: Array
    title: str
    quantity: str | Mapping[str, str] = "error"
    settings: Mapping[str, Any] = field(default_factory=dict)
    marks: Sequence[str] = ()
    verticals: Sequence[tuple[float, ColorType | int, str | None]] = ()
    colors: int | None = None
    entries: Sequence[Series] = ()
    legend: Mapping[str, Any] = field(default_factory=lambda: {"loc": "upper right"})
    runs_only: bool = False
    indented: bool = False
    further: Callable[[Sequence[ComputedCurve]], Overlay] | None = None
    published: Comparison | None = None

    def __call__(self, context: Context) -> Part:
        """Compute curves and runs, and draw them."""
        computed, frames, lines = [], [], []
        for curve in self.curves:
            one = context.computed.get(id(curve))
            if one is None:
                one = context.computed[id(curve)] = self._compute_curve(curve)
                frames += self._frames(one)
                lines += summary_lines(one)
            computed.append(one)
        overlays = [self.further(computed)] if self.further else []
        if self.published and context.reference is not None:
            overlays.append(self.published(context.reference, computed))
        lines += [line for overlay in overlays for line in overlay.lines]
        frames += [frame for overlay in overlays for frame in overlay.frames]
        if self.indented:
            lines = [f"{plain_label(self.title)}:", *(f"  {line}" for line in lines)]
        return Part([self._axis(computed, [one for overlay in overlays for one in overlay.series])], frames, lines)

    def _compute_curve(self, curve: Curve) -> ComputedCurve:
        """Theory at the ratios and at marked thresholds, and the runs."""
        axis = self.ratios if curve.ratios is None else curve.ratios
        exact = [] if curve.threshold is None else [curve.threshold]
        if curve.learner is None:
            exact += [_threshold(curve, name) for name in self.marks if name != WEAK or _begins(curve)]
        for place in exact:
            if axis[0] < place < axis[-1] and np.min(np.abs(axis - place)) > _SAME:
                axis = np.sort(np.append(axis, place))
        alpha, learner = axis / curve.scale, curve.learner
        theory = limits(curve.model, alpha, learner or "gamp", throw=False)
        simulations: list[Simulation] = []
        for k, runs in enumerate(curve.runs):
            # Two errors of the same runs, such as the last and the least along the way, take one simulation.
            same = [other.learner is runs.learner for other in curve.runs[:k]]
            if any(same):
                simulations.append(simulations[same.index(True)])
                continue
            ratios = np.array(runs.ratios) / curve.scale
            simulations.append(
                simulate(curve.model, ratios, runs.learner, d=runs.d, instances=runs.instances, storage=runs.storage)
            )
        return ComputedCurve(curve, theory, simulations)

    def _frames(self, one: ComputedCurve) -> list[pandas.DataFrame]:
        curve = one.curve
        common = {"panel": self.title, "curve": curve.label, **curve.row}
        found = [] if self.runs_only else [one.theory.to_pandas().assign(**{"source": "theory", **common})]
        for runs, table in zip(curve.runs, one.simulations, strict=True):
            frame = table.to_pandas()
            if self.runs_only:
                mean, error = measured(runs, table)
                frame = frame[["alpha", "status"]].assign(error=mean, standard_error=error)
                frame = frame.assign(algorithm=runs.label, noise=curve.model.parameters["noise"])
            found.append(frame.assign(**{**common, "source": runs.label, **runs.row}))
        return found

    def _axis(self, computed: Sequence[ComputedCurve], further: Sequence[Series]) -> Axis:
        unit = computed[0].theory.parameters["alpha"]
        series, marks, entries = [], [], {}
        sizes = {(runs.d, runs.instances) for curve in self.curves for runs in curve.runs}
        sized = [
            f"{runs_label(count)} at $d = {'$, $'.join(str(d) for d, own in sorted(sizes) if own == count)}$"
            for count in sorted({count for _, count in sizes})
        ]
        for k, one in enumerate(computed):
            curve = one.curve
            for color, label, column, row in self._lines(one, k):
                known = [status in (Status.CONVERGED, Status.BISTABLE) for status in one.theory.status]
                y = np.where(known, values(one.theory, column, row), np.nan)
                # At few ratios a line between points is no curve: the points are seen, and overlaps may jump between.
                look = {"marker": "o", "ms": 3} if len(y) < _CURVE else {}
                style = ":" if look and column == OVERLAP else curve.style
                look = look if curve.width is None else {**look, "lw": curve.width}
                x = curve.scale * one.theory["alpha"]
                series.append(Series(x, y, color, style, label if curve.in_legend else None, look=look))
                for runs, table in zip(curve.runs, one.simulations, strict=True):
                    # Runs choose which of their errors stands for the error.
                    drawn = runs.column if column == "error" else column
                    if drawn != OVERLAP and drawn not in table.columns:
                        continue
                    mean, error = measured(runs, table, drawn, row)
                    shade = color if runs.color is None else runs.color
                    place = curve.scale * table["alpha"]
                    # Marks of perfect recovery lie on the axis, and are drawn over it; bars end at the frame.
                    look = {**RUN_MARKS, "clip_on": False}
                    marks.append(Series(place, mean, shade, runs.marker, None, error, look, table.status))
                    entry = runs.label if len(sizes) == 1 else f"{runs.label}, $d = {runs.d}$"
                    entries[entry] = runs_entry(entry, runs.marker, "0.35" if runs.color is None else runs.color)
        series += [*further, *marks, *entries.values(), *self.entries]
        if PERFECT in self.marks:
            series += _recovery_ticks(self.curves)
        verticals = [*self.verticals, *_dotted(self.curves, WEAK in self.marks)]
        if WEAK in self.marks:
            series.append(legend_entry("weak recovery", ":", lw=1))
        title = f"{self.title}\nmarks: {', '.join(sized)}" if sized else self.title
        if any(runs.column == "relative_error" for curve in self.curves for runs in curve.runs):
            bars = " and its standard error" if any(count > 1 for _, count in sizes) else ""
            title += f"{bars}, relative to {signal_power(unit)}"
        usual = {"xlabel": label_alpha(unit), "ylabel": error_label(unit), "title": title}
        settings = {**usual, "xlim": (self.ratios[0], self.ratios[-1]), **self.settings}
        settings["ylim"] = _with_marks(settings.get("ylim", (0, 1.02)), marks)
        count = self.colors or sum(curve.color is None for curve in self.curves)
        if not isinstance(self.quantity, str):
            count = len(self.quantity)
        elif self.quantity == OVERLAP:
            count = computed[0].theory["row_error"].shape[1]
        return Axis(series, count, settings, verticals, self.legend)

    def _lines(self, one: ComputedCurve, k: int) -> list[tuple[ColorType | int, str, str, int | None]]:
        """Colour, label, column and row of each line of a curve."""
        if not isinstance(self.quantity, str):
            return [(j, label, column, None) for j, (column, label) in enumerate(self.quantity.items())]
        if self.quantity == OVERLAP:
            return [(j, name, OVERLAP, j) for j, name in enumerate(one.curve.model.row_names)]
        color = k if one.curve.color is None else one.curve.color
        return [(color, one.curve.label, self.quantity, None)]


def beside_optimum(
    model: Model, learners: Mapping[str, Learner], runs: Mapping[str, Sequence[Runs]] = MappingProxyType({})
) -> list[Curve]:
    """Return the Bayes-optimal error, thick, and the theory of each learner, with the runs of some of them."""
    curves = [Curve("Bayes-optimal", model, color=SHADES[0], width=2.2)]
    for (label, learner), shade in zip(learners.items(), SHADES[1:], strict=False):
        curves.append(Curve(label, model, learner, runs.get(label, ()), color=shade))
    return curves


def values(table: Table, column: str, row: int | None = None) -> Array:
    """Return a column of a table, or the overlap of a row."""
    return 1 - table["row_error"][:, row] if column == OVERLAP else table[column]


def measured(runs: Runs, table: Simulation, column: str = "", row: int | None = None) -> tuple[Array, Array]:
    """Return the means of the runs and their standard errors, NaN for single runs."""
    column = column or runs.column
    if column == OVERLAP:
        return values(table, column, row), table["row_standard_error"][:, row]
    error = table.columns.get(column.replace("error", "standard_error"))
    return table[column], standard_error(table.of_instances(column)) if error is None else error


def _with_marks(limits: tuple[Any, Any], marks: Sequence[Series]) -> tuple[Any, Any]:
    """Limits of the vertical axis that contain all marks."""
    bottom, top = limits
    ends = [np.nanmax(np.append(mark.y, np.asarray(mark.y) + mark.error), initial=0.0) for mark in marks]
    if top is not None and ends and np.isfinite(max(ends)):
        top = max(top, 1.05 * max(ends))
    return bottom, top


def _threshold(curve: Curve, name: str) -> float:
    """Return a threshold on the axis."""
    return curve.scale * float(thresholds(curve.model)[name].alpha)


def _begins(curve: Curve) -> bool:
    """Return whether recovery begins at a positive sample ratio."""
    return bool(curve.model.prior.weak_recovery_onset > 0)


def _recovery_ticks(curves: Sequence[Curve]) -> list[Series]:
    """Ticks on the axis where perfect recovery begins, the first of several at one place the longest."""
    look = {"lw": 2.5, "solid_capstyle": "butt", "clip_on": False}
    places = [(k, _threshold(curve, PERFECT)) for k, curve in enumerate(curves) if curve.learner is None]
    heights = [0.035 / (1 + [x for _, x in places[:number]].count(x)) for number, (_, x) in enumerate(places)]
    ticks = [
        Series([x, x], [0, height], k, look=look)
        for (k, x), height in zip(places, heights, strict=True)
        if np.isfinite(x)
    ]
    return [*ticks, legend_entry("perfect recovery", "|", ms=9, mew=2.5)] if ticks else []


def _dotted(curves: Sequence[Curve], weak_recovery: bool) -> list[tuple[float, ColorType | int, str | None]]:
    """Dotted lines at the thresholds of the curves."""
    found: list[tuple[float, ColorType | int, str | None]] = []
    for k, curve in enumerate(curves):
        color = k if curve.color is None else curve.color
        if curve.threshold is not None:
            found.append((curve.threshold, color, None))
        if weak_recovery and _begins(curve):
            found.append((_threshold(curve, WEAK), color, None))
    return found


# --- summaries --------------------------------------------------------------------------------------------------------


def plain_label(label: str) -> str:
    r"""Return the label of a legend as plain text.

    Example:
        >>> plain_label(r"$\rho = 0.5$, GAMP")
        'rho = 0.5, GAMP'
    """
    return label.replace("$", "").replace("\\", "")


def summary_lines(one: ComputedCurve) -> list[str]:
    """Describe the accuracy of theory, and compare each mean of runs with it."""
    lines = [f"{plain_label(one.curve.label)}: {theory_accuracy(one.theory)}"]
    for runs, table in zip(one.curve.runs, one.simulations, strict=True):
        if runs.column == "error" and "row_error" in table.columns and table["row_error"].shape[1] > 1:
            lines += _row_lines(runs, table)
            continue
        head = f"  {runs.label}, d = {runs.d}, {runs.instances} instances"
        name, theory = _theory_of(table, runs.column)
        lines.append(f"{head} (in brackets: difference from {name} in standard errors, by Student's law)")
        columns = [runs.column]
        if runs.column in ("error", "relative_error"):
            columns = ["error", "relative_error"]
            lines.append("    the norm of the signals, the same at all ratios, differs from its mean by chance")
        for k, alpha in enumerate(table["alpha"]):
            expected = float(theory[k])
            count, numbers = len(table.instances[k]), [measured(runs, table, column) for column in columns]
            cells = "; relative to the signal ".join(
                _difference(float(mean[k]), float(error[k]), expected, count) for mean, error in numbers
            )
            ended = status_counts([run.status for run in table.instances[k]])
            lines.append(f"    alpha {alpha:7.4f}  {name} {expected:.4f}  measured {cells}  {ended}")
    return lines


def _row_lines(runs: Runs, table: Simulation) -> list[str]:
    """Compare the overlap of each row with theory."""
    head = f"{runs.label}, d = {runs.d}, {runs.instances} instances"
    lines = [f"{head} (overlap of each layer, standard error, theory)"]
    for k, alpha in enumerate(table["alpha"]):
        numbers = zip(table["row_error"][k], table["row_standard_error"][k], table["row_theory"][k], strict=True)
        cells = [f"{1 - error:.3f} +- {blur:.3f} ({1 - exact:.3f})" for error, blur, exact in numbers]
        ended = status_counts([run.status for run in table.instances[k]])
        lines.append(f"  alpha {alpha:.2f}: {', '.join(cells)}; {ended}")
    return lines


def _theory_of(table: Simulation, column: str) -> tuple[str, Array]:
    """The theory of the learner, with its name in the summary; of a learner without one the Bayes-optimal error."""
    of_learner, optimum = "theory", "theory_bayes_optimal"
    if column == "label_error":
        of_learner, optimum = "label_theory", "label_bayes_optimal"
    if of_learner not in table or np.all(np.isnan(table[of_learner])):
        return "Bayes-optimal", table[optimum]
    return "theory", table[of_learner]


def _difference(mean: float, error: float, expected: float, runs: int) -> str:
    """Return the mean of the runs, its standard error and its difference from theory in standard errors.

    The difference is as likely as that many standard errors of a large number of runs.

    Example:
        >>> _difference(0.5, 0.1, 0.4, 80), _difference(0.5, np.nan, 0.4, 1)
        ('0.5000 +- 0.1000 (+1.0)', '0.5000, a single run')
    """
    if np.isnan(error):
        return f"{mean:.4f}, a single run"
    gap = f"{normal_score((mean - expected) / error, runs):+.1f}" if error > 1e-6 else "-"
    return f"{mean:.4f} +- {error:.4f} ({gap})"


def theory_accuracy(table: Table) -> str:
    """The number of points, the largest error estimate and what did not converge."""
    worst = float(np.nanmax(table["error_estimate"]))
    return f"theory, {len(table.status)} points, largest error estimate {worst:.1e}, {status_counts(table.status)}"


def status_counts(statuses: Iterable[object]) -> str:
    """Count statuses.

    Example:
        >>> status_counts(["converged", "iteration_limit", "converged"])
        '2 converged, 1 iteration_limit'
    """
    return ", ".join(f"{count} {name}" for name, count in sorted(Counter(map(str, statuses)).items()))
