"""Bilinear sequence regression by the estimators in use: nuclear norm and gradient descent against the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.estimate import Array
from glassformer.experiments.instances import Simulation
from glassformer.experiments.simulation import simulate
from glassformer.learners.gradient_descent import GradientDescent
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.models import BilinearSequenceRegression
from glassformer.papers.reference import (
    INTERPOLATIONS,
    THRESHOLDS,
    at_ratios,
    descents,
    deviations,
    load,
)
from glassformer.plotting.style import ERROR_LABEL, canvas, colors, label_alpha
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold
from glassformer.state_evolution.limits import limits

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

# Width ratios, and that of the released runs of the nuclear norm.
_WIDTHS, _RELEASED = (0.1, 0.2, 0.5), 0.2
_INTERPOLATOR = RegularisedRisk(strength=0.0)
_Result = tuple["pandas.DataFrame", str, bool]


@dataclass(frozen=True)
class _Series:
    """One algorithm's runs on one model: its label, the table, and which of its errors."""

    label: str
    runs: Simulation
    early: bool = False

    @property
    def errors(self) -> tuple[Array, Array]:
        """Errors relative to the power of the teachers, which fluctuates at these sizes, and their standard errors."""
        if self.early:
            return self.runs["early_stopped_error"], np.full(len(self.runs["alpha"]), np.nan)
        return self.runs["relative_error"], self.runs["relative_standard_error"]


def nuclear_norm(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-5``: minimal nuclear norm on data, its threshold, and the Bayes-optimal error."""
    runs = load(reference, INTERPOLATIONS, exact=True)
    data, summary, converged = _nuclear_norm(path, quick, 0.0, runs)
    if runs is not None:
        model = BilinearSequenceRegression(beta=1, rho=_RELEASED)
        theory = _INTERPOLATOR.limits(model, runs["alpha"].to_numpy())["error"]
        spread, means = runs["error_standard_error"].to_numpy(), runs["error_mean"].to_numpy()
        text = deviations(f"nuclear norm, rho = {_RELEASED:g}", runs["alpha"], theory, means, spread)
        summary = f"{summary}\n{text}"
    published = load(reference, THRESHOLDS)
    if published is not None:
        rows = published[(published["beta"] == 1) & published["rho"].round(6).isin(_WIDTHS)]
        ours = np.array([nuclear_norm_threshold(1.0, rho) for rho in rows["rho"]])
        text = deviations("threshold of the nuclear norm", rows["rho"], ours, rows["alpha_MNNE"], name="rho")
        summary = f"{summary}\n{text}"
    return data, summary, converged


def noisy_nuclear_norm(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-5-noisy``: nuclear norm as a regulariser; there are no published data for it."""
    del reference
    return _nuclear_norm(path, quick, 0.1)


def _nuclear_norm(path: Path, quick: bool, noise: float, published: pandas.DataFrame | None = None) -> _Result:
    alpha = np.linspace(0.1, 0.9, 5 if quick else 9)
    d, instances = (24, 2) if quick else (50, 6)
    models = [BilinearSequenceRegression(beta=1, rho=rho, noise=noise) for rho in _WIDTHS]
    series = [
        _Series(
            f"nuclear norm, rho = {rho}", simulate(model, alpha, d=d, instances=instances, algorithm="nuclear-norm")
        )
        for rho, model in zip(_WIDTHS, models, strict=True)
    ]
    with canvas(path) as (axes,):
        for rho, model, one, color in zip(_WIDTHS, models, series, colors(len(_WIDTHS)), strict=True):
            _optimum(axes, model, color, rf"Bayes-optimal, $\rho = {rho:g}$")
            if noise == 0:
                axes.axvline(nuclear_norm_threshold(1.0, rho), color=color, ls=":", lw=1)
                _theory(axes, model, color, quick)
            if published is not None and rho == _RELEASED:
                ratios, mean, blur = (published[name] for name in INTERPOLATIONS)
                axes.errorbar(ratios, mean, blur, fmt="s", ms=5, mfc="none", color=color, label="published, $d = 50$")
            mean, blur = one.errors
            axes.errorbar(alpha, mean, blur, fmt="o", ms=4, color=color)
        axes.plot([], [], "o", color="0.3", label=f"nuclear norm, $d = {d}$")
        if noise == 0:
            axes.plot([], [], "--", color="0.3", label="its theory")
            axes.plot([], [], ":", color="0.3", label="its threshold")
        _finish(axes, rf"$\beta = 1$, $\Delta = {noise:g}$")
    return _collected(series)


def gradient_descent(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-6``: gradient descent, its average over starts and message passing, without and with noise."""
    series: list[_Series] = []
    with canvas(path, columns=2, size=(5.0, 4.2)) as panels:
        for axes, noise in zip(panels, (0.0, 0.5), strict=True):
            model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
            own = _descents(model, noise, quick)
            series += own
            _draw(axes, model, own, rf"$\rho = 0.2$, $\Delta = {noise:g}$")
        published = descents(reference) or ()
        for k, rows in enumerate(published):
            label = "published" if k == 0 else None
            panels[0].plot(rows["alpha"], rows["gen_error_mean"], "x", color="0.4", ms=4, label=label)
        if published:
            panels[0].legend(loc="upper right")
    data, summary, converged = _collected(series)
    return data, "\n".join([summary, *_published(series[: len(published)], published)]), converged


def small_start(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-7``: gradient descent from a small start beside minimal nuclear norm, on the same data."""
    del reference
    return _small_start(path, quick, 0.0)


def noisy_small_start(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-7-noisy``: the same with noise, stopped at its best as well."""
    del reference
    return _small_start(path, quick, 0.1)


def _small_start(path: Path, quick: bool, noise: float) -> _Result:
    model = BilinearSequenceRegression(beta=1, rho=0.2, noise=noise)
    alpha = np.linspace(0.1, 0.6, 4 if quick else 6)
    d, instances = (24, 2) if quick else (32, 4)
    own, full = GradientDescent(init="small"), GradientDescent(init="small", student_width=d)
    series = [
        _Series("gradient descent, teacher's r", simulate(model, alpha, d, instances, algorithm="gd", settings=own)),
        _Series("gradient descent, full r", simulate(model, alpha, d, instances, algorithm="gd", settings=full)),
        _Series("nuclear norm", simulate(model, alpha, d, instances, algorithm="nuclear-norm")),
    ]
    if noise:
        series.append(_Series("full r, stopped at its best", series[1].runs, early=True))
    with canvas(path) as (axes,):
        _draw(axes, model, series, rf"small start ($10^{{-3}}$), $\rho = 0.2$, $\Delta = {noise:g}$, $d = {d}$")
    data, summary, converged = _collected(series)
    return data, "\n".join([summary, *(_coincidence(one, series[2], alpha) for one in series[:2])]), converged


def _descents(model: BilinearSequenceRegression, noise: float, quick: bool) -> list[_Series]:
    d, instances, starts = (20, 2, 8) if quick else (40, 3, 32)
    alpha = np.linspace(0.1, 0.5, 3) if quick else np.linspace(0.1, 0.6, 6)
    steps = 6000 if quick else 20_000
    training = GradientDescent(starts=starts, max_steps=steps, floor=1e-6)
    averaged, single = (
        simulate(model, alpha, d, instances, algorithm=name, storage="float32", settings=training)
        for name in ("averaged-gd", "gd")
    )
    passing = simulate(model, alpha, d, instances)
    series = [
        _Series("gradient descent", single),
        _Series(f"average over {starts} starts", averaged),
        _Series("message passing", passing),
    ]
    return [*series, _Series("average, stopped at its best", averaged, early=True)] if noise else series


def _draw(axes: Axes, model: BilinearSequenceRegression, series: Sequence[_Series], title: str) -> None:
    _optimum(axes, model, "0.2", "Bayes-optimal")
    for one, marker, color in zip(series, "osD^", colors(4), strict=False):
        mean, blur = one.errors
        axes.errorbar(one.runs["alpha"], mean, blur, fmt=marker, ms=4, color=color, label=one.label)
    _finish(axes, title)


def _optimum(axes: Axes, model: BilinearSequenceRegression, color: object, label: str) -> None:
    alpha = np.linspace(0, 1, 101)
    axes.plot(alpha, limits(model, alpha, throw=False)["error"], color=color, label=label)


def _theory(axes: Axes, model: BilinearSequenceRegression, color: object, quick: bool) -> None:
    """The minimal nuclear norm, where it does not recover perfectly."""
    alpha = np.linspace(0.01, 1, 12 if quick else 100)
    error = _INTERPOLATOR.limits(model, alpha, throw=False)["error"]
    axes.plot(alpha[error > 0], error[error > 0], "--", color=color, lw=1)


def _finish(axes: Axes, title: str) -> None:
    axes.set_xlabel(label_alpha("n/(dL)"))
    axes.set_ylabel(ERROR_LABEL)
    axes.set_ylim(bottom=-0.03)
    axes.set_title(title)
    axes.legend(loc="upper right", frameon=True, framealpha=1.0, edgecolor="none")


def _published(series: Sequence[_Series], published: Sequence[pandas.DataFrame]) -> list[str]:
    """Our errors against published ones at the ratios of both."""
    tables = []
    for one, frame in zip(series, published, strict=True):
        alpha, (mean, blur) = one.runs["alpha"], one.errors
        there, rows = at_ratios(frame, alpha)
        spread = np.hypot(blur[there], rows["gen_error_std"].to_numpy())
        title = f"{one.label}, no noise, d = {one.runs.parameters['d']} (published: 100)"
        tables.append(deviations(title, alpha[there], mean[there], rows["gen_error_mean"].to_numpy(), spread))
    return tables


def _coincidence(one: _Series, other: _Series, alpha: Array) -> str:
    """Whether two estimators have the same error: the mean difference on the same data, with its standard error."""
    errors = [np.array([[run.error for run in point] for point in s.runs.instances]) for s in (one, other)]
    gap = errors[0] - errors[1]
    blur = gap.std(axis=1, ddof=1) / np.sqrt(gap.shape[1])
    cells = [f"{a:.2f}: {m:+.3f} +- {b:.3f}" for a, m, b in zip(alpha, gap.mean(axis=1), blur, strict=True)]
    return f"{one.label} minus {other.label} (alpha: error): " + ", ".join(cells)


def _collected(series: Sequence[_Series]) -> _Result:
    import pandas

    frames, lines = [], []
    for one in series:
        mean, blur = one.errors
        noise = one.runs.parameters["noise"]
        frames.append(
            pandas.DataFrame(
                {
                    "algorithm": one.label,
                    "noise": noise,
                    "alpha": one.runs["alpha"],
                    "error": mean,
                    "standard_error": blur,
                    "status": [str(status) for status in one.runs.status],
                }
            )
        )
        cells = [f"{a:.2f}: {m:.3f}" for a, m in zip(one.runs["alpha"], mean, strict=True)]
        done = sum(status.ok for status in one.runs.status)
        lines.append(f"{one.label}, noise {noise:g}: " + ", ".join(cells) + f" ({done}/{len(cells)} converged)")
    return pandas.concat(frames, ignore_index=True), "\n".join(lines), all(one.runs.converged for one in series)
