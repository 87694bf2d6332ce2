"""
A learner of your own
=====================

Which error does *your* way of training reach, compared with the smallest possible one? A function of data is enough to
see it beside the limits. A small class adds settings and a theory: the verbs, sweeps and the command line then use it.
"""

# %%
# A function
# ----------
# Averaging labels against inputs is the simplest estimate of all, Hebb's rule. As a function of inputs of shape
# (n, L, d), labels, and a random generator it returns a function that predicts. Its error on new labels, without their
# noise, stands beside the best possible one. The rule has one number as a factor; one half is a guess.

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glassformer import BilinearSequenceRegression, IncompatibleError, Ridge, Status, compare, plan, simulate
from glassformer.learners import FitResult, Learner, LearnerInfo, Theory
from glassformer.results import Table

model = BilinearSequenceRegression(rho=0.3, noise=0.1)


def averaged(X, y, rng):
    weights = np.einsum("n,nld->ld", y, X) / len(X) / 2
    return lambda X: np.einsum("nld,ld->n", X, weights)


simulate(model, [0.5, 1.0, 2.0], averaged, d=40, instances=2).to_pandas()[
    ["alpha", "prediction_error", "prediction_above_optimum"]
]

# %%
# A class
# -------
# ``check`` raises for models on which the rule cannot run, and ``learn`` returns the estimate from data. ``theory``
# returns the theory of the learner on a model, here a formula: noise, and the other entries of the signal, which act
# as noise. The factor is the best one.


@dataclass(frozen=True)
class Hebb(Learner):
    """The sum of inputs, weighted by their labels, times one number: the best one."""

    info: ClassVar[LearnerInfo] = LearnerInfo(name="hebb", title="Hebb's rule", family="convex", limit_settings=())

    def check(self, model):
        if not model.channel.labels.linear:
            raise IncompatibleError("is for linear labels")

    def theory(self, model):
        return HebbTheory(self, model)

    def learn(self, model, data):
        estimate = data.design.adjoint(data.labels, 0) / (data.design.sample_ratio + 1 + model.channel.labels.noise)
        return FitResult(estimate[None], status=Status.CONVERGED, iterations=1, residual=0.0)


@dataclass(frozen=True)
class HebbTheory(Theory):
    """Its error in the limit of large sizes."""

    def limits(self, alpha, throw=False):
        alpha, noise = np.atleast_1d(np.asarray(alpha, dtype=float)), self.model.channel.labels.noise
        error = (1 + noise) / (alpha + 1 + noise)
        columns = {"alpha": alpha, "error": error, "error_estimate": np.zeros_like(error)}
        return Table(self.model.name, self.model.parameters, columns, [Status.CONVERGED] * len(alpha))


# %%
# Beside theory, and beside others
# --------------------------------
# ``compare`` draws several learners, theory as lines and runs as points.

found = compare(model, np.linspace(0.1, 2, 20), ["gamp", Ridge(), Hebb()], d=40, run_alpha=[0.5, 1, 2], instances=4)
found.plot()

# %%
# The other verbs know it as well: the samples that it needs for an error of 0.4, in dimension 100.

plan(model, 0.4, Hebb(), d=100)

# %%
# One line in each of two tables makes it available on the command line as ``--learner hebb``, and adds it to the
# tests of every learner: :doc:`/extending` has the complete example.
