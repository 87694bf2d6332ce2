"""Completion of commands, options, names and files in a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SHELLS = ("bash", "zsh", "fish")


def add(parser: argparse.ArgumentParser) -> None:
    """For which shell, with how it is switched on."""
    parser.add_argument("shell", choices=SHELLS, help="see the documentation for where its output belongs")


def run(options: argparse.Namespace) -> int:
    """Print the script."""
    import shtab

    from glassformer.cli.commands import COMMANDS
    from glassformer.cli.parser import parser_for
    from glassformer.models.registry import MODELS

    parser = parser_for([*COMMANDS, *MODELS])
    named = _named()
    for words, action in _actions(parser):
        _complete(action, named.get((action.dest, words[-1]), named.get((action.dest, ""))))
    print(shtab.complete(parser, options.shell))
    return 0


def _named() -> dict[tuple[str, str], tuple[str, ...]]:
    """Names that can follow an option, by its destination and the model; those of any model stand under none."""
    from glassformer.cli.output import KINDS
    from glassformer.learners.registry import names
    from glassformer.models.registry import MODELS, model_type
    from glassformer.papers.catalogue import FIGURES
    from glassformer.papers.citations import used

    return {
        ("algorithm", ""): names(),
        ("learner", ""): names(),
        ("kind", ""): tuple(KINDS),
        ("name", ""): tuple(FIGURES),
        ("used", ""): used(),
        **{("model_channel", model): model_type(model).channel_names for model in MODELS},
    }


def _actions(parser: argparse.ArgumentParser) -> Iterator[tuple[list[str], argparse.Action]]:
    """Those of a parser and of all parsers within it, with the words that lead there."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for own in action.choices.values():
                yield from _actions(own)
        else:
            yield parser.prog.split(), action


def _complete(action: Any, names: tuple[str, ...] | None) -> None:
    """Give an option the names, or the files, that can follow."""
    import shtab

    if action.type is Path:
        action.complete = shtab.DIRECTORY if action.metavar == "DIR" else shtab.FILE
    elif action.choices is None:
        action.choices = names
