"""The question that a person asks: a model and settings, as the texts that controls and addresses hold."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

import glassformer
from glassformer.core.accuracy import Accuracy
from glassformer.core.cache import memoize
from glassformer.core.errors import ParameterError
from glassformer.core.options import Option, options_in, parameter
from glassformer.core.parsing import parse_grid, parse_text
from glassformer.learners.base import Learner
from glassformer.learners.registry import compatible_learner, learner, learner_type, names, parse_settings
from glassformer.learners.ridge import Ridge
from glassformer.models.base import Model
from glassformer.models.registry import MODELS, build, model_types, options_of

# Most sample ratios of one curve.
_MOST = 401
# Data points of the first curve of models with sampled averages, which takes seconds.
_POINTS = 128
# Settings of descent that the page offers, with the ends of their sliders, and where they begin.
_DESCENT: dict[str, tuple[float, float] | None] = {
    **{"loss": None, "learning_rate": (0.0, 1.0), "weight_decay": (0.0, 1.0), "batch": (0.05, 1.0)},
    **{"momentum": (0.0, 0.99), "start": None},
}
_BEGIN = {"learning_rate": "0.3", "weight_decay": "0", "batch": "1.0", "momentum": "0", "start": "overlap:0.3"}
# Readers of texts in which a colon does not name a function in a file.
_TEXTS = (parse_grid, parse_text)
# Unknown of which samples are counted, by the definition of the sample ratio; the other definitions count parameters.
_UNKNOWNS = {"n/(dL)": "entry", "n/d^2": "entry", "n/d": "dimension"}


@dataclass(frozen=True)
class Settings:
    """What is asked beside the parameters of the model; every field is a control of the page."""

    alpha: str = parameter("START:STOP:COUNT, or a comma list", "0:1:21", option="sample_ratios")
    at: float | None = parameter("sample ratio of the sentence; a click into the plot sets it", None, option="look_at")
    learners: str = parameter("names of learners whose theory is drawn, as a comma list", "ridge,nuclear-norm")
    learner: str = parameter("the learner that is run or followed", names()[0], among=names())
    d: int = parameter("token dimension of runs on data", 60, usual=(10, 210))
    instances: int = parameter("independent runs at each sample ratio", 2)
    seed: int = parameter("of the random numbers", 0)
    steps: int = parameter("number of steps of the learner", 30, usual=(1, 101))
    quantity: str = parameter(
        "what is drawn", "error", among=("error", "cosine", "error on labels", "loss", "singular values")
    )
    runs: bool = parameter("of size d beside theory", False)
    target: float = parameter("error to be reached", 0.2, usual=(0.01, 1.01))
    horizontal: str = parameter("parameter on the horizontal axis", "", among=("",))


RIDGE = Ridge()
"""Ridge regression at its best strength."""
SETTINGS = {option.field: option for option in options_in(Settings)}


def offered(model: str) -> list[Option]:
    """Return the options of a model that the page offers: all but those that have to open files.

    Example:
        >>> [option.name for option in offered("bsr")]
        ['beta', 'rho', 'noise', 'channel', 'width', 'noise_law', 'prior', 'token_correlation']
    """
    known = [option for option in options_of(model) if option.named or not option.opens_file]
    sampled = any("points" in kind.accuracy_defaults for kind in model_types(model))
    return [*known, *(replace(one, begin=_POINTS) for one in options_in(Accuracy) if sampled and one.field == "points")]


def beginning(model: str) -> dict[str, str]:
    """Return the texts of all controls of a model at first."""
    texts = {"alpha": MODELS[model].usual, "horizontal": next(one.field for one in offered(model) if one.usual)}
    texts |= {f"sgd.{name}": text for name, text in {**_BEGIN, "loss": "square"}.items()}
    for option in [*offered(model), *SETTINGS.values()]:
        value = option.begin if option.begin is not None else option.default
        texts.setdefault(option.field, "" if value is None or option.flag else str(value))
    return texts


@dataclass(frozen=True)
class Question:
    """A model and settings, in texts.

    Attributes:
        name: of the model in the table of models.
        texts: of all controls, by the fields of :class:`Settings` and of the model, and ``LEARNER.SETTING``.
        function: an own link function, if any.
        link: ``FILE.py:FUNCTION``, the name of that function on the command line.

    Errors of the library are raised where a property cannot be computed from the texts.

    Example:
        >>> question = Question("bsr", beginning("bsr"))
        >>> question.model.rho, question.parameters, len(question.alpha)
        (0.5, {'rho': 0.5}, 61)
    """

    name: str
    texts: Mapping[str, str]
    function: Callable[..., Any] | None = None
    link: str = ""

    def changed(self, **texts: str) -> Question:
        """Return the question with other texts."""
        return replace(self, texts={**self.texts, **texts})

    def _value(self, option: Option) -> Any:
        """Return the value of an option; None where its text is empty."""
        text = self.texts.get(option.field, "").strip()
        if text and option.opens_file:
            _require_name(option, text)
        return option.value(text) if text else None

    @cached_property
    def options(self) -> list[Option]:
        """The options of the model; an own link replaces the channel."""
        return [one for one in offered(self.name) if not (self.function and one.field == "channel")]

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """The parameters of the model that are not at their defaults."""
        values = {one.field: (one, self._value(one)) for one in self.options}
        return {k: v for k, (one, v) in values.items() if v is not None and (one.required or v != one.default)}

    @cached_property
    def model(self) -> Model:
        """The model, one object for all questions about it: what it knows of its labels takes a while."""
        parameters = {**self.parameters, **({"link": self.function} if self.function else {})}
        accuracy = Accuracy(points=parameters.pop("points", None))
        return memoize(
            lambda: build(self.name, parameters).at_accuracy(accuracy), "model", self.name, parameters, accuracy
        )

    @cached_property
    def settings(self) -> Settings:
        """The settings; those without a text are at their defaults."""
        values = {name: self._value(option) for name, option in SETTINGS.items()}
        return Settings(**{name: value for name, value in values.items() if value is not None})

    @cached_property
    def alpha(self) -> list[float]:
        """The sample ratios of the curve."""
        found = parse_grid("alpha", self.settings.alpha)
        if len(found) > _MOST:
            raise ParameterError("alpha", self.settings.alpha, f"at most {_MOST} sample ratios")
        return found

    @property
    def error(self) -> str:
        """Name of the axis of errors."""
        return "estimation error" if self.model.well_specified else "squared error on noisy labels"

    @property
    def without_optimum(self) -> bool:
        """Whether state evolution does not describe the model, and ridge regression has the first curve."""
        return self.model.features is not None

    @property
    def first_learner(self) -> Learner:
        """The learner of the first curve."""
        return RIDGE if self.without_optimum else learner(names()[0])

    @property
    def positive_alpha(self) -> str:
        """The sample ratios above zero as the command line writes them: learners need samples."""
        found = [alpha for alpha in self.alpha if alpha > 0]
        even = ":" in self.settings.alpha and len(found) > 1
        return f"{found[0]}:{found[-1]}:{len(found)}" if even else ",".join(map(str, found))

    @property
    def at(self) -> float:
        """The sample ratio of the sentence; by default a sixth along the curve."""
        return self.alpha[len(self.alpha) // 6] if self.settings.at is None else self.settings.at

    @property
    def samples(self) -> str:
        """The sample ratio of the sentence, in words."""
        return f"With {self.at:.3g} samples per {self.unknown}"

    @property
    def unknown(self) -> str:
        """The unknown of which samples are counted."""
        return _UNKNOWNS.get(self.model.parameters["alpha"], "parameter")

    @property
    def axis(self) -> str:
        """Name of the axis of sample ratios."""
        return f"sample ratio α = {self.model.parameters['alpha'].replace('^2', '²')}"

    def learner(self, name: str) -> Learner:
        """Return a learner with the settings on the page, and others that are compatible with the model."""
        given = dict[str, Any]()
        for option in learner_options(name):
            text = self.texts.get(f"{name}.{option.field}", "").strip()
            if ":" in text and option.read not in _TEXTS:
                raise ParameterError(option.field, text, "a name or a number: the page opens no files")
            if text:
                given[option.field] = replace(option, read=None).value(text)
        return compatible_learner(name, self.model).varied(**parse_settings(name, given))

    def command(self, command: str, one: Learner | None = None, **other: Any) -> str:
        """Return a command line about the model, and a learner.

        Example:
            >>> Question("bsr", beginning("bsr")).command("limits", alpha="0:1:3")
            'glassformer limits bsr --rho 0.5 --alpha 0:1:3'
        """
        words = ["glassformer", command, self.name]
        for option in (one for one in self.options if one.field in self.parameters):
            words += [option.word] if option.flag else [option.word, self.texts[option.field].strip()]
        words += ["--link", self.link] if self.link else []
        if one is not None:
            other |= {"learner": one.name}
            other |= {option.name: value for option, value in learner_settings(one)}
        for key, value in other.items():
            words += [f"--{key.replace('_', '-')}", str(value)]
        return shlex.join(words)

    def code(self, call: str, **imports: str) -> str:
        """Return Python code: the model, and a call that names it ``model``.

        Args:
            call: the last lines.
            imports: further names and the modules that they come from.

        Example:
            >>> print(Question("bsr", beginning("bsr")).code("limits(model, [0.5])"))
            from glassformer import BilinearSequenceRegression, limits
            model = BilinearSequenceRegression(rho=0.5)
            result = limits(model, [0.5])
        """
        kind = type(self.model)
        given = {**(kind.select(dict(self.parameters)) or {})}
        points = given.pop("points", None)
        accuracy = "" if points is None else f".at_accuracy(Accuracy(points={points}))"
        arguments = [f"{name}={_literal(value)}" for name, value in given.items()]
        public = {
            kind.__name__,
            *(["Accuracy"] if accuracy else []),
            *(word for word in glassformer.__all__ if f"{word}(" in call),
        }
        imports |= {"learner": "glassformer.learners.registry"} if "learner(" in call else {}
        lines = [*["import numpy as np"] * ("np." in call), f"from glassformer import {', '.join(sorted(public))}"]
        lines += [f"from {module} import {name}" for name, module in imports.items()]
        if self.link:
            file, _, name = self.link.rpartition(":")
            lines.append(f"from {file.removesuffix('.py')} import {name}  # the file {file} beside this one")
            arguments.insert(0, f"link={name}")
        model = f"model = {kind.__name__}({', '.join(arguments)}){accuracy}"
        return "\n".join([*lines, model, f"result = {call}"])

    def address(self, **page: str) -> str:
        """Return the query of an address that leads back here: the page, and the texts that differ from the first.

        Example:
            >>> Question("bsr", {**beginning("bsr"), "rho": "0.3"}).address(model="bsr", tab="learn")
            '?model=bsr&tab=learn&rho=0.3'
        """
        start = beginning(self.name)
        return "?" + urlencode({**page, **{k: text for k, text in self.texts.items() if text != start.get(k, "")}})


def learner_options(name: str) -> list[Option]:
    """Return the settings of a learner that change its theory; of descent only the most important ones.

    Example:
        >>> [option.field for option in learner_options("ridge")]
        ['strength']
    """
    from glassformer.risk.losses import LOSSES
    from glassformer.risk.penalties import PENALTIES

    # An empty word is the default.
    words = {"loss": ("", *LOSSES), "penalty": ("", *PENALTIES)}
    kind = learner_type(name)
    shown = _DESCENT if name == "sgd" else kind.info.limit_settings or kind.info.trajectory_settings
    found = [replace(one, among=words.get(one.field, one.among)) for one in options_in(kind) if one.field in shown]
    return [replace(one, usual=_DESCENT[one.field]) for one in found] if name == "sgd" else found


def learner_settings(one: Learner) -> list[tuple[Option, Any]]:
    """Return the settings of a learner that are not at their defaults."""
    values = [(option, getattr(one, option.field)) for option in options_in(type(one))]
    return [(option, value) for option, value in values if value != getattr(type(one)(), option.field)]


def learner_code(one: Learner, name_only: bool = False) -> str:
    """Return Python code that makes a learner; ``name_only``: its name where it has no other settings.

    Example:
        >>> from glassformer.learners.registry import learner
        >>> learner_code(learner("risk", penalty="trace")), learner_code(learner("gamp"), True)
        ("learner('risk', penalty='trace')", "'gamp'")
    """
    settings = [f"{option.field}={_literal(value)}" for option, value in learner_settings(one)]
    return repr(one.name) if name_only and not settings else f"learner({', '.join([repr(one.name), *settings])})"


def alpha_code(text: str) -> str:
    """Return sample ratios in Python.

    Example:
        >>> alpha_code("0:1:5"), alpha_code("0.1,0.2")
        ('np.linspace(0.0, 1.0, 5)', '[0.1, 0.2]')
    """
    if ":" in text:
        start, stop, count = text.split(":")
        return f"np.linspace({float(start)}, {float(stop)}, {int(count)})"
    return str([float(part) for part in text.split(",")])


def _literal(value: object) -> str:
    return 'float("inf")' if value == float("inf") else repr(value)


def _require_name(option: Option, text: str) -> None:
    """Raise unless a text is one of the names of an option that may also be a file: a name, and at most one number."""
    name, _, number = text.partition(":")
    if name not in {known.partition(":")[0] for known in option.named} or ":" in number:
        raise ParameterError(option.field, text, f"{' or '.join(option.named)}: the page opens no files")
