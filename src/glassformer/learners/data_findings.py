r"""What inputs are, measured, against what theory and message passing take them for: independent standard normal.

Every quantity is what is left beyond the fluctuation of as many independent numbers, so that small samples are not
blamed for being small; a limit is passed where that matters to an estimate, with a margin of chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.core.errors import DataWarning
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution, Status
from glassformer.designs.base import Design
from glassformer.models.base import Model


@dataclass(frozen=True)
class Policy:
    """What is harmless in data, and what looking at them may cost."""

    looked: int = 250_000  # numbers that are looked at before a run, those of samples drawn among all
    diagnosed: int = 10_000_000  # the same where looking is all there is to do
    least: int = 100  # samples that are looked at, however large
    vectors: int = 50  # for each of their entries, that tell correlations well enough
    fewest: int = 10  # samples that it needs
    chance: float = 5.0  # standard errors by which a limit must be passed
    claim: float = 0.15  # harmless relative distance of a claimed error from the measured one
    certain: float = 2.5  # standard errors beside it
    known: float = 1e-6  # error below which a signal counts as known
    tails: float = 6.0  # excess kurtosis of labels from which on squares are dominated by a few of them
    empty: float = 1e-8  # share of the largest variance below which a direction is empty
    largest: int = 800  # number of rows and columns whose spectrum is looked at
    points: int = 2001  # of its distribution function
    distance: float = 0.05  # from the expected one that is harmless
    spread: float = 3.0  # what chance makes of that over their number
    alike: float = 0.2  # largest correlation of two entries that is harmless
    margin: float = 1.3  # of the largest of many by chance


POLICY = Policy()


@dataclass(frozen=True)
class Finding:
    """One property of inputs.

    Attributes:
        name: of the property.
        value: measured, beyond chance where chance has a share in it.
        limit: up to which it is harmless.
        chance: what a limit is passed by without meaning anything.
        meaning: what it is, and how to do away with it.
    """

    name: str
    value: float
    limit: float
    chance: float
    meaning: str

    @property
    def harmless(self) -> bool:
        """Whether the limit is kept, as far as chance lets one tell."""
        return self.value <= self.limit + self.chance

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3g} (harmless up to {self.limit:.3g}): {self.meaning}"


@dataclass(frozen=True)
class Sample:
    """Inputs, and what several findings share.

    Attributes:
        centred: inputs around their mean over samples, in units of their mean square, shape (n, L, d).
        mean: over samples, shape (L, d).
        spread: mean variance of an entry.
    """

    centred: Array
    mean: Array
    spread: float

    @property
    def size(self) -> int:
        """Numbers of one input."""
        return int(self.mean.size)

    @property
    def free(self) -> float:
        """Share of the numbers that their mean leaves free."""
        return 1 - 1 / len(self.centred)

    @cached_property
    def squares(self) -> Array:
        """Of the centred inputs."""
        return np.square(self.centred)

    @cached_property
    def kurtosis(self) -> float:
        """Excess kurtosis of entries, each in units of its own spread: scales are no tails."""
        power = np.mean(self.squares, axis=0)
        fourth = np.einsum("nld,nld->ld", self.squares, self.squares) / len(self.squares)
        seen = power > 1e-12
        return float(np.mean(fourth[seen] / power[seen] ** 2)) - 3 if seen.any() else 0.0


def sampled(inputs: Array, looked: int = POLICY.diagnosed) -> Sample:
    """So many numbers of the inputs, shape (n, L, d), however many there are."""
    count = max(POLICY.least, looked // int(np.prod(inputs.shape[1:])))
    if count < len(inputs):
        inputs = inputs[np.sort(np.random.default_rng(0).choice(len(inputs), count, replace=False))]
    mean = inputs.mean(axis=0, dtype=np.float64)
    x = inputs - mean
    spread = float(np.vdot(x, x)) / x.size
    # One degree of freedom of every entry went into its mean.
    power = spread * len(x) / max(len(x) - 1, 1)
    x *= 1 / np.sqrt(power) if power > 0 else 1.0
    return Sample(x, mean, spread)


def findings(inputs: Array, looked: int = POLICY.diagnosed) -> tuple[Finding, ...]:
    """All properties of inputs, shape (n, L, d), of at least two samples, on so many of their numbers.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((200, 5, 6))
        >>> [one.name for one in findings(x + 1) if not one.harmless]
        ['mean']
    """
    sample = sampled(inputs, looked)
    return tuple(measure(sample) for measure in MEASURES)


def contradictions(inputs: Array) -> tuple[Finding, ...]:
    """Those that are not harmless; none of a few samples, which contradict nothing.

    Looking takes a few per cent of the time that message passing does.
    """
    if len(inputs) < POLICY.fewest:
        return ()
    return tuple(one for one in findings(inputs, POLICY.looked) if not one.harmless)


def warn_of(against: Sequence[Finding]) -> None:
    """Warn whoever called the caller of what is not harmless, if anything is."""
    if against:
        what = "; ".join(map(str, against))
        text = f"the data are not what message passing takes them for, and its claims may be wrong: {what}"
        warnings.warn(text, DataWarning, stacklevel=3)


def label_power(model: Model, design: Design, labels: Array) -> tuple[Finding, ...]:
    """Whether labels, shape (n,), of a linear channel have another mean square than those of the model."""
    if labels.ndim > 1 or not getattr(model.channel, "linear", False):
        return ()
    expected = 1 + float(model.channel.label_noise)
    chance = np.sqrt(2 / len(labels)) + model.prior.power_deviation(design.signal_shape)
    off = abs(float(np.mean(labels**2)) / expected - 1)
    text = f"relative distance of the mean square of y from {expected:.4g}, that of the model; rescale y, or noise"
    found = Finding("label power", off, 0.25, POLICY.chance * chance, text)
    return () if found.harmless else (found,)


def claimed_error(model: Model, design: Design, labels: Array, found: Solution) -> tuple[Finding, ...]:
    r"""Whether residuals of linear labels, shape (n,), speak of another error than a run that settled claims.

    Their mean square, with the Onsager term, is :math:`\alpha/A = \Delta + E`, whatever width is believed in.
    """
    settled = found.status[0] in (Status.CONVERGED, Status.CONTRADICTED)
    if labels.ndim > 1 or not settled or not getattr(model.channel, "linear", False):
        return ()
    noise, claimed = float(model.channel.label_noise), float(found.error_estimate[0])
    measured = design.sample_ratio / float(found.extra["precision"][0]) - noise
    chance = np.sqrt(2 / len(labels)) * (noise + max(measured, claimed)) / max(claimed, 1e-300)
    text = (
        f"relative distance of the claimed error {claimed:.3g} from what residuals leave for it, {measured:.3g}; "
        "width or noise of the model is not that of the labels: take those of estimate_model(X, y)"
    )
    off = abs(measured / max(claimed, 1e-300) - 1)
    one = Finding("claimed error", off, POLICY.claim, POLICY.certain * chance, text)
    return () if one.harmless or claimed <= POLICY.known else (one,)


def _mean(sample: Sample) -> Finding:
    """Norm of the mean input in units of an entry: beyond one it is the strongest direction of all."""
    n, power = len(sample.centred), sample.spread
    norm = float(np.sum(sample.mean**2)) / power if power > 0 else np.inf
    text = "length of the mean input in standard deviations of an entry; subtract the mean over samples"
    return _root("mean", norm - sample.size / n, 1.0, np.sqrt(2 * sample.size) / n, text)


def _scale(sample: Sample) -> Finding:
    spread = np.sqrt(sample.spread)
    chance = POLICY.chance * np.sqrt((2 + abs(sample.kurtosis)) / (2 * sample.centred.size))
    text = "distance of the standard deviation of the entries from one; divide by it"
    return Finding("scale", abs(spread - 1), 0.1, chance, text)


def _feature_scales(sample: Sample) -> Finding:
    return _scales(sample, (0, 1), "feature scales", "features")


def _token_scales(sample: Sample) -> Finding:
    return _scales(sample, (0, 2), "token scales", "tokens")


def _scales(sample: Sample, axes: tuple[int, int], name: str, what: str) -> Finding:
    powers = np.mean(sample.squares, axis=axes)
    counted = sample.free * sample.centred.size / len(powers)
    error = (2 + max(sample.kurtosis, -1.9)) / counted
    text = f"relative spread of the variances of the {what}; divide each by its standard deviation"
    return _root(name, float(np.var(powers)) - error, 0.2**2, error * np.sqrt(2 / len(powers)), text)


def _token_correlation(sample: Sample) -> Finding:
    return _correlation(sample, (0, 2, 1), "token correlation", "tokens")


def _feature_correlation(sample: Sample) -> Finding:
    return _correlation(sample, (0, 1, 2), "feature correlation", "features")


def _correlation(sample: Sample, axes: tuple[int, int, int], name: str, what: str) -> Finding:
    """Root of the sum of squared correlations of one coordinate, the last axis, with all others, in the mean."""
    size = sample.centred.shape[axes[-1]]
    samples = max(POLICY.least, -(-POLICY.vectors * size**2 // sample.size))
    rows = sample.centred[:samples].transpose(axes).reshape(-1, size)
    covariance = rows.T @ rows / len(rows)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    others = covariance / np.outer(spread, spread)
    np.fill_diagonal(others, 0.0)
    error = (size - 1) / (sample.free * len(rows))
    text = f"root of the sum of squared correlations of one of the {what} with the others; whiten them"
    excess = float(np.sum(others**2)) / size - error
    return _root(name, excess, 0.4**2, error * np.sqrt(2 / max(size * (size - 1) / 2, 1)), text)


def _tails(sample: Sample) -> Finding:
    text = "excess kurtosis of the entries; transform them (ranks, logarithms), or clip outliers and say so"
    error = np.sqrt(24 / sample.centred.size)
    return Finding("heavy tails", sample.kurtosis, 3.0, POLICY.chance * error, text)


def _leverage(sample: Sample) -> Finding:
    powers = np.mean(sample.squares, axis=(1, 2))
    error = (2 + max(sample.kurtosis, -1.9)) / sample.size
    text = "spread of the mean squares of single inputs; some samples weigh far more than others: divide by their norm"
    return _root("leverage", float(np.var(powers)) - error, 0.3**2, error * np.sqrt(2 / len(powers)), text)


def _root(name: str, square: float, limit: float, error: float, meaning: str) -> Finding:
    """A finding whose square is measured with this standard error."""
    reach = np.sqrt(limit + POLICY.chance * error) - np.sqrt(limit)
    return Finding(name, float(np.sqrt(max(square, 0.0))), float(np.sqrt(limit)), float(reach), meaning)


MEASURES: tuple[Callable[[Sample], Finding], ...] = (
    _mean,
    _scale,
    _feature_scales,
    _token_scales,
    _token_correlation,
    _feature_correlation,
    _tails,
    _leverage,
)
