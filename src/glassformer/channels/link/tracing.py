"""Tests whether JAX can trace and differentiate a link, and whether its labels are positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.link.contract import Link
from glassformer.numerics.batching import map_points
from glassformer.numerics.jax_settings import jax_settings, require_backend

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, Literal, Var

_SLOPE_SAMPLES = 512  # number of random samples at which slopes are tested
# Primitives of a jaxpr that pass a value on unchanged, and those that return a position.
_PASSING = ("convert_element_type", "reshape", "squeeze", "broadcast_in_dim", "concatenate", "copy")
_POSITIONS = ("argmax", "argmin")


def differentiable_link(function: Callable[..., object]) -> Callable[[Any], Any] | None:
    """Return a link of one field as a differentiable function of JAX arrays, or None if all slopes vanish or JAX fails.

    Example:
        >>> differentiable_link(lambda h: h**2) is None, differentiable_link(lambda h: 1 if h > 0 else -1) is None
        (False, True)
    """
    require_backend()
    plain = function.function if isinstance(function, Link) else function

    def scalar(h: jax.Array) -> jax.Array:
        return jnp.asarray(plain(h)).reshape(())

    with jax_settings():
        try:
            slopes = np.asarray(jax.vmap(jax.grad(scalar))(jnp.linspace(-2.0, 2.0, 64)))
        except Exception:
            # Any exception of the user's function under JAX means that it cannot be differentiated.
            return None
    return (lambda h: jnp.vectorize(scalar)(h)) if np.any(slopes != 0) else None


def trace_error(function: Callable[[Any], Any], shape: tuple[int, ...]) -> Exception | None:
    """Return the exception that JAX raises when it traces a function of the fields of one sample, or None.

    Example:
        >>> trace_error(lambda z: z[0] ** 2, (2,)) is None, trace_error(lambda z: 1 if z[0] > 0 else -1, (2,)) is None
        (True, False)
    """
    with jax_settings():
        try:
            jax.eval_shape(lambda fields: jnp.asarray(function(fields)), jnp.zeros(shape))
        except Exception as error:
            # The remedy is the same for any exception of the user's function. Its text names the place.
            return error
    return None


def has_slope(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Return whether a traceable function of the fields of one sample has a nonzero slope at some random field.

    Example:
        >>> has_slope(lambda z: jnp.sign(z[0]), (2,)), has_slope(lambda z: jnp.tanh(z[0]), (2,))
        (False, True)
    """
    fields = np.random.default_rng(3).standard_normal((_SLOPE_SAMPLES, *shape))
    slope = jax.grad(lambda z: jnp.sum(jnp.asarray(function(z), dtype=float)))
    return bool(np.any(map_points(slope, fields) != 0))


def returns_positions(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Return whether the labels of a traceable function are positions of a largest or smallest number.

    Example:
        >>> returns_positions(lambda z: jnp.argmax(z), (3,)), returns_positions(lambda z: jnp.sum(z > 0), (3,))
        (True, False)
    """
    with jax_settings():
        closed = jax.make_jaxpr(function)(np.zeros(shape))
    return all(_is_position(closed.jaxpr, value) for value in closed.jaxpr.outvars)


def _is_position(jaxpr: Jaxpr, value: Var | Literal) -> bool:
    """Return whether a variable of a jaxpr is the result of argmax or argmin."""
    step = next((step for step in jaxpr.eqns if any(value is output for output in step.outvars)), None)
    if step is None:
        return False
    if step.primitive.name in _PASSING:
        return all(_is_position(jaxpr, given) for given in step.invars)
    inner = step.params.get("jaxpr")
    if inner is not None:
        own = getattr(inner, "jaxpr", inner)
        return _is_position(own, own.outvars[[value is output for output in step.outvars].index(True)])
    return step.primitive.name in _POSITIONS
