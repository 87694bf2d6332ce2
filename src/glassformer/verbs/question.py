"""Model and learner of a question, at the accuracy that was asked for."""

from __future__ import annotations

from typing import NamedTuple

from glassformer.core.accuracy import Accuracy, refuse_unused
from glassformer.learners.base import Learner, Theory, accuracy_used
from glassformer.learners.registry import resolve_learner
from glassformer.models.base import Model

# What is asked, in messages, where the verb is not the noun.
_QUESTIONS = {"simulate": "runs", "fit": "fits", "plan": "limits"}


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


def asked(model: Model, learner: Learner | str, accuracy: Accuracy | None, verb: str) -> Asked:
    """Return model and learner at an accuracy.

    Args:
        model: the model.
        learner: the learner or its name.
        accuracy: the accuracy, if any.
        verb: the question.

    Raises:
        ParameterError: there is no such learner.
        IncompatibleError: a value of the accuracy has no effect.
    """
    chosen, question = resolve_learner(learner), _QUESTIONS.get(verb, verb)
    used = [*model.accuracy_defaults, *accuracy_used(chosen, verb)]
    refuse_unused(accuracy, used, f"{question} of {chosen.name} on {model.name}")
    return Asked(model.at_accuracy(accuracy), chosen.at_accuracy(accuracy))
