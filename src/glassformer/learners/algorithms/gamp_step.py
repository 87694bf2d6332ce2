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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from glassformer.core.integral import Array
from glassformer.core.numerics.eigenvalues import with_eigenvalues
from glassformer.core.solution import Status
from glassformer.learners.algorithms.message_passing import Trail
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel
from glassformer.models.channels.field_averages import Scores
from glassformer.models.designs.base import Design
from glassformer.models.priors.base import Estimate, Prior, Side
from glassformer.models.priors.scalar import ScalarPrior

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
        known: variances below so many floors are rounding errors.
        excess: allowed excess of the estimate's power over its claimed overlap; healthy runs at d = 30 stay below 0.2
            in 99 of 100.
        worthless: an estimate whose power exceeds twice its claimed overlap by this much claims to be worse than none.
        creeping: steps in a row that follow each other, the least cosine between them that does, and how little they
            shrink: then the sum of those to come is leapt over.
        farthest: steps leapt over at once.
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
    known: float = 100.0
    excess: float = 0.3
    worthless: float = 0.05
    creeping: tuple[int, float, float] = (8, 0.9, 0.9)
    farthest: float = 200.0


JUDGEMENT = Judgement()


@dataclass(frozen=True)
class Creep:
    """Steps that follow each other in one direction, each a little shorter than the last.

    They go along what labels tell little of, such as the scale of a signal of which only comparisons are seen: the
    prior alone pulls it to its place, slowly. A geometric series of steps has a known end.

    Attributes:
        step: the last of them.
        size: its length.
        first: length of the first.
        count: how many they are.
    """

    step: Array
    size: float
    first: float
    count: int = 0

    def then(self, step: Array, size: float) -> Creep:
        """With one more step, or a new beginning."""
        lengths = float(np.linalg.norm(step)) * float(np.linalg.norm(self.step))
        cosine = float(np.vdot(step, self.step)) / max(lengths, 1e-300)
        if cosine < JUDGEMENT.creeping[1]:
            return Creep(step, size, size)
        return Creep(step, size, self.first, self.count + 1)

    @property
    def ahead(self) -> float:
        """The sum of the steps to come, in units of the last one; zero where they are too few to tell, or end soon.

        Example:
            >>> round(Creep(np.ones(1), 0.99**8, 1.0, 8).ahead, 6)
            99.0
        """
        count, _, slow = JUDGEMENT.creeping
        rate = (self.size / self.first) ** (1 / self.count) if self.count >= count else 0.0
        return min(rate / (1 - rate), JUDGEMENT.farthest) if slow <= rate < 1 else 0.0


@dataclass
class GampState:
    """One instance between two steps.

    Attributes:
        estimate: signal of shape (P, ...), covariance and Onsager coefficient of shape (P, P).
        score: shape (n, P, K).
        onsager: coefficient of the score in the next fields, shape (P, P).
        precision: as measured in the last step.
        assumed: the precision that the estimate was denoised with.
        ratio: measured square over measured slope of the score.
        size: root-mean-square change of the signal.
        noise: what the sampling of the scores alone would have changed it by.
        damping: weight of this state in the next one.
        first: before any step.
        creep: the step that led here, where it may be one of many that follow each other.
    """

    estimate: Estimate
    score: Array
    onsager: Array
    precision: Array
    assumed: Array
    ratio: float = 1.0
    size: float = np.inf
    noise: float = 0.0
    damping: float = 0.0
    first: bool = True
    creep: Creep | None = None

    @property
    def claimed(self) -> float:
        """Mean over the rows of the claimed error."""
        return float(np.trace(self.estimate.variance)) / len(self.onsager)


class Sight(NamedTuple):
    r"""The signal of one row as an estimate has seen it, and what labels leave beside it.

    Attributes:
        matrix: signal and white noise.
        noise: variance of the latter, measured.
        fields: of the samples, each without its own label, shape (n,).
        rest: what squares of residuals, in units of their slopes, have beyond the claimed error: for linear labels
            their noise.
    """

    matrix: Array
    noise: float
    fields: Array
    rest: float


@dataclass(frozen=True)
class GampStep:
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
        return (self.model.prior if self.believed is None else self.believed).in_rows

    @cached_property
    def channel(self) -> Channel:
        """What is reported, in fields of rows and columns."""
        return self.model.channel.in_rows

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
        estimate = Estimate(self.prior.mean(shape), np.eye(rows), np.eye(rows))
        if self.side is not None:
            estimate = self._denoised(np.zeros(shape), nothing, None)
        signal = estimate.signal if self.begin is None else self.begin
        if self._random > 0:
            rng = np.random.default_rng([self.seed, self.instance, attempt])
            signal = signal + self._random * rng.standard_normal(shape)
        damping = self.design.damping if self.settings.damping is None else self.settings.damping
        score = np.zeros((self.design.samples, *self.channel.field_components))
        return GampState(replace(estimate, signal=signal), score, nothing, nothing, nothing, damping=damping)

    def advance(self, state: GampState) -> tuple[GampState, float]:
        """The next state, and the precision measured on the way: the quality of the estimate it began with."""
        old, weight = state.estimate, 0.0 if state.first else state.damping
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            omega = self.design.fields(old.signal, self.instance) - _mixed(state.onsager, state.score)
            found = self.channel.scores(self.labels, omega, old.variance)
            fresh = found.first if found.first is found.second else 0.5 * (found.first + found.second)
            score = fresh if weight == 0 else weight * state.score + (1 - weight) * fresh
            gain, square, ratio = self._measured(found)
            precision = gain[:, None] * square * gain
            if not np.isfinite(precision).all():
                return replace(state, size=np.nan), 0.0
            assumed = _smoothed(state.assumed, precision, weight)
            gain = gain * _ratio(np.diag(assumed), np.diag(precision))
        seen = self.design.correlation(score, self.instance)
        field = np.tensordot(np.diag(gain), seen, axes=1) + np.tensordot(assumed, old.signal, axes=1)
        new = self._denoised(field, assumed, old.memory)
        step = new.signal - old.signal
        size = self._norm(step)
        creep = Creep(step, size, size) if state.creep is None else state.creep.then(step, size)
        following = GampState(
            estimate=self.prior.mix(old, new, weight),
            score=score,
            onsager=new.onsager * gain,
            precision=precision,
            assumed=assumed,
            ratio=ratio,
            size=size,
            noise=self._blur(found, new.variance * gain),
            damping=state.damping,
            first=False,
            creep=creep,
        )
        return _leapt(following, (1 - weight) * creep.ahead), float(np.trace(precision))

    def sight(self, state: GampState) -> Sight:
        """What the estimate in a state of one row is about to be made of."""
        signal, variance = state.estimate.signal, state.estimate.variance
        fields = self.design.fields(signal, self.instance) - _mixed(state.onsager, state.score)
        found = self.channel.scores(self.labels, fields, variance)
        precision = self.design.sample_ratio * float(np.mean(found.curvature))
        matrix = signal[0] + self.design.correlation(found.first, self.instance)[0] / precision
        noise = self.design.sample_ratio * float(np.mean(found.first * found.second)) / precision**2
        rest = max(self.design.sample_ratio * noise - state.claimed, 0.0)
        return Sight(matrix, noise, fields[:, 0, 0], rest)

    def _denoised(self, field: Array, precision: Array, memory: object) -> Estimate:
        if self.side is not None:
            field = field + np.sqrt(self.side.strength) * self.side.observation
            precision = precision + self.side.strength * np.eye(len(precision))
        return self.prior.denoise(field, precision, memory)

    def _norm(self, signal: Array) -> float:
        return float(np.sqrt(np.trace(self.prior.gram(signal, signal))))

    def _blur(self, found: Scores, gain: Array) -> float:
        """What the sampling of the scores moves the signal by: half the difference of independent estimates."""
        if not self.channel.sampled:
            return 0.0
        halves = self.design.correlation(0.5 * (found.first - found.second), self.instance)
        return self._norm(np.tensordot(gain, halves, axes=1))

    @cached_property
    def _cautious(self) -> bool:
        """Whether slopes may be noise: those of sampled scores, and of even labels before their symmetry is broken."""
        return self.channel.sampled or self.channel.even

    def _measured(self, found: Scores) -> tuple[Array, Array, float]:
        """Slope over square of the score, row by row; the square, shape (P, P); and square over slope of all rows.

        Slope and square are equal on average (Nishimori). Where slopes may be noise they are told apart as far as their
        difference exceeds its own standard error, so that noise does not hold back a start without overlap, and the
        gain is at most one: close to zero overlap they are many times the square.
        """
        product = np.einsum("nak,nbk->ab", found.first, found.second, optimize=True) / len(found.first)
        own, raw = 0.5 * (product + product.T), np.einsum("naa->na", found.curvature)
        slope = raw.mean(axis=0)
        if self.channel.sampled:
            # The nearest positive semi-definite matrix: a sampled square may miss being one.
            own = with_eigenvalues(own, lambda values: np.maximum(values, 0.0))
        if self._cautious:
            gaps = raw - np.sum(found.first * found.second, axis=2)
            gap, error = gaps.mean(axis=0), gaps.std(axis=0) / np.sqrt(len(gaps))
            believed = np.where(error > 0, np.maximum(0.0, 1 - (JUDGEMENT.certain * error / gap) ** 2), 0.0)
            slope = np.diag(own) + np.nan_to_num(believed) * gap
        trusted = self.design.sample_ratio * np.where(slope > 0, slope, np.diag(own))
        square = self.design.sample_ratio * own
        gain = _ratio(trusted, np.diag(square))
        claimed = np.sum(trusted if self.channel.sampled else self.design.sample_ratio * raw.mean(axis=0))
        ratio = float(np.trace(square) / claimed) if claimed > 0 else np.inf
        return np.minimum(gain, 1.0) if self._cautious else gain, square, ratio

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

    def diagnosis(self, state: GampState) -> Status:
        """Whether both Nishimori identities hold: residual against claimed variance, power against claimed overlap."""
        claimed, deviation = state.claimed, abs(np.log(max(state.ratio, 1e-300)))
        sampling = np.sqrt(2 / self.design.samples)
        shape = (self.prior.rows, *self.design.row_shape)
        fluctuation = self.prior.power_deviation(shape)
        chance = sampling + fluctuation
        slack = JUDGEMENT.sampled_slack if self.channel.sampled else JUDGEMENT.slack
        # A residual at rounding error says little more than that it is one.
        rounding = claimed <= JUDGEMENT.known * self._floor
        agrees = deviation <= (slack + 5 * chance if rounding else max(slack, JUDGEMENT.significant * sampling))
        # Around the prior mean: power q - q_0 where overlap 1 - V is claimed, which makes the error 1 - V.
        power = self._norm(state.estimate.signal - self.prior.mean(shape)) ** 2 / self.prior.rows
        allowed = JUDGEMENT.excess + 2 * chance * (1 - claimed)
        largest = min(allowed, (1 - claimed) * (1 + 4 * fluctuation) + JUDGEMENT.worthless)
        return Status.CONVERGED if agrees and power - (1 - claimed) <= largest else Status.CONTRADICTED


def _leapt(state: GampState, steps: float) -> GampState:
    """Carried on by so many steps like the last one."""
    if steps == 0 or state.creep is None:
        return state
    signal = state.estimate.signal + steps * state.creep.step
    return replace(state, estimate=replace(state.estimate, signal=signal), creep=None)


def _mixed(matrix: Array, fields: Array) -> Array:
    """A matrix over the rows applied to fields, shape (n, P, K)."""
    return np.asarray(matrix[0, 0] * fields if len(matrix) == 1 else matrix @ fields)


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
