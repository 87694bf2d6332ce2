r"""What a minimiser of a regularised risk would have said of each sample without having seen it.

Around the minimiser the penalty is a quadratic form ``P`` on the directions that keep the rank, which are those in
which the proximal map moves: with its slopes ``J`` at steps ``t``, :math:`P = (J^{-1} - 1)/t`. With ``B`` the fields of
these directions and :math:`\ell''` the curvatures of the loss at the fields, one Newton step without the sample
:math:`\mu` gives

.. math:: h_\mu^{\setminus\mu} = h_\mu + \frac{q_\mu\,\ell'_\mu}{1 - q_\mu\,\ell''_\mu}, \qquad
   q = \mathrm{diag}\bigl[B\,(B^T\ell''B + P)^{-1}B^T\bigr].

Of square loss and a quadratic penalty this is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from glassformer.core.equality import content_hash, same_content
from glassformer.core.estimate import Array
from glassformer.learners.algorithms.proximal_gradient import scale_of
from glassformer.learners.algorithms.risk import Risk
from glassformer.numerics.decompositions import eigh


@dataclass(frozen=True)
class Policy:
    """What stands for curvatures, and what is rounding, where single samples are left out."""

    narrow: float = 1e-6  # width of the envelope whose curvature is taken for that of the loss
    rounding: float = 1e-12  # errors of a matrix that is inverted, relative to its trace
    open: float = 1e-6  # share of a sample that the others leave open, at least
    at_once: int = 2**20  # numbers that fields of directions may take in one go


_POLICY = Policy()


class LeftOut(NamedTuple):
    r"""Predictions of samples that were left out.

    Attributes:
        fields: without the sample, shape (n,).
        degrees: of freedom of the fit, :math:`\sum_\mu q_\mu\ell''_\mu`, the constant included.
    """

    fields: Array
    degrees: float

    def __eq__(self, other: object) -> bool:
        return same_content(self, other)

    def __hash__(self) -> int:
        return content_hash(self)


def left_out(risk: Risk, matrix: Array, constant: bool = False) -> LeftOut:
    """Fields of every sample at the minimiser of the risk of the others, to first order.

    Args:
        risk: of a loss of one field without kinks, over a design of rotated fields, such as
            :class:`~glassformer.designs.dense.DenseDesign`.
        matrix: that makes it least.
        constant: whether one that is not penalised was fitted as well; it is part of the loss.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> from glassformer.risk.losses import Square
        >>> x, y = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 2.0])
        >>> risk = Risk(DenseDesign(x[:, None, None]), y, Square(), 0.0, 1.0)
        >>> slope = (x @ y) / (x @ x + 1)
        >>> found = left_out(risk, np.array([[slope]]))
        >>> bool(np.isclose(found.fields[0], x[0] * (x[1:] @ y[1:]) / (x[1:] @ x[1:] + 1)))
        True
    """
    fields = risk.design.forward(matrix, 0)
    slope = risk.slopes(fields, 0.0)
    bend = np.broadcast_to(risk.loss.score(risk.labels, fields, _POLICY.narrow)[1], fields.shape)
    tangent = _tangent(risk, matrix, slope)
    curvature = np.append(tangent.curvature, 0.0) if constant else tangent.curvature
    square = np.asfortranarray(np.diag(curvature))
    for where, basis in _in_parts(risk.design, tangent, constant):
        basis *= np.sqrt(bend[where, None])
        square = scipy.linalg.blas.dsyrk(1.0, basis.T, 1.0, square, lower=True, overwrite_c=True)
    square[np.diag_indices(len(square))] += _POLICY.rounding * np.trace(square)
    root = scipy.linalg.cholesky(square, lower=True, overwrite_a=True, check_finite=False)
    own = np.zeros_like(fields)
    for where, basis in _in_parts(risk.design, tangent, constant):
        own[where] = np.sum(scipy.linalg.solve_triangular(root, basis.T, lower=True, check_finite=False) ** 2, axis=0)
    share = own * bend
    return LeftOut(fields + own * slope / np.maximum(1 - share, _POLICY.open), float(np.sum(share)))


def left_out_of_ridge(design: Any, labels: Array, strength: float, weights: Array) -> Array:
    r"""What ridge regression on the others, a constant included, would have said of each sample, shape (n,): exact.

    With the kernel ``K`` of weighted inputs, :math:`G = (K + \lambda)^{-1}` and what the constant leaves of it,
    :math:`Q = G - G11^TG/1^TG1`, the residuals are :math:`(Qy)_\mu/Q_{\mu\mu}`, also where nearly every label is fitted
    and residuals of the fit are rounding errors.

    Args:
        design: of rotated fields, as for :func:`left_out`.
        labels: shape (n,), n > 1.
        strength: of half the squared entries, > 0.
        weights: of the samples, > 0.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> x, y = np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 2.0])
        >>> found = left_out_of_ridge(DenseDesign(x[:, None, None]), y, 0.5, np.ones(3))
        >>> found.round(12)  # the last: 1.5 at 1.5, and a slope of 0.5 / (0.5 + 0.5)
        array([2.  , 1.35, 2.75])
    """
    rows, columns = design.signal_shape
    root = np.sqrt(weights)
    fields = root[:, None] * design.rotated(np.eye(rows), np.eye(columns)).reshape(len(labels), -1)
    values, vectors = eigh(fields @ fields.T)
    inverse = (vectors / (np.maximum(values, 0.0) + strength)) @ vectors.T
    told = inverse @ root
    inverse -= np.outer(told, told) / (root @ told)
    return np.asarray(labels - (inverse @ (root * labels)) / np.diag(inverse) / root)


class _Tangent(NamedTuple):
    """Directions in which the proximal map moves: products of these columns, and the penalty's curvature along them.

    Those of two columns ``i < j`` come as sums, and, unless matrices are symmetric, as differences.

    Attributes:
        left: shape (L, L).
        right: shape (d, d).
        rank: columns that the minimiser is made of.
        values: numbers of singular values, or eigenvalues.
        symmetric: whether matrices are.
        curvature: shape (k,).
    """

    left: Array
    right: Array
    rank: int
    values: int
    symmetric: bool
    curvature: Array

    @property
    def pairs(self) -> Any:
        return np.nonzero(np.arange(self.rank)[:, None] < np.arange(self.values))

    def fields(self, design: Any) -> Array:
        """Of all directions, shape (n, k)."""
        (i, j), one = self.pairs, np.arange(self.rank)
        across = design.rotated(self.left[:, : self.rank], self.right)
        down = design.rotated(self.left, self.right[:, : self.rank])
        ahead, behind = across[:, i, j], down[:, j, i]
        parts = [across[:, one, one], (ahead + behind) / np.sqrt(2)]
        if not self.symmetric:
            rest = (across[:, :, self.values :], down[:, self.values :].transpose(0, 2, 1))
            parts += [(ahead - behind) / np.sqrt(2), *(part.reshape(len(part), -1) for part in rest)]
        return np.concatenate(parts, axis=1)


def _tangent(risk: Risk, matrix: Array, slope: Array) -> _Tangent:
    size, unit = scale_of(risk)
    step = 1 / (size * risk.loss.sharpness)
    moved = matrix - step * risk.design.adjoint(slope, 0)
    if risk.positive:
        values, left = (found[..., ::-1] for found in eigh(0.5 * (moved + moved.T)))
        right = left
    else:
        left, values, across = np.linalg.svd(moved)
        right = across.T
    plain = 1 / (1 + step * risk.square)
    kept = plain * np.maximum(values - step * risk.spectral, 0.0)
    rank = int(np.sum(kept > 0)) if risk.spectral else len(values)
    bare = _Tangent(left, right, rank, len(values), risk.positive, np.zeros(0))
    i, j = bare.pairs
    # Slopes of the proximal map: between two values that are kept that of the map itself.
    slopes = [np.full(rank, plain), np.where(j < rank, plain, _ratio(kept[i], values[i] - values[j], plain))]
    if not risk.positive:
        alone = _ratio(kept[:rank], values[:rank], plain)
        more = left.shape[1] + right.shape[1] - 2 * len(values)
        slopes += [_ratio(kept[i] + kept[j], values[i] + values[j], plain), np.repeat(alone, more)]
    return bare._replace(curvature=unit * (1 / np.concatenate(slopes) - 1) / step)


def _ratio(above: Array, below: Array, otherwise: float) -> Array:
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), otherwise)


def _in_parts(design: Any, tangent: _Tangent, constant: bool) -> Iterator[tuple[slice, Array]]:
    """Fields of all directions, of as many samples at once as memory is for."""
    count = max(1, _POLICY.at_once // max(1, len(tangent.curvature)))
    for start in range(0, design.samples, count):
        where = slice(start, start + count)
        basis = tangent.fields(design.rows(where))
        yield where, np.column_stack([basis, np.ones(len(basis))]) if constant else basis
