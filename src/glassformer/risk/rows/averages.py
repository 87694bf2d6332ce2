r"""Averages over samples of the proximal map of a student's loss, for any student on any teacher.

For every sample the proximal map gives the fitted fields, their score ``f`` and its slopes
:math:`D_{ll'} = \partial f_l/\partial\omega_{l'}` (:mod:`~glassformer.risk.rows.proximal_map`). The fields
:math:`(Z^*, \omega)` of teacher and student have independent columns of covariance :math:`((I, M^T), (M, Q))`.

Labels and true fields are drawn once, quasi-randomly, in a few sets; only :math:`\omega` moves with the order
parameters. So averages are smooth functions of them. Every sample is used with :math:`\omega` on both sides of its mean
given :math:`Z^*`: at zero overlap an even student then has an average of exactly zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.arrays import AnyArray
from glassformer.core.estimate import Array
from glassformer.numerics.batching import on_all_cores
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quasi_random import normal_points
from glassformer.numerics.small_matrices import cholesky, triangular_inverse
from glassformer.risk.rows.proximal_map import proximal_map
from glassformer.risk.rows.student import Student

# Change of order parameters, relative to the largest of a kind, from which on minimisations have the usual starts
# (chosen by trial).
_FAR = 0.1
# Smallest variance of the part of a field that its true field does not determine, as a share of the power.
_EMPTY = 1e-9
# Signs of the deviations of fields from their means.
_SIDES = (1.0, -1.0)


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


class NearbyMinima:
    """Where minimisations ended at the last order parameters: those nearby take a few steps from there.

    Minima that appear on the way are not found. So starts of all minimisations are the usual ones again where the order
    parameters have changed by much.

    Attributes:
        state: order parameters of the last usual starts.
        fields: of the minima by the number of the set and the side, shape (starts, points, P, L).
    """

    def __init__(self) -> None:
        self.state: OrderState | None = None
        self.fields: dict[tuple[int, float], Any] = {}

    def is_at(self, state: OrderState, parts: Sequence[tuple[int, float]]) -> bool:
        """Return whether minima of all these sets and sides are known near this state."""
        if self.state is None or not all(part in self.fields for part in parts):
            return False
        pairs = zip(state, self.state, strict=True)
        return all(float(np.max(np.abs(new - old))) <= _FAR * float(np.max(np.abs(old))) for new, old in pairs)


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

    def with_sets(self, sets: int) -> LabelSampler:
        """Return a sampler of the first sets alone."""
        if sets not in self._fewer:
            self._fewer[sets] = replace(self, sets=sets)
        return self._fewer[sets]

    @cached_property
    def _fewer(self) -> dict[int, LabelSampler]:
        return {}

    @cached_property
    def samples(self) -> SampledLabels:
        """The samples: within every set normal fields have exact second moments, and none with shifts of states."""
        channel, student = self.model.channel, self.student
        inference = channel.inference
        true_shape, own_shape = (channel.fields.rows, channel.fields.columns), (student.rows, student.tokens)
        sizes = int(np.prod(true_shape)), int(np.prod(own_shape))
        total = sizes[0] + 2 * sizes[1] + inference.sources + channel.fields.sources
        normal = normal_points(total, self.points, self.sets)
        sources = normal[..., sizes[0] + 2 * sizes[1] :].reshape(self.sets * self.points, -1)
        source, of_state = np.split(sources, [inference.sources], axis=1)
        both = normal[..., : sizes[0] + sizes[1]]
        if channel.fields.states is not None:
            shifts = channel.fields.shifts(np.zeros((len(sources), *true_shape)), of_state)
            both = _without_moments(both, shifts.reshape(self.sets, self.points, -1))
        moments = np.einsum("snd,sne->sde", both, both) / self.points
        both = np.swapaxes(np.linalg.solve(np.linalg.cholesky(moments), np.swapaxes(both, 1, 2)), 1, 2)
        true = channel.fields.shifted(both[..., : sizes[0]].reshape(-1, *true_shape), of_state)
        labels = student.targets(inference.labels_from(true, source, np.random.default_rng(0)))
        shape = (self.sets, self.points)
        return SampledLabels(
            true.reshape(*shape, *true_shape),
            both[..., sizes[0] :].reshape(*shape, *own_shape),
            normal[..., sizes[0] + sizes[1] : sizes[0] + 2 * sizes[1]].reshape(*shape, *own_shape),
            labels.reshape(*shape, -1),
        )

    def averages(
        self, state: OrderState, chosen: Sequence[int] | None = None, near: NearbyMinima | None = None
    ) -> RowAverages:
        """Return the averages at order parameters.

        Args:
            state: order parameters.
            chosen: numbers of the sets that are used; None for all.
            near: minima at a state nearby, from which the minimisations begin; those found replace them.
        """
        function = CachedJit(_averages_of_side, student=self.student, convex=self.student.is_convex)
        parts = [(number, side) for number in chosen or range(self.sets) for side in _SIDES]
        is_near = near is not None and near.is_at(state, parts)
        given, sets, none = (state, *_roots(state)), self._device_sets, self._no_fields

        def of_part(part: tuple[int, float]) -> RowAverages:
            number, side = part
            begin = near.fields[part] if near is not None and is_near else none
            averages, ends = function(given, sets[number], side, begin, is_near)
            if near is not None:
                near.fields[part] = ends
            return RowAverages(*map(np.asarray, averages))

        found = on_all_cores(of_part, parts)
        if near is not None and not is_near:
            near.state = state
        # First axes run over sets and sides.
        averages = RowAverages(
            *(np.mean(np.reshape(one, (-1, 2, *np.shape(one[0]))), axis=1) for one in zip(*found, strict=True))
        )
        # Deviations of both sides together: the mean of both is free of the correlation of one set's own fields.
        return averages._replace(jumps=averages.jumps - averages.slope)

    @cached_property
    def _no_fields(self) -> Any:
        """Zeros in the shape of the ends of all minimisations of one set and side."""
        shape = self.samples.own.shape[1:]
        with jax_settings():
            return jnp.zeros((1 if self.student.is_convex else 3, *shape))

    @cached_property
    def _device_sets(self) -> list[SampledLabels]:
        """The samples of every set as arrays of JAX."""
        with jax_settings():
            return [
                jax.tree.map(lambda part, one=one: jnp.asarray(part[one]), self.samples) for one in range(self.sets)
            ]

    def fields(self, state: OrderState) -> tuple[Array, Array]:
        """Return fields of teacher and student on new samples, (sets, points, P*, L) and (sets, points, P, L)."""
        samples, (root, _) = self.samples, _roots(state)
        student = state.overlap @ samples.true + root @ samples.own + state.means
        return samples.true, student


def _without_moments(normal: Array, shifts: Array) -> Array:
    """Return normal fields of sets, shape (sets, points, fields), without their moments with the shifts of states.

    The moments of few samples are multiplied by large shifts, and the map of order parameters then repels its fixed
    point. All are returned as they are where samples are too few.
    """
    if shifts.shape[2] + normal.shape[2] > normal.shape[1] // 2:
        return normal
    pairs = zip(normal, shifts, strict=True)
    return np.stack([own - shift @ np.linalg.lstsq(shift, own)[0] for own, shift in pairs])


def _roots(state: OrderState) -> tuple[Array, Array]:
    """Return the root of the covariance of what the true field does not determine of the field, and its inverse.

    The inverse is zero in directions that are determined.
    """
    values, vectors = np.linalg.eigh(state.power - state.overlap @ state.overlap.T)
    sizes = np.sqrt(np.maximum(values, 0.0))
    inverse = np.where(values > _EMPTY * np.trace(state.power), 1 / np.maximum(sizes, np.finfo(float).tiny), 0.0)
    return (vectors * sizes) @ vectors.T, (vectors * inverse) @ vectors.T


def _averages_of_side(
    given: Any, samples: Any, side: jax.Array, begin: jax.Array, is_near: jax.Array, student: Student, convex: bool
) -> Any:
    """Return the averages of one set with deviations of one sign, and the fields where all minimisations ended.

    In the place of jumps is the slope by parts. Minimisations begin at the fields ``begin`` if ``is_near``.
    """
    (_, overlap, susceptibility, means, intercept), root, inverse_root = given
    lower = cholesky(susceptibility)
    inverse_lower = triangular_inverse(lower)

    def output_cost(outputs: jax.Array, y: jax.Array, fields: jax.Array) -> AnyArray:
        return student.loss.of_vectors(y, student.predict(fields) + outputs)

    slope_of_outputs = jax.vmap(jax.grad(output_cost), in_axes=(None, 0, 0))
    true, y = samples.true, samples.labels
    count, rows = samples.own.shape[:2]
    omega = overlap @ true + side * root @ samples.own + means
    starts = [jnp.zeros_like(omega)]
    if not convex and true.shape[1] == samples.own.shape[1]:
        # The teacher's fields, on both sides: at zero overlap neither may be preferred.
        starts += [inverse_lower @ (sign * true - omega) for sign in (1, -1)]
    elif not convex:
        starts += [samples.start, -samples.start]
    again = inverse_lower @ (jnp.where(jnp.isfinite(begin), begin, omega) - omega)
    starts = [jnp.where(is_near, again[place], start) for place, start in enumerate(starts)]
    found = proximal_map(student, y, omega, lower, inverse_lower, intercept, starts)
    f, slopes = found.score, found.slopes
    averages: dict[str, Any] = {
        "score_square": jnp.einsum("nkl,njl->kj", f, f) / count,
        "score_true": jnp.einsum("nkl,njl->kj", f, true) / count,
        "score_mean": jnp.mean(f, axis=0),
        "slope": jnp.einsum("nkllj->kj", slopes) / count,
        "jumps": side * jnp.einsum("nkl,njl->kj", f, samples.own) / count @ inverse_root,
        "slope_square": jnp.einsum("nklma,njlmb->kjab", slopes, slopes).reshape(rows**2, rows**2) / count,
        "training_loss": jnp.mean(found.loss),
        "output_slope": jnp.mean(slope_of_outputs(intercept, y, found.fitted), axis=0),
        "unsolved": jnp.mean(~found.solved),
        "several": jnp.mean(found.several),
    }
    return RowAverages(**averages), found.ends
