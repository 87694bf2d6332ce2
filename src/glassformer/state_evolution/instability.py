r"""The fastest growth of what is not yet known: the leading eigenvalue of the linearised state evolution.

Small overlaps ``M`` in unknown directions become :math:`(\alpha/\mathrm{degrees})F(M)`, with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'} .
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.channels.control_variates import controlled_mean, significant_gap
from glassformer.channels.field_averages import Response
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.models.base import Model
from glassformer.numerics.extrapolation import remainder
from glassformer.numerics.quasi_random import confident, mean_and_error
from glassformer.state_evolution.subspaces import Basis, symmetric_basis


@dataclass(frozen=True)
class Growth:
    """How growth is measured, and what counts as one eigenvalue."""

    fewest: int = 256  # data points per replica of the operator
    finer: int = 1  # data points of the operator over those of state evolution: it is not iterated
    most: int = 64  # factor of data points that is out of reach
    largest: int = 100_000_000  # numbers of the largest array of responses
    accuracy: float = 5e-4  # asked of the eigenvalue at the leading threshold
    rough: float = 4e-3  # asked where that is out of reach, of few more data points
    few: int = 8  # how many times more, at most
    degenerate: float = 2e-3  # share of the largest eigenvalue within which eigenvalues count as one
    errors: float = 4.0  # standard errors within which they do, beside that


GROWTH = Growth()


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


def instability(
    model: Model,
    variance: Array,
    unknown: Array,
    accuracy: float = GROWTH.accuracy,
    finer: float = GROWTH.finer,
) -> Instability:
    """The fastest growing overlap in the directions of the projector ``unknown``, at the covariance ``variance``.

    Equation :eq:`weak-recovery` of the documentation.

    Data points, ``finer`` times those of state evolution, are doubled until the eigenvalue has the relative
    ``accuracy``, where that is within reach, or a rough one where that needs but few more.
    """
    channel = model.channel
    size = 8 * channel.points * (channel.rows * channel.columns) ** 2
    most = max(GROWTH.finer, min(GROWTH.finer * GROWTH.most, GROWTH.largest // size))
    basis = symmetric_basis(unknown, model)
    points = max(min(GROWTH.fewest, channel.points), int(finer * channel.points))
    sampled = channel.with_points(points).response(variance, 0, unknown)
    response, found = _turned(sampled, basis), growth_of(model, basis, sampled)
    goal = _goal(found, accuracy) if channel.sampled else np.inf
    while found.error > goal * found.rate and points < most * channel.points:
        note(f"growth of what is not yet known, {2 * points} data points")
        fresh = channel.with_points(2 * points).response(variance, points, unknown)
        response = response.joined(_turned(fresh, basis))
        points, again, newest = 2 * points, _fastest(model, basis, response), growth_of(model, basis, fresh)
        # A search that ends with the first small error ends with one that is too small by chance: errors fall no faster
        # than points grow.
        found = again._replace(
            error=max(again.error, 0.5 * found.error), missing=max(newest.missing, again.missing, key=abs)
        )
    if channel.with_more_noise is None:
        return found
    with_more_noise = _turned(channel.with_more_noise.with_points(points).response(variance, 0, unknown), basis)
    # No matter of chance, nor of confidence.
    change = abs(_fastest(model, basis, with_more_noise).rate - found.rate)
    return found._replace(missing=abs(found.missing) + change)


def _goal(found: Instability, accuracy: float) -> float:
    """The relative error that is worth more data points, infinite where none is within reach."""
    goals = ((accuracy, GROWTH.most), (max(accuracy, GROWTH.rough), GROWTH.few))
    within = (goal for goal, more in goals if found.error <= goal * np.sqrt(more) * found.rate)
    return next(within, np.inf)


class _Response(NamedTuple):
    """Two estimates of the slopes of the score, the true ones, shape (replicas, points, k, L^2, k), and weights."""

    first: Array
    second: Array
    truth: Array
    weight: Array

    def joined(self, other: _Response) -> _Response:
        """With the further points of every replica."""
        return _Response(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


def _turned(response: Response, basis: Basis) -> _Response:
    """Slopes in the directions of the basis."""
    slopes = (response.first, response.second, response.truth)
    first, second, truth = (_rotated(part, basis.directions) for part in slopes)
    # What a sampled posterior breaks of a symmetry is noise. The true deviations have none.
    parts = [_blind(first, basis.blind), _blind(second, basis.blind), truth, response.weight]
    return _Response(*(part.reshape(response.replicas, -1, *part.shape[1:]) for part in parts))


def growth_of(model: Model, basis: Basis, response: Response) -> Instability:
    """The fastest growth, and what sampled posteriors leave out of it."""
    found, *fewer = (_fastest(model, basis, _turned(part, basis)) for part in (response, *response.fewer))
    rates = [np.array(level.rate) for level in (found, *fewer)]
    return found._replace(missing=max(found.missing, float(remainder(rates, model.channel.refinement_factor)), key=abs))


def _fastest(model: Model, basis: Basis, response: _Response) -> Instability:
    images = [_image(response, matrix) for matrix in basis.matrices]
    operator = np.array([[np.mean(_entry(left, image)) for image in images] for left in basis.matrices])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = np.tensordot(vectors.T, basis.matrices, axes=1)
    mixed = [_mixed(vector, images) for vector in vectors.T]
    parts = [_entry(mode, image) for mode, image in zip(modes, mixed, strict=True)]
    replicas = model.prior.growth * np.array(parts)
    growth = np.stack(mean_and_error(replicas.T), axis=1)
    rate, error = map(float, growth[-1])
    near = rate - growth[:, 0] <= GROWTH.degenerate * rate + GROWTH.errors * (error + growth[:, 1])
    # The identity projected on the eigenspace is what the map's powers tend to: positive semi-definite.
    matrix = np.einsum("ncc,nab->ab", modes[near], modes[near])
    full = basis.directions @ matrix @ basis.directions.T
    wrong = model.prior.growth * _contradicted(parts[-1], modes[-1], mixed[-1])
    return Instability(rate, error, full / np.trace(full), bool(near.sum() > 1), replicas[-1], wrong)


def _rotated(response: Array, directions: Array) -> Array:
    """Responses of shape (n, P, L, P, L) in the given directions, shape (n, k, L^2, k)."""
    turned = np.einsum("pa,nplqm,qb->nalmb", directions, response, directions, optimize=True)
    return turned.reshape(*turned.shape[:2], -1, turned.shape[-1])


def _blind(slopes: Array, projector: Array | None) -> Array:
    """Slopes of shape (n, k, L^2, k) as labels say that are blind to rotations of the rows."""
    if projector is None:
        return slopes
    flat = np.moveaxis(slopes, 2, 1)
    return np.moveaxis((flat.reshape(*flat.shape[:2], -1) @ projector).reshape(flat.shape), 1, 2)


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
    return controlled_mean(square, np.stack(controls, axis=-1))


def _contradicted(found: Array, left: Array, image: _Image) -> float:
    """How wrong <left, F(matrix)>, as found, may be by what true deviations say of it."""
    square, crossed, *sure = (np.tensordot(part, left, axes=2) for part in image)
    told = controlled_mean(square - crossed, np.stack(sure, axis=-1))
    return float(significant_gap(*mean_and_error(found - told)))
