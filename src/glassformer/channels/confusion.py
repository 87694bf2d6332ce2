r"""Label noise of discrete labels: laws by which labels are replaced, and their confusion matrices.

The posterior of a noisy label is a mixture of the posteriors of all possible true labels,
:math:`Z_{out}(y) = \sum_k C_{ky}Z_k`, so every average is a finite sum over them.
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
from glassformer.core.frozen import set_fields
from glassformer.core.registry import create_by_name

_ROUNDING = 1e-9  # by which rows of a confusion matrix may differ from one, and labels from those of the link


class ConfusionLaw(ABC):
    """The law of the observed label given the label of the link, for labels that take few values.

    For a law of your own derive from this class, or give a matrix to :class:`Confusion`.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def matrix(self, count: int) -> Array:
        """Return the confusion matrix of ``count`` labels in ascending order.

        Rows are the labels of the link, columns the observed labels, entries probabilities.

        Raises:
            ParameterError: the law does not apply to so many labels.
        """


@dataclass(frozen=True)
class _ReplacementLaw(ConfusionLaw):
    """Base of the laws that replace a label with one probability, in [0, 1)."""

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
class Flip(_ReplacementLaw):
    """Uniform label noise: with some probability a label is replaced by one of the others, each equally likely.

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
class Neighbour(_ReplacementLaw):
    """Ordinal label noise: with some probability a label is replaced by a neighbour. The first and last have one.

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
        neighbours = np.eye(count, k=1) + np.eye(count, k=-1)
        replaced = self.probability * neighbours / np.maximum(neighbours.sum(axis=1, keepdims=True), 1)
        return np.asarray(replaced + np.diag(1 - replaced.sum(axis=1)))


@dataclass(frozen=True)
class Confusion(ConfusionLaw):
    """Any confusion matrix.

    Args:
        probabilities: square matrix; rows are the labels of the link, columns the observed labels, both ascending.

    Raises:
        ParameterError: a row does not consist of probabilities that sum to one.

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
        set_fields(self, probabilities=tuple(map(tuple, given.tolist())))

    @property
    def label(self) -> str:
        return f"confusion of {len(self.probabilities)} labels"

    def matrix(self, count: int) -> Array:
        if count != len(self.probabilities):
            raise ParameterError("noise_law", self.label, f"a matrix for the {count} labels that the link takes")
        return np.array(self.probabilities)


def label_tolerance(labels: Array) -> Array:
    """Return the difference of equal labels by rounding, for each of their entries, from labels of shape (n, ...)."""
    return np.asarray(_ROUNDING * np.max(np.abs(labels), axis=0))


def distinct_labels(labels: Array) -> Array:
    """Return the different values among labels of shape (n, ...), ascending. Differences by rounding do not count.

    Example:
        >>> distinct_labels(np.array([0.1 + 0.2 - 0.3, 0.3 - 0.2 - 0.1, 1.0])).round(9) + 0.0
        array([0., 1.])
    """
    flat = labels.reshape(len(labels), -1)
    unit = label_tolerance(flat)
    # Multiples of this unit lie between common decimal fractions, so that equal labels are rounded the same way.
    codes = np.round(flat / np.where(unit > 0, unit * np.sqrt(2), 1.0))
    first = np.unique(codes, axis=0, return_index=True)[1]
    return np.asarray(labels[first])


# Name on the command line, with the number that follows it, and the class.
CONFUSIONS = {"flip:PROBABILITY": "confusion:Flip", "neighbour:PROBABILITY": "confusion:Neighbour"}


def confusion_law(given: object) -> ConfusionLaw | None:
    """Return the confusion law given by ``noise_law=``, an object or a name. Return None for any other law.

    Example:
        >>> confusion_law("flip:0.1"), confusion_law("logistic")
        (Flip(probability=0.1), None)
    """
    if isinstance(given, ConfusionLaw):
        return given
    try:
        law: ConfusionLaw = create_by_name(given, CONFUSIONS, "channels")
    except LookupError:
        return None
    return law


@dataclass(frozen=True, eq=False)
class NoisyAlphabet:
    """The labels of a link and their confusion matrix.

    Attributes:
        values: labels in ascending order, shape (K, ...).
        confusion: probabilities of observed labels (columns) given labels of the link (rows), shape (K, K).
    """

    values: Array
    confusion: Array

    @classmethod
    def of(cls, values: Array, law: ConfusionLaw) -> NoisyAlphabet:
        """Apply a law to these labels.

        Raises:
            ParameterError: the law does not apply to this number of labels, or observed labels carry no information.
        """
        confusion = law.matrix(len(values))
        if np.max(np.ptp(confusion, axis=0)) <= _ROUNDING:
            allowed = f"a law that distinguishes the {len(values)} labels of the link"
            raise ParameterError("noise_law", law.label, allowed, "labels would carry no information on the signal")
        return cls(values, confusion)

    def index(self, y: ArrayLike) -> NDArray[np.intp]:
        """Return the index of each label, shape (n,).

        Raises:
            DataError: a label is not among the labels of the link.
        """
        flat, known = np.asarray(y, dtype=float), self.values.reshape(len(self.values), -1)
        flat = flat.reshape(-1, known.shape[1])
        distance = np.array([np.max(np.abs(flat - value), axis=1) for value in known])
        index = np.argmin(distance, axis=0)
        wrong = ~(distance[index, np.arange(len(flat))] <= _ROUNDING * (1 + np.max(np.abs(known))))
        if np.any(wrong):
            remedy = "if it is too rare to be found among random fields, merge it with another in the link"
            raise DataError("y", flat[wrong][0].tolist(), "a label that the link takes", remedy)
        return index

    def observe(self, index: NDArray[np.intp], uniform: Array) -> Array:
        """Return observed labels, from indices of labels and uniform random numbers."""
        ends = np.cumsum(self.confusion, axis=1)
        observed = np.sum(uniform[:, None] >= ends[index], axis=1)
        return np.asarray(self.values[np.minimum(observed, len(self.values) - 1)])

    @property
    def means(self) -> Array:
        """Mean observed label for each label of the link, shape (K, ...)."""
        return np.asarray(np.tensordot(self.confusion, self.values, axes=1))

    @property
    def variances(self) -> Array:
        """Variance of the observed label for each label of the link, summed over entries, shape (K,)."""
        squares = np.sum(self.values.reshape(len(self.values), -1) ** 2, axis=1)
        return np.asarray(self.confusion @ squares - np.sum(self.means.reshape(len(squares), -1) ** 2, axis=1))

    def log_likelihood(self, y: ArrayLike) -> Array:
        """Return the log probability of each observed label given each label of the link, shape (K, n)."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.confusion[:, self.index(y)]))
