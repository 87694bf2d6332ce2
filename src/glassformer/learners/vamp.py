"""Message passing for inputs that are known by their singular values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from glassformer.core.checks import require_arguments
from glassformer.core.settings import damping_setting, max_iterations_setting
from glassformer.learners.base import FitResult
from glassformer.learners.matrix_passing import MatrixPassing, settles_within
from glassformer.models.base import Model

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.core.solution import Solution
    from glassformer.designs.dense import DenseDesign
    from glassformer.learners.data_set import DataSet


@dataclass(frozen=True)
class VectorMessagePassing(MatrixPassing):
    """Message passing on linear labels that uses the singular values of the inputs as they are.

    Independent inputs have the law of Marchenko and Pastur, for which it reaches what
    :class:`~glassformer.MessagePassing` does; so its limits are the same. Of other inputs whose singular vectors know
    nothing of the signal, :func:`~glassformer.state_evolution.vector_state_evolution.vector_state_evolution` says what
    it reaches. It decomposes the smaller Gram matrix of the inputs once: memory and time of ``min(n, L d)`` squared and
    cubed.

    Args:
        tolerance, max_iterations, damping: see :class:`~glassformer.MessagePassing`.

    Raises:
        ParameterError: an argument is out of range.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression, simulate
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> ask = {"alpha": [0.5], "d": 24, "instances": 1}
        >>> vector, plain = (simulate(model, algorithm=name, **ask) for name in ("vamp", "gamp"))
        >>> vector.converged, bool(abs(vector["error"][0] - plain["error"][0]) < 0.02)
        (True, True)
    """

    title: ClassVar[str] = "vector message passing"

    tolerance: float = settles_within()
    max_iterations: int = max_iterations_setting(300)
    damping: float | None = damping_setting()

    def steps_of_theory(self, model: Any, alpha: Array, steps: int) -> Table:
        from glassformer.state_evolution.vector_state_evolution import vector_trajectory

        return vector_trajectory(model, alpha, steps)

    def learn(self, model: Any, data: DataSet) -> FitResult:
        from glassformer.learners.algorithms.vamp_step import VampStep
        from glassformer.learners.gamp import learned

        return learned(model, data, self.steps, step=VampStep)


def vamp(
    model: Model,
    design: DenseDesign | ArrayLike,
    labels: ArrayLike,
    settings: VectorMessagePassing | None = None,
    seed: int = 0,
) -> Solution:
    r"""Estimate the signal behind linear labels of inputs with any singular values.

    Equation :eq:`vector-message-passing` of the documentation.

    Args:
        model: bilinear sequence regression with the Gaussian channel, of any width or spectrum.
        design: inputs, an array of shape (samples, L, d) or (instances, samples, L, d), or a design of one array.
        labels: shape (samples,) or (instances, samples).
        settings: tolerance, iteration limit, damping.
        seed: as for :func:`~glassformer.learners.gamp.gamp`.

    Returns:
        :class:`~glassformer.core.solution.Solution` as that of :func:`~glassformer.learners.gamp.gamp`.

    Warns:
        DataWarning: singular vectors of the inputs have a structure of their own: a mean, scales, correlations, tails.

    Raises:
        DataError: inputs or labels are no numbers, do not match each other or the model, or are not finite.
        IncompatibleError: labels that are not linear, or another signal.

    Example:
        >>> import numpy as np
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
    from glassformer.learners.algorithms.vamp_step import VampStep
    from glassformer.learners.data_arrays import observed
    from glassformer.learners.data_findings import contradictions, warn_of
    from glassformer.learners.gamp import blaming_the_inputs, passed

    learner = settings or VectorMessagePassing()
    learner.require(model)
    own, y = observed(model, design, labels)
    against = contradictions(next(own.parts()))
    warn_of(against)
    found = passed(model, own, y, learner.steps, seed, step=VampStep)
    return blaming_the_inputs(found) if against else found
