"""The checks of channels, of thresholds and free entropy against state evolution, and of theory against data.

A check returns its deviation in units of the tolerance, so that it passes up to one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

import numpy as np

from glassformer.bayes_optimal.bounds import growth_bound, information_bound, sample_data_points
from glassformer.bayes_optimal.equation_of_state import information_at, natural_scale
from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.solve import solve_state_evolution
from glassformer.bayes_optimal.staircase import known_at_any_ratio
from glassformer.bayes_optimal.subspaces import range_of
from glassformer.bayes_optimal.threshold_results import Threshold
from glassformer.channels.base import Channel
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.models.base import Model
from glassformer.priors.signals import denoise_rows, signal_shape
from glassformer.testing.report import (
    AVERAGED,
    EXACT,
    LAW,
    SAMPLED,
    SIGMAS,
    SLOPE,
    VARIANCES,
    Case,
    Deviation,
    derivative,
    precisions,
)
from glassformer.verbs.simulate import simulate
from glassformer.verbs.thresholds import thresholds

D = TypeVar("D", float, Deviation)


# --- channels: scores, labels and information -------------------------------------------------------------------------


def _at_covariances(check: Callable[[Model, Array, int], D]) -> Callable[[Case], D]:
    """Return the check of a case: the largest deviation over posterior covariances, shape (P, P)."""

    @wraps(check)
    def of_case(case: Case) -> D:
        return max(check(case.model, variance, case.seed) for variance in _covariances(case.model))

    return of_case


def _covariances(model: Model) -> list[Array]:
    """Return posterior covariances, with correlated rows if the prior allows them, and no exactly known row."""
    prior = model.prior
    if prior.rows == 1:
        return [np.array([[variance]]) for variance in VARIANCES]
    shared = 0.0 if prior.diagonal else 0.08
    return [np.diag(np.linspace(0.6, 0.4, prior.rows) - shared) + shared]


def _sampled_labels(model: Model, variance: Array, count: int, seed: int) -> tuple[Channel, Array, Array, Array]:
    """Return the channel at its highest accuracy, labels, means of their fields, and true deviations from the means."""
    channel = model.channel.inference.high_accuracy().channel
    return channel, *sample_data_points(model, channel, variance, count, np.random.default_rng(seed))


def _integration_error(model: Model) -> float:
    """Return the relative integration error of a channel with exact averages."""
    value, error = information_at(model, np.array(VARIANCES[:1]))
    return float(error[0] / value[0])


def _relative_deviation(gaps: Array, allowed: Array | float) -> float:
    """Return the largest mean over the first axis, in units of a tolerance of standard errors plus a constant."""
    return float(np.max(np.abs(gaps.mean(axis=0)) / (SIGMAS * gaps.std(axis=0) / np.sqrt(len(gaps)) + allowed)))


@_at_covariances
def check_score(model: Model, variance: Array, seed: int) -> float:
    """Return the deviation of scores (means of sampled ones) from derivatives of the log partition function."""
    # Integrals of single data points are about ten times less accurate than averages over data points.
    allowed = SAMPLED if model.channel.inference.sampled else max(EXACT, 10 * _integration_error(model))
    # Where single data points have errors as large as the tolerance of means, means are compared.
    sampled = allowed > 0.5 * SAMPLED
    count, step, allowed = (120, 0.1, SAMPLED) if sampled else (12, 1e-3, allowed)
    channel, y, omega, _ = _sampled_labels(model, variance, count, seed)
    units = np.eye(omega[0].size).reshape(-1, *omega.shape[1:])
    scores = channel.inference.scores(y, omega, variance)
    score = 0.5 * (scores.first + scores.second).reshape(count, -1)
    slopes = [
        derivative(lambda x: channel.inference.log_partitions(y, x, variance), omega, step * unit, sampled)
        for unit in units
    ]
    own, gaps = (part if sampled else part[None] for part in (score, score - np.stack(slopes, axis=1) / step))
    return _relative_deviation(gaps, allowed * (1 + np.abs(own.mean(axis=0)).max(axis=0)))


@_at_covariances
def check_nishimori(model: Model, variance: Array, seed: int) -> float:
    """Return the deviation of mean scores from mean shifts, of squares from slopes, and of both from the information.

    Only hidden states shift fields.
    """
    sampled = model.channel.inference.sampled
    count, tolerance = (1000, AVERAGED) if sampled else (20_000, 10 * _integration_error(model) + EXACT)
    channel, y, omega, _ = _sampled_labels(model, variance, count, seed)
    scores = channel.inference.scores(y, omega, variance)
    square = np.einsum("nak,nbk->nab", scores.first, scores.second)
    information = square.mean(axis=0) if sampled else channel.inference.information(variance[None]).value[0]
    size = np.trace(information) if sampled else information[0, 0]
    score = 0.5 * (scores.first + scores.second)
    pairs = [
        (score - channel.fields.mean_shift, np.sqrt(size)),
        (square - scores.curvature, size),
        (square - information, size),
    ]
    if not sampled:
        expected = model.channel.inference.averages(variance[None]).log_partition.value[0]
        pairs.append((channel.inference.log_partitions(y, omega, variance) - expected, 1.0))
    law_gap = channel.labels.law_gap() if channel.labels.law_gap else 0.0
    return max(law_gap / LAW, *(_relative_deviation(gaps, tolerance * scale) for gaps, scale in pairs))


@_at_covariances
def check_information(model: Model, variance: Array, seed: int) -> Deviation:
    """Return the deviation of the information of a row from scores times true deviations, or from its lower bound."""
    count = 1000 if model.channel.inference.sampled else 20_000
    channel, y, omega, deviation = _sampled_labels(model, variance, count, seed)
    scores = channel.inference.scores(y, omega, variance)
    products = np.einsum("nak,nak->na", 0.5 * (scores.first + scores.second), deviation)
    used, error = (np.diag(part[0]) for part in model.channel.inference.information(variance[None]))
    units = np.eye(len(used))
    bounds = [information_bound(model, variance, unit, seed=seed) for unit in units]
    worst = Deviation(0.0, "")
    for k, bound in enumerate(bounds):
        mean, standard_error = products[:, k].mean(), products[:, k].std() / np.sqrt(count)
        above = (bound.value - used[k]) / (SIGMAS * np.hypot(error[k], bound.error) + EXACT)
        gap = abs(mean - used[k]) / (SIGMAS * np.hypot(error[k], standard_error) + EXACT * used[k])
        text = f"{used[k]:.6g} +- {error[k]:.2g} of {model.row_names[k]}, "
        other = (
            f"at least {bound.value:.6g} +- {bound.error:.2g}" if above > gap else f"{mean:.6g} +- {standard_error:.2g}"
        )
        worst = max(worst, Deviation(float(max(above, gap)), text + other))
    return worst


# --- theory: thresholds and free entropy ------------------------------------------------------------------------------


def check_weak_recovery(case: Case) -> Deviation:
    """Return the largest excess of a threshold of weak recovery over its bound, given the directions known before."""
    model, seed = case.model, case.seed
    prior, degrees = model.prior, model.prior.degrees
    entries = [entry for entry in thresholds(model).entries if entry.name.startswith("weak_recovery")]
    if prior.side > 0 or (model.channel.labels.even and prior.weak_recovery_onset > 0):
        raise IncompatibleError("no threshold of weak recovery follows from the labels alone")
    worst, known = Deviation(0.0, ""), np.zeros((prior.rows, prior.rows))
    if not model.channel.labels.even and (prior.weak_recovery_onset > 0 or known_at_any_ratio(model).any()):
        top = max(information_bound(model, np.eye(prior.rows), unit, seed=seed) for unit in np.eye(prior.rows))
        start = degrees * prior.weak_recovery_onset / top.value
        worst, known = _above(entries[0], start, start * top.error / top.value), known_at_any_ratio(model)
        entries = entries[1:]
    for entry in entries:
        variance = np.eye(prior.rows)
        if known.any():
            update = EvolutionMap(model, np.array([entry.alpha]), model.channel, subspace=known)
            variance = solve_state_evolution(update).value[0]
        rate, error = growth_bound(model, variance, np.eye(prior.rows) - known, seed=seed)
        # There is no bound if no cell contains information.
        most, bound_error = (degrees / rate, degrees * error / rate**2) if rate > SIGMAS * error else (np.inf, 0.0)
        worst = max(worst, _above(entry, most, bound_error))
        if entry.subspace is None or not np.isfinite(entry.alpha):
            break
        known = range_of(known + np.array(entry.subspace))
    return worst


def _above(entry: Threshold, most: float, bound_error: float) -> Deviation:
    """Return the excess of a threshold over its bound."""
    numbers = f"{entry.name} = {entry.alpha:.6g} +- {entry.error_estimate:.2g}, at most {most:.6g} +- {bound_error:.2g}"
    if not np.isfinite(most):
        return Deviation(0.0, numbers)
    allowed = SIGMAS * np.hypot(entry.error_estimate, bound_error) + EXACT * (1 + most)
    return Deviation(float(max(0.0, (entry.alpha - most) / allowed)), numbers)


def check_gradient(case: Case) -> float:
    """Return the deviation of differences of the free entropy from its gradient in the conjugate overlap."""
    model = case.model
    prior, channel, alpha = model.prior, model.channel, 0.7 * natural_scale(model)
    step, tolerance = (0.1, SLOPE) if channel.inference.sampled else (1e-2, EXACT)
    scales = [0.5] if channel.inference.sampled else np.geomspace(0.25, 5, 4)
    start = precisions(model, scales)

    def slope(function: Callable[[Array], Array]) -> Array:
        return (
            derivative(lambda t: function(start * np.exp(t)), np.zeros(()), np.array(step), channel.inference.sampled)
            / step
        )

    def variance(q_hat: Array) -> Array:
        return prior.covariance(Estimate(q_hat, np.zeros_like(q_hat))).value

    gain, (information, error) = -slope(variance), channel.inference.information(variance(start))
    output, entropy = np.einsum("knab,nab->kn", [alpha * information, prior.degrees * start], gain)
    noise = free_entropy(model, alpha, start).error / step + alpha * np.einsum("nab,nab->n", error, np.abs(gain))
    measured = 2 * slope(lambda q_hat: free_entropy(model, alpha, q_hat).value)
    allowed = 2 * tolerance * (output + entropy) + SIGMAS * noise
    return float(np.max(np.abs(measured - output + entropy) / allowed))


# --- data: denoiser and message passing -------------------------------------------------------------------------------


def check_denoiser(case: Case) -> float:
    """Return the deviation of the error of the prior's denoiser on a drawn signal from the claimed error."""
    model, _, d, seed = case
    size = model.at_size(d)
    prior, rng = size.model.prior, np.random.default_rng(seed)
    if prior.stepwise:
        raise IncompatibleError("the denoiser of a narrow matrix is iterative, and one step has no closed error")
    wide = (d, d) if prior.symmetric else size.input_shape
    row_shape = wide if prior.diagonal else (d * d,)
    shape = (prior.rows, *row_shape)
    q_hat = precisions(model, 1.0)
    signal = prior.sample(signal_shape(prior, row_shape), rng).reshape(shape)
    noise = rng.standard_normal(shape)
    if prior.symmetric:
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * d)
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    estimate = denoise_rows(prior, field, q_hat)
    gap = estimate.signal - signal
    expected = np.diag(prior.covariance(Estimate(q_hat[None], np.zeros((1, *q_hat.shape)))).value[0])
    deviation = prior.power_deviation(signal_shape(prior, row_shape))
    measured = np.array([np.diag(prior.gram(gap, gap)), np.diag(estimate.variance)])
    return float(np.max(np.abs(measured - expected) / ((SIGMAS * deviation + 2 / d) * expected)))


def check_size(case: Case) -> float:
    """Return the deviation of errors of message passing from theory.

    Errors of one row are relative to the power of the teacher, which fluctuates.
    """
    model, alpha, d, seed = case
    prior, sampled = model.prior, model.channel.inference.sampled
    usual = (
        (0.2 if prior.diagonal else 3.0) if sampled else 0.7 * natural_scale(model) + (prior.weak_recovery_onset > 0)
    )
    d *= (2 if prior.diagonal else 5) if sampled else 1
    result = simulate(model, [alpha or usual], d=d, instances=4, seed=seed)
    if model.overlap_shape:
        error, theory, standard_error = (result[f"row_{name}"] for name in ("error", "theory", "standard_error"))
    else:
        error, theory, standard_error = (
            result[name] for name in ("relative_error", "theory", "relative_standard_error")
        )
    return float(np.max(np.abs(error - theory) / (SIGMAS * standard_error + 4 / d)))
