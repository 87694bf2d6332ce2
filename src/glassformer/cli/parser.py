"""The parser of a command line, made from the tables of commands, models and learners."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any

from glassformer import __version__
from glassformer.cli.accuracy import accuracy_of, accuracy_options, add_accuracy
from glassformer.cli.argument_parser import Parser
from glassformer.cli.commands import COMMANDS, Command
from glassformer.cli.learners import add_learner, add_option, learner_name
from glassformer.cli.output import add_files, add_progress
from glassformer.core.errors import ParameterError
from glassformer.core.parsing import parse_grid
from glassformer.core.progress import progress
from glassformer.models.registry import MODELS, build, options_of

if TYPE_CHECKING:
    from glassformer.models.base import Model

_EPILOG = """\
SPEC is a number (0.3), a comma list (0.1,0.2,0.5) or start:stop:count with both ends included (0:1:101).
Limits are allowed as values: --rho 0, --rho inf, --beta inf.
Exit codes: 0 all converged, 1 a check of doctor failed, 2 bad usage, 3 not all converged (statuses are printed).
"""
_SHARED: dict[str, Any] = {"epilog": _EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}


def parser_for(words: Sequence[str]) -> Parser:
    """Return the parser of all commands, with options only for the commands, models and the learner among the words.

    Raises:
        ParameterError: the learner is unknown.
    """
    text = "Exact limits of learning from sequences of tokens, and the algorithms that reach them."
    parser = Parser(prog="glassformer", description=text, **_SHARED)
    parser.add_argument("--version", action="version", version=f"glassformer {__version__}")
    parser.add_choice("COMMAND", "command", required=False)
    for name, command in COMMANDS.items():
        own = parser.add_subcommand(name, help=command.text, description=command.text, **_SHARED)
        if name in words:
            module = importlib.import_module(f"glassformer.cli.{command.module}")
            if command.takes_model:
                _add_models(own, command, module, words)
            else:
                module.add(own)
                own.set_defaults(run=module.run)
    return parser


def _add_models(parser: Parser, command: Command, module: ModuleType, words: Sequence[str]) -> None:
    parser.add_choice("MODEL", "model")
    for name, entry in MODELS.items():
        own = parser.add_subcommand(name, help=entry.title, description=f"{entry.title}: {command.text}", **_SHARED)
        if name not in words:
            continue
        if command.takes_alpha:
            own.add_argument("--alpha", required=True, metavar="SPEC", help=f"sample ratio {entry.ratio}")
        for option in options_of(name):
            add_option(own, option, f"model_{option.field}")
        module.add(own)
        own.add_argument("--json", action="store_true", help="print the result as JSON")
        add_files(own)
        add_progress(own)
        if command.settings:
            add_learner(own, name, command.settings, words)
        if command.accuracy:
            add_accuracy(own, accuracy_options(name, command.accuracy, learner_name(words)))
        own.set_defaults(run=partial(_run, module.run))


def last_parser(parser: Parser, words: Sequence[str]) -> Parser:
    """Return the parser to which the options of a command line belong."""
    for word in words:
        parser = parser.subcommands.get(word, parser)
    return parser


def on_command_line(error: ParameterError, parser: Parser) -> ParameterError:
    """Return the error with the option in place of the name of a parameter, if the parser has an option for it."""
    options = {one.dest: one.option_strings[-1] for one in parser.arguments if one.option_strings}
    keys = (error.name, f"learner_{error.name}", f"model_{error.name}", f"accuracy_{error.name}")
    return next((error.named(options[key]) for key in keys if key in options), error)


def _run(run: Callable[[argparse.Namespace, Any], int], options: argparse.Namespace) -> int:
    with progress(f"{options.command} {options.model}"):
        if COMMANDS[options.command].takes_alpha:
            options.alpha = parse_grid("alpha", options.alpha)
        return run(options, partial(model_of, options))


def model_of(options: argparse.Namespace, **other: Any) -> Model:
    """Return the model with the parameters of the options and ``other``; further ones have the model's defaults."""
    given = {o.field: o.value(getattr(options, f"model_{o.field}")) for o in options_of(options.model)}
    model = build(options.model, {**{name: value for name, value in given.items() if value is not None}, **other})
    return model.at_accuracy(accuracy_of(options))
