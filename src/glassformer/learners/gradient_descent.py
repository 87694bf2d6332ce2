"""Gradient descent on the parameters of a signal, from one start or averaged over several."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, cast

import numpy as np

from glassformer.channels.regression import components_of
from glassformer.core.checks import is_whole
from glassformer.core.errors import ParameterError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_batch, parse_text
from glassformer.core.settings import decay_rate, integer_up_to, positive, positive_integer, setting, unit_interval
from glassformer.learners.base import BY_PRODUCTS, FitResult, Learner, LearnerInfo, Theory
from glassformer.learners.descent import MatrixDescent

if TYPE_CHECKING:
    from glassformer.core.checkpoints import Checkpoint
    from glassformer.core.estimate import Array
    from glassformer.learners.data_set import DataSet
    from glassformer.learners.training import Arrays, TrainingResult, TrainingSettings
    from glassformer.models.base import Model
    from glassformer.models.trainable.base import Student

# Initialisations of averaged gradient descent, as published.
_AVERAGED = 64
# Largest number of initialisations, and largest width; larger values do not change results.
_MOST = 100_000
# Usual largest number of steps of runs.
_STEPS = 50_000
# Settings that the equations depend on; those of runs until the objective is flat are not among them.
_THEORY = (*("optimizer", "learning_rate", "momentum", "weight_decay", "initialisations", "start", "student_width"),)
# Values of an accuracy that they depend on.
_ACCURACY = ("trajectories", "matrix_size", "draws")
# Number of arrays of the size of the parameters in memory during a step: gradients, moments, parameters, temporaries.
_PARAMETER_COPIES = 8
# Steps of a short training, for a lower estimate of its time.
_FEWEST_STEPS = 1000.0


def _check_width(name: str, value: object, optional: bool) -> None:
    whole, ratio = is_whole(value, 1) and value <= _MOST, isinstance(value, float) and 0 < value <= _MOST
    if not (whole or ratio or (value is None and optional)):
        raise ParameterError(name, value, f"an integer from 1 to {_MOST}, or a ratio > 0 with a decimal point")


def _info(name: str, title: str) -> LearnerInfo:
    return LearnerInfo(
        name=name,
        title=title,
        family="descent",
        papers=("gerbelot2022rigorous",),
        storages=BY_PRODUCTS,
        resumable=True,
        limit_settings=(*_THEORY, "steps"),
        trajectory_settings=_THEORY,
        limit_accuracy=_ACCURACY,
        trajectory_accuracy=_ACCURACY,
        runs_have_accuracy=False,
    )


@dataclass(frozen=True)
class GradientDescent(MatrixDescent):
    r"""Gradient descent on a quarter of the sum of squared residuals, plus :math:`\frac w2\|W\|^2` of all parameters.

    Weight decay is part of the gradient for every optimizer, so that all optimizers minimise this objective. For the
    factors of a bilinear signal at full width ``r`` the minimum is that of the nuclear-norm risk of strength
    :math:`\lambda = 2w\sqrt r/(dL)^{1/4}`; for weights of linear attention it is that of the trace penalty with
    :math:`\lambda = \frac w2\sqrt{r/d}`. With decay and linear labels ``residual`` is the certified distance from this
    minimum, relative to the risk of an estimate of zero.

    Args:
        optimizer: ``"sgd"`` (plain gradient descent, with ``momentum``) or ``"adam"``; None for the model's default.
        learning_rate: learning rate of the optimizer; None for the model's default. A run that diverges starts again
            with half the rate.
        momentum: momentum in [0, 1), for ``"sgd"``.
        weight_decay: :math:`w\ge 0`.
        initialisations: number of independent ones on the same data; None for the default of the algorithm.
        start: ``"prior"``, as large as the teacher's parameters, or ``"small:0.001"``, 0.001 times as large.
        student_width: width of the student: an integer, the number of columns, or a float, its ratio to the token
            dimension ``d``; None for the teacher's.
        explore: number of exploration steps, during which training does not stop; a tenth of the learning rate follows.
            At a large rate the weights move between solutions, and averages over starts come closer to the
            Bayes-optimal error. None for the default of the algorithm.
        steps: largest number of steps; None for 50,000 in runs. Theory is for this number of steps at a fixed rate.
        floor: objective, relative to the power of the labels, that counts as zero; None for the model's default.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> GradientDescent(momentum=1)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: momentum = 1 is not allowed: expected a number in [0, 1)
    """

    info: ClassVar[LearnerInfo] = _info("gd", "gradient descent")
    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"trajectories": 16_384, "matrix_size": 120, "draws": 4}

    optimizer: str | None = setting(None, "sgd or adam (default by the model; for averages adam)")
    learning_rate: float | None = setting(None, "learning rate (default by the model)", positive)
    momentum: float = setting(0.0, "momentum in [0, 1), for sgd", unit_interval)
    weight_decay: float = setting(0.0, "weight w of the term w |W|^2/2, for every optimizer", decay_rate)
    initialisations: int | None = setting(
        None, "initialisations on the same data (default 1; averaged 64)", integer_up_to(_MOST)
    )
    start: Any = parameter("prior (as large as the teacher), or small:SIZE", "prior", read=parse_text)
    student_width: Any = parameter(
        "columns of the student, or with a decimal point their ratio to d (default the teacher's)",
        None,
        read=parse_batch,
        check=_check_width,
    )
    explore: int | None = setting(None, "exploration steps (default 0; for averages by the model)")
    steps: int | None = setting(
        None, "largest number of steps of a run (default 50000), or number of steps of theory", positive_integer
    )
    floor: float | None = setting(
        None, "objective that counts as zero, relative to the power of the labels (default by the model)", unit_interval
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.optimizer not in (None, "sgd", "adam"):
            raise ParameterError("optimizer", self.optimizer, "sgd or adam")
        if self.momentum > 0 and self.optimizer == "adam":
            raise ParameterError("momentum", self.momentum, "0 with adam, which has its own momentum")
        most = (self.steps or _STEPS) - 1
        if self.explore is not None and not (is_whole(self.explore, 0) and self.explore <= most):
            raise ParameterError("explore", self.explore, f"an integer from 0 to steps - 1 = {most}")

    def rule(self, rates: Mapping[str, float]) -> tuple[str, float]:
        """Return optimizer and learning rate; unset ones are the defaults in ``rates``, the first optimizer first.

        Example:
            >>> GradientDescent(learning_rate=0.1).rule({"sgd": 0.7, "adam": 0.05})
            ('sgd', 0.1)
        """
        name = self.optimizer or next(iter(rates))
        return name, self.learning_rate or rates[name]

    def completed(self, model: Model) -> Self:
        name, rate = self.rule(model.parametrisation.rates)
        floor = model.parametrisation.floor if self.floor is None else self.floor
        explore, count = self.explore or 0, self.initialisations or 1
        own = replace(self, optimizer=name, learning_rate=rate, explore=explore, initialisations=count, floor=floor)
        return replace(own, steps=self.steps or _STEPS)

    def width_at(self, columns: int) -> int | None:
        """Return the width of the student of a signal with so many columns; None for the teacher's.

        Example:
            >>> GradientDescent(student_width=0.5).width_at(40), GradientDescent(student_width=3).width_at(40)
            (20, 3)
        """
        width = self.student_width
        return width if width is None or is_whole(width, 1) else max(1, round(width * columns))

    def theory(self, model: Model) -> Theory:
        from glassformer.learners.matrix_descent import MatrixDescentTheory

        return MatrixDescentTheory(self, model)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        settings = self.completed(model)
        columns = data.design.signal_shape[1]
        width = self.width_at(columns) or model.prior.factor_width(columns)
        student = model.parametrisation.student(data.design, data.labels, width)
        result = descend(student, settings, data.rng, settings.initialisations or 1, data.teacher, data.checkpoint)
        return FitResult(
            estimates=self.estimates(result.signals),
            status=result.training.status,
            iterations=result.training.steps,
            residual=self._residual(model, data, width, result),
            training_error=result.history[-1].training_error,
            early_stopped_error=None if data.teacher is None else min(map(self._error, result.history)),
            history=[entry._asdict() for entry in result.history],
        )

    def _residual(self, model: Model, data: DataSet, width: int, result: DescentResult) -> float:
        """Return the certified gap of the convex risk of decay and width, or the residual of training without one."""
        from glassformer.learners.empirical_risk import EmpiricalRisk, certified_gap
        from glassformer.risk.losses import Square
        from glassformer.risk.penalties import ElasticNet

        convex = model.parametrisation.convex
        if convex is None or self.weight_decay == 0 or not np.all(np.isfinite(result.signals)):
            return result.training.residual
        spectral = self.weight_decay * convex.weight(width, data.design.signal_shape)
        labels = components_of(model.channel, data.labels)
        risk = EmpiricalRisk(data.design, labels, Square(), ElasticNet(spectral), convex.positive)
        return max(certified_gap(risk, signal) for signal in result.signals)

    def at_fixed_rate(self, optimizer: str, learning_rate: float, steps: int) -> Learner:
        kind = _FixedRateAverage if self.averages else _FixedRate
        given = {one.name: getattr(self, one.name) for one in fields(self)}
        fixed = {"optimizer": optimizer, "learning_rate": learning_rate, "steps": steps, "explore": 0, "floor": 0.0}
        return kind(**{**given, **fixed})

    def estimates(self, signals: Array) -> Array:
        return signals

    def _error(self, entry: TrainingRecord) -> float:
        """Return the error of the estimates in a record."""
        return entry.error


@dataclass(frozen=True)
class AveragedGradientDescent(GradientDescent):
    """The mean over several starts of the signals from gradient descent on the same data.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> AveragedGradientDescent().completed(BilinearSequenceRegression(beta=1, rho=0.2)).initialisations
        64
    """

    info: ClassVar[LearnerInfo] = _info("averaged-gd", "mean of gradient descents")
    averages: ClassVar[bool] = True

    def completed(self, model: Model) -> Self:
        own = replace(self, initialisations=self.initialisations or _AVERAGED)
        exploring = model.parametrisation.exploring
        left_open = self.optimizer is None and self.learning_rate is None and self.momentum == 0
        if exploring is not None and left_open and self.explore != 0:
            name, rate, most = exploring
            steps = self.explore or min(most, (self.steps or _STEPS) // 2)
            own = replace(own, optimizer=name, learning_rate=rate, explore=steps)
        return super(AveragedGradientDescent, own).completed(model)

    def estimates(self, signals: Array) -> Array:
        return signals.mean(axis=0, keepdims=True)

    def _error(self, entry: TrainingRecord) -> float:
        return entry.averaged_error


@dataclass(frozen=True)
class _FixedRate(GradientDescent):
    """Descent of a given number of steps at a fixed rate; its history has every step."""

    info: ClassVar[LearnerInfo] = replace(GradientDescent.info, resumable=False)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        from glassformer.learners.matrix_descent import learn_at_fixed_rate

        return learn_at_fixed_rate(self, model, data)


@dataclass(frozen=True)
class _FixedRateAverage(AveragedGradientDescent):
    """The mean over several starts of such descents."""

    info: ClassVar[LearnerInfo] = replace(AveragedGradientDescent.info, resumable=False)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        from glassformer.learners.matrix_descent import learn_at_fixed_rate

        return learn_at_fixed_rate(self, model, data)


class TrainingRecord(NamedTuple):
    r"""Properties of the signals of all starts after some steps.

    Attributes:
        step: number of gradient steps.
        training_error: mean squared residual over samples and starts.
        error: mean over starts of the error of the signal in the model's normalisation; NaN without a teacher.
        averaged_error: error of the mean of the signals over starts.
        nuclear_norm: mean of the singular values over all starts.
        singular_values: singular values of the first start, in the student's units.
    """

    step: int
    training_error: float
    error: float
    averaged_error: float
    nuclear_norm: float
    singular_values: Array


class DescentResult(NamedTuple):
    """Signals of all starts, shape (starts, rows, columns), the result of training, and records along the way."""

    signals: Array
    training: TrainingResult
    history: list[TrainingRecord]


def descend(
    student: Student,
    settings: GradientDescent,
    rng: np.random.Generator,
    starts: int = 1,
    teacher: Array | None = None,
    checkpoint: Checkpoint | None = None,
) -> DescentResult:
    r"""Return the result of training a student from several starts at once, in the floating-point type of its data.

    Args:
        student: parametrised signal and training error.
        settings: optimizer, learning rate, initialisation, largest number of steps.
        rng: random generator of the initial parameters.
        starts: number of independent initialisations.
        teacher: the true signal, for the errors in the history.
        checkpoint: checkpoint to continue from and to save to.
    """
    import jax.numpy as jnp

    from glassformer.core.resources import require_resources
    from glassformer.learners.training import train
    from glassformer.numerics.decompositions import singular_values
    from glassformer.numerics.jax_settings import jax_settings

    entries = sum(float(np.prod(shape)) for shape in student.parameters)
    width = student.parameters[0][-1]
    name, value = ("initialisations", starts) if starts > width else ("student_width", settings.student_width or width)
    # A step needs three products of the inputs with the parameters of every start.
    work = _FEWEST_STEPS * starts * 6.0 * (student.samples * float(np.prod(student.data[0].shape[1:])) + entries)
    memory = _PARAMETER_COPIES * 8 * starts * entries
    require_resources(name, value, memory, "train fewer or smaller students", work, "students")
    kind = student.data[0].dtype
    initial = [
        (settings.initialisation.size * rng.standard_normal((starts, *shape))).astype(kind)
        for shape in student.parameters
    ]

    def distance(signal: Array) -> float:
        return np.nan if teacher is None else student.distance(signal, teacher)

    def watch(step: int, parameters: Arrays, errors: Array) -> dict[str, Any]:
        signals = np.asarray(student.signals(parameters), dtype=float)
        values = singular_values(signals) / student.unit
        training_error = 4 * float(np.mean(errors)) / student.samples
        error = float(np.mean([distance(signal) for signal in signals]))
        averaged = distance(signals.mean(axis=0))
        return TrainingRecord(step, training_error, error, averaged, float(values.mean()), values[0])._asdict()

    limited = cast("TrainingSettings", replace(settings, steps=settings.steps or _STEPS))
    with jax_settings(kind == np.float64):
        training = train(student, tuple(map(jnp.asarray, initial)), limited, watch, checkpoint)
        signals = np.asarray(student.signals(training.parameters), dtype=float)
    return DescentResult(signals, training, [TrainingRecord(**record) for record in training.records])
