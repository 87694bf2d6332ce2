r"""Error of nuclear-norm regularisation of a bilinear signal, in the limit of large sizes.

The estimator minimises :math:`\frac12\sum_\mu (y_\mu - h_\mu)^2 + \lambda (dL)^{1/4}\|S\|_*`. In the limit of large
sizes it is the proximal map of the nuclear norm applied to :math:`Y = S + \tau Z`: the signal in white noise of
variance :math:`\tau^2`, with all singular values lowered by a threshold :math:`\theta`. With the law :math:`\nu` of the
singular values ``s > 0`` of ``Y``, :math:`f = (s - \theta)_+` and the Bayes-optimal denoiser :math:`\hat s`,

.. math:: \tau^2 = \frac{\Delta + E}{\alpha}, \quad \theta = \frac\lambda{\alpha - \mathrm{df}}, \quad
   E = \mathrm{MMSE}(\tau^2) + \beta^{-1/2}\int\nu\,(f - \hat s)^2, \quad
   \mathrm{df} = \beta^{-1/2}\int\nu\,f\,\frac{s - \hat s}{\tau^2}

for :math:`\beta\ge1` (otherwise for the transposed problem). These are the equations of the square loss among all
regularised risks, and the modules of the general case compute them:

- :math:`\nu`, :math:`\hat s` and MMSE: ``noisy_law`` of the prior, in :mod:`~glassformer.random_matrices.rectangular`;
- ``E`` and ``df`` at given :math:`\tau^2` and :math:`\theta`: :func:`~glassformer.risk.penalised_matrix.matrix_order`;
- :math:`\tau^2` and :math:`\theta` at given ``E`` and ``df``: the square loss in
  :mod:`~glassformer.risk.label_averages`, with :math:`V = \mathrm{df}/\hat V` and
  :math:`\hat m = \hat V = \alpha/(1 + V) = \alpha - \mathrm{df}`, so that :math:`\theta = \lambda/\hat m`;
- the fixed point, by Newton steps, and the interpolator, :math:`\lambda = 0`: :mod:`~glassformer.risk.fixed_points`;
- the best :math:`\lambda`: :mod:`~glassformer.risk.tuning`;
- the threshold of perfect recovery: :mod:`~glassformer.random_matrices.nuclear_norm`;
- the minimiser on data: :mod:`~glassformer.learners.nuclear_norm`.
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
        error: :math:`E = \|\hat S - S\|_F^2/(dL)`, one before any data.
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
        strength: :math:`\lambda\ge 0`; 0 for the limit of small strength, the interpolator of minimum nuclear norm (for
            :math:`\alpha\ge 1`, least squares).

    Raises:
        ParameterError: an argument is out of range.
        ConvergenceError: no fixed point was found, close to the threshold of perfect recovery.

    Example:
        >>> round(nuclear_norm_risk(beta=1, rho=0.3, alpha=0.5, noise=0.0, strength=0.1).error, 8)
        0.24076464
    """
    require_arguments(nuclear_norm_risk, locals())
    if not 0 <= strength < np.inf:
        raise ParameterError("strength", strength, "finite and >= 0")
    return _at_sample_ratio(beta, rho, alpha, noise, float(strength))


def best_nuclear_norm(beta: float, rho: float, alpha: float, noise: float) -> NuclearNormRisk:
    r"""Return the error at the strength of least error; without noise this is the interpolator.

    Equation :eq:`nuclear-norm-risk` of the documentation.

    Args:
        beta: :math:`L/d`, finite and > 0.
        rho: :math:`r/d`, finite and > 0.
        alpha: sample ratio :math:`n/(dL)`, finite and > 0.
        noise: variance :math:`\Delta\ge 0` of the label noise.

    Raises:
        ParameterError: an argument is out of range.
        ConvergenceError: no fixed point was found, close to the threshold of perfect recovery.

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
