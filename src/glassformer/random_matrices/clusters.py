r"""Few atoms that stand for many: what noise cannot tell apart.

Atoms of total weight ``m`` within a width :math:`\omega`, :math:`\omega^2\le\frac12m\Delta`, are seen from points that
lie outside of an ellipse around them: along the curve of the noisy law :math:`\sum p/|w-x|^2\le1/\Delta`. There the
Gauss rule of their measure has the averages of :math:`1/(w-x)` to fourteen digits.
"""

from __future__ import annotations

import numpy as np

from glassformer.core.estimate import Array

# Nodes of the rule.
_NODES = 14


def clustered(atoms: Array, weights: Array, noise: float) -> tuple[Array, Array]:
    """Ascending atoms and weights that give the same law at this noise, to rounding.

    Example:
        >>> x, p = clustered(np.linspace(0, 0.01, 400), np.full(400, 1 / 400), noise=1.0)
        >>> len(x), round(float(p @ x**3) * 1e6, 6)
        (14, 0.250627)
    """
    if len(atoms) <= _NODES:
        return atoms, weights
    mass = np.concatenate([[0.0], np.cumsum(weights)])
    found, start = [], 0
    while start < len(atoms):
        # Of all clusters that begin here the largest, if it is worth a rule.
        close = (atoms[start:] - atoms[start]) ** 2 <= 0.5 * noise * (mass[start + 1 :] - mass[start])
        end = start + int(np.flatnonzero(close)[-1]) + 1
        if end - start > _NODES:
            found.append(gauss_rule(atoms[start:end], weights[start:end]))
            start = end
        else:
            found.append((atoms[start : start + 1], weights[start : start + 1]))
            start += 1
    x, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return x, p


def gauss_rule(atoms: Array, weights: Array, nodes: int = _NODES) -> tuple[Array, Array]:
    """Gauss rule of a discrete measure, by Lanczos' method with full orthogonalisation.

    Example:
        >>> x, p = gauss_rule(np.linspace(-1, 1, 50), np.full(50, 0.02), nodes=3)
        >>> bool(np.isclose(p @ x**4, np.mean(np.linspace(-1, 1, 50) ** 4)))
        True
    """
    total, middle, reach = weights.sum(), 0.5 * (atoms[0] + atoms[-1]), 0.5 * (atoms[-1] - atoms[0])
    x = (atoms - middle) / reach
    basis = np.zeros((nodes, len(x)))
    basis[0] = np.sqrt(weights / total)
    diagonal, beside = np.zeros(nodes), np.zeros(nodes - 1)
    for k in range(nodes):
        new = x * basis[k]
        diagonal[k] = new @ basis[k]
        for _ in range(2):
            new = new - (basis[: k + 1] @ new) @ basis[: k + 1]
        if k + 1 < nodes:
            beside[k] = np.linalg.norm(new)
            basis[k + 1] = new / beside[k]
    # NumPy's solver: that of SciPy for tridiagonal matrices would take longer to import than most limits to compute.
    values, vectors = np.linalg.eigh(np.diag(diagonal) + np.diag(beside, -1))
    return middle + reach * values, total * vectors[0] ** 2
