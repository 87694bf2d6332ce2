r"""A channel whose samples have hidden states, which shift their fields: hidden tokens and mixtures.

With :math:`\log Z_h` and the score :math:`g_h` of the labels given the state ``h``, whose shift is :math:`s_h`,

.. math::
   Z_{out}(y, \omega, V) &= \sum_h\pi_h\,e^{\langle s_h, \omega\rangle + \frac12\langle s_h, Vs_h\rangle
      - \frac12|s_h|^2}\,Z_h(y, \omega + Vs_h, V), \\
   g &= \sum_hp_h\,\bigl(s_h + g_h(y, \omega + Vs_h, V)\bigr),

with the posterior weights :math:`p_h` of the states. Nothing is integrated that the channels of the states do not
integrate. The pair :math:`(y, \omega)` has the density :math:`N(\omega; 0, Q)Z_{out}`: the fields of a sample are
:math:`s_h + N(0, I)`, so that :math:`\omega = Qs_h + Q^{1/2}t` and :math:`V^{-1}(z - \omega) = s_h + V^{-1/2}u`.

**Slopes.** :math:`-E\,\partial_\omega g = E\sum_lg_lg_l^T - \sum_h\pi_hs_hs_h^T`: the normalisation of the density of
shifted inputs depends on the power of the rows. Curvatures are given with the last term added, so that they equal the
squares of scores on average, as for normal fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import logsumexp, ndtr, softmax

from glassformer.channels.base import Channel, Inference
from glassformer.channels.field_averages import FieldPosterior, Scores, Slopes
from glassformer.channels.fields import Fields
from glassformer.channels.labels import Labels
from glassformer.channels.multi_index.sampled_channel import SampledInference, SampledRowsChannel
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.channels.tilted_label_errors import tilted_label_errors
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.inputs.hidden_states import HiddenStates, Indices
from glassformer.numerics.decompositions import square_root
from glassformer.numerics.quasi_random import normal_points

# Random fields on which symmetries of labels are compared, the difference of labels that is rounding, and fields that
# show the values of discrete labels.
_TRIALS, _ROUNDING, _VALUES = 64, 1e-9, 2**14
# Samples whose states are counted given their labels as well, which needs posteriors.
_WITH_LABELS = 2048


@dataclass(frozen=True, eq=False)
class TiltedChannel(SampledRowsChannel):
    """Labels of samples with hidden states, equation :eq:`hidden-states` of the documentation.

    Args:
        states: hidden states.
        given: channel of the labels given each state; one channel for all states, if labels depend on fields alone, or
            on the fields with the tokens in the order of the state.
        orders: order of the tokens in which the one channel takes the fields of each state, shape (H, L); empty for
            the given order.
        points: data points per replica of the averages, a power of two.

    Raises:
        IncompatibleError: noiseless labels of several numbers, whose likelihoods under different states cannot be
            compared.
    """

    states: HiddenStates
    given: tuple[Channel, ...]
    orders: tuple[tuple[int, ...], ...] = ()
    points: int = 2048

    def __post_init__(self) -> None:
        if any(one.inference.with_more_noise is not None for one in self.given):
            raise IncompatibleError(
                "inputs with hidden states need noise > 0 for labels of several numbers: without noise their "
                "likelihoods under different states cannot be compared"
            )

    @property
    def rows(self) -> int:
        return int(self.states.shifts.shape[1])

    @property
    def columns(self) -> int:
        return int(self.states.shifts.shape[2])

    @cached_property
    def fields(self) -> Fields:
        return Fields((self.rows, self.columns), states=self.states)

    def of_state(self, state: int) -> Channel:
        """Return the channel of the labels given a state."""
        return self.given[state % len(self.given)]

    @property
    def depends_on_state(self) -> bool:
        """Whether labels depend on the state as well as on the fields."""
        return len(self.given) > 1 or len(self.orders) > 0

    def _order(self, state: int) -> list[int]:
        """Return the order of the tokens in which the channel of a state takes the fields."""
        return list(self.orders[state]) if self.orders else list(range(self.columns))

    def _ordered(self, fields: Array, state: int) -> Array:
        """Return fields, shape (n, P, L), as the channel of a state takes them for its labels."""
        return fields[:, :, self._order(state)].reshape(len(fields), *self.of_state(state).fields.shape)

    @cached_property
    def labels(self) -> Labels:
        facts = [self.of_state(k).labels for k in range(self.states.count)]
        own = facts[0]
        symmetries = self._symmetries
        # Rows that are seen in the inputs alone are never known exactly.
        determined = np.linalg.matrix_rank(self._visible_in_labels) == self.rows
        return Labels(
            even=symmetries.even,
            rank=float(self.states.probabilities @ [one.rank for one in facts]) if determined else 0.0,
            shape=own.shape,
            noise=float(self.states.probabilities @ [one.noise for one in facts]),
            noise_law=own.noise_law,
            error_unit=own.error_unit,
            discrete=own.discrete,
            classes=own.classes,
            symmetries=symmetries,
        )

    @cached_property
    def _visible_in_labels(self) -> Array:
        """Sum of the projectors on the directions on which the labels of the channels depend, shape (P, P)."""
        return np.asarray(sum(one.labels.row_symmetries.visible for one in self.given))

    @cached_property
    def _symmetries(self) -> RowSymmetries:
        """Symmetries of the labels that also leave the law of the fields as it is."""
        inner = self.given[0].labels.row_symmetries
        kept = np.array([one for one in inner.invariances if self._is_symmetric(one)])
        values, vectors = np.linalg.eigh(self.states.square + self._visible_in_labels)
        seen = vectors[:, values > _ROUNDING * values[-1]]
        return RowSymmetries(kept, kept, seen @ seen.T)

    def _is_symmetric(self, matrix: Array) -> bool:
        """Return whether an orthogonal matrix over the rows permutes equal states, and their labels alike."""
        shifts, shares = self.states.shifts, self.states.probabilities
        distance = np.abs((matrix @ shifts)[:, None] - shifts).max(axis=(2, 3)) + np.abs(shares[:, None] - shares)
        images = [np.flatnonzero(row <= _ROUNDING) for row in distance]
        if not all(len(places) for places in images):
            return False
        if not self.depends_on_state:
            return True
        fields = np.random.default_rng(1).standard_normal((_TRIALS, self.rows, self.columns))
        return all(
            any(np.allclose(self._clean(int(place), matrix @ fields), self._clean(state, fields)) for place in places)
            for state, places in enumerate(images)
        )

    def _clean(self, state: int, fields: Array) -> Array:
        """Return labels without noise given a state."""
        return np.asarray(self.of_state(state).clean(self._ordered(fields, state)))

    # Labels: the state is drawn from its posterior given the fields.

    @cached_property
    def sources(self) -> int:
        return 1 + max(one.inference.sources for one in self.given)

    def label_from(self, fields: Array, source: Array) -> Array:
        """Return labels; the first normal number chooses the state, drawn from its posterior given the fields."""
        states = self.states.draw_given(fields, ndtr(source[:, 0]))
        return self.labels_given(fields, states, source[:, 1:])

    def sample(self, fields: Array, rng: np.random.Generator) -> Array:
        return self.sample_given(fields, self.states.draw_given(fields, rng.random(len(fields))), rng)

    def sample_given(self, fields: Array, states: Indices, rng: np.random.Generator) -> Array:
        """Draw labels of fields, shape (n, P, L), and states, shape (n,)."""
        return self._by_state(states, lambda k, where: self.of_state(k).sample(self._ordered(fields[where], k), rng))

    def clean(self, fields: Array) -> Array:
        """Return labels without noise, of states drawn from their posterior given the fields, always the same."""
        return self.clean_given(fields, self.states.draw_given(fields, np.random.default_rng(0).random(len(fields))))

    def clean_given(self, fields: Array, states: Indices) -> Array:
        """Return labels without noise of fields, shape (n, P, L), and states, shape (n,)."""
        return self._by_state(states, lambda k, where: self._clean(k, fields[where]))

    def noiseless_labels(self, fields: Array, state: int, decisions: bool) -> Array:
        if not decisions:
            return self._clean(state, fields)
        nothing = np.zeros((self.rows, self.rows))
        return self.of_state(state).inference.likeliest_labels(fields[:, :, self._order(state)], nothing)

    def mean_labels(self, mean: Array, spread: Array, variance: Array) -> Array:
        total: Array = np.zeros((len(mean), *self.labels.shape))
        weights = softmax(self.states.log_weights(mean, variance), axis=1)
        for state, shift in enumerate(self.states.shifts):
            centre = mean + variance @ shift
            pair = self._clean(state, centre + spread) + self._clean(state, centre - spread)
            total += 0.5 * weights[:, state].reshape(-1, *(1,) * (total.ndim - 1)) * pair.reshape(total.shape)
        return total

    def labels_given(self, fields: Array, states: Indices, source: Array) -> Array:
        """Return labels of fields, states and normal numbers, shape (n, sources - 1)."""
        rng = np.random.default_rng(0)

        def of_state(k: int, where: Indices) -> Array:
            inference = self.of_state(k).inference
            return inference.labels_from(
                fields[where][:, :, self._order(k)], source[where][:, : inference.sources], rng
            )

        return self._by_state(states, of_state)

    def _by_state(self, states: Indices, labels: Callable[[int, Indices], Array]) -> Array:
        """Return labels of data points, from those of the data points in each state."""
        found = np.zeros((len(states), *self.labels.shape))
        for state in range(self.states.count):
            where = np.flatnonzero(states == state)
            if len(where):
                found[where] = np.asarray(labels(state, where)).reshape(len(where), *self.labels.shape)
        return found

    def likeliest_label(self, mean: Array, variance: Array) -> Array:
        if not self.labels.discrete:
            return super().likeliest_label(mean, variance)
        if not np.any(variance):
            states = self.states.draw_given(mean, np.random.default_rng(0).random(len(mean)))
            return self._by_state(states, lambda k, where: self.noiseless_labels(mean[where], k, True))
        repeated = np.broadcast_to(variance, (len(mean), *variance.shape))
        log_z = [
            self.posterior(np.broadcast_to(one, (len(mean), *self.labels.shape)), mean, repeated).log_partition
            for one in self._values
        ]
        return np.asarray(self._values[np.argmax(log_z, axis=0)])

    @cached_property
    def _values(self) -> Array:
        """Values of discrete labels."""
        normal = normal_points(1 + self.rows * self.columns, _VALUES, 1)[0]
        fields = self.fields.shifted(normal[:, 1:].reshape(-1, self.rows, self.columns), normal[:, :1])
        return np.unique(self.likeliest_label(fields, np.zeros((self.rows, self.rows))), axis=0)

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        if self.depends_on_state:
            raise IncompatibleError(
                "needs a link of the fields alone, and this link also takes the hidden state: give a student"
            )
        return self.given[0].traceable_label

    # Posteriors.

    def posterior(self, y: Array, omega: Array, variance: Array) -> FieldPosterior:
        return self.posteriors(y, omega, variance)[0]

    def posteriors(self, y: Array, omega: Array, variance: Array) -> tuple[FieldPosterior, ...]:
        given = [self.of_state(k).inference.posteriors(y, at, variance) for k, at in self._moved(omega, variance)]
        weights = self.states.log_weights(omega, variance)
        return tuple(self._mixed(level, weights) for level in self._in_order(given))

    def state_log_weights(self, y: Array, omega: Array, variance: Array) -> Array:
        """Return the logarithms of the weights of the states given mean fields and labels, shape (n, H)."""
        given = [self.of_state(k).inference.posteriors(y, at, variance)[0] for k, at in self._moved(omega, variance)]
        return self.states.log_weights(omega, variance) + np.stack([part.log_partition for part in given], axis=1)

    def _moved(self, omega: Array, variance: Array) -> Iterator[tuple[int, Array]]:
        """Return the mean fields given each state, as the channel of the state takes them."""
        for state, shift in enumerate(self.states.shifts):
            yield state, (omega + variance @ shift)[:, :, self._order(state)]

    def _in_order(self, given: Sequence[tuple[FieldPosterior, ...]]) -> Iterator[list[FieldPosterior]]:
        """Return the posteriors given each state in the order of the tokens, for each level of work."""
        back = [np.argsort(self._order(k)) for k in range(self.states.count)]
        for level in zip(*given, strict=False):
            yield [
                part._replace(first=part.first[:, :, own], second=part.second[:, :, own])
                for part, own in zip(level, back, strict=True)
            ]

    def _mixed(self, found: Sequence[FieldPosterior], log_weights: Array) -> FieldPosterior:
        """Return the posterior over states from those given each state."""
        shares = self._shares(found, log_weights)
        log_partition = logsumexp(log_weights + np.stack([part.log_partition for part in found], axis=1), axis=1)
        first, second, curvature = (np.zeros_like(part) for part in found[0][:3])
        for share, part, shift in zip(shares.T, found, self.states.shifts, strict=True):
            own = part.first + shift, part.second + shift
            first += share[:, None, None] * own[0]
            second += share[:, None, None] * own[1]
            curvature += share[:, None, None] * (part.curvature - _over_columns(*own))
        return FieldPosterior(
            first, second, curvature + _over_columns(first, second) + self.states.square, log_partition
        )

    @staticmethod
    def _shares(found: Sequence[FieldPosterior], log_weights: Array) -> Array:
        """Return the posterior probabilities of the states, shape (n, H)."""
        return np.asarray(softmax(log_weights + np.stack([part.log_partition for part in found], axis=1), axis=1))

    def slopes(self, y: Array, omega: Array, variance: Array) -> Slopes:
        return self.posteriors_and_slopes(y, omega, variance)[1]

    def posteriors_and_slopes(
        self, y: Array, omega: Array, variance: Array
    ) -> tuple[tuple[FieldPosterior, ...], Slopes]:
        both = [
            self.of_state(k).inference.posteriors_and_slopes(y, at, variance) for k, at in self._moved(omega, variance)
        ]
        weights, back = self.states.log_weights(omega, variance), [np.argsort(self._order(k)) for k in range(len(both))]
        levels = list(self._in_order([posteriors for posteriors, _ in both]))
        slopes = []
        for found, of_states in zip(levels, zip(*(part for _, part in both), strict=False), strict=False):
            pairs = [tuple(one[:, :, own][..., own] for one in pair) for pair, own in zip(of_states, back, strict=True)]
            slopes.append(self._mixed_slopes(found, pairs, weights))
        return tuple(self._mixed(level, weights) for level in levels), slopes

    def _mixed_slopes(
        self, found: Sequence[FieldPosterior], slopes: Sequence[tuple[Array, ...]], log_weights: Array
    ) -> tuple[Array, Array]:
        """Return the slopes over states from those given each state."""
        mixed, shares = self._mixed(found, log_weights), self._shares(found, log_weights)
        first, second = (np.broadcast_to(-_outer(mixed.first, mixed.second), slopes[0][0].shape).copy() for _ in (0, 1))
        for share, part, pair, shift in zip(shares.T, found, slopes, self.states.shifts, strict=True):
            own, weight = _outer(part.first + shift, part.second + shift), share.reshape(-1, 1, 1, 1, 1)
            first += weight * (pair[0] + own)
            second += weight * (pair[1] + own)
        return first, second

    @property
    def inference(self) -> Inference:
        return TiltedInference(self)


@dataclass(frozen=True, eq=False)
class TiltedInference(SampledInference):
    """Inference from samples with hidden states."""

    channel: TiltedChannel

    @property
    def refinement_factor(self) -> int:
        return self.channel.given[0].inference.refinement_factor

    @property
    def work(self) -> float:
        return super().work / self.points * self.channel.states.count * self.channel.given[0].inference.work

    @property
    def posterior_seconds(self) -> float:
        return self.channel.states.count * self.channel.given[0].inference.posterior_seconds

    def high_accuracy(self) -> Self:
        return self._with_given([one.inference.high_accuracy().channel for one in self.channel.given])

    def low_accuracy(self) -> Self:
        return self._with_given([one.inference.low_accuracy().channel for one in self.channel.given])

    def _with_given(self, given: Sequence[Channel]) -> Self:
        return replace(self, channel=replace(self.channel, given=tuple(given)))

    def scores(self, y: Array, omega: Array, variance: Array) -> Scores:
        return Scores(*self.channel.posterior(y, omega, np.broadcast_to(variance, (len(y), *variance.shape)))[:3])

    def sample_given(self, fields: Array, states: Indices, rng: np.random.Generator) -> Array:
        return self.channel.sample_given(fields, states, rng)

    def noiseless_labels(self, fields: Array, state: int, decisions: bool) -> Array:
        return self.channel.noiseless_labels(fields, state, decisions)

    def plugin_labels(self, mean: Array, variance: Array) -> Array:
        return self.channel.clean_given(mean, np.argmax(self.channel.states.log_weights(mean, variance), axis=1))

    def mean_labels(self, mean: Array, spread: Array, variance: Array) -> Array:
        return self.channel.mean_labels(mean, spread, variance)

    def state_errors(self, mean: Array, fields: Array, variance: Array) -> dict[str, float]:
        states, few = self.channel.states, slice(0, _WITH_LABELS)
        # Estimates depend on the hidden states through the true fields alone.
        of_fields, likeliest = (
            states.draw_given(fields, np.random.default_rng(0).random(len(fields))),
            states.log_weights(mean, variance),
        )
        wrong = {"state_error": np.argmax(likeliest, axis=1) != of_fields}
        labels = self.channel.sample_given(fields[few], of_fields[few], np.random.default_rng(1))
        repeated = np.broadcast_to(variance, (len(labels), *variance.shape))
        with_label = self.channel.state_log_weights(labels, mean[few], repeated)
        wrong["state_with_label_error"] = np.argmax(with_label, axis=1) != of_fields[few]
        return {name: float(np.mean(part)) for name, part in wrong.items()}

    def label_errors(
        self, variance: Array, last_layer: Array | None = None, decisions: bool = True
    ) -> dict[str, Array]:
        del last_layer
        weights = self.channel.state_log_weights if decisions else None
        return tilted_label_errors(self.channel, self.channel.states, variance, weights)

    def _data(self, variance: Array, known: int = 0, stretch: Array | None = None) -> tuple[Array, Array, Array]:
        channel, shape = self.channel, self.channel.fields.shape
        size = channel.rows * channel.columns
        points = self._points(known)
        t, u, source = np.split(points[:, 1:], [size, 2 * size], axis=1)
        t, u = t.reshape(-1, *shape), u.reshape(-1, *shape)
        u = u if stretch is None else stretch @ u
        states = self._states(known)
        shift = channel.states.shifts[states]
        omega = np.stack([(np.eye(len(v)) - v) @ shift + square_root(np.eye(len(v)) - v) @ t for v in variance])
        deviation = np.stack([shift + np.linalg.inv(np.linalg.cholesky(v)).T @ u for v in variance])
        labels = [
            channel.labels_given(mean + v @ shift + np.linalg.cholesky(v) @ u, states, source)
            for mean, v in zip(omega, variance, strict=True)
        ]
        return omega, deviation, np.stack(labels)

    def _points(self, known: int) -> Array:
        """Return the normal points of all data points: of the state, of both parts of the fields, of the label."""
        size = 2 * self.channel.rows * self.channel.columns + self.channel.sources
        return normal_points(size, self.points, REPLICAS)[:, known:].reshape(-1, size)

    def _states(self, known: int) -> Indices:
        return self.channel.states.draw(ndtr(self._points(known)[:, 0]))

    def _white(self, deviation: Array, variance: Array, known: int) -> Array:
        return super()._white(deviation - self.channel.states.shifts[self._states(known)], variance, known)


def _over_columns(first: Array, second: Array) -> Array:
    """Return the symmetrised product over rows, summed over columns: shapes (n, P, L) to (n, P, P)."""
    full = first @ np.swapaxes(second, 1, 2)
    return np.asarray(0.5 * (full + np.swapaxes(full, 1, 2)))


def _outer(first: Array, second: Array) -> Array:
    """Return the symmetrised product of all fields, shape (n, P, L, P, L)."""
    full = np.einsum("npl,nqm->nplqm", first, second)
    return np.asarray(0.5 * (full + np.einsum("nplqm->nqmpl", full)))
