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
from glassformer.core.progress import advance, note
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confidence_factor, mean_and_error
from glassformer.numerics.sequences import remaining_change
from glassformer.priors.features import row_growth

# Fewest data points per replica of the operator (chosen by trial).
FEWEST_POINTS = 256
# Relative accuracy of the eigenvalue, and the most data points for it as a factor of those of state evolution. If they
# do not suffice, the lower accuracy with its smaller factor is the goal (a compromise between time and digits).
ACCURACY, _MOST_POINTS = 5e-4, 64
LOW_ACCURACY, _FEW_MORE_POINTS = 4e-3, 8
# Size of the largest array of responses, in numbers (a limit of memory).
_LARGEST_ARRAY = 100_000_000
# Largest power of the work on a data point by which the bias of the eigenvalue may fall. It is less than that of other
# averages: squares of slopes are fourth powers of fields, whose tails few latents hardly reach.
_FASTEST = 1.0
# Eigenvalues count as equal within this share of the largest and this many standard errors (chosen by trial).
DEGENERATE, STANDARD_ERRORS = 2e-3, 4.0


class Instability(NamedTuple):
    """Leading eigenvalue of the linearised state evolution, per unit of alpha/degrees.

    Attributes:
        rate: leading eigenvalue.
        error: standard error of the eigenvalue.
        matrix: eigenvector, positive semi-definite and of unit trace, shape (P, P).
        degenerate: whether other eigenvalues agree with the leading one within the errors, so that the subspace is not
            unique.
        replicas: eigenvalue from each replica of the data.
        missing: estimated bias of the eigenvalue, from sampled posteriors and from the small noise that regularises
            noiseless labels.
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

    The number of data points, at first ``finer`` times that of state evolution, is doubled until the eigenvalue has the
    relative ``accuracy``. If this would need too many points, the goal is a lower accuracy, or the first estimate.
    """
    channel, inference = model.channel, model.channel.inference
    size = 8 * inference.points * (channel.fields.rows * channel.fields.columns) ** 2
    most = max(1, min(_MOST_POINTS, _LARGEST_ARRAY // size))
    basis = symmetric_basis(unknown, model)
    points = max(min(FEWEST_POINTS, inference.points), int(finer * inference.points))
    few = inference.with_points(points)
    response = few.response(variance, 0, unknown)
    advance(few.work)
    slopes, leading = _in_basis(response, basis), growth_of(model, basis, response)
    goal = _goal(leading, accuracy) if inference.sampled else np.inf
    while leading.error > goal * leading.rate and points < most * inference.points:
        note(f"instability of unknown directions, {2 * points} data points")
        fresh = inference.with_points(2 * points).response(variance, points, unknown)
        # The earlier half of the points is there already.
        advance(inference.with_points(points).work)
        slopes = slopes.joined(_in_basis(fresh, basis))
        points, again, newest = 2 * points, _leading(model, basis, slopes), growth_of(model, basis, fresh)
        # Stopping at the first small error estimate selects estimates that are small by chance. Each doubling therefore
        # at most halves the error.
        leading = again._replace(
            error=max(again.error, 0.5 * leading.error), missing=max(newest.missing, again.missing, key=abs)
        )
    with_more_noise = inference.with_more_noise
    if with_more_noise is None:
        return leading
    noisier = with_more_noise.with_points(points).response(variance, 0, unknown)
    # A systematic error, to which no confidence factor applies.
    change = abs(_leading(model, basis, _in_basis(noisier, basis)).rate - leading.rate)
    return leading._replace(missing=abs(leading.missing) + change)


def _goal(leading: Instability, accuracy: float) -> float:
    """Return the relative error to reach with more data points; infinite if every goal needs too many of them."""
    goals = ((accuracy, _MOST_POINTS), (max(accuracy, LOW_ACCURACY), _FEW_MORE_POINTS))
    return next((goal for goal, more in goals if leading.error <= goal * np.sqrt(more) * leading.rate), np.inf)


def growth_of(model: Model, basis: Basis, response: Response) -> Instability:
    """Return the leading eigenvalue from responses of data points, with the bias of sampled posteriors."""
    leading, *fewer = (_leading(model, basis, _in_basis(part, basis)) for part in (response, *response.fewer))
    rates = [np.array(level.rate) for level in (leading, *fewer)]
    bias = float(remaining_change(rates, model.channel.inference.refinement_factor, fastest=_FASTEST))
    return leading._replace(missing=max(leading.missing, bias, key=abs))


class _Slopes(NamedTuple):
    """Slopes ``D`` of the score in a basis, shape (replicas, points, k, L^2, k), and weights of the data points.

    ``first`` and ``second`` are independent estimates, so that noise causes no bias in their product; ``truth`` is the
    deviation of the true fields, whose mean given the label is ``D``.
    """

    first: Array
    second: Array
    truth: Array
    weight: Array

    def joined(self, other: _Slopes) -> _Slopes:
        """Return the slopes with further data points in every replica."""
        return _Slopes(*(np.concatenate(pair, axis=1) for pair in zip(self, other, strict=True)))


def _in_basis(response: Response, basis: Basis) -> _Slopes:
    """Return slopes in the directions of the basis."""

    def project(slopes: Array) -> Array:
        projected = np.einsum("pa,nplqm,qb->nalmb", basis.directions, slopes, basis.directions, optimize=True)
        return projected.reshape(*projected.shape[:2], -1, projected.shape[-1])

    def symmetrize(slopes: Array) -> Array:
        if basis.invariant is None:
            return slopes
        flat = np.moveaxis(slopes, 2, 1)
        invariant = flat.reshape(*flat.shape[:2], -1) @ basis.invariant
        return np.moveaxis(invariant.reshape(flat.shape), 1, 2)

    # Sampled posteriors break the symmetries only by noise, which is removed; true deviations are not symmetric.
    first, second = (symmetrize(project(part)) for part in (response.first, response.second))
    parts = (first, second, project(response.truth), response.weight)
    return _Slopes(*(part.reshape(response.replicas, -1, *part.shape[1:]) for part in parts))


def _leading(model: Model, basis: Basis, slopes: _Slopes) -> Instability:
    forms = _forms(slopes, basis.matrices, model.channel.fields.states is None)
    operator = np.array([[np.mean(_entry(form)) for form in row] for row in forms])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = np.tensordot(vectors.T, basis.matrices, axes=1)
    of_modes = [np.tensordot(np.outer(vector, vector), forms, axes=2) for vector in vectors.T]
    entries = [_entry(form) for form in of_modes]
    replicas = row_growth(model.prior) * np.array(entries)
    growth = np.stack(mean_and_error(replicas.T), axis=1)
    rate, error = map(float, growth[-1])
    degenerate = rate - growth[:, 0] <= DEGENERATE * rate + STANDARD_ERRORS * (error + growth[:, 1])
    # The projection of the identity on the eigenspace, to which powers of the map tend, is positive semi-definite.
    matrix = np.einsum("ncc,nab->ab", modes[degenerate], modes[degenerate])
    full = basis.directions @ matrix @ basis.directions.T
    # Bias: the significant part of the difference between <M, F(M)> from posteriors and from true deviations.
    square, difference, *known = of_modes[-1]
    true_entry = controlled_mean(square - difference, np.stack(known, axis=-1))
    bias = float(significant_gap(*mean_and_error(entries[-1] - true_entry)))
    missing = row_growth(model.prior) * bias
    return Instability(rate, error, full / np.trace(full), bool(degenerate.sum() > 1), replicas[-1], missing)


def _forms(slopes: _Slopes, matrices: Array, normal: bool) -> Array:
    """Return <M_i, F(M_j)> of each data point, and three control variates of mean zero.

    The forms have shape (n, n, 4, replicas, points) for n symmetric orthonormal matrices: the form of estimated slopes,
    its difference from the form with one true deviation, the form of two true deviations minus its mean (zero if
    deviations are not normal, as with hidden states), and the weight minus one.
    """
    number, size, columns = len(matrices), matrices.shape[1], slopes.first.shape[3]
    flat, traces = matrices.reshape(number, -1), np.trace(matrices, axis1=1, axis2=2)
    # The mean of the form of two true deviations of white fields.
    known = columns * np.outer(traces, traces) + np.sqrt(columns) * np.eye(number)

    def form(d: Array, e: Array) -> Array:
        """Sum over tokens of <M_i, d M_j e^T>, with the points last."""
        products = np.einsum("alcn,bldn->cdabn", d, e).reshape(size**2, size**2, -1)
        return np.tensordot(flat, np.tensordot(flat, products, axes=1), axes=(1, 1))

    replicas, points = slopes.weight.shape
    forms = np.empty((number, number, 4, replicas, points))
    for replica, (*parts, weight) in enumerate(zip(*slopes, strict=True)):
        first, second, truth = (np.ascontiguousarray(np.moveaxis(part, 0, -1)) for part in parts)
        square, crossed = form(first, second), form(0.5 * (first + second), truth)
        forms[:, :, 0, replica] = weight * square
        forms[:, :, 1, replica] = weight * (square - crossed)
        forms[:, :, 2, replica] = weight * (form(truth, truth) - known[..., None]) * normal
        forms[:, :, 3, replica] = traces[:, None, None] * (weight - 1)
    return forms


def _entry(forms: Array) -> Array:
    """Return <M, F(M')> of each replica of the data, from the form and its controls, shape (4, replicas, points)."""
    square, *controls = forms
    return controlled_mean(square, np.stack(controls, axis=-1))
