"""Random numbers of the trajectories over which the mean-field equations of descent average."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.dynamics.descent_settings import DescentSettings
from glassformer.dynamics.trajectory_space import padded_steps
from glassformer.models.base import Model
from glassformer.numerics.quasi_random import normal_points
from glassformer.risk.rows.student import Student

# Second moments of noise are made exact where there are this many points per dimension; products of fewer points would
# no longer be close to independent (a convention).
_PER_DIMENSION = 2


class Trajectories(NamedTuple):
    """Random numbers of one set of trajectories: of base points, each used with both signs of true and own fields.

    Attributes:
        true: fields of the teacher, for both signs of their normal part, shape (P*, L, 2, base).
        labels: as the loss takes them, for both signs of the true fields, shape (entries, 2, base).
        noise: standard normal numbers, one for every direction of the weights, shape (padded, P, L, base).
        masks: one for samples in a batch, zero for others, shape (a whole number of blocks, 2, base).
    """

    true: Array
    labels: Array
    noise: Array
    masks: Array


def draw_trajectories(
    model: Model, student: Student, settings: DescentSettings, sets: int, number: int
) -> Trajectories:
    """Return the random numbers of set ``number`` of ``sets``, with exact second moments where points suffice.

    Args:
        model: of the teacher.
        student: its rows and tokens.
        settings: of the steps; a set has their number of base points.
        sets: number of sets.
        number: of this set.
    """
    channel, rng = model.channel, np.random.default_rng([7, number])
    steps, base, batches = settings.steps, settings.base_points, int(settings.batches[-1]) + 1
    shape = (channel.fields.rows, channel.fields.columns)
    size, rows, tokens = int(np.prod(shape)), student.rows, student.tokens
    sources = channel.inference.sources
    normal = _whiten(normal_points(size + sources + channel.fields.sources, base, sets)[number])
    true, source, of_state = np.split(normal, [size, size + sources], axis=1)
    true = true.reshape(-1, *shape)
    both = channel.fields.shifted(np.concatenate([true, -true]), np.concatenate([of_state, -of_state]))
    drawn = channel.inference.labels_from(both, np.concatenate([source, -source]), rng)
    noise = _whiten(rng.standard_normal((base, (steps + 1) * rows * tokens)))
    # A batch holds the same share of every set, and opposite points are in it at opposite times.
    ranks = (rng.permuted(np.tile(np.arange(base), (batches, 1)), axis=1) + rng.random((batches, 1))) / base
    masks = np.zeros((padded_steps(batches - 1), 2, base))
    masks[:batches] = np.stack([ranks, 1 - ranks], axis=1) < (settings.batch if settings.batch < 1 else np.inf)
    directions = np.zeros((padded_steps(steps), rows, tokens, base))
    directions[: steps + 1] = noise.T.reshape(-1, rows, tokens, base)
    return Trajectories(
        np.moveaxis(both.reshape(2, base, *shape), (0, 1), (-2, -1)),
        np.moveaxis(student.targets(drawn).reshape(2, base, -1), -1, 0),
        directions,
        masks,
    )


def _whiten(normal: Array) -> Array:
    """Return points, shape (n, dimensions), whose second moments are those of independent standard normal numbers."""
    count, dimensions = normal.shape
    if count < _PER_DIMENSION * dimensions:
        return normal
    lower = np.linalg.cholesky(normal.T @ normal / count)
    return np.asarray(np.linalg.solve(lower, normal.T).T)
