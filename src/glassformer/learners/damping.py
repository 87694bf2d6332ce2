"""When message passing is damped more strongly: steps that stop shrinking from one window of iterations to the next."""

from __future__ import annotations

from collections.abc import Sequence

LEVELS, WINDOW = (0.0, 0.3, 0.5, 0.7), 25
# Share of the shortest step of the last window above which the steps of this one have not shrunk.
_PROGRESS = 0.7


def stagnates(steps: Sequence[float], since: int) -> bool:
    """True when the steps of the last window are hardly shorter than those of the window before.

    Args:
        steps: length of every step so far.
        since: steps taken at the present damping.

    Example:
        >>> stagnates([1.0] * 50, 50), stagnates([0.9**k for k in range(50)], 50)
        (True, False)
    """
    if since < 2 * WINDOW or since % WINDOW:
        return False
    return min(steps[-WINDOW:]) > _PROGRESS * min(steps[-2 * WINDOW : -WINDOW])


def stronger(damping: float) -> float:
    """The next level of damping.

    Example:
        >>> stronger(0.0)
        0.3
    """
    return next(level for level in LEVELS if level > damping)
