r"""Approximate leave-one-out: fields of each sample at the minimiser of a regularised risk of all other samples.

Around the minimiser the penalty is a quadratic form ``P`` on the tangent space of the matrices of its rank. With the
slopes ``J`` of the proximal map at step ``t``, :math:`P = (J^{-1} - 1)/t`. With the fields ``B`` of the tangent
directions and the curvatures :math:`\ell''` of the loss, one Newton step without the sample :math:`\mu` gives

.. math:: h_\mu^{\setminus\mu} = h_\mu + \frac{q_\mu\,\ell'_\mu}{1 - q_\mu\,\ell''_\mu}, \qquad
   q = \mathrm{diag}\bigl[B\,(B^T\ell''B + P)^{-1}B^T\bigr].

For square loss and a quadratic penalty this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray

from glassformer.core.checks import require_arguments
from glassformer.core.equality import content_hash, same_content
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.designs.dense import DenseDesign
from glassformer.designs.pooled import PooledDesign
from glassformer.learners.empirical_risk import EmpiricalRisk
from glassformer.learners.multiclass import MulticlassDesign
from glassformer.learners.proximal_gradient import NARROW, input_scale
from glassformer.learners.risk_path import PenalisedProblem
from glassformer.learners.weighted_losses import WeightedLoss
from glassformer.numerics.decompositions import eigh
from glassformer.risk.penalty_base import Penalty

MatrixDesign = DenseDesign | PooledDesign
"""Inputs of one matrix that know the fields of products of columns."""

# Rounding error of the inverted matrix, relative to its trace.
_ROUNDING = 1e-12
# Smallest value of 1 - q l'', which vanishes for samples whose label is fitted exactly.
_LEAST_FREE = 1e-6
# Size of the block of fields of tangent directions in memory, in numbers (8 MB).
_CHUNK = 2**20
# Largest strength and intercept: squares of larger numbers overflow.
_LARGEST = 1e150


class LeaveOneOut(NamedTuple):
    r"""Leave-one-out predictions.

    Attributes:
        fields: field of each sample at the minimiser without it, shape (n,).
        degrees: degrees of freedom of the fit, :math:`\sum_\mu q_\mu\ell''_\mu`, including the intercept.
    """

    fields: Array
    degrees: float

    def __eq__(self, other: object) -> bool:
        return same_content(self, other)

    def __hash__(self) -> int:
        return content_hash(self)


def leave_one_out(
    design: Design | MulticlassDesign,
    labels: ArrayLike,
    estimate: Array,
    strength: float,
    loss: Any = "square",
    penalty: str | Penalty = "nuclear",
    *,
    intercept: bool | float = False,
    weights: ArrayLike | None = None,
) -> LeaveOneOut:
    """Return the fields of each sample at the minimiser on all other samples, to first order.

    Equation :eq:`leave-one-out` of the documentation.

    Args:
        design: inputs in one array, as for :func:`~glassformer.learners.risk_path.risk_path`.
        labels: labels of one field, as for ``risk_path``.
        estimate: the minimiser, shape (L, d).
        strength: the strength of this minimiser.
        loss: loss without kinks, as for ``risk_path``.
        penalty: penalty, as for ``risk_path``.
        intercept: True if an intercept was fitted; it is computed again. A number is the value of the fitted intercept;
            False or 0 for none. The dependence of a fitted intercept on each sample is included.
        weights: weights > 0 of the samples, as for ``risk_path``.

    Returns:
        Fields without the sample, including the intercept, and degrees of freedom of the fit.

    Raises:
        IncompatibleError: the loss has kinks, or labels are of several classes.

    Example:
        >>> from glassformer.learners.risk_path import risk_path
        >>> from glassformer.designs.dense import DenseDesign
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> signal = np.outer(rng.standard_normal(10), rng.standard_normal(10))
        >>> labels = design.forward(signal, 0) + 0.5 * rng.standard_normal(150)
        >>> estimate = risk_path(design, labels, strengths=[0.3]).estimates[0]
        >>> fitted, unseen = design.forward(estimate, 0), leave_one_out(design, labels, estimate, 0.3)
        >>> bool(np.std(labels - fitted) < 0.5 < np.std(labels - unseen.fields)), bool(unseen.degrees < 100)
        (True, True)
    """
    require_arguments(leave_one_out, locals())
    if weights is not None and np.any(np.asarray(weights, dtype=float) == 0):
        raise ParameterError("weights", 0, "numbers > 0: leave samples of weight zero out of design and labels")
    problem = PenalisedProblem.of(design, labels, loss, penalty, bool(intercept), weights)
    if np.shape(estimate) != problem.design.signal_shape:
        raise ParameterError("estimate", estimate, f"a matrix of shape {problem.design.signal_shape}, as the inputs")
    if problem.labels.ndim > 1:
        raise IncompatibleError(
            "the approximation needs labels of one field, not of several classes: use out_of_fold_predictions"
        )
    if not np.all(np.isfinite(estimate)):
        raise ParameterError("estimate", "<a matrix>", "finite entries")
    for name, value, low in (("strength", strength, 0), ("intercept", float(intercept), -_LARGEST)):
        if not low <= value <= _LARGEST:
            raise ParameterError(name, value, f"a number from {low:g} to {_LARGEST:g}")
    if not np.isfinite(problem.loss.sharpness):
        raise IncompatibleError(
            f"loss {problem.loss.name} has kinks, and the approximation needs a smooth loss: use square or huber"
        )
    if problem.penalty.parts is None:
        raise IncompatibleError(
            f"penalty {problem.penalty.name} has no closed forms, which the approximation needs: use nuclear or ridge"
        )
    refit = isinstance(intercept, bool | np.bool_)
    shift = problem.best_intercept(problem.design.forward(estimate, 0)) if refit else float(intercept)
    risk = problem.at(strength, WeightedLoss(problem.loss, shift=shift))
    prediction = approximate_leave_one_out(risk, estimate, intercept=problem.intercept)
    return prediction._replace(fields=prediction.fields + shift)


def approximate_leave_one_out(risk: EmpiricalRisk, matrix: Array, intercept: bool = False) -> LeaveOneOut:
    """Return the fields of every sample at the minimiser of the risk of the other samples, to first order.

    Args:
        risk: risk with a smooth loss of one field, over a design that has the method ``rotated``, for instance
            :class:`~glassformer.designs.dense.DenseDesign`.
        matrix: the minimiser.
        intercept: whether an intercept, as part of the loss, was fitted.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import ElasticNet
        >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
        >>> risk = EmpiricalRisk(DenseDesign(x[:, None, None]), y, Square(), ElasticNet(0.0, 1.0))
        >>> slope = (x @ y) / (x @ x + 1)
        >>> found = approximate_leave_one_out(risk, np.array([[slope]]))
        >>> bool(np.isclose(found.fields[0], x[0] * (x[1:] @ y[1:]) / (x[1:] @ x[1:] + 1)))
        True
    """
    fields = risk.design.forward(matrix, 0)
    slope = risk.slopes(fields, 0.0)
    curvature = np.broadcast_to(risk.loss.score(risk.labels, fields, NARROW)[1], fields.shape)
    tangent = _TangentSpace.of(risk, matrix, slope)
    if not (intercept or len(tangent.curvature)):
        # An estimate of zero remains zero without a sample.
        return LeaveOneOut(fields, 0.0)
    penalty = np.append(tangent.curvature, 0.0) if intercept else tangent.curvature
    hessian = np.asfortranarray(np.diag(penalty))
    for samples, basis in _chunks(risk.design, tangent, intercept):
        basis *= np.sqrt(curvature[samples, None])
        hessian = scipy.linalg.blas.dsyrk(1.0, basis.T, 1.0, hessian, lower=True, overwrite_c=True)
    # Labels that are all equal have no curvature at their best intercept: no sample changes their fit.
    hessian[np.diag_indices(len(hessian))] += _ROUNDING * np.trace(hessian) or 1.0
    root = scipy.linalg.cholesky(hessian, lower=True, overwrite_a=True, check_finite=False)
    q = np.zeros_like(fields)
    for samples, basis in _chunks(risk.design, tangent, intercept):
        q[samples] = np.sum(scipy.linalg.solve_triangular(root, basis.T, lower=True, check_finite=False) ** 2, axis=0)
    leverage = q * curvature
    return LeaveOneOut(fields + q * slope / np.maximum(1 - leverage, _LEAST_FREE), float(np.sum(leverage)))


def ridge_leave_one_out(design: MatrixDesign, labels: Array, strength: float, weights: Array) -> Array:
    r"""Return the exact prediction of ridge regression with an intercept on each sample from the others, shape (n,).

    With the kernel ``K`` of weighted inputs, :math:`G = (K + \lambda)^{-1}` and its part orthogonal to the intercept,
    :math:`Q = G - G11^TG/1^TG1`, the residuals are :math:`(Qy)_\mu/Q_{\mu\mu}`. This is accurate even if nearly all
    labels are fitted and the residuals of the fit are rounding errors.

    Args:
        design: design as for :func:`approximate_leave_one_out`.
        labels: labels, shape (n,), n > 1.
        strength: weight > 0 of half the squared entries.
        weights: weights > 0 of the samples.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 2.0])
        >>> found = ridge_leave_one_out(DenseDesign(x[:, None, None]), y, 0.5, np.ones(3))
        >>> found.round(12)  # the last: 1.5 at 1.5, and a slope of 0.5 / (0.5 + 0.5)
        array([2.  , 1.35, 2.75])
    """
    rows, columns = design.signal_shape
    root = np.sqrt(weights)
    fields = root[:, None] * design.rotated(np.eye(rows), np.eye(columns)).reshape(len(labels), -1)
    values, vectors = eigh(fields @ fields.T)
    inverse = (vectors / (np.maximum(values, 0.0) + strength)) @ vectors.T
    constant = inverse @ root
    inverse -= np.outer(constant, constant) / (root @ constant)
    return np.asarray(labels - (inverse @ (root * labels)) / np.diag(inverse) / root)


class _TangentSpace(NamedTuple):
    """Tangent directions of the minimiser, given by its singular vectors, and the curvature of the penalty.

    Two columns ``i < j`` give a symmetric and, unless matrices are symmetric, an antisymmetric direction.

    Attributes:
        left: left singular vectors, shape (L, L).
        right: right singular vectors, shape (d, d).
        rank: rank of the minimiser.
        values: number of singular values, or eigenvalues.
        symmetric: whether matrices are symmetric.
        curvature: curvature of the penalty in each direction, shape (k,).
    """

    left: Array
    right: Array
    rank: int
    values: int
    symmetric: bool
    curvature: Array

    @classmethod
    def of(cls, risk: EmpiricalRisk, matrix: Array, slope: Array) -> _TangentSpace:
        """Return the tangent space of a minimiser, at which the loss has these slopes."""
        scale = input_scale(risk)
        unit, step = scale.unit, 1 / (scale.largest * risk.loss.sharpness)
        moved = matrix - step * risk.design.adjoint(slope, 0)
        if risk.positive:
            values, left = (part[..., ::-1] for part in eigh(0.5 * (moved + moved.T)))
            right = left
        else:
            left, values, across = np.linalg.svd(moved)
            right = across.T
        absolute, square = risk.penalty.parts
        contraction = 1 / (1 + step * square)
        shrunk = contraction * np.maximum(values - step * absolute, 0.0)
        rank = int(np.sum(shrunk > 0)) if absolute else len(values)
        tangent = cls(left, right, rank, len(values), risk.positive, np.zeros(0))
        i, j = tangent.pairs
        # Slopes of the proximal map; for two positive values it is a multiple of the identity.
        pairs = np.where(j < rank, contraction, _ratio(shrunk[i], values[i] - values[j], contraction))
        slopes = [np.full(rank, contraction), pairs]
        if not risk.positive:
            alone = _ratio(shrunk[:rank], values[:rank], contraction)
            columns = left.shape[1] + right.shape[1] - 2 * len(values)
            differences = _ratio(shrunk[i] + shrunk[j], values[i] + values[j], contraction)
            slopes += [differences, np.repeat(alone, columns)]
        return tangent._replace(curvature=unit * (1 / np.concatenate(slopes) - 1) / step)

    @property
    def pairs(self) -> tuple[NDArray[np.intp], ...]:
        """Columns ``i < j`` of both directions."""
        return np.nonzero(np.arange(self.rank)[:, None] < np.arange(self.values))

    def fields(self, design: MatrixDesign) -> Array:
        """Return the fields of all directions, shape (n, k)."""
        (i, j), one = self.pairs, np.arange(self.rank)
        across = design.rotated(self.left[:, : self.rank], self.right)
        down = design.rotated(self.left, self.right[:, : self.rank])
        upper, lower = across[:, i, j], down[:, j, i]
        parts = [across[:, one, one], (upper + lower) / np.sqrt(2)]
        if not self.symmetric:
            rest = (across[:, :, self.values :], down[:, self.values :].transpose(0, 2, 1))
            parts += [(upper - lower) / np.sqrt(2), *(part.reshape(len(part), -1) for part in rest)]
        return np.concatenate(parts, axis=1)


def _ratio(above: Array, below: Array, otherwise: float) -> Array:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)


def _chunks(design: MatrixDesign, tangent: _TangentSpace, intercept: bool) -> Iterator[tuple[slice, Array]]:
    """Yield the fields of all directions in blocks of samples that fit into memory."""
    count = max(1, _CHUNK // max(1, len(tangent.curvature)))
    for start in range(0, design.samples, count):
        samples = slice(start, start + count)
        basis = tangent.fields(design.rows(samples))
        yield samples, np.column_stack([basis, np.ones(len(basis))]) if intercept else basis
