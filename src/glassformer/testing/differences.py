"""Derivatives by differences, and the states that parts are compared at."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.state_evolution.equation_of_state import natural_scale


def derivative(function: Callable[[Array], Array], at: Array, along: Array, sampled: bool) -> Array:
    """Derivative by central differences, of six points where there is no sampling error to drown them."""
    weights = (0.5,) if sampled else (3 / 4, -3 / 20, 1 / 60)
    pairs = [w * (function(at + k * along) - function(at - k * along)) for k, w in enumerate(weights, 1)]
    return np.sum(pairs, axis=0)


def precisions(model: Model, scales: ArrayLike) -> Array:
    """Precisions at which something is known of every row, and not of all the same."""
    prior = model.prior
    rows = np.linspace(2.0, 0.5, prior.rows) * natural_scale(model) / prior.rows
    return (prior.weak_recovery_onset + np.multiply.outer(scales, rows))[..., None] * np.eye(prior.rows)
