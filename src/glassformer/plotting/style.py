"""Style of all figures: colours, labels, titles, and the axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from cycler import cycler

from glassformer.core.display import displayed_parameters
from glassformer.core.errors import ParameterError
from glassformer.core.files import replace_file, require_writable_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.typing import ColorType
    from numpy.typing import ArrayLike

_SETTINGS: Any = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 11,
    "axes.labelsize": 12,
    "axes.titlesize": 11,
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
    "axes.prop_cycle": cycler(color=["#2b5c8a", "#b3402a"]),
    "image.cmap": "viridis",
}


THEMES: dict[str, dict[str, Any]] = {
    "light": {},
    "dark": {
        "figure.facecolor": "#14181f",
        "axes.facecolor": "#14181f",
        "savefig.facecolor": "#14181f",
        "grid.color": "#2c333d",
        "axes.prop_cycle": cycler(color=["#7fb2e5", "#f0906f"]),
        "image.cmap": "cool",
        **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), "#d8dee6"),
    },
}
"""Settings of Matplotlib by the name of the theme, on top of those of all figures."""


@dataclass(frozen=True)
class Picture:
    """File, size and theme of a plot.

    Attributes:
        path: the file, in the format of its ending; None for no file.
        size: width and height in inches; None for the size that suits the plot.
        theme: one of ``THEMES``.
        keep: called with the figure when it is drawn.
        axes: axes of the caller's own figure, for which all of the above is ignored.

    Raises:
        ParameterError: an unknown format or theme, or a size out of range.
        DataError: the file cannot be written.

    Example:
        >>> Picture(Path("error.pdf"), (4, 3), "dark").theme
        'dark'
    """

    path: Path | None
    size: tuple[float, float] | None = None
    theme: str = "light"
    keep: Callable[[Figure], None] | None = None
    axes: Axes | None = None

    def __post_init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        formats = FigureCanvasAgg.get_supported_filetypes()
        if self.path is not None and self.path.suffix.lstrip(".").lower() not in formats:
            raise ParameterError("plot", str(self.path), f"a file ending in one of {', '.join(sorted(formats))}")
        if self.path is not None:
            require_writable_file("plot", self.path)
        if self.size is not None and not all(1 <= length <= 50 for length in self.size):
            raise ParameterError("plot_size", self.size, "a width and a height of 1 to 50 inches")
        if self.theme not in THEMES:
            raise ParameterError("plot_theme", self.theme, f"one of {', '.join(THEMES)}")


@contextmanager
def canvas(picture: Path | Picture, columns: int = 1, size: tuple[float, float] = (6.2, 4.4)) -> Iterator[list[Axes]]:
    """Yield axes side by side, and save them to the file of the picture in the format of its ending."""
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    target = Picture(picture) if isinstance(picture, Path) else picture
    if target.axes is not None:
        yield [target.axes]
        return
    # Without pyplot no display is opened and no global state changes.
    look: Any = _SETTINGS | THEMES[target.theme]
    with rc_context(look):
        figure = Figure(figsize=target.size or (size[0] * columns, size[1]), layout="constrained")
        FigureCanvasAgg(figure)
        yield list(figure.subplots(1, columns, squeeze=False)[0])
        if target.path is not None:
            with replace_file(target.path, "plot") as part:
                figure.savefig(part)
        if target.keep is not None:
            target.keep(figure)


def next_color(axes: Axes) -> ColorType:
    """Return the next colour in the cycle of the axes, so that curves of several results have colours of their own."""
    (line,) = axes.plot([], [])
    line.remove()
    return line.get_color()


def colors(count: int, axes: Axes | None = None) -> list[ColorType]:
    """Return distinguishable colours in order, readable in print and for colour-blind readers.

    A single curve, and curves on axes that have some already, take the next colours in the cycle of the axes.
    """
    from matplotlib import colormaps, rcParams

    if axes is not None and (count == 1 or axes.lines):
        return [next_color(axes) for _ in range(count)]
    shades = colormaps[rcParams["image.cmap"]]
    return [shades(x) for x in np.linspace(0.0, 0.85, count)] if count > 1 else ["C0"]


def label_alpha(unit: str) -> str:
    """Return the axis label of the sample ratio in this unit."""
    return f"sample ratio {_UNITS.get(unit, unit)}"


_UNITS = {
    "n/(dL)": r"$\alpha = n\,/\,(dL)$",
    "n/(r(L+d))": r"$\alpha_{\rm LR} = n\,/\,[r(L+d)]$",
    "n/d^2": r"$\alpha = n\,/\,d^2$",
    "n/d": r"$\alpha = n\,/\,d$",
    "n/(rd)": r"$\bar\alpha = n\,/\,(rd)$",
}


def error_label(unit: str) -> str:
    """Return the axis label of the estimation error of models whose sample ratio has this unit."""
    return _ERRORS.get(unit, "estimation error")


def signal_power(unit: str) -> str:
    """Return the squared norm of the signal of models whose sample ratio has this unit."""
    return r"$\|w\|^2$" if unit == "n/d" else r"$\|S\|_F^2$"


ERROR_LABEL = r"estimation error $\|\hat S - S\|_F^2\,/\,(dL)$"
ATTENTION_ERROR_LABEL = r"estimation error $\|\hat S - S\|_F^2\,/\,d$"
_ERRORS = {
    "n/(dL)": ERROR_LABEL,
    "n/(r(L+d))": ERROR_LABEL,
    "n/d^2": ATTENTION_ERROR_LABEL,
    "n/(rd)": ATTENTION_ERROR_LABEL,
    # The mean over rows is 1 - Tr Q/P for Bayes-optimal estimates alone.
    "n/d": r"estimation error per row $\|\hat w - w\|^2\,/\,d$",
}

# Symbols of the parameters in a title, those of some models, and the format of parameters that name the link.
_SYMBOLS = {
    "depth": "P",
    "indices": "P",
    "tokens": "T",
    "skip": "c",
    "beta": r"\beta",
    "rho": r"\rho",
    "width": "r",
    "noise": r"\Delta",
}
_SYMBOLS_OF = {
    "smi": {"tokens": "L"},
    "attention": {"tokens": "L"},
    "icl": {"context": r"\alpha_c", "tasks": r"\kappa", "noise": r"\rho"},
}
_LINKS = {"channel": "{} channel", "link": "link {}", "activation": "{} attention"}


def title_of(model: str, parameters: Mapping[str, Any]) -> str:
    r"""Return a title: its parts, with commas between them.

    Example:
        >>> title_of("attention", {"skip": [0.5, 1.0], "activation": "softmax", "noise": 0.1})
        'attention, softmax attention, $c = (0.5, 1)$, $\\Delta = 0.1$'
        >>> title_of("bsr", {"channel": "sign, flip:0.1", "noise": 0.0, "noise_law": "flip:0.1"})
        'bsr, sign, flip:0.1 channel'
        >>> title_of("smi", {"link": "f", "tokens": 3}), title_of("aim", {"tokens": 3})
        ('smi, link f, $L = 3$', 'aim, $T = 3$')
        >>> title_of("smi", {"link": "<lambda>"})
        'smi, own link'
    """
    return ", ".join(title_parts(model, parameters))


def title_parts(model: str, parameters: Mapping[str, Any]) -> list[str]:
    """Return the parts of a title: the model, its link and each of its parameters by symbol."""

    def text(value: ArrayLike) -> str:
        values = np.atleast_1d(value)
        if values.dtype.kind not in "fiu":
            return str(value)
        numbers = [f"{one:g}" for one in values]
        return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"

    links = [form.format(parameters[name]) for name, form in _LINKS.items() if name in parameters]
    links = [one.replace("link <lambda>", "own link") for one in links]
    named = displayed_parameters(parameters)
    symbols = _SYMBOLS | _SYMBOLS_OF.get(model, {})
    return [model, *links, *(f"${s} = {text(parameters[n])}$" for n, s in symbols.items() if n in named)]
