"""
From a paper's figure to yours
==============================

Every figure of the papers is one command, ``glassformer figure bsr-1`` for instance; :doc:`/papers` lists them all.
Here the first figure is taken apart: its curve, one point checked against a closed form, and then the question of one's
own.
"""

# %%
# The curve of the paper
# ----------------------
# Bilinear sequence regression without label noise: the best error anyone can reach, for three widths.

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
# Where the curves meet zero is known by counting degrees of freedom, ``2 rho - rho^2`` for matrices that are square.
# The number agrees:

rho = 0.5
found = thresholds(BilinearSequenceRegression(rho=rho))["perfect_recovery"].alpha
print(found, 2 * rho - rho**2)

# %%
# Yours: the same model with other labels
# ---------------------------------------
# Only the sign of the label is reported, and one in ten is wrong. One word changes, and a law of wrong labels.

signs = BilinearSequenceRegression(rho=0.5, channel="sign", noise_law="flip:0.1")
curve = limits(signs, np.linspace(0.5, 4, 8))
curve.plot()

# %%
# The error of the signal is one thing, wrong predictions another: the share of new labels that are missed, of those
# without noise.

curve.to_pandas()[["alpha", "error", "label_error", "status"]]

# %%
# How many samples for a target?
# ------------------------------
# The curve read the other way round, at a size: samples until nine of ten new signs are right.

from glassformer import plan

plan(signs, 0.1, quantity="label_error", d=100)

# %%
# Which paper to cite: ``glassformer cite bsr`` prints its BibTeX.
