"""State of generalised approximate message passing between two steps, and the checks of its convergence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from glassformer.channels.base import Channel
from glassformer.core.estimate import Array
from glassformer.core.status import Status
from glassformer.designs.base import Design, row_fields
from glassformer.learners.message_passing import StepHistory
from glassformer.models.base import Model
from glassformer.numerics.sequences import AitkenExtrapolation
from glassformer.priors.base import Prior, ScalarPrior, Side, SignalEstimate
from glassformer.priors.signals import denoise_rows, mean_rows, signal_shape

# Default tolerance and floor, for exact and for sampled scores; smaller values are below the noise of sampled scores.
_TOLERANCE = (1e-3, 5e-3)
_FLOOR = (1e-9, 1e-6)
# A run with sampled scores has converged if for 30 steps no step exceeds twice its sampling noise and the claimed error
# varies by less than 3 % (chosen by trial).
_NOISY, _QUIET_STEPS, _STILL = 2.0, 30, 0.03
# First steps from a vanishing start, in which short steps do not imply convergence (chosen by trial).
_STARTING_STEPS = 25
# Growth of a row's power per step that exceeds noise, and power above which a row counts as learned.
_GROWTH, _FOUND = 1.05, 0.5
# Variance of every row above which the run may still be at the plateau of its start.
_PLATEAU = 0.5
# Significant deviations, in standard deviations (one in a hundred by chance), and log-ratios of measured to predicted
# residual variance that are always allowed, for exact and sampled scores (measured on converged runs, d = 24 to 200).
SIGNIFICANT, _SLACK, SAMPLED_SLACK = 2.5, 0.25, 0.3
# Allowed excess of the estimate's power over its claimed overlap: below 0.2 in 99 % of converged runs at d = 30.
_POWER_EXCESS = 0.3
# Excess of the power over twice the claimed overlap at which the error exceeds that of the prior mean.
_WORTHLESS = 0.05
# Log-likelihood ratio, in nats, by which labels may be less probable under the estimate than before learning: odds of
# twenty to one.
_LOG_ODDS = 3.0
# Variances below this multiple of the floor are rounding errors.
_ROUNDING = 100.0


class GampSettings(Protocol):
    """Settings of the algorithm; see :class:`~glassformer.MessagePassing`."""

    def accurate(self, name: str) -> Any: ...

    @property
    def floor(self) -> float | None: ...

    @property
    def damping(self) -> float | None: ...

    @property
    def random_start(self) -> float | None: ...


@dataclass
class GampState:
    """One instance between two steps.

    Attributes:
        estimate: signal of shape (P, ...), covariance and Onsager coefficient of shape (P, P).
        score: shape (n, P, K).
        onsager: coefficient of the score in the next fields, shape (P, P).
        precision: precision measured in the last step.
        assumed_precision: precision with which the estimate was denoised.
        nishimori_ratio: measured square over measured slope of the score, for all rows; NaN if the slope is below its
            sampling noise.
        contradicted: whether slope and square of the score of some row differ by more than their sampling noise.
        step_size: root-mean-square change of the signal.
        sampling_noise: part of ``step_size`` caused by the sampling of the scores.
        damping: weight of this state in the next one.
        first: whether this is the state before the first step.
        aitken: Aitken extrapolation of the last steps, if they have one direction.
    """

    estimate: SignalEstimate
    score: Array
    onsager: Array
    precision: Array
    assumed_precision: Array
    nishimori_ratio: float = 1.0
    contradicted: bool = False
    step_size: float = np.inf
    sampling_noise: float = 0.0
    damping: float = 0.0
    first: bool = True
    aitken: AitkenExtrapolation | None = None

    @property
    def claimed_error(self) -> float:
        """Claimed error, mean over the rows."""
        return float(np.trace(self.estimate.variance)) / len(self.onsager)

    def fields(self, design: Design, instance: int) -> Array:
        """Return the fields of the samples without the contribution of their own labels, shape (n, P, K)."""
        correction = self.onsager[0, 0] * self.score if len(self.onsager) == 1 else self.onsager @ self.score
        return np.asarray(row_fields(design, self.estimate.signal, instance) - correction)

    def extrapolated(self, steps: float) -> Self:
        """Return the state after this number of further steps equal to the last one."""
        if steps == 0 or self.aitken is None:
            return self
        signal = self.estimate.signal + steps * self.aitken.step
        return replace(self, estimate=replace(self.estimate, signal=signal), aitken=None)


class PseudoData(NamedTuple):
    r"""Signal of one row in white noise, the input of the denoiser, and the fields of the samples.

    Attributes:
        matrix: signal plus white noise.
        noise: measured variance of the white noise.
        fields: fields of the samples without the contribution of their own labels, shape (n,).
        label_noise: estimate of the noise of linear labels: squared residuals minus the claimed error.
    """

    matrix: Array
    noise: float
    fields: Array
    label_noise: float

    @property
    def finite(self) -> bool:
        """Whether all numbers are finite, which requires scores with a slope."""
        return bool(np.isfinite(self.noise) and np.isfinite(self.matrix).all() and np.isfinite(self.fields).all())


@dataclass(frozen=True)
class GampConvergence:
    """Convergence checks on one instance; see :class:`~glassformer.learners.gamp_step.GampStep` for the arguments."""

    model: Model
    design: Design
    labels: Array
    instance: int
    settings: GampSettings
    seed: int = 0
    side: Side | None = None
    initial_signal: Array | None = None
    assumed_prior: ScalarPrior | None = None

    @property
    def max_iterations(self) -> int:
        """Largest number of steps of a run."""
        return int(self.settings.accurate("max_iterations"))

    @cached_property
    def prior(self) -> Prior:
        """Prior of the rows."""
        return self.model.prior if self.assumed_prior is None else self.assumed_prior

    @cached_property
    def channel(self) -> Channel:
        """Channel on the fields of the rows."""
        return self.model.channel

    @cached_property
    def _slopes_may_be_noise(self) -> bool:
        """True for sampled scores, and for even labels, whose slopes vanish before the symmetry is broken."""
        return self.channel.inference.sampled or self.channel.labels.even

    @cached_property
    def _floor(self) -> float:
        return _FLOOR[self.channel.inference.sampled] if self.settings.floor is None else self.settings.floor

    def _norm(self, signal: Array) -> float:
        return float(np.sqrt(np.trace(self.prior.gram(signal, signal))))

    def _power(self, state: GampState) -> float:
        """Power of the estimate around the prior mean, summed over the rows."""
        mean = mean_rows(self.prior, self.design.row_shape)
        return self._norm(state.estimate.signal - mean) ** 2

    def is_growing(self, old: GampState, new: GampState) -> bool:
        if not self._slopes_may_be_noise:
            return False
        before, after = (np.diag(self.prior.gram(s.estimate.signal, s.estimate.signal)) for s in (old, new))
        return bool(np.any((after > _GROWTH * before) & (after < _FOUND)))

    def on_plateau(self, state: GampState) -> bool:
        return self.channel.labels.even and float(np.min(np.diag(state.estimate.variance))) > _PLATEAU

    def has_converged(self, state: GampState, history: StepHistory) -> bool:
        sampled = self.channel.inference.sampled
        if sampled and self.channel.labels.even and self.side is None and len(history.step_sizes) < _STARTING_STEPS:
            return False
        given = self.settings.accurate("tolerance")
        tolerance = _TOLERANCE[sampled] if given is None else given
        small = state.step_size <= tolerance * np.sqrt(self.prior.rows * state.claimed_error)
        known = state.claimed_error <= self._floor
        return bool(small or known or (sampled and self._at_sampling_noise(state, history)))

    def _at_sampling_noise(self, state: GampState, history: StepHistory) -> bool:
        """Return whether the last steps are sampling noise at a constant claimed error."""
        claimed = history.claimed_errors[-_QUIET_STEPS:]
        longest = max(history.step_sizes[-_QUIET_STEPS:])
        if len(claimed) < _QUIET_STEPS or longest > _NOISY * state.sampling_noise:
            return False
        return bool(np.ptp(claimed) <= _STILL * np.mean(claimed))

    def log_evidence(self, state: GampState) -> float:
        r"""Return the log-probability of the labels under the estimate minus that before learning, in nats.

        It is the Bethe free entropy :math:`\sum_\mu\log Z_{out}(y_\mu, \omega_\mu, V) + \Psi(A) - \mathrm{Tr}\,QA/2 -
        \mathrm{Tr}(\hat Q - Q)/2`, with the fields :math:`\omega_\mu` without the contribution of their own labels, the
        claimed overlap ``Q`` and the power :math:`\hat Q` of the estimate. The last term is exact for normal weights,
        and zero if the power exceeds the overlap. The result is minus infinity if the estimate is not finite.
        """
        signal, claimed = state.estimate.signal, np.asarray(state.estimate.variance)
        if not (np.isfinite(signal).all() and np.isfinite(claimed).all()):
            return -np.inf
        # Residuals of an exactly known signal are rounding errors, above which the variance is raised.
        rounding = _ROUNDING * self._floor
        variance = claimed + rounding * np.eye(len(claimed))
        root = np.sqrt(1 + rounding / np.maximum(np.diag(claimed), np.finfo(float).eps))
        precision = state.assumed_precision / np.outer(root, root)
        with np.errstate(all="ignore"):
            fields = state.fields(self.design, self.instance)
            if np.linalg.eigvalsh(variance)[0] <= 0 or not np.isfinite(fields).all():
                return -np.inf
            labels = float(np.sum(self.channel.inference.log_partitions(self.labels, fields, variance)))
        entropy = self.prior.entropy(precision[None], variance[None])
        size = self.design.samples / self.design.sample_ratio
        # `diagnose` checks powers above the claimed overlap.
        excess = min(self._power(state) - self.prior.rows + float(np.trace(variance)), 0.0)
        prior = float(entropy.value[0] + entropy.error[0]) - 0.5 * self.prior.degrees * excess
        evidence = labels + size * prior - self._log_evidence_before_learning
        return evidence if np.isfinite(evidence) else -np.inf

    @cached_property
    def _log_evidence_before_learning(self) -> float:
        rows = self.prior.rows
        nothing = np.zeros((rows, rows))
        signal, variance = mean_rows(self.prior, self.design.row_shape), np.eye(rows)
        if self.side is not None:
            known = denoise_rows(
                self.prior, np.sqrt(self.side.strength) * self.side.observation, self.side.strength * np.eye(rows)
            )
            signal, variance = known.signal, known.variance
        fields = row_fields(self.design, signal, self.instance)
        labels = float(np.sum(self.channel.inference.log_partitions(self.labels, fields, variance)))
        entropy = self.prior.entropy(nothing[None], variance[None]).value[0]
        return labels + self.design.samples / self.design.sample_ratio * float(entropy)

    def diagnose(self, state: GampState) -> Status:
        """Return ``CONVERGED`` if the data agree with a state that no longer moves, otherwise ``CONTRADICTED``.

        Residuals must agree with the claimed variance, and the power with the claimed overlap (both are Nishimori
        identities). Labels must be at least as probable as before learning; this is checked if the run may converge to
        a wrong signal, after random starts and for sampled scores, but not after a given initial signal, which may lead
        to a correct but less probable state.
        """
        claimed = state.claimed_error
        sampling = np.sqrt(2 / self.design.samples)
        fluctuation = self.prior.power_deviation(signal_shape(self.prior, self.design.row_shape))
        chance = sampling + fluctuation
        # Residuals of the size of rounding errors carry little information.
        rounding = claimed <= _ROUNDING * self._floor
        if self.channel.inference.sampled:
            residuals_agree = rounding or not state.contradicted
        else:
            deviation = abs(np.log(max(state.nishimori_ratio, 1e-300)))
            allowed = _SLACK + 5 * chance if rounding else max(_SLACK, SIGNIFICANT * sampling)
            residuals_agree = deviation <= allowed
        # The power of the estimate around the prior mean should equal the claimed overlap 1 - V.
        excess = self._power(state) / self.prior.rows - (1 - claimed)
        allowed_excess = _POWER_EXCESS + 2 * chance * (1 - claimed)
        power_agrees = excess <= min(allowed_excess, (1 - claimed) * (1 + 4 * fluctuation) + _WORTHLESS)
        if not (residuals_agree and power_agrees):
            return Status.CONTRADICTED
        compare = self._slopes_may_be_noise and self.initial_signal is None
        return Status.CONTRADICTED if compare and self.log_evidence(state) < -_LOG_ODDS else Status.CONVERGED
