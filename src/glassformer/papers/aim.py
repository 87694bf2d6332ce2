"""Figures of attention-indexed models (arXiv:2506.01582)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from glassformer.core.accuracy import Accuracy
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.gradient_descent import AveragedGradientDescent, GradientDescent
from glassformer.models import AttentionIndexed
from glassformer.papers import published
from glassformer.papers.curves import PERFECT, WEAK, ComputedCurve, Curve, CurvesPanel, Overlay, Runs
from glassformer.papers.drawing import RunSize, Series
from glassformer.papers.panels import steps_panel
from glassformer.papers.published_attention import compare_errors
from glassformer.papers.recipe import Recipe
from glassformer.plotting.style import label_alpha

# The pictures do not change below this tolerance; a run costs half as much.
_PASSING = MessagePassing().at_accuracy(Accuracy(tolerance=2e-3, max_iterations=800))
_COLUMNS = (
    *("source", "panel", "curve", "alpha", "error", "error_estimate", "status", "standard_error", "theory"),
    *("relative_error", "relative_standard_error"),
)
_NAMES = ("source", "panel", "curve")
_SIZE = (5.6, 4.3)
_Ratios = tuple[float, ...]


def _amp(ratios: _Ratios, quick: bool, d: int = 100) -> list[Runs]:
    """Message passing at these sample ratios."""
    d, instances, every = (d // 3, 2, 2) if quick else (d, 16, 1)
    return [Runs("AMP", _PASSING, ratios[::every], d, instances, "relative_error", storage="float32")]


def _widths(channel: str, tokens: int, widths: _Ratios, runs: Mapping[float, _Ratios], quick: bool) -> list[Curve]:
    """One curve for each width, with message passing at the sample ratios ``runs`` of a width."""
    return [
        Curve(
            rf"$\rho = {rho:g}$",
            AttentionIndexed(rho, tokens, channel),
            runs=_amp(runs[rho], quick) if rho in runs else [],
        )
        for rho in widths
    ]


def _panel(quick: bool, title: str, largest: float, curves: Sequence[Curve], **more: Any) -> CurvesPanel:
    """Errors up to the largest sample ratio, with ticks at perfect recovery."""
    ratios = np.linspace(0, largest, 41 if quick else 201)
    return CurvesPanel(curves, ratios, title, **{"marks": [PERFECT], "indented": True, **more})


def _small_width(quick: bool, channel: str, largest: float, widths: _Ratios, limit_first: bool) -> CurvesPanel:
    """The approach to the limit of small width, on the scale n/(rd)."""
    limit = Curve(r"$\rho \to 0$", AttentionIndexed(0, 2, channel))
    curves = [Curve(rf"$\rho = {rho:g}$", AttentionIndexed(rho, 2, channel), scale=1 / rho) for rho in widths]
    curves = [limit, *curves] if limit_first else [*curves, limit]
    title = rf"{channel}, $T = 2$" + (", small width" if limit_first else "")
    settings = {"xlabel": label_alpha("n/(rd)")}
    return _panel(quick, title, largest, curves, settings=settings, marks=[WEAK, PERFECT])


def hardmax(quick: bool) -> Recipe:
    """Hardmax attention of two tokens, with AMP, its power law at many samples, and its limit of small width."""
    widths = (0.1, 0.25, 0.5, 1.0)
    near = _widths("hardmax", 2, widths, {0.25: (0.15, 0.4, 0.8), 1.0: (0.2, 0.5, 1.0, 1.5)}, quick)
    far = CurvesPanel(
        _widths("hardmax", 2, widths, {}, quick),
        np.geomspace(0.02, 100, 25 if quick else 75),
        r"hardmax, $T = 2$, many samples",
        settings={"xscale": "log", "yscale": "log", "ylim": (3e-6, 1.5)},
        legend={"loc": "lower left"},
        indented=True,
        further=_power_law,
    )
    panels = [
        _panel(quick, r"hardmax, $T = 2$", 2.0, near, published=compare_errors),
        far,
        _small_width(quick, "hardmax", 2.0, (0.01, 0.05), limit_first=True),
    ]
    return Recipe(panels, _COLUMNS, _NAMES, _SIZE)


def _power_law(computed: Sequence[ComputedCurve]) -> Overlay:
    """The inverse square of the sample ratio, above the curves, and their local powers at the largest ratios."""
    lines = []
    for one in computed:
        alpha, error = one.theory["alpha"][-2:], one.theory["error"][-2:]
        power = np.diff(np.log(error))[0] / np.diff(np.log(alpha))[0]
        rho = one.curve.model.parameters["rho"]
        lines.append(f"rho = {rho:g}: error {error[-1]:.4g} at alpha {alpha[-1]:g}, power {power:.3f}")
    x = np.array([8.0, 100.0])
    top = max(one.theory["error"][-1] * one.theory["alpha"][-1] ** 2 for one in computed)
    return Overlay([Series(x, 2.5 * top / x**2, "k", "--", r"$\alpha^{-2}$", look={"lw": 1})], lines)


def softmax(quick: bool) -> Recipe:
    """Softmax attention for several widths, and its collapse over the number of tokens."""
    runs = {0.25: (0.04, 0.08, 0.12), 0.5: (0.05, 0.1, 0.15, 0.2)}
    widths = _widths("softmax", 2, (0.1, 0.25, 0.5, 1.0, 2.0), runs, quick)
    ratios, tokens = (0.15, 0.3, 0.45, 0.6, 0.9), []
    for count, style in ((2, "-"), (3, "--"), (4, ":")):
        marks = [] if count == 4 else _amp(ratios, quick)
        marks += _descents(ratios, quick) if count == 2 else []
        scale = float(count * count + count - 2)
        model = AttentionIndexed(0.5, count, "softmax")
        tokens.append(Curve(f"$T = {count}$", model, runs=marks, scale=scale, style=style))
    collapse = {"xlabel": r"$\alpha\,(T^2 + T - 2)$"}
    panels = [
        _panel(quick, r"softmax, $T = 2$", 0.3, widths, published=partial(compare_errors, algorithms=[""])),
        _panel(
            quick,
            r"softmax, $\rho = 0.5$",
            1.0,
            tokens,
            settings=collapse,
            published=partial(compare_errors, algorithms=["amp", "gd", "averaged_gd"]),
        ),
    ]
    return Recipe(panels, _COLUMNS, _NAMES, _SIZE)


def _descents(ratios: _Ratios, quick: bool) -> list[Runs]:
    """Gradient descent and its average over starts, which cost much more than message passing, at smaller sizes."""
    starts, size = (8, (20, 2)) if quick else (32, (50, 4))
    training: dict[str, Any] = {"steps": 4000, "floor": 1e-6}
    common: dict[str, Any] = {"ratios": ratios[1:4:2] if quick else ratios, "storage": "float32"}
    common |= {"d": size[0], "instances": size[1], "column": "relative_error"}
    averaged = AveragedGradientDescent(initialisations=starts, **training)
    return [
        Runs("GD", GradientDescent(initialisations=1, **training), marker="^", **common),
        Runs(f"average of {starts} GD", averaged, marker="D", **common),
    ]


def linear(quick: bool) -> Recipe:
    """Linear attention of two tokens, and of one, which is a quadratic network, with perfect recovery by counting."""
    widths = (0.1, 0.25, 0.5, 1.0, 2.0)
    two = _widths("linear", 2, widths, {0.25: (0.02, 0.04, 0.06, 0.09), 0.5: (0.03, 0.06, 0.09, 0.15)}, quick)
    one = _widths("linear", 1, widths, {0.5: (0.1, 0.2, 0.3, 0.45)}, quick)
    network = r"linear, $T = 1$ (quadratic network)"
    panels = [
        _panel(quick, r"linear, $T = 2$", 0.2, two),
        _panel(quick, network, 0.6, one, published=published.compare_quadratic),
    ]
    return Recipe(panels, _COLUMNS, _NAMES, _SIZE)


def many_tokens(quick: bool) -> Recipe:
    """Softmax attention of four and five tokens."""
    curves = []
    for count in (4, 5):
        ratios = tuple(x / (count * count + count - 2) for x in (0.2, 0.4, 0.6, 0.9))
        model = AttentionIndexed(0.5, count, "softmax")
        curves.append(Curve(f"$T = {count}$", model, runs=_amp(ratios, quick, d=120)))
    panel = _panel(quick, r"softmax, $\rho = 0.5$", 0.06, curves, published=compare_errors)
    return Recipe([panel], _COLUMNS, _NAMES, _SIZE)


def small_width(quick: bool) -> Recipe:
    """Softmax attention in the limit of small width."""
    panel = _small_width(quick, "softmax", 0.7, (0.5, 0.2, 0.1, 0.05, 0.01), limit_first=False)
    return Recipe([panel], _COLUMNS, _NAMES, _SIZE)


def in_time(quick: bool) -> Recipe:
    """Message passing of hardmax attention step by step, without damping."""
    model = AttentionIndexed(rho=0.3, tokens=2, channel="hardmax")
    title = r"hardmax, $T = 2$, $\rho = 0.3$"
    size = RunSize(60, 2) if quick else RunSize(150, 8)
    return Recipe([partial(steps_panel, model=model, alpha=[1.0, 2.0], steps=25, size=size, title=title)])
