r"""Sample ratios at which what the minimiser of a regularised risk does begins to differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

from glassformer.models.base import Model
from glassformer.numerics.roots import root_by_growth
from glassformer.risk.limits import solvable
from glassformer.risk.loss import Loss
from glassformer.risk.penalties import Fields, Penalty
from glassformer.risk.problem import Problem
from glassformer.state_evolution.thresholds import Threshold, Thresholds


@dataclass(frozen=True)
class Search:
    """Where thresholds are looked for."""

    ratios: tuple[float, float] = (-5.0, 5.0)  # logarithms of sample ratios to begin with
    noises: tuple[float, float] = (-5.0, 5.0)  # logarithms of the noise in units of the teacher's power, to begin with
    bounds: tuple[float, float] = (-150.0, 700.0)  # between which double precision holds them, and what is made of them
    resolved: tuple[float, float] = (-30.0, 40.0)  # noises between which degrees of freedom change beyond rounding
    before: float = 2.0  # from the degrees of freedom this far from there to those there, an error of their limit
    root: float = 1e-12  # relative error of one
    margins: tuple[float, float] = (-60.0, 0.0)  # weights of a margin between which the best one lies


_POLICY = Search()


def risk_thresholds(model: Model, loss: Loss, penalty: Penalty, strength: float | None) -> Thresholds:
    r"""Where the minimiser of a regularised risk begins to learn, ceases to fit its labels, and is the signal.

    Equation :eq:`interpolation` of the documentation.

    ``weak_recovery``: with fewer samples a penalty of this strength leaves an estimate of zero. ``interpolation``: with
    fewer samples some matrix fits all labels (square loss), or tells labels +1 and -1 apart without a mistake (losses
    of those); without a penalty the loss vanishes there. For square loss it is the sample ratio at which the degrees
    of freedom of the fit are as many as labels; for binary labels
    :math:`1/\alpha = \min_{c\le 0}E\,(Z + c\,y h)_+^2` with ``Z`` standard normal.
    ``perfect_recovery``: the error of the
    interpolator of exact labels is zero; any other penalty biases.

    Args:
        model: of the teacher.
        loss: convex, of :mod:`glassformer.risk.losses`.
        penalty: weights, of :mod:`glassformer.risk.penalties`.
        strength: :math:`\lambda\ge 0`; None for the best one.

    Raises:
        IncompatibleError: the model, loss and penalty do not go together.

    Source: derived here; for binary labels Sur and Candes, arXiv:1803.06964.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> from glassformer.risk.losses import Square
        >>> from glassformer.risk.penalties import penalty_of
        >>> model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
        >>> round(risk_thresholds(model, Square(), penalty_of("nuclear"), 0.0)["perfect_recovery"].alpha, 6)
        0.725255
    """
    problem = solvable(model, loss, penalty, strength)
    entries = (_begins(problem, strength), _interpolates(problem), _recovers(problem, strength))
    reason = "the risk is convex: one minimum"
    return Thresholds(model.name, model.parameters, entries, False, reason)


def _begins(problem: Problem, strength: float | None) -> Threshold:
    """The sample ratio at which a strength is the largest useful one."""
    name = "weak_recovery"
    if strength is None or strength == 0 or problem.penalty.spectral == 0:
        return Threshold(name, 0.0, 0.0, "any data move the estimate")

    def excess(ratio: float) -> float:
        return float(np.log(problem.largest_strength(np.exp([ratio]))[0] / strength))

    return _root(name, excess, _POLICY.ratios, "with fewer samples the penalty leaves an estimate of zero")


def _interpolates(problem: Problem) -> Threshold:
    name = "interpolation"
    if problem.loss.quadratic:
        return _fitted(problem, name)
    if problem.labels.binary and problem.loss.binary:
        return _told_apart(problem, name)
    return Threshold(name, np.nan, 0.0, f"no equation is known of where loss {problem.loss.name} can reach zero")


def _fitted(problem: Problem, name: str) -> Threshold:
    """Where the degrees of freedom of a fit without a penalty are as many as labels."""
    slope, rest = problem.labels.regression
    if rest == 0:
        return Threshold(name, np.inf, 0.0, "exact linear labels are fitted at any number")
    note = "with fewer samples all labels can be fitted: degrees of freedom = labels"
    per_ratio = problem.labels.components / problem.model.prior.degrees
    if not problem.penalty.positive:
        return Threshold(name, 1 / per_ratio, 0.0, note)

    def count(noise: float) -> tuple[float, float]:
        found = problem.learned(np.zeros(1), Fields(*np.exp([[noise], [0.0], [0.0]])))
        return float(found.degrees[0]), float(found.error[0])

    def excess(noise: float) -> float:
        degrees, error = count(noise)
        return float(np.log(degrees) + noise - np.log(rest / slope**2 + error))

    root = root_by_growth(excess, *_POLICY.noises, bounds=_POLICY.resolved, xtol=_POLICY.root)
    noise = float(np.clip(root, *_POLICY.resolved))
    degrees, _ = count(noise)
    error = 1e-9 * degrees
    if np.isinf(root):
        error += abs(degrees - count(noise - np.copysign(_POLICY.before, root))[0])
    return Threshold(name, degrees / per_ratio, error / per_ratio, note)


def _told_apart(problem: Problem, name: str) -> Threshold:
    """Where labels +1 and -1 cease to be told apart by some matrix."""
    margin, chance = problem.labels.margins()

    def left(pull: float) -> float:
        t = pull * margin
        return float(np.sum(chance * ((1 + t**2) * ndtr(t) + t * np.exp(-0.5 * t**2) / np.sqrt(2 * np.pi))))

    found = minimize_scalar(left, bounds=_POLICY.margins, method="bounded", options={"xatol": 1e-10})
    if found.x < 0.9 * _POLICY.margins[0]:
        return Threshold(name, np.inf, 0.0, "labels without mistakes are told apart at any number")
    alpha = problem.model.prior.degrees / found.fun
    return Threshold(name, alpha, 1e-9 * alpha, "with fewer samples some matrix tells the labels apart")


def _recovers(problem: Problem, strength: float | None) -> Threshold:
    name = "perfect_recovery"
    if not problem.labels.exact > 0:
        return Threshold(name, np.nan, 0.0, "labels do not fix h for this loss")
    if strength:
        return Threshold(name, np.inf, 0.0, "a penalty biases: the error vanishes with its strength")
    per_label = problem.model.prior.degrees / problem.labels.exact
    found = problem.dimension
    note = "of least penalty; extrapolated to no noise" if found.error else "of least norm; closed form"
    return Threshold(name, found.value * per_label, found.error * per_label, f"of the interpolator {note}")


def _root(name: str, excess: Callable[[float], float], ends: tuple[float, float], note: str) -> Threshold:
    """A threshold at the root of an increasing function of the logarithm of the sample ratio."""
    alpha = float(np.exp(root_by_growth(excess, *ends, bounds=_POLICY.bounds, xtol=_POLICY.root)))
    return Threshold(name, alpha, 1e-9 * alpha if alpha else float(np.exp(_POLICY.bounds[0])), note)
