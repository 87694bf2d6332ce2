"""Whether labels are linear in inputs: shares of their variance that no linear functional explains."""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array
from glassformer.learners.data_findings import POLICY, Finding
from glassformer.numerics.decompositions import eigh

# Shares of the variance of the labels that are harmless, and values below which labels are classes.
_QUADRATIC, _BENT, _CLASSES = 0.1, 0.02, 6
# Samples that are looked at.
_LARGEST = 2000
# Ridge strengths that are tried, in units of the mean eigenvalue of the Gram matrix.
_STRENGTHS = np.geomspace(1e-3, 1e3, 13)


def linearity(inputs: Array, labels: Array) -> tuple[Finding, ...]:
    """Shares of numbers that are quadratic in the inputs, and that bend; nothing of a few values, which are classes.

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
    count = min(len(labels), _LARGEST)
    drawn = np.sort(np.random.default_rng(0).choice(len(labels), count, replace=False))
    y, x = labels[drawn], inputs[drawn].reshape(count, -1).astype(float)
    x -= x.mean(axis=0)
    spread = x.std(axis=0)
    x = x[:, spread > 0] / spread[spread > 0]
    y = y - y.mean()
    # In units of the largest: squares of small labels are below the smallest number.
    y = y / np.abs(y).max()
    y = y / y.std()
    gram = x @ x.T
    line, cubic = _powers(_predicted(gram, y))
    # Of skewed inputs products are correlated with the inputs themselves: the linear part goes first.
    return _quadratic(gram, _left(line, y), x.shape[1]), _bent(_left(line, y), _left(cubic, y))


def _quadratic(gram: Array, y: Array, size: int) -> Finding:
    r"""The share of the components :math:`x_ix_j` and :math:`x_i^2 - 1`, from all pairs of samples: without bias.

    Of independent normal entries of unit variance the products of those of two samples sum to
    :math:`[(x\cdot x')^2 - |x|^2 - |x'|^2 + s]/2`, with ``s`` entries.
    """
    own = np.diag(gram)
    terms = np.outer(y, y) * 0.5 * (gram**2 - own[:, None] - own + size)
    np.fill_diagonal(terms, 0.0)
    pairs = len(y) * (len(y) - 1)
    error = float(np.sqrt(2 * np.sum(terms**2))) / pairs
    text = "share of the labels that is a quadratic form of the inputs; use attention, or a link of several projections"
    return Finding("quadratic labels", float(np.sum(terms)) / pairs, _QUADRATIC, POLICY.chance * error, text)


def _predicted(gram: Array, y: Array) -> Array:
    """Predictions of each half of the samples, by ridge regression on the other half; of mean zero and spread one."""
    found, half = np.empty_like(y), np.arange(len(y)) % 2 == 0
    for held in (half, ~half):
        values, vectors = eigh(gram[np.ix_(~held, ~held)])
        turned = vectors.T @ y[~held]
        # Generalised cross-validation.
        left = 1 / (values + _STRENGTHS[:, None] * max(float(values.mean()), 1e-300))
        losses = np.sum((left * turned) ** 2, axis=1) / np.sum(left, axis=1) ** 2
        one = gram[np.ix_(held, ~held)] @ (vectors @ (left[np.argmin(losses)] * turned))
        found[held] = (one - one.mean()) / max(float(one.std()), 1e-300)
    return found


def _powers(predicted: Array) -> tuple[Array, Array]:
    """Powers of the predictions up to the first, and up to the third."""
    every = np.vander(predicted, 4, increasing=True)
    return every[:, :2], every


def _left(columns: Array, y: Array) -> Array:
    return np.asarray(y - columns @ np.linalg.lstsq(columns, y)[0])


def _bent(straight: Array, bent: Array) -> Finding:
    """The share that squares and cubes of predictions explain beyond them, from what either leaves of the labels."""
    more, noise = 2, float(np.mean(bent**2))
    share = float(np.mean(straight**2)) - noise
    text = "share of the labels by which they bend against their linear predictions; transform them, or use a link"
    # Without a bend, a chi-square number of as many degrees of freedom as there are powers more.
    chance = POLICY.chance * noise * float(np.sqrt(2 * more)) / len(bent)
    return Finding("bent labels", share - more * noise / len(bent), _BENT, chance, text)
