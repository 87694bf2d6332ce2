"""Checks of a model's parts against each other, for users who bring a link, a channel, a prior or a design."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.integral import Array, Integral
from glassformer.experiments.simulation import simulate
from glassformer.models.base import Model
from glassformer.models.channels.base import Channel
from glassformer.theory.equation_of_state import information_at, mmse
from glassformer.theory.free_entropy import free_entropy

# Standard errors that an average may be off by.
_SIGMAS = 5.0
# Posterior variances at which channels are looked at, in units of the prior one.
_VARIANCES = (0.7, 0.15)
# What is allowed beside standard errors where scores are sampled: of single scores, of averages relative to them, and
# of slopes. What is allowed where they are not, relative to the score.
_SAMPLED, _AVERAGED, _SLOPE, _EXACT = 0.03, 0.02, 0.03, 1e-6


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
    found = f"deviation {check.deviation:.2g} of what is allowed"
    return f"  ok    {check.name}: {found}" if check.passed else f"  FAIL  {check.name}: {found}; {check.explanation}"


def check_model(model: Model, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
    r"""Check a model's parts against each other and against data of finite size.

    - *score*: :math:`g = \partial_\omega\log Z_{out}`, by differences.
    - *Nishimori*: on labels that the channel draws itself, :math:`E|g|^2 = E[-\partial_\omega g]`, and both are the
      information that state evolution uses.
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
          ok    gradient: ...
          ok    denoiser: ...
          ok    size: ...
    """
    return Report(model.name, tuple(_run(*entry) for entry in _checks(model, alpha, d, seed)))


_Entry = tuple[str, Callable[[], float], str]

_SCORE = "score and log_partition contradict each other: one of them has a wrong factor or sign"
_NISHIMORI = (
    "labels, score and information do not belong to one law: check that sample draws from the law whose log_partition "
    "is given, and how the noise is normalised"
)
_GRADIENT = "expected_log_partition and information, or mmse and mutual_information, contradict each other"
_DENOISER = "denoise does not reach the mmse: check the normalisation of the field, or what sample draws"
_SIZE = "message passing does not reach what theory promises: a larger d tells a finite-size effect from a mistake"


def _run(name: str, measure: Callable[[], float], explanation: str) -> Check:
    try:
        return Check(name, float(np.nan_to_num(measure(), nan=np.inf)), explanation)
    except IncompatibleError as error:
        return Check(name, np.nan, str(error))
    except (GlassformerError, ArithmeticError, ValueError) as error:
        return Check(name, np.inf, f"it raised {type(error).__name__}: {error}")


def _checks(model: Model, alpha: float | None, d: int, seed: int) -> Iterator[_Entry]:
    prior, sampled = model.prior.in_rows, model.channel.in_rows.sampled
    usual = (0.2 if prior.diagonal else 3.0) if sampled else 0.7 * prior.mmse_dimension + (prior.onset > 0)
    size = ((2 if prior.diagonal else 5) if sampled else 1) * d
    score, gradient = (_sampled_score, _sampled_gradient) if sampled else (_exact_score, _exact_gradient)
    yield "score", lambda: score(model, seed), _SCORE
    yield "Nishimori", lambda: _nishimori(model, seed), _NISHIMORI
    yield "gradient", lambda: gradient(model), _GRADIENT
    yield "denoiser", lambda: _denoiser(model, d, seed), _DENOISER
    yield "size", lambda: _size(model, alpha or usual, size, seed), _SIZE


def _covariances(model: Model) -> list[Array]:
    """Posterior covariances: with some overlap between rows where the model has any, and none known perfectly."""
    prior = model.prior.in_rows
    if prior.rows == 1:
        return [np.array([[variance]]) for variance in _VARIANCES]
    shared = 0.0 if prior.diagonal else 0.08
    return [np.diag(np.linspace(0.6, 0.4, prior.rows) - shared) + shared]


def _drawn(model: Model, variance: Array, count: int, seed: int) -> tuple[Channel, Array, Array]:
    """The channel at its most careful, labels, and what is known of their fields at a posterior covariance."""
    rng, prior, channel = np.random.default_rng(seed), model.prior.in_rows, model.channel.in_rows.careful()
    shape = (count, *channel.field_components)
    omega = np.linalg.cholesky(prior.self_overlap - variance) @ rng.standard_normal(shape)
    return channel, channel.sample(omega + np.linalg.cholesky(variance) @ rng.standard_normal(shape), rng), omega


def _blur(model: Model) -> float:
    """Relative error of the averages of a channel that is not sampled: what integration leaves open."""
    value, error = information_at(model, np.array(_VARIANCES[:1]))
    return float(error[0] / value[0])


def _shifts(shape: tuple[int, ...], step: float) -> Iterator[tuple[tuple[int, int], Array]]:
    """Every place among the fields of a data point, and a step there."""
    for row, column in np.ndindex(shape):
        shift = np.zeros(shape)
        shift[row, column] = step
        yield (row, column), shift


def _exact_score(model: Model, seed: int) -> float:
    worst, allowed = 0.0, max(_EXACT, 10 * _blur(model))
    for v in _covariances(model):
        channel, y, omega = _drawn(model, v, 12, seed)
        score, step = channel.scores(y, omega, v).first, 1e-3 * np.sqrt(v[0, 0])
        for place, shift in _shifts(omega.shape[1:], step):
            values = [channel.log_partition(y, omega + k * shift, v) for k in (-2, -1, 1, 2)]
            slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
            found = score[:, place[0], place[1]]
            worst = max(worst, float(np.max(np.abs(found - slope)) / (allowed * (1 + np.max(np.abs(found))))))
    return worst


def _sampled_score(model: Model, seed: int) -> float:
    worst, step = 0.0, 0.1
    for v in _covariances(model):
        channel, y, omega = _drawn(model, v, 120, seed)
        found = channel.scores(y, omega, v)
        score = 0.5 * (found.first + found.second)
        for place, shift in _shifts(omega.shape[1:], step):
            high, low = (channel.log_partition(y, omega + s * shift, v) for s in (1, -1))
            gap = (high - low) / (2 * step) - score[:, place[0], place[1]]
            # One by one, sampled scores are noisy, and the difference of so wide a step has a bias of its own.
            worst = max(worst, abs(np.mean(gap)) / (_SIGMAS * gap.std() / np.sqrt(len(gap)) + _SAMPLED))
    return worst


def _nishimori(model: Model, seed: int) -> float:
    """Squares of scores against their slopes and, where it is no average over such scores itself, the information."""
    worst, sampled = 0.0, model.channel.in_rows.sampled
    count, blur = (1000, 0.0) if sampled else (4000, 10 * _blur(model))
    for v in _covariances(model):
        channel, y, omega = _drawn(model, v, count, seed)
        found = channel.scores(y, omega, v)
        square = np.einsum("nak,nbk->nab", found.first, found.second)
        size = np.mean(np.einsum("naa->na", square)) if sampled else float(channel.information(v[None]).value[0, 0, 0])
        pairs = [(square - found.curvature, 0.0), *([] if sampled else [(square, size)])]
        for gap, target in pairs:
            allowed = _SIGMAS * gap.std(axis=0) / np.sqrt(count) + (_AVERAGED + blur) * size
            worst = max(worst, float(np.max(np.abs(gap.mean(axis=0) - target) / allowed)))
    return worst


def _exact_gradient(model: Model) -> float:
    prior = model.prior.in_rows
    alpha, step = 0.7 * prior.mmse_dimension, 1e-2
    q_hat = prior.onset + prior.mmse_dimension * np.geomspace(0.5, 10, 4)

    def slope(function: Callable[[Array], Array]) -> Array:
        total = np.zeros_like(q_hat)
        for k, weight in {1: 45.0, 2: -9.0, 3: 1.0}.items():
            total += weight * (function(q_hat * np.exp(k * step)) - function(q_hat * np.exp(-k * step)))
        return np.asarray(total / (60 * step))

    measured = slope(lambda x: free_entropy(model, alpha, x).value)
    overlap = slope(lambda x: -mmse(model, x).value)
    information = information_at(model, mmse(model, q_hat).value).value
    exact = 0.5 * (alpha * information - prior.degrees * q_hat) * overlap
    allowed = (_EXACT + 10 * _blur(model)) * (q_hat + alpha * information) * np.abs(overlap)
    return float(np.max(np.abs(measured - exact) / allowed))


def _sampled_gradient(model: Model) -> float:
    channel, v, worst = model.channel.in_rows.with_points(256), _covariances(model)[0], 0.0
    for (row, column), direction in _shifts(v.shape, 0.05):
        if row != column:
            continue
        found = channel.averages(np.array([v - direction, v, v + direction]))
        log_z, blur = found.log_partition.value, found.log_partition.error
        slope = (log_z[0] - log_z[2]) / 0.05
        information, error = (part[1, row, row] for part in found.information)
        allowed = _SIGMAS * (error + 2 * blur.max() / 0.05) + _SLOPE * abs(slope)
        worst = max(worst, abs(information - slope) / allowed)
    return worst


def _denoiser(model: Model, d: int, seed: int) -> float:
    size = model.at_size(d)
    prior, rng = size.model.prior.in_rows, np.random.default_rng(seed)
    if prior.stepwise:
        raise IncompatibleError("the factors of a narrow matrix are found step by step, not by one denoiser")
    wide = (d, d) if prior.symmetric else size.input_shape
    shape = (prior.rows, *(wide if prior.diagonal else (d * d,)))
    q_hat = np.diag(prior.onset + np.linspace(2.0, 0.5, prior.rows) * prior.mmse_dimension / prior.rows)
    signal, noise = prior.sample(shape, rng), rng.standard_normal(shape)
    if prior.symmetric:
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * d)
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    found = prior.denoise(field, q_hat)
    gap = found.signal - signal
    expected = np.diag(prior.covariance(Integral(q_hat[None], np.zeros((1, *q_hat.shape)))).value[0])
    made = np.array([np.diag(prior.gram(gap, gap)), np.diag(found.variance)])
    return float(np.max(np.abs(made - expected) / ((_SIGMAS * prior.power_deviation(shape) + 2 / d) * expected)))


def _size(model: Model, alpha: float, d: int, seed: int) -> float:
    """Errors in units of the teacher's power for one row, whose power fluctuates; row by row for several."""
    result = simulate(model, [alpha], d, instances=4, seed=seed)
    if model.overlap_shape:
        error, theory, blur = (result[f"row_{name}"] for name in ("error", "theory", "standard_error"))
    else:
        error, theory, blur = (result[name] for name in ("relative_error", "theory", "relative_standard_error"))
    return float(np.max(np.abs(error - theory) / (_SIGMAS * blur + 4 / d)))
