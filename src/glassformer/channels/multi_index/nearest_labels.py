r"""What labels without noise tell of fields, told by other fields that have nearly the same label.

Draw fields and their labels. Those of the nearest label are another draw from nearly the same posterior, whatever its
shape: of sheets, closed curves or waves, which no search for modes covers. So products of a deviation and of that of
the nearest label average to squares of posterior means. What is nearest lies the farther away the fewer there are:
parts of the draws tell how far averages move as they become more.

Distances are between ranks of the entries on a normal scale: the units of labels do not matter.

Source: nearest-neighbour estimates of conditional moments; here of those of a posterior.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.spatial import KDTree
from scipy.special import ndtri
from scipy.stats import rankdata

from glassformer.core.estimate import Array
from glassformer.numerics.extrapolation import remainder

Label = Callable[[Array], Array]
"""Labels of fields of shape (n, P, K)."""


@dataclass(frozen=True)
class Policy:
    """How many fields are drawn, and how many are near."""

    drawn: int = 1024  # for the same mean fields
    parts: tuple[int, ...] = (1, 4, 16)  # of draws, which tell what more of them would change
    ties: float = 1e-6  # distance that tells equal labels apart, at random
    together: int = 2**18  # fields whose labels are computed at once
    believed: float = 0.5  # share of what more draws would change that is in doubt
    pool: int = 2**16  # draws, among which those that are near a data point are looked for
    near: int = 16  # of them
    known: float = 1e-9  # variance of mean fields, relative to the largest, that is none


_POLICY = Policy()


def information(label: Label, omega: Array, root: Array, replicas: int) -> tuple[Array, Array]:
    """Information of each replica, shape (replicas, P, P), and by how much all of them may be off, shape (P, P).

    Args:
        label: of fields.
        omega: mean fields, shape (n, P, K), those of one replica after the other.
        root: lower triangular root of the covariance of deviations, shape (P, P).
        replicas: of the mean fields.

    Example:
        >>> value, doubt = information(lambda z: z[:, 0] + 1, np.zeros((128, 2, 1)), np.eye(2), 8)
        >>> np.abs(value.mean(axis=0)).round(1).tolist()
        [[1.0, 0.0], [0.0, 0.0]]
    """
    found = np.array([_products(white, places) for white, places in _drawn(label, omega, root)])
    inverse, own = np.linalg.inv(root), found.reshape(replicas, -1, *found.shape[1:]).mean(axis=1)
    levels = np.swapaxes(inverse.T @ own @ inverse, 0, 1)
    missing = remainder([level.mean(axis=0) for level in levels], _POLICY.parts[1] / _POLICY.parts[0])
    # The same share of the change for all replicas: their spread tells its noise.
    change = levels[0] - levels[1]
    scale = np.linalg.norm(missing) / max(np.linalg.norm(change.mean(axis=0)), np.finfo(float).tiny)
    return levels[0] + scale * change, _POLICY.believed * missing


def growth(label: Label, omega: Array, root: Array) -> Array:
    r"""Growth of the information with flattened overlaps, :math:`\sum_{ll'}E[D_{ll'}\otimes D_{ll'}]`, (P^2, P^2).

    Of four draws of nearly the same label two pairs tell the posterior covariance, independently.

    Args:
        label: of fields.
        omega: mean fields, shape (n, P, K).
        root: lower triangular root of the covariance of deviations, shape (P, P).

    Example:
        >>> growth(lambda z: z[:, 0], np.zeros((128, 1, 1)), np.eye(1)).round(1).tolist()
        [[1.0]]
    """
    size, inverse, found = len(root), np.linalg.inv(root), np.zeros((len(root),) * 4)
    for white, places in _drawn(label, omega, root):
        found += _covarying(white[KDTree(places).query(places, k=4)[1]]) / len(omega)
    full = np.einsum("abce,ap,bq,cr,es->pqrs", found, *(inverse,) * 4, optimize=True).reshape(size**2, size**2)
    return np.asarray(0.5 * (full + full.T))


def _covarying(near: Array) -> Array:
    """Mean over draws of the product of two slopes, shape (P, P, P, P), from four alike of each, (n, 4, P, K)."""
    one, two = near[:, 0] - near[:, 1], near[:, 2] - near[:, 3]
    count, identity = len(near), np.eye(near.shape[2])
    both = (one @ np.swapaxes(two, 1, 2)).reshape(count, -1)
    known = [np.tensordot(part, part, axes=((0, 2), (0, 2))) / count for part in (one, two)]
    return np.asarray(
        (both.T @ both / (4 * count)).reshape((len(identity),) * 4)
        - 0.5 * np.einsum("ac,be->abce", known[0], identity)
        - 0.5 * np.einsum("ac,be->abce", identity, known[1])
        + near.shape[3] * np.einsum("ac,be->abce", identity, identity)
    )


def _drawn(label: Label, omega: Array, root: Array) -> Iterator[tuple[Array, Array]]:
    """Whitened deviations drawn for each mean field, shape (draws, P, K), and places of their labels, (draws, k)."""
    rng, step = np.random.default_rng(0), max(1, _POLICY.together // _POLICY.drawn)
    for own in np.split(omega, range(step, len(omega), step)):
        white = rng.standard_normal((len(own), _POLICY.drawn, *own.shape[1:]))
        fields = own[:, None] + root @ white
        labels = label(fields.reshape(-1, *own.shape[1:])).reshape(len(own), _POLICY.drawn, -1)
        yield from zip(white, _places(labels, rng), strict=True)


def _products(white: Array, places: Array) -> list[Array]:
    """Mean products of deviations, shape (n, P, K), with those of the nearest label, of all and of parts.

    The same draws with the nearest of them all and of their part: what they differ by has little noise.
    """
    found, mean, before = [], np.zeros((white.shape[1], white.shape[1])), np.zeros_like(white)
    for part in _POLICY.parts:
        fewer = len(white) // part
        at = places[:fewer]
        nearest = white[KDTree(at).query(at, k=2)[1][:, 1]]
        change = np.tensordot(white[:fewer], nearest - before[:fewer], axes=((0, 2), (0, 2))) / fewer
        mean, before = mean + 0.5 * (change + change.T), nearest
        found.append(mean)
    return found


def _places(labels: Array, rng: np.random.Generator) -> Array:
    """Ranks among the labels of shape (..., n, k) on a normal scale, and what tells equal ones apart, (..., n, k + 1).

    Ranks are shifted at random: were they even, what is nearest would always lie on the side where labels are more.
    """
    ranks = rankdata(labels, axis=-2) - 0.5
    own = ndtri((ranks + rng.uniform(-0.5, 0.5, ranks.shape)) / labels.shape[-2])
    return np.concatenate([own, _POLICY.ties * rng.standard_normal((*own.shape[:-1], 1))], axis=-1)


def moments(label: Label, labels: Array, omega: Array, power: Array, variance: Array, replicas: int) -> Array:
    """Posterior moments of whitened deviations, from draws whose label and mean fields are near those of a data point.

    Args:
        label: of fields.
        labels: of the data points, shape (n, ...), those of one replica after the other.
        omega: their mean fields, shape (n, P, K).
        power: self-overlap, shape (P, P).
        variance: covariance of deviations, shape (P, P).
        replicas: of the data: each is compared with draws of its own.

    Returns:
        Means, the first column, and second moments of two independent halves of the draws, of all of them and of parts,
        shape (levels, 2, n, P K, 1 + P K).
    """
    axes, root = _axes(power - variance), np.asarray(np.linalg.cholesky(variance))
    data = zip(np.split(labels, replicas), np.split(np.linalg.pinv(axes) @ omega, replicas), strict=True)
    found = [
        np.stack([_near(label, y, seen, axes, root, np.random.default_rng([k, half])) for half in range(2)], axis=1)
        for k, (y, seen) in enumerate(data)
    ]
    return np.concatenate(found, axis=2)


def _axes(spread: Array) -> Array:
    """What makes means of this covariance, shape (P, P), of normal numbers, shape (P, r), as few as vary."""
    values, vectors = np.linalg.eigh(spread)
    varies = values > _POLICY.known * max(float(np.abs(spread).max()), _POLICY.known)
    return np.asarray(vectors[:, varies] * np.sqrt(values[varies]))


def _near(label: Label, labels: Array, seen: Array, axes: Array, root: Array, rng: np.random.Generator) -> Array:
    """Moments of the draws that are nearest to labels and normal numbers of means, shape (levels, n, P K, 1 + P K)."""
    count, (rows, varying), columns = _POLICY.pool, axes.shape, seen.shape[2]
    drawn = rng.standard_normal((count, varying, columns))
    white = rng.standard_normal((count, rows, columns))
    both = np.concatenate([label(axes @ drawn + root @ white), labels]).reshape(count + len(labels), -1)
    means = np.concatenate([drawn, seen]).reshape(len(both), -1)
    places, flat = np.concatenate([_places(both, rng), means], axis=1), white.reshape(count, -1)
    found = []
    for part in _POLICY.parts:
        near = flat[KDTree(places[: count // part]).query(places[count:], k=_POLICY.near)[1]]
        known = np.concatenate([np.ones((*near.shape[:2], 1)), near], axis=2)
        found.append(np.swapaxes(near, 1, 2) @ known / _POLICY.near)
    return np.stack(found)
