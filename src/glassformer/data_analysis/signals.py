"""Families of signals of unknown width, for the labels of a design.

Both families have the same attributes and methods, which :class:`BilinearSignal` documents.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.parameters import at_power
from glassformer.channels.scalar.base import ScalarChannel
from glassformer.core.estimate import Array
from glassformer.data_analysis.width import even_moments
from glassformer.designs.dense import DenseDesign
from glassformer.designs.pooled import PooledDesign, UnitPooledDesign
from glassformer.models.aim import AttentionIndexed
from glassformer.models.bsr import BilinearSequenceRegression
from glassformer.numerics.decompositions import eigh, singular_values

# Errors of positive matrices at dimension d exceed those of the limit by the share 7/d: measured at d = 40, 80 and 160.
_FINITE_SIZE_EXCESS = 7.0


@dataclass(frozen=True)
class BilinearSignal:
    """A product of two factors: bilinear sequence regression.

    Attributes:
        design: inputs, in units in which fields of a signal of unit power have unit variance.
        sign: factor of the labels, +1 or -1, before the models apply to them.
        penalty: the only penalty that the theory of risk covers; empty if it covers all.
        excess: share by which errors of this size may exceed the limit of large sizes.
    """

    design: DenseDesign
    sign = 1.0
    penalty = ""
    excess = 0.0

    @classmethod
    def from_labels(cls, design: DenseDesign, labels: Array) -> BilinearSignal:
        """Return the family for these inputs."""
        return cls(design)

    @property
    def columns(self) -> int:
        """Dimension, the unit of widths."""
        return self.design.signal_shape[1]

    @property
    def entries(self) -> float:
        """Number of free entries of the signal."""
        return float(np.prod(self.design.signal_shape))

    def model(self, rho: float, channel: ScalarChannel) -> BilinearSequenceRegression:
        """Return the model of this width."""
        length, d = self.design.signal_shape
        return BilinearSequenceRegression(beta=length / d, rho=rho, channel=channel)

    def moments(self, values: Array) -> Array:
        """Return the moments of singular values or eigenvalues that determine the width."""
        return even_moments(values, (4, 6, 8))

    def values(self, matrix: Array) -> Array:
        """Return singular values or eigenvalues."""
        return singular_values(matrix)

    def sample(self, width: int, power: float, noise: float, rng: np.random.Generator) -> Array:
        """Draw a signal of this width and power, seen through noise of this variance."""
        rows, columns = self.design.signal_shape
        signal = rng.standard_normal((rows, width)) @ rng.standard_normal((width, columns))
        signal *= np.sqrt(power / np.mean(signal**2))
        return signal + np.sqrt(noise) * rng.standard_normal((rows, columns))

    def in_design_units(self, matrix: Array) -> Array:
        """Return a signal in the units of the original design."""
        return matrix

    def strength(self, strength: float) -> float:
        """Return a strength of the theory of risk in the units of the original design."""
        return strength

    def error(self, error: float) -> float:
        """Return an error in the units of the original design."""
        return error

    def power(self, matrix: Array) -> float:
        """Return the power of a signal of the original design, in its units."""
        return float(np.mean(matrix**2))


@dataclass(frozen=True)
class PositiveSignal:
    r"""A positive matrix (keys equal queries), or the negative of one: an attention-indexed model.

    Attributes:
        design: inputs, in units of their own.
        sign: sign of the matrix.
    """

    design: UnitPooledDesign
    sign: float
    penalty = "trace"

    @classmethod
    def from_labels(cls, design: PooledDesign, labels: Array) -> PositiveSignal:
        """Return the family for these labels; the sign is that of the third moment of a linear estimate."""
        own = UnitPooledDesign.of(design)
        values = eigh(own.adjoint(labels - labels.mean(), 0))[0]
        return cls(own, 1.0 if np.sum(values**3) >= 0 else -1.0)

    @property
    def columns(self) -> int:
        return self.design.signal_shape[1]

    @property
    def entries(self) -> float:
        return 0.5 * self.columns * (self.columns + 1)

    @property
    def excess(self) -> float:
        return _FINITE_SIZE_EXCESS / self.columns

    def model(self, rho: float, channel: ScalarChannel) -> AttentionIndexed:
        return AttentionIndexed(rho=rho, tokens=1, channel=at_power(channel, 1 + rho))

    def moments(self, values: Array) -> Array:
        third = np.mean(values**3) / np.mean(values**2) ** 1.5
        return np.append(even_moments(values, (4, 6)), third)

    def values(self, matrix: Array) -> Array:
        return eigh(matrix)[0]

    def sample(self, width: int, power: float, noise: float, rng: np.random.Generator) -> Array:
        d = self.columns
        factor = rng.standard_normal((d, width))
        signal = factor @ factor.T
        signal *= np.sqrt(power * d / np.sum(signal**2))
        z = rng.standard_normal((d, d))
        return signal + np.sqrt(noise / (2 * d)) * (z + z.T)

    def in_design_units(self, matrix: Array) -> Array:
        return self.sign * self.design.unit * matrix

    def strength(self, strength: float) -> float:
        return strength * self.columns / self.design.unit

    def error(self, error: float) -> float:
        return self.design.unit**2 * error

    def power(self, matrix: Array) -> float:
        return float(np.sum(matrix**2) / self.columns)


UnknownSignal = BilinearSignal | PositiveSignal
