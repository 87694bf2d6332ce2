"""Symmetries of a user's function of the projections, found by trying it on random fields."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array
from glassformer.numerics.batching import mapped
from glassformer.numerics.jax_settings import jax_settings


@dataclass(frozen=True)
class Search:
    """How symmetries of a link among its rows are looked for."""

    tried: int = 64  # random fields on which they are
    more: int = 512  # fields for what one symmetry needs
    permuted: int = 4  # rows up to which all permutations are tried
    flipped: int = 10  # rows whose signs are
    near: float = 1e-3  # distance from a jump of labels at which its tangent plane is measured
    halvings: int = 60  # on the way to it
    flat: float = 1e-8  # share of the slopes that is rounding, and curvature of jumps


_POLICY = Search()


Link = Callable[[Any], Any]


def row_symmetries(flat: Link, indices: int, tokens: int, discrete: bool) -> RowSymmetries:
    """Signed permutations of the rows that a link, flat labels from fields (P, L), does not see, and what it does.

    Example:
        >>> found = row_symmetries(lambda z: jnp.ravel(jnp.tanh(z[0] + z[1])), 2, 1, False)
        >>> len(found.invariances), len(found.relabellings), found.visible.round(6).tolist()
        (2, 4, [[0.5, 0.5], [0.5, 0.5]])
    """
    candidates = _signed_permutations(indices)
    fields = np.random.default_rng(1).standard_normal((_POLICY.tried, indices, tokens))
    turned = np.einsum("cpq,nql->cnpl", candidates, fields).reshape(-1, indices, tokens)
    labels = np.asarray(mapped(flat, turned)).reshape(len(candidates), _POLICY.tried, -1)
    plain, scale = labels[0], 1e-9 * np.max(np.abs(labels)) + 1e-11
    same = np.max(np.abs(labels - plain), axis=(1, 2)) <= scale
    alike = same | (np.max(np.abs(labels + plain), axis=(1, 2)) <= scale)
    if discrete:
        alike |= [_one_to_one(plain, own) for own in labels]
    return RowSymmetries(candidates[same], candidates[alike], _shown(flat, indices, tokens, discrete))


def _signed_permutations(size: int) -> Array:
    """The identity first; of many rows the first ones alone change sign."""
    signs = [
        np.append(s, np.ones(size - len(s))) for s in itertools.product([1.0, -1.0], repeat=min(size, _POLICY.flipped))
    ]
    orders = itertools.permutations(range(size)) if size <= _POLICY.permuted else [tuple(range(size))]
    return np.array([s[:, None] * np.eye(size)[list(order)] for order in orders for s in signs])


def _one_to_one(first: Array, second: Array) -> bool:
    """Whether labels of the same fields tell the same fields apart."""
    codes = [np.unique(part, axis=0, return_inverse=True)[1].ravel() for part in (first, second)]
    pairs = len(set(zip(*(code.tolist() for code in codes), strict=True)))
    return pairs == len(np.unique(codes[0])) == len(np.unique(codes[1]))


def _shown(flat: Link, indices: int, tokens: int, discrete: bool) -> Array:
    """Projector on the directions that change labels: everything, unless labels do not change along the others."""
    rng = np.random.default_rng(2)
    fields = rng.standard_normal((_POLICY.more, indices, tokens))
    normals = _jumps(flat, fields) if discrete else _slopes(flat, fields)
    values, vectors = np.linalg.eigh(np.einsum("npl,nql->pq", normals, normals))
    none = vectors[:, values <= _POLICY.flat * values[-1]]
    moved = fields + np.einsum("pk,nkl->npl", none, rng.standard_normal((_POLICY.more, none.shape[1], tokens)))
    before, after = mapped(flat, fields), mapped(flat, moved)
    blind = np.max(np.abs(after - before)) <= 1e-9 * np.max(np.abs(before)) + 1e-11
    return np.eye(indices) - none @ none.T * blind


def _slopes(flat: Link, fields: Array) -> Array:
    """Gradients of the entries of labels, shape (n, P, L)."""
    with jax_settings():
        found = np.asarray(jax.jit(jax.vmap(jax.jacfwd(flat)))(jnp.asarray(fields)))
    return np.nan_to_num(found).reshape(-1, *fields.shape[1:])


def _jumps(flat: Link, fields: Array) -> Array:
    """Normals of the surfaces on which labels jump, where segments between random fields cross them, (n, P, L)."""
    start, end = np.split(fields, 2)
    ends = [mapped(flat, part) for part in (start, end)]
    differ = np.any(ends[0] != ends[1], axis=1)
    start, end, label = start[differ], end[differ], ends[0][differ]
    shape, size = fields.shape[1:], fields[0].size
    if len(start) == 0:
        return np.zeros((1, *shape))

    def crossing(near: Array, far: Array) -> Array:
        """Share of the way to ``far`` at which the label of ``near`` is lost."""
        low, high = np.zeros(len(near)), np.ones(len(near))
        for _ in range(_POLICY.halvings):
            middle = 0.5 * (low + high)
            same = np.all(mapped(flat, near + middle[:, None, None] * (far - near)) == own, axis=1)
            low, high = np.where(same, middle, low), np.where(same, high, middle)
        return low

    own = label
    place = start + crossing(start, end)[:, None, None] * (end - start)
    along = (end - start) / np.linalg.norm(end - start, axis=(1, 2))[:, None, None]
    # Beside the crossing, on both sides along every axis, the surface is met earlier or later on parallel segments.
    shifts = _POLICY.near * np.concatenate([np.eye(size), -np.eye(size)]).reshape(-1, 1, *shape)
    reach = 20 * _POLICY.near * along
    near, far = ((place + shifts + way).reshape(-1, *shape) for way in (-reach, reach))
    own = np.tile(label, (len(shifts), 1))
    before, after = (np.all(mapped(flat, part) == own, axis=1).reshape(2, size, -1) for part in (near, far))
    met = crossing(near, far).reshape(2, size, -1)
    slope = (met[1] - met[0]).T.reshape(-1, *shape) / np.sqrt(size)
    usable = np.all(before & ~after, axis=(0, 1))
    return slope[usable] if usable.any() else np.zeros((1, *shape))
