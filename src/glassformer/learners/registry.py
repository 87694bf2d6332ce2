"""The table of learners by name, and the construction of a learner from its name and settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.files import user_path
from glassformer.core.link_parsing import function_from
from glassformer.core.options import Option, options_in
from glassformer.core.registry import import_string
from glassformer.core.settings import non_default_fields
from glassformer.learners.base import Learner
from glassformer.learners.own import OwnLearner, is_own

if TYPE_CHECKING:
    from glassformer.models.base import Model

# Name on the command line, and module and class, imported at first use. The first learner is the default.
LEARNERS = {
    "gamp": "gamp:MessagePassing",
    "blind-gamp": "blind_message_passing:BlindMessagePassing",
    "vamp": "vamp:VectorMessagePassing",
    "ridge": "ridge:Ridge",
    "nuclear-norm": "nuclear_norm:NuclearNorm",
    "risk": "regularised_risk:RegularisedRisk",
    "gd": "gradient_descent:GradientDescent",
    "averaged-gd": "gradient_descent:AveragedGradientDescent",
    "sgd": "sgd:SGD",
    "online-sgd": "online_sgd:OnlineSGD",
}


def names() -> tuple[str, ...]:
    """Return the names of all learners, the default first."""
    return tuple(LEARNERS)


def learner_type(name: str) -> type[Learner]:
    """Return the class of the learner of this name, which may name a variant as well.

    Raises:
        ParameterError: the name is unknown.

    Example:
        >>> learner_type("sgd:published").__name__
        'SGD'
    """
    base, colon, _ = name.partition(":")
    if base not in LEARNERS:
        raise ParameterError("learner", name, f"one of {', '.join(LEARNERS)}")
    kind: type[Learner] = import_string("learners", LEARNERS[base])
    variants = [f"{base}:{one}" for one in getattr(kind, "variants", ())]
    if colon and name not in variants:
        raise ParameterError("learner", name, " or ".join([base, *variants]))
    return kind


def learner(name: str, d: int | None = None, **settings: Any) -> Learner:
    """Return the learner of this name with these settings.

    Args:
        name: name of the learner, or ``NAME:VARIANT`` for settings of a variant, such as ``sgd:published``.
        d: token dimension that the settings of a variant refer to.
        settings: settings by name, instead of the defaults or those of the variant.

    Raises:
        ParameterError: the name or a setting is unknown, or a value is out of range.
        IncompatibleError: the variant needs ``d``.

    Example:
        >>> learner("ridge", strength=0.5)
        Ridge(strength=0.5)
        >>> learner("sgd:published", d=60, passes=20).learning_rate
        0.5
        >>> learner("ridge", speed=1)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: speed = 1 is not allowed: expected one of the settings of ridge: \
strength
    """
    if ".py:" in name:
        return OwnLearner(function_from(name, blamed="learner"), **settings)
    kind = learner_type(name)
    allowed = [one.name for one in fields(kind) if not one.name.startswith("_")]
    for key, value in settings.items():
        if key not in allowed:
            raise ParameterError(key, value, f"one of the settings of {name}: {', '.join(allowed)}")
    variant = name.partition(":")[2]
    if not variant:
        return kind(**settings)
    if d is None:
        raise IncompatibleError(f"the settings of learner {name} depend on the token dimension: give d")
    own: Learner = replace(getattr(kind, variant)(d), **settings)
    return own


def parse_settings(name: str, settings: Mapping[str, Any], folder: Path | None = None) -> dict[str, Any]:
    """Return settings with texts replaced by values: "best" by None, "FILE.py:FUNCTION" by the function.

    Args:
        name: name of the learner.
        settings: settings by name.
        folder: folder that relative file names refer to.

    Example:
        >>> parse_settings("risk", {"strength": "best", "loss": "logistic"})
        {'strength': None, 'loss': 'logistic'}
        >>> parse_settings("sgd", {"start": "small:0.1", "momentum": "nesterov:0.9"}, Path("folder"))
        {'start': 'small:0.1', 'momentum': 'nesterov:0.9'}
    """
    readers = {one.field: one.read for one in options_in(learner_type(name)) if one.read is not None}
    parsed = dict(settings)
    for key, text in settings.items():
        if key in readers and isinstance(text, str):
            file, colon, _ = text.rpartition(":")
            parsed[key] = readers[key](key, str(user_path(text, folder)) if colon and file.endswith(".py") else text)
    return parsed


def is_listed(name: str) -> bool:
    """Return whether a learner of this name is in the table; training of one's own is not."""
    return name.partition(":")[0] in LEARNERS


def learner_from_text(text: str, d: int | None = None) -> Learner:
    """Return the learner of a name, followed by its settings.

    Args:
        text: ``NAME SETTING=VALUE ...``.
        d: token dimension, for learners that refer to one.

    Raises:
        ParameterError: the name or a setting is unknown, or a value is out of range.

    Example:
        >>> learner_from_text("ridge strength=0.5")
        Ridge(strength=0.5)
    """
    name, *pairs = shlex.split(text) or [""]
    given = dict(pair.partition("=")[::2] for pair in pairs)
    known = {} if ".py:" in name else {one.field: one for one in settings_of(name.partition(":")[0])}
    for key in given.keys() - known.keys():
        allowed = f"one of the settings of {name}: {', '.join(known) or 'there are none'}"
        raise ParameterError(key.replace("-", "_"), given[key], allowed)
    return learner(name, d, **{key: known[key].value(value) for key, value in given.items()})


def resolve_learner(given: object, d: int | None = None) -> Learner:
    """Return the learner given as an object, or by its name with default settings.

    Raises:
        ParameterError: the name is unknown.

    Example:
        >>> resolve_learner("ridge")
        Ridge(strength=None)
    """
    if isinstance(given, Learner):
        return given
    if is_own(given):
        return OwnLearner(given)
    if not isinstance(given, str):
        allowed = f"a learner, one of {', '.join(LEARNERS)}, a function fit(X, y, rng), or an estimator"
        raise ParameterError("learner", given, allowed)
    return learner(given, d)


def compatible_learner(name: str, model: Model) -> Learner:
    """Return the learner of this name with settings that are compatible with a model, or its default settings.

    Example:
        >>> from glassformer import AttentionIndexed
        >>> found = compatible_learner("risk", AttentionIndexed(rho=0.5, channel="softmax"))
        >>> found.loss, found.penalty
        ('cross-entropy', 'trace')
    """
    default = learner(name)
    candidates = (default, *default.alternatives())
    return next((one for one in candidates if runs_on(one, model)), default)


def runs_on(asked: Learner, model: Model) -> bool:
    """Return whether a learner can run on data of a model."""
    try:
        asked.check(model)
    except IncompatibleError:
        return False
    return True


def _named(learner: Learner) -> str:
    """Return the name of a learner with the settings that it needs."""
    settings = ", ".join(f"{name} {value}" for name, value in non_default_fields(learner).items())
    return f"{learner.name} (with {settings})" if settings else learner.name


def require_compatible(asked: Learner, model: Model) -> None:
    """Raise unless a learner can run on data of a model.

    The proposed learners are the compatible ones of the same family, then the first compatible one. The learner itself
    is not proposed with other settings, because the reason already says what to change.

    Raises:
        IncompatibleError: it cannot; the message contains the reason and the remedy.
    """
    try:
        asked.check(model)
    except IncompatibleError as error:
        others = [compatible_learner(name, model) for name in LEARNERS if name != asked.name]
        compatible = [one for one in others if runs_on(one, model)]
        family = [one for one in compatible if one.info.family == asked.info.family]
        proposed = " or ".join(dict.fromkeys(map(_named, [*family, *compatible[:1]])))
        raise IncompatibleError(f"learner {asked.name} {error}: use {proposed}") from error.__cause__


def learners_with_storage(storage: str) -> list[str]:
    """Return the names of the learners that support a storage of the inputs.

    Example:
        >>> learners_with_storage("generated")
        ['gamp', 'blind-gamp', 'risk', 'online-sgd']
    """
    return [name for name in LEARNERS if storage in learner_type(name).info.storages]


def learners_with_limits() -> list[str]:
    """Return the names of the learners whose limits are known.

    Example:
        >>> learners_with_limits()
        ['gamp', 'blind-gamp', 'vamp', 'ridge', 'nuclear-norm', 'risk', 'gd', 'averaged-gd', 'sgd']
    """
    return [name for name in LEARNERS if learner_type(name).info.limit_settings is not None]


def settings_of(name: str, use: str = "runs") -> list[Option]:
    """Return the settings of a learner as options of the command line.

    Args:
        name: name of the learner.
        use: ``"limits"`` or ``"trajectory"`` for the settings on which these depend, ``"runs"`` for all.

    Example:
        >>> [option.word for option in settings_of("nuclear-norm")]
        ['--strength']
        >>> [option.word for option in settings_of("nuclear-norm", "limits")]
        ['--strength']
    """
    kind = learner_type(name)
    allowed = {"limits": kind.info.limit_settings or (), "trajectory": kind.info.trajectory_settings}.get(use)
    return [one for one in options_in(kind) if allowed is None or one.field in allowed]
