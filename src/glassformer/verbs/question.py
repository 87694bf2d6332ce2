"""Model and learner of a question, at the accuracy that was asked for."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

from glassformer.core.accuracy import Accuracy, refuse_unused
from glassformer.learners.base import Learner, Theory
from glassformer.learners.registry import resolve_learner
from glassformer.models.base import Model


class Asked(NamedTuple):
    """A model and a learner at the accuracy of a question."""

    model: Model
    learner: Learner

    @property
    def theory(self) -> Theory:
        """What is known of the learner on the model.

        Raises:
            IncompatibleError: nothing is known.
        """
        return self.learner.theory(self.model)


def asked(
    model: Model, learner: Any, accuracy: Accuracy | None, question: str, used: Collection[str] | None = None
) -> Asked:
    """Return model and learner at an accuracy.

    Args:
        model: the model.
        learner: the learner or its name.
        accuracy: the accuracy, if any.
        question: what is asked, for messages.
        used: values of the accuracy that have an effect, besides those of the model; None for those of limits.

    Raises:
        ParameterError: there is no such learner.
        IncompatibleError: a value of the accuracy has no effect.
    """
    chosen = resolve_learner(learner)
    of_learner = chosen.info.limit_accuracy if used is None else used
    refuse_unused(accuracy, [*model.accuracy_defaults, *of_learner], f"{question} of {chosen.name} on {model.name}")
    return Asked(model.at_accuracy(accuracy), chosen.at_accuracy(accuracy))
