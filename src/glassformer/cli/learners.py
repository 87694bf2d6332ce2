"""Learners and their settings as options of a command."""

from __future__ import annotations

import argparse
from typing import Any


def add_settings(parser: argparse.ArgumentParser, theory: bool = False) -> None:
    """The settings of all learners, or of their theory alone, in groups of those that share them."""
    from glassformer.learners.registry import options

    groups: dict[str, Any] = {}
    for option in options(theory):
        title = ", ".join(option.texts)
        group = groups.setdefault(title, parser.add_argument_group(title))
        # Learners that share an option may mean something of their own by it.
        text = "; ".join(dict.fromkeys(option.texts.values()))
        group.add_argument(f"--{option.name.replace('_', '-')}", type=option.kind, help=text)


def add_learner(parser: argparse.ArgumentParser) -> None:
    """Whose theory is asked for, and its settings."""
    from glassformer.learners.registry import names

    parser.add_argument("--learner", default=names()[0], help=f"{titles()}; default {names()[0]}: Bayes-optimal")
    add_settings(parser, theory=True)


def titles() -> str:
    """The names of all learners, and what they are."""
    from glassformer.learners.registry import learner_type, names

    return ", ".join(f"{name} ({learner_type(name).title})" for name in names())


def learner_of(name: str, options: argparse.Namespace) -> Any:
    """The learner of this name with the settings that its options give; options of others are refused."""
    from glassformer.core.errors import IncompatibleError
    from glassformer.core.options import options_in
    from glassformer.learners.registry import learner, learner_type
    from glassformer.learners.registry import options as every

    own = {option.name: option for option in options_in(learner_type(name))}
    said = {one.name: getattr(options, one.name, None) for one in every()}
    given = {name: value for name, value in said.items() if value is not None}
    for option in given:
        if option not in own:
            raise IncompatibleError(f"--{option.replace('_', '-')} is no option of algorithm {name}")
    return learner(name, **{own[option].field: own[option].value(value) for option, value in given.items()})
