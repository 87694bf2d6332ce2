"""Where the search for fixed points of regularised risk begins."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array
from glassformer.risk.penalties import Fields
from glassformer.risk.problem import LEAST, NOTHING, Problem

# Sample ratios from which on a few are solved first, and how few.
_MANY, FEW = 48, 16
# Share of the largest singular value at which the search for a threshold begins.
_BEGIN = 0.5


def few_of(alpha: Array) -> Array:
    """Sample ratios from which many others' fixed points can be told nearly."""
    if len(alpha) < _MANY:
        return alpha
    return np.unique(np.quantile(alpha, np.linspace(0, 1, FEW), method="nearest"))


def start_of(problem: Problem, alpha: Array, strength: Array) -> Array:
    """Where nothing is learned, or where thresholds leave half of the singular values' range, if they may."""
    if problem.penalty.spectral == 0 and problem.loss.quadratic:
        return np.log(np.stack(_of_ridge(problem, alpha, strength), axis=1))
    fields = problem.unlearned(alpha)
    if problem.penalty.spectral > 0:
        # The gain at which the threshold is that; less than all that there is.
        gain = fields.gain * np.fmin(1.0, strength / (_BEGIN * problem.lambda_max(fields)))
        fields = fields._replace(gain=gain, stiffness=gain)
    # More samples than unknowns need no threshold, and leave the noise of least squares.
    spare = problem.count(alpha) - 1
    if np.any(spare > 0):
        slope, rest = problem.labels.regression
        free = (
            problem.penalty.spectral
            * np.nan_to_num(strength)
            / problem.model.prior.degrees
            / np.maximum(spare, NOTHING)
        )
        noise = np.clip((rest / slope**2 + free**2) / np.maximum(spare, NOTHING), LEAST, fields.noise)
        gain = np.maximum(fields.gain, slope * spare)
        new = (np.where(spare > 0, guess, part) for guess, part in zip((noise, gain, gain), fields, strict=True))
        fields = Fields(*new)
    return np.log(np.stack(fields, axis=1))


def _of_ridge(problem: Problem, alpha: Array, strength: Array) -> Fields:
    """Square loss and ridge in closed form, up to what a slope of the label on its field other than one changes."""
    slope, rest = problem.labels.regression
    count = problem.count(alpha)
    least = problem.penalty.square * strength / problem.model.prior.degrees
    half = 0.5 * (least + 1 - count)
    root = np.sqrt(half**2 + count * least)
    stiffness = np.where(half > 0, count * least / np.where(half > 0, half + root, 1.0), root - half)
    kept = stiffness / (stiffness + least)
    noise = (rest / slope**2 + (1 - kept) ** 2 * problem.power) / np.maximum(count - kept**2, LEAST)
    return Fields(np.maximum(noise, NOTHING), slope * stiffness, stiffness)
