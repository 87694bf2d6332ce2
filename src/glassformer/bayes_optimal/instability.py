r"""Linear stability of the unknown directions: the leading eigenvalue of the linearised state evolution.

Small overlaps ``M`` in unknown directions become :math:`(\alpha/\mathrm{degrees})F(M)`, with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'} .
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.bayes_optimal.subspaces import Basis, symmetric_basis
from glassformer.channels.control_variates import controlled_mean, significant_gap
from glassformer.channels.field_averages import Response
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.numerics.sequences import remaining_change

# Data points per replica of the operator, at least (chosen by trial).
FEWEST_POINTS = 256
# Relative accuracy of the eigenvalue if this factor of the data points of state evolution suffices for it; the lower
# accuracy, and its smaller factor, if not (a compromise between time and digits).
ACCURACY, _MOST_POINTS = 5e-4, 64
_LOW_ACCURACY, _FEW_MORE_POINTS = 4e-3, 8
# Numbers in the largest array of responses: a limit of memory.
_LARGEST_ARRAY = 100_000_000
# Eigenvalues count as one within this share of the largest and so many standard errors (chosen by trial).
DEGENERATE, STANDARD_ERRORS = 2e-3, 4.0


class Instability(NamedTuple):
    """Leading eigenvalue of the linearised state evolution, per unit of alpha/degrees.

    Attributes:
        rate: the eigenvalue.
        error: its standard error.
        matrix: its eigenvector, positive semi-definite and of unit trace, shape (P, P).
        degenerate: whether other eigenvalues agree with it within the errors, so that no subspace is singled out.
        replicas: the eigenvalue from each replica of the data.
        missing: bias of the eigenvalue, estimated: from sampled posteriors, and from a noise given to labels without.
    """

    rate: float
    error: float
    matrix: Array
    degenerate: bool
    replicas: Array
    missing: float = 0.0

    @property
    def relative_error(self) -> float:
        """Relative error of the eigenvalue, with a confidence of 95 %."""
        return (confidence_factor(len(self.replicas)) * self.error + abs(self.missing)) / self.rate


def instability(
    model: Model, variance: Array, unknown: Array, accuracy: float = ACCURACY, finer: float = 1
) -> Instability:
    """Return the fastest growing overlap in the directions of the projector ``unknown``, at a covariance.

    Equation :eq:`weak-recovery` of the documentation.

    Data points, at first ``finer`` times those of state evolution, are doubled until the eigenvalue has the relative
    ``accuracy`` where that is within reach, or a lower one where that needs only a few more.
    """
    channel = model.channel
    size = 8 * channel.points * (channel.rows * channel.columns) ** 2
    most = max(1, min(_MOST_POINTS, _LARGEST_ARRAY // size))
    basis = symmetric_basis(unknown, model)
    points = max(min(FEWEST_POINTS, channel.points), int(finer * channel.points))
    response = channel.with_points(points).response(variance, 0, unknown)
    slopes, leading = _in_basis(response, basis), growth_of(model, basis, response)
    goal = _goal(leading, accuracy) if channel.sampled else np.inf
    while leading.error > goal * leading.rate and points < most * channel.points:
        note(f"instability of unknown directions, {2 * points} data points")
        fresh = channel.with_points(2 * points).response(variance, points, unknown)
        slopes = slopes.joined(_in_basis(fresh, basis))
        points, again, newest = 2 * points, _leading(model, basis, slopes), growth_of(model, basis, fresh)
        # A search that stops at the first small error stops at one that is small by chance: errors fall no faster than
        # points grow.
        leading = again._replace(
            error=max(again.error, 0.5 * leading.error), missing=max(newest.missing, again.missing, key=abs)
        )
    if channel.with_more_noise is None:
        return leading
    noisier = channel.with_more_noise.with_points(points).response(variance, 0, unknown)
    # Neither a matter of chance nor of confidence.
    change = abs(_leading(model, basis, _in_basis(noisier, basis)).rate - leading.rate)
    return leading._replace(missing=abs(leading.missing) + change)


def _goal(leading: Instability, accuracy: float) -> float:
    """Return the relative error to be reached with more data points, infinite if they would be too many."""
    goals = ((accuracy, _MOST_POINTS), (max(accuracy, _LOW_ACCURACY), _FEW_MORE_POINTS))
    return next((goal for goal, more in goals if leading.error <= goal * np.sqrt(more) * leading.rate), np.inf)


def growth_of(model: Model, basis: Basis, response: Response) -> Instability:
    """Return the leading eigenvalue from responses of data points, with the bias of sampled posteriors."""
    leading, *fewer = (_leading(model, basis, _in_basis(part, basis)) for part in (response, *response.fewer))
    rates = [np.array(level.rate) for level in (leading, *fewer)]
    bias = float(remaining_change(rates, model.channel.refinement_factor))
    return leading._replace(missing=max(leading.missing, bias, key=abs))


class _Slopes(NamedTuple):
    """Slopes ``D`` of the score in a basis: two estimates, the true ones, shape (replicas, points, k, L^2, k); weights.

    The product of the two estimates has no bias from their noise.
    """

    first: Array
    second: Array
    truth: Array
    weight: Array

    def joined(self, other: _Slopes) -> _Slopes:
        """Return them with the further points of every replica."""
        return _Slopes(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


def _in_basis(response: Response, basis: Basis) -> _Slopes:
    """Return slopes in the directions of the basis."""

    def project(slopes: Array) -> Array:
        turned = np.einsum("pa,nplqm,qb->nalmb", basis.directions, slopes, basis.directions, optimize=True)
        return turned.reshape(*turned.shape[:2], -1, turned.shape[-1])

    def symmetrize(slopes: Array) -> Array:
        if basis.invariant is None:
            return slopes
        flat = np.moveaxis(slopes, 2, 1)
        invariant = flat.reshape(*flat.shape[:2], -1) @ basis.invariant
        return np.moveaxis(invariant.reshape(flat.shape), 1, 2)

    # A symmetry that a sampled posterior breaks is broken by noise; true deviations do break it.
    first, second = (symmetrize(project(part)) for part in (response.first, response.second))
    parts = (first, second, project(response.truth), response.weight)
    return _Slopes(*(part.reshape(response.replicas, -1, *part.shape[1:]) for part in parts))


def _leading(model: Model, basis: Basis, slopes: _Slopes) -> Instability:
    images = [_image(slopes, matrix) for matrix in basis.matrices]
    operator = np.array([[np.mean(_entry(left, image)) for image in images] for left in basis.matrices])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = np.tensordot(vectors.T, basis.matrices, axes=1)
    mode_images = [
        _Image(*(np.tensordot(vector, np.stack(parts), axes=1) for parts in zip(*images, strict=True)))
        for vector in vectors.T
    ]
    entries = [_entry(mode, image) for mode, image in zip(modes, mode_images, strict=True)]
    replicas = model.prior.growth * np.array(entries)
    growth = np.stack(mean_and_error(replicas.T), axis=1)
    rate, error = map(float, growth[-1])
    degenerate = rate - growth[:, 0] <= DEGENERATE * rate + STANDARD_ERRORS * (error + growth[:, 1])
    # Powers of the map tend to the projection of the identity on the eigenspace, which is positive semi-definite.
    matrix = np.einsum("ncc,nab->ab", modes[degenerate], modes[degenerate])
    full = basis.directions @ matrix @ basis.directions.T
    # Bias: what true deviations say of <M, F(M)> beyond chance.
    square, crossed, *known = (np.tensordot(part, modes[-1], axes=2) for part in mode_images[-1])
    true_entry = controlled_mean(square - crossed, np.stack(known, axis=-1))
    bias = float(significant_gap(*mean_and_error(entries[-1] - true_entry)))
    missing = model.prior.growth * bias
    return Instability(rate, error, full / np.trace(full), bool(degenerate.sum() > 1), replicas[-1], missing)


class _Image(NamedTuple):
    """F of a symmetric matrix for each data point, and control variates of mean zero, (replicas, points, k, k)."""

    square: Array
    crossed: Array
    truth: Array
    weight: Array


def _image(slopes: _Slopes, matrix: Array) -> _Image:
    """Return F of a matrix, with the true deviations as control variates."""
    size = len(matrix)

    def form(d: Array, e: Array) -> Array:
        """Sum over tokens of ``d M e^T``."""
        left = (d.reshape(-1, size) @ matrix).reshape(*d.shape[:3], -1)
        return np.asarray(left @ np.swapaxes(e.reshape(*e.shape[:3], -1), -1, -2))

    first, second, truth, weight = slopes
    mean, tokens = 0.5 * (first + second), np.sqrt(first.shape[3])
    # Left and right factors trade places under transposition.
    square, crossed = (0.5 * (part + np.swapaxes(part, -1, -2)) for part in (form(first, second), form(mean, truth)))
    known = tokens**2 * np.trace(matrix) * np.eye(size) + tokens * matrix
    parts = np.stack(
        [square, square - crossed, form(truth, truth) - known, np.broadcast_to(np.eye(size), square.shape)]
    )
    square, crossed, deviation, level = weight[:, :, None, None] * parts
    return _Image(square, crossed, deviation, level - np.eye(size))


def _entry(left: Array, image: _Image) -> Array:
    """Return <left, F(matrix)> of each replica of the data."""
    square, *controls = (np.tensordot(part, left, axes=2) for part in image)
    return controlled_mean(square, np.stack(controls, axis=-1))
