r"""Right-hand sides of the equations of online gradient descent, over sampled fields.

Averages are taken over the same quasi-random points at every time, so that the right-hand sides are smooth; several
sets of points are followed at once, and their spread tells the error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.base import Channel
from glassformer.core.estimate import Array
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import normal_points

# Independent sets of points.
SETS = 8
# Images of a point under symmetries, at most.
_IMAGES = 4
# Deviation of a start from a symmetry that is rounding.
_ROUNDING = 1e-12


class Fields(NamedTuple):
    """Sampled fields, of shapes (sets, points, P, L), with labels and their means, of shape (sets, points, entries).

    Fields ``true`` are those of orthonormal rows of the teacher, ``own`` are independent of them.
    """

    true: Any
    own: Any
    labels: Any
    means: Any

    @classmethod
    def of(cls, model: Model, points: int, root: Array) -> Fields:
        """Drawn fields of a teacher whose Gram matrix has this root."""
        channel, sets = model.channel, SETS
        shape, size = (channel.rows, channel.columns), channel.rows * channel.columns
        drawn = _whitened(normal_points(2 * size + channel.sources, points, sets))
        true, own, source = np.split(drawn.reshape(sets * points, -1), [size, 2 * size], axis=1)
        true, rng = true.reshape(-1, *shape), np.random.default_rng(0)
        fields = np.einsum("ab,nbl->nal", root, true)
        labels = channel.label_from(fields, source) if channel.sources else channel.draw_labels(fields, rng)
        parts = (true, own.reshape(-1, *shape), labels.reshape(len(true), -1), _means(channel, fields))
        return cls(*(part.reshape(sets, points, *part.shape[1:]) for part in parts))


def _whitened(points: Array) -> Array:
    """Points of each set, shape (sets, points, dimensions), with second moments that are exact."""
    moments = np.einsum("snd,sne->sde", points, points, optimize=True) / points.shape[1]
    roots = np.linalg.cholesky(moments)
    return np.asarray(np.swapaxes(np.linalg.solve(roots, np.swapaxes(points, 1, 2)), 1, 2))


def flips_of(signs: Array, teacher: Array) -> Array:
    """Signs of the true fields over which every point is averaged: without overlap nothing then moves, exactly.

    They must leave the teacher's Gram matrix as it is.
    """
    mixed = teacher - np.diag(np.diagonal(teacher))
    kept = signs[[not np.any(mixed * (1 - np.outer(sign, sign))) for sign in signs]]
    if len(kept) <= _IMAGES:
        return kept
    return np.stack([kept[0], kept[np.argmin(kept.sum(axis=1))]])


def symmetric_part(same: Array, start: Array, teacher: Array) -> Array:
    r"""Projectors on flattened overlaps and powers that have the symmetries of a start, shape (2, P^2, P^2).

    Labels are blind to rows of the student turned by :math:`\pi` and rows of the teacher turned by :math:`\sigma`. If
    :math:`\pi M\sigma^T = M`, :math:`\pi Q\pi^T = Q` and :math:`\sigma T\sigma^T = T` hold at the start, they hold ever
    after, which averages over sampled fields know only nearly: at an unstable symmetric state rows would drift apart.

    Args:
        same: orthogonal matrices that leave every label as it is, shape (count, P, P).
        start: overlap and power at time zero, shape (2, P, P).
        teacher: shape (P, P).

    Example:
        >>> exchange = np.array([np.eye(2), np.eye(2)[::-1]])
        >>> equal = symmetric_part(exchange, np.array([np.full((2, 2), 0.1), np.eye(2)]), np.eye(2))
        >>> (equal[0] @ [1.0, 0.0, 0.0, 0.0]).tolist()
        [0.25, 0.25, 0.25, 0.25]
    """
    overlap, power = start
    students = [own for own in same if np.allclose(own @ power @ own.T, power, atol=_ROUNDING)]
    teachers = [true for true in same if np.allclose(true @ teacher @ true.T, teacher, atol=_ROUNDING)]
    found, count = np.zeros((2, overlap.size, overlap.size)), 0
    for own in students:
        turned = np.einsum("ab,bc,kdc->kad", own, overlap, np.array(teachers))
        for true in np.array(teachers)[np.abs(turned - overlap).max(axis=(1, 2)) < _ROUNDING]:
            found += [np.kron(own, true), np.kron(own, own)]
            count += 1
    return found / count


def slopes(state: Any, rates: Any, data: Fields, flips: Any, link: Callable[[Any], Any]) -> Any:
    """Right-hand sides of all sets, shape (sets, 2, P, P)."""
    eta, batch, decay = rates

    def pulled(fields: Any, label: Any) -> Any:
        found, back = jax.vjp(lambda z: jnp.ravel(link(z)), fields)
        return back(found - label)[0]

    def of_set(own_state: Any, own: Fields) -> Any:
        def of_image(signs: Any) -> Any:
            true = signs[:, None] * own.true
            fields = _fields_of(own_state, true, own.own)
            delta = jax.vmap(pulled)(fields, own.labels)
            along, noise = _product(delta, fields), eta**2 / batch * _product(delta, delta)
            return jnp.stack([-eta * _product(delta, true), noise - eta * (along + along.T)])

        mean = jnp.mean(jax.lax.map(of_image, flips), axis=0)
        return mean - eta * decay * jnp.array([1.0, 2.0])[:, None, None] * own_state

    return jax.vmap(of_set)(state, data)


def label_gaps(state: Any, data: Fields, channel: Channel) -> Array:
    """Squared errors of the mean labels of the student's fields on those of the true ones, shape (sets,)."""
    fields = np.asarray(jax.vmap(_fields_of)(state, data.true, data.own))
    sets, points = fields.shape[:2]
    found = _means(channel, fields.reshape(-1, *fields.shape[2:])).reshape(sets, points, -1)
    return np.asarray(np.mean(np.sum((found - np.asarray(data.means)) ** 2, axis=2), axis=1))


def _means(channel: Channel, fields: Array) -> Array:
    """Labels without noise, shape (n, entries)."""
    return channel.clean_labels(fields).reshape(len(fields), -1)


def _fields_of(state: Any, true: Any, own: Any) -> Any:
    """Fields of the student, shape (points, P, L), beside those of the teacher."""
    overlap, power = state
    values, vectors = jnp.linalg.eigh(power - overlap @ overlap.T)
    root = (vectors * jnp.sqrt(jnp.maximum(values, 0.0))) @ vectors.T
    return jnp.einsum("ab,nbl->nal", overlap, true) + jnp.einsum("ab,nbl->nal", root, own)


def _product(left: Any, right: Any) -> Any:
    """Mean over points of the sum over columns, shape (P, P)."""
    return jnp.einsum("nal,nbl->ab", left, right) / len(left)
