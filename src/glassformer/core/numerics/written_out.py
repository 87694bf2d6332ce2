"""Traceable functions of a few numbers, written out number by number.

Compiled for processors, operations on arrays of two or three entries are loops of their own, which keep what surrounds
them from running on several data points at once. Here every entry of every small array becomes an array over data
points, which may have any shape: shapes of different entries only have to broadcast. Ten times faster, where functions
are small; larger ones take too long to compile and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from numpy.typing import NDArray

# Numbers computed on the way from which on a function stays as it is.
_MOST = 6000

Entries = NDArray[Any]
"""An array of objects, one for each entry: arrays over data points, or numbers that are the same for all of them."""


def written_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function of arrays, computed number by number.

    Example:
        >>> written_out(lambda x: jnp.sum(x**2) + jnp.max(x))(np.arange(3.0)).item()
        7.0
    """

    def run(*arguments: Any) -> Any:
        return jax.tree.map(whole, by_entries(function)(*jax.tree.map(entries, arguments)))

    return run


def by_entries(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function from trees of :data:`Entries` to trees of those, of one data point as it is written.

    Example:
        >>> points = entries(np.arange(6.0).reshape(3, 2), own=1)  # three entries, two data points
        >>> by_entries(jnp.sum)(points).item().tolist()
        [6.0, 9.0]
    """

    def run(*arguments: Any) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        like = [jax.ShapeDtypeStruct(leaf.shape, jnp.result_type(*leaf.ravel()[:1], *_NUMBER)) for leaf in leaves]
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, like))
        evaluate = _evaluated if _numbers(closed.jaxpr) <= _MOST else _as_one
        return jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, leaves))

    return run


def entries(array: Any, own: int | None = None) -> Entries:
    """The entries of an array over its first axes, all of them by default; those left run over data points."""
    array = jnp.asarray(array) if not isinstance(array, np.ndarray | np.generic) else array
    shape = np.shape(array)[:own]
    return _filled(shape, (array[place] if place else array for place in np.ndindex(shape)))


def listed(parts: Sequence[Any]) -> Entries:
    """Entries of one axis.

    Example:
        >>> listed([jnp.zeros(3), 1.0]).shape
        (2,)
    """
    return _filled((len(parts),), parts)


def whole(parts: Entries) -> Any:
    """The array of these entries, those of data points behind them."""
    stacked = jnp.stack(jnp.broadcast_arrays(*parts.ravel())) if parts.size else jnp.zeros(0)
    return stacked.reshape(parts.shape + stacked.shape[1:])


_NUMBER = (np.float64(0.0),)


def _numbers(jaxpr: Any) -> int:
    """Numbers that a function computes, those of loops once."""
    count = 0
    for equation in jaxpr.eqns:
        inner = [getattr(part, "jaxpr", part) for part in _inner(equation)]
        own = sum(int(np.prod(out.aval.shape, dtype=int)) for out in equation.outvars)
        count += sum(map(_numbers, inner)) if inner else own * (equation.primitive.name not in _MOVING)
    return count


def _inner(equation: Any) -> list[Any]:
    """Traced functions that an equation calls."""
    params = equation.params
    return [part for name in _CALLED if name in params for part in _listed(params[name])]


def _listed(part: Any) -> Iterable[Any]:
    return part if isinstance(part, tuple) else (part,)


def _filled(shape: tuple[int, ...], parts: Iterable[Any]) -> Entries:
    found = np.empty(shape, dtype=object)
    for place, part in zip(np.ndindex(shape), parts, strict=True):
        found[place] = part
    return found


def _evaluated(closed: Any, arguments: Sequence[Entries]) -> list[Entries]:
    """Values of a traced function, equation by equation."""
    jaxpr = closed.jaxpr
    known: dict[Any, Entries] = dict(zip(jaxpr.constvars, map(entries, closed.consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(part: Any) -> Entries:
        return entries(np.asarray(part.val)) if isinstance(part, Literal) else known[part]

    for equation in jaxpr.eqns:
        values = [read(part) for part in equation.invars]
        if all(map(_fixed, values)):
            found = _at_once(equation, values)
        else:
            found = _RULES.get(equation.primitive.name, _as_it_is)(equation, values)
        known.update(zip(equation.outvars, found, strict=True))
    return [read(part) for part in jaxpr.outvars]


def _fixed(value: Entries) -> bool:
    return all(isinstance(part, np.generic | np.ndarray | float | int) for part in value.ravel())


def _alone(equation: Any) -> Any:
    """A function of one equation, for how a primitive is called differs between versions."""
    places = [part for part in equation.invars if not isinstance(part, Literal)]
    empty = jax.make_jaxpr(lambda *inputs: inputs)(*(part.aval for part in places)).jaxpr
    return ClosedJaxpr(empty.replace(invars=places, outvars=equation.outvars, eqns=[equation]), ())


def _given(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    return [v for part, v in zip(equation.invars, values, strict=True) if not isinstance(part, Literal)]


def _at_once(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """What depends on no data point is computed while the function is traced."""
    own = [part for part in equation.invars if not isinstance(part, Literal)]
    arrays = [_number(v, part) for v, part in zip(_given(equation, values), own, strict=True)]
    with jax.ensure_compile_time_eval():
        return [entries(np.asarray(out)) for out in jaxpr_as_fun(_alone(equation))(*arrays)]


def _number(value: Entries, part: Any) -> Any:
    return np.array(value.tolist(), dtype=part.aval.dtype).reshape(part.aval.shape)


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
        _filled(out.shape, (part.reshape(shape) for part in value.reshape(size, -1).T))
        for out, value in zip(closed.out_avals, found, strict=True)
    ]


def _each(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """Entry by entry."""
    shape, kinds = equation.outvars[0].aval.shape, [part.aval.dtype for part in equation.invars]
    spread = [np.broadcast_to(value, shape) for value in values]

    def one(place: tuple[int, ...]) -> Any:
        parts = [jnp.asarray(value[place], dtype=kind) for value, kind in zip(spread, kinds, strict=True)]
        return equation.primitive.bind(*jnp.broadcast_arrays(*parts), **equation.params)

    return [_filled(shape, map(one, np.ndindex(shape)))]


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

    return [_filled(parts[0].shape, map(one, *(part.ravel() for part in parts))) for parts in zip(*found, strict=True)]


def _repeated(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """A loop that collects nothing."""
    params = equation.params
    constants, carried = params["num_consts"], params["num_carry"]
    if len(values) != constants + carried or len(equation.outvars) != carried:
        return _as_it_is(equation, values)
    fixed, start = values[:constants], values[constants:]
    kinds = [part.aval for part in equation.outvars]
    shape = np.broadcast_shapes(*(np.shape(part) for value in values for part in value.ravel()))

    def packed(state: Sequence[Entries]) -> list[list[Any]]:
        return [
            [jnp.broadcast_to(jnp.asarray(part, dtype=kind.dtype), shape) for part in value.ravel()]
            for value, kind in zip(state, kinds, strict=True)
        ]

    def step(_: int, state: list[list[Any]]) -> list[list[Any]]:
        unpacked = [_filled(kind.shape, parts) for parts, kind in zip(state, kinds, strict=True)]
        return packed(_evaluated(params["jaxpr"], [*fixed, *unpacked]))

    last = jax.lax.fori_loop(0, params["length"], step, packed(start))
    return [_filled(kind.shape, parts) for parts, kind in zip(last, kinds, strict=True)]


def _by_terms(combine: Callable[[Any, Any], Any], equation: Any, values: Sequence[Entries]) -> list[Entries]:
    (x,), axes, out = values, equation.params["axes"], equation.outvars[0].aval
    if x.size == 0:
        return _as_it_is(equation, values)
    terms = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape)
    return [_filled(out.shape, (reduce(combine, terms[(slice(None), *place)]) for place in np.ndindex(out.shape)))]


def _product(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    (along, shared), out = equation.params["dimension_numbers"], equation.outvars[0].aval
    rows, columns = (_ordered(value, own, common) for value, own, common in zip(values, along, shared, strict=True))
    terms = [(a, b) for a, b in zip(rows, columns, strict=True)]
    found = [_sum_of_products(a_row, b_row) for a, b in terms for a_row in a for b_row in b]
    return [_filled(out.shape, found)]


def _ordered(value: Entries, along: Sequence[int], shared: Sequence[int]) -> Entries:
    """Axes shared by both factors first, those summed over last, each kind as one."""
    free = [axis for axis in range(value.ndim) if axis not in (*along, *shared)]
    sizes = [int(np.prod([value.shape[axis] for axis in kind], dtype=int)) for kind in (shared, free, along)]
    return value.transpose(*shared, *free, *along).reshape(sizes)


def _sum_of_products(a: Entries, b: Entries) -> Any:
    terms = [x * y for x, y in zip(a, b, strict=True) if not (_is_zero(x) or _is_zero(y))]
    return reduce(jnp.add, terms) if terms else jnp.zeros(())


def _is_zero(x: Any) -> bool:
    return isinstance(x, np.generic | np.ndarray) and not x.any()


def _spread(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    (x, *_), shape, places = values, equation.params["shape"], equation.params["broadcast_dimensions"]
    between = np.ones(len(shape), dtype=int)
    between[list(places)] = x.shape
    return [np.broadcast_to(x.reshape(between), shape)]


def _cut(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    (x,), params = values, equation.params
    ends = zip(params["start_indices"], params["limit_indices"], params["strides"] or (1,) * x.ndim, strict=True)
    return [x[tuple(slice(*part) for part in ends)]]


def _picked(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """Entries at known places."""
    x, index = values
    if not _fixed(index):
        return _as_it_is(equation, values)
    place = np.arange(x.size).reshape(x.shape)
    numbers = equation.params
    with jax.ensure_compile_time_eval():
        at = jax.lax.gather(
            place,
            _number(index, equation.invars[1]),
            numbers["dimension_numbers"],
            numbers["slice_sizes"],
            mode=numbers["mode"],
        )
    return [x.ravel()[np.asarray(at)]]


def _kept(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    return [_filled(value.shape, map(once, value.ravel())) for value in values]


def once(x: Any) -> Any:
    """The number itself, computed once for all that needs it: compilers repeat what is cheap, not a division.

    Example:
        >>> once(jnp.array([1.0, jnp.inf])).tolist()
        [1.0, inf]
    """
    x = jnp.asarray(x)
    return x / jnp.where(jnp.isnan(x), 2.0, 1.0) if jnp.issubdtype(x.dtype, jnp.floating) else x


Rule = Callable[[Any, Sequence[Entries]], list[Entries]]

_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr", "branches", "cond_jaxpr", "body_jaxpr")
_ELEMENTWISE = """abs add add_any and ceil clamp convert_element_type copy cos div eq erf erf_inv erfc exp exp2 expm1 floor
    ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow rem round rsqrt select_n sign
    sin sqrt square stop_gradient sub tan tanh xor"""
_MOVING: dict[str, Rule] = {
    "broadcast_in_dim": _spread,
    "concatenate": lambda e, v: [np.concatenate(v, axis=e.params["dimension"])],
    "gather": _picked,
    "reshape": lambda e, v: [v[0].reshape(e.params["new_sizes"])],
    "rev": lambda e, v: [np.flip(v[0], e.params["dimensions"])],
    "slice": _cut,
    "split": lambda e, v: np.split(v[0], np.cumsum(e.params["sizes"])[:-1], axis=e.params["axis"]),
    "squeeze": lambda e, v: [v[0].reshape(e.outvars[0].aval.shape)],
    "stack": lambda e, v: [np.stack(v, axis=e.params.get("axis", 0))],
    "transpose": lambda e, v: [v[0].transpose(e.params["permutation"])],
}
_RULES: dict[str, Rule] = {
    **_MOVING,
    **dict.fromkeys(_ELEMENTWISE.split(), _each),
    **dict.fromkeys(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"), _inside),
    "cond": _chosen,
    "dot_general": _product,
    "optimization_barrier": _kept,
    "scan": _repeated,
    "reduce_and": partial(_by_terms, jnp.logical_and),
    "reduce_max": partial(_by_terms, jnp.maximum),
    "reduce_min": partial(_by_terms, jnp.minimum),
    "reduce_or": partial(_by_terms, jnp.logical_or),
    "reduce_sum": partial(_by_terms, jnp.add),
}
