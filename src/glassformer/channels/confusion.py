r"""Discrete labels that are exchanged for one another: what is observed instead of each, by a confusion matrix.

The posterior is a mixture of those of the labels that it may have been,
:math:`Z_{out}(y) = \sum_k C_{ky}Z_k`, so that every average is a finite sum over them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from glassformer.core.checks import real_numbers
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.tables import by_name

# Rows of a confusion matrix sum to one within this.
_ROUNDING = 1e-9


class ConfusionLaw(ABC):
    """The law of the label that is observed, given the one that a link says, of labels that take few values.

    A law of one's own is a subclass, or a :class:`Confusion` with a matrix.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def matrix(self, count: int) -> Array:
        """Probabilities of the observed label, by columns, for each of ``count`` labels in ascending order, by rows.

        Raises:
            ParameterError: it is not for so many labels.
        """


@dataclass(frozen=True)
class Exchange(ConfusionLaw):
    """A confusion that happens with one probability, in [0, 1)."""

    probability: float
    word: ClassVar[str]
    """Name on the command line."""

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise ParameterError("noise_law", self.label, "a probability in [0, 1)")

    @property
    def label(self) -> str:
        return f"{self.word}:{self.probability:g}"


@dataclass(frozen=True)
class Flip(Exchange):
    """With a probability a label is exchanged for one of the others, all alike.

    Args:
        probability: in [0, 1).

    Raises:
        ParameterError: the probability is out of range.

    Example:
        >>> Flip(0.1).matrix(2)
        array([[0.9, 0.1],
               [0.1, 0.9]])
    """

    word: ClassVar[str] = "flip"

    def matrix(self, count: int) -> Array:
        other = self.probability / max(count - 1, 1)
        return np.where(np.eye(count, dtype=bool), 1 - self.probability * (count > 1), other)


@dataclass(frozen=True)
class Neighbour(Exchange):
    """With a probability an ordinal label is exchanged for one next to it; the first and last have one neighbour.

    Args:
        probability: in [0, 1).

    Raises:
        ParameterError: the probability is out of range.

    Example:
        >>> Neighbour(0.2).matrix(3)
        array([[0.8, 0.2, 0. ],
               [0.1, 0.8, 0.1],
               [0. , 0.2, 0.8]])
    """

    word: ClassVar[str] = "neighbour"

    def matrix(self, count: int) -> Array:
        beside = np.eye(count, k=1) + np.eye(count, k=-1)
        moved = self.probability * beside / np.maximum(beside.sum(axis=1, keepdims=True), 1)
        return np.asarray(moved + np.diag(1 - moved.sum(axis=1)))


@dataclass(frozen=True)
class Confusion(ConfusionLaw):
    """Any confusion matrix.

    Args:
        probabilities: of the observed label, by columns, for each label, by rows, both in ascending order.

    Raises:
        ParameterError: rows are no probabilities.

    Example:
        >>> Confusion([[1.0, 0.0], [0.3, 0.7]]).label
        'confusion of 2 labels'
    """

    probabilities: Any

    def __post_init__(self) -> None:
        given = real_numbers("noise_law", self.probabilities)
        square = given.ndim == 2 and given.shape[0] == given.shape[1]
        if not square or np.any(given < 0) or np.any(np.abs(given.sum(axis=1) - 1) > _ROUNDING):
            raise ParameterError("noise_law", self.probabilities, "a square matrix whose rows are probabilities")
        object.__setattr__(self, "probabilities", tuple(map(tuple, given.tolist())))

    @property
    def label(self) -> str:
        return f"confusion of {len(self.probabilities)} labels"

    def matrix(self, count: int) -> Array:
        if count != len(self.probabilities):
            raise ParameterError("noise_law", self.label, f"a matrix for the {count} labels that the link takes")
        return np.array(self.probabilities)


# Name on the command line, with the number that follows it, and the class.
CONFUSIONS = {"flip:PROBABILITY": "confusion:Flip", "neighbour:PROBABILITY": "confusion:Neighbour"}
NAMES = tuple(CONFUSIONS)


def confusion_law(given: object) -> ConfusionLaw | None:
    """The confusion that ``noise_law=`` is or names; None where it is or names none.

    Example:
        >>> confusion_law("flip:0.1"), confusion_law("logistic")
        (Flip(probability=0.1), None)
    """
    if isinstance(given, ConfusionLaw):
        return given
    try:
        law: ConfusionLaw = by_name(given, CONFUSIONS, "channels")
    except LookupError:
        return None
    return law


@dataclass(frozen=True, eq=False)
class Alphabet:
    """Labels that a link takes, and what is observed instead.

    Attributes:
        values: labels in ascending order, shape (K, ...).
        confusion: shape (K, K).
    """

    values: Array
    confusion: Array

    @classmethod
    def of(cls, values: Array, law: ConfusionLaw) -> Alphabet:
        """What a law makes of these labels.

        Raises:
            ParameterError: it is not for so many of them, or makes the same of all.
        """
        confusion = law.matrix(len(values))
        if np.max(np.ptp(confusion, axis=0)) <= _ROUNDING:
            allowed = f"a law that tells the {len(values)} labels of the link apart"
            raise ParameterError("noise_law", law.label, allowed, "labels would say nothing of the signal")
        return cls(values, confusion)

    def places(self, y: ArrayLike) -> NDArray[np.intp]:
        """Which of the labels each one is, shape (n,).

        Raises:
            DataError: one is none of them.
        """
        flat, known = np.asarray(y, dtype=float), self.values.reshape(len(self.values), -1)
        flat = flat.reshape(-1, known.shape[1])
        far = np.array([np.max(np.abs(flat - value), axis=1) for value in known])
        place = np.argmin(far, axis=0)
        wrong = far[place, np.arange(len(flat))] > _ROUNDING * (1 + np.max(np.abs(known)))
        if np.any(wrong):
            raise DataError("y", flat[wrong][0].tolist(), "a label that the link takes")
        return place

    def observed(self, place: NDArray[np.intp], uniform: Array) -> Array:
        """Labels observed instead of those at some places, from uniform numbers."""
        ends = np.cumsum(self.confusion, axis=1)
        seen = np.sum(uniform[:, None] >= ends[place], axis=1)
        return np.asarray(self.values[np.minimum(seen, len(self.values) - 1)])

    @property
    def means(self) -> Array:
        """Mean of what is observed instead of each label, shape (K, ...)."""
        return np.asarray(np.tensordot(self.confusion, self.values, axes=1))

    @property
    def spreads(self) -> Array:
        """Mean square of what is observed around that mean, entries summed, shape (K,)."""
        squares = np.sum(self.values.reshape(len(self.values), -1) ** 2, axis=1)
        return np.asarray(self.confusion @ squares - np.sum(self.means.reshape(len(squares), -1) ** 2, axis=1))

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Of each label that one may have been, shape (K, n)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.confusion[:, self.places(y)]))
