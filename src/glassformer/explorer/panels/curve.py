"""The error against the sample ratio: Bayes-optimal, of learners with a theory, and of runs on data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pandas
from bokeh.events import Tap
from bokeh.models import Legend, LegendItem

from glassformer.bayes_optimal.limits import limits
from glassformer.core.cache import cached_table, memoize
from glassformer.core.display import readable_name
from glassformer.core.errors import GlassformerError
from glassformer.core.parsing import parse_grid
from glassformer.core.results import Table
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, DASHES, GREYED, canvas, fill, hover, mark, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.preview import preview_answer, previews
from glassformer.explorer.question import positive, ratios
from glassformer.learners.base import Learner
from glassformer.learners.registry import compatible_learner, learners_with_limits, names, refusal
from glassformer.models.registry import MODELS

_COLUMNS = ("alpha", "error", "estimate", "status", "marker")
_OPTIMAL, _REACHED = "Bayes-optimal", "message passing"
# Share of the horizontal axis that one line of upright text needs.
_LINE = 0.022


def with_theory() -> list[str]:
    """Learners that may be drawn beside the Bayes-optimal one.

    Example:
        >>> "ridge" in with_theory(), "gd" in with_theory()
        (True, False)
    """
    return [name for name in learners_with_limits() if name != names()[0]]


@dataclass(frozen=True)
class Curves:
    """Limits by the name of the learner, thresholds, why something is missing, and which learners are not for this.

    Or a first look at what message passing reaches, and nothing else yet.
    """

    tables: dict[str, Table]
    thresholds: Any
    missing: dict[str, str]
    refused: dict[str, str]
    look: Table | None = None


class Curve(Panel):
    """Always in view; a click into it asks the other panels for that sample ratio."""

    title = "Error"
    follows = ("alpha", "learners")
    _where: float | None = None

    def drawing(self) -> Any:
        made = canvas(f"sample ratio {MODELS[self.model_tab.name].ratio}", "estimation error")
        self._lines = {name: source(*_COLUMNS) for name in (_OPTIMAL, _REACHED, *with_theory())}
        self._renderers: dict[str, list[Any]] = {}
        for k, (name, held) in enumerate(self._lines.items()):
            color, dash = COLORS[k % len(COLORS)], DASHES[k % len(DASHES)]
            line = made.line("alpha", "error", source=held, color=color, line_dash=dash, line_width=2.5)
            dots = made.scatter("alpha", "error", source=held, color=color, size=6, marker="marker")
            self._renderers[name] = [line, dots]
        self._marks, self._bars = source("alpha", "name"), source("alpha", "low", "high")
        self._points = source("alpha", "error", "estimate", "status", "theory")
        self._look, self._whiskers = source(*_COLUMNS), source("alpha", "low", "high")
        upright = made.vspan(x="alpha", source=self._marks, color="#555555", line_dash="dashed", line_width=1.2)
        self._names = source("alpha", "top", "label", "offset", "baseline")
        made.text(
            "alpha", "top", "label", source=self._names, angle=np.pi / 2, x_offset="offset", y_offset=10,
            text_align="right", text_baseline="baseline", text_font_size="12px", text_color="#444444",
        )  # fmt: skip
        made.segment("alpha", "low", "alpha", "high", source=self._bars, color="#000000", line_width=1.5)
        glance = made.scatter(
            "alpha", "error", source=self._look, line_color=COLORS[0], fill_color="#ffffff", size=8, marker="marker"
        )
        made.segment("alpha", "low", "alpha", "high", source=self._whiskers, color=COLORS[0], line_width=1.5)
        runs = made.scatter("alpha", "error", source=self._points, color="#000000", marker="diamond", size=10)
        described = [("alpha", "@alpha{0.0000}"), ("error", "@error{0.000000}"), ("status", "@status")]
        curves = [glance, *(one for pair in self._renderers.values() for one in pair[1:])]
        hover(made, curves, *described, ("error estimate", "@estimate{0.0e+0}"))
        hover(made, [runs], *described, ("standard error", "@estimate"), ("theory", "@theory"))
        hover(made, [upright], ("threshold", "@name"), ("alpha", "@alpha{0.000000}"))
        pairs = [(name, one[0]) for name, one in self._renderers.items()]
        pairs += [("runs on data", runs), ("first look at message passing", glance)]
        self._items = [LegendItem(label=name, renderers=[one], visible=False) for name, one in pairs]
        made.add_layout(Legend(items=self._items, orientation="horizontal", ncols=3), "above")
        self._at = mark(made, self._where)
        made.on_event(Tap, lambda event: self.model_tab.set_text("at", f"{max(event.x, 0.0):.4g}"))
        made.y_range.start = 0
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        return answered(asked, so_far)

    def draw(self, answer: Answer) -> None:
        found: Curves = answer.content
        self._glance(found.look)
        if found.look is not None:
            self._update_legend()
            self.model_tab.offer(found.refused)
            return
        table = found.tables[_OPTIMAL]
        fill(self._lines[_OPTIMAL], _columns(table, "error"))
        apart = table["algorithmic_error"] > table["error"] * (1 + 1e-6) + 1e-9
        fill(self._lines[_REACHED], _columns(table, "algorithmic_error") if apart.any() else _empty())
        for name in with_theory():
            one = found.tables.get(name)
            fill(self._lines[name], _empty() if one is None else _columns(one, "error"))
        least, largest = float(np.min(table["alpha"])), float(np.max(table["alpha"]))
        places = {} if found.thresholds is None else _places(found.thresholds, largest)
        fill(self._marks, {"alpha": list(places), "name": [", ".join(names) for names in places.values()]})
        content = np.concatenate([np.asarray(held.data["error"], dtype=float) for held in self._lines.values()])
        fill(self._names, _labels(places, least, largest, float(np.max(content[np.isfinite(content)], initial=0.0))))
        self.points(None)
        self.model_tab.remark(found.missing)
        self.model_tab.offer(found.refused)
        # The curve goes out first.
        self.model_tab.later(self.model_tab.go_on)

    def _glance(self, look: Table | None) -> None:
        """A first look, or none."""
        fill(self._look, _empty() if look is None else _columns(look, "error"))
        fill(self._whiskers, {"alpha": []} if look is None else _bars(look))

    def _update_legend(self) -> None:
        """Name the curves and points that are drawn, and no others."""
        for item in self._items:
            item.visible = len(item.renderers[0].data_source.data["alpha"]) > 0

    def stale(self) -> None:
        super().stale()
        if self.has_content:
            self._glance(None)
            self._update_legend()

    def points(self, simulation: Table | None) -> None:
        """Runs on data, or none."""
        if "figure" not in vars(self):
            return
        if simulation is None:
            fill(self._points, {"alpha": []})
            fill(self._bars, {"alpha": []})
        else:
            blur = np.nan_to_num(simulation["standard_error"])
            alpha, error = simulation["alpha_realised"], simulation["error"]
            theory, status = [f"{x:.6f}" for x in simulation["theory"]], [str(one) for one in simulation.status]
            estimate = [f"{x:.2g}" for x in simulation["standard_error"]]
            columns = {"alpha": alpha, "error": error, "estimate": estimate, "status": status, "theory": theory}
            fill(self._points, columns)
            fill(self._bars, {"alpha": alpha, "low": error - blur, "high": error + blur})
        self._update_legend()

    def at(self, alpha: float) -> None:
        """Mark the sample ratio that other panels are about."""
        self._where = alpha
        if self.has_content:
            self._at.location = alpha

    def fade(self, stale: bool) -> None:
        for pair in self._renderers.values():
            for one in pair:
                one.glyph.line_alpha = GREYED if stale else CLEAR
            pair[1].glyph.fill_alpha = GREYED if stale else CLEAR


def answered(asked: Request, so_far: Callable[[Answer], None] | None) -> Answer:
    """The answer to a question about a curve; ``so_far`` is given what there is before the end, if anybody looks."""
    alpha, tell = ratios(asked.texts), so_far or _unseen
    # What may be asked beside it does not wait for numbers.
    refused = memoize(lambda: _refusals(asked.model), "refusals", asked.model)
    found = Curves({}, None, {}, refused)

    def compute() -> Table:
        if so_far is not None:
            for look in previews(asked.model, alpha):
                so_far(preview_answer(replace(found, look=look), look, len(alpha)))
        return limits(asked.model, alpha, throw=False)

    found = replace(found, tables={_OPTIMAL: cached_table(compute, "limits", asked.model, alpha)})
    tell(_answer(asked, found))
    thresholds = memoize(lambda: _thresholds(asked.model), "thresholds", asked.model)
    found = replace(found, thresholds=thresholds)
    for name in [name for name in asked.texts["learners"].split(",") if name and name not in refused]:
        tell(_answer(asked, found))
        try:
            table = _of_learner(asked, name, parse_grid("alpha", positive(asked.texts)))
            found = replace(found, tables={**found.tables, name: table})
        except GlassformerError as error:
            found = replace(found, missing={**found.missing, name: str(error)})
    return _answer(asked, found)


def _unseen(answer: Answer) -> None:
    """Nobody looks."""


def _of_learner(asked: Request, name: str, alpha: list[float]) -> Table:
    one = compatible_learner(name, asked.model)
    return cached_table(lambda: one.limits(asked.model, alpha, throw=False), "limits", one, asked.model, alpha)


def _refusals(model: Any) -> dict[str, str]:
    """Learners that do not go with a model, and why."""
    found = {name: refusal(compatible_learner(name, model), model) for name in names()}
    return {name: why for name, why in found.items() if why is not None}


def _thresholds(model: Any) -> Any:
    from glassformer.bayes_optimal.thresholds import thresholds

    return thresholds(model)


def _places(thresholds: Any, largest: float) -> dict[float, list[str]]:
    """Where lines stand, with the names of all that begin there."""
    found: dict[float, list[str]] = {}
    for entry in thresholds.entries:
        if 0 < entry.alpha <= largest:
            found.setdefault(round(entry.alpha, 9), []).append(readable_name(entry.name))
    return found


def _labels(places: Mapping[float, Sequence[str]], least: float, largest: float, top: float) -> dict[str, Any]:
    """Upright names of thresholds; thresholds that are too close to each other for two labels share one.

    A label ends at the height ``top``. It stands on the left of its threshold, or on the right where the left has no
    room.

    Example:
        >>> found = _labels({0.1: ["weak recovery"], 0.75: ["perfect recovery"], 0.76: ["spinodal"]}, 0.0, 1.0, 1.0)
        >>> [text.split(chr(10)) for text in found["label"]], found["alpha"]
        ([['weak recovery'], ['perfect recovery', 'spinodal']], [0.1, 0.75])
    """
    groups: list[list[float]] = []

    def width(group: list[float]) -> float:
        return _LINE * (largest - least) * sum(len(places[alpha]) for alpha in group)

    def on_left(group: list[float]) -> bool:
        return group[0] - width(group) > least

    for alpha in sorted(places):
        groups.append([alpha])
        while len(groups) > 1:
            (*_, before), last = groups[-2], groups[-1]
            end = before if on_left(groups[-2]) else before + width(groups[-2])
            if last[0] - width(last) * on_left(last) > end:
                break
            groups[-2:] = [[*groups[-2], *last]]
    return {
        "alpha": [group[0] if on_left(group) else group[-1] for group in groups],
        "top": [top] * len(groups),
        "label": ["\n".join(name for alpha in group for name in places[alpha]) for group in groups],
        "offset": [-3 if on_left(group) else 3 for group in groups],
        "baseline": ["bottom" if on_left(group) else "top" for group in groups],
    }


def _columns(table: Table, name: str) -> dict[str, Any]:
    columns = {"alpha": table["alpha"], "error": table[name], "estimate": table["error_estimate"]}
    marker = ["circle" if one.ok else "x" for one in table.status]
    return {**columns, "status": [str(one) for one in table.status], "marker": marker}


def _bars(look: Table) -> dict[str, Any]:
    """Where errors may be; those of points that are not known have none."""
    known = np.isfinite(look["error_estimate"])
    alpha, error, estimate = (look[name][known] for name in ("alpha", "error", "error_estimate"))
    return {"alpha": alpha, "low": np.maximum(error - estimate, 0.0), "high": error + estimate}


def _empty() -> dict[str, Any]:
    return {name: [] for name in _COLUMNS}


def _answer(asked: Request, found: Curves) -> Answer:
    from glassformer.plotting.plots import plot_limits

    optimum, spec = found.tables[_OPTIMAL], asked.texts["alpha"]
    learners = [name for name in found.tables if name != _OPTIMAL]
    frames = [one.to_pandas().assign(learner=name) for name, one in found.tables.items()]
    commands = [asked.command("limits", alpha=spec), asked.command("thresholds")]
    above = positive(asked.texts)
    fitting = [compatible_learner(name, asked.model) for name in learners]
    commands += [
        asked.command("limits", alpha=above, learner=one.name, **words.learner_options(one)) for one in fitting
    ]
    calls = "".join(f"\n{_named(one)}.limits(model, {words.alpha_option(above)}, throw=False)" for one in fitting)
    imports = {"learner": "glassformer.learners.registry"} if learners else {}
    return Answer(
        content=found,
        frame=pandas.concat(frames) if learners else optimum.to_pandas(),
        said=_said(found, optimum),
        command="\n".join(commands),
        code=asked.code(f"limits(model, {words.alpha_option(spec)}, throw=False){calls}", **imports),
        plot=partial(plot_limits, optimum),
    )


def _named(one: Learner) -> str:
    return f"{one.name.replace('-', '_')} = {words.learner_call(one)}"


def _said(found: Curves, optimum: Table) -> str:
    """What the figure shows, in words."""
    alpha, error = optimum["alpha"], optimum["error"]
    first, last = (words.error_text(error[k], optimum["error_estimate"][k]) for k in (0, -1))
    text = f"The Bayes-optimal error goes from {first} at alpha = {alpha[0]:.4g} to {last} at {alpha[-1]:.4g}."
    doubtful = sum(not status.ok for status in optimum.status)
    text += f" {doubtful} of {len(alpha)} points are not plainly converged; the table has their status." * (
        doubtful > 0
    )
    if found.thresholds is not None:
        known = [(readable_name(e.name), e.alpha) for e in found.thresholds.entries if np.isfinite(e.alpha)]
        text += " Thresholds: " + ", ".join(f"{name} at {alpha:.4g}" for name, alpha in known) + "." * bool(known)
    return " ".join([text, *optimum.notes])
