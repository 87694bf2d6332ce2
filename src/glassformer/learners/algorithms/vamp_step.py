r"""The algebra of vector message passing: linear labels of inputs that are known by their singular values.

With ``A`` the matrix of the fields, :math:`A A^T = U\lambda U^T`, an estimate ``r`` whose errors have the variance
``v`` and know nothing of ``A`` becomes

.. math::
   z &= y - A r, \qquad f = \frac1D\sum_k\frac{v\lambda_k}{v\lambda_k + \Delta}, \qquad
   c = \frac1n\,z^T(v A A^T + \Delta)^{-1}z,\\
   R &= r + \frac vf\,A^T(vAA^T + \Delta)^{-1}z, \qquad \tau^2 = c\,v\,\frac{1-f}f,\\
   \hat S, V &= \mathrm{denoise}(R, \tau^2), \qquad
   r = \frac{\hat S - \eta R}{1 - \eta}, \qquad v = \frac{V}{1-\eta}, \qquad \eta = \frac{V}{\tau^2},

:math:`\eta` the divergence of the denoiser: ``R`` is the signal seen through white noise of variance :math:`\tau^2`,
whatever the singular values of the inputs are, as long as their singular vectors know nothing of the signal. ``c`` is 1
where the residuals are as claimed; where they are not, they are believed. For independent inputs this is the algorithm
of :mod:`~glassformer.learners.algorithms.gamp_step`, to leading order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
from scipy.optimize import brentq

from glassformer.core.estimate import Array
from glassformer.learners.algorithms.gamp_state import GampState, Sight
from glassformer.learners.algorithms.gamp_step import GampStep
from glassformer.numerics.decompositions import eigh
from glassformer.state_evolution.vector_state_evolution import SMALLEST_SHARE, SMALLEST_VARIANCE


@dataclass
class VampState(GampState):
    """One instance between two steps.

    Attributes:
        seen: the signal seen through white noise, shape (1, ...), that the estimate was made of.
    """

    seen: Array | None = None


@dataclass(frozen=True)
class VampStep(GampStep):
    """One instance of a design kept in one array, and its labels: see :class:`GampStep`.

    Equation :eq:`vector-message-passing` of the documentation.
    """

    design: Any

    def start(self, attempt: int) -> VampState:
        return VampState(**vars(super().start(attempt)))

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, bool]:
        """Eigenvalues and eigenvectors of the smaller Gram matrix, and whether it is that of the samples."""
        matrix = self.design.inputs[self.instance].reshape(self.design.samples, -1).astype(float, copy=False)
        wide = matrix.shape[0] <= matrix.shape[1]
        values, vectors = eigh((matrix @ matrix.T if wide else matrix.T @ matrix) / matrix.shape[1])
        return np.maximum(values, 0.0), vectors, wide

    def sight(self, state: GampState) -> Sight:
        """The noise of labels is that which makes their residuals as large as they are."""
        state = cast(VampState, state)
        cleaned, variance = self._cleaned(state)
        residual = self.labels - self.design.forward(cleaned[0], self.instance)
        # A run whose start was its best iterate has not seen the signal yet.
        seen, precision = state.seen, float(state.assumed[0, 0])
        if seen is None:
            seen, precision, _ = self._observed(cleaned, variance, residual)
        least, most = SMALLEST_VARIANCE, 1.0
        while self._pulled(residual, variance, most)[2] > 1:
            most *= 4
        rest = least
        if self._pulled(residual, variance, least)[2] > 1:
            rest = float(brentq(lambda noise: self._pulled(residual, variance, noise)[2] - 1, least, most, rtol=1e-3))
        return Sight(seen[0], 1 / precision if precision > 0 else np.inf, self.labels - residual, rest)

    def _observed(self, cleaned: Array, variance: float, residual: Array) -> tuple[Array, float, float]:
        """The signal seen through white noise, the precision of that noise, and ``c``."""
        pull, free, ratio = self._pulled(residual, variance)
        precision = free / max(ratio * variance * (1 - free), SMALLEST_VARIANCE)
        with np.errstate(divide="ignore", invalid="ignore"):
            return cleaned + np.divide(pull, free), precision, ratio

    def _pulled(self, residual: Array, variance: float, noise: float | None = None) -> tuple[Array, float, float]:
        r""":math:`vA^T(vAA^T + \Delta)^{-1}z`, ``f`` and ``c``, at the model's noise or another."""
        values, vectors, wide = self._spectrum
        own = float(self.model.channel.label_noise) if noise is None else noise
        noise = max(own, SMALLEST_VARIANCE * float(values.mean()))
        weighted, size = variance * values + noise, float(np.prod(self.design.signal_shape))
        free = float(np.sum(variance * values / weighted)) / size
        if wide:
            turned = vectors.T @ residual
            pull = variance * self.design.adjoint(vectors @ (turned / weighted), self.instance)
            return pull, free, float(np.sum(turned**2 / weighted)) / len(residual)
        turned = vectors.T @ self.design.adjoint(residual, self.instance).ravel()
        pull = variance * (vectors @ (turned / weighted)).reshape(self.design.signal_shape)
        outside = float(residual @ residual) - variance * float(np.sum(turned**2 / weighted))
        return pull, free, max(outside, 0.0) / noise / len(residual)

    @staticmethod
    def _cleaned(state: VampState) -> tuple[Array, float]:
        """The estimate without what it was made of, and the variance of its errors."""
        old = state.estimate
        share = 0.0 if state.first else min(float(old.onsager[0, 0] * state.precision[0, 0]), 1 - SMALLEST_SHARE)
        cleaned = old.signal if state.seen is None else (old.signal - share * state.seen) / (1 - share)
        return cleaned, max(float(old.variance[0, 0]) / (1 - share), SMALLEST_VARIANCE)

    def advance(self, state: GampState) -> tuple[VampState, float]:
        """The next state, and the precision found on the way: the quality of the estimate it began with."""
        state = cast(VampState, state)
        old, weight = state.estimate, 0.0 if state.first else state.damping
        cleaned, variance = self._cleaned(state)
        residual = self.labels - self.design.forward(cleaned[0], self.instance)
        seen, found, ratio = self._observed(cleaned, variance, residual)
        precision = np.array([[found]])
        if not np.isfinite(seen).all():
            return replace(state, size=np.nan), 0.0
        assumed = precision
        if weight > 0 and state.seen is not None:
            seen = weight * state.seen + (1 - weight) * seen
            assumed = state.assumed**weight * precision ** (1 - weight)
        new = self._denoised(assumed[0, 0] * seen, assumed, old.memory)
        following = VampState(
            estimate=new,
            score=state.score,
            onsager=new.onsager,
            precision=assumed,
            assumed=assumed,
            ratio=ratio,
            size=self._norm(new.signal - old.signal),
            damping=state.damping,
            first=False,
            seen=seen,
        )
        return following, float(precision[0, 0])
