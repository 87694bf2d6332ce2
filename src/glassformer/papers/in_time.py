"""Message passing step by step, next to state evolution in time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.results import Table
from glassformer.experiments.trajectories import follow
from glassformer.models import AttentionIndexed, BilinearSequenceRegression
from glassformer.plotting.plots import draw_trajectory
from glassformer.plotting.style import canvas

if TYPE_CHECKING:
    import pandas

_Result = tuple["pandas.DataFrame", str, bool]


def bilinear(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``bsr-time``: three sample ratios of noisy linear labels."""
    del reference
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    d, instances = (80, 2) if quick else (200, 8)
    table = follow(model, [0.3, 0.6, 0.9], steps=20, d=d, instances=instances)
    return _drawn(path, table, rf"$y = h$, $\beta = 1$, $\rho = 0.3$, $\Delta = 0.1$, $d = {d}$")


def attention(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-time``: hardmax attention of two tokens, without damping."""
    del reference
    d, instances = (60, 2) if quick else (150, 8)
    table = follow(
        AttentionIndexed(rho=0.3, tokens=2, channel="hardmax"), [1.0, 2.0], steps=25, d=d, instances=instances
    )
    return _drawn(path, table, rf"hardmax, $T = 2$, $\rho = 0.3$, $d = {d}$")


def _drawn(path: Path, table: Table, title: str) -> _Result:
    with canvas(path) as (axes,):
        draw_trajectory(axes, table)
        axes.set_xlabel("step of message passing")
        axes.set_ylabel("estimation error")
        axes.set_ylim(0, 1.05)
        axes.set_title(title)
        axes.legend(title="state evolution (lines), runs (marks)")
    return table.to_pandas(), summary(table), table.converged


def summary(table: Table) -> str:
    """How far runs are from theory, in units of the error before any data."""
    lines = ["largest distance of runs from theory, over all steps, and at the last"]
    for alpha in np.unique(table["alpha"]):
        at = table["alpha"] == alpha
        gap = np.abs(table["measured_error"] - table["error"])[at]
        lines.append(f"  alpha {alpha:.4g}: {np.nanmax(gap):.4f}, {gap[-1]:.4f}")
    return "\n".join(lines)
