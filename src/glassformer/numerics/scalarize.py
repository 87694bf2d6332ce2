"""Rewrite a traced function of small arrays on scalars, so that XLA vectorises it over data points.

Compiled for processors, operations on arrays of two or three entries are loops of their own, which keep what surrounds
them from running on several data points at once. Here every entry of every small array becomes an array over data
points. Shapes of different entries only have to broadcast. Small functions become up to ten times as fast; functions
of many operations would take too long to compile, and are applied with ``jax.vmap`` as they are. So are single
operations that no rule rewrites: the log of this module names them at the level DEBUG.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal, jaxpr_as_fun
from numpy.typing import NDArray

if TYPE_CHECKING:
    from jax.extend.core import Jaxpr, JaxprEqn, Var
    from jax.typing import ArrayLike

    from glassformer.core.arrays import AnyArray

_LOG = logging.getLogger(__name__)

Entries = NDArray[Any]
"""An array of objects, one for each entry: arrays over data points, or numbers that all data points share."""
Rule = Callable[["JaxprEqn", Sequence[Entries]], list[Entries]]
"""Makes the outputs of an equation of a jaxpr from its inputs."""

# Numbers computed by a function from which on it is not rewritten: compiling takes seconds then (measured).
_LARGEST = 6000


def scalarize(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the same function of arrays, computed entry by entry.

    Example:
        >>> scalarize(lambda x: jnp.sum(x**2) + jnp.max(x))(np.arange(3.0)).item()
        7.0
    """

    def run(*arguments: object) -> Any:
        return jax.tree.map(join_entries, on_entries(function)(*jax.tree.map(split_entries, arguments)))

    return run


def count_numbers(function: Callable[..., Any], *arguments: object) -> int:
    """Return how many numbers a function computes, from which its best form for many data points follows.

    Example:
        >>> count_numbers(lambda x: 2 * x, np.zeros(3))
        3
    """
    return _count_numbers(jax.make_jaxpr(function)(*arguments).jaxpr)


def on_entries(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of one data point as a function from trees of :data:`Entries` to trees of :data:`Entries`.

    Example:
        >>> points = split_entries(np.arange(6.0).reshape(3, 2), axes=1)  # three entries, two data points
        >>> on_entries(jnp.sum)(points).item().tolist()
        [6.0, 9.0]
    """

    def run(*arguments: object) -> Any:
        leaves, structure = jax.tree.flatten(arguments)
        like = [
            jnp.broadcast_to(jnp.zeros((), jnp.result_type(*leaf.ravel()[:1], float)), leaf.shape) for leaf in leaves
        ]
        closed, shape = jax.make_jaxpr(function, return_shape=True)(*jax.tree.unflatten(structure, like))
        count = _count_numbers(closed.jaxpr)
        if count > _LARGEST:
            _LOG.debug("a function of %d numbers is not rewritten on scalars: more than %d", count, _LARGEST)
        evaluate = _evaluate if count <= _LARGEST else _vmap
        return jax.tree.unflatten(jax.tree.structure(shape), evaluate(closed, leaves))

    return run


def split_entries(array: ArrayLike, axes: int | None = None) -> Entries:
    """Return the entries of an array over its first axes, by default over all; the other axes run over data points."""
    whole: AnyArray = np.asarray(array) if isinstance(array, np.ndarray | np.generic) else jnp.asarray(array)
    shape = whole.shape[:axes]
    return fill_entries(shape, (whole[place] if place else whole for place in np.ndindex(shape)))


def join_entries(parts: Entries) -> jax.Array:
    """Return the array of these entries, with the axes of data points behind those of the entries."""
    stacked = jnp.stack(jnp.broadcast_arrays(*parts.ravel())) if parts.size else jnp.zeros(0)
    return stacked.reshape(parts.shape + stacked.shape[1:])


def fill_entries(shape: tuple[int, ...], parts: Iterable[Any]) -> Entries:
    """Return entries of this shape, the last axis running fastest.

    Example:
        >>> fill_entries((2,), [jnp.zeros(3), 1.0]).shape
        (2,)
    """
    array = np.empty(shape, dtype=object)
    for place, part in zip(np.ndindex(shape), parts, strict=True):
        array[place] = part
    return array


def entry_list(parts: Sequence[Any]) -> Entries:
    """Return entries of one axis."""
    return fill_entries((len(parts),), parts)


def no_recompute(x: ArrayLike) -> jax.Array:
    """Return the number itself, computed once for all its uses: compilers repeat cheap operations, but no division.

    Example:
        >>> no_recompute(jnp.array([1.0, jnp.inf])).tolist()
        [1.0, inf]
    """
    x = jnp.asarray(x)
    return x / jnp.where(jnp.isnan(x), 2.0, 1.0) if jnp.issubdtype(x.dtype, jnp.floating) else x


# --- Evaluation of a jaxpr -------------------------------------------------------------------------------------------


def _evaluate(closed: ClosedJaxpr, arguments: Sequence[Entries]) -> list[Entries]:
    """Return the outputs of a jaxpr, equation by equation."""
    jaxpr = closed.jaxpr
    known: dict[Any, Entries] = dict(zip(jaxpr.constvars, map(split_entries, closed.consts), strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def read(part: Var | Literal) -> Entries:
        return split_entries(np.asarray(part.val)) if isinstance(part, Literal) else known[part]

    for equation in jaxpr.eqns:
        values = [read(part) for part in equation.invars]
        known.update(zip(equation.outvars, _apply(equation, values), strict=True))
    return [read(part) for part in jaxpr.outvars]


def _apply(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    """Return the outputs of an equation, by the rule of its primitive or else by ``jax.vmap``."""
    name = equation.primitive.name
    if all(map(_is_constant, values)) and (name == "gather" or name not in _MOVING):
        rule: Rule | None = _fold_constants
    else:
        rule = _RULES.get(name)
    if rule is None:
        _LOG.debug("primitive %s is not rewritten on scalars: no rule for it", name)
        return _vmap_equation(equation, values)
    try:
        return rule(equation, values)
    except (AttributeError, KeyError, ValueError) as error:
        # Names of the parameters of primitives are private to JAX and differ between versions.
        _LOG.debug("primitive %s is not rewritten on scalars: %s: %s", name, type(error).__name__, error)
        return _vmap_equation(equation, values)


def _count_numbers(jaxpr: Jaxpr) -> int:
    """Return how many numbers a function computes, those of loops once."""
    count = 0
    for equation in jaxpr.eqns:
        inner = [getattr(part, "jaxpr", part) for part in _inner_functions(equation)]
        own = sum(int(np.prod(_kind(out).shape, dtype=int)) for out in equation.outvars)
        count += sum(map(_count_numbers, inner)) if inner else own * (equation.primitive.name not in _MOVING)
    return count


def _inner_functions(equation: JaxprEqn) -> list[Any]:
    names = ("jaxpr", "call_jaxpr", "fun_jaxpr", "branches", "cond_jaxpr", "body_jaxpr")
    found = [equation.params[name] for name in names if name in equation.params]
    return [part for inner in found for part in (inner if isinstance(inner, tuple) else (inner,))]


def _is_constant(value: Entries) -> bool:
    """Return whether the entries are numbers that all data points share and that are known while tracing."""
    return all(isinstance(part, np.generic | np.ndarray | float | int) and np.ndim(part) == 0 for part in value.ravel())


def _kind(variable: Var | Literal) -> jax.core.ShapedArray:
    """Return shape and type of a variable: all variables of functions of arrays are arrays."""
    return cast("jax.core.ShapedArray", variable.aval)


def _constant_array(value: Entries, variable: Var | Literal) -> NDArray[Any]:
    return np.array(value.tolist(), dtype=_kind(variable).dtype).reshape(_kind(variable).shape)


def _fold_constants(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    """Compute while tracing what depends on no data point."""
    name = equation.primitive.name
    if name in _EXACT:
        numbers = [_constant_array(v, part) for v, part in zip(values, equation.invars, strict=True)]
        return [split_entries(np.asarray(_EXACT[name](equation.params, *numbers)))]
    closed, inputs = _as_function(equation, values)
    arrays = [_constant_array(v, part) for v, part in zip(inputs, closed.jaxpr.invars, strict=True)]
    with jax.ensure_compile_time_eval():
        return [split_entries(np.asarray(out)) for out in jaxpr_as_fun(closed)(*arrays)]


def _as_function(equation: JaxprEqn, values: Sequence[Entries]) -> tuple[ClosedJaxpr, list[Entries]]:
    """Return a function of one equation with its inputs: how a primitive is called differs between versions."""
    pairs = [(part, v) for part, v in zip(equation.invars, values, strict=True) if not isinstance(part, Literal)]
    variables = [part for part, _ in pairs]
    empty = jax.make_jaxpr(lambda *inputs: inputs)(*(part.aval for part in variables)).jaxpr
    own = empty.replace(invars=variables, outvars=equation.outvars, eqns=[equation])
    return ClosedJaxpr(own, ()), [v for _, v in pairs]


def _vmap_equation(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    return _vmap(*_as_function(equation, values))


def _vmap(closed: ClosedJaxpr, arguments: Sequence[Entries]) -> list[Entries]:
    """Apply a function of one data point to all data points, not entry by entry."""
    shape = np.broadcast_shapes(*(np.shape(part) for value in arguments for part in value.ravel()))
    size = int(np.prod(shape, dtype=int))

    def flat(value: Entries, kind: jax.core.ShapedArray) -> jax.Array:
        parts = [jnp.broadcast_to(jnp.asarray(part, dtype=kind.dtype), shape).ravel() for part in value.ravel()]
        stacked = jnp.stack(parts, axis=1) if parts else jnp.zeros((size, 0), dtype=kind.dtype)
        return stacked.reshape(size, *kind.shape)

    arrays = [flat(value, kind) for value, kind in zip(arguments, closed.in_avals, strict=True)]
    outputs = jax.vmap(lambda *own: tuple(jaxpr_as_fun(closed)(*own)), axis_size=size)(*arrays)
    return [
        fill_entries(out.shape, (part.reshape(shape) for part in value.reshape(size, -1).T))
        for out, value in zip(closed.out_avals, outputs, strict=True)
    ]


# --- Rules of calls and loops ----------------------------------------------------------------------------------------


def _call(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    (called,) = _inner_functions(equation)
    return _evaluate(called if hasattr(called, "consts") else ClosedJaxpr(called, ()), values)


def _cond(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    """Apply one of several functions. All are computed if the choice differs between data points."""
    index, *operands = values
    which = index.item()
    branches = [_evaluate(branch, operands) for branch in equation.params["branches"]]
    if isinstance(which, np.generic | np.ndarray):
        return branches[int(which)]

    def select(*parts: jax.Array) -> jax.Array:
        return jnp.select([which == k for k in range(len(parts) - 1)], list(parts[:-1]), parts[-1])

    outputs = zip(*branches, strict=True)
    return [fill_entries(parts[0].shape, map(select, *(part.ravel() for part in parts))) for parts in outputs]


def _scan(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    """Rewrite a loop that neither reads nor stacks arrays step by step."""
    params = equation.params
    body = params["jaxpr"]
    # Arrays that are read or collected step by step have one axis more outside the loop than within.
    outside, within = (*equation.invars, *equation.outvars), (*body.in_avals, *body.out_avals)
    if any(_kind(part).shape != own.shape for part, own in zip(outside, within, strict=True)):
        raise ValueError("reads or stacks arrays step by step")
    constants = len(values) - len(equation.outvars)
    fixed, start = values[:constants], values[constants:]
    kinds = list(map(_kind, equation.outvars))
    shape = np.broadcast_shapes(*(np.shape(part) for value in values for part in value.ravel()))

    def pack(state: Sequence[Entries]) -> list[list[Any]]:
        return [
            [jnp.broadcast_to(jnp.asarray(part, dtype=kind.dtype), shape) for part in value.ravel()]
            for value, kind in zip(state, kinds, strict=True)
        ]

    def unpack(state: list[list[Any]]) -> list[Entries]:
        return [fill_entries(kind.shape, parts) for parts, kind in zip(state, kinds, strict=True)]

    def step(_: int, state: list[list[Any]]) -> list[list[Any]]:
        return pack(_evaluate(body, [*fixed, *unpack(state)]))

    return unpack(jax.lax.fori_loop(0, params["length"], step, pack(start)))


# --- Rules of operations on arrays -----------------------------------------------------------------------------------


def _elementwise(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    shape, kinds = _kind(equation.outvars[0]).shape, [_kind(part).dtype for part in equation.invars]
    spread = [np.broadcast_to(value, shape) for value in values]
    bind: Callable[..., jax.Array] = equation.primitive.bind

    def entry(place: tuple[int, ...]) -> Any:
        parts = [jnp.asarray(value[place], dtype=kind) for value, kind in zip(spread, kinds, strict=True)]
        return bind(*jnp.broadcast_arrays(*parts), **equation.params)

    return [fill_entries(shape, map(entry, np.ndindex(shape)))]


def _reduce(
    combine: Callable[[Any, Any], Any], empty: object, equation: JaxprEqn, values: Sequence[Entries]
) -> list[Entries]:
    (x,), axes, out = values, equation.params["axes"], _kind(equation.outvars[0])
    if x.size == 0:
        return [np.full(out.shape, empty, dtype=object)]
    terms = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape)
    return [fill_entries(out.shape, (reduce(combine, terms[(slice(None), *place)]) for place in np.ndindex(out.shape)))]


def _dot_general(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    def matrices(value: Entries, along: Sequence[int], shared: Sequence[int]) -> Entries:
        """Return a factor with three axes: axes shared by both factors, other axes, and axes that are summed over."""
        free = [axis for axis in range(value.ndim) if axis not in (*along, *shared)]
        sizes = [int(np.prod([value.shape[axis] for axis in kind], dtype=int)) for kind in (shared, free, along)]
        return value.transpose(*shared, *free, *along).reshape(sizes)

    def is_zero(x: object) -> bool:
        return isinstance(x, np.generic | np.ndarray) and not x.any()

    def sum_of_products(a: Entries, b: Entries) -> Any:
        terms = [x * y for x, y in zip(a, b, strict=True) if not (is_zero(x) or is_zero(y))]
        return reduce(jnp.add, terms) if terms else jnp.zeros(())

    (along, shared), out = equation.params["dimension_numbers"], _kind(equation.outvars[0])
    left, right = map(matrices, values, along, shared)
    products = [sum_of_products(row, column) for a, b in zip(left, right, strict=True) for row in a for column in b]
    return [fill_entries(out.shape, products)]


def _broadcast_in_dim(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    (x, *_), shape, places = values, equation.params["shape"], equation.params["broadcast_dimensions"]
    between = np.ones(len(shape), dtype=int)
    between[list(places)] = x.shape
    return [np.broadcast_to(x.reshape(between), shape)]


def _slice(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    (x,), params = values, equation.params
    ends = zip(params["start_indices"], params["limit_indices"], params["strides"] or (1,) * x.ndim, strict=True)
    return [x[tuple(slice(*part) for part in ends)]]


def _gather(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    """Gather entries at known places, by the same operation on their numbers."""
    (x, index), params = values, equation.params
    if not _is_constant(index):
        raise ValueError("places differ between data points")
    places, at = np.arange(x.size).reshape(x.shape), _constant_array(index, equation.invars[1])
    with jax.ensure_compile_time_eval():
        taken = jax.lax.gather(places, at, params["dimension_numbers"], params["slice_sizes"], mode=params["mode"])
    return [x.ravel()[np.asarray(taken)]]


def _optimization_barrier(equation: JaxprEqn, values: Sequence[Entries]) -> list[Entries]:
    del equation
    return [fill_entries(value.shape, map(no_recompute, value.ravel())) for value in values]


def _iota(params: dict[str, Any]) -> Any:
    axis, shape = params["dimension"], params["shape"]
    ahead = (1,) * (len(shape) - axis - 1)
    return np.broadcast_to(np.arange(shape[axis], dtype=params["dtype"]).reshape(-1, *ahead), shape)


# Operations on constants that round as they would in a program, which would take far longer to compile than to run.
_EXACT: dict[str, Callable[..., Any]] = {
    "add": lambda params, a, b: a + b,
    "convert_element_type": lambda params, a: a.astype(params["new_dtype"]),
    "eq": lambda params, a, b: a == b,
    "iota": _iota,
    "lt": lambda params, a, b: a < b,
    "mul": lambda params, a, b: a * b,
    "sub": lambda params, a, b: a - b,
}
# Operations that move entries and compute nothing.
_MOVING: dict[str, Rule] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "concatenate": lambda e, v: [np.concatenate(v, axis=e.params["dimension"])],
    "gather": _gather,
    "reshape": lambda e, v: [v[0].reshape(e.params["new_sizes"])],
    "rev": lambda e, v: [np.flip(v[0], e.params["dimensions"])],
    "slice": _slice,
    "split": lambda e, v: np.split(v[0], np.cumsum(e.params["sizes"])[:-1], axis=e.params["axis"]),
    "squeeze": lambda e, v: [v[0].reshape(_kind(e.outvars[0]).shape)],
    "stack": lambda e, v: [np.stack(v, axis=e.params.get("axis", 0))],
    "transpose": lambda e, v: [v[0].transpose(e.params["permutation"])],
}
_ELEMENTWISE = """abs add add_any and ceil clamp convert_element_type copy cos div eq erf erf_inv erfc exp exp2 expm1
    floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow rem round rsqrt
    select_n sign sin sqrt square stop_gradient sub tan tanh xor"""
_RULES: dict[str, Rule] = {
    **_MOVING,
    **dict.fromkeys(("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call"), _call),
    "cond": _cond,
    "scan": _scan,
    **dict.fromkeys(_ELEMENTWISE.split(), _elementwise),
    "dot_general": _dot_general,
    "optimization_barrier": _optimization_barrier,
    "reduce_and": partial(_reduce, jnp.logical_and, np.bool_(True)),
    "reduce_max": partial(_reduce, jnp.maximum, np.float64(-np.inf)),
    "reduce_min": partial(_reduce, jnp.minimum, np.float64(np.inf)),
    "reduce_or": partial(_reduce, jnp.logical_or, np.bool_(False)),
    "reduce_sum": partial(_reduce, jnp.add, np.float64(0.0)),
}
