"""Sample ratios at which something happens: thresholds, their diagrams, what a target takes."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.display import spoken
from glassformer.learners.plan import Plan
from glassformer.plotting.curves import draw_curve
from glassformer.plotting.style import Picture, canvas, colors, label_alpha
from glassformer.plotting.titles import title_of
from glassformer.state_evolution.phase_diagram import PhaseDiagram
from glassformer.state_evolution.thresholds import Threshold, Thresholds

# Curves that coincide are told apart by these: only the first, at the bottom, has no gaps.
_MARKERS, _LINES = "os^vDPX*", ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (3, 3)), (0, (1, 2)), (0, (9, 3)))


def plot_phase_diagram(found: PhaseDiagram, path: Path | Picture) -> None:
    """Thresholds against the parameter, with their errors; those that are nowhere are left out."""
    names = [name for name in found.names if np.isfinite(found.curve(name)).any()]
    whole = all(isinstance(value, int) for value in found.values)
    with canvas(path) as (axes,):
        for name, color, marker, line in zip(names, colors(len(names)), cycle(_MARKERS), cycle(_LINES)):
            look = {"color": color, "marker": marker, "mfc": "none", "ms": 6, "label": spoken(name)}
            # There is nothing between two whole numbers: their line only leads the eye.
            look |= {"ls": ":", "lw": 0.8} if whole else {"ls": line, "lw": 1.2}
            draw_curve(axes, np.asarray(found.values, dtype=float), found.curve(name), found.curve_error(name), **look)
        if whole:
            from matplotlib.ticker import MaxNLocator

            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(found.parameter)
        axes.set_ylabel(label_alpha(found.thresholds[0].parameters["alpha"]))
        axes.set_title(title_of(found.model, found.parameters), fontsize=11)
        if names:
            # Long enough to show how its line is dashed beside the mark.
            axes.legend(handlelength=3.5)


def plot_thresholds(found: Thresholds, path: Path | Picture) -> None:
    """Thresholds as marks on the axis of the sample ratio, with their errors; those never reached at its end."""
    entries = [entry for entry in found.entries if not np.isnan(entry.alpha)]
    largest = max((entry.alpha for entry in entries if np.isfinite(entry.alpha)), default=0.0)
    with canvas(path, size=(6.2, 2.6)) as (axes,):
        for row, (entry, color) in enumerate(zip(entries, colors(len(entries)), strict=True)):
            if np.isfinite(entry.alpha):
                _draw_threshold(axes, entry, row, color)
            else:
                _draw_never(axes, row, color)
        axes.set_yticks(range(len(entries)), [spoken(entry.name) for entry in entries])
        axes.set_xlabel(label_alpha(found.parameters["alpha"]))
        axes.set_title(title_of(found.model, found.parameters), fontsize=11)
        # Marks at zero stand clear of the names.
        axes.tick_params(axis="y", pad=8)
        axes.margins(y=0.2)
        axes.set_xlim(0, 1.3 * largest or 1.0)


def _draw_threshold(axes: Any, entry: Threshold, row: int, color: Any) -> None:
    look = {"fmt": "o", "capsize": 3, "color": color, "clip_on": False}
    axes.errorbar([entry.alpha], [row], xerr=[entry.error_estimate], **look)
    axes.annotate(f"{entry.alpha:.4g}", (entry.alpha, row), (6, -4), textcoords="offset points")


def _draw_never(axes: Any, row: int, color: Any) -> None:
    """A mark at the right edge, wherever that is."""
    edge = axes.get_yaxis_transform()
    axes.plot([1], [row], ">", color=color, transform=edge, clip_on=False)
    axes.annotate("never", (1, row), (-8, -4), xycoords=edge, textcoords="offset points", ha="right")


def plot_plan(found: Plan, path: Path | Picture) -> None:
    """The curves that were looked at, the target, and where it is reached."""
    curves = {name: values for name, values in found.curves.items() if name != "alpha"}
    with canvas(path) as (axes,):
        for (name, values), color in zip(curves.items(), colors(len(curves)), strict=True):
            look = {"color": color, "marker": ".", "ms": 4, "label": spoken(name)}
            draw_curve(axes, found.curves["alpha"], values, **look)
        axes.axhline(found.target, color="0.5", ls="--", lw=1, label=f"target {found.target:g}")
        reached = [entry.alpha for entry in found.entries if np.isfinite(entry.alpha) and entry.alpha > 0]
        for k, alpha in enumerate(reached):
            axes.plot([alpha], [found.target], "o", color="C1")
            # One above the other: thresholds may be close.
            axes.annotate(f"{alpha:.4g}", (alpha, found.target), (6, 6 + 12 * k), textcoords="offset points")
        axes.set(xscale="log", yscale="log", ylabel=found.quantity.replace("_", " "))
        axes.set_ylim(bottom=found.target / 20, top=20.0 * max(1.0, found.target))
        axes.set_xlabel(label_alpha(found.parameters["alpha"]))
        axes.set_title(title_of(found.model, found.parameters), fontsize=11)
        axes.legend()
