"""Sequences of results: their limit, and whether they diverge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from glassformer.core.estimate import Array

# Powers of the work by which errors may fall: at most (of ratios freed of a bias of one over the work), if unknown (of
# ratios that are not freed of it, and of pairs of crossings that cells of lines hide, whose number is proportional to
# the length of the cells), and at least (a fourth of the work leaves three quarters of an error).
_FASTEST, _UNKNOWN, _SLOWEST = 2.0, 1.0, float(np.log(4 / 3) / np.log(4))
# Aitken extrapolation: steps in a row that it needs, the least cosine between two of them, the least rate at which they
# shrink, and the longest extrapolation in steps. Chosen by trial on comparisons, whose scale converges slowly.
_STEPS, _COSINE, _SLOW, _LONGEST = 8, 0.9, 0.9, 200.0
# Growth since the start, and over the second half of the time, of a size that diverges.
_LARGE, _DOUBLED = 10.0, 2.0


def remaining_change(levels: Sequence[Array], share: float = 4, fastest: float = _FASTEST) -> Array:
    r"""Return the estimated difference between the limit and the first of up to three results.

    Changes fall geometrically: with the last change :math:`\delta` and the one before, :math:`\delta'`,

    .. math:: \frac{\rho}{1-\rho}\delta, \qquad \rho = |\delta|/|\delta'|, \quad s^{-2}\le\rho\le s^{-0.21},

    for the share ``s``. With a share of four the result lies between a fifteenth of the last change (errors that fall
    as one over the square of the work) and three times that change. Of two results it is the change that is missing
    if errors fall as one over the work: a third of the change for a share of four.

    Args:
        levels: the results, from most to least work, numbers or arrays of one shape. For one result the change is zero.
        share: ratio of the work of a result to that of the next one.
        fastest: largest power of the work by which errors may fall, two in the formula above.

    Example:
        >>> float(remaining_change([np.array(1 + 0.01), np.array(1 + 0.02), np.array(1 + 0.04)])).__round__(6)
        -0.01
    """
    if len(levels) == 1:
        return np.zeros_like(levels[0])
    last, *before = (more - less for more, less in pairwise(levels))
    rate = share**-_UNKNOWN
    if before:
        size, most = float(np.linalg.norm(before[0])), share**-_SLOWEST
        rate = float(np.clip(np.linalg.norm(last) / size, share**-fastest, most)) if size > 0 else most
    return np.asarray(rate / (1 - rate) * last)


@dataclass(frozen=True)
class AitkenExtrapolation:
    """Aitken extrapolation of slowly converging iterations: the remaining steps form a geometric series.

    Iterations converge slowly in directions that labels hardly determine, such as the scale of a signal if only
    comparisons are observed.

    Attributes:
        step: the last step.
        size: its length.
        first: length of the first step.
        count: number of steps.
    """

    step: Array
    size: float
    first: float
    count: int = 0

    def append(self, step: Array, size: float) -> AitkenExtrapolation:
        """Return the extrapolation with one more step, or a new one if the direction changes."""
        lengths = float(np.linalg.norm(step)) * float(np.linalg.norm(self.step))
        cosine = float(np.vdot(step, self.step)) / max(lengths, 1e-300)
        if cosine < _COSINE:
            return AitkenExtrapolation(step, size, size)
        return AitkenExtrapolation(step, size, self.first, self.count + 1)

    @property
    def remaining(self) -> float:
        """Sum of the steps to come, in units of the last one; zero for too few steps, or if they end soon.

        Example:
            >>> round(AitkenExtrapolation(np.ones(1), 0.99**8, 1.0, 8).remaining, 6)
            99.0
        """
        rate = (self.size / self.first) ** (1 / self.count) if self.count >= _STEPS else 0.0
        return min(rate / (1 - rate), _LONGEST) if _SLOW <= rate < 1 else 0.0


def diverges(time: Array, size: Array, reference: float) -> bool:
    """Return whether a size is far above its reference at the end, and doubles over the second half of the time.

    A size that approaches a limit, however large, grows by less: a constant rate doubles it.

    Args:
        time: increasing, shape (times,).
        size: positive, shape (times,).
        reference: the size at the start, or another one that is not large.

    Example:
        >>> time = np.linspace(0, 100, 11)
        >>> diverges(time, np.exp(0.1 * time), 1.0), diverges(time, 200 - 199 * np.exp(-0.02 * time), 1.0)
        (True, False)
    """
    end = float(size[-1])
    half = float(np.interp(0.5 * (time[0] + time[-1]), time, size))
    return bool(end > _LARGE * reference and end > _DOUBLED * half)
