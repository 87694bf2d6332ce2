"""Models from a name and parameters, as command lines and files give them."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from glassformer.core.errors import IncompatibleError, ParameterError

if TYPE_CHECKING:
    from glassformer.models import Model

# Modules and classes of the models, imported when they are asked for: most of them bring a compiler along.
_KINDS = {
    "bsr": ("bilinear", "BilinearSequenceRegression"),
    "aim": ("attention_indexed", "AttentionIndexed"),
    "attention": ("deep_attention", "DeepAttention"),
    "smi": ("multi_index", "SequenceMultiIndex"),
}
MODELS = tuple(_KINDS)
_LAYERED = ("deep_attention_indexed", "DeepAttentionIndexed")
# Modules that know the channels of a model by name.
_CHANNELS = {"bsr": "scalar", "aim": "attention_indexed.named"}


def build(name: str, parameters: Mapping[str, Any], folder: Path | None = None) -> Model:
    """The model called ``name``: ``bsr``, ``aim`` (of several layers with ``layers``), ``attention`` or ``smi``.

    Args:
        name: of the model.
        parameters: its arguments; a ``link`` may be ``"FILE.py:FUNCTION"``.
        folder: what the path of such a file is relative to.

    Raises:
        ParameterError: an unknown name, parameter, channel or file, or a value out of range.
        IncompatibleError: parameters that exclude each other.

    Example:
        >>> build("bsr", {"rho": 0.5}).name
        'bsr'
        >>> build("aim", {"rho": 0.5, "layers": 2}).channel.label
        'softmax'
    """
    if name not in MODELS:
        raise ParameterError("model", name, f"one of {', '.join(MODELS)}")
    given, home = dict(parameters), _KINDS[name]
    if name == "aim":
        home, given = _layered(given)
    kind = _imported(home)
    allowed = inspect.signature(kind).parameters
    for parameter in given:
        if parameter not in allowed:
            raise ParameterError(parameter, given[parameter], f"one of {name}'s parameters: {', '.join(allowed)}")
    channel = given.get("channel")
    if isinstance(channel, str) and name in _CHANNELS and channel not in _channels(name):
        raise ParameterError("channel", channel, f"one of {', '.join(_channels(name))}")
    if isinstance(given.get("link"), str):
        given["link"] = function_from(given["link"], folder)
    missing = [p.name for p in allowed.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise ParameterError(missing[0], None, f"a value: {name} has no default for it")
    model: Model = kind(**given)
    return model


def parameter_types(name: str) -> dict[str, Any]:
    """Types of all parameters of the model called ``name``, that of a link as files have it included.

    Example:
        >>> parameter_types("bsr")["noise"]
        <class 'float'>
    """
    kinds = [_imported(home) for home in ((_LAYERED, _KINDS[name]) if name == "aim" else (_KINDS[name],))]
    types = {field.name: get_type_hints(kind)[field.name] for kind in kinds for field in dataclasses.fields(kind)}
    return {**types, **({"link": types["link"] | str} if "link" in types else {})}


def function_from(text: str, folder: Path | None = None) -> Callable[..., Any]:
    """The function that ``FILE.py:FUNCTION`` names.

    A class is taken as what it makes when called without arguments: a callable object.

    Raises:
        ParameterError: the file does not exist, does not run, or defines no such function.
    """
    import runpy

    place, _, name = text.rpartition(":")
    path = (folder or Path()) / place
    if not place or not path.is_file():
        raise ParameterError("link", text, "FILE.py:FUNCTION with a file that exists")
    try:
        found = runpy.run_path(str(path)).get(name)
        found = found() if isinstance(found, type) else found
    except (Exception, SystemExit) as error:
        # Anything may go wrong in a user's file; where it did is what they need to know.
        raise ParameterError("link", text, f"a file that runs ({type(error).__name__}: {error})") from error
    if not callable(found):
        raise ParameterError("link", text, f"a function {name!r} defined in {path}")
    return found


def _imported(home: tuple[str, str]) -> Any:
    """The class of a model."""
    return getattr(importlib.import_module(f"glassformer.models.{home[0]}"), home[1])


def _channels(name: str) -> tuple[str, ...]:
    """Channels of a model that has one, by name."""
    names: tuple[str, ...] = importlib.import_module(f"glassformer.models.channels.{_CHANNELS[name]}").NAMES
    return names


def _layered(given: dict[str, Any]) -> tuple[tuple[str, str], dict[str, Any]]:
    """Attention-indexed models of one layer and of several are different classes."""
    layers = given.get("layers", 1)
    if given.get("skip") is None:
        given.pop("skip", None)
    if layers == 1:
        given.pop("layers", None)
        if "skip" in given:
            raise IncompatibleError(
                f"skip = {given['skip']} belongs to several layers: give layers (--layers) 2 or more"
            )
        return _KINDS["aim"], given
    if given.pop("link", None) is not None:
        raise IncompatibleError(f"a link and layers = {layers} exclude each other: give one layer")
    if given.pop("noise", 0) != 0:
        raise IncompatibleError(f"noise and layers = {layers} exclude each other")
    return _LAYERED, given
