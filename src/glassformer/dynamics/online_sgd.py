r"""Stochastic gradient descent on samples that are never seen twice, in the limit of large sizes.

A student of the teacher's own link with weights ``W`` takes steps
:math:`W \leftarrow W - \frac{\eta}{b\sqrt d}\sum_{\mu l}\delta_lx_l^T - \frac{\eta w}dW` on batches of ``b`` new
samples, with :math:`\delta_l = \partial_{z_l}\frac12\|g(Z)-y\|^2`. In the time :math:`t = \mathrm{steps}/d` its overlap
:math:`M = WW^{*T}/d` and power :math:`Q = WW^T/d` obey

.. math::
   \dot M = -\eta\,E\sum_l\delta_lz_l^{*T} - \eta wM, \qquad
   \dot Q = -\eta\,E\sum_l(\delta_lz_l^T + z_l\delta_l^T) + \frac{\eta^2}b\,E\sum_l\delta_l\delta_l^T - 2\eta wQ,

where the columns of the fields :math:`(Z^*, Z)` are independent normal vectors of covariance
:math:`((T, M^T), (M, Q))`, with :math:`T = W^*W^{*T}/d`, the identity in the limit. The equations are followed in
coordinates in which the teacher's rows are orthonormal, :math:`MT^{-1/2}`, with the averages of
:mod:`~glassformer.dynamics.online_equations`. Permutations and signs of the rows of student and teacher that labels are
blind to, and that leave the start as it is, leave every later state as it is: averages are taken over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import RK45
from scipy.linalg import sqrtm

from glassformer.core.checks import is_number, is_whole, real_numbers, require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import note, track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, wide_error_bars
from glassformer.core.settings import decay_rate
from glassformer.core.solution import Status
from glassformer.dynamics.online_equations import SETS, Fields, flips_of, label_gaps, slopes, symmetric_part
from glassformer.dynamics.online_path import TOLERANCE, OnlinePath
from glassformer.models.base import Model
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.sequences import diverges


@dataclass(frozen=True)
class Followed:
    """How the equations are followed in time.

    Attributes:
        points: of each set, by default.
        least: of them.
        share: of the tolerance of a step in time that is absolute, for quantities close to zero.
        evaluations: of the right-hand side, at most.
        diverged: power of a row at which the equations are given up as diverging.
        large: power of a row from which on the times of a diverging path say so.
    """

    points: int = 2048
    least: int = 32
    share: float = 1e-2
    evaluations: int = 20_000
    diverged: float = 1e6
    large: float = 10.0


_POLICY = Followed()
# Numbers held per point, field and image while a right-hand side is evaluated.
_HELD = 12


class Pace(NamedTuple):
    r"""One step of descent: its length :math:`\eta`, the samples ``b`` that it sees, and the weight decay ``w``."""

    learning_rate: float = 1.0
    batch: int = 1
    weight_decay: float = 0.0


class Start(NamedTuple):
    """Overlap with the truth and power of the weights at time zero, and the teacher's own, all of shape (P, P).

    Rows of power one, orthogonal to each other, are the teacher's where none is given.
    """

    overlap: Array
    power: Array
    teacher: Array | None = None

    @classmethod
    def of_runs(cls, histories: Sequence[Sequence[Mapping[str, Any]]]) -> Start:
        """Where runs began, by the first records of their histories: of shape (runs, P, P)."""
        return cls(*(np.array([history[0][name] for history in histories]) for name in cls._fields))


def random_start(rows: int, d: int, rng: np.random.Generator, size: float = 1.0) -> Start:
    """Overlap and power of normal weights of standard deviation ``size`` in ``d`` dimensions, with a normal teacher.

    Example:
        >>> start = random_start(2, 10_000, np.random.default_rng(0))
        >>> bool(np.max(np.abs(start.overlap)) < 0.05)
        True
    """
    teacher, weights = rng.standard_normal((2, rows, d))
    return Start(size * weights @ teacher.T / d, size**2 * weights @ weights.T / d, teacher @ teacher.T / d)


def cosine_start(rows: int, cosine: float, size: float = 1.0) -> Start:
    """Every row of power ``size`` squared, with this cosine similarity to its own true row and none to others.

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
    points: int = _POLICY.points,
) -> OnlinePath:
    r"""Overlaps, powers and test errors of online gradient descent on the squared error, in the limit of large sizes.

    Equation :eq:`online-sgd` of the documentation.

    Args:
        model: of several rows, or of one index, with a label that JAX can differentiate.
        time: steps over dimension, increasing from 0 on, shape (times,).
        pace: learning rate, batch and weight decay.
        start: overlap and power at time zero, of an overlap of zero and a power of one by default: a state that even
            labels never leave (see :func:`random_start` for one at a finite dimension, with a teacher of that
            dimension).
        points: sampled fields of each of eight sets, a power of two; errors fall about as its inverse.

    Returns:
        :class:`OnlinePath`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: labels without slopes.

    Source: D. Saad and S. A. Solla, Phys. Rev. E 52, 4225 (1995), for committees; here for any link.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, tokens=1, noise=0.1, points=32)
        >>> path = online_sgd(model, [0.0, 2.0], Pace(0.5, 1), points=512)  # linear: M = 1 - exp(-t/2)
        >>> bool(np.all(np.abs(path.overlap.value[1] - np.eye(2) * (1 - np.exp(-1))) < path.overlap.error[1] + 1e-4))
        True
    """
    require_arguments(online_sgd, locals())
    times, link = _times(time), model.traceable_label
    channel = model.channel
    size = channel.rows
    begin = Start(np.zeros((size, size)), np.eye(size)) if start is None else start
    starts = _checked(begin, size)
    _require(pace, points, 2 * size * channel.columns)
    memory = 8.0 * _HELD * SETS * points * channel.rows * channel.columns
    require_resources("points", points, memory, "use fewer points")
    slope = CachedJit(slopes, link=link)
    ways = [_followed(model, slope, one, times, pace, points) for one in track(starts, "starts")]
    replicas, gaps = (np.stack(parts, axis=2) for parts in ([way.states for way in ways], [way.gaps for way in ways]))
    status = next((way.status for way in ways if not way.status.ok), Status.CONVERGED)
    return OnlinePath(times, _aligned(replicas, channel.symmetries), gaps, status, starts[:, 2])


class _Way(NamedTuple):
    """One start: overlap and power, shape (times, sets, 2, P, P), errors on labels, shape (times, sets)."""

    states: Array
    gaps: Array
    status: Status


def _followed(model: Model, slope: Any, start: Array, times: Array, pace: Pace, points: int) -> _Way:
    """The way from overlap, power and teacher, shape (3, P, P)."""
    overlap, power, teacher = start
    channel, root = model.channel, np.real(sqrtm(teacher))
    begin, shape = np.stack([np.linalg.solve(root, overlap.T).T, power]), (SETS, *start[:2].shape)
    sampled, flips = Fields.of(model, points, root), flips_of(channel.symmetries, teacher)
    with jax_settings():
        symmetric = symmetric_part(channel.row_symmetries.invariances, begin, teacher)

        def respected(change: Array) -> Array:
            """The part of a change that has the symmetries of the start."""
            flat = change.reshape(SETS, 2, -1)
            return np.asarray(np.einsum("kab,skb->ska", symmetric, flat))

        data, signs, rates = jax.tree.map(jnp.asarray, (sampled, flips, np.array(pace, dtype=float)))

        def derivative(_: float, flat: Array) -> Array:
            change = np.asarray(slope(jnp.asarray(flat.reshape(shape)), rates, data, signs))
            return respected(change).ravel()

        states, status = _integrated(derivative, np.broadcast_to(begin, shape), times)
        states = states.reshape(len(times), *shape)
        gaps = np.array([label_gaps(state, data, channel) for state in states])
    return _Way(np.stack([states[..., 0, :, :] @ root, states[..., 1, :, :]], axis=-3), gaps, status)


def _aligned(replicas: Array, signs: Array) -> Array:
    """Overlaps whose rows have the signs that make the sum of their diagonal largest, and powers with them."""
    own = np.diagonal(replicas[..., 0, :, :], axis1=-2, axis2=-1)
    best = signs[np.argmax(own @ signs.T, axis=-1)]
    overlap = best[..., :, None] * replicas[..., 0, :, :]
    power = best[..., :, None] * replicas[..., 1, :, :] * best[..., None, :]
    return np.stack([overlap, power], axis=-3)


def online_trajectory(
    model: Model, alpha: ArrayLike, steps: int, pace: Pace, start: Start | None = None, points: int = _POLICY.points
) -> Steps:
    r"""The way of :func:`online_sgd` to the sample ratios ``alpha``, each in ``steps`` equal parts.

    Args:
        model: as for :func:`online_sgd`.
        alpha: samples over dimension, :math:`bt`, shape (points,).
        steps: parts, at least 1.
        pace: learning rate, batch and weight decay.
        start: as there; columns are means over several starts.
        points: as there.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and part: ``alpha``, ``iteration`` (0 at
        the start), ``time``, ``samples`` (over dimension, so far), ``error`` (mean over the rows of their squared
        distance from the truth), ``row_error``, ``cosine``, ``overlap`` (``M``), ``power`` (``Q``), ``plugin_error``
        (on new labels without their noise), and of all but the rows' errors an estimate of the error:
        ``error_estimate``, ``cosine_error_estimate`` and so on.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, points=32)
        >>> online_trajectory(model, 2.0, 2, Pace(0.5, 1), points=64)["cosine"][:, 0].round(3).tolist()
        [0.0, 0.46, 0.75]
    """
    ratios = np.atleast_1d(np.asarray(alpha, dtype=float))
    samples = (ratios[:, None] * np.arange(steps + 1) / steps).ravel()
    order = np.argsort(samples, kind="stable")
    back = np.argsort(order, kind="stable")
    path = online_sgd(model, samples[order] / pace.batch, pace, start, points)
    found = {"": path.error, "cosine": path.cosine, "overlap": path.overlap, "power": path.power}
    ended = np.where(np.isfinite(path.error.value), 0.0, np.nan)
    found["plugin"] = Estimate(path.test_error.value + ended, path.test_error.error + ended)
    estimates = {f"{name}_error_estimate".lstrip("_"): part.error[back] for name, part in found.items()}
    error = path.error.value[back]
    powers = np.diagonal(path.power.value, axis1=1, axis2=2).max(axis=1)[back]
    sound = np.isfinite(error) & ((path.status is not Status.DIVERGING) | (powers < _POLICY.large))
    return Steps(
        model=model.name,
        parameters={**model.parameters, **pace._asdict()},
        columns={
            "alpha": np.repeat(ratios, steps + 1),
            "iteration": np.tile(np.arange(steps + 1.0), len(ratios)),
            "time": samples / pace.batch,
            "samples": samples,
            "error": error,
            "row_error": path.row_error.value[back],
            **{name: found[name].value[back] for name in ("cosine", "overlap", "power")},
            "plugin_error": found["plugin"].value[back],
            **estimates,
        },
        status=[Status.CONVERGED if ok else path.status for ok in sound.tolist()],
        notes=wide_error_bars(
            np.repeat(ratios, steps + 1), error, estimates["error_estimate"], {"points": points}, "--field-points"
        ),
    )


def _require(pace: Pace, points: int, dimensions: int) -> None:
    for name, value, least in zip(Pace._fields, pace, (np.nextafter(0, 1), 1, 0), strict=True):
        if not (is_number(value) and least <= value < np.inf):
            raise ParameterError(name, value, "finite and >= 0" if least == 0 else "finite and > 0")
    decay_rate("weight_decay", pace.weight_decay)
    if not is_whole(points, max(_POLICY.least, dimensions)) or points & (points - 1):
        raise ParameterError("points", points, f"a power of two >= {max(_POLICY.least, dimensions)}")


def _times(time: ArrayLike) -> Array:
    values = real_numbers("time", time).ravel()
    if len(values) == 0 or values[0] < 0 or np.any(np.diff(values) < 0):
        raise ParameterError("time", time, "increasing numbers >= 0")
    return values


def _checked(start: Start, rows: int) -> Array:
    """All starts, with their teachers, shape (starts, 3, P, P)."""
    if not isinstance(start, tuple) or len(start) != len(Start._fields):
        raise ParameterError("start", start, "a Start of overlap, power and teacher, as cosine_start makes one")
    overlap, power = (real_numbers("start", part) for part in start[:2])
    if overlap.shape[-2:] != (rows, rows) or overlap.shape != power.shape:
        raise ParameterError("start", start, f"overlap and power of shape {(rows, rows)}, or of several starts")
    teacher = np.eye(rows) if start.teacher is None else real_numbers("start", start.teacher)
    if teacher.shape not in ((rows, rows), overlap.shape):
        raise ParameterError("start", start, f"a teacher of the shape of the overlap, {overlap.shape}")
    parts = (overlap, power, np.broadcast_to(teacher, overlap.shape))
    found = np.stack([part.reshape(-1, rows, rows) for part in parts], axis=1)
    overlaps, powers, teachers = np.moveaxis(found, 1, 0)
    if np.min(np.linalg.eigvalsh(teachers)) < TOLERANCE:
        raise ParameterError("start", start, "a teacher whose rows are independent: T positive definite")
    rest = powers - overlaps @ np.linalg.solve(teachers, np.swapaxes(overlaps, 1, 2))
    if np.min(np.linalg.eigvalsh(rest)) < -TOLERANCE:
        raise ParameterError("start", start, "a power Q of at least what the overlap needs, M T^-1 M^T")
    return found


def _integrated(derivative: Callable[[float, Array], Array], start: Array, times: Array) -> tuple[Array, Status]:
    """States at the given times, by steps of a length that adapts; NaN where they were not reached."""
    flat = start.ravel()
    passed, largest = [0.0], [_power(start)]
    states = np.full((len(times), len(flat)), np.nan)
    states[times == 0] = flat
    if times[-1] == 0:
        return states, Status.CONVERGED
    solver = RK45(derivative, 0.0, flat, times[-1], rtol=TOLERANCE, atol=TOLERANCE * _POLICY.share)
    while solver.status == "running":
        solver.step()
        note(f"time {solver.t:.3g} of {times[-1]:.3g}")
        if solver.status == "failed" or not np.max(np.abs(solver.y)) < _POLICY.diverged:
            return states, Status.DIVERGING if np.isfinite(solver.y).all() else Status.NON_FINITE
        passed.append(solver.t)
        largest.append(_power(solver.y.reshape(start.shape)))
        here = (times > solver.t_old) & (times <= solver.t)
        if here.any():
            states[here] = solver.dense_output()(times[here]).T
        if solver.nfev > _POLICY.evaluations and solver.status == "running":
            return states, Status.ITERATION_LIMIT
    grows = diverges(np.array(passed), np.array(largest), max(1.0, largest[0]))
    return states, Status.DIVERGING if grows else Status.CONVERGED


def _power(states: Array) -> float:
    """Largest power of a row, the mean over the sets of points, of states of shape (sets, 2, P, P)."""
    return float(np.max(np.diagonal(states[:, 1].mean(axis=0))))
