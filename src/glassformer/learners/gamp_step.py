r"""One step of generalised approximate message passing (GAMP), for any prior, design and channel of ``P`` rows.

.. math::
   \omega &= \mathrm{forward}(\hat S) - O\,g_{old}, \qquad g = g_{out}(y, \omega, V),\\
   A_2 &= \tfrac{\alpha}{\mathrm{degrees}}\langle g g^T\rangle, \qquad
   G_k = \langle -\partial_{\omega_k} g_k\rangle/\langle g_k^2\rangle, \qquad A = G A_2 G,\\
   \hat S, V &= \mathrm{denoise}\bigl(A \hat S + G\,\mathrm{adjoint}(g),\; A\bigr), \qquad O = \tilde V G,

with the Onsager coefficient :math:`\tilde V` of the denoiser, which is ``V`` for a posterior mean given the observation
alone. A scalar model is the case of one row.

Hidden states that shift the inputs by :math:`s_h` add :math:`A_0 = \alpha\sum_h\pi_hs_hs_h^T` to the precision, from
the normalisation of their density. It is contained in :math:`A_2`, and :math:`(A - GA_0)\hat S` takes the place of
:math:`A\hat S`.

For Bayes-optimal iterates :math:`G = I` (Nishimori), and this is the usual algorithm. Slope and square of the score are
both measured, and thus the effective noise :math:`A^{-1}`: for the linear channel it is the mean squared residual over
:math:`\alpha`. If a finite sample contradicts the predicted variance, the algorithm uses the measured one. A worse
iterate then raises the noise of the next denoising, and the algorithm does not diverge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.channels.field_averages import Scores
from glassformer.core.estimate import Array
from glassformer.core.random_streams import random_stream
from glassformer.designs.base import row_correlation
from glassformer.learners.gamp_state import SAMPLED_SLACK, SIGNIFICANT, GampConvergence, GampState, PseudoData
from glassformer.numerics.decompositions import map_eigenvalues
from glassformer.numerics.sequences import AitkenExtrapolation
from glassformer.priors.base import SignalEstimate
from glassformer.priors.signals import denoise_rows, mean_rows, random_start

# Largest number of random starts: more than five did not improve runs on even labels at d = 30.
_RANDOM_STARTS = 5
# Stream of random numbers of the starts. Simulations draw teachers, inputs, labels, side information and new inputs of
# the same seed from streams 0 to 4: a start from one of them would know the truth.
_START_STREAM = 5
# Initial damping with inputs that hidden states shift: the least, the most, and the power of a shift at which it is
# one half. Undamped iterates leave the fixed point after three steps, and large shifts need more (measured: .3 for
# powers of 2 and 4, .5 for 9, .7 for 16).
_LEAST_DAMPING, _MOST_DAMPING, _HALF_DAMPED = 0.3, 0.7, 8.0
# Standard errors by which slope and square of the score differ significantly (95 %).
_DIFFERENT = 2.0
# Precision above which a row counts as partly learned (chosen by trial).
_LEARNED = 0.05


@dataclass(frozen=True)
class GampStep(GampConvergence):
    """One step of GAMP on one instance of a design and its labels.

    Equation :eq:`message-passing` of the documentation.

    Args:
        model: prior and channel.
        design: inputs.
        labels: shape (n, ...).
        instance: index of the instance.
        settings: tolerance, floor, damping, random start.
        seed: seed of random starts.
        side: side information, or None.
        initial_signal: signal to start from, shape (P, ...), or None.
        assumed_prior: prior in place of the model's own, or None.
    """

    @property
    def starts(self) -> int:
        return _RANDOM_STARTS if self._random_start > 0 else 1

    @cached_property
    def _random_start(self) -> float:
        """Size of the random start; zero for the prior mean."""
        if self.initial_signal is not None:
            return 0.0
        if self.settings.random_start is not None:
            return self.settings.random_start
        return random_start(self.prior) if self.channel.labels.even and self.side is None else 0.0

    def start(self, attempt: int) -> GampState:
        """Return the initial state: the prior mean, or a random signal for even labels."""
        rows = self.prior.rows
        shape, nothing = (rows, *self.design.row_shape), np.zeros((rows, rows))
        estimate = SignalEstimate(mean_rows(self.prior, self.design.row_shape), np.eye(rows), np.eye(rows))
        if self.side is not None:
            estimate = self._denoised(np.zeros(shape), nothing, None)
        signal = estimate.signal if self.initial_signal is None else self.initial_signal
        if self._random_start > 0:
            rng = random_stream(self.seed, _START_STREAM, self.instance, attempt)
            signal = signal + self._random_start * rng.standard_normal(shape)
        usual = max(self.design.damping, self._damping_of_shifts)
        damping = usual if self.settings.damping is None else self.settings.damping
        score = np.zeros((self.design.samples, self.channel.fields.rows, self.channel.fields.columns))
        return GampState(replace(estimate, signal=signal), score, nothing, nothing, nothing, damping=damping)

    def advance(self, state: GampState) -> tuple[GampState, float]:
        """Return the next state, and the measured precision as the quality of the estimate in the old state."""
        old, weight = state.estimate, 0.0 if state.first else state.damping
        failed = replace(state, step_size=np.nan), 0.0
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            omega = state.fields(self.design, self.instance)
            try:
                scores = self.channel.inference.scores(self.labels, omega, old.variance)
            except np.linalg.LinAlgError:
                # Rows are correlated by more than double precision resolves: the iteration has diverged.
                return failed
            fresh = scores.first if scores.first is scores.second else 0.5 * (scores.first + scores.second)
            score = fresh if weight == 0 else weight * state.score + (1 - weight) * fresh
            gain, square = self._gain_and_square(scores)
            precision = gain[:, None] * square * gain
            if not np.isfinite(precision).all():
                return failed
            assumed = _damped_precision(state.assumed_precision, precision, weight)
            gain = gain * _ratio(np.diag(assumed), np.diag(precision))
        correlation = row_correlation(self.design, score, self.instance)
        # The precision by the normalisation of the density of shifted inputs has no field.
        feedback = assumed - gain[:, None] * self._shift_precision
        field = gain.reshape(-1, *(1,) * (correlation.ndim - 1)) * correlation + _mixed(feedback, old.signal)
        try:
            new = self._denoised(field, assumed, old.memory)
        except np.linalg.LinAlgError:
            # Precisions of the rows differ by more than double precision resolves: the iteration has diverged.
            return failed
        step = new.signal - old.signal
        step_size = self._norm(step)
        last = state.aitken
        aitken = AitkenExtrapolation(step, step_size, step_size) if last is None else last.append(step, step_size)
        following = GampState(
            estimate=self.prior.mix(old, new, weight),
            score=score,
            onsager=new.onsager * gain,
            precision=precision,
            assumed_precision=assumed,
            nishimori_ratio=self._nishimori_ratio(scores),
            contradicted=self._contradicted(scores),
            step_size=step_size,
            sampling_noise=self._sampling_noise(scores, new.variance * gain),
            damping=state.damping,
            first=False,
            aitken=aitken,
        )
        return following.extrapolated((1 - weight) * aitken.remaining), float(np.trace(precision))

    @property
    def _damping_of_shifts(self) -> float:
        """Initial damping by the shifts of hidden states; zero without any."""
        power = float(np.linalg.eigvalsh(self.channel.fields.shift_square)[-1])
        if power == 0:
            return 0.0
        return float(np.clip(power / (power + _HALF_DAMPED), _LEAST_DAMPING, _MOST_DAMPING))

    @cached_property
    def _shift_precision(self) -> Array:
        r"""Precision of the rows by the shifts of hidden states, :math:`\alpha\sum_h\pi_hs_hs_h^T`, shape (P, P)."""
        return np.asarray(self.design.sample_ratio * self.channel.fields.shift_square)

    def pseudo_data(self, state: GampState) -> PseudoData:
        """Return the next input of the denoiser, for a model of one row."""
        signal, variance = state.estimate.signal, state.estimate.variance
        fields = state.fields(self.design, self.instance)
        scores = self.channel.inference.scores(self.labels, fields, variance)
        precision = self.design.sample_ratio * np.mean(scores.curvature)
        # Scores without a slope carry no information: the result is not finite.
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            matrix = signal[0] + row_correlation(self.design, scores.first, self.instance)[0] / precision
            noise = float(self.design.sample_ratio * np.mean(scores.first * scores.second) / precision**2)
        label_noise = max(self.design.sample_ratio * noise - state.claimed_error, 0.0)
        return PseudoData(matrix, noise, fields[:, 0, 0], label_noise)

    def _denoised(self, field: Array, precision: Array, memory: tuple[Any, ...] | None) -> SignalEstimate:
        if self.side is not None:
            field = field + np.sqrt(self.side.strength) * self.side.observation
            precision = precision + self.side.strength * np.eye(len(precision))
        return denoise_rows(self.prior, field, precision, memory)

    def _sampling_noise(self, scores: Scores, gain: Array) -> float:
        """Return the step caused by the sampling of the scores: half the difference of independent estimates."""
        if not self.channel.inference.sampled:
            return 0.0
        halves = row_correlation(self.design, 0.5 * (scores.first - scores.second), self.instance)
        return self._norm(np.tensordot(gain, halves, axes=1))

    def _gain_and_square(self, scores: Scores) -> tuple[Array, Array]:
        """Return slope over square of the score of each row, and the square, shape (P, P).

        Slope and square are equal on average (Nishimori). If slopes may be noise, the slope replaces the square only as
        far as their difference exceeds its standard error, and the gain is at most one: close to zero overlap the noise
        of the slopes is much larger than the square, and would delay the escape from the start.
        """
        product = np.einsum("nak,nbk->ab", scores.first, scores.second, optimize=True) / len(scores.first)
        mean_square, slope = 0.5 * (product + product.T), np.einsum("naa->na", scores.curvature).mean(axis=0)
        if self.channel.inference.sampled:
            # A sampled square need not be positive semi-definite: take the nearest such matrix.
            mean_square = map_eigenvalues(mean_square, lambda values: np.maximum(values, 0.0))
        if self._slopes_may_be_noise:
            gap, error = _mean_and_error(_slope_minus_square(scores))
            share = np.where(error > 0, np.maximum(0.0, 1 - (_DIFFERENT * error / gap) ** 2), 0.0)
            slope = np.diag(mean_square) + np.nan_to_num(share) * gap
        positive_slope = self.design.sample_ratio * np.where(slope > 0, slope, np.diag(mean_square))
        square = self.design.sample_ratio * mean_square
        gain = _ratio(positive_slope, np.diag(square))
        return np.minimum(gain, 1.0) if self._slopes_may_be_noise else gain, square

    def _nishimori_ratio(self, scores: Scores) -> float:
        """Return square over slope of the score for all rows; NaN if the slope is below its sampling noise."""
        square = float(np.sum(scores.first * scores.second)) / len(scores.first)
        slope, error = _mean_and_error(np.einsum("naa->n", scores.curvature))
        if self.channel.inference.sampled and slope <= _DIFFERENT * error:
            return np.nan
        return square / float(slope) if slope > 0 else np.inf

    def _contradicted(self, scores: Scores) -> bool:
        """Return whether the error of a row measured from sampled scores exceeds the claimed error."""
        if not self.channel.inference.sampled:
            return False
        gap, error = _mean_and_error(_slope_minus_square(scores))
        square = np.sum(scores.first * scores.second, axis=2).mean(axis=0)
        known = self.design.sample_ratio * square > _LEARNED
        beyond_chance = gap < -SIGNIFICANT * error
        return bool(np.any(known & beyond_chance & (square + gap < np.exp(-SAMPLED_SLACK) * square)))


def _mixed(matrix: Array, rows: Array) -> Array:
    """Return the product of a matrix with rows, shape (P, ...); of one row without a copy of it."""
    return matrix[0, 0] * rows if len(matrix) == 1 else np.tensordot(matrix, rows, axes=1)


def _slope_minus_square(scores: Scores) -> Array:
    """Return slope minus square of the score of each sample and row, shape (n, P)."""
    return np.asarray(np.einsum("naa->na", scores.curvature) - np.sum(scores.first * scores.second, axis=2))


def _mean_and_error(values: Array) -> tuple[Array, Array]:
    """Return the mean over the samples and its standard error; infinite for scores of diverging iterates."""
    with np.errstate(over="ignore", invalid="ignore"):
        return values.mean(axis=0), values.std(axis=0) / np.sqrt(len(values))


def _damped_precision(old: Array, new: Array, weight: float) -> Array:
    """Return a mixture of two precisions: geometric means on the diagonal, and arithmetic means of correlations."""
    if weight == 0:
        return new
    before, now = np.diag(old), np.diag(new)
    scale = np.where(before > 0, before**weight * now ** (1 - weight), now)
    if len(new) == 1:
        return np.diag(scale)
    correlation = weight * _correlation(old) + (1 - weight) * _correlation(new)
    root = np.sqrt(scale)
    return np.asarray(root[:, None] * correlation * root)


def _correlation(matrix: Array) -> Array:
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    correlation = matrix / (root[:, None] * root)
    np.fill_diagonal(correlation, 1.0)
    return correlation


def _ratio(first: Array, second: Array) -> Array:
    """Return the elementwise quotient, or one where the divisor vanishes."""
    return np.where(second > 0, first / np.where(second > 0, second, 1.0), 1.0)
