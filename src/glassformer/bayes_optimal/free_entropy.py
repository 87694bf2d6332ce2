r"""Free entropy of a model, as a function of the overlap and at the fixed points of state evolution.

.. math:: \Phi(q) = \alpha\, E \log Z_{out}(q)
   + \mathrm{degrees}\,\mathrm{ext}_{\hat q}\bigl[\Psi(\hat q) - q\hat q/2\bigr],

in nats per unit of the sample ratio (``dL`` for matrices of extensive width, ``r(L+d)`` for narrow matrices).
The extremum is at :math:`q = 1 - \mathrm{MMSE}(\hat q)`, so a curve over :math:`\hat q` needs no inversion:
:math:`\Psi - q\hat q/2 = \hat q V/2 - I(\hat q)` with :math:`V = 1 - q` and :math:`I` the mutual information of the
denoising problem. Its derivative is :math:`\Phi'(q) = [\alpha\,E g^2(V) - \hat q(q)]/2`: stationary points are exactly
the fixed points of state evolution, and the Bayes-optimal one is the highest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.bayes_optimal.equation_of_state import information_at, mmse, overlap_grid
from glassformer.bayes_optimal.evolution_map import EvolutionMap, floor_eigenvalues, pin_row
from glassformer.bayes_optimal.expected_time import expected_work
from glassformer.bayes_optimal.solve import solve_state_evolution
from glassformer.core.checks import is_number, is_whole, require_arguments, require_integer
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.core.progress import progress
from glassformer.core.resources import require_resources
from glassformer.core.results import Table, to_json_types
from glassformer.models.base import Model, counting_threshold, require_theory
from glassformer.numerics.roots import root_by_growth


def free_entropy(model: Model, alpha: float | Array, q_hat: Array, variance: Array | None = None) -> Estimate:
    r"""Return :math:`\Phi = \alpha\,E\log Z_{out} + \mathrm{degrees}\,[\Psi(\hat Q) - \mathrm{Tr}\,Q\hat Q/2]`.

    Equations :eq:`free-entropy` and :eq:`matrix-free-entropy` of the documentation.

    In nats, shape (batch,). For sampled averages a constant that depends on the labels alone is missing; differences
    between overlaps at one sample ratio do not depend on it.

    Args:
        model: prior and channel.
        alpha: one sample ratio, or one per element of ``q_hat``.
        q_hat: finite conjugate overlaps, shape (batch,) or for several rows (batch, P, P).
        variance: posterior covariances at ``q_hat``, of the same shape; by default computed from the prior.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)
        >>> value, error = free_entropy(model, 0.3, np.array([0.1, 1.0]))
        >>> bool(np.all(error < 1e-6))
        True
    """
    output, entropy = free_entropy_parts(model, q_hat, variance)
    return Estimate(alpha * output.value + entropy.value, alpha * output.error + entropy.error)


def free_entropy_parts(model: Model, q_hat: Array, variance: Array | None = None) -> tuple[Estimate, Estimate]:
    r"""Return the output part :math:`E\log Z_{out}`, per unit of the sample ratio, and the prior part.

    The arguments are those of :func:`free_entropy`. At a fixed point the output part is the derivative of the free
    entropy with respect to the sample ratio.
    """
    require_theory(model)
    prior = model.prior
    precision = np.asarray(q_hat, dtype=float).reshape(-1, prior.rows, prior.rows)
    exact = Estimate(precision, np.zeros_like(precision))
    if variance is None:
        covariance, covariance_error = prior.covariance(exact)
    else:
        covariance, covariance_error = np.asarray(variance).reshape(precision.shape), exact.error
    entropy = prior.entropy(precision, covariance)
    error = entropy.error + 0.5 * prior.degrees * np.sum(precision * covariance_error, axis=(1, 2))
    # Variances of discrete weights may round to zero.
    output = model.channel.inference.averages(floor_eigenvalues(covariance, np.finfo(float).tiny)).log_partition
    return output, Estimate(entropy.value, error)


# Memory per overlap, in bytes.
_BYTES = 20_000
# Largest number of overlaps of one row among several: each needs a fixed point of the other rows.
MOST_PROFILE_POINTS = 40


def _column(name: str) -> Any:
    return property(lambda table: table[name], doc=f"The column ``{name}``.")


@dataclass(frozen=True, eq=False, kw_only=True)
class Landscape(Table):
    """Free entropy against the overlap at one sample ratio, with its stationary points.

    A :class:`~glassformer.core.results.Table` whose columns ``q_hat``, ``overlap``, ``free_entropy`` (in nats) and
    ``error_estimate`` (absolute) are also attributes. The status of an overlap is that of the fixed point of the other
    rows; stationary points are located between overlaps that converged.

    Attributes:
        maxima, minima: overlaps of the local maxima and minima inside the interval.
        diverges: whether the free entropy grows without bound towards the largest overlap (perfect recovery).
        largest: overlap of a signal known exactly.
    """

    maxima: Array
    minima: Array
    diverges: bool
    largest: float = 1.0
    drawing = "plot_landscape"

    q_hat, overlap, free_entropy, error_estimate = map(_column, ("q_hat", "overlap", "free_entropy", "error_estimate"))

    @property
    def alpha(self) -> float:
        """Sample ratio."""
        return float(self["alpha"][0])

    @property
    def hard_phase(self) -> bool:
        """True if a minimum separates the uninformed start from the informed one at this sample ratio."""
        return self.minima.size > 0

    @property
    def peaks(self) -> str:
        """Text of the overlaps of all maxima, including maxima at the ends of the interval."""
        inner = [f"{q:.6g}" for q in self.maxima]
        perfect = [f"{self.largest:g} (perfect recovery)"] if self.diverges else []
        return ", ".join([*inner, *perfect] or [f"{self.largest - 1:g}"])

    def to_table(self) -> Table:
        """Return the curve, one row per overlap."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return the curve, its stationary points and whether there is a hard phase, as written in JSON."""
        summary = {
            "hard_phase": self.hard_phase,
            "maxima": to_json_types(self.maxima),
            "minima": to_json_types(self.minima),
            "diverges_at_overlap_one": self.diverges,
        }
        return {**super().to_dict(), "alpha": self.alpha, **summary}


def free_entropy_curve(model: Model, alpha: float, overlaps: int = 400, row: int | None = None) -> Landscape:
    """Return the free entropy on a grid of overlaps, dense near zero overlap and near perfect overlap.

    Equations :eq:`free-entropy` and :eq:`matrix-free-entropy` of the documentation.

    Args:
        model: prior and channel.
        alpha: sample ratio, finite and >= 0.
        overlaps: number of overlaps, at least 10.
        row: the row whose overlap varies, counted from 0, the last by default; the other rows are at the fixed point of
            state evolution. Models with sampled averages have at most 40 overlaps.

    Raises:
        ParameterError: ``alpha``, ``overlaps`` or ``row`` is out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> free_entropy_curve(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), 0.5).hard_phase
        False
    """
    require_arguments(free_entropy_curve, locals())
    if not (is_number(alpha) and np.isfinite(alpha) and alpha >= 0):
        raise ParameterError("alpha", alpha, "finite and >= 0")
    require_integer("overlaps", overlaps, 10)
    require_resources("overlaps", overlaps, _BYTES * overlaps, "draw fewer overlaps")
    prior, exact = model.prior, model.has_curve
    row = prior.rows - 1 if row is None else row
    if not (is_whole(row, 0) and row < prior.rows):
        raise ParameterError("row", row, f"an integer from 0 to {prior.rows - 1}")
    if exact:
        q_hat = overlap_grid(model, overlaps)
        variance = mmse(model, q_hat).value
    else:
        q_hat, variance = prior.profile(min(overlaps, MOST_PROFILE_POINTS))
    rates, largest = np.full(q_hat.shape, float(alpha)), float(prior.self_overlap[row, row])
    with progress(f"landscape {model.name}", expected_work(model, "landscape", len(rates))):
        solution = solve_state_evolution(EvolutionMap(model, rates, model.channel, clamped=(row, variance)))
        conjugate = solution.extra["q_hat"]
        value, error = free_entropy(model, rates, pin_row(conjugate, row, q_hat), None if exact else solution.value)
    # Twice the derivative in the overlap is the conjugate overlap of the row minus its precision.
    slope, overlap = (conjugate[:, row, row] - q_hat) * variance, largest - variance
    rises, settled = slope > 0, solution.settled
    change = np.flatnonzero((rises[1:] != rises[:-1]) & settled[1:] & settled[:-1])
    if exact:
        stationary = np.array([_stationary(model, alpha, q_hat[i], q_hat[i + 1]) for i in change])
    else:
        share = slope[change] / (slope[change] - slope[change + 1])
        stationary = overlap[change] + share * (overlap[change + 1] - overlap[change])
    columns = {"alpha": rates, "overlap": overlap, "q_hat": q_hat, "free_entropy": value, "error_estimate": error}
    counted = alpha >= counting_threshold(model) * (1 - 1e-12)
    return Landscape(
        model=model.name,
        parameters=model.parameters if exact else {**model.parameters, "row": model.row_names[row]},
        columns=columns,
        status=solution.status,
        maxima=stationary[rises[change]],
        minima=stationary[~rises[change]],
        diverges=counted if exact else bool(model.channel.labels.rank > 0 and rises[-1]),
        largest=largest,
    )


def _stationary(model: Model, alpha: float, low: float, high: float) -> float:
    """Return the overlap of zero derivative between two values of q_hat with derivatives of opposite signs."""

    def gradient(t: float) -> float:
        q_hat = np.exp([t])
        information = information_at(model, mmse(model, q_hat).value).value
        return float((alpha / model.prior.degrees * information / q_hat)[0] - 1)

    t = root_by_growth(gradient, np.log(low), np.log(high), bounds=(-700.0, 700.0), xtol=1e-13)
    return float(model.prior.self_overlap[0, 0] - mmse(model, np.exp([t])).value[0])
