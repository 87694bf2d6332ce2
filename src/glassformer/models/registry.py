"""The table of models by name, and the construction of a model from its name and parameters."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from glassformer.core.errors import ParameterError
from glassformer.core.link_parsing import function_from
from glassformer.core.options import Option, options_in
from glassformer.core.registry import import_string
from glassformer.inputs.named import inputs_of
from glassformer.models.nested import with_nested

if TYPE_CHECKING:
    from glassformer.models import Model


# Word for a label that is the class of a mixture, in place of a function.
CLASS = "class"


class Entry(NamedTuple):
    """One model in the table.

    Attributes:
        homes: module and class names, imported at first use; the first class represents all classes of the name.
        title: full name.
        ratio: definition of its sample ratio.
        papers: keys or numbers (``"arXiv:2410.18858"``) of the papers of its equations.
        usual: default grid of sample ratios, in the notation of the command line.
    """

    homes: tuple[str, ...]
    title: str
    ratio: str
    papers: tuple[str, ...] = ()
    usual: str = "0:3:31"


MODELS = {
    "bsr": Entry(
        ("bsr:BilinearSequenceRegression",),
        "bilinear sequence regression",
        "n/(dL), or n/(r(L+d)) at rho 0",
        ("erba2025bilinear",),
        "0:1.5:61",
    ),
    "aim": Entry(
        ("aim:AttentionIndexed", "deep_aim:DeepAttentionIndexed"),
        "attention-indexed model",
        "n/d^2, or n/(rd) at rho 0",
        ("boncoraglio2025bayes", "maillard2024bayes"),
        "0:0.5:51",
    ),
    "attention": Entry(
        ("deep_attention:DeepAttention",), "deep attention network", "n/d", ("troiani2025fundamental",), "0.1:1.5:8"
    ),
    "icl": Entry(
        ("in_context:InContextRegression",),
        "linear regression in context by linear attention",
        "n/d^2",
        ("lu2025asymptotic",),
        "0.05:3:60",
    ),
    "smi": Entry(
        ("smi:SequenceMultiIndex",), "sequence multi-index model", "n/d", ("troiani2025fundamental",), "0.25:3:12"
    ),
}


def build(name: str, parameters: Mapping[str, Any], folder: Path | None = None) -> Model:
    """Return the model of this name with these parameters.

    Args:
        name: name in the table of models.
        parameters: arguments of the model; ``link`` may be ``"FILE.py:FUNCTION"``, and ``spectrum`` a file name.
        folder: folder that relative file names refer to.

    Raises:
        ParameterError: the name, a parameter, the channel or a file is unknown, or a value is out of range.
        IncompatibleError: parameters that exclude each other.

    Example:
        >>> build("bsr", {"rho": 0.5}).name
        'bsr'
        >>> build("aim", {"rho": 0.5, "layers": 2}).channel.label
        'softmax'
    """
    if name not in MODELS:
        raise ParameterError("model", name, f"one of {', '.join(MODELS)}")
    kind, given = selected_type(name, parameters)
    allowed = inspect.signature(kind).parameters
    for parameter in given:
        if parameter.partition(".")[0] not in allowed:
            raise ParameterError(parameter, given[parameter], f"one of {name}'s parameters: {', '.join(allowed)}")
    channel = given.get("channel")
    if isinstance(channel, str) and kind.channel_names and channel not in kind.channel_names:
        raise ParameterError("channel", channel, f"one of {', '.join(kind.channel_names)}")
    given = {parameter: resolve_parameter(parameter, value, folder) for parameter, value in given.items()}
    given = with_nested(given, lambda name: None)
    missing = [p.name for p in allowed.values() if p.default is p.empty and p.name not in given]
    if missing:
        raise ParameterError(missing[0], None, f"a value: model {name} requires this parameter")
    model: Model = kind(**given)
    return model


def resolve_parameter(parameter: str, value: object, folder: Path | None = None) -> Any:
    """Return the value of a parameter; the name of a file is replaced by the function or spectrum in the file.

    Example:
        >>> resolve_parameter("noise", 0.1), resolve_parameter("spectrum", "power-law:1.25:400")
        (0.1, Spectrum('power-law:1.25:400'))
    """
    if not isinstance(value, str) or parameter not in ("link", "spectrum", "inputs"):
        return value
    if parameter == "link":
        if value == CLASS:
            return None
        return function_from(value, folder)
    if parameter == "inputs":
        return inputs_of(value, folder)
    from glassformer.random_matrices.given import spectrum_of

    return spectrum_of(value, folder)


def parameter_types(name: str) -> dict[str, Any]:
    """Return the types of all parameters of a model; a link may also be text.

    Example:
        >>> parameter_types("bsr")["noise"]
        <class 'float'>
    """
    kinds = model_types(name)[::-1]
    types = {field.name: get_type_hints(kind)[field.name] for kind in kinds for field in dataclasses.fields(kind)}
    return {**types, **({"link": types["link"] | str} if "link" in types else {})}


def model_types(name: str) -> list[Any]:
    """Return the classes that share the name of a model."""
    return [import_string("models", home) for home in MODELS[name].homes]


def model_type(name: str) -> Any:
    """Return the class that represents the name of a model."""
    return model_types(name)[0]


def selected_type(name: str, parameters: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return the class that the parameters select among those of a name, and the parameters of that class.

    Raises:
        IncompatibleError: parameters that exclude each other.
    """
    kinds = model_types(name)
    for kind in kinds[::-1]:
        given = kind.select(dict(parameters))
        if given is not None:
            return kind, given
    raise AssertionError(f"no class of {name} takes {parameters}")


def options_of(name: str) -> list[Option]:
    """Return the parameters of a model as options of the command line.

    Example:
        >>> [option.word for option in options_of("bsr")][:5]
        ['--beta', '--rho', '--noise', '--channel', '--width']
    """
    return options_in(*model_types(name))
