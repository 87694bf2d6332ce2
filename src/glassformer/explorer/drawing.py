"""One look for every figure of the page: colours and dashes that everyone can tell apart, values under the pointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bokeh.models import ColumnDataSource, HoverTool, Span
from bokeh.palettes import Colorblind
from bokeh.plotting import figure

# The colours of Okabe and Ito, the yellow that white swallows left out.
COLORS = tuple(color for color in Colorblind[8] if color != "#F0E442")
DASHES = ("solid", "dashed", "dotdash", "dotted", "dashdot")
GREYED, CLEAR = 0.25, 1.0


def canvas(horizontal: str, vertical: str, height: int = 380, **more: Any) -> Any:
    """An empty figure as wide as there is room."""
    made = figure(
        height=height,
        sizing_mode="stretch_width",
        x_axis_label=horizontal,
        y_axis_label=vertical,
        tools="pan,wheel_zoom,box_zoom,reset,save",
        active_scroll=None,
        toolbar_location="below",
        **more,
    )
    made.toolbar.logo = None
    made.toolbar.autohide = True
    made.grid.grid_line_color = "#e6e6e6"
    for axis in made.axis:
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_font_size = "14px"
        axis.major_label_text_font_size = "13px"
    return made


def source(*names: str) -> ColumnDataSource:
    """Columns with nothing in them yet."""
    return ColumnDataSource({name: [] for name in names})


def fill(held: ColumnDataSource, columns: Mapping[str, Any]) -> None:
    """Put columns in the place of those there are; what a figure reads and is not given becomes empty text."""
    length = len(next(iter(columns.values()), []))
    data = {
        **{name: [""] * length for name in held.column_names if name not in columns},
        **{name: list(values) for name, values in columns.items()},
    }
    # What is there already is not sent once more, nor drawn.
    if data != held.data:
        held.data = data


def hover(made: Any, renderers: Sequence[Any], *values: tuple[str, str]) -> None:
    """Values under the pointer."""
    made.add_tools(HoverTool(renderers=list(renderers), tooltips=list(values), mode="mouse"))


def mark(made: Any, where: float | None, color: str = "#000000", dash: str = "dotted") -> Span:
    """An upright line."""
    line = Span(location=where, dimension="height", line_color=color, line_dash=dash, line_width=1.5)
    made.add_layout(line)
    return line
