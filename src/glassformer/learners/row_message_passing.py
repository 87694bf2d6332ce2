r"""Proximal message passing for the rows of any student: its fixed point is a minimiser of the regularised risk.

.. math::
   \omega &= WX^T/\sqrt d - Vf_{old}, \qquad f = V^{-1}(\hat Z - \omega), \qquad
   \hat Z = \mathrm{argmin}_Z\;\tfrac12\mathrm{tr}\,(Z-\omega)^TV^{-1}(Z-\omega) + \ell(y, Z),\\
   \hat V &= -\alpha\,\Bigl\langle\sum_l\partial_{\omega_l}f_l\Bigr\rangle, \qquad b = \hat VW + fX/\sqrt d,\\
   w_i &= \mathrm{argmin}_w\;\tfrac12w^T\hat Vw - b_i^Tw + \lambda r(w), \qquad V = \langle dw/db\rangle.

``V`` and :math:`\hat V` are matrices of shape (P, P), and :math:`Vf_{old}` is the Onsager term. At a fixed point
:math:`f` is minus the slope of the loss in the fields of ``W``, so that ``W`` is a stationary point of the risk for any
inputs. On independent inputs every step has the errors of
:func:`~glassformer.risk.rows.trajectory.row_risk_trajectory`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.learners.data_set import DataSet
from glassformer.learners.empirical_row_risk import EmpiricalRowRisk
from glassformer.learners.proximal_message_passing import UndampedState, UndampedStep, take_undamped_steps
from glassformer.learners.row_fit import RowFit, row_risk_on, weights_at
from glassformer.models.base import Model
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.small_matrices import cholesky, triangular_inverse
from glassformer.risk.rows.comparison import match_rows, row_products
from glassformer.risk.rows.proximal_map import proximal_map
from glassformer.risk.rows.row_risk import RowRisk
from glassformer.risk.rows.student import Student
from glassformer.risk.rows.trajectory import first_state, require_steps
from glassformer.risk.rows.weights import weight_estimate

if TYPE_CHECKING:
    from glassformer.models.base import Model

# Share of the curvatures that a negative one may be by rounding.
_NEGATIVE = 1e-9
# Steps of Newton's method for the intercept, at most, and the change that ends them.
_INTERCEPT_STEPS, _STILL = 30, 1e-13


@dataclass(frozen=True)
class RowMessages(UndampedState):
    """One data set between two steps.

    Attributes:
        weights: ``W``, shape (P, d).
        susceptibility: ``V``, shape (P, P).
        score: ``f``, shape (samples, P, L).
        intercept: added to the outputs.
    """

    weights: Array
    susceptibility: Array
    score: Array
    intercept: Array


@dataclass(frozen=True)
class RowProximalStep(UndampedStep):
    """Undamped steps of message passing for rows.

    Attributes:
        risk: risk whose minimiser is the fixed point; without positional encodings.
        weights: before the first step, independent of the inputs.
        susceptibility: before the first step.
    """

    risk: EmpiricalRowRisk
    weights: Array
    susceptibility: Array

    def start(self, attempt: int) -> RowMessages:
        student = self.risk.student
        score = np.zeros((self.risk.samples, student.rows, student.tokens))
        return RowMessages(self.weights, self.susceptibility, score, np.zeros(self.risk.outputs))

    @cached_property
    def _trials(self) -> Array:
        """Normal starts of the proximal map of a loss that may have several minima, as in theory."""
        student = self.risk.student
        return np.random.default_rng(0).standard_normal((self.risk.samples, student.rows, student.tokens))

    def advance(self, state: RowMessages) -> tuple[RowMessages, float]:
        """Return the next state, with a constant quality, so that the loop returns the last state."""
        risk, old = self.risk, state.susceptibility
        omega = risk.fields(state.weights) - old @ state.score
        score, slope, intercept = self._scores(omega, old, state.intercept)
        v_hat = -risk.samples / risk.shape[1] * 0.5 * (slope + slope.T)
        # Shifts of all outputs of a softmax alike change no label, and have no curvature.
        positive = np.all(np.isfinite(v_hat)) and np.linalg.eigvalsh(v_hat)[0] > -_NEGATIVE * np.trace(np.abs(v_hat))
        if not (positive and np.all(np.isfinite(score))):
            return replace(state, step_size=np.nan), 0.0
        field = v_hat @ state.weights + risk.design.adjoint(score, 0)
        weights, susceptibility = weight_estimate(risk.penalty, field, v_hat, risk.strength, risk.spectrum)
        moved = float(np.sqrt(np.mean((weights - state.weights) ** 2)))
        step_size = max(moved, float(np.max(np.abs(susceptibility - old))))
        return RowMessages(weights, susceptibility, score, intercept, step_size=step_size, first=False), 1.0

    def _scores(self, omega: Array, susceptibility: Array, intercept: Array) -> tuple[Array, Array, Array]:
        """Return the scores of all samples, their mean slope, and the intercept of least loss at these fields."""
        student = self.risk.student
        with jax_settings():
            scores = CachedJit(_scores, student=student, convex=student.is_convex)
            fixed = [jnp.asarray(part) for part in (self.risk.targets, omega, susceptibility, self._trials)]
            for _ in range(_INTERCEPT_STEPS):
                found = [np.asarray(part) for part in scores(*fixed, jnp.asarray(intercept))]
                score, slope, output_slope, output_curvature = found
                if not (self.risk.has_intercept and np.all(np.isfinite(output_curvature))):
                    break
                # Shifts of all outputs of a softmax alike change nothing: the least step is taken.
                step = np.linalg.lstsq(output_curvature, output_slope, rcond=_NEGATIVE)[0]
                size = float(np.max(np.abs(step)))
                if size <= _STILL * (1 + np.max(np.abs(intercept))):
                    break
                intercept = intercept - step / max(size, 1.0)
        return score, slope, intercept


def _scores(
    y: jax.Array,
    omega: jax.Array,
    susceptibility: jax.Array,
    trials: jax.Array,
    intercept: jax.Array,
    student: Student,
    convex: bool,
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return the scores of all samples, their mean slope, and derivatives of the mean minimum in the intercept."""
    lower = cholesky(susceptibility)
    starts = [jnp.zeros_like(omega)] if convex else [jnp.zeros_like(omega), trials, -trials]
    found = proximal_map(student, y, omega, lower, triangular_inverse(lower), intercept, starts)

    def cost(outputs: jax.Array, fields: jax.Array, y: jax.Array) -> AnyArray:
        return student.loss.of_vectors(y, student.predict(fields) + outputs)

    def output_derivatives(fields: jax.Array, y: jax.Array, slopes: jax.Array) -> tuple[jax.Array, jax.Array]:
        own = jax.hessian(cost)(intercept, fields, y)
        mixed = jax.jacfwd(jax.grad(cost), argnums=1)(intercept, fields, y)
        # Covariance of the fields around their minimum, (1/V + loss'')^-1 = V + V D V.
        seen = jnp.einsum("okl,kj->ojl", mixed, susceptibility)
        change = jnp.einsum("ojl,pjl->op", seen, mixed) + jnp.einsum("okl,klmj,pjm->op", seen, slopes, seen)
        return jax.grad(cost)(intercept, fields, y), own - change

    slope = jnp.einsum("nkllj->kj", found.slopes) / len(omega)
    derivatives = jax.vmap(output_derivatives)(found.fitted, y, found.slopes)
    return found.score, slope, jnp.mean(derivatives[0], axis=0), jnp.mean(derivatives[1], axis=0)


def pass_row_messages(
    risk: RowRisk, strength: float, model: Model, data: DataSet, steps: int, overlap: float | None = None
) -> RowFit:
    """Return the rows after undamped steps of message passing, with the errors after each in the history.

    Args:
        risk: loss, penalty, student.
        strength: of the penalty.
        model: that the labels are believed to come from.
        data: inputs and labels.
        steps: number of steps, fewer where the rows no longer change.
        overlap: with the teacher before the first step, see
            :func:`~glassformer.risk.rows.trajectory.row_risk_trajectory`.

    Raises:
        ParameterError: a setting is out of range.
        IncompatibleError: the steps have no theory, or a start with an overlap needs the teacher, which is not known.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model, rng = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1), np.random.default_rng(0)
        >>> size = model.at_size(50)
        >>> design = size.design.sample(150, size.input_shape, rng)
        >>> labels = model.channel.sample(design.forward(rng.standard_normal((1, 50)), 0), rng)
        >>> found = pass_row_messages(RowRisk("logistic"), 0.5, model, DataSet(design, labels), 100)
        >>> str(found.status)
        'converged'
    """
    require_steps(risk)
    own, student = row_risk_on(replace(risk, strength=strength), model, data)
    state = first_state(risk.problem(model, data.design.sample_ratio * float(model.prior.degrees), strength), overlap)
    weights = np.zeros(own.shape)
    if np.any(state.power):
        weights = weights_at(state.overlap, state.power, model, data, data.rng)

    def measure(messages: RowMessages) -> dict[str, Any]:
        if data.teacher is None:
            return {}
        own_rows, true_rows = messages.weights, data.teacher
        power, cross = row_products(model, own_rows, own_rows), row_products(model, own_rows, true_rows)
        match = match_rows(model, student, power, cross, np.mean(true_rows**2, axis=1))
        return {"error": match.error, "cosine": match.cosine}

    last, report = take_undamped_steps(RowProximalStep(own, weights, state.susceptibility), steps, measure)
    point = own.point(last.weights, last.intercept)
    dimension = own.shape[1] / float(model.prior.degrees)
    return RowFit(
        point.weights[None],
        training_loss=point.loss / own.samples,
        free_energy=point.risk / dimension,
        **report,
        student=student,
        intercept=point.intercept,
        means=own.mean_fields(point.weights),
        energies=np.array([point.risk / dimension]),
        notes=[],
    )
