"""The command line and the Python code that give the numbers on the page."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import glassformer
from glassformer.explorer.question import Texts, given, offered
from glassformer.learners.base import Learner


def options(model: str, texts: Texts, link: str = "") -> list[str]:
    """The words for a model on the command line.

    Example:
        >>> from glassformer.explorer.question import beginning
        >>> options("aim", {**beginning("aim"), "tokens": "3"})
        ['aim', '--rho', '0.5', '--tokens', '3']
    """
    words, said = [model], given(model, texts)
    for option in offered(model):
        if option.field in said and not (link and option.field == "channel"):
            words += [option.word] if option.flag else [option.word, texts[option.field].strip()]
    return [*words, *(["--link", link] if link else [])]


def command(name: str, model: str, texts: Texts, link: str = "", **other: Any) -> str:
    """A command line.

    Example:
        >>> from glassformer.explorer.question import beginning
        >>> command("limits", "bsr", beginning("bsr"), alpha="0:1:3")
        'glassformer limits bsr --rho 0.5 --alpha 0:1:3'
    """
    words = ["glassformer", name, *options(model, texts, link)]
    for key, value in other.items():
        words += [f"--{key.replace('_', '-')}", str(value)]
    return shlex.join(words)


def code(call: str, asked: Any, texts: Texts, link: str = "", imports: Mapping[str, str] | None = None) -> str:
    """Python code: a model, and a call that names it ``model``.

    Args:
        call: the last line.
        asked: the model.
        texts: what was asked.
        link: ``FILE.py:FUNCTION``, where labels are a function of one's own.
        imports: further names and the modules that they come from.

    Example:
        >>> from glassformer.explorer.question import beginning, built
        >>> texts = beginning("bsr")
        >>> print(code("limits(model, [0.5])", built("bsr", texts), texts))
        from glassformer import BilinearSequenceRegression, limits
        model = BilinearSequenceRegression(rho=0.5)
        result = limits(model, [0.5])
    """
    kind = type(asked)
    said = {name: value for name, value in given(asked.name, texts).items() if not (link and name == "channel")}
    arguments = [f"{name}={_written(value)}" for name, value in (kind.select(dict(said)) or {}).items()]
    lines, names = [], {kind.__name__, *(word for word in glassformer.__all__ if f"{word}(" in call)}
    if "np." in call + "".join(arguments):
        lines.append("import numpy as np")
    lines.append(f"from glassformer import {', '.join(sorted(names))}")
    lines += [f"from {module} import {name}" for name, module in (imports or {}).items()]
    if link:
        place, _, name = link.rpartition(":")
        lines.append(f"from {place.removesuffix('.py')} import {name}  # the file {place} beside this one")
        arguments.insert(0, f"link={name}")
    return "\n".join([*lines, f"model = {kind.__name__}({', '.join(arguments)})", f"result = {call}"])


# Error estimates up to here are those of rounding and of solved equations, not of sampling.
_EXACT = 1e-6


def error_text(error: float, estimate: float) -> str:
    """An error in a sentence: 0 where a deterministic computation cannot tell it from zero.

    Example:
        >>> error_text(1.5e-25, 1e-14), error_text(1.5e-13, 1e-14), error_text(0.1, 0.2)
        ('0', '1.5e-13', '0.1')
    """
    return "0" if abs(error) <= estimate <= _EXACT else f"{error:.4g}"


def learner_options(one: Learner) -> dict[str, Any]:
    """The settings of a learner that are not its defaults, as options of the command line.

    Example:
        >>> from glassformer.learners.registry import learner
        >>> learner_options(learner("risk", penalty="trace"))
        {'penalty': 'trace'}
    """
    values = {name: getattr(one, name) for name in (field.name for field in fields(one))}  # type: ignore[arg-type]
    return {name: value for name, value in values.items() if value != getattr(type(one)(), name)}


def learner_call(one: Learner) -> str:
    """Python code that makes a learner.

    Example:
        >>> from glassformer.learners.registry import learner
        >>> learner_call(learner("risk", penalty="trace"))
        "learner('risk', penalty='trace')"
    """
    return f"learner({', '.join([repr(one.name), *(f'{k}={v!r}' for k, v in learner_options(one).items())])})"


def learner_argument(one: Learner) -> tuple[str, dict[str, str]]:
    """A learner as an argument in Python, its name where it has no other settings, and the imports that this needs.

    Example:
        >>> from glassformer.learners.registry import learner
        >>> learner_argument(learner("gamp"))
        ("'gamp'", {})
    """
    if not learner_options(one):
        return repr(one.name), {}
    return learner_call(one), {"learner": "glassformer.learners.registry"}


def alpha_option(text: str) -> str:
    """Sample ratios in Python.

    Example:
        >>> alpha_option("0:1:5"), alpha_option("0.1,0.2")
        ('np.linspace(0.0, 1.0, 5)', '[0.1, 0.2]')
    """
    if ":" in text:
        start, stop, count = text.split(":")
        return f"np.linspace({float(start)}, {float(stop)}, {int(count)})"
    return str([float(part) for part in text.split(",")])


def _written(value: Any) -> str:
    return 'float("inf")' if value == float("inf") else repr(value)
