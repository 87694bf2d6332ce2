r"""Descent on a regularised risk (:mod:`~glassformer.learners.algorithms.risk`) to a certified minimum.

Accelerated proximal steps follow the slope of the loss, or of its envelope where the loss has kinks, then the proximal
map of the penalty, with momentum that restarts where it leads uphill. An envelope whose own gap is closed is followed
by one around the slopes that it found (an augmented Lagrangian), which is as wide unless little was gained: the
minimum is reached at a width that is not small, and steps stay long. Where the whole risk is smooth, conjugate slopes
come closer in fewer products: fields along a line are linear, so its lowest point costs none.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from glassformer.core.estimate import Array
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.learners.algorithms.risk import Certificate, Risk


@dataclass(frozen=True)
class Policy:
    """How steps are sized, losses with kinks smoothed, and gaps looked at."""

    power: int = 30  # steps of the power method
    margin: float = 1.05  # its margin
    look: int = 10  # steps between looks at the gap
    wide: float = 1.0  # width of the first envelope of a loss with kinks
    narrower: float = 0.2  # factor of one that follows a share of the gap that was too much to be left over
    slowly: float = 0.5  # that share
    solved: float = 0.6  # share of the gap at which that of an envelope counts as closed
    longer: float = 1.05  # by which steps grow where a loss bends less than it may
    close: float = 1e-3  # to which share the lowest point of a line is found
    doublings: int = 60  # of a safe length within which it lies


_POLICY = Policy()


_NONE = Certificate(np.inf, np.inf, np.inf)


@dataclass
class _Best:
    matrix: Array
    certificate: Certificate = _NONE

    @property
    def gap(self) -> float:
        return self.certificate.gap


@dataclass
class _Pace:
    """Steps as long as the loss bends little between the points where its slopes were taken.

    The curvature that is safe everywhere is that of the sharpest samples; most are told apart by far and bend less.
    Envelopes of kinks bend most where they are: their steps stay as they are.

    Attributes:
        safe: step that leads downhill anywhere.
        unit: of the metric.
        longer: by how much a step may be longer than the one before.
        times: of the safe step, that is taken.
        last: the point before, its fields and its slopes.
    """

    safe: float
    unit: float
    longer: float
    times: float = 1.0
    last: tuple[Array, Array, Array] | None = None

    def at(self, point: Array, fields: Array, slopes: Array) -> float:
        """The step to take from this point."""
        if self.last is not None:
            moved = point - self.last[0]
            away = self.unit * float(np.vdot(moved, moved))
            bend = self.safe * float(np.vdot(fields - self.last[1], slopes - self.last[2]))
            allowed = away / bend if bend > 0 else np.inf
            self.times = max(1.0, min(self.longer * self.times, allowed))
        self.last = point, fields, slopes
        return self.times * self.safe


class Scale(NamedTuple):
    """What all risks over the same inputs share.

    Attributes:
        largest: square of the largest singular value of the inputs, times the roots of the weights, with a margin.
        unit: of the metric.
    """

    largest: float
    unit: float


def least_risk(risk: Risk, settings: Iteration, start: Array | None = None, scale: Scale | None = None) -> Solution:
    r"""The minimiser of a regularised risk.

    Equation :eq:`regularised-risk` of the documentation.

    Args:
        risk: what is minimised.
        settings: ``tolerance`` is the duality gap, relative to the risk of an estimate of zero, at which a solution is
            accepted; iteration limit.
        start: where to begin, for instance the minimiser at another strength; zero by default.
        scale: :func:`scale_of` the inputs, where many risks share it.

    Returns:
        :class:`~glassformer.core.solution.Solution` with ``value`` of shape (1, L, d); ``residual`` and
        ``error_estimate`` are the certified relative duality gap; ``extra`` holds the ``risk``.

    Example:
        >>> from glassformer.designs.dense import DenseDesign
        >>> from glassformer.risk.losses import Logistic
        >>> rng = np.random.default_rng(0)
        >>> design = DenseDesign.sample(150, (10, 10), rng)
        >>> labels = np.sign(design.forward(np.outer(rng.standard_normal(10), rng.standard_normal(10)), 0))
        >>> found = least_risk(Risk(design, labels, Logistic(), 0.5, 0.0), Iteration(tolerance=1e-6))
        >>> str(found.status[0]), bool(found.residual[0] <= 1e-6)
        ('converged', True)
    """
    shape = risk.design.signal_shape
    x = np.zeros(shape) if start is None else np.array(start, dtype=float)
    if risk.smooth:
        return _conjugate_slopes(risk, settings, x, risk.unit(_direction(risk)) if scale is None else scale.unit)
    size, unit = scale_of(risk) if scale is None else scale
    width = _POLICY.wide if np.isinf(risk.loss.sharpness) else 0.0
    best, history, around, left = _Best(x), [], np.zeros(1), np.inf
    pace, y, momentum = _Pace(1 / (_bend(risk, width) * size), unit, _longer(risk)), x, 1.0
    before = seen = risk.design.forward(x, 0)
    of_zero = risk.of_zero(seen)
    for count in range(settings.max_iterations):
        slopes = risk.slopes(seen, width, around)
        step = pace.at(y, seen, slopes)
        new, kept = risk.shrunk(y - step * risk.design.adjoint(slopes, 0), step)
        fields = risk.design.forward(new, 0)
        if count % _POLICY.look == 0 or count == settings.max_iterations - 1:
            here = risk.gaps(new, kept, fields, unit, width, of_zero, around)
            history.append(here.gap)
            if here.gap < best.gap:
                best = _Best(new, here)
            if best.gap <= settings.tolerance:
                break
            if width and here.closer < _POLICY.solved * here.gap:
                around = risk.slopes(fields, width, around)
                width, left = width * (_POLICY.narrower if here.gap > _POLICY.slowly * left else 1.0), here.gap
                pace, momentum = _Pace(1 / (_bend(risk, width) * size), unit, 1.0), 1.0
        following = (1 + sqrt(1 + 4 * momentum**2)) / 2
        moved = new - x
        if np.vdot(y - new, moved) > 0:
            # Momentum leads uphill: it begins anew.
            following, momentum = 1.0, 1.0
        ahead = (momentum - 1) / following
        y, seen = new + ahead * moved, fields + ahead * (fields - before)
        x, before, momentum = new, fields, following
    return _solution(best.matrix, best.certificate, settings, count + 1, history)


def _conjugate_slopes(risk: Risk, settings: Iteration, x: Array, unit: float) -> Solution:
    r"""The same of a smooth risk, whose gap a slope ``g`` bounds by :math:`|g|^2/(2w_2)`."""
    fields = risk.design.forward(x, 0)
    of_zero = risk.of_zero(fields)
    here, history = _NONE, []
    way, before = np.zeros_like(x), np.zeros_like(x)
    for _ in range(settings.max_iterations):
        slope = risk.design.adjoint(risk.slopes(fields, 0.0), 0) + risk.square * x
        history.append(unit * float(np.sum(slope**2)) / (2 * risk.square * of_zero))
        if history[-1] <= settings.tolerance:
            # The fields of the matrix itself, without the rounding of all steps that led there.
            fields = risk.design.forward(x, 0)
            here = risk.gaps(x, np.zeros(0), fields, unit, 0.0, of_zero)
            if here.gap <= settings.tolerance:
                break
        way = _conjugate(slope, before, way) * way - slope
        ahead = risk.design.forward(way, 0)
        length = _lowest(risk, unit, (x, fields), (way, ahead))
        if length == 0:
            break
        x, fields, before = x + length * way, fields + length * ahead, slope
    if here.gap > settings.tolerance:
        here = risk.gaps(x, np.zeros(0), risk.design.forward(x, 0), unit, 0.0, of_zero)
    return _solution(x, here, settings, len(history), history)


def _conjugate(slope: Array, before: Array, way: Array) -> float:
    """How much of the last way goes on in the next one (Hestenes and Stiefel); none where that would lead uphill."""
    change = slope - before
    bend = float(np.vdot(way, change))
    share = float(np.vdot(slope, change)) / bend if bend > 0 else 0.0
    return share if share > 0 and share * np.vdot(way, slope) < np.vdot(slope, slope) else 0.0


def _lowest(risk: Risk, unit: float, start: tuple[Array, Array], way: tuple[Array, Array]) -> float:
    """How far to go from a point and its fields along a way and its fields; zero where rounding is all that is left."""
    (x, fields), (along, ahead) = start, way
    pull = unit * risk.square * float(np.vdot(x, along))
    bend = unit * risk.square * float(np.vdot(along, along))

    def rise(length: float) -> float:
        return float(np.vdot(ahead, risk.slopes(fields + length * ahead, 0.0))) + pull + length * bend

    # The loss bends at most as its sharpness: a length that is hardly too long, and the unit of all others.
    sharpest = risk.loss.sharpness * float(np.vdot(ahead, risk.loss.weights * ahead)) + bend
    safe = -rise(0.0) / sharpest
    if not safe > 0:
        return 0.0
    near, far = 0.0, 1.0
    for _ in range(_POLICY.doublings):
        if rise(far * safe) >= 0:
            return safe * float(brentq(lambda times: rise(times * safe), near, far, rtol=_POLICY.close))
        near, far = far, 2 * far
    return safe * near


def _solution(matrix: Array, here: Certificate, settings: Iteration, steps: int, history: list[float]) -> Solution:
    status = Status.CONVERGED if here.gap <= settings.tolerance else Status.ITERATION_LIMIT
    left, extra = np.array([here.gap]), {"risk": np.array([here.risk])}
    return Solution(matrix[None], [status], left, np.array([steps]), left, np.array(history)[:, None], extra)


def _longer(risk: Risk) -> float:
    """By how much steps may grow: half a square bends alike everywhere, and envelopes of kinks most where they are."""
    return _POLICY.longer if np.isfinite(risk.loss.sharpness) and not risk.loss.steady else 1.0


def _bend(risk: Risk, width: float) -> float:
    """Largest curvature of the loss, or of its envelope."""
    return 1 / width if width else risk.loss.sharpness


def scale_of(risk: Risk) -> Scale:
    """Square of the largest singular value of the weighted inputs, by the power method, and the unit of the metric."""
    v = _direction(risk)
    unit = risk.unit(v)
    value = 1.0
    for _ in range(_POLICY.power):
        v = risk.design.adjoint(risk.loss.weights * risk.design.forward(v, 0), 0)
        value = float(np.linalg.norm(v))
        if value == 0:
            # Inputs that are zero bend nothing: any step does.
            return Scale(1.0, unit)
        v /= value
    return Scale(_POLICY.margin * value, unit)


def _direction(risk: Risk) -> Array:
    """That no inputs are blind to."""
    v = np.random.default_rng(0).standard_normal(risk.design.signal_shape)
    return np.asarray(v + np.swapaxes(v, -1, -2) if risk.positive else v)
