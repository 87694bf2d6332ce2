r"""Labels that are linear in the fields of several rows, with normal noise: posteriors in closed form.

For :math:`y = \langle A, Z\rangle + c + \sqrt\Delta\,\xi` the score is
:math:`g = A\,(y - c - \langle A, \omega\rangle)/s` with :math:`s = \Delta + \langle A, VA\rangle`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer.channels.field_averages import FieldPosterior, Slopes
from glassformer.channels.labels import Labels
from glassformer.channels.link.contract import Link
from glassformer.channels.multi_index.link_symmetries import row_symmetries
from glassformer.channels.multi_index.sampled_channel import SampledRowsChannel
from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array

# Random fields on which linearity is tried, their size, and the relative deviation that is rounding.
_TRIALS, _WIDE, _ROUNDING = 64, 3.0, 1e-9


@dataclass(frozen=True, eq=False)
class LinearRowsChannel(SampledRowsChannel):
    """Labels that are one linear function of the fields.

    Args:
        coefficients: ``A``, shape (P, L).
        offset: ``c``.
        noise: variance of the label noise, >= 0.
        points: data points per replica of the averages, a power of two.

    Example:
        >>> channel = LinearRowsChannel(np.array([[0.0], [1.0]]), 0.0, 0.5)
        >>> y, omega, variance = np.ones(1), np.zeros((1, 2, 1)), 0.5 * np.eye(2)[None]
        >>> channel.posterior(y, omega, variance).score.tolist()
        [[[0.0], [1.0]]]
    """

    coefficients: Array
    offset: float
    noise: float
    points: int = 2048

    @property
    def rows(self) -> int:
        return len(self.coefficients)

    @property
    def columns(self) -> int:
        return int(self.coefficients.shape[1])

    @cached_property
    def labels(self) -> Labels:
        symmetries = row_symmetries(lambda z: jnp.ravel(self.traceable_label(z)), self.rows, self.columns, False)
        return Labels(rank=float(self.noise == 0), noise=float(self.noise), symmetries=symmetries)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        coefficients, offset = self.coefficients, self.offset

        def label(fields: AnyArray) -> AnyArray:
            return jnp.sum(coefficients * jnp.asarray(fields)) + offset

        return label

    @property
    def sources(self) -> int:
        return 1

    def label_from(self, fields: Array, source: Array) -> Array:
        return np.asarray(self._linear(fields) + np.sqrt(self.noise) * source[:, 0])

    def _linear(self, fields: Array) -> Array:
        return np.asarray(np.einsum("npl,pl->n", fields, self.coefficients) + self.offset)

    def _width(self, variance: Array) -> Array:
        return np.asarray(self.noise + np.einsum("pl,npq,ql->n", self.coefficients, variance, self.coefficients))

    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        width, residual = self._width(variance), np.asarray(y, dtype=float) - self._linear(omega)
        score = (residual / width)[:, None, None] * self.coefficients
        curvature = (self.coefficients @ self.coefficients.T) / width[:, None, None]
        return FieldPosterior(score, score, curvature, -0.5 * (np.log(2 * np.pi * width) + residual**2 / width))

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        own = np.einsum("pl,qm->plqm", self.coefficients, self.coefficients)
        slope = -own / self._width(variance)[:, None, None, None, None]
        return [(slope, slope)]


def linear_channel(link: Callable[[Any], Any], indices: int, tokens: int, noise: float, points: int) -> Any:
    """Return the channel of a link that is one linear function of the fields; None for another link.

    Example:
        >>> linear_channel(lambda z: 2 * z[0, 1] + 1, 1, 2, 0.1, 64).coefficients.tolist()
        [[0.0, 2.0]]
        >>> linear_channel(lambda z: z[0, 0] ** 2, 1, 1, 0.1, 64)
    """
    own = Link(link, (indices, tokens))
    if own.label_shape != ():
        return None
    units = np.eye(indices * tokens).reshape(-1, indices, tokens)
    offset = float(own(np.zeros((1, indices, tokens)))[0])
    coefficients = (own(units) - offset).reshape(indices, tokens)
    fields = _WIDE * np.random.default_rng(5).standard_normal((_TRIALS, indices, tokens))
    expected = np.einsum("npl,pl->n", fields, coefficients) + offset
    size = np.max(np.abs(expected))
    if not np.any(coefficients) or np.max(np.abs(own(fields) - expected)) > _ROUNDING * size:
        return None
    return LinearRowsChannel(coefficients, offset, float(noise), points)
