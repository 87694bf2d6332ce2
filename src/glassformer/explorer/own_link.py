"""A link function of one's own: where it comes from, the shape of its fields, and what its labels are like."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from glassformer.core.errors import GlassformerError, LinkError
from glassformer.core.files import user_path
from glassformer.core.link_parsing import function_from
from glassformer.explorer.question import Question, beginning, offered
from glassformer.models.registry import MODELS, options_of

LINK = "link"
"""The name of the tab, and of the model with a link of one's own."""
EXAMPLE = '''import jax.numpy as jnp


def link(z):
    """z: (indices, tokens)"""
    return jnp.tanh(z[0, 0])
'''
# Parameters that are the shape of the fields, and the largest that are tried.
_SHAPE, _MOST = ("indices", "tokens"), 4


@dataclass(frozen=True)
class LinkSource:
    """What the command line said of links.

    Attributes:
        function: the link, if a file was named.
        name: ``FILE.py:FUNCTION``.
        family: the model that it is a link of.
        code: whether code written into the page may run.
    """

    function: Callable[..., Any] | None = None
    name: str = ""
    family: str = ""
    code: bool = False


def code_of(given: LinkSource) -> str:
    """Return the code that the page shows at first: the file of the command line, if it can be read, or an example."""
    if given.function is None:
        return EXAMPLE
    try:
        return user_path(given.name.rpartition(":")[0]).read_text()
    except (OSError, ValueError):
        return ""


def families() -> list[str]:
    """Return the models that take a link."""
    return [name for name in MODELS if any(option.field == "link" for option in options_of(name))]


def from_code(code: str, wanted: str = "") -> tuple[Callable[..., Any], str]:
    """Run code as the file ``link.py`` of the command line; return a function and ``link.py:FUNCTION``.

    The function is the one with the name ``wanted`` if it is defined, else the last one.

    Raises:
        ParameterError: the code does not run, or defines no function.
    """
    defined = re.findall(r"^(?:def|class) (\w+)", code, re.MULTILINE) or ["link"]
    name = wanted if wanted in defined else defined[-1]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "link.py").write_text(code)
        return function_from(f"link.py:{name}", Path(folder)), f"link.py:{name}"


def shape_of(function: Callable[..., Any], family: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Return indices and tokens with which a function works as a link and its labels depend on the fields.

    Those that are asked for are tried first, then ever larger ones; empty where the family has neither, or none works.

    Example:
        >>> shape_of(lambda z: z[0, 0] * z[1, 0], "smi", {})
        {'indices': '2', 'tokens': '1'}
    """
    start = {**beginning(family), **texts}
    fields = [option.field for option in offered(family) if option.field in _SHAPE]
    sizes = sorted(product(range(1, _MOST + 1), repeat=len(fields)), key=lambda size: (prod(size), size[::-1]))
    for size in [tuple(start[name] for name in fields), *sizes] if fields else []:
        shape = {name: str(one) for name, one in zip(fields, size, strict=True)}
        try:
            _ = Question(family, {**start, **shape}, function).model
        except LinkError:
            continue
        except GlassformerError:
            # Something else is wrong, and the page says so when it asks.
            pass
        return shape
    return {}


def description(question: Question) -> str:
    """Return what is known of the labels of a link: parity, values and exponents.

    Example:
        >>> description(Question("bsr", beginning("bsr"), lambda z: z**2, "link.py:link"))
        'The labels are continuous and even in the fields; information exponent 2, generative exponent 2.'
    """
    channel = question.model.channel
    shape = [f"{name} = {question.texts[name]}" for name in _SHAPE if name in {one.field for one in question.options}]
    text = f"The function works on fields with {' and '.join(shape)}. " if shape else ""
    text += f"The labels are {'discrete' if channel.labels.discrete else 'continuous'} and "
    text += "even in the fields" if channel.labels.even else "not even in the fields"
    if channel.labels.exponents is not None:
        text += f"; information exponent {channel.labels.exponents.information:g}, "
        text += f"generative exponent {channel.labels.exponents.generative:g}"
    return text + "."
