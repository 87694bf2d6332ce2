"""Gradient descent on the parameters of a signal, from one start or averaged over several."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from glassformer.core.checks import is_whole
from glassformer.core.errors import ParameterError
from glassformer.core.settings import (
    decay_rate,
    integer_up_to,
    max_iterations_setting,
    positive,
    setting,
    unit_interval,
)
from glassformer.learners.base import FitResult, Learner
from glassformer.learners.descent import Descent, kind_of_start, small_start

if TYPE_CHECKING:
    from collections.abc import Mapping

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.learners.algorithms.signal_descent import Descended, Snapshot
    from glassformer.learners.data_set import DataSet

# Starts whose mean is taken by averaged gradient descent, as published.
_AVERAGED = 64
# Starts, or width: means over more are no more exact, and wider students no richer, than anybody can use.
_MOST = 100_000


@dataclass(frozen=True)
class GradientDescent(Descent):
    r"""Gradient descent on a quarter of the sum of squared residuals, plus :math:`\frac w2\|W\|^2` of all parameters.

    Every optimizer descends this one objective: the decay is part of the gradient that momentum and Adam work with. For
    the factors of a bilinear signal at full width ``r`` its minimum is that of the nuclear norm with the strength
    :math:`\lambda = 2w\sqrt r/(dL)^{1/4}`, for weights of linear attention that of the trace with
    :math:`\lambda = \frac w2\sqrt{r/d}`. With decay and linear labels ``residual`` is the certified distance from that
    minimum, relative to the risk of an estimate of zero.

    Args:
        optimizer: ``"sgd"`` (plain gradient descent, with ``momentum``) or ``"adam"``; None for the algorithm's own.
        learning_rate: length of a step in the algorithm's own units; None for its default. A run that diverges begins
            again with half of it.
        momentum: weight of the last step in [0, 1), for ``"sgd"``.
        weight_decay: :math:`w\ge 0`.
        starts: independent initialisations on the same data; None for the algorithm's own number.
        init: ``"prior"``, as large as the teacher's parameters, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        student_width: width of the student; None for the teacher's.
        explore: steps at first during which no floor counts; a tenth of the learning rate follows. At a large rate the
            weights wander among those that fit, and averages over starts come closer to the optimal error. None for
            the algorithm's own number.
        max_steps: steps allowed.
        floor: objective, relative to the power of the labels, that counts as zero.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> GradientDescent(init="large")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: init = 'large' is not allowed: expected prior or small
    """

    title: ClassVar[str] = "gradient descent"
    needs: ClassVar[str] = "parametrisation"
    continues: ClassVar[bool] = True

    optimizer: str | None = setting(None, "sgd or adam (default by the model; of averages adam)")
    learning_rate: float | None = setting(None, "length of a step (default by the model)", positive)
    momentum: float = setting(0.0, "weight of the last step, for sgd", unit_interval)
    weight_decay: float = setting(0.0, "weight w of w |W|^2/2 beside the loss, for every optimizer", decay_rate)
    starts: int | None = setting(
        None, "initialisations on the same data (default 1; averaged 64)", integer_up_to(_MOST)
    )
    init: str = kind_of_start()
    small: float = small_start()
    student_width: int | None = setting(None, "width of the student (default the teacher's)", integer_up_to(_MOST))
    explore: int | None = setting(None, "steps before a floor counts (default 0; of averages by the model)")
    max_steps: int = max_iterations_setting(50_000, "max_iterations")
    floor: float = setting(1e-9, "objective that counts as zero, relative to the power of the labels", unit_interval)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer not in (None, "sgd", "adam"):
            raise ParameterError("optimizer", self.optimizer, "sgd or adam")
        if self.momentum > 0 and self.optimizer == "adam":
            raise ParameterError("momentum", self.momentum, "0 with adam, which has its own")
        if self.explore is not None and not (is_whole(self.explore, 0) and self.explore < self.max_steps):
            raise ParameterError("explore", self.explore, f"an integer from 0 to max_steps - 1 = {self.max_steps - 1}")

    @classmethod
    def relatives(cls) -> type[Learner]:
        return GradientDescent

    def rule(self, rates: Mapping[str, float]) -> tuple[str, float]:
        """Optimizer and learning rate, from a model's rates by optimizer, the default one first, where left open.

        Example:
            >>> GradientDescent(learning_rate=0.1).rule({"sgd": 0.7, "adam": 0.05})
            ('sgd', 0.1)
        """
        name = self.optimizer or next(iter(rates))
        return name, self.learning_rate or rates[name]

    def completed(self, model: Any) -> Self:
        name, rate = self.rule(model.parametrisation.rates)
        return replace(self, optimizer=name, learning_rate=rate, explore=self.explore or 0, starts=self.starts or 1)

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        return "training of the factors from a random start has no closed equations"

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.signal_descent import descend

        own = self.completed(model)
        width = own.student_width or model.prior.factor_width(data.design.signal_shape[1])
        student = model.parametrisation.student(data.design, data.labels, width)
        found = descend(student, own, data.rng, own.starts or 1, data.teacher, data.checkpoint)
        last = found.history[-1]
        return FitResult(
            estimates=self._answers(found.signals),
            status=found.trained.status,
            iterations=found.trained.steps,
            residual=self._gap(model, data, width, found),
            training_error=last.training_error,
            early_stopped_error=None if data.teacher is None else min(map(self._error, found.history)),
            history=[entry._asdict() for entry in found.history],
        )

    def _gap(self, model: Any, data: DataSet, width: int, found: Descended) -> float:
        """How far at most the risk that decay and width stand for is from its least value; else what training says."""
        from glassformer.learners.algorithms.risk import Risk, certified_gap
        from glassformer.risk.losses import Square

        convex = model.parametrisation.convex
        if convex is None or self.weight_decay == 0 or not np.all(np.isfinite(found.signals)):
            return found.trained.residual
        spectral = self.weight_decay * convex.weight(width, data.design.signal_shape)
        risk = Risk(data.design, model.channel.components_of(data.labels), Square(), spectral, 0.0, convex.positive)
        return max(certified_gap(risk, signal) for signal in found.signals)

    def _answers(self, signals: Array) -> Array:
        """The estimates, from the signals of all starts."""
        return signals

    def _error(self, entry: Snapshot) -> float:
        """Their error, in a snapshot."""
        return entry.error


@dataclass(frozen=True)
class AveragedGradientDescent(GradientDescent):
    """The mean of the signals that gradient descent reaches from several starts on the same data.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> AveragedGradientDescent().completed(BilinearSequenceRegression(beta=1, rho=0.2)).starts
        64
    """

    title: ClassVar[str] = "mean of gradient descents"

    def completed(self, model: Any) -> Self:
        own, exploring = replace(self, starts=self.starts or _AVERAGED), model.parametrisation.exploring
        left_open = self.optimizer is None and self.learning_rate is None and self.momentum == 0
        if exploring is not None and left_open and self.explore != 0:
            name, rate, most = exploring
            steps = self.explore or min(most, self.max_steps // 2)
            own = replace(own, optimizer=name, learning_rate=rate, explore=steps)
        return super(AveragedGradientDescent, own).completed(model)

    def _answers(self, signals: Array) -> Array:
        return signals.mean(axis=0, keepdims=True)

    def _error(self, entry: Snapshot) -> float:
        return entry.averaged_error
