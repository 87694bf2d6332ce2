"""State evolution of vector approximate message passing (VAMP) on inputs with given singular values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.bayes_optimal.trajectory import iterate_states, require_steps, trajectory_table
from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.results import Steps
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model, require_theory
from glassformer.numerics.fixed_points.accelerated import Accelerated
from glassformer.numerics.fixed_points.solve import Index, solve
from glassformer.priors.base import ScalarPrior

# Divisors are at least: for variances of noise (in units of the mean eigenvalue) and of errors, the first number; for
# the share of the variance that a denoiser leaves, the second (conventions, far below every error).
SMALLEST_VARIANCE, SMALLEST_SHARE = 1e-12, 1e-9


def vector_state_evolution(
    model: Model, eigenvalues: ArrayLike, entries: int, settings: Iteration | None = None
) -> Solution:
    r"""Return the error of vector message passing on linear labels, for inputs of given singular values.

    Equation :eq:`vector-state-evolution` of the documentation. The result is exact in the limit of large sizes if the
    singular vectors of the matrix of the fields are Haar distributed, as for Gaussian or row-orthogonal inputs. It is
    not exact if the singular vectors distinguish tokens from features, as for correlated tokens.

    Args:
        model: model with the Gaussian channel and a signal of one matrix.
        eigenvalues: eigenvalues of :math:`A A^T`, with the matrix ``A`` of the fields :math:`h = A\,\mathrm{vec}(S)`;
            zeros may be omitted. For bilinear models ``A`` is ``X.reshape(n, -1)/sqrt(L d)``.
        entries: number of entries of the signal, ``L d``.
        settings: tolerance and iteration limit.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1,), the error
        :math:`E\|\hat S-S\|^2/(dL)`.

    Raises:
        IncompatibleError: labels are not linear, or the signal is not one matrix of extensive width.
        DataError: eigenvalues are negative, not finite, or more than the entries.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> inputs = np.random.default_rng(0).standard_normal((450, 900)) / 30  # Gaussian inputs
        >>> found = vector_state_evolution(model, np.linalg.eigvalsh(inputs @ inputs.T), 900)
        >>> bool(abs(found.value[0] - limits(model, [0.5])["error"][0]) < 0.01)
        True
        >>> vector_state_evolution(model, np.ones(450), 900).value.round(4)  # orthogonal inputs
        array([0.294])
    """
    require_arguments(vector_state_evolution, locals())
    require_integer("entries", entries)
    prior = _linear_matrix(model)
    if not prior.extensive:
        raise IncompatibleError(
            "vector message passing on given inputs is for signals of extensive width, whose labels count per entry: "
            "give rho > 0, or use limits"
        )
    eigenvalues = np.asarray(eigenvalues, dtype=float).ravel()
    valid = 0 < eigenvalues.size <= entries and np.all(np.isfinite(eigenvalues)) and np.all(eigenvalues >= 0)
    if not valid:
        raise DataError("eigenvalues", eigenvalues.shape, f"1 to {entries} finite numbers >= 0")
    noise = max(float(model.channel.labels.noise), SMALLEST_VARIANCE * float(eigenvalues.mean()))

    def denoised(variance: Array) -> tuple[Array, Estimate]:
        weighted = variance[:, None] * eigenvalues
        free = np.sum(weighted / (weighted + noise), axis=1) / entries
        effective = np.maximum(variance * (1 - free) / free, SMALLEST_VARIANCE)
        return effective, prior.mmse(1 / effective)

    def step(variance: Array, index: Index) -> Estimate:
        del index
        effective, error = denoised(variance)
        left = np.maximum(1 - error.value / effective, SMALLEST_SHARE)
        return Estimate(np.maximum(error.value / left, SMALLEST_VARIANCE), error.error / left**2)

    solution = solve(step, np.ones(1), Accelerated(), settings)
    effective, error = denoised(solution.value)
    # The relative error of the variance is that of the effective noise, and bounds that of the denoising error.
    relative = np.asarray(solution.error_estimate) / solution.value
    return Solution(
        error.value,
        solution.status,
        solution.residual,
        solution.iterations,
        error.error + relative * error.value,
        solution.history,
        {"effective_noise": effective},
    )


def vector_trajectory(model: Model, alpha: ArrayLike, steps: int = 50) -> Steps:
    r"""Return the error after every step of undamped vector message passing on independent inputs, at large sizes.

    Equation :eq:`vector-state-evolution` of the documentation is iterated without damping. For independent inputs,
    whose eigenvalues have the Marchenko-Pastur law,

    .. math:: \hat q = \frac1{\tau^2} = \frac\alpha{\Delta + v (1 - f)}, \qquad \frac1{v (1 - f)} = \frac1v + \hat q.

    In every step the linear estimation is solved to its own fixed point. The trajectory ends at the same error as
    :func:`~glassformer.bayes_optimal.trajectory.gamp_trajectory`, after fewer steps.

    Args:
        model: model with the Gaussian channel and a signal of one matrix.
        alpha: sample ratios, shape (points,), in the model's unit.
        steps: number of steps, at least 1.

    Returns:
        The table of :func:`~glassformer.bayes_optimal.trajectory.gamp_trajectory`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: labels are not linear, the signal is not one matrix, or its denoiser is itself iterative.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = vector_trajectory(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5, steps=3)
        >>> table["error"].round(4).tolist()
        [1.0, 0.5185, 0.4837, 0.4778]
    """
    alpha, prior = validated_alpha(alpha), _linear_matrix(model)
    require_steps(model, alpha, steps)
    noise = max(float(model.channel.labels.noise), SMALLEST_VARIANCE)
    # Labels per entry; a sample of attention has one for every pair of tokens.
    ratio = alpha[:, None, None] / prior.degrees * model.channel.fields.columns
    # At negligible width there are too few labels per entry for the linear estimation to reduce the variance.
    share = float(prior.extensive)

    def advance(variance: Array, q_hat: Array) -> tuple[Array, Estimate]:
        # The positive root of q_hat = ratio / (noise + 1 / (extrinsic + share q_hat)).
        extrinsic = np.maximum(1 - share * variance * q_hat, SMALLEST_SHARE) / variance
        linear = extrinsic * noise + 1 - share * ratio
        root = np.sqrt(linear**2 + 4 * share * noise * ratio * extrinsic)
        # Both forms are equal; the one without cancellation is used.
        precision = np.where(linear > 0, 2 * ratio * extrinsic / (linear + root), (root - linear) / (2 * noise))
        error = prior.mmse(precision.ravel())
        value = np.maximum(error.value, SMALLEST_VARIANCE).reshape(precision.shape)
        return precision, Estimate(value, error.error.reshape(precision.shape))

    return trajectory_table(model, alpha, iterate_states(advance, np.eye(1), len(alpha), steps))


def _linear_matrix(model: Model) -> ScalarPrior:
    """Return the prior of a model with linear labels of one matrix, or raise an error."""
    require_theory(model)
    prior = model.matrix_prior
    if not model.channel.labels.linear or prior.symmetric:
        raise IncompatibleError("vector message passing needs linear labels of one matrix: use bsr, channel gaussian")
    return prior
