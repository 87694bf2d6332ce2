r"""Nuclear-norm minimisation: the learner, and the estimator with a certified duality gap.

The estimator uses Douglas-Rachford splitting between the fit and the norm,

.. math:: x = P(v), \qquad z = \mathrm{shrink}_t(2x - v), \qquad v \leftarrow v + z - x,

where ``P`` is the projection on the matrices that fit the labels (or, with a penalty, the proximal map of the squared
residuals) and ``shrink`` lowers all singular values by ``t``. Steps are accelerated by Anderson extrapolation. The
subgradient :math:`(2x - v - z)/t` gives a value of the dual problem, and the duality gap bounds the distance from the
minimum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.designs.dense import DenseDesign
from glassformer.designs.revealed import RevealedSequences
from glassformer.learners.base import BY_PRODUCTS, LearnerInfo, Theory, certified_solution
from glassformer.learners.matrix_risk import RiskTheory
from glassformer.learners.primal_dual import least_nuclear_norm_by_products
from glassformer.learners.square_loss import SquareLossLearner, strength_by_noise
from glassformer.numerics.anderson import Anderson
from glassformer.numerics.decompositions import singular_values, svd

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import ArrayLike

    from glassformer.core.arrays import AnyArray
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model
    from glassformer.numerics.array_library import ArrayLibrary

_SETTINGS = Iteration(tolerance=1e-6, floor=1e-14, max_iterations=5000)
# Numbers chosen by trial on inputs with d from 10 to 60. Threshold t of a step, relative to the largest singular value:
_SHRINK = 0.3
# Number of steps between evaluations of the gap.
_GAP_INTERVAL = 5
# Extrapolation ends if the gap does not fall to this share within this number of evaluations.
_GAINING, _PATIENCE = 0.9, 12
# Relative size of a pivot below which inputs count as linearly dependent.
_DEPENDENT = 1e-10


@dataclass(frozen=True)
class NuclearNorm(SquareLossLearner):
    r"""The minimiser of :math:`\frac12\sum_\mu(y_\mu - h_\mu)^2 + \lambda(dL)^{1/4}\|S\|_*`.

    Args:
        strength: :math:`\lambda\ge 0`; 0 for the minimum nuclear norm interpolator; None for the best
            strength for linear labels at their noise, which is 0 without noise.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> NuclearNorm(strength=-1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: strength = -1.0 is not allowed: expected None, or a finite number >= 0
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="nuclear-norm",
        title="minimum nuclear norm",
        family="convex",
        papers=("donoho2013phase",),
        storages=BY_PRODUCTS,
        limit_settings=("strength",),
    )
    penalty: ClassVar[str] = "nuclear"
    accuracy_defaults: ClassVar[Mapping[str, Any]] = {"tolerance": 1e-6, "max_iterations": 5000}
    """Of the tolerance: relative duality gap at which a solution is accepted."""

    strength: float | None = strength_by_noise()

    def strength_for(self, model: Model) -> float | None:
        return 0.0 if self.strength is None and model.channel.labels.noise == 0 else self.strength

    def theory(self, model: Model) -> Theory:
        return NuclearNormTheory(self, model, risk=self.risk(model))

    def fit(self, model: Model, data: DataSet) -> Solution:
        from glassformer.risk.nuclear_norm import best_nuclear_norm

        rows, columns = data.design.signal_shape
        strength = self.strength_for(model)
        if strength is None:
            rho = model.matrix_prior.factor_width(columns) / columns
            alpha, noise = data.design.sample_ratio, model.channel.labels.noise
            strength = best_nuclear_norm(rows / columns, rho, alpha, noise).strength
        if strength == 0 and data.design.samples > rows * columns:
            allowed = f"> 0 with {data.design.samples} samples, more than the {rows * columns} entries of the signal"
            raise ParameterError("strength", strength, allowed, "give a strength > 0, or alpha <= 1")
        limit = Iteration(floor=1e-14, **{name: self.accurate(name) for name in self.accuracy_defaults})
        return least_nuclear_norm(data.design, data.labels, strength * float(rows * columns) ** 0.25, limit)


@dataclass(frozen=True, kw_only=True)
class NuclearNormTheory(RiskTheory):
    """Theory of the minimum nuclear norm."""

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        if not self.model.matrix_prior.extensive:
            raise IncompatibleError("its theory needs a width in proportion to the dimension: give rho, not width")
        if (alpha <= 0).any():
            raise IncompatibleError("its theory needs samples: give alpha > 0")
        return super().of_runs(alpha, optimum)


def least_nuclear_norm(
    design: DenseDesign | RevealedSequences,
    labels: ArrayLike,
    penalty: float = 0.0,
    settings: Iteration | None = None,
) -> Solution:
    r"""Return the minimum nuclear norm interpolator, or the minimiser of the penalised risk.

    Equation :eq:`nuclear-norm` of the documentation.

    Without a penalty :math:`\min\|S\|_*` subject to :math:`\mathrm{Tr}(X_\mu S^T)/\sqrt{dL} = y_\mu`; with one
    :math:`\min \frac12\sum_\mu(y_\mu - \mathrm{Tr}(X_\mu S^T)/\sqrt{dL})^2 + \lambda\|S\|_*`. Only the first
    instance of the design is solved.

    Args:
        design: inputs, of one instance; revealed ones are seen through products alone, by
            :mod:`~glassformer.learners.primal_dual`.
        labels: shape (samples,).
        penalty: :math:`\lambda\ge 0`.
        settings: iteration limit, and ``tolerance``, the relative duality gap at which the solution is accepted.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d). ``residual`` and
        ``error_estimate`` are the certified relative duality gap: the objective exceeds its minimum by at most that
        share.

    Raises:
        DataError: labels do not match the inputs or are not finite, or without a penalty inputs are linearly dependent.
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
    from glassformer.numerics.array_library import array_library

    y = design.checked_labels(labels)
    if not (np.isfinite(penalty) and penalty >= 0):
        raise ParameterError("penalty", penalty, "finite and >= 0")
    shape = design.signal_shape
    if design.revealed:
        return least_nuclear_norm_by_products(design, y, float(penalty), settings or _SETTINGS)
    size = shape[0] * shape[1]
    inputs = np.asarray(design.inputs[0].reshape(design.samples, size), dtype=float) / np.sqrt(size)
    if np.linalg.norm(y) == 0:
        return certified_solution(np.zeros(shape), 0.0, 0.0, 0, [0.0])
    with array_library() as arrays:
        problem = _Problem(arrays.xp.asarray(inputs), arrays.xp.asarray(y), shape, float(penalty), arrays)
        return problem.solve(settings or _SETTINGS)


class _FitMap(NamedTuple):
    r"""The proximal map of the fit, :math:`v \mapsto v - \tilde A^T(\tilde Av - \tilde y)`."""

    rows: Any
    labels: Any

    def __call__(self, v: Array) -> Array:
        return np.asarray(v - (self.rows @ v - self.labels) @ self.rows)


class _Problem(NamedTuple):
    r"""Minimise :math:`\|S\|_*` on the fits, or plus :math:`\|As - y\|^2/(2\lambda)`; ``s`` is the flat matrix."""

    inputs: Any
    labels: Any
    shape: tuple[int, int]
    penalty: float
    arrays: ArrayLibrary

    def fit_map(self, width: float) -> _FitMap:
        """Return the proximal map of the fit, from a Cholesky factor of the Gram matrix of the inputs."""
        xp, linalg = self.arrays
        gram = self.inputs @ self.inputs.T
        if self.penalty > 0:
            gram = self.arrays.add_to_diagonal(gram, self.penalty / width)
        try:
            lower = linalg.cho_factor(gram, lower=True, overwrite_a=True, check_finite=False)[0]
            pivots = np.asarray(xp.diag(lower))
        except np.linalg.LinAlgError:
            pivots = np.zeros(1)
        # A failing factorisation raises an error in NumPy and returns NaN in JAX.
        if not np.min(pivots) > _DEPENDENT * np.max(pivots):
            raise DataError("X", "<samples>", "linearly independent samples, at most L d", "give a penalty > 0")
        rows, labels = (
            linalg.solve_triangular(lower, part, lower=True, check_finite=False) for part in (self.inputs, self.labels)
        )
        return _FitMap(rows, labels)

    def shrink(self, v: Array, width: float) -> Array:
        """Return ``v`` with all singular values lowered by ``width``."""
        left, values, right = svd(v.reshape(self.shape))
        return np.asarray((left * np.maximum(values - width, 0.0)) @ right).ravel()

    def singular_values(self, v: AnyArray) -> Array:
        return singular_values(np.asarray(v).reshape(self.shape))

    def gap(self, fit: _FitMap, x: Array, z: Array, subgradient: Array) -> tuple[Array, float]:
        """Return the candidate for the primal problem, and its relative duality gap."""
        if self.penalty > 0:
            labels = np.asarray(self.labels)
            residual = labels - np.asarray(self.inputs @ z)
            norm = float(self.singular_values(residual @ self.inputs)[0])
            dual = residual * min(1.0, self.penalty / norm) if norm > 0 else residual
            primal = 0.5 * float(np.sum(residual**2)) + self.penalty * float(self.singular_values(z).sum())
            value = 0.5 * float(np.sum(labels**2) - np.sum((labels - dual) ** 2))
            return z, (primal - value) / max(primal, 1e-300)
        # The projection of the subgradient on the span of the inputs, scaled into the ball of the dual norm.
        multiplier = fit.rows @ subgradient
        scale = max(1.0, float(self.singular_values(multiplier @ fit.rows)[0]))
        primal = float(self.singular_values(x).sum())
        return x, (primal - float(multiplier @ fit.labels) / scale) / max(primal, 1e-300)

    def solve(self, settings: Iteration) -> Solution:
        """Return the minimum, by accelerated Douglas-Rachford steps."""
        start = np.array(self.labels @ self.inputs)
        start *= float(self.labels @ self.labels) / (start @ start)
        width = _SHRINK * float(self.singular_values(start)[0])
        fit = self.fit_map(width)
        v, history = start, []
        anderson, best, least_gap = Anderson(), start, np.inf
        for step in range(settings.max_iterations):
            x = fit(v)
            reflected = 2 * x - v
            z = self.shrink(reflected, width)
            if step % _GAP_INTERVAL == 0 or step == settings.max_iterations - 1:
                candidate, gap = self.gap(fit, x, z, (reflected - z) / width)
                history.append(gap)
                if gap < least_gap:
                    best, least_gap = candidate, gap
                stalled = len(history) > _PATIENCE and least_gap > _GAINING * min(history[:-_PATIENCE])
                if stalled and anderson.steps > 1:
                    # If extrapolation stalls, plain steps from the start converge.
                    v, anderson = start, Anderson(steps=1)
                    continue
                if least_gap <= settings.tolerance:
                    break
            v = anderson.next(v, z - x)
        return certified_solution(best.reshape(self.shape), least_gap, settings.tolerance, step + 1, history)
