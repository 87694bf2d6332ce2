"""The error after every step of an algorithm, in theory."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from glassformer.core.cache import cached_table
from glassformer.core.errors import IncompatibleError
from glassformer.experiments.trajectories import follow
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.question import chosen_ratio, whole

_MOST = 1000


class InTime(Panel):
    """State evolution step by step."""

    title = "In time"
    fields: ClassVar[dict[str, str]] = {"steps": "steps"}
    follows = ("at",)

    def drawing(self) -> Any:
        made = canvas("step of message passing", "estimation error", 320)
        self._way = source("iteration", "error", "estimate", "status")
        self._line = made.line("iteration", "error", source=self._way, color=COLORS[0], line_width=2)
        dots = made.scatter("iteration", "error", source=self._way, color=COLORS[0], size=6)
        tooltips = [("step", "@iteration"), ("error", "@error{0.000000}"), ("status", "@status")]
        hover(made, [dots], *tooltips, ("error estimate", "@estimate{0.0e+0}"))
        made.y_range.start = 0
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        from glassformer.plotting.plots import plot_trajectory

        del so_far
        alpha, steps = chosen_ratio(asked.texts), whole(asked.texts, "steps")
        if steps > _MOST:
            raise IncompatibleError(f"steps = {steps}: the page draws at most {_MOST}, glassformer trajectory more")
        table = cached_table(lambda: follow(asked.model, [alpha], steps), "trajectory", asked.model, alpha, steps)
        text = [words.error_text(*pair) for pair in zip(table["error"], table["error_estimate"], strict=True)]
        return Answer(
            content=table,
            frame=table.to_pandas(),
            said=f"At alpha = {alpha:.4g} the error of message passing goes from {text[0]} before the first step "
            f"to {text[1]} after it and {text[-1]} after {steps}.",
            command=asked.command("trajectory", alpha=alpha, steps=steps),
            code=asked.code(f"follow(model, [{alpha!r}], steps={steps})"),
            plot=partial(plot_trajectory, table),
        )

    def draw(self, answer: Answer) -> None:
        table = answer.content
        status = [str(one) for one in table.status]
        columns = {"iteration": table["iteration"], "error": table["error"], "estimate": table["error_estimate"]}
        fill(self._way, {**columns, "status": status})

    def fade(self, stale: bool) -> None:
        self._line.glyph.line_alpha = GREYED if stale else CLEAR
