"""Traceable functions of a few numbers, written out number by number.

Compiled for processors, operations on arrays of two or three entries are loops of their own, which keep what surrounds
them from running on several data points at once. Here every entry of every small array becomes an array over data
points, which may have any shape: shapes of different entries only have to broadcast. Ten times faster, where functions
are small; larger ones take too long to compile and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun

from glassformer.numerics.scalarize_arrays import MOVING, RULES, Entries, Rule, entries, filled, fixed, number_of, whole

# Numbers computed on the way from which on a function stays as it is.
_MOST = 6000


def scalarize(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays, computed number by number.

    Example:
        >>> scalarize(lambda x: jnp.sum(x**2) + jnp.max(x))(np.arange(3.0)).item()
        7.0
    """

    def run(*arguments: Any) -> Any:
        return jax.tree.map(whole, by_entries(function)(*jax.tree.map(entries, arguments)))

    return run


def by_entries(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function from trees of :data:`Entries` to trees of those, of one data point as it is written.

    Example:
        >>> from glassformer.numerics.scalarize_arrays import entries
        >>> points = entries(np.arange(6.0).reshape(3, 2), own=1)  # three entries, two data points
        >>> by_entries(jnp.sum)(points).item().tolist()
        [6.0, 9.0]
    """

    def run(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        like = [
            jnp.broadcast_to(jnp.zeros((), jnp.result_type(*leaf.ravel()[:1], float)), leaf.shape) for leaf in leaves
        ]
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, like))
        evaluate = _evaluated if _numbers(closed.jaxpr) <= _MOST else _as_one
        return jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, leaves))

    return run


def _numbers(jaxpr: Any) -> int:
    """Numbers that a function computes, those of loops once."""
    count = 0
    for equation in jaxpr.eqns:
        inner = [getattr(part, "jaxpr", part) for part in _inner(equation)]
        own = sum(int(np.prod(out.aval.shape, dtype=int)) for out in equation.outvars)
        count += sum(map(_numbers, inner)) if inner else own * (equation.primitive.name not in MOVING)
    return count


def _inner(equation: Any) -> list[Any]:
    """Traced functions that an equation calls."""
    params = equation.params
    return [part for name in _CALLED if name in params for part in _listed(params[name])]


def _listed(part: Any) -> Iterable[Any]:
    return part if isinstance(part, tuple) else (part,)


def _evaluated(closed: Any, arguments: Sequence[Entries]) -> list[Entries]:
    """Values of a traced function, equation by equation."""
    jaxpr = closed.jaxpr
    known: dict[Any, Entries] = dict(zip(jaxpr.constvars, map(entries, closed.consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(part: Any) -> Entries:
        return entries(np.asarray(part.val)) if isinstance(part, Literal) else known[part]

    for equation in jaxpr.eqns:
        values = [read(part) for part in equation.invars]
        known.update(zip(equation.outvars, _outputs(equation, values), strict=True))
    return [read(part) for part in jaxpr.outvars]


def _outputs(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    rule = _at_once if all(map(fixed, values)) and not _moved(equation) else _rule(equation, values)
    try:
        return rule(equation, values)
    except (AttributeError, KeyError, ValueError):
        # Names of the parameters of primitives are private to JAX and differ between versions.
        return _as_it_is(equation, values)


def _moved(equation: Any) -> bool:
    """Whether numbers change their places alone, which needs no program of its own."""
    return equation.primitive.name in MOVING and equation.primitive.name != "gather"


def _rule(equation: Any, values: Sequence[Entries]) -> Rule:
    name = equation.primitive.name
    known_places = name != "gather" or fixed(values[1])
    return _CALLS.get(name) or (RULES.get(name, _as_it_is) if known_places else _as_it_is)


def _alone(equation: Any) -> Any:
    """A function of one equation, for how a primitive is called differs between versions."""
    places = [part for part in equation.invars if not isinstance(part, Literal)]
    empty = jax.make_jaxpr(lambda *inputs: inputs)(*(part.aval for part in places)).jaxpr
    return ClosedJaxpr(empty.replace(invars=places, outvars=equation.outvars, eqns=[equation]), ())


def _given(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    return [v for part, v in zip(equation.invars, values, strict=True) if not isinstance(part, Literal)]


def _at_once(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """What depends on no data point is computed while the function is traced."""
    if equation.primitive.name in _EXACT:
        numbers = [number_of(v, part) for v, part in zip(values, equation.invars, strict=True)]
        return [entries(np.asarray(_EXACT[equation.primitive.name](equation.params, *numbers)))]
    own = [part for part in equation.invars if not isinstance(part, Literal)]
    arrays = [number_of(v, part) for v, part in zip(_given(equation, values), own, strict=True)]
    with jax.ensure_compile_time_eval():
        return [entries(np.asarray(out)) for out in jaxpr_as_fun(_alone(equation))(*arrays)]


def _as_it_is(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    return _as_one(_alone(equation), _given(equation, values))


def _as_one(closed: Any, arguments: Sequence[Entries]) -> list[Entries]:
    """A traced function of one data point, applied to all of them."""
    shape = np.broadcast_shapes(*(np.shape(part) for value in arguments for part in value.ravel()))
    size = int(np.prod(shape, dtype=int))

    def flat(value: Entries, kind: Any) -> Any:
        parts = [jnp.broadcast_to(jnp.asarray(part, dtype=kind.dtype), shape).ravel() for part in value.ravel()]
        stacked = jnp.stack(parts, axis=1) if parts else jnp.zeros((size, 0), dtype=kind.dtype)
        return stacked.reshape(size, *kind.shape)

    arrays = [flat(value, kind) for value, kind in zip(arguments, closed.in_avals, strict=True)]
    found = jax.vmap(lambda *own: tuple(jaxpr_as_fun(closed)(*own)), axis_size=size)(*arrays)
    return [
        filled(out.shape, (part.reshape(shape) for part in value.reshape(size, -1).T))
        for out, value in zip(closed.out_avals, found, strict=True)
    ]


def _inside(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """A call of another traced function."""
    (called,) = _inner(equation)
    return _evaluated(called if hasattr(called, "consts") else ClosedJaxpr(called, ()), values)


def _chosen(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """One of several functions: all of them are computed where data points differ in it."""
    index, *operands = values
    which = index.item()
    found = [_evaluated(branch, operands) for branch in equation.params["branches"]]
    if isinstance(which, np.generic | np.ndarray):
        return found[int(which)]

    def one(*parts: Any) -> Any:
        return jnp.select([which == k for k in range(len(parts) - 1)], list(parts[:-1]), parts[-1])

    return [filled(parts[0].shape, map(one, *(part.ravel() for part in parts))) for parts in zip(*found, strict=True)]


def _repeated(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """A loop that collects nothing."""
    params = equation.params
    body = params["jaxpr"]
    # Arrays that are read or collected step by step have one axis more outside the loop than within.
    outside, within = (*equation.invars, *equation.outvars), (*body.in_avals, *body.out_avals)
    if any(part.aval.shape != own.shape for part, own in zip(outside, within, strict=True)):
        return _as_it_is(equation, values)
    constants = len(values) - len(equation.outvars)
    fixed, start = values[:constants], values[constants:]
    kinds = [part.aval for part in equation.outvars]
    shape = np.broadcast_shapes(*(np.shape(part) for value in values for part in value.ravel()))

    def packed(state: Sequence[Entries]) -> list[list[Any]]:
        return [
            [jnp.broadcast_to(jnp.asarray(part, dtype=kind.dtype), shape) for part in value.ravel()]
            for value, kind in zip(state, kinds, strict=True)
        ]

    def step(_: int, state: list[list[Any]]) -> list[list[Any]]:
        unpacked = [filled(kind.shape, parts) for parts, kind in zip(state, kinds, strict=True)]
        return packed(_evaluated(body, [*fixed, *unpacked]))

    last = jax.lax.fori_loop(0, params["length"], step, packed(start))
    return [filled(kind.shape, parts) for parts, kind in zip(last, kinds, strict=True)]


def _counted(params: dict[str, Any]) -> Any:
    axis, shape = params["dimension"], params["shape"]
    ahead = (1,) * (len(shape) - axis - 1)
    return np.broadcast_to(np.arange(shape[axis], dtype=params["dtype"]).reshape(-1, *ahead), shape)


# Operations that round as they would in a program, which would take far longer to compile than they take.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda params, a, b: a + b,
    "convert_element_type": lambda params, a: a.astype(params["new_dtype"]),
    "eq": lambda params, a, b: a == b,
    "iota": _counted,
    "lt": lambda params, a, b: a < b,
    "mul": lambda params, a, b: a * b,
    "sub": lambda params, a, b: a - b,
}
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr", "branches", "cond_jaxpr", "body_jaxpr")
_CALLS: dict[str, Rule] = {
    **dict.fromkeys(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"), _inside),
    "cond": _chosen,
    "scan": _repeated,
}
