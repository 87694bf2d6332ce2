"""Runs on simulated data: points that appear on the curve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.experiments.instances import Simulation
from glassformer.experiments.simulation import simulate
from glassformer.explorer import words
from glassformer.explorer.answer import Answer, Request
from glassformer.explorer.drawing import CLEAR, COLORS, GREYED, canvas, fill, hover, source
from glassformer.explorer.panels.base import Panel
from glassformer.explorer.question import ratios, whole
from glassformer.learners.base import Learner
from glassformer.learners.registry import compatible_learner, names

_MOST = 50


class Data(Panel):
    """Message passing or training, beside its theory."""

    title = "Simulated data"
    fields: ClassVar[dict[str, str]] = {
        "algorithm": "algorithm",
        "d": "token dimension d",
        "instances": "instances",
        "places": "sample ratios",
        "seed": "seed",
    }
    by_itself = False

    def among(self, name: str) -> tuple[str, ...]:
        return names() if name == "algorithm" else ()

    def drawing(self) -> Any:
        made = canvas("sample ratio alpha", "error of a run", 320)
        self._runs = source("alpha", "error", "seed", "status", "iterations")
        self._theory = source("alpha", "error")
        dash = {"color": COLORS[0], "marker": "dash", "size": 24, "line_width": 3, "legend_label": "theory"}
        self._dashes = made.scatter("alpha", "error", source=self._theory, **dash)
        diamond = {"color": "#000000", "marker": "diamond", "size": 9, "legend_label": "one run"}
        self._dots = made.scatter("alpha", "error", source=self._runs, **diamond)
        described = [("alpha", "@alpha{0.0000}"), ("error", "@error{0.000000}"), ("seed", "@seed")]
        hover(made, [self._dots], *described, ("status", "@status"), ("iterations", "@iterations"))
        made.y_range.start = 0
        return made

    def compute(self, asked: Request, so_far: Callable[[Answer], None]) -> Answer:
        alpha, parts = _spread(asked), []
        sizes = {name: whole(asked.texts, name) for name in ("d", "instances", "seed")}
        chosen = compatible_learner(asked.texts["algorithm"], asked.model)
        for one in alpha:
            parts.append(simulate(asked.model, [one], sizes["d"], sizes["instances"], sizes["seed"], chosen))
            so_far(_answer(asked, _joined(parts), sizes, chosen))
        return _answer(asked, _joined(parts), sizes, chosen)

    def draw(self, answer: Answer) -> None:
        found: Simulation = answer.content
        runs = [(a, run) for a, group in zip(found["alpha_realised"], found.instances, strict=True) for run in group]
        columns = {
            "alpha": [a for a, _ in runs],
            "error": [run.error for _, run in runs],
            "seed": [run.seed for _, run in runs],
            "status": [str(run.status) for _, run in runs],
            "iterations": [run.iterations for _, run in runs],
        }
        fill(self._runs, columns)
        fill(self._theory, {"alpha": found["alpha_realised"], "error": found["theory"]})
        self.model_tab.curve.points(found)

    def stale(self) -> None:
        super().stale()
        self.model_tab.curve.points(None)

    def fade(self, stale: bool) -> None:
        for one in (self._dots, self._dashes):
            one.glyph.update(line_alpha=GREYED if stale else CLEAR, fill_alpha=GREYED if stale else CLEAR)


def _spread(asked: Request) -> list[float]:
    """Sample ratios of runs, spread over those of the curve."""
    count, positive_ratios = whole(asked.texts, "places"), [a for a in ratios(asked.texts) if a > 0]
    if not 1 <= count <= _MOST:
        raise ParameterError("places", count, f"an integer from 1 to {_MOST}")
    places = np.unique(np.linspace(0, len(positive_ratios) - 1, count + 2).round().astype(int)[1:-1])
    return [float(f"{positive_ratios[place]:.6g}") for place in places]


def _joined(parts: list[Simulation]) -> Simulation:
    first = parts[0]
    return replace(
        first,
        columns={name: np.concatenate([one[name] for one in parts]) for name in first.columns},
        status=[status for one in parts for status in one.status],
        notes=list(dict.fromkeys(note for one in parts for note in one.notes)),
        instances=[group for one in parts for group in one.instances],
    )


def _answer(asked: Request, found: Simulation, sizes: dict[str, int], chosen: Learner) -> Answer:
    from glassformer.plotting.plots import plot_simulation

    alpha = [float(a) for a in found["alpha"]]
    gap = np.nanmax(np.abs(found["error"] - found["theory"])) if np.isfinite(found["theory"]).any() else np.nan
    known = f"; the largest distance from theory is {gap:.3g}" if np.isfinite(gap) else ""
    settled = sum(run.status.ok for group in found.instances for run in group)
    total = sum(len(group) for group in found.instances)
    call, imports = words.learner_argument(chosen)
    arguments = ", ".join([*(f"{name}={value!r}" for name, value in sizes.items()), f"algorithm={call}"])
    runs = {**sizes, "algorithm": chosen.name, **words.learner_options(chosen)}
    return Answer(
        content=found,
        frame=found.to_pandas(),
        said=f"{total} runs at {len(alpha)} sample ratios, {settled} converged{known}. " + " ".join(found.notes),
        command=asked.command("simulate", alpha=",".join(f"{a:.6g}" for a in alpha), **runs),
        code=asked.code(f"simulate(model, {alpha}, {arguments})", **imports),
        plot=partial(plot_simulation, found),
    )
