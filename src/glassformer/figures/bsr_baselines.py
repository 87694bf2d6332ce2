"""Bilinear sequence regression by the estimators in use: nuclear norm and gradient descent against the optimum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.bayes_optimal import limits
from glassformer.estimators.nuclear_norm import nuclear_norm_threshold
from glassformer.experiments import Simulation
from glassformer.figures.reference import load
from glassformer.figures.style import ERROR_LABEL, canvas, colors, label_alpha
from glassformer.integral import Array
from glassformer.models import BilinearSequenceRegression
from glassformer.settings import Training
from glassformer.simulation import simulate

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_Result = tuple["pandas.DataFrame", str, bool]
_DESCENT = ("alpha", "gen_error_mean", "gen_error_std")


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
    del reference
    widths, alpha = (0.1, 0.2, 0.5), np.linspace(0.1, 0.9, 5 if quick else 9)
    d, instances = (24, 2) if quick else (50, 6)
    models = [BilinearSequenceRegression(beta=1, rho=rho) for rho in widths]
    series = [
        _Series(
            f"nuclear norm, rho = {rho}", simulate(model, alpha, d=d, instances=instances, algorithm="nuclear-norm")
        )
        for rho, model in zip(widths, models, strict=True)
    ]
    with canvas(path) as (axes,):
        for rho, model, one, color in zip(widths, models, series, colors(len(widths)), strict=True):
            _optimum(axes, model, color, rf"Bayes-optimal, $\rho = {rho:g}$")
            axes.axvline(nuclear_norm_threshold(1.0, rho), color=color, ls=":", lw=1)
            mean, blur = one.errors
            axes.errorbar(alpha, mean, blur, fmt="o", ms=4, color=color)
        axes.plot([], [], "o", color="0.3", label=f"minimal nuclear norm, $d = {d}$")
        axes.plot([], [], ":", color="0.3", label="its threshold")
        _finish(axes, r"$\beta = 1$, no noise")
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
        published = load(reference, _DESCENT)
        if published is not None:
            panels[0].plot(published["alpha"], published["gen_error_mean"], "x", color="0.4", ms=4, label="published")
            panels[0].legend(loc="upper right")
    return _collected(series)


def small_start(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-7``: gradient descent from a small start beside minimal nuclear norm, on the same data."""
    del reference
    model = BilinearSequenceRegression(beta=1, rho=0.2)
    alpha = np.linspace(0.1, 0.6, 4 if quick else 6)
    d, instances = (24, 2) if quick else (32, 4)
    own, full = Training(init="small"), Training(init="small", student_width=d)
    series = [
        _Series("gradient descent, teacher's r", simulate(model, alpha, d, instances, algorithm="gd", settings=own)),
        _Series("gradient descent, full r", simulate(model, alpha, d, instances, algorithm="gd", settings=full)),
        _Series("nuclear norm", simulate(model, alpha, d, instances, algorithm="nuclear-norm")),
    ]
    with canvas(path) as (axes,):
        _draw(axes, model, series, rf"small start ($10^{{-3}}$), $\rho = 0.2$, $d = {d}$")
    data, summary, converged = _collected(series)
    return data, "\n".join([summary, *(_coincidence(one, series[2], alpha) for one in series[:2])]), converged


def _descents(model: BilinearSequenceRegression, noise: float, quick: bool) -> list[_Series]:
    d, instances, starts = (20, 2, 8) if quick else (40, 3, 32)
    alpha = np.linspace(0.1, 0.5, 3) if quick else np.linspace(0.1, 0.6, 6)
    steps = 6000 if quick else 20_000
    training = Training(starts=starts, max_steps=steps, floor=1e-6)
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


def _finish(axes: Axes, title: str) -> None:
    axes.set_xlabel(label_alpha("n/(dL)"))
    axes.set_ylabel(ERROR_LABEL)
    axes.set_ylim(bottom=-0.03)
    axes.set_title(title)
    axes.legend(loc="upper right", frameon=True, framealpha=1.0, edgecolor="none")


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
                }
            )
        )
        cells = [f"{a:.2f}: {m:.3f}" for a, m in zip(one.runs["alpha"], mean, strict=True)]
        done = sum(status.ok for status in one.runs.status)
        lines.append(f"{one.label}, noise {noise:g}: " + ", ".join(cells) + f" ({done}/{len(cells)} converged)")
    return pandas.concat(frames, ignore_index=True), "\n".join(lines), all(one.runs.converged for one in series)
