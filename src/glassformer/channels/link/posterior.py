"""What a channel needs from the posterior of a field given its label through a link."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from glassformer.channels.link.piecewise import LinkShape
from glassformer.channels.scalar.base import Array


@dataclass(frozen=True, eq=False)
class LinkPosterior(ABC):
    """The law of h = omega + sqrt(V) u given a label, by Gauss rules of ``nodes`` nodes per panel."""

    shape: LinkShape
    nodes: int

    left_out: ClassVar[float] = 1e-13
    """Share of averages that no rule sees: tails beyond the reach of all of them, and rounding."""

    closed: ClassVar[bool] = False
    """Whether averages are closed forms, which no curve has to stand for."""

    @abstractmethod
    def averages(self, v: float, level: int) -> tuple[float, float]:
        """(information, expected log partition) at posterior variance ``v`` by the rule of this level."""

    @abstractmethod
    def posterior(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """(log partition, score) per data point; one-dimensional arrays of one length."""
