"""Errors on new labels of a link that varies between its breaks."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from glassformer.channels.link.field_quadrature import RULES, Rule, omega_nodes, refined, unit_nodes
from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.scalar.base import Array, Estimate

# Means of the field for which labels are averaged at once, and relative change between two rules that ends the
# refinement: the finer one then has twice as many digits.
_ROWS, _SETTLED = 128, 1e-7


def smooth_errors(shape: LinkShape, v: float, nodes: int) -> Estimate:
    """Errors at posterior variance ``v``: a quadrature over the mean of the field, and one over the field.

    Returns:
        Squared errors, without label noise, of the mean label and of that at the mean field, shape (2,), with the last
        change.

    Example:
        >>> from glassformer.channels.link.piecewise import link_shape
        >>> smooth_errors(link_shape(lambda h: h**2), 0.5, 12).value.round(8)  # 2 (1 - q^2), and that plus V^2
        array([1.5 , 1.75])
    """
    return refined((_by_rules(shape, v, *rules, nodes) for rules in pairwise(RULES)), _SETTLED)


def _by_rules(shape: LinkShape, v: float, outer: Rule, inner: Rule, nodes: int) -> Array:
    omega, weight = omega_nodes(v, shape.breaks, outer, nodes)
    errors = np.zeros(2)
    for start in range(0, omega.size, _ROWS):
        part = slice(start, start + _ROWS)
        u, w = unit_nodes(omega[part], v, shape.breaks, inner, nodes)
        centre = shape.link(omega[part])[:, None]
        offset = shape.link(omega[part, None] + np.sqrt(v) * u) - centre
        mean = np.sum(w * offset, axis=1, keepdims=True)
        errors += [weight[part] @ np.sum(w * x**2, axis=1) for x in (offset - mean, offset)]
    return errors
