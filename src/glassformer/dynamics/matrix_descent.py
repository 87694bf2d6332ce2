r"""Gradient descent on the parameters of a matrix, step by step, on samples of any design.

The student's signal :math:`S(W)` has the fields :math:`\phi_\mu(S)`. With the training error :math:`\ell` of a sample,

.. math::
   e_\mu = \frac{\partial\ell}{\partial\phi_\mu}, \qquad
   G = \frac{\partial}{\partial S}\sum_\mu\ell_\mu, \qquad
   \nabla_W = \Bigl(\frac{\partial S}{\partial W}\Bigr)^TG + wW,

and momentum and Adam act on the gradient of the parameters alone. Samples are seen through products of a design: those
of data, or those that stand for infinitely many (:mod:`~glassformer.dynamics.mean_field_samples`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer.core.estimate import Array
from glassformer.dynamics.mean_field_samples import Samples
from glassformer.models.base import Model
from glassformer.models.trainable.base import BLOCK, FieldError, Schedule, Student
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

# Power of a signal, relative to that of the teacher, above which descent has diverged.
DIVERGED = 1e6
# Numbers of samples are padded to as many leading binary digits: by a quarter at most.
_SHARE = 3

Watch = Callable[[int, Array, Array], None]
"""``watch(step, signals, errors)`` records the signals of all starts and their training errors, summed over samples."""


class Rule(NamedTuple):
    """How the parameters follow from their gradients.

    Attributes:
        optimizer: ``"sgd"`` or ``"adam"``.
        learning_rate: of all steps.
        momentum: in [0, 1), for ``"sgd"``.
        weight_decay: :math:`w`.
        steps: number of steps.
    """

    optimizer: str
    learning_rate: float
    momentum: float
    weight_decay: float
    steps: int

    @property
    def transformation(self) -> optax.GradientTransformation:
        """The optimizer."""
        return optimizer_of(self.optimizer, self.learning_rate, self.momentum)


def optimizer_of(name: str, rate: float, momentum: float) -> optax.GradientTransformation:
    """Return an optimizer by its name."""
    return optax.adam(rate) if name == "adam" else optax.sgd(rate, momentum=momentum or None)


def student_of(model: Model, samples: Samples, width: int) -> Student:
    """Return the student of a model at a size on these samples."""
    design = samples.design
    kind: Any = model.inputs_at(design.signal_shape[1])[0]
    # Training sees inputs through the design alone.
    return model.parametrisation.student(kind(np.zeros((1, *design.input_shape))), samples.labels, width)


def descend_matrix(samples: Samples, student: Student, parameters: Any, rule: Rule, watch: Watch) -> bool:
    """Take all steps from given parameters; return whether the signals stayed finite.

    Args:
        samples: inputs and labels.
        student: of :func:`student_of`.
        parameters: of all starts, with the starts along the first axes.
        rule: how the parameters follow from their gradients.
        watch: called at the start and after every step.
    """
    schedule = student.schedule or Schedule(lambda data, steps: data, 0)
    data: Any = student.data
    count = len(data[1])
    targets = _padded(np.asarray(data[1], dtype=float))
    root = np.sqrt(samples.weight)
    score = CachedJit(_errors_and_scores, error=student.error)
    update = CachedJit(_update, signals=student.signals, optimizer=rule.transformation, decay=rule.weight_decay)
    with jax_settings():
        parameters = tuple(jnp.asarray(part, dtype=float) for part in parameters)
        state = rule.transformation.init(parameters)
        signals = np.asarray(CachedJit(student.signals)(parameters))
        largest = DIVERGED * max(1.0, float(np.max(signals**2)))
        for step in range(rule.steps + 1):
            fields = np.stack([_padded(samples.design.forward(one, 0)) for one in signals]) / root
            numbers = schedule.at(data, step // BLOCK * BLOCK)[2:]
            errors, scores = score(fields, targets, *(np.asarray(one, dtype=float) for one in numbers))
            watch(step, signals, samples.weight * np.asarray(errors)[:, :count].sum(axis=1))
            if step == rule.steps:
                break
            slopes = [
                samples.design.metric * samples.design.adjoint(root * one, 0) for one in np.asarray(scores)[:, :count]
            ]
            parameters, state, signals = update(parameters, state, np.stack(slopes))
            signals = np.asarray(signals)
            if not np.max(np.abs(signals)) ** 2 < largest:
                return False
    return True


def _errors_and_scores(
    fields: jax.Array, targets: jax.Array, *numbers: jax.Array, error: FieldError
) -> tuple[jax.Array, jax.Array]:
    """Return training errors of all samples, shape (starts, samples), and their derivatives in the fields."""

    def of_sample(field: jax.Array, target: jax.Array) -> jax.Array:
        return error(field[None, None], target[None], *numbers)[0]

    values, slopes = jax.vmap(lambda own: jax.vmap(jax.value_and_grad(of_sample))(own, targets))(fields)
    return values, slopes


def _padded(rows: Array) -> Array:
    """Return rows followed by zeros up to one of few numbers of rows, so that samples share executables."""
    unit = 1 << max(len(rows).bit_length() - _SHARE, 0)
    return np.pad(rows, [(0, -len(rows) % unit), *[(0, 0)] * (rows.ndim - 1)])


def _update(
    parameters: Any, state: Any, slopes: jax.Array, signals: Any, optimizer: optax.GradientTransformation, decay: float
) -> tuple[Any, Any, jax.Array]:
    """Return parameters and state of the optimizer after a step, and the signals."""
    (gradient,) = jax.vjp(signals, parameters)[1](slopes)
    gradient = jax.tree.map(lambda slope, part: slope + decay * part, gradient, parameters)
    change, state = optimizer.update(gradient, state, parameters)
    parameters = optax.apply_updates(parameters, change)
    return parameters, state, signals(parameters)
