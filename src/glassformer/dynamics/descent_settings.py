"""Settings of gradient descent on samples that are used again, as its mean-field equations take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.checks import is_number, is_whole, real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import (
    boolean,
    check_settings,
    checked_field,
    decay_rate,
    positive_integer,
    unit_interval,
)

# Smallest number of base points of a set. Each is used with both signs of the fields of teacher and of student.
_FEWEST, IMAGES = 32, 4
# Smallest eigenvalue of a power matrix that counts as zero.
_ROUNDING = 1e-9


class DescentStart(NamedTuple):
    r"""Overlap :math:`m = WW^{*T}/d`, shape (P, P*), and power :math:`C = WW^T/d`, shape (P, P), of the first weights.

    Example:
        >>> DescentStart.of_cosine(1, 1, 0.3)
        DescentStart(overlap=array([[0.3]]), power=array([[1.]]))
    """

    overlap: Array
    power: Array

    @classmethod
    def of_cosine(cls, rows: int, teachers: int, cosine: float = 0.0, size: float = 1.0) -> DescentStart:
        """Return a start with orthogonal rows of power ``size`` squared and this cosine with the teacher's rows.

        Args:
            rows: of the student.
            teachers: rows of the teacher; further rows of the student are orthogonal to them.
            cosine: in [-1, 1].
            size: standard deviation of the weights.
        """
        if not (is_number(cosine) and abs(cosine) <= 1):
            raise ParameterError("overlap", cosine, "a cosine in [-1, 1]")
        return cls(size * cosine * np.eye(rows, teachers), size**2 * np.eye(rows))

    @classmethod
    def of_weights(cls, weights: Array, teacher: Array) -> DescentStart:
        """Return overlap and power of given weights, shape (P, d), with a teacher, shape (P*, d), of unit power."""
        weights, teacher = real_numbers("weights", weights), real_numbers("teacher", teacher)
        return cls(weights @ teacher.T / weights.shape[1], weights @ weights.T / weights.shape[1])

    def checked(self, rows: int, teachers: int) -> DescentStart:
        """Return the start as arrays.

        Raises:
            ParameterError: shapes are wrong, or no weights have this overlap and power.
        """
        overlap, power = (np.atleast_2d(real_numbers("start", part)) for part in self)
        if overlap.shape != (rows, teachers) or power.shape != (rows, rows):
            shapes = f"overlap of shape {(rows, teachers)} and power of shape {(rows, rows)}"
            raise ParameterError("start", f"{overlap.shape}, {power.shape}", shapes)
        least = np.linalg.eigvalsh(power - overlap @ overlap.T)[0]
        if not np.allclose(power, power.T) or least < -_ROUNDING * max(1.0, float(np.trace(power))):
            raise ParameterError("start", self, "a power C with C - m m^T positive semi-definite")
        return DescentStart(overlap, power)


@dataclass(frozen=True)
class DescentSettings:
    r"""Gradient descent, full-batch or on batches of the same samples.

    Every step descends the **sum** of the losses of the samples in the batch, with fields
    :math:`Z_\mu = WX_\mu^T/\sqrt d`, and the penalty:

    .. math::
       v^{t+1} = \mathrm{momentum}\;v^t - \eta_t\Bigl(\sum_{\mu\in B_t}\nabla_W\ell(y_\mu, Z_\mu) + \lambda W^t\Bigr),
       \qquad W^{t+1} = W^t + v^{t+1}.

    As ``d`` grows, :math:`\eta`, :math:`\lambda`, :math:`\alpha = n/d`, the share of the samples in a batch, and the
    number of steps are held fixed. In other conventions: a step :math:`\eta'` on the mean loss of ``n`` samples is
    :math:`\eta = \eta'/n`, on the mean of a batch of ``b`` samples :math:`\eta = \eta'/b`, and a step :math:`\eta'` on
    the squared error over ``d``, that of :meth:`SGD.published <glassformer.learners.sgd.SGD.published>`, is
    :math:`\eta = 2\eta'/d` on half the squared error, with :math:`\lambda` half the decay.

    With Nesterov's momentum :math:`W^{t+1} = W^t + \mathrm{momentum}\;v^{t+1} - \eta_t(\ldots)^t`: weights are those at
    which gradients are taken.

    Args:
        steps: number of steps.
        learning_rate: :math:`\eta`: a number, one number per step, or a function of the step, which begins at 0.
        batch: share of the samples in a batch, in (0, 1]. A sample is in a batch with this probability, independently.
        repeats: number of consecutive steps on the same batch.
        momentum: in [0, 1).
        nesterov: whether momentum is Nesterov's.
        weight_decay: :math:`\lambda`.
        trajectories: number of trajectories of all sets, a power of two.
        sets: number of independent sets of trajectories, whose spread gives the errors.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> DescentSettings(steps=3, learning_rate=lambda t: 1 / (1 + t)).rates.round(2).tolist()
        [1.0, 0.5, 0.33]
    """

    steps: int = checked_field(50, positive_integer)
    learning_rate: float | Sequence[float] | Callable[[int], float] = 1.0
    batch: float = 1.0
    repeats: int = checked_field(1, positive_integer)
    momentum: float = checked_field(0.0, unit_interval)
    nesterov: bool = False
    weight_decay: float = checked_field(0.0, decay_rate)
    trajectories: int = 32_768
    sets: int = 8

    def __post_init__(self) -> None:
        check_settings(self)
        if not (is_number(self.batch) and 0 < self.batch <= 1):
            raise ParameterError("batch", self.batch, "a share of the samples in (0, 1]")
        if not is_whole(self.sets, 2):
            raise ParameterError("sets", self.sets, "an integer >= 2")
        base = self.trajectories // (IMAGES * self.sets) if is_whole(self.trajectories, 1) else 0
        if base < _FEWEST or base & (base - 1) or base * IMAGES * self.sets != self.trajectories:
            allowed = f"{IMAGES * self.sets} times a power of two that is at least {_FEWEST}, for {self.sets} sets"
            raise ParameterError("trajectories", self.trajectories, allowed)
        boolean("nesterov", self.nesterov)
        if self.nesterov and self.momentum == 0:
            raise ParameterError("momentum", self.momentum, "a number > 0 with nesterov")
        # One number for all steps needs no array: there may be more steps than fit into memory.
        if not is_number(self.learning_rate):
            _ = self.rates
        elif not 0 <= self.learning_rate < np.inf:
            raise ParameterError("learning_rate", self.learning_rate, "numbers >= 0")

    @property
    def base_points(self) -> int:
        """Points of a set; trajectories are four times as many."""
        return self.trajectories // (IMAGES * self.sets)

    @property
    def rates(self) -> Array:
        """Learning rate of every step, shape (steps,)."""
        given: Any = self.learning_rate
        if callable(given):
            given = [self._scheduled(given, step) for step in range(self.steps)]
        rates = np.atleast_1d(real_numbers("learning_rate", given))
        if rates.ndim != 1 or len(rates) not in (1, self.steps):
            raise ParameterError(
                "learning_rate", f"<{rates.size} numbers>", f"one number, or {self.steps}, one per step"
            )
        if np.any(rates < 0):
            raise ParameterError("learning_rate", float(np.min(rates)), "numbers >= 0")
        return np.broadcast_to(rates, self.steps).astype(float)

    def _scheduled(self, schedule: Callable[[int], float], step: int) -> float:
        """Return the learning rate that a function has for a step."""
        try:
            return schedule(step)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}"
            allowed = f"a function of the step, from 0 to {self.steps - 1}; at step {step} it raised {raised}"
            raise ParameterError("learning_rate", getattr(schedule, "__name__", schedule), allowed) from error

    @property
    def batches(self) -> NDArray[np.intp]:
        """Number of the batch of every step, shape (steps,)."""
        if self.batch == 1:
            return np.zeros(self.steps, dtype=np.intp)
        return np.arange(self.steps, dtype=np.intp) // self.repeats
