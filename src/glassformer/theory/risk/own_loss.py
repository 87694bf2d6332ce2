"""A convex loss of one's own, given as a function of one label and one field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.integral import Array
from glassformer.core.numerics.roots import bracketed_root
from glassformer.theory.risk.loss import Loss

# Where minimisers are bracketed, and the misfit of slopes that tells a kink from a smooth place.
_REACH, _KINK = 1e8, 1e-6


@dataclass(frozen=True)
class OwnLoss(Loss):
    r"""Any loss of one's own, convex in the field: a function of one label and one field that JAX can differentiate.

    Args:
        function: of ``y`` and ``h``, numbers, to a number.

    Raises:
        ParameterError: the function is not convex in ``h``, not finite, or not traceable.

    Example:
        >>> import jax.numpy as jnp
        >>> absolute = OwnLoss(lambda y, h: jnp.abs(y - h))
        >>> absolute.proximal(np.array([3.0, 0.2]), np.zeros(2), 0.5).round(6)
        array([0.5, 0.2])
    """

    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        fields = np.linspace(-6.0, 6.0, 241)
        for label in (-1.0, 1.0):
            try:
                values = np.asarray(self._traced(0)(np.full_like(fields, label), fields), dtype=float)
            except Exception as error:
                allowed = "a function of a label and a field that JAX can trace"
                raise ParameterError("loss", self.name, allowed, str(error).splitlines()[0]) from error
            bend = np.diff(values, 2)
            if not np.all(np.isfinite(values)) or np.min(bend) < -1e-9 * max(1.0, float(np.max(np.abs(values)))):
                raise ParameterError("loss", self.name, "finite and convex in the field, for labels -1 and 1")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "own")

    def _traced(self, order: int) -> Callable[[Array, Array], Any]:
        import jax

        from glassformer.core.numerics.compiled import Specialised

        def calculated(y: Array, h: Array) -> Any:
            with jax.enable_x64(True):
                return Specialised(_derivative, function=self.function, order=order)(y, h)

        return calculated

    def _evaluated(self, order: int, y: Array, h: Array) -> Array:
        y, h = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(h, dtype=float))
        return np.asarray(self._traced(order)(y.ravel(), h.ravel()), dtype=float).reshape(h.shape)

    def value(self, y: Array, h: Array) -> Array:
        return self._evaluated(0, y, h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        y, omega, v = np.broadcast_arrays(y, omega, np.asarray(variance, dtype=float))
        # The minimiser lies on the way that the slope at omega points.
        slope = v * self._evaluated(1, y, omega)
        low, high = np.minimum(omega, omega - slope), np.maximum(omega, omega - slope)

        def condition(p: Array) -> tuple[Array, Array]:
            return p - omega + v * self._evaluated(1, y, p), 1 + v * np.maximum(self._evaluated(2, y, p), 0.0)

        return bracketed_root(condition, low, high)

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        p = self.proximal(y, omega, variance)
        g = (p - omega) / variance
        # At a kink the proximal map stands still while the slope jumps.
        kink = np.abs(g + self._evaluated(1, y, p)) > _KINK * (1 + np.abs(g))
        bend = np.maximum(self._evaluated(2, y, p), 0.0)
        return g, np.where(kink, 1 / np.asarray(variance), bend / (1 + variance * bend))

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        return (y + 0 * variance,)

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(u, dtype=float))
        reach = np.full(u.shape, _REACH)

        def condition(h: Array) -> tuple[Array, Array]:
            return self._evaluated(1, y, h) - u, np.maximum(self._evaluated(2, y, h), 0.0)

        h = bracketed_root(condition, -reach, reach)
        bounded = np.abs(h) < 0.99 * _REACH
        return np.where(bounded, u * h - self._evaluated(0, y, h), np.inf)


def _derivative(y: Any, h: Any, function: Callable[[Any, Any], Any], order: int) -> Any:
    """Derivative in the field of that order, of arrays of labels and fields."""
    import jax

    for _ in range(order):
        function = jax.grad(function, argnums=1)
    return jax.vmap(function)(y, h)
