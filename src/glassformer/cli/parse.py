"""Parsing of a command line whose words are all known."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from glassformer.cli.argument_parser import Parser
from glassformer.core.errors import IncompatibleError
from glassformer.core.renamed import renamed


def parse(parser: Parser, words: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line.

    Raises:
        IncompatibleError: a word is old, or no option and no value of one. The message says what to write.
    """
    if not {"-h", "--help"} & set(words):
        _require_known(parser, words)
    options, rest = parser.parse_known_args(words)
    if rest:
        raise IncompatibleError(f"{rest[0]!r} is neither an option nor the value of one: --help lists all options")
    return options


def _require_known(parser: Parser, words: Sequence[str]) -> None:
    """Raise at the first word that is old, or an option that the parser at its place does not have.

    The parser itself would take the value of such an option for a command or a model.
    """
    place = parser
    for word in words:
        choices, option = place.subcommands, word.partition("=")[0]
        if word == "--":
            return
        if word in choices:
            place = choices[word]
        elif choices and not word.startswith("-"):
            old = renamed(word, *place.prog.split()[1:])
            if old is not None:
                raise IncompatibleError(old)
            # The parser says which words there are.
            return
        elif word.startswith("--") and " " not in word and option not in place.options:
            # Imported here because most command lines need no explanation.
            from glassformer.cli.unknown_option import explain

            raise IncompatibleError(explain(option, place, words))
