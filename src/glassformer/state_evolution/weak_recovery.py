r"""Weak recovery of one subspace after the other: the staircase of models whose labels are even in their rows.

At zero overlap state evolution is linear, :math:`Q \mapsto (\alpha/\mathrm{degrees})F(Q)` with

.. math:: F(M) = \sum_{ll'} E_y\bigl[D_{ll'}MD_{ll'}^T\bigr], \qquad D_{ll'} = \partial g_l/\partial\omega_{l'},

a positive map on symmetric matrices: its leading eigenvalue has a positive semi-definite eigenvector, which names the
subspace that is found first, at :math:`\alpha_c = \mathrm{degrees}/\lambda`. Once a subspace is recovered the same
holds in the directions orthogonal to it, with ``D`` at the fixed point that state evolution reaches inside it at that
:math:`\alpha`: the next threshold is where :math:`\alpha\lambda(\alpha) = \mathrm{degrees}`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.cache import memoize
from glassformer.core.checks import require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.models.base import Model, require_theory
from glassformer.state_evolution.equation_of_state import natural_scale
from glassformer.state_evolution.instability import GROWTH, instability
from glassformer.state_evolution.later_thresholds import SEARCH, Step, next_step
from glassformer.state_evolution.subspaces import of_whole_rows, projector_on, range_of


@dataclass(frozen=True)
class Policy:
    """Between which sample ratios later steps are looked for."""

    nearest: float = 0.05  # where it begins, over the ratio at which something is found first
    farthest: float = 60.0  # where it ends, likewise
    rounding: float = 1e-12  # entry of a projector that is zero


_POLICY = Policy()


def staircase(model: Model) -> list[Step]:
    """Thresholds of weak recovery beyond what any data tell, one subspace after the other, in order of their ratios.

    An infinite one ends the list where nothing is known and, within the error, nothing grows, one that is NaN where
    averages are too rough to tell.
    """
    prior, known = model.prior, known_at_once(model)
    if np.trace(known) > 0.5:
        scale = prior.degrees / float(np.linalg.eigvalsh(information_at(model, np.eye(prior.rows))[0])[-1])
        steps, start, farthest = [], _POLICY.nearest * scale, _POLICY.farthest * scale
    else:
        first = _first(model)
        if not np.isfinite(first.alpha):
            return [first]
        steps, start, farthest = [first], first.alpha, _POLICY.farthest * first.alpha
        known = range_of(first.matrix)
    # Rows of other laws are known together or not at all: what is known of a mixture of them tells of the others, so
    # that only whole rows, apart from the others, are steps. What no label shows is never known.
    shown = float(np.trace(model.channel.row_symmetries.visible))
    while np.trace(known) < shown - 0.5 and (prior.rotational or of_whole_rows(known)):
        following = next_step(model, known, start, farthest)
        if following is None:
            break
        steps.append(following)
        start, known = following.alpha, range_of(known + following.matrix)
    return steps


def _first(model: Model, unknown: Array | None = None, accuracy: float = GROWTH.accuracy) -> Step:
    everything = np.eye(model.prior.rows)
    found = instability(model, everything, everything if unknown is None else unknown, accuracy)
    blur, degrees = GROWTH.errors * found.error + abs(found.missing), model.prior.degrees
    if found.rate <= max(blur, SEARCH.no_growth):
        silent = degrees / max(found.rate + blur, SEARCH.no_growth)
        # Averages so rough that they allow for the growth of any model do not say that nothing grows.
        alpha = np.inf if silent > natural_scale(model) else np.nan
        return Step(alpha, 0.0, found.matrix, found.degenerate, silent)
    alpha = degrees / found.rate
    return Step(alpha, alpha * found.blur, found.matrix, found.degenerate)


def known_at_once(model: Model) -> Array:
    """Projector on the directions that any data tell of: scores do not vanish there, given those known before them.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> known_at_once(SequenceMultiIndex(lambda z: z[:, 0] ** np.array([1, 2]), 2, 1, noise=0.1, points=32))
        array([[1., 0.],
               [0., 0.]])
    """
    size = model.prior.rows
    known = np.zeros((size, size))
    for _ in range(size):
        outside = np.eye(size) - known
        value, error = information_at(model, np.eye(size) - 0.5 * known)
        values, vectors = np.linalg.eigh(outside @ value @ outside)
        found = vectors[:, values > GROWTH.errors * np.linalg.norm(error) + SEARCH.no_growth]
        if found.shape[1] == 0:
            break
        known = known + found @ found.T
    return np.where(np.abs(known) < _POLICY.rounding, 0.0, known)


def information_at(model: Model, variance: Array) -> tuple[Array, Array]:
    """Information at one covariance, and its error; that of zero overlap is asked for by all steps."""
    channel = model.channel
    value, error = memoize(lambda: channel.information_matrix(variance[None]), "information", channel, variance)
    return value[0], error[0]


def subspace_threshold(
    model: Model, subspace: int | ArrayLike, known: int | ArrayLike | None = None, accuracy: float = GROWTH.accuracy
) -> Step:
    r"""Where a chosen subspace would be found, were nothing but another one known: not in the order of the staircase.

    Args:
        model: prior and channel, whose labels are even in the subspace.
        subspace: a row, counted from 0, a direction, shape (P,), or several of them, shape (P, k).
        known: what is learned already, given likewise; state evolution says how well at every sample ratio. Nothing by
            default.
        accuracy: relative, of averages that are sampled, up to which data points are added while that is within reach;
            later thresholds, which ask for a fixed point as well, are never asked for more than half a per cent.

    Returns:
        :class:`Step`; its ``alpha`` is infinite where nothing grows, and NaN where averages are too rough to tell, or
        where nothing does up to sixty times the ratio at which something would be found first.

    Raises:
        ParameterError: no such row, directions of another number of rows, or an accuracy that is not positive.

    Source: arXiv:2502.00901, theorem 2.3, for directions of one's choice.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> round(subspace_threshold(SequenceMultiIndex(lambda z: abs(z[0, 0]), 1, 1), 0).alpha, 6)
        0.5
    """
    require_arguments(subspace_threshold, locals())
    if not 0 < accuracy < np.inf:
        raise ParameterError("accuracy", accuracy, "finite and > 0")
    require_theory(model)
    chosen = projector_on(model, "subspace", subspace)
    if known is None:
        return _first(model, chosen, accuracy)
    given = projector_on(model, "known", known)
    scale = _first(model, None, accuracy).alpha
    scale = scale if np.isfinite(scale) else 1.0
    later = max(accuracy, SEARCH.eigenvalue)
    found = next_step(model, given, _POLICY.nearest * scale, _POLICY.farthest * scale, chosen, later)
    return Step(np.nan, 0.0, chosen / np.trace(chosen), False) if found is None else found
