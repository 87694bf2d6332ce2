"""
The best possible error
=======================

Best possible error for three widths, and message passing on simulated data.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression, limits, simulate

alpha = np.linspace(0, 1, 51)
for rho, color in zip([0.1, 0.2, 0.5], ["C0", "C1", "C2"], strict=True):
    model = BilinearSequenceRegression(beta=1, rho=rho, noise=0.1)
    plt.plot(alpha, limits(model, alpha)["error"], color, label=rf"$\rho = {rho}$")
    runs = simulate(model, [0.3, 0.6, 0.9], d=50, instances=3)
    plt.errorbar(runs["alpha"], runs["relative_error"], runs["relative_standard_error"], fmt="o", color=color)
plt.xlabel(r"$\alpha = n/(dL)$")
plt.ylabel("error")
plt.legend()
