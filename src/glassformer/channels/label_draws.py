"""Whether labels are drawn from the law whose density is given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.label_laws import LabelLaw
from glassformer.core.estimate import Array
from glassformer.numerics.jax_settings import jax_settings


@dataclass(frozen=True)
class Draws:
    """How what a label law draws is compared with its density."""

    drawn: int = 20_000  # labels, at evenly spaced places in (0, 1)
    cells: int = 50  # of equally many of them in which densities are integrated
    counted: float = 0.25  # share of different ones among them below which they are counted


_POLICY = Draws()


def law_gap(law: LabelLaw, link: float) -> float:
    r"""By how much the parts of a law disagree at one value of the link.

    The largest of: the share of the probability that the density has elsewhere than drawn labels have, half of
    :math:`\sum_k|p_k - n_k/n|`; the distance of their mean from the law's in standard deviations; and the relative one
    of their variance. What is drawn are quantiles, so that there is no noise in any of these.

    Example:
        >>> from glassformer.channels.label_laws import Laplace
        >>> law_gap(Laplace(0.5), 1.0) < 1e-3
        True
    """
    link, places = float(link), (np.arange(_POLICY.drawn) + 0.5) / _POLICY.drawn
    labels = np.sort(np.asarray(law.quantile(np.full(_POLICY.drawn, link), places), dtype=float))
    mean, variance = (np.asarray(part(np.full(1, link)), dtype=float)[0] for part in (law.mean, law.variance))
    gaps = [_misplaced(law, link, labels)]
    if np.isfinite(variance):
        gaps += [abs(labels.mean() - mean) / np.sqrt(variance), abs(labels.var() / variance - 1)]
    return float(np.max(gaps))


def _misplaced(law: LabelLaw, link: float, labels: Array) -> float:
    values, counts = np.unique(labels, return_counts=True)
    with jax_settings():
        density = np.exp(np.asarray(law.log_density(values, np.full(values.shape, link)), dtype=float))
    if len(values) <= _POLICY.counted * _POLICY.drawn:
        return float(0.5 * np.sum(np.abs(density - counts / _POLICY.drawn)))
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(values))])
    ends = np.linspace(0, len(values) - 1, _POLICY.cells + 1).astype(int)
    return float(0.5 * np.sum(np.abs(np.diff(below[ends]) - np.diff(np.cumsum(counts)[ends]) / _POLICY.drawn)))
