"""Error bars cover: sampled averages against eight times the work, at random overlaps.

``benchmarks/check_error_bars.py`` is the long version, over all families and 64 times the work.
"""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import DeepAttention, SequenceMultiIndex
from glassformer.core.numerics.quasi_random import confident

MODELS = {
    "a link with noise": SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2, 1, noise=0.3, points=256),
    "a link without noise": SequenceMultiIndex(lambda z: z[0, 0] + z[1, 0] ** 3, 2, 1, points=256),
    "attention": DeepAttention(depth=1, tokens=3, points=256),
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("a link with noise", marks=pytest.mark.statistics),
        pytest.param("a link without noise", marks=pytest.mark.statistics),
        "attention",
    ],
)
def test_at_random_overlaps(name):
    channel, rng = MODELS[name].channel.in_rows, np.random.default_rng(1)
    variance = np.array([np.diag(np.maximum(rng.beta(0.8, 0.8, channel.rows), 0.02)) for _ in range(12)])
    small, large = (channel.with_points(count).information(variance) for count in (256, 2048))
    gap, claimed = (
        np.linalg.norm(part, axis=(1, 2)) for part in (small.value - large.value, confident(8) * small.error)
    )
    assert np.sum(gap > claimed) <= 2
    assert np.all(gap < 3 * claimed)
    # An error bar that is never nearly reached says as little as one that lies.
    assert np.any(gap > 0.1 * claimed) or np.all(claimed < 1e-9)
