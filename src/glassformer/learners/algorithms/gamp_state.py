"""What approximate message passing knows between two steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from glassformer.core.estimate import Array
from glassformer.designs.base import Design
from glassformer.numerics.sequences import AitkenExtrapolation
from glassformer.priors.base import SignalEstimate


@dataclass
class GampState:
    """One instance between two steps.

    Attributes:
        estimate: signal of shape (P, ...), covariance and Onsager coefficient of shape (P, P).
        score: shape (n, P, K).
        onsager: coefficient of the score in the next fields, shape (P, P).
        precision: as measured in the last step.
        assumed: the precision that the estimate was denoised with.
        ratio: measured square over measured slope of the score, all rows together; NaN where sampling noise hides the
            slope.
        contradicted: whether slope and square of the score of some row differ by more than their sampling noise.
        size: root-mean-square change of the signal.
        noise: what the sampling of the scores alone would have changed it by.
        damping: weight of this state in the next one.
        first: before any step.
        creep: the step that led here, where it may be one of many that follow each other.
    """

    estimate: SignalEstimate
    score: Array
    onsager: Array
    precision: Array
    assumed: Array
    ratio: float = 1.0
    contradicted: bool = False
    size: float = np.inf
    noise: float = 0.0
    damping: float = 0.0
    first: bool = True
    creep: AitkenExtrapolation | None = None

    @property
    def claimed(self) -> float:
        """Mean over the rows of the claimed error."""
        return float(np.trace(self.estimate.variance)) / len(self.onsager)

    def fields(self, design: Design, instance: int) -> Array:
        """Fields of the samples, each without what its own label contributed, shape (n, P, K)."""
        own = self.onsager[0, 0] * self.score if len(self.onsager) == 1 else self.onsager @ self.score
        return np.asarray(design.fields(self.estimate.signal, instance) - own)

    def leapt(self, steps: float) -> Self:
        """Carried on by so many steps like the last one."""
        if steps == 0 or self.creep is None:
            return self
        signal = self.estimate.signal + steps * self.creep.step
        return replace(self, estimate=replace(self.estimate, signal=signal), creep=None)


class Sight(NamedTuple):
    r"""The signal of one row as an estimate has seen it, and what labels leave beside it.

    Attributes:
        matrix: signal and white noise.
        noise: variance of the latter, measured.
        fields: of the samples, each without its own label, shape (n,).
        rest: what squares of residuals, in units of their slopes, have beyond the claimed error: for linear labels
            their noise.
    """

    matrix: Array
    noise: float
    fields: Array
    rest: float

    @property
    def finite(self) -> bool:
        """Whether anything was seen."""
        return bool(np.isfinite(self.noise) and np.isfinite(self.matrix).all() and np.isfinite(self.fields).all())
