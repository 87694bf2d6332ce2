"""Checks on data: denoisers on signals of the prior, message passing on labels of the channel."""

from __future__ import annotations

import numpy as np

from glassformer.bayes_optimal.equation_of_state import natural_scale
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Estimate
from glassformer.experiments.simulation import simulate
from glassformer.testing.report import SIGMAS, Case, precisions


def denoiser(case: Case) -> float:
    """The error that the prior claims against the error of its denoiser on a signal that it draws."""
    model, _, d, seed = case
    size = model.at_size(d)
    prior, rng = size.model.prior, np.random.default_rng(seed)
    if prior.stepwise:
        raise IncompatibleError("the factors of a narrow matrix are found step by step, not by one denoiser")
    wide = (d, d) if prior.symmetric else size.input_shape
    row_shape = wide if prior.diagonal else (d * d,)
    shape = (prior.rows, *row_shape)
    q_hat = precisions(model, 1.0)
    signal = prior.sample(prior.signal_shape(row_shape), rng).reshape(shape)
    noise = rng.standard_normal(shape)
    if prior.symmetric:
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * d)
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    found = prior.denoise_rows(field, q_hat)
    gap = found.signal - signal
    expected = np.diag(prior.covariance(Estimate(q_hat[None], np.zeros((1, *q_hat.shape)))).value[0])
    deviation = prior.power_deviation(prior.signal_shape(row_shape))
    made = np.array([np.diag(prior.gram(gap, gap)), np.diag(found.variance)])
    return float(np.max(np.abs(made - expected) / ((SIGMAS * deviation + 2 / d) * expected)))


def size(case: Case) -> float:
    """Errors of message passing against theory; of one row relative to the power of the teacher, which fluctuates."""
    model, alpha, d, seed = case
    prior, sampled = model.prior, model.channel.sampled
    usual = (
        (0.2 if prior.diagonal else 3.0) if sampled else 0.7 * natural_scale(model) + (prior.weak_recovery_onset > 0)
    )
    d *= (2 if prior.diagonal else 5) if sampled else 1
    result = simulate(model, [alpha or usual], d, instances=4, seed=seed)
    if model.overlap_shape:
        error, theory, standard_error = (result[f"row_{name}"] for name in ("error", "theory", "standard_error"))
    else:
        error, theory, standard_error = (
            result[name] for name in ("relative_error", "theory", "relative_standard_error")
        )
    return float(np.max(np.abs(error - theory) / (SIGMAS * standard_error + 4 / d)))
