r"""State evolution in time: what message passing knows after every one of its steps.

.. math::
   \hat Q_t = \frac{\alpha}{\mathrm{degrees}}\,E\sum_l g_l g_l^T(V_t), \qquad V_{t+1} = \mathrm{covariance}(\hat Q_t)

from what is known before any data. In the limit of large sizes message passing without damping has the errors of this
sequence, step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import is_number, require_arguments, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import track
from glassformer.core.resources import require_resources
from glassformer.core.results import Steps, wide_bars
from glassformer.core.solution import Status
from glassformer.models.base import Model
from glassformer.state_evolution.evolution_map import EvolutionMap, side_known
from glassformer.state_evolution.limits import mean_error, row_columns
from glassformer.state_evolution.solve import validated_alpha

# Overlap with which even labels begin by default: that of a random guess in a thousand dimensions.
_GUESS = 1e-3
# What one step at one sample ratio takes in memory, per entry of the covariance.
_BYTES = 100

# From covariances and the conjugate overlaps they were found with to the next of both, shape (batch, P, P).
Advance = Callable[[Array, Array], tuple[Array, Estimate]]


class Path(NamedTuple):
    """Covariances and conjugate overlaps, shape (steps + 1, batch, P, P), and errors of the former's norm."""

    variance: Array
    q_hat: Array
    error: Array


def trajectory(model: Model, alpha: ArrayLike, steps: int = 50, overlap: float | None = None) -> Steps:
    r"""Error and overlap after every step of undamped message passing, in the limit of large sizes.

    Equations :eq:`state-evolution` and :eq:`matrix-state-evolution` of the documentation, iterated as they stand.

    Args:
        model: prior and channel.
        alpha: sample ratios, shape (points,), in the model's unit.
        steps: how many, at least 1.
        overlap: of every row with its truth before the first step, in [0, 1); by default what side information tells
            and, for labels that are even, ``0.001``. A random start of size ``r`` has about
            :math:`r/\sqrt d`; the time that it takes to leave it grows like :math:`\log d`.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration`` (0
        before any step), ``error`` (:math:`V = 1 - q`; for several rows the mean over them), ``overlap``, ``q_hat``
        (that the step to here was taken with), for several rows ``row_error``, and ``error_estimate``: the integration
        error of every step, carried on by the slope of the map.

    At finite size a row that labels are still blind to is not known by less than chance, about ``1/d``, however far
    the overlap falls here on its way: runs leave such a plateau earlier or later than theory, by a few steps.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: the denoiser of the prior finds its own fixed point in steps.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> table = trajectory(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5, steps=3)
        >>> table["iteration"].astype(int).tolist(), table["error"].round(4).tolist()
        ([0, 1, 2, 3], [1.0, 0.6482, 0.5465, 0.5072])
    """
    require_arguments(trajectory, locals())
    alpha = validated_alpha(alpha)
    start = 1 - _begin(model, overlap)
    require_steps(model, alpha, steps)
    update, everyone = EvolutionMap(model, alpha, model.channel), np.arange(len(alpha))

    def advance(variance: Array, q_hat: Array) -> tuple[Array, Estimate]:
        del q_hat
        conjugate = update.conjugate(variance, everyone)
        return conjugate.value, update.covariance(conjugate, everyone)

    return table_of(model, alpha, followed(advance, start * np.eye(model.prior.rows), len(alpha), steps))


def require_steps(model: Model, alpha: Array, steps: int) -> None:
    """Refuse steps that are no number of them or too many, and a denoiser that takes steps of its own.

    Raises:
        ParameterError: ``steps`` is out of range.
        IncompatibleError: the denoiser of the prior finds its own fixed point in steps.
    """
    require_integer("steps", steps)
    prior = model.prior
    if prior.stepwise:
        raise IncompatibleError("the factors of a narrow matrix are found step by step: use simulate for their way")
    require_resources("steps", steps, _BYTES * len(alpha) * (steps + 1) * prior.rows**2, "follow fewer steps")


def table_of(model: Model, alpha: Array, path: Path) -> Steps:
    """The columns of :func:`trajectory`: rows run over the steps of one sample ratio after the other."""
    prior, steps = model.prior, len(path.error) - 1
    size = len(alpha) * (steps + 1)
    variance, q_hat = (np.swapaxes(part, 0, 1).reshape(size, prior.rows, prior.rows) for part in path[:2])
    shape = (size, *model.overlap_shape)
    finite = np.isfinite(mean_error(variance))
    return Steps(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": np.repeat(alpha, steps + 1),
            "iteration": np.tile(np.arange(steps + 1.0), len(alpha)),
            "error": mean_error(variance),
            "overlap": (prior.self_overlap - variance).reshape(shape),
            **row_columns(model, variance),
            "q_hat": q_hat.reshape(shape),
            "error_estimate": path.error.T.reshape(size),
        },
        status=[Status.CONVERGED if ok else Status.NON_FINITE for ok in finite.tolist()],
        notes=[
            *model.remarks,
            *wide_bars(np.repeat(alpha, steps + 1), mean_error(variance), path.error.T.reshape(size), model.parameters),
        ],
    )


def random_overlap(model: Model, d: int) -> float:
    """About what the random start of message passing on even labels knows at a size ``d``.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> random_overlap(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 100)
        0.0001
    """
    return float(model.prior.random_start / np.sqrt(d))


def _begin(model: Model, overlap: float | None) -> float:
    if overlap is None:
        return max(side_known(model), _GUESS * model.channel.even)
    if not (is_number(overlap) and 0 <= overlap < 1):
        raise ParameterError("overlap", overlap, "a number in [0, 1)")
    return float(overlap)


def followed(advance: Advance, start: Array, batch: int, steps: int) -> Path:
    """So many steps from one covariance, shape (P, P), of which no data have told anything."""
    variance = [np.broadcast_to(start, (batch, *start.shape)).copy()]
    q_hat, error = [np.zeros_like(variance[0])], [np.zeros(batch)]
    stretch = np.ones(batch)
    for _ in track(range(steps), f"{steps} steps"):
        conjugate, mapped = advance(variance[-1], q_hat[-1])
        if len(variance) > 1:
            stretch = _slope(_norm(mapped.value - variance[-1]), _norm(variance[-1] - variance[-2]))
        error.append(stretch * error[-1] + _norm(mapped.error))
        variance.append(mapped.value)
        q_hat.append(conjugate)
    return Path(np.array(variance), np.array(q_hat), np.array(error))


def _norm(matrices: Array) -> Array:
    return np.asarray(np.linalg.norm(matrices, axis=(1, 2)))


def _slope(after: Array, before: Array) -> Array:
    """How much longer one step is than the one before: what becomes of an error along the way."""
    return np.asarray(np.divide(after, before, out=np.zeros_like(after), where=before > 0))
