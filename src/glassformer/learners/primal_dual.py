r"""Minimum nuclear norm by products with the inputs alone: a primal-dual iteration with a certified duality gap.

.. math::
   S^+ = \mathrm{shrink}_\tau(S + \tau A^Tp), \qquad
   p^+ = \frac{p + \sigma(y - A(2S^+ - S))}{1 + \sigma\lambda}, \qquad \sigma\tau\|A\|^2 < 1,

for :math:`\min\|S\|_* + \|AS - y\|^2/(2\lambda)`, and for the interpolator with :math:`\lambda = 0` (A. Chambolle and
T. Pock, J. Math. Imaging Vis. 40, 120 (2011), algorithm 1). Steps are accelerated by Anderson extrapolation. Two
products a step reveal two directions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.designs.revealed import RevealedSequences
from glassformer.learners.base import certified_solution
from glassformer.numerics.anderson import Anderson
from glassformer.numerics.decompositions import singular_values, svd

# Numbers chosen by trial at d from 40 to 300. Step tau relative to the largest singular value of the first estimate:
_STEP = 0.2
# Number of steps between evaluations of the gap.
_GAP_INTERVAL = 5


@dataclass(frozen=True)
class _Problem:
    r"""Minimise :math:`\|S\|_*` on the fits, or plus :math:`\|AS - y\|^2/(2\lambda)`."""

    design: RevealedSequences
    labels: Array
    penalty: float
    tau: float
    sigma: float

    def step(self, signal: Array, dual: Array, pull: Array, fields: Array) -> tuple[Array, Array]:
        """Return the next signal and dual, from the transposed product of the dual and the fields of the signal."""
        left, values, right = svd(signal + self.tau * pull)
        new = np.asarray((left * np.maximum(values - self.tau, 0.0)) @ right)
        rest = self.labels - 2 * self.design.forward(new, 0) + fields
        return new, (dual + self.sigma * rest) / (1 + self.sigma * self.penalty)

    def gap(self, signal: Array, dual: Array, pull: Array, fields: Array) -> float:
        """Return the relative duality gap, or the relative misfit of an interpolator if that is larger."""
        inside = dual / max(1.0, float(singular_values(pull)[0]))
        norm, rest = float(singular_values(signal).sum()), self.labels - fields
        if self.penalty > 0:
            primal = 0.5 * float(rest @ rest) + self.penalty * norm
            off = self.labels - self.penalty * inside
            return (primal - 0.5 * float(self.labels @ self.labels - off @ off)) / max(primal, 1e-300)
        misfit = float(np.linalg.norm(rest) / np.linalg.norm(self.labels))
        return max(misfit, abs(norm - float(inside @ self.labels)) / max(norm, 1e-300))


def least_nuclear_norm_by_products(
    design: RevealedSequences, labels: Array, penalty: float, settings: Iteration
) -> Solution:
    r"""Return the minimum nuclear norm interpolator, or the minimiser of half the squared residuals plus the penalty.

    Args:
        design: inputs.
        labels: shape (samples,).
        penalty: :math:`\lambda\ge 0`.
        settings: iteration limit, and tolerance of the gap.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d). ``residual`` and
        ``error_estimate`` are the relative duality gap; without a penalty the larger one of it and the relative misfit.
    """
    shape = design.signal_shape
    start = design.adjoint(labels, 0)
    if not np.any(start):
        return certified_solution(np.zeros(shape), 0.0, 0.0, 0, [0.0])
    start *= float(labels @ labels) / float(np.sum(start**2))
    tau = _STEP * float(singular_values(start)[0])
    problem = _Problem(design, labels, penalty, tau, 1 / (tau * design.largest_singular_value**2))
    # Both parts have the same unit in the metric in which the iteration contracts.
    unit, size = np.sqrt(tau / problem.sigma), start.size
    v = np.concatenate([start.ravel(), np.zeros(len(labels))])
    best, least, history, anderson = start, np.inf, [], Anderson()
    for step in range(settings.max_iterations):
        signal, dual = v[:size].reshape(shape), v[size:] / unit
        pull, fields = design.adjoint(dual, 0), design.forward(signal, 0)
        if step % _GAP_INTERVAL == 0 or step == settings.max_iterations - 1:
            history.append(problem.gap(signal, dual, pull, fields))
            note(f"step {step}, gap {history[-1]:.1e}")
            if history[-1] < least:
                best, least = signal, history[-1]
            if least <= settings.tolerance:
                break
        new, new_dual = problem.step(signal, dual, pull, fields)
        v = anderson.next(v, np.concatenate([new.ravel(), unit * new_dual]) - v)
    return certified_solution(best, least, settings.tolerance, step + 1, history)
