r"""The equation of state: the curve of all fixed points of state evolution of one row.

In state evolution the sample ratio enters only in :math:`\hat q = \alpha\,E g^2(V)`, not in
:math:`V = \mathrm{MMSE}(\hat q)`. So every fixed point lies on the curve

.. math:: \alpha(\hat q) = \frac{\hat q}{E g^2(\mathrm{MMSE}(\hat q))},

which needs no iteration. Where the curve decreases, two stable fixed points coexist. Several rows have no such curve:
covariances have no total order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike

from glassformer.core.cache import memoize
from glassformer.core.checks import real_numbers
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array, Estimate
from glassformer.models import Model
from glassformer.models.base import counting_threshold, require_theory

# Points of the curve per decade of q_hat and around every extremum, and subdivisions of a cell in which the curve is
# inverted (chosen by trial).
_PER_DECADE, _AROUND, _CELL_STEPS = 11, 200, 32
# Smallest relative change of alpha at an extremum: smaller changes are rounding errors.
_TURN = 1e-7
# Share of the information about a known signal beyond which the curve is monotone (chosen by trial).
_SATURATED = 0.9
# The information follows a power law of the variance if its exponent over two decades exceeds the second number, and
# if the exponent over two further decades is larger than the third number times that (chosen by trial).
_EXPONENT_DECADES, _SMALLEST_EXPONENT, _STEADY = 2.0, 0.05, 0.9


@dataclass(frozen=True)
class StateCurve:
    r"""Points of the equation of state, in the order of increasing :math:`\hat q`; arrays of shape (points,).

    Attributes:
        q_hat: :math:`\hat q > 0`.
        alpha: sample ratio of the fixed point.
        variance: :math:`V = 1 - q` at the fixed point.
        error: absolute error of ``alpha``.
    """

    q_hat: Array
    alpha: Array
    variance: Array
    error: Array

    def extremum(self, index: int) -> tuple[float, float]:
        """Return ``alpha`` at the extremum next to a point, and its error: the vertex of a parabola in log q_hat."""
        if not 2 <= index < len(self.alpha) - 2 or not np.isfinite(self.alpha[index - 2 : index + 3]).all():
            return float(self.alpha[index]), float(self.error[index])
        t, nearby = np.log(self.q_hat), self.alpha[index]
        stencils = index + np.array([-1, 0, 1]), index + np.array([-2, 0, 2])
        near, wide = (_vertex(t[stencil], self.alpha[stencil] - nearby) for stencil in stencils)
        return float(nearby + near), float(abs(near - wide) + self.error[index])

    def variance_at(self, alpha: Array, cell: Array) -> Array:
        """Return the variance where the curve crosses ``alpha`` between ``cell - 1`` and ``cell``, interpolated."""
        t = np.log(self.q_hat)
        # Points without information have infinite ratios; variances of discrete weights may round to zero.
        known = np.isfinite(self.alpha) & (self.variance > 0)
        # Monotone cubic interpolation is local: the result does not depend on the end of the curve.
        curve = np.log([self.alpha[known], self.variance[known]])
        spline = scipy.interpolate.PchipInterpolator(t[known], curve, axis=1)
        share = np.linspace(0, 1, _CELL_STEPS + 1)
        fine = spline(t[cell - 1, None] + (t[cell] - t[cell - 1])[:, None] * share)
        level, rise = np.log(alpha)[:, None], np.sign(fine[0, :, -1:] - fine[0, :, :1])
        step = np.clip(np.sum(rise * (fine[0] - level) < 0, axis=1), 1, _CELL_STEPS)
        (a, b), (v, w) = (np.take_along_axis(x, step[:, None] + [-1, 0], axis=1).T for x in fine)
        with np.errstate(divide="ignore", invalid="ignore"):
            position = np.clip(np.nan_to_num((level[:, 0] - a) / (b - a)), 0, 1)
        return np.where(known[cell], np.exp(np.minimum(v + position * (w - v), 0.0)), self.variance[cell - 1])


def _vertex(t: Array, value: Array) -> float:
    """Return the height of the vertex of the parabola through three points."""
    left, right = (value[1] - value[0]) / (t[1] - t[0]), (value[2] - value[1]) / (t[2] - t[1])
    bend = (right - left) / (t[2] - t[0])
    slope = left + bend * (t[1] - t[0])
    return float(value[1] - slope**2 / (4 * bend)) if bend != 0 else float(value[1])


def equation_of_state(model: Model, q_hat: ArrayLike) -> StateCurve:
    r"""Return the fixed points with given :math:`\hat q > 0`, and their sample ratios.

    Equation :eq:`equation-of-state` of the documentation.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> equation_of_state(BilinearSequenceRegression(rho=np.inf, noise=0.5), np.array([1.0])).alpha
        array([1.])
    """
    q_hat = real_numbers("q_hat", q_hat).ravel()
    for value in q_hat[q_hat <= 0]:
        raise ParameterError("q_hat", float(value), "> 0")
    variance, variance_error = mmse(model, q_hat)
    # The variance of discrete signals falls exponentially, below the smallest floating-point number.
    positive = np.maximum(variance, np.finfo(float).tiny)
    information, information_error = information_at(model, positive)
    with np.errstate(divide="ignore", invalid="ignore"):
        alpha = model.prior.degrees * q_hat / information
        relative = information_error / information + variance_error / positive
    return StateCurve(q_hat, alpha, variance, np.abs(alpha * relative))


def mmse(model: Model, q_hat: Array) -> Estimate:
    r"""Return :math:`\mathrm{MMSE}(\hat q)` of a model of one row, shape (batch,)."""
    require_theory(model)
    precision = q_hat[:, None, None]
    return Estimate(*map(np.ravel, model.prior.covariance(Estimate(precision, np.zeros_like(precision)))))


def information_at(model: Model, variance: Array) -> Estimate:
    """Return the information of a channel of one row at posterior variances, shape (batch,)."""
    require_theory(model)
    return Estimate(*map(np.ravel, model.channel.inference.information(variance[:, None, None])))


def resolved_curve(model: Model, most: float = np.inf) -> StateCurve:
    """Return the equation of state on a grid that is dense around its extrema, the ends of a hard phase.

    Args:
        model: of one row.
        most: largest sample ratio of interest.
    """
    return curve_and_model(model, most)[1]


def curve_and_model(model: Model, most: float) -> tuple[Model, StateCurve]:
    """Return the memoized curve, and the model that it was computed with, equal to the given one.

    Averages of a link are interpolated, within their error, once many have been computed. Results therefore depend on
    the model object, and with the object of the curve they do not depend on whether the curve was in memory.
    """
    decades = _decades(model, most)
    stored: tuple[Model, StateCurve] = memoize(
        lambda: (model, _refined_curve(model, decades)), "equation of state", model, decades
    )
    return stored


def _refined_curve(model: Model, decades: int) -> StateCurve:
    # A longer curve begins with the points of a shorter one.
    grid = overlap_grid(model, _PER_DECADE * (6 + decades) + 1, largest=10.0**decades)
    curve = equation_of_state(model, grid)
    # Points after the first one of zero variance are the same fixed point.
    distinct = np.append(True, curve.variance[:-1] > 0)
    curve = StateCurve(*(field[distinct] for field in vars(curve).values()))
    with np.errstate(invalid="ignore"):  # differences of infinite ratios
        rises = np.diff(curve.alpha) > 0
        large = np.abs(np.diff(curve.alpha[1:])) > _TURN * curve.alpha[1:-1]
    turns = 1 + np.flatnonzero((rises[1:] != rises[:-1]) & large)
    if turns.size == 0:
        return curve
    q_hat = curve.q_hat
    extra = np.concatenate([np.geomspace(q_hat[i - 1], q_hat[i + 1], _AROUND)[1:-1] for i in turns])
    around = equation_of_state(model, extra)
    _, order = np.unique(np.concatenate([q_hat, extra]), return_index=True)
    fields = zip(vars(curve).values(), vars(around).values(), strict=True)
    return StateCurve(*(np.concatenate(pair)[order] for pair in fields))


def _decades(model: Model, ratio: float) -> int:
    """Return the number of decades of q_hat, above one per degree of freedom, that a sample ratio may reach.

    If noise limits the information, its value at a known signal bounds q_hat at this ratio.
    """
    most = information_at(model, np.array([1e-12])).value[0]
    needed = ratio * most / (model.prior.degrees * natural_scale(model))
    for decades in range(2, 12):
        if needed < 10.0**decades:
            return decades
        if information_at(model, np.array([10.0**-decades])).value[0] > _SATURATED * most:
            return decades + 1
    return 12


def perfect_end(model: Model) -> float:
    r"""Return the limit of the equation of state at perfect overlap, :math:`\hat q\to\infty`.

    A continuous signal has :math:`V \simeq \mathrm{dimension}/\hat q`, and the limit is the counting threshold. The
    variance of a discrete signal falls exponentially. If the information then grows like a power of :math:`1/V`, the
    limit is zero, and the exact signal is a stable fixed point at every :math:`\alpha > 0`; if noise bounds the
    information, the limit is infinite. The power is measured at the smallest variances that the channel allows.

    Example:
        >>> from glassformer import SequenceMultiIndex
        >>> perfect_end(SequenceMultiIndex(lambda z: np.sign(z[0, 0]), 1, 1, prior="rademacher"))
        0.0
    """
    if model.prior.mmse_dimension != 0:
        return counting_threshold(model)
    if model.channel.labels.rank > 0:
        return 0.0
    factor = 10.0**_EXPONENT_DECADES
    information = information_at(model, model.channel.inference.smallest * factor ** np.arange(3.0)).value
    near, far = -np.diff(np.log(information)) / np.log(factor)
    diverges = near > _SMALLEST_EXPONENT and near > _STEADY * far
    return 0.0 if diverges else counting_threshold(model)


def overlap_grid(model: Model, points: int, smallest: float = 1e-6, largest: float = 1e8) -> Array:
    r"""Return values of :math:`\hat q` above the onset of the prior, logarithmic, for overlaps from 0 to almost 1."""
    prior = model.prior
    return prior.weak_recovery_onset + natural_scale(model) * np.geomspace(smallest, largest, points)


def natural_scale(model: Model) -> float:
    r"""Return :math:`\hat q` for one unit of information per degree of freedom; for discrete signals, per entry."""
    dimension = model.prior.mmse_dimension
    return dimension if dimension > 0 else 1.0
