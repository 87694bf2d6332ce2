"""Figure smi-3-right: when the attention layers of a small network are learned on real text."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas

from glassformer.core.errors import DataError
from glassformer.papers.curves import plain_label
from glassformer.papers.drawing import Axis, Series
from glassformer.papers.recipe import Context, Part, Recipe
from glassformer.papers.text.attention_classifier import (
    ClassifierRun,
    ClassifierTraining,
    repeated_runs,
)
from glassformer.papers.text.questions import TEST_FILE, TRAINING_FILE, QuestionData, read_questions
from glassformer.verbs.instances import standard_error

_TRAINING = ClassifierTraining()
# The published network, with padding masked; with padding attended to and averaged over; with a skip connection.
_VARIANTS = {
    "padding masked": _TRAINING,
    "padding as a word": replace(_TRAINING, masked=False),
    "masked, skip $c = 1$": replace(_TRAINING, skip=1.0),
}


def layers_of_text(quick: bool, data: Path | None, checkpoints: Path) -> Recipe:
    """Similarity of each layer with its final value, epoch by epoch, for every variant of the network."""
    if data is None:
        raise DataError(
            "data", "none", f"a folder with {TRAINING_FILE} and {TEST_FILE}", "give the path of this folder"
        )
    questions = read_questions(data)
    panels = []
    for name, training in _VARIANTS.items():
        own, count = (replace(training, epochs=4), 2) if quick else (training, 4)
        panels.append(partial(_variant, name=name, data=questions, training=own, count=count, checkpoints=checkpoints))
    return Recipe(panels, size=(4.6, 4.2))


def _variant(
    _: Context, name: str, data: QuestionData, training: ClassifierTraining, count: int, checkpoints: Path
) -> Part:
    """Train one variant of the network once for each seed."""
    runs = repeated_runs(data, training, count, checkpoints)
    frames = []
    for seed, run in enumerate(runs):
        similarity = {f"similarity_{k + 1}": column for k, column in enumerate(run.similarity.T)}
        rest = {"test_accuracy": run.test_accuracy, "training_loss": run.training_loss}
        frames.append(pandas.DataFrame({"variant": name, "seed": seed, "epoch": run.epochs, **similarity, **rest}))
    # Accuracy of the best constant answer: training that ends no better has learned nothing.
    constant = float(np.max(np.bincount(data.test.labels)) / len(data.test.labels))
    learned = [run for run in runs if run.test_accuracy[-1] > constant]
    failed = len(runs) - len(learned)
    counts = f"{len(data.training.labels)} training and {len(data.test.labels)} test questions"
    lines = (
        [f"{counts}, {data.vocabulary} tokens, {len(data.classes)} classes"] if name == next(iter(_VARIANTS)) else []
    )
    lines.append(_summary(name, runs, learned))
    title = f"{name}\n{training.epochs} epochs, {len(runs)} runs"
    if failed:
        lines.append(
            f"  training collapsed in {failed} of {len(runs)} runs: the test accuracy is at most {constant:.3f}, "
            "that of one answer to all questions. Layers of such a run have learned nothing: it is drawn in grey, and "
            "is in no mean of layers. Train for more epochs"
        )
        title += f": {failed} collapsed"
    return Part([_axis(title, runs, learned)], frames, lines)


def _axis(title: str, runs: list[ClassifierRun], learned: list[ClassifierRun]) -> Axis:
    """Means of the layers of runs that learned something, single runs as thin lines, and collapsed runs in grey."""
    epochs, layers = runs[0].epochs, runs[0].similarity.shape[1]
    series = []
    collapsed = [run for run in runs if not any(run is one for one in learned)]
    for k, run in enumerate(collapsed):
        label = None if k else "layers of collapsed runs"
        series.append(Series(epochs, run.similarity, "0.75", ":", label, look={"lw": 1}))
    for layer in range(layers if learned else 0):
        every = np.array([run.similarity[:, layer] for run in learned])
        series.append(Series(epochs, every.T, layer, look={"lw": 1, "alpha": 0.45}))
        series.append(Series(epochs, every.mean(axis=0), layer, "-", f"layer {layer + 1}"))
    accuracy = np.mean([run.test_accuracy for run in runs], axis=0)
    series.append(Series(epochs, accuracy, "0.4", "--", "test accuracy", look={"lw": 1.2}))
    label = r"$\mathrm{Tr}\,G_tG_T\,/\,(\|G_t\|\,\|G_T\|)$"
    settings = {"xlim": (0, epochs[-1]), "ylim": (0, 1.02), "xlabel": "epoch", "ylabel": label, "title": title}
    return Axis(series, layers, settings, legend={"loc": "lower right", "frameon": True})


def _summary(name: str, runs: list[ClassifierRun], learned: list[ClassifierRun]) -> str:
    """Say when each layer is learned, in runs that learned something, and the accuracy of all runs."""
    halves = "too few runs learned something to say which layer is first"
    if len(learned) > 1:
        times = np.array([run.half_time() for run in learned])
        halves = ", ".join(
            f"layer {k + 1} half way at epoch {mean:.2f} +- {error:.2f}"
            for k, (mean, error) in enumerate(zip(times.mean(axis=0), standard_error(times.T), strict=True))
        )
    final = np.array([[run.test_accuracy[-1] for run in runs]])
    accuracy = f"test accuracy {final.mean():.3f} +- {standard_error(final)[0]:.3f}"
    return f"{plain_label(name)}: {halves} ({len(learned)} runs); {accuracy} ({len(runs)} runs)"
