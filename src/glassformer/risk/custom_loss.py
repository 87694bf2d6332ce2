"""Custom loss: a convex loss that the user gives as a function of one label and one field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.arrays import AnyArray
from glassformer.core.cache import memoize
from glassformer.core.errors import BackendError, ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.risk.loss_base import Loss

if TYPE_CHECKING:
    import jax

# Newton's method for a minimiser: largest number of steps, last relative step, and relative width of a bracket at
# rounding error (double precision).
_STEPS, _LAST_STEP, _ROUNDING = 200, 1e-8, 4e-16
# Range of fields in which slopes are inverted for the conjugate, which is infinite for slopes beyond.
_FARTHEST_FIELD = 1e8
# Mismatch of the slope and the proximal map above which the minimiser is at a kink (chosen by trial).
_KINK_MISMATCH = 1e-6
# Grid of fields for the search of kinks (kinks of common losses are not grid points), largest number of kinks, smallest
# jump of the slope relative to the largest slope, bisections of a cell, and distance of one-sided slopes.
_SCANNED = np.linspace(-12.03, 12.01, 481)
_KINKS, _SMALLEST_JUMP, _HALVINGS, _SIDE = 3, 1e-3, 48, 1e-9
# Arrays are padded to a power of two of at least this length, so that few shapes are compiled.
_SHORTEST = 256
# Labels and fields at which a loss is compared with that of their difference, and the difference that is rounding.
_COMPARED, _SAME = np.array([-2.3, -0.7, 0.4, 1.9]), 1e-12


@dataclass(frozen=True)
class CustomLoss(Loss):
    r"""A loss given as a function of one label and one field, that JAX can differentiate.

    Args:
        function: loss of the numbers ``y`` and ``h``, a number. For students of several outputs ``y`` and ``h`` are
            vectors, and its values are summed.
        convex: whether it is convex in the field, which is then checked. Only students of rows take others.

    Raises:
        ParameterError: the function is not convex in ``h``, not finite, or not traceable.

    Example:
        >>> import jax.numpy as jnp
        >>> absolute = CustomLoss(lambda y, h: jnp.abs(y - h))
        >>> absolute.proximal(np.array([3.0, 0.2]), np.zeros(2), 0.5).round(6)
        array([0.5, 0.2])
    """

    function: Callable[[Any, Any], Any]
    convex: bool = True

    def __post_init__(self) -> None:
        if self.convex:
            self._require_convex()

    def _require_convex(self) -> None:
        fields = np.linspace(-6.0, 6.0, 241)
        for label in (-1.0, 1.0):
            try:
                values = self._evaluated(0, np.full_like(fields, label), fields)
            except BackendError:
                raise
            except Exception as error:
                allowed = "a function of a label and a field that JAX can trace"
                raise ParameterError("loss", self.name, allowed, str(error).splitlines()[0]) from error
            curvature = np.diff(values, 2)
            if not np.all(np.isfinite(values)) or np.min(curvature) < -1e-9 * max(1.0, float(np.max(np.abs(values)))):
                raise ParameterError("loss", self.name, "finite and convex in the field, for labels -1 and 1")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "own")

    @cached_property
    def of_residual(self) -> bool:
        y, h = (np.ravel(part) for part in np.meshgrid(_COMPARED, _COMPARED))
        own, shifted = self._evaluated(0, y, h), self._evaluated(0, np.zeros_like(y), h - y)
        return bool(np.allclose(own, shifted, rtol=_SAME, atol=_SAME))

    def _evaluated(self, order: int, y: Array, h: Array) -> Array:
        return self._of_arrays(_derivative, y, h, order=order)[0]

    def _of_arrays(self, part: Callable[..., Any], *given: Any, **fixed: Any) -> list[Array]:
        """Return the results of a traceable function, applied elementwise to arrays that broadcast."""
        from glassformer.numerics.cached_jit import CachedJit
        from glassformer.numerics.jax_settings import jax_settings

        arrays = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in given))
        count, shape = arrays[0].size, arrays[0].shape
        spare = max(_SHORTEST, 1 << max(count - 1, 0).bit_length()) - count
        flat = [np.pad(one.ravel(), (0, spare), mode="edge") if count else np.zeros(spare) for one in arrays]
        with jax_settings():
            results = CachedJit(part, function=self.function, **fixed)(*flat)
        return [np.asarray(one, dtype=float)[:count].reshape(shape) for one in results]

    def value(self, y: Array, h: Array) -> Array:
        return self._evaluated(0, y, h)

    def of_vectors(self, y: AnyArray, h: AnyArray) -> AnyArray:
        import jax.numpy as jnp

        return jnp.sum(jnp.asarray(self.function(y, h)))

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._of_arrays(_minimise, y, omega, variance)[0]

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        p, slope, curvature = self._of_arrays(_minimise, y, omega, variance)
        g = (p - omega) / variance
        # At a kink the proximal map is constant, although the slope jumps.
        kink = np.abs(g + slope) > _KINK_MISMATCH * (1 + np.abs(g))
        return g, np.where(kink, 1 / np.asarray(variance), curvature / (1 + variance * curvature))

    def breakpoints(self, y: Array, variance: Array) -> tuple[Array, ...]:
        """Return the label, and both ends of the interval of fields for which the minimiser is at a kink."""
        breakpoints = [y + 0 * variance]
        for kink in memoize(lambda: self._kinks(np.ravel(y)), "kinks", self.function, y):
            for side in (kink.reshape(np.shape(y)) - _SIDE, kink.reshape(np.shape(y)) + _SIDE):
                breakpoints.append(side + variance * self._evaluated(1, y, side))
        return tuple(breakpoints)

    def _kinks(self, y: Array) -> list[Array]:
        """Return fields at which the slope jumps; for labels with fewer kinks than others, the label."""
        slope, curvature = (self._evaluated(order, y[:, None], _SCANNED) for order in (1, 2))
        jump = np.diff(slope) - 0.5 * (curvature[:, 1:] + curvature[:, :-1]) * np.diff(_SCANNED)
        cells = np.argsort(-jump, axis=1)[:, :_KINKS].T
        has_jump = _SMALLEST_JUMP * (1 + np.max(np.abs(slope))) < np.take_along_axis(jump, cells.T, axis=1).T
        return [
            np.where(is_kink, self._jump(y, cell), y)
            for cell, is_kink in zip(cells, has_jump, strict=True)
            if is_kink.any()
        ]

    def _jump(self, y: Array, cell: NDArray[np.intp]) -> Array:
        """Return the position of the jump in one cell of the grid per label, by bisection."""
        low, high = _SCANNED[cell], _SCANNED[cell + 1]
        before, after = (self._evaluated(1, y, end) for end in (low, high))
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            here = self._evaluated(1, y, middle)
            below = np.abs(here - before) < np.abs(here - after)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(u, dtype=float))
        reach = np.full(u.shape, _FARTHEST_FIELD)

        def condition(h: Array) -> tuple[Array, Array]:
            return self._evaluated(1, y, h) - u, np.maximum(self._evaluated(2, y, h), 0.0)

        h = bracketed_root(condition, -reach, reach)
        bounded = np.abs(h) < 0.99 * _FARTHEST_FIELD
        return np.where(bounded, u * h - self._evaluated(0, y, h), np.inf)


def _derivative(y: jax.Array, h: jax.Array, function: Callable[[Any, Any], Any], order: int) -> Any:
    """Return the derivative of this order in the field, as a tuple of one array."""
    import jax

    for _ in range(order):
        function = jax.grad(function, argnums=1)
    return (jax.vmap(function)(y, h),)


def _minimise(y: jax.Array, omega: jax.Array, variance: jax.Array, function: Callable[[Any, Any], Any]) -> Any:
    r"""Return the minimisers of :math:`V\ell(y, p) + (p-\omega)^2/2`, and the loss's two derivatives there.

    Newton's method in a shrinking bracket: the minimiser lies between ``omega`` and the end of a gradient step.
    """
    import jax
    import jax.numpy as jnp

    slope_of = jax.grad(function, argnums=1)

    def bend_of(y: jax.Array, p: jax.Array) -> Any:
        return jnp.maximum(jax.grad(slope_of, argnums=1)(y, p), 0.0)

    def one(y: jax.Array, omega: jax.Array, v: jax.Array) -> Any:
        def running(state: Any) -> Any:
            return (state[-1] < _STEPS) & ~state[-2]

        def shrink(state: Any) -> Any:
            p, low, high, before, last, _, count = state
            value = p - omega + v * slope_of(y, p)
            low, high = jnp.where(value <= 0, p, low), jnp.where(value >= 0, p, high)
            newton = p - value / (1 + v * bend_of(y, p))
            # A step longer than half of the last but one may belong to a cycle: the bracket is halved instead.
            usable = (newton >= low) & (newton <= high) & (jnp.abs(newton - p) <= 0.5 * jnp.abs(before))
            moved = jnp.where(usable, newton, 0.5 * (low + high))
            size = jnp.maximum(jnp.abs(p), 1.0)
            done = (
                (usable & (jnp.abs(moved - p) <= _LAST_STEP * size))
                | (high - low <= _ROUNDING * size)
                | jnp.isnan(value)
            )
            return moved, low, high, last, moved - p, done, count + 1

        ends = omega, omega - v * slope_of(y, omega)
        low, high = jnp.minimum(*ends), jnp.maximum(*ends)
        p, *_ = jax.lax.while_loop(running, shrink, (0.5 * (low + high), low, high, high - low, high - low, False, 0))
        return p, slope_of(y, p), bend_of(y, p)

    return jax.vmap(one)(y, omega, variance)
