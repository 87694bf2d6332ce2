"""Figure smi-3-right: when the attention layers of a small network are learned on real text."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas

from glassformer.core.errors import DataError
from glassformer.experiments.instances import standard_error
from glassformer.papers.drawing import Axis, FigureContent, Series, joined
from glassformer.papers.error_curves import plain_label
from glassformer.papers.text.attention_classifier import ClassifierRun, ClassifierTraining, repeated_runs
from glassformer.papers.text.questions import TEST_FILE, TRAINING_FILE, read_questions

_TRAINING = ClassifierTraining()
# The published network, with padding masked; with padding attended to and averaged over; with a skip connection.
_VARIANTS = {
    "padding masked": _TRAINING,
    "padding as a word": replace(_TRAINING, masked=False),
    "masked, skip $c = 1$": replace(_TRAINING, skip=1.0),
}


def layers_of_text(quick: bool, data: Path | None, checkpoints: Path) -> FigureContent:
    """Similarity of each layer with its final value, epoch by epoch, for every variant of the network."""
    if data is None:
        raise DataError("data", "none", f"a folder with {TRAINING_FILE} and {TEST_FILE}", "give --data DIR")
    questions = read_questions(data)
    counts = f"{len(questions.training.labels)} training and {len(questions.test.labels)} test questions"
    axes, frames = [], []
    lines = [f"{counts}, {questions.vocabulary} tokens, {len(questions.classes)} classes"]
    for name, training in _VARIANTS.items():
        settings = replace(training, epochs=4) if quick else training
        runs = repeated_runs(questions, settings, 2 if quick else 4, checkpoints)
        axes.append(_axis(name, runs))
        lines.append(_summary(name, runs))
        for seed, run in enumerate(runs):
            similarity = {f"similarity_{k + 1}": column for k, column in enumerate(run.similarity.T)}
            rest = {"test_accuracy": run.test_accuracy, "training_loss": run.training_loss}
            frames.append(pandas.DataFrame({"variant": name, "seed": seed, "epoch": run.epochs, **similarity, **rest}))
    return FigureContent(axes, joined(frames), "\n".join(lines), (4.6, 4.2))


def _axis(name: str, runs: list[ClassifierRun]) -> Axis:
    epochs, layers = runs[0].epochs, runs[0].similarity.shape[1]
    series = []
    for layer in range(layers):
        every = np.array([run.similarity[:, layer] for run in runs])
        series.append(Series(epochs, every.T, layer, look={"lw": 1, "alpha": 0.45}))
        series.append(Series(epochs, every.mean(axis=0), layer, "-", f"layer {layer + 1}"))
    accuracy = np.mean([run.test_accuracy for run in runs], axis=0)
    series.append(Series(epochs, accuracy, "0.4", "--", "test accuracy", look={"lw": 1.2}))
    label = r"$\mathrm{Tr}\,G_tG_T\,/\,(\|G_t\|\,\|G_T\|)$"
    settings = {"xlim": (0, epochs[-1]), "ylim": (0, 1.02), "xlabel": "epoch", "ylabel": label, "title": name}
    return Axis(series, layers, settings, legend={"loc": "lower right"})


def _summary(name: str, runs: list[ClassifierRun]) -> str:
    times = np.array([run.half_time() for run in runs])
    final = np.array([[run.test_accuracy[-1] for run in runs]])
    halves = ", ".join(
        f"layer {k + 1} half way at epoch {mean:.2f} +- {error:.2f}"
        for k, (mean, error) in enumerate(zip(times.mean(axis=0), standard_error(times.T), strict=True))
    )
    accuracy = f"test accuracy {final.mean():.3f} +- {standard_error(final)[0]:.3f}"
    return f"{plain_label(name)}: {halves}; {accuracy} ({len(runs)} runs)"
