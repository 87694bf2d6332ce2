"""What vector message passing reaches on inputs that are known by their singular values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import DataError, IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.results import Steps
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model, require_theory
from glassformer.priors.base import ScalarPrior
from glassformer.state_evolution.fixed_point import Index, fixed_point
from glassformer.state_evolution.solve import validated_alpha
from glassformer.state_evolution.trajectory import followed, require_steps, table_of


@dataclass(frozen=True)
class Floors:
    """What nothing is smaller than in vector message passing and its theory, so that it can be divided by."""

    least: float = 1e-12  # variance: of noise in units of the mean eigenvalue, and of errors
    open: float = 1e-9  # share that a denoiser leaves open


FLOORS = Floors()


def vector_state_evolution(
    model: Model, eigenvalues: ArrayLike, entries: int, settings: Iteration | None = None
) -> Solution:
    r"""Error of linear labels' message passing where inputs have these singular values and no other structure.

    Equation :eq:`vector-state-evolution` of the documentation. Asymptotically exact where the singular vectors of the
    matrix of the fields are independent of the signal and of each other (Haar), as those of Gaussian or of
    row-orthogonal inputs; not where they keep tokens and features apart, as those of correlated tokens do.

    Args:
        model: with the Gaussian channel and a signal of one matrix.
        eigenvalues: of :math:`A A^T`, ``A`` the matrix of the fields :math:`h = A\,\mathrm{vec}(S)`; zeros may be left
            out. Of bilinear models ``A`` is ``X.reshape(n, -1)/sqrt(L d)``.
        entries: of the signal, ``L d``.
        settings: of the iteration.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1,), the error
        :math:`E\|\hat S-S\|^2/(dL)`.

    Raises:
        IncompatibleError: labels are not linear, or the signal is not one matrix.
        DataError: eigenvalues are negative, not finite, or more than the entries.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression, limits
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> inputs = np.random.default_rng(0).standard_normal((450, 900)) / 30  # independent ones: the limit
        >>> found = vector_state_evolution(model, np.linalg.eigvalsh(inputs @ inputs.T), 900)
        >>> bool(abs(found.value[0] - limits(model, [0.5])["error"][0]) < 0.01)
        True
        >>> vector_state_evolution(model, np.ones(450), 900).value.round(4)  # orthogonal inputs tell more
        array([0.294])
    """
    require_arguments(vector_state_evolution, locals())
    require_integer("entries", entries)
    prior = _linear_matrix(model)
    known = np.asarray(eigenvalues, dtype=float).ravel()
    if not known.size or known.size > entries or not np.all(np.isfinite(known)) or np.any(known < 0):
        raise DataError("eigenvalues", known.shape, f"1 to {entries} finite numbers >= 0")
    noise = max(float(model.channel.label_noise), FLOORS.least * float(known.mean()))

    def denoised(variance: Array) -> tuple[Array, Estimate]:
        weighted = variance[:, None] * known
        free = np.sum(weighted / (weighted + noise), axis=1) / entries
        effective = np.maximum(variance * (1 - free) / free, FLOORS.least)
        return effective, prior.mmse(1 / effective)

    def step(variance: Array, index: Index) -> Estimate:
        del index
        effective, error = denoised(variance)
        left = np.maximum(1 - error.value / effective, FLOORS.open)
        return Estimate(np.maximum(error.value / left, FLOORS.least), error.error / left**2)

    found = fixed_point(step, np.ones(1), settings or Iteration())
    effective, error = denoised(found.value)
    # An error of the variance is one of the effective noise, in proportion, and of what is left of it at most.
    share = np.asarray(found.error_estimate) / found.value
    return Solution(
        error.value,
        found.status,
        found.residual,
        found.iterations,
        error.error + share * error.value,
        found.history,
        {"effective_noise": effective},
    )


def vector_trajectory(model: Model, alpha: ArrayLike, steps: int = 50) -> Steps:
    r"""Error after every step of undamped vector message passing on independent inputs, in the limit of large sizes.

    Equation :eq:`vector-state-evolution` of the documentation, iterated as it stands. For the law of Marchenko and
    Pastur, that of independent inputs,

    .. math:: \hat q = \frac1{\tau^2} = \frac\alpha{\Delta + v (1 - f)}, \qquad \frac1{v (1 - f)} = \frac1v + \hat q:

    the linear estimate is made at its own fixed point in one step. The end is that of
    :func:`~glassformer.state_evolution.trajectory.trajectory`, reached in fewer steps.

    Args:
        model: with the Gaussian channel and a signal of one matrix.
        alpha: sample ratios, shape (points,), in the model's unit.
        steps: how many, at least 1.

    Returns:
        The table of :func:`~glassformer.state_evolution.trajectory.trajectory`.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: labels are not linear, the signal is not one matrix, or its denoiser takes steps of its own.

    Source: Rangan, Schniter, Fletcher, IEEE Trans. Inf. Theory 65, 6664 (2019), with the denoiser of a matrix.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = vector_trajectory(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5, steps=3)
        >>> table["error"].round(4).tolist()
        [1.0, 0.5185, 0.4837, 0.4778]
    """
    alpha, prior = validated_alpha(alpha), _linear_matrix(model)
    require_steps(model, alpha, steps)
    noise, ratio = max(float(model.channel.label_noise), FLOORS.least), alpha[:, None, None] / prior.degrees
    # Where the width is negligible there are too few labels per entry for one to be known from others.
    share = float(prior.extensive)

    def advance(variance: Array, q_hat: Array) -> tuple[Array, Estimate]:
        # Of q_hat = ratio / (noise + 1 / (cleaned + share q_hat)), the root that is positive.
        cleaned = np.maximum(1 - share * variance * q_hat, FLOORS.open) / variance
        known = cleaned * noise + 1 - share * ratio
        root = np.sqrt(known**2 + 4 * share * noise * ratio * cleaned)
        # The sum that loses no digits.
        found = np.where(known > 0, 2 * ratio * cleaned / (known + root), (root - known) / (2 * noise))
        error = prior.mmse(found.ravel())
        value = np.maximum(error.value, FLOORS.least).reshape(found.shape)
        return found, Estimate(value, error.error.reshape(found.shape))

    return table_of(model, alpha, followed(advance, np.eye(1), len(alpha), steps))


def _linear_matrix(model: Model) -> ScalarPrior:
    """The prior of a model that vector message passing is for."""
    require_theory(model)
    prior = model.matrix_prior
    if not model.channel.linear or prior.symmetric:
        raise IncompatibleError("vector message passing is for linear labels of one matrix: use bsr, channel gaussian")
    return prior
