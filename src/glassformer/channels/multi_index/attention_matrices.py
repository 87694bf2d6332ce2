"""What channels of noiseless attention networks share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from glassformer.channels.multi_index.attention_network import Architecture
from glassformer.channels.multi_index.latent import LatentChannel
from glassformer.channels.multi_index.latent_functions import Family, Functions
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array


@dataclass(frozen=True, eq=False)
class AttentionMatrixChannel(LatentChannel):
    """A channel whose labels are those of a network, without noise.

    Args:
        network: whose attention matrices labels show.
    """

    network: Architecture

    @property
    def family(self) -> Family:
        return self.of_network(self.make)

    @staticmethod
    @abstractmethod
    def make(network: Architecture) -> Functions:
        """What is compiled for a network, whose skip strengths may not be known."""

    def of_network(self, make: Callable[[Architecture], Any]) -> Family:
        """What is made for a network: the same for all skip strengths, unless a flow is solved for them."""
        if self.network.limit == "large-depth":
            return Family(partial(make, self.network))
        return Family(partial(_with_skip, make, replace(self.network, skip=())), self.network.skip)

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
        """Rotations of the directions of every layer and head, keys and queries together, and exchanges of layers."""
        return RowSymmetries.of_rotations(self.network.groups, self.network.exchangeable)


class TiedAttentionChannel(AttentionMatrixChannel):
    """One whose labels fix one row given all others, and are blind to the sign of every row."""

    @property
    def rank(self) -> float:
        return float(self.columns)

    @property
    def latents(self) -> int:
        return (self.rows - 1) * self.columns


def _with_skip(make: Callable[[Architecture], Any], network: Architecture, *skip: Any) -> Any:
    return make(replace(network, skip=skip))
