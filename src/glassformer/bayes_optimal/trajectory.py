r"""State evolution as a trajectory: error and overlap after every step of message passing.

.. math::
   \hat Q_t = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T(V_t), \qquad V_{t+1} = \mathrm{covariance}(\hat Q_t)

from the state without data. In the limit of large sizes undamped message passing has the errors of this sequence after
each step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.evolution_map import EvolutionMap, side_information_overlap
from glassformer.bayes_optimal.limits import mean_error, row_columns
from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.core.checks import is_number, require_arguments, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, wide_error_bars
from glassformer.core.status import Status
from glassformer.models.base import Model
from glassformer.priors.signals import random_start

# Default initial overlap for even labels, a typical overlap of a random start.
_GUESS = 1e-3
# Memory of one step at one sample ratio, per entry of the covariance, in bytes.
_BYTES = 100

# One step, from covariances and conjugate overlaps to those of the next step, shape (batch, P, P).
Advance = Callable[[Array, Array], tuple[Array, Estimate]]


class StateHistory(NamedTuple):
    """Covariances and conjugate overlaps, shape (steps + 1, batch, P, P), and errors of the norms of covariances."""

    variance: Array
    q_hat: Array
    error: Array


def gamp_trajectory(model: Model, alpha: ArrayLike, steps: int = 50, overlap: float | None = None) -> Steps:
    r"""Return error and overlap after every step of undamped message passing, in the limit of large sizes.

    Equations :eq:`state-evolution` and :eq:`matrix-state-evolution` of the documentation are iterated without damping.

    Args:
        model: prior and channel.
        alpha: sample ratios, shape (points,), in the model's unit.
        steps: number of steps, at least 1.
        overlap: overlap of every row with the truth before the first step, in [0, 1): one minus the error, so that a
            known mean is not counted, unlike in the column. By default it is that of side information, and 0.001 for
            even labels. A random start of size ``r`` has an overlap of about :math:`r/\sqrt d`; the time to escape from
            it grows like :math:`\log d`.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0
        before the first step), ``error`` (:math:`V = 1 - q`; for several rows the mean over the rows), ``overlap``,
        ``q_hat`` (of the last step), for several rows ``row_error``, and ``error_estimate``: the integration errors of
        all steps so far, propagated by the slope of the map.

    At finite size the overlap of a row that is not learned yet fluctuates at about ``1/d``, while in theory it may
    become smaller. Runs therefore leave such a plateau a few steps earlier or later than theory.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the denoiser of the prior is itself iterative, as for factors of fixed width.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = gamp_trajectory(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5, steps=3)
        >>> table["iteration"].astype(int).tolist(), table["error"].round(4).tolist()
        ([0, 1, 2, 3], [1.0, 0.6482, 0.5465, 0.5072])
    """
    require_arguments(gamp_trajectory, locals())
    alpha = validated_alpha(alpha)
    if overlap is None:
        overlap = max(side_information_overlap(model), _GUESS * model.channel.labels.even)
    elif not (is_number(overlap) and 0 <= overlap < 1):
        raise ParameterError("overlap", overlap, "a number in [0, 1)")
    require_steps(model, alpha, steps)
    update, batch = EvolutionMap(model, alpha, model.channel), np.arange(len(alpha))

    def advance(variance: Array, q_hat: Array) -> tuple[Array, Estimate]:
        del q_hat
        conjugate = update.conjugate(variance, batch)
        return conjugate.value, update.covariance(conjugate, batch)

    start = (1 - overlap) * np.eye(model.prior.rows)
    return trajectory_table(model, alpha, iterate_states(advance, start, len(alpha), steps))


def require_steps(model: Model, alpha: Array, steps: int) -> None:
    """Raise unless ``steps`` is a positive integer, not too large, and the denoiser of the prior is not iterative.

    Raises:
        ParameterError: ``steps`` is out of range.
        IncompatibleError: the denoiser of the prior is itself iterative, as for factors of fixed width.
    """
    require_integer("steps", steps)
    prior = model.prior
    if prior.stepwise:
        raise IncompatibleError(
            "no trajectory is available at fixed width, where the denoiser of the factors is itself iterative: use "
            "simulate"
        )
    require_resources("steps", steps, _BYTES * len(alpha) * (steps + 1) * prior.rows**2, "use fewer steps")


def trajectory_table(model: Model, alpha: Array, history: StateHistory) -> Steps:
    """Return the table of :func:`trajectory`: all steps of one sample ratio, then those of the next."""
    prior, steps = model.prior, len(history.error) - 1
    size = len(alpha) * (steps + 1)
    variance, q_hat = (np.swapaxes(part, 0, 1).reshape(size, prior.rows, prior.rows) for part in history[:2])
    shape, ratios = (size, *model.overlap_shape), np.repeat(alpha, steps + 1)
    error, estimate = mean_error(variance), history.error.T.reshape(size)
    return Steps(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": ratios,
            "iteration": np.tile(np.arange(steps + 1.0), len(alpha)),
            "error": error,
            "overlap": (prior.self_overlap - variance).reshape(shape),
            **row_columns(model, variance),
            "q_hat": q_hat.reshape(shape),
            "error_estimate": estimate,
        },
        status=[Status.CONVERGED if ok else Status.NON_FINITE for ok in np.isfinite(error).tolist()],
        notes=[*model.remarks, *wide_error_bars(ratios, error, estimate, model.parameters)],
    )


def random_overlap(model: Model, d: int) -> float:
    """Return the typical overlap of the random start of message passing on even labels at token dimension ``d``.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> random_overlap(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 100)
        0.0001
    """
    return float(random_start(model.prior) / np.sqrt(d))


def iterate_states(advance: Advance, start: Array, batch: int, steps: int) -> StateHistory:
    """Return the states after each of ``steps`` steps from one covariance, shape (P, P), with propagated errors."""
    variance = [np.broadcast_to(start, (batch, *start.shape)).copy()]
    q_hat, error = [np.zeros_like(variance[0])], [np.zeros(batch)]
    slope, last_length = np.ones(batch), np.full(batch, np.nan)
    for step in track(range(steps), f"{steps} steps"):
        conjugate, mapped = advance(variance[-1], q_hat[-1])
        # The slope of the map along the trajectory is the ratio of the lengths of two successive steps.
        length = np.linalg.norm(mapped.value - variance[-1], axis=(1, 2))
        if step > 0:
            slope = np.divide(length, last_length, out=np.zeros(batch), where=last_length > 0)
        error.append(slope * error[-1] + np.linalg.norm(mapped.error, axis=(1, 2)))
        variance.append(mapped.value)
        q_hat.append(conjugate)
        last_length = length
    return StateHistory(np.array(variance), np.array(q_hat), np.array(error))
