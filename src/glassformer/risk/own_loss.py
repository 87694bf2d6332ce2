"""A convex loss of one's own, given as a function of one label and one field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glassformer.core.cache import memoize
from glassformer.core.errors import BackendError, ParameterError
from glassformer.core.estimate import Array
from glassformer.numerics.roots import bracketed_root
from glassformer.risk.loss import Loss


@dataclass(frozen=True)
class Search:
    """How minimisers of a loss that is given as a function, and its kinks, are looked for."""

    steps: int = 200  # of a search for minimisers, at most
    last: float = 1e-8  # relative step that ends it
    rounding: float = 4e-16  # relative width of a bracket that is rounding
    reach: float = 1e8  # fields between which slopes are inverted
    kink: float = 1e-6  # misfit of slopes that tells a kink from a smooth place
    scanned: tuple[float, float, int] = (-12.03, 12.01, 481)  # fields looked at for kinks: first, last and number
    kinks: int = 3  # that are looked for
    sharp: float = 1e-3  # jump of a slope at one, relative to the largest
    halvings: int = 48  # of a cell that holds one
    beside: float = 1e-9  # distance from which on a slope is that beside it
    at_once: int = 256  # numbers that are treated in one go, at least


_POLICY = Search()
_SCANNED = np.linspace(*_POLICY.scanned)


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
                values = self._evaluated(0, np.full_like(fields, label), fields)
            except BackendError:
                raise
            except Exception as error:
                allowed = "a function of a label and a field that JAX can trace"
                raise ParameterError("loss", self.name, allowed, str(error).splitlines()[0]) from error
            bend = np.diff(values, 2)
            if not np.all(np.isfinite(values)) or np.min(bend) < -1e-9 * max(1.0, float(np.max(np.abs(values)))):
                raise ParameterError("loss", self.name, "finite and convex in the field, for labels -1 and 1")

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", "own")

    def _evaluated(self, order: int, y: Array, h: Array) -> Array:
        return self._of_arrays(_derivative, y, h, order=order)[0]

    def _of_arrays(self, part: Callable[..., Any], *given: Any, **fixed: Any) -> list[Array]:
        """What a traceable part makes of arrays, as it finds it of their elements."""
        from glassformer.numerics.cached_jit import CachedJit
        from glassformer.numerics.jax_settings import jax_settings

        arrays = np.broadcast_arrays(*(np.asarray(one, dtype=float) for one in given))
        count, shape = arrays[0].size, arrays[0].shape
        # Few lengths, each of which is compiled.
        spare = max(_POLICY.at_once, 1 << max(count - 1, 0).bit_length()) - count
        flat = [np.pad(one.ravel(), (0, spare), mode="edge") if count else np.zeros(spare) for one in arrays]
        with jax_settings():
            found = CachedJit(part, function=self.function, **fixed)(*flat)
        return [np.asarray(one, dtype=float)[:count].reshape(shape) for one in found]

    def value(self, y: Array, h: Array) -> Array:
        return self._evaluated(0, y, h)

    def proximal(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._of_arrays(_minimised, y, omega, variance)[0]

    def score(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        p, slope, bend = self._of_arrays(_minimised, y, omega, variance)
        g = (p - omega) / variance
        # At a kink the proximal map stands still while the slope jumps.
        kink = np.abs(g + slope) > _POLICY.kink * (1 + np.abs(g))
        return g, np.where(kink, 1 / np.asarray(variance), bend / (1 + variance * bend))

    def bends(self, y: Array, variance: Array) -> tuple[Array, ...]:
        """At a kink the minimiser stands still while the field goes from one end of a stretch to the other."""
        found = [y + 0 * variance]
        for kink in memoize(lambda: self._kinks(np.ravel(y)), "kinks", self.function, y):
            for beside in (kink.reshape(np.shape(y)) + side for side in (-_POLICY.beside, _POLICY.beside)):
                found.append(beside + variance * self._evaluated(1, y, beside))
        return tuple(found)

    def _kinks(self, y: Array) -> list[Array]:
        """Fields at which the slope jumps, by more than it bends on both sides; where a label has fewer, the label."""
        slope, bend = (self._evaluated(order, y[:, None], _SCANNED) for order in (1, 2))
        jump = np.diff(slope) - 0.5 * (bend[:, 1:] + bend[:, :-1]) * np.diff(_SCANNED)
        cells = np.argsort(-jump, axis=1)[:, : _POLICY.kinks].T
        sharp = _POLICY.sharp * (1 + np.max(np.abs(slope))) < np.take_along_axis(jump, cells.T, axis=1).T
        return [np.where(own, self._jump(y, cell), y) for cell, own in zip(cells, sharp, strict=True) if own.any()]

    def _jump(self, y: Array, cell: NDArray[np.intp]) -> Array:
        """Where the slope jumps in a cell of what was scanned, one for each label, by halving."""
        low, high = _SCANNED[cell], _SCANNED[cell + 1]
        before, after = (self._evaluated(1, y, end) for end in (low, high))
        for _ in range(_POLICY.halvings):
            middle = 0.5 * (low + high)
            here = self._evaluated(1, y, middle)
            below = np.abs(here - before) < np.abs(here - after)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def conjugate(self, y: Array, u: Array) -> Array:
        y, u = np.broadcast_arrays(np.asarray(y, dtype=float), np.asarray(u, dtype=float))
        reach = np.full(u.shape, _POLICY.reach)

        def condition(h: Array) -> tuple[Array, Array]:
            return self._evaluated(1, y, h) - u, np.maximum(self._evaluated(2, y, h), 0.0)

        h = bracketed_root(condition, -reach, reach)
        bounded = np.abs(h) < 0.99 * _POLICY.reach
        return np.where(bounded, u * h - self._evaluated(0, y, h), np.inf)


def _derivative(y: Any, h: Any, function: Callable[[Any, Any], Any], order: int) -> Any:
    """Derivative in the field of that order, of arrays of labels and fields, alone in a tuple."""
    import jax

    for _ in range(order):
        function = jax.grad(function, argnums=1)
    return (jax.vmap(function)(y, h),)


def _minimised(y: Any, omega: Any, variance: Any, function: Callable[[Any, Any], Any]) -> Any:
    r"""Minimisers of :math:`V\ell(y, p) + (p-\omega)^2/2`, and the slopes and bends of the loss there.

    Newton's method in a bracket that shrinks: the minimiser lies on the way that the slope at ``omega`` points.
    """
    import jax
    import jax.numpy as jnp

    slope_of = jax.grad(function, argnums=1)

    def bend_of(y: Any, p: Any) -> Any:
        return jnp.maximum(jax.grad(slope_of, argnums=1)(y, p), 0.0)

    def one(y: Any, omega: Any, v: Any) -> Any:
        def going(state: Any) -> Any:
            return (state[-1] < _POLICY.steps) & ~state[-2]

        def nearer(state: Any) -> Any:
            p, low, high, before, last, _, count = state
            value = p - omega + v * slope_of(y, p)
            low, high = jnp.where(value <= 0, p, low), jnp.where(value >= 0, p, high)
            newton = p - value / (1 + v * bend_of(y, p))
            # A step that is not half the one before the last may belong to a cycle: the bracket is halved instead.
            usable = (newton >= low) & (newton <= high) & (jnp.abs(newton - p) <= 0.5 * jnp.abs(before))
            moved = jnp.where(usable, newton, 0.5 * (low + high))
            size = jnp.maximum(jnp.abs(p), 1.0)
            done = (
                (usable & (jnp.abs(moved - p) <= _POLICY.last * size))
                | (high - low <= _POLICY.rounding * size)
                | jnp.isnan(value)
            )
            return moved, low, high, last, moved - p, done, count + 1

        ends = omega, omega - v * slope_of(y, omega)
        low, high = jnp.minimum(*ends), jnp.maximum(*ends)
        p, *_ = jax.lax.while_loop(going, nearer, (0.5 * (low + high), low, high, high - low, high - low, False, 0))
        return p, slope_of(y, p), bend_of(y, p)

    return jax.vmap(one)(y, omega, variance)
