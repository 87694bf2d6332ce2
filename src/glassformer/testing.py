"""Checks of a model's parts against each other, for users who bring a link, a channel, a prior or a design."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import GlassformerError, IncompatibleError
from glassformer.core.integral import Array, Integral
from glassformer.experiments.simulation import simulate
from glassformer.models import MatrixModel, Model
from glassformer.models.priors.factors import FactorPrior
from glassformer.models.priors.layered import LayeredPrior
from glassformer.models.priors.wishart import SymmetricPrior
from glassformer.theory.free_entropy import free_entropy

# Standard errors that an average may be off by.
_SIGMAS = 5.0
# Posterior variances at which channels are looked at, in units of the prior one.
_VARIANCES = (0.7, 0.15)


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


def check_model(model: Model | MatrixModel, alpha: float | None = None, d: int = 60, seed: int = 0) -> Report:
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
    made = _rows_checks(model, alpha, d, seed) if isinstance(model, MatrixModel) else _checks(model, alpha, d, seed)
    return Report(model.name, tuple(_run(*entry) for entry in made))


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
    ratio = alpha or 0.7 * model.prior.dimension + (model.prior.onset > 0)
    yield "score", lambda: _score(model, seed), _SCORE
    yield "Nishimori", lambda: _nishimori(model, seed), _NISHIMORI
    yield "gradient", lambda: _gradient(model), _GRADIENT
    yield "denoiser", lambda: _denoiser(model, d, seed), _DENOISER
    yield "size", lambda: _size(model, ratio, d, seed), _SIZE


def _drawn(model: Model, variance: float, count: int, seed: int) -> tuple[Array, Array]:
    """Labels and what is known of their fields at a posterior variance."""
    rng, shape = np.random.default_rng(seed), (count, *model.channel.field_components)
    omega = np.sqrt(model.prior.second_moment - variance) * rng.standard_normal(shape)
    return model.channel.sample(omega + np.sqrt(variance) * rng.standard_normal(shape), rng), omega


def _sampled(model: Model) -> float:
    """Relative error of the channel's averages: what integration leaves open."""
    value, error = model.channel.information(np.array([_VARIANCES[0]]))
    return float(error[0] / value[0])


def _score(model: Model, seed: int) -> float:
    worst, channel = 0.0, model.channel
    allowed = max(1e-6, 10 * _sampled(model))
    for variance in _VARIANCES:
        y, omega = _drawn(model, variance, 12, seed)
        score, step = channel.score(y, omega, variance), 1e-3 * np.sqrt(variance)
        for place in np.ndindex(omega.shape[1:]):
            shift = np.zeros(omega.shape[1:])
            shift[place] = step
            values = [channel.log_partition(y, omega + k * shift, variance) for k in (-2, -1, 1, 2)]
            slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * step)
            found = score[(slice(None), *place)]
            worst = max(worst, float(np.max(np.abs(found - slope)) / (allowed * (1 + np.max(np.abs(found))))))
    return worst


def _nishimori(model: Model, seed: int) -> float:
    worst, count = 0.0, 4000
    for variance in _VARIANCES:
        y, omega = _drawn(model, variance, count, seed)
        score, slope = model.channel.score_and_curvature(y, omega, variance)
        square = (score**2).reshape(count, -1).sum(axis=1)
        expected = float(model.channel.information(np.array([variance])).value[0])
        slack = 0.02 * expected + 10 * _sampled(model) * expected
        for found, target in ((square - slope, 0.0), (square, expected)):
            worst = max(worst, abs(found.mean() - target) / (_SIGMAS * found.std() / np.sqrt(count) + slack))
    return worst


def _gradient(model: Model) -> float:
    alpha, step = 0.7 * model.prior.dimension, 1e-2
    q_hat = model.prior.onset + model.prior.dimension * np.geomspace(0.5, 10, 4)

    def slope(function: Callable[[Array], Array]) -> Array:
        total = np.zeros_like(q_hat)
        for k, weight in {1: 45.0, 2: -9.0, 3: 1.0}.items():
            total += weight * (function(q_hat * np.exp(k * step)) - function(q_hat * np.exp(-k * step)))
        return np.asarray(total / (60 * step))

    measured = slope(lambda x: free_entropy(model, alpha, x).value)
    overlap = slope(lambda x: -model.prior.mmse(x).value)
    information = model.channel.information(model.prior.mmse(q_hat).value).value
    exact = 0.5 * (alpha * information - model.prior.degrees * q_hat) * overlap
    allowed = (1e-6 + 10 * _sampled(model)) * (q_hat + alpha * information) * np.abs(overlap)
    return float(np.max(np.abs(measured - exact) / allowed))


def _denoiser(model: Model, d: int, seed: int) -> float:
    size = model.at_size(d)
    prior, rng = size.model.prior, np.random.default_rng(seed)
    if isinstance(prior, FactorPrior):
        raise IncompatibleError("the factors of a narrow matrix are found step by step, not by one denoiser")
    shape = size.input_shape if not isinstance(prior, SymmetricPrior) else (d, d)
    q_hat, worst = prior.onset + 2 * prior.dimension, 0.0
    signal, noise = prior.sample(shape, rng), rng.standard_normal(shape)
    if isinstance(prior, SymmetricPrior):
        noise = (noise + noise.T) / np.sqrt(2 * d)
    found = prior.denoise(q_hat * signal + np.sqrt(q_hat) * noise, q_hat)
    expected = float(prior.mmse(np.array([q_hat])).value[0])
    allowed = (_SIGMAS * prior.power_deviation(shape) + 2 / d) * expected
    for claimed in (prior.power(found.signal - signal), found.variance):
        worst = max(worst, abs(claimed - expected) / allowed)
    return worst


def _size(model: Model, alpha: float, d: int, seed: int) -> float:
    result = simulate(model, [alpha], d, instances=4, seed=seed)
    gap = abs(result["relative_error"][0] - result["theory"][0])
    return float(gap / (_SIGMAS * result["relative_standard_error"][0] + 4 / d))


def _rows_checks(model: MatrixModel, alpha: float | None, d: int, seed: int) -> Iterator[_Entry]:
    yield "score", lambda: _rows_score(model, seed), _SCORE
    yield "Nishimori", lambda: _rows_nishimori(model, seed), _NISHIMORI
    yield "gradient", lambda: _rows_gradient(model), _GRADIENT
    yield "denoiser", lambda: _rows_denoiser(model, d, seed), _DENOISER
    usual = 0.2 if isinstance(model.prior, LayeredPrior) else 3.0
    yield "size", lambda: _rows_size(model, alpha or usual, d, seed), _SIZE


def _covariance(model: MatrixModel) -> Array:
    """A posterior covariance with some overlap between rows where the model has any, and none known perfectly."""
    rows = model.prior.rows
    spread = np.diag(np.linspace(0.6, 0.4, rows))
    return spread if model.prior.diagonal else spread + 0.08 * (np.ones((rows, rows)) - np.eye(rows))


def _rows_posterior(model: MatrixModel, count: int, seed: int) -> tuple[Any, Array, Array, Array]:
    """The channel at its most careful, labels, what is known of the fields, and the covariances."""
    rng, v, channel = np.random.default_rng(seed), _covariance(model), model.channel.careful()
    shape = (count, model.prior.rows, channel.columns)
    omega = np.linalg.cholesky(model.prior.moment - v) @ rng.standard_normal(shape)
    fields = omega + np.linalg.cholesky(v) @ rng.standard_normal(shape)
    labels = channel.label_from(fields, rng.standard_normal((count, channel.sources)))
    return channel, labels, omega, np.tile(v, (count, 1, 1))


def _rows_score(model: MatrixModel, seed: int) -> float:
    channel, y, omega, spread = _rows_posterior(model, 120, seed)
    found, step, worst = channel.posterior(y, omega, spread), 0.1, 0.0
    for a, b in np.ndindex(omega.shape[1:]):
        shift = np.zeros(omega.shape[1:])
        shift[a, b] = step
        high, low = (channel.posterior(y, omega + s * shift, spread).log_partition for s in (1, -1))
        gap = (high - low) / (2 * step) - found.score[:, a, b]
        # Sampled one by one, scores are noisy, and the difference of so wide a step has a bias of its own.
        worst = max(worst, abs(np.mean(gap)) / (_SIGMAS * gap.std() / np.sqrt(len(gap)) + 0.03))
    return worst


def _rows_nishimori(model: MatrixModel, seed: int) -> float:
    channel, *drawn = _rows_posterior(model, 1000, seed)
    found = channel.posterior(*drawn)
    square = np.einsum("nak,nbk->nab", found.first, found.second)
    gap = square - found.curvature
    scale = np.sqrt(np.mean(np.einsum("naa->na", square)))
    allowed = _SIGMAS * gap.std(axis=0) / np.sqrt(len(gap)) + 0.02 * scale**2
    return float(np.max(np.abs(gap.mean(axis=0)) / allowed))


def _rows_gradient(model: MatrixModel) -> float:
    channel, v, step, worst = model.channel.with_points(256), _covariance(model), 0.05, 0.0
    for row in range(model.prior.rows):
        direction = np.zeros_like(v)
        direction[row, row] = step
        found = channel.averages(np.array([v - direction, v, v + direction]))
        log_z, blur = found.log_partition.value, found.log_partition.error
        slope = (log_z[0] - log_z[2]) / step
        information, error = (part[1, row, row] for part in found.information)
        allowed = _SIGMAS * (error + 2 * blur.max() / step) + 0.03 * abs(slope)
        worst = max(worst, abs(information - slope) / allowed)
    return worst


def _rows_denoiser(model: MatrixModel, d: int, seed: int) -> float:
    prior, rng = model.prior, np.random.default_rng(seed)
    wide = isinstance(prior, LayeredPrior)
    shape = (prior.rows, d, d) if wide else (prior.rows, d * d)
    q_hat = np.diag(np.linspace(2.0, 0.5, prior.rows))
    signal, noise = prior.sample(shape, rng), rng.standard_normal(shape)
    if wide:
        noise = (noise + np.swapaxes(noise, 1, 2)) / np.sqrt(2 * d)
    field = np.tensordot(q_hat, signal, axes=1) + np.tensordot(np.sqrt(q_hat), noise, axes=1)
    found = prior.denoise(field, q_hat)
    gap = found.signal - signal
    expected = np.diag(prior.covariance(Integral(q_hat[None], np.zeros((1, *q_hat.shape)))).value[0])
    made = np.array([np.diag(prior.gram(gap, gap)), np.diag(found.variance)])
    return float(np.max(np.abs(made - expected) / ((_SIGMAS / d + 4 / d) * expected)))


def _rows_size(model: MatrixModel, alpha: float, d: int, seed: int) -> float:
    result = simulate(model, [alpha], (2 if isinstance(model.prior, LayeredPrior) else 5) * d, instances=4, seed=seed)
    gap = np.abs(result["row_error"] - result["row_theory"])
    return float(np.max(gap / (_SIGMAS * result["row_standard_error"] + 4 / d)))
