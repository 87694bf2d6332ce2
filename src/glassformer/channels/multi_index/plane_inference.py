"""Inference whose averages over data are sums over grids, for labels of two fields with noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.field_averages import Averages, Response, concatenate_averages
from glassformer.channels.multi_index.latent_channel import LatentChannel, LatentInference
from glassformer.channels.multi_index.plane_integrals import PlaneAverages, PlaneIntegrals
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import confidence_factor

# Data points per replica of the usual grids, and the power with which spacings fall with their number.
_POINTS, _POWER = 2048, 1 / 4
# Spacings of further sums over those of the first, and its error over the largest difference. Next to kinks and jumps
# two sums may agree by chance (191 of 192 random averages were within this difference).
_COARSER, _SAFETY = (1.3, 1.7), 1.5
# Posterior variance below which averages are sampled: grids would have too many nodes. Scores next to jumps have peaks
# as narrow as the posterior.
_SMALLEST = {False: 5e-5, True: 2e-3}


@dataclass(frozen=True, eq=False)
class PlaneInference(LatentInference):
    """Averages over data by :class:`~.plane_integrals.PlaneIntegrals`, where these are few; posteriors as they are.

    Errors of averages are 1.5 times the change for spacings that are 1.3 or 1.7 times as long, whichever is larger.

    Args:
        channel: channel of labels that are one number and depend on two fields.
        integrals: the sums.
    """

    channel: LatentChannel
    integrals: PlaneIntegrals

    @property
    def informed(self) -> float:
        return max(super().informed, _SMALLEST[self.integrals.jumps])

    def averages(self, variance: Array) -> Averages:
        return concatenate_averages([self._averages(v)[0] for v in np.asarray(variance, dtype=float)])

    def averages_and_slope(self, variance: Array) -> tuple[Averages, Array]:
        averages, found = self._averages(variance, slope=True)
        if found is None or found.slope is None:
            return super().averages_and_slope(variance)
        rows, columns = self.channel.fields.rows, self.channel.fields.columns
        full = found.slope.reshape((rows, columns) * 4)
        slope = np.einsum("alcmblem->abce", full).reshape(rows**2, rows**2)
        return averages, np.asarray(0.5 * (slope + slope.T))

    def averages_and_response(self, variance: Array) -> tuple[Averages, Response]:
        return self.averages(variance[None]), self.response(variance)

    def _averages(self, variance: Array, slope: bool = False) -> tuple[Averages, PlaneAverages | None]:
        """Return the averages at one covariance, and the sums over grids. None if they are sampled instead."""
        if np.linalg.eigvalsh(variance)[0] < _SMALLEST[self.integrals.jumps]:
            return super().averages(variance[None]), None
        fields = np.asarray(np.kron(variance, np.eye(self.channel.fields.columns)), dtype=float)
        scale = (_POINTS / self.points) ** _POWER
        found = self.integrals.averages(fields, slope, scale)
        others = [self.integrals.averages(fields, False, more * scale) for more in _COARSER]
        information = self._over_columns(found.information, variance)
        changes = [information - self._over_columns(one.information, variance) for one in others]
        missing = _SAFETY * np.where(np.abs(changes[0]) > np.abs(changes[1]), *changes)
        log_error = _SAFETY * max(abs(found.log_partition - one.log_partition) for one in others)
        factor = confidence_factor(REPLICAS)
        averages = Averages(
            Estimate(information[None], np.abs(missing[None]) / factor),
            Estimate(np.array([found.log_partition]), np.array([log_error / factor])),
            np.repeat(information[None, None], REPLICAS, axis=1),
            0.0,
            missing[None],
        )
        return averages, found

    def _over_columns(self, information: Array, variance: Array) -> Array:
        """Return the information summed over columns, shape (P, P), with the symmetries of the rows."""
        rows, columns = self.channel.fields.rows, self.channel.fields.columns
        summed = np.einsum("albl->ab", information.reshape(rows, columns, rows, columns))
        overlap = self.channel.fields.self_overlap - variance
        return np.asarray(self.channel.labels.row_symmetries.symmetrise(summed, overlap))
