r"""Linear attention: labels are the indices themselves, with or without noise.

Correlated tokens :math:`C^{1/2}X` have the products :math:`C^{1/2}XSX^TC^{1/2}`, of mean :math:`C\,\mathrm{Tr}S`. After
subtraction of this mean, the indices are :math:`C^{1/2}hC^{1/2}` with the centred indices ``h`` of independent tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from glassformer.channels.attention.projected import ProjectedChannel, Root, UntiedIndices
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.scalar.base import Array, Estimate
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, ParameterError
from glassformer.designs.token_pairs import to_components, to_matrices


class LinearProjection(ProjectedChannel):
    """All components of the indices, with or without noise."""

    label = "linear"

    def __post_init__(self) -> None:
        require_integer("tokens", self.tokens)
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ParameterError("noise", self.noise, "finite and >= 0")

    @property
    def _visible(self) -> int:
        return self._components

    @property
    def fields(self) -> Fields:
        return Fields((self._components,), any_power=True)

    @cached_property
    def labels(self) -> Labels:
        return Labels(
            rank=float(self._visible) if self.noise == 0 else 0.0,
            shape=(self.tokens, self.tokens),
            noise=self.noise,
            # The squared norm of labels whose components are one: errors are per component.
            error_unit=float(np.sum(self._matrices(np.ones(self._components)) ** 2)),
            linear=True,
            regression=(1.0, self.noise),
        )

    def clean(self, h: Array) -> Array:
        return self._matrices(h)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        noise = np.sqrt(self.noise) * rng.standard_normal(h.shape) if self.noise else 0.0
        return self._matrices(h + noise)


@dataclass(frozen=True)
class LinearAttentionChannel(LinearProjection):
    r"""Linear attention :math:`y = h + \sqrt\Delta\,z` with symmetric noise, :math:`E z_{ab}^2 = 1 + \delta_{ab}`.

    Labels are symmetric ``T x T`` matrices; :math:`E|g|^2 = T(T+1)/[2(V+\Delta)]` in components of equal variance
    (:mod:`~glassformer.designs.token_pairs`). ``T = 1`` is a quadratic network of extensive width.

    Args:
        tokens: ``T >= 1``.
        noise: :math:`\Delta\ge0`, a variance.

    Raises:
        ParameterError: an argument is out of range.
        DataError: a label is not symmetric.

    Source: arXiv:2506.01582; ``T = 1``: arXiv:2408.03733.

    Example:
        >>> LinearAttentionChannel(tokens=2, noise=0.5).information(np.array([0.5])).value
        array([3.])
    """

    tokens: int
    noise: float = 0.0

    def _residual(self, y: Array, omega: Array) -> Array:
        y = np.asarray(y, dtype=float)
        if not np.allclose(y, np.swapaxes(y, -1, -2), rtol=1e-9, atol=1e-12):
            raise DataError("y", "<labels>", "symmetric matrices", "symmetrise them")
        return np.asarray(to_components(y) - omega)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``, :math:`V` per component, and ``label_noise``, :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        noise = np.full_like(v, self.noise)
        return {"prediction_error": v, "label_noise": noise, "label_mse": v + noise}


@dataclass(frozen=True)
class LinearUntiedChannel(UntiedIndices, LinearProjection):
    r"""Linear attention :math:`y = h + \sqrt\Delta\,z` of different keys and queries, :math:`E|g|^2 = T^2/(V+\Delta)`.

    The noise ``z`` has independent entries.

    Args:
        tokens: ``T >= 1``.
        noise: :math:`\Delta\ge0`, a variance.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> LinearUntiedChannel(tokens=2, noise=0.5).information(np.array([0.5])).value
        array([4.])
    """

    tokens: int
    noise: float = 0.0

    def _residual(self, y: Array, omega: Array) -> Array:
        return np.asarray(np.asarray(y, dtype=float).reshape(omega.shape) - omega)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``, :math:`V` per index, and ``label_noise``, :math:`\Delta`."""
        v = np.asarray(variance, dtype=float)
        return {"prediction_error": v, "label_noise": np.full_like(v, self.noise)}


@dataclass(frozen=True)
class CorrelatedLinearChannel(LinearAttentionChannel):
    r"""Linear attention of correlated tokens, :math:`y = C^{1/2}hC^{1/2} + \sqrt\Delta\,z`.

    The map :math:`h\mapsto C^{1/2}hC^{1/2}` has the eigenvalues :math:`a_k`, products of two eigenvalues of
    :math:`C^{1/2}`, and :math:`E|g|^2 = \sum_k a_k^2/(\Delta + a_k^2V)`. Without noise the information is the same as
    for independent tokens.

    Args:
        root: :math:`C^{1/2}`, shape (T, T) as nested tuples.

    Example:
        >>> channel = CorrelatedLinearChannel(2, 0.5, root=((1.0, 0.0), (0.0, 2.0)))
        >>> channel.information(np.array([0.5])).value.round(6)  # gains 1, 2 and 4
        array([4.482353])
    """

    root: Root = ()

    @cached_property
    def labels(self) -> Labels:
        return replace(super().labels, linear=False)

    @cached_property
    def _gains_and_modes(self) -> tuple[Array, Array]:
        """Return the eigenvalues :math:`a_k` and the eigenvectors, as columns, in components."""
        root, units = np.array(self.root), np.eye(self._components)
        gains, modes = np.linalg.eigh(to_components(root @ to_matrices(units, self.tokens) @ root))
        return gains, modes

    def _label_variances(self, variance: Array | float) -> Array:
        """Return the variances of the labels along the modes, shape (..., K)."""
        return np.asarray(self.noise + self._gains_and_modes[0] ** 2 * np.asarray(variance, dtype=float)[..., None])

    def _mode_residuals(self, y: Array, omega: Array) -> Array:
        """Return labels minus their means under ``omega``, along the modes."""
        gains, modes = self._gains_and_modes
        return np.asarray(self._residual(y, np.zeros_like(omega)) @ modes - gains * (omega @ modes))

    def _correlated(self, h: Array) -> Array:
        """Return the components of the indices of correlated tokens."""
        gains, modes = self._gains_and_modes
        return np.asarray((gains * (h @ modes)) @ modes.T)

    def clean(self, h: Array) -> Array:
        return super().clean(self._correlated(h))

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        return super().sample(self._correlated(h), rng)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        gains, modes = self._gains_and_modes
        return np.asarray((gains * self._mode_residuals(y, omega) / self._label_variances(variance)) @ modes.T)

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        del y
        return np.broadcast_to(self.information(np.asarray(variance)).value, np.shape(omega)[:-1])

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        spread = self._label_variances(variance)
        square = self._mode_residuals(y, omega) ** 2
        return np.asarray(-0.5 * np.sum(np.log(2 * np.pi * spread) + square / spread, axis=-1))

    def information(self, variance: Array) -> Estimate:
        value = np.sum(self._gains_and_modes[0] ** 2 / self._label_variances(variance), axis=-1)
        return Estimate(value, np.zeros_like(value))

    def expected_log_partition(self, variance: Array) -> Estimate:
        value = -0.5 * np.sum(np.log(2 * np.pi * self._label_variances(variance)) + 1, axis=-1)
        return Estimate(value, np.zeros_like(value))

    def label_error(self, variance: Array) -> dict[str, Array]:
        """Return ``prediction_error`` of the indices of correlated tokens, per component, and ``label_noise``."""
        return super().label_error(np.asarray(variance, dtype=float) * np.mean(self._gains_and_modes[0] ** 2))
