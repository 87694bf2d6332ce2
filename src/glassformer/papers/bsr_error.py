"""Bayes-optimal error of bilinear sequence regression for several widths, with GAMP on simulated data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.results import Table
from glassformer.core.solution import Status
from glassformer.experiments.instances import Simulation
from glassformer.experiments.simulation import simulate
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.ridge import ridge_error
from glassformer.models import BilinearSequenceRegression
from glassformer.papers.reference import CURVES, load
from glassformer.plotting.style import ERROR_LABEL, canvas, colors, label_alpha
from glassformer.state_evolution.limits import limits

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Panel:
    """One panel: the model, the widths, and where message passing is run.

    ``runs`` maps a width to the sample ratios simulated for it, ``d`` and ``instances`` give the sizes.
    """

    beta: float
    noise: float
    widths: Sequence[float]
    largest_alpha: float
    runs: dict[float, Sequence[float]]
    d: int
    instances: int
    points: int = 201

    def model(self, rho: float) -> BilinearSequenceRegression:
        """The model of one curve."""
        return BilinearSequenceRegression(beta=self.beta, rho=rho, noise=self.noise)


# Close to a transition steps shrink by a few per cent each: one of 1e-3 posterior standard deviations leaves an error
# of about 1e-3 of itself, a tenth of its statistical fluctuation.
_SETTINGS = MessagePassing(tolerance=1e-3)

_NOISELESS = Panel(
    beta=1.0,
    noise=0.0,
    widths=(0.1, 0.2, 0.5, 1.0, 2.0),
    largest_alpha=1.0,
    runs={
        0.2: (0.1, 0.2, 0.25, 0.3, 0.5),
        1.0: (0.1, 0.3, 0.5, 0.7),
    },
    d=100,
    instances=6,
)
_NOISY = Panel(
    beta=5.0,
    noise=0.1,
    widths=(0.1, 0.2, 0.5, 1.0, 2.0),
    largest_alpha=1.0,
    runs={0.2: (0.1, 0.2, 0.3, 0.5, 0.7, 0.9), 1.0: (0.1, 0.3, 0.5, 0.7, 0.9)},
    d=40,
    instances=6,
)


# The first panel with noise.
_SQUARE_NOISY = replace(_NOISELESS, noise=0.1, runs={0.2: (0.1, 0.3, 0.5, 0.8), 1.0: (0.1, 0.3, 0.5, 0.8)})


def produce_square_noisy(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-1-noisy``."""
    return _produce(_quick(_SQUARE_NOISY, quick), path, reference)


def produce_noiseless(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-1``."""
    return _produce(_quick(_NOISELESS, quick), path, reference)


def produce_noisy(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-2``."""
    return _produce(_quick(_NOISY, quick), path, reference)


def _quick(panel: Panel, quick: bool) -> Panel:
    if not quick:
        return panel
    runs = {rho: alphas[::3] for rho, alphas in panel.runs.items()}
    return replace(panel, runs=runs, d=panel.d // 2, instances=2, points=41)


def _produce(panel: Panel, path: Path, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    import pandas

    published = _published_panel(panel, load(reference, CURVES))
    alpha = np.linspace(0, panel.largest_alpha, panel.points)
    theory = {rho: limits(panel.model(rho), alpha, throw=False) for rho in panel.widths}
    runs = {
        rho: simulate(
            panel.model(rho), alphas, d=panel.d, instances=panel.instances, storage="float32", settings=_SETTINGS
        )
        for rho, alphas in panel.runs.items()
    }
    ridge = ridge_error(alpha, panel.noise)
    _draw(panel, path, alpha, theory, runs, ridge, published)
    frames = [
        *(table.to_pandas().assign(source="theory", rho=rho) for rho, table in theory.items()),
        *(result.to_pandas().assign(source="gamp", rho=rho) for rho, result in runs.items()),
        pandas.DataFrame({"alpha": alpha, "error": ridge, "source": "ridge"}),
    ]
    columns = ["source", "rho", "alpha", "error", "standard_error", "theory", "overlap", "error_estimate", "status"]
    data = pandas.concat(frames, ignore_index=True)[columns]
    parts = [_theory_summary(theory), _runs_summary(panel, runs)]
    if published is not None:
        parts.append(_reference_summary(panel, published))
    statuses = [status for table in [*theory.values(), *runs.values()] for status in table.status]
    return data, "\n\n".join(parts), all(status.ok for status in statuses)


def _draw(
    panel: Panel,
    path: Path,
    alpha: np.ndarray,
    theory: dict[float, Table],
    runs: dict[float, Simulation],
    ridge: np.ndarray,
    published: pandas.DataFrame | None,
) -> None:
    shades = dict(zip(panel.widths, colors(len(panel.widths)), strict=True))
    with canvas(path) as (axes,):
        axes.plot(alpha, ridge, "--", color="0.35", lw=1.2, label="ridge regression")
        for rho, table in theory.items():
            axes.plot(alpha, table["error"], color=shades[rho], label=rf"$\rho = {rho:g}$")
            recovery = panel.model(rho).prior.mmse_dimension
            if panel.noise == 0:
                axes.plot([recovery] * 2, [0, 0.035], color=shades[rho], lw=2.5, solid_capstyle="butt", clip_on=False)
        if published is not None:
            for rho in panel.widths:
                rows = _published_curve(published, rho)[::8]
                axes.plot(rows["alpha"], rows["mmse"], ".", color="k", ms=2.2, zorder=3)
            axes.plot([], [], ".", color="k", ms=3, label="published data")
        for rho, result in runs.items():
            axes.errorbar(
                result["alpha"],
                result["error"],
                result["standard_error"],
                fmt="o",
                ms=4.5,
                capsize=2.5,
                lw=1.2,
                color=shades[rho],
                mec="k",
                mew=0.7,
                zorder=4,
                clip_on=False,
            )
        axes.errorbar([], [], [], fmt="o", ms=4.5, color="0.8", mec="k", mew=0.7, label=f"GAMP, $d = {panel.d}$")
        if panel.noise == 0:
            axes.plot([], [], color="0.35", marker="|", ms=9, mew=2.5, ls="none", label="perfect recovery")
        axes.set_xlim(0, panel.largest_alpha * 1.01)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(label_alpha("n/(dL)"))
        axes.set_ylabel(ERROR_LABEL)
        axes.set_title(rf"$\beta = L/d = {panel.beta:g}$, noise $\Delta = {panel.noise:g}$", fontsize=11)
        axes.legend(loc="upper right")


def _published_panel(panel: Panel, published: pandas.DataFrame | None) -> pandas.DataFrame | None:
    """Published curves of the panel's shape and noise; None where there are none."""
    if published is None:
        return None
    rows = published[np.isclose(published["beta"], panel.beta) & np.isclose(published["delta"], panel.noise)]
    return None if rows.empty else rows


def _published_curve(published: pandas.DataFrame, rho: float) -> pandas.DataFrame:
    return published[np.isclose(published["rho"], rho)].sort_values("alpha")


def _theory_summary(theory: dict[float, Table]) -> str:
    points = sum(len(table.status) for table in theory.values())
    worst = max(float(np.max(table["error_estimate"])) for table in theory.values())
    failed = sum(not status.ok for table in theory.values() for status in table.status)
    return f"theory: {points} points, largest error estimate {worst:.1e}, not converged: {failed}"


def _runs_summary(panel: Panel, runs: dict[float, Simulation]) -> str:
    lines = [
        f"GAMP on simulated data, d = {panel.d}, L = {round(panel.beta * panel.d)}, "
        f"{panel.instances} instances per point (difference in standard errors):",
        "  rho  alpha   theory     GAMP  std.err.  difference  GAMP/prior  std.err.  difference  status of the runs",
    ]
    for rho, result in runs.items():
        for i, alpha in enumerate(result["alpha"]):
            expected = float(result["theory"][i])
            absolute = _comparison(expected, result["error"][i], result["standard_error"][i])
            relative = _comparison(expected, result["relative_error"][i], result["relative_standard_error"][i], 10)
            counts = _counts([run.status for run in result.instances[i]])
            lines.append(f"{rho:5g}  {alpha:5.3f}  {expected:7.4f}  {absolute}  {relative}  {counts}")
    lines.append("GAMP/prior is the error over the norm of the teacher itself, which fluctuates at finite size.")
    return "\n".join(lines)


def _comparison(expected: float, error: float, spread: float, width: int = 7) -> str:
    gap = f"{(error - expected) / spread:+10.1f}" if spread > 1e-6 else f"{'-':>10s}"
    return f"{error:{width}.4f}  {spread:8.4f}  {gap}"


def _counts(statuses: Sequence[Status]) -> str:
    names = [str(status) for status in statuses]
    return ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))


def _reference_summary(panel: Panel, published: pandas.DataFrame) -> str:
    lines = ["published data (largest difference below perfect recovery, and where):"]
    for rho in panel.widths:
        rows = _published_curve(published, rho)
        if panel.noise == 0:
            # At the threshold itself an iteration that stops early leaves an error of 1e-4, which is no disagreement.
            rows = rows[rows["alpha"] < panel.model(rho).prior.mmse_dimension - 1e-9]
        if rows.empty:
            lines.append(f"  rho = {rho:g}: none")
            continue
        computed = limits(panel.model(rho), rows["alpha"].to_numpy(), throw=False)["error"]
        gap = np.abs(computed - rows["mmse"].to_numpy())
        at = float(rows["alpha"].iloc[int(np.argmax(gap))])
        lines.append(f"  rho = {rho:g}: {gap.max():.1e} at alpha = {at:g} ({len(rows)} points)")
    return "\n".join(lines)
