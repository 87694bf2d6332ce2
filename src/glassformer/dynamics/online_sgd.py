r"""Online SGD: differential equations of gradient descent on new samples, in the limit of large sizes.

A student with the teacher's link and weights ``W`` takes steps
:math:`W \leftarrow W - \frac{\eta}{b\sqrt d}\sum_{\mu l}\delta_lx_l^T - \frac{\eta w}dW` on batches of ``b`` new
samples, with :math:`\delta_l = \partial_{z_l}\frac12\|g(Z)-y\|^2`. In the time :math:`t = \mathrm{steps}/d` its overlap
:math:`M = WW^{*T}/d` and power :math:`Q = WW^T/d` obey

.. math::
   \dot M = -\eta\,E\sum_l\delta_lz_l^{*T} - \eta wM, \qquad
   \dot Q = -\eta\,E\sum_l(\delta_lz_l^T + z_l\delta_l^T) + \frac{\eta^2}b\,E\sum_l\delta_l\delta_l^T - 2\eta wQ,

where the columns of the fields :math:`(Z^*, Z)` are independent normal vectors of covariance
:math:`((T, M^T), (M, Q))`, with :math:`T = W^*W^{*T}/d`, the identity in the limit. The equations are integrated in
coordinates in which the teacher's rows are orthonormal, :math:`MT^{-1/2}`.

Averages are taken over the same quasi-random points at all times, so that the right-hand sides are smooth. Several sets
of points are integrated, and their spread gives the error. If permutations and signs of the rows of student and teacher
leave labels and start invariant, they leave all later states invariant, and averages are taken over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import RK45
from scipy.linalg import sqrtm

from glassformer.channels.base import Channel
from glassformer.channels.labelling import clean_labels
from glassformer.core.arrays import AnyArray
from glassformer.core.checks import is_number, is_whole, real_numbers, require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import note, track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, wide_error_bars
from glassformer.core.settings import decay_rate
from glassformer.core.status import Status
from glassformer.dynamics.online_path import TOLERANCE, OnlinePath
from glassformer.models.base import Model
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.sequences import diverges

# Number of independent sets of points, default number of points per set, and smallest number (chosen by trial).
_SETS, _POINTS, _FEWEST_POINTS = 8, 2048, 32
# Largest number of sign flips over which a point is averaged (a compromise of time and accuracy).
_MOST_IMAGES = 4
# Rounding error of symmetries and of positive semi-definite matrices.
_ROUNDING = 1e-12
# Absolute tolerance of a time step, as a share of the relative one, for quantities close to zero.
_ABSOLUTE_SHARE = 1e-2
# Largest number of evaluations of the right-hand side, and power of a row at which the integration stops.
_MOST_EVALUATIONS, _DIVERGED = 20_000, 1e6
# Power of a row above which the times of a diverging path have the status ``diverging``.
_LARGE = 10.0
# Memory of an evaluation, in numbers per point, field and image.
_HELD = 12


class Pace(NamedTuple):
    r"""Learning rate :math:`\eta`, batch size ``b`` and weight decay ``w`` of a step."""

    learning_rate: float = 1.0
    batch: int = 1
    weight_decay: float = 0.0


class Start(NamedTuple):
    """Overlap with the truth and power of the weights at time zero, and power of the teacher, each of shape (P, P).

    By default the rows of the teacher are orthonormal.
    """

    overlap: Array
    power: Array
    teacher: Array | None = None

    @classmethod
    def of_runs(cls, histories: Sequence[Sequence[Mapping[str, Any]]]) -> Start:
        """Return the starts of runs from the first records of their histories, of shape (runs, P, P)."""
        return cls(*(np.array([history[0][name] for history in histories]) for name in cls._fields))


def random_start(rows: int, d: int, rng: np.random.Generator, size: float = 1.0) -> Start:
    """Return a random start: normal weights of standard deviation ``size`` in ``d`` dimensions, and a normal teacher.

    Example:
        >>> start = random_start(2, 10_000, np.random.default_rng(0))
        >>> bool(np.max(np.abs(start.overlap)) < 0.05)
        True
    """
    teacher, weights = rng.standard_normal((2, rows, d))
    return Start(size * weights @ teacher.T / d, size**2 * weights @ weights.T / d, teacher @ teacher.T / d)


def cosine_start(rows: int, cosine: float, size: float = 1.0) -> Start:
    """Return a start with orthogonal rows of power ``size`` squared and this cosine similarity to their true rows.

    Example:
        >>> cosine_start(1, 0.3)
        Start(overlap=array([[0.3]]), power=array([[1.]]), teacher=None)
    """
    if not (is_number(cosine) and 0 <= cosine < 1):
        raise ParameterError("overlap", cosine, "a number in [0, 1)")
    return Start(size * cosine * np.eye(rows), size**2 * np.eye(rows))


def online_sgd(
    model: Model,
    time: ArrayLike,
    pace: Pace = Pace(),  # noqa: B008
    start: Start | None = None,
    points: int = _POINTS,
) -> OnlinePath:
    r"""Return overlaps, powers and test errors of online SGD on the squared error, in the limit of large sizes.

    Equation :eq:`online-sgd` of the documentation.

    Args:
        model: model of several rows, or of one index, with labels that JAX can differentiate.
        time: steps over dimension, increasing numbers >= 0, shape (times,).
        pace: learning rate, batch size and weight decay.
        start: overlap and power at time zero, by default an overlap of zero and a power of one. With even labels the
            overlap remains zero; :func:`random_start` gives a start at finite dimension.
        points: number of sampled fields in each of eight sets, a power of two; errors fall about like its inverse.

    Returns:
        :class:`OnlinePath`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: labels are not differentiable.

    Source: D. Saad and S. A. Solla, Phys. Rev. E 52, 4225 (1995), for committees; here for any link.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.1).at_accuracy(Accuracy(points=32))
        >>> path = online_sgd(model, [0.0, 2.0], Pace(0.5, 1), points=512)  # linear: M = 1 - exp(-t/2)
        >>> bool(np.all(np.abs(path.overlap.value[1] - np.eye(2) * (1 - np.exp(-1))) < path.overlap.error[1] + 1e-4))
        True
    """
    require_arguments(online_sgd, locals())
    times = real_numbers("time", time).ravel()
    if len(times) == 0 or times[0] < 0 or np.any(np.diff(times) < 0):
        raise ParameterError("time", time, "increasing numbers >= 0")
    channel, link = model.channel, model.traceable_label
    size = channel.fields.rows
    starts = _checked_starts(Start(np.zeros((size, size)), np.eye(size)) if start is None else start, size)
    _require(pace, points, 2 * size * channel.fields.columns)
    memory = 8.0 * _HELD * _SETS * points * size * channel.fields.columns
    require_resources("points", points, memory, "use fewer points")
    rates = CachedJit(time_derivatives, link=link)
    paths = [_integrate_start(model, rates, one, times, pace, points) for one in track(starts, "starts")]
    states, label_errors = (np.stack(parts, axis=2) for parts in list(zip(*paths, strict=True))[:2])
    status = next((status for *_, status in paths if not status.ok), Status.CONVERGED)
    # Signs that labels do not depend on are chosen to maximise the sum of the overlaps of rows with their truth.
    diagonal = np.diagonal(states[..., 0, :, :], axis1=-2, axis2=-1)
    signs = channel.labels.row_symmetries.signs[np.argmax(diagonal @ channel.labels.row_symmetries.signs.T, axis=-1)]
    overlap = signs[..., :, None] * states[..., 0, :, :]
    power = signs[..., :, None] * states[..., 1, :, :] * signs[..., None, :]
    return OnlinePath(times, np.stack([overlap, power], axis=-3), label_errors, status, starts[:, 2])


def online_trajectory(
    model: Model, alpha: ArrayLike, steps: int, pace: Pace, start: Start | None = None, points: int = _POINTS
) -> Steps:
    r"""Return the path of :func:`online_sgd` to the sample ratios ``alpha``, each in ``steps`` equal parts.

    Args:
        model: as for :func:`online_sgd`.
        alpha: samples over dimension, :math:`bt`, shape (points,).
        steps: number of parts, at least 1.
        pace: learning rate, batch size and weight decay.
        start: start, as for :func:`online_sgd`; columns are means over several starts.
        points: number of sampled fields, as for :func:`online_sgd`.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and part: ``alpha``, ``iteration`` (0 at
        the start), ``time``, ``samples`` (so far, over dimension), ``error`` (mean over the rows of their squared
        distance from the truth), ``row_error``, ``cosine``, ``overlap`` (``M``), ``power`` (``Q``), ``plugin_error``
        (on new labels without noise), and error estimates ``error_estimate``, ``cosine_error_estimate`` and so on for
        all columns except ``row_error``.

    Example:
        >>> from glassformer import Accuracy, SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2).at_accuracy(Accuracy(points=32))
        >>> online_trajectory(model, 2.0, 2, Pace(0.5, 1), points=64)["cosine"][:, 0].round(3).tolist()
        [0.0, 0.46, 0.75]
    """
    ratios = np.atleast_1d(np.asarray(alpha, dtype=float))
    samples = (ratios[:, None] * np.arange(steps + 1) / steps).ravel()
    order = np.argsort(samples, kind="stable")
    back = np.argsort(order, kind="stable")
    path = online_sgd(model, samples[order] / pace.batch, pace, start, points)
    ended = np.where(np.isfinite(path.error.value), 0.0, np.nan)
    quantities = {
        "": path.error,
        "cosine": path.cosine,
        "overlap": path.overlap,
        "power": path.power,
        "plugin": Estimate(path.test_error.value + ended, path.test_error.error + ended),
    }
    estimates = {f"{name}_error_estimate".lstrip("_"): part.error[back] for name, part in quantities.items()}
    error, all_ratios = path.error.value[back], np.repeat(ratios, steps + 1)
    powers = np.diagonal(path.power.value, axis1=1, axis2=2).max(axis=1)[back]
    valid = np.isfinite(error) & ((path.status is not Status.DIVERGING) | (powers < _LARGE))
    notes = wide_error_bars(all_ratios, error, estimates["error_estimate"], {"points": points})
    if not valid.all():
        last = np.max(samples[valid], initial=0.0) / pace.batch
        notes = [*notes, f"{path.status} after time {last:.3g}: {path.status.remedy}"]
    return Steps(
        model=model.name,
        parameters={**model.parameters, **pace._asdict()},
        columns={
            "alpha": all_ratios,
            "iteration": np.tile(np.arange(steps + 1.0), len(ratios)),
            "time": samples / pace.batch,
            "samples": samples,
            "error": error,
            "row_error": path.row_error.value[back],
            **{name: quantities[name].value[back] for name in ("cosine", "overlap", "power")},
            "plugin_error": quantities["plugin"].value[back],
            **estimates,
        },
        status=[Status.CONVERGED if ok else path.status for ok in valid.tolist()],
        notes=notes,
    )


def _require(pace: Pace, points: int, dimensions: int) -> None:
    for name, value, least in zip(Pace._fields, pace, (np.nextafter(0, 1), 1, 0), strict=True):
        if not (is_number(value) and least <= value < np.inf):
            raise ParameterError(name, value, "finite and >= 0" if least == 0 else "finite and > 0")
    decay_rate("weight_decay", pace.weight_decay)
    if not is_whole(points, max(_FEWEST_POINTS, dimensions)) or points & (points - 1):
        raise ParameterError("points", points, f"a power of two >= {max(_FEWEST_POINTS, dimensions)}")


def _checked_starts(start: Start, rows: int) -> Array:
    """Return all starts with their teachers, shape (starts, 3, P, P)."""
    if not isinstance(start, tuple) or len(start) != len(Start._fields):
        raise ParameterError("start", start, "a Start of overlap, power and teacher, for instance from cosine_start")
    overlap, power = (real_numbers("start", part) for part in start[:2])
    if overlap.shape[-2:] != (rows, rows) or overlap.shape != power.shape:
        raise ParameterError("start", start, f"overlap and power of shape {(rows, rows)}, or of several starts")
    teacher = np.eye(rows) if start.teacher is None else real_numbers("start", start.teacher)
    if teacher.shape not in ((rows, rows), overlap.shape):
        raise ParameterError("start", start, f"a teacher of the shape of the overlap, {overlap.shape}")
    parts = (overlap, power, np.broadcast_to(teacher, overlap.shape))
    starts = np.stack([part.reshape(-1, rows, rows) for part in parts], axis=1)
    overlaps, powers, teachers = np.moveaxis(starts, 1, 0)
    if np.min(np.linalg.eigvalsh(teachers)) < TOLERANCE:
        raise ParameterError("start", start, "a teacher whose rows are independent: T positive definite")
    orthogonal = powers - overlaps @ np.linalg.solve(teachers, np.swapaxes(overlaps, 1, 2))
    if np.min(np.linalg.eigvalsh(orthogonal)) < -TOLERANCE:
        raise ParameterError("start", start, "a power Q with Q - M T^-1 M^T positive semi-definite")
    return starts


# --- integration in time ----------------------------------------------------------------------------------------------


def _integrate_start(
    model: Model, rates: CachedJit, start: Array, times: Array, pace: Pace, points: int
) -> tuple[Array, Array, Status]:
    """Return the path from a start of overlap, power and teacher, shape (3, P, P).

    The result is overlaps and powers, shape (times, sets, 2, P, P), squared errors on labels, shape (times, sets), and
    the status.
    """
    overlap, power, teacher = start
    channel, root = model.channel, np.real(sqrtm(teacher))
    begin, shape = np.stack([np.linalg.solve(root, overlap.T).T, power]), (_SETS, *start[:2].shape)
    fields, flips = SampledFields.of(model, points, root), sign_images(channel.labels.row_symmetries.signs, teacher)
    with jax_settings():
        projectors = symmetry_projectors(channel.labels.row_symmetries.invariances, begin, teacher)
        data, signs, settings = jax.tree.map(jnp.asarray, (fields, flips, np.array(pace, dtype=float)))

        def derivative(_: float, flat: Array) -> Array:
            change = np.asarray(rates(jnp.asarray(flat.reshape(shape)), settings, data, signs))
            return np.asarray(np.einsum("kab,skb->ska", projectors, change.reshape(_SETS, 2, -1))).ravel()

        states, status = _integrate(derivative, np.broadcast_to(begin, shape), times)
        states = states.reshape(len(times), *shape)
        errors = np.array([label_errors(state, data, channel) for state in states])
    return np.stack([states[..., 0, :, :] @ root, states[..., 1, :, :]], axis=-3), errors, status


def _integrate(derivative: Callable[[float, Array], Array], start: Array, times: Array) -> tuple[Array, Status]:
    """Return the states at the given times, by adaptive Runge-Kutta steps; NaN where they were not reached."""

    def largest_power(states: Array) -> float:
        """Return the largest power of a row, averaged over the sets of points."""
        return float(np.max(np.diagonal(states.reshape(start.shape)[:, 1].mean(axis=0))))

    flat = start.ravel()
    passed, powers = [0.0], [largest_power(start)]
    states = np.full((len(times), len(flat)), np.nan)
    states[times == 0] = flat
    if times[-1] == 0:
        return states, Status.CONVERGED
    solver = RK45(derivative, 0.0, flat, times[-1], rtol=TOLERANCE, atol=TOLERANCE * _ABSOLUTE_SHARE)
    while solver.status == "running":
        solver.step()
        note(f"time {solver.t:.3g} of {times[-1]:.3g}")
        if solver.status == "failed" or not np.max(np.abs(solver.y)) < _DIVERGED:
            return states, Status.DIVERGING if np.isfinite(solver.y).all() else Status.NON_FINITE
        passed.append(solver.t)
        powers.append(largest_power(solver.y))
        inside = (times > solver.t_old) & (times <= solver.t)
        if inside.any():
            states[inside] = solver.dense_output()(times[inside]).T
        if solver.nfev > _MOST_EVALUATIONS and solver.status == "running":
            return states, Status.ITERATION_LIMIT
    grows = diverges(np.array(passed), np.array(powers), max(1.0, powers[0]))
    return states, Status.DIVERGING if grows else Status.CONVERGED


# --- right-hand sides, over sampled fields ----------------------------------------------------------------------------


class SampledFields(NamedTuple):
    """Sampled fields, shape (sets, points, P, L), with labels and their means, shape (sets, points, entries).

    ``true`` are the fields of orthonormal rows of the teacher, and ``own`` are independent fields.
    """

    true: AnyArray
    own: AnyArray
    labels: AnyArray
    means: AnyArray

    @classmethod
    def of(cls, model: Model, points: int, root: Array) -> SampledFields:
        """Return fields and labels of a teacher whose power has the square root ``root``."""
        channel = model.channel
        shape, size = (channel.fields.rows, channel.fields.columns), channel.fields.rows * channel.fields.columns
        sources = channel.inference.sources + channel.fields.sources
        normal = normal_points(2 * size + sources, points, _SETS)
        # Whitening makes second moments within each set exact.
        moments = np.einsum("snd,sne->sde", normal, normal, optimize=True) / points
        normal = np.swapaxes(np.linalg.solve(np.linalg.cholesky(moments), np.swapaxes(normal, 1, 2)), 1, 2)
        true, own, source = np.split(normal.reshape(_SETS * points, -1), [size, 2 * size], axis=1)
        source, of_state = np.split(source, [channel.inference.sources], axis=1)
        true, rng = true.reshape(-1, *shape), np.random.default_rng(0)
        # Tokens are shifted along the rows of the teacher.
        true = true + root @ channel.fields.shifts(root @ true, of_state, root @ root)
        fields = np.einsum("ab,nbl->nal", root, true)
        labels = channel.inference.labels_from(fields, source, rng)
        parts = (true, own.reshape(-1, *shape), labels.reshape(len(true), -1), _mean_labels(channel, fields))
        return cls(*(part.reshape(_SETS, points, *part.shape[1:]) for part in parts))


def sign_images(signs: Array, teacher: Array) -> Array:
    """Return signs of the true fields over which every point is averaged, so that zero overlap remains exactly zero.

    The signs leave the teacher's power invariant.
    """
    mixed = teacher - np.diag(np.diagonal(teacher))
    allowed = signs[[not np.any(mixed * (1 - np.outer(sign, sign))) for sign in signs]]
    if len(allowed) <= _MOST_IMAGES:
        return allowed
    return np.stack([allowed[0], allowed[np.argmin(allowed.sum(axis=1))]])


def symmetry_projectors(invariances: Array, start: Array, teacher: Array) -> Array:
    r"""Return projectors on flattened overlaps and powers with the symmetries of a start, shape (2, P^2, P^2).

    Labels are invariant under orthogonal matrices :math:`\pi` of the student's rows and :math:`\sigma` of the teacher's
    rows. If :math:`\pi M\sigma^T = M`, :math:`\pi Q\pi^T = Q` and :math:`\sigma T\sigma^T = T` hold at the start, they
    hold at all times. Averages over sampled fields satisfy them only approximately, and without the projection the
    state would leave an unstable symmetric point.

    Args:
        invariances: orthogonal matrices under which labels are invariant, shape (count, P, P).
        start: overlap and power at time zero, shape (2, P, P).
        teacher: power of the teacher, shape (P, P).

    Example:
        >>> exchange = np.array([np.eye(2), np.eye(2)[::-1]])
        >>> equal = symmetry_projectors(exchange, np.array([np.full((2, 2), 0.1), np.eye(2)]), np.eye(2))
        >>> (equal[0] @ [1.0, 0.0, 0.0, 0.0]).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    overlap, power = start
    students = [own for own in invariances if np.allclose(own @ power @ own.T, power, atol=_ROUNDING)]
    teachers = [true for true in invariances if np.allclose(true @ teacher @ true.T, teacher, atol=_ROUNDING)]
    projectors, count = np.zeros((2, overlap.size, overlap.size)), 0
    for own in students:
        images = np.einsum("ab,bc,kdc->kad", own, overlap, np.array(teachers))
        for true in np.array(teachers)[np.abs(images - overlap).max(axis=(1, 2)) < _ROUNDING]:
            projectors += [np.kron(own, true), np.kron(own, own)]
            count += 1
    return projectors / count


def time_derivatives(
    state: jax.Array, settings: jax.Array, data: SampledFields, flips: jax.Array, link: Callable[[jax.Array], jax.Array]
) -> jax.Array:
    """Return the right-hand sides of all sets, shape (sets, 2, P, P)."""
    eta, batch, decay = settings

    def label_gradient(fields: AnyArray, label: AnyArray) -> jax.Array:
        student_label, pull_back = jax.vjp(lambda z: jnp.ravel(link(z)), fields)
        (gradient,) = pull_back(student_label - label)
        return gradient

    def mean_product(left: AnyArray, right: AnyArray) -> jax.Array:
        """Return the mean over points of the sum over columns, shape (P, P)."""
        return jnp.einsum("nal,nbl->ab", left, right) / len(left)

    def of_set(own_state: jax.Array, own: SampledFields) -> jax.Array:
        def of_image(signs: jax.Array) -> jax.Array:
            true = signs[:, None] * own.true
            fields = _student_fields(own_state, true, own.own)
            delta = jax.vmap(label_gradient)(fields, own.labels)
            along, noise = mean_product(delta, fields), eta**2 / batch * mean_product(delta, delta)
            return jnp.stack([-eta * mean_product(delta, true), noise - eta * (along + along.T)])

        mean = jnp.mean(jax.lax.map(of_image, flips), axis=0)
        return mean - eta * decay * jnp.array([1.0, 2.0])[:, None, None] * own_state

    return jax.vmap(of_set)(state, data)


def label_errors(state: AnyArray, data: SampledFields, channel: Channel) -> Array:
    """Return squared differences of mean labels at the student's and at the true fields, shape (sets,)."""
    fields = np.asarray(jax.vmap(_student_fields)(state, data.true, data.own))
    sets, points = fields.shape[:2]
    means = _mean_labels(channel, fields.reshape(-1, *fields.shape[2:])).reshape(sets, points, -1)
    return np.asarray(np.mean(np.sum((means - np.asarray(data.means)) ** 2, axis=2), axis=1))


def _mean_labels(channel: Channel, fields: Array) -> Array:
    """Return labels without noise, shape (n, entries)."""
    return clean_labels(channel, fields).reshape(len(fields), -1)


def _student_fields(state: AnyArray, true: AnyArray, own: AnyArray) -> jax.Array:
    """Return fields of the student, shape (points, P, L), with this overlap with the teacher and this power."""
    overlap, power = state
    values, vectors = jnp.linalg.eigh(power - overlap @ overlap.T)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
    return jnp.einsum("ab,nbl->nal", overlap, true) + jnp.einsum("ab,nbl->nal", root, own)
