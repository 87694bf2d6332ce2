"""Facts about the fields of a channel: shape and prior covariance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
from scipy.special import ndtr

from glassformer.core.estimate import Array
from glassformer.inputs.drawn_fields import DrawnFields
from glassformer.inputs.hidden_states import HiddenStates


@dataclass(frozen=True)
class Fields:
    """Shape and prior covariance of the fields of one data point.

    Attributes:
        shape: empty for a number, ``(K,)`` for the ``K`` components of one row, ``(P, K)`` for ``P`` rows.
        power: prior variance of a field.
        shared: prior covariance of the fields of two rows.
        any_power: True when the functions of the channel hold for fields of any prior variance.
        states: hidden states that shift the fields; None for other laws.
        drawn: fields that a sampler draws; None for other laws.

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
    drawn: DrawnFields | None = None

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
        """Number of normal variables per sample that choose the shifts of :meth:`shifts`; zero for normal fields."""
        return int(self.states is not None or self.drawn is not None)

    def shifts(self, normal: Array, source: Array, power: Array | None = None) -> Array:
        """Return the shifts ``s`` of the tokens of samples along the rows, which move their fields by ``T s``.

        Hidden states have shifts of their own. With a sampler the shifts are those that turn normal fields into drawn
        ones.

        Args:
            normal: fields before the shift, shape (..., n, P, K).
            source: standard normal numbers, shape (n, sources), which determine states or drawn fields.
            power: inner products ``T`` of the rows, shape (..., P, P); the identity by default.
        """
        if self.states is not None:
            return np.asarray(self.states.shifts[self.states.draw(ndtr(source[:, 0]))])
        if self.drawn is None:
            return np.zeros_like(normal)
        # Equal points draw equal fields, so that averages at different states are over the same samples. The normal
        # fields of runs differ, so that the errors of their measured averages are independent.
        points = np.ascontiguousarray(source).tobytes() + np.ascontiguousarray(normal).tobytes()
        seed = int.from_bytes(blake2b(points, digest_size=16).digest())
        moved = self.drawn.draw(np.random.default_rng(seed), len(source)) - normal
        return np.asarray(moved if power is None else np.linalg.solve(power[..., None, :, :], moved))

    def shifted(self, normal: Array, source: Array) -> Array:
        """Return the fields of samples, of the law of this channel, from normal fields, shape (n, P, K).

        Args:
            normal: normal fields.
            source: standard normal numbers, shape (n, sources).
        """
        return np.asarray(normal + self.shifts(normal, source)) if self.sources else normal

    @property
    def density_unavailable_reason(self) -> str:
        """Reason why posteriors of the fields are not available, to follow a subject; empty if they are."""
        if self.drawn is None:
            return ""
        return f"needs the density of the fields, and inputs = {self.drawn.label} only draw them"

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
