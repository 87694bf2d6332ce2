"""Checks of a model's parts against each other, for users who bring a link, a channel, a prior or a design."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.integral import Array, Integral
from glassformer.experiments.simulation import simulate
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel
from glassformer.theory.bounds import drawn, growth_bound, information_bound
from glassformer.theory.equation_of_state import information_at, natural_scale
from glassformer.theory.free_entropy import free_entropy
from glassformer.theory.state_evolution import evolved
from glassformer.theory.subspaces import range_of
from glassformer.theory.thresholds import Threshold, thresholds
from glassformer.theory.weak_recovery import known_at_once


@dataclass(frozen=True)
class Allowed:
    """What checks allow.

    Attributes:
        sigmas: standard errors that an average may be off by.
        variances: of posteriors that channels are looked at with, over that of the prior.
        exact: beside standard errors where scores are exact.
        sampled: of scores where they are sampled.
        averaged: of averages relative to them.
        slope: of slopes by steps as wide as sampling needs, which have a bias of their own.
        law: share of the probability by which a label law and what it draws may differ.
    """

    sigmas: float = 5.0
    variances: tuple[float, float] = (0.7, 0.15)
    exact: float = 1e-6
    sampled: float = 0.03
    averaged: float = 0.02
    slope: float = 0.03
    law: float = 0.01


_POLICY = Allowed()


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: what was compared.
        deviation: by how much it is off, in units of what is allowed: at most 1 where it passes; NaN where it could not
            be made.
        explanation: what a failure means, or why the check was not made.
    """

    name: str
    deviation: float
    explanation: str

    @property
    def made(self) -> bool:
        """Whether the check applies to the model."""
        return not np.isnan(self.deviation)

    @property
    def passed(self) -> bool:
        """Whether it found nothing."""
        return not self.made or self.deviation <= 1


@dataclass(frozen=True)
class Report:
    """All checks of a model; ``print`` it."""

    model: str
    checks: tuple[Check, ...]

    @property
    def ok(self) -> bool:
        """Whether no check failed."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        return "\n".join([f"{self.model}:", *map(_line, self.checks)])


def _line(check: Check) -> str:
    if not check.made:
        return f"  -     {check.name}: not made, {check.explanation}"
    found = f"{check.name}: deviation {check.deviation:.2g} of what is allowed"
    return f"  ok    {found}" if check.passed else f"  FAIL  {found}; {check.explanation}"


def check_model(model: Model, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
    r"""Check a model's parts against each other and against data of finite size.

    - *score*: :math:`g = \partial_\omega\log Z_{out}`, by differences.
    - *Nishimori*: on labels that the channel draws itself, :math:`E\,g = 0`, :math:`E|g|^2 = E[-\partial_\omega g]`,
      and both are the information that state evolution uses; the mean of :math:`\log Z_{out}` is the expected one. The
      density, mean and variance of a label law of one's own are those of the labels that it draws.
    - *information*: what state evolution uses is the mean of score times true deviation, which is linear in any mistake
      of the score, and not below what labels sorted into cells tell (:mod:`~glassformer.theory.bounds`).
    - *thresholds*: none of weak recovery is above the bound that labels sorted into cells give.
    - *gradient*: the free entropy is stationary where state evolution stands still.
    - *denoiser*: the error that the prior claims is the one its denoiser makes on a signal that it draws.
    - *size*: message passing on data agrees with theory.

    Averages may be off by five standard errors, the last two also by what is usual at a size of ``d``.

    Args:
        model: one of the package's, or one with parts of your own.
        alpha: sample ratio of the last two checks; by default where there is something to learn.
        d: token dimension of the last two.
        seed: of everything drawn.

    Returns:
        :class:`Report`; ``ok`` where nothing was found, otherwise each failure explained in its text.

    Example:
        >>> from glassformer import BilinearSequenceRegression
        >>> print(check_model(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1), d=40))
        bsr:
          ok    score: ...
          ok    Nishimori: ...
          ok    information: ...
          ok    thresholds: ...
          ok    gradient: ...
          ok    denoiser: ...
          ok    size: ...
    """
    everywhere = _covariances(model)
    measures: dict[str, Callable[[], float | _Worst]] = {
        "score": lambda: max(_score(model, v, seed) for v in everywhere),
        "Nishimori": lambda: max(_nishimori(model, v, seed) for v in everywhere),
        "information": lambda: max(_information(model, v, seed) for v in everywhere),
        "thresholds": lambda: _thresholds(model, seed),
        "gradient": lambda: _gradient(model),
        "denoiser": lambda: _denoiser(model, d, seed),
        "size": lambda: _size(model, alpha, d, seed),
    }
    return Report(model.name, tuple(_made(name, measure) for name, measure in measures.items()))


_EXPLANATIONS = {
    "score": "score and log_partition contradict each other: one of them has a wrong factor or sign",
    "Nishimori": "labels, score and information do not belong to one law: check that sample draws from the law whose "
    "log_partition is given, and how the noise is normalised",
    "information": "state evolution uses another information than labels have: ",
    "thresholds": "a threshold is where labels tell too much already: ",
    "gradient": "expected_log_partition and information, or mmse and mutual_information, contradict each other",
    "denoiser": "denoise does not reach the mmse: check the normalisation of the field, or what sample draws",
    "size": "message passing does not reach what theory promises: a larger d tells a finite-size effect from a mistake",
}


class _Worst(NamedTuple):
    """The largest deviation of several, and the numbers that disagree."""

    deviation: float
    numbers: str


def _made(name: str, measure: Callable[[], float | _Worst]) -> Check:
    try:
        found = measure()
        deviation, numbers = found if isinstance(found, _Worst) else (found, "")
        return Check(name, float(np.nan_to_num(deviation, nan=np.inf)), _EXPLANATIONS[name] + numbers)
    except IncompatibleError as error:
        return Check(name, np.nan, str(error))
    except (GlassformerError, ArithmeticError, ValueError) as error:
        return Check(name, np.inf, f"it raised {type(error).__name__}: {error}")


def _covariances(model: Model) -> list[Array]:
    """Posterior covariances: with some overlap between rows where the model has any, and none known perfectly."""
    prior = model.prior.in_rows
    if prior.rows == 1:
        return [np.array([[variance]]) for variance in _POLICY.variances]
    shared = 0.0 if prior.diagonal else 0.08
    return [np.diag(np.linspace(0.6, 0.4, prior.rows) - shared) + shared]


def _drawn(model: Model, variance: Array, count: int, seed: int) -> tuple[Channel, Array, Array, Array]:
    """The channel at its most careful, labels, what is known of their fields, and the true deviation from that."""
    channel = model.channel.in_rows.careful()
    return channel, *drawn(model, channel, variance, count, np.random.default_rng(seed))


def _blur(model: Model) -> float:
    """Relative error of the averages of a channel that is not sampled: what integration leaves open."""
    value, error = information_at(model, np.array(_POLICY.variances[:1]))
    return float(error[0] / value[0])


def _slope(function: Callable[[Array], Array], at: Array, along: Array, sampled: bool) -> Array:
    """Derivative by central differences, of six points where there is no sampling error to drown them."""
    weights = (0.5,) if sampled else (3 / 4, -3 / 20, 1 / 60)
    pairs = [w * (function(at + k * along) - function(at - k * along)) for k, w in enumerate(weights, 1)]
    return np.sum(pairs, axis=0)


def _off(gaps: Array, allowed: Array | float) -> float:
    """The largest mean over the first axis, in units of its standard errors and of what is allowed beside them."""
    return float(np.max(np.abs(gaps.mean(axis=0)) / (_POLICY.sigmas * gaps.std(axis=0) / np.sqrt(len(gaps)) + allowed)))


def _score(model: Model, variance: Array, seed: int) -> float:
    """Scores, their mean where they are sampled, against differences of the log partition along every field."""
    sampled = model.channel.in_rows.sampled
    count, step, allowed = (120, 0.1, _POLICY.sampled) if sampled else (12, 1e-3, max(_POLICY.exact, 10 * _blur(model)))
    channel, y, omega, _ = _drawn(model, variance, count, seed)
    units = np.eye(omega[0].size).reshape(-1, *omega.shape[1:])
    found = channel.scores(y, omega, variance)
    score = 0.5 * (found.first + found.second).reshape(count, -1)
    slopes = [_slope(lambda x: channel.log_partition(y, x, variance), omega, step * unit, sampled) for unit in units]
    own, gaps = (part if sampled else part[None] for part in (score, score - np.stack(slopes, axis=1) / step))
    return _off(gaps, allowed * (1 + np.abs(own.mean(axis=0)).max(axis=0)))


def _nishimori(model: Model, variance: Array, seed: int) -> float:
    """Means of scores against zero, squares against slopes and, where it is no average of them, what is expected."""
    sampled = model.channel.in_rows.sampled
    count, blur = (1000, _POLICY.averaged) if sampled else (20_000, 10 * _blur(model) + _POLICY.exact)
    channel, y, omega, _ = _drawn(model, variance, count, seed)
    found = channel.scores(y, omega, variance)
    square = np.einsum("nak,nbk->nab", found.first, found.second)
    information = square.mean(axis=0) if sampled else channel.information(variance[None]).value[0]
    size = np.trace(information) if sampled else information[0, 0]
    score = 0.5 * (found.first + found.second)
    pairs = [(score, np.sqrt(size)), (square - found.curvature, size), (square - information, size)]
    if not sampled:
        expected = model.channel.in_rows.averages(variance[None]).log_partition.value[0]
        pairs.append((channel.log_partition(y, omega, variance) - expected, 1.0))
    return max(channel.law_gap / _POLICY.law, *(_off(gaps, blur * scale) for gaps, scale in pairs))


def _information(model: Model, variance: Array, seed: int) -> _Worst:
    """The information of every row, against scores times true deviations and against its bound."""
    count = 1000 if model.channel.in_rows.sampled else 20_000
    channel, y, omega, deviation = _drawn(model, variance, count, seed)
    found = channel.scores(y, omega, variance)
    products = np.einsum("nak,nak->na", 0.5 * (found.first + found.second), deviation)
    used, error = (np.diag(part[0]) for part in model.channel.in_rows.information(variance[None]))
    units = np.eye(len(used))
    bounds = [information_bound(model, variance, unit, seed=seed) for unit in units]
    worst = _Worst(0.0, "")
    for k, bound in enumerate(bounds):
        mean, blur = products[:, k].mean(), products[:, k].std() / np.sqrt(count)
        above = (bound.value - used[k]) / (_POLICY.sigmas * np.hypot(error[k], bound.error) + _POLICY.exact)
        gap = abs(mean - used[k]) / (_POLICY.sigmas * np.hypot(error[k], blur) + _POLICY.exact * used[k])
        text = f"{used[k]:.6g} +- {error[k]:.2g} of {model.row_names[k]}, "
        other = f"at least {bound.value:.6g} +- {bound.error:.2g}" if above > gap else f"{mean:.6g} +- {blur:.2g}"
        worst = max(worst, _Worst(float(max(above, gap)), text + other))
    return worst


def _thresholds(model: Model, seed: int) -> _Worst:
    """Thresholds of weak recovery, each against its bound at what is known before."""
    prior, degrees = model.prior.in_rows, model.prior.degrees
    entries = [entry for entry in thresholds(model).entries if entry.name.startswith("weak_recovery")]
    if prior.side > 0 or (model.channel.even and prior.onset > 0):
        raise IncompatibleError("no threshold of weak recovery follows from the labels alone")
    worst, known = _Worst(0.0, ""), np.zeros((prior.rows, prior.rows))
    if not model.channel.even:
        top = max(information_bound(model, np.eye(prior.rows), unit, seed=seed) for unit in np.eye(prior.rows))
        start = degrees * prior.onset / top.value
        worst, known = _above(entries[0], start, start * top.error / top.value), known_at_once(model)
        entries = entries[1:]
    for entry in entries:
        variance = np.eye(prior.rows)
        if known.any():
            variance = evolved(model, np.array([entry.alpha]), subspace=known).value[0]
        rate, error = growth_bound(model, variance, np.eye(prior.rows) - known, seed=seed)
        # Labels that tell nothing in any cell bound nothing.
        most, blur = (degrees / rate, degrees * error / rate**2) if rate > _POLICY.sigmas * error else (np.inf, 0.0)
        worst = max(worst, _above(entry, most, blur))
        if entry.subspace is None or not np.isfinite(entry.alpha):
            break
        known = range_of(known + np.array(entry.subspace))
    return worst


def _above(entry: Threshold, most: float, blur: float) -> _Worst:
    """By how much a threshold is above its bound."""
    numbers = f"{entry.name} = {entry.alpha:.6g} +- {entry.error_estimate:.2g}, at most {most:.6g} +- {blur:.2g}"
    if not np.isfinite(most):
        return _Worst(0.0, numbers)
    allowed = _POLICY.sigmas * np.hypot(entry.error_estimate, blur) + _POLICY.exact * (1 + most)
    return _Worst(float(max(0.0, (entry.alpha - most) / allowed)), numbers)


def _precisions(model: Model, scales: ArrayLike) -> Array:
    """Precisions at which something is known of every row, and not of all the same."""
    prior = model.prior.in_rows
    rows = np.linspace(2.0, 0.5, prior.rows) * natural_scale(model) / prior.rows
    return (prior.onset + np.multiply.outer(scales, rows))[..., None] * np.eye(prior.rows)


def _gradient(model: Model) -> float:
    """Differences of the free entropy along states that are the prior's own, against its gradient there."""
    prior, channel, alpha = model.prior.in_rows, model.channel.in_rows, 0.7 * natural_scale(model)
    step, tolerance = (0.1, _POLICY.slope) if channel.sampled else (1e-2, _POLICY.exact)
    scales = [0.5] if channel.sampled else np.geomspace(0.25, 5, 4)
    start = _precisions(model, scales)

    def slope(function: Callable[[Array], Array]) -> Array:
        return _slope(lambda t: function(start * np.exp(t)), np.zeros(()), np.array(step), channel.sampled) / step

    def variance(q_hat: Array) -> Array:
        return prior.covariance(Integral(q_hat, np.zeros_like(q_hat))).value

    gain, (information, error) = -slope(variance), channel.information(variance(start))
    output, entropy = np.einsum("knab,nab->kn", [alpha * information, prior.degrees * start], gain)
    noise = free_entropy(model, alpha, start).error / step + alpha * np.einsum("nab,nab->n", error, np.abs(gain))
    measured = 2 * slope(lambda q_hat: free_entropy(model, alpha, q_hat).value)
    allowed = 2 * tolerance * (output + entropy) + _POLICY.sigmas * noise
    return float(np.max(np.abs(measured - output + entropy) / allowed))


def _denoiser(model: Model, d: int, seed: int) -> float:
    size = model.at_size(d)
    prior, rng = size.model.prior.in_rows, np.random.default_rng(seed)
    if prior.stepwise:
        raise IncompatibleError("the factors of a narrow matrix are found step by step, not by one denoiser")
    wide = (d, d) if prior.symmetric else size.input_shape
    shape = (prior.rows, *(wide if prior.diagonal else (d * d,)))
    q_hat = _precisions(model, 1.0)
    signal, noise = prior.sample(shape, rng), rng.standard_normal(shape)
    if prior.symmetric:
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * d)
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    found = prior.denoise(field, q_hat)
    gap = found.signal - signal
    expected = np.diag(prior.covariance(Integral(q_hat[None], np.zeros((1, *q_hat.shape)))).value[0])
    made = np.array([np.diag(prior.gram(gap, gap)), np.diag(found.variance)])
    return float(np.max(np.abs(made - expected) / ((_POLICY.sigmas * prior.power_deviation(shape) + 2 / d) * expected)))


def _size(model: Model, alpha: float | None, d: int, seed: int) -> float:
    """Errors in units of the teacher's power for one row, whose power fluctuates; row by row for several."""
    prior, sampled = model.prior.in_rows, model.channel.in_rows.sampled
    usual = (0.2 if prior.diagonal else 3.0) if sampled else 0.7 * natural_scale(model) + (prior.onset > 0)
    d *= (2 if prior.diagonal else 5) if sampled else 1
    result = simulate(model, [alpha or usual], d, instances=4, seed=seed)
    if model.overlap_shape:
        error, theory, blur = (result[f"row_{name}"] for name in ("error", "theory", "standard_error"))
    else:
        error, theory, blur = (result[name] for name in ("relative_error", "theory", "relative_standard_error"))
    return float(np.max(np.abs(error - theory) / (_POLICY.sigmas * blur + 4 / d)))
