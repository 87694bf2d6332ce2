"""
Perfect recovery
================

How many labels fix the signal: by the best possible estimator, and by minimal nuclear norm.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression
from glassformer.laws import nuclear_norm_threshold
from glassformer.models import counting_threshold

rho = np.linspace(0.01, 0.99, 60)
plt.plot(rho, [counting_threshold(BilinearSequenceRegression(beta=1, rho=r)) for r in rho], label="Bayes-optimal")
plt.plot(rho, [nuclear_norm_threshold(1, r) for r in rho], "--", label="minimal nuclear norm")
plt.xlabel(r"$\rho = r/d$")
plt.ylabel(r"perfect recovery, $\alpha = n/(dL)$")
plt.legend()
