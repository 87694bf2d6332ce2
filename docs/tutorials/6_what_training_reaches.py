"""
What does my training reach?
============================

A question: labels are signs of one direction of the inputs, and logistic regression with weight decay is fitted to
them. How far is its error from the best possible one, which strength of the decay is best, and does another loss do
better?
"""

# %%
# The teacher
# -----------
# Inputs are vectors of dimension ``d``, and labels the sign of one projection ``Z = W X^T / sqrt(d)``. The model is a
# sequence multi-index model with one index and one token. Its sample ratio is ``alpha = n/d``.

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from glassformer import RegularisedRisk, SequenceMultiIndex, limits, plan, simulate


def sign(Z):
    return jnp.sign(Z[0, 0])


model = SequenceMultiIndex(sign, indices=1)

# %%
# The best possible error
# -----------------------
# ``label_error`` is the share of new labels that an estimator gets wrong. Its least value over all estimators:

alpha = np.linspace(0.5, 6, 12)
optimal = limits(model, alpha)
optimal["label_error"][:4].round(4)

# %%
# What the fit reaches
# --------------------
# A learner has a loss, a penalty and a strength: it minimises the sum of the losses of all samples and ``strength``
# times half the squared weights. The limit of large ``d`` is exact for a convex risk.

fixed = limits(model, alpha, RegularisedRisk("logistic", strength=1.0))
fixed.to_pandas()[["alpha", "label_error", "training_loss", "test_loss", "stability", "status"]]

# %%
# Without a strength the best one is used at every sample ratio. For the logistic loss it is small, and the error almost
# the best possible one. Ridge regression on the same labels, at its best strength, is further away. So is the logistic
# loss without decay: any weights that separate the labels then have less risk the larger they are, and their direction
# is that of the largest margin.

logistic = limits(model, alpha, RegularisedRisk("logistic"))
ridge = limits(model, alpha, RegularisedRisk("square"))
separating = limits(model, alpha, RegularisedRisk("logistic", strength=0.0))
for table in (optimal, logistic, separating, ridge):
    print(table["label_error"][[1, 5, 11]].round(4))

# %%
# How many samples more?
# ----------------------
# Samples for nine right labels of ten in dimension 500: for the best estimator, which message passing computes, for the
# logistic and for the square loss at their best strengths.

for learner in ("gamp", RegularisedRisk("logistic"), RegularisedRisk("square")):
    found = plan(model, 0.1, learner, quantity="label_error", d=500)
    print({entry.name: entry.samples for entry in found.entries})

# %%
# Theory beside runs
# ------------------
# ``simulate`` draws a teacher, inputs and labels, minimises the same risk, and measures the same quantities.

runs = simulate(model, [1.0, 3.0, 5.0], RegularisedRisk("logistic", strength=1.0), d=200, instances=4)

plt.plot(alpha, optimal["label_error"], "k--", label="best possible", zorder=3)
plt.plot(alpha, logistic["label_error"], label="logistic, best strength")
plt.plot(alpha, fixed["label_error"], label="logistic, strength 1")
plt.plot(alpha, ridge["label_error"], label="square loss, best strength")
plt.errorbar(
    runs["alpha_realised"], runs["label_error"], 2 * runs["label_standard_error"], fmt="o", label="runs, d = 200"
)
plt.xlabel(r"$\alpha = n/d$")
plt.ylabel("wrong labels")
plt.legend()

# %%
# Your own student
# ----------------
# What is fitted need not be the teacher's network. A student is a function of the fields of its own rows, given as
# ``student``. Networks that are not linear in their fields, such as attention, make a risk with several minima:
# ``limits`` lists those that it finds with their free energies, and ``hysteresis`` follows them. The column
# ``stability`` is below one where replica symmetry, which the theory assumes, is stable. ``simulate`` shows in which of
# the minima descent ends.

student = RegularisedRisk("square", strength=0.3, student=lambda Z: jnp.tanh(Z[0, 0]))
limits(model, [2.0], student, throw=False).to_pandas()[["alpha", "label_error", "free_energy", "stability"]]

# %%
# The same on the command line, with the function ``sign`` in a file ``links.py``::
#
#     glassformer limits smi --link links.py:sign --indices 1 --learner risk --loss logistic --alpha 0.5:6:12
#     glassformer simulate smi --link links.py:sign --indices 1 --learner risk --loss logistic --alpha 1,3,5 --d 200
#     glassformer plan smi --link links.py:sign --indices 1 --learner risk --loss logistic --target 0.1 \
#         --quantity label_error
#
# :doc:`/theory-training` derives the equations and says what is proven, and :doc:`/choosing` compares the learners.
