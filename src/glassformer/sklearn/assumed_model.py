"""The model that an estimator assumes for its labels: a signal of unknown width with unknown noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array
from glassformer.data_analysis.estimated_model import NARROWEST, EstimatedModel, estimate_signal
from glassformer.data_analysis.targets import ClassTargets, NumberTargets, Targets
from glassformer.learners.data_assumptions import violations, warn_of_violations
from glassformer.learners.gamp_step import GampStep
from glassformer.learners.registry import runs_on
from glassformer.learners.regularised_risk import RegularisedRisk
from glassformer.learners.vamp import VampStep, VectorMessagePassing
from glassformer.learners.weighted_losses import WeightedLoss
from glassformer.risk.losses import loss_of
from glassformer.sklearn.fit_task import FitTask
from glassformer.sklearn.parameters import Parameters
from glassformer.verbs.limits import limits

# Alternative in messages if no theory applies.
_VALIDATED = "solver = risk with strength = cv"
# Log-odds of a probit model over its argument, where both classes are probable (the usual factor of the two links).
_LOGIT = 1.7


class AssumedModel(NamedTuple):
    """The family of models that is assumed for the labels.

    Attributes:
        signal: an :class:`~glassformer.data_analysis.signals.UnknownSignal`.
        targets: labels, with the sign of that signal.
        seed: of all random numbers.
    """

    signal: Any
    targets: Targets
    seed: int

    @classmethod
    def of(cls, settings: Parameters, task: FitTask, required_by: str, instead: str = _VALIDATED) -> AssumedModel:
        """Return the family of models of a task.

        Args:
            settings: the estimator.
            task: the data, and what is fitted to them.
            required_by: the parameter that needs a model, for messages.
            instead: the alternative without a model, for messages.

        Warns:
            DataWarning: the inputs are far from independent numbers.

        Raises:
            IncompatibleError: no theory applies to the estimator.
            DataError: the inputs are too few or too small.
        """
        reason = settings.theory_unavailable_reason(weighted=bool(np.any(task.weights != 1)))
        if reason:
            raise IncompatibleError(f"{required_by} and {reason} exclude each other: use {instead}")
        shape = (len(task.tokens), *task.design.signal_shape)
        if min(shape) < NARROWEST:
            allowed = f"samples and signals of sizes >= {NARROWEST}, to determine a width"
            raise DataError("X", task.tokens.shape, allowed, f"use {instead}")
        if not np.any(task.tokens):
            raise DataError("X", task.tokens.shape, "samples that differ", f"use {instead}")
        if settings.predicts_numbers and not np.any(task.labels):
            # The labels of a task have their mean subtracted.
            raise DataError("y", f"<{len(task.labels)} times {settings.offset_:g}>", "labels that vary")
        warn_of_violations(violations(task.tokens))
        signal = settings.signals.from_labels(task.design, task.labels)
        kind: Any = NumberTargets if settings.predicts_numbers else ClassTargets
        seed = int(check_random_state(settings.random_state).randint(2**31 - 1))
        return cls(signal, kind.of(signal.sign * task.labels), seed)

    def estimate(self, step: type[GampStep] = GampStep) -> EstimatedModel:
        """Return width and noise, with message passing for the estimated model."""
        return estimate_signal(self.signal, self.targets, seed=self.seed, step=step)

    def estimates(self) -> Iterator[tuple[str, EstimatedModel]]:
        """Yield message passing by its name: for independent inputs, then with the singular values of the inputs."""
        estimated = self.estimate()
        yield "gamp", estimated
        if runs_on(VectorMessagePassing(), estimated.model):
            yield "vamp", self.estimate(VampStep)

    def sample_ratio(self, estimated: EstimatedModel) -> float:
        """Return samples per unit of size, as theory counts them."""
        return float(self.signal.design.sample_ratio * estimated.model.matrix_prior.degrees)

    def risk(self, settings: Parameters, estimated: EstimatedModel) -> RegularisedRisk:
        """Return the learner of the estimator's risk, with its theory."""
        loss: Any = settings.loss
        if not settings.predicts_numbers:
            # Theory has no intercept. The loss is shifted by the intercept of the posterior's log-odds, which changes
            # the best strength little.
            width = np.sqrt(estimated.settled.noise + float(estimated.solution.error_estimate[0]))
            loss = WeightedLoss(loss_of("logistic"), shift=_LOGIT * estimated.settled.offset / width)
        return RegularisedRisk(loss, settings.penalty)

    def best_strength(self, settings: Parameters, estimated: EstimatedModel) -> tuple[float, float]:
        """Return the best strength by theory, in the units of the design, and its cosine; zeros if there is none."""
        if self.signal.sign < 0:
            return 0.0, 0.0
        alpha = [self.sample_ratio(estimated)]
        best = limits(estimated.model, alpha, self.risk(settings, estimated), throw=False)
        strength = float(best["strength"][0])
        if not (best.status[0].ok and strength > 0):
            return 0.0, 0.0
        return self.signal.strength(strength), float(best["cosine"][0])

    def posterior_scale(self, matrix: Array, cosine: float) -> tuple[Array, float]:
        """Return the mean of the signal given an estimate of this cosine, and the remaining error."""
        power = self.signal.power(matrix)
        scale = cosine * np.sqrt(self.signal.error(1.0) / power) if power > 0 else 0.0
        return scale * matrix, self.signal.error(1 - cosine**2)
