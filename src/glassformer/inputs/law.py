"""The base of laws of the fields along the rows of the teacher."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.inputs.hidden_states import HiddenStates

# Sums of probabilities may differ from one by rounding, and rarer states are below the accuracy of averages.
_ROUNDING, _RAREST = 1e-9, 1e-9
# Largest entry of a shift: exponentials of larger ones overflow double precision.
_LARGEST = 20.0


class FieldLaw(ABC):
    r"""Law of inputs that are normal except along the rows of the teacher.

    A sample has a hidden state ``h`` of probability :math:`\pi_h`, which shifts its tokens by
    :math:`s_h^TW^*/\sqrt d`, and so its fields :math:`Z = W^*X^T/\sqrt d` by :math:`s_h`, shape (P, L). In all
    directions that are orthogonal to the rows of the teacher the tokens are independent standard normal.

    A law of one's own derives from this class, as a frozen dataclass, and returns its states.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Pair(FieldLaw):
        ...     '''Two neighbouring tokens carry a signal along the first row.'''
        ...
        ...     size: float = 1.0
        ...     label = "pair"
        ...
        ...     def states(self, rows, tokens):
        ...         shifts = np.zeros((tokens - 1, rows, tokens))
        ...         for place, shift in enumerate(shifts):
        ...             shift[0, place : place + 2] = self.size
        ...         return hidden_states(np.full(tokens - 1, 1 / (tokens - 1)), shifts)
        >>> Pair().states(1, 3).shifts[:, 0].tolist()
        [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def states(self, rows: int, tokens: int) -> HiddenStates:
        """Return the hidden states for ``P`` rows and ``L`` tokens.

        Raises:
            ParameterError: the law is not for so many rows or tokens.
        """


def hidden_states(probabilities: object, shifts: object, labels: object = None) -> HiddenStates:
    """Return checked hidden states.

    Args:
        probabilities: shape (H,), positive numbers of sum one.
        shifts: shape (H, P, L).
        labels: of the states, shape (H,); by default -1 and 1 for two states, and their numbers otherwise.

    Raises:
        ParameterError: shapes do not match, or numbers are out of range.

    Example:
        >>> hidden_states([0.25, 0.75], np.zeros((2, 1, 1))).labels
        array([-1.,  1.])
    """
    weights, moves = real_numbers("weights", probabilities), real_numbers("means", shifts)
    if moves.ndim != 3 or len(moves) < 1:
        raise ParameterError("means", shifts, "numbers of shape (states, rows, tokens)")
    if np.max(np.abs(moves)) > _LARGEST:
        raise ParameterError("means", shifts, f"shifts of at most {_LARGEST:g}, in standard deviations of the fields")
    if weights.shape != (len(moves),) or np.min(weights) < _RAREST or abs(np.sum(weights) - 1) > _ROUNDING:
        raise ParameterError("weights", probabilities, f"{len(moves)} probabilities > {_RAREST:g} of sum one")
    return HiddenStates(weights / np.sum(weights), moves, _labels(len(moves), labels))


def _labels(count: int, given: object) -> Array:
    if given is None:
        return np.array([-1.0, 1.0]) if count == 2 else np.arange(float(count))
    labels = real_numbers("labels", given)
    if labels.shape != (count,) or len(set(labels.tolist())) != count:
        raise ParameterError("labels", given, f"{count} different numbers")
    return labels
