"""Labels as they are made from the fields of several rows: shapes, laws and symmetries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.channels.decisions import Decisions
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array


class FieldLabels(Decisions, ABC):
    """Labels of ``P`` rows and ``K`` columns of fields."""

    points: int
    """Sampled data points per replica, a power of two."""

    @property
    def label(self) -> str:
        """Name of the channel in files and on the command line."""
        return type(self).__name__.removesuffix("Channel").lower()

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``, the rows of fields, whose overlaps are learned."""

    @property
    @abstractmethod
    def columns(self) -> int:
        """``K``, the independent fields of each row."""

    @property
    @abstractmethod
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one sample."""

    @property
    @abstractmethod
    def rank(self) -> float:
        """Fields of a data point that a noiseless label fixes; zero with noise."""

    @property
    def field_components(self) -> tuple[int, ...]:
        """``(P, K)``, the shape of the fields of one data point."""
        return self.rows, self.columns

    @property
    def noiseless(self) -> bool:
        """True when labels fix some of the fields."""
        return self.rank > 0

    linear = default_property(False, "True when the label is one field itself, with Gaussian noise or none.")
    label_noise = default_property(0.0, "Mean square of the label's own noise, counted as prediction errors are.")
    error_unit = default_property(1.0, "What squared errors on a label, summed over its entries, are divided by.")

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The label as a traceable and smooth function of the fields, without noise.

        Raises:
            IncompatibleError: it is none; the text completes the sentence "algorithm NAME".
        """
        raise IncompatibleError("needs labels of several projections, not of a single one")

    @property
    def symmetries(self) -> Array:
        """Signs of the rows that leave labels as they are, shape (count, P); the identity comes first."""
        return np.ones((1, self.rows))

    @property
    def row_symmetries(self) -> RowSymmetries:
        """All symmetries of the labels that averages respect."""
        return RowSymmetries.of_signs(self.symmetries)

    @property
    def even(self) -> bool:
        """True when symmetries move every row: no row is known at zero overlap, which then is a fixed point."""
        return bool(np.all(np.any(self.symmetries < 0, axis=0)))

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P): fields have covariance ``moment`` over the rows."""
        return np.eye(self.rows)

    sources = default_property(0, "Normal numbers that a label consumes beside its fields.")

    @abstractmethod
    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels of fields, shape (n, P, K), and of standard normal numbers, shape (n, sources)."""

    def observation_from(self, fields: Array, source: Array) -> Array:
        """Labels, or what they show in a form that loses fewer digits; posteriors take either."""
        return self.label_from(fields, source)

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per data point."""
        return self.label_from(fields, rng.standard_normal((len(fields), self.sources)))
