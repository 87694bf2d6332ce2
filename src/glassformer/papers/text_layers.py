"""When the attention layers of a small network are learned on real text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from glassformer.core.errors import DataError
from glassformer.experiments.instances import standard_error
from glassformer.papers.text.attention_classifier import ClassifierRun, ClassifierTraining, repeated_runs
from glassformer.papers.text.questions import TEST_FILE, TRAINING_FILE, read_questions
from glassformer.plotting.style import canvas, colors

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

_FEW = 4
# The published network, with padding masked; with padding attended to and averaged over; with a connection past layers.
_VARIANTS: dict[str, dict[str, Any]] = {
    "padding masked": {},
    "padding as a word": {"masked": False},
    "masked, skip $c = 1$": {"skip": 1.0},
}


def produce(path: Path, quick: bool, data: Path | None) -> tuple[pandas.DataFrame, str, bool]:
    """Figure ``smi-3-right``; finished runs are kept beside it."""
    if data is None:
        raise DataError("data", "none", f"a folder with {TRAINING_FILE} and {TEST_FILE}", "give --data DIR")
    questions, settings = read_questions(data), ClassifierTraining()
    if quick:
        settings = replace(settings, epochs=_FEW)
    runs = {
        name: repeated_runs(questions, replace(settings, **changed), 2 if quick else 4, path.with_suffix(".runs"))
        for name, changed in _VARIANTS.items()
    }
    with canvas(path, columns=len(runs), size=(4.6, 4.2)) as panels:
        for axes, (name, found) in zip(panels, runs.items(), strict=True):
            _draw(axes, name, found)
    counts = f"{len(questions.training.labels)} training and {len(questions.test.labels)} test questions"
    lines = [f"{counts}, {questions.vocabulary} tokens, {len(questions.classes)} classes", *map(_line, runs.items())]
    return _frame(runs), "\n".join(lines), True


def _draw(axes: Axes, name: str, runs: list[ClassifierRun]) -> None:
    layers = runs[0].similarity.shape[1]
    for layer, color in enumerate(colors(layers)):
        every = np.array([run.similarity[:, layer] for run in runs])
        axes.plot(runs[0].epochs, every.T, color=color, lw=1, alpha=0.45)
        axes.plot(runs[0].epochs, every.mean(axis=0), color=color, label=f"layer {layer + 1}")
    accuracy = np.mean([run.test_accuracy for run in runs], axis=0)
    axes.plot(runs[0].epochs, accuracy, "--", color="0.4", lw=1.2, label="test accuracy")
    axes.set_xlim(0, runs[0].epochs[-1])
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("epoch")
    axes.set_ylabel(r"$\mathrm{Tr}\,G_tG_T\,/\,(\|G_t\|\,\|G_T\|)$")
    axes.set_title(name, fontsize=11)
    axes.legend(loc="lower right")


def _line(item: tuple[str, list[ClassifierRun]]) -> str:
    name, runs = item
    times = np.array([run.half_time() for run in runs])
    final = np.array([run.test_accuracy[-1] for run in runs])
    halves = ", ".join(
        f"layer {k + 1} half way at epoch {mean:.2f} +- {spread:.2f}"
        for k, (mean, spread) in enumerate(zip(times.mean(axis=0), standard_error(times.T), strict=True))
    )
    return (
        f"{name}: {halves}; test accuracy {final.mean():.3f} +- {standard_error(final[None])[0]:.3f} ({len(runs)} runs)"
    )


def _frame(runs: dict[str, list[ClassifierRun]]) -> pandas.DataFrame:
    import pandas

    frames = []
    for name, found in runs.items():
        for seed, run in enumerate(found):
            columns = {f"similarity_{k + 1}": column for k, column in enumerate(run.similarity.T)}
            rest = {"test_accuracy": run.test_accuracy, "training_loss": run.training_loss}
            frames.append(pandas.DataFrame({"variant": name, "seed": seed, "epoch": run.epochs, **columns, **rest}))
    return pandas.concat(frames, ignore_index=True)
