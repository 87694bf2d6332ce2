"""Ridge regression on the entries of the token matrices: the learner, its error in the limit, and the estimator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from glassformer.core.checks import require_arguments
from glassformer.core.errors import DataError, IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.results import Table, error_column
from glassformer.core.status import Status
from glassformer.designs.base import Design
from glassformer.learners.base import BY_PRODUCTS, LearnerInfo, Theory, certified_solution
from glassformer.learners.matrix_risk import RiskTheory
from glassformer.learners.square_loss import SquareLossLearner, strength_by_noise
from glassformer.random_matrices.anisotropic_ridge import anisotropic_ridge, interpolation_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import ArrayLike

    from glassformer.bayes_optimal.threshold_results import Thresholds
    from glassformer.core.solution import Solution
    from glassformer.learners.data_set import DataSet
    from glassformer.models.base import Model

# Largest number of unknowns of a system that is factored (some minutes and 3 GB); larger ones are solved by LSQR.
_LARGEST_FACTORED = 20_000
# Tolerance of LSQR.
_TOLERANCE = 1e-10
# Residual below which a solution has converged.
_ACCEPTED = 1e-6
# Largest ratio and variance: sums of twice this size are finite.
_LARGEST = 1e300


@dataclass(frozen=True)
class Ridge(SquareLossLearner):
    r"""Ridge regression, the minimiser of :math:`\sum_\mu(y_\mu - h_\mu)^2 + \lambda\|S\|_F^2`.

    For linear regression in context ``S`` is :math:`\sqrt d\,\Gamma`
    (:class:`~glassformer.models.in_context.InContextRegression`).

    Args:
        strength: :math:`\lambda\ge 0`; None for the best one: the variance of the label noise for linear labels, and
            in context the strength of least error at each sample ratio.

    Raises:
        ParameterError: the strength is out of range.

    Example:
        >>> Ridge(strength=-1.0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: strength = -1.0 is not allowed: expected None, or a finite number >= 0
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="ridge", title="ridge regression", family="convex", storages=BY_PRODUCTS, limit_settings=("strength",)
    )
    penalty: ClassVar[str] = "ridge"

    strength: float | None = strength_by_noise()

    def check(self, model: Model) -> None:
        if model.well_specified or model.features is None:
            super().check(model)

    def strength_for(self, model: Model) -> float | None:
        return float(model.channel.labels.noise) if self.strength is None and model.well_specified else self.strength

    def completed(self, model: Model) -> Self:
        return replace(self, strength=self.strength_for(model))

    def theory(self, model: Model) -> Theory:
        if model.features is not None:
            return FeatureRidgeTheory(self, model)
        return RidgeTheory(self, model, risk=self.risk(model))

    def fit(self, model: Model, data: DataSet) -> Solution:
        strength = self.strength_for(model)
        if strength is None:
            strength = float(anisotropic_ridge(model.features, data.design.sample_ratio, None).strength[0])
        return ridge(data.design, data.labels, strength)


@dataclass(frozen=True, kw_only=True)
class RidgeTheory(RiskTheory):
    """Theory of ridge regression, whose error on linear labels has a closed form."""

    def of_runs(self, alpha: Array, optimum: Table | None = None) -> Mapping[str, Array]:
        if not self.model.matrix_prior.extensive:
            raise IncompatibleError(
                "at fixed width the number of samples per entry of the signal vanishes, and the error tends to 1"
            )
        return {"error": ridge_error(alpha, self.model.channel.labels.noise, self.risk.strength)}


@dataclass(frozen=True)
class FeatureRidgeTheory(Theory):
    """Theory of ridge regression on features of any covariance."""

    learner: Ridge

    of_features: ClassVar[bool] = True

    def limits(self, alpha: ArrayLike, throw: bool = False) -> Table:
        """Return errors and strength at each sample ratio; nothing is iterated that may fail to converge."""
        from glassformer.bayes_optimal.solve import validated_alpha

        del throw
        features, strength = self.model.features, self.learner.strength_for(self.model)
        fit = anisotropic_ridge(features, validated_alpha(alpha), strength)
        errors = features.errors(fit)
        columns = {
            "alpha": fit.ratio,
            **errors,
            "training_error": fit.training_error,
            "strength": fit.strength,
            error_column(next(iter(errors))): fit.error_estimate,
        }
        table = Table(
            self.model.name,
            self.model.parameters,
            columns,
            [Status.CONVERGED] * len(fit.ratio),
            [*self.model.remarks],
        )
        return self.labelled(table, strength="best" if strength is None else strength)

    def thresholds(self) -> Thresholds:
        from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds

        features = self.model.features
        known = ["with fewer samples all labels can be fitted: degrees of freedom = labels", features.remark]
        entry = Threshold("interpolation", interpolation_ratio(features), 0.0, "; ".join(filter(None, known)))
        reason = "the risk is convex and has one minimum"
        return self.labelled(Thresholds(self.model.name, self.model.parameters, (entry,), False, reason))

    def display_columns(self, table: Table) -> list[str]:
        return table.known_columns(("new_task_error", "prediction_error", "training_error", "strength"))


def ridge_error(alpha: ArrayLike, noise: float = 0.0, regularisation: float | None = None) -> Array:
    r"""Return the error of ridge regression in the limit of large sizes.

    Equation :eq:`ridge-error` of the documentation.

    The estimator minimises :math:`\sum_\mu (y_\mu - \mathrm{Tr}(X_\mu S^T)/\sqrt{dL})^2 + \lambda\|S\|_F^2` for
    labels :math:`y = \mathrm{Tr}(X S^T)/\sqrt{dL} + \sqrt\Delta\,z`. Its error :math:`E = \|\hat S - S\|_F^2/(dL)` is
    the same for all signals of unit power per entry. With
    :math:`t = \sqrt{(\alpha + \lambda - 1)^2 + 4\lambda}`,

    .. math:: u = \frac2{\alpha + \lambda + 1 + t}, \quad v = 1 - \alpha u, \quad
       E = (v^2 + \alpha\Delta u^2)\,\frac{\lambda + v}{\lambda + v^2},

    which is the source's expression in a form without cancellation. The best choice is :math:`\lambda = \Delta`, where
    :math:`E = v` is the Bayes-optimal error for a signal of independent Gaussian entries. The limit
    :math:`\lambda\to 0` is the interpolator of least norm, with
    :math:`E = \max(1-\alpha, 0) + \Delta\min(\alpha, 1)/|1-\alpha|`.

    Args:
        alpha: sample ratio :math:`n/(dL)`, finite and >= 0, any shape.
        noise: variance :math:`\Delta \ge 0` of the label noise.
        regularisation: :math:`\lambda \ge 0`; None takes :math:`\lambda = \Delta`.

    Returns:
        The error, shape of ``alpha``; infinite for :math:`\lambda = 0 < \Delta` at :math:`\alpha = 1`.

    Raises:
        ParameterError: an argument is negative, not finite, or above 1e300.

    Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858.

    Example:
        >>> ridge_error([0.0, 0.5, 2.0])
        array([1. , 0.5, 0. ])
        >>> ridge_error(1.0, noise=0.5).round(12)  # the positive root of E^2 + E/2 = 1/2
        np.float64(0.5)
        >>> bool(ridge_error(1.0, noise=0.5, regularisation=1.0) > 0.5)
        True
    """
    require_arguments(ridge_error, locals())
    alpha = np.asarray(alpha, dtype=float)
    noise = float(noise)
    strength = noise if regularisation is None else float(regularisation)
    for name, value in (("alpha", alpha), ("noise", noise), ("regularisation", strength)):
        if not np.all((value >= 0) & (value <= _LARGEST)):
            raise ParameterError(name, value, f"finite and >= 0, up to {_LARGEST:g}")
    if strength == 0:
        bias = np.maximum(1 - alpha, 0.0)
        if noise == 0:
            return np.asarray(bias)[()]
        with np.errstate(divide="ignore"):
            return np.asarray(bias + noise * np.minimum(alpha, 1.0) / np.abs(1 - alpha))[()]
    excess = strength + (alpha - 1)
    t = np.hypot(excess, 2 * np.sqrt(strength))
    u = 1 / (alpha / 2 + strength / 2 + 0.5 + t / 2)
    # v solves v^2 + (alpha + lambda - 1) v = lambda; each form of the root is used where it has no cancellation.
    v = np.where(excess > 0, 2 * strength / (np.abs(excess) + t), (t - excess) / 2)
    return np.asarray((v**2 + (alpha * u) * (noise * u)) * ((strength + v) / (strength + v**2)))[()]


def ridge(design: Design, labels: ArrayLike, regularisation: float, factored: int = _LARGEST_FACTORED) -> Solution:
    r"""Return the minimiser of :math:`\sum_\mu (y_\mu - \mathrm{Tr}(X_\mu S^T)/\sqrt{dL})^2 + \lambda\|S\|_F^2`.

    Equation :eq:`ridge` of the documentation.

    The smaller of the primal system (``dL`` unknowns) and the dual system (``n`` unknowns) is factored. If both are too
    large, LSQR solves the problem by products with the inputs only; so do conjugate gradients for designs that have an
    approximate inverse of the normal equations. :math:`\lambda = 0` gives the interpolator of least
    norm, or least squares.

    Args:
        design: inputs; the first instance is used.
        labels: shape (samples,).
        regularisation: :math:`\lambda\ge 0`.
        factored: largest number of unknowns of a system that is factored.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d); the residual is that of the
        normal equations, relative to their right-hand side.

    Raises:
        DataError: labels do not match the inputs or are not finite, or inputs are linearly dependent and the positive
            regularisation is too small for a factorisation.
        ParameterError: ``regularisation`` is negative or not finite.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(200, (10, 10), rng)
        >>> signal = rng.standard_normal((10, 10))
        >>> found = ridge(design, design.forward(signal, 0), regularisation=0.0)
        >>> bool(np.allclose(found.value[0], signal))
        True
    """
    y = design.checked_labels(labels)
    if not (np.isfinite(regularisation) and regularisation >= 0):
        raise ParameterError("regularisation", regularisation, "finite and >= 0")
    shape = design.signal_shape
    size = shape[0] * shape[1]
    inverse = design.approximate_inverse(float(regularisation))
    if inverse is not None:
        flat, steps = _by_conjugate_gradients(design, y, regularisation, inverse)
    elif design.revealed or min(size, design.samples) > factored:
        flat, steps = _by_lsqr(design, y, regularisation)
    else:
        try:
            flat, steps = _by_factors(design.entry_fields(), y, regularisation), 1
        except np.linalg.LinAlgError:
            flat, steps = np.full(size, np.nan), 1
    if not np.all(np.isfinite(flat)):
        raise DataError(
            "X",
            "<samples>",
            f"linearly independent samples for a regularisation of {regularisation:g}",
            "give regularisation 0, or a larger one",
        )
    signal = flat.reshape(shape)
    gradient = design.adjoint(y - design.forward(signal, 0), 0) - regularisation * signal
    scale = float(np.linalg.norm(design.adjoint(y, 0)))
    residual = float(np.linalg.norm(gradient)) / max(scale, 1e-300)
    return certified_solution(signal, residual, _ACCEPTED, steps, [residual])


def _by_factors(inputs: Array, y: Array, strength: float) -> Array:
    """Return the solution of the smaller of both systems by a Cholesky factor, or least squares at strength zero."""
    from glassformer.numerics.array_library import array_library

    with array_library() as arrays:
        xp, linalg = arrays
        x, labels = xp.asarray(inputs), xp.asarray(y)
        if strength == 0:
            return np.asarray(xp.linalg.lstsq(x, labels, rcond=None)[0])
        dual = len(x) <= x.shape[1]
        gram = x @ x.T if dual else x.T @ x
        factor = linalg.cho_factor(arrays.add_to_diagonal(gram, strength), overwrite_a=True)
        solved = linalg.cho_solve(factor, labels if dual else labels @ x)
        return np.asarray(solved @ x if dual else solved)


def _by_conjugate_gradients(
    design: Design, y: Array, strength: float, inverse: Callable[[Array], Array]
) -> tuple[Array, int]:
    """Return the solution by conjugate gradients and products with the inputs, and the number of steps.

    The interpolator of least norm follows from the dual equations, which need no approximate inverse.
    """
    from scipy.sparse.linalg import LinearOperator, cg

    shape, steps = design.signal_shape, 0
    size = shape[0] * shape[1]

    def count(_: Array) -> None:
        nonlocal steps
        steps += 1

    def operator(count: int, times: Callable[[Array], Array]) -> LinearOperator:
        return LinearOperator((count, count), matvec=times, dtype=float)

    ask = {"rtol": _TOLERANCE, "maxiter": 10 * size, "callback": count}
    if strength == 0 and len(y) < size:
        dual = operator(len(y), lambda score: design.forward(design.adjoint(score, 0), 0))
        return design.adjoint(cg(dual, y, **ask)[0], 0).ravel(), steps

    def normal(flat: Array) -> Array:
        return (design.adjoint(design.forward(flat.reshape(shape), 0), 0)).ravel() + strength * flat

    rough = operator(size, lambda flat: inverse(flat.reshape(shape)).ravel())
    return np.asarray(cg(operator(size, normal), design.adjoint(y, 0).ravel(), M=rough, **ask)[0]), steps


def _by_lsqr(design: Design, y: Array, strength: float) -> tuple[Array, int]:
    """Return the solution by LSQR, which needs only products with the inputs, and the number of steps."""
    from scipy.sparse.linalg import LinearOperator, lsqr

    size = design.signal_shape[0] * design.signal_shape[1]
    operator = LinearOperator(
        (len(y), size),
        matvec=lambda flat: design.forward(flat.reshape(design.signal_shape), 0),
        rmatvec=lambda score: design.adjoint(score, 0).ravel(),
        dtype=float,
    )
    result = lsqr(operator, y, damp=np.sqrt(strength), atol=_TOLERANCE, btol=_TOLERANCE, iter_lim=10 * len(y))
    return np.asarray(result[0]), int(result[2])
