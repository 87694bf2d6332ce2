r"""What message passing reaches that takes the signal for another one than it is."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array
from glassformer.core.results import Table
from glassformer.core.solution import Status
from glassformer.models.base import Model
from glassformer.models.priors.scalar import ScalarPrior
from glassformer.theory.state_evolution import validated_alpha

# The iteration falls from no knowledge to the first fixed point.
_STEPS, _TOLERANCE = 2000, 1e-10


def assumed_prior_limits(model: Model, alpha: ArrayLike, assumed: ScalarPrior) -> Table:
    r"""Error of linear labels' message passing with the denoiser of another prior, noise measured from residuals.

    Equation :eq:`assumed-prior` of the documentation.

    .. math:: \tau^2 = \frac{\Delta + E}\alpha, \qquad
       E = \mathrm{MMSE}(\tau^2) + \int\nu\,(\hat s_{assumed} - \hat s)^2 ,

    ``nu`` the law of the signal seen through noise :math:`\tau^2`: what is assumed shows in the denoiser alone. With
    the model's own prior this is the Bayes-optimal error. Beyond the support of the assumed law its denoiser is held as
    it is on data.

    Args:
        model: of the labels: bilinear sequence regression with the Gaussian channel, finite ``rho`` or a spectrum.
        alpha: sample ratios, finite and > 0, shape (points,).
        assumed: for instance :class:`~glassformer.models.priors.bilinear.BilinearPrior` of another width.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error``, ``effective_noise``
        (:math:`\tau^2`), ``residual`` and ``iterations``.

    Raises:
        IncompatibleError: the labels are not linear, or the signal has no known law of singular values.

    Source: derived here.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.models.priors.bilinear import BilinearPrior
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> assumed_prior_limits(model, [0.5], BilinearPrior(beta=1, rho=0.5))["error"].round(4)
        array([0.373])
    """
    prior = model.prior
    if not (model.channel.linear and isinstance(prior, ScalarPrior)) or prior.symmetric != assumed.symmetric:
        raise IncompatibleError("an assumed prior is for linear labels of one matrix of the same kind")
    rows = [_fixed_point(prior, assumed, float(a), float(model.channel.noise)) for a in validated_alpha(alpha)]
    error, noise, residual, steps = np.array(rows).T
    return Table(
        model=model.name,
        parameters={**model.parameters, "assumed": repr(assumed)},
        columns={
            "alpha": validated_alpha(alpha),
            "error": error,
            "effective_noise": noise,
            "residual": residual,
            "iterations": steps,
        },
        status=[Status.CONVERGED if r <= _TOLERANCE else Status.ITERATION_LIMIT for r in residual],
        notes=[],
    )


def denoised_error(prior: ScalarPrior, assumed: ScalarPrior, noise: float) -> float:
    """Error of a signal seen through noise, of the denoiser that belongs to another prior."""
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))
    s, weight, shrunk = (part[0] for part in law.nodes(cut=1.0))
    used = weight > 0
    # Where square matrices have values next to zero the denoiser is linear.
    with np.errstate(divide="ignore", invalid="ignore"):
        made: Array = other.denoise(np.maximum(s[used], 1e-9 * s[used].max()))  # type: ignore[attr-defined]
    return float(law.mmse().value[0] + law.unit[0] * (weight[used] @ (made - shrunk[used]) ** 2))


def _fixed_point(prior: ScalarPrior, assumed: ScalarPrior, alpha: float, noise: float) -> tuple[float, ...]:
    """Error, effective noise, the last step and how many there were."""
    count = alpha / prior.degrees
    error, step = 1.0, 0
    residual = np.inf
    while step < _STEPS and residual > _TOLERANCE and noise + error > 0:
        new = denoised_error(prior, assumed, (noise + error) / count)
        error, residual, step = new, abs(new - error), step + 1
    return error, (noise + error) / count, residual, float(step)
