"""Error of attention-indexed models against the sample ratio: theory, and AMP on simulated data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.results import Table
from glassformer.core.solution import Status
from glassformer.experiments.instances import Simulation
from glassformer.experiments.simulation import simulate
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.models import AttentionIndexed
from glassformer.plotting.style import ATTENTION_ERROR_LABEL, canvas, colors
from glassformer.state_evolution.limits import limits
from glassformer.state_evolution.thresholds import thresholds

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

# What the figures show does not change below this; a run costs half as much.
_SETTINGS = MessagePassing(tolerance=2e-3, max_iterations=800)
_DESCENT = GradientDescent(max_steps=4000, floor=1e-6)
_MARKERS = {"AMP": "o", "GD": "^", "average": "D"}


@dataclass(frozen=True)
class Curve:
    """One theory curve, and the sample ratios at which algorithms are run beside it.

    ``line`` is its style, for curves that fall on each other; ``descents`` are the ratios for gradient descent.
    """

    model: AttentionIndexed
    label: str
    runs: tuple[float, ...] = ()
    line: str = "-"
    descents: tuple[float, ...] = ()


@dataclass(frozen=True)
class Panel:
    """Curves that share axes.

    ``scale`` multiplies a curve's sample ratio on the axis (to show a collapse); ``d`` and ``instances`` are the sizes
    of the runs; ``recovery`` asks for ticks at perfect recovery, ``weak`` for a line at weak recovery; ``starts`` of
    gradient descent are averaged.
    """

    title: str
    axis: str
    largest: float
    curves: tuple[Curve, ...]
    scales: tuple[float, ...]
    d: int = 100
    instances: int = 16
    recovery: bool = True
    weak: bool = False
    points: int = 201
    starts: int = 32

    def quick(self) -> Panel:
        """Fewer points and runs, smaller sizes."""
        curves = tuple(replace(c, runs=c.runs[::2], descents=c.descents[1:4:2]) for c in self.curves)
        return replace(self, curves=curves, d=self.d // 3, instances=2, points=41, starts=8)

    @property
    def descent_size(self) -> tuple[int, int]:
        """Dimension and instances of gradient descent, which costs much more than message passing."""
        return max(20, self.d // 2), max(2, self.instances // 4)


@dataclass(frozen=True)
class _Computed:
    """What a curve became: its theory on the axis' grid, and the runs of each algorithm by its name in the legend."""

    theory: Table
    runs: dict[str, Simulation]


def produce(panels: Sequence[Panel], path: Path, quick: bool) -> tuple[pandas.DataFrame, str, bool]:
    """Compute the panels, draw them side by side, and return data, summary and whether everything converged."""
    import pandas

    chosen = [panel.quick() if quick else panel for panel in panels]
    computed = [[_compute(panel, k) for k in range(len(panel.curves))] for panel in chosen]
    with canvas(path, len(chosen), (5.6, 4.3)) as axes:
        for panel, results, ax in zip(chosen, computed, axes, strict=True):
            _draw(panel, results, ax)
    frames, lines = [], []
    statuses: list[Status] = []
    for panel, results in zip(chosen, computed, strict=True):
        lines.append(f"{panel.title}:")
        for curve, result in zip(panel.curves, results, strict=True):
            frames.extend(_frames(panel, curve, result))
            lines.extend(_summary(panel, curve, result))
            statuses.extend(result.theory.status)
            statuses.extend(status for runs in result.runs.values() for status in runs.status)
    data = pandas.concat(frames, ignore_index=True)
    return data, "\n".join(lines), all(status.ok for status in statuses)


def _compute(panel: Panel, index: int) -> _Computed:
    curve, scale = panel.curves[index], panel.scales[index]
    alpha = np.linspace(0, panel.largest, panel.points) / scale
    theory = limits(curve.model, alpha, throw=False)
    runs = {}
    if curve.runs:
        ratios = np.array(curve.runs) / scale
        runs["AMP"] = simulate(curve.model, ratios, panel.d, panel.instances, storage="float32", settings=_SETTINGS)
    if curve.descents:
        ratios, (d, instances) = np.array(curve.descents) / scale, panel.descent_size
        for name, algorithm, starts in (
            ("GD", "gd", 1),
            (f"average of {panel.starts} GD", "averaged-gd", panel.starts),
        ):
            runs[name] = simulate(
                curve.model, ratios, d, instances, 0, algorithm, "float32", replace(_DESCENT, starts=starts)
            )
    return _Computed(theory, runs)


def _draw(panel: Panel, results: list[_Computed], axes: Axes) -> None:
    shades = colors(len(panel.curves))
    marked: dict[str, tuple[str, int]] = {}
    for curve, scale, result, color in zip(panel.curves, panel.scales, results, shades, strict=True):
        axes.plot(scale * result.theory["alpha"], result.theory["error"], curve.line, color=color, label=curve.label)
        marks = thresholds(curve.model) if panel.recovery or panel.weak else None
        if marks is not None and panel.recovery and np.isfinite(marks["perfect_recovery"].alpha):
            at = scale * marks["perfect_recovery"].alpha
            axes.plot([at, at], [0, 0.035], color=color, lw=2.5, solid_capstyle="butt", clip_on=False)
        if marks is not None and panel.weak and curve.model.prior.weak_recovery_onset > 0:
            axes.axvline(scale * marks["weak_recovery"].alpha, color=color, lw=1, ls=":")
        for name, runs in result.runs.items():
            marker = _MARKERS[name.split()[0]]
            marked[name] = (marker, runs.parameters["d"])
            axes.errorbar(
                scale * runs["alpha"],
                runs["error"],
                runs["standard_error"],
                fmt=marker,
                ms=4,
                capsize=2,
                lw=1,
                color=color,
                mec="k",
                mew=0.6,
                zorder=4,
                clip_on=False,
            )
    for name, (marker, d) in marked.items():
        axes.errorbar([], [], [], fmt=marker, ms=4, color="0.8", mec="k", mew=0.6, label=f"{name}, $d = {d}$")
    if panel.weak:
        axes.plot([], [], ":", color="0.4", lw=1, label="weak recovery")
    axes.set_xlim(0, panel.largest)
    # Gradient descent is worse than knowing nothing but the prior where data are few.
    axes.set_ylim(0, 1.5 if any(curve.descents for curve in panel.curves) else 1.02)
    axes.set_xlabel(panel.axis)
    axes.set_ylabel(ATTENTION_ERROR_LABEL)
    axes.set_title(panel.title, fontsize=11)
    axes.legend(loc="upper right")


def _frames(panel: Panel, curve: Curve, result: _Computed) -> list[Any]:
    columns = ["source", "panel", "curve", "alpha", "error", "standard_error", "theory", "error_estimate", "status"]
    names = {"panel": panel.title, "curve": curve.label}
    frames = [result.theory.to_pandas().assign(source="theory", **names)]
    for name, runs in result.runs.items():
        frames.append(runs.to_pandas().assign(source=name, **names))
    return [frame.reindex(columns=columns).dropna(axis=1, how="all") for frame in frames]


def _summary(panel: Panel, curve: Curve, result: _Computed) -> list[str]:
    failed = sum(status not in (Status.CONVERGED, Status.BISTABLE) for status in result.theory.status)
    worst = float(np.max(result.theory["error_estimate"]))
    lines = [f"  {curve.label}: theory, largest error estimate {worst:.1e}, not converged: {failed}"]
    for name, runs in result.runs.items():
        d, instances = runs.parameters["d"], len(runs.instances[0])
        lines.append(f"    {name}, d = {d}, {instances} instances (difference in standard errors; over the prior)")
        for i, alpha in enumerate(runs["alpha"]):
            theory, spread = float(runs["theory_bayes_optimal"][i]), float(runs["relative_standard_error"][i])
            gap = f"{(float(runs['relative_error'][i]) - theory) / spread:+.1f}" if spread > 1e-6 else "-"
            good = sum(run.status.ok for run in runs.instances[i])
            measured = f"{runs['error'][i]:.4f} +- {runs['standard_error'][i]:.4f}"
            relative = f"over prior {runs['relative_error'][i]:.4f} ({gap})"
            lines.append(
                f"    alpha {alpha:7.4f}  optimal {theory:.4f}  reached {measured}  {relative}  "
                f"converged {good}/{instances}"
            )
    return lines
