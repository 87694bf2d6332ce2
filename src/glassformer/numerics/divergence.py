"""Whether something that is followed in time grows without end."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array

# Growth since the start, and over the second half of the time, of what diverges.
_LARGE, _DOUBLED = 10.0, 2.0


def diverges(time: Array, size: Array, reference: float) -> bool:
    """Whether a size is far above its reference at the end, and has at least doubled over the second half of the time.

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
