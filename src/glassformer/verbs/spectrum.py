r"""The law of the singular values, or eigenvalues, of what a learner estimates.

At its fixed point a learner sees the signal in noise, :math:`Y = S + \tau Z`, and applies a function :math:`f` to its
singular values. With the law :math:`\nu` of those of ``Y``, the estimate has the density :math:`\nu(s)/f'(s)` at
:math:`f(s)`, and an atom at zero of the mass of the values that :math:`f` sets to zero. Its singular vectors are those
of ``Y``: along them the teacher has the mean value :math:`u^T S v`, which is the optimal denoiser at ``s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.accuracy import Accuracy
from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.renamed import verb
from glassformer.core.results import Table, to_json_types
from glassformer.learners.base import Learner, SpectralMap
from glassformer.models.base import Model
from glassformer.priors.base import ScalarPrior
from glassformer.random_matrices.atoms import SpectralLaw
from glassformer.risk.penalised_matrix import value_of_rank
from glassformer.verbs.instances import Simulation
from glassformer.verbs.question import asked

# Noise, relative to the power, at which the law of the signal itself is evaluated, and the smallest noise of any law.
_NO_NOISE, _LEAST_NOISE = 1e-6, 1e-12
_BESIDE_ZERO, _ROUNDING = 1e-9, 1e-7
# Densities of drawn values average over this part of them on either side.
_NEIGHBOURS = 8
# A bulk of at most this share of the values is one of outliers.
_FEW = 0.05


class Outlier(NamedTuple):
    r"""Few values of an estimate outside its other bulks, made by as many values of the teacher.

    Attributes:
        value: mean of the estimate's values.
        share: of all values: a rank over the size of the smaller side.
        teacher: mean of the teacher's values that make them.
        overlap: :math:`\langle(u\cdot u_*)(v\cdot v_*)\rangle` of the estimate's singular vectors with those of the
            teacher, summed over the teacher's; for one symmetric value ``x`` in small noise :math:`1 - \tau^2/x^2`.
    """

    value: float
    share: float
    teacher: float
    overlap: float


@dataclass(frozen=True, eq=False, kw_only=True)
class EstimateSpectrum(Table):
    r"""The law of the singular values of an estimate at one sample ratio, eigenvalues for symmetric matrices.

    A :class:`~glassformer.core.results.Table` with a row for every node of a quadrature, in ascending order. Values are
    in units of :math:`(dL)^{1/4}` for bilinear sequence regression, and as they are for attention-indexed models.

    Columns: ``alpha``; ``value``; ``density`` of the estimate, whose integral is one less the atom; ``cumulative``, the
    share of values up to this one, the atom included; ``prior_density``, of the teacher, and of a student of the
    teacher's width before training; NaN for a teacher of given values; ``teacher_value``, the mean of :math:`u^T S v`
    over the estimate's singular vectors ``u``, ``v`` at this value, in the unit of the values.

    Attributes:
        atom: share of values that are zero.
        outliers: one :class:`Outlier` for each small bulk apart from the others, of a teacher of given values.
        edges: ends of the bulks, shape (bulks, 2).
        weights: of the nodes in averages over the law of the estimate; with the atom they sum to one.
    """

    atom: float
    outliers: tuple[Outlier, ...] = ()
    edges: Array
    weights: Array
    drawing = "plot_spectrum"

    @property
    def alpha(self) -> float:
        """Sample ratio."""
        return float(self["alpha"][0])

    def _require_runs(self, runs: Table) -> None:
        """Raise unless the runs have singular values, which are drawn as a histogram beside the law."""
        if not isinstance(runs, Simulation) or runs.instances[0][0].singular_values is None:
            raise IncompatibleError("runs without singular values: use simulate with keep = ('singular_values',)")

    def moment(self, power: int) -> float:
        """Return the mean of a power of the values over the law, the atom included."""
        return float(np.sum(self.weights * self["value"] ** power)) + self.atom * (power == 0)

    def distance(self, values: Array) -> float:
        """Return the Kolmogorov distance of the law from values of runs, an array of any shape."""
        drawn, rounding = np.sort(np.ravel(values)), 1e-9 * float(np.max(np.abs(values), initial=0.0))
        shares = np.searchsorted(drawn, self["value"] + rounding, side="right") / len(drawn)
        return float(np.max(np.abs(shares - self["cumulative"])))

    def to_dict(self) -> dict[str, Any]:
        """Return the law, as written in JSON."""
        return {
            **super().to_dict(),
            "alpha": self.alpha,
            "atom": self.atom,
            "edges": to_json_types(self.edges),
            "outliers": [outlier._asdict() for outlier in self.outliers],
        }


@verb
def spectrum(
    model: Model,
    alpha: float,
    learner: str | Learner = "gamp",
    *,
    step: int | None = None,
    throw: bool = True,
    accuracy: Accuracy | None = None,
) -> EstimateSpectrum:
    r"""Return the law of the singular values of an estimate, in the limit of large sizes.

    Equation :eq:`estimate-spectrum` of the documentation. Bayes-optimal estimates apply the denoiser of the prior,
    minimisers of a risk the proximal map of the penalty, which lowers values by a threshold and multiplies them by a
    gain. Not to be confused with the parameter ``spectrum`` of a model, the law of the teacher.

    Args:
        model: of one matrix of extensive width: bilinear sequence regression or attention-indexed models.
        alpha: sample ratio, finite and > 0.
        learner: a learner with a theory, or its name.
        step: of ``gd``, whose law changes in time: number of steps, at least 1. The law is that of matrices which the
            equations draw at a finite size (``matrix_size`` of the accuracy), of at most a few hundred values.
        throw: raise an error if the fixed point did not converge.
        accuracy: tolerances and sizes of samples.

    Returns:
        :class:`EstimateSpectrum`: density, atom at zero and edges of the bulks.

    Raises:
        ParameterError: ``alpha`` or ``step`` is out of range.
        IncompatibleError: no law of the estimate is known, or the estimate is zero.
        ConvergenceError: with ``throw``, the fixed point did not converge.

    Example:
        >>> from glassformer import BilinearSequenceRegression, NuclearNorm
        >>> found = spectrum(BilinearSequenceRegression(rho=0.3, noise=0.1), 0.5, NuclearNorm(strength=0.1))
        >>> round(found.atom, 3), found.edges.round(3).tolist()
        (0.514, [[0.0, 2.782]])
    """
    require_arguments(spectrum, locals())
    if not (np.isfinite(alpha) and alpha > 0):
        raise ParameterError("alpha", alpha, "one finite number > 0")
    question = asked(model, learner, accuracy, "spectrum")
    theory = question.theory
    if step is not None:
        require_integer("step", step, 1)
        limit, drawn = theory.values_after(float(alpha), int(step))
        if throw:
            limit.raise_unless_converged()
        return _spectrum_of_draws(question.model.matrix_prior, limit, drawn)
    limit = theory.limits([alpha], throw)
    return _spectrum_of(question.model.matrix_prior, limit, theory.spectral_map(limit))


def _spectrum_of(prior: ScalarPrior, limit: Table, seen: SpectralMap) -> EstimateSpectrum:
    """Return the law of the estimate that a map makes of a noisy signal."""
    law = prior.noisy_law(np.array([max(seen.noise, _LEAST_NOISE * prior.second_moment)]))
    cut = 0.0 if seen.threshold is None else seen.threshold
    if seen.rank < 1:
        cut = max(cut, float(value_of_rank(law, seen.rank)[0]))
    s, weights = (part[0] for part in law.nodes(np.array([cut]))[:2])
    order = np.argsort(s)
    s, weights = s[order], weights[order]
    # Nodes of bulks that are not there have no weight.
    kept = (weights > 0) & (s > (-np.inf if seen.threshold is None else cut))
    s, weights = s[kept], weights[kept]
    teacher, bayes_slopes = law.shrinkage(s)
    ends = _bulks(law)
    if seen.threshold is None:
        values, slopes = teacher, bayes_slopes
        # A denoiser of singular values is odd: it maps zero to zero, and is evaluated beside it.
        beside = np.where(ends == 0, _BESIDE_ZERO, ends)
        atom, ends = 0.0, law.shrinkage(beside.ravel())[0].reshape(ends.shape)
    else:
        lowered = s - seen.threshold
        square = float(law.unit[0]) * float(np.sum(weights * lowered**2))
        gain = np.sqrt(seen.power / square) if square > 0 else 0.0
        values, slopes = gain * lowered, np.full(len(s), gain)
        atom, ends = max(1 - float(weights.sum()), 0.0), gain * (np.maximum(ends, cut) - seen.threshold)
        # What is missing of the mass is rounding unless values are dropped.
        atom = atom if atom > _ROUNDING else 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        density = np.where(slopes > 0, law.density(s) / law.density_mass / slopes, np.nan)
    columns = {
        "alpha": np.full(len(s), limit["alpha"][0]),
        "value": values,
        "density": density,
        "cumulative": atom + np.cumsum(weights) - 0.5 * weights,
        "prior_density": _density_of_prior(prior, values),
        "teacher_value": teacher,
    }
    edges = ends[ends[:, 1] > ends[:, 0]]
    return EstimateSpectrum(
        model=limit.model,
        parameters=limit.parameters,
        columns=columns,
        status=[limit.status[0]] * len(s),
        notes=limit.notes,
        atom=atom,
        outliers=_outliers(law.given, edges, values, weights, teacher),
        edges=edges,
        weights=weights,
    )


def _spectrum_of_draws(prior: ScalarPrior, limit: Table, drawn: Array) -> EstimateSpectrum:
    """Return the law of drawn values; its density is that of neighbours."""
    values = np.sort(drawn[np.isfinite(drawn)])
    zero = values <= _BESIDE_ZERO * np.max(values, initial=0.0)
    atom, values = float(np.mean(zero)) if zero.size else np.nan, values[~zero]
    weights = np.full(len(values), (1 - atom) / max(len(values), 1))
    near = max(len(values) // _NEIGHBOURS, 1)
    rank = np.arange(len(values))
    low, high = np.maximum(rank - near, 0), np.minimum(rank + near, len(values) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        density = (1 - atom) * (high - low) / len(values) / (values[high] - values[low])
    columns = {
        "alpha": np.full(len(values), limit["alpha"][0]),
        "value": values,
        "density": density,
        "cumulative": atom + np.cumsum(weights) - 0.5 * weights,
        "prior_density": _density_of_prior(prior, values),
    }
    return EstimateSpectrum(
        model=limit.model,
        parameters=limit.parameters,
        columns=columns,
        status=[limit.status[0]] * len(values),
        notes=limit.notes,
        atom=atom,
        edges=values[[0, -1]][None] if len(values) else np.empty((0, 2)),
        weights=weights,
    )


def _outliers(
    given: tuple[Array, Array] | None, edges: Array, values: Array, weights: Array, teacher: Array
) -> tuple[Outlier, ...]:
    """Return small bulks away from that of the most frequent value.

    Each has as many values of the estimate as of the teacher, in the same order.
    """
    if given is None:
        return ()
    found, (own, shares) = [], given
    ends = np.append(0.0, np.cumsum(shares))
    for low, high in edges:
        inside = (values >= low) & (values <= high)
        share = float(np.sum(weights[inside]))
        if not 0 < share <= _FEW:
            continue
        # The values above are an exact share, those below may be missing.
        top = 1 - float(np.sum(weights[values > high]))
        counted = np.diff(np.clip(ends, top - share, top))
        # The bulk of the most frequent value, usually zero, may be cut down to a few.
        if counted[np.argmax(shares)] > _ROUNDING:
            continue
        mean = float(counted @ own) / share
        seen = float(weights[inside] @ teacher[inside]) / share
        found.append(Outlier(float(weights[inside] @ values[inside]) / share, share, mean, seen / mean))
    return tuple(found)


def _bulks(law: SpectralLaw) -> Array:
    """Return the ends of the bulks of a single law, shape (bulks, 2)."""
    ends = law.support[0]
    return np.asarray(ends[np.isfinite(ends).all(axis=1)])


def _density_of_prior(prior: ScalarPrior, values: Array) -> Array:
    """Return the density of the signal's own values, without their atom at zero; NaN where values are given."""
    law = prior.noisy_law(np.array([_NO_NOISE * prior.second_moment]))
    if law.given is not None:
        return np.full(len(values), np.nan)
    around_zero = [np.abs(bulk).max() for bulk in _bulks(law) if prior.rank < 1][:1]
    away = np.abs(values) > max([_BESIDE_ZERO, *around_zero])
    density = np.zeros(len(values))
    density[away] = law.density(values[away]) / law.density_mass
    return density
