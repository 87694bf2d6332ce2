"""Traceable functions whose sums over few entries are written term by term.

Compiled for processors, a reduction over two or three entries is a loop of its own, which keeps what surrounds it from
running on several numbers at once: ten times slower than the sum of the terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

# Entries up to which a reduction is written out.
_FEW = 16


def written_out(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function of one array, with one array as its value.

    Example:
        >>> import numpy as np
        >>> written_out(lambda x: jnp.sum(x**2) + jnp.max(x))(np.arange(3.0)).item()
        7.0
    """

    def run(x: Any) -> Any:
        closed = jax.make_jaxpr(function)(x)
        (value,) = _evaluated(closed, x)
        return value

    return run


def _evaluated(closed: Any, *arguments: Any) -> list[Any]:
    """Values of a traced function, equation by equation."""
    jaxpr = closed.jaxpr
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*closed.consts, *arguments), strict=True))
    for equation in jaxpr.eqns:
        values = [part.val if isinstance(part, Literal) else known[part] for part in equation.invars]
        rule = _RULES.get(equation.primitive.name, _as_it_is)
        known.update(zip(equation.outvars, rule(equation, values), strict=True))
    return [part.val if isinstance(part, Literal) else known[part] for part in jaxpr.outvars]


def _as_it_is(equation: Any, values: Sequence[Any]) -> list[Any]:
    given = [
        (part, value) for part, value in zip(equation.invars, values, strict=True) if not isinstance(part, Literal)
    ]
    places, arguments = [part for part, _ in given], [value for _, value in given]
    # A function of this equation alone, for how a primitive is called differs between versions.
    empty = jax.make_jaxpr(lambda *inputs: inputs)(*arguments).jaxpr
    alone = empty.replace(invars=places, outvars=equation.outvars, eqns=[equation])
    return list(jaxpr_as_fun(ClosedJaxpr(alone, ()))(*arguments))


def _inside(equation: Any, values: Sequence[Any]) -> list[Any]:
    """A call of another traced function."""
    return _evaluated(equation.params["jaxpr"], *values)


def _by_terms(combine: Callable[[Any, Any], Any], equation: Any, values: Sequence[Any]) -> list[Any]:
    (x,), axes = values, equation.params["axes"]
    entries = 1
    for axis in axes:
        entries *= x.shape[axis]
    if not 0 < entries <= _FEW:
        return _as_it_is(equation, values)
    for axis in sorted(axes, reverse=True):
        x = reduce(combine, [jax.lax.index_in_dim(x, k, axis, keepdims=False) for k in range(x.shape[axis])])
    return [x]


_RULES: dict[str, Callable[[Any, Sequence[Any]], list[Any]]] = {
    "jit": _inside,
    "pjit": _inside,
    "reduce_sum": partial(_by_terms, jnp.add),
    "reduce_max": partial(_by_terms, jnp.maximum),
    "reduce_min": partial(_by_terms, jnp.minimum),
}
