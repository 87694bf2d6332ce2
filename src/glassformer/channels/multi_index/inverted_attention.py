r"""Attention networks whose labels are a sum of attention matrices, or their product: one head is solved for."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.channels.multi_index.attention_network import (
    Architecture,
    attention_layer,
    attention_link,
    layers_mixing,
)
from glassformer.channels.multi_index.deep_attention_channel import AttentionChannel
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.latent_channel import SECONDS_OF_LATENT
from glassformer.channels.multi_index.latent_posterior import Datum, LatentPosterior
from glassformer.channels.multi_index.posterior_modes import find_mode
from glassformer.core.errors import IncompatibleError
from glassformer.core.estimate import Array
from glassformer.numerics.small_matrices import cholesky, inverse_and_log_det, row_flips, triangular_inverse

# Prior width of the latents that are no fields over that of their rows: their mixing is known only roughly (by trial).
_WIDENING = 2.0
# Deviation of labels that counts as one standard deviation on the way to a possible start, and steps of that way.
_START_DEVIATION, _START_STEPS = 1e-4, 20
# Largest squared deviation of fields, in units of their variance (probability of more: below 1e-10 for four fields).
# Without this limit a point beyond it would carry all the weight of its label if no other mode were found.
_FARTHEST = 60.0


@dataclass(frozen=True, eq=False)
class InvertedAttentionChannel(AttentionChannel):
    r"""Noiseless sums of the heads of the last layer, or mixings of the input tokens, of two tokens.

    Given all rows but one, the attention matrix ``A`` of that head is known: for attention outputs, where it is one of
    the last layer, :math:`A_i = (y - \sum_{h\ne i}r_hA_h)/r_i`; for sequence outputs, of any layer,
    :math:`A_i = (M_{l+1}^{-1}\cdots M_P^{-1}yB_{l-1}^{-1} - c_lI - \sum_{h\ne i}r_hA_h)/r_i` with the later layers
    :math:`M_k = c_kI + \sum_hr_h\sigma(v_{kh}v_{kh}^T)`, whose vectors are latents. It inverts where its log-odds have
    :math:`a + b > 0`: :math:`v = \pm(a, -b)/\sqrt{a + b}`.

    Each head that may be solved for is a chart of the posterior. Its share is in proportion to
    :math:`r_i^2|\det dA_i/dv_i|`, which cancels the divergence where that head saturates.

    Args:
        network: tied softmax layers of two tokens.
        effort: work of the sampling per data point.
        points: data points per replica of the averages.

    Raises:
        IncompatibleError: no head inverts.

    Source: derived in docs/theory.md.

    Example:
        >>> heads = Architecture(1, 2, (1.0,), "softmax", True, 2, "attention", ((1.0, 1.0),))
        >>> channel = InvertedAttentionChannel(heads)
        >>> channel.fields.shape, channel.latents, channel.labels.rank
        ((2, 2), 2, 2.0)
    """

    effort: Effort = field(default=Effort(points=64, starts=16, steps=10), kw_only=True)
    points: int = field(default=2048, kw_only=True)

    def __post_init__(self) -> None:
        if not inverts(self.network):
            raise IncompatibleError("only tied softmax networks of two tokens invert head by head: use a link channel")

    @staticmethod
    def make(network: Architecture) -> LatentPosterior:
        own = _Posterior(network)
        return LatentPosterior(own.target, own.features, own.link, own.images, own.start, own.charts, own.on_chart)

    @property
    def rank(self) -> float:
        return float(self.columns)

    @property
    def latents(self) -> int:
        return (self.rows - 1) * self.columns

    @property
    def posterior_seconds(self) -> float:
        # The two searches for every mode, in the fields of all rows and in the latents, take as long as the rest: each
        # step takes the likelihood and its slopes, as long as so many latents.
        fields, effort = self.rows * self.columns, self.effort
        search = effort.starts * (_START_STEPS * (1 + fields) + effort.steps * (1 + self.latents))
        return super().posterior_seconds + search * SECONDS_OF_LATENT

    def log_constant(self, root: Array) -> Array:
        return np.full(len(root), -0.5 * self.columns * np.log(2 * np.pi))

    def observation(self, y: Array) -> Array:
        return np.asarray(y, dtype=float)


def inverts(network: Architecture) -> bool:
    """Return whether one head of the network is known from the label and all other heads.

    Example:
        >>> inverts(Architecture(1, 3, (1.0,), "softmax", True, 2, "attention", ((1.0, 1.0),)))
        False
    """
    tied_pairs = network.tied and network.tokens == 2 and network.activation == "softmax" and not network.limit
    return tied_pairs and max(network.directions) == 1 and bool(np.all(np.array(network.head_weights) != 0))


class _Order(NamedTuple):
    """Order of the rows on the charts of one kind, those that solve for a head of the same layer.

    Attributes:
        layer: of the head that is solved for.
        rows: rows of the network, the latents and then the one solved for, shape (charts, P).
        plain: whether the latents of a row are its fields, shape (P,); those of others are vectors of later layers.
        scales: prior width of the latents over that of the rows, shape (P - 1,).
    """

    layer: int
    rows: NDArray[np.intp]
    plain: NDArray[np.bool_]
    scales: Array


def _order(network: Architecture, layer: int) -> _Order:
    heads, everything = network.heads, np.arange(network.rows)
    end = (layer + 1) * heads
    solved = everything[layer * heads : end]
    rows = np.array([[*np.setdiff1d(everything[:end], row), *everything[end:], row] for row in solved])
    plain = everything < end - 1
    return _Order(layer, rows, plain, np.where(plain[:-1], 1.0, _WIDENING))


class _Chart(NamedTuple):
    """One chart at one datum, its rows in their order.

    Attributes:
        label: observed.
        network_omega, network_inverse: mean fields and inverse root of the covariance in the order of the network.
        typical: mixings after every layer, roughly averaged over the posterior of the fields, shape (depth, 2, 2); none
            for attention outputs, whose later layers are not inverted.
        number: which of the charts of its kind.
        omega: mean fields, shape (P, 2).
        root: of the covariance of the rows.
        inverse: of the root.
        weights: of the heads.
        order: of the rows on charts of this kind.
    """

    label: jax.Array
    network_omega: jax.Array
    network_inverse: jax.Array
    typical: jax.Array
    number: jax.Array
    omega: jax.Array
    root: jax.Array
    inverse: jax.Array
    weights: jax.Array
    order: _Order

    @property
    def latent_root(self) -> jax.Array:
        """Lower triangular, from latents to the fields of all rows but the last."""
        return self.root[:-1, :-1] * self.order.scales

    def back(self, ordered: jax.Array) -> jax.Array:
        """Return an array over rows in the order of the network."""
        return self.of_own_rows(ordered, np.argsort(self.order.rows, axis=1))

    def of_own_rows(self, of_rows: jax.Array, orders: NDArray[np.intp]) -> jax.Array:
        """Return an array over rows in the order of this chart among those of all charts of its kind."""
        found = of_rows[orders[0]]
        for k, order in enumerate(orders[1:], start=1):
            found = jnp.where(self.number == k, of_rows[order], found)
        return found


class _Posterior:
    """The functions of :class:`~.latent_posterior.LatentPosterior` for the labels of a network."""

    def __init__(self, network: Architecture) -> None:
        self.network, self.link = network, attention_link(network)
        self.layers = list(range(network.depth)) if network.output == "sequence" else [network.depth - 1]
        self.orders = [_order(network, layer) for layer in self.layers]
        self._head_weights = np.array(network.head_weights).ravel()

    @property
    def charts(self) -> tuple[int, ...]:
        """Numbers of heads that may be solved for in every layer."""
        return tuple(len(order.rows) for order in self.orders)

    def on_chart(self, datum: Datum, kind: int, number: int) -> Datum:
        """Return the parts of a :class:`_Chart` but its order."""
        label, omega, root = datum
        own = self.orders[kind].rows[number]
        ordered = cholesky((root @ root.T)[own][:, own])
        typical = jnp.zeros((0, 2, 2))
        if self.network.output == "sequence":
            typical = jnp.stack(_typical_mixings(self.network, omega, root))
        in_network = label, omega, triangular_inverse(root), typical
        own_rows = omega[own], ordered, triangular_inverse(ordered), jnp.asarray(self._head_weights[own])
        return *in_network, jnp.asarray(number), *own_rows

    def target(self, x: jax.Array, datum: Datum) -> tuple[jax.Array, jax.Array]:
        chart = self._chart_of(datum)
        fields, log_weight = self._solve(x, chart)
        whitened = chart.inverse @ (fields - chart.omega)
        residual = jnp.where(chart.order.plain[:, None], 0.0, whitened)
        near = jnp.sum(whitened**2, axis=(1, 2)) < _FARTHEST + 2 * self.network.rows
        return residual.reshape(2, -1), jnp.where(near, log_weight, -jnp.inf)

    def features(self, x: jax.Array, datum: Datum) -> jax.Array:
        chart = self._chart_of(datum)
        both = jnp.stack([chart.back(fields) for fields in self._solve(x, chart)[0]])
        return (chart.network_inverse @ (both - chart.network_omega)).reshape(2, -1)

    def images(self, x: jax.Array, datum: Datum) -> jax.Array:
        """Return the latents with the signs of their rows flipped."""
        chart = self._chart_of(datum)
        flips = np.array(list(itertools.product([1.0, -1.0], repeat=self.network.rows - 1)))
        return row_flips(x, chart.omega[:-1], chart.latent_root, flips)

    def start(self, x: jax.Array, datum: Datum) -> jax.Array:
        """Return latents of fields that nearly have the label: most draws of the prior leave no matrix that inverts."""
        network, chart = self.network, self._chart_of(datum)

        def residual(whole: jax.Array) -> tuple[jax.Array, jax.Array]:
            fields = chart.back(chart.omega + chart.root @ whole.reshape(network.rows, 2))
            return jnp.ravel(self.link(fields) - chart.label) / _START_DEVIATION, jnp.zeros(())

        # Labels are even in the row solved for: begin elsewhere than at its zero.
        first = jnp.concatenate([x, x[-2:][::-1] + 0.5])
        whole = find_mode(residual, first, _START_STEPS)[0].reshape(network.rows, 2)
        fields = chart.omega + chart.root @ whole
        if network.output == "sequence":
            vectors = _from_typical_mixings(network, chart.back(fields), chart.typical)
            ordered = chart.of_own_rows(vectors, chart.order.rows)
            fields = jnp.where(chart.order.plain[:, None], fields, ordered)
        return (triangular_inverse(chart.latent_root) @ (fields[:-1] - chart.omega[:-1])).ravel()

    def _chart_of(self, datum: Datum) -> _Chart:
        parts: Any = datum if len(self.orders) > 1 else (*datum, 0)
        return _Chart._make((*parts[:-1], self.orders[parts[-1]]))

    def _solve(self, x: jax.Array, chart: _Chart) -> tuple[jax.Array, jax.Array]:
        """Return fields of all rows in their order for both signs of the last, shape (2, P, 2), and the log-weight."""
        rows = self.network.rows
        x = x.reshape(rows - 1, 2)
        fields, log_weight = _solve_head(self.network, chart, chart.omega[:-1] + chart.latent_root @ x)
        log_weight = log_weight - _log_sensitivity(self.network, chart.back(fields), self.layers)
        # Latents that are no fields have a flat measure; the prior of the latents is normal.
        flat = jnp.sum(jnp.where(chart.order.plain[:-1, None], 0.0, 0.5 * x**2 + np.log(_WIDENING)))
        log_weight = log_weight + flat - 2 * jnp.log(chart.root[-1, -1])
        last = jnp.concatenate([jnp.ones((2, rows - 1)), np.array([[1.0], [-1.0]])], axis=1)
        return last[:, :, None] * fields, log_weight


def _solve_head(network: Architecture, chart: _Chart, latent: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return fields of all rows in the order of a chart, its last row solved for, and the log-weight.

    Latents are the fields of the earlier layers and of the other heads of the layer, and the vectors of the later
    layers divided by typical mixings, as the actual ones are not known yet.
    """
    heads, identity, index = network.heads, jnp.eye(2), chart.order.layer
    typical, weights = chart.typical, chart.weights
    before, plain = index * heads, (index + 1) * heads - 1
    own = latent[before:plain]
    families = latent[:before].reshape(index, 1, heads, 2)
    mixing = layers_mixing(network, families, families)
    inverse, log_det = inverse_and_log_det(mixing)
    remaining, log_weight, factors = chart.label, -log_det, []
    if network.output == "sequence":
        later = latent[plain:].reshape(network.depth - 1 - index, heads, 2)
        scales = weights[plain:-1].reshape(network.depth - 1 - index, heads)
        for k, (vectors, scale) in enumerate(zip(later, scales, strict=True), start=index + 1):
            attention = attention_layer(typical[k - 1], vectors[None], vectors[None], scale, network.activation)
            factors.append(network.skip[k] * identity + attention)
        for factor in reversed(factors):
            solver, size = inverse_and_log_det(factor)
            remaining, log_weight = solver @ remaining, log_weight - size
        # All rows of a mixing have the same sum, so that a label has two free entries.
        sums = jnp.log(jnp.abs(jnp.sum(mixing[0])))
        total = remaining @ inverse - network.skip[index] * identity
        log_weight = log_weight - 2 * (log_det - sums)
    else:
        total = remaining
    vector, possible = _last_head(total, own @ mixing.T, jnp.append(weights[before:plain], weights[-1]))
    fields, mixing = [latent[:plain]], remaining
    for k, factor in enumerate(factors, start=index + 1):
        solver, size = inverse_and_log_det(mixing)
        fields.append(later[k - 1 - index] @ (solver @ typical[k - 1]).T)
        log_weight = log_weight + heads * (inverse_and_log_det(typical[k - 1])[1] - size)
        mixing = factor @ mixing
    fields.append((inverse @ vector)[None])
    return jnp.concatenate(fields), jnp.where(possible, log_weight, -jnp.inf)


def _from_typical_mixings(network: Architecture, fields: jax.Array, typical: jax.Array) -> jax.Array:
    """Return latent vectors of all rows.

    They are fields times the actual mixing before their layer, divided by the typical mixing.
    """
    families = fields.reshape(network.depth, 1, network.heads, 2)
    vectors = [families[0, 0]]
    for k in range(1, network.depth):
        factor = inverse_and_log_det(typical[k - 1])[0] @ layers_mixing(network, families[:k], families[:k])
        vectors.append(families[k, 0] @ factor.T)
    return jnp.concatenate(vectors)


def _typical_mixings(network: Architecture, omega: jax.Array, root: jax.Array) -> list[jax.Array]:
    """Return the mixings after every layer, roughly averaged over the posterior of the fields."""
    spread = jnp.sqrt(jnp.sum(root**2, axis=1))
    corners = np.sqrt(2.0) * np.concatenate([np.eye(2), -np.eye(2)])
    fields = (omega + spread[:, None] * corners[:, None]).reshape(4, network.depth, 1, network.heads, 2)
    mixing, mixings = jnp.asarray(network.start), []
    for k in range(network.depth):
        attentions = [
            attention_layer(mixing, rows, rows, network.head_weights[k], network.activation) for rows in fields[:, k]
        ]
        mixing = network.skip[k] * mixing + sum(attentions) / len(attentions) @ mixing
        mixings.append(mixing)
    return mixings


def _last_head(total: jax.Array, others: jax.Array, weights: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the vector of the last head if all heads have the weighted sum ``total``, and whether it exists."""
    for vector, weight in zip(others, weights[:-1], strict=True):
        total = total - weight * jax.nn.softmax(jnp.outer(vector, vector), axis=-1)
    entries = (total / weights[-1]).ravel()
    possible = jnp.all(entries > 0)
    logs = jnp.log(jnp.where(possible, entries, 0.25))
    first, second = logs[0] - logs[1], logs[3] - logs[2]
    possible = possible & (first + second > 0)
    return jnp.array([first, -second]) / jnp.sqrt(jnp.where(possible, first + second, 1.0)), possible


def _log_sensitivity(network: Architecture, fields: jax.Array, layers: list[int]) -> jax.Array:
    r"""Return the logarithm of :math:`\sum r^2|\det dA/dv|` over the heads of some layers, up to a factor."""
    families = fields.reshape(network.depth, 1, network.heads, 2)
    weights = np.array(network.head_weights)
    log_slopes = []
    for k in layers:
        vectors = families[k, 0] @ layers_mixing(network, families[:k], families[:k]).T
        logs = jax.nn.log_softmax(vectors[:, :, None] * vectors[:, None, :], axis=-1)
        slopes = 2 * jnp.log(jnp.abs(vectors[:, 0] - vectors[:, 1])) + jnp.sum(logs, axis=(1, 2))
        log_slopes.append(slopes + 2 * np.log(np.abs(weights[k])))
    return jax.scipy.special.logsumexp(jnp.concatenate(log_slopes))
