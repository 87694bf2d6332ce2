"""Hysteresis: fixed points followed up and down in the sample ratio."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.evolution_map import EvolutionMap
from glassformer.bayes_optimal.limits import combined_status, mean_error, row_columns
from glassformer.bayes_optimal.solve import (
    informed_variance,
    solve_state_evolution,
    uninformed_variance,
    validated_alpha,
)
from glassformer.core.checks import require_arguments
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import track
from glassformer.core.results import Branches, Table
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.models.base import Model
from glassformer.numerics.decompositions import map_eigenvalues

# Two branches differ by more than their error estimates plus this relative and absolute distance (chosen by trial).
_RELATIVE, _ABSOLUTE = 1e-4, 1e-9


def follow_branches(model: Model, alpha: ArrayLike, settings: Iteration | None = None) -> Branches:
    r"""Follow the fixed point of state evolution up and down in the sample ratio.

    On the way up the iteration at each sample ratio starts from the fixed point at the ratio below; on the way down,
    from the fixed point at the ratio above. The first iteration has the uninformed and the informed start. With even
    labels the overlap of a start is at least that of the uninformed start, which breaks the symmetry, and its error is
    at least that of the informed start, so that an unstable fixed point without error is left. Between the
    spinodals the branches differ: a hard phase, in which message passing follows the branch of larger error.

    Args:
        model: prior and channel.
        alpha: sample ratios, at least two, in increasing order.
        settings: tolerance and iteration limit.

    Returns:
        :class:`Branches` with ``alpha``, ``error_up`` and ``error_down`` (for several rows the mean over the rows, with
        ``row_error_up`` and ``row_error_down``), ``two_branches`` (1 where the branches differ by more than their
        errors), ``error_estimate`` (the larger of both), and a note that brackets the spinodals.

    Raises:
        ParameterError: ``alpha`` is not increasing or out of range.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")
        >>> found = follow_branches(model, np.linspace(0.5, 1.1, 7))
        >>> bool(found["two_branches"].any()), found.notes[0].split(":")[0]
        (True, 'Two branches')
    """
    require_arguments(follow_branches, locals())
    alpha = _increasing(validated_alpha(alpha))
    up = list(_branch(model, alpha, "uninformed", settings))
    down = list(_branch(model, alpha[::-1], "informed", settings))[::-1]
    values = [np.concatenate([solution.value for solution in branch]) for branch in (up, down)]
    errors = [mean_error(value) for value in values]
    estimates = np.array([[float(solution.error_estimate[0]) for solution in branch] for branch in (up, down)])
    margin = _RELATIVE * np.maximum(*errors) + estimates.sum(axis=0) + _ABSOLUTE
    two = np.abs(errors[0] - errors[1]) > margin
    return Branches(
        model=model.name,
        parameters=model.parameters,
        columns={
            "alpha": alpha,
            "error_up": errors[0],
            "error_down": errors[1],
            **row_columns(model, values[0], "_up"),
            **row_columns(model, values[1], "_down"),
            "two_branches": two.astype(float),
            "error_estimate": estimates.max(axis=0),
        },
        status=[combined_status(a.status[0], b.status[0]) for a, b in zip(up, down, strict=True)],
        notes=[_note(alpha, two), *model.remarks],
    )


def one_branch(table: Table) -> Branches:
    """Return the limits of a learner with a single fixed point as a result of :func:`follow_branches`.

    Args:
        table: limits with the columns ``alpha``, ``error`` and ``error_estimate``.

    Raises:
        ParameterError: fewer than two sample ratios, or not in increasing order.
    """
    alpha = _increasing(table["alpha"])
    columns = {
        "alpha": alpha,
        "error_up": table["error"],
        "error_down": table["error"],
        "two_branches": np.zeros_like(alpha),
        "error_estimate": table["error_estimate"],
    }
    return Branches(table.model, table.parameters, columns, table.status, ["One branch: the risk is convex"])


def _increasing(alpha: Array) -> Array:
    if len(alpha) < 2 or np.any(np.diff(alpha) <= 0):
        raise ParameterError("alpha", alpha.tolist(), "at least two sample ratios in increasing order")
    return alpha


def _branch(model: Model, alpha: Array, start: str, settings: Iteration | None) -> Iterator[Solution]:
    first: str | Array = start
    smallest, largest = informed_variance(model), uninformed_variance(model)
    for ratio in track(alpha, f"{len(alpha)} sample ratios, {start}"):
        solution = solve_state_evolution(EvolutionMap(model, np.array([ratio]), model.channel), first, settings)
        yield solution
        # With even labels a direction of zero overlap would never be learned, and without noise an exactly known signal
        # would stay known at ratios at which that fixed point is unstable.
        if model.prior.rows == 1:
            first = np.clip(solution.value, smallest, largest)
        else:
            first = map_eigenvalues(solution.value, lambda values: np.clip(values, smallest, largest))


def _note(alpha: Array, two: Array) -> str:
    """Return the sample ratios between which the branches begin and cease to differ."""
    if not two.any():
        return "One branch at these sample ratios"
    first, last = np.flatnonzero(two)[[0, -1]]
    begin = f"between {alpha[first - 1]:g} and {alpha[first]:g}" if first else f"below {alpha[0]:g}"
    end = f"between {alpha[last]:g} and {alpha[last + 1]:g}" if last + 1 < len(alpha) else f"above {alpha[-1]:g}"
    return f"Two branches: the lower one begins {begin}, the upper one ends {end}"
