r"""Width and noise that nobody knows, estimated from the data they left their traces in.

Whatever denoiser it uses, message passing on linear labels sees the signal through noise that it measures: the matrix
:math:`R = \hat S + \mathrm{adjoint}(z)/\alpha` is :math:`S + \tau Z` with :math:`\tau^2 = \langle z^2\rangle/\alpha`,
``z`` the residuals with their Onsager term. The singular values of ``R`` tell the width; the best denoiser of that
width makes :math:`\tau^2` smaller, and so on. What :math:`\tau^2` exceeds the error by is the noise,
:math:`\alpha\tau^2 = \Delta + E`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments, require_integer
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError, DataWarning
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution, Status
from glassformer.data_analysis.signals import BilinearSignal, UnknownSignal
from glassformer.data_analysis.targets import NumberTargets, Seen, Targets
from glassformer.data_analysis.widths import SEARCH, Width, width_of
from glassformer.designs.dense import DenseDesign
from glassformer.learners.algorithms.gamp_state import Sight
from glassformer.learners.algorithms.gamp_step import GampStep
from glassformer.learners.algorithms.message_passing import message_passing
from glassformer.learners.bayes import MessagePassing
from glassformer.learners.data_arrays import as_inputs, observed
from glassformer.learners.data_findings import contradictions, warn_of
from glassformer.learners.gamp import solution_of
from glassformer.models.base import Model
from glassformer.models.bsr import BilinearSequenceRegression

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, eq=False)
class EstimatedModel(DisplayMixin):
    r"""Labels :math:`y = m + \sqrt P\,(h + \sqrt\Delta\,z)`, or the sign of that, as the data say they are made.

    Attributes:
        model: with the estimated width and noise, for labels :math:`(y - m)/\sqrt P`.
        rho: :math:`r/d`, and ``rho_interval``, of 95 per cent.
        noise: :math:`\Delta`, in units of the signal's share of the labels, and ``noise_error``, of 95 per cent: of
            the matrix at hand, whose power at a small size is not the mean of its law.
        power: ``P``, what the signal adds to the variance of the labels.
        offset: ``m``; of classes the constant inside the sign.
        solution: of message passing with this model.
        status: how that ended: estimates of a run that did not settle are no more than a guess, and NaN where the run
            never saw the signal.
        settled: labels as the fields at the end, none of which has seen its own label, say they are made: what
            predictions are calibrated with.
        rank: directions of the signal that stand out of the noise through which message passing sees it in the end: the
            singular values beyond the largest of noise alone.

    Example:
        That of :func:`~glassformer.data_analysis.width.estimate_model`, which makes it.
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
    rank: int = 0
    drawing = "plot_estimate"

    def to_pandas(self) -> pandas.DataFrame:
        """One row: what was estimated, and how it ended."""
        import pandas

        low, high = self.rho_interval
        found = {"rho": self.rho, "rho_low": low, "rho_high": high, "noise": self.noise}
        found |= {"noise_error": self.noise_error, "power": self.power, "offset": self.offset}
        return pandas.DataFrame([{**found, "status": str(self.status)}])


def estimate_model(
    inputs: ArrayLike, labels: ArrayLike, *, settings: MessagePassing | None = None, seed: int = 0
) -> EstimatedModel:
    """The width and the noise of bilinear sequence regression with linear labels, and message passing with them.

    Args:
        inputs: shape (n, L, d), close to independent standard normal (see
            :func:`~glassformer.data_analysis.diagnosis.diagnose`).
        labels: numbers, shape (n,), of any mean and variance.
        settings: of message passing.
        seed: of the matrices that singular values are compared with.

    Warns:
        DataWarning: the inputs contradict that, or labels show no signal: the noise has an infinite error then.

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
    x = as_inputs(inputs)
    if x.ndim != 3 or min(x.shape[1:]) < SEARCH.narrowest or len(x) < SEARCH.narrowest:
        raise DataError(
            "X", x.shape, f"a shape (samples, L, d), none below {SEARCH.narrowest}: fewer values tell no width"
        )
    start = BilinearSequenceRegression(beta=x.shape[1] / x.shape[2], rho=1.0, noise=0.5)
    _, own = observed(start, x, labels)
    if np.ptp(x) == 0:
        raise DataError("X", f"<all entries {x.flat[0]:g}>", "inputs that vary")
    warn_of(contradictions(x))
    found = estimated(BilinearSignal(DenseDesign(x)), NumberTargets.of(own[0]), settings, seed)
    if not found.noise * SEARCH.faintest >= 1:
        return found
    told = f"labels show no signal: they tell no width, and of the noise that it is beyond {1 / SEARCH.faintest:g}"
    warnings.warn(told, DataWarning, stacklevel=2)
    return replace(found, noise_error=np.inf)


def estimated(
    signal: UnknownSignal,
    targets: Targets,
    settings: MessagePassing | None = None,
    seed: int = 0,
    step: type[GampStep] = GampStep,
) -> EstimatedModel:
    """The width of a signal and what labels are made of beside it, and message passing with them.

    Args:
        signal: what may be behind the labels.
        targets: labels.
        settings: of message passing.
        seed: of the matrices that singular values are compared with.
        step: of message passing.
    """
    rng, steps, samples = np.random.default_rng(seed), settings or MessagePassing(), len(targets.scaled)
    columns, rho, failures = signal.columns, 1.0, 0
    for _ in range(SEARCH.rounds):
        model = signal.model(rho, targets.channel)
        seen = _seen(model, signal.design, targets.scaled, steps, seed, step)
        if not seen.sight.finite:
            return _not_seen(model, seen, targets)
        whole = max(model.matrix_prior.power(seen.sight.matrix) - seen.sight.noise, SEARCH.faintest)
        width = _width(signal, seen, whole, samples, rng)
        if not np.isfinite(width.value):
            return _not_seen(model, seen, targets)
        rho = width.value / columns
        model = signal.model(rho, targets.channel)
        share = whole / model.matrix_prior.second_moment
        targets = targets.after(seen, share)
        # A wrong model is contradicted until its width and noise are found; one that never stops is given up.
        stopped = seen.solution.status[0] in (Status.CONVERGED, Status.CONTRADICTED)
        failures = 0 if stopped else failures + 1
        if failures == SEARCH.failures:
            break
    widths = (width.interval[0] / columns, width.interval[1] / columns)
    model = signal.model(rho, targets.channel)
    # The noise is a ratio to a power that is measured as well.
    doubts = (
        targets.error(seen),
        targets.noise * share * _doubt_of_power(signal, samples, seen, whole),
        share * _doubt_of_errors(signal, targets, widths, seen.sight.noise / share),
        _doubt_of_claim(model, seen),
    )
    final = seen if failures == SEARCH.failures else _seen(model, signal.design, targets.scaled, steps, seed, step)
    if not final.sight.finite:
        return _not_seen(model, final, targets)
    status = final.solution.status[0]
    if status.ok and width.misfit > SEARCH.misfit:
        status = Status.CONTRADICTED
    return EstimatedModel(
        model,
        rho,
        widths,
        targets.noise,
        float(np.linalg.norm(doubts) / share),
        targets.power,
        targets.offset,
        final.solution,
        status,
        targets.fitted(final),
        _rank(signal, final.sight, rng),
    )


def _rank(signal: UnknownSignal, sight: Sight, rng: np.random.Generator) -> int:
    """Singular values, or eigenvalues, of the signal seen through noise beyond the largest of noise alone."""
    alone = max(np.abs(signal.values(signal.drawn(1, 0.0, sight.noise, rng))).max() for _ in range(SEARCH.noises))
    return int(np.sum(np.abs(signal.values(sight.matrix)) > alone))


def _not_seen(model: Model, seen: Seen, targets: Targets) -> EstimatedModel:
    """Message passing never saw the signal: there are no estimates."""
    status = Status.NON_FINITE if seen.solution.status[0].ok else seen.solution.status[0]
    nothing = (np.nan, np.nan)
    return EstimatedModel(model, np.nan, nothing, np.nan, np.inf, np.nan, np.nan, seen.solution, status, targets)


def _doubt_of_errors(signal: UnknownSignal, targets: Targets, widths: tuple[float, float], noise: float) -> float:
    """Half the range of the error of the best denoiser over what the width may be."""
    priors = (signal.model(rho, targets.channel).matrix_prior for rho in widths)
    low, high = (float(prior.mmse(np.array([1 / noise])).value[0]) for prior in priors)
    return 0.5 * abs(high - low)


def _doubt_of_claim(model: Model, seen: Seen) -> float:
    """By how much the denoiser misses the signal more, or less, than it claims: Stein's estimate, for any signal.

    The few singular values of a small matrix are not those of the law, which pulls them to where they should be.
    """
    matrix, noise = seen.sight.matrix, seen.sight.noise
    found = model.matrix_prior.denoise(matrix / noise, 1 / noise)
    measured = model.matrix_prior.power(found.signal - matrix) - noise + 2 * float(found.onsager)
    return abs(measured - float(found.variance))


def _doubt_of_power(signal: UnknownSignal, samples: int, seen: Seen, whole: float) -> float:
    """Of the power, relative, of 95 per cent: that of what is seen without the noise, both of which fluctuate."""
    noise = seen.sight.noise
    variance = 2 * noise * (noise + 2 * whole) / signal.entries + 2 * noise**2 / samples
    return float(SEARCH.confidence * np.sqrt(variance) / whole)


def _seen(model: Model, design: Any, labels: Array, settings: MessagePassing, seed: int, kind: type[GampStep]) -> Seen:
    step = kind(model, design, labels, 0, settings, seed)
    run = message_passing(step, settings.max_iterations, settings.damping)
    return Seen(step.sight(run.state), float(run.state.claimed), solution_of(model, [run]))


def _width(signal: UnknownSignal, seen: Seen, power: float, samples: int, rng: np.random.Generator) -> Width:
    """Drawn are signals of every width and of the same power seen through the same noise, as far as those are known."""
    doubt = _doubt_of_power(signal, samples, seen, power) / SEARCH.confidence

    def drawn(width: int) -> Array:
        # Log-normal, with the mean and the variance of a mean of squares: it stays positive with few samples too.
        noise = seen.sight.noise * np.exp(np.sqrt(2 / samples) * rng.standard_normal() - 1 / samples)
        left = max((power + seen.sight.noise - noise) * (1 + doubt * rng.standard_normal()), 0.0)
        return signal.moments(signal.values(signal.drawn(width, left, noise, rng)))

    largest = max(2.0, SEARCH.widest * min(seen.sight.matrix.shape))
    return width_of(signal.moments(signal.values(seen.sight.matrix)), largest, drawn)
