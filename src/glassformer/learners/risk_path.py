"""Regularised risk at many strengths in one run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import is_number, is_whole, require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Status
from glassformer.designs.base import Design
from glassformer.learners.algorithms.penalised_fit import PenalisedFit, prepared
from glassformer.learners.algorithms.several_classes import SeveralClasses
from glassformer.numerics.decompositions import singular_values

if TYPE_CHECKING:
    import pandas

# Strengths of a path by default, the share of the largest useful one that the least is, and how each is solved.
STRENGTHS, _LEAST, ITERATION = 20, 1e-3, Iteration(tolerance=1e-4, max_iterations=5000)
# Singular values below this share of the largest one are rounding errors.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class RiskPath(DisplayMixin):
    """Minimisers at several strengths, the largest first.

    Attributes:
        strengths: shape (k,).
        estimates: shape (k, L, d).
        intercepts: what is added to the fields, shape (k,).
        gaps: certified duality gap at the intercept, relative to the risk of an estimate of zero, shape (k,).
        status: of each.
        iterations: steps of all together.
    """

    strengths: Array
    estimates: Array
    intercepts: Array
    gaps: Array
    status: tuple[Status, ...]
    iterations: int
    drawing = "plot_risk_path"

    def to_pandas(self) -> pandas.DataFrame:
        """One row per strength."""
        import pandas

        columns = {"strength": self.strengths, "rank": self.ranks, "intercept": self.intercepts, "gap": self.gaps}
        return pandas.DataFrame({**columns, "status": [str(status) for status in self.status]})

    @property
    def ranks(self) -> Array:
        """Of the estimates: singular values that are not zero."""
        return np.array([rank_of(one) for one in self.estimates])

    @property
    def converged(self) -> bool:
        """Whether all of them are."""
        return all(status.ok for status in self.status)


def risk_path(
    design: Design | SeveralClasses,
    labels: ArrayLike,
    loss: Any = "square",
    penalty: str = "nuclear",
    strengths: ArrayLike | int = STRENGTHS,
    *,
    intercept: bool = False,
    weights: ArrayLike | None = None,
    settings: Iteration | None = None,
) -> RiskPath:
    r"""Minimisers of :math:`\sum_\mu w_\mu\,\ell(y_\mu, h_\mu + b) + \lambda\,p(S)`, from strong to weak penalties.

    Every minimiser begins where the one before ended, and carries a certificate of its own.

    Args:
        design: inputs, for instance :class:`~glassformer.designs.dense.DenseDesign`.
        labels: shape of the fields; +1 and -1 for ``"logistic"`` and ``"hinge"``.
        loss: as for :class:`~glassformer.learners.regularised_risk.RegularisedRisk`.
        penalty: as there.
        strengths: :math:`\lambda > 0`, in any order, in the units of that learner for bilinear models; or how many,
            from the one above which the estimate is zero, for ridge that which halves every direction, to a thousandth.
        intercept: whether a constant ``b`` without penalty is fitted.
        weights: :math:`w_\mu\ge 0`, one per sample; samples of weight zero are left out.
        settings: ``tolerance`` is the duality gap that is accepted (1e-4 by default); steps allowed at each strength.

    Raises:
        ParameterError: an unknown loss or penalty, or strengths or weights out of range.
        DataError: labels that do not match the inputs, or that the loss does not take.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> path = risk_path(design, design.forward(signal, 0) + 0.1 * rng.standard_normal(150), strengths=6)
        >>> path.ranks[:2].tolist(), path.converged
        ([0, 1], True)
    """
    require_arguments(risk_path, locals())
    fit = prepared(design, labels, loss, penalty, intercept, weights)
    wanted = strengths_of(fit, strengths)
    return followed(fit, wanted, settings or ITERATION)


def rank_of(matrix: Array) -> int:
    """Singular values that are not zero but for rounding.

    Example:
        >>> rank_of(np.diag([1.0, 1e-20]))
        1
    """
    values = singular_values(matrix)
    return int(np.sum(values > _ROUNDING * max(float(values[0]), 1e-300)))


def followed(fit: PenalisedFit, strengths: Array, settings: Iteration) -> RiskPath:
    """The path of a problem through strengths that fall."""
    start, shift = np.zeros(fit.design.signal_shape), fit.best_intercept(np.zeros_like(fit.labels))
    found, shifts = [], []
    for strength in strengths:
        solution, shift = fit.solved(float(strength), start, shift, settings)
        start = solution.value[0]
        found.append(solution)
        shifts.append(shift)
    return RiskPath(
        strengths,
        np.array([one.value[0] for one in found]),
        np.array(shifts),
        np.array([one.residual[0] for one in found]),
        tuple(one.status[0] for one in found),
        int(sum(one.iterations[0] for one in found)),
    )


def strengths_of(fit: PenalisedFit, strengths: ArrayLike | int) -> Array:
    """In falling order; as many as asked for, from the largest useful one."""
    wanted = asked_strengths(strengths)
    if isinstance(wanted, int):
        return np.asarray(np.geomspace(1.0, _LEAST, wanted) * fit.largest_strength)
    return wanted


def asked_strengths(strengths: ArrayLike | int) -> Array | int:
    """In falling order, or how many of them.

    Raises:
        ParameterError: they are neither.
    """
    if is_whole(strengths, 0) or (is_number(strengths) and float(strengths).is_integer()):  # type: ignore[arg-type]
        require_integer("strengths", strengths, 2)
        return int(strengths)  # type: ignore[arg-type]
    wanted = np.sort(np.atleast_1d(np.asarray(strengths, dtype=float)).ravel())[::-1]
    if not wanted.size or not np.all(np.isfinite(wanted)) or np.any(wanted <= 0):
        raise ParameterError("strengths", strengths, "finite numbers > 0, or how many of them (an integer >= 2)")
    return wanted
