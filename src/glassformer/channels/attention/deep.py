r"""Several attention layers of extensive width, without noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.attention.softmax import all_ones, symmetric_logits
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_channel import LatentChannel
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior, PosteriorFamily
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.designs.token_pairs import pair_indices
from glassformer.numerics.small_matrices import inverse_and_log_det


@dataclass(frozen=True, eq=False)
class DeepAttentionIndexedChannel(LatentChannel):
    r"""``L`` layers without noise, with :math:`\sigma` the row softmax and :math:`B = B_{L-1}`.

    .. math:: y = \sigma(B h^L B^T), \qquad B_l = (c_l I + \sigma(B_{l-1}h^lB_{l-1}^T))B_{l-1}, \qquad B_0 = I.

    Given the earlier layers the label is a linear observation of :math:`h^L`. Only the posterior of the earlier layers
    is sampled, with the residual :math:`P(B^{-1}s_yB^{-T} - \omega^L)/\sqrt{V_L}` and the weight
    :math:`|\det B|^{-(T+1)}`, where :math:`\sigma(s_y) = y` and ``P`` projects off the all-ones matrix, which softmax
    hides (the identity for a linear last layer). Fields are components of equal variance
    (:mod:`~glassformer.designs.token_pairs`).

    Args:
        tokens: ``T >= 2``.
        skip: skip strengths :math:`c_1\dots c_{L-1}`, each finite and >= 0.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal. Fields of two layers have the covariance ``power - 1``.
        last: ``"softmax"`` or ``"linear"``, the activation of the last layer.
        temperature: inverse temperature of every softmax.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.

    Raises:
        ParameterError: an argument is out of range.

    Source: arXiv:2506.01582, deep attention.

    Example:
        >>> channel = DeepAttentionIndexedChannel(tokens=2, skip=(1.0,), power=1.5)
        >>> channel.fields.shape, channel.labels.shape
        ((2, 3), (2, 2))
    """

    tokens: int
    skip: tuple[float, ...]
    power: float = 1.0
    last: str = "softmax"
    temperature: float = 1.0
    effort: Effort = field(default=Effort(points=64, starts=6, steps=8), kw_only=True)
    points: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        require_integer("tokens", self.tokens, 2)
        if not self.skip or not all(np.isfinite(c) and c >= 0 for c in self.skip):
            raise ParameterError("skip", self.skip, "one finite number >= 0 for each layer except the last")
        if self.last not in ("softmax", "linear"):
            raise ParameterError("channel", self.last, "softmax or linear")
        if not (np.isfinite(self.temperature) and self.temperature > 0):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")

    @property
    def label(self) -> str:
        return self.last

    @property
    def rows(self) -> int:
        return len(self.skip) + 1

    @property
    def columns(self) -> int:
        return self.tokens * (self.tokens + 1) // 2

    @cached_property
    def labels(self) -> Labels:
        symmetries = RowSymmetries.of_signs(np.ones((1, self.rows)))
        return Labels(rank=self._visible, shape=(self.tokens, self.tokens), symmetries=symmetries)

    @property
    def _visible(self) -> float:
        """Number of components of the last layer that labels determine."""
        return self.columns - 1.0 if self.last == "softmax" else float(self.columns)

    @cached_property
    def fields(self) -> Fields:
        return Fields((self.rows, self.columns), self.power, shared=self.power - 1)

    @property
    def family(self) -> PosteriorFamily:
        make = partial(_functions, self.tokens, self.last == "softmax", float(self.temperature))
        return PosteriorFamily(make, self.skip)

    @property
    def latents(self) -> int:
        return (self.rows - 1) * self.columns

    @property
    def visible_columns(self) -> Array:
        return np.append(np.full(self.rows - 1, float(self.columns)), self._visible)

    def log_constant(self, root: Array) -> Array:
        return np.asarray(-0.5 * self._visible * np.log(2 * np.pi * root[:, -1, -1] ** 2))

    def observation(self, y: Array) -> Array:
        """Return symmetric matrices whose activation is the label."""
        y = np.asarray(y, dtype=float)
        if self.last == "softmax":
            return symmetric_logits(y, self.temperature)
        if not np.allclose(y, np.swapaxes(y, -1, -2), rtol=1e-9, atol=1e-12):
            raise DataError("y", "<labels>", "symmetric matrices", "symmetrise them")
        return y


def _functions(tokens: int, softmax: bool, temperature: float, *skip: jax.Array) -> LatentPosterior:
    ones = all_ones(tokens)

    def target(x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        """Return the visible components minus their mean, in standard deviations, and the log-weight."""
        scores, omega, root = datum
        x = x.reshape(omega[:-1].shape)
        earlier = omega[:-1] + root[:-1, :-1] @ x
        inverse, log_det = inverse_and_log_det(_mixing(earlier, skip, temperature, tokens))
        difference = _components(inverse @ scores @ inverse.T, tokens) - omega[-1] - root[-1, :-1] @ x
        if softmax:
            difference = difference - (difference @ ones) * ones
        return (difference / root[-1, -1])[None], (-(tokens + 1) * log_det)[None]

    def features(x: jax.Array, datum: Datum) -> jax.Array:
        return jnp.append(x, target(x, datum)[0])[None]

    def label(field: jax.Array) -> jax.Array:
        mixing = _mixing(field[:-1], skip, temperature, tokens)
        scores = mixing @ _matrix(field[-1], tokens) @ mixing.T
        return jax.nn.softmax(temperature * scores, axis=-1) if softmax else scores

    return LatentPosterior(target, features, label)


def _components(matrix: jax.Array, tokens: int) -> jax.Array:
    rows, columns = pair_indices(tokens)
    return matrix[rows, columns] / np.where(rows == columns, np.sqrt(2), 1.0)


def _matrix(components: jax.Array, tokens: int) -> jax.Array:
    rows, columns = pair_indices(tokens)
    place = np.empty((tokens, tokens), dtype=int)
    place[rows, columns] = place[columns, rows] = np.arange(len(rows))
    return components[place] * np.where(np.eye(tokens, dtype=bool), np.sqrt(2), 1.0)


def _mixing(fields: jax.Array, skip: tuple[jax.Array, ...], temperature: float, tokens: int) -> jax.Array:
    """Return the product of the layers, shape (T, T), for fields of shape (L, K)."""
    mixing = jnp.eye(tokens)
    for strength, row in zip(skip, fields, strict=True):
        attention = jax.nn.softmax(temperature * mixing @ _matrix(row, tokens) @ mixing.T, axis=-1)
        mixing = strength * mixing + attention @ mixing
    return mixing
