"""
What can be learned, and which algorithm learns it
==================================================

Bilinear sequence regression: the error of the best possible estimator and of two trained ones. Lines are theory, points
are runs on simulated data. Message passing reaches the best possible error.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression, NuclearNorm, Ridge, limits, simulate

model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
learners = {"ridge": Ridge(), "nuclear norm": NuclearNorm(), "Bayes-optimal": None}
alpha = np.linspace(0.02, 1.2, 60)
for color, (name, learner) in enumerate(learners.items()):
    theory = limits(model, alpha) if learner is None else limits(model, alpha, learner)
    plt.plot(alpha, theory["error"], f"C{color}", label=name)
    runs = simulate(model, [0.15, 0.4, 0.8], learner or "gamp", d=40, instances=3)
    plt.errorbar(runs["alpha"], runs["error"], runs["standard_error"], fmt="o", color=f"C{color}")
plt.xlabel(r"samples per entry of the matrix, $\alpha = n/(dL)$")
plt.ylabel("error")
plt.legend()
