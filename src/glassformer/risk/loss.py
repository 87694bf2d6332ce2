r"""What a loss must provide, convex in the fitted field: :math:`\ell(y, h)`.

In state evolution a loss is seen through its proximal map :math:`p = \mathrm{prox}_{V\ell(y,\cdot)}(\omega)`, the
minimiser of :math:`\ell(y, p) + (p-\omega)^2/(2V)`, and the score :math:`g = (p - \omega)/V = -\partial_h\ell(y, p)`;
in a certificate through its conjugate :math:`\ell^*(y, u) = \sup_h[uh - \ell(y, h)]`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array


class Loss(ABC):
    """A loss, convex in the fitted field. Labels, fields and variances broadcast."""

    binary = default_property(False, "True when labels have to be +1 or -1.")
    quadratic = default_property(
        False, "True for half the square: it has closed forms, and fits labels exactly in a limit."
    )

    sharpness = default_property(
        np.inf, "Largest curvature in the field of a sample of weight one; infinite for kinks."
    )
    weights = default_property(1.0, "Of the samples: numbers > 0 that multiply their losses.")

    @property
    def steady(self) -> bool:
        """Whether the loss bends alike everywhere."""
        return bool(self.quadratic)

    @property
    def name(self) -> str:
        """Name on the command line."""
        return type(self).__name__.lower()

    def slope(self, y: Array, h: Array) -> Array:
        """Derivative in the field, of losses that have one everywhere."""
        raise NotImplementedError

    def bend(self, slopes: Array) -> Array | None:
        """Second derivative where the slopes are these, of losses whose slopes tell it; None of others."""
        del slopes
        return None

    @abstractmethod
    def value(self, y: Array, h: Array) -> Array:
        """The loss."""

    @abstractmethod
    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        """The minimiser ``p``."""

    @abstractmethod
    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        r"""The score ``g`` and :math:`-\partial_\omega g`."""

    def envelope(self, y: Array, omega: Array, variance: Array | float) -> Array:
        r"""The least of :math:`\ell(y, p) + (p-\omega)^2/(2V)`, whose slope in :math:`\omega` is :math:`-g`."""
        p = self.proximal(y, omega, variance)
        return np.asarray(self.value(y, p) + (p - omega) ** 2 / (2 * variance))

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        """Places in ``omega`` where the score bends, or changes fast, of losses of one field."""
        raise NotImplementedError

    def conjugate(self, y: Array, u: Array) -> Array:
        """The conjugate, of losses of one field; infinite outside its domain."""
        raise NotImplementedError

    def conjugate_at(self, y: Array, h: Array, slopes: Array, share: float) -> Array:
        """The conjugate, or no less, at a share in [0, 1] of the slopes of the loss, or its envelope, at ``h``."""
        del h
        return self.conjugate(y, share * slopes)

    def adapted(self, channel: Any) -> Loss:
        """The loss with what it has not been told taken from the channel of its labels."""
        del channel
        return self

    def labels_of(self, channel: Any, power: float) -> Any:
        """Labels of a channel, of fields of this power, as the loss sees them."""
        from glassformer.risk.labels import Labels

        return Labels(channel, power, self)
