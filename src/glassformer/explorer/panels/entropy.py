"""Free entropy against the overlap, at one sample ratio."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from glassformer.bayes_optimal.free_entropy import landscape
from glassformer.core.cache import memoize
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.question import chosen_ratio

# Overlaps on the curve.
_POINTS = 200


class Entropy(Panel):
    """Its maxima are the fixed points of state evolution, the highest one is Bayes-optimal."""

    title = "Free entropy"
    follows = ("at",)

    def drawing(self) -> Any:
        made = canvas("overlap q", "free entropy Φ(q) − Φ(0) [nats]", 320, y_range=(0, 1))
        self._curve, self._maxima = source("overlap", "height", "estimate", "status"), source("overlap", "height")
        self._line = made.line("overlap", "height", source=self._curve, color=COLORS[0], line_width=2.5)
        tops = made.scatter("overlap", "height", source=self._maxima, color=COLORS[4], size=10, legend_label="maximum")
        tooltips = [("overlap", "@overlap{0.000000}"), ("free entropy", "@height{0.000000}")]
        hover(made, [self._line], *tooltips, ("error estimate", "@estimate{0.0e+0}"), ("status", "@status"))
        hover(made, [tops], *tooltips)
        made.legend.location = "bottom_left"
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        from glassformer.plotting.plots import plot_landscapes

        del so_far
        alpha = chosen_ratio(asked.texts)
        found = memoize(lambda: landscape(asked.model, alpha, _POINTS), "landscape", asked.model, alpha)
        phase = "a hard phase" if found.hard_phase else "no hard phase"
        return Answer(
            content=found,
            frame=found.to_pandas(),
            said=f"At alpha = {alpha:.4g} the free entropy has its maxima at overlap {found.peaks}: {phase}.",
            command=asked.command("landscape", alpha=alpha, points=_POINTS),
            code=asked.code(f"landscape(model, {alpha!r}, {_POINTS})"),
            plot=partial(plot_landscapes, [found]),
        )

    def draw(self, answer: Answer) -> None:
        from glassformer.plotting.plots import height_limits, height_of

        found = answer.content
        height, (low, high) = height_of(found), height_limits([found])
        columns = {"overlap": found.overlap, "height": height, "estimate": found.error_estimate}
        fill(self._curve, {**columns, "status": [str(one) for one in found.status]})
        self.figure.y_range.update(start=low, end=high)
        tops = np.interp(found.maxima, found.overlap, height) if len(found.maxima) else []
        self.figure.legend.visible = len(found.maxima) > 0
        fill(self._maxima, {"overlap": found.maxima, "height": tops})

    def fade(self, stale: bool) -> None:
        self._line.glyph.line_alpha = GREYED if stale else CLEAR
