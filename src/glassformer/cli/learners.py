"""The learner of a command and its settings as options."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from glassformer.cli.accuracy import accuracy_of
from glassformer.cli.argument_parser import Group, Parser
from glassformer.core.options import Option

if TYPE_CHECKING:
    from glassformer.learners.base import Learner

# Learners that cannot run on data of a model with its default channel. To ask the learners takes seconds, because JAX
# is imported; the tests compare this table with their answers. A learner that is not in the table is listed.
_CANNOT_RUN = {
    "bsr": ("sgd", "online-sgd"),
    "aim": ("blind-gamp", "vamp", "ridge", "nuclear-norm", "sgd", "online-sgd"),
    "attention": ("blind-gamp", "vamp", "ridge", "nuclear-norm", "gd", "averaged-gd"),
    "icl": ("gamp", "blind-gamp", "vamp", "nuclear-norm", "risk", "gd", "averaged-gd"),
    "smi": ("blind-gamp", "vamp", "ridge", "nuclear-norm", "gd", "averaged-gd"),
}


def given_learner(words: Sequence[str]) -> str | None:
    """Return the text of the option ``--learner``; None if it is not given.

    Example:
        >>> given_learner(["limits", "bsr", "--learner", "risk"]), given_learner(["limits", "bsr"])
        ('risk', None)
    """
    found = None
    for word, following in zip(words, [*words[1:], "-"], strict=True):
        option, separator, text = word.partition("=")
        if option == "--learner" and (separator or not following.startswith("-")):
            found = text if separator else following
    return found


def learner_name(words: Sequence[str]) -> str:
    """Return the name of the learner of a command line, without what follows a colon; by default the first one.

    Example:
        >>> learner_name(["simulate", "smi", "--learner=sgd:published"]), learner_name(["simulate", "smi"])
        ('sgd', 'gamp')
    """
    from glassformer.learners.registry import names

    text = given_learner(words) or names()[0]
    return text if ".py:" in text else text.partition(":")[0]


def use_of(settings: str, words: Sequence[str]) -> str:
    """Return which settings a command takes; a trajectory with simulated runs takes all."""
    runs = settings == "trajectory" and any(word.partition("=")[0] == "--d" for word in words)
    return "runs" if runs else settings


def listed_learners(model: str, settings: str) -> list[str]:
    """Return the learners for a model in the help of a command with these settings.

    Example:
        >>> listed_learners("aim", "limits"), listed_learners("aim", "runs")
        (['gamp', 'risk', 'gd', 'averaged-gd'], ['gamp', 'risk', 'gd', 'averaged-gd'])
    """
    from glassformer.learners.registry import learners_with_limits, names

    known = learners_with_limits() if settings == "limits" else names()
    return [name for name in known if name not in _CANNOT_RUN.get(model, ())]


def add_option(parser: Parser | Group, option: Option, destination: str, text: str = "") -> None:
    """Add a parameter of a model, or a setting of a learner."""
    value: dict[str, Any] = (
        {"action": "store_true"} if option.flag else {"type": option.kind, "metavar": option.metavar}
    )
    parser.add_argument(option.word, dest=destination, required=option.required, help=text or option.text, **value)


def add_learner(parser: Parser, model: str, settings: str, words: Sequence[str]) -> None:
    """Add the option ``--learner``, with a list of learners if none is given, and the settings of the learner.

    Raises:
        ParameterError: the learner is unknown.
    """
    from glassformer.learners.registry import learner_type, names, settings_of

    default, text, description = names()[0], "", None
    if given_learner(words) is None:
        listed = listed_learners(model, settings)
        width = max(map(len, listed))
        lines = [f"{name:{width}}  {learner_type(name).info.title}" for name in listed]
        description = "\n".join([*lines, "--learner NAME --help shows the settings of a learner."])
    else:
        text = "; --help without it lists all"
    group = parser.titled("learners", description)
    group.add_argument("--learner", default=default, metavar="NAME", help=f"learner (default {default}{text})")
    name = learner_name(words)
    if ".py:" in name:
        # Training of one's own has no settings here.
        parser.set_defaults(settings={})
    else:
        add_settings(parser, f"{name}: {learner_type(name).info.title}", settings_of(name, use_of(settings, words)))


def add_settings(parser: Parser, title: str, settings: Iterable[Option]) -> None:
    """Add settings of a learner in a group of their own.

    A word of the command means the same without a learner, and is no setting. The value of a word of the model is also
    that of the setting.
    """
    group, known, destinations = parser.titled(title), parser.options, {}
    for option in settings:
        taken = known.get(option.word)
        if taken is None:
            destinations[option.field] = f"learner_{option.field}"
            add_option(group, option, destinations[option.field])
        elif taken.dest.startswith("model_"):
            destinations[option.field] = taken.dest
    parser.set_defaults(settings=destinations)


def learner_of(name: str, options: argparse.Namespace) -> Learner:
    """Return the learner of this name with the given settings, at the given accuracy."""
    from glassformer.learners.registry import learner, settings_of

    given = {}
    for option in () if ".py:" in name else settings_of(name.partition(":")[0]):
        value = option.value(getattr(options, options.settings.get(option.field, ""), None))
        if value is not None:
            given[option.field] = value
    return learner(name, getattr(options, "d", None), **given).at_accuracy(accuracy_of(options))
