r"""Weak recovery of one subspace after the other: the staircase of models whose labels are even in their rows.

At zero overlap state evolution is linear, :math:`Q \mapsto (\alpha/\mathrm{degrees})F(Q)` with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'},

a positive map on symmetric matrices: its leading eigenvalue has a positive semi-definite eigenvector, which names the
subspace that is found first, at :math:`\alpha_c = \mathrm{degrees}/\lambda`. Once a subspace is recovered the same
holds in the directions orthogonal to it, with ``D`` at the fixed point that state evolution reaches inside it at that
:math:`\alpha`: the next threshold is where :math:`\alpha\lambda(\alpha) = \mathrm{degrees}`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel, controlled
from glassformer.theory.state_evolution import evolved


@dataclass(frozen=True)
class Climb:
    """How the staircase is climbed, and what counts as one step of it."""

    accuracy: float = 2e-3  # of a later threshold
    steps: int = 12  # of the search for it
    farthest: float = 60.0  # sample ratio, over the first threshold, that ends the search
    degenerate: float = 2e-3  # share of the largest eigenvalue within which eigenvalues count as one
    errors: float = 4.0  # standard errors within which they do, beside that
    largest: int = 100_000_000  # numbers of the largest array of responses
    no_growth: float = 1e-6  # growth per step that counts as none: its logarithm must exist
    pure: float = 0.98  # weight of a matrix on one row from which on it names that row
    range: float = 0.05  # eigenvalue, relative to the largest, that belongs to the range of a matrix
    finer: int = 4  # data points of the operator over those of state evolution: it is not iterated
    leading: float = 5e-4  # accuracy asked of its eigenvalue at the leading threshold
    later: float = 5e-3  # at later ones
    most: int = 64  # factor of data points that is out of reach
    nearest: float = 0.05  # sample ratio, over that of the strongest score, at which a search for later ones begins
    rounding: float = 1e-12  # entry of a projector that is zero


_POLICY = Climb()


class Instability(NamedTuple):
    """Leading eigenvalue of the linearised state evolution, per unit of alpha/degrees.

    Attributes:
        rate: the eigenvalue.
        error: its standard error.
        matrix: its eigenvector, positive semi-definite and of unit trace, shape (P, P).
        degenerate: whether others are as large within the errors, so that no subspace is singled out.
    """

    rate: float
    error: float
    matrix: Array
    degenerate: bool


class Step(NamedTuple):
    """One threshold of the staircase.

    Attributes:
        alpha: where the subspace is found.
        error_estimate: absolute.
        matrix: positive semi-definite of unit trace, its range is the subspace.
        degenerate: whether several subspaces become unstable at once.
    """

    alpha: float
    error_estimate: float
    matrix: Array
    degenerate: bool


def instability(model: Model, variance: Array, unknown: Array, accuracy: float = _POLICY.leading) -> Instability:
    """The fastest growing overlap in the directions of the projector ``unknown``, at the covariance ``variance``.

    Equation :eq:`weak-recovery` of the documentation.

    Data points are doubled until the eigenvalue has the relative ``accuracy``, where that is within reach.
    """
    channel = model.channel.in_rows
    size = 8 * channel.points * (channel.rows * channel.columns) ** 2
    finer, most = _POLICY.finer, max(_POLICY.finer, min(_POLICY.finer * _POLICY.most, _POLICY.largest // size))
    found = _instability(model, variance, unknown, finer)
    within_reach = channel.sampled and found.error <= accuracy * np.sqrt(_POLICY.most) * found.rate
    while within_reach and found.error > accuracy * found.rate and finer < most:
        finer *= 2
        found = _instability(model, variance, unknown, finer)
    if channel.louder is None:
        return found
    moved = abs(_instability(model, variance, unknown, finer, channel.louder).rate - found.rate)
    return found._replace(error=float(np.hypot(found.error, moved)))


def _instability(
    model: Model, variance: Array, unknown: Array, finer: int, channel: Channel | None = None
) -> Instability:
    channel = channel or model.channel.in_rows
    channel = channel.with_points(finer * channel.points)
    basis = symmetric_basis(unknown, model)
    first, second, truth, replicas = channel.response(variance)
    tokens = channel.columns
    rotated = [_rotated(part, basis.directions) for part in (first, second, truth)]
    operator = np.array([[_entry(rotated, a, b, tokens, replicas)[0] for b in basis.matrices] for a in basis.matrices])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = np.tensordot(vectors.T, basis.matrices, axes=1)
    growth = np.array([_entry(rotated, mode, mode, tokens, replicas) for mode in modes])
    growth *= model.prior.in_rows.growth
    rate, error = map(float, growth[-1])
    near = rate - growth[:, 0] <= _POLICY.degenerate * rate + _POLICY.errors * (error + growth[:, 1])
    # The identity projected on the eigenspace is what the map's powers tend to: positive semi-definite.
    matrix = np.einsum("ncc,nab->ab", modes[near], modes[near])
    full = basis.directions @ matrix @ basis.directions.T
    return Instability(rate, error, full / np.trace(full), bool(near.sum() > 1))


class Basis(NamedTuple):
    """Orthonormal directions, shape (P, k), and an orthonormal basis of the symmetric matrices on them, (n, k, k)."""

    directions: Array
    matrices: Array


def symmetric_basis(unknown: Array, model: Model) -> Basis:
    """Directions of a projector, whole rows where it has some, and the symmetric matrices on them that may overlap.

    Growth that rotations of the rows cannot tell apart is as fast in all of them: that of their mean stands for it.
    """
    values, vectors = np.linalg.eigh(unknown)
    directions = vectors[:, values > 0.5]
    # Where whole rows are unknown they are the directions.
    rows = np.flatnonzero(np.abs(np.diag(unknown) - 1) < 1e-12)
    if len(rows) == directions.shape[1]:
        directions = np.eye(len(unknown))[:, rows]
    size = directions.shape[1]
    matrices = np.zeros((size * (size + 1) // 2, size, size))
    for matrix, (a, b) in zip(matrices, combinations_with_replacement(range(size), 2), strict=True):
        matrix[a, b] = matrix[b, a] = 1.0 if a == b else np.sqrt(0.5)
    full = directions @ matrices @ directions.T
    allowed = [np.allclose(model.prior.in_rows.allowed(own), own) for own in full]
    level = directions.T @ model.channel.in_rows.row_symmetries.unturned(full[allowed]) @ directions
    return Basis(directions, _independent(matrices[allowed], level))


def _independent(matrices: Array, level: Array) -> Array:
    """An orthonormal basis of what is left of one, shape (n, k, k): the basis itself where all of it is."""
    if np.allclose(matrices, level):
        return matrices
    _, values, vectors = np.linalg.svd(level.reshape(len(level), -1), full_matrices=False)
    return vectors[values > 0.5].reshape(-1, *level.shape[1:])


def _rotated(response: Array, directions: Array) -> Array:
    """Responses of shape (n, P, L, P, L) in the given directions, shape (n, L, L, k, k)."""
    return np.einsum("pa,nplqm,qb->nlmab", directions, response, directions, optimize=True)


def _entry(parts: list[Array], left: Array, right: Array, tokens: int, replicas: int) -> tuple[float, float]:
    """<left, F(right)> and its standard error, with the true deviations as control variates."""
    first, second, truth = parts
    mean = 0.5 * (first + second)

    def form(d: Array, e: Array) -> Array:
        return np.einsum("ab,nlmbc,cd,nlmad->n", left, d, right, e, optimize=True)

    square = 0.5 * (form(first, second) + form(second, first))
    known = tokens**2 * np.trace(left) * np.trace(right) + tokens * np.sum(left * right)
    controls = np.stack([square - 0.5 * (form(mean, truth) + form(truth, mean)), form(truth, truth) - known], axis=-1)
    return controlled(square.reshape(replicas, -1), controls.reshape(replicas, -1, 2))


def staircase(model: Model) -> list[Step]:
    """Thresholds of weak recovery beyond what any data tell, one subspace after the other, in order of their ratios.

    An infinite one ends the list where nothing is known and, within the error, nothing grows.
    """
    prior, known = model.prior.in_rows, known_at_once(model)
    if np.trace(known) > 0.5:
        scale = prior.degrees / float(np.linalg.eigvalsh(_information(model, np.eye(prior.rows))[0])[-1])
        steps, start, farthest = [], _POLICY.nearest * scale, _POLICY.farthest * scale
    else:
        first = _first(model)
        if not np.isfinite(first.alpha):
            return [first]
        steps, start, farthest = [first], first.alpha, _POLICY.farthest * first.alpha
        known = range_of(first.matrix)
    # Rows of other laws are known together or not at all: what is known of a mixture of them tells of the others, so
    # that only whole rows, apart from the others, are steps. What no label shows is never known.
    shown = float(np.trace(model.channel.in_rows.row_symmetries.shown))
    while np.trace(known) < shown - 0.5 and (prior.rotational or _of_whole_rows(known)):
        following = _next(model, known, start, farthest)
        if following is None:
            break
        steps.append(following)
        start, known = following.alpha, range_of(known + following.matrix)
    return steps


def _first(model: Model, unknown: Array | None = None, accuracy: float = _POLICY.leading) -> Step:
    everything = np.eye(model.prior.in_rows.rows)
    found = instability(model, everything, everything if unknown is None else unknown, accuracy)
    if found.rate <= _POLICY.errors * found.error or found.rate <= _POLICY.no_growth:
        return Step(np.inf, 0.0, found.matrix, found.degenerate)
    alpha = model.prior.degrees / found.rate
    return Step(alpha, alpha * found.error / found.rate, found.matrix, found.degenerate)


def known_at_once(model: Model) -> Array:
    """Projector on the directions that any data tell of: scores do not vanish there, given those known before them.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> known_at_once(SequenceMultiIndex(lambda z: z[:, 0] ** np.array([1, 2]), 2, 1, noise=0.1, points=32))
        array([[1., 0.],
               [0., 0.]])
    """
    size = model.prior.in_rows.rows
    known = np.zeros((size, size))
    for _ in range(size):
        outside = np.eye(size) - known
        value, error = _information(model, np.eye(size) - 0.5 * known)
        values, vectors = np.linalg.eigh(outside @ value @ outside)
        found = vectors[:, values > _POLICY.errors * np.linalg.norm(error) + _POLICY.no_growth]
        if found.shape[1] == 0:
            break
        known = known + found @ found.T
    return np.where(np.abs(known) < _POLICY.rounding, 0.0, known)


def _information(model: Model, variance: Array) -> tuple[Array, Array]:
    value, error = model.channel.in_rows.information(variance[None])
    return value[0], error[0]


def _of_whole_rows(projector: Array) -> bool:
    return bool(np.max(np.abs(projector - np.diag(np.diag(projector)))) < 1 - _POLICY.pure)


def subspace_threshold(
    model: Model, subspace: int | ArrayLike, known: int | ArrayLike | None = None, accuracy: float = _POLICY.leading
) -> Step:
    r"""Where a chosen subspace would be found, were nothing but another one known: not in the order of the staircase.

    Args:
        model: prior and channel, whose labels are even in the subspace.
        subspace: a row, counted from 0, a direction, shape (P,), or several of them, shape (P, k).
        known: what is learned already, given likewise; state evolution says how well at every sample ratio. Nothing by
            default.
        accuracy: relative, of averages that are sampled, up to which data points are added while that is within reach;
            later thresholds, which ask for a fixed point as well, are never asked for more than half a per cent.

    Returns:
        :class:`Step`; its ``alpha`` is infinite where nothing grows, and NaN where nothing does up to sixty times the
        ratio at which something would be found first.

    Raises:
        ParameterError: no such row, or directions of another number of rows.

    Source: arXiv:2502.00901, theorem 2.3, for directions of one's choice.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> round(subspace_threshold(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 0).alpha, 6)
        0.5
    """
    chosen = _projector(model, "subspace", subspace)
    if known is None:
        return _first(model, chosen, accuracy)
    given = _projector(model, "known", known)
    scale = _first(model, None, accuracy).alpha
    scale = scale if np.isfinite(scale) else 1.0
    later = max(accuracy, _POLICY.later)
    found = _next(model, given, _POLICY.nearest * scale, _POLICY.farthest * scale, chosen, later)
    return Step(np.nan, 0.0, chosen / np.trace(chosen), False) if found is None else found


def _projector(model: Model, name: str, given: int | ArrayLike) -> Array:
    """Projector on a row, a direction or several."""
    size = model.prior.in_rows.rows
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < size:
        return np.diag(np.eye(size)[given])
    directions = np.atleast_1d(np.asarray(given, dtype=float) if not isinstance(given, int) else np.empty(0))
    if len(directions) != size or not np.all(np.isfinite(directions)) or not np.any(directions):
        allowed = f"a row from 0 to {size - 1}, or directions of shape ({size},) or ({size}, k), not zero"
        raise ParameterError(name, given, allowed)
    columns = directions.reshape(size, -1)
    return range_of(columns @ columns.T)


def _next(
    model: Model,
    known: Array,
    start: float,
    farthest: float,
    outside: Array | None = None,
    accuracy: float = _POLICY.later,
) -> Step | None:
    """Where the directions outside ``known`` become unstable; None if nowhere up to ``farthest``."""
    outside, degrees = np.eye(len(known)) - known if outside is None else outside, model.prior.degrees

    def at(alpha: float, accuracy: float = np.inf) -> Instability:
        variance = evolved(model, np.array([alpha]), subspace=known).value[0]
        return instability(model, variance, outside, accuracy)

    def growth(found: Instability, alpha: float) -> float:
        return max(_POLICY.no_growth, found.rate * alpha / degrees)

    beyond = at(start * 1.02)
    low = high = (start, growth(beyond, start))
    if high[1] >= 1:
        return Step(start, start * 0.02, beyond.matrix, beyond.degenerate)
    while high[1] < 1:
        if high[0] >= farthest:
            return None
        alpha = min(high[0] * 1.6, farthest)
        low, high = high, (alpha, growth(at(alpha), alpha))
    for _ in range(_POLICY.steps):
        # Growth is nearly a power of alpha between the ends.
        (width, rise), (_, below) = np.log(np.divide(high, low)), np.log(low)
        slope = max(rise / width, 1e-3)
        middle = float(low[0] * np.exp(width * np.clip(-below / rise, 0.05, 0.95)))
        found = at(middle, accuracy)
        missed = np.log(growth(found, middle))
        if abs(missed) <= _POLICY.accuracy * slope:
            break
        low, high = ((middle, np.exp(missed)), high) if missed < 0 else (low, (middle, np.exp(missed)))
    error = middle * (found.error / found.rate + abs(missed)) / slope
    return Step(middle, float(error), found.matrix, found.degenerate)


def range_of(matrix: Array) -> Array:
    """Projector on the range of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = vectors[:, values > _POLICY.range * values[-1]]
    return np.asarray(kept @ kept.T)


def group_named(matrix: Array, groups: Mapping[str, tuple[int, ...]]) -> str | None:
    """The group of rows that a positive semi-definite matrix of unit trace singles out; None if it mixes several."""
    weight = {name: float(np.sum(np.diag(matrix)[list(rows)])) for name, rows in groups.items()}
    name = max(weight, key=lambda name: weight[name])
    return name if weight[name] >= _POLICY.pure else None
