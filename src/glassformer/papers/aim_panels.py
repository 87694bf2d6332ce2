"""The five figures of attention-indexed models, as panels of curves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from glassformer.models import AttentionIndexed
from glassformer.papers.aim_error import Curve, Panel, produce
from glassformer.papers.reference import QUADRATIC, deviations, load
from glassformer.state_evolution.limits import limits

if TYPE_CHECKING:
    import pandas

_ALPHA = r"sample ratio $\alpha = n\,/\,d^2$"
_ABAR = r"sample ratio $\bar\alpha = n\,/\,(rd)$"
_Result = tuple["pandas.DataFrame", str, bool]


def _widths(
    channel: str, tokens: int, widths: tuple[float, ...], runs: Mapping[float, tuple[float, ...]] | None = None
) -> tuple[Curve, ...]:
    return tuple(
        Curve(AttentionIndexed(rho, tokens, channel), rf"$\rho = {rho:g}$", (runs or {}).get(rho, ())) for rho in widths
    )


def _ones(curves: tuple[Curve, ...]) -> tuple[float, ...]:
    return (1.0,) * len(curves)


def hardmax(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-1``."""
    del reference
    wide = _widths("hardmax", 2, (0.1, 0.25, 0.5, 1.0), {0.25: (0.15, 0.4, 0.8), 1.0: (0.2, 0.5, 1.0, 1.5)})
    narrow = (Curve(AttentionIndexed(0, 2, "hardmax"), r"$\rho \to 0$"), *_widths("hardmax", 2, (0.01, 0.05)))
    scales = (1.0, 1 / 0.01, 1 / 0.05)
    panels = [
        Panel(r"hardmax, $T = 2$", _ALPHA, 2.0, wide, _ones(wide)),
        Panel(r"hardmax, $T = 2$, small width", _ABAR, 2.0, narrow, scales, recovery=False, weak=True),
    ]
    return produce(panels, path, quick)


def softmax(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-2``."""
    del reference
    widths = _widths("softmax", 2, (0.1, 0.25, 0.5, 1.0, 2.0), {0.25: (0.04, 0.08, 0.12), 0.5: (0.05, 0.1, 0.15, 0.2)})
    at = (0.15, 0.3, 0.45, 0.6, 0.9)
    tokens = tuple(
        Curve(AttentionIndexed(0.5, t, "softmax"), f"$T = {t}$", at if t in (2, 3) else (), line, at if t == 2 else ())
        for t, line in ((2, "-"), (3, "--"), (4, ":"))
    )
    scales = tuple(float(t * t + t - 2) for t in (2, 3, 4))
    panels = [
        Panel(r"softmax, $T = 2$", _ALPHA, 0.3, widths, _ones(widths)),
        Panel(r"softmax, $\rho = 0.5$", r"$\alpha\,(T^2 + T - 2)$", 1.0, tokens, scales),
    ]
    return produce(panels, path, quick)


def linear(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-3``."""
    at = {0.25: (0.02, 0.04, 0.06, 0.09), 0.5: (0.03, 0.06, 0.09, 0.15)}
    two = _widths("linear", 2, (0.1, 0.25, 0.5, 1.0, 2.0), at)
    one = _widths("linear", 1, (0.1, 0.25, 0.5, 1.0, 2.0), {0.5: (0.1, 0.2, 0.3, 0.45)})
    panels = [
        Panel(r"linear, $T = 2$", _ALPHA, 0.2, two, _ones(two)),
        Panel(r"linear, $T = 1$ (quadratic network)", _ALPHA, 0.6, one, _ones(one)),
    ]
    data, summary, converged = produce(panels, path, quick)
    published = load(reference, QUADRATIC)
    if published is not None:
        alpha = published["alpha"].to_numpy()
        ours = limits(AttentionIndexed(0.5, 1, "linear"), alpha, throw=False)["error"]
        few = slice(None, None, max(1, len(alpha) // 16))
        theirs = published["gen_error"].to_numpy()
        rows, worst = (alpha[few], ours[few], theirs[few]), np.max(np.abs(ours - theirs))
        text = deviations("quadratic network, rho = 0.5", *rows)
        summary = f"{summary}\n{text}\nlargest difference at all {len(alpha)} ratios: {worst:.1e}"
    return data, summary, converged


def many_tokens(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-4``."""
    del reference
    at = {t: tuple(x / (t * t + t - 2) for x in (0.2, 0.4, 0.6, 0.9)) for t in (4, 5)}
    curves = tuple(Curve(AttentionIndexed(0.5, t, "softmax"), f"$T = {t}$", at[t]) for t in (4, 5))
    return produce([Panel(r"softmax, $\rho = 0.5$", _ALPHA, 0.06, curves, _ones(curves), d=120)], path, quick)


def small_width(path: Path, quick: bool, reference: Path | None) -> _Result:
    """Figure ``aim-5``."""
    del reference
    widths = (0.5, 0.2, 0.1, 0.05, 0.01)
    curves = (*_widths("softmax", 2, widths), Curve(AttentionIndexed(0, 2, "softmax"), r"$\rho \to 0$"))
    scales = (*(1 / rho for rho in widths), 1.0)
    panel = Panel(r"softmax, $T = 2$", _ABAR, 0.7, curves, scales, recovery=False, weak=True)
    return produce([panel], path, quick)
