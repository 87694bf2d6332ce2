"""Checks of theory: thresholds against their bounds, the free entropy against state evolution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from glassformer.bayes_optimal.bounds import growth_bound, information_bound
from glassformer.bayes_optimal.equation_of_state import natural_scale
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.solve import solve_state_evolution
from glassformer.bayes_optimal.subspaces import range_of
from glassformer.bayes_optimal.threshold_results import Threshold
from glassformer.bayes_optimal.thresholds import thresholds
from glassformer.bayes_optimal.weak_recovery import known_at_any_ratio
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.testing.report import EXACT, SIGMAS, SLOPE, Case, Deviation, derivative, precisions


def weak_recovery(case: Case) -> Deviation:
    """Thresholds of weak recovery, each against its bound given the directions that are known before."""
    model, seed = case.model, case.seed
    prior, degrees = model.prior, model.prior.degrees
    entries = [entry for entry in thresholds(model).entries if entry.name.startswith("weak_recovery")]
    if prior.side > 0 or (model.channel.even and prior.weak_recovery_onset > 0):
        raise IncompatibleError("no threshold of weak recovery follows from the labels alone")
    worst, known = Deviation(0.0, ""), np.zeros((prior.rows, prior.rows))
    if not model.channel.even and (prior.weak_recovery_onset > 0 or known_at_any_ratio(model).any()):
        top = max(information_bound(model, np.eye(prior.rows), unit, seed=seed) for unit in np.eye(prior.rows))
        start = degrees * prior.weak_recovery_onset / top.value
        worst, known = _above(entries[0], start, start * top.error / top.value), known_at_any_ratio(model)
        entries = entries[1:]
    for entry in entries:
        variance = np.eye(prior.rows)
        if known.any():
            variance = solve_state_evolution(model, np.array([entry.alpha]), subspace=known).value[0]
        rate, error = growth_bound(model, variance, np.eye(prior.rows) - known, seed=seed)
        # Without information in any cell there is no bound.
        most, bound_error = (degrees / rate, degrees * error / rate**2) if rate > SIGMAS * error else (np.inf, 0.0)
        worst = max(worst, _above(entry, most, bound_error))
        if entry.subspace is None or not np.isfinite(entry.alpha):
            break
        known = range_of(known + np.array(entry.subspace))
    return worst


def _above(entry: Threshold, most: float, bound_error: float) -> Deviation:
    """The distance of a threshold above its bound."""
    numbers = f"{entry.name} = {entry.alpha:.6g} +- {entry.error_estimate:.2g}, at most {most:.6g} +- {bound_error:.2g}"
    if not np.isfinite(most):
        return Deviation(0.0, numbers)
    allowed = SIGMAS * np.hypot(entry.error_estimate, bound_error) + EXACT * (1 + most)
    return Deviation(float(max(0.0, (entry.alpha - most) / allowed)), numbers)


def gradient(case: Case) -> float:
    """Differences of the free entropy along posterior states of the prior, against its gradient there."""
    model = case.model
    prior, channel, alpha = model.prior, model.channel, 0.7 * natural_scale(model)
    step, tolerance = (0.1, SLOPE) if channel.sampled else (1e-2, EXACT)
    scales = [0.5] if channel.sampled else np.geomspace(0.25, 5, 4)
    start = precisions(model, scales)

    def slope(function: Callable[[Array], Array]) -> Array:
        return derivative(lambda t: function(start * np.exp(t)), np.zeros(()), np.array(step), channel.sampled) / step

    def variance(q_hat: Array) -> Array:
        return prior.covariance(Estimate(q_hat, np.zeros_like(q_hat))).value

    gain, (information, error) = -slope(variance), channel.information_matrix(variance(start))
    output, entropy = np.einsum("knab,nab->kn", [alpha * information, prior.degrees * start], gain)
    noise = free_entropy(model, alpha, start).error / step + alpha * np.einsum("nab,nab->n", error, np.abs(gain))
    measured = 2 * slope(lambda q_hat: free_entropy(model, alpha, q_hat).value)
    allowed = 2 * tolerance * (output + entropy) + SIGMAS * noise
    return float(np.max(np.abs(measured - output + entropy) / allowed))
