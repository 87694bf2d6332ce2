"""
From a paper's figure to yours
==============================

Every figure of the papers is one command, ``glassformer figure bsr-1`` for instance; :doc:`/papers` lists them all.
This tutorial computes the curve of the first figure, checks one of its points against a closed form, and then changes
the model.
"""

# %%
# The curve of the paper
# ----------------------
# Bilinear sequence regression without label noise: the smallest possible error, for three widths.

import matplotlib.pyplot as plt
import numpy as np

from glassformer import BilinearSequenceRegression, limits, thresholds

alpha = np.linspace(0, 1, 41)
for rho in (0.2, 0.5, 1.0):
    plt.plot(alpha, limits(BilinearSequenceRegression(rho=rho), alpha)["error"], label=rf"$\rho = {rho}$")
plt.xlabel(r"$\alpha = n/(dL)$")
plt.ylabel("error")
plt.legend()

# %%
# Counting of degrees of freedom gives the sample ratio at which a curve reaches zero, ``2 rho - rho^2`` for square
# matrices. The threshold agrees:

rho = 0.5
found = thresholds(BilinearSequenceRegression(rho=rho))["perfect_recovery"].alpha
print(found, 2 * rho - rho**2)

# %%
# Yours: the same model with other labels
# ---------------------------------------
# Labels are signs, and one in ten is wrong. Two parameters change: the channel, and the law of the noise.

signs = BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1")
curve = limits(signs, np.linspace(0.5, 4, 8))
curve.plot()

# %%
# ``error`` is the error of the signal. ``label_error`` is the share of wrong predictions of new labels without noise.

curve.to_pandas()[["alpha", "error", "label_error", "status"]]

# %%
# How many samples for a target?
# ------------------------------
# ``plan`` inverts the curve at a given size: the number of samples at which nine of ten new signs are right.

from glassformer import plan

plan(signs, 0.1, quantity="label_error", d=100)

# %%
# Which paper to cite: ``glassformer cite bsr`` prints its BibTeX.
