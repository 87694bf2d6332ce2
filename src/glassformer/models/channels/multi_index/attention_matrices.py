"""What channels of noiseless attention networks share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from glassformer.core.integral import Array
from glassformer.models.channels.multi_index.attention_network import Architecture
from glassformer.models.channels.multi_index.latent import LatentChannel
from glassformer.models.channels.row_symmetries import RowSymmetries


@dataclass(frozen=True, eq=False)
class AttentionMatrixChannel(LatentChannel):
    """A channel whose labels are those of a network, without noise.

    Args:
        network: whose attention matrices labels show.
    """

    network: Architecture

    @property
    def label(self) -> str:
        return self.network.activation

    @property
    def rows(self) -> int:
        return self.network.rows

    @property
    def columns(self) -> int:
        return self.network.tokens

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.network.tokens, self.network.tokens

    @property
    def symmetries(self) -> Array:
        return self.row_symmetries.signs

    @cached_property
    def row_symmetries(self) -> RowSymmetries:
        """Rotations of the directions of every layer and head, of its keys and queries together."""
        return RowSymmetries.of_rotations(self.network.groups)


class TiedAttentionChannel(AttentionMatrixChannel):
    """One whose labels fix one row given all others, and are blind to the sign of every row."""

    @property
    def rank(self) -> float:
        return float(self.columns)

    @property
    def latents(self) -> int:
        return (self.rows - 1) * self.columns
