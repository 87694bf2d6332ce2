r"""Gradient descent on the parameters of a signal, several starts at once, and the signal on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from glassformer.core.checkpoints import Checkpoint
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources
from glassformer.learners.algorithms.training import Trained, train
from glassformer.models.trainable.base import Student
from glassformer.numerics.decompositions import singular_values
from glassformer.numerics.jax_settings import jax_settings

if TYPE_CHECKING:
    from glassformer.learners.gradient_descent import GradientDescent

# Gradients, moments, best and current parameters and temporaries of a step.
_COPIES = 8
# Steps of the shortest training; each takes three products with the inputs and the parameters of every start.
_FEWEST = 1000.0


class Snapshot(NamedTuple):
    r"""What the signals of all starts look like after some steps.

    Attributes:
        step: gradient steps taken.
        training_error: mean over samples of the squared residual, and over starts.
        error: mean over starts of the squared error of the signal over its number of rows or of entries, whichever the
            model's power counts; NaN without a teacher.
        averaged_error: the same of the mean over starts.
        nuclear_norm: mean over starts of the mean of ``singular_values``.
        singular_values: of the first start, in the student's units.
    """

    step: int
    training_error: float
    error: float
    averaged_error: float
    nuclear_norm: float
    singular_values: Array


class Descended(NamedTuple):
    """Signals of all starts, shape (starts, rows, columns), how training ended, and snapshots along the way."""

    signals: Array
    trained: Trained
    history: list[Snapshot]


def descend(
    student: Student,
    settings: GradientDescent,
    rng: np.random.Generator,
    starts: int = 1,
    teacher: Array | None = None,
    checkpoint: Checkpoint | None = None,
) -> Descended:
    r"""Train a student from several starts, in the precision of its data.

    Args:
        student: what is trained on what.
        settings: optimizer, learning rate, initialisation, steps allowed.
        rng: source of the initial parameters.
        starts: independent initialisations.
        teacher: the true signal, for the errors in the history.
        checkpoint: where to continue from and to save to.
    """
    entries = sum(float(np.prod(shape)) for shape in student.parameters)
    width = settings.student_width or 0
    name, value = ("starts", starts) if starts > width else ("student_width", width)
    work = _FEWEST * starts * 6.0 * (student.samples * float(np.prod(student.data[0].shape[1:])) + entries)
    memory = _COPIES * 8 * starts * entries
    require_resources(name, value, memory, "train fewer or smaller students", work, "students")
    kind = student.data[0].dtype
    initial = [(settings.size * rng.standard_normal((starts, *shape))).astype(kind) for shape in student.parameters]

    def far(signal: Array) -> float:
        return np.nan if teacher is None else student.distance(signal, teacher)

    def watch(step: int, parameters: Any, errors: Array) -> dict[str, Any]:
        signals = np.asarray(student.signals(parameters), dtype=float)
        values = singular_values(signals) / student.unit
        training = 4 * float(np.mean(errors)) / student.samples
        away = float(np.mean([far(signal) for signal in signals]))
        shot = Snapshot(step, training, away, far(signals.mean(axis=0)), float(values.mean()), values[0])
        return shot._asdict()

    with jax_settings(kind == np.float64):
        data = tuple(map(jnp.asarray, student.data))
        begin = tuple(map(jnp.asarray, initial))
        trained = train(
            student.loss,
            begin,
            data,
            student.power,
            settings,
            student.rates,
            watch,
            checkpoint,
            student.schedule,
        )
        signals = np.asarray(student.signals(trained.parameters), dtype=float)
    return Descended(signals, trained, [Snapshot(**record) for record in trained.records])
