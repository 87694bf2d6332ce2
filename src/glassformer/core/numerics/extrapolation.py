"""What more of the same work would change, from what less of it has changed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.integral import Array

# What a fourfold work leaves of a change: no less than where errors fall as its inverse, no more than where they fall
# as its fifth root.
_LEAST, _MOST = 0.25, 0.75


def remainder(levels: Sequence[Array], share: float = 4) -> Array:
    r"""What is still missing from the first of three results, each found with so many times less work than the last.

    Changes fall geometrically: of the last one, :math:`\delta`, and the one before, :math:`\delta'`,

    .. math:: \frac{\rho}{1-\rho}\delta, \qquad \rho = |\delta|/|\delta'|, \quad 4^{-p}\le\rho\le(4/3)^{-p},\quad p = \log_4s,

    with a share of ``1/s`` of the work: where it is a fourth, from a third of the change, as where errors fall as one
    over the work, to three times the change.

    Args:
        levels: the results, with most work first, numbers or arrays of one shape; of a single one nothing is missing.
        share: ``s``.

    Example:
        >>> float(remainder([np.array(1 + 0.01), np.array(1 + 0.02), np.array(1 + 0.04)])).__round__(6)
        -0.01
    """
    if len(levels) == 1:
        return np.zeros_like(levels[0])
    whole, fourth, sixteenth = levels
    last, before = whole - fourth, fourth - sixteenth
    size = float(np.linalg.norm(before))
    least, most = (kept ** np.emath.logn(4, share) for kept in (_LEAST, _MOST))
    rate = float(np.clip(np.linalg.norm(last) / size, least, most)) if size > 0 else most
    return np.asarray(rate / (1 - rate) * last)
