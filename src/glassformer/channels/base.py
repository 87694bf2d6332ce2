r"""The interface of a channel; own channels of one field are subclasses of ``ScalarChannel``.

A channel is the law of a label. Its :class:`Inference` computes posteriors and averages over data from it, which state
evolution, message passing and thresholds use.

A data point has fields :math:`z_{kl}`, ``k`` over the ``P`` rows whose overlaps are learned and ``l`` over the ``K``
columns that share them: :math:`z = \omega + V^{1/2}u` with :math:`\omega` of covariance ``Q`` over the rows. Scores are
:math:`g = V^{-1}(E[z\mid y,\omega,V]-\omega)`, and the information is the matrix :math:`E\sum_l g_l g_l^T`.

Two classes implement both: :class:`~glassformer.channels.scalar.base.ScalarChannel`, the case ``P = 1``, by functions
of arrays of numbers, and :class:`~glassformer.channels.multi_index.sampled_channel.SampledRowsChannel` by averages over
sampled data points.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np

from glassformer.channels.field_averages import Averages, FieldPosterior, Response, Scores, Slopes
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate
from glassformer.inputs.hidden_states import Indices

# Posterior variances of the informed start. For sampled averages (True) it is larger, to exceed the sampling error.
_INFORMED = {False: 1e-8, True: 1e-4}


class Channel(ABC):
    """The law of a label given ``P`` rows and ``K`` columns of fields.

    Fields of ``n`` data points have shape (n, P, K), covariances (P, P), and batches of covariances (batch, P, P).
    """

    @property
    @abstractmethod
    def labels(self) -> Labels:
        """Facts about the labels: shape, noise, symmetries, values."""

    @abstractmethod
    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        """Draw one label per data point, from fields of shape ``(n, *fields.shape)``."""

    clean = default_property(
        None, "Function from fields, as in :meth:`sample`, to labels without noise. None if these are no numbers."
    )

    def likeliest_label(self, mean: Array, variance: Array) -> Array:
        """Return the most probable discrete label, entry by entry, of fields with these means and one covariance.

        The means have shape ``(n, *fields.shape)``. A vanishing covariance gives the labels without noise.

        Raises:
            IncompatibleError: labels are not discrete.
        """
        raise IncompatibleError(
            f"labels of channel {self.label} are not discrete, so the share of wrong labels is not defined"
        )

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        """The noiseless label as a smooth function of the fields of one sample, which JAX can trace.

        Raises:
            IncompatibleError: there is no such function. The text completes the sentence "learner NAME ...".
        """
        raise IncompatibleError(
            f"needs labels of a differentiable link, and those of channel {self.label} have no gradient"
        )

    @property
    def label(self) -> str:
        """Name of the channel in files and on the command line."""
        return type(self).__name__.removesuffix("Channel").lower()

    @property
    @abstractmethod
    def fields(self) -> Fields:
        """Facts about the fields: shape and prior covariance."""

    @property
    @abstractmethod
    def inference(self) -> Inference:
        """Posteriors of data points and averages over data, for message passing and state evolution."""


class Inference(ABC):
    """What message passing and state evolution compute from a channel, with one interface for all channels.

    Fields of ``n`` data points have shape (n, P, K), covariances (P, P), and batches of covariances (batch, P, P).
    """

    channel: Channel
    """The channel."""

    # Posteriors of the fields of data points.

    @abstractmethod
    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        """Return scores and their slopes for data points that share one posterior covariance."""

    @abstractmethod
    def log_partitions(self, y: Array, omega: Array, variance: Array) -> Array:
        """Return log partitions, shape (n,), for data points that share one posterior covariance."""

    def likeliest_labels(self, mean: Array, variance: Array) -> Array:
        """Return the most probable discrete labels of fields with these means and one covariance.

        Raises:
            IncompatibleError: labels are not discrete.
        """
        return self.channel.likeliest_label(mean, variance)

    @abstractmethod
    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        """Return the posteriors of data points with covariances of their own, shape (n, P, P).

        If they are sampled, estimates with less and less work follow.
        """

    @abstractmethod
    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        r"""Return pairs of estimates of :math:`\partial g_l/\partial\omega_{l'}`, shape (n, P, L, P, L) each.

        Covariances have the shape (n, P, P). If slopes are sampled, estimates with less and less work follow.
        """

    def posteriors_and_slopes(
        self, y: Array, omega: Array, variance: Array
    ) -> tuple[tuple[FieldPosterior, ...], Slopes]:
        """Return :meth:`posteriors` and :meth:`slopes`, from the same work where this is possible."""
        return self.posteriors(y, omega, variance), self.slopes(y, omega, variance)

    # Labels of samples with hidden states. By default labels depend on the fields alone.

    def sample_given(self, fields: Array, states: Indices, rng: np.random.Generator) -> Array:
        """Draw one label per data point, from fields of shape (n, P, K) and hidden states of shape (n,)."""
        del states
        return self.channel.sample(fields.reshape(len(fields), *self.channel.fields.shape), rng)

    def noiseless_labels(self, fields: Array, state: int, decisions: bool) -> Array:
        """Return labels without noise of fields, shape (n, P, K), in one hidden state.

        ``decisions`` asks for the most probable discrete labels rather than means of numbers.
        """
        del state
        if decisions:
            return self.likeliest_labels(fields, np.zeros((self.channel.fields.rows,) * 2))
        return self.plugin_labels(fields, np.zeros(0))

    def plugin_labels(self, mean: Array, variance: Array) -> Array:
        """Return the noiseless labels of mean fields, shape (n, P, K), in the most probable hidden state.

        Args:
            mean: mean fields.
            variance: posterior covariances, shape (n, P, P), on which the weights of hidden states depend.

        Raises:
            IncompatibleError: labels without noise do not exist.
        """
        del variance
        if self.channel.clean is None:
            raise IncompatibleError(f"channel {self.channel.label} has no labels without noise")
        return np.asarray(self.channel.clean(mean.reshape(len(mean), *self.channel.fields.shape)))

    def mean_labels(self, mean: Array, spread: Array, variance: Array) -> Array:
        """Return estimates of the mean noiseless labels over the posterior, from one antithetic pair of fields each.

        Args:
            mean: mean fields, shape (n, P, K).
            spread: draws of their posterior deviations, shape (n, P, K).
            variance: posterior covariances, shape (n, P, P).
        """
        above, below = (self.plugin_labels(mean + sign * spread, variance) for sign in (1, -1))
        return np.asarray(0.5 * (above + below))

    def state_errors(self, mean: Array, fields: Array, variance: Array) -> dict[str, float]:
        """Return the shares of hidden states of samples that are not the most probable ones, by name.

        They are ``state_error``, given the inputs, and ``state_with_label_error``, given inputs and label; none without
        hidden states, or where the label is the state.

        Args:
            mean: mean fields, shape (n, P, K).
            fields: true fields, shape (n, P, K).
            variance: posterior covariance, shape (P, P).
        """
        del mean, fields, variance
        return {}

    # Averages over data points.

    @property
    def sources(self) -> int:
        """Number of normal variables of :meth:`labels_from`. Zero if labels are drawn in another way."""
        return 0

    @abstractmethod
    def labels_from(self, fields: Array, source: Array, rng: np.random.Generator) -> Array:
        """Return labels of sampled data points.

        Args:
            fields: shape (n, P, K).
            source: standard normal numbers, shape (n, sources).
            rng: draws the noise of channels without sources.
        """

    @abstractmethod
    def averages(self, variance: Array) -> Averages:
        """Return information and expected log partition at a batch of posterior covariances."""

    @abstractmethod
    def information(self, variance: Array) -> Estimate:
        r"""Return :math:`E\sum_l g_l g_l^T` at a batch of posterior covariances, and its standard error."""

    @abstractmethod
    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        r"""Return averages at one covariance, and the derivative of the information, shape (P^2, P^2)."""

    @abstractmethod
    def response(self, variance: Array, known: int = 0, wider: Array | None = None) -> Response:
        """Return slopes of the score on sampled data points at one covariance.

        Args:
            variance: posterior covariance.
            known: number of the first data points of each replica that are left out.
            wider: projector on the directions in which deviations are drawn from a wider normal law with weights.
        """

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        """Return averages and slopes of the score at one covariance, from the same posteriors if these are sampled."""
        return self.averages(variance[None]), self.response(variance)

    @abstractmethod
    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """Return errors on new labels at a batch of posterior covariances, by name, with standard errors.

        Args:
            variance: posterior covariances.
            last_layer: one for the rows of the last layer and zero for the others, to add the error of a predictor that
                has learned the last layer only. None if there is one layer.
            decisions: whether to count wrong labels as well if labels are discrete, which needs posteriors.
        """

    # Work and accuracy.

    sampled: ClassVar[bool]
    """True when averages are sampled again at every state, so that scores have a sampling error."""

    smallest: ClassVar[float]
    """Smallest variance at which averages are computed."""

    @property
    def informed(self) -> float:
        """Posterior variance of the informed start of state evolution."""
        return _INFORMED[self.sampled]

    @property
    @abstractmethod
    def points(self) -> int:
        """Sampled data points per replica, a power of two."""

    @property
    def work(self) -> float:
        """Number of evaluations for one average over the data, from which the remaining time is estimated."""
        return float(self.points)

    @property
    def posterior_seconds(self) -> float:
        """Approximate time of one sampled posterior on one core. Zero if it is unknown, or negligible."""
        return 0.0

    @property
    def refinement_factor(self) -> int:
        """Ratio of the work of successive estimates of one posterior, if there are several."""
        return 4

    @abstractmethod
    def with_points(self, points: int) -> Self:
        """Return the same with another number of sampled data points per replica, a power of two."""

    def high_accuracy(self) -> Self:
        """Return the same with several times the work per data point, if posteriors are sampled."""
        return self

    def low_accuracy(self) -> Self:
        """Return the same with a fraction of the work per data point, for a first rough result."""
        return self

    @property
    def with_more_noise(self) -> Self | None:
        """The same with four times the regularising noise, to extrapolate to zero. None without such noise."""
        return None
