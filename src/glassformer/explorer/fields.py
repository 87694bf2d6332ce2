"""Fields of the forms at the side of the page, made from the options of models, of views and of learners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from glassformer.core.errors import GlassformerError, ParameterError
from glassformer.core.options import Option
from glassformer.explorer.limits_view import IN_TIME, learners_with_theory
from glassformer.explorer.question import SETTINGS, Question, learner_options
from glassformer.learners.registry import learner_type

Field = dict[str, Any]
"""What ``form.js`` draws: ``name``, ``kind``, ``label``, ``text``, ``error``, and what the kind needs."""


def choice(name: str, label: str, choices: Mapping[str, str], text: str, **given: Any) -> Field:
    """Return a field with the labels of its allowed texts."""
    return {"name": name, "kind": "choice", "label": label, "choices": dict(choices), "text": text, **given}


def title(text: str) -> Field:
    """Return the title of the fields below."""
    return {"name": f"title {text}", "kind": "title", "label": text}


def note(name: str, text: str, **given: Any) -> Field:
    """Return a text between fields."""
    return {"name": name, "kind": "note", "text": text, **given}


def option_field(option: Option, texts: Mapping[str, str], prefix: str = "", **given: Any) -> Field:
    """Return the field of an option: its kind follows from the type, the usual range and the allowed words."""
    name, label = prefix + option.field, option.name.replace("_", " ")
    field: Field = {"name": name, "kind": "text", "label": label, "help": option.meaning}
    field |= {"text": texts.get(name, ""), "empty": "automatic" if option.default is None else str(option.default)}
    if option.flag:
        field |= {"kind": "flag", "label": f"{label}: {option.meaning}"}
    elif option.among:
        field |= {"kind": "choice", "choices": {word: word or field["empty"] for word in option.among}}
    elif option.usual:
        start, end = option.usual
        step = 10.0 ** math.floor(math.log10(end - start)) / 100
        field |= {"kind": "slider", "start": start, "end": end, "step": max(step, 1.0) if option.whole else step}
    return {**field, **given}


def model_fields(question: Question, settings: Sequence[str]) -> list[Field]:
    """Return the parameters of the model, the unusual ones in a group, and the sample ratios."""
    parts: list[Field] = []
    # An own link has the shape that was found by trying.
    shape = ("indices", "tokens") if question.function else ()
    shown = {one.field for one in question.options if one.usual or one.among or one.field in shape}
    for option in sorted(question.options, key=lambda one: one.field not in shown):
        group = {} if option.field in shown else {"group": "More parameters"}
        parts.append(option_field(option, question.texts, **group))
    parts += [title("Samples"), option_field(SETTINGS["alpha"], question.texts)]
    if "at" in settings:
        field = option_field(SETTINGS["at"], question.texts, kind="slider", start=0.0)
        with suppress(GlassformerError):
            top = max(question.alpha)
            field |= {"end": top, "step": top / 100}
            field["text"] = field["text"] or f"{question.at:.6g}"
        parts.append(field)
    return parts


def view_fields(question: Question, name: str, settings: Sequence[str], refused: Mapping[str, str]) -> list[Field]:
    """Return the settings of a view, and those of the learners that are chosen."""
    texts, parts = question.texts, list[Field]()
    # Runs beside theory are a choice: without them their sizes say nothing.
    hidden = ["at"] + ["d", "instances", "seed"] * ("runs" in settings and not texts["runs"])
    for setting in settings:
        if setting in ("learner", "learners"):
            parts += _learner_fields(texts, setting, refused)
        elif setting == "horizontal":
            choices = {one.field: one.name.replace("_", " ") for one in question.options if one.usual}
            parts.append(option_field(SETTINGS[setting], texts, kind="choice", choices=choices))
        elif setting not in hidden:
            parts.append(option_field(SETTINGS[setting], texts))
    return [title("Learners" if "learners" in settings else name), *parts] if parts else []


def _learner_fields(texts: Mapping[str, str], setting: str, refused: Mapping[str, str]) -> list[Field]:
    parts, many = list[Field](), setting == "learners"
    fits = [name for name in (learners_with_theory() if many else SETTINGS[setting].among) if name not in refused]
    if not many:
        labels = {name: learner_type(name).info.title for name in fits}
        parts.append(option_field(SETTINGS[setting], texts, kind="choice", choices=labels))
    for name in fits:
        chosen = name in texts[setting].split(",")
        if many:
            label, text = learner_type(name).info.title, "yes" if chosen else ""
            parts.append({"name": f"learners.{name}", "kind": "flag", "label": label, "text": text})
        for option in learner_options(name) if chosen else ():
            parts.append(option_field(option, texts, f"{name}.", look="inner"))
    slow = [learner_type(name).info.title for name in IN_TIME if name not in refused]
    if many and slow:
        why = "their theory takes several seconds at every sample ratio. The tab In time has it, step by step."
        parts.append(note("in time", f"{' and '.join(slow).capitalize()} are not drawn here: {why}"))
    if many:
        parts += [note(f"refused {name}", why, group="Not for this model") for name, why in refused.items()]
    return parts


def blame(fields: list[Field], error: Exception | None) -> tuple[list[Field], bool]:
    """Return fields, the one that is to blame with its error, and whether there is one.

    An error names the field or the option, whose words are the label.
    """
    name = error.name if isinstance(error, ParameterError) else ""
    for k, field in enumerate(fields):
        if name and name in (field["name"].rpartition(".")[2], field.get("label", "").replace(" ", "_")):
            return [*fields[:k], {**field, "error": str(error)}, *fields[k + 1 :]], True
    return fields, False
