"""A penalised problem over its inputs: what it asks for, its minimiser and its intercept at any strength."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from glassformer.core.errors import DataError, ParameterError
from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution
from glassformer.learners.algorithms.proximal_gradient import Scale, least_risk, scale_of
from glassformer.learners.algorithms.risk import Risk
from glassformer.learners.algorithms.several_classes import BestConstants, best_constants
from glassformer.learners.algorithms.weighted_loss import BestShift, Constant, Weighted
from glassformer.numerics.decompositions import singular_values
from glassformer.risk.loss_base import Loss
from glassformer.risk.losses import loss_of
from glassformer.risk.penalties import Penalty, penalty_of

# Margin of the largest useful strength for rounding.
_EDGE = 1 + 1e-6


class PenalisedFit(NamedTuple):
    """One penalised problem over its inputs, at any strength."""

    design: Any
    labels: Array
    loss: Loss
    penalty: Penalty
    intercept: bool
    scale: Scale | None = None

    def at(self, strength: float, loss: Loss | None = None) -> Risk:
        rows, columns = self.design.signal_shape[-2:]
        unit = 1.0 if self.penalty.positive else float(rows * columns) ** 0.25
        spectral, square = strength * self.penalty.spectral * unit, strength * self.penalty.square
        return Risk(self.design, self.labels, loss or self.loss, spectral, square, self.penalty.positive)

    def best_intercept(self, fields: Array) -> Any:
        """The constant that, added to the fields, makes the loss least; of several fields one each."""
        if not self.intercept:
            return 0.0
        if fields.ndim > 1:
            return best_constants(self.loss, self.labels, fields, np.zeros(fields.shape[1]))

        def pull(shift: float) -> float:
            return float(np.sum(_slopes(self.loss, self.labels, fields + shift)))

        reach = 1.0 + float(np.max(np.abs(fields))) + float(np.max(np.abs(self.labels)))
        for _ in range(20):
            if pull(-reach) < 0 < pull(reach):
                return float(brentq(pull, -reach, reach, xtol=1e-10 * reach))
            reach *= 2
        return reach if pull(-reach) < 0 else -reach

    def solved(self, strength: float, start: Array, shift: Any, settings: Iteration) -> tuple[Solution, Any]:
        """Estimate and intercept, both at once."""
        if not self.intercept:
            return least_risk(self.at(strength), settings, start, self.scale), 0.0
        if self.labels.ndim > 1:
            found = least_risk(
                self.at(strength, BestConstants(self.loss, np.zeros(self.labels.shape[1]))), settings, start, self.scale
            )
            return found, self.best_intercept(self.design.forward(found.value[0], 0))
        nearby = Constant(float(shift))
        loss = BestShift(self.loss, nearby)
        found = least_risk(self.at(strength, loss), settings, start, self.scale)
        # The constant that the certificate is about.
        loss.value(self.labels, self.design.forward(found.value[0], 0))
        return found, nearby.value

    @property
    def largest_strength(self) -> float:
        """The strength from which on the estimate is zero; of ridge, that of the loss along the strongest direction."""
        one = self.at(1.0)
        if one.spectral == 0:
            assert self.scale is not None
            bend = self.loss.sharpness if np.isfinite(self.loss.sharpness) else 1.0
            return float(self.scale.largest * bend / one.square)
        nothing = np.zeros_like(self.labels)
        slopes = _slopes(self.loss, self.labels, nothing + self.best_intercept(nothing))
        pull = float(np.max(singular_values(self.design.adjoint(slopes, 0))))
        return _EDGE * (pull or 1.0) / one.spectral


def prepared(
    design: Any, labels: ArrayLike, loss: Any, penalty: str, intercept: bool, weights: ArrayLike | None
) -> PenalisedFit:
    """The problem of these samples, those of weight zero left out.

    Raises:
        DataError: labels that do not match the inputs, or that the loss does not take.
        ParameterError: an unknown loss or penalty, or weights out of range.
    """
    own, y = loss_of(loss), np.asarray(labels, dtype=float)
    if y.shape != tuple(design.field_shape):
        raise DataError("y", y.shape, f"a shape {tuple(design.field_shape)} that matches X")
    if not np.all(np.isfinite(y)):
        raise DataError("y", "<labels>", "finite entries", "remove or repair the samples")
    if own.binary and not np.all(np.abs(y) == 1):
        raise DataError("y", float(y[np.abs(y) != 1][0]), f"+1 or -1, the labels of loss {own.name}")
    w = weights_of(weights, len(y))
    if np.any(w == 0):
        design, y, w = design.rows(w > 0), y[w > 0], w[w > 0]
    if np.any(w != 1):
        own = Weighted(own, w.reshape(-1, *[1] * (y.ndim - 1)))
    fit = PenalisedFit(design, y, own, penalty_of(penalty), intercept)
    return fit._replace(scale=scale_of(fit.at(1.0)))


def weights_of(weights: ArrayLike | None, samples: int) -> Array:
    """Weights of the samples; ones by default."""
    w = np.ones(samples) if weights is None else np.asarray(weights, dtype=float)
    if w.shape != (samples,) or not np.all(np.isfinite(w)) or np.any(w < 0) or not np.any(w > 0):
        raise ParameterError("weights", weights, f"{samples} numbers >= 0, one per sample, not all of them zero")
    return w


def _slopes(loss: Loss, labels: Array, fields: Array) -> Array:
    """Slopes of the loss; of one with kinks, those of a narrow envelope."""
    if np.isfinite(loss.sharpness):
        return loss.slope(labels, fields)
    return -loss.score(labels, fields, 1e-6)[0]
