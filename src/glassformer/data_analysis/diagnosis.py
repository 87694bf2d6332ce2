"""What is known of inputs and labels before anything is learned, and which theory may be believed of them."""

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
from glassformer.data_analysis.linearity import linearity
from glassformer.data_analysis.spectrum import alike, spectrum
from glassformer.learners.data_arrays import as_inputs, first_bad, one_array, require_squares
from glassformer.learners.data_findings import POLICY, Finding, findings, sampled
from glassformer.numerics.decompositions import map_eigenvalues

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Verdict:
    """Whether a theory may be believed.

    Attributes:
        theory: what it says.
        trusted: whether the data are what it takes them for.
        reason: why.
    """

    theory: str
    trusted: bool
    reason: str


@dataclass(frozen=True, eq=False)
class Diagnosis(DisplayMixin):
    """Measured properties of data, and what follows.

    Attributes:
        shape: (n, L, d).
        findings: of the inputs as they are.
        labels: of the labels; empty without them.
        verdicts: which theory may be trusted.
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
        """Theories that may be believed."""
        return tuple(one.theory for one in self.verdicts if one.trusted)

    def to_pandas(self) -> pd.DataFrame:
        """One row per property."""
        import pandas as pd

        rows = [
            (one.name, one.value, one.limit, one.chance, one.harmless, one.meaning)
            for one in (*self.findings, *self.labels)
        ]
        return pd.DataFrame(rows, columns=["property", "value", "limit", "chance", "harmless", "meaning"])

    def __str__(self) -> str:
        lines = [self.title]
        for one in (*self.findings, *self.labels):
            mark = "ok  " if one.harmless else "LOOK"
            lines.append(f"  {mark} {one.name:<20} {one.value:8.3g}  harmless up to {one.limit + one.chance:.3g}")
        return "\n".join([*lines, *self.remarks])


def diagnose(inputs: ArrayLike, labels: ArrayLike | None = None) -> Diagnosis:
    """Compare inputs with the independent standard normal numbers of the theory, and say what may be believed.

    Looked at are the mean, scales and correlations of features and of tokens, tails, the leverage of single samples,
    and the singular values against Marchenko and Pastur's law; of labels whether they vary, their tails, and, of
    numbers, whether they are linear: whether a quadratic form of the inputs has a share in them, and whether they bend
    against their own linear predictions. Theory is universal: entries need not be Gaussian as long as all of this is
    harmless.

    Args:
        inputs: shape (n, L, d), at least ten samples.
        labels: numbers, shape (n,) or (n, ...), or None.

    Raises:
        DataError: inputs or labels are no numbers, not finite, of another shape, or too few.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((200, 5, 6))
        >>> found = diagnose(x + 0.5)
        >>> [one.name for one in found.findings if not one.harmless]
        ['mean']
    """
    require_arguments(diagnose, locals(), but=("inputs", "labels"))
    x = as_inputs(inputs)
    if x.ndim != 3 or 0 in x.shape or len(x) < POLICY.fewest:
        raise DataError("X", x.shape, f"a shape (samples, tokens, d) with at least {POLICY.fewest} samples")
    if not np.isfinite(x).all():
        raise DataError("X", first_bad("X", x), "finite entries", "remove or repair the samples")
    require_squares("X", x)
    own = _all_findings(x)
    verdicts = _verdicts(x, own)
    return Diagnosis((len(x), x.shape[1], x.shape[2]), own, _of_labels(labels, x), verdicts)


def standardised(inputs: Array) -> Array:
    """Inputs around their mean, features and then tokens in units of their standard deviation.

    Example:
        >>> x = 3 + 2 * np.random.default_rng(0).standard_normal((100, 2, 3))
        >>> bool(np.isclose(standardised(x).std(), 1))
        True
    """
    x = inputs - inputs.mean(axis=0)
    x = x / _spread(x, (0, 1))
    return np.asarray(x / _spread(x, (0, 2)))


def whitened(inputs: Array) -> Array:
    """Standardised inputs whose features, and then tokens, are uncorrelated.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((100, 2, 3)) @ np.array([[1.0, 1, 0], [0, 1, 0], [0, 0, 1]])
        >>> rows = whitened(x).reshape(-1, 3)
        >>> bool(abs(rows[:, 0] @ rows[:, 1]) < 0.02 * len(rows))
        True
    """
    x = standardised(inputs)
    n, tokens, d = x.shape
    flat = x.reshape(-1, d)
    x = np.asarray(flat @ _inverse_root(flat.T @ flat / len(flat))).reshape(x.shape)
    turned = np.swapaxes(x, 1, 2).reshape(-1, tokens)
    turned = turned @ _inverse_root(turned.T @ turned / len(turned))
    return np.swapaxes(turned.reshape(n, d, tokens), 1, 2)


# What theory may be believed on, one after the other, and what makes the next of it.
_PREPARATIONS: tuple[tuple[str, Callable[[Array], Array] | None], ...] = (
    ("limits, thresholds and message passing, on X as it is", standardised),
    ("the same on standardised X", whitened),
    ("the same on whitened X", None),
)


def _all_findings(inputs: Array) -> tuple[Finding, ...]:
    return (*findings(inputs), spectrum(sampled(inputs)))


def _of_singular_values(inputs: Array) -> Verdict:
    """On vector message passing, which takes singular values as they are and vectors for random ones."""
    wrong = [one for one in (*findings(inputs), alike(sampled(inputs))) if not one.harmless]
    reason = ", ".join(f"{one.name} {one.value:.3g}" for one in wrong)
    fine = "singular vectors show no structure; singular values may be any"
    return Verdict("vamp and its state evolution, on linear labels of X as it is", not wrong, reason or fine)


def _verdicts(inputs: Array, own: tuple[Finding, ...]) -> tuple[Verdict, ...]:
    """On the data as they are, standardised, whitened; and on what assumes nothing."""
    found, measured = [], own
    for theory, following in _PREPARATIONS:
        wrong = [one for one in measured if not one.harmless]
        reason = ", ".join(f"{one.name} {one.value:.3g}" for one in wrong)
        found.append(Verdict(theory, not wrong, reason or "nothing that matters tells X from independent numbers"))
        if not wrong:
            break
        measured = _all_findings(following(inputs)) if following else ()
    if not found[0].trusted:
        found.append(_of_singular_values(inputs))
    fit = "convex fits and their cross-validation (risk, estimators)"
    found.append(Verdict(fit, True, "they assume nothing of X but independent samples; their theory is that above"))
    return tuple(found)


def _of_labels(labels: ArrayLike | None, inputs: Array) -> tuple[Finding, ...]:
    if labels is None:
        return ()
    samples = len(inputs)
    given = one_array("y", labels, "give labels of one shape")
    if given.dtype.kind not in "biuf" or given.shape[:1] != (samples,):
        raise DataError("y", f"<{given.dtype} of shape {given.shape}>", f"{samples} numbers, one per sample of X")
    y = given.astype(float).reshape(samples, -1)
    if not np.isfinite(y).all():
        raise DataError("y", first_bad("y", given), "finite entries", "remove or repair the samples")
    spread = y.std(axis=0)
    constant = Finding("constant labels", float(np.mean(spread == 0)), 0.0, 0.0, "share of labels that never vary")
    z = (y - y.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    kurtosis = float(np.mean(z**4)) - 3
    text = "excess kurtosis of the labels; a few of them dominate squares: use loss huber, or transform them"
    tails = Finding("tails of labels", kurtosis, POLICY.tails, 5 * float(np.sqrt(24 / samples)), text)
    return (constant, tails, *linearity(inputs, y[:, 0])) if y.shape[1] == 1 else (constant, tails)


def _spread(x: Array, axes: tuple[int, int]) -> Array:
    spread = np.sqrt(np.mean(x**2, axis=axes, keepdims=True))
    return np.where(spread > 0, spread, 1.0)


def _inverse_root(covariance: Array) -> Array:
    def inverse(values: Array) -> Array:
        seen = values > POLICY.empty * max(float(values.max()), 1e-300)
        return np.where(seen, 1 / np.sqrt(np.where(seen, values, 1.0)), 0.0)

    return map_eigenvalues(covariance, inverse)
