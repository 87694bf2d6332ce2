"""Laws of labels of two fields, on grids of fields: one number with normal noise, or few values."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array
from glassformer.numerics.quasi_random import normal_points

# All numbers without another origin were chosen by trial on smooth links, and on links with kinks and jumps.

# Spacing of nodes over the width of the likelihood and over the posterior deviation, that of labels over the deviation
# of the noise, and labels beyond the values of the link, in deviations.
_OF_LIKELIHOOD, _OF_POSTERIOR, _OF_LABELS, _BEYOND = 1.0, 0.9, 0.8, 6.0
# Values of the likelihood below which more nodes take little time, and how much closer they are then: errors fall like
# the spacing next to jumps (True), and like its square next to kinks.
_FEW, _CLOSEST = {False: 6e5, True: 3e6}, {False: 0.25, True: 0.12}
# Values of the likelihood up to which sums are faster than samples.
_MANY = 3e7
# The width of the likelihood is that where the slope of the link has this quantile.
_STEEP, _SLOPE_POINTS, _STEP = 0.9, 1024, 1e-5
# Length of grids in standard deviations of the prior.
_LENGTH = 12.0
# Probability of labels that are left out at either end.
_UNSEEN = 1e-8
# Values of the likelihood that are treated at once, so that they stay in the cache.
_AT_ONCE = 2**15
# Logarithm below which likelihoods are nothing: arithmetic with numbers close to underflow takes ten times as long.
_LEAST_LOG = -80.0
# Spacing of nodes for labels of few values, the same over the posterior deviation, and the most values.
_OF_VALUES, _VALUES_OF_POSTERIOR, _MOST_VALUES = 0.015, 0.075, 8


class Part(NamedTuple):
    """Some labels at the nodes of a tile.

    Attributes:
        likelihood: shape (labels, first nodes, second nodes).
        weight: of each label in sums.
        log_unit: logarithm of the unit of the likelihood.
    """

    likelihood: Array
    weight: float
    log_unit: float


class PlaneLabels(ABC):
    """A law of labels given two fields."""

    jumps = default_property(False, "Whether the likelihood jumps somewhere.")
    width = default_property(0.0, "Width of the likelihood in the fields; zero if it jumps everywhere.")
    smallest = default_property(5e-5, "Smallest posterior variance for which grids have few nodes.")
    node_power = default_property(1, "Power of the fineness of sums with which nodes are closer.")

    @property
    @abstractmethod
    def fast(self) -> bool:
        """Whether sums are faster than samples."""

    @abstractmethod
    def spacing(self, deviation: float) -> float:
        """Return the usual spacing of the nodes of a field of this posterior deviation."""

    @abstractmethod
    def at(self, fields: Array) -> Array:
        """Return what determines the likelihood at fields, shape (n, 2), with the fields along the first axis."""

    @abstractmethod
    def parts(self, values: Array, mass: Array, scale: float) -> Iterator[Part]:
        """Yield the likelihoods of all labels that have any weight.

        Args:
            values: results of :meth:`at` at the nodes of a tile, shape (first nodes, second nodes, ...).
            mass: of the prior at these nodes, shape (first nodes, second nodes).
            scale: factor of spacings.
        """


@dataclass(frozen=True)
class NormalLabels(PlaneLabels):
    r"""Labels :math:`y = g(z_1, z_2) + \sqrt\Delta\,\xi`.

    Args:
        link: ``g``, from fields of shape (n, 2) to values of shape (n,).
        noise: :math:`\Delta > 0`.
        jumps: whether the link jumps.
    """

    link: Callable[[Array], Array]
    noise: float
    jumps: bool = False

    @property
    def smallest(self) -> float:
        # Scores next to jumps have peaks as narrow as the posterior.
        return 2e-3 if self.jumps else 5e-5

    @cached_property
    def width(self) -> float:
        fields = normal_points(2, _SLOPE_POINTS, 1)[0]
        steps = _STEP * np.eye(2)
        slopes = [(self.link(fields + step) - self.link(fields - step)) / (2 * _STEP) for step in steps]
        steep = np.quantile(np.hypot(*slopes), _STEEP)
        return float(np.sqrt(self.noise) / max(steep, np.sqrt(self.noise)))

    @cached_property
    def size(self) -> float:
        """Values of the likelihood at fields of the prior: nodes times labels."""
        values = self.link(normal_points(2, _SLOPE_POINTS, 1)[0])
        nodes = (_LENGTH / (_OF_LIKELIHOOD * self.width)) ** 2
        return float(nodes * (np.ptp(values) / (_OF_LABELS * np.sqrt(self.noise)) + 2 * _BEYOND))

    @property
    def fast(self) -> bool:
        return self.size < _MANY

    def spacing(self, deviation: float) -> float:
        closer = np.clip(np.sqrt(self.size / _FEW[self.jumps]), _CLOSEST[self.jumps], 1.0)
        return float(min(_OF_LIKELIHOOD * self.width * closer, _OF_POSTERIOR * deviation))

    def at(self, fields: Array) -> Array:
        return self.link(fields)

    def parts(self, values: Array, mass: Array, scale: float) -> Iterator[Part]:
        order = np.argsort(values, axis=None)
        total = np.cumsum(mass.ravel()[order])
        low, high = np.searchsorted(total, (_UNSEEN, total[-1] - _UNSEEN))
        if low >= high:
            return
        lowest, highest = values.ravel()[order[[low, high]]]
        deviation = np.sqrt(self.noise)
        spacing, reach = _OF_LABELS * scale * deviation, _BEYOND * deviation
        ends = np.floor((lowest - reach) / spacing), np.ceil((highest + reach) / spacing)
        labels = spacing * np.arange(ends[0], ends[1] + 1)
        log_unit = -0.5 * float(np.log(2 * np.pi * self.noise))
        for own in np.array_split(labels, min(-(-len(labels) * values.size // _AT_ONCE), len(labels))):
            # In place: memory for temporaries takes longer than the arithmetic.
            likelihood = own[:, None, None] - values
            likelihood *= likelihood
            likelihood *= -0.5 / self.noise
            np.maximum(likelihood, _LEAST_LOG, out=likelihood)
            yield Part(np.exp(likelihood, out=likelihood), spacing * np.exp(log_unit), log_unit)


@dataclass(frozen=True)
class FewLabels(PlaneLabels):
    """Labels of few values, which jump: without noise, or with a confusion matrix.

    Args:
        shares: probabilities of all values given the fields, from shape (n, 2) to (n, values).
    """

    jumps = default_property(True, "Errors next to jumps fall like the spacing of nodes alone.")
    node_power = default_property(2, "Nodes are closer than means for the same accuracy.")
    smallest = default_property(1e-3, "Scores next to jumps have peaks as narrow as the posterior.")

    shares: Callable[[Array], Array]

    @property
    def fast(self) -> bool:
        return self.shares(np.zeros((1, 2))).shape[1] <= _MOST_VALUES

    def spacing(self, deviation: float) -> float:
        return min(_OF_VALUES, _VALUES_OF_POSTERIOR * deviation)

    def at(self, fields: Array) -> Array:
        return self.shares(fields)

    def parts(self, values: Array, mass: Array, scale: float) -> Iterator[Part]:
        del mass, scale
        yield Part(np.moveaxis(values, -1, 0), 1.0, 0.0)
