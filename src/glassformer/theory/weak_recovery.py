r"""Weak recovery of one subspace after the other: the staircase of models whose labels are even in their rows.

At zero overlap state evolution is linear, :math:`Q \mapsto (\alpha/\mathrm{degrees})F(Q)` with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'},

a positive map on symmetric matrices: its leading eigenvalue has a positive semi-definite eigenvector, which names the
subspace that is found first, at :math:`\alpha_c = \mathrm{degrees}/\lambda`. Once a subspace is recovered the same
holds in the directions orthogonal to it, with ``D`` at the fixed point that state evolution reaches inside it at that
:math:`\alpha`: the next threshold is where :math:`\alpha\lambda(\alpha) = \mathrm{degrees}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.integral import Array
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel, controlled
from glassformer.theory.state_evolution import evolved


@dataclass(frozen=True)
class Climb:
    """How the staircase is climbed, and what counts as one step of it.

    Attributes:
        accuracy: of a later threshold.
        steps: of the search for it.
        farthest: sample ratio, over the first threshold, that ends the search.
        degenerate: share of the largest eigenvalue within which eigenvalues count as one.
        errors: standard errors within which they do, beside that.
        largest: numbers of the largest array of responses.
        no_growth: growth per step that counts as none: its logarithm must exist.
        pure: weight of a matrix on one row from which on it names that row.
        range: eigenvalue, relative to the largest, that belongs to the range of a matrix.
        finer: data points of the operator over those of state evolution: it is not iterated.
        leading: accuracy asked of its eigenvalue at the leading threshold.
        later: at later ones.
        most: factor of data points that is out of reach.
    """

    accuracy: float = 2e-3
    steps: int = 12
    farthest: float = 60.0
    degenerate: float = 2e-3
    errors: float = 4.0
    largest: int = 100_000_000
    no_growth: float = 1e-6
    pure: float = 0.98
    range: float = 0.05
    finer: int = 4
    leading: float = 5e-4
    later: float = 5e-3
    most: int = 64


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


@dataclass(frozen=True)
class Step:
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
    found = _instability(model, channel, variance, unknown, finer)
    if channel.rougher is not None:
        change = _instability(model, channel.rougher, variance, unknown, finer).rate - found.rate
        return found._replace(error=float(np.hypot(found.error, change)))
    if not channel.sampled or found.error > accuracy * np.sqrt(_POLICY.most) * found.rate:
        return found
    while found.error > accuracy * found.rate and finer < most:
        finer *= 2
        found = _instability(model, channel, variance, unknown, finer)
    return found


def _instability(model: Model, channel: Channel, variance: Array, unknown: Array, finer: int) -> Instability:
    channel = channel.with_points(finer * channel.points)
    basis = _basis(unknown, model)
    first, second, truth, replicas = channel.response(variance)
    tokens = channel.columns
    rotated = [_rotated(part, basis.directions) for part in (first, second, truth)]
    operator = np.array([[_entry(rotated, a, b, tokens, replicas)[0] for b in basis.matrices] for a in basis.matrices])
    vectors = np.linalg.eigh(0.5 * (operator + operator.T))[1]
    modes = [_combined(basis.matrices, v) for v in vectors.T]
    growth = [_entry(rotated, mode, mode, tokens, replicas) for mode in modes]
    rate, error = growth[-1]
    margin = _POLICY.degenerate * rate + _POLICY.errors * error
    top = [
        mode for mode, (own, blur) in zip(modes, growth, strict=True) if rate - own <= margin + _POLICY.errors * blur
    ]
    # The identity projected on the eigenspace is what the map's powers tend to: positive semi-definite.
    matrix = sum((np.trace(mode) * mode for mode in top), np.zeros_like(modes[-1]))
    full = basis.directions @ matrix @ basis.directions.T
    return Instability(rate, error, full / np.trace(full), len(top) > 1)


class _Basis(NamedTuple):
    """Orthonormal directions, shape (P, k), and an orthonormal basis of the symmetric matrices on them."""

    directions: Array
    matrices: list[Array]


def _basis(unknown: Array, model: Model) -> _Basis:
    values, vectors = np.linalg.eigh(unknown)
    directions = vectors[:, values > 0.5]
    # Where whole rows are unknown they are the directions.
    rows = np.flatnonzero(np.abs(np.diag(unknown) - 1) < 1e-12)
    if len(rows) == directions.shape[1]:
        directions = np.eye(len(unknown))[:, rows]
    size = directions.shape[1]
    matrices = []
    for a in range(size):
        for b in range(a, size):
            matrix = np.zeros((size, size))
            matrix[a, b] = matrix[b, a] = 1.0 if a == b else np.sqrt(0.5)
            full = directions @ matrix @ directions.T
            if np.allclose(model.prior.in_rows.allowed(full), full):
                matrices.append(matrix)
    return _Basis(directions, matrices)


def _rotated(response: Array, directions: Array) -> Array:
    """Responses of shape (n, P, L, P, L) in the given directions, shape (n, L, L, k, k)."""
    return np.einsum("pa,nplqm,qb->nlmab", directions, response, directions, optimize=True)


def _combined(matrices: list[Array], weights: Array) -> Array:
    return np.asarray(np.tensordot(weights, np.array(matrices), axes=1))


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
    """Thresholds of weak recovery, one subspace after the other, in the order of their sample ratios."""
    size = model.prior.in_rows.rows
    found = instability(model, np.eye(size), np.eye(size))
    degrees = model.prior.degrees
    alpha = degrees / found.rate
    steps = [Step(alpha, alpha * found.error / found.rate, found.matrix, found.degenerate)]
    known = _range(found.matrix)
    # Rows of other laws are known together or not at all: what is known of a mixture of them tells of the others, so
    # that only whole rows, apart from the others, are steps.
    while round(float(np.trace(known))) < size and (model.prior.in_rows.rotational or _of_whole_rows(known)):
        following = _next(model, known, steps[-1].alpha, _POLICY.farthest * alpha)
        if following is None:
            break
        steps.append(following)
        known = _range(known + following.matrix)
    return steps


def _of_whole_rows(projector: Array) -> bool:
    return bool(np.max(np.abs(projector - np.diag(np.diag(projector)))) < 1 - _POLICY.pure)


def _next(model: Model, known: Array, start: float, farthest: float) -> Step | None:
    """Where the directions outside ``known`` become unstable; None if nowhere up to ``farthest``."""
    outside, degrees = np.eye(len(known)) - known, model.prior.degrees

    def at(alpha: float, accuracy: float = np.inf) -> Instability:
        variance = evolved(model, np.array([alpha]), subspace=known).value[0]
        return instability(model, variance, outside, accuracy)

    low, growth_low = start, max(_POLICY.no_growth, at(start * 1.02).rate * start / degrees)
    if growth_low >= 1:
        found = at(start * 1.02)
        return Step(start, start * 0.02, found.matrix, found.degenerate)
    high, growth_high = low, growth_low
    for _ in range(_POLICY.steps):
        high = min(high * 1.6, farthest)
        growth_high = max(_POLICY.no_growth, at(high).rate * high / degrees)
        if growth_high >= 1:
            break
        low, growth_low = high, growth_high
        if high >= farthest:
            return None
    for _ in range(_POLICY.steps):
        # Growth is nearly a power of alpha between the ends.
        share = np.log(1 / growth_low) / np.log(growth_high / growth_low)
        middle = low * (high / low) ** float(np.clip(share, 0.05, 0.95))
        found = at(middle, _POLICY.later)
        growth = max(_POLICY.no_growth, found.rate * middle / degrees)
        slope = np.log(growth_high / growth_low) / np.log(high / low)
        error = middle * found.error / found.rate / max(slope, 1e-3)
        if abs(np.log(growth)) <= _POLICY.accuracy * max(slope, 1e-3):
            break
        low, growth_low, high, growth_high = (
            (middle, growth, high, growth_high) if growth < 1 else (low, growth_low, middle, growth)
        )
    remainder = middle * abs(np.log(growth)) / max(slope, 1e-3)
    return Step(float(middle), float(error + remainder), found.matrix, found.degenerate)


def _range(matrix: Array) -> Array:
    """Projector on the range of a positive semi-definite matrix."""
    values, vectors = np.linalg.eigh(matrix)
    kept = vectors[:, values > _POLICY.range * values[-1]]
    return np.asarray(kept @ kept.T)


def row_named(matrix: Array) -> int | None:
    """The row that a positive semi-definite matrix of unit trace singles out; None if it mixes several."""
    row = int(np.argmax(np.diag(matrix)))
    return row if matrix[row, row] >= _POLICY.pure else None
