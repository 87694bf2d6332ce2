"""When a run of approximate message passing has settled, and whether what it ends with is believed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from glassformer.channels.base import Channel
from glassformer.core.estimate import Array
from glassformer.core.solution import Status
from glassformer.designs.base import Design
from glassformer.learners.algorithms.gamp_state import GampState
from glassformer.learners.algorithms.message_passing import Trail
from glassformer.models.base import Model
from glassformer.priors.base import Prior, ScalarPrior, Side

if TYPE_CHECKING:
    from glassformer.learners.bayes import MessagePassing


@dataclass(frozen=True)
class Judgement:
    """What counts as settled, as known, as contradicted.

    Attributes:
        tolerance, floor: change per step, relative to the posterior standard deviation, that settles, and variance
            below which a signal counts as known, each where scores are exact and where they are sampled.
        noisy, quiet, still: steps of at most so many times their sampling noise are noise; so many of them in a row,
            with the claimed error within so much, settle.
        hatching: steps from a vanishing start before small ones mean anything.
        growth: growth of a row's square per step that is no longer noise.
        plateau: variance of every row above which the start may not have been left.
        certain: standard errors from which on slope and square of the score are told apart.
        restarts: random starts tried in all.
        slack, sampled_slack, significant: allowed log-ratio of measured to predicted residual variance, where this many
            standard deviations of chance are less.
        learned: precision of a row from which on something is known of it.
        odds: log-likelihood ratio, in nats, by which labels may be less probable under the estimate than to somebody
            who knows nothing: odds of twenty to one.
        known: variances below so many floors are rounding errors.
        excess: allowed excess of the estimate's power over its claimed overlap; healthy runs at d = 30 stay below 0.2
            in 99 of 100.
        worthless: an estimate whose power exceeds twice its claimed overlap by this much claims to be worse than none.
    """

    tolerance: tuple[float, float] = (1e-3, 5e-3)
    floor: tuple[float, float] = (1e-9, 1e-6)
    noisy: float = 2.0
    quiet: int = 30
    still: float = 0.03
    hatching: int = 25
    growth: float = 1.05
    plateau: float = 0.5
    certain: float = 2.0
    restarts: int = 5
    slack: float = 0.25
    sampled_slack: float = 0.3
    significant: float = 2.5
    learned: float = 0.05
    odds: float = 3.0
    known: float = 100.0
    excess: float = 0.3
    worthless: float = 0.05


JUDGEMENT = Judgement()


@dataclass(frozen=True)
class Judged:
    """One instance whose states are judged; arguments as of the steps that derive from it."""

    model: Model
    design: Design
    labels: Array
    instance: int
    settings: MessagePassing
    seed: int = 0
    side: Side | None = None
    begin: Array | None = None
    believed: ScalarPrior | None = None

    @cached_property
    def prior(self) -> Prior:
        """What is learned, row by row."""
        return self.model.prior if self.believed is None else self.believed

    @cached_property
    def channel(self) -> Channel:
        """What is reported, in fields of rows and columns."""
        return self.model.channel

    def _norm(self, signal: Array) -> float:
        return float(np.sqrt(np.trace(self.prior.gram(signal, signal))))

    def _power(self, state: GampState) -> float:
        """Power of the estimate around the prior mean, all rows together."""
        mean = self.prior.mean_rows(self.design.row_shape)
        return self._norm(state.estimate.signal - mean) ** 2

    @cached_property
    def _cautious(self) -> bool:
        """Whether slopes may be noise: those of sampled scores, and of even labels before their symmetry is broken."""
        return self.channel.sampled or self.channel.even

    def growing(self, old: GampState, new: GampState) -> bool:
        if not self._cautious:
            return False
        before, after = (np.diag(self.prior.gram(s.estimate.signal, s.estimate.signal)) for s in (old, new))
        return bool(np.any((after > JUDGEMENT.growth * before) & (after < 0.5)))

    def wandering(self, state: GampState) -> bool:
        return self.channel.even and float(np.min(np.diag(state.estimate.variance))) > JUDGEMENT.plateau

    def settled(self, state: GampState, trail: Trail) -> bool:
        even, sampled, rows = self.channel.even, self.channel.sampled, self.prior.rows
        if sampled and even and self.side is None and len(trail.sizes) < JUDGEMENT.hatching:
            return False
        given = self.settings.tolerance
        tolerance = JUDGEMENT.tolerance[sampled] if given is None else given
        small = state.size <= tolerance * np.sqrt(rows * state.claimed)
        return bool(small or state.claimed <= self._floor or (sampled and self._at_noise(state, trail)))

    @cached_property
    def _floor(self) -> float:
        given = self.settings.floor
        return JUDGEMENT.floor[self.channel.sampled] if given is None else given

    def _at_noise(self, state: GampState, trail: Trail) -> bool:
        """True when for long all steps were those of sampling noise, and the claimed error stood still."""
        recent = trail.claimed[-JUDGEMENT.quiet :]
        longest = max(trail.sizes[-JUDGEMENT.quiet :])
        if len(recent) < JUDGEMENT.quiet or longest > JUDGEMENT.noisy * state.noise:
            return False
        return bool(np.ptp(recent) <= JUDGEMENT.still * np.mean(recent))

    def evidence(self, state: GampState) -> float:
        r"""Log-probability of the labels under the estimate less that to somebody who knows nothing, in nats.

        The Bethe free entropy :math:`\sum_\mu\log Z_{out}(y_\mu, \omega_\mu, V) + \Psi(A) - \mathrm{Tr}\,QA/2 -
        \mathrm{Tr}(\hat Q - Q)/2`, with the fields :math:`\omega_\mu` that every sample has without its own label, the
        claimed overlap ``Q`` and the power :math:`\hat Q` of the estimate. The last term is exact for normal weights,
        and left out where the power is the larger one. Minus infinity where the estimate is not finite.
        """
        signal, claimed = state.estimate.signal, np.asarray(state.estimate.variance)
        if not (np.isfinite(signal).all() and np.isfinite(claimed).all()):
            return -np.inf
        # Of a signal that counts as known, residuals are rounding errors: labels are asked at a variance above them.
        rounding = JUDGEMENT.known * self._floor
        variance = claimed + rounding * np.eye(len(claimed))
        root = np.sqrt(1 + rounding / np.maximum(np.diag(claimed), np.finfo(float).eps))
        precision = state.assumed / np.outer(root, root)
        with np.errstate(all="ignore"):
            fields = state.fields(self.design, self.instance)
            if np.linalg.eigvalsh(variance)[0] <= 0 or not np.isfinite(fields).all():
                return -np.inf
            labels = float(np.sum(self.channel.log_partitions(self.labels, fields, variance)))
        entropy = self.prior.entropy(precision[None], variance[None])
        size = self.design.samples / self.design.sample_ratio
        # A power above the claimed overlap is judged by itself, in the diagnosis.
        excess = min(self._power(state) - self.prior.rows + float(np.trace(variance)), 0.0)
        prior = float(entropy.value[0] + entropy.error[0]) - 0.5 * self.prior.degrees * excess
        found = labels + size * prior - self._evidence_of_nothing
        return found if np.isfinite(found) else -np.inf

    @cached_property
    def _evidence_of_nothing(self) -> float:
        """Log-probability of the labels before anything is learned."""
        rows = self.prior.rows
        nothing = np.zeros((rows, rows))
        signal, variance = self.prior.mean_rows(self.design.row_shape), np.eye(rows)
        if self.side is not None:
            known = self.prior.denoise_rows(
                np.sqrt(self.side.strength) * self.side.observation, self.side.strength * np.eye(rows)
            )
            signal, variance = known.signal, known.variance
        fields = self.design.fields(signal, self.instance)
        labels = float(np.sum(self.channel.log_partitions(self.labels, fields, variance)))
        entropy = self.prior.entropy(nothing[None], variance[None]).value[0]
        return labels + self.design.samples / self.design.sample_ratio * float(entropy)

    def _improbable(self, state: GampState) -> bool:
        """Whether the labels are less probable under the estimate than to somebody who knows nothing.

        Asked where states may lock in at a wrong signal: after random starts, and where scores are sampled. A signal
        to start from may lead to a state that is correct and less probable than another one.
        """
        return self._cautious and self.begin is None and self.evidence(state) < -JUDGEMENT.odds

    def diagnosis(self, state: GampState) -> Status:
        """What the data say of a state that settled.

        Residuals must agree with the claimed variance, the power with the claimed overlap (both are Nishimori
        identities), and labels must be at least as probable as to somebody who knows nothing.
        """
        claimed = state.claimed
        sampling = np.sqrt(2 / self.design.samples)
        fluctuation = self.prior.power_deviation(self.prior.signal_shape(self.design.row_shape))
        chance = sampling + fluctuation
        slack = JUDGEMENT.slack
        # A residual at rounding error says little more than that it is one.
        rounding = claimed <= JUDGEMENT.known * self._floor
        if self.channel.sampled:
            agrees = rounding or not state.contradicted
        else:
            deviation = abs(np.log(max(state.ratio, 1e-300)))
            agrees = deviation <= (slack + 5 * chance if rounding else max(slack, JUDGEMENT.significant * sampling))
        # Around the prior mean: power q - q_0 where overlap 1 - V is claimed, which makes the error 1 - V.
        power = self._power(state) / self.prior.rows
        allowed = JUDGEMENT.excess + 2 * chance * (1 - claimed)
        largest = min(allowed, (1 - claimed) * (1 + 4 * fluctuation) + JUDGEMENT.worthless)
        believed = agrees and power - (1 - claimed) <= largest and not self._improbable(state)
        return Status.CONVERGED if believed else Status.CONTRADICTED
