"""
Two branches
============

Warm starts upwards and downwards: fixed points that depend on where one comes from.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression, follow_branches

model = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")
found = follow_branches(model, np.linspace(0.5, 1.1, 61))
plt.plot(found["alpha"], found["error_up"], label="more and more data")
plt.plot(found["alpha"], found["error_down"], "--", label="less and less")
plt.xlabel(r"$\alpha = n/(dL)$")
plt.ylabel("error")
plt.legend()
