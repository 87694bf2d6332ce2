"""Titles of plots: the model, its link and its parameters by symbol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from glassformer.core.display import told

# Parameters named in a title, by symbol.
_SYMBOLS = {
    "depth": "P",
    "indices": "P",
    "tokens": "T",
    "skip": "c",
    "beta": r"\beta",
    "rho": r"\rho",
    "width": "r",
    "noise": r"\Delta",
}
# What else a title names: the link, by the parameter that holds it, and how.
_LINKS = {"channel": "{} channel", "link": "link {}", "activation": "{} attention"}


def title_of(model: str, parameters: Mapping[str, Any]) -> str:
    r"""The model, its link and its parameters by symbol.

    Example:
        >>> title_of("attention", {"skip": [0.5, 1.0], "activation": "softmax", "noise": 0.1})
        'attention, softmax attention, $c = (0.5, 1)$, $\\Delta = 0.1$'
        >>> title_of("bsr", {"channel": "sign, flip:0.1", "noise": 0.0, "noise_law": "flip:0.1"})
        'bsr, sign, flip:0.1 channel'
    """
    links = [form.format(parameters[name]) for name, form in _LINKS.items() if name in parameters]
    named = told(parameters)
    shown = [f"${symbol} = {_text(parameters[name])}$" for name, symbol in _SYMBOLS.items() if name in named]
    return ", ".join([model, *links, *shown])


def _text(value: Any) -> str:
    """A number, or those of the layers; what is no number as it is."""
    among = np.atleast_1d(value)
    if among.dtype.kind not in "fiu":
        return str(value)
    numbers = [f"{one:g}" for one in among]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"
