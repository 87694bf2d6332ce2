r"""Rigorous lower bounds on the information and on the growth of overlaps, which use no posterior.

Coarse-graining data only loses information: for any function ``b`` of labels and known fields,

.. math::
   \sum_l E\bigl[E[u_l|b]E[u_l|b]^T\bigr] \preceq E\sum_l g_l g_l^T, \qquad
   \sum_{ll'} E\,\mathrm{tr}\bigl[E[D_{ll'}|b]ME[D_{ll'}|b]^TM\bigr] \le \langle M, F(M)\rangle,

with :math:`u = V^{-1}(z-\omega)` and :math:`D_{ll'} = u_lu_{l'}^T - \delta_{ll'}V^{-1}`. The left-hand sides need no
posterior: fields and labels are sampled, observations are sorted into the cells of a tree, and the means of ``u`` and
``D`` in a cell are multiplied between independent groups of samples, which makes the estimate unbiased.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.bayes_optimal.subspaces import symmetric_basis
from glassformer.channels.base import Channel
from glassformer.channels.labelling import draw_labels
from glassformer.core.checks import require_integer
from glassformer.core.estimate import Array
from glassformer.models.base import Model, require_theory
from glassformer.numerics.decompositions import square_root
from glassformer.priors.features import row_growth

# Independent groups of samples, levels of the tree of cells, and samples that define the cells (chosen by trial: more
# cells lose less information, but contain fewer samples).
_GROUPS, _LEVELS, _LAYOUT = 32, 11, 2**16


class DataPoints(NamedTuple):
    r"""Labels, means of their fields, and the true deviations :math:`V^{-1}(z - \omega)`, shapes (n, ...)."""

    labels: Array
    omega: Array
    deviation: Array


def sample_data_points(
    model: Model, channel: Channel, variance: Array, count: int, rng: np.random.Generator
) -> DataPoints:
    """Return data points of a model at a posterior covariance, shape (P, P), with labels from ``channel``."""
    shape = (count, channel.fields.rows, channel.fields.columns)
    overlap = model.prior.self_overlap - variance
    omega = square_root(overlap) @ rng.standard_normal(shape)
    root, noise = np.linalg.cholesky(variance), rng.standard_normal(shape)
    shift = channel.fields.shifts(np.zeros(shape), rng.standard_normal((count, channel.fields.sources)))
    labels = draw_labels(channel, omega + root @ noise + shift, rng)
    return DataPoints(labels, omega + overlap @ shift, np.linalg.inv(root).T @ noise + shift)


class Bound(NamedTuple):
    """An unbiased estimate of a lower bound, and its standard error."""

    value: float
    error: float


def information_bound(model: Model, variance: Array, direction: Array, samples: int = 2**20, seed: int = 0) -> Bound:
    r"""Return a lower bound on :math:`x^T\,E[\sum_l g_lg_l^T]\,x` at a posterior covariance, for a vector ``x``.

    Args:
        model: prior and channel.
        variance: posterior covariance, shape (P, P), positive definite.
        direction: ``x``, shape (P,).
        samples: number of sampled fields and labels.
        seed: of the random samples.

    Raises:
        IncompatibleError: no theory of the model is known, for instance of correlated tokens.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=1.0)
        >>> found = information_bound(model, np.eye(1), np.ones(1), samples=2**17)
        >>> bool(0.48 < found.value < 0.5 + 4 * found.error)
        True
    """
    require_theory(model)

    def projected(deviation: Array) -> Array:
        return np.asarray(np.einsum("npl,p->nl", deviation, direction))

    return _product(_means(model, variance, projected, samples, seed), lambda means: means)


def growth_bound(
    model: Model, variance: Array | None = None, unknown: Array | None = None, samples: int = 2**20, seed: int = 0
) -> Bound:
    r"""Return a lower bound on the leading eigenvalue of the linearised state evolution, per unit of alpha/degrees.

    The threshold of weak recovery is at most ``degrees / value``.

    Args:
        model: prior and channel, whose labels are even in the unknown directions.
        variance: posterior covariance, shape (P, P); the identity by default.
        unknown: projector on the unknown directions, shape (P, P); all directions by default.
        samples: number of sampled fields and labels.
        seed: of the random samples.

    Raises:
        IncompatibleError: no theory of the model is known, for instance of correlated tokens.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> found = growth_bound(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), samples=2**17)
        >>> bool(1.9 < found.value < 2 + 4 * found.error)
        True
    """
    require_theory(model)
    size, columns = model.prior.rows, model.channel.fields.columns
    variance = np.eye(size) if variance is None else variance
    directions, matrices, _ = symmetric_basis(np.eye(size) if unknown is None else unknown, model)
    inverse = directions.T @ np.linalg.inv(variance) @ directions
    dimension = len(inverse)

    def projected(deviation: Array) -> Array:
        coordinates = np.einsum("npl,pa->nla", deviation, directions)
        square = np.einsum("nla,nmb->nlmab", coordinates, coordinates)
        for column in range(columns):
            square[:, column, column] -= inverse
        return np.asarray(square.reshape(len(deviation), -1))

    means = _means(model, variance, projected, samples, seed)

    def weighted(left: Array, right: Array) -> Callable[[Array], Array]:
        def image(values: Array) -> Array:
            parts = values.reshape(*values.shape[:-1], columns**2, dimension, dimension)
            return np.asarray((left @ parts @ right).reshape(values.shape))

        return image

    # One half of the groups selects the matrix and the other half evaluates it, so that the selection causes no bias.
    choice, evaluation = (means.of(slice(half, None, 2)) for half in (0, 1))
    operator = np.array([[_product(choice, weighted(a, b)).value for b in matrices] for a in matrices])
    weights = np.linalg.eigh(0.5 * (operator + operator.T))[1][:, -1]
    matrix = np.tensordot(weights, matrices, axes=1)
    value, error = _product(evaluation, weighted(matrix, matrix))
    return Bound(row_growth(model.prior) * value, row_growth(model.prior) * error)


def squares_of_means(
    model: Model, variance: Array, project: Callable[[Array], Array], samples: int, seed: int
) -> tuple[Array, Array]:
    r"""Return :math:`E[E[f\mid b]^2]` of functions :math:`f` of the true deviation, and standard errors.

    The observations are sorted into cells ``b``; the estimate is unbiased.

    Args:
        model: prior and channel.
        variance: posterior covariance, shape (P, P).
        project: function from deviations, shape (n, P, K), to values, shape (n, m).
        samples: number of sampled fields and labels.
        seed: of the random samples.

    Returns:
        Both of shape (m,).
    """
    return _squares(_means(model, variance, project, samples, seed))


def mean_square(
    model: Model, variance: Array, project: Callable[[Array, Array], Array], samples: int, seed: int
) -> tuple[Array, Array]:
    """Return unbiased squares of means of functions of deviations and labels, and standard errors, shape (m,)."""
    rng, channel = np.random.default_rng(int(seed)), model.channel
    means = []
    for _ in range(_GROUPS):
        data = sample_data_points(model, channel, variance, samples // _GROUPS, rng)
        means.append(project(data.deviation, data.labels).mean(axis=0))
    return _squares(_Means(np.ones((_GROUPS, 1)), np.array(means)[:, None]))


def _squares(means: _Means) -> tuple[Array, Array]:
    columns = [_Means(means.counts, column[:, :, None]) for column in np.moveaxis(means.values, 2, 0)]
    bounds = [_product(column, lambda values: values) for column in columns]
    return np.array([bound.value for bound in bounds]), np.array([bound.error for bound in bounds])


class _Means(NamedTuple):
    """Numbers of samples in the cells, shape (groups, cells), and means there, (groups, cells, m)."""

    counts: Array
    values: Array

    def of(self, groups: Any) -> _Means:
        """Return the numbers and means of some of the groups."""
        return _Means(self.counts[groups], self.values[groups])


def _product(means: _Means, image: Callable[[Array], Array]) -> Bound:
    """Return the mean over the cells of m . image(m'), m and m' from different groups, with its jackknife error."""
    count = len(means.counts)
    rest = np.array([_mean_of_products(means.of(np.arange(count) != k), image) for k in range(count)])
    error = np.sqrt((count - 1) * np.mean((rest - rest.mean()) ** 2))
    return Bound(_mean_of_products(means, image), float(error))


def _mean_of_products(means: _Means, image: Callable[[Array], Array]) -> float:
    # Given the numbers in the cells, means of different groups are independent, and their product is unbiased.
    count, weight = len(means.counts), means.counts.sum(axis=0) / means.counts.sum()
    total = means.values.sum(axis=0)
    pairs = np.sum(total * image(total), axis=1) - np.sum(means.values * image(means.values), axis=(0, 2))
    return float(weight @ pairs / (count * (count - 1)))


def _means(model: Model, variance: Array, project: Callable[[Array], Array], samples: int, seed: int) -> _Means:
    """Return the means of functions of the true deviation in every cell of the observations."""
    require_integer("samples", samples, 2 * _LAYOUT)
    rng = np.random.default_rng(int(seed))
    levels = min(_LEVELS, int(np.log2(samples / _GROUPS)) - 4)
    tree, size = _Tree.of(_observations(model, variance, _LAYOUT, rng)[0], levels), 2**levels
    counts, sums = np.zeros((_GROUPS, size)), []
    for group in range(_GROUPS):
        observed, deviation = _observations(model, variance, samples // _GROUPS, rng)
        place, values = tree.cell(observed), project(deviation)
        counts[group] = np.bincount(place, minlength=size)
        sums.append(np.array([np.bincount(place, column, minlength=size) for column in values.T]).T)
    return _Means(counts, np.array(sums) / np.maximum(counts, 1)[:, :, None])


def _observations(model: Model, variance: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return labels and means of fields as features, shape (n, features), and true deviations, shape (n, P, K)."""
    data = sample_data_points(model, model.channel, variance, count, rng)
    known = np.diag(model.prior.self_overlap - variance) > 0
    features = [data.labels.reshape(count, -1), data.omega[:, known].reshape(count, -1)]
    return np.concatenate(features, axis=1), data.deviation


class _Tree(NamedTuple):
    """A binary tree of cells: the feature that is split on every level, and the split value in each cell so far."""

    features: list[int]
    splits: list[Array]

    @classmethod
    def of(cls, observed: Array, levels: int) -> _Tree:
        """Return the tree with equally many observations in every cell, splitting features in turn."""
        tree = cls([], [])
        place = np.zeros(len(observed), dtype=np.intp)
        for level in range(levels):
            feature = level % observed.shape[1]
            values = observed[:, feature]
            order = np.lexsort((values, place))
            ends = np.searchsorted(place[order], np.arange(2**level + 1))
            middle = np.minimum((ends[:-1] + ends[1:]) // 2, len(observed) - 1)
            tree.features.append(feature)
            tree.splits.append(values[order[middle]])
            place = 2 * place + (values > tree.splits[-1][place])
        return tree

    def cell(self, observed: Array) -> NDArray[np.intp]:
        """Return the cell of each observation."""
        place = np.zeros(len(observed), dtype=np.intp)
        for feature, splits in zip(self.features, self.splits, strict=True):
            place = 2 * place + (observed[:, feature] > splits[place])
        return place
