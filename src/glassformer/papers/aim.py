"""Figures of attention-indexed models (arXiv:2506.01582)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.bayes_optimal.limits import limits
from glassformer.bayes_optimal.thresholds import thresholds
from glassformer.experiments.trajectories import follow
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.gradient_descent import AveragedGradientDescent, GradientDescent
from glassformer.models import AttentionIndexed
from glassformer.papers import error_curves, published
from glassformer.papers.drawing import Axis, FigureContent, joined, legend_entry
from glassformer.papers.error_curves import ErrorCurve, Runs
from glassformer.plotting.style import ATTENTION_ERROR_LABEL, label_alpha

# The pictures do not change below this tolerance; a run costs half as much.
_PASSING = MessagePassing(tolerance=2e-3, max_iterations=800)
_COLUMNS = ("source", "panel", "curve", "alpha", "error", "error_estimate", "status", "standard_error", "theory")
_Ratios = tuple[float, ...]


def _amp(ratios: _Ratios, quick: bool, d: int = 100) -> list[Runs]:
    """Message passing at these sample ratios."""
    d, instances, every = (d // 3, 2, 2) if quick else (d, 16, 1)
    return [Runs("AMP", _PASSING, ratios[::every], d, instances, storage="float32")]


def _descents(ratios: _Ratios, quick: bool) -> list[Runs]:
    """Gradient descent and its average over starts, which cost much more than message passing, at smaller sizes."""
    if quick:
        ratios = ratios[1:4:2]
    starts, size = (8, (20, 2)) if quick else (32, (50, 4))
    training: dict[str, Any] = {"max_steps": 4000, "floor": 1e-6}
    single = Runs("GD", GradientDescent(starts=1, **training), ratios, *size, marker="^", storage="float32")
    averaged = AveragedGradientDescent(starts=starts, **training)
    return [single, single._replace(label=f"average of {starts} GD", learner=averaged, marker="D")]


def _widths(channel: str, tokens: int, widths: _Ratios, runs: Mapping[float, _Ratios], quick: bool) -> list[ErrorCurve]:
    """One curve for each width, with message passing at the sample ratios ``runs`` of a width."""
    return [
        ErrorCurve(
            rf"$\rho = {rho:g}$",
            AttentionIndexed(rho, tokens, channel),
            runs=_amp(runs[rho], quick) if rho in runs else [],
        )
        for rho in widths
    ]


def _narrow(channel: str, widths: _Ratios) -> list[ErrorCurve]:
    """The approach to the limit of small width, on the scale n/(rd), and the limit."""
    curves = [ErrorCurve(rf"$\rho = {rho:g}$", AttentionIndexed(rho, 2, channel), scale=1 / rho) for rho in widths]
    return [*curves, ErrorCurve(r"$\rho \to 0$", AttentionIndexed(0, 2, channel))]


def _figure(quick: bool, *plots: tuple[str, str, float, Sequence[ErrorCurve]]) -> FigureContent:
    """Plots of curves, each with its title, the unit of its sample ratio and the largest one."""
    axes, frames, lines = [], [], []
    for title, unit, largest, curves in plots:
        computed = error_curves.compute(curves, np.linspace(0, largest, 41 if quick else 201))
        series = error_curves.curve_series(computed)
        verticals: list[tuple[float, Any, str | None]] = []
        if unit == "n/(rd)":
            for color, curve in enumerate(curves):
                if curve.model.prior.weak_recovery_onset > 0:
                    verticals.append((curve.scale * thresholds(curve.model)["weak_recovery"].alpha, color, None))
            series.append(legend_entry("weak recovery", ":", lw=1))
        else:
            series += error_curves.recovery_marks(computed)
        # Gradient descent is worse than knowing nothing but the prior where data are few.
        top = 1.5 if any(len(curve.runs) > 1 for curve in curves) else 1.02
        settings = {"title": title, "xlabel": _axis_label(unit), "ylabel": ATTENTION_ERROR_LABEL}
        axes.append(Axis(series, len(curves), {**settings, "xlim": (0, largest), "ylim": (0, top)}, verticals))
        frames += error_curves.frames(computed, panel=title)
        lines += [
            f"{error_curves.plain_label(title)}:",
            *(f"  {line}" for line in error_curves.summary_lines(computed)),
        ]
    return FigureContent(axes, joined(frames, _COLUMNS), "\n".join(lines), (5.6, 4.3))


def _axis_label(unit: str) -> str:
    return unit if unit.startswith("$") else label_alpha(unit)


def hardmax(quick: bool) -> FigureContent:
    """Hardmax attention of two tokens, with AMP, and its limit of small width."""
    runs = {0.25: (0.15, 0.4, 0.8), 1.0: (0.2, 0.5, 1.0, 1.5)}
    wide = _widths("hardmax", 2, (0.1, 0.25, 0.5, 1.0), runs, quick)
    narrow = _narrow("hardmax", (0.01, 0.05))
    return _figure(
        quick,
        (r"hardmax, $T = 2$", "n/d^2", 2.0, wide),
        (r"hardmax, $T = 2$, small width", "n/(rd)", 2.0, [narrow[-1], *narrow[:-1]]),
    )


def softmax(quick: bool) -> FigureContent:
    """Softmax attention for several widths, and its collapse over the number of tokens."""
    runs = {0.25: (0.04, 0.08, 0.12), 0.5: (0.05, 0.1, 0.15, 0.2)}
    widths = _widths("softmax", 2, (0.1, 0.25, 0.5, 1.0, 2.0), runs, quick)
    ratios = (0.15, 0.3, 0.45, 0.6, 0.9)
    tokens = []
    for count, style in ((2, "-"), (3, "--"), (4, ":")):
        marks = [] if count == 4 else _amp(ratios, quick)
        marks += _descents(ratios, quick) if count == 2 else []
        scale = float(count * count + count - 2)
        tokens.append(ErrorCurve(f"$T = {count}$", AttentionIndexed(0.5, count, "softmax"), None, marks, scale, style))
    return _figure(
        quick,
        (r"softmax, $T = 2$", "n/d^2", 0.3, widths),
        (r"softmax, $\rho = 0.5$", r"$\alpha\,(T^2 + T - 2)$", 1.0, tokens),
    )


def linear(quick: bool, reference: Path | None) -> FigureContent:
    """Linear attention of two tokens, and of one, which is a quadratic network, with perfect recovery by counting."""
    runs = {0.25: (0.02, 0.04, 0.06, 0.09), 0.5: (0.03, 0.06, 0.09, 0.15)}
    two = _widths("linear", 2, (0.1, 0.25, 0.5, 1.0, 2.0), runs, quick)
    one = _widths("linear", 1, (0.1, 0.25, 0.5, 1.0, 2.0), {0.5: (0.1, 0.2, 0.3, 0.45)}, quick)
    content = _figure(
        quick,
        (r"linear, $T = 2$", "n/d^2", 0.2, two),
        (r"linear, $T = 1$ (quadratic network)", "n/d^2", 0.6, one),
    )
    rows = published.load(reference, published.QUADRATIC)
    if rows is None:
        return content
    alpha, theirs = rows["alpha"].to_numpy(), rows["gen_error"].to_numpy()
    ours = limits(AttentionIndexed(0.5, 1, "linear"), alpha, throw=False)["error"]
    few = slice(None, None, max(1, len(alpha) // 16))
    text = published.deviations("quadratic network, rho = 0.5", alpha[few], ours[few], theirs[few])
    worst = f"largest difference at all {len(alpha)} ratios: {np.max(np.abs(ours - theirs)):.1e}"
    return replace(content, summary=f"{content.summary}\n{text}\n{worst}")


def many_tokens(quick: bool) -> FigureContent:
    """Softmax attention of four and five tokens."""
    curves = []
    for count in (4, 5):
        ratios = tuple(x / (count * count + count - 2) for x in (0.2, 0.4, 0.6, 0.9))
        model = AttentionIndexed(0.5, count, "softmax")
        curves.append(ErrorCurve(f"$T = {count}$", model, runs=_amp(ratios, quick, d=120)))
    return _figure(quick, (r"softmax, $\rho = 0.5$", "n/d^2", 0.06, curves))


def small_width(quick: bool) -> FigureContent:
    """Softmax attention in the limit of small width."""
    curves = _narrow("softmax", (0.5, 0.2, 0.1, 0.05, 0.01))
    return _figure(quick, (r"softmax, $T = 2$", "n/(rd)", 0.7, curves))


def in_time(quick: bool) -> FigureContent:
    """Message passing of hardmax attention step by step, without damping."""
    d, instances = (60, 2) if quick else (150, 8)
    model = AttentionIndexed(rho=0.3, tokens=2, channel="hardmax")
    table = follow(model, [1.0, 2.0], steps=25, d=d, instances=instances)
    return error_curves.step_figure(table, rf"hardmax, $T = 2$, $\rho = 0.3$, $d = {d}$")
