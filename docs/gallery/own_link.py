"""
A link of one's own
===================

A direction that gates another one, learned together with it.
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from glassformer import SequenceMultiIndex, limits


def gated(Z):
    return Z[0, 0] * jnp.tanh(Z[1, 0])


model = SequenceMultiIndex(gated, indices=2, tokens=1, noise=0.5, points=256)
curve = limits(model, np.linspace(1, 5, 5), throw=False)
settled = [status.ok for status in curve.status]
for row, name in enumerate(["signal", "gate"]):
    plt.plot(curve["alpha"][settled], 1 - curve["row_error"][settled, row], "o:", label=name)
plt.xlabel(r"$\alpha = n/d$")
plt.ylabel("overlap")
plt.legend()
