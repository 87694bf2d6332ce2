"""Results: one threshold, and all thresholds of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.labels import Exponents
from glassformer.core.equality import ComparedByContent
from glassformer.core.frozen import set_fields
from glassformer.core.results import NamedEntries, to_json_types

NOT_DETERMINED = "Not determined"
"""Beginning of the note of a threshold whose sample ratio the computation leaves open."""


@dataclass(frozen=True, eq=False)
class Threshold(ComparedByContent):
    """A sample ratio at which a phase begins or ends.

    Attributes:
        name: of the threshold.
        alpha: sample ratio in the model's unit; infinity if the threshold is never reached, NaN if it does not apply or
            is not determined.
        error_estimate: absolute error of ``alpha``; zero for closed forms, NaN if ``alpha`` is not finite.
        note: definition of the threshold, or the reason why there is none.
        layer: for models of several rows, the group of rows that is learned at the threshold; None otherwise.
        subspace: for models of several rows, positive semi-definite matrix over the rows whose range is learned at the
            threshold; None otherwise.
    """

    name: str
    alpha: float
    error_estimate: float
    note: str
    layer: str | None = None
    subspace: list[list[float]] | None = None

    def __post_init__(self) -> None:
        if not np.isfinite(self.alpha):
            set_fields(self, error_estimate=np.nan)

    @property
    def reached(self) -> str:
        """``at_alpha``, ``never``, ``unknown`` or ``does_not_apply``: JSON has only null for infinity and NaN."""
        if np.isnan(self.alpha):
            return "unknown" if self.note.startswith(NOT_DETERMINED) else "does_not_apply"
        return "never" if np.isinf(self.alpha) else "at_alpha"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are not None, by name, and ``reached``."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return {**to_json_types(known), "reached": self.reached}


@dataclass(frozen=True, eq=False)
class Thresholds(NamedEntries[Threshold]):
    """All thresholds of a model by name, whether it has a hard phase and why, and the exponents of its link.

    Unknown values are None. In :meth:`to_dict` infinite and undefined ratios are None, and ``reached`` distinguishes
    them.

    Example:
        >>> from glassformer import BilinearSequenceRegression, thresholds
        >>> found = thresholds(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0))
        >>> found["perfect_recovery"].alpha, found.hard_phase
        (0.75, False)
        >>> "weak_recovery" in found, len(found) == len(list(found))
        (True, True)
    """

    model: str
    parameters: dict[str, Any]
    entries: tuple[Threshold, ...]
    hard_phase: bool | None
    hard_phase_reason: str = ""
    exponents: Exponents | None = None
    drawing = "plot_thresholds"

    @property
    def remarks(self) -> tuple[str, ...]:
        answer = {True: "yes", False: "no", None: "unknown"}[self.hard_phase]
        return (f"hard phase: {answer} ({self.hard_phase_reason})",)

    def to_dict(self) -> dict[str, Any]:
        """Return the thresholds as the command line writes them in JSON."""
        exponents = {} if self.exponents is None else self.exponents._asdict()
        return {
            "model": self.model,
            "parameters": to_json_types(self.parameters),
            "thresholds": [entry.to_dict() for entry in self.entries],
            "hard_phase": self.hard_phase,
            "hard_phase_reason": self.hard_phase_reason,
            **to_json_types({f"{name}_exponent": value for name, value in exponents.items()}),
        }
