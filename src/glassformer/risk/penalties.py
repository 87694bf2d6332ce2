"""The named penalties, and the table of all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.risk.penalty_base import MATRICES, POSITIVE_MATRICES, ROWS, Penalty

# Relative accuracy of weights of several rows with a lasso, sweeps of coordinate descent between two solutions of
# linear equations, and such rounds, or steps of Newton's method, at most (chosen by trial).
_ACCURACY, _SWEEPS, _MOST_STEPS = 1e-10, 4, 500
# Relative step of Newton's method after which the remaining error, about its square, is rounding.
_LAST_STEP = 1e-8
# Numbers and steps at which a proximal map is compared with the least value on a grid, and rounding of the values.
_COMPARED, _GRID, _CHECKED_STEPS, _ROUNDING = np.linspace(-3, 3, 25), np.linspace(-4, 4, 161), (0.3, 2.0), 1e-9


@dataclass(frozen=True)
class ElasticNet(Penalty):
    r"""The penalty :math:`r(x) = a|x| + \frac s2x^2`: lasso and ridge of weights, nuclear norm and ridge of matrices.

    Args:
        absolute: :math:`a\ge 0`.
        square: :math:`s\ge 0`.
        name: in tables.
        signals: that it is for.
        pinned: whether the trace of positive matrices is known, so that the strength has no effect.

    Example:
        >>> ElasticNet(1.0, 0.5).proximal(np.array([-3.0, 0.5, 2.0]), 1.0).round(6)
        array([-1.333333,  0.      ,  0.666667])
    """

    absolute: float
    square: float = 0.0
    name: str = "elastic"
    signals: tuple[str, ...] = (MATRICES, POSITIVE_MATRICES, ROWS)
    pinned: bool = False

    @property
    def parts(self) -> tuple[float, float]:
        return self.absolute, self.square

    @property
    def kink(self) -> float:
        return self.absolute

    def value(self, x: Array) -> Array:
        return self.absolute * np.abs(x) + 0.5 * self.square * x**2

    def proximal(self, x: Array, step: Array | float) -> Array:
        shrunk = np.sign(x) * np.maximum(np.abs(x) - step * self.absolute, 0.0)
        return np.asarray(shrunk / (1 + step * self.square))

    def slope(self, x: Array) -> Array:
        return self.absolute * np.sign(x) + self.square * x

    def proximal_slope(self, x: Array, step: Array | float) -> Array:
        return (np.abs(x) > step * self.absolute) / (1 + step * self.square)

    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        """Return weights by coordinate descent, which finds the signs, and by linear equations for given signs."""
        rows, threshold = len(v_hat), strength * self.absolute
        hessian = v_hat + strength * self.square * np.eye(rows)
        w, left = np.zeros_like(field), np.arange(field.shape[1])
        for _ in range(_MOST_STEPS):
            own, b = w[:, left], field[:, left]
            for k in list(range(rows)) * _SWEEPS:
                pull = b[k] - hessian[k] @ own + hessian[k, k] * own[k]
                own[k] = np.sign(pull) * np.maximum(np.abs(pull) - threshold, 0.0) / hessian[k, k]
            signs, exact = np.sign(own), own.copy()
            for active, chosen in _patterns(signs):
                part = hessian[np.ix_(active, active)]
                if active.any() and np.linalg.cond(part) < 1 / _ACCURACY:
                    exact[np.ix_(active, chosen)] = np.linalg.solve(
                        part, (b - threshold * signs)[np.ix_(active, chosen)]
                    )
            pull = b - hessian @ exact
            excess = np.where(signs == 0, np.abs(pull) - threshold, np.abs(pull - threshold * signs))
            wrong = np.any((exact * signs < 0) | (excess > _ACCURACY * (threshold + np.abs(b))), axis=0)
            w[:, left] = np.where(wrong, own, exact)
            left = left[wrong]
            if not left.size:
                break
        response, square = np.zeros((rows, rows)), np.zeros((rows**2, rows**2))
        for active, chosen in _patterns(np.sign(w)):
            own = np.zeros((rows, rows))
            own[np.ix_(active, active)] = np.linalg.pinv(hessian[np.ix_(active, active)])
            response += len(chosen) * own
            square += len(chosen) * np.kron(own, own)
        return w, response / w.shape[1], square / w.shape[1]

    def conjugate_bound(self, slopes: Array, strength: float, reach: float) -> float:
        return _bound(np.maximum(np.abs(slopes) - strength * self.absolute, 0.0), self.parts, strength, reach)

    def times(self, strength: float, unit: float = 1.0) -> Penalty:
        return ElasticNet(strength * unit * self.absolute, strength * self.square, self.name, self.signals, self.pinned)


@dataclass(frozen=True)
class GroupNorm(Penalty):
    r"""The norm of all weights of a feature, :math:`|w|`; one row of them is a lasso."""

    name = "group"
    signals = (ROWS,)
    separable = False
    kink = 1.0

    def value(self, x: Array) -> Array:
        return np.asarray(np.linalg.norm(x, axis=0))

    def proximal(self, x: Array, step: Array | float) -> Array:
        norms = np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny)
        return np.asarray(x * np.maximum(1 - step / norms, 0.0))

    def slope(self, x: Array) -> Array:
        return np.asarray(x / np.maximum(np.linalg.norm(x, axis=0), np.finfo(float).tiny))

    @property
    def is_norm(self) -> bool:
        return True

    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        r"""Return weights in the basis in which :math:`\hat V` is diagonal, where only their norm ``t`` is unknown.

        From :math:`(h_k + \gamma/t)\,w_k = b_k` it is the root of :math:`\sum_kb_k^2/(h_kt+\gamma)^2 = 1`. The inverse
        root of the sum is concave in ``t``: Newton's method from zero approaches the solution from below.
        """
        values, vectors = np.linalg.eigh(v_hat)
        h, b = np.maximum(values, 0.0)[:, None], vectors.T @ field
        active = np.linalg.norm(b, axis=0) > strength
        w, parts = np.zeros_like(b), b[:, active]
        t = np.zeros(parts.shape[1])
        for _ in range(_MOST_STEPS):
            ends = h * t + strength
            shares = (parts / ends) ** 2
            total = shares.sum(axis=0)
            step = (np.sqrt(total) - 1) * total / np.sum(shares * h / ends, axis=0)
            t = t + step
            if np.all(np.abs(step) <= _LAST_STEP * t):
                break
        w[:, active] = parts * t / (h * t + strength)
        bend = strength / t
        gain, unit = 1 / (h + bend), w[:, active] / t
        pulled = gain * unit
        rank_one = bend / np.sum(unit**2 * h * gain, axis=0) * pulled
        responses = np.eye(len(h))[:, :, None] * gain + pulled[:, None] * rank_one
        responses = np.einsum("ka,abn,jb->kjn", vectors, responses, vectors)
        square = np.einsum("abn,cdn->acbd", responses, responses, optimize=True).reshape(len(h) ** 2, -1)
        return vectors @ w, responses.sum(axis=2) / w.shape[1], square / w.shape[1]

    def conjugate_bound(self, slopes: Array, strength: float, reach: float) -> float:
        return _bound(np.maximum(np.linalg.norm(slopes, axis=0) - strength, 0.0), (1.0, 0.0), strength, reach)


def _bound(excess: Array, parts: tuple[float, float], strength: float, reach: float) -> float:
    r"""Return the conjugate bound from slopes beyond those at zero.

    A norm has a conjugate that is zero or infinite: there the values that the norm may reach bound it.
    """
    norm, square = strength * parts[0], strength * parts[1]
    return float(np.sum(excess**2)) / (2 * square) if square > 0 else float(np.max(excess)) * reach / norm


def _patterns(signs: Array) -> list[tuple[Any, Any]]:
    """Return which weights are not zero, and the samples of which that holds, for every case that occurs."""
    codes = 2 ** np.arange(len(signs)) @ (signs != 0)
    return [((code >> np.arange(len(signs))) % 2 == 1, np.flatnonzero(codes == code)) for code in np.unique(codes)]


PENALTIES: dict[str, Penalty] = {
    "nuclear": ElasticNet(1.0, 0.0, "nuclear", (MATRICES,)),
    "ridge": ElasticNet(0.0, 1.0, "ridge", (MATRICES, ROWS)),
    "elastic": ElasticNet(0.5, 0.5, "elastic", (MATRICES, ROWS)),
    "trace": ElasticNet(1.0, 0.0, "trace", (POSITIVE_MATRICES,)),
    "pinned": ElasticNet(1.0, 0.0, "pinned", (POSITIVE_MATRICES,), pinned=True),
    "lasso": ElasticNet(1.0, 0.0, "lasso", (ROWS,)),
    "group": GroupNorm(),
}


def penalty_of(given: object, *signals: str) -> Penalty:
    """Return the penalty of a name, or a given penalty after a check of its proximal map.

    Args:
        given: a name, or a penalty.
        signals: kinds of signals; the penalty must be for one of them. Any kind by default.

    Raises:
        ParameterError: the name is unknown, the penalty is for other signals, or its proximal map is not that of its
            value.

    Example:
        >>> penalty_of("ridge").value(np.array([3.0, 4.0]))
        array([4.5, 8. ])
    """
    names = [name for name, one in PENALTIES.items() if not signals or set(signals) & set(one.signals)]
    if isinstance(given, str) and given in names:
        return PENALTIES[given]
    allowed = f"{'for models of rows ' if signals == (ROWS,) else ''}one of {', '.join(names)}"
    if not isinstance(given, Penalty):
        raise ParameterError("penalty", given, allowed)
    if signals and not set(signals) & set(given.signals):
        raise ParameterError("penalty", given.name, f"{allowed}: this one is for {', '.join(given.signals)}")
    _require_consistent(given)
    return given


def _require_consistent(penalty: Penalty) -> None:
    """Raise unless a penalty is convex, even and zero at zero, and its proximal map is the minimiser."""
    values = penalty.value(_GRID[None]).ravel()
    size = _ROUNDING * (1 + np.max(np.abs(values)))
    even = np.max(np.abs(values - values[::-1])) <= size and abs(values[len(values) // 2]) <= size
    if not (np.all(np.isfinite(values)) and even and np.min(np.diff(values, 2)) >= -size):
        raise ParameterError("penalty", penalty.name, "a value that is finite, convex, even, and zero at zero")
    for step in _CHECKED_STEPS:
        found = penalty.proximal(_COMPARED[None], step).ravel()
        reached = penalty.value(found[None]).ravel() + (found - _COMPARED) ** 2 / (2 * step)
        least = np.min(values + (_GRID - _COMPARED[:, None]) ** 2 / (2 * step), axis=1)
        if not np.all(reached <= least + size):
            allowed = "a proximal map that returns the minimiser of value(p) + (p - x)^2 / (2 step)"
            raise ParameterError("penalty", penalty.name, allowed)
