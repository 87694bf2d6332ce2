"""Independent random numbers for several purposes from one seed."""

from __future__ import annotations

import numpy as np


def random_stream(seed: int, *stream: int) -> np.random.Generator:
    """Return the generator of one of the streams of a seed, which is an integer >= 0 of any size.

    NumPy reads a list of integers as a list of words of 32 bits. The words of a larger seed would be those of another
    stream of a smaller one; the stream is therefore the spawn key of a larger seed.

    Example:
        >>> small, large = random_stream(5, 2), random_stream(5 + 2 * 2**32, 0)
        >>> bool(small.random() == np.random.default_rng([5, 2]).random()), bool(small.random() == large.random())
        (True, False)
    """
    if seed < 2**32:
        return np.random.default_rng([int(seed), *stream])
    return np.random.default_rng(np.random.SeedSequence(int(seed), spawn_key=stream))
