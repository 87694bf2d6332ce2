r"""The regularised risk of a student's rows on given inputs, its slopes, and how far a point is from being a minimum.

The risk of weights ``W`` of shape (P, d) and of an intercept ``b`` is

.. math:: F(W, b) = \sum_\mu \ell\bigl(y_\mu, s(Z_\mu) + b\bigr) + \lambda\sum_i r(w_i), \qquad
   Z_\mu = W(X_\mu + p)^T/\sqrt d,

with positional encodings ``p`` of the tokens. Slopes of the loss in ``W`` are one product of the inputs with the slopes
in the fields of all samples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.risk.penalty_base import Penalty
from glassformer.risk.rows.student import Student

# Steps of Newton's method for the intercept, and the size of a step that ends it.
_INTERCEPT_STEPS, _INTERCEPT_ACCURACY = 20, 1e-12
# Relative rounding errors of a sum of losses.
_ROUNDING = 1e-13


class RiskPoint(NamedTuple):
    """The risk at some weights and intercept.

    Attributes:
        weights: shape (P, d).
        intercept: shape (outputs,).
        loss: sum of the losses of all samples.
        risk: loss and penalty.
        slope: derivative of the loss in the weights, shape (P, d).
        output_slope: derivative of the loss in the intercept, shape (outputs,).
    """

    weights: Array
    intercept: Array
    loss: float
    risk: float
    slope: Array
    output_slope: Array


@dataclass(frozen=True)
class EmpiricalRowRisk:
    """A regularised risk of rows on the first instance of a design.

    Attributes:
        student: prediction and loss.
        design: inputs, whose fields of any number of rows are linear in these.
        targets: labels as the loss takes them, shape (samples, entries).
        penalty: of the weights of each feature.
        strength: of the penalty.
        spectrum: eigenvalue of the covariance of every feature, shape (d,): the penalty is on the weights of features
            as they are, and ``W`` those of white features.
        encodings: positional encodings of the tokens, shape (L, d); None for none.
        has_intercept: whether an intercept is fitted.
    """

    student: Student
    design: Any
    targets: Array
    penalty: Penalty
    strength: float
    spectrum: Array
    encodings: Array | None = None
    has_intercept: bool = False

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the weights."""
        return self.student.rows, int(self.design.row_shape[-1])

    @property
    def samples(self) -> int:
        """Number of samples."""
        return len(self.targets)

    @cached_property
    def outputs(self) -> int:
        """Numbers that the student predicts."""
        return int(self.student.predictions(np.zeros((1, self.student.rows, self.student.tokens))).shape[1])

    @cached_property
    def risk_of_zero(self) -> float:
        """The risk of weights of zero, the unit of gaps."""
        loss, _, _ = self._losses(np.zeros((self.samples, self.student.rows, self.student.tokens)), self._no_intercept)
        return max(loss, np.finfo(float).tiny)

    @property
    def _no_intercept(self) -> Array:
        return np.zeros(self.outputs)

    def at_strength(self, strength: float) -> Self:
        """Return the same risk with another strength."""
        return replace(self, strength=strength)

    def fields(self, weights: Array) -> Array:
        """Return the fields of every sample, shape (samples, P, L)."""
        fields = self.design.forward(weights, 0)
        if self.encodings is None:
            return np.asarray(fields)
        return np.asarray(fields + self.mean_fields(weights))

    def mean_fields(self, weights: Array) -> Array:
        """Return the fields that positional encodings alone make, shape (P, L)."""
        if self.encodings is None:
            return np.zeros((len(weights), self.student.tokens))
        return np.asarray(weights @ self.encodings.T / np.sqrt(self.shape[1]))

    def point(self, weights: Array, intercept: Array | None = None) -> RiskPoint:
        """Return the risk and its slopes at some weights."""
        return self._point(weights, self.fields(weights), self._no_intercept if intercept is None else intercept)

    def with_best_intercept(self, point: RiskPoint) -> RiskPoint:
        """Return the point with the same weights and the intercept of least risk, which costs no product of inputs."""
        if not self.has_intercept:
            return point
        fields, intercept = self.fields(point.weights), point.intercept
        with jax_settings():
            y, z = jnp.asarray(self.targets), jnp.asarray(fields)
            expand = CachedJit(_intercept_expansion, student=self.student)
            loss, slope, curvature = (np.asarray(part) for part in expand(y, z, jnp.asarray(intercept)))
            for _ in range(_INTERCEPT_STEPS):
                # Shifts of all outputs of a softmax alike change nothing: the least step is taken.
                step = np.linalg.lstsq(curvature, slope, rcond=1e-12)[0]
                new = [np.asarray(part) for part in expand(y, z, jnp.asarray(intercept - step))]
                if not (np.all(np.isfinite(step)) and new[0] <= loss + _ROUNDING * abs(loss)):
                    break
                intercept, (loss, slope, curvature) = intercept - step, new
                if np.max(np.abs(step)) <= _INTERCEPT_ACCURACY * (1 + np.max(np.abs(intercept))):
                    break
        return self._point(point.weights, fields, intercept)

    def _point(self, weights: Array, fields: Array, intercept: Array) -> RiskPoint:
        loss, slopes, output_slope = self._losses(fields, intercept)
        slope = self.design.adjoint(slopes, 0)
        if self.encodings is not None:
            slope = slope + slopes.sum(axis=0) @ self.encodings / np.sqrt(self.shape[1])
        risk = loss + self.strength * self._penalty_value(weights)
        return RiskPoint(weights, intercept, loss, risk, slope, output_slope)

    def _losses(self, fields: Array, intercept: Array) -> tuple[float, Array, Array]:
        """Return the sum of the losses, its slopes in the fields and in the intercept."""
        with jax_settings():
            found = CachedJit(_loss_and_slopes, student=self.student)(
                jnp.asarray(self.targets), jnp.asarray(fields), jnp.asarray(intercept)
            )
            loss, slopes, output_slope = (np.asarray(part) for part in found)
        return float(loss), slopes, output_slope

    def _penalty_value(self, weights: Array) -> float:
        """Return the penalty of weights, without its strength."""
        return float(np.sum(self.penalty.value(weights / np.sqrt(self.spectrum))))

    def gap(self, point: RiskPoint) -> float:
        r"""Return how far a point is from a minimum, relative to the risk of zero.

        With slopes ``g`` of the loss it is :math:`\lambda r(W) + g\cdot W + (\lambda r)^*(-g)`, which is zero at
        stationary points alone. For a convex risk it is the duality gap, a bound on the excess risk at the best
        intercept; for ridge it is :math:`|\nabla F|^2/2\lambda`. A penalty that is a norm has a conjugate that is zero
        or infinite, and the minimum is looked for where the penalty is at most the risk of the point, as it is at the
        minimum. Without a penalty it is the length of the slopes times that of the weights, which bounds nothing.
        """
        if self.strength == 0:
            lengths = float(np.linalg.norm(point.slope)), float(np.linalg.norm(point.weights))
            return lengths[0] * max(lengths[1], 1.0) / self.risk_of_zero
        roots = np.sqrt(self.spectrum)
        own, pull = point.weights / roots, point.slope * roots
        if self.penalty.quadratic:
            square = self.strength * self.penalty.square
            return float(np.sum((pull + square * own) ** 2)) / (2 * square) / self.risk_of_zero
        conjugate = self.penalty.conjugate_bound(pull, self.strength, point.risk)
        penalty = self.strength * self._penalty_value(point.weights)
        return (penalty + float(np.sum(point.slope * point.weights)) + conjugate) / self.risk_of_zero

    def proximal(self, weights: Array, steps: Array) -> Array:
        """Return the proximal map of the penalty for steps of gradient descent of these lengths, shape (d,)."""
        roots = np.sqrt(self.spectrum)
        return np.asarray(roots * self.penalty.proximal(weights / roots, self.strength * steps / self.spectrum))

    def penalty_slope(self, weights: Array) -> Array:
        """Return the derivative of the penalty, where it has one, with its strength."""
        roots = np.sqrt(self.spectrum)
        return np.asarray(self.strength * self.penalty.slope(weights / roots) / roots)


def _loss_and_slopes(
    y: jax.Array, fields: jax.Array, intercept: jax.Array, student: Student
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the sum of the losses, the slopes in all fields, and the sum of those in the outputs."""

    def cost(y: jax.Array, fields: jax.Array, intercept: jax.Array) -> AnyArray:
        return student.loss.of_vectors(y, student.predict(fields) + intercept)

    expand = jax.vmap(jax.value_and_grad(cost, argnums=(1, 2)), in_axes=(0, 0, None))
    losses, (slopes, output_slopes) = expand(y, fields, intercept)
    return jnp.sum(losses), slopes, jnp.sum(output_slopes, axis=0)


def _intercept_expansion(
    y: jax.Array, fields: jax.Array, intercept: jax.Array, student: Student
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return the sum of the losses, and its first two derivatives in the intercept."""
    predictions = jax.vmap(student.predict)(fields)

    def total(shift: jax.Array) -> jax.Array:
        return jnp.sum(jax.vmap(student.loss.of_vectors)(y, predictions + shift))

    return total(intercept), jax.grad(total)(intercept), jax.hessian(total)(intercept)
