"""Fixed points of maps with sampled averages: from few data points to all, and with the effect of a regularising noise.

A coarse solution from few data points is refined with more of them, and then with all. Its error contains the effect of
a regularising noise where labels without noise are computed with a small one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from glassformer.bayes_optimal.evolution_map import EvolutionMap, is_covariance
from glassformer.bayes_optimal.first_stable import ContinuationStage, FirstStable
from glassformer.bayes_optimal.refinement import Refinement
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.numerics.fixed_points.solve import Method
from glassformer.numerics.quasi_random import confidence_factor

# Coarse solutions use a sixteenth of the data points, slopes a fourth (chosen by trial).
_COARSE_FACTOR, _SLOPE_FACTOR = 16, 4


@dataclass(frozen=True, eq=False)
class Coarse(Method[EvolutionMap]):
    """The first stable fixed points from a sixteenth of the data points, with slopes from a fourth.

    Args:
        order: stages of the batch; by default all elements at once.
        other: coarse solution from another start; its slopes are reused where both starts lead to one fixed point.
    """

    order: Sequence[ContinuationStage] | None = None
    other: Solution | None = None

    def solve(self, function: EvolutionMap, start: Array, settings: Iteration) -> Solution:
        method = FirstStable(function.with_fewer_points(_SLOPE_FACTOR), self.order, self.other)
        return method.solve(function.with_fewer_points(_COARSE_FACTOR).low_accuracy(), start, settings)


@dataclass(frozen=True, eq=False)
class Fine(Method[EvolutionMap]):
    """Newton steps from a coarse solution, with a fourth of the data points and then with all.

    Args:
        coarse: the result of :class:`Coarse`, from whose values the steps start.
    """

    coarse: Solution

    def solve(self, function: EvolutionMap, start: Array, settings: Iteration) -> Solution:
        fewer = function.with_fewer_points(_SLOPE_FACTOR)
        better = Refinement(self.coarse, preliminary=True).solve(fewer, start, settings)
        solution = Refinement(better).solve(function, better.value, settings)
        more_noise = function.with_more_noise()
        return solution if more_noise is None else _extrapolate(solution, more_noise, start, settings)


def _extrapolate(solution: Solution, noisier: EvolutionMap, start: Array, settings: Iteration) -> Solution:
    """Return the solution with the error of a regularising noise: the change of the fixed point with more of it."""
    nearby = np.where(is_covariance(solution.value)[:, None, None], solution.value, start)
    coarse = Coarse().solve(noisier, nearby, settings)
    other = Refinement(coarse).solve(noisier, coarse.value, settings)
    change = other.value - solution.value
    distance = np.linalg.norm(change, axis=(1, 2))
    components = [solution.extra["error_components"], change[:, None] / confidence_factor(REPLICAS)]
    return replace(
        solution,
        error_estimate=solution.error_estimate + np.where(other.settled, distance, np.inf),
        extra={**solution.extra, "error_components": np.concatenate(components, axis=1)},
    )
