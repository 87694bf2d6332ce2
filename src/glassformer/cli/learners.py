"""Learners and their settings as options of a command."""

from __future__ import annotations

import argparse
from typing import Any


def add_learner(parser: argparse.ArgumentParser, theory: bool = True) -> None:
    """The learner and its settings; with ``theory`` only those that its theory depends on."""
    from glassformer.learners.registry import learner_type, names

    titles = ", ".join(f"{name} ({learner_type(name).info.title})" for name in names())
    default = f"{names()[0]}, Bayes-optimal" if theory else names()[0]
    parser.add_argument("--learner", default=names()[0], help=f"{titles} (default {default})")
    add_settings(parser, theory)


def add_settings(parser: argparse.ArgumentParser, theory: bool = False) -> None:
    """The settings of all learners, or of their theory alone, in one group for all learners that share them."""
    from glassformer.learners.registry import options

    groups: dict[str, Any] = {}
    for option in options(theory):
        title = ", ".join(option.texts)
        group = groups.setdefault(title, parser.add_argument_group(title))
        # Learners that share an option may describe it differently.
        learners: dict[str, list[str]] = {}
        for name, text in option.texts.items():
            learners.setdefault(text, []).append(name)
        text = "; ".join(f"{', '.join(own)}: {text}" if len(learners) > 1 else text for text, own in learners.items())
        word = f"--{option.name.replace('_', '-')}"
        if option.kind is bool:
            group.add_argument(word, action="store_const", const=True, help=text)
        else:
            group.add_argument(word, type=option.kind, help=text)


def learner_of(name: str, options: argparse.Namespace) -> Any:
    """Return the learner of this name with the given settings; settings of other learners are refused."""
    from glassformer.core.errors import IncompatibleError
    from glassformer.core.options import options_in
    from glassformer.learners.registry import learner, learner_type
    from glassformer.learners.registry import options as every

    own, settings = {option.name: option for option in options_in(learner_type(name))}, {}
    for one in every():
        value = getattr(options, one.name, None)
        if value is None:
            continue
        if one.name not in own:
            others = f"{', '.join(one.texts)} {'have' if len(one.texts) > 1 else 'has'} it"
            raise IncompatibleError(f"learner {name} has no option --{one.name.replace('_', '-')}: {others}")
        settings[own[one.name].field] = own[one.name].value(value)
    return learner(name, **settings)
