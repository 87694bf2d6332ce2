"""Discrete labels of any law around a link of one field: sums over labels and quadratures over the field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from glassformer.channels.label_draws import law_gap
from glassformer.channels.label_laws import LabelLaw
from glassformer.channels.label_support import label_support, log_probabilities
from glassformer.channels.link.curve import Curve, Row
from glassformer.channels.link.exponents import first_exponent, hermite
from glassformer.channels.link.field_quadrature import (
    REFINEMENT,
    RULES,
    TAIL,
    normal_density,
    omega_nodes,
    refined,
)
from glassformer.channels.link.function import array_link
from glassformer.channels.link.noisy import levelled, wide_panels
from glassformer.channels.link.piecewise import LinkShape, link_shape
from glassformer.channels.link.smooth_errors import smooth_errors
from glassformer.channels.link.step_errors import step_errors
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.channels.scalar.exponents import Exponents
from glassformer.numerics.quadrature import gauss_panels


@dataclass(frozen=True)
class Policy:
    """How finely and how far the sums go."""

    reaches: tuple[float, ...] = (8.3, 7.0, 6.0, 5.0)  # fields whose labels are summed over, if there are not too many
    fields: float = 9.0  # of the quadrature
    width: float = 3.0  # of its panels, in deviations of the prior or of the label
    span: float = 4.0  # of the means treated at once, in deviations of the prior
    block: int = 96  # fields treated at once
    labels: int = 256  # labels treated at once, at most
    nothing: float = 45.0  # logarithm of the inverse of a probability that is none
    rounding: float = 1e-13  # in sums of probabilities
    settled: float = 1e-8  # relative change between two rules that ends the refinement
    nodes: int = 12  # Gauss nodes of a panel
    few: int = 64  # labels that are listed
    rows: int = 256  # data points treated at once
    panels: int = 64  # of the posterior of one data point
    zooms: int = 5  # refinements of them


_POLICY = Policy()
# Shares of the values of the link below those at which a law is looked at.
_USUAL = (0.02, 0.25, 0.5, 0.75, 0.98)


@dataclass(frozen=True)
class LabelLawChannel(ScalarChannel):
    r"""Discrete labels of the law :math:`p(y\mid\varphi(h))`.

    :math:`Z_{out}(y, \omega, V) = E_u\,p(y\mid\varphi(\omega + \sqrt V u))`. Averages are sums over the labels that
    have a probability anywhere, of quadratures over the field and its mean. The error is the last change of the rule,
    and a bound of what the labels beyond those summed over can add: their share of :math:`E\,u^2/V`.

    Args:
        function: link of one field, as of :class:`~glassformer.channels.link.channel.LinkChannel`.
        law: of the label, given the link.
        support: labels that are summed over, ascending; see :meth:`of`.
        name: for printing.

    Example:
        >>> from glassformer.channels.label_laws import Logistic
        >>> channel = LabelLawChannel.of(lambda h: 3 * h, Logistic())
        >>> channel.values
        (-1.0, 1.0)
    """

    function: Callable[..., object]
    law: LabelLaw
    support: tuple[float, ...]
    name: str = "link"

    noiseless = False

    @classmethod
    def of(cls, function: Callable[..., object], law: LabelLaw) -> LabelLawChannel | None:
        """Return the channel; None where labels are continuous, or too many to be summed over."""
        link = array_link(function)
        for reach in _POLICY.reaches:
            support = label_support(law, link(np.linspace(-reach, reach, 65)))
            if support is not None:
                return cls(function, law, tuple(support.tolist()))
        return None

    @property
    def label(self) -> str:
        return f"{self.name}, {self.noise_law}"

    @property
    def noise_law(self) -> str:
        return self.law.label

    @property
    def values(self) -> tuple[float, ...]:
        """Of the label, where they are few."""
        return self.support if len(self.support) <= _POLICY.few else ()

    @property
    def steps(self) -> tuple[float, ...]:
        """Where the link jumps."""
        return tuple(self._shape.breaks.tolist())

    @cached_property
    def even(self) -> bool:
        return bool(self._refined(1.0)[0] < REFINEMENT.nothing)

    @cached_property
    def exponents(self) -> Exponents:
        h, weight = self._fields
        polynomials = np.array([hermite(k, h) for k in range(17)])
        given, _ = self._summed(h, weight * polynomials)
        chance = np.where(given[0] > 0, given[0], 1.0)
        mean = self.clean(h)
        mean = mean - weight @ mean
        size = max(float(np.sqrt(weight @ mean**2)), 1e-300)
        information = first_exponent(abs(float(weight @ (mean * part))) / size for part in polynomials[1:])
        return Exponents(information, first_exponent(np.sqrt(np.sum(part**2 / chance)) for part in given[1:]))

    @cached_property
    def regression(self) -> tuple[float, float]:
        h, weight = self._fields
        mean = self.clean(h)
        slope = float(weight @ (h * mean))
        return slope, float(weight @ mean**2) - slope**2 + self.label_noise

    @cached_property
    def label_noise(self) -> float:
        h, weight = self._fields
        return float(weight @ self.law.variance(self._shape.link(h)))

    @cached_property
    def law_gap(self) -> float:
        """Of the law, at values of the link that are usual."""
        h, weight = self._fields
        link = self._shape.link(h)
        order = np.argsort(link)
        usual = np.interp(_USUAL, np.cumsum(weight[order]), link[order])
        return max(law_gap(self.law, x) for x in usual.tolist())

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        link = self._shape.link(np.asarray(h, dtype=float))
        return np.asarray(self.law.quantile(link, rng.random(link.shape)), dtype=float)

    def clean(self, h: Array) -> Array:
        """Mean labels."""
        return np.asarray(self.law.mean(self._shape.link(np.asarray(h, dtype=float))))

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
        found, (chance, square) = self._along(v, 0), self._missing
        return Estimate(found.value, found.error + square + chance * (1 - v) / np.maximum(v, 1e-300))

    def expected_log_partition(self, variance: Array) -> Estimate:
        found, (chance, _) = self._along(np.asarray(variance, dtype=float), 1), self._missing
        # Labels beyond those summed over are taken for as many more.
        entropy = chance * (1 + np.log(len(self.support) / chance)) if chance > 0 else 0.0
        return Estimate(found.value, found.error + entropy)

    def label_error(self, variance: Array) -> dict[str, Array]:
        """``prediction_error`` of the posterior mean of the mean label, and ``plugin_error`` of that at the mean."""
        named = {name: found.value for name, found in self.label_integrals(variance).items()}
        return {**named, "label_noise": np.full(np.shape(variance), self.label_noise)}

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        v = np.maximum(np.asarray(variance, dtype=float), 1e-30)
        found = [self._label_errors(x) for x in v.ravel().tolist()]
        values, errors = (np.stack(parts, axis=-1).reshape(-1, *v.shape) for parts in zip(*found, strict=True))
        names = ("prediction_error", "plugin_error")
        return {name: Estimate(values[k], errors[k]) for k, name in enumerate(names)}

    @cached_property
    def _log_chance(self) -> Callable[[Array, Array], Array]:
        return log_probabilities(self.law)

    @cached_property
    def _shape(self) -> LinkShape:
        return link_shape(array_link(self.function))

    @cached_property
    def _fields(self) -> tuple[Array, Array]:
        """Nodes of a standard normal field, and their probabilities."""
        edges = self._panels(-_POLICY.fields, _POLICY.fields, 1.0, 1)
        h, weight = gauss_panels(edges, _POLICY.nodes)
        return h, weight * normal_density(h)

    @cached_property
    def _label_errors(self) -> Callable[[float], Estimate]:
        shape = link_shape(self.clean)
        errors = step_errors if shape.stepped else smooth_errors
        return lru_cache(maxsize=4096)(lambda v: errors(shape, v, _POLICY.nodes))

    @cached_property
    def _missing(self) -> tuple[float, float]:
        r"""Probability of the labels beyond those summed over, and mean square of the field with them.

        Squares of the score add at most :math:`E[u^2/V] = E[h^2 + (1-V)/V]` over these.
        """
        h, weight = self._fields
        _, missing = self._summed(h, np.zeros((1, h.size)))
        return float(weight @ missing), float(weight @ (missing * h**2))

    def _along(self, v: Array, which: int) -> Estimate:
        rows = self._curve(v.ravel())
        return Estimate(rows[:, 2 * which].reshape(v.shape), rows[:, 2 * which + 1].reshape(v.shape))

    @cached_property
    def _curve(self) -> Curve:
        generative = self.exponents.generative
        power = int(generative) - 1 if self.even and generative < np.inf else int(self.even)
        rules = [partial(self._averages, level) for level in range(len(RULES))]
        floor = 0.0 if generative < np.inf else REFINEMENT.floor
        return Curve(self._refined, rules, _POLICY.settled, power, False, _POLICY.settled, floor=floor)

    @cached_property
    def _refined(self) -> Callable[[float], Row]:
        """Information, its error, expected log partition and its error."""

        def averages(v: float) -> Row:
            rules = (np.array(self._averages(level, v)) for level in range(len(RULES)))
            value, error = refined(rules, _POLICY.settled, REFINEMENT.nothing)
            return value[0], error[0], value[1], error[1]

        return lru_cache(maxsize=4096)(averages)

    @cached_property
    def _averages(self) -> Callable[[int, float], tuple[float, float]]:
        """Information and expected log partition by one rule."""
        return lru_cache(maxsize=4096)(self._sums)

    def _sums(self, level: int, v: float) -> tuple[float, float]:
        rule, scale = RULES[level], np.sqrt(v)
        information = expected = 0.0
        omegas, weights = omega_nodes(v, self._shape.breaks, rule, _POLICY.nodes)
        _, starts = np.unique(np.floor(omegas / (_POLICY.span * scale)), return_index=True)
        for omega, weight in zip(np.split(omegas, starts[1:]), np.split(weights, starts[1:]), strict=True):
            reach = omega[0] - TAIL * scale, omega[-1] + TAIL * scale
            low, high = np.clip(reach, -_POLICY.fields, _POLICY.fields)
            h, w = gauss_panels(self._panels(low, high, scale, rule.parts), rule.of(_POLICY.nodes))
            u = (h - omega[:, None]) / scale
            prior = w * normal_density(u) / scale
            z, slope = np.split(self._summed(h, np.concatenate([prior, prior * u / scale]))[0], 2)
            known = np.where(z > 0, z, 1.0)
            information += float(weight @ np.sum(slope * (slope / known), axis=1))
            expected += float(weight @ np.sum(z * np.log(known), axis=1))
        return information, expected

    def _panels(self, low: float, high: float, scale: float, parts: int) -> Array:
        """Edges of panels that resolve the prior of the field and the probabilities of labels."""
        h = np.linspace(low, high, 257)
        link = self._shape.link(h)
        with np.errstate(all="ignore"):
            deviation = np.sqrt(self.law.variance(link))
            steps = np.abs(np.diff(self.law.mean(link))) / np.maximum(deviation[1:], deviation[:-1])
        # A jump of the link is a break, and takes no more panels.
        steps = np.minimum(np.nan_to_num(steps, nan=0.0, posinf=0.0), _POLICY.width)
        change = np.append(0.0, np.cumsum(steps + np.diff(h) / scale)) / _POLICY.width
        edges = np.interp(np.linspace(0, change[-1], parts * int(np.ceil(change[-1])) + 1), change, h)
        breaks = self._shape.breaks
        return np.unique(np.concatenate([edges, breaks[(breaks > low) & (breaks < high)]]))

    @cached_property
    def _labels(self) -> tuple[Array, int]:
        """Labels in blocks of equal length, shape (blocks, length), the last one repeated, and their number."""
        count = len(self.support)
        length = min(_POLICY.labels, 1 << (count - 1).bit_length())
        return np.pad(np.array(self.support), (0, -count % length), mode="edge").reshape(-1, length), count

    @cached_property
    def _seen(self) -> tuple[Array, NDArray[np.intp], NDArray[np.intp]]:
        """Fields, and the first and last block of labels that have a probability there."""
        h = np.linspace(-_POLICY.fields, _POLICY.fields, 6 * _POLICY.block)
        blocks, _ = self._labels
        likely = np.concatenate([self._likely(part, blocks) for part in h.reshape(-1, _POLICY.block)])
        first, last = np.argmax(likely, axis=1), likely.shape[1] - 1 - np.argmax(likely[:, ::-1], axis=1)
        none = ~likely.any(axis=1)
        first[none], last[none] = len(blocks), -1
        return h, first, last

    def _likely(self, h: Array, blocks: Array) -> NDArray[np.bool_]:
        """Whether any label of a block has a probability, shape (fields, blocks)."""
        link = self._shape.link(h)[:, None]
        most = [np.max(self._log_chance(block, link), axis=1) for block in blocks]
        return np.asarray(np.stack(most, axis=1) > -_POLICY.nothing)

    def _summed(self, h: Array, rows: Array) -> tuple[Array, Array]:
        """Sums over fields of rows times probabilities, shape (rows, labels), and the missing probability, by field.

        Args:
            h: fields, ascending.
            rows: weights, shape (rows, fields).
        """
        blocks, count = self._labels
        fields, first, last = self._seen
        found, missing = np.zeros((len(rows), *blocks.shape)), np.ones(h.size)
        for start in range(0, h.size, _POLICY.block):
            part = slice(start, min(start + _POLICY.block, h.size))
            begin, end = np.searchsorted(fields, [h[part.start], h[part.stop - 1]])
            near = slice(max(begin - 2, 0), end + 2)
            link = self._shape.link(np.pad(h[part], (0, start + _POLICY.block - part.stop), mode="edge"))[:, None]
            for k in range(int(first[near].min()), int(last[near].max()) + 1):
                chance = np.exp(self._log_chance(blocks[k], link))[: part.stop - start]
                chance[:, max(count - k * blocks.shape[1], 0) :] = 0.0
                found[:, k] += rows[:, part] @ chance
                missing[part] -= chance.sum(axis=1)
        return found.reshape(len(rows), -1), np.where(missing > _POLICY.rounding * np.sqrt(count), missing, 0.0)

    def _posterior(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array, Array]:
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (y, omega, variance)))
        flat = [part.ravel() for part in arrays]
        found = np.empty((3, flat[0].size))
        for start in range(0, flat[0].size, _POLICY.rows):
            part = slice(start, start + _POLICY.rows)
            own = [x[part] for x in flat]
            rows = [np.pad(x, (0, _POLICY.rows - x.size), mode="edge")[:, None] for x in own]
            found[:, part] = self._posterior_rows(*rows)[:, : own[0].size]
        log_z, score, curvature = (x.reshape(arrays[0].shape) for x in found)
        return log_z, score, curvature

    def _posterior_rows(self, y: Array, omega: Array, v: Array) -> Array:
        """Log partition, score and curvature, shape (3, rows), from columns of shape (rows, 1)."""
        scale = np.sqrt(v)

        def exponent(u: Array) -> Array:
            return -0.5 * u**2 + self._log_chance(y, self._shape.link(omega + scale * u))

        edges, cuts = wide_panels(self._shape.breaks, omega, scale)
        for _ in range(_POLICY.zooms):
            height = exponent(edges)
            near = height > np.max(height, axis=1, keepdims=True) - _POLICY.nothing
            with np.errstate(invalid="ignore"):
                steps = np.minimum(np.nan_to_num(np.abs(np.diff(height, axis=1)), nan=np.inf), _POLICY.nothing)
            change = np.where(near[:, 1:] | near[:, :-1], np.diff(edges, axis=1) + steps, 0.0)
            edges = np.sort(np.concatenate([levelled(edges, change, _POLICY.panels), cuts], axis=1), axis=1)
        u, w = gauss_panels(edges, _POLICY.nodes)
        height = exponent(u)
        top = np.max(height, axis=1, keepdims=True)
        weight = w * np.exp(height - top)
        total = np.sum(weight, axis=1)
        mean = np.sum(weight * u, axis=1) / total
        spread = np.sum(weight * (u - mean[:, None]) ** 2, axis=1) / total
        return np.array(
            [top[:, 0] + np.log(total) - 0.5 * np.log(2 * np.pi), mean / scale[:, 0], (1 - spread) / v[:, 0]]
        )
