"""The table of commands."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from glassformer.models.base import Model

ModelOf: TypeAlias = "Callable[..., Model]"
"""Returns the model of a command line, with other values of the parameters that are given by name."""


class Command(NamedTuple):
    """A line of the table.

    Attributes:
        module: module of this package, imported when the command is used. It has ``add(parser)``, which adds its own
            options, and ``run(options)``, which returns the exit code.
        text: one line of help.
        takes_model: whether a model follows, with options of its own; then the function is ``run(options, model)``.
        takes_alpha: whether it takes sample ratios; they are numbers in ``options.alpha``.
        settings: settings of learners that are options of the command: those on which the ``limits`` or the
            ``trajectory`` depend, or all, for ``runs``. Empty for a command without a learner.
        accuracy: values of an accuracy that are options: those of the model's ``points`` alone, or those on which the
            ``limits`` or the ``trajectory`` of the learner depend, or all, for ``runs``.
    """

    module: str
    text: str
    takes_model: bool = True
    takes_alpha: bool = True
    settings: str = ""
    accuracy: str = ""


COMMANDS = {
    "limits": Command(
        "limits",
        "error against the sample ratio: the best possible, or of a learner",
        settings="limits",
        accuracy="limits",
    ),
    "thresholds": Command(
        "thresholds",
        "sample ratios of weak and perfect recovery, hard phase",
        takes_alpha=False,
        settings="limits",
        accuracy="points",
    ),
    "plan": Command(
        "plan",
        "number of samples for a target error, for any learner with a theory",
        takes_alpha=False,
        settings="limits",
        accuracy="limits",
    ),
    "landscape": Command("landscape", "free entropy against the overlap", accuracy="points"),
    "spectrum": Command(
        "spectrum",
        "singular values of what a learner estimates; the option --spectrum is the law of the teacher",
        settings="limits",
        accuracy="limits",
    ),
    "hysteresis": Command(
        "hysteresis",
        "fixed points continued upwards and downwards in the sample ratio",
        settings="limits",
        accuracy="limits",
    ),
    "trajectory": Command(
        "trajectory",
        "error after every step of a learner, in theory and on data",
        settings="trajectory",
        accuracy="trajectory",
    ),
    "simulate": Command(
        "simulate", "errors of a learner on simulated data, compared with theory", settings="runs", accuracy="runs"
    ),
    "compare": Command("compare", "errors of several learners, in theory and on simulated data", accuracy="all"),
    "phase-diagram": Command(
        "phase_diagram",
        "thresholds against a parameter of the model",
        takes_alpha=False,
        settings="limits",
        accuracy="points",
    ),
    "explore": Command("explore", "interactive figures in the browser", takes_model=False),
    "figure": Command("figure", "compute and draw a figure of the papers", takes_model=False),
    "sweep": Command("sweep", "one computation on a grid of parameters, stored point by point", takes_model=False),
    "doctor": Command("doctor", "versions, devices, threads and memory, and a self-test", takes_model=False),
    "completion": Command("completion", "shell completion for bash, zsh or fish", takes_model=False),
    "schema": Command("schema", "JSON Schema of what --json prints", takes_model=False),
    "cite": Command("cite", "BibTeX entries of the papers to cite for models and learners", takes_model=False),
}
