r"""State evolution: the fixed points that message passing and the Bayes-optimal estimator reach, for any model.

A scalar model is the case of one row. What differs for mathematical reasons is declared by the channel: averages that
are sampled are located with few points and refined with all (:mod:`~glassformer.state_evolution.sampled_fixed_point`),
others are iterated to rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from glassformer.channels.field_averages import REPLICAS
from glassformer.core.checks import as_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.resources import require_resources
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import confident
from glassformer.state_evolution.coarse_solve import located
from glassformer.state_evolution.evolution_map import POLICY, EvolutionMap, held, side_known
from glassformer.state_evolution.fixed_point import Flags, fixed_point
from glassformer.state_evolution.neighbours import rounds, started
from glassformer.state_evolution.sampled_fixed_point import nearer, refined, sloped
from glassformer.state_evolution.sampled_search import is_covariance

# Where averages are sampled a smaller relative residual means nothing.
_SAMPLED = Iteration(tolerance=1e-4, floor=1e-6, max_iterations=200)
# What the solution at one sample ratio takes in memory.
_BYTES = 20_000


def state_evolution(
    model: Model,
    alpha: ArrayLike,
    start: str | ArrayLike = "uninformed",
    settings: Iteration | None = None,
    origin: Array | None = None,
    *,
    subspace: Array | None = None,
    clamped: tuple[int, Array] | None = None,
) -> Solution:
    r"""Fixed point of state evolution at each sample ratio.

    Equations :eq:`state-evolution` and :eq:`matrix-state-evolution` of the documentation.

    .. math:: \hat Q = \frac{\alpha}{\mathrm{degrees}}\, E\sum_l g_l g_l^T, \qquad V = \mathrm{covariance}(\hat Q),

    for one row :math:`\hat q = (\alpha/\mathrm{degrees})\,E|g_{out}|^2(V)`, :math:`V = \mathrm{MMSE}(\hat q)`.

    Args:
        model: prior and channel.
        alpha: sample ratios, shape (batch,), finite and >= 0, in the model's own unit.
        start: ``"uninformed"`` (no knowledge of the signal; with an even channel a vanishing one, which breaks the
            symmetry), ``"informed"`` (the signal almost known), or starting variances of shape (batch,), for several
            rows covariances of shape (batch, P, P).
        settings: tolerances and iteration limit; by default those that the averages of the model allow.
        origin: variances of shape (batch,) between which and ``start`` there is known to be no other fixed point;
            allows longer steps. For averages that are not sampled.
        subspace: projector on the directions that may be learned, shape (P, P); all by default.
        clamped: a row and the variances, shape (batch,), that it is held at, apart from the others.

    Returns:
        :class:`Solution` whose ``value`` is the variance :math:`V = 1 - q`, shape (batch,), for several rows the
        covariance, shape (batch, P, P), and whose ``extra["q_hat"]`` is :math:`\hat q` at the fixed point. The error
        estimate is what residual and integration errors amount to there.

    Raises:
        ParameterError: ``alpha`` or ``start`` is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=np.inf, noise=0.0)
        >>> np.round(state_evolution(model, [0.25, 0.5]).value, 6)
        array([0.75, 0.5 ])
    """
    alpha = validated_alpha(alpha)
    shape = (len(alpha), *model.overlap_shape)
    if not isinstance(start, str):
        start = _checked_start(start, shape).reshape(len(alpha), *model.prior.self_overlap.shape)
    found = solve_state_evolution(model, alpha, start, settings, origin, subspace=subspace, clamped=clamped)
    extra = {name: np.reshape(found.extra[name], shape) for name in ("q_hat", "q_hat_error")}
    return replace(found, value=found.value.reshape(shape), extra=extra)


def solve_state_evolution(
    model: Model,
    alpha: Array,
    start: str | Array = "uninformed",
    settings: Iteration | None = None,
    origin: Array | None = None,
    *,
    subspace: Array | None = None,
    clamped: tuple[int, Array] | None = None,
    coarse: bool = False,
    place: Solution | None = None,
    beside: Solution | None = None,
) -> Solution:
    """As :func:`state_evolution`, with covariances of shape (batch, P, P) for scalar models as well.

    With ``coarse``, fixed points are only located, with a sixteenth of the sampled data points; given as ``place``,
    those are refined, and as ``beside`` they are those that another start has led to.
    """
    channel = model.channel
    settings = settings or (_SAMPLED if channel.sampled else Iteration())
    first = _starting_covariance(model, len(alpha), start, subspace) if isinstance(start, str) else start
    first = first if clamped is None else held(first, *clamped)
    first = first if place is None else place.value
    fine = EvolutionMap(model, alpha, channel, subspace=subspace, clamped=clamped)
    if not channel.sampled:
        return _iterated(fine, first, settings, None if origin is None else np.reshape(origin, first.shape))
    if place is None:
        order = rounds(alpha, start == "informed") if isinstance(start, str) and clamped is None else None
        place = located(fine.with_fewer(POLICY.coarse).low_accuracy(), first, settings, sloped(fine), order, beside)
    if coarse:
        return place
    found = refined(fine, nearer(fine, place, settings), settings)
    if channel.with_more_noise is None:
        return found
    # What a noise that stands for none does to the fixed point shows where there is more of it.
    more = replace(fine, channel=channel.with_more_noise.with_points(fine.channel.points))
    nearby = np.where(is_covariance(found.value)[:, None, None], found.value, first)
    other = refined(
        more, located(more.with_fewer(POLICY.coarse).low_accuracy(), nearby, settings, sloped(more)), settings
    )
    change = other.value - found.value
    moved = np.linalg.norm(change, axis=(1, 2))
    apart = np.concatenate([found.extra["moved"], change[:, None] / confident(REPLICAS)], axis=1)
    return replace(
        found,
        error_estimate=found.error_estimate + np.where(other.settled, moved, np.inf),
        extra={**found.extra, "moved": apart},
    )


def first_look(model: Model, alpha: ArrayLike) -> Iterator[tuple[float, Solution]]:
    r"""What the uninformed start leads to, with few sampled data points, one sample ratio after the other.

    Ratios are taken in increasing order, each of them from the fixed point before. That leads to the same one: the map
    is monotone in ``V`` and in ``alpha``, so that the fixed point before is not below the one that is looked for, and
    no other one lies between.

    Args:
        model: of which nothing is yielded unless its averages are sampled, of the labels that it has.
        alpha: sample ratios, a number or shape (points,), finite and >= 0.

    Yields:
        A ratio, and its :class:`Solution`, covariances of shape (1, P, P); its error estimate is that of so few points.

    Raises:
        ParameterError: ``alpha`` is out of range.

    Example:
        >>> from glassformer import DeepAttention
        >>> [(ratio, found.settled.all()) for ratio, found in first_look(DeepAttention(depth=1, points=32), [0.0])]
        [(0.0, np.True_)]
    """
    ratios = np.sort(validated_alpha(alpha))
    channel = model.channel
    # What a noise that stands for none changes is known only once there is more of it.
    if not channel.sampled or channel.with_more_noise is not None:
        return
    few = channel.with_points(min(POLICY.at_first, channel.points))
    unknown = start = _starting_covariance(model, 1, "uninformed", None)
    for ratio in ratios:
        update = EvolutionMap(model, np.array([ratio]), few)
        found = refined(update, located(update, start, _SAMPLED, update), _SAMPLED)
        yield float(ratio), found
        # What is not learned yet must not stay so for want of a start that breaks the symmetry.
        start = started(unknown, found.value, 1.0) if found.settled.all() else unknown


def _iterated(update: EvolutionMap, start: Array, settings: Iteration, origin: Array | None) -> Solution:
    kept = np.full((2, *start.shape), np.nan)
    found = fixed_point(lambda variance, index: update(variance, index, kept), start, settings, _inside, origin)
    # Of one row, for which there is but one way to move.
    moved = found.error_estimate[:, None, None, None] / confident(REPLICAS)
    return replace(found, extra={"q_hat": kept[0], "q_hat_error": kept[1], "moved": moved})


def _inside(states: Array) -> Flags:
    return is_covariance(states, POLICY.rounding)


def validated_alpha(alpha: ArrayLike) -> Array:
    """``alpha`` as a one-dimensional array, or an error naming the first value that is not allowed."""
    values = as_numbers(alpha)
    if values is None or values.ndim != 1 or values.size == 0:
        raise ParameterError("alpha", alpha, "a number or a non-empty one-dimensional sequence of numbers")
    require_resources("alpha", f"<{values.size} values>", _BYTES * values.size, "give fewer sample ratios")
    for value in values[~((values >= 0) & (values <= POLICY.largest_ratio))]:
        raise ParameterError("alpha", float(value), f"finite and >= 0, at most {POLICY.largest_ratio:g}")
    return values


def unknown_at_start(model: Model) -> float:
    """Posterior variance of every row where the uninformed iteration begins."""
    channel = model.channel
    return 1.0 - max(POLICY.breaking[channel.sampled] * channel.even, side_known(model))


def known_at_start(model: Model) -> float:
    """Posterior variance of every row where the informed iteration begins."""
    return POLICY.informed[model.channel.sampled]


def _starting_covariance(model: Model, batch: int, start: str, subspace: Array | None) -> Array:
    if start not in ("uninformed", "informed"):
        raise ParameterError("start", start, "'uninformed', 'informed' or an array of variances")
    size = model.prior.rows
    known = np.eye(size) if subspace is None else subspace
    rest = unknown_at_start(model) if start == "uninformed" else known_at_start(model)
    return np.broadcast_to(np.eye(size) - known + rest * known, (batch, size, size)).copy()


def _checked_start(start: ArrayLike, shape: tuple[int, ...]) -> Array:
    values = np.array(start, dtype=float)
    if values.shape != shape or not _inside(values).all():
        matrices = f"covariance matrices of shape {shape} with eigenvalues in [0, 1]"
        raise ParameterError("start", start, matrices if shape[1:] else f"variances in [0, 1] of shape {shape}")
    return values
