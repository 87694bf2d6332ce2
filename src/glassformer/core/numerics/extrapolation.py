"""What more of the same work would change, from what less of it has changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.integral import Array

# What a fourfold work leaves of a change: no less than where errors fall as its inverse, no more than where they fall
# as its fifth root.
_LEAST, _MOST = 0.25, 0.75


def remainder(levels: Sequence[Array]) -> Array:
    r"""What is still missing from the first of three results, found with a fourth and a sixteenth of its work.

    Changes fall geometrically: of the last one, :math:`\delta`, and the one before, :math:`\delta'`,

    .. math:: \frac{\rho}{1-\rho}\delta, \qquad \rho = |\delta|/|\delta'|, \quad 1/4\le\rho\le3/4,

    from a third of the change, as where errors fall as one over the work, to three times the change.

    Args:
        levels: the results, with most work first, numbers or arrays of one shape; of a single one nothing is missing.

    Example:
        >>> float(remainder([np.array(1 + 0.01), np.array(1 + 0.02), np.array(1 + 0.04)])).__round__(6)
        -0.01
    """
    if len(levels) == 1:
        return np.zeros_like(levels[0])
    whole, fourth, sixteenth = levels
    last, before = whole - fourth, fourth - sixteenth
    size = float(np.linalg.norm(before))
    rate = float(np.clip(np.linalg.norm(last) / size, _LEAST, _MOST)) if size > 0 else _MOST
    return np.asarray(rate / (1 - rate) * last)
