r"""Estimation of the width of a signal and of the noise of its labels, from data.

Message passing on linear labels sees the signal through noise that it measures, whatever denoiser it uses: the matrix
:math:`R = \hat S + \mathrm{adjoint}(z)/\alpha` is :math:`S + \tau Z` with :math:`\tau^2 = \langle z^2\rangle/\alpha`,
``z`` the residuals with their Onsager term. The singular values of ``R`` determine the width; the Bayes-optimal
denoiser of that width makes :math:`\tau^2` smaller, and so on. The label noise follows from
:math:`\alpha\tau^2 = \Delta + E`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, DataWarning
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.data_analysis.directions import NOISE_MATRICES, Directions
from glassformer.data_analysis.signals import BilinearSignal, UnknownSignal
from glassformer.data_analysis.targets import CONFIDENCE, FAINTEST, NumberTargets, Observation, Targets
from glassformer.data_analysis.width import Width, estimate_width
from glassformer.designs.base import Design
from glassformer.designs.dense import DenseDesign
from glassformer.learners.data_assumptions import violations, warn_of_violations
from glassformer.learners.data_validation import as_input_array, validate_data
from glassformer.learners.gamp import MessagePassing, gamp_solution
from glassformer.learners.gamp_step import GampStep
from glassformer.learners.message_passing import message_passing
from glassformer.models.base import Model
from glassformer.models.bsr import BilinearSequenceRegression
from glassformer.priors.base import signal_power

if TYPE_CHECKING:
    import pandas

# Smallest size of samples and signals from which a width can be estimated.
NARROWEST = 4
# Rounds of denoising and estimating; number of consecutive rounds without convergence that ends the estimation.
_ROUNDS, _FAILURES = 4, 2
# Widths above this multiple of the dimension are taken as infinite; largest misfit of moments that agree with a width
# (both chosen by trial).
_WIDEST, _MISFIT = 4.0, 8.0


@dataclass(frozen=True, eq=False)
class EstimatedModel(DisplayMixin):
    r"""Estimated model of labels :math:`y = m + \sqrt P\,(h + \sqrt\Delta\,z)`, or of the sign of that.

    Attributes:
        model: model with the estimated width and noise, for labels :math:`(y - m)/\sqrt P`.
        rho: :math:`r/d`, and ``rho_interval``, of 95 per cent.
        noise: :math:`\Delta`, in units of the signal's share of the labels, and ``noise_error``, of 95 per cent, for
            the given matrix, whose power at a small size is not the mean of its law.
        power: ``P``, the variance of the labels that the signal explains.
        offset: ``m``; for classes the constant inside the sign.
        solution: of message passing with this model.
        status: of that run. Estimates of a run that did not converge are not reliable; they are NaN if it diverged.
        settled: labels with parameters fitted to the final fields, none of which depends on its own label. They
            calibrate predictions.
        directions: values of the estimate beside those of noise alone; None if the run diverged.

    Example:
        See :func:`~glassformer.data_analysis.estimated_model.estimate_model`.
    """

    model: Model
    rho: float
    rho_interval: tuple[float, float]
    noise: float
    noise_error: float
    power: float
    offset: float
    solution: Solution
    status: Status
    settled: Targets = field(repr=False)
    directions: Directions | None = field(default=None, repr=False)
    drawing = "plot_estimate"

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame of one row with the estimates and the status."""
        import pandas

        low, high = self.rho_interval
        row = {"rho": self.rho, "rho_low": low, "rho_high": high, "noise": self.noise}
        row |= {"noise_error": self.noise_error, "power": self.power, "offset": self.offset}
        return pandas.DataFrame([{**row, "status": str(self.status)}])


def estimate_model(
    inputs: ArrayLike, labels: ArrayLike, *, learner: MessagePassing | None = None, seed: int = 0
) -> EstimatedModel:
    """Estimate the width and the noise of bilinear sequence regression with linear labels, by message passing.

    Args:
        inputs: shape (n, L, d), close to independent standard normal (see
            :func:`~glassformer.data_analysis.diagnosis.diagnose`).
        labels: numbers, shape (n,), of any mean and variance.
        learner: message passing.
        seed: of the random matrices that singular values are compared with.

    Warns:
        DataWarning: the inputs violate this assumption, or the labels show no signal; the noise then has an infinite
            error.

    Raises:
        DataError: inputs or labels have another type or shape, or labels do not vary.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
        >>> x, s = rng.standard_normal((900, 30, 30)), model.prior.sample((30, 30), rng)
        >>> y = np.einsum("nld,ld->n", x, s) / 30 + np.sqrt(0.1) * rng.standard_normal(900)
        >>> found = estimate_model(x, 5 + 3 * y)
        >>> bool(found.rho_interval[0] < 0.2 < found.rho_interval[1]), round(found.noise, 1)
        (True, 0.1)
    """
    require_arguments(estimate_model, locals(), but=("inputs", "labels"))
    require_integer("seed", seed, 0)
    x = as_input_array(inputs)
    if x.ndim != 3 or min(x.shape) < NARROWEST:
        allowed = f"a shape (samples, L, d), each at least {NARROWEST}, to determine a width"
        raise DataError("X", x.shape, allowed)
    start = BilinearSequenceRegression(beta=x.shape[1] / x.shape[2], rho=1.0, noise=0.5)
    _, own = validate_data(start, x, labels)
    if np.ptp(x) == 0:
        raise DataError("X", f"<all entries {x.flat[0]:g}>", "inputs that vary")
    warn_of_violations(violations(x))
    estimate = estimate_signal(BilinearSignal(DenseDesign(x)), NumberTargets.of(own[0]), learner, seed)
    if not estimate.noise * FAINTEST >= 1:
        return estimate
    text = f"labels show no signal: the width is not determined, and the noise exceeds {1 / FAINTEST:g}"
    warnings.warn(text, DataWarning, stacklevel=2)
    return replace(estimate, noise_error=np.inf)


def estimate_signal(
    signal: UnknownSignal,
    targets: Targets,
    learner: MessagePassing | None = None,
    seed: int = 0,
    step: type[GampStep] = GampStep,
) -> EstimatedModel:
    """Estimate the width of a signal and the parameters of its labels, with message passing for the estimated model.

    Args:
        signal: family of the signal.
        targets: labels.
        learner: message passing.
        seed: of the random matrices that singular values are compared with.
        step: of message passing.
    """
    rng, settings = np.random.default_rng(int(seed)), learner or MessagePassing()
    samples, columns, rho, failures = len(targets.scaled), signal.columns, 1.0, 0
    for _ in range(_ROUNDS):
        model = signal.model(rho, targets.channel)
        observed = _observe(model, signal.design, targets.scaled, settings, seed, step)
        if not observed.pseudo_data.finite:
            return _diverged(model, observed, targets)
        seen = signal_power(model.matrix_prior, observed.pseudo_data.matrix)
        power = max(seen - observed.pseudo_data.noise, FAINTEST)
        width = _estimate_width(signal, observed, power, samples, rng)
        if not np.isfinite(width.value):
            return _diverged(model, observed, targets)
        rho = width.value / columns
        model = signal.model(rho, targets.channel)
        share = power / model.matrix_prior.second_moment
        targets = targets.updated(observed, share)
        # Runs of a wrong model end as contradicted; the estimation stops if runs do not end at all.
        ended = observed.solution.status[0] in (Status.CONVERGED, Status.CONTRADICTED)
        failures = 0 if ended else failures + 1
        if failures == _FAILURES:
            break
    rho_interval = (width.interval[0] / columns, width.interval[1] / columns)
    model = signal.model(rho, targets.channel)
    # The noise is relative to the power, which is estimated as well.
    noise_errors = (
        targets.noise_error(observed),
        targets.noise * share * _power_error(signal, samples, observed, power),
        share * _denoiser_error(signal, targets, rho_interval, observed.pseudo_data.noise / share),
        _claim_error(model, observed),
    )
    final = observed
    if failures < _FAILURES:
        final = _observe(model, signal.design, targets.scaled, settings, seed, step)
    if not final.pseudo_data.finite:
        return _diverged(model, final, targets)
    status = final.solution.status[0]
    if status.ok and width.misfit > _MISFIT:
        status = Status.CONTRADICTED
    noise = final.pseudo_data.noise
    alone = (signal.values(signal.sample(1, 0.0, noise, rng)) for _ in range(NOISE_MATRICES))
    values = signal.values(final.solution.value[0])
    return EstimatedModel(
        model=model,
        rho=rho,
        rho_interval=rho_interval,
        noise=targets.noise,
        noise_error=float(np.linalg.norm(noise_errors) / share),
        power=targets.power,
        offset=targets.offset,
        solution=final.solution,
        status=status,
        settled=targets.calibrated(final),
        directions=Directions.beside_noise(values, signal.values(final.pseudo_data.matrix), alone),
    )


def _observe(
    model: Model, design: Design, labels: Array, settings: MessagePassing, seed: int, kind: type[GampStep]
) -> Observation:
    """Run message passing."""
    step = kind(model, design, labels, 0, settings, seed)
    run = message_passing(step, step.max_iterations, settings.damping)
    return Observation(step.pseudo_data(run.state), float(run.state.claimed_error), gamp_solution(model, [run]))


def _diverged(model: Model, observed: Observation, targets: Targets) -> EstimatedModel:
    """Return no estimates: message passing has no finite observation of the signal."""
    status = Status.NON_FINITE if observed.solution.status[0].ok else observed.solution.status[0]
    nothing = (np.nan, np.nan)
    return EstimatedModel(model, np.nan, nothing, np.nan, np.inf, np.nan, np.nan, observed.solution, status, targets)


def _estimate_width(
    signal: UnknownSignal, observed: Observation, power: float, samples: int, rng: np.random.Generator
) -> Width:
    """Return the width, from random signals of every width with the same power and the same noise."""
    pseudo_data, power_error = observed.pseudo_data, _power_error(signal, samples, observed, power) / CONFIDENCE

    def sample(width: int) -> Array:
        # Noise and power vary within their errors. The noise is log-normal with the mean and variance of a mean of
        # squares, so that it is positive for few samples too.
        noise = pseudo_data.noise * np.exp(np.sqrt(2 / samples) * rng.standard_normal() - 1 / samples)
        varied = max((power + pseudo_data.noise - noise) * (1 + power_error * rng.standard_normal()), 0.0)
        return signal.moments(signal.values(signal.sample(width, varied, noise, rng)))

    largest = max(2.0, _WIDEST * min(pseudo_data.matrix.shape))
    return estimate_width(signal.moments(signal.values(pseudo_data.matrix)), largest, sample)


def _power_error(signal: UnknownSignal, samples: int, observed: Observation, power: float) -> float:
    """Return the relative 95 % error of the power, the difference of two measured powers that both fluctuate."""
    noise = observed.pseudo_data.noise
    variance = 2 * noise * (noise + 2 * power) / signal.entries + 2 * noise**2 / samples
    return float(CONFIDENCE * np.sqrt(variance) / power)


def _denoiser_error(signal: UnknownSignal, targets: Targets, rho_interval: tuple[float, float], noise: float) -> float:
    """Return half the range of the error of the Bayes-optimal denoiser over the interval of the width."""
    priors = (signal.model(rho, targets.channel).matrix_prior for rho in rho_interval)
    low, high = (float(prior.mmse(np.array([1 / noise])).value[0]) for prior in priors)
    return 0.5 * abs(high - low)


def _claim_error(model: Model, observed: Observation) -> float:
    """Return the difference of the claimed error and Stein's unbiased estimate of it, which holds for any signal.

    The few singular values of a small matrix differ from the law that the denoiser assumes.
    """
    matrix, noise = observed.pseudo_data.matrix, observed.pseudo_data.noise
    denoised = model.matrix_prior.denoise(matrix / noise, 1 / noise)
    measured = signal_power(model.matrix_prior, denoised.signal - matrix) - noise + 2 * float(denoised.onsager)
    return abs(measured - float(denoised.variance))
