r"""State evolution of regularised risk: fixed points of fields and of what is learned from them.

The state is the logarithm of :math:`(\tau^2, \hat m, \hat V)`; the map learns from them
(:mod:`glassformer.theory.risk.penalties`) and asks the labels (:mod:`glassformer.theory.risk.labels`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from glassformer.core.errors import IncompatibleError
from glassformer.core.integral import Array, Integral
from glassformer.core.numerics.quasi_random import confident, mean_and_error
from glassformer.core.remembered import remembered
from glassformer.core.settings import Iteration
from glassformer.core.solution import Solution, Status
from glassformer.theory.newton import newton
from glassformer.theory.risk.labels import Answers, Labels
from glassformer.theory.risk.losses import Loss
from glassformer.theory.risk.penalties import Fields, Learned, Penalty, learned
from glassformer.theory.risk.recovery import Dimension, descent_dimension

_SETTINGS = Iteration(tolerance=1e-13, floor=1e-10, max_iterations=500)
# Stands for the limit of no regularisation, which is approached in proportion to it.
_LEAST = 1e-11
# Residuals of labels, and errors, below which everything is fitted and recovered.
_NOTHING = 1e-20
# Logarithms of fields beyond are none.
_FAR = 60.0
# Sample ratios from which on a few are solved first, and how few.
_MANY, _FEW = 48, 16
# A strength that leaves next to nothing, in units of the gain.
_STRONG = 30.0
# Finer averages that move the error by a smaller share of it are as good as exact.
_AGREED = 1e-7
# Share of the largest singular value at which the search for a threshold begins.
_BEGIN = 0.5

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Problem:
    """What is minimised, on labels of which model, in the limit of large sizes."""

    model: Any
    loss: Loss
    penalty: Penalty
    seen: Labels | None = None

    def __post_init__(self) -> None:
        slope, _ = self.labels.regression
        if not slope > 0:
            text = "do not rise with their fields on average, and no convex loss of a linear fit learns from them"
            raise IncompatibleError(f"labels of channel {self.model.channel.label} {text}: E[h y] = {slope:.3g}")

    @property
    def power(self) -> float:
        """Of the teacher."""
        return float(self.model.prior.second_moment)

    @cached_property
    def labels(self) -> Labels:
        """Of the teacher, as the loss sees them: those given, or as accurate as a first look needs."""
        return self.seen or self.loss.labels_of(self.model.channel, self.power)

    def foretold(self, alpha: Array, strength: Array) -> Array:
        """Errors that are known without a search, NaN elsewhere.

        Penalties beyond the largest useful one leave nothing. The interpolator of least norm is the signal from its
        threshold on, where labels are exact; where they are not, it diverges where samples are as many as unknowns.
        """
        known = np.full(len(alpha), np.nan)
        if self.penalty.spectral > 0 and self.penalty.square == 0:
            known[strength >= largest_strength(self, alpha)] = self.power
        limit = strength == 0
        known[limit & self.recovered(alpha)] = 0.0
        if self.loss.quadratic and not self.labels.exact:
            known[limit & (alpha / self.model.prior.degrees * self.labels.components == 1)] = np.inf
        return known

    def recovered(self, alpha: Array) -> Flags:
        """Where the estimate of least norm among those that fit the labels is the signal."""
        if not self.labels.exact > 0:
            return np.zeros(alpha.shape, dtype=bool)
        return np.asarray(alpha / self.model.prior.degrees * self.labels.exact >= self.dimension.value)

    @property
    def dimension(self) -> Dimension:
        """Exact labels per unknown that the signal takes."""
        if self.penalty.spectral == 0:
            return Dimension(1.0, 0.0)
        if self.penalty.square == 0:
            return Dimension(float(self.model.prior.convex_dimension), 0.0)
        found: Dimension = remembered(self.extrapolated_dimension, "dimension", self.model.prior, self.penalty)
        return found

    def extrapolated_dimension(self) -> Dimension:
        """The same from errors at little noise."""

        def error_at(noise: Array, level: Array) -> Array:
            one = np.ones_like(noise)
            strength = level * self.model.prior.degrees / self.penalty.spectral
            return self.learned(strength, Fields(noise**2, one, one)).error

        return descent_dimension(error_at)

    def learned(self, strength: Array, fields: Fields) -> Learned:
        """From fields."""
        return learned(self.model.prior, self.penalty, strength / self.model.prior.degrees, fields)

    @staticmethod
    def noise(fields: Fields) -> Array:
        """Through which the signal is seen, the least that is told from none left out."""
        return np.where(fields.noise > _NOTHING, fields.noise, 0.0)

    def threshold(self, strength: Array, fields: Fields) -> Array:
        """By which singular values are lowered."""
        least = np.where(fields.noise > _NOTHING, np.maximum(strength, _LEAST), strength)
        return self.penalty.threshold(self.model.prior, least / self.model.prior.degrees, fields)

    def fields(self, alpha: Array, answer: Answers) -> Fields:
        """From the averages over labels, at sample ratios."""
        count = alpha / self.model.prior.degrees
        noise = np.maximum(answer.power / count / answer.gain**2, _NOTHING)
        # The proximal map of a loss with kinks may stand still where nothing is learned yet.
        stiffness = np.maximum(answer.stiffness, _LEAST * answer.gain)
        return Fields(noise, count * answer.gain, count * stiffness)


class Point(NamedTuple):
    """Fixed points, arrays of shape (batch,).

    Attributes:
        strength: of the penalty.
        fields: conjugate parameters.
        found: what is learned.
        answer: of the labels.
        status: how the iteration ended.
        residual: of the map of the logarithms of fields.
        iterations: evaluations of the map.
        error_estimate: absolute, of the error.
    """

    strength: Array
    fields: Fields
    found: Learned
    answer: Answers
    status: list[Status]
    residual: Array
    iterations: NDArray[np.int64]
    error_estimate: Array

    @classmethod
    def known(cls, problem: Problem, alpha: Array, strength: Array, error: Array) -> Point:
        """Fixed points of an error known beforehand: that of nothing learned, of all, or an infinite one."""
        none, recovered = np.zeros_like(alpha), error == 0
        overlap = np.where(error == problem.power, 0.0, problem.power)
        share = np.where(error == problem.power, 0.0, np.nan)
        found = Learned(
            overlap, np.where(recovered, problem.power, error - problem.power), none, error, share, share, none
        )
        answer = problem.labels.answers(found)
        status: list[Status] = [Status.CONVERGED] * len(alpha)
        count = np.zeros(len(alpha), dtype=np.int64)
        return cls(strength, problem.fields(alpha, answer), found, answer, status, none, count, none)

    @property
    def logarithms(self) -> Array:
        """Of the fields, shape (batch, 3)."""
        return np.log(np.stack(self.fields, axis=1))

    def at(self, rows: Any) -> Point:
        """Some of them."""

        def taken(part: Any) -> Any:
            return part[rows]

        return Point(
            self.strength[rows],
            Fields(*map(taken, self.fields)),
            Learned(*map(taken, self.found)),
            Answers(*map(taken, self.answer)),
            list(np.array(self.status, dtype=object)[rows]),
            self.residual[rows],
            self.iterations[rows],
            self.error_estimate[rows],
        )

    @classmethod
    def joined(cls, chosen: Any, first: Point, second: Point) -> Point:
        """The first where chosen, the second elsewhere."""

        def laid(one: Any, other: Any) -> Any:
            both = np.empty(len(chosen), dtype=one.dtype)
            both[chosen], both[~chosen] = one, other
            return both

        return cls(
            laid(first.strength, second.strength),
            Fields(*map(laid, first.fields, second.fields)),
            Learned(*map(laid, first.found, second.found)),
            Answers(*map(laid, first.answer, second.answer)),
            list(laid(np.array(first.status, dtype=object), np.array(second.status, dtype=object))),
            laid(first.residual, second.residual),
            laid(first.iterations, second.iterations),
            laid(first.error_estimate, second.error_estimate),
        )


def few_of(alpha: Array) -> Array:
    """Sample ratios from which many others' fixed points can be told nearly."""
    if len(alpha) < _MANY:
        return alpha
    return np.unique(np.quantile(alpha, np.linspace(0, 1, _FEW), method="nearest"))


def solved(problem: Problem, alpha: Array, strength: Array) -> Point:
    """Fixed points at sample ratios and strengths, shape (batch,).

    Where the error is foretold (:meth:`Problem.foretold`) nothing is searched for.
    """
    known = problem.foretold(alpha, strength)
    usual = np.isnan(known)
    if not usual.any():
        return Point.known(problem, alpha, strength, known)
    some = alpha[usual], np.maximum(strength[usual], _LEAST)
    point = _without_a_penalty(problem, *some, point_at(problem, *some, _interpolated(problem, *some)))
    if usual.all():
        return point
    return Point.joined(usual, point, Point.known(problem, alpha[~usual], strength[~usual], known[~usual]))


def _without_a_penalty(problem: Problem, alpha: Array, strength: Array, point: Point) -> Point:
    """Points whose errors include what four times the strength that stands for none changes."""
    none = strength <= _LEAST
    if not none.any():
        return point
    found = point.at(none)
    louder = point_at(problem, alpha[none], 4 * strength[none], found.logarithms).found.error
    blur = found.error_estimate + np.abs(louder - found.found.error)
    return Point.joined(none, found._replace(error_estimate=blur), point.at(~none))


def point_at(problem: Problem, alpha: Array, strength: Array, start: Array) -> Point:
    """Fixed points near logarithms of fields, shape (batch, 3)."""

    def step(x: Array, index: Any) -> Integral:
        good = np.all(np.abs(x) < _FAR, axis=1)
        found = problem.learned(strength[index], Fields(*np.exp(np.where(good[:, None], x, 0.0)).T))
        with np.errstate(invalid="ignore", divide="ignore"):
            new = np.log(np.stack(problem.fields(alpha[index], problem.labels.answers(found)), axis=1))
        new[~good] = np.nan
        return Integral(new, np.broadcast_to(found.blur[:, None], new.shape) / np.maximum(found.error, 1e-3)[:, None])

    solution = newton(step, start, _SETTINGS)
    fields = Fields(*np.exp(solution.value).T)
    found = problem.learned(strength, fields)
    blur = _blur(problem, strength, solution, found)
    return Point(
        np.where(strength <= _LEAST, 0.0, strength),
        fields,
        found,
        problem.labels.answers(found),
        list(solution.status),
        solution.residual,
        solution.iterations,
        blur,
    )


def refined(problem: Problem, alpha: Array, point: Point) -> Point:
    """Fixed points of finer averages over labels, until two of them agree; error estimates say how far they do not."""
    rough = point.iterations > 0
    if not rough.all() and problem.labels.finer is not None:
        known = point.at(~rough)
        known = known._replace(answer=_finest(problem.labels).answers(known.found))
        point = Point.joined(rough, point.at(rough), known)
    while rough.any() and (labels := problem.labels.finer) is not None:
        problem = replace(problem, seen=labels)
        again = point_at(problem, alpha[rough], point.strength[rough], point.logarithms[rough])
        apart = again.error_estimate + np.abs(again.found.error - point.found.error[rough])
        again = again._replace(error_estimate=apart, iterations=again.iterations + point.iterations[rough])
        point = Point.joined(rough, again, point.at(~rough))
        rough[rough] = ~(apart <= _AGREED * again.found.error)
    replicas = list(problem.labels.replicas)
    if not (replicas and rough.any()):
        return point
    found = point.at(rough)
    errors = [
        point_at(replace(problem, seen=labels), alpha[rough], found.strength, found.logarithms).found.error
        for labels in replicas
    ]
    spread = confident(len(replicas)) * mean_and_error(np.array(errors))[1]
    return Point.joined(rough, found._replace(error_estimate=spread), point.at(~rough))


def _finest(labels: Labels) -> Labels:
    while (finer := labels.finer) is not None:
        labels = finer
    return labels


def _interpolated(problem: Problem, alpha: Array, strength: Array) -> Array:
    """Starts of many sample ratios at one strength lie between the fixed points of a few."""
    few = few_of(alpha)
    if len(few) == len(alpha) or np.any(strength != strength[0]):
        return _start(problem, alpha, strength)
    known = solved(problem, few, np.full(len(few), strength[0]))
    ok = np.array([status.ok for status in known.status])
    if np.sum(ok) < _FEW // 2:
        return _start(problem, alpha, strength)
    return np.asarray(PchipInterpolator(np.log(few[ok]), known.logarithms[ok])(np.log(alpha)))


def _unlearned(problem: Problem, alpha: Array) -> Fields:
    """Fields before anything is learned."""
    nothing = Learned(*(np.zeros_like(alpha) for _ in Learned._fields))
    return problem.fields(alpha, problem.labels.answers(nothing._replace(error=np.full_like(alpha, problem.power))))


def largest_strength(problem: Problem, alpha: Array) -> Array:
    """Strength from which on the estimate is zero; for a penalty that never does that, one that is as large."""
    return _largest(problem, _unlearned(problem, alpha))


def _largest(problem: Problem, fields: Fields) -> Array:
    degrees = problem.model.prior.degrees
    if problem.penalty.spectral == 0:
        return np.asarray(_STRONG * degrees * fields.gain / problem.penalty.square)
    largest = np.nanmax(problem.model.prior.noisy_law(fields.noise).support, axis=(1, 2))
    return np.asarray(degrees * fields.gain * largest / problem.penalty.spectral)


def _start(problem: Problem, alpha: Array, strength: Array) -> Array:
    """Where nothing is learned, or where thresholds leave half of the singular values' range, if they may."""
    if problem.penalty.spectral == 0 and problem.loss.quadratic:
        return np.log(np.stack(_of_ridge(problem, alpha, strength), axis=1))
    fields = _unlearned(problem, alpha)
    if problem.penalty.spectral > 0:
        # The gain at which the threshold is that; less than all that there is.
        gain = fields.gain * np.fmin(1.0, strength / (_BEGIN * _largest(problem, fields)))
        fields = fields._replace(gain=gain, stiffness=gain)
    # More samples than unknowns need no threshold, and leave the noise of least squares.
    spare = alpha / problem.model.prior.degrees * problem.labels.components - 1
    if np.any(spare > 0):
        slope, rest = problem.labels.regression
        free = (
            problem.penalty.spectral
            * np.nan_to_num(strength)
            / problem.model.prior.degrees
            / np.maximum(spare, _NOTHING)
        )
        noise = np.clip((rest / slope**2 + free**2) / np.maximum(spare, _NOTHING), _LEAST, fields.noise)
        gain = np.maximum(fields.gain, slope * spare)
        new = (np.where(spare > 0, guess, part) for guess, part in zip((noise, gain, gain), fields, strict=True))
        fields = Fields(*new)
    return np.log(np.stack(fields, axis=1))


def _of_ridge(problem: Problem, alpha: Array, strength: Array) -> Fields:
    """Square loss and ridge in closed form, up to what a slope of the label on its field other than one changes."""
    slope, rest = problem.labels.regression
    count = alpha / problem.model.prior.degrees * problem.labels.components
    least = problem.penalty.square * strength / problem.model.prior.degrees
    half = 0.5 * (least + 1 - count)
    root = np.sqrt(half**2 + count * least)
    stiffness = np.where(half > 0, count * least / np.where(half > 0, half + root, 1.0), root - half)
    kept = stiffness / (stiffness + least)
    noise = (rest / slope**2 + (1 - kept) ** 2 * problem.power) / np.maximum(count - kept**2, _LEAST)
    return Fields(np.maximum(noise, _NOTHING), slope * stiffness, stiffness)


def _blur(problem: Problem, strength: Array, solution: Solution, found: Learned) -> Array:
    """Error of the error: that of its integrals, and what a state off by its own estimate changes."""
    total = found.blur.copy()
    off = np.minimum(solution.error_estimate, 1.0)
    for axis in range(3):
        moved = solution.value.copy()
        moved[:, axis] += 1e-4
        total += off * np.abs(problem.learned(strength, Fields(*np.exp(moved).T)).error - found.error) / 1e-4
    return np.where(np.array([status is Status.NON_FINITE for status in solution.status]), np.nan, total)
