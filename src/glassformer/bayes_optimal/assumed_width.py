r"""State evolution of message passing with a wrong prior, for instance with a wrong width of the signal."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.solve import validated_alpha
from glassformer.bayes_optimal.trajectory import iterate_states, require_steps, trajectory_table
from glassformer.core.checks import require_arguments
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.results import Steps, Table
from glassformer.core.settings import Iteration
from glassformer.models.base import Model, require_theory
from glassformer.numerics.fixed_points.accelerated import Accelerated
from glassformer.numerics.fixed_points.solve import Flags, Index, solve
from glassformer.priors.base import ScalarPrior

# The first fixed point is approached with a coarse quadrature, then refined with an exact one.
_COARSE, _EXACT = Iteration(tolerance=1e-6, max_iterations=2000), Iteration(tolerance=1e-10, max_iterations=100)
# Inverse of the smallest noise at which integrals over the law are finite in double precision.
_LARGEST_PRECISION = 1e14
# Gauss-Legendre nodes on each piece of the law, doubled until integrals agree to this share of the mass.
_NODES, _AGREEMENT = (24, 48, 96, 192, 384, 768), 1e-10


def assumed_prior_limits(model: Model, alpha: ArrayLike, assumed: ScalarPrior) -> Table:
    r"""Return the error of message passing on linear labels with the denoiser of an assumed prior.

    Equation :eq:`assumed-prior` of the documentation.

    .. math:: \tau^2 = \frac{\Delta + E}\alpha, \qquad
       E = \mathrm{MMSE}(\tau^2) + \int\nu\,(\hat s_{assumed} - \hat s)^2 ,

    with :math:`\nu` the law of singular values of the signal in noise :math:`\tau^2`. The algorithm measures the noise
    from residuals, so that the assumed prior enters through the denoiser only. With the model's own prior this is the
    Bayes-optimal error. Beyond the support of the assumed law its denoiser is continued as in the algorithm.

    Args:
        model: bilinear sequence regression with the Gaussian channel, finite ``rho`` or a spectrum.
        alpha: sample ratios, finite and >= 0, shape (points,).
        assumed: the assumed prior, for instance :class:`~glassformer.priors.bilinear.BilinearPrior` of another width.

    Returns:
        :class:`~glassformer.core.results.Table` with the columns ``alpha``, ``error``,
        ``error_estimate``, ``effective_noise`` (:math:`\tau^2`), ``residual`` and ``iterations``.

    Raises:
        IncompatibleError: the labels are not linear, or the signal has no known law of singular values.

    Source: derived here.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.priors.bilinear import BilinearPrior
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> assumed_prior_limits(model, [0.5], BilinearPrior(beta=1, rho=0.5))["error"].round(4)
        array([0.373])
    """
    require_arguments(assumed_prior_limits, locals())
    alpha = validated_alpha(alpha)
    prior, counts = _prior_and_counts(model, alpha, assumed)
    noise = float(model.channel.noise)

    def coarse_step(error: Array, index: Index) -> Estimate:
        value = [_coarse_error(prior, assumed, float(x)) for x in counts[index] / (noise + error)]
        return Estimate(np.array(value), np.zeros(len(value)))

    def exact_step(error: Array, index: Index) -> Estimate:
        return _errors_at(prior, assumed, counts[index] / (noise + error))

    def in_domain(error: Array) -> Flags:
        return np.asarray(np.all((error >= 0) & (noise + error > 0), axis=1))

    coarse = solve(coarse_step, np.ones(len(alpha)), Accelerated(in_domain), _COARSE)
    solution = solve(exact_step, coarse.value, Accelerated(in_domain), _EXACT)
    with np.errstate(divide="ignore"):
        effective_noise = (noise + solution.value) / counts
    return Table(
        model=model.name,
        parameters={**model.parameters, "assumed": repr(assumed)},
        columns={
            "alpha": alpha,
            "error": solution.value,
            "error_estimate": solution.error_estimate,
            "effective_noise": effective_noise,
            "residual": solution.residual,
            "iterations": (coarse.iterations + solution.iterations).astype(float),
        },
        status=solution.status,
        notes=[],
    )


def assumed_prior_trajectory(model: Model, alpha: ArrayLike, steps: int, assumed: ScalarPrior) -> Steps:
    r"""Return the error after every step of undamped message passing with the denoiser of an assumed prior.

    Equation :eq:`assumed-prior` of the documentation is iterated without damping; noise is measured from residuals.

    Args:
        model: as for :func:`assumed_prior_limits`.
        alpha: sample ratios, finite and >= 0, shape (points,).
        steps: number of steps, at least 1.
        assumed: the assumed prior.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration``,
        ``error``, ``q_hat`` (:math:`1/\tau^2` in the last step) and ``error_estimate``.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: as for :func:`assumed_prior_limits`.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.priors.bilinear import BilinearPrior
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
        >>> assumed_prior_trajectory(model, [0.5], 2, BilinearPrior(beta=1, rho=0.5))["error"].round(4).tolist()
        [1.0, 0.6075, 0.4817]
    """
    require_arguments(assumed_prior_trajectory, locals())
    alpha = validated_alpha(alpha)
    prior, counts = _prior_and_counts(model, alpha, assumed)
    require_steps(model, alpha, steps)
    noise = float(model.channel.noise)

    def advance(error: Array, q_hat: Array) -> tuple[Array, Estimate]:
        del q_hat
        precision = counts[:, None, None] / (noise + error)
        return precision, _errors_at(prior, assumed, precision)

    start = _errors_at(prior, assumed, np.zeros((1, 1))).value
    table = trajectory_table(model, alpha, iterate_states(advance, start, len(alpha), steps))
    # Only the posterior mean has an overlap of 1 - error.
    columns = {name: column for name, column in table.columns.items() if name != "overlap"}
    return replace(table, columns=columns, parameters={**model.parameters, "assumed": repr(assumed)})


def _prior_and_counts(model: Model, alpha: Array, assumed: ScalarPrior) -> tuple[ScalarPrior, Array]:
    """Return the prior of the signal, and the number of labels per entry."""
    require_theory(model)
    prior = model.matrix_prior
    if not model.channel.labels.linear or prior.symmetric != assumed.symmetric:
        raise IncompatibleError(
            "an assumed prior needs linear labels of one matrix, and a prior of the same symmetry as the model's"
        )
    return prior, alpha / prior.degrees * float(np.prod(model.channel.fields.shape))


def _errors_at(prior: ScalarPrior, assumed: ScalarPrior, precision: Array) -> Estimate:
    """Return errors of the assumed denoiser; without data the estimate is the mean of the assumed prior."""
    value, error = np.empty_like(precision), np.zeros_like(precision)
    for index, one in np.ndenumerate(precision):
        if one > 0:
            value[index], error[index] = denoised_error(prior, assumed, 1 / min(float(one), _LARGEST_PRECISION))
        else:
            value[index] = 1 + float(prior.mean((1, 1)).item() - assumed.mean((1, 1)).item()) ** 2
    return Estimate(value, error)


def denoised_error(prior: ScalarPrior, assumed: ScalarPrior, noise: float) -> Estimate:
    """Return the error of the denoiser of an assumed prior on a signal in noise, shape ()."""
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))

    def terms(s: Array) -> Array:
        # Slopes of the denoiser, which are not used here, and brackets of its roots overflow near zero.
        with np.errstate(divide="ignore", invalid="ignore"):
            density, gap = law.density(s), other.denoise(s) - law.denoise(s)
        return np.stack([density, density * gap**2])

    # The bulks of the law, divided at the edges of the assumed law, where its denoiser is not smooth.
    edges, pieces = other.support[0], []
    for low, high in law.support[0][~np.isnan(law.support[0][:, 0])]:
        inside = edges[(edges > low) & (edges < high)]
        pieces += list(itertools.pairwise(np.concatenate([[low], np.sort(inside), [high]])))
    ends = np.array(pieces)
    fine = coarse = np.zeros(2)
    for count in _NODES:
        coarse, fine = fine, _integrals(ends, terms, count)
        if abs(fine[1] - coarse[1]) <= _AGREEMENT * fine[0]:
            break
    # The mass is 1, or 1/2 for a law symmetric about zero. The quadrature misses density near zero, so it is rounded.
    least, unit = law.mmse(), law.unit[0] * 2 / np.rint(2 * fine[0])
    return Estimate(least.value[0] + unit * fine[1], least.error[0] + unit * abs(fine[1] - coarse[1]))


def _integrals(ends: Array, terms: Callable[[Array], Array], count: int) -> Array:
    """Return integrals over pieces with square roots at their ends, which the substitution s = cos(angle) removes."""
    x, weight = leggauss(count)
    angle = np.pi / 2 * (x + 1)
    width = (ends[:, 1] - ends[:, 0])[:, None]
    s = ends[:, :1] + width * np.sin(angle / 2) ** 2
    return np.asarray(terms(s.ravel()) @ (np.pi / 4 * width * np.sin(angle) * weight).ravel())


def _coarse_error(prior: ScalarPrior, assumed: ScalarPrior, precision: float) -> float:
    """Return the error with the nodes of the signal's law, which ignore the edges of the assumed law."""
    if precision == 0:
        return float(_errors_at(prior, assumed, np.zeros(1)).value[0])
    noise = np.array([1 / min(precision, _LARGEST_PRECISION)])
    law, other = prior.noisy_law(noise), assumed.noisy_law(noise)
    s, weight, shrunk = (part[0] for part in law.nodes(cut=1.0))
    used = weight > 0
    # Near zero, where square matrices have singular values, the denoiser is linear.
    with np.errstate(divide="ignore", invalid="ignore"):
        denoised = other.denoise(np.maximum(s[used], 1e-9 * s[used].max()))
    return float(law.mmse().value[0] + law.unit[0] * (weight[used] @ (denoised - shrunk[used]) ** 2))
