r"""Message passing whose limit is the minimiser of a regularised risk: proximal maps in the place of posterior means.

.. math::
   \omega &= \mathrm{forward}(\hat S) - V g_{old}, \qquad g = (\mathrm{prox}_{V\ell(y,\cdot)}(\omega) - \omega)/V,\\
   \hat V &= \tfrac{\alpha}{\mathrm{degrees}}\langle-\partial_\omega g\rangle, \qquad
   Y = \hat S + \mathrm{adjoint}(g)/\hat V,\\
   \hat S &= \mathrm{prox}_{p/\hat V}(Y), \qquad V = \mathrm{div}/\hat V,

``div`` the divergence of the last map at this very matrix. A fixed point is a minimiser of the risk, whatever the
inputs: there :math:`\mathrm{forward}(\hat S)` is the minimiser of the loss with slope :math:`-g`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.learners.algorithms.message_passing import Trail
from glassformer.learners.algorithms.risk import Risk
from glassformer.numerics.decompositions import eigh, svd
from glassformer.priors.spectral import rectangular_divergence, symmetric_divergence

# A susceptibility of less is none: that of an estimate of zero.
_NONE = 1e-14


@dataclass(frozen=True)
class ProximalState:
    """One instance between two steps.

    Attributes:
        estimate: of the signal.
        susceptibility: ``V``.
        score: ``g``, of the shape of the fields.
        size: root-mean-square change of the estimate's entries in the last step, or change of ``V`` if that is more.
        first: before any step.
    """

    estimate: Array
    susceptibility: float
    score: Array
    size: float = np.inf
    first: bool = True

    claimed = 1.0
    damping = 0.0


@dataclass(frozen=True)
class ProximalStep:
    """Undamped steps on the first instance of a design, from an estimate of zero.

    Attributes:
        risk: whose minimiser is the fixed point.
        begin: susceptibility before the first step.
        tolerance: size of a step that counts as settled.
    """

    risk: Risk
    begin: float
    tolerance: float

    attempts = 1

    def start(self, attempt: int) -> ProximalState:
        del attempt
        design = self.risk.design
        return ProximalState(np.zeros(design.signal_shape), self.begin, np.zeros(design.field_shape))

    def advance(self, state: ProximalState) -> tuple[ProximalState, float]:
        """The next state; one is as good as another, so that the last is kept."""
        design, variance = self.risk.design, state.susceptibility
        omega = design.forward(state.estimate, 0) - variance * state.score
        score, bends = self.risk.loss.score(self.risk.labels, omega, variance)
        stiffness = design.sample_ratio * float(np.sum(bends)) / design.samples
        if not (stiffness > 0 and np.isfinite(score).all()):
            return replace(state, size=np.nan), 0.0
        seen = state.estimate + design.adjoint(score, 0) / stiffness
        estimate, divergence = self._denoised(seen, 1 / stiffness)
        following = max(divergence / stiffness, _NONE)
        moved = float(np.sqrt(np.mean((estimate - state.estimate) ** 2)))
        size = max(moved, abs(following - variance))
        return ProximalState(estimate, following, score, size, first=False), 1.0

    def _denoised(self, matrix: Array, step: float) -> tuple[Array, float]:
        """The penalty's proximal map, and its divergence per entry."""
        risk, bent = self.risk, 1 / (1 + step * self.risk.square)
        if risk.positive:
            values, vectors = eigh(matrix)
            kept = risk.left_of(values, step)
            # A known trace takes one degree of freedom from the eigenvalues that are left.
            free = bent if risk.trace is None else 1 - 1 / max(int(np.sum(kept > 0)), 1)
            return (vectors * kept) @ vectors.T, symmetric_divergence(values, kept, np.where(kept > 0, free, 0.0))
        if risk.spectral == 0:
            return bent * matrix, bent
        left, values, right = svd(matrix)
        kept, excess = risk.left_of(values, step), abs(matrix.shape[0] - matrix.shape[1])
        return (left * kept) @ right, rectangular_divergence(values, kept, np.where(kept > 0, bent, 0.0), excess)

    def growing(self, old: ProximalState, new: ProximalState) -> bool:
        del old, new
        return False

    def settled(self, state: ProximalState, trail: Trail) -> bool:
        del trail
        return state.size <= self.tolerance

    def wandering(self, state: ProximalState) -> bool:
        del state
        return False

    def evidence(self, state: ProximalState) -> float:
        """None of the starts is better than another: there is one."""
        del state
        return 0.0

    def diagnosis(self, state: ProximalState) -> Status:
        del state
        return Status.CONVERGED
