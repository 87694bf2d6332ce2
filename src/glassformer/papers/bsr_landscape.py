"""Free entropy against the overlap: one maximum for linear labels, a hard phase for absolute values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.models import BilinearSequenceRegression
from glassformer.papers.reference import LANDSCAPE, load
from glassformer.plotting.plots import draw_landscape, limit_height
from glassformer.plotting.style import canvas, colors
from glassformer.state_evolution.free_entropy import Landscape, landscape
from glassformer.state_evolution.thresholds import thresholds

if TYPE_CHECKING:
    import pandas

_RHO = 0.5
_PANELS = {"gaussian": (0.35, 0.5, 0.65, 0.8), "absolute": (0.6, 0.7, 0.8, 0.9)}


def produce(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-4``."""
    return _produce(path, quick, reference, 0.0)


def produce_noisy(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-4-noisy``; there are no published data for it."""
    del reference
    return _produce(path, quick, None, 0.01)


def _produce(path: Path, quick: bool, reference: Path | None, noise: float) -> tuple[pandas.DataFrame, str, bool]:
    import pandas

    points = 120 if quick else 400
    curves = {
        channel: [landscape(_model(channel, noise), a, points) for a in alphas] for channel, alphas in _PANELS.items()
    }
    with canvas(path, columns=2, size=(4.8, 4.0)) as panels:
        for axes, (channel, alphas) in zip(panels, _PANELS.items(), strict=True):
            for curve, color in zip(curves[channel], colors(len(alphas)), strict=True):
                draw_landscape(axes, curve, color)
            axes.set_xlim(0, 1)
            axes.set_xlabel(r"overlap $q$")
            axes.set_ylabel(r"free entropy $\Phi(q) - \Phi(0)$ [nats]")
            link = "h" if channel == "gaussian" else "|h|"
            axes.set_title(rf"$y = {link}$, $\beta = 1$, $\rho = {_RHO}$, $\Delta = {noise:g}$", fontsize=11)
            axes.legend(title=r"$\alpha$", loc="lower left")
            limit_height(axes, curves[channel], 0.97 if noise == 0 else 0.9)
    data = pandas.concat([c.to_pandas().assign(channel=name) for name, cs in curves.items() for c in cs])
    return data, _summary(curves, noise, load(reference, LANDSCAPE)), True


def _model(channel: str, noise: float = 0.0) -> BilinearSequenceRegression:
    return BilinearSequenceRegression(beta=1.0, rho=_RHO, noise=noise, channel=channel)


def _summary(curves: dict[str, list[Landscape]], noise: float, published: pandas.DataFrame | None) -> str:
    lines = []
    for channel, members in curves.items():
        found = thresholds(_model(channel, noise))
        span = f"{found['hard_phase_start'].alpha:.4f} to {found['hard_phase_end'].alpha:.4f}"
        span = f"at alpha = {span}, Bayes-optimal transition at {found['bayes_optimal_transition'].alpha:.4f}"
        lines.append(f"{channel}: hard phase {span if found.hard_phase else 'nowhere'}")
        for curve in members:
            lines.append(f"  alpha = {curve.alpha:g}: maxima at overlap {curve.peaks}")
    if published is not None:
        lines.append("published free entropy (largest difference over overlaps 0.01 to 0.99, up to a constant):")
        lines += [f"  alpha = {alpha:g}: {_gap(alpha, rows):.1e}" for alpha, rows in published.groupby("alpha")]
    return "\n".join(lines)


def _gap(alpha: float, rows: pandas.DataFrame) -> float:
    curve = landscape(_model("gaussian"), alpha)
    rows = rows[(rows["q"] > 0.01) & (rows["q"] < 0.99)]
    gap = np.interp(rows["q"], curve.overlap, curve.free_entropy) - rows["fe"].to_numpy()
    return float(np.abs(gap - np.median(gap)).max())
