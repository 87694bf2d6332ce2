"""Figures of bilinear sequence regression (arXiv:2410.18858)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas

from glassformer.bayes_optimal.free_entropy import Landscape, landscape
from glassformer.bayes_optimal.limits import limits
from glassformer.bayes_optimal.thresholds import thresholds
from glassformer.core.estimate import Array
from glassformer.experiments.instances import standard_error
from glassformer.experiments.trajectories import follow
from glassformer.learners.gamp import MessagePassing
from glassformer.learners.gradient_descent import AveragedGradientDescent, GradientDescent
from glassformer.learners.nuclear_norm import NuclearNorm
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.ridge import ridge_error
from glassformer.models import BilinearSequenceRegression
from glassformer.papers import error_curves, published
from glassformer.papers.drawing import Axis, FigureContent, Series, joined, legend_entry
from glassformer.papers.error_curves import ComputedCurve, ErrorCurve, Runs
from glassformer.plotting.plots import draw_landscape, height_limits
from glassformer.plotting.style import ERROR_LABEL, colors, label_alpha
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Close to a transition steps shrink by a few per cent each: a step of 1e-3 posterior standard deviations leaves an
# error of about 1e-3 of itself, a tenth of its statistical fluctuation.
_PASSING = MessagePassing(tolerance=1e-3)
_MINIMAL_NORM = RegularisedRisk(strength=0.0)
# Width of the released runs of the nuclear norm.
_RELEASED = 0.2
_LABELS = {"xlabel": label_alpha("n/(dL)"), "ylabel": ERROR_LABEL}


def _title(**parameters: float) -> str:
    r"""Parameters by their symbols, for instance :math:`\beta = 1`."""
    symbols = {"beta": r"\beta", "rho": r"\rho", "noise": r"\Delta", "d": "d"}
    return ", ".join(rf"${symbols[name]} = {value:g}$" for name, value in parameters.items())


# --- Bayes-optimal error and GAMP: bsr-1, bsr-2 -----------------------------------------------------------------------


def square(quick: bool, reference: Path | None) -> FigureContent:
    """Square inputs without noise."""
    runs = {0.2: (0.1, 0.2, 0.25, 0.3, 0.5), 1.0: (0.1, 0.3, 0.5, 0.7)}
    return _optimal_error(1.0, 0.0, runs, 100, quick, reference)


def square_noisy(quick: bool, reference: Path | None) -> FigureContent:
    """Square inputs with noise."""
    runs = {rho: (0.1, 0.3, 0.5, 0.8) for rho in (0.2, 1.0)}
    return _optimal_error(1.0, 0.1, runs, 100, quick, reference)


def long_noisy(quick: bool, reference: Path | None) -> FigureContent:
    """Sequences five times as long as tokens are wide, with noise."""
    runs = {0.2: (0.1, 0.2, 0.3, 0.5, 0.7, 0.9), 1.0: (0.1, 0.3, 0.5, 0.7, 0.9)}
    return _optimal_error(5.0, 0.1, runs, 40, quick, reference)


def _optimal_error(
    beta: float, noise: float, runs: Mapping[float, Sequence[float]], d: int, quick: bool, reference: Path | None
) -> FigureContent:
    """Bayes-optimal error of several widths, ridge regression, and GAMP at the sample ratios ``runs`` of a width."""
    d, instances, every = (d // 2, 2, 3) if quick else (d, 6, 1)
    curves = []
    for rho in (0.1, 0.2, 0.5, 1.0, 2.0):
        model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
        marks = [Runs("GAMP", _PASSING, runs[rho][::every], d, instances, storage="float32")] if rho in runs else []
        curves.append(ErrorCurve(rf"$\rho = {rho:g}$", model, runs=marks))
    alpha = np.linspace(0, 1, 41 if quick else 201)
    computed, ridge = error_curves.compute(curves, alpha), ridge_error(alpha, noise)
    series = [Series(alpha, ridge, "0.35", "--", "ridge regression"), *error_curves.curve_series(computed)]
    summary = error_curves.summary_lines(computed)
    if noise == 0:
        series += error_curves.recovery_marks(computed)
    rows = published.load(reference, published.CURVES)
    if rows is not None:
        rows = rows[np.isclose(rows["beta"], beta) & np.isclose(rows["delta"], noise)].sort_values("alpha")
        dots = [rows[np.isclose(rows["rho"], curve.model.rho)][::8] for curve in curves]
        series += [Series(one["alpha"], one["mmse"], "k", ".", look={"ms": 2.2, "zorder": 3}) for one in dots]
        series.append(legend_entry("published data", ".", ms=3))
        summary += ["published data (largest difference below perfect recovery, and where):"]
        summary += [_largest_difference(curve.model, rows) for curve in curves]
    data = joined(
        [
            *_by_width(computed),
            *(
                table.to_pandas().assign(source="gamp", rho=one.curve.model.rho)
                for one in computed
                for table in one.simulations
            ),
            pandas.DataFrame({"alpha": alpha, "error": ridge, "source": "ridge"}),
        ],
        ("source", "rho", "alpha", "error", "standard_error", "theory", "overlap", "error_estimate", "status"),
    )
    settings = {**_LABELS, "xlim": (0, 1.01), "ylim": (0, 1.02), "title": _title(beta=beta, noise=noise)}
    return FigureContent([Axis(series, len(curves), settings)], data, "\n".join(summary))


def _by_width(computed: Sequence[ComputedCurve]) -> list[pandas.DataFrame]:
    return [one.theory.to_pandas().assign(source="theory", rho=one.curve.model.rho) for one in computed]


def _largest_difference(model: BilinearSequenceRegression, rows: pandas.DataFrame) -> str:
    """Compare the published curve of a width with ours."""
    rho: Any = model.rho
    rows = rows[np.isclose(rows["rho"], rho)]
    if model.noise == 0:
        # At the threshold itself an iteration that stops early leaves an error of 1e-4, which is no disagreement.
        rows = rows[rows["alpha"] < model.prior.mmse_dimension - 1e-9]
    if rows.empty:
        return f"  rho = {rho:g}: none"
    gap = np.abs(limits(model, rows["alpha"].to_numpy(), throw=False)["error"] - rows["mmse"].to_numpy())
    at = float(rows["alpha"].iloc[int(np.argmax(gap))])
    return f"  rho = {rho:g}: {gap.max():.1e} at alpha = {at:g} ({len(rows)} points)"


# --- thresholds and landscapes: bsr-3, bsr-4 --------------------------------------------------------------------------


def recovery_thresholds(quick: bool, reference: Path | None) -> FigureContent:
    """Perfect-recovery thresholds against the width, Bayes-optimal and of the minimal nuclear norm."""
    betas, width = (1.0, 5.0), np.linspace(0, 1.2, 25 if quick else 121)[1:]
    data = joined([_recovery(beta, width) for beta in betas])
    left, right = [], []
    for color, beta in enumerate(betas):
        rows = data[data["beta"] == beta]
        for name, style, text in (("bayes_optimal", "-", "Bayes-optimal"), ("nuclear_norm", "--", "nuclear norm")):
            label = rf"{text}, $\beta = {beta:g}$"
            left.append(Series(width, rows[name], color, style, label))
            right.append(Series(width, rows[name] * beta / (width * (1 + beta)), color, style, label))
        limit = [1, nuclear_norm_threshold_low_width(beta)]
        right.append(Series([0, 0], limit, color, "o", look={"mfc": "w", "clip_on": False, "zorder": 5}))
    right.append(legend_entry(r"limit $\rho \to 0$", "o", mfc="w"))
    lines = ["no published data to compare with"]
    rows = published.load(reference, published.THRESHOLDS)
    if rows is not None:
        lines = ["published data (largest difference):"]
        for beta, own in rows[rows["rho"] > 0].groupby("beta"):
            own = own.iloc[::20]
            ours = _recovery(float(beta), own["rho"].to_numpy())
            bayes = np.abs(ours["bayes_optimal"].to_numpy() - own["alpha_BO"].to_numpy()).max()
            nuclear = np.abs(ours["nuclear_norm"].to_numpy() - own["alpha_MNNE"].to_numpy()).max()
            lines.append(
                f"  beta = {beta:g}: Bayes-optimal {bayes:.1e}, nuclear norm {nuclear:.1e} ({len(own)} points)"
            )
    axes = [
        Axis(
            series,
            len(betas),
            {
                "xlabel": r"width ratio $\rho = r/d$",
                "ylabel": f"perfect recovery, {label_alpha(unit)}",
                "xlim": (0, 1.2),
                "ylim": (0, top),
            },
            legend={"loc": place},
        )
        for series, unit, top, place in (
            (left, "n/(dL)", 1.08, "lower right"),
            (right, "n/(r(L+d))", 3.2, "upper right"),
        )
    ]
    return FigureContent(axes, data, "\n".join(lines), (4.8, 4.0))


def _recovery(beta: float, width: Array) -> pandas.DataFrame:
    bayes = [BilinearSequenceRegression(beta=beta, rho=rho).prior.mmse_dimension for rho in width]
    nuclear = [nuclear_norm_threshold(beta, rho) for rho in width]
    return pandas.DataFrame({"beta": beta, "rho": width, "bayes_optimal": bayes, "nuclear_norm": nuclear})


def landscapes(quick: bool, reference: Path | None, noise: float = 0.0) -> FigureContent:
    """Free entropy against the overlap: one maximum for linear labels, a hard phase for absolute values."""
    cases = {"gaussian": ("h", (0.35, 0.5, 0.65, 0.8)), "absolute": ("|h|", (0.6, 0.7, 0.8, 0.9))}
    axes, frames, lines = [], [], []
    for channel, (link, ratios) in cases.items():
        model = BilinearSequenceRegression(beta=1.0, rho=0.5, noise=noise, channel=channel)
        curves = [landscape(model, alpha, 120 if quick else 400) for alpha in ratios]
        settings = {
            "xlim": (0, 1),
            "xlabel": r"overlap $q$",
            "ylabel": r"free entropy $\Phi(q) - \Phi(0)$ [nats]",
            "title": f"$y = {link}$, {_title(beta=1, rho=0.5, noise=noise)}",
        }
        draw = partial(_draw_landscapes, curves=curves, share=0.97 if noise == 0 else 0.9)
        axes.append(Axis([], 1, settings, legend={"title": r"$\alpha$", "loc": "lower left"}, annotate=draw))
        frames += [curve.to_pandas().assign(channel=channel) for curve in curves]
        found = thresholds(model)
        start, end, optimum = (
            found[name].alpha for name in ("hard_phase_start", "hard_phase_end", "bayes_optimal_transition")
        )
        hard = f"at alpha = {start:.4f} to {end:.4f}, Bayes-optimal transition at {optimum:.4f}"
        lines.append(f"{channel}: hard phase {hard if found.hard_phase else 'nowhere'}")
        lines += [f"  alpha = {curve.alpha:g}: maxima at overlap {curve.peaks}" for curve in curves]
    rows = published.load(reference, published.LANDSCAPE)
    if rows is not None:
        lines.append("published free entropy (largest difference over overlaps 0.01 to 0.99, up to a constant):")
        for alpha, own in rows[(rows["q"] > 0.01) & (rows["q"] < 0.99)].groupby("alpha"):
            curve = landscape(BilinearSequenceRegression(beta=1.0, rho=0.5), float(alpha))
            gap = np.interp(own["q"], curve.overlap, curve.free_entropy) - own["fe"].to_numpy()
            lines.append(f"  alpha = {alpha:g}: {np.abs(gap - np.median(gap)).max():.1e}")
    return FigureContent(axes, joined(frames), "\n".join(lines), (4.8, 4.0))


def landscapes_noisy(quick: bool) -> FigureContent:
    """The same with noise."""
    return landscapes(quick, None, noise=0.01)


def _draw_landscapes(axes: Axes, curves: Sequence[Landscape], share: float) -> None:
    for curve, color in zip(curves, colors(len(curves)), strict=True):
        draw_landscape(axes, curve, color)
    axes.set_ylim(*height_limits(curves, share))


# --- estimators in use: bsr-5, bsr-6, bsr-7 ---------------------------------------------------------------------------


def nuclear_norm(quick: bool, reference: Path | None, noise: float = 0.0) -> FigureContent:
    """Nuclear norm on data beside the Bayes-optimal error; without noise its theory and threshold as well."""
    widths, ratios = (0.1, 0.2, 0.5), tuple(np.linspace(0.1, 0.9, 5 if quick else 9))
    d, instances = (24, 2) if quick else (50, 6)
    curves, extra, verticals, alpha = [], [], [], np.linspace(0.01, 1, 12 if quick else 100)
    for color, rho in enumerate(widths):
        model = BilinearSequenceRegression(beta=1, rho=rho, noise=noise)
        runs = Runs("nuclear norm", NuclearNorm(), ratios, d, instances, "relative_error")
        curves.append(ErrorCurve(rf"Bayes-optimal, $\rho = {rho:g}$", model, runs=[runs]))
        if noise == 0:
            error = _MINIMAL_NORM.limits(model, alpha, throw=False)["error"]
            extra.append(Series(alpha[error > 0], error[error > 0], color, "--", look={"lw": 1}))
            verticals.append((nuclear_norm_threshold(1.0, rho), color, None))
    if noise == 0:
        extra += [legend_entry("nuclear norm, theory", "--", lw=1), legend_entry("its threshold", ":", lw=1)]
    computed = error_curves.compute(curves, np.linspace(0, 1, 101))
    lines = error_curves.summary_lines(computed)
    rows = published.load(reference, published.INTERPOLATIONS, exact=True)
    if rows is not None:
        theory = _MINIMAL_NORM.limits(BilinearSequenceRegression(beta=1, rho=_RELEASED), rows["alpha"].to_numpy())
        ratio, mean, error = (rows[name].to_numpy() for name in published.INTERPOLATIONS)
        look = {"ms": 5, "mfc": "none"}
        extra.append(Series(ratio, mean, widths.index(_RELEASED), "s", "published, $d = 50$", error, look))
        title = f"nuclear norm, rho = {_RELEASED:g}"
        lines.append(published.deviations(title, ratio, theory["error"], mean, error))
    rows = published.load(reference, published.THRESHOLDS)
    if rows is not None:
        rows = rows[(rows["beta"] == 1) & rows["rho"].round(6).isin(widths)]
        ours = np.array([nuclear_norm_threshold(1.0, rho) for rho in rows["rho"]])
        lines.append(
            published.deviations("threshold of the nuclear norm", rows["rho"], ours, rows["alpha_MNNE"], name="rho")
        )
    series = [*error_curves.curve_series(computed), *extra]
    axis = _baseline_axis(series, len(widths), _title(beta=1, noise=noise), verticals)
    labels = [f"nuclear norm, rho = {rho}" for rho in widths]
    return FigureContent([axis], _runs_data(computed, labels), "\n".join(lines))


def nuclear_norm_noisy(quick: bool) -> FigureContent:
    """Nuclear norm as a regulariser."""
    return nuclear_norm(quick, None, noise=0.1)


def _baseline_axis(series: Sequence[Series], count: int, title: str, verticals: Any = ()) -> Axis:
    legend = {"loc": "upper right", "frameon": True, "framealpha": 1.0, "edgecolor": "none"}
    return Axis(series, count, {**_LABELS, "title": title, "ylim": (-0.03, None)}, verticals, legend)


def _runs_data(computed: Sequence[ComputedCurve], labels: Sequence[str] = ()) -> pandas.DataFrame:
    """The errors of all runs that are drawn, by algorithm."""
    frames: list[pandas.DataFrame] = []
    for one in computed:
        for runs, table in zip(one.curve.runs, one.simulations, strict=True):
            mean, error = error_curves.measured(runs, table)
            frames.append(
                pandas.DataFrame(
                    {
                        "algorithm": labels[len(frames)] if labels else runs.label,
                        "noise": one.curve.model.noise,
                        "alpha": table["alpha"],
                        "error": mean,
                        "standard_error": error,
                        "status": list(map(str, table.status)),
                    }
                )
            )
    return joined(frames)


def gradient_descent(quick: bool, reference: Path | None) -> FigureContent:
    """Gradient descent, its average over starts, and message passing, without and with noise."""
    d, instances, starts = (20, 2, 8) if quick else (40, 3, 32)
    ratios = tuple(np.linspace(0.1, 0.5, 3) if quick else np.linspace(0.1, 0.6, 6))
    training: dict[str, Any] = {"max_steps": 6000 if quick else 20_000, "floor": 1e-6}
    single, averaged = GradientDescent(starts=starts, **training), AveragedGradientDescent(starts=starts, **training)
    axes, computed, theirs = [], [], published.descents(reference) or ()
    for noise in (0.0, 0.5):
        model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
        common: dict[str, Any] = {"ratios": ratios, "d": d, "instances": instances, "column": "relative_error"}
        runs = [
            Runs("gradient descent", single, color=0, storage="float32", **common),
            Runs(f"average over {starts} starts", averaged, marker="s", color=1, storage="float32", **common),
            Runs("message passing", MessagePassing(), marker="D", color=2, **common),
        ]
        if noise:
            early = runs[1]._replace(label="average, stopped at its best", column="early_stopped_error")
            runs.append(early._replace(marker="^", color=3))
        computed += error_curves.compute([ErrorCurve("Bayes-optimal", model, runs=runs)], np.linspace(0, 1, 101))
        series = error_curves.curve_series(computed[-1:])
        if noise == 0:
            series += [
                Series(
                    rows["alpha"], rows["gen_error_mean"], "0.4", "x", "published" if k == 0 else None, look={"ms": 4}
                )
                for k, rows in enumerate(theirs)
            ]
        axes.append(_baseline_axis(_optimum_in_grey(series), 4, _title(rho=0.2, noise=noise)))
    lines = error_curves.summary_lines(computed)
    for k, rows in enumerate(theirs):
        own, table = computed[0].curve.runs[k], computed[0].simulations[k]
        mean, error = error_curves.measured(own, table)
        there, matched = published.at_ratios(rows, table["alpha"])
        spread = np.hypot(error[there], matched["gen_error_std"].to_numpy())
        title, other = f"{own.label}, no noise, d = {d} (published: 100)", matched["gen_error_mean"].to_numpy()
        lines.append(published.deviations(title, table["alpha"][there], mean[there], other, spread))
    return FigureContent(axes, _runs_data(computed), "\n".join(lines), (5.0, 4.2))


def _optimum_in_grey(series: list[Series]) -> list[Series]:
    """The first line in grey: colours tell algorithms apart."""
    return [series[0]._replace(color="0.2"), *series[1:]]


def small_start_noisy(quick: bool) -> FigureContent:
    """The same with noise, stopped at its best as well."""
    return small_start(quick, noise=0.1)


def small_start(quick: bool, noise: float = 0.0) -> FigureContent:
    """Gradient descent from a small start beside minimal nuclear norm, on the same data."""
    model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
    d, instances = (24, 2) if quick else (32, 4)
    common: dict[str, Any] = {"ratios": tuple(np.linspace(0.1, 0.6, 4 if quick else 6)), "d": d, "instances": instances}
    common["column"] = "relative_error"
    narrow, full = GradientDescent(init="small"), GradientDescent(init="small", student_width=d)
    runs = [
        Runs("gradient descent, teacher's r", narrow, color=0, **common),
        Runs("gradient descent, full r", full, marker="s", color=1, **common),
        Runs("nuclear norm", NuclearNorm(), marker="D", color=2, **common),
    ]
    if noise:
        early = runs[1]._replace(label="full r, stopped at its best", column="early_stopped_error")
        runs.append(early._replace(marker="^", color=3))
    computed = error_curves.compute([ErrorCurve("Bayes-optimal", model, runs=runs)], np.linspace(0, 1, 101))
    lines = error_curves.summary_lines(computed)
    errors = [table.of_instances("error") for table in computed[0].simulations]
    for one, own in zip(runs[:2], errors, strict=False):
        gap = own - errors[2]
        numbers = zip(one.ratios, gap.mean(axis=1), standard_error(gap), strict=True)
        cells = [f"{alpha:.2f}: {mean:+.3f} +- {error:.3f}" for alpha, mean, error in numbers]
        lines.append(f"{one.label} minus nuclear norm, on the same data (alpha: error): {', '.join(cells)}")
    title = rf"small start ($10^{{-3}}$), {_title(rho=0.2, noise=noise, d=d)}"
    axis = _baseline_axis(_optimum_in_grey(error_curves.curve_series(computed)), 4, title)
    return FigureContent([axis], _runs_data(computed), "\n".join(lines))


# --- small width: bsr-8, and message passing in time ------------------------------------------------------------------


def small_width(quick: bool) -> FigureContent:
    """Approach of the Bayes-optimal error to the limit of small width, on the scale n/(r(L+d))."""
    axis = np.linspace(0, 2.0, 41 if quick else 161)
    limit = ErrorCurve(r"$\rho \to 0$", BilinearSequenceRegression(beta=1.0, rho=0, noise=0.1), style="--")
    curves = [
        ErrorCurve(rf"$\rho = {rho:g}$", BilinearSequenceRegression(beta=1.0, rho=rho, noise=0.1), scale=1 / (2 * rho))
        for rho in (0.5, 0.2, 0.1, 0.05, 0.01)
    ]
    computed = error_curves.compute([*curves, limit], axis)
    weak = thresholds(limit.model)["weak_recovery"].alpha
    lines = [f"weak recovery at rho -> 0: alpha_LR = {weak:.6g}"]
    for one in computed[:-1]:
        gap = np.abs(one.theory["error"] - computed[-1].theory["error"]).max()
        lines.append(f"  rho = {one.curve.model.rho:g}: largest distance to the limit {gap:.4f}")
    series = error_curves.curve_series(computed)
    series[-1] = series[-1]._replace(color="k")
    settings: dict[str, Any] = {"xlabel": label_alpha("n/(r(L+d))"), "ylabel": ERROR_LABEL}
    settings |= {"xlim": (0, 2), "ylim": (0, 1.02), "title": _title(beta=1, noise=0.1)}
    frames = [frame.assign(alpha=axis) for frame in _by_width([computed[-1], *computed[:-1]])]
    data = joined(frames, ("rho", "alpha", "error", "error_estimate", "status"))
    panel = Axis(series, len(curves), settings, [(weak, "0.5", "weak recovery")])
    return FigureContent([panel], data, "\n".join(lines))


def in_time(quick: bool) -> FigureContent:
    """Message passing step by step at three sample ratios of noisy linear labels."""
    d, instances = (80, 2) if quick else (200, 8)
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    table = follow(model, [0.3, 0.6, 0.9], steps=20, d=d, instances=instances)
    return error_curves.step_figure(table, f"$y = h$, {_title(beta=1, rho=0.3, noise=0.1, d=d)}")
