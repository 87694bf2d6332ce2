"""Figures of bilinear sequence regression (arXiv:2410.18858)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from glassformer.bayes_optimal.free_entropy import Landscape
from glassformer.core.accuracy import Accuracy
from glassformer.core.estimate import Array
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.gradient_descent import AveragedGradientDescent, GradientDescent
from glassformer.learners.nuclear_norm import NuclearNorm
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.ridge import ridge_error
from glassformer.models import BilinearSequenceRegression
from glassformer.papers import published
from glassformer.papers.curves import PERFECT, Comparison, ComputedCurve, Curve, CurvesPanel, Overlay, Runs
from glassformer.papers.drawing import Axis, RunSize, Series, legend_entry
from glassformer.papers.panels import steps_panel
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.plotting.plots import draw_landscape, height_limits
from glassformer.plotting.style import colors, label_alpha
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width
from glassformer.verbs.instances import standard_error
from glassformer.verbs.landscape import landscape
from glassformer.verbs.thresholds import thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Close to a transition steps shrink by a few per cent each: a step of 1e-3 posterior standard deviations leaves an
# error of about 1e-3 of itself, a tenth of its statistical fluctuation.
_PASSING = MessagePassing().at_accuracy(Accuracy(tolerance=1e-3))
_MINIMAL_NORM = RegularisedRisk(strength=0.0)
# Look of the legend where runs are anywhere in the picture, and columns of the data of runs alone.
_FRAMED = {"loc": "upper right", "frameon": True, "framealpha": 1.0, "edgecolor": "none"}
_RUNS = ("algorithm", "noise", "alpha", "error", "standard_error", "status")


def _title(**parameters: float) -> str:
    r"""Parameters by their symbols, for instance :math:`\beta = 1`."""
    symbols = {"beta": r"\beta", "rho": r"\rho", "noise": r"\Delta"}
    return ", ".join(rf"${symbols[name]} = {value:g}$" for name, value in parameters.items())


# --- Bayes-optimal error and GAMP: bsr-1, bsr-2 -----------------------------------------------------------------------


def square(quick: bool) -> Recipe:
    """Square inputs without noise."""
    return _optimal_error(1.0, 0.0, {0.2: (0.1, 0.2, 0.25, 0.3, 0.5), 1.0: (0.1, 0.3, 0.5, 0.7)}, 80, quick)


def square_noisy(quick: bool) -> Recipe:
    """Square inputs with noise."""
    return _optimal_error(1.0, 0.1, {rho: (0.1, 0.3, 0.5, 0.8) for rho in (0.2, 1.0)}, 100, quick)


def long_noisy(quick: bool) -> Recipe:
    """Sequences five times as long as tokens are wide, with noise."""
    runs = {0.2: (0.1, 0.2, 0.3, 0.5, 0.7, 0.9), 1.0: (0.1, 0.3, 0.5, 0.7, 0.9)}
    return _optimal_error(5.0, 0.1, runs, 40, quick)


def _optimal_error(beta: float, noise: float, runs: Mapping[float, Sequence[float]], d: int, quick: bool) -> Recipe:
    """Bayes-optimal error of several widths, ridge regression, and GAMP at the sample ratios ``runs`` of a width."""
    d, instances, every = (d // 2, 2, 3) if quick else (d, 4, 1)
    curves = []
    for rho in (0.1, 0.2, 0.5, 1.0, 2.0):
        ratios = runs.get(rho, ())[::every]
        row = {"source": "gamp"}
        marks = [Runs("message passing", _PASSING, ratios, d, instances, "relative_error", storage="float32", row=row)]
        model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
        curves.append(Curve(rf"$\rho = {rho:g}$", model, runs=marks if ratios else [], row={"rho": rho}))
    alpha = np.linspace(0, 1, 41 if quick else 201)
    panel = CurvesPanel(
        curves,
        alpha,
        rf"lines: smallest possible error, {_title(beta=beta)}, noise {_title(noise=noise)}, $\rho = r/d$",
        settings={"xlim": (0, 1.01)},
        marks=[PERFECT] if noise == 0 else [],
        further=partial(_ridge, alpha=alpha, noise=noise),
        published=published.compare_optimum,
    )
    columns = (
        *("source", "rho", "alpha", "error", "standard_error", "theory", "overlap", "error_estimate", "status"),
        *("relative_error", "relative_standard_error"),
    )
    return Recipe([panel], columns, ["source"])


def _ridge(computed: Sequence[ComputedCurve], alpha: Array, noise: float) -> Overlay:
    """Ridge regression, which does not depend on the width."""
    del computed
    error = ridge_error(alpha, noise)
    data = pandas.DataFrame({"alpha": alpha, "error": error, "source": "ridge"})
    return Overlay([Series(alpha, error, "0.35", "--", "ridge regression")], frames=[data])


# --- thresholds and landscapes: bsr-3, bsr-4 --------------------------------------------------------------------------


def recovery_thresholds(quick: bool) -> Recipe:
    """Perfect-recovery thresholds against the width, Bayes-optimal and of the minimal nuclear norm."""
    width = np.linspace(0, 1.2, 25 if quick else 121)[1:]
    return Recipe([partial(_recovery_thresholds, betas=(1.0, 5.0), width=width)], size=(4.8, 4.0))


def _recovery_thresholds(context: Context, betas: Sequence[float], width: Array) -> Part:
    """Closed forms of thresholds against the width, in two units of the sample ratio; published ones in words."""
    frames = [_recovery(beta, width) for beta in betas]
    left, right = [], []
    for color, (beta, rows) in enumerate(zip(betas, frames, strict=True)):
        for name, style, text in (("bayes_optimal", "-", "Bayes-optimal"), ("nuclear_norm", "--", "nuclear norm")):
            label = rf"{text}, $\beta = {beta:g}$"
            left.append(Series(width, rows[name], color, style, label))
            right.append(Series(width, rows[name] * beta / (width * (1 + beta)), color, style, label))
        limit = [1, nuclear_norm_threshold_low_width(beta)]
        right.append(Series([0, 0], limit, color, "o", look={"mfc": "w", "clip_on": False, "zorder": 5}))
    right.append(legend_entry(r"limit $\rho \to 0$", "o", mfc="w"))
    axes = []
    for series, unit, top, place in (
        (left, "n/(dL)", 1.08, "lower right"),
        (right, "n/(r(L+d))", 3.2, "upper right"),
    ):
        labels = {"xlabel": r"width ratio $\rho = r/d$", "ylabel": f"perfect recovery, {label_alpha(unit)}"}
        settings = {**labels, "xlim": (0, 1.2), "ylim": (0, top)}
        axes.append(Axis(series, len(betas), settings, legend={"loc": place}))
    lines = ["no published data to compare with"]
    published_rows = published.load(context.reference, published.THRESHOLDS)
    if published_rows is not None:
        lines = ["published data (largest difference):"]
        for beta, own in published_rows[published_rows["rho"] > 0].groupby("beta"):
            own = own.iloc[::20]
            ours = _recovery(float(beta), own["rho"].to_numpy())
            bayes = np.abs(ours["bayes_optimal"].to_numpy() - own["alpha_BO"].to_numpy()).max()
            nuclear = np.abs(ours["nuclear_norm"].to_numpy() - own["alpha_MNNE"].to_numpy()).max()
            gaps = f"Bayes-optimal {bayes:.1e}, nuclear norm {nuclear:.1e} ({len(own)} points)"
            lines.append(f"  beta = {beta:g}: {gaps}")
    return Part(axes, frames, lines)


def _recovery(beta: float, width: Array) -> pandas.DataFrame:
    bayes = [BilinearSequenceRegression(beta=beta, rho=rho).prior.mmse_dimension for rho in width]
    nuclear = [nuclear_norm_threshold(beta, rho) for rho in width]
    return pandas.DataFrame({"beta": beta, "rho": width, "bayes_optimal": bayes, "nuclear_norm": nuclear})


def landscapes(quick: bool, noise: float = 0.0) -> Recipe:
    """Free entropy against the overlap: one maximum for linear labels, a hard phase for absolute values."""
    cases = {"gaussian": ("h", (0.35, 0.5, 0.65, 0.8)), "absolute": ("|h|", (0.6, 0.7, 0.8, 0.9))}
    panels = []
    for channel, (link, ratios) in cases.items():
        model = BilinearSequenceRegression(beta=1.0, rho=0.5, noise=noise, channel=channel)
        title = f"$y = {link}$, {_title(beta=1, rho=0.5, noise=noise)}"
        panels.append(partial(_landscapes, model=model, ratios=ratios, points=120 if quick else 400, title=title))
    return Recipe(panels, size=(4.8, 4.0))


def landscapes_noisy(quick: bool) -> Recipe:
    """The same with noise."""
    return landscapes(quick, noise=0.01)


def _landscapes(
    context: Context, model: BilinearSequenceRegression, ratios: Sequence[float], points: int, title: str
) -> Part:
    """Free entropy against the overlap, and the hard phase; published landscapes are compared in words."""
    channel = str(model.parameters["channel"])
    curves = [landscape(model, alpha, overlaps=points) for alpha in ratios]
    labels = {"xlabel": r"overlap $q$", "ylabel": r"free entropy $\Phi(q) - \Phi(0)$ [nats]"}
    draw = partial(_draw_landscapes, curves=curves, share=0.97 if model.noise == 0 else 0.9)
    legend = {"title": r"$\alpha$", "loc": "lower left"}
    axis = Axis([], 1, {**labels, "xlim": (0, 1), "title": title}, legend=legend, annotate=draw)
    found = thresholds(model)
    names = ("hard_phase_start", "hard_phase_end", "bayes_optimal_transition")
    start, end, optimum = (found[name].alpha for name in names)
    hard = f"at alpha = {start:.4f} to {end:.4f}, Bayes-optimal transition at {optimum:.4f}"
    lines = [f"{channel}: hard phase {hard if found.hard_phase else 'nowhere'}"]
    lines += [f"  alpha = {curve.alpha:g}: maxima at overlap {curve.peaks}" for curve in curves]
    # Published landscapes are those of linear labels without noise; they are compared once, below both panels.
    compared = channel == "absolute" and model.noise == 0
    rows = published.load(context.reference, published.LANDSCAPE) if compared else None
    if rows is not None:
        lines.append("published free entropy (largest difference over overlaps 0.01 to 0.99, up to a constant):")
        for alpha, own in rows[(rows["q"] > 0.01) & (rows["q"] < 0.99)].groupby("alpha"):
            curve = landscape(BilinearSequenceRegression(beta=1.0, rho=0.5), float(alpha))
            gap = np.interp(own["q"], curve.overlap, curve.free_entropy) - own["fe"].to_numpy()
            lines.append(f"  alpha = {alpha:g}: {np.abs(gap - np.median(gap)).max():.1e}")
    return Part([axis], [curve.to_pandas().assign(channel=channel) for curve in curves], lines)


def _draw_landscapes(axes: Axes, curves: Sequence[Landscape], share: float) -> None:
    for curve, color in zip(curves, colors(len(curves)), strict=True):
        draw_landscape(axes, curve, color)
    axes.set_ylim(*height_limits(curves, share))


# --- estimators in use: bsr-5, bsr-6, bsr-7 ---------------------------------------------------------------------------


def nuclear_norm(quick: bool, noise: float = 0.0) -> Recipe:
    """Nuclear norm on data beside the Bayes-optimal error; without noise its theory and threshold as well."""
    ratios, size = np.linspace(0.1, 0.9, 5 if quick else 9), (24, 2) if quick else (50, 6)
    optimal, theories = [], []
    for color, rho in enumerate((0.1, 0.2, 0.5)):
        model = BilinearSequenceRegression(beta=1, rho=rho, noise=noise)
        row = {"algorithm": f"nuclear norm, rho = {rho}"}
        runs = Runs("nuclear norm", NuclearNorm(), ratios, *size, "relative_error", row=row)
        optimal.append(Curve(rf"Bayes-optimal, $\rho = {rho:g}$", model, runs=[runs]))
        theories.append(
            Curve(
                rf"nuclear norm, theory, $\rho = {rho:g}$",
                model,
                _MINIMAL_NORM,
                style="--",
                color=color,
                width=1,
                ratios=np.linspace(0.01, 1, 34 if quick else 100),
                threshold=nuclear_norm_threshold(1.0, rho),
                in_legend=False,
            )
        )
    entries = [legend_entry("nuclear norm, theory", "--", lw=1), legend_entry("its threshold", ":", lw=1)]
    panel = CurvesPanel(
        optimal if noise else [*optimal, *theories],
        np.linspace(0, 1, 101),
        _title(beta=1, noise=noise),
        settings={"xlim": None, "ylim": (-0.03, None)},
        entries=[] if noise else entries,
        legend=_FRAMED,
        runs_only=True,
        published=None if noise else published.compare_nuclear_norm,
    )
    return Recipe([panel], _RUNS)


def nuclear_norm_noisy(quick: bool) -> Recipe:
    """Nuclear norm as a regulariser."""
    return nuclear_norm(quick, noise=0.1)


def _algorithms(noise: float, runs: Sequence[Runs], title: str, compare: Comparison | None = None) -> CurvesPanel:
    """The Bayes-optimal error in grey, and runs of algorithms in colours."""
    model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
    return CurvesPanel(
        [Curve("Bayes-optimal", model, runs=runs, color="0.2")],
        np.linspace(0, 1, 101),
        title,
        settings={"xlim": None, "ylim": (-0.03, None)},
        colors=4,
        legend=_FRAMED,
        runs_only=True,
        published=compare,
    )


def gradient_descent(quick: bool) -> Recipe:
    """Gradient descent, its average over starts, and message passing, without and with noise."""
    d, instances, starts = (20, 4, 8) if quick else (40, 3, 32)
    # With fewer samples an average of few starts at a small size is far above its limit.
    ratios = np.array([0.2, 0.3, 0.5]) if quick else np.linspace(0.1, 0.6, 6)
    training: dict[str, Any] = {"steps": 6000 if quick else 20_000, "floor": 1e-6}
    training["initialisations"] = starts
    single, averaged = GradientDescent(**training), AveragedGradientDescent(**training)
    common: dict[str, Any] = {"ratios": ratios, "d": d, "instances": instances, "column": "relative_error"}
    runs = [
        Runs("gradient descent", single, color=0, storage="float32", **common),
        Runs(f"average over {starts} starts", averaged, marker="s", color=1, storage="float32", **common),
        Runs("message passing", MessagePassing(), marker="D", color=2, **common),
    ]
    early = replace(runs[1], label="average, stopped at its best", column="early_stopped_error", marker="^", color=3)
    panels = [
        _algorithms(0.0, runs, _title(rho=0.2, noise=0), published.compare_descents),
        _algorithms(0.5, [*runs, early], _title(rho=0.2, noise=0.5)),
    ]
    return Recipe(panels, _RUNS, size=(5.0, 4.2))


def small_start(quick: bool, noise: float = 0.0) -> Recipe:
    """Gradient descent from a small start beside minimal nuclear norm, on the same data."""
    d, instances, points = (24, 2, 4) if quick else (32, 4, 6)
    common: dict[str, Any] = {"ratios": np.linspace(0.1, 0.6, points), "d": d, "instances": instances}
    common["column"] = "relative_error"
    narrow, full = GradientDescent(start="small:0.001"), GradientDescent(start="small:0.001", student_width=d)
    runs = [
        Runs("gradient descent, teacher's r", narrow, color=0, **common),
        Runs("gradient descent, full r", full, marker="s", color=1, **common),
        Runs("nuclear norm", NuclearNorm(), marker="D", color=2, **common),
    ]
    early = replace(runs[1], label="full r, stopped at its best", column="early_stopped_error", marker="^", color=3)
    panel = _algorithms(
        noise, [*runs, early] if noise else runs, rf"small start ($10^{{-3}}$), {_title(rho=0.2, noise=noise)}"
    )
    return Recipe([replace(panel, further=_differences_to_nuclear_norm)], _RUNS)


def small_start_noisy(quick: bool) -> Recipe:
    """The same with noise, stopped at its best as well."""
    return small_start(quick, noise=0.1)


def _differences_to_nuclear_norm(computed: Sequence[ComputedCurve]) -> Overlay:
    """Differences of the first two algorithms from the third one, instance by instance."""
    (curve, _, simulations), lines = computed[0], []
    errors = [table.of_instances("error") for table in simulations]
    for one, own in zip(curve.runs[:2], errors, strict=False):
        gap = own - errors[2]
        numbers = zip(one.ratios, gap.mean(axis=1), standard_error(gap), strict=True)
        cells = [f"{alpha:.2f}: {mean:+.3f} +- {error:.3f}" for alpha, mean, error in numbers]
        lines.append(f"{one.label} minus nuclear norm, on the same data (alpha: error): {', '.join(cells)}")
    return Overlay(lines=lines)


# --- small width: bsr-8, and message passing in time ------------------------------------------------------------------


def small_width(quick: bool) -> Recipe:
    """Approach of the Bayes-optimal error to the limit of small width, on the scale n/(r(L+d))."""
    axis = np.linspace(0, 2.0, 41 if quick else 161)
    limit = BilinearSequenceRegression(beta=1.0, rho=0, noise=0.1)
    curves = [
        Curve(
            rf"$\rho = {rho:g}$",
            BilinearSequenceRegression(beta=1.0, rho=rho, noise=0.1),
            scale=1 / (2 * rho),
            row={"rho": rho, "alpha": axis},
        )
        for rho in (0.5, 0.2, 0.1, 0.05, 0.01)
    ]
    curves.append(Curve(r"$\rho \to 0$", limit, style="--", color="k", row={"rho": 0.0, "alpha": axis}))
    panel = CurvesPanel(
        curves,
        axis,
        _title(beta=1, noise=0.1),
        settings={"xlabel": label_alpha("n/(r(L+d))")},
        verticals=[(thresholds(limit)["weak_recovery"].alpha, "0.5", "weak recovery")],
        further=_distances_to_limit,
    )
    return Recipe([panel], ("rho", "alpha", "error", "error_estimate", "status"))


def _distances_to_limit(computed: Sequence[ComputedCurve]) -> Overlay:
    """Distances of all curves to the last one."""
    limit = computed[-1]
    lines = [f"weak recovery at rho -> 0: alpha_LR = {thresholds(limit.curve.model)['weak_recovery'].alpha:.6g}"]
    for one in computed[:-1]:
        gap = np.abs(one.theory["error"] - limit.theory["error"]).max()
        lines.append(f"  rho = {one.curve.model.parameters['rho']:g}: largest distance to the limit {gap:.4f}")
    return Overlay(lines=lines)


def in_time(quick: bool) -> Recipe:
    """Message passing step by step at three sample ratios of noisy linear labels."""
    size = RunSize(80, 2) if quick else RunSize(200, 8)
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    title, ratios = f"$y = h$, {_title(beta=1, rho=0.3, noise=0.1)}", [0.3, 0.6, 0.9]
    return Recipe([partial(steps_panel, model=model, alpha=ratios, steps=20, size=size, title=title)])
