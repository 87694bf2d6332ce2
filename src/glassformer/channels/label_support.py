"""The labels that a discrete law gives, found from its quantiles and confirmed by its probabilities."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.channels.label_laws import LabelLaw
from glassformer.core.estimate import Array
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings


@dataclass(frozen=True)
class Policy:
    """How the labels of a law are found."""

    most: int = 1 << 15  # labels that are summed over
    places: int = 256  # quantiles at each value of the link, beside the two tails
    tail: float = 1e-15  # probability of the labels beyond those two
    rounding: float = 1e-9  # of labels that lie on a lattice, in units of its spacing
    total: float = 1e-6  # by how much the probabilities of all labels may differ from one


_POLICY = Policy()


def label_support(law: LabelLaw, links: Array) -> Array | None:
    """Return all labels that a law gives at these values of the link, ascending.

    Labels are the quantiles of the law; where those lie on a lattice, all points of the lattice between them.

    Args:
        law: of one label.
        links: values of the link, shape (n,).

    Returns:
        Labels, shape (count,); None where the law is continuous, or has more labels than are summed over.

    Example:
        >>> from glassformer.channels.label_laws import Laplace, Logistic
        >>> label_support(Logistic(), np.linspace(-3, 3, 5)), label_support(Laplace(1.0), np.zeros(1))
        (array([-1.,  1.]), None)
    """
    inner = (np.arange(_POLICY.places) + 0.5) / _POLICY.places
    places = np.concatenate([[_POLICY.tail], inner, [1 - _POLICY.tail]])
    drawn = np.unique(law.quantile(*np.broadcast_arrays(links[:, None], places)))
    if len(drawn) < 2 or not np.all(np.isfinite(drawn)):
        return None
    steps = (drawn - drawn[0]) / np.min(np.diff(drawn))
    if steps[-1] >= _POLICY.most:
        return None
    lattice = np.all(np.abs(steps - np.round(steps)) <= _POLICY.rounding * np.maximum(steps, 1))
    labels = np.linspace(drawn[0], drawn[-1], round(steps[-1]) + 1) if lattice else drawn
    log_chance = log_probabilities(law)
    chance = np.array([np.sum(np.exp(log_chance(labels, np.full(labels.shape, x)))) for x in links])
    return labels if np.all(np.abs(chance - 1) <= _POLICY.total) else None


def log_probabilities(law: LabelLaw) -> Callable[[Array, Array], Array]:
    """Return the function that gives logarithms of probabilities of labels, elementwise, in double precision.

    What is no number, of links that overflow, is impossible. The function is compiled once for every shape.
    """
    compiled = CachedJit(_log_density, law=law)

    def function(y: Array, link: Array) -> Array:
        with jax_settings():
            return np.asarray(compiled(y, link))

    return function


def _log_density(y: Any, link: Any, law: LabelLaw) -> Any:
    found = law.log_density(y, link)
    return jnp.where(jnp.isnan(found), -jnp.inf, found)
