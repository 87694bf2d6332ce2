"""Small arrays number by number, each number an array over data points, and what operations do to them.

The arrays of different entries may have any shapes that broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Entries = NDArray[Any]
"""An array of objects, one for each entry: arrays over data points, or numbers that are the same for all of them."""
Rule = Callable[[Any, Sequence[Entries]], list[Entries]]
"""What an equation of a traced function makes of its inputs."""


def entries(array: Any, own: int | None = None) -> Entries:
    """The entries of an array over its first axes, all of them by default; those left run over data points."""
    array = jnp.asarray(array) if not isinstance(array, np.ndarray | np.generic) else array
    shape = np.shape(array)[:own]
    return filled(shape, (array[place] if place else array for place in np.ndindex(shape)))


def listed(parts: Sequence[Any]) -> Entries:
    """Entries of one axis.

    Example:
        >>> listed([jnp.zeros(3), 1.0]).shape
        (2,)
    """
    return filled((len(parts),), parts)


def whole(parts: Entries) -> Any:
    """The array of these entries, those of data points behind them."""
    stacked = jnp.stack(jnp.broadcast_arrays(*parts.ravel())) if parts.size else jnp.zeros(0)
    return stacked.reshape(parts.shape + stacked.shape[1:])


def filled(shape: tuple[int, ...], parts: Iterable[Any]) -> Entries:
    """Entries of this shape, in the order of its places."""
    found = np.empty(shape, dtype=object)
    for place, part in zip(np.ndindex(shape), parts, strict=True):
        found[place] = part
    return found


def fixed(value: Entries) -> bool:
    """Whether the entries are numbers, not those of data points, that are known while a function is traced."""
    return all(isinstance(part, np.generic | np.ndarray | float | int) and np.ndim(part) == 0 for part in value.ravel())


def number_of(value: Entries, part: Any) -> Any:
    """The array of entries that are known, of the type that an equation takes."""
    return np.array(value.tolist(), dtype=part.aval.dtype).reshape(part.aval.shape)


def once(x: Any) -> Any:
    """The number itself, computed once for all that needs it: compilers repeat what is cheap, not a division.

    Example:
        >>> once(jnp.array([1.0, jnp.inf])).tolist()
        [1.0, inf]
    """
    x = jnp.asarray(x)
    return x / jnp.where(jnp.isnan(x), 2.0, 1.0) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _each(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    """Entry by entry."""
    shape, kinds = equation.outvars[0].aval.shape, [part.aval.dtype for part in equation.invars]
    spread = [np.broadcast_to(value, shape) for value in values]

    def one(place: tuple[int, ...]) -> Any:
        parts = [jnp.asarray(value[place], dtype=kind) for value, kind in zip(spread, kinds, strict=True)]
        return equation.primitive.bind(*jnp.broadcast_arrays(*parts), **equation.params)

    return [filled(shape, map(one, np.ndindex(shape)))]


def _by_terms(
    combine: Callable[[Any, Any], Any], empty: Any, equation: Any, values: Sequence[Entries]
) -> list[Entries]:
    (x,), axes, out = values, equation.params["axes"], equation.outvars[0].aval
    if x.size == 0:
        return [np.full(out.shape, empty, dtype=object)]
    terms = np.moveaxis(x, axes, range(len(axes))).reshape(-1, *out.shape)
    return [filled(out.shape, (reduce(combine, terms[(slice(None), *place)]) for place in np.ndindex(out.shape)))]


def _product(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    (along, shared), out = equation.params["dimension_numbers"], equation.outvars[0].aval
    rows, columns = (_ordered(value, own, common) for value, own, common in zip(values, along, shared, strict=True))
    terms = [(a, b) for a, b in zip(rows, columns, strict=True)]
    found = [_sum_of_products(a_row, b_row) for a, b in terms for a_row in a for b_row in b]
    return [filled(out.shape, found)]


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
    place = np.arange(x.size).reshape(x.shape)
    numbers = equation.params
    with jax.ensure_compile_time_eval():
        at = jax.lax.gather(
            place,
            number_of(index, equation.invars[1]),
            numbers["dimension_numbers"],
            numbers["slice_sizes"],
            mode=numbers["mode"],
        )
    return [x.ravel()[np.asarray(at)]]


def _kept(equation: Any, values: Sequence[Entries]) -> list[Entries]:
    del equation
    return [filled(value.shape, map(once, value.ravel())) for value in values]


_ELEMENTWISE = """abs add add_any and ceil clamp convert_element_type copy cos div eq erf erf_inv erfc exp exp2 expm1
    floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne neg not or pow rem round rsqrt
    select_n sign sin sqrt square stop_gradient sub tan tanh xor"""
MOVING: dict[str, Rule] = {
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
RULES: dict[str, Rule] = {
    **MOVING,
    **dict.fromkeys(_ELEMENTWISE.split(), _each),
    "dot_general": _product,
    "optimization_barrier": _kept,
    "reduce_and": partial(_by_terms, jnp.logical_and, np.bool_(True)),
    "reduce_max": partial(_by_terms, jnp.maximum, np.float64(-np.inf)),
    "reduce_min": partial(_by_terms, jnp.minimum, np.float64(np.inf)),
    "reduce_or": partial(_by_terms, jnp.logical_or, np.bool_(False)),
    "reduce_sum": partial(_by_terms, jnp.add, np.float64(0.0)),
}
