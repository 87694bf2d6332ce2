r"""The resolvent of a sample covariance :math:`R = \frac1k\sum_jw_jw_j^T` of ``k`` vectors in ``d`` dimensions.

With the covariance ``C`` of the vectors and :math:`\kappa = k/d`, the resolvent is close to a function of ``C`` alone,

.. math:: (R+z)^{-1} \simeq F = (\omega C + z)^{-1}, \qquad
   \omega\,\Bigl[1 + \frac1{\kappa d}\mathrm{Tr}\,CF\Bigr] = 1 .

Source: Marchenko, Pastur, Math. USSR Sb. 1, 457 (1967); Silverstein, J. Multivariate Anal. 55, 331 (1995).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root

# Least z: below it squares of the resolvent overflow.
_LEAST = 1e-150


class Resolvent(NamedTuple):
    r"""The resolvent along the eigenvectors of ``C``, the last axis.

    Attributes:
        z: :math:`z > 0`, with a last axis of length one.
        f: ``F``.
        known: :math:`1 - zF = \omega CF`, the share of a vector that ridge regression of strength ``z`` finds.
        spread: :math:`y = z\langle CF^2\rangle/(\kappa + z\langle CF^2\rangle)`, how much the vectors scatter.
        slope: :math:`-\partial_zF`.
    """

    z: Array
    f: Array
    known: Array
    spread: Array
    slope: Array


@dataclass(frozen=True, eq=False)
class SampleCovariance:
    r"""The law of ``R``.

    Equation :eq:`in-context-ridge` of the documentation has the errors that follow from it.

    Args:
        values: eigenvalues of ``C``, positive, each of the same multiplicity.
        ratio: :math:`\kappa = k/d > 0`, infinite for :math:`R = C`.

    Example:
        >>> law = SampleCovariance(np.ones(1), 0.5)
        >>> law.resolvent(np.array([0.25])).f.ravel()  # half of the eigenvalues are zero
        array([2.35078106])
    """

    values: Array
    ratio: float

    def resolvent(self, z: Array) -> Resolvent:
        """Return the resolvent at ``z``, shape (..., eigenvalues)."""
        z = np.maximum(np.asarray(z, dtype=float), _LEAST)[..., None]
        omega = self._omega(z)
        f = 1 / (omega * self.values + z)
        scatter = z * np.mean(self.values * f**2, axis=-1, keepdims=True)
        spread = scatter / (self.ratio + scatter)
        # The derivative of omega is omega y/z.
        return Resolvent(z, f, omega * self.values * f, spread, (1 + omega * spread / z * self.values) * f**2)

    def nodes(self, count: int) -> tuple[Array, Array]:
        """Return eigenvalues of ``R`` and their shares, a quadrature for tasks of equal eigenvalues.

        The density has square roots at both ends of the spectrum, which angles between them remove.

        Raises:
            IncompatibleError: eigenvalues of ``C`` differ.
        """
        value = self.values[0]
        if not np.all(self.values == value):
            raise IncompatibleError(
                "descent in time has no equations for tasks of unequal eigenvalues: use learner ridge"
            )
        if np.isinf(self.ratio):
            return np.array([value]), np.ones(1)
        angles = np.pi * np.arange(1, count + 1) / (count + 1)
        middle, half = 1 + 1 / self.ratio, 2 / np.sqrt(self.ratio)
        r = middle + half * np.cos(angles)
        share = self.ratio * (half * np.sin(angles)) ** 2 / (2 * r * (count + 1))
        if self.ratio >= 1:
            return value * r, share
        return value * np.append(r, 0.0), np.append(share, 1 - self.ratio)

    def _omega(self, z: Array) -> Array:
        if np.isinf(self.ratio):
            return np.ones_like(z)
        if np.all(self.values == self.values[0]):
            # The positive root of omega^2 + b omega = x, in the form without cancellation.
            x = z / self.values[0]
            b = x + 1 / self.ratio - 1
            root = np.hypot(b, 2 * np.sqrt(x))
            return np.where(b > 0, 2 * x / (np.abs(b) + root), (root - b) / 2)

        def excess(log_omega: Array) -> tuple[Array, Array]:
            omega = np.exp(log_omega)
            f = 1 / (omega * self.values + z)
            known, slope = (np.mean(part, axis=-1, keepdims=True) for part in (self.values * f, z * self.values * f**2))
            return omega * (1 + known / self.ratio) - 1, omega * (1 + slope / self.ratio)

        low = -np.log1p(np.mean(self.values) / (z * self.ratio))
        return np.exp(bracketed_root(excess, low, np.zeros_like(low), last_step=1e-11))
