"""Where the means of simulated runs are far from theory: by how much, and why."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from glassformer.core.estimate import Array
from glassformer.experiments.instances import Run
from glassformer.numerics.quasi_random import confidence_factor

# Distance from theory that is large whatever the standard errors: a share of the error before any data, which is 1.
_LARGE = 0.1
# Distance that is small even where it exceeds the interval: a share of the theory.
_SMALL = 0.05
# From so many instances on, the interval is close to two standard errors.
_MANY = 10


def interval(standard_error: Array, instances: int) -> Array:
    """Half width of the 95 % confidence interval of a mean over instances, by Student's distribution.

    Example:
        >>> interval(np.array([1.0]), 4).round(2)  # 1.96 of very many instances
        array([3.18])
    """
    return confidence_factor(instances) * np.asarray(standard_error)


def few_instances(instances: int) -> list[str]:
    """A note on standard errors of few instances."""
    if not 1 < instances < _MANY:
        return []
    factor = confidence_factor(instances)
    return [f"standard errors are from {instances} instances: 95 % intervals are {factor:.3g} times as wide"]


def far_from_theory(
    rows: Sequence[tuple[str, Array, Array, Array, Array]], alpha: Array, runs: Sequence[Sequence[Run]], d: int
) -> list[str]:
    """A note on the value that is furthest from theory, with the likely reason; none where all are close.

    Args:
        rows: of each quantity its name, means, standard errors, theory and error estimates of that, shape (points,).
        alpha: sample ratios.
        runs: the runs at each of them.
        d: dimension of the runs.
    """
    found = [
        (abs(mean[k] - theory[k]), k, name, float(mean[k]), float(error[k]), float(theory[k]))
        for name, mean, error, theory, bar in rows
        for k in range(len(alpha))
        if _is_far(mean[k] - theory[k], error[k], theory[k], np.nan_to_num(bar[k]), len(runs[k]))
    ]
    if not found:
        return []
    distance, k, name, mean, error, theory = max(found)
    more = len(found) - 1
    others = f"; {more} more value{'s are' if more > 1 else ' is'} far from theory" if more else ""
    side = "above" if mean > theory else "below"
    chance = "" if np.isnan(error) else f" ({distance / error:.2g} standard errors)" if error > 0 else ""
    return [
        f"far from theory: {name} at alpha = {alpha[k]:.4g} is {mean:.3g}, {distance:.2g} {side} theory{chance}. "
        f"{_reason(runs[k], distance, error, d)}{others}"
    ]


def _is_far(gap: float, error: float, theory: float, bar: float, instances: int) -> bool:
    """Whether a distance from theory is large, or beyond the interval and not small."""
    beyond = abs(gap) > confidence_factor(instances) * error + bar if error > 0 else False
    return abs(gap) > _LARGE or (beyond and abs(gap) > _SMALL * abs(theory))


def _reason(runs: Sequence[Run], distance: float, error: float, d: int) -> str:
    """Why a mean may be far from theory."""
    failed = [run for run in runs if not run.status.ok]
    size = f"finite size: theory is the limit of large d, and d = {d}"
    if failed:
        statuses = ", ".join(sorted({str(run.status) for run in failed}))
        return f"{len(failed)} of {len(runs)} runs ended {statuses}; {size}"
    if len(runs) == 1:
        return f"One instance has no standard error: add instances; or {size}"
    if distance <= confidence_factor(len(runs)) * error:
        return (
            f"The 95 % interval of {len(runs)} instances is +- {confidence_factor(len(runs)) * error:.2g}: "
            f"add instances; or {size}"
        )
    return f"More than chance explains (95 % of {len(runs)} instances): {size}"
