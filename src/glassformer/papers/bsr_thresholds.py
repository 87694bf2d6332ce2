"""Perfect-recovery thresholds against the width: Bayes-optimal and minimal nuclear norm."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.models import BilinearSequenceRegression
from glassformer.papers.reference import THRESHOLDS, load
from glassformer.plotting.style import canvas, colors, label_alpha
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width

if TYPE_CHECKING:
    import pandas

_BETAS = (1.0, 5.0)


def produce(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-3``."""
    import pandas

    published = load(reference, THRESHOLDS)
    width = np.linspace(0, 1.2, 25 if quick else 121)[1:]
    data = pandas.concat([_curve(beta, width) for beta in _BETAS], ignore_index=True)
    _draw(path, data)
    return data, _summary(published), True


def _curve(beta: float, width: np.ndarray) -> pandas.DataFrame:
    import pandas

    bayes = [BilinearSequenceRegression(beta=beta, rho=rho).prior.mmse_dimension for rho in width]
    nuclear = [nuclear_norm_threshold(beta, rho) for rho in width]
    return pandas.DataFrame({"beta": beta, "rho": width, "bayes_optimal": bayes, "nuclear_norm": nuclear})


def _draw(path: Path, data: pandas.DataFrame) -> None:
    with canvas(path, columns=2, size=(4.8, 4.0)) as (left, right):
        for beta, color in zip(_BETAS, colors(len(_BETAS)), strict=True):
            rows = data[data["beta"] == beta]
            low_rank = beta / (rows["rho"] * (1 + beta))
            for axes, unit in ((left, 1.0), (right, low_rank)):
                axes.plot(
                    rows["rho"], rows["bayes_optimal"] * unit, color=color, label=rf"Bayes-optimal, $\beta = {beta:g}$"
                )
                axes.plot(
                    rows["rho"],
                    rows["nuclear_norm"] * unit,
                    "--",
                    color=color,
                    label=rf"nuclear norm, $\beta = {beta:g}$",
                )
            limit = nuclear_norm_threshold_low_width(beta)
            right.plot([0, 0], [1, limit], "o", color=color, mfc="w", clip_on=False, zorder=5)
        left.set_ylabel(f"perfect recovery, {label_alpha('n/(dL)')}")
        right.set_ylabel(f"perfect recovery, {label_alpha('n/(r(L+d))')}")
        left.set_ylim(0, 1.08)
        right.set_ylim(0, 3.2)
        right.plot([], [], "o", color="0.3", mfc="w", label=r"limit $\rho \to 0$")
        for axes in (left, right):
            axes.set_xlim(0, 1.2)
            axes.set_xlabel(r"width ratio $\rho = r/d$")
        left.legend(loc="lower right")
        right.legend(loc="upper right")


def _summary(published: pandas.DataFrame | None) -> str:
    if published is None:
        return "no published data to compare with"
    lines = ["published data (largest difference):"]
    for beta in _BETAS:
        rows = published[(published["beta"] == beta) & (published["rho"] > 0)].iloc[::20]
        if rows.empty:
            continue
        computed = _curve(beta, rows["rho"].to_numpy())
        bayes = np.abs(computed["bayes_optimal"].to_numpy() - rows["alpha_BO"].to_numpy()).max()
        nuclear = np.abs(computed["nuclear_norm"].to_numpy() - rows["alpha_MNNE"].to_numpy()).max()
        lines.append(f"  beta = {beta:g}: Bayes-optimal {bayes:.1e}, nuclear norm {nuclear:.1e} ({len(rows)} points)")
    return "\n".join(lines)
