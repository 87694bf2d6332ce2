r"""The matrix of least nuclear norm that fits labels, with a certificate of how close to it one has come.

Douglas-Rachford splitting between the fit and the norm,

.. math:: x = P(v), \qquad z = \mathrm{shrink}_t(2x - v), \qquad v \leftarrow v + z - x,

where ``P`` projects on the matrices that fit the labels (or, for noisy ones, is the proximal map of the squared
residuals) and ``shrink`` lowers all singular values by ``t``. Steps are extrapolated from the last few (Anderson). The
subgradient :math:`(2x - v - z)/t` gives a point of the dual problem, and the gap between the two values bounds what is
missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.designs.dense import DenseDesign
from glassformer.learners.algorithms.arrays import PLAIN, Library, library
from glassformer.numerics.decompositions import singular_values, svd

SETTINGS = Iteration(tolerance=1e-6, floor=1e-14, max_iterations=5000)


@dataclass(frozen=True)
class Splitting:
    """How it is split and extrapolated.

    Attributes:
        shrink: share of the largest singular value that a step shrinks by.
        look: steps between looks at the gap.
        memory, ridge: steps remembered, and singular values of them, relative to the largest, that count as zero.
        worse: an extrapolated step that leaves a residual this many times the last one is undone.
        patience, gaining: looks over which the gap must fall to this share for extrapolation to go on.
        dependent: relative size of a pivot below which inputs count as dependent.
    """

    shrink: float = 0.3
    look: int = 5
    memory: int = 12
    ridge: float = 1e-10
    worse: float = 2.0
    patience: int = 12
    gaining: float = 0.9
    dependent: float = 1e-10


SPLITTING = Splitting()


class _Fit(NamedTuple):
    r"""The proximal map of the fit, :math:`v \mapsto v - \tilde A^T(\tilde Av - \tilde y)`."""

    rows: Any
    labels: Any

    def __call__(self, v: Array) -> Array:
        return np.asarray(v - (self.rows @ v - self.labels) @ self.rows)


class _Problem(NamedTuple):
    r"""Minimise :math:`\|S\|_*` on the fits, or plus :math:`\|As - y\|^2/(2\lambda)`, in units where ``s`` is flat."""

    inputs: Any
    labels: Any
    shape: tuple[int, int]
    penalty: float
    library: Library = PLAIN

    def gap(self, fit: _Fit, x: Array, z: Array, w: Array) -> tuple[Array, float]:
        """The better of the candidates for the primal problem, and its distance from the dual value, relative."""
        if self.penalty > 0:
            labels = np.asarray(self.labels)
            residual = labels - np.asarray(self.inputs @ z)
            slack = _operator_norm(residual @ self.inputs, self.shape)
            dual = residual * min(1.0, self.penalty / slack) if slack > 0 else residual
            primal = 0.5 * float(np.sum(residual**2)) + self.penalty * _nuclear_norm(z, self.shape)
            value = 0.5 * float(np.sum(labels**2) - np.sum((labels - dual) ** 2))
            return z, (primal - value) / max(primal, 1e-300)
        # The projection of the subgradient on the span of the inputs, scaled until it is one.
        multiplier = fit.rows @ w
        scale = max(1.0, _operator_norm(multiplier @ fit.rows, self.shape))
        norm = _nuclear_norm(x, self.shape)
        return x, (norm - float(multiplier @ fit.labels) / scale) / max(norm, 1e-300)


@dataclass
class _Extrapolation:
    """Anderson's steps: the combination of the last ones whose residuals cancel best."""

    points: list[Array]
    residuals: list[Array]
    memory: int = SPLITTING.memory

    def next(self, v: Array, residual: Array) -> Array:
        """Where to go on from ``v``, whose step is ``residual``."""
        if self.residuals and np.linalg.norm(residual) > SPLITTING.worse * np.linalg.norm(self.residuals[-1]):
            self.points.clear()
            self.residuals.clear()
        self.points.append(v)
        self.residuals.append(residual)
        del self.points[: -self.memory], self.residuals[: -self.memory]
        if len(self.points) == 1:
            return v + residual
        changes = np.diff(np.array(self.residuals), axis=0)
        weights = np.linalg.lstsq(changes.T, residual, rcond=SPLITTING.ridge)[0]
        moved = np.diff(np.array(self.points), axis=0) + changes
        return np.asarray(v + residual - weights @ moved)


def least_nuclear_norm(
    design: DenseDesign, labels: ArrayLike, penalty: float = 0.0, settings: Iteration | None = None
) -> Solution:
    r"""The matrix of least nuclear norm with the given labels, or the best compromise with noisy ones.

    Equation :eq:`nuclear-norm` of the documentation.

    Without a penalty :math:`\min\|S\|_*` subject to :math:`\mathrm{Tr}(X_\mu S^T)/\sqrt{dL} = y_\mu`; with one
    :math:`\min \frac12\sum_\mu(y_\mu - \mathrm{Tr}(X_\mu S^T)/\sqrt{dL})^2 + \lambda\|S\|_*`. Only the first
    instance of the design is solved.

    Args:
        design: inputs, of one instance.
        labels: shape (samples,).
        penalty: :math:`\lambda\ge 0`.
        settings: ``tolerance`` is the relative duality gap at which the solution is accepted; iteration limit.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d). ``residual`` and
        ``error_estimate`` are the certified relative duality gap: the objective exceeds its minimum by at most that
        share.

    Raises:
        DataError: labels do not match the inputs or are not finite, or inputs depend on each other linearly and there
            is no penalty.
        ParameterError: ``penalty`` is out of range.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(75, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> found = least_nuclear_norm(design, design.forward(signal, 0))
        >>> bool(np.allclose(found.value[0], signal, atol=1e-3)), bool(found.error_estimate[0] <= 1e-6)
        (True, True)
    """
    require_arguments(least_nuclear_norm, locals())
    settings = settings or SETTINGS
    y = design.checked_labels(labels)
    if not (np.isfinite(penalty) and penalty >= 0):
        raise ParameterError("penalty", penalty, "finite and >= 0")
    shape = design.signal_shape
    size = shape[0] * shape[1]
    inputs = np.asarray(design.inputs[0].reshape(design.samples, size), dtype=float) / np.sqrt(size)
    if np.linalg.norm(y) == 0:
        return _solution(np.zeros(shape), 0.0, Status.CONVERGED, [0.0])
    with library() as arrays:
        problem = _Problem(arrays.xp.asarray(inputs), arrays.xp.asarray(y), shape, float(penalty), arrays)
        return _descend(problem, settings)


def _descend(problem: _Problem, settings: Iteration) -> Solution:
    guess = np.array(problem.labels @ problem.inputs)
    guess *= float(problem.labels @ problem.labels) / (guess @ guess)
    width = SPLITTING.shrink * _operator_norm(guess, problem.shape)
    fit = _fit(problem, width)
    v, history = guess, []
    ahead, best, missing = _Extrapolation([], []), guess, np.inf
    for step in range(settings.max_iterations):
        x = fit(v)
        reflected = 2 * x - v
        z = _shrunk(reflected, problem.shape, width)
        if step % SPLITTING.look == 0 or step == settings.max_iterations - 1:
            candidate, gap = problem.gap(fit, x, z, (reflected - z) / width)
            history.append(gap)
            if gap < missing:
                best, missing = candidate, gap
            if (
                ahead.memory > 1
                and len(history) > SPLITTING.patience
                and missing > SPLITTING.gaining * min(history[: -SPLITTING.patience])
            ):
                # Extrapolation leads in a circle: plain steps, from the beginning, lead there.
                v, ahead = guess, _Extrapolation([], [], memory=1)
                continue
            if missing <= settings.tolerance:
                return _solution(best.reshape(problem.shape), missing, Status.CONVERGED, history, step + 1)
        v = ahead.next(v, z - x)
    return _solution(best.reshape(problem.shape), missing, Status.ITERATION_LIMIT, history, settings.max_iterations)


def _fit(problem: _Problem, width: float) -> _Fit:
    """The proximal map of the fit, from one Cholesky factor of the inputs' inner products."""
    xp, linalg = problem.library
    gram = problem.inputs @ problem.inputs.T
    if problem.penalty > 0:
        gram = problem.library.raised(gram, problem.penalty / width)
    try:
        lower = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)[0]
        pivots = np.asarray(xp.diag(lower))
    except np.linalg.LinAlgError:
        pivots = np.zeros(1)
    # A factorisation that fails is an error with one library and not finite with the other.
    if not np.min(pivots) > SPLITTING.dependent * np.max(pivots):
        raise DataError("X", "<samples>", "linearly independent samples, at most L d", "give a penalty > 0")
    rows, labels = (
        linalg.solve_triangular(lower, part, lower=True, check_finite=False)
        for part in (problem.inputs, problem.labels)
    )
    return _Fit(rows, labels)


def _shrunk(v: Array, shape: tuple[int, int], width: float) -> Array:
    left, values, right = svd(v.reshape(shape))
    return np.asarray((left * np.maximum(values - width, 0.0)) @ right).ravel()


def _nuclear_norm(v: Any, shape: tuple[int, int]) -> float:
    return float(singular_values(np.asarray(v).reshape(shape)).sum())


def _operator_norm(v: Any, shape: tuple[int, int]) -> float:
    return float(singular_values(np.asarray(v).reshape(shape))[0])


def _solution(value: Array, gap: float, status: Status, history: list[float], iterations: int = 0) -> Solution:
    return Solution(
        value=value[None],
        status=[status],
        residual=np.array([gap]),
        iterations=np.array([iterations]),
        error_estimate=np.array([gap]),
        history=np.array(history)[:, None],
    )
