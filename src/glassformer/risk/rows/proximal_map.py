r"""The proximal map of a student's loss in the fields of each sample.

.. math:: \hat Z = \mathrm{argmin}_Z\;\tfrac12\mathrm{tr}\,(Z-\omega)^TV^{-1}(Z-\omega) + \ell(y, Z), \qquad
   f = V^{-1}(\hat Z - \omega), \qquad D_{ll'} = \partial f_l/\partial\omega_{l'}.

The minimisation runs in the coordinates :math:`x = C^{-1}(Z - \omega)` with :math:`V = CC^T`, in which the quadratic
term is :math:`|x|^2/2` however large or small ``V`` is. Where the loss has several minima the lowest one found from
several starts is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.numerics.scalarize import count_numbers, scalarize
from glassformer.numerics.small_matrices import inverse_and_log_det
from glassformer.risk.rows.student import Student

# Steps of Newton's method at most, the first of length zero, and the length of the gradient, in units of the proximal
# term, that ends them.
_STEPS, _GRADIENT = 101, 1e-10
# Damping of a step: first one after a failure, factors after failure and success, and what counts as none (by trial).
_FIRST, _STRONGER, _WEAKER, _NONE = 1e-2, 6.0, 0.1, 1e-8
# Smallest pivot of a Hessian that counts as positive.
_PIVOT = 1e-9
# Share of the decrease that a step promises, which it has to reach.
_ARMIJO = 1e-4
# Numbers of an expansion up to which it is computed entry by entry, and samples that are minimised together (measured
# with one and two layers of attention).
_SMALL, _TOGETHER = 1500, 512
# Distance of two minima, in units of the proximal term, beyond which they are not the same (chosen by trial).
_APART = 1e-3


class ProximalMap(NamedTuple):
    r"""The proximal map of ``n`` samples.

    Attributes:
        fitted: fields :math:`\hat Z`, shape (n, P, L).
        score: ``f``, shape (n, P, L).
        slopes: :math:`D_{ll'}`, shape (n, P, L, L, P).
        loss: at the fitted fields, NaN where no minimisation ended, shape (n,).
        solved: whether the minimisation ended, shape (n,).
        several: whether two starts end in different minima, shape (n,).
        ends: fields where the minimisation from every start ended, shape (starts, n, P, L).
    """

    fitted: Any
    score: Any
    slopes: Any
    loss: Any
    solved: Any
    several: Any
    ends: Any


def proximal_map(
    student: Student,
    y: jax.Array,
    omega: jax.Array,
    lower: jax.Array,
    inverse_lower: jax.Array,
    intercept: jax.Array,
    starts: Sequence[Any],
) -> ProximalMap:
    """Return the proximal map of all samples; JAX can trace it.

    Args:
        student: prediction and loss.
        y: labels as the loss takes them, shape (n, entries).
        omega: fields before the map, shape (n, P, L).
        lower: Cholesky factor ``C`` of the susceptibility, shape (P, P).
        inverse_lower: its inverse.
        intercept: added to the student's outputs.
        starts: of the minimisation in the coordinates ``x``, each of shape (n, P, L).
    """
    shape = omega.shape[1:]
    size = int(np.prod(shape))

    def flat_energy(x: jax.Array, y: jax.Array, omega: jax.Array, chol: jax.Array, outputs: jax.Array) -> Any:
        x = x.reshape(shape)
        return 0.5 * jnp.sum(x**2) + student.loss.of_vectors(y, student.predict(omega + chol @ x) + outputs)

    def expansion(x: jax.Array, y: jax.Array, omega: jax.Array, chol: jax.Array, outputs: jax.Array) -> Any:
        value, slope = jax.value_and_grad(flat_energy)(x, y, omega, chol, outputs)
        slope_along = jax.grad(flat_energy)
        # Column by column: three times as fast as columns in one array (measured with two layers of attention).
        columns = [
            jax.jvp(lambda x: slope_along(x, y, omega, chol, outputs), (x,), (unit,))[1] for unit in np.eye(size)
        ]
        return value, slope, jnp.stack(columns)

    one = (jnp.zeros(size), y[0], omega[0], lower, intercept)
    is_small = count_numbers(expansion, *one) <= _SMALL
    expand = jax.vmap(scalarize(expansion) if is_small else expansion, in_axes=(0, 0, 0, None, None))
    # All starts in one call: what is minimised is compiled once.
    count = len(starts)
    labels, centres = jnp.tile(y, (count, 1)), jnp.tile(omega, (count, 1, 1))
    begin = jnp.concatenate(starts).reshape(-1, size)
    # A few samples at a time: they stay in the cache, and all but a few parts end before the slowest sample does.
    each = _TOGETHER if len(begin) % _TOGETHER == 0 else len(begin)
    parts = [part.reshape(-1, each, *part.shape[1:]) for part in (begin, labels, centres)]

    def minimise(own: jax.Array) -> Any:
        start, label, centre = own
        return _minimise(lambda x: expand(x, label, centre, lower, intercept), start)

    found = jax.lax.map(minimise, tuple(parts))
    found = tuple(part.reshape(-1, *part.shape[2:]) for part in found)
    xs, energies, hessians, ended = (part.reshape(count, len(y), *part.shape[1:]) for part in found)
    energies = jnp.where(ended, energies, jnp.inf)
    lowest = jnp.argmin(energies, axis=0)
    x, value, hessian = (
        jnp.take_along_axis(part, lowest.reshape(1, -1, *(1,) * (part.ndim - 2)), axis=0)[0]
        for part in (xs, energies, hessians)
    )
    apart = jnp.max(jnp.abs(xs - x), axis=2) > _APART
    several, solved = jnp.any(apart & ended, axis=0), jnp.any(ended, axis=0)
    value = jnp.where(solved, value, jnp.nan)
    moved = x.reshape(len(x), *shape)
    inverse = jax.vmap(lambda h: scalarize(lambda m: inverse_and_log_det(m)[0])(h))(hessian)
    blocks = (jnp.eye(size) - inverse).reshape(len(x), *shape, *shape)
    return ProximalMap(
        fitted=omega + lower @ moved,
        score=inverse_lower.T @ moved,
        slopes=-jnp.einsum("ka,nalbm,bj->nklmj", inverse_lower.T, blocks, inverse_lower),
        loss=value - 0.5 * jnp.sum(x**2, axis=1),
        solved=solved,
        several=several,
        ends=omega + lower @ xs.reshape(count, len(x), *shape),
    )


def _minimise(expand: Any, start: jax.Array) -> tuple[Any, Any, Any, Any]:
    """Minimise energies from starts, shape (n, size), by Newton's method with a damping of its own for every sample.

    Returns the minimisers, their energies, Hessians, and whether each minimisation ended.
    """

    def running(carry: Any) -> Any:
        *_, done, count = carry
        return (count < _STEPS) & ~jnp.all(done)

    def advance(carry: Any) -> Any:
        x, value, slope, hessian, damping, done, count = carry
        step, pivot = _solve(hessian, slope, damping)
        small = jnp.max(jnp.abs(slope), axis=1) <= _GRADIENT * (1 + jnp.max(jnp.abs(x), axis=1))
        # At a saddle the slope vanishes, and the Hessian is not positive: there the damping is not zero. One step from
        # the start is always taken: from a minimum of almost the same energy it is what differences of averages need.
        done = done | (small & (damping == 0) & (pivot > 0) & (count > 1))
        new = x - step
        new_value, new_slope, new_hessian = expand(new)
        promised = jnp.sum(step * slope, axis=1)
        rounding = 1e-13 * (1 + jnp.abs(value))
        accepted = (pivot > _PIVOT) & (new_value <= value - _ARMIJO * promised + rounding) & ~done
        weaker = jnp.where(damping * _WEAKER > _NONE, damping * _WEAKER, 0.0)
        damping = jnp.where(accepted, weaker, jnp.maximum(_STRONGER * damping, _FIRST))
        column = accepted[:, None]
        x, slope = jnp.where(column, new, x), jnp.where(column, new_slope, slope)
        value, hessian = jnp.where(accepted, new_value, value), jnp.where(column[..., None], new_hessian, hessian)
        return x, value, slope, hessian, damping, done, count + 1

    # The first step, of length zero, leads to the start: the expansion is compiled once.
    none, flat = jnp.zeros(len(start)), jnp.zeros_like(start)
    carry = (start, none + jnp.inf, flat, jnp.eye(start.shape[1]) + flat[..., None], none, none > 0, 0)
    x, value, _, hessian, _, done, _ = jax.lax.while_loop(running, advance, carry)
    return x, value, hessian, done


def _solve(matrices: jax.Array, vectors: jax.Array, damping: jax.Array) -> tuple[Any, Any]:
    """Return solutions of symmetric systems with damping on the diagonal, and their smallest pivots, entry by entry."""
    size = vectors.shape[1]
    lower = [[matrices[:, i, j] for j in range(i + 1)] for i in range(size)]
    pivots = []
    for j in range(size):
        pivot = lower[j][j] + damping
        pivots.append(pivot)
        safe = jnp.where(jnp.abs(pivot) > 1e-300, pivot, 1e-300)
        factors = [lower[i][j] / safe for i in range(j + 1, size)]
        for i in range(j + 1, size):
            for k in range(j + 1, i + 1):
                lower[i][k] = lower[i][k] - factors[i - j - 1] * lower[k][j]
        for i in range(j + 1, size):
            lower[i][j] = factors[i - j - 1]
        lower[j][j] = safe
    y = [vectors[:, i] for i in range(size)]
    for i in range(size):
        for k in range(i):
            y[i] = y[i] - lower[i][k] * y[k]
    y = [part / lower[i][i] for i, part in enumerate(y)]
    for i in reversed(range(size)):
        for k in range(i + 1, size):
            y[i] = y[i] - lower[k][i] * y[k]
    return jnp.stack(y, axis=1), jnp.min(jnp.stack(pivots), axis=0)
