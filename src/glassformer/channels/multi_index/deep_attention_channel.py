"""Base of the channels of noiseless attention networks that solve for one layer or head exactly."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.attention_network import Architecture
from glassformer.channels.multi_index.latent_channel import LatentChannel
from glassformer.channels.multi_index.latent_posterior import LatentPosterior, PosteriorFamily
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.defaults import default_property


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

    @cached_property
    def labels(self) -> Labels:
        # Rotations of the directions of every layer and head, keys and queries together, and exchanges of layers.
        symmetries = RowSymmetries.of_rotations(self.network.groups, self.network.exchangeable)
        shape = (self.network.tokens, self.network.tokens)
        return Labels(even=symmetries.even, rank=self.rank, shape=shape, symmetries=symmetries)

    @property
    @abstractmethod
    def rank(self) -> float:
        """Number of fields of a data point that a label determines."""


def _with_skip(make: Callable[[Architecture], Any], network: Architecture, *skip: float) -> Any:
    return make(replace(network, skip=skip))
