r"""Bounds on information and thresholds that no error of integration can pass.

Coarse-graining a label only loses information: for any function ``b`` of what is observed,

.. math::
   \sum_l E\bigl[E[u_l|b]E[u_l|b]^T\bigr] \preceq E\sum_l g_l g_l^T, \qquad
   \sum_{ll'} E\,\mathrm{tr}\bigl[E[D_{ll'}|b]ME[D_{ll'}|b]^TM\bigr] \le \langle M, F(M)\rangle,

with :math:`u = V^{-1}(z-\omega)` and :math:`D_{ll'} = u_lu_{l'}^T - \delta_{ll'}V^{-1}`. The left-hand sides need no
posterior: fields and labels are drawn, what is observed is sorted into the cells of a tree, and means of ``u`` and
``D`` in every cell are multiplied between independent groups of samples, which leaves no bias.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.base import Channel
from glassformer.core.checks import require_integer
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.numerics.eigenvalues import square_root
from glassformer.state_evolution.subspaces import symmetric_basis


@dataclass(frozen=True)
class Policy:
    """How samples are divided into groups and cells."""

    groups: int = 32  # independent ones
    halvings: int = 11  # of what is observed: the cells are 2 to the power of that
    layout: int = 2**16  # samples that lay out the cells


_POLICY = Policy()


class DataPoints(NamedTuple):
    r"""Labels, what is known of their fields, and the true deviations :math:`V^{-1}(z - \omega)`, shapes (n, ...)."""

    labels: Array
    omega: Array
    deviation: Array


def drawn(model: Model, channel: Channel, variance: Array, count: int, rng: np.random.Generator) -> DataPoints:
    """Data points of a model at a posterior covariance, shape (P, P), labelled by its channel as it is given."""
    shape = (count, channel.rows, channel.columns)
    omega = square_root(model.prior.self_overlap - variance) @ rng.standard_normal(shape)
    root, noise = np.linalg.cholesky(variance), rng.standard_normal(shape)
    return DataPoints(channel.draw_labels(omega + root @ noise, rng), omega, np.linalg.inv(root).T @ noise)


class Bound(NamedTuple):
    """A lower bound without bias, and its standard error."""

    value: float
    error: float


def information_bound(model: Model, variance: Array, direction: Array, samples: int = 2**20, seed: int = 0) -> Bound:
    r"""Lower bound on :math:`x^T\,E[\sum_l g_lg_l^T]\,x` at a posterior covariance, for a vector ``x``.

    Args:
        model: prior and channel.
        variance: posterior covariance, shape (P, P), positive definite.
        direction: ``x``, shape (P,).
        samples: of fields and labels.
        seed: of the samples.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=1.0)
        >>> found = information_bound(model, np.eye(1), np.ones(1), samples=2**17)
        >>> bool(0.48 < found.value < 0.5 + 4 * found.error)
        True
    """

    def projected(deviation: Array) -> Array:
        return np.asarray(np.einsum("npl,p->nl", deviation, direction))

    return _product(_means(model, variance, projected, samples, seed), lambda means: means)


def growth_bound(
    model: Model, variance: Array | None = None, unknown: Array | None = None, samples: int = 2**20, seed: int = 0
) -> Bound:
    r"""Lower bound on the leading eigenvalue of the linearised state evolution, per unit of alpha/degrees.

    No threshold of weak recovery is above ``degrees / value``, whatever its error estimate says.

    Args:
        model: prior and channel, whose labels are even in what is unknown.
        variance: posterior covariance, shape (P, P); nothing known by default.
        unknown: projector on the directions that are not known yet, shape (P, P); all by default.
        samples: of fields and labels.
        seed: of the samples.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> found = growth_bound(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), samples=2**17)
        >>> bool(1.9 < found.value < 2 + 4 * found.error)
        True
    """
    size, columns = model.prior.rows, model.channel.columns
    variance = np.eye(size) if variance is None else variance
    directions, matrices, _ = symmetric_basis(np.eye(size) if unknown is None else unknown, model)
    inverse = directions.T @ np.linalg.inv(variance) @ directions
    own = len(inverse)

    def projected(deviation: Array) -> Array:
        turned = np.einsum("npl,pa->nla", deviation, directions)
        square = np.einsum("nla,nmb->nlmab", turned, turned)
        for column in range(columns):
            square[:, column, column] -= inverse
        return np.asarray(square.reshape(len(deviation), -1))

    found = _means(model, variance, projected, samples, seed)

    def weighted(left: Array, right: Array) -> Callable[[Array], Array]:
        def image(means: Array) -> Array:
            parts = means.reshape(*means.shape[:-1], columns**2, own, own)
            return np.asarray((left @ parts @ right).reshape(means.shape))

        return image

    # One half of the groups chooses the matrix, the other judges it.
    chosen, judged = (found.of(slice(half, None, 2)) for half in (0, 1))
    operator = np.array([[_product(chosen, weighted(a, b)).value for b in matrices] for a in matrices])
    weights = np.linalg.eigh(0.5 * (operator + operator.T))[1][:, -1]
    matrix = np.tensordot(weights, matrices, axes=1)
    value, error = _product(judged, weighted(matrix, matrix))
    return Bound(model.prior.growth * value, model.prior.growth * error)


def squares_of_means(
    model: Model, variance: Array, project: Callable[[Array], Array], samples: int, seed: int
) -> tuple[Array, Array]:
    r"""Of functions :math:`f` of the true deviation, :math:`E[E[f\mid b]^2]` with cells ``b``, and standard errors.

    Args:
        model: prior and channel.
        variance: posterior covariance, shape (P, P).
        project: from deviations, shape (n, P, K), to values, shape (n, m).
        samples: of fields and labels.
        seed: of the samples.

    Returns:
        Both of shape (m,).
    """
    return _squares(_means(model, variance, project, samples, seed))


def mean_square(
    model: Model, variance: Array, project: Callable[[Array, Array], Array], samples: int, seed: int
) -> tuple[Array, Array]:
    """Squares of means of functions of true deviations and labels, without bias, and standard errors, shape (m,)."""
    rng, channel = np.random.default_rng(seed), model.channel
    sums = []
    for _ in range(_POLICY.groups):
        data = drawn(model, channel, variance, samples // _POLICY.groups, rng)
        sums.append(project(data.deviation, data.labels).mean(axis=0))
    return _squares(_Means(np.ones((_POLICY.groups, 1)), np.array(sums)[:, None]))


def _squares(means: _Means) -> tuple[Array, Array]:
    """Means of products between groups, value by value."""

    def only(k: int) -> _Means:
        return _Means(means.counts, means.values[:, :, k : k + 1])

    found = [_product(only(k), lambda values: values) for k in range(means.values.shape[2])]
    return np.array([bound.value for bound in found]), np.array([bound.error for bound in found])


class _Means(NamedTuple):
    """By groups of samples: numbers in the cells, shape (groups, cells), and means there, (groups, cells, m)."""

    counts: Array
    values: Array

    def of(self, groups: Any) -> _Means:
        """Those of some of the groups."""
        return _Means(self.counts[groups], self.values[groups])


def _product(means: _Means, image: Callable[[Array], Array]) -> Bound:
    """Mean over the cells of m . image(m'), m and m' from different groups, with its jackknife error."""
    count = len(means.counts)
    rest = np.array([_mean_of_products(means.of(np.arange(count) != k), image) for k in range(count)])
    error = np.sqrt((count - 1) * np.mean((rest - rest.mean()) ** 2))
    return Bound(_mean_of_products(means, image), float(error))


def _mean_of_products(means: _Means, image: Callable[[Array], Array]) -> float:
    """Given the numbers in the cells, means of different groups are independent: their product has no bias."""
    count, weight = len(means.counts), means.counts.sum(axis=0) / means.counts.sum()
    total = means.values.sum(axis=0)
    pairs = np.sum(total * image(total), axis=1) - np.sum(means.values * image(means.values), axis=(0, 2))
    return float(weight @ pairs / (count * (count - 1)))


def _means(model: Model, variance: Array, project: Callable[[Array], Array], samples: int, seed: int) -> _Means:
    """Means of functions of the true deviation in the cells of what is observed."""
    require_integer("samples", samples, 2 * _POLICY.layout)
    rng = np.random.default_rng(seed)
    halvings = min(_POLICY.halvings, int(np.log2(samples / _POLICY.groups)) - 4)
    cells, size = _Cells.of(_observed(model, variance, _POLICY.layout, rng)[0], halvings), 2**halvings
    counts, sums = np.zeros((_POLICY.groups, size)), []
    for group in range(_POLICY.groups):
        seen, deviation = _observed(model, variance, samples // _POLICY.groups, rng)
        place, values = cells.place(seen), project(deviation)
        counts[group] = np.bincount(place, minlength=size)
        sums.append(np.array([np.bincount(place, column, minlength=size) for column in values.T]).T)
    return _Means(counts, np.array(sums) / np.maximum(counts, 1)[:, :, None])


def _observed(model: Model, variance: Array, count: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """What is observed of data points, shape (n, features), and their true deviations, shape (n, P, K)."""
    data = drawn(model, model.channel, variance, count, rng)
    known = np.diag(model.prior.self_overlap - variance) > 0
    seen = [data.labels.reshape(count, -1), data.omega[:, known].reshape(count, -1)]
    return np.concatenate(seen, axis=1), data.deviation


class _Cells(NamedTuple):
    """A tree of halves: at every level, the feature that is split, and where, in each of the cells so far."""

    features: list[int]
    splits: list[Array]

    @classmethod
    def of(cls, seen: Array, halvings: int) -> _Cells:
        """Cells of equal numbers, features in turn."""
        found = cls([], [])
        place = np.zeros(len(seen), dtype=np.intp)
        for level in range(halvings):
            feature = level % seen.shape[1]
            values = seen[:, feature]
            order = np.lexsort((values, place))
            ends = np.searchsorted(place[order], np.arange(2**level + 1))
            middle = np.minimum((ends[:-1] + ends[1:]) // 2, len(seen) - 1)
            found.features.append(feature)
            found.splits.append(values[order[middle]])
            place = 2 * place + (values > found.splits[-1][place])
        return found

    def place(self, seen: Array) -> NDArray[np.intp]:
        """The cell of each data point."""
        place = np.zeros(len(seen), dtype=np.intp)
        for feature, splits in zip(self.features, self.splits, strict=True):
            place = 2 * place + (seen[:, feature] > splits[place])
        return place
