"""The error over two parameters, or over one and the sample ratio with the thresholds drawn in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pandas
from bokeh.models import BasicTicker, ColorBar, LinearColorMapper
from bokeh.palettes import Cividis256

from glassformer.bayes_optimal.limits import limits
from glassformer.bayes_optimal.thresholds import thresholds
from glassformer.core.cache import cached_table, memoize
from glassformer.core.display import heading, readable_name
from glassformer.core.errors import GlassformerError, ParameterError
from glassformer.core.progress import track
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.question import built, chosen_ratio, given, offered, ratios, whole

_ALPHA, _MOST = "alpha", 60


@dataclass(frozen=True)
class Found:
    """Cells and thresholds, as rows; the values on both axes."""

    cells: list[dict[str, Any]]
    thresholds: list[dict[str, Any]]
    axes: tuple[tuple[str, list[float]], tuple[str, list[float]]]


class Diagram(Panel):
    """Theory on a grid."""

    title = "Phase diagram"
    fields: ClassVar[dict[str, str]] = {
        "horizontal": "horizontal axis",
        "vertical": "vertical axis",
        "grid": "values along each",
    }
    follows = ("at",)
    by_itself = False

    def among(self, name: str) -> tuple[str, ...]:
        usual = tuple(option.field for option in offered(self.model_tab.name) if option.usual)
        return {"horizontal": usual, "vertical": (_ALPHA, *usual)}.get(name, ())

    def drawing(self) -> Any:
        made = canvas("", "", 420)
        self._cells = source("x", "y", "error", "status", "width", "height")
        self._marks = source("x", "y", "name")
        colors = LinearColorMapper(palette=Cividis256, low=0, high=1)
        self._rects = made.rect(
            "x", "y", "width", "height", source=self._cells, line_color=None,
            fill_color={"field": "error", "transform": colors},
        )  # fmt: skip
        marks = made.scatter(
            "x", "y", source=self._marks, color="#ffffff", line_color="#000000", marker="circle", size=8
        )
        made.add_layout(ColorBar(color_mapper=colors, ticker=BasicTicker(), title="error"), "right")
        described = [("error", "@error{0.0000}"), ("status", "@status")]
        hover(made, [self._rects], ("horizontal", "@x{0.0000}"), ("vertical", "@y{0.0000}"), *described)
        hover(made, [marks], ("threshold", "@name"), ("alpha", "@y{0.0000}"))
        made.grid.visible = False
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        across, up = self._axes(asked)
        cells: list[dict[str, Any]] = []
        marks: list[dict[str, Any]] = []
        answer = None
        for x in track(across[1], f"{len(across[1])} columns of the diagram"):
            column = {across[0]: x}
            cells += _alphas(asked, column, up[1]) if up[0] == _ALPHA else _others(asked, column, up)
            if up[0] == _ALPHA:
                marks += _thresholds(asked, column, max(up[1]))
            answer = _answer(asked, Found(list(cells), list(marks), (across, up)))
            so_far(answer)
        assert answer is not None
        return answer

    def _axes(self, asked: Request) -> tuple[tuple[str, list[float]], tuple[str, list[float]]]:
        usual = {option.field: option.usual for option in offered(asked.name) if option.usual}
        horizontal, vertical, count = asked.texts["horizontal"], asked.texts["vertical"], whole(asked.texts, "grid")
        if not 2 <= count <= _MOST:
            raise ParameterError("grid", count, f"an integer from 2 to {_MOST}")
        if horizontal == vertical:
            raise ParameterError("vertical", vertical, "another parameter than on the horizontal axis")
        ranges = {name: _spread(*ends, count) for name, ends in usual.items()}
        top = max(ratios(asked.texts))
        return (horizontal, ranges[horizontal]), (
            vertical,
            {**ranges, _ALPHA: _spread(top / count, top, count)}[vertical],
        )

    def draw(self, answer: Answer) -> None:
        found: Found = answer.content
        (across, wide), (up, high) = found.axes
        self.figure.xaxis.axis_label, self.figure.yaxis.axis_label = across, up
        columns = {
            "x": [cell[across] for cell in found.cells],
            "y": [cell[up] for cell in found.cells],
            "error": [cell["error"] for cell in found.cells],
            "status": [cell["status"] for cell in found.cells],
            "width": [wide[1] - wide[0]] * len(found.cells),
            "height": [high[1] - high[0]] * len(found.cells),
        }
        fill(self._cells, columns)
        x, y, names = zip(*_places(found), strict=True) if found.thresholds else ((), (), ())
        fill(self._marks, {"x": x, "y": y, "name": names})

    def fade(self, stale: bool) -> None:
        self._rects.glyph.fill_alpha = GREYED if stale else CLEAR


def _spread(low: float, high: float, count: int) -> list[float]:
    return [float(f"{value:.6g}") for value in np.linspace(low, high, count)]


def _model(asked: Request, changed: dict[str, float]) -> Any:
    return built(asked.name, {**asked.texts, **{name: str(value) for name, value in changed.items()}}, asked.function)


def _alphas(asked: Request, column: dict[str, float], alpha: list[float]) -> list[dict[str, Any]]:
    model = _model(asked, column)
    table = cached_table(lambda: limits(model, alpha, throw=False), "limits", model, alpha)
    rows = table.to_pandas()[["alpha", "error", "error_estimate", "status"]].to_dict("records")
    return [{**column, **row, "status": str(row["status"])} for row in rows]


def _others(asked: Request, column: dict[str, float], up: tuple[str, list[float]]) -> list[dict[str, Any]]:
    alpha = chosen_ratio(asked.texts)
    places = [{**column, up[0]: y} for y in up[1]]
    return [{**place, **_alphas(asked, place, [alpha])[0]} for place in places]


def _thresholds(asked: Request, column: dict[str, float], top: float) -> list[dict[str, Any]]:
    model = _model(asked, column)
    try:
        found = memoize(lambda: thresholds(model), "thresholds", model)
    except GlassformerError:
        return []
    places = [(readable_name(entry.name), entry.alpha) for entry in found.entries if 0 < entry.alpha <= top]
    return [{**column, "name": name, "alpha": alpha} for name, alpha in places]


def _places(found: Found) -> list[tuple[float, float, str]]:
    """Where thresholds are, with their names."""
    return [(one[found.axes[0][0]], one["alpha"], one["name"]) for one in found.thresholds]


def _errors(found: Found) -> Any:
    """Cells that are computed, shape (vertical, horizontal)."""
    (_, wide), (_, high) = found.axes
    errors = np.full(len(wide) * len(high), np.nan)
    errors[: len(found.cells)] = [cell["error"] for cell in found.cells]
    return errors.reshape(len(wide), len(high)).T


def _answer(asked: Request, found: Found) -> Answer:
    from glassformer.plotting.spectra import plot_grid

    (across, wide), (up, high) = found.axes
    at = {} if up == _ALPHA else {_ALPHA: [chosen_ratio(asked.texts)]}
    grid = {across: wide, up: high, **at}
    fixed = {name: value for name, value in given(asked.name, asked.texts).items() if name not in grid}
    if asked.link:
        fixed = {**{name: value for name, value in fixed.items() if name != "channel"}, "link": asked.link}
    errors = sorted((cell["error"], cell["error_estimate"]) for cell in found.cells)
    least, largest = (words.error_text(*pair) for pair in (errors[0], errors[-1]))
    done = len(found.cells) / (len(wide) * len(high))
    said = f"Bayes-optimal error over {across} and {up}"
    said += f" at alpha = {at[_ALPHA][0]:.4g}" if at else ", with the thresholds as dots"
    said += f": from {least} to {largest}" + ("." if done == 1 else f"; {done:.0%} computed.")
    code = (
        "from glassformer import Sweep, collect, run_sweep\n"
        f"sweep = Sweep(model={asked.name!r}, compute='limits', parameters={fixed!r}, grid={grid!r})\n"
        "run_sweep(sweep, 'results')\n"
        "result = collect('results')"
    )
    command = "# with what is below as sweep.toml\nglassformer sweep run sweep.toml --store results\n\n"
    described = {name: value for name, value in asked.model.parameters.items() if name not in grid}
    title = heading(asked.name, {**described, **{name: value for name, (value,) in at.items()}})
    plot = partial(plot_grid, found.axes, _errors(found), _places(found), title)
    return Answer(found, pandas.DataFrame(found.cells), said, command + _toml(asked, fixed, grid), code, plot)


def _toml(asked: Request, fixed: dict[str, Any], grid: dict[str, Any]) -> str:
    """The sweep as a file."""
    lines = ["[sweep]", f'model = "{asked.name}"', 'compute = "limits"', "[parameters]"]
    lines += [f"{name} = {_toml_value(value)}" for name, value in fixed.items()]
    return "\n".join([*lines, "[grid]", *(f"{name} = {values}" for name, values in grid.items())])


def _toml_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)
