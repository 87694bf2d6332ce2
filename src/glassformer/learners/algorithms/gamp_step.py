r"""The algebra of generalised approximate message passing, for any prior, design and channel of ``P`` rows.

.. math::
   \omega &= \mathrm{forward}(\hat S) - O\,g_{old}, \qquad g = g_{out}(y, \omega, V),\\
   A_2 &= \tfrac{\alpha}{\mathrm{degrees}}\langle g g^T\rangle, \qquad
   G_k = \langle -\partial_{\omega_k} g_k\rangle/\langle g_k^2\rangle, \qquad A = G A_2 G,\\
   \hat S, V &= \mathrm{denoise}\bigl(A \hat S + G\,\mathrm{adjoint}(g),\; A\bigr), \qquad O = \tilde V G,

with :math:`\tilde V` the Onsager coefficient of the denoiser, ``V`` for one that sees the observation only. A scalar
model is the case of one row.

For Bayes-optimal iterates :math:`G = I` (Nishimori) and this is the usual algorithm. Measuring both slope and square of
the score makes the effective noise :math:`A^{-1}` a *measurement*: for the linear channel it is the mean squared
residual over :math:`\alpha`. Where a finite sample contradicts the predicted variance, the residual is believed, so an
iterate that got worse raises the noise it is denoised with, instead of being taken for a better one and blowing up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from glassformer.channels.field_averages import Scores
from glassformer.core.estimate import Array
from glassformer.learners.algorithms.convergence import JUDGEMENT, Judged
from glassformer.learners.algorithms.gamp_state import GampState, Sight
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.sequences import AitkenExtrapolation
from glassformer.priors.base import SignalEstimate


@dataclass(frozen=True)
class GampStep(Judged):
    """One instance of a design and its labels.

    Equation :eq:`message-passing` of the documentation.

    Args:
        model: prior and channel.
        design: inputs.
        labels: shape (n, ...).
        instance: of the design.
        settings: tolerance, floor, random start.
        seed: of random starts.
        side: side information, or None.
        begin: a signal to start from, shape (P, ...), or None.
        believed: the prior that the signal is taken to have where that is not the model's own, or None.
    """

    @property
    def attempts(self) -> int:
        return JUDGEMENT.restarts if self._random > 0 else 1

    @cached_property
    def _random(self) -> float:
        """Size of the random start; zero for the prior mean."""
        if self.begin is not None:
            return 0.0
        if self.settings.random_start is not None:
            return self.settings.random_start
        return self.prior.random_start if self.channel.even and self.side is None else 0.0

    def start(self, attempt: int) -> GampState:
        """The prior mean, or a random signal where the labels say nothing about the sign of the field."""
        rows = self.prior.rows
        shape, nothing = (rows, *self.design.row_shape), np.zeros((rows, rows))
        estimate = SignalEstimate(self.prior.mean_rows(self.design.row_shape), np.eye(rows), np.eye(rows))
        if self.side is not None:
            estimate = self._denoised(np.zeros(shape), nothing, None)
        signal = estimate.signal if self.begin is None else self.begin
        if self._random > 0:
            rng = np.random.default_rng([self.seed, self.instance, attempt])
            signal = signal + self._random * rng.standard_normal(shape)
        damping = self.design.damping if self.settings.damping is None else self.settings.damping
        score = np.zeros((self.design.samples, self.channel.rows, self.channel.columns))
        return GampState(replace(estimate, signal=signal), score, nothing, nothing, nothing, damping=damping)

    def advance(self, state: GampState) -> tuple[GampState, float]:
        """The next state, and the precision measured on the way: the quality of the estimate it began with."""
        old, weight = state.estimate, 0.0 if state.first else state.damping
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            omega = state.fields(self.design, self.instance)
            found = self.channel.scores(self.labels, omega, old.variance)
            fresh = found.first if found.first is found.second else 0.5 * (found.first + found.second)
            score = fresh if weight == 0 else weight * state.score + (1 - weight) * fresh
            gain, square = self._measured(found)
            precision = gain[:, None] * square * gain
            if not np.isfinite(precision).all():
                return replace(state, size=np.nan), 0.0
            assumed = _smoothed(state.assumed, precision, weight)
            gain = gain * _ratio(np.diag(assumed), np.diag(precision))
        seen = self.design.correlation(score, self.instance)
        field = np.tensordot(np.diag(gain), seen, axes=1) + np.tensordot(assumed, old.signal, axes=1)
        try:
            new = self._denoised(field, assumed, old.memory)
        except np.linalg.LinAlgError:
            # Precisions that differ by more than the digits of a number: the iteration has diverged.
            return replace(state, size=np.nan), 0.0
        step = new.signal - old.signal
        size = self._norm(step)
        creep = AitkenExtrapolation(step, size, size) if state.creep is None else state.creep.append(step, size)
        following = GampState(
            estimate=self.prior.mix(old, new, weight),
            score=score,
            onsager=new.onsager * gain,
            precision=precision,
            assumed=assumed,
            ratio=self._nishimori_ratio(found),
            contradicted=self._overconfident(found),
            size=size,
            noise=self._blur(found, new.variance * gain),
            damping=state.damping,
            first=False,
            creep=creep,
        )
        return following.leapt((1 - weight) * creep.remaining), float(np.trace(precision))

    def sight(self, state: GampState) -> Sight:
        """What the estimate in a state of one row is about to be made of."""
        signal, variance = state.estimate.signal, state.estimate.variance
        fields = state.fields(self.design, self.instance)
        found = self.channel.scores(self.labels, fields, variance)
        precision = self.design.sample_ratio * np.mean(found.curvature)
        # Scores without a slope see nothing: whoever asks gets numbers that are not finite.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            matrix = signal[0] + self.design.correlation(found.first, self.instance)[0] / precision
            noise = float(self.design.sample_ratio * np.mean(found.first * found.second) / precision**2)
        rest = max(self.design.sample_ratio * noise - state.claimed, 0.0)
        return Sight(matrix, noise, fields[:, 0, 0], rest)

    def _denoised(self, field: Array, precision: Array, memory: object) -> SignalEstimate:
        if self.side is not None:
            field = field + np.sqrt(self.side.strength) * self.side.observation
            precision = precision + self.side.strength * np.eye(len(precision))
        return self.prior.denoise_rows(field, precision, memory)

    def _blur(self, found: Scores, gain: Array) -> float:
        """What the sampling of the scores moves the signal by: half the difference of independent estimates."""
        if not self.channel.sampled:
            return 0.0
        halves = self.design.correlation(0.5 * (found.first - found.second), self.instance)
        return self._norm(np.tensordot(gain, halves, axes=1))

    def _measured(self, found: Scores) -> tuple[Array, Array]:
        """Slope over square of the score, row by row, and the square, shape (P, P).

        Slope and square are equal on average (Nishimori). Where slopes may be noise they are told apart as far as their
        difference exceeds its own standard error, so that noise does not hold back a start without overlap, and the
        gain is at most one: close to zero overlap they are many times the square.
        """
        product = np.einsum("nak,nbk->ab", found.first, found.second, optimize=True) / len(found.first)
        own, slope = 0.5 * (product + product.T), np.einsum("naa->na", found.curvature).mean(axis=0)
        if self.channel.sampled:
            # The nearest positive semi-definite matrix: a sampled square may miss being one.
            own = map_eigenvalues(own, lambda values: np.maximum(values, 0.0))
        if self._cautious:
            gap, error = _mean_and_error(_gaps(found))
            believed = np.where(error > 0, np.maximum(0.0, 1 - (JUDGEMENT.certain * error / gap) ** 2), 0.0)
            slope = np.diag(own) + np.nan_to_num(believed) * gap
        trusted = self.design.sample_ratio * np.where(slope > 0, slope, np.diag(own))
        square = self.design.sample_ratio * own
        gain = _ratio(trusted, np.diag(square))
        return np.minimum(gain, 1.0) if self._cautious else gain, square

    def _nishimori_ratio(self, found: Scores) -> float:
        """Square over slope of the score, all rows together; NaN where sampling noise hides the slope."""
        square = float(np.sum(found.first * found.second)) / len(found.first)
        slope, error = _mean_and_error(np.einsum("naa->n", found.curvature))
        if self.channel.sampled and slope <= JUDGEMENT.certain * error:
            return np.nan
        return square / float(slope) if slope > 0 else np.inf

    def _overconfident(self, found: Scores) -> bool:
        """Whether sampled scores of a row of which something is known are larger than their slopes allow.

        That is a row whose measured error exceeds the claimed one.
        """
        if not self.channel.sampled:
            return False
        gap, error = _mean_and_error(_gaps(found))
        square = np.sum(found.first * found.second, axis=2).mean(axis=0)
        known = self.design.sample_ratio * square > JUDGEMENT.learned
        beyond = gap < -JUDGEMENT.significant * error
        return bool(np.any(known & beyond & (square + gap < np.exp(-JUDGEMENT.sampled_slack) * square)))


def _gaps(found: Scores) -> Array:
    """Slope less square of the score of each sample and row, shape (n, P)."""
    return np.asarray(np.einsum("naa->na", found.curvature) - np.sum(found.first * found.second, axis=2))


def _mean_and_error(values: Array) -> tuple[Array, Array]:
    """Mean over the samples and its standard error."""
    return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def _smoothed(old: Array, new: Array, weight: float) -> Array:
    """Precision assumed before and measured now: geometric means on the diagonal, which spans orders of magnitude."""
    if weight == 0:
        return new
    before, now = np.diag(old), np.diag(new)
    scale = np.where(before > 0, before**weight * now ** (1 - weight), now)
    if len(new) == 1:
        return np.diag(scale)
    shape = weight * _correlation(old) + (1 - weight) * _correlation(new)
    root = np.sqrt(scale)
    return np.asarray(root[:, None] * shape * root)


def _correlation(matrix: Array) -> Array:
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    found = matrix / (root[:, None] * root)
    np.fill_diagonal(found, 1.0)
    return found


def _ratio(first: Array, second: Array) -> Array:
    """Elementwise, one where there is nothing to divide by."""
    return np.where(second > 0, first / np.where(second > 0, second, 1.0), 1.0)
