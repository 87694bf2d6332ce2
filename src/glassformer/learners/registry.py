"""The table of learners: the only place that knows them by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from glassformer.core.errors import ParameterError
from glassformer.core.options import options_in
from glassformer.core.registry import import_string
from glassformer.learners.base import Learner

# Name on the command line, and the class: imported when it is asked for. The first is the default.
LEARNERS = {
    "gamp": "bayes:MessagePassing",
    "blind-gamp": "blind:BlindMessagePassing",
    "vamp": "vamp:VectorMessagePassing",
    "ridge": "convex:Ridge",
    "nuclear-norm": "convex:NuclearNorm",
    "risk": "regularised_risk:RegularisedRisk",
    "gd": "gradient_descent:GradientDescent",
    "averaged-gd": "gradient_descent:AveragedGradientDescent",
    "sgd": "sgd:SGD",
    "online-sgd": "online_sgd:OnlineSGD",
}


@dataclass(frozen=True)
class Option:
    """One setting as an option of the command line.

    Attributes:
        name: of the option, with underscores.
        kind: of its value.
        texts: what it means, by the names of the learners that have it.
    """

    name: str
    kind: type
    texts: dict[str, str]


def names() -> tuple[str, ...]:
    """Names of all learners, the default first."""
    return tuple(LEARNERS)


def learner_type(name: str) -> type[Learner]:
    """The class of the learner of this name.

    Raises:
        ParameterError: there is none.
    """
    if name not in LEARNERS:
        raise ParameterError("algorithm", name, f"one of {', '.join(LEARNERS)}")
    found: type[Learner] = import_string("learners", LEARNERS[name])
    return found


def learner(name: str, **settings: Any) -> Learner:
    """The learner of this name with these settings.

    Raises:
        ParameterError: an unknown name or setting, or a value out of range.

    Example:
        >>> learner("ridge", strength=0.5)
        Ridge(strength=0.5)
        >>> learner("ridge", speed=1)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: speed = 1 is not allowed: expected one of the settings of ridge: \
strength
    """
    kind = learner_type(name)
    allowed = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    for key, value in settings.items():
        if key not in allowed:
            raise ParameterError(key, value, f"one of the settings of {name}: {', '.join(allowed)}")
    return kind(**settings)


def settings_meant(name: str, settings: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Settings as a learner takes them, where texts stand for something else: the best strength, what a file holds.

    Args:
        name: of the learner.
        settings: by their names.
        folder: what files are relative to.

    Example:
        >>> settings_meant("risk", {"strength": "best", "loss": "logistic"})
        {'strength': None, 'loss': 'logistic'}
    """
    readers = {one.field: one.read for one in options_in(learner_type(name)) if one.read is not None}
    found = dict(settings)
    for key, text in settings.items():
        if key in readers and isinstance(text, str):
            placed = str((folder or Path()) / text) if ":" in text else text
            found[key] = readers[key](key, placed)
    return found


def chosen(algorithm: str | Learner, settings: Any = None) -> Learner:
    """The learner that a name and settings, or a learner itself, ask for.

    Raises:
        ParameterError: an unknown name, or settings of another learner.

    Example:
        >>> chosen("gamp").max_iterations
        300
    """
    if isinstance(algorithm, Learner):
        if settings is not None:
            raise ParameterError("settings", type(settings).__name__, "None beside a learner, which has its own")
        return algorithm
    if not isinstance(algorithm, str):
        raise ParameterError("algorithm", algorithm, f"a learner, or one of {', '.join(LEARNERS)}")
    kind = learner_type(algorithm)
    return kind() if settings is None else kind.adopted(settings)


def name_of(kind: type[Learner]) -> str:
    """The name of a learner's class in the table; of others, that of the class.

    Example:
        >>> from glassformer.learners.convex import Ridge
        >>> name_of(Ridge)
        'ridge'
    """
    place = f"{kind.__module__.removeprefix('glassformer.learners.')}:{kind.__name__}"
    return next((name for name, home in LEARNERS.items() if home == place), kind.__name__.lower())


def proposals(refused: Learner, model: Any) -> list[str]:
    """Learners for a model that another one is not for: those of its family, then the first of all.

    Not itself: with its default settings it may be for the model, but its own error says what to change.
    """
    others = {name: learner_type(name) for name in LEARNERS if name != refused.name}
    fitting = {name: kind for name, kind in others.items() if kind().incompatibility(model) is None}
    family = [name for name, kind in fitting.items() if kind.family == refused.family]
    return list(dict.fromkeys([*family, *list(fitting)[:1]]))


def taking(storage: str) -> list[str]:
    """Learners that can learn from inputs kept in this way.

    Example:
        >>> taking("generated")
        ['gamp', 'blind-gamp', 'risk', 'online-sgd']
    """
    return [name for name in LEARNERS if storage in learner_type(name).storages]


def options(theory: bool = False) -> list[Option]:
    """The settings of all learners, as options of the command line; ``theory``: those that their theory depends on.

    Example:
        >>> next(option for option in options() if option.name == "floor").kind
        <class 'float'>
        >>> [option.name for option in options(theory=True)]
        ['assumed_rho', 'strength', 'loss', 'penalty']
    """
    found: dict[str, Option] = {}
    for name in LEARNERS:
        kind = learner_type(name)
        for one in options_in(kind):
            if theory and one.field not in kind.in_theory:
                continue
            found.setdefault(one.name, Option(one.name, one.kind, {})).texts[name] = one.meaning
    return list(found.values())
