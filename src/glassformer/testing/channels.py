"""Checks of channels: scores, labels and information against each other, at several posterior covariances."""

from __future__ import annotations

import numpy as np

from glassformer.bayes_optimal.bounds import information_bound, sample_data_points
from glassformer.bayes_optimal.equation_of_state import information_at
from glassformer.channels.base import Channel
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.testing.report import AVERAGED, EXACT, LAW, SAMPLED, SIGMAS, VARIANCES, Case, Deviation, derivative


def score(case: Case) -> float:
    """Scores (means of sampled ones) against differences of the log partition function along every field."""
    return max(_score(case.model, variance, case.seed) for variance in _covariances(case.model))


def nishimori(case: Case) -> float:
    """Means of scores against zero, squares against slopes, and both against the information."""
    return max(_nishimori(case.model, variance, case.seed) for variance in _covariances(case.model))


def information(case: Case) -> Deviation:
    """The information of every row against scores times true deviations, and against its bound."""
    return max(_information(case.model, variance, case.seed) for variance in _covariances(case.model))


def _covariances(model: Model) -> list[Array]:
    """Posterior covariances: with overlap between rows where the model has any, and no row known perfectly."""
    prior = model.prior
    if prior.rows == 1:
        return [np.array([[variance]]) for variance in VARIANCES]
    shared = 0.0 if prior.diagonal else 0.08
    return [np.diag(np.linspace(0.6, 0.4, prior.rows) - shared) + shared]


def _sampled_labels(model: Model, variance: Array, count: int, seed: int) -> tuple[Channel, Array, Array, Array]:
    """The channel at its highest accuracy, labels, means of their fields, and true deviations from these means."""
    channel = model.channel.high_accuracy()
    return channel, *sample_data_points(model, channel, variance, count, np.random.default_rng(seed))


def _integration_error(model: Model) -> float:
    """Relative integration error of a channel that is not sampled."""
    value, error = information_at(model, np.array(VARIANCES[:1]))
    return float(error[0] / value[0])


def _relative_deviation(gaps: Array, allowed: Array | float) -> float:
    """The largest mean over the first axis, in units of the tolerance: standard errors and a constant."""
    return float(np.max(np.abs(gaps.mean(axis=0)) / (SIGMAS * gaps.std(axis=0) / np.sqrt(len(gaps)) + allowed)))


def _score(model: Model, variance: Array, seed: int) -> float:
    sampled = model.channel.sampled
    count, step, allowed = (120, 0.1, SAMPLED) if sampled else (12, 1e-3, max(EXACT, 10 * _integration_error(model)))
    channel, y, omega, _ = _sampled_labels(model, variance, count, seed)
    units = np.eye(omega[0].size).reshape(-1, *omega.shape[1:])
    found = channel.scores(y, omega, variance)
    score = 0.5 * (found.first + found.second).reshape(count, -1)
    slopes = [
        derivative(lambda x: channel.log_partitions(y, x, variance), omega, step * unit, sampled) for unit in units
    ]
    own, gaps = (part if sampled else part[None] for part in (score, score - np.stack(slopes, axis=1) / step))
    return _relative_deviation(gaps, allowed * (1 + np.abs(own.mean(axis=0)).max(axis=0)))


def _nishimori(model: Model, variance: Array, seed: int) -> float:
    sampled = model.channel.sampled
    count, tolerance = (1000, AVERAGED) if sampled else (20_000, 10 * _integration_error(model) + EXACT)
    channel, y, omega, _ = _sampled_labels(model, variance, count, seed)
    found = channel.scores(y, omega, variance)
    square = np.einsum("nak,nbk->nab", found.first, found.second)
    information = square.mean(axis=0) if sampled else channel.information_matrix(variance[None]).value[0]
    size = np.trace(information) if sampled else information[0, 0]
    score = 0.5 * (found.first + found.second)
    pairs = [(score, np.sqrt(size)), (square - found.curvature, size), (square - information, size)]
    if not sampled:
        expected = model.channel.averages(variance[None]).log_partition.value[0]
        pairs.append((channel.log_partitions(y, omega, variance) - expected, 1.0))
    return max(channel.law_gap / LAW, *(_relative_deviation(gaps, tolerance * scale) for gaps, scale in pairs))


def _information(model: Model, variance: Array, seed: int) -> Deviation:
    count = 1000 if model.channel.sampled else 20_000
    channel, y, omega, deviation = _sampled_labels(model, variance, count, seed)
    found = channel.scores(y, omega, variance)
    products = np.einsum("nak,nak->na", 0.5 * (found.first + found.second), deviation)
    used, error = (np.diag(part[0]) for part in model.channel.information_matrix(variance[None]))
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
