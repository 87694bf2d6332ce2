"""What a view answers: a picture with a sentence, numbers and code; and the figure of Bokeh that draws pictures."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from bokeh.events import Tap
from bokeh.models import ColumnDataSource, HoverTool, Legend, LegendItem, Range1d, SaveTool, Span
from bokeh.plotting import figure

from glassformer.core.estimate import Array

# Colours that colour-blind people distinguish (Okabe and Ito), without the yellow, which is too pale on white.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Dashes, as Bokeh calls them, and in SVG.
DASHES = {"solid": "", "dashed": "7 4", "dotted": "2 3", "dotdash": "2 3 7 3", "dashdot": "7 3 2 3"}
_INK, _GREY, _PALE, _FONT = "#1c2733", "#5b6875", "#9aa5b1", "system-ui, sans-serif"
_AXIS = {
    **{"axis_line_color": _PALE, "major_tick_line_color": _PALE, "minor_tick_line_color": None},
    **{"axis_label_text_font": _FONT, "axis_label_text_font_size": "15px", "axis_label_text_font_style": "normal"},
    **{"axis_label_text_color": _INK, "major_label_text_font": _FONT, "major_label_text_font_size": "13px"},
    "major_label_text_color": _GREY,
}
# Opacity of an earlier answer, height between two names of thresholds in pixels, share of the height kept free above,
# share of the width of a narrow plot that a letter takes, and number of points from which on they are not drawn.
_FADED, _LINE, _HEADROOM, _LETTER, _DENSE = 0.25, 18, 1.06, 0.024, 80
# Columns of thresholds, curves, error bars and points.
_COLUMNS = (
    "x top name dx dy align",
    "x y color alpha dash",
    "x low high color alpha",
    "x y color alpha fill size name hint",
)
# Error estimates up to here are those of rounding and of solved equations, not of sampling.
_EXACT = 1e-6


@dataclass(frozen=True, eq=False)
class Series:
    """One curve, or points of one kind.

    Attributes:
        name: in the legend.
        x: positions, shape (points,).
        y: heights, shape (points,).
        kind: ``line``, ``points``, or ``preview``, open points.
        color: of the curve.
        dash: of the curve.
        bars: half-lengths of error bars, shape (points,).
        hints: what the pointer shows of each point, beside its coordinates.
        faded: whether it answers an earlier question.
    """

    name: str
    x: Any
    y: Any
    kind: str = "line"
    color: str = COLORS[0]
    dash: str = "solid"
    bars: Any = None
    hints: Sequence[str] = ()
    faded: bool = False


@dataclass(frozen=True, eq=False)
class Picture:
    """What is drawn: names of the axes, series, positions and names of thresholds, the position that a click chose.

    ``y_range`` and ``right`` limit the axes; by default they end at zero below, and with the series elsewhere.
    """

    x: str
    y: str
    series: tuple[Series, ...] = ()
    marks: tuple[tuple[float, str], ...] = ()
    at: float | None = None
    y_range: tuple[float, float] | None = None
    right: float | None = None

    def faded(self) -> Picture:
        """Return the picture as that of an earlier question."""
        return replace(self, series=tuple(replace(one, faded=True) for one in self.series))

    def ranges(self) -> list[tuple[float, float]]:
        """Return the ends of both axes."""
        x = np.concatenate([[0.0], *(np.asarray(one.x, dtype=float) for one in self.series)])
        tops = [np.asarray(one.y) + (0 if one.bars is None else np.nan_to_num(one.bars)) for one in self.series]
        y = np.concatenate([[1e-9], *tops])
        right = float(np.max(x)) if self.right is None else self.right
        low, high = self.y_range or (0.0, _HEADROOM * float(np.max(y[np.isfinite(y)])))
        return [(float(np.min(x)) - 0.02 * right, 1.02 * right), (low, high)]


@dataclass(frozen=True, eq=False)
class Answer:
    """The answer of a view.

    Attributes:
        picture: what is drawn.
        frame: the numbers, a data frame.
        sentence: what the picture shows, in words.
        code: the Python code that gives the numbers.
        command: the command line that does; empty where there is none.
        notes: what a reader of the numbers should know.
        preview: whether other numbers follow: nothing can be exported.
    """

    picture: Picture
    frame: Any
    sentence: str
    code: str = ""
    command: str = ""
    notes: Sequence[str] = ()
    preview: bool = False


class Plot:
    """A figure that draws one picture after the other, in place.

    Args:
        clicked: called with the position of a click.
    """

    def __init__(self, clicked: Callable[[float], None]) -> None:
        self.save = SaveTool(filename="glassformer")
        self.figure = figure(
            **{"sizing_mode": "stretch_both", "x_range": Range1d(), "y_range": Range1d(), "min_border": 12},
            **{"tools": "pan,wheel_zoom,box_zoom,reset", "active_scroll": None, "outline_line_color": None},
        )
        self.figure.add_tools(self.save)
        self.figure.toolbar.update(logo=None, autohide=True)
        self.figure.grid.grid_line_color = "#e8ecf0"
        for axis in self.figure.axis:
            axis.update(**_AXIS)
        self._ranges, self._items = list[Any](), list[Any]()
        self._marks, self._lines, self._bars, self._points = (
            ColumnDataSource({name: [] for name in columns.split()}) for columns in _COLUMNS
        )
        self.figure.vspan(x="x", source=self._marks, line_color=_GREY, line_dash="dashed", line_width=1.2)
        self.figure.text(
            **{"x": "x", "y": "top", "text": "name", "x_offset": "dx", "y_offset": "dy", "text_align": "align"},
            **{"source": self._marks, "text_baseline": "top", "text_font": {"value": _FONT}, "text_font_size": "13px"},
            **{"text_color": _INK, "background_fill_color": "#ffffff", "background_fill_alpha": 0.9},
        )
        self._at = Span(dimension="height", line_color=_INK, line_dash="dotted", line_width=1.5, visible=False)
        self._at.level = "underlay"
        self.figure.add_layout(self._at)
        # Beside the plot in a saved file alone: on the page the legend stands above it, and takes several lines.
        self.legend = Legend(visible=False, border_line_color=None, label_text_font=_FONT)
        self.figure.add_layout(self.legend, "right")
        look = {"line_color": "color", "line_alpha": "alpha"}
        self.figure.segment("x", "low", "x", "high", source=self._bars, line_width=1.5, **look)
        dashes = {"line_dash": "dash", "line_width": 3, "line_join": "round"}
        lines = self.figure.multi_line("x", "y", source=self._lines, **dashes, **look)
        fills = {"fill_color": "color", "fill_alpha": "fill", "line_width": 1.5}
        points = self.figure.scatter("x", "y", source=self._points, size="size", **fills, **look)
        tooltips = [("", "@name"), ("x", "@x{0.0000}"), ("y", "@y{0.000000}"), ("", "@hint")]
        self.figure.add_tools(HoverTool(renderers=[points], tooltips=tooltips, visible=False))
        self._renderers = {"line": lines, "points": points, "preview": points}
        self.figure.on_event(Tap, lambda event: clicked(event.x))

    def draw(self, picture: Picture) -> None:
        """Draw a picture in the place of the one before."""
        lines, bars, points, items = list[Any](), list[Any](), list[Any](), list[tuple[str, str, int]]()
        for one in (one for one in picture.series if len(one.x)):
            x, y = np.asarray(one.x, dtype=float), np.asarray(one.y, dtype=float)
            half = np.full(len(x), np.nan) if one.bars is None else np.asarray(one.bars, dtype=float)
            look = {"color": one.color, "alpha": _FADED if one.faded else 1.0}
            size = {"points": 8, "preview": 13}.get(one.kind, 5 if len(x) < _DENSE else 1)
            dots = {**look, "name": one.name, "size": size, "fill": 0.0 if one.kind == "preview" else look["alpha"]}
            items.append((one.name, one.kind, len(lines) if one.kind == "line" else len(points)))
            if one.kind == "line":
                lines.append({**look, "x": list(x), "y": list(y), "dash": DASHES[one.dash] or "solid"})
            for at, value, error, hint in zip(x, y, half, one.hints or [""] * len(x), strict=True):
                points.append({**dots, "x": at, "y": value, "hint": hint})
                if np.isfinite(error):
                    bars.append({**look, "x": at, "low": max(value - error, 0.0), "high": value + error})
        _update(self._lines, lines)
        _update(self._bars, bars)
        _update(self._points, points)
        if items != self._items:
            self._items = items
            self.legend.items = [LegendItem(label=n, renderers=[self._renderers[k]], index=i) for n, k, i in items]
        ranges = picture.ranges()
        if ranges != self._ranges:
            # A person may have zoomed: nothing moves unless the picture needs another range.
            self._ranges = ranges
            for axis, (low, high) in zip((self.figure.x_range, self.figure.y_range), ranges, strict=True):
                axis.update(start=low, end=high, reset_start=low, reset_end=high)
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = picture.x, picture.y
        self._at.update(location=picture.at or 0.0, visible=picture.at is not None)
        # Names of thresholds stand below each other, on the right of their line if there is room.
        (start, end), (_, top) = ranges
        marks = []
        for k, (place, name) in enumerate(sorted(picture.marks)):
            left = (place - start) / (end - start) + _LETTER * len(name) > 1
            side = {"dx": -5 if left else 5, "dy": 4 + _LINE * k, "align": "right" if left else "left"}
            marks.append({"x": place, "top": top, "name": name, **side})
        _update(self._marks, marks)


def _update(source: ColumnDataSource, rows: list[dict[str, Any]]) -> None:
    data = {name: [row[name] for row in rows] for name in source.data}
    # Data that are there already are not sent again.
    if data != source.data:
        source.data = data


def legend_html(picture: Picture) -> str:
    """Return a legend of the series that have points, and of no others."""
    items = []
    for one in picture.series:
        shape = f'<path d="M1 7H29" stroke-width="3" stroke-dasharray="{DASHES[one.dash]}"/>'
        if one.kind in ("points", "preview"):
            fill = one.color if one.kind == "points" else "none"
            shape = f'<circle cx="15" cy="7" r="5" fill="{fill}" stroke-width="1.5"/>'
        style = f'stroke="{one.color}" opacity="{_FADED if one.faded else 1}"'
        drawing = f'<svg width="30" height="14" {style} aria-hidden="true">{shape}</svg>'
        items += [f"<span>{drawing}{html.escape(one.name)}</span>"] * (len(one.x) > 0)
    return f'<div class="curves">{"".join(items)}</div>'


def hints(status: Sequence[object], estimate: Array) -> list[str]:
    """Return what the pointer shows of rows of a result: status and error estimate."""
    return [f"{one}, error estimate {error:.1g}" for one, error in zip(status, estimate, strict=True)]


def error_text(error: float, estimate: float) -> str:
    """Return an error for a sentence: 0 where a deterministic computation cannot distinguish it from zero.

    Example:
        >>> error_text(1.5e-25, 1e-14), error_text(1.5e-13, 1e-14), error_text(0.1, 0.2)
        ('0', '1.5e-13', '0.1')
    """
    return "0" if abs(error) <= estimate <= _EXACT else f"{error:.3g}"
