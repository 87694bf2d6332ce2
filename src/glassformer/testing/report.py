"""Common parts of the checks: the case, tolerances, derivatives by finite differences, and the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.bayes_optimal.equation_of_state import natural_scale
from glassformer.core.estimate import Array
from glassformer.models.base import Model

# Allowed deviation of an average, in standard errors (a convention).
SIGMAS = 5.0
# Posterior variances at which channels of one row are checked, relative to the prior (a convention).
VARIANCES = (0.7, 0.15)
# Tolerance in addition to standard errors: for exact scores, for sampled scores, relative one for averages, and for the
# bias of slopes from the wide steps that sampling needs (the last three chosen by trial).
EXACT, SAMPLED, AVERAGED, SLOPE = 1e-6, 0.03, 0.02, 0.03
# Allowed difference in probability between a label law and the labels that it draws (a convention).
LAW = 0.01


class Case(NamedTuple):
    """The model to check, sample ratio (None for the default of a check) and token dimension of data, and a seed."""

    model: Model
    alpha: float | None
    d: int
    seed: int


class Deviation(NamedTuple):
    """The largest of several deviations, in units of the tolerance, and the numbers that disagree."""

    size: float
    numbers: str


def derivative(function: Callable[[Array], Array], at: Array, along: Array, sampled: bool) -> Array:
    """Return the central difference along a step, from six points, or from two if averages are sampled."""
    weights = (0.5,) if sampled else (3 / 4, -3 / 20, 1 / 60)
    pairs = [w * (function(at + k * along) - function(at - k * along)) for k, w in enumerate(weights, 1)]
    return np.sum(pairs, axis=0)


def precisions(model: Model, scales: ArrayLike) -> Array:
    """Return diagonal precisions, different for each row, at which every row is partly known."""
    prior = model.prior
    rows = np.linspace(2.0, 0.5, prior.rows) * natural_scale(model) / prior.rows
    return (prior.weak_recovery_onset + np.multiply.outer(scales, rows))[..., None] * np.eye(prior.rows)


@dataclass(frozen=True)
class CheckResult:
    """Result of one check.

    Attributes:
        name: name of the check.
        deviation: deviation in units of the tolerance; at most 1 if the check passes, NaN if it does not apply.
        explanation: meaning of a failure, or the reason why the check does not apply.
    """

    name: str
    deviation: float
    explanation: str

    @property
    def made(self) -> bool:
        """Whether the check applies to the model."""
        return not np.isnan(self.deviation)

    @property
    def passed(self) -> bool:
        """Whether the check passed, or does not apply."""
        return not self.made or self.deviation <= 1

    def __str__(self) -> str:
        if not self.made:
            return f"  -     {self.name}: not applicable, {self.explanation}"
        text = f"{self.name}: deviation {self.deviation:.2g} of the tolerance"
        return f"  ok    {text}" if self.passed else f"  FAIL  {text}; {self.explanation}"


@dataclass(frozen=True)
class Report:
    """All checks of a model; ``print`` it."""

    model: str
    checks: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        return "\n".join([f"{self.model}:", *map(str, self.checks)])
