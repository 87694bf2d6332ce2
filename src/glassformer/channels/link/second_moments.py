"""Second moments of a link and its field: all that square loss knows of labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.scalar.base import Array
from glassformer.core.errors import LinkError
from glassformer.numerics.quadrature import normal_nodes


@dataclass(frozen=True)
class Policy:
    """How finely the field is divided, and when numbers have a limit.

    Attributes:
        panels: at first.
        nodes: on each.
        sizes: of panels, each half of the one before.
        tails: ends of the field, from one to the next where labels that grow fast ask for it.
        settled: relative change that ends the refinement.
        unsettled: largest change that is not one of numbers without a limit.
    """

    panels: int = 32
    nodes: int = 16
    sizes: int = 11
    tails: tuple[float, ...] = (8.5, 12.0, 17.0, 24.0, 34.0)
    settled: float = 1e-13
    unsettled: float = 1e-9


_POLICY = Policy()


def second_moments(shape: LinkShape) -> tuple[float, float]:
    r""":math:`E[h\varphi(h)]` and :math:`E[\varphi(h)^2]` of a standard normal field, to thirteen digits.

    Raises:
        LinkError: they do not settle: the link grows or wiggles too fast.

    Example:
        >>> from glassformer.channels.link.function import array_link
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> slope, square = second_moments(link_shape(array_link(lambda h: np.exp(h))))
        >>> bool(np.isclose(slope, np.exp(0.5), rtol=1e-13) and np.isclose(square, np.exp(2), rtol=1e-13))
        True
    """
    found, change = _refined(shape, _POLICY.tails[0])
    for tail in _POLICY.tails[1:]:
        farther, rough = _refined(shape, tail)
        if not np.isfinite(farther).all():
            break
        moved = _apart(found, farther)
        found, change = farther, max(rough, moved)
        if moved <= _POLICY.settled:
            break
    if not change <= _POLICY.unsettled:
        allowed = "a link whose labels have a second moment that quadratures agree on"
        raise LinkError("link", shape.link, allowed, f"they differ by {change:.1g} of it: it grows or wiggles too fast")
    return float(found[0]), float(found[1])


def _refined(shape: LinkShape, tail: float) -> tuple[Array, float]:
    """With panels halved until nothing changes, and the last change."""
    found, change = _moments(shape, tail, _POLICY.panels), np.inf
    for k in range(1, _POLICY.sizes):
        before, found = found, _moments(shape, tail, _POLICY.panels << k)
        change = _apart(before, found)
        if not change > _POLICY.settled:
            break
    return found, change


def _moments(shape: LinkShape, tail: float, panels: int) -> Array:
    h, weight = normal_nodes(shape.breaks, panels, _POLICY.nodes, tail)
    with np.errstate(over="ignore", invalid="ignore"):
        label = shape.link(h)
        return np.array([weight @ (h * label), weight @ label**2])


def _apart(before: Array, after: Array) -> float:
    """Relative to what both may be at most: a product is no larger than the root of the squares."""
    scale = np.array([np.sqrt(after[1]), after[1]])
    return float(np.max(np.abs(after - before) / np.maximum(scale, 1e-300)))
