"""The spectrum of inputs against that of independent numbers."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array
from glassformer.learners.data_findings import POLICY, Finding, Sample
from glassformer.numerics.decompositions import singular_values


def marchenko_pastur(values: Array, ratio: float) -> Array:
    r"""Distribution function of the eigenvalues of :math:`Z Z^T/n`, ``Z`` of shape (p, n) and standard normal.

    Args:
        values: where it is asked for.
        ratio: :math:`p/n` in (0, 1].

    Source: Marchenko, Pastur, Math. USSR Sb. 1, 457 (1967).

    Example:
        >>> marchenko_pastur(np.array([0.0, 4.0]), 1.0).round(3)
        array([0., 1.])
    """
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    # In the angle along the support the density is smooth at both ends.
    angle = np.linspace(np.pi, 0.0, POLICY.points)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    density = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * np.pi * ratio * np.maximum(x, 1e-300))
    # At ratio one the support begins at zero, where sin^2 and x vanish together.
    density = np.where(x > 1e-12 * high, density, (high - low) / (2 * np.pi * ratio))
    steps = 0.5 * (density[1:] + density[:-1]) * -np.diff(angle)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return np.interp(values, x, total / total[-1], left=0.0, right=1.0)


def spectrum(sample: Sample) -> Finding:
    """Largest distance of the distribution functions of measured and expected eigenvalues."""
    flat = sample.centred.reshape(len(sample.centred), -1)
    rng = np.random.default_rng(0)
    rows, columns = (np.sort(rng.permutation(size)[: POLICY.largest]) for size in flat.shape)
    part = flat[np.ix_(rows, columns)]
    # The mean took one of the samples.
    n, p = max(len(part) - 1, 1), part.shape[1]
    small, large = min(n, p), max(n, p)
    values = np.sort(singular_values(part)[:small] ** 2 / large)
    there = marchenko_pastur(values, small / large)
    steps = np.arange(small + 1) / small
    distance = float(np.max(np.maximum(np.abs(there - steps[1:]), np.abs(there - steps[:-1]))))
    text = "distance of the distribution of singular values from Marchenko and Pastur's; whiten inputs"
    return Finding("spectrum", distance, POLICY.distance, POLICY.spread / small, text)


def alike(sample: Sample) -> Finding:
    """Largest correlation of two entries, as far as they are looked at: singular vectors that have a structure."""
    flat = sample.centred.reshape(len(sample.centred), -1)
    columns = np.sort(np.random.default_rng(0).permutation(flat.shape[1])[: POLICY.largest])
    part = flat[:, columns]
    power = np.sqrt(np.maximum(np.mean(part**2, axis=0), 1e-300))
    others = part.T @ part / len(part) / np.outer(power, power)
    np.fill_diagonal(others, 0.0)
    # Of p^2/2 normal numbers of variance 1/n the largest is about this one.
    chance = POLICY.margin * float(np.sqrt(4 * np.log(max(len(columns), 2)) / len(part)))
    text = "largest correlation of two entries; singular vectors of the inputs keep a structure"
    return Finding("entry correlation", float(np.max(np.abs(others))), POLICY.alike, chance, text)
