"""Curves of a learner's theory against the sample ratio, seen as far as a target asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.learners.base import Learner
from glassformer.state_evolution.crossings import Looked, settled

QUANTITIES = ("error", "label_error", "prediction_error", "plugin_error", "label_mse", "label_brier", "test_loss")
"""Columns of limits that may be asked for, where a learner's limits have them."""


@dataclass(frozen=True)
class LearningCurve:
    """At which sample ratios a curve is looked at, as powers of two, and how far it goes on."""

    first: int = -5  # ratio looked at first
    last: int = 5  # of those looked at first
    fine: float = 0.5  # step of curves whose points cost little
    coarse: float = 1.0  # step of others
    beside: tuple[float, float] = (0.98, 1.02)  # ratios near thresholds, in units of these
    further: int = 8  # how far it goes on at once, where the target is not reached
    farthest: int = 21  # how far at most


_POLICY = LearningCurve()


# Change over the last stretch, relative, below which a curve is level.
LEVEL = 0.01


@dataclass(frozen=True)
class Seen:
    """Curves at sample ratios that rise."""

    alpha: Array
    found: dict[str, Looked]

    def with_other(self, other: Seen) -> Seen:
        """Both, in the order of the ratios."""
        alpha = np.concatenate([self.alpha, other.alpha])
        order = np.argsort(alpha, kind="stable")
        return Seen(alpha[order], {name: _joined(one, other.found[name], order) for name, one in self.found.items()})


def _joined(one: Looked, other: Looked, order: NDArray[np.intp]) -> Looked:
    status = [*one.status, *other.status]
    value, error, estimate, blur = (np.concatenate([a, b])[order] for a, b in zip(one[:4], other[:4], strict=True))
    return Looked(value, error, estimate, blur, [status[k] for k in order])


class Curves:
    """Limits of a learner, as curves of one quantity, and the places of its thresholds."""

    def __init__(self, model: Any, learner: Learner, quantity: str, places: Sequence[float]) -> None:
        self.places = [place for place in places if np.isfinite(place)]
        self.model, self.learner, self.quantity = model, learner, quantity
        self.parameters: dict[str, Any] = {}
        self.known: dict[bytes, Seen] = {}

    def at(self, alpha: NDArray[np.floating[Any]]) -> Seen:
        """All curves at these ratios; what several curves ask for is computed once."""
        key = alpha.tobytes()
        if key not in self.known:
            self.known[key] = self._computed(np.asarray(alpha, dtype=float))
        return self.known[key]

    def _computed(self, alpha: Array) -> Seen:
        table = self.learner.limits(self.model, alpha, throw=False)
        self.parameters = table.parameters
        if self.quantity not in table.columns:
            there = [name for name in QUANTITIES if name in table.columns]
            raise IncompatibleError(
                f"quantity = {self.quantity} is not among the limits of learner {self.learner.name} for this model "
                f"({self.model.name}, channel {self.model.channel.label}): use {' or '.join(there)}"
            )
        blur = next((table[name] for name in _blurs(self.quantity) if name in table.columns), np.zeros_like(alpha))
        curves = self.learner.curves(self.model, table, self.quantity)
        estimate = table["error_estimate"]
        # What is not told from zero is zero: rounding has no passages.
        known = {name: (np.where(value <= estimate, 0.0, value), error) for name, (value, error) in curves.items()}
        looked = {name: Looked(*both, estimate, blur, table.status) for name, both in known.items()}
        return Seen(alpha, looked)


def _blurs(quantity: str) -> tuple[str, str]:
    """The names that the standard error of a quantity may have."""
    return quantity.replace("error", "standard_error"), f"{quantity}_standard_error"


def first_ratios(theory: Curves) -> Array:
    """Even in logarithms, and beside thresholds."""
    step = _POLICY.fine if theory.model.has_curve else _POLICY.coarse
    even = 2.0 ** np.arange(_POLICY.first, _POLICY.last + step / 2, step)
    near = [place for place in theory.places if even[0] < place < even[-1]]
    return np.unique(np.concatenate([even, *(place * np.array(_POLICY.beside) for place in near)]))


def extended(theory: Curves, seen: Seen, target: float) -> Seen:
    """Further ratios, above until every curve is below the target or level, and below until every one is above it."""
    for first in range(_POLICY.last, _POLICY.farthest, _POLICY.further):
        if not any(_open(seen.alpha, one, target) for one in seen.found.values()):
            break
        seen = seen.with_other(theory.at(2.0 ** np.arange(first + 1, first + _POLICY.further + 1)))
    for first in range(_POLICY.first, -_POLICY.farthest, -_POLICY.further):
        if not any(_first_value(one) <= target for one in seen.found.values()):
            break
        seen = seen.with_other(theory.at(2.0 ** np.arange(first - _POLICY.further, first)))
    return seen


def _first_value(looked: Looked) -> float:
    values = looked.value[settled(looked)]
    return float(values[0]) if len(values) else np.inf


def _open(alpha: Array, looked: Looked, target: float) -> bool:
    """Whether a curve ends above the target, and may yet come down to it."""
    good = settled(looked)
    if not good.any() or looked.value[good][-1] <= target:
        return False
    return ending(alpha[good], looked.value[good]) == _FALLING


_FALLING, _LEVELLED, _RISING = "it still falls there", "it levels off there", "it does not fall there"


def ending(alpha: Array, value: Array) -> str:
    """How a curve ends: over the last stretch of 2^8, or of what there is, for a level as well."""
    before = int(np.searchsorted(alpha, alpha[-1] / 2.0**_POLICY.further))
    fall = float(value[before] - value[-1])
    if not fall > 0:
        return _RISING
    return _LEVELLED if fall <= LEVEL * value[-1] else _FALLING
