"""Discrete labels of any law around a link of one field: sums over labels and quadratures over the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from glassformer.channels.label_laws import LabelLaw, law_gap
from glassformer.channels.labels import Exponents, Labels
from glassformer.channels.link.chebyshev import ChebyshevAverages, Row, small_overlap_behaviour
from glassformer.channels.link.contract import array_link
from glassformer.channels.link.exponents import LARGEST, first_exponent, hermite
from glassformer.channels.link.integrated import IntegratedChannel
from glassformer.channels.link.piecewise import PiecewiseLink, find_pieces
from glassformer.channels.link.posterior_panels import equidistribute, initial_panels
from glassformer.channels.link.prediction_errors import prediction_errors
from glassformer.channels.link.quadrature import (
    NO_INFORMATION,
    RULES,
    TAIL,
    normal_density,
    omega_nodes,
    refine,
    stack_estimates,
)
from glassformer.channels.scalar.base import Array, Estimate
from glassformer.core.arrays import AnyArray
from glassformer.core.errors import DataError
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.quadrature import gauss_panels, normal_nodes

# The support contains the labels of all fields within one of these ranges: the first with an acceptable number of
# labels.
_SUPPORT_RANGES = (8.3, 7.0, 6.0, 5.0)
_MOST_LABELS = 1 << 15  # largest number of labels in sums
_FEW_LABELS = 64  # largest number of labels that are listed as values of the channel
# Support of a law: quantiles at each value of the link besides two in the tails, probability beyond those, rounding of
# labels on a lattice in units of its spacing, and the largest deviation of the total probability from one.
_QUANTILES, _TAIL_PROBABILITY, _LATTICE_ROUNDING, _TOTAL_ROUNDING = 256, 1e-15, 1e-9, 1e-6

_FIELD_RANGE = 9.0  # rules of the quadrature over the field
_NODES = 12  # Gauss nodes per panel
_WIDTH = 3.0  # size of a panel, in deviations of the prior or of the label
_SPAN = 4.0  # range of the means of one block, in deviations of the prior
_FIELDS, _LABELS = 96, 256  # numbers of fields and labels of one block
_LOG_NEGLIGIBLE = 45.0  # probabilities below exp(-this) count as zero
_ROUNDING = 1e-13  # rounding error of sums of probabilities
_SETTLED = 1e-8  # relative change between two rules that ends the refinement
_CROSSING_PANELS = 68  # panels among whose ends crossings of the two probabilities of a label are searched
_CACHED = 4096  # number of variances whose averages are cached
# number of posteriors of one block, panels of each, and refinements of the panels
_ROWS, _PANELS, _REFINEMENTS = 256, 64, 5
_TYPICAL = (0.02, 0.25, 0.5, 0.75, 0.98)  # quantiles of the link at which density and samples of a law are compared


@dataclass(frozen=True)
class LabelLawChannel(IntegratedChannel):
    r"""Discrete labels of the law :math:`p(y\mid\varphi(h))`.

    :math:`Z_{out}(y, \omega, V) = E_u\,p(y\mid\varphi(\omega + \sqrt V u))`. Averages are sums over the support of
    quadratures over the field and its mean. The error is the last change of the rule plus a bound on the contribution
    of labels outside the support: their share of :math:`E\,u^2/V`.

    Args:
        function: link of one field, as for :class:`~glassformer.channels.link.channel.LinkChannel`.
        law: law of the label given the link.
        support: labels in the sums, ascending, see :meth:`of`.
        name: for printing.

    Example:
        >>> from glassformer.channels.label_laws import Logistic
        >>> channel = LabelLawChannel.of(lambda h: 3 * h, Logistic())
        >>> channel.labels.values
        (-1.0, 1.0)
    """

    function: Callable[..., object]
    law: LabelLaw
    support: tuple[float, ...]
    name: str = "link"

    @classmethod
    def of(cls, function: Callable[..., object], law: LabelLaw) -> LabelLawChannel | None:
        """Return the channel, or None if labels are continuous or too many for sums."""
        link = array_link(function)
        for reach in _SUPPORT_RANGES:
            support = label_support(law, link(np.linspace(-reach, reach, 65)))
            if support is not None:
                return cls(function, law, tuple(support.tolist()))
        return None

    @property
    def label(self) -> str:
        return f"{self.name}, {self.law.label}"

    @cached_property
    def labels(self) -> Labels:
        h, weight = self._fields
        mean, noise = self.clean(h), float(weight @ self.law.variance(self._pieces.link(h)))
        slope = float(weight @ (h * mean))
        return Labels(
            even=bool(self._refined_averages(1.0)[0] < NO_INFORMATION),
            noise=noise,
            noise_law=self.law.label,
            values=self._values,
            steps=tuple(self._pieces.breaks.tolist()),
            exponents=self._exponents,
            regression=(slope, float(weight @ mean**2) - slope**2 + noise),
            law_gap=self._law_gap,
        )

    @property
    def _values(self) -> tuple[float, ...]:
        """Values of the label if there are few, else empty."""
        return self.support if len(self.support) <= _FEW_LABELS else ()

    @cached_property
    def _exponents(self) -> Exponents:
        h, weight = self._fields
        polynomials = np.array([hermite(k, h) for k in range(LARGEST + 1)])
        given, _ = self._label_sums(h, weight * polynomials)
        probability = np.where(given[0] > 0, given[0], 1.0)
        mean = self.clean(h)
        mean = mean - weight @ mean
        size = max(float(np.sqrt(weight @ mean**2)), 1e-300)
        information = first_exponent(abs(float(weight @ (mean * part))) / size for part in polynomials[1:])
        return Exponents(information, first_exponent(np.sqrt(np.sum(part**2 / probability)) for part in given[1:]))

    def _law_gap(self) -> float:
        """Largest disagreement of samples and density of the law at typical values of the link."""
        h, weight = self._fields
        link = self._pieces.link(h)
        order = np.argsort(link)
        typical = np.interp(_TYPICAL, np.cumsum(weight[order]), link[order])
        return max(law_gap(self.law, x) for x in typical.tolist())

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        link = self._pieces.link(np.asarray(h, dtype=float))
        return np.asarray(self.law.quantile(link, rng.random(link.shape)), dtype=float)

    def clean(self, h: Array) -> Array:
        """Return the mean labels."""
        return np.asarray(self.law.mean(self._pieces.link(np.asarray(h, dtype=float))))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[1]

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[2]

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return self._posterior(y, omega, variance)[1:]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[0]

    def information(self, variance: Array) -> Estimate:
        v = np.asarray(variance, dtype=float)
        (value, error), (probability, square) = self._interpolated(v, 0), self._outside_support
        return Estimate(value, error + square + probability * (1 - v) / np.maximum(v, 1e-300))

    def expected_log_partition(self, variance: Array) -> Estimate:
        value, error = self._interpolated(np.asarray(variance, dtype=float), 1)
        probability, _ = self._outside_support
        # The bound assumes as many labels outside the support as inside.
        entropy = probability * (1 + np.log(len(self.support) / probability)) if probability > 0 else 0.0
        return Estimate(value, error + entropy)

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        """Return squared errors of predictions of the mean label.

        ``prediction_error`` is the error of the posterior mean, ``plugin_error`` that of the mean label at the mean
        field. Of labels +1 and -1 ``label_error`` is the share of new ones, with their noise, that are not the more
        probable one.
        """
        v = np.maximum(np.asarray(variance, dtype=float), 1e-30)
        value, error = stack_estimates([self._prediction_errors(x) for x in v.ravel().tolist()], v.shape)
        found = {name: Estimate(value[k], error[k]) for k, name in enumerate(("prediction_error", "plugin_error"))}
        if set(self._values) == {-1.0, 1.0}:
            missed = np.array([self._missed(x) for x in v.ravel().tolist()]).reshape(v.shape)
            found["label_error"] = Estimate(missed, np.full_like(v, _ROUNDING))
        return found

    def _missed(self, v: float) -> float:
        """Return the mean probability of the less probable one of the labels +1 and -1."""

        def excess(t: Array) -> Array:
            omega = np.sqrt(1 - v) * t
            return np.exp(self.log_partition(np.ones_like(t), omega, np.full_like(t, v))) - 0.5

        ends = np.linspace(-TAIL, TAIL, _CROSSING_PANELS + 1)
        values = excess(ends)
        # The sign of rounding may be another one when the same point is evaluated alone.
        signs = np.where(np.abs(values) <= _ROUNDING, 0.0, np.sign(values))
        breaks = [
            brentq(lambda t: float(excess(np.array([t]))[0]), ends[k], ends[k + 1], xtol=_ROUNDING)
            for k in np.flatnonzero(signs[1:] * signs[:-1] < 0)
        ]
        t, weight = normal_nodes([*breaks, *ends[signs == 0]])
        return float(weight @ (0.5 - np.abs(excess(t))))

    @cached_property
    def _log_probability(self) -> Callable[[Array, Array], Array]:
        return log_probabilities(self.law)

    @cached_property
    def _pieces(self) -> PiecewiseLink:
        return find_pieces(array_link(self.function))

    @cached_property
    def _fields(self) -> tuple[Array, Array]:
        """Nodes of a standard normal field, and their probabilities."""
        h, weight = gauss_panels(self._field_panels(-_FIELD_RANGE, _FIELD_RANGE, 1.0, 1), _NODES)
        return h, weight * normal_density(h)

    @cached_property
    def _prediction_errors(self) -> Callable[[float], Estimate]:
        mean_label = find_pieces(self.clean)
        return lru_cache(maxsize=_CACHED)(lambda v: prediction_errors(mean_label, v, _NODES))

    @cached_property
    def _outside_support(self) -> tuple[float, float]:
        r"""Probability of the labels outside the support, and mean square of the field with them.

        Labels outside the support contribute at most :math:`E[u^2/V] = E[h^2 + (1-V)/V]` to squares of the score.
        """
        h, weight = self._fields
        _, missing = self._label_sums(h, np.zeros((1, h.size)))
        return float(weight @ missing), float(weight @ (missing * h**2))

    def _interpolated(self, v: Array, which: int) -> Estimate:
        rows = self._interpolation(v.ravel())
        return Estimate(rows[:, 2 * which].reshape(v.shape), rows[:, 2 * which + 1].reshape(v.shape))

    @cached_property
    def _interpolation(self) -> ChebyshevAverages:
        power, floor = small_overlap_behaviour(self.labels.even, self._exponents)
        rules = [partial(self._averages, level) for level in range(len(RULES))]
        return ChebyshevAverages(self._refined_averages, rules, _SETTLED, power, False, _SETTLED, floor=floor)

    @cached_property
    def _refined_averages(self) -> Callable[[float], Row]:
        """Return information, its error, expected log partition and its error at one variance."""

        def row(v: float) -> Row:
            rules = (np.array(self._averages(level, v)) for level in range(len(RULES)))
            value, error = refine(rules, _SETTLED, NO_INFORMATION)
            return value[0], error[0], value[1], error[1]

        return lru_cache(maxsize=_CACHED)(row)

    @cached_property
    def _averages(self) -> Callable[[int, float], tuple[float, float]]:
        """Return information and expected log partition by one rule."""
        return lru_cache(maxsize=_CACHED)(self._integrals)

    def _integrals(self, level: int, v: float) -> tuple[float, float]:
        rule, scale = RULES[level], np.sqrt(v)
        information = expected = 0.0
        omegas, weights = omega_nodes(v, self._pieces.breaks, rule, _NODES)
        _, starts = np.unique(np.floor(omegas / (_SPAN * scale)), return_index=True)
        for omega, weight in zip(np.split(omegas, starts[1:]), np.split(weights, starts[1:]), strict=True):
            reach = omega[0] - TAIL * scale, omega[-1] + TAIL * scale
            low, high = np.clip(reach, -_FIELD_RANGE, _FIELD_RANGE)
            h, w = gauss_panels(self._field_panels(low, high, scale, rule.parts), rule.order(_NODES))
            u = (h - omega[:, None]) / scale
            prior = w * normal_density(u) / scale
            z, slope = np.split(self._label_sums(h, np.concatenate([prior, prior * u / scale]))[0], 2)
            safe = np.where(z > 0, z, 1.0)
            information += float(weight @ np.sum(slope * (slope / safe), axis=1))
            expected += float(weight @ np.sum(z * np.log(safe), axis=1))
        return information, expected

    def _field_panels(self, low: float, high: float, scale: float, parts: int) -> Array:
        """Return the edges of panels that resolve the prior of the field and the probabilities of labels."""
        h = np.linspace(low, high, 257)
        link = self._pieces.link(h)
        with np.errstate(all="ignore"):
            deviation = np.sqrt(self.law.variance(link))
            steps = np.abs(np.diff(self.law.mean(link))) / np.maximum(deviation[1:], deviation[:-1])
        # A jump of the link is already a break and needs no further panels.
        steps = np.minimum(np.nan_to_num(steps, nan=0.0, posinf=0.0), _WIDTH)
        change = np.append(0.0, np.cumsum(steps + np.diff(h) / scale)) / _WIDTH
        edges = np.interp(np.linspace(0, change[-1], parts * int(np.ceil(change[-1])) + 1), change, h)
        breaks = self._pieces.breaks
        return np.unique(np.concatenate([edges, breaks[(breaks > low) & (breaks < high)]]))

    @cached_property
    def _label_blocks(self) -> tuple[Array, int]:
        """Labels in blocks of equal length, shape (blocks, length), padded by the last label, and their number."""
        count = len(self.support)
        length = min(_LABELS, 1 << (count - 1).bit_length())
        return np.pad(np.array(self.support), (0, -count % length), mode="edge").reshape(-1, length), count

    @cached_property
    def _possible_blocks(self) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Fields on a grid, and the first and last block of labels with nonzero probability at each."""
        h = np.linspace(-_FIELD_RANGE, _FIELD_RANGE, 6 * _FIELDS)
        blocks, _ = self._label_blocks
        possible = []
        for part in h.reshape(-1, _FIELDS):
            link = self._pieces.link(part)[:, None]
            largest = [np.max(self._log_probability(block, link), axis=1) for block in blocks]
            possible.append(np.stack(largest, axis=1) > -_LOG_NEGLIGIBLE)
        at = np.concatenate(possible)
        first, last = np.argmax(at, axis=1), at.shape[1] - 1 - np.argmax(at[:, ::-1], axis=1)
        none = ~at.any(axis=1)
        first[none], last[none] = len(blocks), -1
        return h, first, last

    def _label_sums(self, h: Array, rows: Array) -> tuple[Array, Array]:
        """Return sums over fields of rows times probabilities, shape (rows, labels), and the missing probabilities.

        Args:
            h: fields, ascending.
            rows: weights, shape (rows, fields).
        """
        blocks, count = self._label_blocks
        grid, first, last = self._possible_blocks
        sums, missing = np.zeros((len(rows), *blocks.shape)), np.ones(h.size)
        for start in range(0, h.size, _FIELDS):
            part = slice(start, min(start + _FIELDS, h.size))
            begin, end = np.searchsorted(grid, [h[part.start], h[part.stop - 1]])
            near = slice(max(begin - 2, 0), end + 2)
            link = self._pieces.link(np.pad(h[part], (0, start + _FIELDS - part.stop), mode="edge"))[:, None]
            for k in range(int(first[near].min()), int(last[near].max()) + 1):
                probability = np.exp(self._log_probability(blocks[k], link))[: part.stop - start]
                probability[:, max(count - k * blocks.shape[1], 0) :] = 0.0
                sums[:, k] += rows[:, part] @ probability
                missing[part] -= probability.sum(axis=1)
        return sums.reshape(len(rows), -1), np.where(missing > _ROUNDING * np.sqrt(count), missing, 0.0)

    def _posterior(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array, Array]:
        """Return log partition, score and curvature."""
        self._require_labels(np.asarray(y, dtype=float))
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (y, omega, variance)))
        flat = [part.ravel() for part in arrays]
        result = np.empty((3, flat[0].size))
        for start in range(0, flat[0].size, _ROWS):
            part = slice(start, start + _ROWS)
            own = [x[part] for x in flat]
            rows = [np.pad(x, (0, _ROWS - x.size), mode="edge")[:, None] for x in own]
            result[:, part] = self._posterior_rows(*rows)[:, : own[0].size]
        log_z, score, curvature = (x.reshape(arrays[0].shape) for x in result)
        return log_z, score, curvature

    def _require_labels(self, y: Array) -> None:
        """Raise unless the law gives such labels: those of the sums, and rarer ones beyond if there are any."""
        support = np.array(self.support)
        after = np.clip(np.searchsorted(support, y), 1, support.size - 1)
        gap = np.minimum(np.abs(y - support[after - 1]), np.abs(y - support[after]))
        bad = ~(gap <= _LATTICE_ROUNDING * (1 + np.abs(y)))
        if np.any(bad) and self._outside_support[0] > 0:
            links = self._pieces.link(np.linspace(-_FIELD_RANGE, _FIELD_RANGE, 9))
            possible = np.isfinite(np.max(self._log_probability(y.ravel()[:, None], links), axis=1)).reshape(y.shape)
            bad &= ~(((y > support[-1]) | (y < support[0])) & possible)
        if np.any(bad):
            listed = ", ".join(f"{value:g}" for value in support[:4]) + (", ..." if support.size > 4 else "")
            raise DataError("y", float(y[bad].flat[0]), f"labels of the law {self.law.label}: {listed}")

    def _posterior_rows(self, y: Array, omega: Array, v: Array) -> Array:
        """Return log partition, score and curvature, shape (3, rows), from columns of shape (rows, 1)."""
        scale = np.sqrt(v)

        def exponent(u: Array) -> Array:
            return -0.5 * u**2 + self._log_probability(y, self._pieces.link(omega + scale * u))

        edges, cuts = initial_panels(self._pieces.breaks, omega, scale)
        for _ in range(_REFINEMENTS):
            height = exponent(edges)
            near = height > np.max(height, axis=1, keepdims=True) - _LOG_NEGLIGIBLE
            with np.errstate(invalid="ignore"):
                steps = np.minimum(np.nan_to_num(np.abs(np.diff(height, axis=1)), nan=np.inf), _LOG_NEGLIGIBLE)
            change = np.where(near[:, 1:] | near[:, :-1], np.diff(edges, axis=1) + steps, 0.0)
            edges = np.sort(np.concatenate([equidistribute(edges, change, _PANELS), cuts], axis=1), axis=1)
        u, w = gauss_panels(edges, _NODES)
        height = exponent(u)
        top = np.max(height, axis=1, keepdims=True)
        weight = w * np.exp(height - top)
        total = np.sum(weight, axis=1)
        mean = np.sum(weight * u, axis=1) / total
        spread = np.sum(weight * (u - mean[:, None]) ** 2, axis=1) / total
        log_partition = top[:, 0] + np.log(total) - 0.5 * np.log(2 * np.pi)
        return np.array([log_partition, mean / scale[:, 0], (1 - spread) / v[:, 0]])


def label_support(law: LabelLaw, links: Array) -> Array | None:
    """Return all labels of a law at some values of the link, ascending.

    Labels are the quantiles of the law. If these lie on a lattice, all points of the lattice between them are included.

    Args:
        law: of one label.
        links: values of the link, shape (n,).

    Returns:
        Labels, shape (count,), or None if the law is continuous or has more than 2^15 labels.

    Example:
        >>> from glassformer.channels.label_laws import Laplace, Logistic
        >>> label_support(Logistic(), np.linspace(-3, 3, 5)), label_support(Laplace(1.0), np.zeros(1))
        (array([-1.,  1.]), None)
    """
    inner = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    places = np.concatenate([[_TAIL_PROBABILITY], inner, [1 - _TAIL_PROBABILITY]])
    quantiles = np.unique(law.quantile(*np.broadcast_arrays(links[:, None], places)))
    if len(quantiles) < 2 or not np.all(np.isfinite(quantiles)):
        return None
    steps = (quantiles - quantiles[0]) / np.min(np.diff(quantiles))
    if steps[-1] >= _MOST_LABELS:
        return None
    on_lattice = np.all(np.abs(steps - np.round(steps)) <= _LATTICE_ROUNDING * np.maximum(steps, 1))
    labels = np.linspace(quantiles[0], quantiles[-1], round(steps[-1]) + 1) if on_lattice else quantiles
    log_probability = log_probabilities(law)
    total = np.array([np.sum(np.exp(log_probability(labels, np.full(labels.shape, x)))) for x in links])
    return labels if np.all(np.abs(total - 1) <= _TOTAL_ROUNDING) else None


def log_probabilities(law: LabelLaw) -> Callable[[Array, Array], Array]:
    """Return a function that evaluates log probabilities of labels, elementwise, in double precision.

    NaN, at links that overflow, counts as impossible. The function is compiled once for every shape.
    """
    compiled = CachedJit(_log_density, law=law)

    def function(y: Array, link: Array) -> Array:
        with jax_settings():
            return np.asarray(compiled(y, link))

    return function


def _log_density(y: AnyArray, link: AnyArray, law: LabelLaw) -> jax.Array:
    log_density = law.log_density(y, link)
    return jnp.where(jnp.isnan(log_density), -jnp.inf, log_density)
