r"""Message passing for models of several rows.

.. math::
   \omega &= \mathrm{forward}(\hat W) - O\,g_{old}, \qquad g = g_{out}(y, \omega, V),\\
   A_2 &= \tfrac{\alpha}{\mathrm{degrees}}\langle g g^T\rangle, \qquad
   G_k = \langle -\partial_{\omega_k} g_k\rangle/\langle g_k^2\rangle, \qquad A = G A_2 G,\\
   \hat W, V &= \mathrm{denoise}\bigl(A \hat W + G\,\mathrm{adjoint}(g),\; A\bigr), \qquad O = V G.

For Bayes-optimal iterates :math:`G = I` (Nishimori) and this is the usual algorithm; as in
:mod:`glassformer.learners.gamp`, measuring slope and square keeps an iterate that got worse from being taken for a
better one and running away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import DataError
from glassformer.core.integral import Array
from glassformer.core.solution import Solution, Status
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.damping import LEVELS, WINDOW, stagnates, stronger
from glassformer.models.channels.multi_index.base import FieldPosterior
from glassformer.models.matrix import MatrixModel
from glassformer.models.priors.matrix import MatrixEstimate

# Measured over predicted squared score, beyond which a run contradicts itself.
_CONTRADICTION = 0.3
# Standard errors from which on slope and square of the score are told apart.
_CERTAIN = 2.0
# A claimed error that falls by this factor from one window to the next is progress, however long the steps.
_GAINING = 0.98
# Growth of a row's square per step that is no longer noise.
_GROWTH = 1.05
# Posterior variance of a row below which it counts as known exactly.
_EXACT = 1e-6
# Steps of at most so many times their sampling noise are noise; so many of them, with the claimed error within so much.
_NOISY, _QUIET, _STILL = 2.0, 30, 0.03
# Changes per step, relative to the posterior standard deviation, that sampled scores cannot go below.
_SAMPLED_TOLERANCE = 5e-3


@dataclass
class _State:
    """One instance between two steps."""

    estimate: MatrixEstimate
    score: Array
    onsager: Array
    precision: Array
    ratio: float = 1.0
    size: float = np.inf
    noise: float = 0.0
    damping: float = 0.0
    first: bool = True


@dataclass(frozen=True)
class Trace:
    """What one step of one run looked like.

    Attributes:
        size: root-mean-square change of the signal.
        variance: posterior covariance after the step, shape (P, P).
        signal: the estimate after the step.
    """

    size: float
    variance: Array
    signal: Array


def overlap_gamp(
    model: MatrixModel,
    design: Any,
    labels: ArrayLike,
    settings: MessagePassing | None = None,
    side: tuple[float, Array] | None = None,
    start: Array | None = None,
    follow: Any = None,
) -> Solution:
    r"""Estimate the rows behind labels by message passing, for one instance.

    Equation :eq:`message-passing` of the documentation.

    Args:
        model: prior and channel of several rows.
        design: inputs of one instance.
        labels: shape (samples, ...), as the channel draws them.
        settings: tolerance, iteration limit, damping.
        side: strength :math:`s` and observation ``Y`` of side information, shape of the signal: what is known
            beforehand is :math:`\sqrt{s}\,W` plus standard normal noise.
        start: a signal to start from, instead of the prior mean.
        follow: called with a :class:`Trace` after every step.

    Returns:
        :class:`Solution` with a batch of one; ``value`` has shape (1, P, ...), ``extra`` holds ``variance``,
        ``precision``, ``nishimori_ratio`` and ``damping``.

    Raises:
        DataError: labels do not match the inputs, or are not finite.
    """
    settings = settings or MessagePassing()
    y = np.asarray(labels, dtype=float)
    expected = (design.samples, *model.channel.label_shape)
    if y.shape != expected:
        raise DataError("y", np.shape(labels), f"a shape {expected} that matches X")
    if not np.all(np.isfinite(y)):
        raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
    state, status, history = _run(model, design, y, settings, side, start, follow)
    return Solution(
        value=state.estimate.signal[None],
        status=[status],
        residual=np.array([state.size]),
        iterations=np.array([len(history)]),
        error_estimate=np.array([np.trace(state.estimate.variance) / model.prior.rows]),
        history=np.array(history)[:, None],
        extra={
            "variance": state.estimate.variance[None],
            "precision": state.precision[None],
            "nishimori_ratio": np.array([state.ratio]),
            "damping": np.array([state.damping]),
        },
    )


def _run(
    model: MatrixModel,
    design: Any,
    y: Array,
    settings: MessagePassing,
    side: tuple[float, Array] | None,
    start: Array | None,
    follow: Any,
) -> tuple[_State, Status, list[float]]:
    state = best = _start(model, design, settings, side, start)
    history: list[float] = []
    spreads: list[float] = []
    since = quiet = 0
    for _ in range(settings.max_iterations):
        new = _step(model, design, y, state, side)
        history.append(new.size)
        since += 1
        if not np.isfinite(new.size):
            return best, Status.NON_FINITE, history
        if follow is not None:
            follow(Trace(new.size, new.estimate.variance, new.estimate.signal))
        if np.trace(new.estimate.variance) <= np.trace(best.estimate.variance):
            best = new
        spreads.append(float(np.trace(new.estimate.variance)))
        quiet = quiet + 1 if new.size <= _NOISY * new.noise else 0
        # From a vanishing start small steps mean nothing before the overlap has had time to grow.
        hatching = model.channel.even and side is None and len(history) < WINDOW
        growing = hatching or _growing(model, state, new)
        if not growing and (_settled(new, settings) or _at_noise(quiet, spreads)):
            agrees = abs(np.log(max(new.ratio, 1e-300))) <= _CONTRADICTION
            return new, Status.CONVERGED if agrees else Status.CONTRADICTED, history
        if settings.damping is None and not growing and stagnates(history, since) and not _gaining(spreads):
            if state.damping >= LEVELS[-1]:
                return new, Status.OSCILLATING, history
            new, since = replace(new, damping=stronger(state.damping)), 0
        state = new
    return state, Status.ITERATION_LIMIT, history


def _settled(state: _State, settings: MessagePassing) -> bool:
    spread = np.sqrt(np.trace(state.estimate.variance))
    small = np.trace(state.estimate.variance) <= max(settings.floor, _EXACT) * len(state.precision)
    return bool(small or state.size <= max(settings.tolerance, _SAMPLED_TOLERANCE) * spread)


def _growing(model: MatrixModel, old: _State, new: _State) -> bool:
    """True while some row becomes longer, from a start without overlap for instance."""
    before, after = (np.diag(model.prior.gram(s.estimate.signal, s.estimate.signal)) for s in (old, new))
    return bool(np.any((after > _GROWTH * before) & (after < 0.5)))


def _at_noise(quiet: int, spreads: list[float]) -> bool:
    """True when for long all steps were those of sampling noise, and the claimed error stood still."""
    if quiet < _QUIET:
        return False
    recent = np.array(spreads[-_QUIET:])
    return bool(np.ptp(recent) <= _STILL * np.mean(recent))


def _gaining(spreads: list[float]) -> bool:
    """True when the claimed error of the last window is below that of the window before."""
    return bool(np.mean(spreads[-WINDOW:]) < _GAINING * np.mean(spreads[-2 * WINDOW : -WINDOW]))


def _start(
    model: MatrixModel, design: Any, settings: MessagePassing, side: tuple[float, Array] | None, start: Array | None
) -> _State:
    size, shape = model.prior.rows, (model.prior.rows, *design.row_shape)
    nothing = np.zeros((size, size))
    estimate = MatrixEstimate(model.prior.mean(shape), np.eye(size), nothing)
    if side is not None:
        estimate = model.prior.denoise(np.sqrt(side[0]) * side[1], side[0] * np.eye(size))
    if start is not None:
        estimate = replace(estimate, signal=start)
    damping = design.damping if settings.damping is None else settings.damping
    score = np.zeros((design.samples, *model.channel.field_components))
    return _State(estimate, score, nothing, nothing, damping=damping)


def _step(model: MatrixModel, design: Any, y: Array, state: _State, side: tuple[float, Array] | None) -> _State:
    old, size = state.estimate, model.prior.rows
    omega = design.forward(old.signal, 0) - np.einsum("ab,nbk->nak", state.onsager, state.score)
    found = model.channel.posterior(y, omega, np.broadcast_to(old.variance, (len(y), size, size)))
    weight = 0.0 if state.first else state.damping
    score = weight * state.score + (1 - weight) * found.score
    a1, a2 = _precisions(found, design.sample_ratio)
    if not (np.isfinite(a1).all() and np.isfinite(a2).all()):
        return replace(state, size=np.nan)
    gain = _gain(a1, np.diag(a2))
    precision = gain @ a2 @ gain
    precision = precision if state.first else weight * state.precision + (1 - weight) * precision
    field = np.einsum("ab,b...->a...", gain, design.adjoint(score, 0)) + np.einsum(
        "ab,b...->a...", precision, old.signal
    )
    if side is None:
        new = model.prior.denoise(field, precision)
    else:
        new = model.prior.denoise(field + np.sqrt(side[0]) * side[1], precision + side[0] * np.eye(size))
    step = new.signal - old.signal
    # What the sampling of the scores alone would move the signal by: half the difference of independent estimates.
    halves = design.adjoint(0.5 * (found.first - found.second), 0)
    blur = np.tensordot(new.variance @ gain, halves, axes=1)
    mixed = replace(new, signal=weight * old.signal + (1 - weight) * new.signal)
    return _State(
        estimate=mixed,
        score=score,
        onsager=new.onsager @ gain,
        precision=precision,
        ratio=float(np.trace(a2) / np.sum(a1)) if np.sum(a1) > 0 else np.inf,
        size=float(np.sqrt(np.trace(model.prior.gram(step, step)))),
        noise=float(np.sqrt(np.trace(model.prior.gram(blur, blur)))),
        damping=state.damping,
        first=False,
    )


def _precisions(found: FieldPosterior, ratio: float) -> tuple[Array, Array]:
    """Measured slopes of the rows, shape (P,), and the measured square of the score, per natural sample size.

    The two are equal on average (Nishimori). They are told apart as far as their difference exceeds its own standard
    error: where the data do not contradict it, one number stands for both, so that noise does not hold back a start
    without overlap.
    """
    squares = np.einsum("nak,nbk->nab", found.first, found.second)
    gaps = np.einsum("naa->na", found.curvature - squares)
    square = squares.mean(axis=0)
    square = _positive(0.5 * (square + square.T))
    gap, error = gaps.mean(axis=0), gaps.std(axis=0) / np.sqrt(len(gaps))
    with np.errstate(divide="ignore", invalid="ignore"):
        believed = np.where(error > 0, np.maximum(0.0, 1 - (_CERTAIN * error / gap) ** 2), 0.0)
    slope = np.diag(square) + np.nan_to_num(believed) * gap
    return ratio * np.where(slope > 0, slope, np.diag(square)), ratio * square


def _gain(a1: Array, a2: Array) -> Array:
    """:math:`A_1A_2^{-1}` row by row, at most one: close to zero overlap the slope is noise, many times the square."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.diag(np.where(a2 > 0, np.minimum(a1 / a2, 1.0), 1.0))


def _positive(matrix: Array) -> Array:
    """The nearest positive semi-definite matrix: a sampled square may miss being one."""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)
