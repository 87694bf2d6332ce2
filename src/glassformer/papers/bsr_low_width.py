"""The approach to the limit of small width, on the scale n/(r(L+d))."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.models import BilinearSequenceRegression
from glassformer.plotting.style import ERROR_LABEL, canvas, colors, label_alpha
from glassformer.state_evolution.limits import limits
from glassformer.state_evolution.thresholds import thresholds

if TYPE_CHECKING:
    import pandas

_BETA, _NOISE = 1.0, 0.1
_WIDTHS = (0.5, 0.2, 0.1, 0.05, 0.01)


def produce(path: Path, quick: bool, reference: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``bsr-8``; there are no published data for it."""
    del reference
    import pandas

    ratio = np.linspace(0, 2.0, 41 if quick else 161)
    limit_model = BilinearSequenceRegression(beta=_BETA, rho=0, noise=_NOISE)
    limit = limits(limit_model, ratio, throw=False)
    frames, lines, converged = [limit.to_pandas().assign(rho=0.0)], [], limit.converged
    with canvas(path) as (axes,):
        for rho, color in zip(_WIDTHS, colors(len(_WIDTHS)), strict=True):
            model = BilinearSequenceRegression(beta=_BETA, rho=rho, noise=_NOISE)
            table = limits(model, ratio * rho * (1 + _BETA) / _BETA, throw=False)
            axes.plot(ratio, table["error"], color=color, label=rf"$\rho = {rho:g}$")
            frames.append(table.to_pandas().assign(rho=rho, alpha=ratio))
            gap = np.abs(table["error"] - limit["error"]).max()
            lines.append(f"  rho = {rho:g}: largest distance to the limit {gap:.4f}")
            converged &= table.converged
        axes.plot(ratio, limit["error"], "k--", label=r"$\rho \to 0$")
        weak = thresholds(limit_model)["weak_recovery"].alpha
        axes.axvline(weak, color="0.5", lw=1, ls=":")
        axes.annotate("weak recovery", (weak, 0.03), (4, 0), textcoords="offset points", color="0.3", fontsize=9.5)
        axes.set_xlim(0, 2)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel(label_alpha("n/(r(L+d))"))
        axes.set_ylabel(ERROR_LABEL)
        axes.set_title(rf"$\beta = {_BETA:g}$, noise $\Delta = {_NOISE:g}$", fontsize=11)
        axes.legend(loc="upper right")
    data = pandas.concat(frames, ignore_index=True)[["rho", "alpha", "error", "error_estimate", "status"]]
    return data, "\n".join([f"weak recovery at rho -> 0: alpha_LR = {weak:.6g}", *lines]), converged
