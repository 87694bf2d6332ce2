"""Diagnosis of data: properties of inputs and labels that theory assumes, and the theories that can be trusted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.checks import require_arguments
from glassformer.core.display import DisplayMixin
from glassformer.core.errors import DataError
from glassformer.core.estimate import Array
from glassformer.learners.data_assumptions import (
    FEWEST_SAMPLES,
    STANDARD_ERRORS,
    Finding,
    InputSample,
    findings,
    input_sample,
)
from glassformer.learners.data_validation import as_array, as_input_array, first_non_finite, require_squares
from glassformer.numerics.decompositions import eigh, map_eigenvalues, singular_values

if TYPE_CHECKING:
    import pandas as pd

# Harmless shares of the variance of labels: quadratic in the inputs, and nonlinear in their linear predictions. Labels
# with fewer distinct values than the last number are classes (conventions).
_QUADRATIC, _BENT, _CLASSES = 0.1, 0.02, 6
# Largest number of samples in the test of linearity; ridge strengths of the linear predictions, in units of the mean
# eigenvalue of the Gram matrix.
_LINEARITY_SAMPLES, _STRENGTHS = 2000, np.geomspace(1e-3, 1e3, 13)
# Excess kurtosis of labels above which a few of them dominate their squares.
_TAILS = 6.0
# Share of the largest variance below which a direction has no variance.
_EMPTY = 1e-8
# Points of the distribution function of eigenvalues; rows and columns whose spectrum is computed, at most.
_POINTS, _LARGEST = 2001, 800
# Harmless distance from the expected distribution, and its random fluctuation times the number of values.
_DISTANCE, _CHANCE = 0.05, 3.0
# Largest harmless correlation of two entries, and a margin on the largest one of independent entries.
_ALIKE, _MARGIN = 0.2, 1.3


@dataclass(frozen=True)
class Verdict:
    """Whether a theory can be trusted on these data.

    Attributes:
        theory: name of the theory.
        trusted: True when the data satisfy its assumptions.
        reason: properties that violate the assumptions, or why none does.
    """

    theory: str
    trusted: bool
    reason: str


@dataclass(frozen=True, eq=False)
class Diagnosis(DisplayMixin):
    """Measured properties of data, and the theories that can be trusted on them.

    Attributes:
        shape: (n, L, d).
        findings: properties of the inputs as given.
        labels: properties of the labels; empty without labels.
        verdicts: one per theory.
    """

    shape: tuple[int, int, int]
    findings: tuple[Finding, ...]
    labels: tuple[Finding, ...]
    verdicts: tuple[Verdict, ...]
    drawing = "plot_diagnosis"

    @property
    def title(self) -> str:
        n, tokens, d = self.shape
        return f"{n} samples of {tokens} tokens of dimension {d}: n/(L d) = {n / (tokens * d):.3g}"

    @property
    def remarks(self) -> list[str]:
        return [f"{'trust' if one.trusted else 'do not trust'}: {one.theory}: {one.reason}" for one in self.verdicts]

    @property
    def trusted(self) -> tuple[str, ...]:
        """Names of the theories that can be trusted."""
        return tuple(one.theory for one in self.verdicts if one.trusted)

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with one row per property."""
        import pandas as pd

        rows = [
            (one.name, one.value, one.limit, one.chance, one.harmless, one.meaning)
            for one in (*self.findings, *self.labels)
        ]
        return pd.DataFrame(rows, columns=["property", "value", "limit", "chance", "harmless", "meaning"])

    def __str__(self) -> str:
        lines = [self.title]
        for one in (*self.findings, *self.labels):
            mark = "ok  " if one.harmless else "HIGH"
            lines.append(f"  {mark} {one.name:<20} {one.value:8.3g}  harmless up to {one.limit + one.chance:.3g}")
        return "\n".join([*lines, *self.remarks])


def diagnose(inputs: ArrayLike, labels: ArrayLike | None = None) -> Diagnosis:
    """Compare data with the assumptions of theory, and return the theories that can be trusted on them.

    Properties of inputs: the mean, scales and correlations of features and of tokens, tails, the leverage of single
    samples, and the singular values against the Marchenko-Pastur law. Properties of labels: whether they vary, their
    tails, and, for numbers, whether they are linear: the share of a quadratic form of the inputs, and the share
    that is nonlinear in their linear predictions. Theory is universal: entries need not be Gaussian if all properties
    are harmless.

    Args:
        inputs: shape (n, L, d), at least ten samples.
        labels: numbers, shape (n,) or (n, ...), or None.

    Raises:
        DataError: inputs or labels are no numbers, not finite, of another shape, or too few.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((200, 5, 6))
        >>> diagnosis = diagnose(x + 0.5)
        >>> [one.name for one in diagnosis.findings if not one.harmless]
        ['mean']
    """
    require_arguments(diagnose, locals(), but=("inputs", "labels"))
    x = as_input_array(inputs)
    if x.ndim != 3 or 0 in x.shape or len(x) < FEWEST_SAMPLES:
        raise DataError("X", x.shape, f"a shape (samples, tokens, d) with at least {FEWEST_SAMPLES} samples")
    if not np.isfinite(x).all():
        raise DataError("X", first_non_finite("X", x), "finite entries", "remove or repair the samples")
    require_squares("X", x)
    properties = _input_findings(x)
    shape = (len(x), x.shape[1], x.shape[2])
    return Diagnosis(shape, properties, _label_findings(labels, x), _verdicts(x, properties))


def standardise(inputs: Array) -> Array:
    """Return centred inputs, features and then tokens in units of their standard deviation.

    Example:
        >>> x = 3 + 2 * np.random.default_rng(0).standard_normal((100, 2, 3))
        >>> bool(np.isclose(standardise(x).std(), 1))
        True
    """
    x = inputs - inputs.mean(axis=0)
    x = x / _spread(x, (0, 1))
    return np.asarray(x / _spread(x, (0, 2)))


def whiten(inputs: Array) -> Array:
    """Return standardised inputs whose features, and then tokens, are uncorrelated.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((100, 2, 3)) @ np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 1]])
        >>> rows = whiten(x).reshape(-1, 3)
        >>> bool(abs(rows[:, 0] @ rows[:, 1]) < 0.02 * len(rows))
        True
    """
    x = standardise(inputs)
    n, tokens, d = x.shape
    flat = x.reshape(-1, d)
    x = np.asarray(flat @ _inverse_root(flat.T @ flat / len(flat))).reshape(x.shape)
    turned = np.swapaxes(x, 1, 2).reshape(-1, tokens)
    turned = turned @ _inverse_root(turned.T @ turned / len(turned))
    return np.swapaxes(turned.reshape(n, d, tokens), 1, 2)


# Inputs for which theory is tested, in this order, and the preparation that gives the next ones.
_PREPARATIONS: tuple[tuple[str, Callable[[Array], Array] | None], ...] = (
    ("limits, thresholds and message passing, on X as it is", standardise),
    ("the same on standardised X", whiten),
    ("the same on whitened X", None),
)


def _input_findings(inputs: Array) -> tuple[Finding, ...]:
    return (*findings(inputs), spectrum(input_sample(inputs)))


def _verdicts(inputs: Array, properties: tuple[Finding, ...]) -> tuple[Verdict, ...]:
    """Return verdicts on the theory for the inputs as given, standardised and whitened, on VAMP, and on convex fits."""

    def verdict(theory: str, harmful: list[Finding], fine: str) -> Verdict:
        reason = ", ".join(f"{one.name} {one.value:.3g}" for one in harmful)
        return Verdict(theory, not harmful, reason or fine)

    verdicts, measured = [], properties
    for theory, prepare in _PREPARATIONS:
        harmful = [one for one in measured if not one.harmless]
        verdicts.append(verdict(theory, harmful, "all properties of X agree with independent standard normal entries"))
        if not harmful:
            break
        measured = _input_findings(prepare(inputs)) if prepare else ()
    if not verdicts[0].trusted:
        # Vector message passing uses the singular values of X and assumes random singular vectors.
        harmful = [one for one in (*findings(inputs), entry_correlation(input_sample(inputs))) if not one.harmless]
        fine = "singular vectors show no structure; any singular values are allowed"
        verdicts.append(verdict("vamp and its state evolution, on linear labels of X as it is", harmful, fine))
    fit = "convex fits and their cross-validation (risk, estimators)"
    reason = "they assume independent samples only; their theory has the assumptions above"
    return (*verdicts, Verdict(fit, True, reason))


def _label_findings(labels: ArrayLike | None, inputs: Array) -> tuple[Finding, ...]:
    if labels is None:
        return ()
    samples = len(inputs)
    given = as_array("y", labels, "give labels of equal shapes")
    if given.dtype.kind not in "biuf" or given.shape[:1] != (samples,) or not given.size:
        raise DataError("y", f"<{given.dtype} of shape {given.shape}>", f"{samples} numbers, one per sample of X")
    y = given.astype(float).reshape(samples, -1)
    if not np.isfinite(y).all():
        raise DataError("y", first_non_finite("y", given), "finite entries", "remove or repair the samples")
    require_squares("y", y, given.shape[1:])
    spread = y.std(axis=0)
    constant = Finding("constant labels", float(np.mean(spread == 0)), 0.0, 0.0, "share of labels that never vary")
    z = (y - y.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    kurtosis = float(np.mean(z**4)) - 3
    text = (
        "excess kurtosis of the labels; a few labels dominate squared losses: use loss huber, or transform the labels"
    )
    tails = Finding("tails of labels", kurtosis, _TAILS, 5 * float(np.sqrt(24 / samples)), text)
    return (constant, tails, *linearity(inputs, y[:, 0])) if y.shape[1] == 1 else (constant, tails)


def _spread(x: Array, axes: tuple[int, int]) -> Array:
    spread = np.sqrt(np.mean(x**2, axis=axes, keepdims=True))
    return np.where(spread > 0, spread, 1.0)


def _inverse_root(covariance: Array) -> Array:
    def inverse(values: Array) -> Array:
        positive = values > _EMPTY * max(float(values.max()), 1e-300)
        return np.where(positive, 1 / np.sqrt(np.where(positive, values, 1.0)), 0.0)

    return map_eigenvalues(covariance, inverse)


# Spectrum of inputs -------------------------------------------------------------------------------------------------


def marchenko_pastur(values: Array, ratio: float) -> Array:
    r"""Return the distribution function of eigenvalues of :math:`Z Z^T/n`, ``Z`` standard normal of shape (p, n).

    Args:
        values: arguments of the distribution function.
        ratio: :math:`p/n` in (0, 1].

    Source: Marchenko, Pastur, Math. USSR Sb. 1, 457 (1967).

    Example:
        >>> marchenko_pastur(np.array([0.0, 4.0]), 1.0).round(3)
        array([0., 1.])
    """
    low, high = (1 - np.sqrt(ratio)) ** 2, (1 + np.sqrt(ratio)) ** 2
    # In the angle along the support the density is smooth at both ends.
    angle = np.linspace(np.pi, 0.0, _POINTS)
    x = (low + high) / 2 + (high - low) / 2 * np.cos(angle)
    density = ((high - low) / 2 * np.sin(angle)) ** 2 / (2 * np.pi * ratio * np.maximum(x, 1e-300))
    # At ratio one the support begins at zero, where sin^2 and x vanish together.
    density = np.where(x > 1e-12 * high, density, (high - low) / (2 * np.pi * ratio))
    steps = 0.5 * (density[1:] + density[:-1]) * -np.diff(angle)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    return np.interp(values, x, total / total[-1], left=0.0, right=1.0)


def spectrum(sample: InputSample) -> Finding:
    """Return the largest distance of the distribution functions of measured and expected eigenvalues."""
    flat = sample.centred.reshape(len(sample.centred), -1)
    rng = np.random.default_rng(0)
    rows, columns = (np.sort(rng.permutation(size)[:_LARGEST]) for size in flat.shape)
    part = flat[np.ix_(rows, columns)]
    # Centring takes one degree of freedom.
    n, p = max(len(part) - 1, 1), part.shape[1]
    small, large = min(n, p), max(n, p)
    values = np.sort(singular_values(part)[:small] ** 2 / large)
    expected = marchenko_pastur(values, small / large)
    steps = np.arange(small + 1) / small
    distance = float(np.max(np.maximum(np.abs(expected - steps[1:]), np.abs(expected - steps[:-1]))))
    text = "distance of the distribution of singular values from the Marchenko-Pastur law; whiten inputs"
    return Finding("spectrum", distance, _DISTANCE, _CHANCE / small, text)


def entry_correlation(sample: InputSample) -> Finding:
    """Return the largest correlation of two sampled entries, a sign of structure in the singular vectors."""
    flat = sample.centred.reshape(len(sample.centred), -1)
    columns = np.sort(np.random.default_rng(0).permutation(flat.shape[1])[:_LARGEST])
    part = flat[:, columns]
    power = np.sqrt(np.maximum(np.mean(part**2, axis=0), 1e-300))
    correlation = part.T @ part / len(part) / np.outer(power, power)
    np.fill_diagonal(correlation, 0.0)
    # Largest of p^2/2 normal numbers of variance 1/n, to leading order.
    chance = _MARGIN * float(np.sqrt(4 * np.log(max(len(columns), 2)) / len(part)))
    text = "largest correlation of two entries; singular vectors of the inputs have structure"
    return Finding("entry correlation", float(np.max(np.abs(correlation))), _ALIKE, chance, text)


# Linearity of labels ------------------------------------------------------------------------------------------------


def linearity(inputs: Array, labels: Array) -> tuple[Finding, ...]:
    """Return the shares of labels that are quadratic in the inputs or nonlinear; nothing for classes (few values).

    Args:
        inputs: shape (n, L, d).
        labels: shape (n,).

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x = rng.standard_normal((400, 4, 5))
        >>> [one.name for one in linearity(x, x[:, 0, 0] ** 2) if not one.harmless]
        ['quadratic labels']
        >>> [one.name for one in linearity(x, np.exp(x[:, 0, 0])) if not one.harmless]
        ['bent labels']
    """
    if len(np.unique(labels)) < _CLASSES:
        return ()
    count = min(len(labels), _LINEARITY_SAMPLES)
    rows = np.sort(np.random.default_rng(0).choice(len(labels), count, replace=False))
    y, x = labels[rows], inputs[rows].reshape(count, -1).astype(float)
    x -= x.mean(axis=0)
    spread = x.std(axis=0)
    if not np.any(spread > 0):
        # Nothing is a function of inputs that do not vary.
        return ()
    x = x[:, spread > 0] / spread[spread > 0]
    y = y - y.mean()
    # In units of the largest: squares of small labels underflow.
    y = y / np.abs(y).max()
    y = y / y.std()
    gram = x @ x.T
    powers = np.vander(_cross_predictions(gram, y), 4, increasing=True)
    straight, cubic = (y - columns @ np.linalg.lstsq(columns, y)[0] for columns in (powers[:, :2], powers))
    # Products of skewed inputs correlate with the inputs themselves: the linear part is subtracted first.
    return _quadratic_share(gram, straight, x.shape[1]), _bent_share(straight, cubic)


def _quadratic_share(gram: Array, y: Array, size: int) -> Finding:
    r"""Return the share of the components :math:`x_ix_j` and :math:`x_i^2 - 1`, unbiased, from all pairs of samples.

    For ``s`` independent normal entries of unit variance the products of the components of two samples sum to
    :math:`[(x\cdot x')^2 - |x|^2 - |x'|^2 + s]/2`.
    """
    own = np.diag(gram)
    terms = np.outer(y, y) * 0.5 * (gram**2 - own[:, None] - own + size)
    np.fill_diagonal(terms, 0.0)
    pairs = len(y) * (len(y) - 1)
    error = float(np.sqrt(2 * np.sum(terms**2))) / pairs
    text = "share of the labels that is a quadratic form of the inputs; use attention, or a link of several projections"
    return Finding("quadratic labels", float(np.sum(terms)) / pairs, _QUADRATIC, STANDARD_ERRORS * error, text)


def _cross_predictions(gram: Array, y: Array) -> Array:
    """Predict each half of the samples by ridge regression on the other half; with mean zero and spread one."""
    predictions, half = np.empty_like(y), np.arange(len(y)) % 2 == 0
    for test in (half, ~half):
        values, vectors = eigh(gram[np.ix_(~test, ~test)])
        rotated = vectors.T @ y[~test]
        # Generalised cross-validation.
        inverse = 1 / (values + _STRENGTHS[:, None] * max(float(values.mean()), 1e-300))
        losses = np.sum((inverse * rotated) ** 2, axis=1) / np.sum(inverse, axis=1) ** 2
        part = gram[np.ix_(test, ~test)] @ (vectors @ (inverse[np.argmin(losses)] * rotated))
        predictions[test] = (part - part.mean()) / max(float(part.std()), 1e-300)
    return predictions


def _bent_share(straight: Array, cubic: Array) -> Finding:
    """Return the share of squares and cubes of the predictions, from the residuals with and without them."""
    parameters, noise = 2, float(np.mean(cubic**2))
    share = float(np.mean(straight**2)) - noise
    text = "share of the labels that is nonlinear in their linear predictions; transform the labels, or use a link"
    # For linear labels the share is chi-square with as many degrees of freedom as additional parameters.
    chance = STANDARD_ERRORS * noise * float(np.sqrt(2 * parameters)) / len(cubic)
    return Finding("bent labels", share - parameters * noise / len(cubic), _BENT, chance, text)
