"""Averages of a link with Gaussian noise from their definition, on plain grids: the oracle of the quadratures."""

from __future__ import annotations

import numpy as np


def grid(breaks=(), reach=9.5, panels=240, nodes=10):
    """Gauss nodes on equal panels that also end at the breaks."""
    edges = np.unique(np.concatenate([np.linspace(-reach, reach, panels + 1), breaks]))
    x, w = np.polynomial.legendre.leggauss(nodes)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()


def label_grid(values, noise):
    step = np.sqrt(noise) / 4
    return np.arange(values.min() - 9 * np.sqrt(noise), values.max() + 9 * np.sqrt(noise), step), step


def bell(x, variance):
    return np.exp(-(x**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def information(function, noise, variance, breaks=()):
    """E g^2 as three sums."""
    h, w = grid(breaks)
    t = np.arange(-8.2, 8.21, 0.12 * min(1.0, np.sqrt(variance / (1 - variance))))
    values = function(h)
    y, step = label_grid(values[np.abs(h) < 8.45], noise)
    total = 0.0
    for part in np.array_split(y, 1 + y.size // 2000):
        likelihood = bell(part - values[:, None], noise)
        for some in np.array_split(t, 1 + t.size // 500):
            distance = h - np.sqrt(1 - variance) * some[:, None]
            prior = w * bell(distance, variance)
            z = np.maximum(prior @ likelihood, 1e-290)
            squares = np.sum(((prior * distance / variance) @ likelihood) ** 2 / z, axis=1)
            total += step * (t[1] - t[0]) * float(bell(some, 1.0) @ squares)
    return total


def weak_recovery(function, noise, breaks=()):
    """Sample ratio of an even link, from the conditional second moment of the field."""
    h, w = grid(breaks)
    values = function(h)
    y, step = label_grid(values[np.abs(h) < 7], noise)
    prior, total = w * bell(h, 1.0), 0.0
    for part in np.array_split(y, 1 + y.size // 2000):
        likelihood = bell(part - values[:, None], noise)
        z = np.maximum(prior @ likelihood, 1e-290)
        total += step * float(np.sum((prior * (h**2 - 1) @ likelihood) ** 2 / z))
    return 1 / total
