"""Second moments of a link and its field: all that square loss knows of labels."""

from __future__ import annotations

import numpy as np

from glassformer.core.errors import LinkError
from glassformer.core.numerics.quadrature import normal_nodes
from glassformer.models.channels.link.piecewise import LinkShape
from glassformer.models.channels.scalar import Array

# Panels at first, nodes on each, and how often panels are halved; ends of the field, from one to the next where labels
# that grow fast ask for it.
_PANELS, _NODES, _HALVINGS = 32, 16, 11
_TAILS = (8.5, 12.0, 17.0, 24.0, 34.0)
# Relative change that ends the refinement, and the largest that is not one of numbers without a limit.
_SETTLED, _UNSETTLED = 1e-13, 1e-9


def second_moments(shape: LinkShape) -> tuple[float, float]:
    r""":math:`E[h\varphi(h)]` and :math:`E[\varphi(h)^2]` of a standard normal field, to thirteen digits.

    Raises:
        LinkError: they do not settle: the link grows or wiggles too fast.

    Example:
        >>> from glassformer.models.channels.link.function import array_link
        >>> from glassformer.models.channels.link.piecewise import link_shape
        >>> slope, square = second_moments(link_shape(array_link(lambda h: np.exp(h))))
        >>> bool(np.isclose(slope, np.exp(0.5), rtol=1e-13) and np.isclose(square, np.exp(2), rtol=1e-13))
        True
    """
    found, change = _refined(shape, _TAILS[0])
    for tail in _TAILS[1:]:
        farther, rough = _refined(shape, tail)
        if not np.isfinite(farther).all():
            break
        moved = _apart(found, farther)
        found, change = farther, max(rough, moved)
        if moved <= _SETTLED:
            break
    if not change <= _UNSETTLED:
        allowed = "a link whose labels have a second moment that quadratures agree on"
        raise LinkError("link", shape.link, allowed, f"they differ by {change:.1g} of it: it grows or wiggles too fast")
    return float(found[0]), float(found[1])


def _refined(shape: LinkShape, tail: float) -> tuple[Array, float]:
    """With panels halved until nothing changes, and the last change."""
    found, change = _moments(shape, tail, _PANELS), np.inf
    for k in range(1, _HALVINGS):
        before, found = found, _moments(shape, tail, _PANELS << k)
        change = _apart(before, found)
        if not change > _SETTLED:
            break
    return found, change


def _moments(shape: LinkShape, tail: float, panels: int) -> Array:
    h, weight = normal_nodes(shape.breaks, panels, _NODES, tail)
    with np.errstate(over="ignore", invalid="ignore"):
        label = shape.link(h)
        return np.array([weight @ (h * label), weight @ label**2])


def _apart(before: Array, after: Array) -> float:
    """Relative to what both may be at most: a product is no larger than the root of the squares."""
    scale = np.array([np.sqrt(after[1]), after[1]])
    return float(np.max(np.abs(after - before) / np.maximum(scale, 1e-300)))
