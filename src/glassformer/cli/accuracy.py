"""The accuracy of a command as options: what has an effect on its model and learner."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from glassformer.cli.argument_parser import Parser
from glassformer.core.options import Option, options_in
from glassformer.models.registry import model_types

if TYPE_CHECKING:
    from glassformer.core.accuracy import Accuracy


def accuracy_options(model: str, use: str, learner: str) -> list[Option]:
    """Return the values of an accuracy that change what a command computes.

    Args:
        model: name of the model.
        use: ``"points"`` for those of the model alone, ``"limits"``, ``"trajectory"`` or ``"runs"`` for those of the
            learner as well, ``"all"`` for all that there are.
        learner: name of the learner.

    Example:
        >>> [one.word for one in accuracy_options("smi", "limits", "gamp")]
        ['--tolerance', '--max-iterations', '--points']
        >>> [one.word for one in accuracy_options("bsr", "runs", "ridge")]
        []
    """
    from glassformer.core.accuracy import Accuracy
    from glassformer.learners.base import accuracy_used
    from glassformer.learners.registry import is_listed, learner_type

    if use == "all":
        return options_in(Accuracy)
    names = {name for kind in model_types(model) for name in kind.accuracy_defaults}
    if use != "points" and is_listed(learner):
        names |= {*accuracy_used(learner_type(learner), "simulate" if use == "runs" else use)}
    return [one for one in options_in(Accuracy) if one.field in names]


def add_accuracy(parser: Parser, options: list[Option]) -> None:
    """Add values of an accuracy, in a group of their own."""
    if options:
        group = parser.titled("accuracy")
        for one in options:
            group.add_argument(
                one.word, dest=f"accuracy_{one.field}", type=one.kind, metavar=one.metavar, help=one.text
            )


def accuracy_of(options: argparse.Namespace) -> Accuracy:
    """Return the accuracy of a command line."""
    from glassformer.core.accuracy import Accuracy

    given = {one.field: getattr(options, f"accuracy_{one.field}", None) for one in options_in(Accuracy)}
    return Accuracy(**given)
