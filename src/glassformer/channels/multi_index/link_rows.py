"""What all channels of a user's function of several projections share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.channels.multi_index.latent import LatentChannel
from glassformer.channels.multi_index.latent_functions import Functions, Target
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import row_flips


@dataclass(frozen=True, eq=False)
class LinkRowsChannel(LatentChannel):
    """A channel whose labels come from one function of all fields of a data point.

    Args:
        link: traceable function from ``Z``, shape (P, L), to a flat label.
        indices: ``P``.
        tokens: ``L``.
        shape: shape of the label.
        symmetric: of the link under signed permutations of the rows.
    """

    link: Callable[[Any], Any]
    indices: int
    tokens: int
    shape: tuple[int, ...]
    symmetric: RowSymmetries

    @property
    def rows(self) -> int:
        return self.indices

    @property
    def columns(self) -> int:
        return self.tokens

    @property
    def label_shape(self) -> tuple[int, ...]:
        return self.shape

    @property
    def symmetries(self) -> Array:
        """Of those that leave labels as they are, the ones that flip signs alone."""
        return self.symmetric.signs

    @property
    def row_symmetries(self) -> RowSymmetries:
        return self.symmetric

    @property
    def latents(self) -> int:
        return self.indices * self.tokens

    def label_from(self, fields: Array, source: Array) -> Array:
        return super().label_from(fields, source).reshape(len(fields), *self.shape)

    def observed(self, y: Array) -> Array:
        return np.asarray(y, dtype=float).reshape(len(y), -1)


def of_whole_fields(target: Target, link: Callable[[Any], Any], flips: Array) -> Functions:
    """What is compiled where the latents are the deviations of all fields: they are the features themselves."""

    def features(x: Any, datum: Any) -> Any:
        del datum
        return x[None]

    def images(x: Any, datum: Any) -> Any:
        _, omega, root = datum
        return row_flips(x, omega, root, flips)

    return Functions(target, features, link, images, whole=True)
