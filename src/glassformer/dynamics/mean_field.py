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

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.scalarize import scalarize
from glassformer.risk.rows.student import Student

# Earlier steps, and trajectories times tokens, that are summed over in one product, so that it fits into the cache of
# a processor (half or twice as many take the same time).
_BLOCK, _CHUNK = 16, 1024
# Share of its power below which the part of a vector that is independent of earlier ones is rounding.
_DEPENDENT = 1e-12
# Power of a row above which descent has diverged; the teacher's rows have power one.
DIVERGED = 1e6
# Second moments of noise are made exact where there are this many points per dimension; products of fewer points would
# no longer be close to independent (a convention).
_PER_DIMENSION = 2
# Weights settle no earlier than this step; changes over the last quarter of the steps are compared with those before.
_EARLIEST, _QUARTER = 32, 4
# Keeps quotients of zeros finite.
_SMALLEST = 1e-300


class Trajectories(NamedTuple):
    """Random numbers of one set of trajectories: of base points, each used with both signs of true and own fields.

    Attributes:
        true: fields of the teacher, shape (P*, L, base).
        labels: as the loss takes them, for both signs of the true fields, shape (entries, 2, base).
        noise: standard normal numbers, one for every direction of the weights, shape (padded, P, L, base).
        masks: one for samples in a batch, zero for others, shape (a whole number of blocks, 2, base).
    """

    true: Array
    labels: Array
    noise: Array
    masks: Array


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

    steps: Any
    alpha: Any
    rates: Any
    batches: Any
    momentum: Any
    nesterov: Any
    decay: Any
    eigenvalues: Any
    shares: Any
    same_head: Any
    same_teacher: Any
    settled: Any


class DescentMoments(NamedTuple):
    r"""Order parameters before the first step and after every step; after the last step that was computed constant.

    Attributes:
        overlap: :math:`m^t`, shape (times, P, P*).
        correlation: :math:`C(t,s)`, shape (times, times, P, P).
        training_loss: mean over samples, shape (times,).
        reached: number of the last step that was computed.
        finite: False after divergence.
    """

    overlap: Array
    correlation: Array
    training_loss: Array
    reached: Array
    finite: Array


def padded_steps(steps: int) -> int:
    """Return the length of histories, a whole number of blocks, so that numbers of steps share an executable."""
    return -(-(steps + 1) // _BLOCK) * _BLOCK


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
    noise = _whiten(rng.standard_normal((base, (steps + 1) * rows * tokens)))
    # A batch holds the same share of every set, and opposite points are in it at opposite times.
    ranks = (rng.permuted(np.tile(np.arange(base), (batches, 1)), axis=1) + rng.random((batches, 1))) / base
    masks = np.zeros((padded_steps(batches - 1), 2, base))
    masks[:batches] = np.stack([ranks, 1 - ranks], axis=1) < share
    directions = np.zeros((padded_steps(steps), rows, tokens, base))
    directions[: steps + 1] = noise.T.reshape(-1, rows, tokens, base)
    return Trajectories(
        np.moveaxis(true, 0, -1),
        np.moveaxis(student.targets(drawn).reshape(2, base, -1), -1, 0),
        directions,
        masks,
    )


def _whiten(normal: Array) -> Array:
    """Return points, shape (n, dimensions), whose second moments are those of independent standard normal numbers."""
    count, dimensions = normal.shape
    if count < _PER_DIMENSION * dimensions:
        return normal
    lower = np.linalg.cholesky(normal.T @ normal / count)
    return np.asarray(np.linalg.solve(lower, normal.T).T)


def descent_moments(
    overlap: Any, root: Any, settings: StepSettings, data: Trajectories, student: Student, axis: str | None = None
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
    rows, teachers = overlap.shape
    classes, padded, steps = len(settings.eigenvalues), len(settings.rates), settings.steps
    tokens, base = data.true.shape[1:]
    points = min(base, 1 << (max(_CHUNK // (4 * tokens), 1).bit_length() - 1))
    chunks, count = base // points, 4 * points
    width = padded * rows
    # Coordinates of weights: along the teacher, along the start, along the noise N of every step.
    begin, end = teachers + rows, teachers + rows + width
    flips = jnp.array([1.0, -1.0])
    shape = (rows, tokens, count)
    # First axes run over chunks of trajectories.
    data = jax.tree.map(lambda part: jnp.moveaxis(part.reshape(*part.shape[:-1], chunks, points), -2, 0), data)
    noise = data.noise.reshape(chunks, padded, rows, -1)
    loss_and_gradient = jax.vmap(
        scalarize(lambda y, z: jax.value_and_grad(student.cost, argnums=1)(y, z)), in_axes=-1, out_axes=-1
    )
    roots = jnp.sqrt(settings.shares)
    # The teacher in coordinates, of which inner products are sums over classes and coordinates.
    unit = (jnp.sqrt(settings.eigenvalues) * roots)[:, None, None] * jnp.eye(teachers)
    teacher = jnp.zeros((classes, teachers, end)).at[:, :, :teachers].set(unit)

    def total(part: Any) -> Any:
        return part if axis is None else jax.lax.psum(part, axis)  # type: ignore[no-untyped-call]

    samples, base_samples = total(chunks * count), total(chunks * points)
    scale = settings.alpha / samples

    def in_blocks(add: Any, until: Any, start: Any) -> Any:
        """Return what a function of block number and state makes of a state, over blocks of the steps before one."""
        return jax.lax.fori_loop(0, (until + _BLOCK - 1) // _BLOCK, add, start)

    def block_of(history: Any, chunk: Any, block: Any) -> tuple[Any, Any]:
        sizes = (1, _BLOCK, *history.shape[2:])
        part = jax.lax.dynamic_slice(history, (chunk, block * _BLOCK, 0, 0), sizes)
        return part.reshape(_BLOCK * rows, -1), block * _BLOCK * rows

    def past(coefficients: Any, history: Any, chunk: Any, until: Any) -> Any:
        """Return the sum over earlier steps of coefficients, shape (rows, T P), times a chunk of a history."""

        def add(block: Any, now: Any) -> Any:
            part, place = block_of(history, chunk, block)
            return now + jax.lax.dynamic_slice_in_dim(coefficients, place, _BLOCK * rows, axis=1) @ part

        return in_blocks(add, until, jnp.zeros((len(coefficients), history.shape[-1])))

    def products(now: Any, history: Any, chunk: Any, until: Any) -> Any:
        """Return sums of products of vectors, shape (rows, n), with a chunk of a history, shape (T P, rows)."""

        def add(block: Any, found: Any) -> Any:
            part, place = block_of(history, chunk, block)
            return jax.lax.dynamic_update_slice_in_dim(found, part @ now.T, place, axis=0)

        return in_blocks(add, until, jnp.zeros((width, len(now))))

    def odd_part(vectors: Any) -> Any:
        """Return the mean over images, with the sign of the own fields, of vectors of shape (chunks, P, n)."""
        images = vectors.reshape(chunks, rows, tokens, 2, 2, points)
        return jnp.mean(flips[:, None] * images, axis=(3, 4)).reshape(chunks, rows, -1)

    def over_chunks(of_chunk: Any, *arguments: Any) -> tuple[Any, Any]:
        """Return sums over chunks, and what is kept of every chunk, of a function of chunk number and arguments."""

        def add(sums: Any, chunk: Any) -> tuple[Any, Any]:
            found, kept = of_chunk(chunk[0], *chunk[1:])
            return jax.tree.map(jnp.add, sums, found), kept

        numbered = (jnp.arange(chunks), *arguments)
        shapes = jax.eval_shape(of_chunk, *jax.tree.map(lambda part: part[0], numbered))[0]
        zeros = jax.tree.map(lambda part: jnp.zeros(part.shape), shapes)
        return jax.lax.scan(add, zeros, numbered)

    def coefficients(vectors: Any, history: Any, until: Any, weight: Any) -> Any:
        """Return products of vectors with directions before a step, shape (rows, T P), times a weight."""
        sums, _ = over_chunks(lambda chunk, now: (products(now, history, chunk, until), None), vectors)
        earlier = jnp.repeat(jnp.arange(padded) < until, rows)
        allowed = jnp.tile(settings.same_head, (vectors.shape[1] // rows, padded))
        return weight * total(jnp.where(earlier, sums.T, 0.0)) * allowed

    def expand(vectors: Any, history: Any, until: Any, weight: Any) -> tuple[Any, Any]:
        """Return coefficients of vectors along orthonormal directions, shape (rows, T P), and the rest of the vectors.

        The second time removes what rounding leaves of vectors that nearly depend on the directions.
        """

        def subtract(_: Any, state: Any) -> Any:
            found, rest = state
            new = coefficients(rest, history, until, weight)
            numbered = jnp.arange(chunks), rest
            rest = jax.lax.map(lambda part: part[1] - past(new, history, part[0], until), numbered)
            return found + new, rest

        return jax.lax.fori_loop(0, 2, subtract, (jnp.zeros((vectors.shape[1], width)), vectors))

    def orthonormal(rest: Any, size: Any, weight: Any) -> tuple[Any, Any]:
        """Return coefficients of vectors along their new directions, and these, from vectors of earlier power."""

        def inner(first: Any, second: Any) -> Any:
            return weight * total(jnp.vdot(first, second))

        lower, new = _orthonormal_rows(jnp.swapaxes(rest, 0, 1), size, settings.same_head, inner)
        return lower, jnp.swapaxes(new, 0, 1)

    def weight_directions(own: Any, overlap: Any, directions: Any, t: Any) -> tuple[Any, Any]:
        """Return coefficients of weights along all directions, shape (P, T P), and the directions with new ones."""
        flat = own.swapaxes(0, 1).reshape(rows, -1)
        rest = flat - overlap @ teacher.swapaxes(0, 1).reshape(teachers, -1)
        found = jnp.zeros((rows, width))
        for _ in range(2):
            part = rest @ directions.T
            rest, found = rest - part @ directions, found + part
        lower, new = _orthonormal_rows(rest, jnp.sum(flat**2, axis=1), np.ones((rows, rows)), jnp.vdot)
        found = jax.lax.dynamic_update_slice_in_dim(found, lower, t * rows, axis=1)
        return found, jax.lax.dynamic_update_slice_in_dim(directions, new, t * rows, axis=0)

    def running(carry: Any) -> Any:
        return (carry["step"] <= steps) & carry["finite"] & ~carry["settled"]

    def advance(carry: Any) -> Any:
        t, history, noise = carry["step"], carry["gradients"], carry["noise"]
        own = carry["weights"][t]
        overlap = jnp.einsum("cpk,ckq->pq", own[:, :, :teachers], teacher[:, :, :teachers])
        if classes == 1:
            # New directions of the weights are those of the noise.
            directions, loadings = carry["directions"], own[0, :, teachers : teachers + width]
        else:
            loadings, directions = weight_directions(own, overlap, carry["directions"], t)
        memory = carry["overlap_of_noise"] * jnp.einsum("c,cpk->pk", roots, own[:, :, begin:])
        batch = settings.batches[jnp.minimum(t, steps - 1)]

        def gradients(chunk: Any, data: Trajectories) -> Any:
            """Return averages over a chunk of trajectories, and their gradients, shape (P, n)."""
            true = flips[:, None, None] * data.true[:, :, None, None, :] * jnp.ones((2, 1))
            free = past(loadings, noise, chunk, t + 1).reshape(rows, tokens, 1, 1, points)
            zeta = jnp.einsum("pk,klabi->plabi", overlap, true) + flips[:, None] * free
            fields = zeta.reshape(shape) + past(memory, history, chunk, t).reshape(shape)
            labels = jnp.broadcast_to(data.labels[:, :, None, :], (len(data.labels), 2, 2, points))
            losses, found = loss_and_gradient(labels.reshape(-1, count), fields)
            inside = jnp.broadcast_to(data.masks[batch][:, None, :], (2, 2, points))
            images = inside * found.reshape(rows, tokens, 2, 2, points)
            gradient = images.reshape(rows, -1)
            return (
                jnp.sum(losses),
                jnp.sum(gradient**2, axis=1),
                gradient @ true.reshape(teachers, -1).T,
            ), gradient

        (loss, size, drive), gradient = over_chunks(gradients, data)
        drive = scale * total(drive) * settings.same_teacher

        own_noise = coefficients(odd_part(gradient), noise, t + 1, settings.alpha / base_samples)
        earlier, rest = expand(gradient, history, t, scale)
        lower, new = orthonormal(rest, scale * total(size), scale)
        # Noise of the next direction of the weights is independent of all directions of the gradients: so it is for
        # the inputs of a run, and sampling errors of one do not become gradients of the other.
        odd, weight = odd_part(new), 1 / base_samples
        odd_size = weight * total(jnp.sum(odd**2, axis=(0, 2)))
        next_step = jnp.minimum(t + 1, padded - 1)
        _, rest = expand(jnp.concatenate([odd, noise[:, next_step]], axis=1), carry["odd"], t, weight)
        _, new_odd = orthonormal(rest[:, :rows], jnp.maximum(odd_size, 1 / settings.alpha), weight)
        part = weight * total(jnp.einsum("cpn,cqn->pq", rest[:, rows:], new_odd)) * settings.same_head
        new_noise = rest[:, rows:] - jnp.einsum("pq,cqn->cpn", part, new_odd)
        # Sampling errors of the correlations with all earlier noise have a power, which a run with as many samples
        # takes from the new direction. Correlations that are exact, as those of linear gradients, have none.
        pivots = jnp.diagonal(lower)
        solvable = lower + jnp.diag(jnp.where(pivots > 0, 0.0, 1.0))
        with_noise = jnp.linalg.solve(solvable, own_noise - earlier @ carry["with_noise"])
        with_noise = jnp.where(pivots[:, None] > 0, with_noise, 0.0)
        explained = jnp.sum(with_noise**2, axis=1) / (settings.alpha**2 * tokens)
        error = settings.alpha**2 * jnp.maximum(odd_size - explained, 0.0) / base_samples
        left = jnp.sqrt(jnp.maximum(1 - (t + 1) * jnp.sum(settings.same_head, axis=1) * error, 0.0))
        overlap_of_noise = jax.lax.dynamic_update_slice(carry["overlap_of_noise"], left, (t * rows,))
        # The gradient in the coordinates of the weights.
        kappa = overlap_of_noise * jax.lax.dynamic_update_slice_in_dim(earlier, lower, t * rows, axis=1)
        slope = jnp.einsum("pk,ckq->cpq", drive, teacher)
        slope = slope.at[:, :, begin:].add(roots[:, None, None] * kappa)
        if classes == 1:
            slope = slope.at[:, :, teachers : teachers + width].add(own_noise)
        else:
            slope = slope + jnp.swapaxes((own_noise @ directions).reshape(rows, classes, end), 0, 1)
        change = settings.eigenvalues[:, None, None] * slope + settings.decay * own
        rate = settings.rates[jnp.minimum(t, steps - 1)]
        moved = settings.momentum * carry["velocity"] - rate * change
        ahead = settings.momentum * moved - rate * change
        weights = carry["weights"].at[t + 1].set(own + jnp.where(settings.nesterov > 0, ahead, moved))
        power = jnp.sum(weights[t + 1] ** 2, axis=(0, 2))
        return {
            "step": t + 1,
            "finite": jnp.all(jnp.isfinite(power)) & jnp.all(power < DIVERGED),
            "settled": _have_settled(weights, t + 1, settings.settled),
            "weights": weights,
            "velocity": moved,
            "directions": directions,
            "gradients": history.at[:, t].set(new),
            "noise": noise.at[:, next_step].set(new_noise),
            "odd": carry["odd"].at[:, t].set(new_odd),
            "with_noise": jax.lax.dynamic_update_slice_in_dim(carry["with_noise"], with_noise, t * rows, axis=0),
            "overlap_of_noise": overlap_of_noise,
            "loss": carry["loss"].at[t].set(total(loss) / samples),
        }

    start = jnp.einsum("pk,ckq->cpq", overlap, teacher)
    start = start.at[:, :, teachers:begin].set((jnp.sqrt(settings.eigenvalues) * roots)[:, None, None] * root)
    carry: Any = {
        "step": 0,
        "finite": jnp.array(True),
        "settled": jnp.array(False),
        "weights": jnp.zeros((padded + 1, *start.shape)).at[0].set(start),
        "velocity": jnp.zeros_like(start),
        "directions": jnp.zeros((width if classes > 1 else 0, classes * end)),
        "gradients": jnp.zeros((chunks, padded, rows, tokens * count)),
        "noise": noise,
        "odd": jnp.zeros_like(noise),
        "with_noise": jnp.zeros((width, width)),
        "overlap_of_noise": jnp.ones(width),
        "loss": jnp.full(padded, jnp.nan),
    }
    carry = jax.lax.while_loop(running, advance, carry)
    reached = carry["step"] - 1
    step = jnp.minimum(jnp.arange(padded), reached)
    weights = carry["weights"][step]
    flat = jnp.swapaxes(weights, 1, 2).reshape(padded, rows, -1)
    overlaps = jnp.einsum("tcpk,ckq->tpq", weights[..., :teachers], teacher[:, :, :teachers])
    correlations = jnp.einsum("tpk,sqk->tspq", flat, flat)
    moments = (overlaps, correlations, carry["loss"][step], reached, carry["finite"])
    return DescentMoments(*moments)  # type: ignore[arg-type]


def shared_moments(
    overlap: Any, root: Any, settings: StepSettings, data: Trajectories, student: Student, devices: int
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


def _orthonormal_rows(rest: Any, size: Any, allowed: Any, inner: Any) -> tuple[Any, Any]:
    """Return the triangular matrix and the orthonormal rows whose product are given rows.

    Args:
        rest: rows, shape (P, ...).
        size: powers that they had before parts along earlier directions were removed, shape (P,): what is smaller by
            far is rounding, and its direction is zero.
        allowed: one for pairs of rows whose inner product counts, shape (P, P).
        inner: inner product of two rows.
    """
    lower, found = jnp.zeros((len(rest), len(rest))), list[Any]()
    for row, left in enumerate(rest):
        for other, direction in enumerate(found):
            part = allowed[row, other] * inner(left, direction)
            left, lower = left - part * direction, lower.at[row, other].set(part)
        power = inner(left, left)
        new = power > _DEPENDENT * size[row]
        length = jnp.sqrt(jnp.where(new, power, 1.0))
        lower = lower.at[row, row].set(jnp.where(new, length, 0.0))
        found.append(jnp.where(new, left / length, 0.0))
    return lower, jnp.stack(found)


def _have_settled(weights: Any, t: Any, share: Any) -> Any:
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
