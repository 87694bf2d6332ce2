"""What checks found, and what they allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from glassformer.models.base import Model


@dataclass(frozen=True)
class Allowed:
    """What checks allow.

    Attributes:
        sigmas: standard errors that an average may be off by.
        variances: of posteriors that channels are looked at with, over that of the prior.
        exact: beside standard errors where scores are exact.
        sampled: of scores where they are sampled.
        averaged: of averages relative to them.
        slope: of slopes by steps as wide as sampling needs, which have a bias of their own.
        law: share of the probability by which a label law and what it draws may differ.
    """

    sigmas: float = 5.0
    variances: tuple[float, float] = (0.7, 0.15)
    exact: float = 1e-6
    sampled: float = 0.03
    averaged: float = 0.02
    slope: float = 0.03
    law: float = 0.01


POLICY = Allowed()


class Case(NamedTuple):
    """What is checked: a model, the sample ratio (None for one of the check's own) and dimension of data, a seed."""

    model: Model
    alpha: float | None
    d: int
    seed: int


class Worst(NamedTuple):
    """The largest deviation of several, and the numbers that disagree."""

    deviation: float
    numbers: str


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: what was compared.
        deviation: by how much it is off, in units of what is allowed: at most 1 where it passes; NaN where it could not
            be made.
        explanation: what a failure means, or why the check was not made.
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
        """Whether it found nothing."""
        return not self.made or self.deviation <= 1


@dataclass(frozen=True)
class Report:
    """All checks of a model; ``print`` it."""

    model: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        return "\n".join([f"{self.model}:", *map(_line, self.checks)])


def _line(check: Check) -> str:
    if not check.made:
        return f"  -     {check.name}: not made, {check.explanation}"
    found = f"{check.name}: deviation {check.deviation:.2g} of what is allowed"
    return f"  ok    {found}" if check.passed else f"  FAIL  {found}; {check.explanation}"
