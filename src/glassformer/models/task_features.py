r"""Features of linear regression in context: the query and the sum over the context, :math:`\mathrm{vec}(gh^T)`.

Their covariance is :math:`I\otimes(R+c)` with the covariance ``R`` of the training tasks and the noise
:math:`c = (t+\rho)/\alpha` of the context, :math:`t = \mathrm{Tr}\,C/d`. The best linear map is
:math:`\Gamma_0 = R(R+c)^{-1}`. A label is treated as :math:`\Gamma_0` of Gaussian features of this covariance and noise
of variance :math:`\rho + \mathrm{Tr}\,R(1-\Gamma_0)/d`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.random_matrices.anisotropic_ridge import FeatureNodes, Quadratic, RidgeFeatures, RidgeFit
from glassformer.random_matrices.sample_covariance import Resolvent, SampleCovariance

# Ratios below this one are computed at it, where the map vanishes.
_NO_DATA = 1e-100


class Contexts(NamedTuple):
    r"""Tasks of a covariance, and contexts with labels of them.

    Attributes:
        values: eigenvalues of the covariance of the tasks, in the basis of the training tasks.
        context: labelled tokens over ``d``; may be infinite.
        noise: variance of the label noise.
    """

    values: Array
    context: float
    noise: float

    @property
    def power(self) -> float:
        """Mean square of a label without noise."""
        return float(np.mean(self.values))

    @property
    def scatter(self) -> float:
        """The noise ``c`` of the context."""
        return (self.power + self.noise) / self.context


@dataclass(frozen=True, eq=False)
class TaskFeatures(RidgeFeatures):
    """Features of sequences with tasks of a finite list.

    Equation :eq:`in-context-ridge` of the documentation.

    Args:
        law: covariance of the training tasks.
        training: law of the tasks and contexts in training.
        new: that of new tasks and their contexts.
    """

    law: SampleCovariance
    training: Contexts
    new: Contexts
    remark = "at large context and sample ratio the error on new tasks has a kink at tasks = 1"

    @property
    def mean(self) -> float:
        return self.training.power + self.training.scatter

    def degrees(self, s: Array) -> tuple[Array, Array]:
        c = self.training.scatter
        found = self.law.resolvent(c + s)
        # All features are noise of the context and of the strength, or of the strength alone.
        share = np.divide(s, c + s, out=np.ones_like(s, dtype=float), where=c + s > 0)
        known, twice = np.mean(found.known, axis=-1), np.mean(_known_twice(found), axis=-1)
        rest = 1 - share
        return rest + share * known, rest**2 + 2 * rest * share * known + share**2 * twice

    def unexplained(self, s: Array) -> Array:
        nu = self.training.scatter + s
        found = self.law.resolvent(nu)
        lost = nu * np.mean(found.known, axis=-1) - s * np.mean(_known_twice(found), axis=-1)
        return np.asarray(self.training.noise + lost)

    def errors(self, fit: RidgeFit) -> dict[str, Array]:
        """Return the errors on the training tasks and on new ones, label noise included."""
        found, c, new = self.law.resolvent(self.training.scatter + fit.s), self.training.scatter, self.new
        seen = new.values + new.scatter
        bias = np.mean(seen * _known_twice(found), axis=-1) - 2 * np.mean(new.values * found.known, axis=-1)
        # F + s dF/ds, without the cancellation of its parts.
        scattered = found.known * found.f * (1 - found.spread) + c * found.slope
        variance = fit.error / np.maximum(fit.ratio, _NO_DATA) * np.mean(seen * scattered, axis=-1)
        return {"test_error": fit.error, "new_task_error": new.power + new.noise + bias + variance}

    def nodes(self, count: int) -> FeatureNodes:
        r, shares = self.law.nodes(count)
        new, c = self.new, self.training.scatter
        if not np.all(new.values == new.values[0]):
            raise IncompatibleError(
                "descent in time has no equations for tasks of unequal eigenvalues: use learner ridge"
            )
        values = r + c
        target = np.divide(r, values, out=np.zeros_like(r), where=values > 0)
        noise = self.training.noise + float(shares @ (r * (1 - target)))
        trained = Quadratic(self.training.power + self.training.noise, r, values)
        flat = np.full_like(r, new.values[0])
        others = Quadratic(new.power + new.noise, flat, flat + new.scatter)
        return FeatureNodes(values, shares, target, noise, {"test_error": trained, "new_task_error": others})


def _known_twice(found: Resolvent) -> Array:
    """Return the mean square of the share that ridge regression finds, along every eigenvector of the tasks."""
    return found.known * (found.known + found.z * found.f * found.spread)
