"""Inference whose averages over data are sums over grids, for labels of two fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from glassformer.channels.base import Inference
from glassformer.channels.field_averages import Averages, Response, concatenate_averages
from glassformer.channels.multi_index.latent_channel import LatentChannel, LatentInference
from glassformer.channels.multi_index.plane_integrals import PlaneAverages, PlaneIntegrals
from glassformer.channels.multi_index.plane_labels import PlaneLabels
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.estimate import Array, Estimate
from glassformer.numerics.quasi_random import confidence_factor

# Data points per replica of the usual grids, and the power of their number with which sums become finer.
_POINTS, _POWER = 2048, 1 / 4
# The coarsest sums, which take some milliseconds; those that jump by a share of their error from one covariance to the
# next, and the factor of their errors by which iterations do not follow such jumps.
_COARSEST, _ROUGH, _ROUGHNESS = 0.5, 0.6, 4.0
# Spacings of sums over those of the first, and its error over the largest difference. Next to kinks and jumps two sums
# may agree by chance: these errors covered 168 of 168 averages, of twelve links at random covariances.
_SCALES, _SAFETY = (1.0, 2**0.5, 2**0.75), 1.5


@dataclass(frozen=True, eq=False)
class PlaneInference(LatentInference):
    """Averages over data by :class:`~.plane_integrals.PlaneIntegrals`; posteriors of data points as they are.

    At very small variances, where grids would have many nodes, averages are sampled as well.

    Errors of averages are 1.5 times the change for spacings that are 1.4 or 1.7 times as long, whichever is larger.

    Args:
        channel: channel of labels that are one number and depend on two fields.
        integrals: the sums.
    """

    channel: LatentChannel
    integrals: PlaneIntegrals

    @property
    def informed(self) -> float:
        return max(super().informed, self.integrals.labels.smallest)

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
        return Inference.averages_and_response(self, variance)

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        """Return errors on new labels; the share of wrong labels without noise is a sum over grids."""
        facts = self.channel.labels
        if not (facts.discrete and decisions and facts.noise == 0 and all(map(self._has_sums, variance))):
            return super().label_errors(variance, last_layer, decisions)
        errors = super().label_errors(variance, last_layer, False)
        of_state = [
            [np.asarray(1 - self.integrals.certainty(self._of_fields(v), self._fineness, scale)) for scale in _SCALES]
            for v in variance
        ]
        errors["label_error"] = np.array([first for first, *_ in of_state])
        factor = confidence_factor(REPLICAS)
        errors["label_standard_error"] = np.array([_error(first, *others) / factor for first, *others in of_state])
        return errors

    @property
    def _fineness(self) -> float:
        return float(max((self.points / _POINTS) ** _POWER, _COARSEST))

    def _has_sums(self, variance: Array) -> bool:
        """Return whether grids have few nodes at a covariance."""
        return bool(np.linalg.eigvalsh(variance)[0] >= self.integrals.labels.smallest)

    def _of_fields(self, variance: Array) -> Array:
        """Return the covariance of both fields from that of the rows."""
        return np.asarray(np.kron(variance, np.eye(self.channel.fields.columns)), dtype=float)

    def _averages(self, variance: Array, slope: bool = False) -> tuple[Averages, PlaneAverages | None]:
        """Return the averages at one covariance, and the sums over grids. None if they are sampled instead."""
        if not self._has_sums(variance):
            return super().averages(variance[None]), None
        fields, fineness = self._of_fields(variance), self._fineness
        # Slopes of the finest sums alone.
        sums = [self.integrals.averages(fields, slope and scale == 1, fineness, scale) for scale in _SCALES]
        information, *others = (self._over_columns(one.information, variance) for one in sums)
        missing = _error(information, *others) * (_ROUGHNESS if self._fineness < _ROUGH else 1.0)
        log_partition, *others_log = (np.asarray(one.log_partition) for one in sums)
        factor = confidence_factor(REPLICAS)
        averages = Averages(
            Estimate(information[None], missing[None] / factor),
            Estimate(log_partition[None], _error(log_partition, *others_log)[None] / factor),
            np.repeat(information[None, None], REPLICAS, axis=1),
            0.0,
            missing[None],
        )
        return averages, sums[0]

    def _over_columns(self, information: Array, variance: Array) -> Array:
        """Return the information summed over columns, shape (P, P), with the symmetries of the rows."""
        rows, columns = self.channel.fields.rows, self.channel.fields.columns
        summed = np.einsum("albl->ab", information.reshape(rows, columns, rows, columns))
        overlap = self.channel.fields.self_overlap - variance
        return np.asarray(self.channel.labels.row_symmetries.symmetrise(summed, overlap))


def plane_inference(channel: LatentChannel, labels: PlaneLabels) -> LatentInference:
    """Return sums over grids where labels are one number that depends on two fields; else sampled averages."""
    if channel.latents == 2 and channel.labels.shape == () and labels.fast:
        return PlaneInference(channel, PlaneIntegrals(labels))
    return LatentInference(channel)


def _error(found: Array, *others: Array) -> Array:
    """Return the error of sums, from those of longer spacings."""
    return np.asarray(_SAFETY * np.max(np.abs(np.asarray(others) - found), axis=0))
