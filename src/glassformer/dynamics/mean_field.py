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

**Solution without kernels.** Averages are means over trajectories :math:`(Z^*, y, \zeta, S)`. Weights and gradients are
written in orthonormal directions, found one step after the other by the method of Gram and Schmidt:

.. math::
   W^t = m^tW^* + \sum_{j\le t}L(t,j)q^j, \qquad
   S^tg^t = \sum_{s\le t}\kappa(t,s)e^s, \qquad \alpha\,E\sum_le_l^se_l^{s'T} = \delta_{ss'}I.

Then :math:`\zeta^t = m^tZ^* + \sum_jL(t,j)\nu^j` with standard normal :math:`\nu^j`, and
:math:`u^t = \sum_s\kappa(t,s)N^s`, where the rows of :math:`N^s` are independent Gaussian vectors. Integration by parts
turns responses into correlations:

.. math::
   b^t &= \alpha\,E[S^tg^tZ^{*T}]\,W^* + \sum_{j\le t}\alpha\,E[S^tg^t\nu^{jT}]\,q^j + \sum_{s\le t}\kappa(t,s)N^s, \\
   Z^t &= \zeta^t + \sum_{s<t}\frac{W^tN^{sT}}de^s.

No derivative of the gradient is needed, so that it may have jumps, as for a hinge. Memory of a trajectory grows like
``T``, and work like ``T^2``.

**Features of unequal variance.** In the direction of a class of features with eigenvalue ``s`` and share ``w`` of the
features, weights that labels see, :math:`W\Sigma^{1/2}`, descend :math:`s\,b^t + \lambda W^t`. Every class has its own
coordinates of ``W``, and inner products are means over classes with weights ``w``.

**Heads** see separate coordinates of the inputs: averages between rows of different heads vanish, and each has
:math:`n` samples for ``d / heads`` coordinates.

Source: F. Mignacco et al., arXiv:2006.06098; M. Celentano, C. Cheng, A. Montanari, arXiv:2112.07572; C. Gerbelot et
al., arXiv:2210.06591. Conditioning on earlier directions: Y. M. Lu, arXiv:2101.07464.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.arrays import AnyArray
from glassformer.dynamics.descent_settings import IMAGES
from glassformer.dynamics.trajectories import Trajectories
from glassformer.dynamics.trajectory_space import TrajectorySpace, orthonormal_rows
from glassformer.numerics.scalarize import scalarize
from glassformer.risk.rows.student import Student

# Trajectories times tokens that are summed over in one product, so that it fits into the cache of a processor (half or
# twice as many take the same time).
_CHUNK = 1024
# Power of a row above which descent has diverged; the teacher's rows have power one.
DIVERGED = 1e6
# Weights settle no earlier than this step; changes over the last quarter of the steps are compared with those before.
_EARLIEST, _QUARTER = 32, 4
# Each point is used with both signs of true and own fields.
_SIGNS = (1.0, -1.0)
# Keeps quotients of zeros finite.
_SMALLEST = 1e-300


class StepSettings(NamedTuple):
    """Numbers that the equations depend on.

    Attributes:
        steps: number of steps.
        alpha: samples over coordinates that a row sees.
        rates: learning rate of every step, shape (padded,).
        batches: number of the batch of every step, shape (padded,).
        momentum: in [0, 1).
        nesterov: 1 for Nesterov's momentum, 0 for heavy ball.
        decay: weight decay.
        eigenvalues: of the covariance of the features, shape (classes,).
        shares: of the features in each class, shape (classes,).
        same_head: one for pairs of rows that see the same coordinates, zero for others, shape (P, P).
        same_teacher: the same for rows of student and teacher, shape (P, P*).
        settled: change of the weights still to come, as a share of their norm, at which they have settled.
    """

    steps: AnyArray | int
    alpha: AnyArray | float
    rates: AnyArray
    batches: AnyArray
    momentum: AnyArray | float
    nesterov: AnyArray | float
    decay: AnyArray | float
    eigenvalues: AnyArray
    shares: AnyArray
    same_head: AnyArray
    same_teacher: AnyArray
    settled: AnyArray | float


class DescentMoments(NamedTuple):
    r"""Order parameters before the first step and after every step; after the last step that was computed constant.

    Attributes:
        overlap: :math:`m^t`, shape (times, P, P*).
        correlation: :math:`C(t,s)`, shape (times, times, P, P).
        training_loss: mean over samples, shape (times,).
        reached: number of the last step that was computed.
        finite: False after divergence.
    """

    overlap: AnyArray
    correlation: AnyArray
    training_loss: AnyArray
    reached: AnyArray
    finite: AnyArray


class _State(NamedTuple):
    """Descent before a step. Coordinates of weights are along the teacher, the start, and the noise N of every step.

    Attributes:
        step: number of the step.
        finite: False after divergence.
        settled: whether the weights have settled.
        weights: of all steps so far, shape (T + 1, classes, P, coordinates).
        velocity: last change of the weights, shape (classes, P, coordinates).
        weight_directions: the orthonormal ``q``, shape (T P, classes times coordinates). None for one class of
            features, whose directions are those of the noise.
        gradients: the orthonormal ``e``, a history.
        noise: the normal ``nu``, a history for trajectories of one sign.
        odd: directions of the odd parts of ``e``, a history for trajectories of one sign.
        with_noise: inner products of ``e`` and ``nu``, shape (T P, T P).
        independent: share of each direction of ``N`` that is independent of earlier noise, shape (T P,).
        loss: on the samples, shape (T,).
    """

    step: jax.Array
    finite: jax.Array
    settled: jax.Array
    weights: jax.Array
    velocity: jax.Array
    weight_directions: jax.Array
    gradients: jax.Array
    noise: jax.Array
    odd: jax.Array
    with_noise: jax.Array
    independent: jax.Array
    loss: jax.Array


class _Weights(NamedTuple):
    """Weights of one step.

    Attributes:
        overlap: ``m``, shape (P, P*).
        loadings: ``L`` along all directions, shape (P, T P).
        memory: along the noise of earlier steps, :math:`WN^T/d`, shape (P, T P).
        directions: of the weights, with those of this step.
    """

    overlap: jax.Array
    loadings: jax.Array
    memory: jax.Array
    directions: jax.Array


class _Gradient(NamedTuple):
    r"""Gradient of the samples at one step.

    Attributes:
        loss: mean over samples.
        drive: :math:`\alpha E[S g Z^{*T}]`, shape (P, P*).
        along_noise: :math:`\alpha E[S g\nu^T]`, shape (P, T P).
        earlier: coefficients along earlier directions, shape (P, T P).
        lower: coefficients along the new directions, shape (P, P).
        direction: the new directions, shape (chunks, P, n).
    """

    loss: jax.Array
    drive: jax.Array
    along_noise: jax.Array
    earlier: jax.Array
    lower: jax.Array
    direction: jax.Array


def descent_moments(
    overlap: jax.Array,
    root: jax.Array,
    settings: StepSettings,
    data: Trajectories,
    student: Student,
    axis: str | None = None,
) -> DescentMoments:
    """Return the order parameters of one set of trajectories; JAX can trace it.

    Args:
        overlap: of the start, shape (P, P*).
        root: square root of the start's power that its overlap does not explain, shape (P, P).
        settings: of the steps.
        data: random numbers.
        student: loss of label and fields.
        axis: name of the axis of devices that share the trajectories; None for one device.
    """
    equations = _Equations.of(settings, data, student, axis)
    last = jax.lax.while_loop(equations.runs_on, equations.advance, equations.start(overlap, root))
    return equations.moments(last)


@dataclass(frozen=True)
class _Equations:
    """The equations of one step.

    Attributes:
        settings: of the steps.
        data: random numbers, whose first axes run over chunks of trajectories.
        student: loss of label and fields.
        space: of vectors over trajectories.
        teacher: in the coordinates of the weights, shape (classes, P*, coordinates). Inner products are sums over
            classes and coordinates.
    """

    settings: StepSettings
    data: Trajectories
    student: Student
    space: TrajectorySpace
    teacher: jax.Array

    @classmethod
    def of(cls, settings: StepSettings, data: Trajectories, student: Student, axis: str | None) -> _Equations:
        """Return the equations for random numbers as they are drawn."""
        (teachers, tokens, _, base), rows, padded = data.true.shape, student.rows, len(settings.rates)
        points = min(base, 1 << (max(_CHUNK // (IMAGES * tokens), 1).bit_length() - 1))
        space = TrajectorySpace(base // points, padded, settings.same_head, axis)
        chunked = jax.tree.map(
            lambda part: jnp.moveaxis(part.reshape(*part.shape[:-1], base // points, points), -2, 0), data
        )
        unit = _class_roots(settings)[:, None, None] * jnp.eye(teachers)
        coordinates = teachers + rows + padded * rows
        teacher = jnp.zeros((len(settings.shares), teachers, coordinates)).at[:, :, :teachers].set(unit)
        return cls(settings, chunked, student, space, teacher)

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        """Rows of the student and of the teacher, tokens, and base points of a chunk."""
        _, teachers, tokens, _, points = self.data.true.shape
        return self.student.rows, teachers, tokens, points

    def start(self, overlap: jax.Array, root: jax.Array) -> _State:
        """Return the state before the first step."""
        rows, teachers, tokens, points = self._sizes
        chunks, padded, width = self.space.chunks, self.space.padded, self.space.padded * rows
        noise = self.data.noise.reshape(chunks, padded, rows, -1)
        weights = jnp.einsum("pk,ckq->cpq", overlap, self.teacher)
        own = _class_roots(self.settings)[:, None, None] * root
        weights = weights.at[:, :, teachers : teachers + rows].set(own)
        classes, _, coordinates = weights.shape
        return _State(
            step=jnp.array(0),
            finite=jnp.array(True),
            settled=jnp.array(False),
            weights=jnp.zeros((padded + 1, *weights.shape)).at[0].set(weights),
            velocity=jnp.zeros_like(weights),
            weight_directions=jnp.zeros((width if classes > 1 else 0, classes * coordinates)),
            gradients=jnp.zeros((chunks, padded, rows, IMAGES * tokens * points)),
            noise=jnp.asarray(noise),
            odd=jnp.zeros_like(noise),
            with_noise=jnp.zeros((width, width)),
            independent=jnp.ones(width),
            loss=jnp.full(padded, jnp.nan),
        )

    def runs_on(self, now: _State) -> jax.Array:
        """Return whether there is a next step."""
        return (now.step <= self.settings.steps) & now.finite & ~now.settled

    def advance(self, now: _State) -> _State:
        """Return the state after one more step."""
        t = now.step
        place = t * self.student.rows
        seen = self._weights(now)
        gradient = self._gradient(now, seen)
        odd, odd_size, noise = self._next_noise(now, gradient.direction)
        with_noise, independent = self._independent_noise(now, gradient, odd_size)
        independent = jax.lax.dynamic_update_slice(now.independent, independent, (place,))
        weights, velocity = self._step(now, gradient, seen.directions, independent)
        power = jnp.sum(weights[t + 1] ** 2, axis=(0, 2))
        return _State(
            step=t + 1,
            finite=jnp.all(jnp.isfinite(power)) & jnp.all(power < DIVERGED),
            settled=_have_settled(weights, t + 1, self.settings.settled),
            weights=weights,
            velocity=velocity,
            weight_directions=seen.directions,
            gradients=now.gradients.at[:, t].set(gradient.direction),
            noise=now.noise.at[:, self._after(t)].set(noise),
            odd=now.odd.at[:, t].set(odd),
            with_noise=jax.lax.dynamic_update_slice_in_dim(now.with_noise, with_noise, place, axis=0),
            independent=independent,
            loss=now.loss.at[t].set(gradient.loss),
        )

    def moments(self, last: _State) -> DescentMoments:
        """Return the order parameters of all steps."""
        reached, padded = last.step - 1, self.space.padded
        step = jnp.minimum(jnp.arange(padded), reached)
        weights = last.weights[step]
        flat = jnp.swapaxes(weights, 1, 2).reshape(padded, self.student.rows, -1)
        return DescentMoments(
            overlap=jnp.einsum("tcpk,ckq->tpq", *self._along_teacher(weights)),
            correlation=jnp.einsum("tpk,sqk->tspq", flat, flat),
            training_loss=last.loss[step],
            reached=reached,
            finite=last.finite,
        )

    def _along_teacher(self, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the coordinates of weights and of the teacher in which their inner products differ from zero."""
        teachers = self.teacher.shape[1]
        return weights[..., :teachers], self.teacher[:, :, :teachers]

    def _after(self, t: jax.Array) -> jax.Array:
        """Return the number of the step after step ``t``, if histories hold it."""
        return jnp.minimum(t + 1, self.space.padded - 1)

    def _weights(self, now: _State) -> _Weights:
        """Return the weights of a step as the fields of samples see them."""
        (rows, teachers, *_), own = self._sizes, now.weights[now.step]
        width = self.space.padded * rows
        overlap = jnp.einsum("cpk,ckq->pq", *self._along_teacher(own))
        roots = jnp.sqrt(self.settings.shares)
        memory = now.independent * jnp.einsum("c,cpk->pk", roots, own[:, :, teachers + rows :])
        if len(own) == 1:
            # New directions of the weights are those of the noise.
            return _Weights(overlap, own[0, :, teachers : teachers + width], memory, now.weight_directions)
        flat = own.swapaxes(0, 1).reshape(rows, -1)
        rest = flat - overlap @ self.teacher.swapaxes(0, 1).reshape(teachers, -1)
        loadings = jnp.zeros((rows, width))
        for _ in range(2):
            part = rest @ now.weight_directions.T
            rest, loadings = rest - part @ now.weight_directions, loadings + part
        lower, new = orthonormal_rows(rest, jnp.sum(flat**2, axis=1), np.ones((rows, rows)), jnp.vdot)
        loadings = jax.lax.dynamic_update_slice_in_dim(loadings, lower, now.step * rows, axis=1)
        directions = jax.lax.dynamic_update_slice_in_dim(now.weight_directions, new, now.step * rows, axis=0)
        return _Weights(overlap, loadings, memory, directions)

    def _gradient(self, now: _State, seen: _Weights) -> _Gradient:
        """Return the gradient of the samples, in directions of trajectories."""
        settings, space = self.settings, self.space
        loss, size, drive, vectors = self._sample_gradients(now, seen)
        scale = settings.alpha / self._samples(IMAGES)
        odd = self._odd_part(vectors)
        along_noise = space.project(odd, now.noise, now.step + 1, settings.alpha / self._samples(1))
        earlier, rest = space.expand(vectors, now.gradients, now.step, scale)
        lower, new = space.orthonormal(rest, space.total(size) * scale, scale)
        return _Gradient(
            loss=space.total(loss) / self._samples(IMAGES),
            drive=space.total(drive) * scale * settings.same_teacher,
            along_noise=along_noise,
            earlier=earlier,
            lower=lower,
            direction=new,
        )

    def _sample_gradients(self, now: _State, seen: _Weights) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
        """Return sums over trajectories of loss, power and product with the true fields; gradients of fields."""
        rows, teachers, tokens, points = self._sizes
        images, flips = (2, 2, points), jnp.array(_SIGNS)
        batch = self.settings.batches[jnp.minimum(now.step, self.settings.steps - 1)]
        loss_and_gradient = jax.vmap(
            scalarize(lambda y, z: jax.value_and_grad(self.student.cost, argnums=1)(y, z)), in_axes=-1, out_axes=-1
        )

        def of_chunk(chunk: jax.Array, data: Trajectories) -> tuple[tuple[jax.Array, ...], jax.Array]:
            true = data.true[:, :, :, None, :] * jnp.ones((2, 1))
            free = self.space.combine(seen.loadings, now.noise, chunk, now.step + 1)
            own = flips[:, None] * free.reshape(rows, tokens, 1, 1, points)
            zeta = jnp.einsum("pk,klabi->plabi", seen.overlap, true) + own
            shape = (rows, tokens, IMAGES * points)
            earlier = self.space.combine(seen.memory, now.gradients, chunk, now.step)
            labels = jnp.broadcast_to(data.labels[:, :, None, :], (len(data.labels), *images))
            fields = zeta.reshape(shape) + earlier.reshape(shape)
            losses, slopes = loss_and_gradient(labels.reshape(len(labels), -1), fields)
            inside = jnp.broadcast_to(data.masks[batch][:, None, :], images)
            gradient = (inside * slopes.reshape(rows, tokens, *images)).reshape(rows, -1)
            power = jnp.sum(gradient**2, axis=1)
            return (jnp.sum(losses), power, gradient @ true.reshape(teachers, -1).T), gradient

        (loss, power, drive), gradients = self.space.over_chunks(of_chunk, self.data)
        return loss, power, drive, gradients

    def _samples(self, images: int) -> int:
        """Return the number of base points of all devices times a number of images."""
        return self.space.total(self.space.chunks * images * self._sizes[-1])

    def _odd_part(self, vectors: jax.Array) -> jax.Array:
        """Return the mean over images, with the sign of the own fields, of vectors of shape (chunks, P, n)."""
        rows, _, tokens, points = self._sizes
        images = jnp.array(_SIGNS)[:, None] * vectors.reshape(-1, rows, tokens, 2, 2, points)
        return jnp.mean(images, axis=(3, 4)).reshape(len(vectors), rows, -1)

    def _next_noise(self, now: _State, direction: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
        """Return new directions of odd parts of gradients, the power of these parts, and the noise of the next step.

        Noise of the next direction of the weights is independent of all directions of the gradients. It is for the
        inputs of a run, and sampling errors of one do not become gradients of the other.
        """
        space, rows = self.space, self.student.rows
        odd, weight = self._odd_part(direction), 1 / self._samples(1)
        size = weight * space.total(jnp.sum(odd**2, axis=(0, 2)))
        both = jnp.concatenate([odd, now.noise[:, self._after(now.step)]], axis=1)
        _, rest = space.expand(both, now.odd, now.step, weight)
        odd, noise = rest[:, :rows], rest[:, rows:]
        _, new = space.orthonormal(odd, jnp.maximum(size, 1 / self.settings.alpha), weight)
        part = weight * space.total(jnp.einsum("cpn,cqn->pq", noise, new)) * self.settings.same_head
        return new, size, noise - jnp.einsum("pq,cqn->cpn", part, new)

    def _independent_noise(self, now: _State, gradient: _Gradient, odd_size: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return inner products of new directions with all noise, shape (P, T P), and their own share of ``N``, (P,).

        Sampling errors of the correlations with all earlier noise have a power, which a run with as many samples takes
        from the new direction. Correlations that are exact, as those of linear gradients, have none.
        """
        alpha, tokens = self.settings.alpha, self.data.true.shape[2]
        pivots = jnp.diagonal(gradient.lower)
        solvable = gradient.lower + jnp.diag(jnp.where(pivots > 0, 0.0, 1.0))
        with_noise = jnp.linalg.solve(solvable, gradient.along_noise - gradient.earlier @ now.with_noise)
        with_noise = jnp.where(pivots[:, None] > 0, with_noise, 0.0)
        explained = jnp.sum(with_noise**2, axis=1) / (alpha**2 * tokens)
        error = alpha**2 * jnp.maximum(odd_size - explained, 0.0) / self._samples(1)
        left = 1 - (now.step + 1) * jnp.sum(self.settings.same_head, axis=1) * error
        return with_noise, jnp.sqrt(jnp.maximum(left, 0.0))

    def _step(
        self, now: _State, gradient: _Gradient, directions: jax.Array, independent: jax.Array
    ) -> tuple[jax.Array, jax.Array]:
        """Return the weights of all steps, with those after this one, and their velocity."""
        settings, (rows, teachers, *_), t = self.settings, self._sizes, now.step
        own = now.weights[t]
        classes, _, coordinates = own.shape
        # The gradient in the coordinates of the weights.
        kappa = independent * jax.lax.dynamic_update_slice_in_dim(gradient.earlier, gradient.lower, t * rows, axis=1)
        slope = jnp.einsum("pk,ckq->cpq", gradient.drive, self.teacher)
        slope = slope.at[:, :, teachers + rows :].add(jnp.sqrt(settings.shares)[:, None, None] * kappa)
        if classes == 1:
            slope = slope.at[:, :, teachers : teachers + kappa.shape[1]].add(gradient.along_noise)
        else:
            along = (gradient.along_noise @ directions).reshape(rows, classes, coordinates)
            slope = slope + jnp.swapaxes(along, 0, 1)
        change = settings.eigenvalues[:, None, None] * slope + settings.decay * own
        rate = jnp.asarray(settings.rates)[jnp.minimum(t, settings.steps - 1)]
        velocity = now.velocity * settings.momentum - rate * change
        ahead = velocity * settings.momentum - rate * change
        return now.weights.at[t + 1].set(own + jnp.where(settings.nesterov > 0, ahead, velocity)), velocity


def _class_roots(settings: StepSettings) -> AnyArray:
    """Return the square root of eigenvalue times share of each class of features, shape (classes,)."""
    return jnp.sqrt(settings.eigenvalues) * jnp.sqrt(settings.shares)


def shared_moments(
    overlap: jax.Array, root: jax.Array, settings: StepSettings, data: Trajectories, student: Student, devices: int
) -> DescentMoments:
    """Return :func:`descent_moments` with the trajectories shared out over the first devices of JAX."""
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:devices]), ("devices",))
    spec: Any = jax.sharding.PartitionSpec
    whole, shares = spec(), jax.tree.map(lambda part: spec(*[None] * (part.ndim - 1), "devices"), data)
    found: DescentMoments = jax.shard_map(
        partial(descent_moments, student=student, axis="devices"),
        mesh=mesh,
        in_specs=(whole, whole, whole, shares),
        out_specs=whole,
        check_vma=False,
    )(overlap, root, settings, data)
    return found


def _have_settled(weights: jax.Array, t: jax.Array, share: AnyArray | float) -> jax.Array:
    """Return whether changes still to come, if they decrease as they do now, are below a share of the weights.

    So is the last step, as weights that move to and fro agree after an even number of steps.
    """
    window = t // _QUARTER
    now, before, first = weights[t], weights[t - window], weights[t - 2 * window]
    last, previous = jnp.sum((now - before) ** 2), jnp.sum((before - first) ** 2)
    ratio = jnp.sqrt(last / jnp.maximum(previous, _SMALLEST))
    # A geometric series: the change of the last window, times r + r^2 + ...
    left = jnp.sqrt(last) * ratio / jnp.maximum(1 - ratio, _SMALLEST)
    step = jnp.sqrt(jnp.sum((now - weights[t - 1]) ** 2))
    return (t >= _EARLIEST) & (ratio < 1) & (jnp.maximum(left, step) < share * jnp.sqrt(jnp.sum(now**2)))
