r"""Mean-field equations of gradient descent that sees its samples again: order parameters after every step.

Weights ``W`` of a student, shape (P, d), descend :math:`\sum_\mu S_\mu\ell(y_\mu, Z_\mu) + \frac\lambda2\|W\|^2` on
:math:`n = \alpha d` samples with fields :math:`Z_\mu = WX_\mu^T/\sqrt d`. In the limit of large ``d`` the gradient of
the samples at step ``t``, :math:`b^t = \sum_\mu S_\mu^tg_\mu^tX_\mu/\sqrt d` with :math:`g = \partial\ell/\partial Z`,
and the fields of a sample have the law

.. math::
   b^t &= u^t + \sum_{s\le t}\Gamma(t,s)W^s + \hat M^tW^*, \qquad
   Z^t = \zeta^t + \sum_{s<t}R(t,s)S^sg^s, \\
   K(t,s) &= \alpha\,E\sum_lS^tg_l^t\,S^sg_l^{sT}, \qquad
   \Gamma(t,s) = \alpha\,E\sum_l\frac{\partial S^tg_l^t}{\partial\zeta_l^s}, \qquad
   \hat M^t = \alpha\,E\,S^tg^tZ^{*T} - \sum_{s\le t}\Gamma(t,s)m^s.

Here ``u`` is Gaussian with covariance ``K``, the fields :math:`\zeta` of a new sample are Gaussian with covariance
:math:`C(t,s) = W^tW^{sT}/d` and overlap :math:`m^t = W^tW^{*T}/d`, and :math:`R(t,s) = \partial W^t/\partial u^s`. Step
``t`` needs only averages over earlier steps: one pass over time solves the equations.

**Sampling.** Averages are means over trajectories :math:`(Z^*, y, \zeta, S)`. The weights are kept in coordinates
:math:`W^t = m^tW^* + \sum_jF(t,j)N^j`, where the rows of the :math:`N^j` are independent Gaussian vectors:
:math:`N^0` belongs to the start and :math:`N^{j+1}` to the part of :math:`u^j` that is independent of earlier ones.
The field is then :math:`\zeta^t = m^tZ^* + \sum_jF(t,j)\nu^j` with standard normal :math:`\nu^j`. Responses come from
one tangent per trajectory with random signs :math:`\epsilon^s`, so that memory grows like ``T`` and work like ``T^2``:

.. math::
   \delta^t = S^t\ell''\Bigl(\epsilon^t + \sum_{s<t}R(t,s)\delta^s\Bigr), \qquad
   \Gamma(t,s) = \alpha\,E\,\delta^t\epsilon^{sT}.

Source: F. Mignacco et al., arXiv:2006.06098; M. Celentano, C. Cheng, A. Montanari, arXiv:2112.07572; C. Gerbelot et
al., arXiv:2210.06591.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.scalarize import scalarize
from glassformer.risk.rows.student import Student

# Earlier steps that are summed over in one product (16 to 64 take the same time).
_BLOCK = 16
# Share of its variance below which a direction of the gradient's noise is a combination of earlier ones: rounding.
_DEPENDENT = 1e-10
# Power of a row above which descent has diverged; the teacher's rows have power one.
DIVERGED = 1e6
# Second moments of noise are made exact where there are this many points per dimension; products of fewer points would
# no longer be close to independent (a convention).
_PER_DIMENSION = 2


class Trajectories(NamedTuple):
    """Random numbers of one set of trajectories: of base points, each used with both signs of true and own fields.

    Attributes:
        true: fields of the teacher, shape (P*, L, base).
        labels: as the loss takes them, for both signs of the true fields, shape (entries, 2, base).
        noise: standard normal numbers, shape (steps + 2, P, L, base): of the start and of every gradient.
        signs: of the tangents, shape (steps + 1, P, L, 2, 2, base).
        masks: one for samples in a batch, zero for others, shape (batches, 2, base).
    """

    true: Array
    labels: Array
    noise: Array
    signs: Array
    masks: Array


class StepSettings(NamedTuple):
    """Numbers that the equations depend on.

    Attributes:
        alpha: samples over dimension.
        rates: learning rate of every step, shape (steps,).
        batches: number of the batch of every step, shape (steps,).
        momentum: in [0, 1).
        nesterov: 1 for Nesterov's momentum, 0 for heavy ball.
        decay: weight decay.
    """

    alpha: Any
    rates: Any
    batches: Any
    momentum: Any
    nesterov: Any
    decay: Any


class DescentMoments(NamedTuple):
    r"""Order parameters of one set of trajectories before the first step and after every step; NaN after divergence.

    Attributes:
        overlap: :math:`m^t`, shape (steps + 1, P, P*).
        coordinates: :math:`(m^t, F(t,0), F(t,1), \ldots)`, shape (steps + 1, P, P* + P (steps + 1)).
        training_loss: mean over samples, shape (steps + 1,).
        reached: number of the last step that was computed.
    """

    overlap: Array
    coordinates: Array
    training_loss: Array
    reached: Array


def draw_trajectories(
    model: Any, student: Student, steps: int, share: float, batches: int, base: int, sets: int, number: int
) -> Trajectories:
    """Return the random numbers of set ``number`` of ``sets``, with exact second moments where points suffice.

    Args:
        model: of the teacher.
        student: its rows and tokens.
        steps: number of steps.
        share: of the samples in a batch.
        batches: number of batches.
        base: points, a power of two; trajectories are four times as many.
        sets: number of sets.
        number: of this set.
    """
    channel, rng = model.channel, np.random.default_rng([7, number])
    shape = (channel.rows, channel.columns)
    size, rows, tokens = int(np.prod(shape)), student.rows, student.tokens
    normal = _whiten(normal_points(size + channel.sources, base, sets)[number])
    true, source = normal[:, :size].reshape(-1, *shape), normal[:, size:]
    both = np.concatenate([true, -true])
    drawn = channel.label_from(both, np.concatenate([source, -source])) if channel.sources else None
    if drawn is None:
        drawn = channel.draw_labels(both, rng)
    noise = _whiten(rng.standard_normal((base, (steps + 2) * rows * tokens)))
    # A batch holds the same share of every set, and opposite points are in it at opposite times.
    ranks = (rng.permuted(np.tile(np.arange(base), (batches, 1)), axis=1) + rng.random((batches, 1))) / base
    ranks = np.stack([ranks, 1 - ranks], axis=1)
    return Trajectories(
        np.moveaxis(true, 0, -1),
        np.moveaxis(student.targets(drawn).reshape(2, base, -1), -1, 0),
        np.ascontiguousarray(noise.T).reshape(steps + 2, rows, tokens, base),
        _signs((steps + 1) * rows * tokens, 4 * base, rng).reshape(steps + 1, rows, tokens, 2, 2, base),
        np.asarray(ranks < share, dtype=float),
    )


def _whiten(normal: Array) -> Array:
    """Return points, shape (n, dimensions), whose second moments are those of independent standard normal numbers."""
    count, dimensions = normal.shape
    if count < _PER_DIMENSION * dimensions:
        return normal
    lower = np.linalg.cholesky(normal.T @ normal / count)
    return np.asarray(np.linalg.solve(lower, normal.T).T)


def _signs(dimensions: int, count: int, rng: np.random.Generator) -> Array:
    """Return random signs, shape (dimensions, count): rows of a Hadamard matrix, orthogonal, where it has enough."""
    if dimensions >= count:
        return (2 * rng.integers(0, 2, (dimensions, count)) - 1).astype(np.int8)
    rows, columns = (rng.permutation(count)[:number] for number in (dimensions, count))
    return (1 - 2 * (np.bitwise_count(rows[:, None] & columns) & 1).astype(np.int8)).astype(np.int8)


def descent_moments(
    overlap: Any, root: Any, settings: StepSettings, data: Trajectories, student: Student
) -> DescentMoments:
    """Return the order parameters of one set of trajectories; JAX can trace it.

    Args:
        overlap: of the start, shape (P, P*).
        root: square root of the start's power that its overlap does not explain, shape (P, P).
        settings: of the steps.
        data: random numbers.
        student: loss of label and fields.
    """
    rows, teachers = overlap.shape
    tokens, base = data.true.shape[1:]
    count, steps = 4 * base, len(settings.rates)
    blocks = -(-(steps + 1) // _BLOCK)
    padded = blocks * _BLOCK
    width = padded * rows
    # Noise of the start, then of the gradients, a whole number of blocks of each.
    start_noise = data.noise[0].reshape(rows, -1)
    padding = ((0, padded - steps - 1), (0, 0), (0, 0))
    noise = jnp.pad(data.noise[1:].reshape(steps + 1, rows, -1), padding)
    signs = jnp.pad(data.signs.reshape(steps + 1, rows, -1), padding).astype(float)
    masks = data.masks[:, :, None, :]
    labels = jnp.broadcast_to(data.labels[:, :, None, :], (*data.labels.shape[:2], 2, base)).reshape(-1, count)
    flips = jnp.array([1.0, -1.0])
    true = (flips[:, None, None] * data.true[:, :, None, None, :] * jnp.ones((2, 1))).reshape(teachers, -1)
    shape = (rows, tokens, count)

    def expansion(y: Any, fields: Any, passed: Any, own: Any) -> Any:
        """Return loss and slope of one sample, and the changes of its slope with two changes of its fields."""
        gradient = jax.grad(student.cost, argnums=1)
        slope, first = jax.jvp(lambda z: gradient(y, z), (fields,), (passed,))
        second = jax.jvp(lambda z: gradient(y, z), (fields,), (own,))[1]
        return student.cost(y, fields), slope, first, second

    expand = jax.vmap(scalarize(expansion), in_axes=-1, out_axes=-1)

    def past(coefficients: Any, history: Any, until: Any) -> Any:
        """Return the sum over earlier steps of coefficients, shape (P, T P), times a history, shape (T, P, n)."""

        def add(block: Any, total: Any) -> Any:
            part = jax.lax.dynamic_slice_in_dim(history, block * _BLOCK, _BLOCK).reshape(_BLOCK * rows, -1)
            own = jax.lax.dynamic_slice_in_dim(coefficients, block * _BLOCK * rows, _BLOCK * rows, axis=1)
            return total + own @ part

        zero = jnp.zeros((rows, history.shape[-1]))
        return jax.lax.fori_loop(0, (until + _BLOCK - 1) // _BLOCK, add, zero)

    def correlation(now: Any, history: Any, until: Any) -> Any:
        """Return products of a quantity, shape (P, n), with a history, shape (T, P, n), as a matrix (P, T P)."""

        def add(block: Any, total: Any) -> Any:
            part = jax.lax.dynamic_slice_in_dim(history, block * _BLOCK, _BLOCK).reshape(_BLOCK * rows, -1)
            return jax.lax.dynamic_update_slice_in_dim(total, part @ now.T, block * _BLOCK * rows, axis=0)

        return jax.lax.fori_loop(0, (until + _BLOCK - 1) // _BLOCK, add, jnp.zeros((width, rows))).T

    def running(carry: Any) -> Any:
        return (carry["step"] <= steps) & carry["finite"]

    def advance(carry: Any) -> Any:
        t = carry["step"]
        weights, response = carry["weights"], carry["response"]
        own, memory = weights[t], response[t].reshape(rows, width)
        # Fields of all trajectories, and responses of their tangents.
        free = past(own[:, teachers + rows :], noise, t) + own[:, teachers : teachers + rows] @ start_noise
        explained = jnp.einsum("pk,kli->pli", own[:, :teachers], data.true)
        zeta = (
            flips[:, None, None] * explained[:, :, None, None, :]
            + flips[:, None] * free.reshape(rows, tokens, base)[:, :, None, None, :]
        )
        fields = zeta.reshape(shape) + past(memory, carry["gradients"], t).reshape(shape)
        passed = past(memory, carry["tangents"], t).reshape(shape)
        batch = settings.batches[jnp.minimum(t, steps - 1)]
        inside = jnp.broadcast_to(masks[batch], (2, 2, base)).reshape(count)
        losses, *changes = expand(labels, fields, passed, signs[t].reshape(shape))
        gradient, through_past, direct = ((inside * part).reshape(rows, -1) for part in changes)
        gradients = carry["gradients"].at[t].set(gradient)
        tangents = carry["tangents"].at[t].set(through_past + direct)
        # Averages over trajectories.
        scale = settings.alpha / count
        covariance = scale * correlation(gradient, gradients, t + 1)
        # The sign of a step is independent of what earlier steps pass on.
        gamma = scale * correlation(through_past, signs, t)
        earlier = jnp.repeat(jnp.arange(padded) < t, rows)
        local = scale * direct @ signs[t].T
        gamma = jax.lax.dynamic_update_slice_in_dim(jnp.where(earlier, gamma, 0.0), local, t * rows, axis=1)
        drive = scale * gradient @ true.T
        # The gradient in the coordinates of the weights.
        factor, fresh = _factor_rows(carry["factor"], covariance, t, rows)
        past_weights = gamma @ weights[:-1].reshape(width, -1)
        slope = past_weights.at[:, :teachers].add(drive - past_weights[:, :teachers])
        slope = slope.at[:, teachers + rows :].add(fresh) + settings.decay * own
        impulse = gamma @ response[:-1].reshape(width, width) + settings.decay * memory
        impulse = jax.lax.dynamic_update_slice_in_dim(impulse, jnp.eye(rows), t * rows, axis=1)
        rate = settings.rates[jnp.minimum(t, steps - 1)]
        new = []
        for now, change, velocity in ((own, slope, carry["velocity"]), (memory, impulse, carry["velocity_response"])):
            moved = settings.momentum * velocity - rate * change
            ahead = settings.momentum * moved - rate * change
            new.append((moved, now + jnp.where(settings.nesterov > 0, ahead, moved)))
        (velocity, next_weights), (velocity_response, next_response) = new
        power = jnp.sum(next_weights**2, axis=1)
        return {
            "step": t + 1,
            "finite": jnp.all(jnp.isfinite(power)) & jnp.all(power < DIVERGED),
            "weights": weights.at[t + 1].set(next_weights),
            "response": response.at[t + 1].set(next_response),
            "velocity": velocity,
            "velocity_response": velocity_response,
            "factor": factor,
            "gradients": gradients,
            "tangents": tangents,
            "loss": carry["loss"].at[t].set(jnp.mean(losses)),
        }

    begin = jnp.concatenate([overlap, root, jnp.zeros((rows, width))], axis=1)
    history = jnp.zeros((padded, rows, tokens * count))
    carry: Any = {
        "step": 0,
        "finite": jnp.array(True),
        "weights": jnp.zeros((padded + 1, *begin.shape)).at[0].set(begin),
        "response": jnp.zeros((padded + 1, rows, width)),
        "velocity": jnp.zeros_like(begin),
        "velocity_response": jnp.zeros((rows, width)),
        "factor": jnp.zeros((width, width)),
        "gradients": history,
        "tangents": history,
        "loss": jnp.full(steps + 1, jnp.nan),
    }
    carry = jax.lax.while_loop(running, advance, carry)
    reached = carry["step"] - 1
    weights = carry["weights"][: steps + 1, :, : teachers + rows * (steps + 1)]
    weights = jnp.where(jnp.arange(steps + 1)[:, None, None] <= reached, weights, jnp.nan)
    return DescentMoments(weights[:, :, :teachers], weights, carry["loss"], reached)  # type: ignore[arg-type]


def _factor_rows(factor: Any, covariance: Any, t: Any, rows: int) -> tuple[Any, Any]:
    """Return the Cholesky factor of ``K`` with the rows of step ``t`` added, and these rows, shape (P, T P).

    A direction whose variance earlier ones explain has a pivot of zero.
    """
    number = jnp.arange(len(factor))
    for row in range(rows):
        place = t * rows + row
        diagonal = jnp.diagonal(factor)
        known = diagonal > 0
        triangle = factor + jnp.diag(jnp.where(known, 0.0, 1.0))
        right = jnp.where(number < place, covariance[row], 0.0)
        found = jnp.where(known, jax.scipy.linalg.solve_triangular(triangle, right, lower=True), 0.0)
        variance = covariance[row, place]
        rest = variance - found @ found
        pivot = jnp.where(rest > _DEPENDENT * variance, jnp.sqrt(jnp.maximum(rest, 0.0)), 0.0)
        factor = factor.at[place].set(found.at[place].set(pivot))
    return factor, jax.lax.dynamic_slice_in_dim(factor, t * rows, rows)
