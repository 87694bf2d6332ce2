"""One look for every figure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SETTINGS: Any = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 11,
    "axes.labelsize": 12,
    "axes.linewidth": 0.8,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.6,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "xtick.top": True,
    "ytick.right": True,
    "savefig.dpi": 200,
}


@contextmanager
def canvas(path: Path, columns: int = 1, size: tuple[float, float] = (6.2, 4.4)) -> Iterator[list[Axes]]:
    """Axes side by side, saved to ``path`` in the format of its ending."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # A figure of its own, not pyplot's: no display is asked for and no global state is left behind.
    with rc_context(_SETTINGS):
        formats = FigureCanvasAgg.get_supported_filetypes()
        if path.suffix.lstrip(".").lower() not in formats:
            raise ParameterError("plot", str(path), f"a file ending in one of {', '.join(sorted(formats))}")
        figure = Figure(figsize=(size[0] * columns, size[1]), layout="constrained")
        FigureCanvasAgg(figure)
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def colors(count: int) -> list[Any]:
    """Distinguishable colours in order, readable in print and for colour-blind readers."""
    from matplotlib import colormaps

    return [colormaps["viridis"](x) for x in np.linspace(0.0, 0.85, count)] if count > 1 else ["#2b5c8a"]


def label_alpha(unit: str) -> str:
    """Axis label of the sample ratio."""
    return f"sample ratio {_UNITS.get(unit, unit)}"


_UNITS = {
    "n/(dL)": r"$\alpha = n\,/\,(dL)$",
    "n/(r(L+d))": r"$\alpha_{\rm LR} = n\,/\,[r(L+d)]$",
    "n/d^2": r"$\alpha = n\,/\,d^2$",
    "n/d": r"$\alpha = n\,/\,d$",
    "n/(rd)": r"$\bar\alpha = n\,/\,(rd)$",
}


def error_label(unit: str) -> str:
    """Axis label of the estimation error of models whose sample ratio has this unit."""
    return _ERRORS.get(unit, "estimation error")


ERROR_LABEL = r"estimation error $\|\hat S - S\|_F^2\,/\,(dL)$"
ATTENTION_ERROR_LABEL = r"estimation error $\|\hat S - S\|_F^2\,/\,d$"
_ERRORS = {
    "n/(dL)": ERROR_LABEL,
    "n/(r(L+d))": ERROR_LABEL,
    "n/d^2": ATTENTION_ERROR_LABEL,
    "n/(rd)": ATTENTION_ERROR_LABEL,
    "n/d": r"estimation error $1 - \mathrm{Tr}\,Q\,/\,P$",
}
