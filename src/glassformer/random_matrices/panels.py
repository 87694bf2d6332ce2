"""Panels on which averages over a law are done: split until two rules agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.numerics.quadrature import gauss_panels

# Nodes of the rule and of the one it is compared with; how far they may differ on all panels together, relative to
# the whole; how often a panel may be halved, and how many there may be: what is left open then is in the error.
NODES, _CHECK = 16, 11


@dataclass(frozen=True)
class Refinement:
    """When panels are no longer halved."""

    agreed: float = 1e-10  # relative difference of the two rules
    halvings: int = 30  # at most
    most: int = 20_000  # panels at once


_POLICY = Refinement()


class Panels(NamedTuple):
    """Intervals, shape (panels, 2), in ascending order, and which of them end at an edge of a bulk."""

    ends: Array
    soft: NDArray[np.bool_]

    def nodes(self, count: int = NODES) -> tuple[Array, Array]:
        """Nodes and weights, shape (panels, count) each."""
        u, weight = gauss_panels(self.ends, count, self.soft[:, None])
        return u, weight


def settled_panels(bulks: Array, terms: Callable[[Array], Array]) -> tuple[Panels, Array]:
    """Panels that cover the bulks, and by how much the two rules still differ, one number per integrand.

    Args:
        bulks: ends of intervals at which integrands have square roots, shape (bulks, 2).
        terms: integrands at points of shape (n,), each of one sign or nearly so, shape (integrands, n).

    Example:
        >>> panels, difference = settled_panels(np.array([[-1.0, 1.0]]), lambda u: np.sqrt(1 - u**2)[None])
        >>> u, weight = panels.nodes()
        >>> bool(abs(np.sum(weight * np.sqrt(1 - u**2)) - np.pi / 2) < 1e-12)
        True
    """
    pending, done = Panels(bulks, np.ones(len(bulks), dtype=bool)), []
    differences: list[Array] = []
    totals: list[Array] = []
    for round_ in range(_POLICY.halvings + 1):
        fine, coarse = (_integrals(pending, terms, count) for count in (NODES, _CHECK))
        difference = np.abs(fine - coarse)
        whole = sum(totals, np.zeros(len(fine))) + np.sum(np.abs(fine), axis=1)
        # What is allowed is shared out among panels: each may be off by its part of the number there are.
        allowed = _POLICY.agreed * whole[:, None] / max(len(pending.soft), 8)
        good = ~np.any(difference > allowed, axis=0) | (round_ == _POLICY.halvings) | (len(pending.soft) > _POLICY.most)
        done.append(Panels(pending.ends[good], pending.soft[good]))
        differences.append(np.sum(difference[:, good], axis=1))
        totals.append(np.sum(np.abs(fine[:, good]), axis=1))
        if good.all():
            break
        pending = _halved(Panels(pending.ends[~good], pending.soft[~good]))
    ends, soft = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = np.argsort(ends[:, 0])
    return Panels(ends[order], soft[order]), np.sum(differences, axis=0)


def _integrals(panels: Panels, terms: Callable[[Array], Array], count: int) -> Array:
    """Of each integrand over each panel, shape (integrands, panels)."""
    u, weight = panels.nodes(count)
    found = terms(u.ravel())
    return np.asarray(np.sum((found * weight.ravel()).reshape(len(found), len(panels.soft), count), axis=2))


def _halved(panels: Panels) -> Panels:
    middle = panels.ends.mean(axis=1)
    ends = np.concatenate([np.stack([panels.ends[:, 0], middle], 1), np.stack([middle, panels.ends[:, 1]], 1)])
    return Panels(ends, np.concatenate([panels.soft, panels.soft]))
