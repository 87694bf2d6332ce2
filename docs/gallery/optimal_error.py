"""
What can be learned, and which algorithm learns it
==================================================

Bilinear sequence regression: the error of the best possible estimator and of two trained ones. Lines are theory, points
are runs on simulated data. Message passing reaches the best possible error.
"""

import numpy as np

from glassformer import BilinearSequenceRegression, compare

model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
found = compare(
    model,
    np.linspace(0.02, 1.2, 60),
    ["gamp", "nuclear-norm", "ridge"],
    d=40,
    run_alpha=[0.15, 0.4, 0.8],
    instances=3,
)
found.plot()
