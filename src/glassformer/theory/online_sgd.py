r"""Stochastic gradient descent on samples that are never seen twice, in the limit of large sizes.

A student of the teacher's own link with weights ``W`` takes steps
:math:`W \leftarrow W - \frac{\eta}{b\sqrt d}\sum_{\mu l}\delta_lx_l^T - \frac{\eta w}dW` on batches of ``b`` new
samples, with :math:`\delta_l = \partial_{z_l}\frac12\|g(Z)-y\|^2`. In the time :math:`t = \mathrm{steps}/d` its overlap
:math:`M = WW^{*T}/d` and power :math:`Q = WW^T/d` obey

.. math::
   \dot M = -\eta\,E\sum_l\delta_lz_l^{*T} - \eta wM, \qquad
   \dot Q = -\eta\,E\sum_l(\delta_lz_l^T + z_l\delta_l^T) + \frac{\eta^2}b\,E\sum_l\delta_l\delta_l^T - 2\eta wQ,

where the columns of the fields :math:`(Z^*, Z)` are independent normal vectors of covariance
:math:`((I, M^T), (M, Q))`. Averages are taken over the same quasi-random points at every time, so that the right-hand
sides are smooth; several sets of points are followed at once, and their spread tells the error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import RK45

from glassformer.core.checks import is_number, is_whole, real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.compiled import Specialised
from glassformer.core.numerics.quasi_random import normal_points
from glassformer.core.progress import note, track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, scalars
from glassformer.core.showing import Shown
from glassformer.core.solution import Status
from glassformer.models.base import Model

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Followed:
    """How the equations are followed in time.

    Attributes:
        replicas: independent sets of points.
        points: of each, by default.
        least: of them.
        tolerance: of a step in time, relative and, where overlaps are small, a hundredth of it absolute.
        share: of that for quantities close to zero.
        confidence: with which errors stay below their estimate.
        evaluations: of the right-hand side, at most.
        diverged: power of a row at which the equations count as diverging.
        images: of a point under symmetries, at most.
    """

    replicas: int = 8
    points: int = 2048
    least: int = 32
    tolerance: float = 1e-4
    share: float = 1e-2
    confidence: float = 0.95
    evaluations: int = 20_000
    diverged: float = 1e6
    images: int = 4


_POLICY = Followed()
# Numbers held per point, field and image while a right-hand side is evaluated.
_HELD = 12


class Pace(NamedTuple):
    r"""One step of descent: its length :math:`\eta`, the samples ``b`` that it sees, and the weight decay ``w``."""

    learning_rate: float = 1.0
    batch: int = 1
    weight_decay: float = 0.0


class Start(NamedTuple):
    """Overlap with the truth and power of the weights at time zero, both of shape (P, P)."""

    overlap: Array
    power: Array


@dataclass(frozen=True)
class OnlinePath(Shown):
    """Overlap and power in time, from one start or as means over several.

    Attributes:
        time: steps over dimension, shape (times,).
        replicas: overlap and power of each set of points from each start, shape (times, sets, starts, 2, P, P), rows
            with the signs, among those that labels are blind to, that suit them best; NaN after a failure.
        labels: squared error on labels without noise, shape (times, sets, starts).
        status: converged if every time was reached.
    """

    time: Array
    replicas: Array
    labels: Array
    status: Status
    drawing = "plot_online"

    def to_pandas(self) -> pandas.DataFrame:
        """One row per time."""
        import pandas

        columns = {"time": self.time, "error": self.error.value, "cosine": self.cosine.value}
        columns |= {"error_estimate": self.error.error, "plugin_error": self.test_error.value}
        parts = {name: part for column in columns.items() for name, part in scalars(*column).items()}
        return pandas.DataFrame({**parts, "status": str(self.status)})

    @property
    def overlap(self) -> Integral:
        """``M``, shape (times, P, P)."""
        return _estimated(self.replicas[..., 0, :, :])

    @property
    def power(self) -> Integral:
        """``Q``, shape (times, P, P)."""
        return _estimated(self.replicas[..., 1, :, :])

    @property
    def test_error(self) -> Integral:
        """Squared error on the label of a new sample, its own noise left out, shape (times,)."""
        return _estimated(self.labels)

    @property
    def cosine(self) -> Integral:
        """Cosine similarity of each row with its truth, shape (times, P)."""
        return _estimated(self._cosines)

    @property
    def row_error(self) -> Integral:
        """Squared distance of each row from its truth, over ``d``, shape (times, P)."""
        return _estimated(self._distances)

    @property
    def error(self) -> Integral:
        """Their mean over the rows, shape (times,)."""
        return _estimated(self._distances.mean(axis=-1))

    def arrival(self, level: float = 0.5) -> Integral:
        """The first time at which the cosine similarity of each row exceeds a level, shape (P,).

        Infinite, with an infinite error, for rows that some set of points does not find within the time followed. The
        order of the finite ones is the order of learning; from a start of size one over the root of the dimension they
        are the times of escape.
        """
        paths = np.moveaxis(self._cosines, 0, -1)
        found = np.apply_along_axis(lambda path: _crossing(self.time, path, level), -1, paths)
        missed = ~np.isfinite(found).all(axis=(0, 1))
        known = _estimated(np.where(missed, 0.0, found)[None])
        value, error = (np.where(missed, np.inf, part[0]) for part in known)
        return Integral(value, error)

    @property
    def _rows(self) -> tuple[Array, Array]:
        """Overlaps of rows with their own truth, and their powers, shape (times, sets, starts, P)."""
        diagonal = np.diagonal(self.replicas, axis1=-2, axis2=-1)
        return diagonal[..., 0, :], diagonal[..., 1, :]

    @property
    def _cosines(self) -> Array:
        overlap, power = self._rows
        return np.asarray(overlap / np.sqrt(np.maximum(power, np.finfo(float).tiny)))

    @property
    def _distances(self) -> Array:
        overlap, power = self._rows
        return np.asarray(1 - 2 * overlap + power)


def _estimated(replicas: Array) -> Integral:
    """Means over sets and starts, the second and third axis, with what sampling and steps in time leave of error."""
    # Slow to import.
    from scipy.stats import t as student

    means = replicas.mean(axis=2)
    count = means.shape[1]
    factor = float(student.ppf(0.5 * (1 + _POLICY.confidence), count - 1))
    value, blur = np.mean(means, axis=1), np.std(means, axis=1, ddof=1) / np.sqrt(count)
    return Integral(value, np.asarray(factor * blur + _POLICY.tolerance * np.abs(value)))


def _crossing(time: Array, path: Array, level: float) -> float:
    """When a path, shape (times,), first exceeds a level; infinite where it does not."""
    above = path > level
    k = int(np.argmax(above))
    if k == 0 or not above[k]:
        return float(time[0]) if above[0] else np.inf
    return float(np.interp(level, path[k - 1 : k + 1], time[k - 1 : k + 1]))


def random_start(rows: int, d: int, rng: np.random.Generator, size: float = 1.0) -> Start:
    """Overlap and power of normal weights of standard deviation ``size`` in ``d`` dimensions, with a normal teacher.

    Example:
        >>> start = random_start(2, 10_000, np.random.default_rng(0))
        >>> bool(np.max(np.abs(start.overlap)) < 0.05)
        True
    """
    teacher, weights = rng.standard_normal((2, rows, d))
    return Start(size * weights @ teacher.T / d, size**2 * weights @ weights.T / d)


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
            labels never leave (see :func:`random_start` for one at a finite dimension).
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
    times, link = _times(time), model.traceable_label
    channel = model.channel.in_rows
    size = channel.rows
    begin = Start(np.zeros((size, size)), np.eye(size)) if start is None else start
    starts = _checked(begin, size)
    _require(pace, points, 2 * size * channel.columns)
    flips = _flips(channel.symmetries)
    memory = 8.0 * _HELD * _POLICY.replicas * points * channel.rows * channel.columns
    require_resources("points", points, memory, "use fewer points")
    sampled, shape = _Fields.of(model, points), (_POLICY.replicas, 2, size, size)
    with jax.enable_x64(True):
        data, signs, rates = jax.tree.map(jnp.asarray, (sampled, flips, np.array(pace, dtype=float)))
        slope, gap = Specialised(_slopes, link=link), Specialised(_gaps, link=link)

        def derivative(_: float, flat: Array) -> Array:
            return np.asarray(slope(jnp.asarray(flat.reshape(shape)), rates, data, signs)).ravel()

        ends = [_integrated(derivative, np.broadcast_to(one, shape).ravel(), times) for one in track(starts, "starts")]
        replicas = np.stack([states.reshape(len(times), *shape) for states, _ in ends], axis=2)
        labels = [[gap(jnp.asarray(replicas[t, :, k]), data) for k in range(len(starts))] for t in range(len(times))]
    status = next((status for _, status in ends if not status.ok), Status.CONVERGED)
    gaps = np.swapaxes(np.array(labels, dtype=float), 1, 2)
    return OnlinePath(times, _aligned(replicas, channel.symmetries), gaps, status)


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
    found["plugin"] = path.test_error
    estimates = {f"{name}_error_estimate".lstrip("_"): part.error[back] for name, part in found.items()}
    error = path.error.value[back]
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
        status=[Status.CONVERGED if ok else path.status for ok in np.isfinite(error).tolist()],
    )


def _require(pace: Pace, points: int, dimensions: int) -> None:
    for name, value, least in zip(Pace._fields, pace, (np.nextafter(0, 1), 1, 0), strict=True):
        if not (is_number(value) and least <= value < np.inf):
            raise ParameterError(name, value, "finite and >= 0" if least == 0 else "finite and > 0")
    if not is_whole(points, max(_POLICY.least, dimensions)) or points & (points - 1):
        raise ParameterError("points", points, f"a power of two >= {max(_POLICY.least, dimensions)}")


def _times(time: ArrayLike) -> Array:
    values = real_numbers("time", time).ravel()
    if len(values) == 0 or values[0] < 0 or np.any(np.diff(values) < 0):
        raise ParameterError("time", time, "increasing numbers >= 0")
    return values


def _checked(start: Start, rows: int) -> Array:
    """All starts, shape (starts, 2, P, P)."""
    overlap, power = (real_numbers("start", part) for part in start)
    if overlap.shape[-2:] != (rows, rows) or overlap.shape != power.shape:
        raise ParameterError("start", start, f"overlap and power of shape {(rows, rows)}, or of several starts")
    found = np.stack([overlap.reshape(-1, rows, rows), power.reshape(-1, rows, rows)], axis=1)
    rest = found[:, 1] - found[:, 0] @ np.swapaxes(found[:, 0], 1, 2)
    if np.min(np.linalg.eigvalsh(rest)) < -_POLICY.tolerance:
        raise ParameterError("start", start, "a power Q of at least the square M M^T of the overlap")
    return found


def cosine_start(rows: int, cosine: float, size: float = 1.0) -> Start:
    """Every row of power ``size`` squared, with this cosine similarity to its own true row and none to others.

    Example:
        >>> cosine_start(1, 0.3)
        Start(overlap=array([[0.3]]), power=array([[1.]]))
    """
    if not (is_number(cosine) and 0 <= cosine < 1):
        raise ParameterError("overlap", cosine, "a number in [0, 1)")
    return Start(size * cosine * np.eye(rows), size**2 * np.eye(rows))


def _flips(signs: Array) -> Array:
    """Signs of the true fields over which every point is averaged: without overlap nothing then moves, exactly."""
    if len(signs) <= _POLICY.images:
        return signs
    return np.stack([signs[0], signs[np.argmin(signs.sum(axis=1))]])


class _Fields(NamedTuple):
    """Sampled data: true fields, independent ones and labels, of shapes (sets, points, ...)."""

    true: Any
    own: Any
    labels: Any

    @classmethod
    def of(cls, model: Model, points: int) -> _Fields:
        channel, sets = model.channel.in_rows, _POLICY.replicas
        shape, size = channel.field_components, channel.rows * channel.columns
        drawn = _whitened(normal_points(2 * size + channel.sources, points, sets))
        true, own, source = np.split(drawn.reshape(sets * points, -1), [size, 2 * size], axis=1)
        true = true.reshape(-1, *shape)
        rng = np.random.default_rng(0)
        labels = channel.label_from(true, source) if channel.sources else channel.sample(true, rng)
        parts = (true, own.reshape(-1, *shape), labels.reshape(len(true), -1))
        return cls(*(part.reshape(sets, points, *part.shape[1:]) for part in parts))


def _whitened(points: Array) -> Array:
    """Points of each set, shape (sets, points, dimensions), with second moments that are exact."""
    moments = np.einsum("snd,sne->sde", points, points, optimize=True) / points.shape[1]
    roots = np.linalg.cholesky(moments)
    return np.asarray(np.swapaxes(np.linalg.solve(roots, np.swapaxes(points, 1, 2)), 1, 2))


def _fields_of(state: Any, true: Any, own: Any) -> Any:
    """Fields of the student, shape (points, P, L), beside those of the teacher."""
    overlap, power = state
    values, vectors = jnp.linalg.eigh(power - overlap @ overlap.T)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
    return jnp.einsum("ab,nbl->nal", overlap, true) + jnp.einsum("ab,nbl->nal", root, own)


def _slopes(state: Any, rates: Any, data: _Fields, flips: Any, link: Callable[[Any], Any]) -> Any:
    """Right-hand sides of all sets, shape (sets, 2, P, P)."""
    eta, batch, decay = rates

    def pulled(fields: Any, label: Any) -> Any:
        found, back = jax.vjp(lambda z: jnp.ravel(link(z)), fields)
        return back(found - label)[0]

    def of_set(own_state: Any, own: _Fields) -> Any:
        def of_image(signs: Any) -> Any:
            true = signs[:, None] * own.true
            fields = _fields_of(own_state, true, own.own)
            delta = jax.vmap(pulled)(fields, own.labels)
            along, noise = _product(delta, fields), eta**2 / batch * _product(delta, delta)
            return jnp.stack([-eta * _product(delta, true), noise - eta * (along + along.T)])

        mean = jnp.mean(jax.lax.map(of_image, flips), axis=0)
        return mean - eta * decay * jnp.array([1.0, 2.0])[:, None, None] * own_state

    return jax.vmap(of_set)(state, data)


def _product(left: Any, right: Any) -> Any:
    """Mean over points of the sum over columns, shape (P, P)."""
    return jnp.einsum("nal,nbl->ab", left, right) / len(left)


def _gaps(state: Any, data: _Fields, link: Callable[[Any], Any]) -> Any:
    """Squared errors on labels without noise, shape (sets,)."""

    def of_set(own_state: Any, own: _Fields) -> Any:
        fields = _fields_of(own_state, own.true, own.own)
        found = jax.vmap(link)(fields) - jax.vmap(link)(own.true)
        return jnp.mean(jnp.sum(found.reshape(len(fields), -1) ** 2, axis=1))

    return jax.vmap(of_set)(state, data)


def _integrated(derivative: Callable[[float, Array], Array], start: Array, times: Array) -> tuple[Array, Status]:
    """States at the given times, by steps of a length that adapts; NaN where they were not reached."""
    states = np.full((len(times), len(start)), np.nan)
    states[times == 0] = start
    if times[-1] == 0:
        return states, Status.CONVERGED
    tolerance = _POLICY.tolerance
    solver = RK45(derivative, 0.0, start, times[-1], rtol=tolerance, atol=tolerance * _POLICY.share)
    while solver.status == "running":
        solver.step()
        note(f"time {solver.t:.3g} of {times[-1]:.3g}")
        if solver.status == "failed" or not np.max(np.abs(solver.y)) < _POLICY.diverged:
            return states, Status.NON_FINITE
        here = (times > solver.t_old) & (times <= solver.t)
        if here.any():
            states[here] = solver.dense_output()(times[here]).T
        if solver.nfev > _POLICY.evaluations and solver.status == "running":
            return states, Status.ITERATION_LIMIT
    return states, Status.CONVERGED
