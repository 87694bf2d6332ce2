"""Base of the channels of noiseless attention networks that solve for one layer or head exactly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from glassformer.channels.multi_index.attention_network import Architecture
from glassformer.channels.multi_index.latent_channel import LatentChannel
from glassformer.channels.multi_index.latent_posterior import LatentPosterior, PosteriorFamily
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array


@dataclass(frozen=True, eq=False)
class AttentionChannel(LatentChannel):
    """A channel whose labels are those of an attention network, without noise.

    Args:
        network: the network. Its output is the label.
    """

    network: Architecture
    branches = default_property(2, "Branches of the likelihood: signs of a row that is solved for.")

    @property
    def family(self) -> PosteriorFamily:
        return self.of_network(self.make)

    @staticmethod
    @abstractmethod
    def make(network: Architecture) -> LatentPosterior:
        """Return the functions of the posterior. The skip strengths of the network may be traced numbers."""

    def of_network(self, make: Callable[[Architecture], Any]) -> PosteriorFamily:
        """Return functions of a network, compiled once for all skip strengths unless a flow is solved for them."""
        if self.network.limit == "large-depth":
            return PosteriorFamily(partial(make, self.network))
        return PosteriorFamily(partial(_with_skip, make, replace(self.network, skip=())), self.network.skip)

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


def _with_skip(make: Callable[[Architecture], Any], network: Architecture, *skip: float) -> Any:
    return make(replace(network, skip=skip))
