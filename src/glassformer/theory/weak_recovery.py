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
from glassformer.core.numerics.extrapolation import remainder
from glassformer.core.numerics.quasi_random import confident, mean_and_error
from glassformer.core.progress import note
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel
from glassformer.models.channels.control_variates import controlled
from glassformer.models.channels.field_averages import Averages, Response
from glassformer.theory.known_direction import Crossing, KnownDirection
from glassformer.theory.state_evolution import evolved


@dataclass(frozen=True)
class Climb:
    """How the staircase is climbed, and what counts as one step of it."""

    accuracy: float = 2e-3  # of a later threshold
    located: float = 5e-3  # with which few data points locate it
    corrections: int = 4  # evaluations with all data points
    longest: float = 0.1  # logarithm of the ratio by which one of them may correct the threshold
    fewest: int = 256  # data points per replica of the operator
    steps: int = 12  # of the search for it
    farthest: float = 60.0  # sample ratio, over the first threshold, that ends the search
    degenerate: float = 2e-3  # share of the largest eigenvalue within which eigenvalues count as one
    errors: float = 4.0  # standard errors within which they do, beside that
    largest: int = 100_000_000  # numbers of the largest array of responses
    no_growth: float = 1e-6  # growth per step that counts as none: its logarithm must exist
    pure: float = 0.98  # weight of a matrix on one row from which on it names that row
    range: float = 0.05  # eigenvalue, relative to the largest, that belongs to the range of a matrix
    finer: int = 1  # data points of the operator over those of state evolution: it is not iterated
    beyond: int = 4  # at later thresholds
    roughly: float = 0.25  # while they are located
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
        missing: what is missing from it beside, about: of sampled posteriors, and where a noise stands for none.
        matrix: its eigenvector, positive semi-definite and of unit trace, shape (P, P).
        degenerate: whether others are as large within the errors, so that no subspace is singled out.
        replicas: the eigenvalue of each replica of the data.
    """

    rate: float
    error: float
    matrix: Array
    degenerate: bool
    replicas: Array
    missing: float = 0.0

    @property
    def blur(self) -> float:
        """Relative error of the eigenvalue, with a confidence of 95 %."""
        return (confident(len(self.replicas)) * self.error + abs(self.missing)) / self.rate


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


def instability(
    model: Model,
    variance: Array,
    unknown: Array,
    accuracy: float = _POLICY.leading,
    finer: float = _POLICY.finer,
) -> Instability:
    """The fastest growing overlap in the directions of the projector ``unknown``, at the covariance ``variance``.

    Equation :eq:`weak-recovery` of the documentation.

    Data points, ``finer`` times those of state evolution, are doubled until the eigenvalue has the relative
    ``accuracy``, where that is within reach.
    """
    channel = model.channel.in_rows
    size = 8 * channel.points * (channel.rows * channel.columns) ** 2
    most = max(_POLICY.finer, min(_POLICY.finer * _POLICY.most, _POLICY.largest // size))
    basis = symmetric_basis(unknown, model)
    points = max(min(_POLICY.fewest, channel.points), int(finer * channel.points))
    sampled = channel.with_points(points).response(variance, 0, unknown)
    response, found = _turned(sampled, basis), _growth_of(model, basis, sampled)
    within_reach = channel.sampled and found.error <= accuracy * np.sqrt(_POLICY.most) * found.rate
    while within_reach and found.error > accuracy * found.rate and points < most * channel.points:
        note(f"growth of what is not yet known, {2 * points} data points")
        response = response.joined(_response(channel.with_points(2 * points), variance, unknown, basis, points))
        points, again = 2 * points, _fastest(model, basis, response)
        # A search that ends with the first small error ends with one that is too small by chance: errors fall no faster
        # than points grow.
        found = again._replace(error=max(again.error, 0.5 * found.error), missing=found.missing)
    if channel.louder is None:
        return found
    louder = _response(channel.louder.with_points(points), variance, unknown, basis)
    # No matter of chance, nor of confidence.
    change = abs(_fastest(model, basis, louder).rate - found.rate)
    return found._replace(missing=abs(found.missing) + change)


class _Response(NamedTuple):
    """Two estimates of the slopes of the score, the true ones, shape (replicas, points, k, L^2, k), and weights."""

    first: Array
    second: Array
    truth: Array
    weight: Array

    def joined(self, other: _Response) -> _Response:
        """With the further points of every replica."""
        return _Response(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


def _response(channel: Channel, variance: Array, unknown: Array, basis: Basis, known: int = 0) -> _Response:
    """Slopes in the directions of the basis, on all points but the first ``known`` of each replica."""
    return _turned(channel.response(variance, known, unknown), basis)


def _turned(response: Response, basis: Basis) -> _Response:
    slopes = (response.first, response.second, response.truth)
    parts = [*(_rotated(part, basis.directions) for part in slopes), response.weight]
    return _Response(*(part.reshape(response.replicas, -1, *part.shape[1:]) for part in parts))


def _growth_of(model: Model, basis: Basis, response: Response) -> Instability:
    """The fastest growth, and what sampled posteriors leave out of it."""
    found, *fewer = (_fastest(model, basis, _turned(part, basis)) for part in (response, *response.fewer))
    return found._replace(missing=float(remainder([np.array(level.rate) for level in (found, *fewer)])))


def _fastest(model: Model, basis: Basis, response: _Response) -> Instability:
    images = [_image(response, matrix) for matrix in basis.matrices]
    operator = np.array([[np.mean(_entry(left, image)) for image in images] for left in basis.matrices])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = np.tensordot(vectors.T, basis.matrices, axes=1)
    parts = [_entry(mode, _mixed(vector, images)) for mode, vector in zip(modes, vectors.T, strict=True)]
    replicas = model.prior.in_rows.growth * np.array(parts)
    growth = np.stack(mean_and_error(replicas.T), axis=1)
    rate, error = map(float, growth[-1])
    near = rate - growth[:, 0] <= _POLICY.degenerate * rate + _POLICY.errors * (error + growth[:, 1])
    # The identity projected on the eigenspace is what the map's powers tend to: positive semi-definite.
    matrix = np.einsum("ncc,nab->ab", modes[near], modes[near])
    full = basis.directions @ matrix @ basis.directions.T
    return Instability(rate, error, full / np.trace(full), bool(near.sum() > 1), replicas[-1])


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
    """Responses of shape (n, P, L, P, L) in the given directions, shape (n, k, L^2, k)."""
    turned = np.einsum("pa,nplqm,qb->nalmb", directions, response, directions, optimize=True)
    return turned.reshape(*turned.shape[:2], -1, turned.shape[-1])


class _Image(NamedTuple):
    """What data points say of F at one symmetric matrix, and variables of mean zero, (replicas, points, k, k)."""

    square: Array
    crossed: Array
    truth: Array
    weight: Array


def _image(response: _Response, matrix: Array) -> _Image:
    """F of a matrix, with the true deviations as control variates."""
    size = len(matrix)

    def form(d: Array, e: Array) -> Array:
        """Sum over tokens of ``d M e^T``."""
        left = (d.reshape(-1, size) @ matrix).reshape(*d.shape[:3], -1)
        return np.asarray(left @ np.swapaxes(e.reshape(*e.shape[:3], -1), -1, -2))

    first, second, truth, weight = response
    mean, tokens = 0.5 * (first + second), np.sqrt(first.shape[3])
    # Left and right factors trade places under transposition.
    square, crossed = (0.5 * (part + np.swapaxes(part, -1, -2)) for part in (form(first, second), form(mean, truth)))
    known = tokens**2 * np.trace(matrix) * np.eye(size) + tokens * matrix
    parts = np.stack(
        [square, square - crossed, form(truth, truth) - known, np.broadcast_to(np.eye(size), square.shape)]
    )
    square, crossed, beyond, level = weight[:, :, None, None] * parts
    return _Image(square, crossed, beyond, level - np.eye(size))


def _mixed(weights: Array, images: list[_Image]) -> _Image:
    return _Image(*(np.tensordot(weights, np.stack(parts), axes=1) for parts in zip(*images, strict=True)))


def _entry(left: Array, image: _Image) -> Array:
    """<left, F(matrix)> of each replica of the data."""
    square, *controls = (np.tensordot(part, left, axes=2) for part in image)
    return controlled(square, np.stack(controls, axis=-1))


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
    if found.rate <= _POLICY.errors * found.error + abs(found.missing) or found.rate <= _POLICY.no_growth:
        return Step(np.inf, 0.0, found.matrix, found.degenerate)
    alpha = model.prior.degrees / found.rate
    return Step(alpha, alpha * found.blur, found.matrix, found.degenerate)


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
    """Where the directions outside ``known`` become unstable; None if nowhere up to ``farthest``.

    Beside one direction along the curve of its fixed points; else few data points locate it, and all of them correct
    what they say.
    """
    search = _Search(model, known, np.eye(len(known)) - known if outside is None else outside, accuracy)
    along = search.along(farthest)
    if along is not None and along.alpha > start:
        return Step(along.alpha, along.error, along.found.matrix, along.found.degenerate)
    low = high = (start, search.growth(start * 1.02, start))
    if high[1] >= 1:
        beyond = search.at(start * 1.02)
        return Step(start, start * 0.02, beyond.matrix, beyond.degenerate)
    while high[1] < 1:
        if high[0] >= farthest:
            return None
        alpha = min(high[0] * 1.6, farthest)
        low, high = high, (alpha, search.growth(alpha, alpha))
    slope = 1.0
    for _ in range(_POLICY.steps):
        # Growth is nearly a power of alpha between the ends.
        (width, rise), (_, below) = np.log(np.divide(high, low)), np.log(low)
        slope = max(rise / width, 1e-3)
        middle = float(low[0] * np.exp(width * np.clip(-below / rise, 0.05, 0.95)))
        missed = np.log(search.growth(middle, middle))
        if abs(missed) <= _POLICY.located * slope:
            break
        low, high = ((middle, np.exp(missed)), high) if missed < 0 else (low, (middle, np.exp(missed)))
    return search.corrected(middle * float(np.exp(-missed / slope)), slope)


class _Search:
    """The directions outside a known subspace, along sample ratios."""

    def __init__(self, model: Model, known: Array, outside: Array, accuracy: float) -> None:
        self._model, self._known, self._outside, self._accuracy = model, known, outside, accuracy
        self._degrees = model.prior.degrees

    def along(self, farthest: float) -> Crossing | None:
        """The threshold along the fixed points of a single known direction; None where these do not tell."""
        channel = self._model.channel.in_rows
        if not channel.sampled or channel.louder is not None or abs(np.trace(self._known) - 1) > _POLICY.rounding:
            return None
        basis, most = symmetric_basis(self._outside, self._model), _POLICY.beyond * channel.points
        fewest = min(_POLICY.fewest, channel.points)

        def outside(variance: Array, share: int) -> tuple[Averages, Instability]:
            points = max(fewest, int(most / share))
            averages, response = channel.with_points(points).averages_and_response(variance)
            return averages, _growth_of(self._model, basis, response)

        return KnownDirection(self._model, self._known, outside).crossing(farthest)

    def at(self, alpha: float, roughly: bool = False) -> Instability:
        """The fastest growing overlap; ``roughly`` with few data points."""
        note(f"threshold looked for at alpha = {alpha:.3g}")
        place = evolved(self._model, np.array([alpha]), subspace=self._known, coarse=True)
        if roughly:
            return instability(self._model, place.value[0], self._outside, np.inf, _POLICY.roughly)
        variance = evolved(self._model, np.array([alpha]), subspace=self._known, place=place).value
        return instability(self._model, variance[0], self._outside, self._accuracy, _POLICY.beyond)

    def growth(self, place: float, alpha: float) -> float:
        """Growth per step at ``alpha``, roughly, from the fixed point at ``place``."""
        return self._growth(self.at(place, roughly=True), alpha)

    def _growth(self, found: Instability, alpha: float) -> float:
        return max(_POLICY.no_growth, found.rate * alpha / self._degrees)

    def corrected(self, alpha: float, slope: float) -> Step:
        """The threshold next to ``alpha``, where growth is a power of alpha with this exponent, roughly."""
        for remaining in reversed(range(_POLICY.corrections)):
            found = self.at(alpha)
            missed = np.log(self._growth(found, alpha))
            if abs(missed) <= _POLICY.accuracy * slope or not remaining:
                break
            alpha *= float(np.exp(np.clip(-missed / slope, -_POLICY.longest, _POLICY.longest)))
        error = alpha * (found.blur + abs(missed)) / slope
        return Step(alpha, float(error), found.matrix, found.degenerate)


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
