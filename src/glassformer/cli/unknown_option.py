"""Explanation of options that a command line does not have: old words, words of other parts, and misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from glassformer.cli.argument_parser import Parser
from glassformer.cli.commands import COMMANDS
from glassformer.cli.learners import learner_name, use_of
from glassformer.cli.parser import last_parser, parser_for
from glassformer.core.options import options_in
from glassformer.core.renamed import RENAMED, new_word, renamed
from glassformer.models.registry import MODELS, model_types, options_of

# Smallest similarity of a word that is proposed (a convention; 1 for equal words).
_SIMILAR = 0.7


def explain(word: str, parser: Parser, words: Sequence[str]) -> str:
    """Return the sentence on an option that a parser does not have.

    Args:
        word: the option, with two dashes.
        parser: the parser at the place of the option.
        words: the command line.
    """
    place = parser.prog.split()[1:]
    learner = learner_name(words) if place and COMMANDS[place[0]].settings else ""
    old = _old_word(word, place, learner)
    if old is not None:
        return old
    if parser.following:
        return f"{parser.prog} has no option {word}: give the options of {parser.following} after it"
    others = _of_parts(place, learner, words)
    if word not in others:
        others = {**_of_commands(place), **others}
    if word in others:
        return others[word]
    own = [option for option in parser.options if option.startswith("--")]
    # Parameters and settings that have another name in Python, by that name as an option.
    fields = {_as_option(one.field): one.word for one in options_in(*_classes(place, learner)) if one.field != one.name}
    close = _closest(word, own, others, fields)
    subject = f"{' '.join(place)} has no option {word}"
    if close is None:
        return f"{subject}: --help lists all options"
    if close in own:
        return f"{subject}: did you mean {close}? --help lists all options"
    return f"{subject}: the closest is {close}, but {others[close]}"


def _old_word(word: str, place: Sequence[str], learner: str) -> str | None:
    """Return what the table of renamed words says of an option, or of the argument of the same name in its place."""
    places = [" ".join(place), *place[::-1], *([learner] if learner else [])]
    found = renamed(word, *places)
    if found is not None:
        return found
    argument = f"{word.removeprefix('--').replace('-', '_')}="
    kinds = [kind.__name__ for kind in _classes(place, learner)]
    if not any(f"{kind} {argument}" in RENAMED for kind in kinds):
        return None
    new = str(new_word(argument, *kinds))
    name = new.removesuffix("=")
    return f"{word} is now {_as_option(name) if new.endswith('=') and name.isidentifier() else new}"


def _as_option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _classes(place: Sequence[str], learner: str) -> list[type]:
    """Return the classes of the learner and the model of a command line."""
    from glassformer.learners.registry import learner_type

    models = [kind for name in place[1:] if name in MODELS for kind in model_types(name)]
    return [*([learner_type(learner)] if learner else []), *models]


def _of_parts(place: Sequence[str], learner: str, words: Sequence[str]) -> dict[str, str]:
    """Return the sentence on every option of other learners and models."""
    command, model = place[0], place[1] if COMMANDS[place[0]].takes_model else ""
    found = dict[str, list[str]]()
    for option, text in (*_of_learners(command, learner, words), *_of_models(command, model)):
        found.setdefault(option, []).append(text)
    return {option: "; ".join(texts) for option, texts in found.items()}


def _of_learners(command: str, learner: str, words: Sequence[str]) -> Iterable[tuple[str, str]]:
    """Return the sentences on settings of learners."""
    from glassformer.learners.registry import names, settings_of

    commands = ", ".join(name for name, one in COMMANDS.items() if one.settings)
    runs = next(name for name, one in COMMANDS.items() if one.settings == "runs")
    use = use_of(COMMANDS[command].settings, words)
    here, anywhere = dict[str, list[str]](), dict[str, list[str]]()
    for name in names():
        for option in settings_of(name):
            anywhere.setdefault(option.word, []).append(name)
        for option in settings_of(name, use) if learner else ():
            here.setdefault(option.word, []).append(name)
    for word, owners in anywhere.items():
        if not learner:
            yield word, f"{command} takes no learner, and {word} is a setting of {', '.join(owners)}: use {commands}"
        elif word in here:
            others = here[word]
            yield word, f"learner {learner} has no option {word}: {_have(others)} it (--learner {others[0]})"
        elif learner in owners:
            remedy = "give --d for runs" if COMMANDS[command].settings == "trajectory" else f"use {runs}"
            yield word, f"the theory of learner {learner} does not depend on {word}, a setting of its runs: {remedy}"
        else:
            yield word, f"learner {learner} has no option {word}: {_have(owners)} it for runs (use {runs})"


def _of_models(command: str, model: str) -> Iterable[tuple[str, str]]:
    """Return the sentences on parameters of other models; of all for a command without a model."""
    owners = dict[str, list[str]]()
    for name in MODELS:
        for option in options_of(name):
            owners.setdefault(option.word, []).append(name)
    for word, others in owners.items():
        if not model:
            yield word, f"{command} takes no options of models, and {word} is one of {', '.join(others)}"
        elif model not in others:
            yield word, f"model {model} has no option {word}: {_have(others)} it"


def _of_commands(place: Sequence[str]) -> dict[str, str]:
    """Return the sentence on every option of other commands, and of other actions of a command."""
    owners, takes_model = dict[str, list[str]](), COMMANDS[place[0]].takes_model
    for name, one in COMMANDS.items():
        line = [name, *([place[1] if takes_model else next(iter(MODELS))] if one.takes_model else [])]
        parser = last_parser(parser_for(line), line)
        for action, own in {"": parser, **parser.subcommands}.items():
            for word, option in own.options.items():
                if word.startswith("--") and not option.dest.startswith(("model_", "learner_")):
                    owners.setdefault(word, []).append(f"{name} {action}".strip())
    subject = place[0] if takes_model else " ".join(place)
    here = last_parser(parser_for(place), place)
    unnamed = {_as_option(one.dest): one.metavar for one in here.arguments if not one.option_strings}
    return {
        word: f"{subject} has no option {word}: "
        + (f"use {subject} {unnamed[word]}" if word in unnamed else f"{_have(others)} it")
        for word, others in owners.items()
    }


def _have(owners: Sequence[str]) -> str:
    return f"{', '.join(owners)} {'have' if len(owners) > 1 else 'has'}"


def _closest(word: str, own: Sequence[str], others: Iterable[str], fields: dict[str, str]) -> str | None:
    """Return the option that was probably meant: one that begins so, else the most similar one."""
    if word in fields:
        return fields[word]
    whole = next((option for option in own if option.startswith(word)), None)
    return whole or next(iter(difflib.get_close_matches(word, [*own, *others], 1, _SIMILAR)), None)
