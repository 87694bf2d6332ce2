"""How fixed points of maps whose averages are sampled are looked for: one policy, and which states may be one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.core.estimate import Array
from glassformer.state_evolution.fixed_point import Flags


@dataclass(frozen=True)
class Search:
    """How fixed points of sampled maps are looked for, and when they are believed."""

    roughly: float = 5e-4  # how well fixed points are located with few points
    settled: float = 0.1  # share of the sampling error below which a residual tells nothing
    noise: float = 1.0  # share of the sampling error up to which a Newton step is the last one
    left: float = 0.5  # share of that step that may be missing: half of it where two fixed points merge
    leading: float = 0.5  # the same as of noise, where more points are to follow
    least: float = 1.0  # share of it with which a search that gets no further ends
    rounds: int = 24  # corrections by all points
    sloped: int = 4  # factor of points that slopes, which only lead there, can do without
    seen: float = 2.0  # standard errors of a fixed point that a step needs for its ends to tell slopes
    fall: float = 2.0  # steps by which a residual may fall along one: beyond one it is noise
    gain: float = 0.7  # share of the step that a round has to leave behind
    patience: int = 4  # rounds without that gain, after which the best will do
    unstable: float = 1.005  # eigenvalue of the slope above which a point is left
    push: float = 0.03  # length of the push that leaves it
    pushes: int = 6  # how often at most
    back: float = 3.0  # tolerances within which a push has led back to where it began
    confidence: float = 0.95  # with which errors stay below their estimate
    meaningless: float = 0.2  # standard error, in units of the prior's covariance, from which on it says nothing
    halvings: int = 20  # of steps that lead out of the cone
    longest: float = 0.5  # Newton steps longer than this share of the covariance are shortened
    above: float = 0.05  # eigenvalues of covariances may exceed those of the prior by this much


POLICY = Search()


def is_covariance(states: Array, above: float = POLICY.above) -> Flags:
    """Which states, flattened or not, are covariances of what has unit power: eigenvalues from 0 to ``1 + above``."""
    flat = states.reshape(len(states), -1)
    finite: Flags = np.all(np.isfinite(flat), axis=1)
    if flat.shape[1] == 1:
        return np.asarray(finite & (flat[:, 0] >= 0) & (flat[:, 0] <= 1 + above))
    size = int(np.sqrt(flat.shape[1]))
    values = np.linalg.eigvalsh(np.where(finite[:, None], flat, 0.0).reshape(-1, size, size))
    return np.asarray(finite & (values[:, 0] > -1e-12) & (values[:, -1] <= 1 + above))
