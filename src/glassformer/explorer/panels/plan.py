"""Samples that a target error takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
from bokeh.models import Legend, LegendItem

from glassformer.core.cache import memoize
from glassformer.core.display import readable_name
from glassformer.core.parsing import parse_number
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, DASHES, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.panels.curve import with_theory
from glassformer.explorer.question import whole
from glassformer.learners.plan import plan
from glassformer.learners.registry import compatible_learner, names

_CURVES = 3


class Samples(Panel):
    """The curve of a learner read the other way round."""

    title = "Samples for a target"
    fields: ClassVar[dict[str, str]] = {"target": "target error", "d": "token dimension d", "planned": "learner"}
    by_itself = False

    def among(self, name: str) -> tuple[str, ...]:
        return (names()[0], *with_theory()) if name == "planned" else ()

    def drawing(self) -> Any:
        made = canvas("sample ratio alpha", "error", 320, x_axis_type="log", y_axis_type="log")
        self._curves = [source("alpha", "error", "who") for _ in range(_CURVES)]
        self._target, self._reached = source("alpha", "error"), source("alpha", "error", "who", "samples")
        self._lines = [
            made.line("alpha", "error", source=one, color=COLORS[k], line_dash=DASHES[k], line_width=2.5)
            for k, one in enumerate(self._curves)
        ]
        self._legend = Legend(items=[], orientation="horizontal")
        made.add_layout(self._legend, "above")
        made.line("alpha", "error", source=self._target, color="#555555", line_dash="dotted", line_width=2)
        places = made.scatter("alpha", "error", source=self._reached, color="#000000", marker="diamond", size=12)
        hover(made, self._lines, ("who", "@who"), ("alpha", "@alpha{0.0000}"), ("error", "@error{0.000000}"))
        hover(made, [places], ("who", "@who"), ("alpha", "@alpha{0.000000}"), ("samples", "@samples"))
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        from glassformer.plotting.plots import plot_plan

        del so_far
        target, d = parse_number("target", asked.texts["target"]), whole(asked.texts, "d")
        chosen = compatible_learner(asked.texts["planned"], asked.model)
        compute = partial(plan, asked.model, target, chosen, "error", d)
        found = memoize(compute, "plan", asked.model, target, chosen, d)
        call, imports = words.learner_argument(chosen)
        described = [
            f"{readable_name(one.name)}: alpha = {one.alpha:.6g}, {one.samples} samples"
            if np.isfinite(one.alpha)
            else f"{readable_name(one.name)}: {one.note}"
            for one in found.entries
        ]
        return Answer(
            content=found,
            frame=found.to_pandas(),
            said=f"Error at or below {target:g} with d = {d}. " + "; ".join(described) + ". " + " ".join(found.notes),
            command=asked.command(
                "plan", target_error=target, d=d, learner=chosen.name, **words.learner_options(chosen)
            ),
            code=asked.code(f"plan(model, {target!r}, {call}, d={d})", **imports),
            plot=partial(plot_plan, found),
        )

    def draw(self, answer: Answer) -> None:
        found = answer.content
        curves = {name: values for name, values in found.curves.items() if name != "alpha"}
        alpha, least = found.curves["alpha"], found.target / 100
        for held in self._curves:
            fill(held, {"alpha": []})
        self._legend.items = [
            LegendItem(label=readable_name(name), renderers=[line])
            for name, line in zip(curves, self._lines, strict=False)
        ]
        for held, (name, values) in zip(self._curves, curves.items(), strict=False):
            # A logarithmic axis has no place for zero, nor for what is far below the target.
            seen, who = values > least, readable_name(name)
            fill(held, {"alpha": alpha[seen], "error": values[seen], "who": [who] * int(seen.sum())})
        fill(self._target, {"alpha": [alpha[0], alpha[-1]], "error": [found.target] * 2})
        there = [one for one in found.entries if np.isfinite(one.alpha) and one.alpha > 0]
        columns = {"alpha": [one.alpha for one in there], "error": [found.target] * len(there)}
        fill(self._reached, {**columns, "who": [o.name for o in there], "samples": [str(o.samples) for o in there]})

    def fade(self, stale: bool) -> None:
        for line in self._lines:
            line.glyph.line_alpha = GREYED if stale else CLEAR
