"""The linear channel with or without Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.channels.fields import Fields
from glassformer.channels.labels import Exponents, LabelNodes, Labels
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.core.errors import ParameterError
from glassformer.numerics.quadrature import normal_nodes


@dataclass(frozen=True)
class GaussianChannel(ScalarChannel):
    r"""Labels :math:`y = h + \sqrt\Delta\, z`, ``z`` standard normal.

    The score is :math:`g = (y - \omega)/(\Delta + V)` and the information :math:`1/(\Delta + V)`, both exact.

    Args:
        noise: label noise :math:`\Delta \ge 0`, a variance in units of the variance of ``h``.

    Raises:
        ParameterError: ``noise`` is negative or not finite.

    Example:
        >>> import numpy as np
        >>> GaussianChannel(noise=0.5).information(np.array([0.5])).value
        array([1.])
    """

    noise: float = 0.0

    fields = Fields(any_power=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ParameterError("noise", self.noise, "a finite number >= 0")

    @cached_property
    def labels(self) -> Labels:
        return Labels(
            rank=float(self.noise == 0.0),
            noise=self.noise,
            linear=True,
            exponents=Exponents(1.0, 1.0),
            regression=(1.0, self.noise),
            nodes=self._nodes,
        )

    def clean(self, h: Array) -> Array:
        """Return the field itself."""
        return np.array(h, dtype=float)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        if self.noise == 0.0:
            return self.clean(h)
        return h + np.sqrt(self.noise) * rng.standard_normal(np.shape(h))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return np.asarray((y - omega) / (self.noise + np.asarray(variance)))

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return np.broadcast_to(1 / (self.noise + np.asarray(variance, dtype=float)), np.shape(omega))

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        total = self.noise + np.asarray(variance)
        return -0.5 * np.log(2 * np.pi * total) - (y - omega) ** 2 / (2 * total)

    def information(self, variance: Array) -> Estimate:
        # Infinite at V = 0 without noise.
        with np.errstate(divide="ignore"):
            value = 1.0 / (self.noise + np.asarray(variance, dtype=float))
        return Estimate(value, np.zeros_like(value))

    def expected_log_partition(self, variance: Array) -> Estimate:
        with np.errstate(divide="ignore"):
            value = -0.5 * (np.log(2 * np.pi * (self.noise + np.asarray(variance, dtype=float))) + 1)
        return Estimate(value, np.zeros_like(value))

    def _nodes(self, finer: float) -> LabelNodes:
        t, weight = normal_nodes(panels=6, nodes=round(8 * finer))
        total = 1 + self.noise
        y = np.sqrt(total) * t
        return LabelNodes(y, weight, y / total, np.full_like(y, self.noise / total))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``, :math:`V`, and ``label_noise``, :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        noise = np.full_like(v, self.noise)
        return {"prediction_error": v, "label_noise": noise, "label_mse": v + noise}
