"""
Two branches
============

Fixed points of state evolution, continued upwards and downwards in the sample ratio. They depend on the start.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression, hysteresis

model = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")
found = hysteresis(model, np.linspace(0.5, 1.1, 61))
plt.plot(found["alpha"], found["error_up"], label="upwards, uninformed start")
plt.plot(found["alpha"], found["error_down"], "--", label="downwards, informed start")
plt.xlabel(r"$\alpha = n/(dL)$")
plt.ylabel("error")
plt.legend()
