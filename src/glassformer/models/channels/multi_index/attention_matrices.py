"""What channels of noiseless attention networks share."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.models.channels.multi_index.attention_network import Architecture
from glassformer.models.channels.multi_index.latent import LatentChannel


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
