"""What an estimator may take its labels to be made of: a signal of unknown width, unknown noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array
from glassformer.data_analysis.targets import ClassTargets, NumberTargets, Targets
from glassformer.data_analysis.width import EstimatedModel, estimated
from glassformer.data_analysis.widths import SEARCH
from glassformer.learners.algorithms.gamp_step import GampStep
from glassformer.learners.algorithms.vamp_step import VampStep
from glassformer.learners.algorithms.weighted_loss import Shifted
from glassformer.learners.data_findings import contradictions, warn_of
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.vamp import VectorMessagePassing
from glassformer.risk.losses import loss_of

# What needs no theory.
_VALIDATED = "solver = risk with strength = cv"
# Log-odds of a probit model over its argument, where both classes are probable.
_LOGIT = 1.7


class Unknown(NamedTuple):
    """What labels may be made of.

    Attributes:
        signal: an :class:`~glassformer.data_analysis.signals.UnknownSignal`.
        targets: labels, of the sign of that signal.
        seed: of all that is drawn.
    """

    signal: Any
    targets: Targets
    seed: int

    @classmethod
    def of(cls, settings: Any, task: Any, asked: str, instead: str = _VALIDATED) -> Unknown:
        """What the labels of a task may be made of.

        Args:
            settings: the estimator.
            task: :class:`~glassformer.sklearn.solvers.Task`.
            asked: the parameter that needs it, as messages name it.
            instead: what to use where there is none.

        Warns:
            DataWarning: the inputs are far from independent numbers.

        Raises:
            IncompatibleError: there is no theory of it.
            DataError: the inputs are too few or too small.
        """
        against = _against(settings, task)
        if against:
            raise IncompatibleError(f"{asked} and {against} exclude each other: use {instead}")
        shape = (len(task.tokens), *task.design.signal_shape)
        if min(shape) < SEARCH.narrowest:
            allowed = f"samples, and signals, of sizes >= {SEARCH.narrowest}: fewer values tell no width"
            raise DataError("X", task.tokens.shape, allowed, f"use {instead}")
        if not np.any(task.tokens):
            raise DataError("X", task.tokens.shape, "samples that differ", f"use {instead}")
        warn_of(contradictions(task.tokens))
        signal = settings.signals.behind(task.design, task.labels)
        kind: Any = NumberTargets if settings.predicts_numbers else ClassTargets
        seed = int(check_random_state(settings.random_state).randint(2**31 - 1))
        return cls(signal, kind.of(signal.sign * task.labels), seed)

    def estimated(self, step: type[GampStep] = GampStep) -> EstimatedModel:
        """Width and noise, and message passing with them."""
        return estimated(self.signal, self.targets, seed=self.seed, step=step)

    def attempts(self) -> Iterator[tuple[str, EstimatedModel]]:
        """Message passing by its name: for independent inputs, then by the singular values that inputs have."""
        found = self.estimated()
        yield "gamp", found
        if VectorMessagePassing().incompatibility(found.model) is None:
            yield "vamp", self.estimated(VampStep)

    def best_strength(self, settings: Any, found: EstimatedModel) -> tuple[float, float]:
        """Of the theory of risk, in the units of the design, and the cosine it leads to; zero where there is none."""
        if self.signal.sign < 0:
            return 0.0, 0.0
        best = self.best_risk(settings, found).limits(found.model, [self.ratio(found)], throw=False)
        strength = float(best["strength"][0])
        if not (best.status[0].ok and strength > 0):
            return 0.0, 0.0
        return self.signal.strength(strength), float(best["cosine"][0])

    def ratio(self, found: EstimatedModel) -> float:
        """Samples per unit of size, as theory counts them."""
        return float(self.signal.design.sample_ratio * found.model.matrix_prior.degrees)

    def best_risk(self, settings: Any, found: EstimatedModel) -> RegularisedRisk:
        """The risk at its best strength, with the theory of what minimises it."""
        loss: Any = settings.loss
        if not settings.predicts_numbers:
            # Theory has no constant: that of the posterior's log-odds, which bends the best strength little, is given.
            width = np.sqrt(found.settled.noise + float(found.solution.error_estimate[0]))
            loss = Shifted(loss_of("logistic"), _LOGIT * found.settled.offset / width)
        return RegularisedRisk(loss, settings.penalty)

    def aligned(self, matrix: Array, cosine: float) -> tuple[Array, float]:
        """What an estimate of this cosine says of the signal: its mean, and the error that is left."""
        power = self.signal.power(matrix)
        scale = cosine * np.sqrt(self.signal.error(1.0) / power) if power > 0 else 0.0
        return scale * matrix, self.signal.error(1 - cosine**2)


def _against(settings: Any, task: Any) -> str:
    """What rules a theory out, empty where nothing does."""
    if np.any(task.weights != 1):
        return "sample_weight" if getattr(settings, "class_weight", None) is None else "class_weight"
    if settings.predicts_numbers:
        return ""
    if len(settings.classes_) > 2:
        return f"{len(settings.classes_)} classes (one against all others is no threshold of a single field)"
    if not settings.has_chances:
        return f"loss = {settings.loss!r} (two classes are taken to be a threshold of a noisy field: use logistic)"
    return ""
