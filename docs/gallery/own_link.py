import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from glassformer import SequenceMultiIndex, limits


def gated(Z):
    return Z[0, 0] * jnp.tanh(Z[1, 0])


model = SequenceMultiIndex(gated, indices=2, tokens=1, noise=0.1, points=64)
curve = limits(model, np.linspace(0.5, 3, 6))
for row, name in enumerate(["signal", "gate"]):
    plt.plot(curve["alpha"], 1 - curve["row_error"][:, row], "o:", label=name)
plt.xlabel(r"$\alpha = n/d$")
plt.ylabel("overlap")
plt.legend()
