r"""The interface of a channel: what state evolution, message passing, thresholds and tests ask of it.

A data point has fields :math:`z_{kl}`, ``k`` over the ``P`` rows whose overlaps are learned and ``l`` over the ``K``
columns that share them: :math:`z = \omega + V^{1/2}u` with :math:`\omega` of covariance ``Q`` over the rows. Scores are
:math:`g = V^{-1}(E[z\mid y,\omega,V]-\omega)`, and the information is the matrix :math:`E\sum_l g_l g_l^T`.

Two classes implement it: :class:`~glassformer.channels.scalar.base.ScalarChannel`, the case ``P = 1``, by functions of
arrays of numbers, and :class:`~glassformer.channels.multi_index.sampled_channel.SampledRowsChannel` by averages over
sampled data points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from glassformer.channels.field_averages import Averages, Response, Scores
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate


class Exponents(NamedTuple):
    r"""Exponents of a link of one index, in terms of normalised Hermite polynomials :math:`h_k` of the field.

    Attributes:
        information: smallest :math:`k \ge 1` with :math:`E[y\,h_k(z)] \ne 0`, infinite where there is none.
        generative: smallest :math:`k \ge 1` with :math:`E[E[h_k(z) \mid y]^2] > 0`: 1 where any data help, 2 where
            there is a weak-recovery threshold, above where there is none at a finite sample ratio.
    """

    information: float
    generative: float


class Channel(ABC):
    """The law of a label given ``P`` rows and ``K`` columns of fields.

    Fields of ``n`` data points have shape (n, P, K), covariances (P, P), and batches of covariances (batch, P, P).
    """

    points: int
    """Sampled data points per replica, a power of two."""

    # Shapes and names.

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
    def field_components(self) -> tuple[int, ...]:
        """Shape of the fields of one data point as designs give them: ``(P, K)``, for one row ``(K,)`` or empty."""
        return self.rows, self.columns

    @property
    @abstractmethod
    def label_shape(self) -> tuple[int, ...]:
        """Shape of the label of one sample."""

    # What labels say of fields.

    @property
    @abstractmethod
    def rank(self) -> float:
        """Fields of a data point that a noiseless label fixes; zero with noise."""

    @property
    def noiseless(self) -> bool:
        """True when labels fix some of the fields."""
        return self.rank > 0

    @property
    def even(self) -> bool:
        """True when symmetries move every row: no row is known at zero overlap, which then is a fixed point."""
        return bool(np.all(np.any(self.symmetries < 0, axis=0)))

    @property
    def symmetries(self) -> Array:
        """Signs of the rows that leave labels as they are, shape (count, P); the identity comes first."""
        return np.ones((1, self.rows))

    @property
    def row_symmetries(self) -> RowSymmetries:
        """All symmetries of the labels that averages respect."""
        return RowSymmetries.of_signs(self.symmetries)

    @property
    def exponents(self) -> Exponents | None:
        """Information and generative exponent of a single index; None where they are not known."""
        return None

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P): covariance of the fields over the rows."""
        return np.eye(self.rows)

    linear = default_property(False, "True when the label is one field itself, with Gaussian noise or none.")
    discrete = default_property(
        False, "True when labels without their own noise take few values, or are positions of maxima."
    )
    classes = default_property(
        False, "True when numbers of discrete labels are names, whose squared differences mean nothing."
    )
    predictable = default_property(True, "True when labels without their own noise are numbers that fields determine.")
    label_noise = default_property(0.0, "Mean square of the label's own noise, counted as ``prediction_error`` is.")
    error_unit = default_property(1.0, "What squared errors on a label, summed over its entries, are divided by.")
    law_gap = default_property(
        0.0, "By how much drawn labels and a given density disagree, a share of the probability."
    )

    # Labels.

    @abstractmethod
    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per data point, from fields of shape ``(n, *field_components)``."""

    @abstractmethod
    def draw_labels(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per data point, from fields of shape (n, P, K)."""

    sources = default_property(0, "Normal numbers of :meth:`label_from`; zero where labels are drawn otherwise.")

    def label_from(self, fields: Array, source: Array) -> Array:
        """Labels of fields and of standard normal numbers, shape (n, sources): without noise where these are zero."""
        raise IncompatibleError(f"channel {self.label} draws its labels, not from normal numbers")

    @abstractmethod
    def clean_labels(self, fields: Array) -> Array:
        """Labels without their own noise.

        Raises:
            IncompatibleError: there are none.
        """

    def true_labels(self, fields: Array) -> Array:
        """Discrete labels without their own noise, shape (n, ...).

        Raises:
            IncompatibleError: labels are not discrete.
        """
        raise IncompatibleError(f"labels of channel {self.label} are not discrete: no label is right or wrong")

    def likeliest_labels(self, mean: Array, variance: Array) -> Array:
        """The most probable discrete label, entry by entry, of fields with these means and one covariance.

        Raises:
            IncompatibleError: labels are not discrete.
        """
        del variance
        return self.true_labels(mean)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The label as a traceable and smooth function of the fields of one sample, without noise.

        Raises:
            IncompatibleError: it is none; the text completes the sentence "algorithm NAME".
        """
        raise IncompatibleError("needs labels of several projections, not of a single one")

    # Posteriors of the fields of data points.

    @abstractmethod
    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        """Scores and their slopes, of data points that share one posterior covariance."""

    @abstractmethod
    def log_partitions(self, y: Array, omega: Array, variance: Array) -> Array:
        """Log partitions, shape (n,), of data points that share one posterior covariance."""

    # Averages over data points.

    @abstractmethod
    def averages(self, variance: Array) -> Averages:
        """Information and expected log partition at a batch of posterior covariances."""

    @abstractmethod
    def information_matrix(self, variance: Array) -> Estimate:
        r""":math:`E\sum_l g_l g_l^T` at a batch of posterior covariances, and its standard error."""

    @abstractmethod
    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        r"""Averages at one covariance, and the growth of the information with flattened overlaps, shape (P^2, P^2)."""

    @abstractmethod
    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Slopes of the score on sampled data points at one covariance.

        Args:
            variance: posterior covariance.
            known: the first data points of each replica, which are left out.
            wider: projector on the directions in which deviations are drawn from a wider normal law, and weighted.
        """

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        """Averages and slopes of the score at one covariance, from the same posteriors where those are sampled."""
        return self.averages(variance[None]), self.response(variance)

    @abstractmethod
    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """Errors on new labels at a batch of posterior covariances, by name, with standard errors.

        Args:
            variance: posterior covariances.
            last_layer: one for the rows of the last layer, where there are others, for the error of a predictor that
                has learned nothing else.
            decisions: whether to count wrong labels as well, where labels are discrete, which needs posteriors.
        """

    # Work and accuracy.

    sampled = default_property(
        True, "True when averages are sampled anew at every state, and scores carry a sampling error."
    )
    smallest = default_property(1e-12, "Smallest variance at which averages are computed.")
    refinement_factor = default_property(
        4, "Ratio of the work behind successive estimates of one posterior, where there are several."
    )
    with_more_noise: Any = default_property(
        None, "A copy with four times the regularising noise, to extrapolate to zero; None without such noise."
    )

    @property
    def work(self) -> float:
        """Evaluations that one average over the data takes, from which the remaining time is estimated."""
        return float(self.points)

    @abstractmethod
    def with_points(self, points: int) -> Self:
        """The same channel with another number of sampled data points per replica, a power of two."""

    def high_accuracy(self) -> Self:
        """The same channel with several times the work per data point, where posteriors are sampled."""
        return self

    def low_accuracy(self) -> Self:
        """The same channel with a fraction of the work per data point, for a first, rough answer."""
        return self
