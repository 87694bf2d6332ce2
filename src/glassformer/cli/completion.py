"""Completion of commands, options, names and files in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "fish")


def add(parser: argparse.ArgumentParser) -> None:
    """The shell."""
    parser.add_argument("shell", choices=SHELLS, help="shell of the script; the documentation says where to save it")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from glassformer.cli.commands import COMMANDS
    from glassformer.cli.parser import parser_for
    from glassformer.models.registry import MODELS

    parser = parser_for([*COMMANDS, *MODELS])
    names = _names()
    for words, action in _actions(parser):
        complete: Any = action
        if action.type is Path:
            complete.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
        elif action.choices is None:
            complete.choices = names.get((action.dest, words[-1]), names.get((action.dest, "")))
    print(shtab.complete(parser, options.shell))
    return 0


def _names() -> dict[tuple[str, str], tuple[str, ...]]:
    """Names that can follow an option, by its destination and the model; no model stands for any."""
    from glassformer.cli.output import KINDS
    from glassformer.learners.registry import names
    from glassformer.models.registry import MODELS, model_type
    from glassformer.papers.catalogue import FIGURES
    from glassformer.papers.citations import used

    return {
        ("learner", ""): names(),
        ("kind", ""): tuple(KINDS),
        ("name", ""): tuple(FIGURES),
        ("used", ""): used(),
        **{("model_channel", model): model_type(model).channel_names for model in MODELS},
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], argparse.Action]]:
    """All options and arguments, those of subcommands included, with the words of the command that they belong to."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from _actions(own)
        else:
            yield parser.prog.split(), action
