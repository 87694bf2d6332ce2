"""Symmetries of a user's function of the projections, found by evaluating it on random fields."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from glassformer.channels.confusion import label_tolerance
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_points

# Random fields on which symmetries are tried, and random fields for gradients and jumps.
_TRIALS, _FIELDS = 64, 512
# Rows up to which all permutations are tried, and rows whose signs are changed: their numbers grow exponentially.
_PERMUTED, _FLIPPED = 4, 10
# Halvings that find a jump of the labels on a segment, and distance at which its tangent plane is measured.
_HALVINGS, _NEAR_JUMP = 60, 1e-3
# Small step of the fields, and share of such steps that meet a jump, more than do by chance.
_BESIDE, _MET = 1e-5, 1e-2
# Share of the largest squared slope that is rounding, or curvature of jumps.
_FLAT = 1e-8

Link = Callable[[Any], Any]


def row_symmetries(flat: Link, indices: int, tokens: int, discrete: bool) -> RowSymmetries:
    """Return the signed permutations of the rows that keep or relabel a link's labels, and the rows it depends on.

    Labels that no rotation of all rows changes, like the squared length of the fields, are recognised as well.

    Args:
        flat: flat label of fields of shape (P, L).
        indices: ``P``.
        tokens: ``L``.
        discrete: whether labels take few values.

    Example:
        >>> import jax.numpy as jnp
        >>> found = row_symmetries(lambda z: jnp.ravel(jnp.tanh(z[0] + z[1])), 2, 1, False)
        >>> len(found.invariances), len(found.relabellings), found.visible.round(6).tolist()
        (2, 4, [[0.5, 0.5], [0.5, 0.5]])
    """
    flipped = itertools.product([1.0, -1.0], repeat=min(indices, _FLIPPED))
    signs = [np.append(s, np.ones(indices - len(s))) for s in flipped]
    orders = itertools.permutations(range(indices)) if indices <= _PERMUTED else [tuple(range(indices))]
    rng = np.random.default_rng(1)
    fields = rng.standard_normal((_TRIALS, indices, tokens))
    rotation = np.linalg.qr(rng.standard_normal((indices, indices)))[0]
    candidates = np.array([*(s[:, None] * np.eye(indices)[list(order)] for order in orders for s in signs), rotation])
    turned = np.einsum("cpq,nql->cnpl", candidates, fields).reshape(-1, indices, tokens)
    labels = np.asarray(map_points(flat, turned)).reshape(len(candidates), _TRIALS, -1)
    # The identity comes first.
    plain, rounding = labels[0], label_tolerance(labels.reshape(-1, labels.shape[-1]))
    same = np.all(np.abs(labels - plain) <= rounding, axis=(1, 2))
    alike = same | np.all(np.abs(labels + plain) <= rounding, axis=(1, 2))
    if discrete:
        alike |= [_one_to_one(plain, own) for own in labels]
    # A rotation without structure is a symmetry only if all of them are. It is none of the listed symmetries.
    rotated, same[-1], alike[-1] = bool(same[-1]) and indices > 1, False, False
    visible, by_jumps = _visible(flat, indices, tokens, discrete)
    return RowSymmetries(candidates[same], candidates[alike], visible, of_all_rotations=rotated, by_jumps=by_jumps)


def _one_to_one(first: Array, second: Array) -> bool:
    """Return whether two sets of labels of the same fields are a relabelling of each other."""
    codes = [np.unique(part, axis=0, return_inverse=True)[1].ravel() for part in (first, second)]
    pairs = len(set(zip(*(code.tolist() for code in codes), strict=True)))
    return pairs == len(np.unique(codes[0])) == len(np.unique(codes[1]))


def _visible(flat: Link, indices: int, tokens: int, discrete: bool) -> tuple[Array, bool]:
    """Return the projector on the directions of the rows that change labels, and whether jumps alone show some of them.

    The projector is the identity unless labels certainly do not depend on some direction. Jumps of discrete labels are
    all that there is, and do not count.
    """
    rng = np.random.default_rng(2)
    fields = rng.standard_normal((_FIELDS, indices, tokens))
    if discrete:
        normals = _jump_normals(flat, fields)
    else:
        normals = np.nan_to_num(map_points(jax.jacfwd(flat), fields)).reshape(-1, indices, tokens)
    values, vectors = np.linalg.eigh(np.einsum("npl,nql->pq", normals, normals))
    none = vectors[:, values <= _FLAT * values[-1]]
    steps = np.einsum("pk,nkl->npl", none, rng.standard_normal((_FIELDS, none.shape[1], tokens)))
    before, after, beside = (map_points(flat, fields + size * steps) for size in (0.0, 1.0, _BESIDE))
    blind = bool(np.all(np.abs(after - before) <= label_tolerance(before)))
    # A link may stop gradients.
    level = np.mean(np.any(np.abs(beside - before) > label_tolerance(before), axis=1)) < _MET
    return np.eye(indices) - none @ none.T * blind, not (blind or discrete) and bool(level)


def _jump_normals(flat: Link, fields: Array) -> Array:
    """Return normals of the surfaces on which labels jump.

    They are taken where segments between random fields cross the surfaces, shape (n, P, L).
    """
    start, end = np.split(fields, 2)
    labels = map_points(flat, start)
    differ = np.any(labels != map_points(flat, end), axis=1)
    start, end, labels = start[differ], end[differ], labels[differ]
    shape, size = fields.shape[1:], fields[0].size
    if len(start) == 0:
        return np.zeros((1, *shape))

    def crossing(near: Array, far: Array, label: Array) -> Array:
        """Return the share of the way from ``near`` to ``far`` at which this label is lost."""
        low, high = np.zeros(len(near)), np.ones(len(near))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            same = np.all(map_points(flat, near + middle[:, None, None] * (far - near)) == label, axis=1)
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return low

    place = start + crossing(start, end, labels)[:, None, None] * (end - start)
    along = (end - start) / np.linalg.norm(end - start, axis=(1, 2))[:, None, None]
    # Segments parallel to this one, displaced along every axis to both sides, cross the surface earlier or later.
    shifts = _NEAR_JUMP * np.concatenate([np.eye(size), -np.eye(size)]).reshape(-1, 1, *shape)
    reach = 20 * _NEAR_JUMP * along
    near, far = ((place + shifts + way).reshape(-1, *shape) for way in (-reach, reach))
    label = np.tile(labels, (len(shifts), 1))
    before, after = (np.all(map_points(flat, part) == label, axis=1).reshape(2, size, -1) for part in (near, far))
    met = crossing(near, far, label).reshape(2, size, -1)
    slope = (met[1] - met[0]).T.reshape(-1, *shape) / np.sqrt(size)
    usable = np.all(before & ~after, axis=(0, 1))
    return slope[usable] if usable.any() else np.zeros((1, *shape))
