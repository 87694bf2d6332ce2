r"""Cross-entropy of attention, a loss of all indices of a sample, and its proximal map.

A sample has the :math:`K = T(T+1)/2` components ``x`` of a symmetric matrix ``h`` of indices
(:mod:`~glassformer.designs.token_pairs`); labels are rows of probabilities :math:`Y_{ab}`. With
:math:`P_{ab} = e^{\beta h_{ab}}/\sum_ce^{\beta h_{ac}}` the derivative in ``h`` is :math:`\beta(P - Y)`. The matrix of
second derivatives is a diagonal minus one rank-one matrix per row, so that a Newton step solves a ``T x T`` system. Two
tokens have two equations, with Newton steps in closed form (:func:`minimise_two_tokens`).

Public methods have samples along the first axes; private functions along the last axis.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from glassformer.channels.base import Channel
from glassformer.core.arrays import AnyArray
from glassformer.core.checks import is_number
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.token_pairs import pair_indices
from glassformer.risk.loss_base import Loss

# Samples per batch of the minimisation: arrays of this length fit into the cache of a processor (measured).
_BATCH = 16384
# Both Newton methods: largest number of halvings of a step, and required share of the predicted decrease (Armijo).
_HALVINGS, _SUFFICIENT_DECREASE = 60, 0.1
# Any number of tokens: largest number of steps, relative step that ends the iteration, relative step below which the
# iteration also ends if steps shrink by less than the factor (rounding), and rounding error of the objective.
_STEPS, _LAST_STEP, _ROUGH_STEP, _SHRINKING, _OBJECTIVE_ROUNDING = 200, 1e-9, 1e-6, 0.3, 1e-13
# Two tokens: largest number of steps, last step (convergence is quadratic, the next one is rounding), rounding error of
# the residual, and share of active samples below which converged ones are removed from the arrays (measured).
_PAIR_STEPS, _PAIR_LAST_STEP, _RESIDUAL_ROUNDING, _FEW = 100, 1e-7, 1e-14, 0.5
# Matrix from components to row differences of two tokens, and its pseudo-inverse; _ROWS _ROWS^T = [[3, 1], [1, 3]].
_ROWS = np.array([[np.sqrt(2), -1.0, 0.0], [0.0, -1.0, np.sqrt(2)]])
_BACK = np.linalg.pinv(_ROWS)
_SQUARE, _DETERMINANT = 3.0, 8.0
# Keeps the logarithm of a vanishing strength finite.
_TINY = 1e-300


@dataclass(frozen=True)
class CrossEntropy(Loss):
    r"""Cross-entropy of softmax attention, :math:`-\sum_{ab}Y_{ab}\log\mathrm{softmax}_b(\beta h_{a\cdot})`.

    Equation :eq:`risk-attention` of the documentation.

    Labels are rows of probabilities, shape (..., T, T); those of hardmax attention have a single one per row. Fields
    are the components of ``h``, shape (..., K). Values have shape (...), scores have the shape of the fields, and the
    derivatives of scores are traces.

    Args:
        temperature: inverse temperature :math:`\beta > 0`; None for that of the labels, or one for hardmax.

    Raises:
        ParameterError: ``temperature`` is out of range.

    Example:
        >>> loss, y, omega = CrossEntropy(), np.eye(2), np.array([0.3, 0.1, -0.4])
        >>> p, (g, _) = loss.proximal(y, omega, 2.0), loss.score(y, omega, 2.0)
        >>> bool(np.allclose(p, omega - 2 * loss.slope(y, p))), bool(np.allclose(g, -loss.slope(y, p)))
        (True, True)
    """

    temperature: float | None = None

    name = "cross-entropy"
    labels = "classes"

    def __post_init__(self) -> None:
        if self.temperature is not None and not (is_number(self.temperature) and 0 < self.temperature < np.inf):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def _scale(self) -> float:
        return 1.0 if self.temperature is None else float(self.temperature)

    @property
    def sharpness(self) -> float:
        """Bound on the second derivative: one half per row, for a component in two entries, or twice in one entry."""
        return self._scale**2

    def adapted(self, channel: Channel) -> Loss:
        if self.temperature is not None:
            return self
        return replace(self, temperature=float(getattr(channel, "temperature", 1.0)))

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax

        return jax.nn.logsumexp(self._scale * h) - jax.numpy.sum(y * (self._scale * h))

    def value(self, y: Array, h: Array) -> Array:
        y, h, shape = _flatten(y, h)
        return _value(y, _logits(h, self._scale)).reshape(shape[:-1])

    def slope(self, y: Array, h: Array) -> Array:
        y, h, shape = _flatten(y, h)
        return _slope(y, _probabilities(_logits(h, self._scale)), self._scale).T.reshape(shape)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._minimise(y, omega, variance)[0]

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return self._minimise(y, omega, variance)[1:]

    def _minimise(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array, Array]:
        """Return minimisers, scores, and minus the traces of the scores' derivatives."""
        y, omega, shape = _flatten(y, omega)
        v = np.broadcast_to(np.asarray(variance, dtype=float), shape[:-1]).ravel()
        minimiser, score, trace = np.empty(omega.shape), np.empty(omega.shape), np.empty(v.shape)
        solve = minimise_two_tokens if len(y) == 2 else minimise
        for start in range(0, len(v), _BATCH):
            part = slice(start, start + _BATCH)
            solution = solve(y[:, :, part], omega[:, part], v[part], self._scale)
            minimiser[:, part], score[:, part], trace[part] = solution
        return minimiser.T.reshape(shape), score.T.reshape(shape), trace.reshape(shape[:-1])

    def conjugate_at(self, y: Array, h: Array, slopes: Array, share: float) -> Array:
        """Return an upper bound on the conjugate, exact at ``share`` = 1: minus an entropy of mixed probabilities."""
        del slopes
        y, h, shape = _flatten(y, h)
        between = y + share * (_probabilities(_logits(h, self._scale)) - y)
        return np.sum(xlogy(between, between), axis=(0, 1)).reshape(shape[:-1])


def _flatten(y: Array, h: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Return labels of shape (T, T, n), fields of shape (K, n), and the original shape of the fields."""
    y, h = np.asarray(y, dtype=float), np.asarray(h, dtype=float)
    tokens, batch = y.shape[-1], np.broadcast_shapes(y.shape[:-2], h.shape[:-1])
    flat = np.broadcast_to(y, (*batch, tokens, tokens)).reshape(-1, tokens, tokens)
    fields = np.broadcast_to(h, (*batch, h.shape[-1])).reshape(-1, h.shape[-1])
    return np.moveaxis(flat, 0, -1), np.ascontiguousarray(fields.T), (*batch, h.shape[-1])


class _Indices(NamedTuple):
    """The linear map from the components of T tokens to the matrix of indices.

    Attributes:
        spread: matrix from components to indices, shape (T T, K).
        partner: for the row of each token, the other token of every component, shape (T, K).
        weight: weight of the component in the row, zero for pairs without the row's token, shape (T, K).
    """

    spread: Array
    partner: NDArray[np.intp]
    weight: Array


@lru_cache(maxsize=16)
def _indices(tokens: int) -> _Indices:
    rows, columns = pair_indices(tokens)
    count = np.arange(len(rows))
    scale = np.where(rows == columns, np.sqrt(2), 1.0)
    spread = np.zeros((tokens, tokens, len(rows)))
    spread[rows, columns, count] = spread[columns, rows, count] = scale
    partner = np.zeros((tokens, len(rows)), dtype=np.intp)
    partner[rows, count], partner[columns, count] = columns, rows
    weight = np.zeros((tokens, len(rows)))
    weight[rows, count] = weight[columns, count] = scale
    return _Indices(spread.reshape(tokens**2, -1), partner, weight)


def _logits(h: Array, scale: float) -> Array:
    """Return the matrix of indices times the scale, shape (T, T, n)."""
    tokens = round((np.sqrt(8 * len(h) + 1) - 1) / 2)
    return np.asarray((scale * _indices(tokens).spread @ h).reshape(tokens, tokens, -1))


def _probabilities(logits: Array) -> Array:
    part = np.exp(logits - np.max(logits, axis=1, keepdims=True))
    return np.asarray(part / np.sum(part, axis=1, keepdims=True))


def _value(y: Array, logits: Array) -> Array:
    """Return the loss of each sample; logits relative to the largest of their row keep the accuracy of small losses."""
    relative = logits - np.max(logits, axis=1, keepdims=True)
    return np.asarray(np.sum(np.log(np.sum(np.exp(relative), axis=1)), axis=0) - np.sum(y * relative, axis=(0, 1)))


def _slope(y: Array, probabilities: Array, scale: float) -> Array:
    """Return the derivative of the loss in the components, shape (K, n)."""
    difference = (probabilities - y).reshape(len(y) ** 2, -1)
    return np.asarray(scale * _indices(len(y)).spread.T @ difference)


# Any number of tokens ------------------------------------------------------------------------------------------------


class _Hessian(NamedTuple):
    r"""The matrix :math:`1 + V\ell''`, a diagonal minus ``T`` rank-one matrices, inverted by Woodbury's identity.

    Attributes:
        curvature: diagonal part of the second derivatives, shape (K, n).
        across: vectors of the subtracted rank-one matrices, shape (T, K, n).
        variance: ``V``, shape (n,).
        diagonal: ``1 + V curvature``.
        inverse: inverse of the ``T x T`` system, shape (T, T, n).
    """

    curvature: Array
    across: Array
    variance: Array
    diagonal: Array
    inverse: Array

    @classmethod
    def at(cls, probabilities: Array, variance: Array, scale: float) -> _Hessian:
        tokens, indices = len(probabilities), _indices(len(probabilities))
        curvature = scale**2 * (indices.spread**2).T @ probabilities.reshape(tokens**2, -1)
        across = scale * indices.weight[:, :, None] * probabilities[np.arange(tokens)[:, None], indices.partner]
        diagonal = 1 + variance * curvature
        small = np.eye(tokens)[:, :, None] - variance * np.einsum("akn,bkn->abn", across, across / diagonal)
        return cls(curvature, across, variance, diagonal, _inverse(small))

    def solve(self, right: Array) -> Array:
        """Return the inverse matrix times vectors of shape (K, n)."""
        lowered = right / self.diagonal
        inside = np.einsum("abn,bn->an", self.inverse, np.einsum("akn,kn->an", self.across, lowered))
        return np.asarray(lowered + self.variance * np.einsum("akn,an->kn", self.across, inside) / self.diagonal)

    def trace(self) -> Array:
        r"""Return the trace of :math:`\ell''(1 + V\ell'')^{-1}`."""
        twice = np.einsum("akn,bkn->abn", self.across / self.diagonal, self.across / self.diagonal)
        return np.asarray(np.sum(self.curvature / self.diagonal, axis=0) - np.einsum("abn,abn->n", self.inverse, twice))


def _inverse(matrices: Array) -> Array:
    """Return inverses of positive matrices, shape (T, T, n), by elimination: faster than n calls of LAPACK."""
    size = len(matrices)
    left, inverse = matrices.copy(), np.broadcast_to(np.eye(size)[:, :, None], matrices.shape).copy()
    for i in range(size):
        pivot = 1 / left[i, i]
        left[i] *= pivot
        inverse[i] *= pivot
        for j in range(size):
            if j != i:
                factor = left[j, i].copy()
                left[j] -= factor * left[i]
                inverse[j] -= factor * inverse[i]
    return inverse


class _Samples(NamedTuple):
    r"""Samples whose proximal maps, minimisers of :math:`V\ell(y, p) + |p-\omega|^2/2`, are sought.

    Attributes:
        y: labels, shape (T, T, n).
        omega: fields, shape (K, n).
        variance: ``V``, shape (n,).
        scale: of the indices.
    """

    y: Array
    omega: Array
    variance: Array
    scale: float

    def select(self, chosen: NDArray[np.intp]) -> _Samples:
        """Return some of the samples."""
        return _Samples(self.y[:, :, chosen], self.omega[:, chosen], self.variance[chosen], self.scale)

    def objective(self, p: Array, logits: Array) -> Array:
        """Return what is minimised, shape (n,)."""
        return np.asarray(self.variance * _value(self.y, logits) + 0.5 * np.sum((p - self.omega) ** 2, axis=0))


def minimise(y: Array, omega: Array, variance: Array, scale: float) -> tuple[Array, Array, Array]:
    r"""Minimise :math:`V\ell(y, p) + |p-\omega|^2/2` by Newton's method with backtracking, for any number of tokens.

    Returns:
        Minimisers and scores, shape (K, n), and minus the traces of the scores' derivatives, shape (n,).
    """
    # If the prediction at omega is far from the label, the loss is nearly linear and Newton's step too long: zero is
    # then the better start.
    missed = variance * (_value(y, _logits(omega, scale)) - _value(y, 0 * _logits(omega, scale)))
    p = np.where(missed > 0.5 * np.sum(omega**2, axis=0), 0.0, omega)
    samples, active = _Samples(y, omega, variance, scale), np.arange(len(variance))
    before = np.full(len(variance), np.inf)
    for _ in range(_STEPS):
        some, here = samples.select(active), p[:, active]
        logits = _logits(here, scale)
        probabilities = _probabilities(logits)
        slope = some.variance * _slope(some.y, probabilities, scale) + here - some.omega
        step = -_Hessian.at(probabilities, some.variance, scale).solve(slope)
        p[:, active] = _backtrack(some, here, step, some.objective(here, logits), np.sum(slope * step, axis=0))
        size = np.max(np.abs(step), axis=0) / (1 + np.max(np.abs(here), axis=0))
        # Small steps that no longer shrink are rounding errors.
        moving = (size > _LAST_STEP) & ((size > _ROUGH_STEP) | (size < _SHRINKING * before))
        active, before = active[moving], size[moving]
        if not active.size:
            break
    probabilities = _probabilities(_logits(p, scale))
    return p, -_slope(y, probabilities, scale), _Hessian.at(probabilities, variance, scale).trace()


def _backtrack(samples: _Samples, here: Array, step: Array, objective: Array, slope: Array) -> Array:
    """Return the ends of steps, halved until the objective decreases enough (Armijo)."""
    share, waiting, end = np.ones(len(objective)), np.arange(len(objective)), here + step
    for _ in range(_HALVINGS):
        there = end[:, waiting]
        value = samples.select(waiting).objective(there, _logits(there, samples.scale))
        allowed = objective[waiting] + _SUFFICIENT_DECREASE * share[waiting] * slope[waiting]
        waiting = waiting[value > allowed + _OBJECTIVE_ROUNDING * (1 + np.abs(objective[waiting]))]
        if not waiting.size:
            break
        share[waiting] *= 0.5
        end[:, waiting] = here[:, waiting] + share[waiting] * step[:, waiting]
    return end


# Two tokens ----------------------------------------------------------------------------------------------------------


def minimise_two_tokens(y: Array, omega: Array, variance: Array, scale: float) -> tuple[Array, Array, Array]:
    r"""Minimise as :func:`minimise` does, for two tokens, in the plane of row differences.

    The loss depends only on :math:`u_a = \beta(h_{aa} - h_{ab})`, and :math:`P_{aa} = \sigma(u_a)`. With the diagonal
    entries :math:`y_a = Y_{aa}` of the label the minimiser solves

    .. math:: u + \beta^2V\begin{pmatrix}3&1\\1&3\end{pmatrix}(\sigma(u) - y) = u_\omega.
    """
    centre, shares, strength = scale * _ROWS @ omega, y[[0, 1], [0, 1]], scale**2 * variance
    u, active = _guess(centre, shares, strength), np.arange(len(strength))
    here = _RowDifferences.at(u, centre, shares, strength)
    for _ in range(_PAIR_STEPS):
        step = here.newton_step()
        here = _backtrack_residual(here, step)
        u[:, active] = here.u
        moving = np.flatnonzero(np.max(np.abs(step), axis=0) > _PAIR_LAST_STEP + here.rounding)
        if not len(moving):
            break
        # Removing converged samples takes about as long as a step.
        if len(moving) < _FEW * len(active):
            active, here = active[moving], here.select(moving)
    end = _RowDifferences.at(u, centre, shares, strength)
    # The minimiser follows from the change of u; from the score, large variances would amplify its rounding error.
    minimiser = omega + _BACK @ (u - centre) / scale
    both = 2 * _DETERMINANT * strength * np.prod(end.curvature, axis=0)
    trace = scale**2 * (_SQUARE * np.sum(end.curvature, axis=0) + both) / end.determinant
    return minimiser, -scale * _ROWS.T @ end.excess, trace


class _RowDifferences(NamedTuple):
    """Row differences of some samples, with the equations of the minimiser there.

    Attributes:
        u: row differences, shape (2, n).
        centre: row differences of the field, shape (2, n).
        shares: diagonal entries of the labels, shape (2, n).
        strength: the squared scale times ``V``, shape (n,).
        excess: probabilities minus shares, shape (2, n).
        curvature: derivatives of the probabilities, shape (2, n).
        residual: residual of the equations, shape (2, n).
    """

    u: Array
    centre: Array
    shares: Array
    strength: Array
    excess: Array
    curvature: Array
    residual: Array

    @classmethod
    def at(cls, u: Array, centre: Array, shares: Array, strength: Array) -> _RowDifferences:
        # The hyperbolic tangent is much faster than exponentials.
        tangent = np.tanh(0.5 * u)
        excess, curvature = 0.5 * (1 + tangent) - shares, 0.25 * (1 - tangent**2)
        residual = u - centre + strength * (2 * excess + (excess[0] + excess[1]))
        return cls(u, centre, shares, strength, excess, curvature, residual)

    def select(self, rows: Any) -> _RowDifferences:
        return _RowDifferences(*(np.take(part, rows, axis=-1) for part in self))

    @property
    def determinant(self) -> Array:
        """Determinant of the Jacobian of the equations."""
        first, second = self.curvature
        return np.asarray(
            1 + self.strength * (_SQUARE * (first + second) + _DETERMINANT * self.strength * first * second)
        )

    def newton_step(self) -> Array:
        first, second = self.strength * self.curvature
        one, other = self.residual
        steps = [second * other - (1 + _SQUARE * second) * one, first * one - (1 + _SQUARE * first) * other]
        return np.stack(steps) / self.determinant

    @property
    def distance(self) -> Array:
        """Size of the residual."""
        return np.asarray(np.abs(self.residual[0]) + np.abs(self.residual[1]))

    @property
    def rounding(self) -> Array:
        """Rounding error of the residual."""
        return np.asarray(_RESIDUAL_ROUNDING * (1 + self.strength + np.abs(self.centre[0]) + np.abs(self.centre[1])))


def _backtrack_residual(here: _RowDifferences, step: Array) -> _RowDifferences:
    """Return the ends of steps, halved until the residual decreases enough."""
    share, before = np.ones(len(here.strength)), here.distance
    there = _RowDifferences.at(here.u + step, here.centre, here.shares, here.strength)
    for _ in range(_HALVINGS):
        far = there.distance > (1 - _SUFFICIENT_DECREASE * share) * before + here.rounding
        if not far.any():
            break
        share[far] *= 0.5
        there = _RowDifferences.at(here.u + share * step, here.centre, here.shares, here.strength)
    return there


def _guess(centre: Array, shares: Array, strength: Array) -> Array:
    r"""Return an approximate solution that neglects the coupling to the other row.

    With :math:`r = 3\beta^2V` the equation is :math:`u = f + r\sigma(-u)`, symmetric under ``(u, f) -> (-u, -r - f)``.
    For ``u > 0`` it is nearly :math:`u = f + re^{-u}`, which Lambert's function solves.
    """
    reach = _SQUARE * strength
    pushed = centre - reach * (1 - shares)
    mirrored = pushed < -0.5 * reach
    pushed = np.where(mirrored, -reach - pushed, pushed)
    # Lambert's function of the exponential, by an approximation with an error of a few per cent.
    size = np.logaddexp(0.0, np.log(np.maximum(reach, _TINY)) - pushed)
    u = pushed + size * (1 - np.log1p(size) / (2 + size))
    return np.where(mirrored, -u, u)
