r"""Vector approximate message passing (VAMP) for linear labels of inputs with any singular values.

With the matrix ``A`` of the fields, :math:`A A^T = U\lambda U^T`, an estimate ``r`` with errors of variance ``v`` that
are independent of ``A`` becomes

.. math::
   z &= y - A r, \qquad f = \frac1D\sum_k\frac{v\lambda_k}{v\lambda_k + \Delta}, \qquad
   c = \frac1n\,z^T(v A A^T + \Delta)^{-1}z,\\
   R &= r + \frac vf\,A^T(vAA^T + \Delta)^{-1}z, \qquad \tau^2 = c\,v\,\frac{1-f}f,\\
   \hat S, V &= \mathrm{denoise}(R, \tau^2), \qquad
   r = \frac{\hat S - \eta R}{1 - \eta}, \qquad v = \frac{V}{1-\eta}, \qquad \eta = \frac{V}{\tau^2},

with the divergence :math:`\eta` of the denoiser. ``R`` is the signal in white noise of variance :math:`\tau^2` for any
singular values of the inputs, if their singular vectors are independent of the signal. ``c`` is the measured over the
predicted variance of the residuals, which is 1 on average. For independent inputs this is the algorithm of
:mod:`~glassformer.learners.gamp_step` to leading order.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

from glassformer.bayes_optimal.vector_state_evolution import SMALLEST_SHARE, SMALLEST_VARIANCE
from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments
from glassformer.core.settings import damping_setting
from glassformer.learners.base import FitResult, LearnerInfo, Theory
from glassformer.learners.data_assumptions import violations, warn_of_violations
from glassformer.learners.data_validation import validate_data
from glassformer.learners.gamp import MatrixMessagePassing, MatrixStateEvolution, blame_inputs, fit_gamp, run_gamp
from glassformer.learners.gamp_state import GampState, PseudoData
from glassformer.learners.gamp_step import GampStep
from glassformer.learners.registry import require_compatible
from glassformer.models.base import Model
from glassformer.numerics.decompositions import eigh

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.designs.dense import DenseDesign
    from glassformer.learners.data_set import DataSet


@dataclass(frozen=True)
class VectorStateEvolution(MatrixStateEvolution):
    """Limits of message passing on independent inputs, and the trajectory of vector message passing."""

    def _trajectory(self, alpha: Array, steps: int) -> Table:
        from glassformer.bayes_optimal.vector_state_evolution import vector_trajectory

        return vector_trajectory(self.model, alpha, steps)


@dataclass(frozen=True)
class VectorMessagePassing(MatrixMessagePassing):
    """Message passing on linear labels that takes the singular values of the inputs into account.

    For independent inputs, whose singular values follow the Marchenko-Pastur law, the limits are those of
    :class:`~glassformer.MessagePassing`. For other inputs whose singular vectors are independent of the signal,
    :func:`~glassformer.bayes_optimal.vector_state_evolution.vector_state_evolution` gives the error. The smaller Gram
    matrix of the inputs is decomposed once, in memory of order ``min(n, L d)**2`` and time of order ``min(n, L d)**3``.

    Args:
        damping: see :class:`~glassformer.MessagePassing`.

    Raises:
        ParameterError: an argument is out of range.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression, simulate
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> ask = {"alpha": [0.5], "d": 24, "instances": 1}
        >>> vector, plain = (simulate(model, learner=name, **ask) for name in ("vamp", "gamp"))
        >>> vector.converged, bool(abs(vector["error"][0] - plain["error"][0]) < 0.02)
        (True, True)
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="vamp",
        title="vector message passing",
        family="Bayes-optimal",
        limit_settings=(),
        limit_accuracy=("tolerance", "max_iterations"),
    )

    damping: float | None = damping_setting()

    def theory(self, model: Model) -> Theory:
        return VectorStateEvolution(self, model)

    def learn(self, model: Model, data: DataSet) -> FitResult:
        return fit_gamp(model, data, self.gamp_settings, step=VampStep)


def vamp(
    model: Model,
    design: DenseDesign | ArrayLike,
    labels: ArrayLike,
    learner: VectorMessagePassing | None = None,
    seed: int = 0,
    *,
    accuracy: Accuracy | None = None,
) -> Solution:
    r"""Return the estimate of the signal from linear labels of inputs with any singular values.

    Equation :eq:`vector-message-passing` of the documentation.

    Args:
        model: bilinear sequence regression with the Gaussian channel, of any width or spectrum.
        design: inputs, an array of shape (samples, L, d) or (instances, samples, L, d), or a design of one array.
        labels: shape (samples,) or (instances, samples).
        learner: damping.
        seed: seed, as for :func:`~glassformer.learners.gamp.gamp`.
        accuracy: tolerance and iteration limit.

    Returns:
        :class:`~glassformer.core.solution.Solution`, as that of :func:`~glassformer.learners.gamp.gamp`.

    Warns:
        DataWarning: singular vectors of the inputs are not random: inputs have a mean, scales, correlations or tails.

    Raises:
        DataError: inputs or labels are not finite numbers, or do not match each other or the model.
        IncompatibleError: labels are not linear, or the signal is not one matrix without symmetry.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)
        >>> turned = np.linalg.qr(rng.standard_normal((400, 200)))[0].T  # 200 orthogonal inputs of 20 x 20 numbers
        >>> inputs, signal = 20 * turned.reshape(200, 20, 20), model.prior.sample((20, 20), rng)
        >>> labels = np.einsum("nld,ld->n", inputs, signal) / 20 + 0.1 * rng.standard_normal(200)
        >>> found = vamp(model, inputs, labels)
        >>> str(found.status[0]), bool(np.mean((found.value[0] - signal) ** 2) < 0.25)
        ('converged', True)
    """
    require_arguments(vamp, locals(), but=("design", "labels"))
    learner = (learner or VectorMessagePassing()).at_accuracy(accuracy)
    require_compatible(learner, model)
    own, y = validate_data(model, design, labels)
    violated = [violations(next(own.parts(k))) for k in range(own.instances)]
    warn_of_violations(next(filter(None, violated), ()))
    settings = learner.gamp_settings
    return blame_inputs(
        run_gamp([VampStep(model, own, y[k], k, settings, seed) for k in range(own.instances)]), violated
    )


@dataclass
class VampState(GampState):
    """One instance between two steps.

    Attributes:
        pseudo_data: ``R``, the signal in white noise, shape (1, ...); None before the first step.
    """

    pseudo_data: Array | None = None


@dataclass(frozen=True)
class VampStep(GampStep):
    """One step of VAMP on one instance of a design stored in one array; see :class:`GampStep` for the arguments.

    Equation :eq:`vector-message-passing` of the documentation.
    """

    design: Any

    def start(self, attempt: int) -> VampState:
        return VampState(**vars(super().start(attempt)))

    def advance(self, state: GampState) -> tuple[VampState, float]:
        """Return the next state, and the measured precision as the quality of the estimate in the old state."""
        state = cast(VampState, state)
        old, weight = state.estimate, 0.0 if state.first else state.damping
        extrinsic, variance = self._extrinsic(state)
        residual = self.labels - self.design.forward(extrinsic[0], self.instance)
        pseudo_data, inverse_noise, ratio = self._pseudo_data(extrinsic, variance, residual)
        precision = np.array([[inverse_noise]])
        if not np.isfinite(pseudo_data).all():
            return replace(state, step_size=np.nan), 0.0
        assumed = precision
        if weight > 0 and state.pseudo_data is not None:
            pseudo_data = weight * state.pseudo_data + (1 - weight) * pseudo_data
            assumed = state.assumed_precision**weight * precision ** (1 - weight)
        new = self._denoised(assumed[0, 0] * pseudo_data, assumed, old.memory)
        following = VampState(
            estimate=new,
            score=state.score,
            onsager=new.onsager,
            precision=assumed,
            assumed_precision=assumed,
            nishimori_ratio=ratio,
            step_size=self._norm(new.signal - old.signal),
            damping=state.damping,
            first=False,
            pseudo_data=pseudo_data,
        )
        return following, float(precision[0, 0])

    @staticmethod
    def _extrinsic(state: VampState) -> tuple[Array, float]:
        """Return ``r`` and ``v``: the estimate without the contribution of its pseudo-data, and its error variance."""
        old = state.estimate
        eta = 0.0 if state.first else min(float(old.onsager[0, 0] * state.precision[0, 0]), 1 - SMALLEST_SHARE)
        signal = old.signal if state.pseudo_data is None else (old.signal - eta * state.pseudo_data) / (1 - eta)
        return signal, max(float(old.variance[0, 0]) / (1 - eta), SMALLEST_VARIANCE)

    def _pseudo_data(self, extrinsic: Array, variance: float, residual: Array) -> tuple[Array, float, float]:
        """Return ``R``, the inverse noise variance of ``R``, and ``c``."""
        correction, free, ratio = self._correction(residual, variance, float(self.model.channel.labels.noise))
        precision = free / max(ratio * variance * (1 - free), SMALLEST_VARIANCE)
        with np.errstate(divide="ignore", invalid="ignore"):
            return extrinsic + np.divide(correction, free), precision, ratio

    def _correction(self, residual: Array, variance: float, label_noise: float) -> tuple[Array, float, float]:
        r"""Return :math:`vA^T(vAA^T + \Delta)^{-1}z`, ``f`` and ``c``."""
        values, vectors, wide = self._spectrum
        noise = max(label_noise, SMALLEST_VARIANCE * float(values.mean()))
        weighted, size = variance * values + noise, float(np.prod(self.design.signal_shape))
        free = float(np.sum(variance * values / weighted)) / size
        if wide:
            rotated = vectors.T @ residual
            correction = variance * self.design.adjoint(vectors @ (rotated / weighted), self.instance)
            return correction, free, float(np.sum(rotated**2 / weighted)) / len(residual)
        rotated = vectors.T @ self.design.adjoint(residual, self.instance).ravel()
        correction = variance * (vectors @ (rotated / weighted)).reshape(self.design.signal_shape)
        rest = float(residual @ residual) - variance * float(np.sum(rotated**2 / weighted))
        return correction, free, max(rest, 0.0) / noise / len(residual)

    @cached_property
    def _spectrum(self) -> tuple[Array, Array, bool]:
        """Eigenvalues and eigenvectors of the smaller Gram matrix, and whether it is that of the samples."""
        matrix = self.design.inputs[self.instance].reshape(self.design.samples, -1).astype(float, copy=False)
        wide = matrix.shape[0] <= matrix.shape[1]
        values, vectors = eigh((matrix @ matrix.T if wide else matrix.T @ matrix) / matrix.shape[1])
        return np.maximum(values, 0.0), vectors, wide

    def pseudo_data(self, state: GampState) -> PseudoData:
        """Return the next input of the denoiser; the label noise is determined by the condition ``c = 1``."""
        from scipy.optimize import brentq

        state = cast(VampState, state)
        extrinsic, variance = self._extrinsic(state)
        residual = self.labels - self.design.forward(extrinsic[0], self.instance)
        # A run whose best iterate is its start has no pseudo-data.
        matrix, precision = state.pseudo_data, float(state.assumed_precision[0, 0])
        if matrix is None:
            matrix, precision, _ = self._pseudo_data(extrinsic, variance, residual)

        def excess(noise: float) -> float:
            return self._correction(residual, variance, noise)[2] - 1

        label_noise, largest = SMALLEST_VARIANCE, 1.0
        while excess(largest) > 0:
            largest *= 4
        if excess(label_noise) > 0:
            label_noise = float(brentq(excess, label_noise, largest, rtol=1e-3))
        noise = 1 / precision if precision > 0 else np.inf
        return PseudoData(matrix[0], noise, self.labels - residual, label_noise)
