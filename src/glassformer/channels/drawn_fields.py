"""A channel whose fields have a law that is given by a sampler: labels can be drawn, and posteriors are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from glassformer.channels.base import Channel, Inference
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.inputs.drawn_fields import DrawnFields


@dataclass(frozen=True, eq=False)
class DrawnFieldsChannel(Channel):
    """Labels of fields that a sampler draws.

    Args:
        given: law of the labels given the fields.
        drawn: the fields.
        points: data points per replica of averages over drawn fields, a power of two.
    """

    given: Channel
    drawn: DrawnFields
    points: int = 2048

    @cached_property
    def fields(self) -> Fields:
        return Fields((self.drawn.rows, self.drawn.tokens), drawn=self.drawn)

    @cached_property
    def labels(self) -> Labels:
        own = self.given.labels
        if self.drawn.symmetric:
            return own
        identity = np.eye(self.drawn.rows)[None]
        return replace(own, even=False, symmetries=RowSymmetries(identity, identity, own.row_symmetries.visible))

    def _as_given(self, fields: Array) -> Array:
        """Return fields, shape (n, P, L), in the shape that the channel of the labels takes."""
        return fields.reshape(len(fields), *self.given.fields.shape)

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.given.sample(self._as_given(fields), rng)

    @property
    def clean(self) -> Callable[[Array], Array] | None:
        """Function from fields to labels without noise; None if these are no numbers."""
        clean = self.given.clean
        return None if clean is None else lambda fields: clean(self._as_given(fields))

    def likeliest_label(self, mean: Array, variance: Array) -> Array:
        return self.given.inference.likeliest_labels(mean, variance)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        return self.given.traceable_label

    @property
    def inference(self) -> Inference:
        return DrawnFieldsInference(self)


@dataclass(frozen=True, eq=False)
class DrawnFieldsInference(Inference):
    """Labels of drawn fields. Posteriors, and averages of them, need the density of the fields."""

    channel: DrawnFieldsChannel

    sampled: ClassVar[bool] = True
    smallest: ClassVar[float] = 1e-12

    @property
    def points(self) -> int:
        return self.channel.points

    def with_points(self, points: int) -> Self:
        return replace(self, channel=replace(self.channel, points=points))

    @property
    def sources(self) -> int:
        return self.channel.given.inference.sources

    def labels_from(self, fields: Array, source: Array, rng: np.random.Generator) -> Array:
        return self.channel.given.inference.labels_from(fields, source, rng)

    def _refuse(self, *arguments: Any, **settings: Any) -> NoReturn:
        """Raise: the density of the fields is not known."""
        del arguments, settings
        raise IncompatibleError(
            f"this calculation {self.channel.fields.density_unavailable_reason}: give inputs with hidden states"
        )

    scores = log_partitions = posteriors = slopes = _refuse
    averages = information = averages_and_slope = response = label_errors = _refuse
