"""What more of the same work would change, from what less of it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from glassformer.core.estimate import Array

# Powers of the work that errors are believed to fall with: at most (of ratios freed of a bias of one over the work),
# where nothing tells, and at least (a fourth of the work leaves three quarters of an error).
_FASTEST, _UNKNOWN, _SLOWEST = 2.0, 0.5, float(np.log(4 / 3) / np.log(4))


def remainder(levels: Sequence[Array], share: float = 4) -> Array:
    r"""What is still missing from the first of three results, each found with ``share`` times less work than the last.

    Changes fall geometrically: of the last one, :math:`\delta`, and the one before, :math:`\delta'`,

    .. math:: \frac{\rho}{1-\rho}\delta, \qquad \rho = |\delta|/|\delta'|, \quad s^{-2}\le\rho\le s^{-0.21},

    with a share ``s``. Of four it is from a fifteenth of the change, as where errors fall as one over the square of the
    work, to three times the change. Of two results it is what is missing where errors fall as the root of the work.

    Args:
        levels: the results, with most work first, numbers or arrays of one shape; of a single one nothing is missing.
        share: how many times less work is behind each than behind the one before it.

    Example:
        >>> float(remainder([np.array(1 + 0.01), np.array(1 + 0.02), np.array(1 + 0.04)])).__round__(6)
        -0.01
    """
    if len(levels) == 1:
        return np.zeros_like(levels[0])
    last, *before = (more - less for more, less in pairwise(levels))
    rate = _rate(last, before[0], share) if before else share**-_UNKNOWN
    return np.asarray(rate / (1 - rate) * last)


def _rate(last: Array, before: Array, share: float) -> float:
    size, least, most = float(np.linalg.norm(before)), share**-_FASTEST, share**-_SLOWEST
    return float(np.clip(np.linalg.norm(last) / size, least, most)) if size > 0 else most
