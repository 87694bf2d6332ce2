"""One token at a hidden place carries a signal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.frozen import set_fields
from glassformer.core.settings import checked_field, non_negative
from glassformer.inputs.hidden_states import HiddenStates
from glassformer.inputs.law import FieldLaw


@dataclass(frozen=True)
class HiddenToken(FieldLaw):
    r"""One of ``L`` tokens carries :math:`\sqrt\nu` along a row: the state is its place.

    The token at the hidden place ``h`` is :math:`x_h = \sqrt{\nu/d}\,w_k + \xi`, all others are noise :math:`\xi`.

    Args:
        signal: :math:`\nu\ge 0`, in units of the variance of the fields.
        row: ``k``, counted from 0, the row of the teacher along which the token carries the signal.
        places: probabilities of the places, shape (L,); equal by default.

    Raises:
        ParameterError: an argument is out of range.

    Source: Duranthon et al., arXiv:2509.21936; Marion et al., single-location regression.

    Example:
        >>> HiddenToken(4.0).states(2, 3).shifts[1].tolist()  # the second of three tokens
        [[0.0, 2.0, 0.0], [0.0, 0.0, 0.0]]
    """

    signal: float = checked_field(1.0, non_negative)
    row: int = 0
    places: Sequence[float] | None = None

    def __post_init__(self) -> None:
        non_negative("signal", self.signal)
        if not (isinstance(self.row, int | np.integer) and self.row >= 0):
            raise ParameterError("row", self.row, "an integer >= 0")
        if self.places is not None:
            set_fields(self, places=tuple(float(share) for share in self.places))

    @property
    def label(self) -> str:
        more = [f"row={self.row}"] * (self.row > 0) + [f"places={list(self.places or ())}"] * (self.places is not None)
        return ", ".join([f"hidden-token:{self.signal:g}", *more])

    def states(self, rows: int, tokens: int) -> HiddenStates:
        if self.row >= rows:
            raise ParameterError("row", self.row, f"a row of the teacher, from 0 to {rows - 1}")
        places = np.full(tokens, 1 / tokens) if self.places is None else np.array(self.places)
        if len(places) != tokens:
            raise ParameterError("places", self.places, f"one probability for each of {tokens} tokens")
        shifts = np.zeros((tokens, rows, tokens))
        shifts[:, self.row] = np.sqrt(self.signal) * np.eye(tokens)
        return HiddenStates.of(places, shifts, np.arange(float(tokens)))
