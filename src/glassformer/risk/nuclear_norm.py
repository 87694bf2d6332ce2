r"""Error of nuclear-norm regularisation of a bilinear signal, in the limit of large sizes.

This is the square loss of :mod:`glassformer.risk.limits`, for one sample ratio: the estimator minimises
:math:`\frac12\sum_\mu (y_\mu - h_\mu)^2 + \lambda (dL)^{1/4}\|S\|_*`. It equals the signal seen through noise of
variance :math:`\tau^2`, with singular values lowered by :math:`\theta`. With the law of
:mod:`glassformer.random_matrices.rectangular` at :math:`R = \tau^2` for :math:`\beta\ge1` (else the transposed
problem), :math:`\nu` its mass on :math:`s > 0`, :math:`f = (s - \theta)_+` and :math:`\hat s` its Bayes-optimal
denoiser,

.. math:: \tau^2 = \frac{\Delta + E}{\alpha}, \quad \theta = \frac\lambda{\alpha - \mathrm{df}}, \quad
   E = \mathrm{MMSE}(R) + \beta^{-1/2}\int\nu\,(f - \hat s)^2, \quad
   \mathrm{df} = \beta^{-1/2}\int\nu\,f\,\frac{s - \hat s}{R}.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import ParameterError
from glassformer.models.bsr import BilinearSequenceRegression
from glassformer.risk.limits import risk_limits
from glassformer.risk.losses import Square
from glassformer.risk.penalties import penalty_of

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class NuclearNormRisk(DisplayMixin):
    r"""Error of nuclear-norm regularisation at one sample ratio.

    Attributes:
        error: :math:`E = \|\hat S - S\|_F^2/(dL)`, 1 before any data.
        strength: :math:`\lambda`; zero for the interpolator of least norm.
        effective_noise: :math:`\tau^2`.
        threshold: :math:`\theta`, by which singular values are lowered.
        degrees: :math:`\mathrm{df}`, degrees of freedom of the fit per entry.
        training_error: mean squared residual, :math:`\tau^2(\alpha - \mathrm{df})^2/\alpha`.
    """

    error: float
    strength: float
    effective_noise: float
    threshold: float
    degrees: float
    training_error: float

    drawing = "plot_numbers"

    @property
    def title(self) -> str:
        """Heading of the result."""
        return f"nuclear-norm regularisation of strength {self.strength:g}"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with one row per number."""
        import pandas

        return pandas.DataFrame({"quantity": list(vars(self)), "value": list(vars(self).values())})


def nuclear_norm_risk(beta: float, rho: float, alpha: float, noise: float, strength: float) -> NuclearNormRisk:
    r"""Return the error of the minimiser of :math:`\frac12\sum_\mu (y_\mu - h_\mu)^2 + \lambda (dL)^{1/4}\|S\|_*`.

    Equation :eq:`nuclear-norm-risk` of the documentation.

    Args:
        beta: :math:`L/d`, finite and > 0.
        rho: :math:`r/d`, finite and > 0.
        alpha: sample ratio :math:`n/(dL)`, finite and > 0.
        noise: variance :math:`\Delta\ge 0` of the label noise.
        strength: :math:`\lambda\ge 0`; 0 is the limit of small strength, the interpolator of least nuclear norm (least
            squares from :math:`\alpha = 1` on).

    Raises:
        ParameterError: an argument is out of range.
        ConvergenceError: no fixed point was found, next to the threshold of perfect recovery.

    Example:
        >>> round(nuclear_norm_risk(beta=1, rho=0.3, alpha=0.5, noise=0.0, strength=0.1).error, 8)
        0.24076464
    """
    require_arguments(nuclear_norm_risk, locals())
    if not 0 <= strength < np.inf:
        raise ParameterError("strength", strength, "finite and >= 0")
    return _at_sample_ratio(beta, rho, alpha, noise, float(strength))


def best_nuclear_norm(beta: float, rho: float, alpha: float, noise: float) -> NuclearNormRisk:
    r"""Return the error at the strength of least error; without noise that is the interpolator.

    Equation :eq:`nuclear-norm-risk` of the documentation.

    Args:
        beta: :math:`L/d`, finite and > 0.
        rho: :math:`r/d`, finite and > 0.
        alpha: sample ratio :math:`n/(dL)`, finite and > 0.
        noise: variance :math:`\Delta\ge 0` of the label noise.

    Raises:
        ParameterError: an argument is out of range.
        ConvergenceError: no fixed point was found, next to the threshold of perfect recovery.

    Example:
        >>> best = best_nuclear_norm(beta=1, rho=0.3, alpha=0.5, noise=0.1)
        >>> round(best.error, 8), round(best.strength, 4)
        (0.37289523, 0.1158)
    """
    require_arguments(best_nuclear_norm, locals())
    return _at_sample_ratio(beta, rho, alpha, noise, None)


@lru_cache(maxsize=1024)
def _at_sample_ratio(beta: float, rho: float, alpha: float, noise: float, strength: float | None) -> NuclearNormRisk:
    for name, value in (("beta", beta), ("rho", rho), ("alpha", alpha)):
        if not 0 < value < np.inf:
            raise ParameterError(name, value, "finite and > 0")
    model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
    row = risk_limits(model, [alpha], Square(), penalty_of("nuclear"), strength)
    names = ("error", "strength", "effective_noise", "threshold", "degrees")
    return NuclearNormRisk(
        **{name: float(row[name][0]) for name in names}, training_error=2 * float(row["training_loss"][0])
    )
