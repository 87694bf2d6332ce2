"""What a person asks of a model, in the words of the command line: what an address holds, and models are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlencode

from glassformer.core.errors import ParameterError
from glassformer.core.options import Option
from glassformer.core.parsing import parse_grid, parse_number
from glassformer.models.registry import MODELS, build, options_of

# Where a look begins, beside the parameters of the model.
VIEW = {
    "at": "",
    "learners": "",
    "panel": "0",
    "algorithm": "gamp",
    "d": "60",
    "instances": "2",
    "seed": "0",
    "places": "6",
    "steps": "30",
    "target": "0.2",
    "planned": "gamp",
    "trained": "none",
    "horizontal": "",
    "vertical": "alpha",
    "grid": "12",
}
# The shape of the fields that a link is a function of.
SHAPE = ("indices", "tokens")
# Most sample ratios of one curve.
_MOST = 401

Texts = Mapping[str, str]


def offered(model: str) -> list[Option]:
    """The options of a model that a page offers: what opens files is for command lines.

    Example:
        >>> [option.name for option in offered("bsr")]
        ['beta', 'rho', 'noise', 'channel', 'width', 'noise_law', 'prior', 'token_correlation']
    """
    return [option for option in options_of(model) if not option.opens_file]


def beginning(model: str) -> dict[str, str]:
    """What is asked of a model at first, by the fields of its options and the names of :data:`VIEW`."""
    parameters = {option.field: _begin(option) for option in offered(model)}
    across = next(option.field for option in offered(model) if option.usual)
    return {**parameters, "alpha": MODELS[model].usual, **VIEW, "horizontal": across}


def _begin(option: Option) -> str:
    value = option.begin if option.begin is not None else option.default
    return "" if value is None or option.flag else str(value)


def given(model: str, texts: Texts) -> dict[str, Any]:
    """The parameters that are not at their defaults, by field.

    Raises:
        ParameterError: a text that is no value of its option.

    Example:
        >>> given("bsr", {**beginning("bsr"), "rho": "0.3"})
        {'rho': 0.3}
    """
    found = {option.field: _read(option, texts.get(option.field, "").strip()) for option in offered(model)}
    defaults = {option.field: option.default for option in offered(model)}
    needed = {option.field for option in offered(model) if option.required}
    said = {name: value for name, value in found.items() if value is not None}
    return {name: value for name, value in said.items() if name in needed or value != defaults[name]}


def _read(option: Option, text: str) -> Any:
    if not text:
        return None
    if option.kind is int:
        return _whole(option.name, text)
    return option.value(parse_number(option.name, text) if option.kind is float else text)


def built(model: str, texts: Texts, link: Callable[..., Any] | None = None) -> Any:
    """The model that is asked about, its link a function of one's own if there is one.

    Raises:
        ParameterError: a value out of range.
        IncompatibleError: values that exclude each other.

    Example:
        >>> built("bsr", beginning("bsr")).rho
        0.5
    """
    parameters = given(model, texts)
    if link is not None:
        parameters.pop("channel", None)
    return build(model, {**parameters, **({} if link is None else {"link": link})})


def ratios(texts: Texts) -> list[float]:
    """The sample ratios of the curve.

    Raises:
        ParameterError: the text stands for none, or for too many.
    """
    text = texts["alpha"]
    found = parse_grid("alpha", text)
    if len(found) > _MOST:
        raise ParameterError("alpha", text, f"at most {_MOST} sample ratios")
    return found


def positive(texts: Texts) -> str:
    """The sample ratios of the curve above zero, as the command line writes them: learners need samples.

    Example:
        >>> positive({"alpha": "0:1:5"}), positive({"alpha": "0,0.5"})
        ('0.25:1.0:4', '0.5')
    """
    found = [alpha for alpha in ratios(texts) if alpha > 0]
    even = ":" in texts["alpha"] and len(found) > 1
    return f"{found[0]}:{found[-1]}:{len(found)}" if even else ",".join(map(str, found))


def chosen_ratio(texts: Texts) -> float:
    """The sample ratio that was clicked; before, one on the way down, a sixth along the curve."""
    found = ratios(texts)
    return parse_number("at", texts["at"]) if texts["at"] else found[len(found) // 6]


def whole(texts: Texts, name: str) -> int:
    """A whole number that is asked for.

    Raises:
        ParameterError: it is none.
    """
    return _whole(name, texts[name])


def _whole(name: str, text: str) -> int:
    value = parse_number(name, text)
    if not (abs(value) < 2**53 and value.is_integer()):
        raise ParameterError(name, text, "a whole number")
    return int(value)


def address(tab: str, texts: Texts, start: Texts) -> str:
    """The query of an address that leads back here: what is not as it was at the start.

    Example:
        >>> start = beginning("bsr")
        >>> address("bsr", {**start, "rho": "0.3"}, start)
        '?tab=bsr&rho=0.3'
    """
    return "?" + urlencode({"tab": tab, **{name: text for name, text in texts.items() if text != start.get(name)}})


def from_address(query: str) -> dict[str, str]:
    """What a query says, by name.

    Example:
        >>> from_address("?tab=bsr&rho=0.3")
        {'tab': 'bsr', 'rho': '0.3'}
    """
    return dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True))
