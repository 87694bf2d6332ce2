"""A parser of words that says which options and subcommands it has."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any, NoReturn

from glassformer.cli.output import BAD_USAGE


class Parser(argparse.ArgumentParser):
    """A parser that prints errors in one line, and takes whole words alone.

    Attributes:
        arguments: its options and arguments, in their order, without the word of a subcommand.
        subcommands: the parsers that may follow, by their words.
        following: name of this word in the help; empty if no subcommand follows.
    """

    def __init__(self, **given: Any) -> None:
        self.arguments: list[argparse.Action] = []
        self.subcommands: dict[str, Parser] = {}
        self.following = ""
        super().__init__(**{"allow_abbrev": False, **given})

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_USAGE, f"{self.prog}: error: {message}\n")

    def add_argument(self, *words: str, **given: Any) -> argparse.Action:
        """Add an option or an argument."""
        self.arguments.append(super().add_argument(*words, **given))
        return self.arguments[-1]

    def titled(self, title: str, description: str | None = None) -> Group:
        """Return a group that the help shows below a title of its own."""
        return Group(self.arguments, self.add_argument_group(title, description).add_argument)

    def exclusive(self) -> Group:
        """Return a group of which exactly one is given."""
        return Group(self.arguments, self.add_mutually_exclusive_group(required=True).add_argument)

    def add_choice(self, following: str, destination: str, required: bool = True) -> None:
        """Let one of several subcommands follow, which :meth:`add_subcommand` adds."""
        self.following = following
        self._choice = self.add_subparsers(
            title=f"{destination}s", metavar=following, dest=destination, required=required, parser_class=Parser
        )

    def add_subcommand(self, word: str, **given: Any) -> Parser:
        """Return the parser of the words after ``word``."""
        self.subcommands[word] = self._choice.add_parser(word, **given)
        return self.subcommands[word]

    @property
    def options(self) -> dict[str, argparse.Action]:
        """Options by their words."""
        return {word: action for action in self.arguments for word in action.option_strings}


class Group:
    """Options of a parser that belong together.

    Args:
        arguments: those of the parser.
        add: adds an option to the group of argparse.
    """

    def __init__(self, arguments: list[argparse.Action], add: Callable[..., argparse.Action]) -> None:
        self._arguments, self._add = arguments, add

    def add_argument(self, *words: str, **given: Any) -> None:
        """Add an option or an argument."""
        self._arguments.append(self._add(*words, **given))
