"""
A learner of your own
=====================

Which error does *your* way of training reach, compared with the smallest possible one? A learner is a small class. It
says which models it is for, how it learns from data and, where that is known, its error in theory. Simulations beside
theory, sweeps and the command line then use it.
"""

# %%
# Averaging labels against inputs
# -------------------------------
# The simplest estimate of all: Hebb's rule, the sum of inputs weighted by their labels, scaled by one number.

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer import BilinearSequenceRegression, Ridge, Status, limits, simulate
from glassformer.learners.base import FitResult, Learner, LearnerInfo


@dataclass(frozen=True)
class Hebb(Learner):
    """The sum of inputs, weighted by their labels, times one number: the best one."""

    info: ClassVar[LearnerInfo] = LearnerInfo(name="hebb", title="Hebb's rule", family="convex")

    def incompatibility(self, model):
        return None if model.channel.linear else "is for linear labels"

    def theory(self, model, alpha, optimum=None):
        # What the noise, and the other entries of the signal, which act as noise, leave.
        noise = model.channel.label_noise
        return {"error": (1 + noise) / (alpha + 1 + noise)}

    def learn(self, model, data):
        estimate = data.design.adjoint(data.labels, 0) / (data.design.sample_ratio + 1 + model.channel.label_noise)
        return FitResult(estimate[None], status=Status.CONVERGED, iterations=1, residual=0.0)


# %%
# Beside theory, and beside others
# --------------------------------

model = BilinearSequenceRegression(rho=0.3, noise=0.1)
runs = simulate(model, [0.5, 1.0, 2.0], Hebb(), d=40, instances=4)
runs.plot()

# %%
# The Bayes-optimal error and the error of ridge regression, for comparison:

for name, error in {
    "Hebb": runs["theory"],
    "ridge": limits(model, runs["alpha"], Ridge())["error"],
    "best": limits(model, runs["alpha"])["error"],
}.items():
    print(f"{name:6s}", np.round(error, 3))

# %%
# One line in each of two tables makes it available on the command line as ``--learner hebb``, and adds it to the
# tests of every learner: :doc:`/extending` has the complete example.
