"""
Any number of tokens
====================

Softmax attention: curves for any number of tokens fall on each other.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import AttentionIndexed, limits

scaled = np.linspace(0, 1, 61)
for tokens, line in [(2, "-"), (3, "--"), (5, ":")]:
    scale = tokens**2 + tokens - 2
    plt.plot(scaled, limits(AttentionIndexed(0.5, tokens), scaled / scale)["error"], line, label=f"$T = {tokens}$")
plt.xlabel(r"$\alpha\,(T^2 + T - 2)$")
plt.ylabel("error")
plt.legend()
