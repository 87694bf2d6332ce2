"""What a figure consists of, and the one function that draws it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas

from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.plotting.curves import mark_unsettled
from glassformer.plotting.plots import runs_label
from glassformer.plotting.style import canvas, colors

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.typing import ColorType
    from numpy.typing import ArrayLike

# Marks of runs: dark edges, so that they are seen on the line of their theory.
_DARK_EDGES: Mapping[str, Any] = {"ms": 4, "mec": "k", "mew": 0.6}
RUN_MARKS: Mapping[str, Any] = {**_DARK_EDGES, "lw": 1, "zorder": 4}


class RunSize(NamedTuple):
    """Token dimension of runs, and their number at every sample ratio."""

    d: int
    instances: int

    @property
    def marks(self) -> str:
        """What marks stand for, as the last line of a title."""
        return f"marks: {runs_label(self.instances)} at $d = {self.d}$"


class Series(NamedTuple):
    """A line, or marks with error bars.

    Attributes:
        x: horizontal positions, shape (points,).
        y: values, shape (points,), or (points, lines) for several lines that look alike.
        color: a colour of Matplotlib, or the number of one of the panel's colours; None for the next one of the axes.
        style: line or marker in the notation of Matplotlib, for instance ``"--"`` or ``"o"``.
        label: entry of the legend; None for none.
        error: standard errors of ``y``; None draws no error bars.
        look: further properties of the line.
        status: how each point ended; those that did not converge are marked. None for no marks.
    """

    x: ArrayLike
    y: ArrayLike
    color: ColorType | int | None = 0
    style: str = "-"
    label: str | None = None
    error: ArrayLike | None = None
    look: Mapping[str, Any] = {}
    status: Sequence[Status] | None = None


@dataclass(frozen=True)
class Axis:
    """One plot of a figure.

    Attributes:
        series: its lines and marks.
        colors: how many colours it has.
        settings: arguments of ``Axes.set``: title, labels, limits, scales.
        verticals: dotted vertical lines: position, colour as in a series, entry of the legend or None.
        legend: arguments of ``Axes.legend``; None for no legend.
        annotate: draws what is neither a line nor a mark.
    """

    series: Sequence[Series]
    colors: int
    settings: Mapping[str, Any]
    verticals: Sequence[tuple[float, ColorType | int, str | None]] = ()
    legend: Mapping[str, Any] | None = field(default_factory=lambda: {"loc": "upper right"})
    annotate: Callable[[Axes], None] | None = None


@dataclass(frozen=True)
class FigureContent:
    """A computed figure.

    Attributes:
        axes: its plots, from left to right.
        data: its numbers; a column ``status`` says how each row ended, where something may not converge.
        summary: what the numbers say, in words.
        size: width and height of one plot in inches.
        caption: a line above all plots; none if empty.
    """

    axes: Sequence[Axis]
    data: pandas.DataFrame
    summary: str
    size: tuple[float, float] = (6.2, 4.4)
    caption: str = ""

    @property
    def unconverged(self) -> pandas.DataFrame:
        """The rows of the data that did not converge; of two fixed points both have."""
        bad = [str(status) for status in Status if not (status.ok or status is Status.BISTABLE)]
        return self.data[self.data["status"].isin(bad)] if "status" in self.data else self.data[:0]


def draw_figure(path: Path, content: FigureContent) -> None:
    """Draw the plots of a figure side by side."""
    with canvas(path, len(content.axes), content.size) as drawn:
        for axes, axis in zip(drawn, content.axes, strict=True):
            palette = colors(axis.colors)
            for one in axis.series:
                color = _color(palette, one.color)
                if one.error is None:
                    lines = axes.plot(one.x, one.y, one.style, color=color, **one.look)
                    lines[0].set_label(one.label)
                else:
                    bars = None if np.all(np.isnan(one.error)) else one.error
                    look = {"fmt": one.style, "capsize": 2, "label": one.label, **one.look}
                    _, caps, stems = axes.errorbar(one.x, one.y, bars, color=color, **look)
                    for bar in (*caps, *stems):
                        bar.set_clip_on(True)
            for place, shade, label in axis.verticals:
                axes.axvline(place, color=_color(palette, shade), lw=1, ls=":", label=label)
            runs = [one for one in axis.series if one.status is not None]
            if runs:
                x, y = (np.concatenate([getattr(one, name) for one in runs]) for name in ("x", "y"))
                mark_unsettled(axes, x, y, [status for one in runs for status in one.status or ()])
            axes.set(**axis.settings)
            if axis.annotate is not None:
                axis.annotate(axes)
            if axis.legend is not None and axes.get_legend_handles_labels()[0]:
                axes.legend(**axis.legend)
        if drawn and content.caption:
            drawn[0].figure.suptitle(content.caption, fontsize=9, color="0.35")


def _color(palette: Sequence[ColorType], color: ColorType | int | None) -> ColorType | None:
    return palette[color] if isinstance(color, int) else color


def legend_entry(label: str, style: str, **look: str | float) -> Series:
    """An entry of the legend in grey, for lines or marks of several colours."""
    return Series([], [], "0.35", style, label, look=look)


def runs_entry(label: str = "runs", marker: str = "o", color: ColorType | int = "0.35") -> Series:
    """An entry of the legend for marks of runs, in grey where they have several colours."""
    return Series([], [], color, marker, label, look=_DARK_EDGES)


def joined(frames: Sequence[pandas.DataFrame]) -> pandas.DataFrame:
    """Return data frames below each other."""
    for frame in frames:
        # Attributes of tables differ, and pandas compares them.
        frame.attrs = {}
    return pandas.concat(frames, ignore_index=True)


def first_passage(cosine: Array, times: Array) -> float:
    """Return the first time at which a cosine exceeds one half; infinity if it never does."""
    return float(times[np.argmax(cosine > 0.5)]) if np.any(cosine > 0.5) else np.inf
