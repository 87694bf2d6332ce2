r"""The one message-passing loop: generalised approximate message passing over any prior, design and channel.

.. math::
   \omega &= \mathrm{forward}(\hat S) - c\,g_{old}, \qquad g = g_{out}(y, \omega, V),\\
   a_1 &= \alpha\,\langle -\partial_\omega g\rangle, \qquad a_2 = \alpha\,\langle g^2\rangle, \qquad A = a_1^2/a_2,\\
   \hat S, V &= \mathrm{denoise}\bigl(A\,[\hat S + \mathrm{adjoint}(g)/a_1],\; A\bigr), \qquad c = (a_1/a_2) \times
   \text{the prior's Onsager coefficient}.

For Bayes-optimal iterates :math:`a_1 = a_2` (Nishimori) and this is the usual algorithm. Keeping both makes the
effective noise :math:`1/A` a *measurement*: for the linear channel it is the mean squared residual over
:math:`\alpha`. Where a finite sample contradicts the predicted variance, the residual is believed, so an iterate that
got worse raises the noise it is denoised with, instead of being taken for a better one and blowing up.

What remains at small sizes are oscillations of period two, driven by the few largest singular vectors. They show in
successive steps that oppose each other; damping reacts to that and to nothing else. The iterate of largest measured
``A`` is kept, so a run that will not settle ends there, and says so in its status.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import DataError
from glassformer.core.integral import Array
from glassformer.core.solution import Solution, Status
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.damping import LEVELS, stagnates, stronger
from glassformer.models import Model
from glassformer.models.channels.base import Channel
from glassformer.models.designs.base import Design
from glassformer.models.priors.base import Estimate

# An iterate whose effective noise is this many times that of the best one is given up for the best one.
# Below the second number there is too little signal to tell.
_COLLAPSE, _EARLY = 4.0, 0.02
# An even channel leaves its random start along a plateau: while more than this variance is claimed, steps that neither
# shrink nor improve are no sign of trouble for so many iterations.
_WANDERING, _PATIENCE = 0.5, 200
# Random starts tried before a run that does not converge is accepted.
_RESTARTS = 5
# Allowed log-ratio of measured to predicted residual variance, where this many standard deviations of chance are less;
# variances below so many floors are rounding errors.
_SLACK, _SIGNIFICANT, _KNOWN = 0.25, 2.5, 100.0
# Allowed excess of the estimate's power over its claimed overlap; healthy runs at d = 30 stay below 0.2 in 99 of 100.
_EXCESS = 0.3
# An estimate whose power exceeds twice its claimed overlap by this much claims to be worse than no estimate.
_WORTHLESS = 0.05


@dataclass
class _State:
    """One instance between two steps."""

    estimate: Estimate
    score: Array
    onsager: float
    precision: float = 0.0
    assumed: float = 0.0
    ratio: float = 1.0
    size: float = np.inf
    damping: float = 0.0
    first: bool = True


def gamp(
    model: Model, design: Design, labels: ArrayLike, settings: MessagePassing | None = None, seed: int = 0
) -> Solution:
    r"""Estimate the signal behind labels by message passing; every instance of the design on its own.

    Equation :eq:`message-passing` of the documentation.

    Args:
        model: prior and channel the labels are believed to come from.
        design: inputs, for instance :class:`~glassformer.models.designs.dense.DenseDesign`.
        labels: shape ``(instances, samples, ...)``, or ``(samples, ...)`` for one instance, as the channel draws them.
        settings: tolerance, iteration limit, damping.
        seed: seeds the random start, where there is one.

    Returns:
        :class:`Solution` whose ``value`` has shape ``(instances, L, d)``; ``residual`` is the undamped
        root-mean-square step, ``error_estimate`` the posterior variance (the algorithm's own estimate of its
        error), ``extra`` holds ``precision`` (:math:`\hat q`), ``nishimori_ratio`` (measured
        over predicted residual variance, 1 in the large-size limit) and ``damping`` at the end. Never raises for lack
        of convergence: the status of each instance tells.

    Raises:
        DataError: labels do not match the inputs, or are not finite.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.models.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.01)
        >>> signal, design = model.prior.sample((30, 30), rng), DenseDesign.sample(540, (30, 30), rng)
        >>> labels = model.channel.sample(design.forward(signal, 0), rng)
        >>> solution = gamp(model, design, labels)
        >>> bool(np.mean((solution.value[0] - signal) ** 2) < 0.05)
        True
    """
    settings = settings or MessagePassing()
    if design.field_shape[1:] != model.channel.field_components:
        components = model.channel.field_components
        raise DataError(
            "X", f"<fields of shape {design.field_shape[1:]}>", f"fields of shape {components}, as the channel"
        )
    y = np.asarray(labels, dtype=float)
    expected = (design.instances, design.samples, *model.channel.label_shape)
    y = y[None] if y.shape == expected[1:] else y
    if y.shape != expected:
        raise DataError("y", np.shape(labels), f"a shape {expected} that matches X")
    if not np.all(np.isfinite(y)):
        raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
    runs = [_best_run(model, design, y[k], k, settings, seed) for k in range(design.instances)]
    longest = max(len(history) for *_, history in runs)
    return Solution(
        value=np.array([state.estimate.signal for state, _, _ in runs]),
        status=[status for _, status, _ in runs],
        residual=np.array([state.size for state, _, _ in runs]),
        iterations=np.array([len(history) for *_, history in runs]),
        error_estimate=np.array([state.estimate.variance for state, _, _ in runs]),
        history=np.array([np.pad(h, (0, longest - len(h)), constant_values=np.nan) for *_, h in runs]).T,
        extra={
            "precision": np.array([state.precision for state, _, _ in runs]),
            "nishimori_ratio": np.array([state.ratio for state, _, _ in runs]),
            "damping": np.array([state.damping for state, _, _ in runs]),
        },
    )


_Run = tuple[_State, Status, list[float]]


def _best_run(model: Model, design: Design, y: Array, instance: int, settings: MessagePassing, seed: int) -> _Run:
    """The first run that converges; a random start that locks on a spurious point is followed by others."""
    attempts = _RESTARTS if _start_size(model, settings) > 0 else 1
    runs: list[_Run] = []
    for attempt in range(attempts):
        runs.append(_run(model, design, y, instance, settings, np.random.default_rng([seed, instance, attempt])))
        if runs[-1][1].ok:
            return runs[-1]
    return max(runs, key=lambda run: run[0].precision)


def _run(
    model: Model, design: Design, y: Array, instance: int, settings: MessagePassing, rng: np.random.Generator
) -> _Run:
    state = best = _start(model, design, settings, rng)
    history: list[float] = []
    since = 0
    for _ in range(settings.max_iterations):
        new, measured = _step(model, design, y, instance, state)
        # The precision measured in this step is the quality of the estimate it started from.
        if measured >= best.precision:
            best = replace(state, precision=measured)
        history.append(new.size)
        since += 1
        finite = np.isfinite(new.size)
        if finite and _settled(new, settings):
            return new, _diagnosis(model, design, new, settings), history
        wandering = model.channel.even and state.estimate.variance > _WANDERING and since < _PATIENCE
        collapsed = not finite or (max(measured, _EARLY) * _COLLAPSE < best.precision and not wandering)
        if settings.damping is None and (collapsed or (stagnates(history, since) and not wandering)):
            if state.damping >= LEVELS[-1]:
                return best, Status.OSCILLATING, history
            state, since = replace(best if collapsed else new, damping=stronger(state.damping)), 0
            continue
        if not finite:
            return best, Status.NON_FINITE, history
        state = new
    return best, Status.ITERATION_LIMIT, history


def _settled(state: _State, settings: MessagePassing) -> bool:
    variance = state.estimate.variance
    return state.size <= settings.tolerance * np.sqrt(variance) or variance <= settings.floor


def _start_size(model: Model, settings: MessagePassing) -> float:
    return settings.random_start if settings.random_start is not None else 0.1 * model.channel.even


def _start(model: Model, design: Design, settings: MessagePassing, rng: np.random.Generator) -> _State:
    """The prior mean, or a random signal where the labels say nothing about the sign of the field."""
    damping = design.damping if settings.damping is None else settings.damping
    signal = model.prior.mean(design.signal_shape)
    if _start_size(model, settings) > 0:
        signal = signal + _start_size(model, settings) * rng.standard_normal(design.signal_shape)
    return _State(Estimate(signal, 1.0, 1.0), np.zeros(design.field_shape), 0.0, damping=damping)


def _step(model: Model, design: Design, y: Array, instance: int, state: _State) -> tuple[_State, float]:
    """One step and the precision measured on the way."""
    old = state.estimate
    omega = design.forward(old.signal, instance) - state.onsager * state.score
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        fresh, curvature = model.channel.score_and_curvature(y, omega, old.variance)
        square = float(np.sum(fresh**2) / design.samples)
        slope = float(np.mean(curvature))
        weight = 0.0 if state.first else state.damping
        score = weight * state.score + (1 - weight) * fresh
        a1, a2 = design.sample_ratio * _trusted(model.channel, curvature, square), design.sample_ratio * square
        precision = a1 * a1 / a2 if a2 > 0 else 0.0
        if not np.isfinite(precision):
            return replace(state, size=np.nan), 0.0
        assumed = _smoothed(state.assumed, precision, weight)
        gain = assumed / a1 if a1 > 0 else 1.0
        field = gain * (design.adjoint(score, instance) + a1 * old.signal)
    new = model.prior.denoise(field, assumed, old.memory)
    size = float(np.sqrt(model.prior.power(new.signal - old.signal)))
    following = _State(
        estimate=model.prior.mix(old, new, weight),
        score=score,
        onsager=new.onsager * gain,
        precision=precision,
        assumed=assumed,
        ratio=square / slope if slope > 0 else np.inf,
        size=size,
        damping=state.damping,
        first=False,
    )
    return following, precision


def _smoothed(old: float, new: float, weight: float) -> float:
    """Geometric mean of the precisions assumed before and measured now: damping for what spans orders of magnitude."""
    return float(old**weight * new ** (1 - weight)) if old > 0 else new


def _trusted(channel: Channel, curvature: Array, square: float) -> float:
    """The mean slope, or the mean square that equals it for Bayes-optimal iterates where the slope is no guide.

    From the random start of an even channel the mean slope is noise around zero until the symmetry is broken.
    """
    slope = float(np.mean(curvature))
    if not channel.even:
        return slope if slope > 0 else square
    certain = 2 * float(np.std(curvature)) / np.sqrt(curvature.size)
    return min(slope, square) if slope > certain else square


def _diagnosis(model: Model, design: Design, state: _State, settings: MessagePassing) -> Status:
    """Whether both Nishimori identities hold: residual against claimed variance, power against claimed overlap."""
    claimed, deviation = state.estimate.variance, abs(np.log(max(state.ratio, 1e-300)))
    sampling = np.sqrt(2 / design.samples)
    fluctuation = model.prior.power_deviation(design.signal_shape)
    chance = sampling + fluctuation
    # A residual at rounding error says little more than that it is one.
    known = claimed <= _KNOWN * settings.floor
    residual_agrees = deviation <= (_SLACK + 5 * chance if known else max(_SLACK, _SIGNIFICANT * sampling))
    # Around the prior mean: power q - q_0 where overlap 1 - V is claimed, which makes the error 1 - V.
    power = model.prior.power(state.estimate.signal - model.prior.mean(design.signal_shape))
    excess = power - (1 - claimed)
    largest = min(_EXCESS + 2 * chance * (1 - claimed), (1 - claimed) * (1 + 4 * fluctuation) + _WORTHLESS)
    return Status.CONVERGED if residual_agrees and excess <= largest else Status.CONTRADICTED
