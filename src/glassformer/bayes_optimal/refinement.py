r"""Refinement of fixed points of maps with sampled averages, by Newton steps with all data points.

Steps are taken until the residual is a fraction of the sampling error, which is estimated from the spread between
replicas of the data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from glassformer.bayes_optimal.evolution_map import EvolutionMap, SampledStep, is_covariance
from glassformer.bayes_optimal.first_stable import repelling
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.numerics.fixed_points.solve import Flags, Search, StepMethod
from glassformer.numerics.quasi_random import confidence_factor

# Numbers without another origin were chosen by trial on the models of the test suite.

# Newton steps: largest number, largest number without progress (a step longer by the inverse of the factor counts
# twice), and the factor by which progress shortens the step.
_MOST_ROUNDS, _PATIENCE, _GAIN = 24, 4, 0.7
# The last step is shorter than this share of the sampling error, in a preliminary (True) and in the final refinement.
_LAST_STEP = {True: 0.5, False: 1.0}
# Share of the last step that may remain after it: half of the step where two fixed points merge.
_MISSING_SHARE = 0.5
# Broyden's update needs steps of this many standard errors: shorter ones measure the roughness of the map.
_SIGNIFICANT = 2.0
# A residual that falls by more than this multiple of a step is noise: a monotone map reduces it by at most the step.
_STEEPEST = 2.0
# Standard error, in units of the prior's covariance, above which a fixed point counts as undetermined.
_UNDETERMINED = 0.2
# Longest step as a share of the covariance, and halvings of a step that leaves the cone.
_LONGEST_STEP, _HALVINGS = 0.5, 20


@dataclass(frozen=True, eq=False)
class Refinement(StepMethod[EvolutionMap]):
    r"""Newton steps of a sampled map, with Broyden's update, from coarse fixed points.

    A point has converged if its Newton step is below the sampling error, or, once the steps end or no longer become
    shorter, below the sum of sampling error and bias. ``settings.tolerance`` is that of the residual relative to ``V``.

    In the result ``extra["q_hat"]`` is :math:`\hat Q` at the fixed point, ``extra["q_hat_error"]`` its standard error,
    and ``extra["error_components"]``, shape (batch, parts, P, P), contains independent errors of the fixed point, each
    of one standard error. With ``preliminary``, ``extra["slope"]`` is the slope of the map and ``extra["unstable"]`` is
    as in ``coarse``. The error estimate combines residual and sampling error, amplified by the slope, with a confidence
    of 95 %. Points marked as unstable do not converge, unless slopes from more data points show that they are stable.

    Args:
        coarse: coarse solution at the start, with slopes and instabilities, from
            :class:`~glassformer.bayes_optimal.first_stable.FirstStable`.
        preliminary: whether a refinement with more data points follows: slopes are then computed at every step, and
            the refinement ends when steps become too long.
    """

    coarse: Solution
    preliminary: bool = False

    def begin(self, function: EvolutionMap, start: Array, settings: Iteration) -> Search:
        return _RefinementSearch(function, start, settings, self)


class _Errors(NamedTuple):
    """Errors of fixed points after a step.

    Attributes:
        components: independent errors, each of one standard error, shape (active, parts, P^2).
        sampling: standard error of sampling, shape (active,).
        bias: systematic error of sampled posteriors, shape (active,).
        confidence: factor from a standard error to half a confidence interval.
    """

    components: Array
    sampling: Array
    bias: Array
    confidence: float


class _RefinementSearch(Search):
    """Present states, and the best ones so far: those that have converged, or else those with the shortest step."""

    def __init__(self, update: EvolutionMap, start: Array, settings: Iteration, method: Refinement) -> None:
        super().__init__(start)
        coarse, (batch, size) = method.coarse, start.shape[:2]
        self.update, self.settings, self.preliminary = update, settings, method.preliminary
        self.state, self.gain = start.copy(), _newton_gain(coarse.extra["slope"])
        self.best_gain, self.unstable = self.gain.copy(), coarse.extra["unstable"].copy()
        self.residual, self.iterations = coarse.residual.copy(), coarse.iterations.copy()
        self.coarse_history = coarse.history
        self.q_hat, self.q_hat_error = coarse.extra["q_hat"].copy(), coarse.extra["q_hat_error"].copy()
        self.error_components = np.zeros((batch, REPLICAS + 3, size, size))
        self.rounds, self.waited = 0, np.zeros(batch, dtype=int)
        self.old_state, self.old_residual = np.full((2, *start.shape), np.nan)
        self.shortest_step, self.best_uncertainty = np.full((2, batch), np.inf)
        self.conjugates = np.full((2, len(update.alpha), size, size), np.nan)
        self.active = np.flatnonzero(is_covariance(start))
        self.status = np.array(coarse.status, dtype=object)
        self.status[self.active] = Status.ITERATION_LIMIT

    def step(self) -> None:
        active, here = self.active, self.state[self.active]
        sampled, slope = self._evaluate(here)
        usable = self._usable(sampled)
        residual = sampled.value - here
        self._update_gain(here, residual, sampled, slope)
        step = np.einsum("nij,nj->ni", self.gain[active], _flat(residual)).reshape(here.shape)
        step = self.update.respect_symmetries(step, here)
        length, norm = np.linalg.norm(step, axis=(1, 2)), np.linalg.norm(_flat(here), axis=1)
        if not self.preliminary:
            # For a monotone map the distance to the fixed point is at least the length of the residual.
            length = np.maximum(length, np.linalg.norm(_flat(residual), axis=1))
        errors = self._errors(step, sampled)
        last = self.settings.tolerance * norm + self.settings.floor
        done = usable & (length <= np.maximum(last, _LAST_STEP[self.preliminary] * errors.sampling))
        self.status[active[done]] = Status.CONVERGED
        self.iterations[active] += 1
        self._keep_best(here, residual, length, errors, usable, done)
        moved = _step_in_cone(here, step, _LONGEST_STEP * norm / np.maximum(length, 1e-300))
        self.state[active] = moved
        # The last step needs no further evaluation: what remains is of the order of its square.
        self.value[active[done]] = moved[done]
        shortened = np.linalg.norm(moved - here - step, axis=(1, 2)) > 1e-9 * length
        # A shortened step does not measure progress. In a preliminary refinement it ends the steps, because few data
        # points may lead to a point to which all data points would not.
        self.waited[active[shortened]] = 0
        ended = shortened if self.preliminary else self.waited[active] >= _PATIENCE
        self.rounds += 1
        self.active = active[usable & ~done & ~ended] if self.rounds < _MOST_ROUNDS else active[:0]

    def solution(self, **extra: Any) -> Solution:
        # Points whose steps ended, or did not become shorter, have converged if their shortest step is below sampling
        # error and bias together.
        status, uncertainty = self.status, self.best_uncertainty
        stalled = np.array([one is Status.ITERATION_LIMIT for one in status], dtype=bool)
        status[stalled & np.isfinite(self.shortest_step) & (self.shortest_step <= uncertainty)] = Status.CONVERGED
        status[self.unstable & (status == Status.CONVERGED)] = Status.INTEGRATION_NOT_CONVERGED
        status[(uncertainty > _UNDETERMINED) & np.isfinite(uncertainty)] = Status.INTEGRATION_NOT_CONVERGED
        extra |= {"q_hat": self.q_hat, "q_hat_error": self.q_hat_error, "error_components": self.error_components}
        if self.preliminary:
            slope = np.eye(self.gain.shape[-1]) - np.linalg.inv(self.best_gain)
            extra |= {"slope": slope, "unstable": self.unstable}
        return replace(super().solution(**extra), history=self.coarse_history)

    def _evaluate(self, here: Array) -> tuple[SampledStep, Array | None]:
        """Return the map at the active states, and its slope in a preliminary refinement."""
        if self.preliminary:
            return self.update.step_with_slope(here, self.active, self.conjugates)
        return self.update.step_with_replicas(here, self.active, self.conjugates), None

    def _usable(self, sampled: SampledStep) -> Flags:
        """Return which active elements stay inside the cone; the others get their status."""
        usable, finite = is_covariance(sampled.value), np.isfinite(sampled.value).all(axis=(1, 2))
        self.status[self.active[~usable & finite]] = Status.OUTSIDE_CONE
        self.status[self.active[~finite]] = Status.NON_FINITE
        return usable

    def _update_gain(self, here: Array, residual: Array, sampled: SampledStep, slope: Array | None) -> None:
        """Update ``(1 - F')^-1``, by which a residual becomes a Newton step."""
        active, gain = self.active, self.gain[self.active]
        if slope is None:
            before, old = self.old_state[active], self.old_residual[active]
            # A change of sign of the residual is significant even along a short step: the residual vanishes on it.
            reversed_sign = np.sum(_flat(residual) * _flat(old), axis=1) < 0
            rough = np.where(reversed_sign, 0.0, _SIGNIFICANT * _norm(_sampling_errors(gain, sampled)))
            self.gain[active] = _broyden_update(gain, before, here, _flat(residual) - _flat(old), rough)
        else:
            self.gain[active] = _newton_gain(slope)
            self.unstable[active] &= repelling(slope)
        self.old_state[active], self.old_residual[active] = here, residual

    def _errors(self, step: Array, sampled: SampledStep) -> _Errors:
        """Return sampling errors, the bias of sampled posteriors (a systematic error), and what the step leaves."""
        gain = self.gain[self.active]
        sampling = _sampling_errors(gain, sampled)
        bias = _amplify(gain, _flat(sampled.with_bias - sampled.value)[:, None])
        confidence = confidence_factor(sampled.leave_one_out.shape[1])
        certain = np.concatenate([bias, _MISSING_SHARE * step.reshape(bias.shape)], axis=1) / confidence
        components = np.concatenate([sampling, certain], axis=1)
        return _Errors(components, _norm(sampling), _norm(bias), confidence)

    def _keep_best(
        self, here: Array, residual: Array, length: Array, errors: _Errors, usable: Flags, done: Flags
    ) -> None:
        """Keep the active states that have converged, or whose step is the shortest so far."""
        active, size = self.active, np.linalg.norm(_flat(residual), axis=1)
        share = length / self.shortest_step[active]
        self.waited[active] = np.where(share < _GAIN, 0, self.waited[active] + 1 + (share > 1 / _GAIN))
        better = usable & (done | (length < self.shortest_step[active]))
        improved = active[better]
        self.shortest_step[improved] = length[better]
        self.best_uncertainty[improved] = (errors.sampling + errors.bias)[better]
        self.value[improved], self.residual[improved] = here[better], size[better]
        self.best_gain[improved] = self.gain[improved]
        total = np.maximum(_MISSING_SHARE * length + errors.confidence * errors.sampling + errors.bias, size)
        self.error_estimate[improved] = total[better]
        components = errors.components[better]
        # Exact averages have one replica, and thus fewer components.
        self.error_components[improved, : components.shape[1]] = components.reshape(
            *components.shape[:2], *here.shape[1:]
        )
        self.q_hat[improved], self.q_hat_error[improved] = self.conjugates[:, improved]


def _flat(matrices: Array) -> Array:
    return matrices.reshape(len(matrices), -1)


def _newton_gain(slope: Array) -> Array:
    """Return ``(1 - F')^-1`` of stable points: negative eigenvalues of ``1 - F'``, caused by sampling, change sign.

    Close to an exactly known signal slopes may have any size, and ``1 - F'`` may be singular up to rounding.
    """
    matrices = np.eye(slope.shape[-1]) - slope
    values, vectors = np.linalg.eig(matrices)
    mirrored = (vectors @ (np.where(values.real < 0, -values, values)[:, :, None] * np.linalg.pinv(vectors))).real
    repelled = np.any(values.real < 0, axis=1)
    gains = []
    for matrix in np.where(repelled[:, None, None], mirrored, matrices):
        try:
            gains.append(np.linalg.inv(matrix))
        except np.linalg.LinAlgError:
            gains.append(np.linalg.pinv(matrix))
    return np.reshape(gains, slope.shape)


def _sampling_errors(gain: Array, sampled: SampledStep) -> Array:
    """Return independent errors of fixed points, shape (n, parts, P^2), whose squares sum to the variance.

    The errors are those of the jackknife over replicas, and of the unseen share of the data.
    """
    rest = sampled.leave_one_out
    jackknife = np.sqrt((rest.shape[1] - 1) / rest.shape[1]) * (rest - rest.mean(axis=1, keepdims=True))
    parts = np.concatenate([jackknife, (sampled.without_unseen - sampled.value)[:, None]], axis=1)
    return _amplify(gain, parts.reshape(*parts.shape[:2], -1))


def _amplify(gain: Array, parts: Array) -> Array:
    """Return changes of fixed points under changes of a monotone map, shape (n, parts, P^2), at least as large."""
    changes = np.einsum("nij,nrj->nri", gain, parts)
    return np.asarray(changes * np.maximum(1.0, _norm(parts) / np.maximum(_norm(changes), 1e-300))[:, None, None])


def _norm(parts: Array) -> Array:
    """Return the standard error of the sum of independent parts, shape (n,)."""
    return np.asarray(np.sqrt(np.sum(parts**2, axis=(1, 2))))


def _step_in_cone(here: Array, step: Array, share: Array) -> Array:
    """Return states after a share, at most one, of the step, halved until the state is a covariance."""
    share = np.minimum(share, 1.0)
    for _ in range(_HALVINGS):
        inside = is_covariance(here + share[:, None, None] * step)
        share = np.where(inside, share, 0.5 * share)
    moved = here + share[:, None, None] * step
    values, vectors = np.linalg.eigh(moved)
    # Variances never exceed those of the prior, and a step removes at most half of the overlap of a direction.
    before = np.minimum(np.einsum("npa,npq,nqa->na", vectors, here, vectors), 1.0)
    capped = np.where(values > 1, 0.5 * (1 + before), values)
    beyond = values[:, -1] > 1
    moved[beyond] = ((vectors * capped[:, None, :]) @ np.swapaxes(vectors, 1, 2))[beyond]
    return moved


def _broyden_update(gain: Array, before: Array, here: Array, change: Array, rough: Array) -> Array:
    """Return Broyden's update of ``(1 - F')^-1`` from the change of the residual along the last step.

    Steps are measured in units of the covariance, so that a direction of large variance does not change the slope of a
    direction of small variance. The gain does not change after the first step, after a step shorter than ``rough``,
    which measures the roughness of the map, and if the residual falls by far more than the step, which a monotone map
    excludes.
    """
    step = here - before
    values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (before + here)))
    # Inverse of the mean covariance of both ends, whose eigenvalues may round to zero.
    inverse = (vectors / np.maximum(values, 1e-12)[:, None, :]) @ np.swapaxes(vectors, 1, 2)
    flat, weighted = (part.reshape(len(here), -1) for part in (step, inverse @ step @ inverse))
    predicted = np.einsum("nij,nj->ni", gain, change)
    left = np.einsum("ni,nij->nj", weighted, gain)
    scale, square = np.sum(left * change, axis=1), np.sum(weighted * flat, axis=1)
    usable = np.isfinite(scale) & (np.abs(scale) > 1e-12 * square) & (scale != 0)
    usable &= (np.linalg.norm(flat, axis=1) >= rough) & (np.sum(weighted * change, axis=1) >= -_STEEPEST * square)
    with np.errstate(divide="ignore", invalid="ignore"):
        update = (flat + predicted)[:, :, None] * left[:, None, :] / scale[:, None, None]
    return np.asarray(np.where(usable[:, None, None], gain - update, gain))
