r"""Interface of a penalty :math:`p = \sum_i r(x_i)`, with a convex and even function ``r`` that is zero at zero.

The numbers :math:`x_i` are the singular values of a matrix in units of :math:`(dL)^{1/4}`, the eigenvalues of a
positive matrix, or the weights of rows: one penalty serves all of them. Theory and algorithms use its value and its
proximal map :math:`\mathrm{prox}_{tr}(x)`, the minimiser of :math:`r(p) + (p - x)^2/(2t)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.estimate import Array

# Kinds of signals.
MATRICES, POSITIVE_MATRICES, ROWS = "matrices", "positive matrices", "rows"
# Relative steps of the differences that give slopes of values, and of proximal maps.
_VALUE_STEP, _MAP_STEP = 1e-5, 1e-6
# Points of one round of the search for the slope at zero, rounds, and ends of the search.
_POINTS, _ROUNDS, _LARGEST_KINK, _NO_KINK = 65, 10, 1e6, 1e-9
# Doublings of a range in which a penalty reaches a value, and bisections in this range.
_DOUBLINGS, _BISECTIONS = 200, 60
# Relative accuracy of the weights of several rows, sweeps of coordinate descent at most, and the smallest eigenvalue,
# relative to the largest one, of a matrix that is not positive.
_ACCURACY, _SWEEPS, _SINGULAR = 1e-12, 500, 1e-6


class Penalty(ABC):
    """A penalty on the singular values, eigenvalues or weights of a signal."""

    signals = default_property(
        (MATRICES, POSITIVE_MATRICES, ROWS),
        "Signals that the penalty is for: ``matrices``, ``positive matrices``, ``rows``.",
    )
    separable = default_property(
        True, "False for penalties that couple the weights of a feature: arrays have these along the first axis."
    )
    parts = default_property(
        None, "Weights ``a`` and ``s`` of a penalty ``a |x| + s x^2 / 2``, which has closed forms; None for others."
    )
    pinned = default_property(False, "True if the trace is known, so that the strength has no effect.")

    @property
    def name(self) -> str:
        """Name in tables and errors."""
        return type(self).__name__.lower()

    @abstractmethod
    def value(self, x: Array) -> Array:
        """Return the penalty ``r`` of every number, or of every feature if it is not separable."""

    @abstractmethod
    def proximal(self, x: Array, step: Array | float) -> Array:
        r"""Return the proximal map, the minimiser of :math:`r(p) + (p - x)^2/(2t)` with the step ``t > 0``."""

    def slope(self, x: Array) -> Array:
        """Return the derivative of the penalty, zero at zero. By default by differences."""
        step = _VALUE_STEP * np.abs(x)
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = (self.value(x + step) - self.value(x - step)) / (2 * step)
        return np.where(x == 0, 0.0, slope)

    def proximal_slope(self, x: Array, step: Array | float) -> Array:
        """Return the derivative of the proximal map in ``x``. By default by differences."""
        size = _MAP_STEP * (1 + np.abs(x))
        return np.asarray((self.proximal(x + size, step) - self.proximal(x - size, step)) / (2 * size))

    @property
    def kink(self) -> float:
        """Slope at zero from above: the proximal map is zero up to this number times the step."""
        low, high = 0.0, _LARGEST_KINK
        for _ in range(_ROUNDS):
            x = np.linspace(low, high, _POINTS)
            vanishing = int(np.sum(self.proximal(x[None], 1.0).ravel() == 0))
            low, high = x[max(vanishing - 1, 0)], x[min(vanishing, _POINTS - 1)]
        return float(low) if low > _NO_KINK else 0.0

    @property
    def square(self) -> float:
        """Weight of half the square that the penalty is known to contain."""
        return float(self.parts[1]) if self.parts else 0.0

    @property
    def quadratic(self) -> bool:
        """True for a multiple of the square."""
        return self.parts is not None and self.parts[0] == 0

    @property
    def is_norm(self) -> bool:
        """True for a multiple of a norm."""
        return self.parts is not None and self.parts[1] == 0

    def minimisers(self, field: Array, v_hat: Array, strength: float) -> tuple[Array, Array, Array]:
        r"""Return weights of several rows in fields, and the means of :math:`J = dw/db` and :math:`J\otimes J`.

        The weights of a feature minimise :math:`\frac12w^T\hat Vw - b^Tw + \lambda r(w)`; by default by coordinate
        descent with the proximal map.

        Args:
            field: ``b``, shape (P, n).
            v_hat: :math:`\hat V`, shape (P, P).
            strength: :math:`\lambda`.
        """
        values, vectors = np.linalg.eigh(v_hat)
        if values[0] <= 0:
            # There is no minimum, and a nearly singular matrix stands for this one: weights end far away.
            v_hat = (vectors * np.maximum(values, _SINGULAR * np.max(np.abs(values)))) @ vectors.T
        own, w, left = np.diag(v_hat)[:, None], np.zeros_like(field), np.arange(field.shape[1])
        for _ in range(_SWEEPS if len(v_hat) > 1 else 1):
            part, before = w[:, left], w[:, left]
            for k in range(len(v_hat)):
                part[k] = self.proximal((field[k, left] - v_hat[k] @ part) / own[k] + part[k], strength / own[k])
            w[:, left] = part
            left = left[np.max(np.abs(part - before), axis=0) > _ACCURACY * np.max(np.abs(part), axis=0)]
            if not left.size:
                break
        # With slopes D of the maps of every row, (1 - D + D V / diag V) dw = D db / diag V.
        slopes = self.proximal_slope(w + (field - v_hat @ w) / own, strength / own)
        gains = (slopes / own).T[:, :, None]
        system = np.eye(len(v_hat)) * (1 - slopes.T)[:, :, None] + gains * v_hat
        responses = np.linalg.solve(system, np.eye(len(v_hat)) * gains)
        square = np.einsum("nab,ncd->acbd", responses, responses, optimize=True) / len(responses)
        return w, responses.mean(axis=0), square.reshape(len(v_hat) ** 2, -1)

    def conjugate_bound(self, slopes: Array, strength: float, reach: float) -> float:
        r"""Return :math:`\sup_x[u\cdot x - \lambda p(x)]` over all ``x`` with :math:`\lambda p(x)\le` ``reach``.

        A larger number is a bound as well: of separable penalties, every entry may reach this value of its own.
        """
        pull, far = np.abs(slopes), 1.0
        for _ in range(_DOUBLINGS):
            if not strength * float(self.value(np.array([far]))[0]) < reach:
                break
            far *= 2
        low, high = np.zeros_like(pull), np.full_like(pull, far)
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            rising = strength * self.slope(middle) < pull
            low, high = np.where(rising, middle, low), np.where(rising, high, middle)
        return float(np.sum(np.maximum(pull * high - strength * self.value(low), 0.0)))

    def times(self, strength: float, unit: float = 1.0) -> Penalty:
        r"""Return the penalty :math:`\lambda\,u^2\,r(x/u)` of numbers in another unit ``u``."""
        return ScaledPenalty(self, strength, unit)


@dataclass(frozen=True)
class ScaledPenalty(Penalty):
    r"""The penalty :math:`\lambda\,u^2\,r(x/u)`.

    Attributes:
        penalty: :math:`r`.
        strength: :math:`\lambda`.
        unit: ``u``.
    """

    penalty: Penalty
    strength: float
    unit: float

    @property
    def name(self) -> str:
        return self.penalty.name

    @property
    def signals(self) -> tuple[str, ...]:
        return tuple(self.penalty.signals)

    def value(self, x: Array) -> Array:
        return self.strength * self.unit**2 * self.penalty.value(x / self.unit)

    def proximal(self, x: Array, step: Array | float) -> Array:
        return self.unit * self.penalty.proximal(x / self.unit, self.strength * step)

    def slope(self, x: Array) -> Array:
        return self.strength * self.unit * self.penalty.slope(x / self.unit)

    def proximal_slope(self, x: Array, step: Array | float) -> Array:
        return self.penalty.proximal_slope(x / self.unit, self.strength * step)

    @property
    def kink(self) -> float:
        return self.strength * self.unit * self.penalty.kink

    def times(self, strength: float, unit: float = 1.0) -> Penalty:
        return ScaledPenalty(self.penalty, self.strength * strength, self.unit * unit)
