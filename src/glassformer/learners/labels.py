"""Learners in legends and tables: what they minimise, and the settings that were given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from glassformer.core.results import name_or_value
from glassformer.core.settings import non_default_fields
from glassformer.learners.base import Learner

# Penalties as a legend names them.
_PENALTIES = {"nuclear": "nuclear norm", "lasso": "LASSO", "elastic": "elastic net", "group": "group LASSO"}


def learner_label(parameters: Mapping[str, Any]) -> str:
    """Return the legend of the error of a learner: the penalty and the loss that it minimises, and the strength.

    Example:
        >>> learner_label({"learner": "risk", "loss": "logistic", "penalty": "nuclear", "strength": 0.5})
        'nuclear norm, logistic loss, strength 0.5'
        >>> learner_label({"learner": "ridge", "loss": "square", "penalty": "ridge", "strength": "best"})
        'ridge, best strength'
    """
    penalty, loss, strength = (parameters.get(name) for name in ("penalty", "loss", "strength"))
    words = [_PENALTIES.get(penalty, penalty) if penalty else parameters.get("learner", "Bayes-optimal")]
    if loss not in (None, "square"):
        words.append(f"{loss} loss")
    if strength is not None:
        words.append("best strength" if strength == "best" else f"strength {strength:g}")
    return ", ".join(words)


def settings_label(learner: Learner) -> str:
    """Return the title of a learner with the settings that were given.

    Example:
        >>> from glassformer import SGD
        >>> settings_label(SGD(learning_rate=0.5))
        'gradient descent on the same samples, learning rate 0.5'
    """
    given = {} if learner.info.family == "own" else non_default_fields(learner)
    words = settings_words({name.replace("_", " "): value for name, value in given.items()})
    return ", ".join([learner.info.title, *words])


def settings_words(settings: Mapping[str, Any]) -> list[str]:
    """Return settings in words, functions by their names.

    Example:
        >>> settings_words({"strength": 0.5, "loss": "hinge"})
        ['strength 0.5', 'loss hinge']
    """
    named = {name: name_or_value(value) for name, value in settings.items()}
    return [f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in named.items()]
