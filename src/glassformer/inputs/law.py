"""The base of laws of the fields along the rows of the teacher."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from glassformer.inputs.drawn_fields import DrawnFields
    from glassformer.inputs.hidden_states import HiddenStates


class FieldLaw(ABC):
    r"""Law of inputs that are normal except along the rows of the teacher.

    Equation :eq:`hidden-states` of the documentation. A sample has a hidden state ``h`` of probability :math:`\pi_h`,
    which shifts its tokens by :math:`s_h^TW^*/\sqrt d`, and so its fields :math:`Z = W^*X^T/\sqrt d` by :math:`s_h`,
    shape (P, L). In all directions that are orthogonal to the rows of the teacher the tokens are independent standard
    normal.

    A law of one's own derives from this class, as a frozen dataclass, and returns its states. A law that is given by a
    function that draws fields derives from :class:`~glassformer.inputs.field_sampler.FieldSampler`.

    Example:
        >>> import numpy as np
        >>> from dataclasses import dataclass
        >>> from glassformer.inputs import HiddenStates
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
        ...         return HiddenStates.of(np.full(tokens - 1, 1 / (tokens - 1)), shifts)
        >>> Pair().states(1, 3).shifts[:, 0].tolist()
        [[1.0, 1.0, 0.0], [0.0, 1.0, 1.0]]
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    def drawn(self, rows: int, tokens: int) -> DrawnFields | None:
        """Return the fields that a sampler draws, in place of hidden states; None for a law with hidden states."""
        del rows, tokens
        return None

    @abstractmethod
    def states(self, rows: int, tokens: int) -> HiddenStates:
        """Return the hidden states for ``P`` rows and ``L`` tokens.

        Raises:
            ParameterError: the law is not for so many rows or tokens.
        """
