"""Facts about the fields of a channel: shape and prior covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from glassformer.core.estimate import Array
from glassformer.inputs.hidden_states import HiddenStates


@dataclass(frozen=True)
class Fields:
    """Shape and prior covariance of the fields of one data point.

    Attributes:
        shape: empty for a number, ``(K,)`` for the ``K`` components of one row, ``(P, K)`` for ``P`` rows.
        power: prior variance of a field.
        shared: prior covariance of the fields of two rows.
        any_power: True when the functions of the channel hold for fields of any prior variance.
        states: hidden states that shift the fields; None for normal fields.

    Example:
        >>> fields = Fields((2, 3), power=1.5, shared=0.5)
        >>> fields.rows, fields.columns, fields.self_overlap.tolist()
        (2, 3, [[1.5, 0.5], [0.5, 1.5]])
    """

    shape: tuple[int, ...] = ()
    power: float = 1.0
    shared: float = 0.0
    any_power: bool = False
    states: HiddenStates | None = None

    @property
    def rows(self) -> int:
        """``P``, the number of rows of fields, whose overlaps are learned."""
        return self.shape[0] if len(self.shape) == 2 else 1

    @property
    def columns(self) -> int:
        """``K``, the number of independent fields of each row."""
        return self.shape[-1] if self.shape else 1

    @cached_property
    def self_overlap(self) -> Array:
        """Overlap of an exactly known signal, shape (P, P): the covariance of the fields over the rows."""
        return np.asarray((self.power - self.shared) * np.eye(self.rows) + self.shared)

    @property
    def sources(self) -> int:
        """Number of normal variables that choose the hidden state of :meth:`shifted`."""
        return int(self.states is not None)

    def shifted(self, normal: Array, source: Array) -> Array:
        """Return the fields of samples: normal fields, shape (n, P, K), shifted by hidden states.

        Args:
            normal: normal fields, shape (n, P, K).
            source: standard normal numbers, shape (n, sources).
        """
        if self.states is None:
            return normal
        return np.asarray(normal + self.states.shifts[self.states.draw(ndtr(source[:, 0]))])

    @property
    def mean_shift(self) -> Array:
        """Mean shift of the fields, shape (P, K)."""
        if self.states is None:
            return np.zeros((self.rows, self.columns))
        return np.asarray(np.tensordot(self.states.probabilities, self.states.shifts, axes=1))

    @property
    def shift_square(self) -> Array:
        """Mean square of the shifts over the rows, shape (P, P)."""
        return np.zeros((self.rows, self.rows)) if self.states is None else self.states.square
