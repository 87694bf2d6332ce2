"""What a channel must provide: the law of a label given a Gaussian field."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from glassformer.channels.decisions import Decisions
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array, Estimate

if TYPE_CHECKING:
    from glassformer.channels.multi_index.scalar_rows import ScalarRowsChannel

__all__ = ["Array", "Estimate", "LabelNodes", "ScalarChannel"]


class LabelNodes(NamedTuple):
    """Quadrature over labels of continuous values, shape (nodes,): at each the field is normal.

    Attributes:
        y: labels.
        weight: their probabilities.
        mean: of the field there.
        variance: of the field there.
    """

    y: Array
    weight: Array
    mean: Array
    variance: Array


class ScalarChannel(Decisions, ABC):
    r"""An output channel :math:`P_{out}(y \mid h)`, with ``h`` of unit prior variance: a number, or ``K`` components.

    Fields of ``K`` components have shape (n, K) and isotropic variance; their scores have that shape, and the squares
    and slopes below are summed over components.

    With :math:`h = \omega + \sqrt V u`, ``u`` standard normal,
    :math:`Z_{out}(y, \omega, V) = E_u P_{out}(y \mid h)` and the score is
    :math:`g = \partial_\omega \log Z_{out} = (E[h \mid y, \omega, V] - \omega)/V`.

    In state evolution :math:`\omega \sim N(0, 1 - V)`: the overlap is :math:`q = 1 - V`. The variance is passed rather
    than the overlap because it keeps its relative precision where the signal is almost known.

    Example:
        ``docs/extending.md`` has a complete channel.
    """

    clean_label: ClassVar[Any] = None
    """The label as a function of the field, for channels without noise that can be had with it."""

    @classmethod
    def with_noise(cls, noise: float) -> ScalarChannel:
        """The channel of this kind with Gaussian label noise of variance ``noise``.

        Raises:
            ParameterError: the noise is out of range.
            IncompatibleError: there is no such channel.

        Example:
            >>> from glassformer import SignChannel
            >>> SignChannel.with_noise(0.5).label
            'sign'
        """
        if noise == 0:
            return cls()
        if cls.clean_label is None:
            raise IncompatibleError(f"noise = {noise} and channel = {cls().label} exclude each other: leave noise out")
        # Its splines and root finders would double the start-up time of every other channel.
        from glassformer.channels.link.channel import LinkChannel

        return LinkChannel(cls.clean_label, noise, name=cls().label)

    @property
    def label(self) -> str:
        """Name of the channel in files and on the command line."""
        return type(self).__name__.removesuffix("Channel").lower()

    @property
    def in_rows(self) -> ScalarRowsChannel:
        """The same channel as one of a single row, whose overlaps are 1 x 1 matrices."""
        from glassformer.channels.multi_index.scalar_rows import ScalarRowsChannel

        return ScalarRowsChannel(self)

    clean = default_property(
        None, "Labels without their own noise, from an array of fields; None where they are no numbers."
    )
    linear = default_property(False, "True when the label is the field itself, with Gaussian noise or none.")
    any_power = default_property(False, "True when averages depend on what is left of the variance of a field alone.")

    @property
    @abstractmethod
    def even(self) -> bool:
        """True when labels are blind to the sign of ``h``: no information at zero overlap, q = 0 is a fixed point."""

    @property
    @abstractmethod
    def noiseless(self) -> bool:
        r"""True when ``V * information(V)`` tends to ``rank > 0`` as ``V`` vanishes: labels fix the signal locally."""

    @property
    def rank(self) -> float:
        r""":math:`\lim_{V\to0} V\,E|g|^2`: components of the field that a noiseless label fixes; zero with noise."""
        return 1.0 if self.noiseless else 0.0

    field_components = default_property((), "``(K,)`` for fields of ``K`` components; empty for numbers.")
    label_shape = default_property((), "Shape of the label of one sample; empty for numbers.")

    values = default_property((), "Values of the label, where they are finitely many.")
    steps = default_property((0.0,), "Fields at which labels of finitely many values change.")

    def label_nodes(self, finer: float = 1.0) -> LabelNodes:
        """Quadrature over labels of continuous values.

        Args:
            finer: by how much, than what usually suffices.

        Raises:
            IncompatibleError: there is none.
        """
        raise IncompatibleError(f"channel {self.label} has no quadrature over its labels, which this loss needs")

    @property
    def regression(self) -> tuple[float, float]:
        r"""Of each component of the label on its field: the slope :math:`c_1 = E[hy]` and :math:`E[y^2] - c_1^2`.

        Raises:
            IncompatibleError: they are not known.
        """
        if not self.values:
            nodes = self.label_nodes()
            slope = float(nodes.weight @ (nodes.y * nodes.mean))
            return slope, float(nodes.weight @ nodes.y**2) - slope**2
        y, nothing = np.array(self.values), np.zeros(len(self.values))
        chance = np.exp(self.log_partition(y, nothing, 1.0))
        slope = float(np.sum(chance * self.score(y, nothing, 1.0) * y))
        return slope, float(np.sum(chance * y**2)) - slope**2

    def components_of(self, labels: Array) -> Array:
        """Labels as their fields are counted, for channels whose label is their field with noise."""
        return labels

    def shares_of(self, labels: Array) -> Array:
        """Labels as rows of probabilities, shape (..., T, T): their own, or a single one where they are positions.

        Raises:
            IncompatibleError: labels are neither.
            DataError: labels that this channel does not give.
        """
        raise IncompatibleError(f"labels of channel {self.label} are no rows of probabilities: use another loss")

    @property
    def trainable_link(self) -> Callable[[Any], Any] | None:
        """The label without noise as a function of arrays of fields that JAX can differentiate; None where it is none.

        Its slope must tell something almost everywhere: steps have none.
        """
        return None

    @property
    def exponents(self) -> Exponents | None:
        """Information and generative exponent of a field that is a number; None where they are not known."""
        return None

    def at_power(self, power: float) -> ScalarChannel:
        """The same channel for fields of another prior variance; for those that do not depend on it, itself."""
        del power
        return self

    @abstractmethod
    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        """Draw one label per field ``h``; same shape as ``h``."""

    @abstractmethod
    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r""":math:`g(y, \omega, V)`, elementwise with broadcasting; finite for every finite input and ``V > 0``."""

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r""":math:`-\partial_\omega g`, elementwise; by central differences unless a channel knows better."""
        step = 1e-4 * np.sqrt(variance)
        return (self.score(y, omega - step, variance) - self.score(y, omega + step, variance)) / (2 * step)

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Both at once, for channels that find them together."""
        return self.score(y, omega, variance), self.curvature(y, omega, variance)

    @abstractmethod
    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r""":math:`\log Z_{out}(y, \omega, V)`, elementwise with broadcasting."""

    @abstractmethod
    def information(self, variance: Array) -> Estimate:
        r""":math:`E\,g^2` over :math:`\omega \sim N(0, 1-V)`, ``h``, ``y``; ``variance`` in (0, 1], shape (batch,)."""

    @abstractmethod
    def expected_log_partition(self, variance: Array) -> Estimate:
        r""":math:`E \log Z_{out}`, same arguments; its derivative in the overlap is half the information."""

    noise_law = default_property(
        "", "Name of the law by which labels differ from their link, where it is no Gaussian noise."
    )

    law_gap = default_property(
        0.0, "By how much drawn labels and a given density disagree, a share of the probability."
    )

    @property
    def without_noise(self) -> ScalarChannel:
        """The channel of discrete labels without their own noise: mistakes, or noise inside a threshold."""
        return self

    label_noise = default_property(0.0, "Mean square of the label's own noise, counted as ``prediction_error`` is.")
    error_unit = default_property(1.0, "What squared errors on a label, summed over its entries, are divided by.")

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Errors on a new label at posterior variance ``V``, by name; empty when the channel defines none.

        ``prediction_error`` is the squared error of the posterior mean of the label without its own noise, and
        ``plugin_error`` that of the label at :math:`\omega`; ``label_noise`` stands beside them: the sum is what is
        measured on noisy labels. Squares are summed over the entries of a label, and divided by ``error_unit``.
        ``label_error`` counts the wrong ones among discrete labels, without their own noise too. ``label_mse`` and
        ``label_mse_plugin``, squared errors whose noise counts for some channels, go with the next version.
        """
        del variance
        return {}

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        """Those of them that are integrals, each with its error; empty when the channel has none."""
        del variance
        return {}
