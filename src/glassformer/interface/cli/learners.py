"""Which learner, and its settings, as options of a command."""

from __future__ import annotations

import argparse
from typing import Any


def add_settings(parser: argparse.ArgumentParser) -> None:
    """The settings of all learners, in groups by the learners that have them."""
    from glassformer.learners.registry import options

    groups: dict[str, Any] = {}
    for option in options():
        title = ", ".join(option.texts)
        group = groups.setdefault(title, parser.add_argument_group(title))
        # Learners that share an option may mean something of their own by it.
        text = "; ".join(dict.fromkeys(option.texts.values()))
        group.add_argument(f"--{option.name.replace('_', '-')}", type=option.kind, help=text)


def learner_of(options: argparse.Namespace) -> Any:
    """The learner with the settings that its options give; options of others are refused."""
    from glassformer.core.errors import IncompatibleError
    from glassformer.learners.registry import learner, settings_of
    from glassformer.learners.registry import options as every

    own = settings_of(options.algorithm)
    given = {one.name: getattr(options, one.name) for one in every() if getattr(options, one.name) is not None}
    for name in given:
        if name not in own:
            raise IncompatibleError(f"--{name.replace('_', '-')} is no option of algorithm {options.algorithm}")
    return learner(options.algorithm, **{own[name]: value for name, value in given.items()})
