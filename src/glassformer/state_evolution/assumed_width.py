r"""What message passing reaches that takes the signal for another one than it is."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.results import Steps, Table
from glassformer.core.solution import Status
from glassformer.models.base import Model, require_theory
from glassformer.priors.base import ScalarPrior
from glassformer.state_evolution.solve import validated_alpha
from glassformer.state_evolution.trajectory import followed, require_steps, table_of


@dataclass(frozen=True)
class Policy:
    """The iteration falls from no knowledge to the first fixed point, roughly; then secants refine it."""

    steps: int = 2000  # of the iteration, at most
    rough: float = 1e-6  # relative residual with which it ends
    secants: int = 12  # steps of the refinement
    tolerance: float = 1e-10  # relative residual of a fixed point
    nodes: tuple[int, ...] = (24, 48, 96, 192, 384, 768)  # on each piece of the law, from one accuracy to the next
    agreed: float = 1e-10  # difference of its integrals, as a part of the mass, that ends that


_POLICY = Policy()


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
        alpha: sample ratios, finite and >= 0, shape (points,).
        assumed: for instance :class:`~glassformer.priors.bilinear.BilinearPrior` of another width.

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
    prior, counts = _denoising(model, validated_alpha(alpha), assumed)
    rows = [_fixed_point(prior, assumed, float(count), float(model.channel.noise)) for count in counts]
    error, estimate, noise, residual, steps = np.array(rows).T
    return Table(
        model=model.name,
        parameters={**model.parameters, "assumed": repr(assumed)},
        columns={
            "alpha": validated_alpha(alpha),
            "error": error,
            "error_estimate": estimate,
            "effective_noise": noise,
            "residual": residual,
            "iterations": steps,
        },
        status=[Status.CONVERGED if r <= _POLICY.tolerance else Status.ITERATION_LIMIT for r in residual],
        notes=[],
    )


def assumed_prior_trajectory(model: Model, alpha: ArrayLike, steps: int, assumed: ScalarPrior) -> Steps:
    r"""Error after every step of undamped message passing with the denoiser of another prior.

    Equation :eq:`assumed-prior` of the documentation, iterated as it stands, noise measured from residuals.

    Args:
        model: as for :func:`assumed_prior_limits`.
        alpha: sample ratios, finite and >= 0, shape (points,).
        steps: how many, at least 1.
        assumed: the other prior.

    Returns:
        :class:`~glassformer.core.results.Steps` with one row per sample ratio and step: ``alpha``, ``iteration``,
        ``error``, ``q_hat`` (:math:`1/\tau^2` that the step to here was taken with) and ``error_estimate``.

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
    alpha = validated_alpha(alpha)
    prior, counts = _denoising(model, alpha, assumed)
    require_steps(model, alpha, steps)
    noise = float(model.channel.noise)

    def advance(error: Array, q_hat: Array) -> tuple[Array, Estimate]:
        del q_hat
        precision = counts[:, None, None] / (noise + error)
        found = [_error_at(prior, assumed, float(known)) for known in precision.ravel()]
        return precision, Estimate(*(np.reshape(part, precision.shape) for part in zip(*found, strict=True)))

    start = _error_at(prior, assumed, 0.0).value * np.eye(1)
    table = table_of(model, alpha, followed(advance, start, len(alpha), steps))
    # An estimate that is not the posterior mean has another overlap than its error would say.
    columns = {name: column for name, column in table.columns.items() if name != "overlap"}
    return replace(table, columns=columns, parameters={**model.parameters, "assumed": repr(assumed)})


def _denoising(model: Model, alpha: Array, assumed: ScalarPrior) -> tuple[ScalarPrior, Array]:
    """The signal's own prior, and labels per entry."""
    require_theory(model)
    prior = model.matrix_prior
    if not model.channel.linear or prior.symmetric != assumed.symmetric:
        raise IncompatibleError("an assumed prior is for linear labels of one matrix of the same kind")
    return prior, alpha / prior.degrees * float(np.prod(model.channel.field_components))


def _error_at(prior: ScalarPrior, assumed: ScalarPrior, precision: float) -> Estimate:
    """That of the other denoiser, also where nothing is seen: every estimate is the mean of what is assumed."""
    if precision > 0:
        return denoised_error(prior, assumed, 1 / precision)
    (wrong,) = (prior.mean((1, 1)) - assumed.mean((1, 1))).ravel() ** 2
    return Estimate(np.asarray(1 + wrong), np.asarray(0.0))


def denoised_error(prior: ScalarPrior, assumed: ScalarPrior, noise: float) -> Estimate:
    """Error of a signal seen through noise, of the denoiser that belongs to another prior; shape ()."""
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))

    def terms(s: Array) -> Array:
        # Slopes of the denoiser, of no use here, and brackets of roots overflow next to zero.
        with np.errstate(divide="ignore", invalid="ignore"):
            density, gap = law.density(s), other.denoise(s) - law.denoise(s)
        return np.stack([density, density * gap**2])

    ends = _pieces(law.support[0], other.support[0])
    fine = coarse = np.zeros(2)
    for count in _POLICY.nodes:
        coarse, fine = fine, _integrals(ends, terms, count)
        if abs(fine[1] - coarse[1]) <= _POLICY.agreed * fine[0]:
            break
    # The law of both signs has mass 1/2 here; the sum itself is less exact, by what density there is next to zero.
    least, unit = law.mmse(), law.unit[0] * 2 / np.rint(2 * fine[0])
    return Estimate(least.value[0] + unit * fine[1], least.error[0] + unit * abs(fine[1] - coarse[1]))


def _integrals(ends: Array, terms: Callable[[Array], Array], count: int) -> Array:
    """Integrals over pieces at whose ends there are square roots, which the cosine of an angle makes smooth."""
    x, weight = leggauss(count)
    angle = np.pi / 2 * (x + 1)
    width = (ends[:, 1] - ends[:, 0])[:, None]
    s = ends[:, :1] + width * np.sin(angle / 2) ** 2
    return np.asarray(terms(s.ravel()) @ (np.pi / 4 * width * np.sin(angle) * weight).ravel())


def _pieces(bulks: Array, others: Array) -> Array:
    """The bulks of the law, cut at the edges of another law, where its denoiser bends, shape (pieces, 2)."""
    found = []
    for low, high in bulks[~np.isnan(bulks[:, 0])]:
        inside = others[(others > low) & (others < high)]
        ends = np.concatenate([[low], np.sort(inside), [high]])
        found += list(itertools.pairwise(ends))
    return np.array(found)


def _roughly(prior: ScalarPrior, assumed: ScalarPrior, noise: float) -> float:
    """The same by the nodes of the law, which do not see where the other denoiser bends."""
    law, other = prior.noisy_law(np.array([noise])), assumed.noisy_law(np.array([noise]))
    s, weight, shrunk = (part[0] for part in law.nodes(cut=1.0))
    used = weight > 0
    # Where square matrices have values next to zero the denoiser is linear.
    with np.errstate(divide="ignore", invalid="ignore"):
        made = other.denoise(np.maximum(s[used], 1e-9 * s[used].max()))
    return float(law.mmse().value[0] + law.unit[0] * (weight[used] @ (made - shrunk[used]) ** 2))


def _fixed_point(prior: ScalarPrior, assumed: ScalarPrior, count: float, noise: float) -> tuple[float, ...]:
    """Error and its estimated error, effective noise, the last step and how many there were."""
    if count == 0:
        return float(_error_at(prior, assumed, 0.0).value), 0.0, np.inf, 0.0, 0.0
    error, step, residual = 1.0, 0, np.inf
    while step < _POLICY.steps and residual > _POLICY.rough and noise + error > 0:
        new = _roughly(prior, assumed, (noise + error) / count)
        error, residual, step = new, abs(new - error), step + 1
    # From there by secants of the map without its rough quadrature.
    slope, moved, before, unknown = 0.5, 0.0, 0.0, 0.0
    for _ in range(_POLICY.secants):
        if noise + error <= 0:
            break
        found = denoised_error(prior, assumed, (noise + error) / count)
        gap, unknown, step = float(found.value) - error, float(found.error), step + 1
        if moved != 0:
            slope = 1 + (gap - before) / moved
        residual, before = abs(gap), gap
        if residual <= _POLICY.tolerance or not slope < 1:
            break
        moved = gap / (1 - slope)
        error = error + moved
    estimate = (unknown + residual) / (1 - slope) if slope < 1 else np.inf
    # Next to perfect recovery secants may step over it, by less than the estimate says.
    error = max(error, 0.0)
    return error, estimate, (noise + error) / count, residual, float(step)
