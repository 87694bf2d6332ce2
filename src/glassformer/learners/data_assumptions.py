r"""Data assumptions: tests whether inputs have independent standard normal entries, as the theory assumes.

From every measured quantity the expected fluctuation of independent entries is subtracted, so that small samples do not
violate an assumption by chance. A limit is the size of a violation that begins to change an estimate.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from glassformer.core.errors import DataWarning
from glassformer.core.estimate import Array
from glassformer.core.solution import Solution
from glassformer.core.status import Status
from glassformer.designs.base import Design
from glassformer.models.base import Model

# Number of entries of the inputs that are examined before a run (a few per cent of its time), and by `diagnose`.
ENTRIES_BEFORE_A_RUN, ENTRIES_OF_A_DIAGNOSIS = 250_000, 10_000_000
# Smallest number of examined samples, whatever their size, and number of samples below which nothing is examined.
_LEAST_SAMPLES, FEWEST_SAMPLES = 100, 10
# Number of vectors per entry for the measurement of correlations; more vectors improve the accuracy only slightly.
_VECTORS = 50
# Standard errors by which a limit must be exceeded: one false warning in two million.
STANDARD_ERRORS = 5.0
# Harmless relative distance of the claimed from the measured error, standard errors added to it, and error below which
# a signal counts as known (measured on converged runs).
_CLAIM, _CLAIM_STANDARD_ERRORS, _KNOWN = 0.15, 2.5, 1e-6


@dataclass(frozen=True)
class Finding:
    """One measured property of inputs or labels.

    Attributes:
        name: name of the property.
        value: measured value, minus the expected fluctuation.
        limit: largest harmless value.
        chance: excess over the limit that may occur by chance.
        meaning: description of the property, and the remedy.
    """

    name: str
    value: float
    limit: float
    chance: float
    meaning: str

    @property
    def harmless(self) -> bool:
        """Whether the value is below the limit plus the excess by chance."""
        return self.value <= self.limit + self.chance

    def __str__(self) -> str:
        return f"{self.name} {self.value:.3g} (harmless up to {self.limit:.3g}): {self.meaning}"


@dataclass(frozen=True)
class InputSample:
    """A part of the inputs, and the moments that several findings use.

    Attributes:
        centred: inputs minus their mean over samples, in units of their root mean square, shape (n, L, d).
        mean: mean over samples, shape (L, d).
        spread: mean variance of an entry.
    """

    centred: Array
    mean: Array
    spread: float

    @property
    def size(self) -> int:
        """Number of entries of one input."""
        return int(self.mean.size)

    @property
    def degrees_of_freedom(self) -> float:
        """Degrees of freedom per entry after the mean is subtracted."""
        return 1 - 1 / len(self.centred)

    @cached_property
    def squares(self) -> Array:
        """Squares of the centred inputs."""
        return np.square(self.centred)

    @cached_property
    def kurtosis(self) -> float:
        """Excess kurtosis of the entries, each normalised by its own variance, so that scales do not matter."""
        power = np.mean(self.squares, axis=0)
        fourth = np.einsum("nld,nld->ld", self.squares, self.squares) / len(self.squares)
        varies = power > 1e-12
        return float(np.mean(fourth[varies] / power[varies] ** 2)) - 3 if varies.any() else 0.0


def input_sample(inputs: Array, entries: int = ENTRIES_OF_A_DIAGNOSIS) -> InputSample:
    """Return a random part of the inputs, shape (n, L, d), with about this number of entries."""
    count = max(_LEAST_SAMPLES, entries // int(np.prod(inputs.shape[1:])))
    if count < len(inputs):
        inputs = inputs[np.sort(np.random.default_rng(0).choice(len(inputs), count, replace=False))]
    mean = inputs.mean(axis=0, dtype=np.float64)
    x = inputs - mean
    spread = float(np.vdot(x, x)) / x.size
    # The mean takes one degree of freedom from every entry.
    power = spread * len(x) / max(len(x) - 1, 1)
    x *= 1 / np.sqrt(power) if power > 0 else 1.0
    return InputSample(x, mean, spread)


def findings(inputs: Array, entries: int = ENTRIES_OF_A_DIAGNOSIS) -> tuple[Finding, ...]:
    """Return all findings on inputs, shape (n, L, d), of at least two samples, from this number of entries.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((200, 5, 6))
        >>> [one.name for one in findings(x + 1) if not one.harmless]
        ['mean']
    """
    sample = input_sample(inputs, entries)
    return (
        _mean(sample),
        _scale(sample),
        _scales(sample, (0, 1), "feature scales", "features"),
        _scales(sample, (0, 2), "token scales", "tokens"),
        _correlation(sample, (0, 2, 1), "token correlation", "tokens"),
        _correlation(sample, (0, 1, 2), "feature correlation", "features"),
        _heavy_tails(sample),
        _leverage(sample),
    )


def violations(inputs: Array) -> tuple[Finding, ...]:
    """Return the findings that are not harmless; none for fewer than ten samples, which do not suffice."""
    if len(inputs) < FEWEST_SAMPLES:
        return ()
    return tuple(one for one in findings(inputs, ENTRIES_BEFORE_A_RUN) if not one.harmless)


def warn_of_violations(violated: Sequence[Finding]) -> None:
    """Issue a warning if there are findings; its location is the caller of the caller."""
    if violated:
        what = "; ".join(map(str, violated))
        text = f"the data violate the assumptions of message passing, and its claimed error may be wrong: {what}"
        warnings.warn(text, DataWarning, stacklevel=3)


def label_power(model: Model, design: Design, labels: Array) -> tuple[Finding, ...]:
    """Return a finding if the mean square of linear labels, shape (n,), differs from that of the model."""
    if labels.ndim > 1 or not model.channel.labels.linear:
        return ()
    expected = 1 + float(model.channel.labels.noise)
    chance = np.sqrt(2 / len(labels)) + model.prior.power_deviation(design.signal_shape)
    distance = abs(float(np.mean(labels**2)) / expected - 1)
    text = f"relative distance of the mean square of y from that of the model, {expected:.4g}; rescale y or the noise"
    finding = Finding("label power", distance, 0.25, STANDARD_ERRORS * chance, text)
    return () if finding.harmless else (finding,)


def claimed_error(
    model: Model, design: Design, labels: Array, solution: Solution, instance: int = 0
) -> tuple[Finding, ...]:
    r"""Return a finding if residuals of linear labels, shape (n,), contradict the claimed error of a converged run.

    The mean square of the residuals, with the Onsager term, is :math:`\alpha/A = \Delta + E` for any assumed width.
    """
    settled = solution.status[instance] in (Status.CONVERGED, Status.CONTRADICTED)
    if labels.ndim > 1 or not settled or not model.channel.labels.linear:
        return ()
    noise, claimed = float(model.channel.labels.noise), float(solution.error_estimate[instance])
    measured = design.sample_ratio / float(solution.extra["precision"][instance]) - noise
    chance = np.sqrt(2 / len(labels)) * (noise + max(measured, claimed)) / max(claimed, 1e-300)
    text = (
        f"relative distance of the claimed error {claimed:.3g} from the measured one, {measured:.3g}; "
        "the width or the noise of the model is wrong: use those of estimate_model(X, y)"
    )
    distance = abs(measured / max(claimed, 1e-300) - 1)
    finding = Finding("claimed error", distance, _CLAIM, _CLAIM_STANDARD_ERRORS * chance, text)
    return () if finding.harmless or claimed <= _KNOWN else (finding,)


def _mean(sample: InputSample) -> Finding:
    """Return the norm of the mean input in standard deviations of an entry; above one it dominates all directions."""
    n, power = len(sample.centred), sample.spread
    norm = float(np.sum(sample.mean**2)) / power if power > 0 else np.inf
    text = "length of the mean input in standard deviations of an entry; subtract the mean over samples"
    return _root("mean", norm - sample.size / n, 1.0, np.sqrt(2 * sample.size) / n, text)


def _scale(sample: InputSample) -> Finding:
    spread = np.sqrt(sample.spread)
    chance = STANDARD_ERRORS * np.sqrt((2 + abs(sample.kurtosis)) / (2 * sample.centred.size))
    text = "distance of the standard deviation of the entries from one; divide by it"
    return Finding("scale", abs(spread - 1), 0.1, chance, text)


def _scales(sample: InputSample, axes: tuple[int, int], name: str, what: str) -> Finding:
    powers = np.mean(sample.squares, axis=axes)
    counted = sample.degrees_of_freedom * sample.centred.size / len(powers)
    error = (2 + max(sample.kurtosis, -1.9)) / counted
    text = f"relative spread of the variances of the {what}; divide each by its standard deviation"
    return _root(name, float(np.var(powers)) - error, 0.2**2, error * np.sqrt(2 / len(powers)), text)


def _correlation(sample: InputSample, axes: tuple[int, int, int], name: str, what: str) -> Finding:
    """Return the root of the sum of squared correlations of one coordinate (the last axis) with the others."""
    size = sample.centred.shape[axes[-1]]
    samples = max(_LEAST_SAMPLES, -(-_VECTORS * size**2 // sample.size))
    rows = sample.centred[:samples].transpose(axes).reshape(-1, size)
    covariance = rows.T @ rows / len(rows)
    spread = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    others = covariance / np.outer(spread, spread)
    np.fill_diagonal(others, 0.0)
    error = (size - 1) / (sample.degrees_of_freedom * len(rows))
    text = f"root of the sum of squared correlations of one of the {what} with the others; whiten them"
    excess = float(np.sum(others**2)) / size - error
    return _root(name, excess, 0.4**2, error * np.sqrt(2 / max(size * (size - 1) / 2, 1)), text)


def _heavy_tails(sample: InputSample) -> Finding:
    text = "excess kurtosis of the entries; transform them (ranks, logarithms), or clip outliers and report it"
    error = np.sqrt(24 / sample.centred.size)
    return Finding("heavy tails", sample.kurtosis, 3.0, STANDARD_ERRORS * error, text)


def _leverage(sample: InputSample) -> Finding:
    powers = np.mean(sample.squares, axis=(1, 2))
    error = (2 + max(sample.kurtosis, -1.9)) / sample.size
    text = "spread of the mean squares of single inputs, some of which dominate; divide each input by its norm"
    return _root("leverage", float(np.var(powers)) - error, 0.3**2, error * np.sqrt(2 / len(powers)), text)


def _root(name: str, square: float, limit: float, error: float, meaning: str) -> Finding:
    """Return the finding on the root of a quantity with this standard error."""
    chance = np.sqrt(limit + STANDARD_ERRORS * error) - np.sqrt(limit)
    return Finding(name, float(np.sqrt(max(square, 0.0))), float(np.sqrt(limit)), float(chance), meaning)
