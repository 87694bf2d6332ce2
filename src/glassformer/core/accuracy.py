"""Accuracy of numbers: tolerances, limits of iterations, and sizes of samples, apart from model and learner."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeVar

from glassformer.core.errors import IncompatibleError
from glassformer.core.renamed import WithRenamedArguments
from glassformer.core.settings import (
    check_settings,
    integer_up_to,
    open_unit_interval,
    positive_integer,
    power_of_two,
    setting,
)

# Matrices of more rows do not fit into memory, and one draw has no spread.
_size, _several = integer_up_to(4096, 8), integer_up_to(100_000, 2)

P = TypeVar("P", bound="WithAccuracy")


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """What concerns the accuracy of numbers and their cost, and nothing else. None stands for the usual value.

    A setting that has no effect on a question is refused.

    Args:
        tolerance: of limits, the relative accuracy of fixed points; of runs and fits, the change per step or the
            relative duality gap below which they have converged.
        max_iterations: largest number of steps of these iterations.
        points: sampled data points per replica, a power of two: of averages over labels of several rows or tokens
            (2048), and of online SGD. Errors fall two- to sixfold for eight times as many.
        trajectories: of the mean-field equations of descent, 32 times a power of two (32,768; on matrices 16,384).
            Errors fall like the inverse square root.
        matrix_size: largest dimension ``d`` of the matrices on which the equations of descent are solved (120). Errors
            fall like its inverse.
        draws: draws at this size (4), of which there are four times as many at a quarter of it. Errors fall like the
            inverse square root.

    Raises:
        ParameterError: a value is out of range.

    Example:
        >>> from glassformer import DeepAttention, limits
        >>> table = limits(DeepAttention(depth=1), [0.3], accuracy=Accuracy(points=64))
        >>> table.parameters["points"]
        64
        >>> Accuracy(points=100)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: points = 100 is not allowed: expected a power of two >= 32
    """

    tolerance: float | None = setting(
        None, "limits: relative accuracy of fixed points; runs: change per step or duality gap", open_unit_interval
    )
    max_iterations: int | None = setting(None, "largest number of steps of these iterations", positive_integer)
    points: int | None = setting(None, "sampled data points per replica, a power of two (default 2048)", power_of_two)
    trajectories: int | None = setting(
        None, "trajectories of the equations of sgd and gd, 32 times a power of two (default 32768)", positive_integer
    )
    matrix_size: int | None = setting(None, "largest d of the matrices in the equations of gd (default 120)", _size)
    draws: int | None = setting(None, "draws of the equations of gd at this size (default 4)", _several)

    def __post_init__(self) -> None:
        check_settings(self)

    @property
    def given(self) -> dict[str, Any]:
        """The values that are given, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def only(self, names: Collection[str]) -> Accuracy:
        """Return the accuracy with these values alone.

        Example:
            >>> Accuracy(points=64, tolerance=0.1).only(["points"]).given
            {'points': 64}
        """
        return Accuracy(**{name: value for name, value in self.given.items() if name in names})


USUAL = Accuracy()
"""The usual accuracy."""

POINTS = 2048
"""Usual data points per replica of sampled averages."""


class WithAccuracy(WithRenamedArguments):
    """A model or a learner: a frozen data class whose accuracy is not one of its parameters."""

    accuracy_defaults: ClassVar[Mapping[str, Any]] = {}
    """What an accuracy changes, and the usual values."""

    _accuracy: Accuracy = USUAL

    def at_accuracy(self: P, accuracy: Accuracy | None) -> P:
        """Return the part at an accuracy; values that it does not have are left out."""
        own = USUAL if accuracy is None else accuracy.only(self.accuracy_defaults)
        return self if not own.given else replace(self, _accuracy=replace(self._accuracy, **own.given))  # type: ignore[type-var]

    def usual_except(self: P, names: Collection[str]) -> P:
        """Return the part at the usual accuracy, except for these values."""
        kept = self._accuracy.only(names)
        return self if kept == self._accuracy else replace(self, _accuracy=kept)  # type: ignore[type-var]

    @property
    def given_accuracy(self) -> Accuracy:
        """The values that were given."""
        return self._accuracy

    def accurate(self, name: str) -> Any:
        """Return a value of the accuracy, the given one or the usual one."""
        value = getattr(self._accuracy, name)
        return self.accuracy_defaults[name] if value is None else value


def refuse_unused(accuracy: Accuracy | None, used: Collection[str], question: str) -> None:
    """Raise if an accuracy has a value without effect.

    Args:
        accuracy: the accuracy, if any.
        used: names of values that have an effect.
        question: what has been asked, for the message.

    Raises:
        IncompatibleError: a value has no effect.

    Example:
        >>> refuse_unused(Accuracy(points=64), [], "limits of ridge on bsr")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.IncompatibleError: points = 64 has no effect on limits of ridge on bsr: leave it out
    """
    for name, value in ({} if accuracy is None else accuracy.given).items():
        if name not in used:
            raise IncompatibleError(f"{name} = {value} has no effect on {question}: leave it out")
