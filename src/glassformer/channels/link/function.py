"""A link function of one number, made safe to evaluate everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.channels.link.contract import Link
from glassformer.channels.scalar.base import Array

Function = Callable[[Array], Array]

CHECKED = 8.0  # range of fields on which the link must be finite
_FINE = np.linspace(-CHECKED, CHECKED, 8001)
OVERFLOW = 1e150  # stands for what is not finite outside of it
_TRIED = 512  # random fields at which a slope is looked for
# Steps of a traced function that hand positions on, and those that find them.
_HANDING_ON = ("convert_element_type", "reshape", "squeeze", "broadcast_in_dim", "concatenate", "copy")
_FINDING = ("argmax", "argmin")


def array_link(function: Callable[..., object], slot: str = "channel") -> Function:
    """The function as one of arrays that never fails: same shape out as in, doubles, finite.

    Args:
        function: of one field, or of an array of fields, with NumPy or JAX; or of (1, 1) matrices of one field.
        slot: the parameter as which the user gave it.

    Raises:
        LinkError: it is not callable, fails, is random, constant, does not return one real number per field, or is not
            finite for |h| <= 8.

    Example:
        >>> array_link(lambda h: 1 if h > 0 else -1)(np.array([-2.0, 3.0]))
        array([-1.,  1.])
    """
    safe = function if isinstance(function, Link) else Link(function, slot=slot)
    if safe.label_shape != ():
        raise safe.refused("a link function returning one real number per field", f"it returns {safe.label_shape}")
    probe = np.linspace(-CHECKED, CHECKED, 33)
    bad = ~np.isfinite(safe(probe.reshape(-1, *safe.shape)))
    if np.any(bad):
        raise safe.refused(f"a link function finite for |h| <= {CHECKED:g}", f"it is not at h = {probe[bad][0]:g}")
    if np.ptp(safe(probe.reshape(-1, *safe.shape))) == 0 and np.ptp(safe(_FINE.reshape(-1, *safe.shape))) == 0:
        raise safe.refused("a link function that depends on its field", "the labels of a constant one say nothing")

    def link(h: Array) -> Array:
        h = np.asarray(h, dtype=float)
        values = safe(h.reshape(*h.shape, *safe.shape))
        # Far outside the prior's reach an overflowing link only has to be impossible, not exact.
        return np.asarray(np.nan_to_num(values, nan=OVERFLOW, posinf=OVERFLOW, neginf=-OVERFLOW))

    return link


def traced_link(function: Callable[..., object]) -> Callable[[Any], Any] | None:
    """The function of arrays as JAX differentiates it; None where it cannot, or where the slope vanishes everywhere.

    Example:
        >>> traced_link(lambda h: h**2) is None, traced_link(lambda h: 1 if h > 0 else -1) is None
        (False, True)
    """
    import jax
    import jax.numpy as jnp

    from glassformer.numerics.jax_settings import jax_settings, require_backend

    require_backend()
    plain = function.function if isinstance(function, Link) else function

    def one(h: Any) -> Any:
        return jnp.asarray(plain(h)).reshape(())

    with jax_settings():
        try:
            slopes = np.asarray(jax.vmap(jax.grad(one))(jnp.linspace(-2.0, 2.0, 64)))
        except Exception:
            # Whatever a user's function raises when JAX traces it, the answer is that it cannot.
            return None
    return (lambda h: jnp.vectorize(one)(h)) if np.any(slopes != 0) else None


def has_slope(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Whether a function of the fields of one sample, which JAX traces, has a slope at any of some random fields.

    Example:
        >>> import jax.numpy as jnp
        >>> has_slope(lambda z: jnp.sign(z[0]), (2,)), has_slope(lambda z: jnp.tanh(z[0]), (2,))
        (False, True)
    """
    from glassformer.numerics.cached_jit import CachedJit
    from glassformer.numerics.jax_settings import jax_settings

    with jax_settings():
        fields = np.random.default_rng(3).standard_normal((_TRIED, *shape))
        return bool(np.any(np.asarray(CachedJit(_slopes, link=function)(fields)) != 0))


def _slopes(fields: Any, link: Callable[[Any], Any]) -> Any:
    import jax
    import jax.numpy as jnp

    return jax.vmap(jax.grad(lambda z: jnp.sum(jnp.asarray(link(z), dtype=float))))(fields)


def gives_positions(function: Callable[[Any], Any], shape: tuple[int, ...]) -> bool:
    """Whether the labels of a function that JAX traces are positions, of the largest or the least of several numbers.

    Example:
        >>> import jax.numpy as jnp
        >>> gives_positions(lambda z: jnp.argmax(z), (3,)), gives_positions(lambda z: jnp.sum(z > 0), (3,))
        (True, False)
    """
    import jax

    from glassformer.numerics.jax_settings import jax_settings

    with jax_settings():
        traced = jax.make_jaxpr(function)(np.zeros(shape))
    return all(_is_position(traced.jaxpr, one) for one in traced.jaxpr.outvars)


def _is_position(traced: Any, value: Any) -> bool:
    """Whether a value of a traced function was found as a position."""
    step = next((one for one in traced.eqns if any(value is made for made in one.outvars)), None)
    if step is None:
        return False
    if step.primitive.name in _HANDING_ON:
        return all(_is_position(traced, given) for given in step.invars)
    inner = step.params.get("jaxpr")
    if inner is not None:
        own = getattr(inner, "jaxpr", inner)
        return _is_position(own, own.outvars[[value is made for made in step.outvars].index(True)])
    return step.primitive.name in _FINDING
