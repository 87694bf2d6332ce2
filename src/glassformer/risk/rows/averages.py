r"""Averages over samples of the proximal map of a student's loss, for any student on any teacher.

For a sample with label ``y`` the fitted fields are

.. math:: \hat Z = \mathrm{argmin}_Z\;\tfrac12\mathrm{tr}\,(Z-\omega)^TV^{-1}(Z-\omega) + \ell(y, Z), \qquad
   f = V^{-1}(\hat Z - \omega), \qquad D_{ll'} = \partial f_l/\partial\omega_{l'},

where the fields :math:`(Z^*, \omega)` of teacher and student have independent columns of covariance
:math:`((I, M^T), (M, Q))`. The minimisation runs in the coordinates :math:`x = C^{-1}(Z - \omega)` with
:math:`V = CC^T`, in which the quadratic term is :math:`|x|^2/2` however large or small ``V`` is. Where the loss has
several minima the lowest one found from several starts is taken.

Labels and true fields are drawn once, quasi-randomly, in a few sets; only :math:`\omega` moves with the order
parameters. So averages are smooth functions of them. Every sample is used with :math:`\omega` on both sides of its mean
given :math:`Z^*`: at zero overlap an even student then has an average of exactly zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.scalarize import scalarize
from glassformer.numerics.small_matrices import cholesky, inverse_and_log_det, triangular_inverse
from glassformer.risk.rows.student import Student

# Steps of Newton's method, at most, and the length of the gradient, in units of the proximal term, that ends them.
_STEPS, _GRADIENT = 100, 1e-10
# Damping of a step: first one after a failure, factors after failure and success, and what counts as none (by trial).
_FIRST, _STRONGER, _WEAKER, _NONE = 1e-2, 6.0, 0.1, 1e-8
# Smallest pivot of a Hessian that counts as positive.
_PIVOT = 1e-9
# Share of the decrease that a step promises, which it has to reach.
_ARMIJO = 1e-4
# Distance of two minima, in units of the proximal term, beyond which they are not the same (chosen by trial).
_APART = 1e-3
# Smallest variance of the part of a field that its true field does not determine, as a share of the power.
_EMPTY = 1e-9


class OrderState(NamedTuple):
    r"""Order parameters of the student.

    Attributes:
        power: :math:`Q = WW^T/d`, shape (P, P).
        overlap: :math:`M = WW^{*T}/d`, shape (P, P*).
        susceptibility: ``V``, shape (P, P).
        means: mean fields of every token, shape (P, L): zero without positional encodings.
        intercept: added to the student's outputs, shape (outputs,): zero without intercept.
    """

    power: Array
    overlap: Array
    susceptibility: Array
    means: Array
    intercept: Array


class RowAverages(NamedTuple):
    r"""Averages per sample; the first axis runs over sets of samples.

    Attributes:
        score_square: :math:`E\sum_l f_lf_l^T`, shape (P, P).
        score_true: :math:`E\,f Z^{*T}`, shape (P, P*).
        score_mean: :math:`E f_l`, shape (P, L).
        slope: :math:`E\sum_l D_{ll}`, shape (P, P).
        jumps: what jumps of the proximal map add to the slope, shape (P, P), by integration by parts; zero up to the
            sampling error where it has none.
        slope_square: :math:`E\sum_{ll'}D_{ll'}\otimes D_{ll'}`, shape (P P, P P).
        training_loss: :math:`E\,\ell(y, \hat Z)`.
        output_slope: mean derivative of the loss in the outputs, shape (outputs,): zero at the best intercept.
        unsolved: share of samples whose minimisation did not end.
        several: share of samples for which two starts end in different minima.
    """

    score_square: Array
    score_true: Array
    score_mean: Array
    slope: Array
    jumps: Array
    slope_square: Array
    training_loss: Array
    output_slope: Array
    unsolved: Array
    several: Array

    @property
    def mean(self) -> RowAverages:
        """The averages over all sets."""
        return RowAverages(*(np.mean(part, axis=0) for part in self))


class SampledLabels(NamedTuple):
    """True fields, independent fields, labels and starts; first axes run over sets and points.

    Attributes:
        true: fields of the teacher, shape (sets, points, P*, L).
        own: independent standard normal fields, shape (sets, points, P, L).
        start: the same, for a further start of the minimisation.
        labels: as the loss takes them, shape (sets, points, entries).
    """

    true: Array
    own: Array
    start: Array
    labels: Array


@dataclass(frozen=True)
class LabelSampler:
    """Draws labels of a teacher, and averages over them.

    Attributes:
        model: of the teacher.
        student: what is fitted.
        points: samples of every set, a power of two; each is used with two opposite deviations.
        sets: number of sets, whose spread gives the error.
    """

    model: Any
    student: Student
    points: int
    sets: int

    @cached_property
    def samples(self) -> SampledLabels:
        """The samples, with exact second moments of all fields within every set."""
        channel, student = self.model.channel, self.student
        true_shape, own_shape = (channel.rows, channel.columns), (student.rows, student.tokens)
        sizes = int(np.prod(true_shape)), int(np.prod(own_shape))
        total = sizes[0] + 2 * sizes[1] + channel.sources
        normal = normal_points(total, self.points, self.sets)
        both = normal[..., : sizes[0] + sizes[1]]
        moments = np.einsum("snd,sne->sde", both, both) / self.points
        both = np.swapaxes(np.linalg.solve(np.linalg.cholesky(moments), np.swapaxes(both, 1, 2)), 1, 2)
        true = both[..., : sizes[0]].reshape(-1, *true_shape)
        source = normal[..., total - channel.sources :].reshape(len(true), -1)
        drawn = channel.label_from(true, source) if channel.sources else None
        if drawn is None:
            drawn = channel.draw_labels(true, np.random.default_rng(0))
        labels = student.targets(drawn)
        shape = (self.sets, self.points)
        return SampledLabels(
            true.reshape(*shape, *true_shape),
            both[..., sizes[0] :].reshape(*shape, *own_shape),
            normal[..., sizes[0] + sizes[1] : sizes[0] + 2 * sizes[1]].reshape(*shape, *own_shape),
            labels.reshape(*shape, -1),
        )

    def averages(self, state: OrderState, thorough: bool = False) -> RowAverages:
        """Return the averages at order parameters.

        Args:
            state: order parameters.
            thorough: whether the minimisation begins at two more points, to find lower minima.
        """
        function = CachedJit(_averages, student=self.student, convex=self.student.is_convex, thorough=thorough)
        with jax_settings():
            here, sets = jax.tree.map(jnp.asarray, (state, self.samples))
            found = [function(here, jax.tree.map(itemgetter(one), sets)) for one in range(self.sets)]
        return RowAverages(*(np.stack([np.asarray(one) for one in parts]) for parts in zip(*found, strict=True)))

    def fields(self, state: OrderState) -> tuple[Array, Array]:
        """Return fields of teacher and student on new samples, (sets, points, P*, L) and (sets, points, P, L)."""
        samples = self.samples
        rest = state.power - state.overlap @ state.overlap.T
        values, vectors = np.linalg.eigh(rest)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        student = state.overlap @ samples.true + root @ samples.own + state.means
        return samples.true, student


def _averages(state: Any, samples: Any, student: Student, convex: bool, thorough: bool) -> Any:
    """Return the averages of one set."""
    power, overlap, susceptibility, means, intercept = state
    # The part of the field that the true field does not determine: in some directions there may be none.
    values, vectors = jnp.linalg.eigh(power - overlap @ overlap.T)
    sizes = jnp.sqrt(jnp.maximum(values, 0.0))
    root = (vectors * sizes) @ vectors.T
    inverse_root = (vectors * jnp.where(values > _EMPTY * jnp.trace(power), 1 / sizes, 0.0)) @ vectors.T
    lower = cholesky(susceptibility)
    inverse_lower = triangular_inverse(lower)

    def output_cost(outputs: Any, y: Any, fields: Any) -> Any:
        return student.loss.function(y, student.predict(fields) + outputs)

    shape = samples.own.shape[1:]
    size = int(np.prod(shape))

    def flat_energy(x: Any, y: Any, omega: Any, chol: Any, outputs: Any) -> Any:
        x = x.reshape(shape)
        return 0.5 * jnp.sum(x**2) + output_cost(outputs, y, omega + chol @ x)

    def expansion(x: Any, y: Any, omega: Any, chol: Any, outputs: Any) -> Any:
        arguments = (x, y, omega, chol, outputs)
        value, slope = jax.value_and_grad(flat_energy)(*arguments)
        return value, slope, jax.hessian(flat_energy)(*arguments)

    expand = jax.vmap(scalarize(expansion), in_axes=(0, 0, 0, None, None))
    slope_of_outputs = jax.vmap(jax.grad(output_cost), in_axes=(None, 0, 0))

    true, y = samples.true, samples.labels

    def of_side(side: Any) -> tuple[Any, ...]:
        omega = overlap @ true + side * root @ samples.own + means

        starts = [jnp.zeros_like(omega)]
        if true.shape[1] == samples.own.shape[1]:
            starts.append(inverse_lower @ (true - omega))
        if thorough or len(starts) == 1:
            starts += [side * samples.start, -side * samples.start][: 2 if thorough else 1]
        if convex:
            starts = starts[:1]
        # All starts in one call: what is minimised is compiled once.
        count = len(starts)
        labels, centres = jnp.tile(y, (count, 1)), jnp.tile(omega, (count, 1, 1))
        found = _minimise(
            lambda x: expand(x, labels, centres, lower, intercept), jnp.concatenate(starts).reshape(-1, size)
        )
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
        f = inverse_lower.T @ moved
        fitted = omega + lower @ moved
        inverse = jax.vmap(lambda h: scalarize(lambda m: inverse_and_log_det(m)[0])(h))(hessian)
        blocks = (jnp.eye(size) - inverse).reshape(len(x), *shape, *shape)
        slopes = -jnp.einsum("ka,nalbm,bj->nklmj", inverse_lower.T, blocks, inverse_lower)
        diagonal = jnp.einsum("nkllj->kj", slopes) / len(x)
        by_parts = side * jnp.einsum("nkl,njl->kj", f, samples.own) / len(x) @ inverse_root
        rows = shape[0]
        square = jnp.einsum("nklma,njlmb->kjab", slopes, slopes).reshape(rows**2, rows**2) / len(x)
        losses = value - 0.5 * jnp.sum(x**2, axis=1)
        return (
            jnp.einsum("nkl,njl->kj", f, f) / len(x),
            jnp.einsum("nkl,njl->kj", f, true) / len(x),
            jnp.mean(f, axis=0),
            diagonal,
            by_parts,
            square,
            jnp.mean(losses),
            jnp.mean(slope_of_outputs(intercept, y, fitted), axis=0),
            jnp.mean(~solved),
            jnp.mean(several),
        )

    sides = jax.lax.map(of_side, jnp.array([1.0, -1.0]))
    parts = [jnp.mean(part, axis=0) for part in sides]
    # Deviations of two sides together: the mean of both is free of the correlation of one set's own fields.
    parts[4] = parts[4] - parts[3]
    return RowAverages(*parts)  # type: ignore[arg-type]


def _minimise(expand: Any, start: Any) -> tuple[Any, Any, Any, Any]:
    """Minimise energies from starts, shape (n, size), by Newton's method with a damping of its own for every sample.

    Returns the minimisers, their energies, Hessians, and whether each minimisation ended.
    """

    def running(carry: Any) -> Any:
        *_, done, count = carry
        return (count < _STEPS) & ~jnp.all(done)

    def advance(carry: Any) -> Any:
        x, value, slope, hessian, damping, done, count = carry
        step, pivot = _solve(hessian, slope, damping)
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
        small = jnp.max(jnp.abs(slope), axis=1) <= _GRADIENT * (1 + jnp.max(jnp.abs(x), axis=1))
        # At a saddle the slope vanishes, and the Hessian is not positive.
        done = done | (small & (_solve(hessian, slope, jnp.zeros_like(damping))[1] > 0))
        return x, value, slope, hessian, damping, done, count + 1

    value, slope, hessian = expand(start)
    none = jnp.zeros(len(start))
    carry = (start, value, slope, hessian, none, none > 0, 0)
    x, value, _, hessian, _, done, _ = jax.lax.while_loop(running, advance, carry)
    return x, value, hessian, done


def _solve(matrices: Any, vectors: Any, damping: Any) -> tuple[Any, Any]:
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
