r"""Discrete labels of one field that are exchanged for one another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import ndtr

from glassformer.channels.confusion import Alphabet, ConfusionLaw
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.link.field_quadrature import REFINEMENT, RULES, omega_nodes, refined
from glassformer.channels.link.function import array_link
from glassformer.channels.link.level_set import on_intervals
from glassformer.channels.link.piecewise import SCAN, Flat, LinkShape, link_shape
from glassformer.channels.scalar.base import Array, Estimate, ScalarChannel
from glassformer.core.errors import IncompatibleError

_NODES = 12
# Variances whose averages are kept.
_KEPT = 4096
# Variance below which the mean alone decides.
_SMALLEST = 1e-12


@dataclass(frozen=True)
class MislabelledChannel(ScalarChannel):
    r"""Labels :math:`\varphi(h)` of few values, exchanged for one another with the probabilities of a confusion matrix.

    :math:`Z_{out}(y) = \sum_k C_{ky}Z_k` with the probabilities :math:`Z_k` of the labels without noise: averages are
    sums over labels and one quadrature over the mean of the field, whose last change is the error.

    Args:
        function: link of one field, as of :class:`~glassformer.channels.link.channel.LinkChannel`.
        law: what is observed instead of each label.
        name: for printing.

    Raises:
        IncompatibleError: labels do not take a few values alone.
        ParameterError: a confusion matrix of another number of labels.

    Example:
        >>> from glassformer.channels.confusion import Flip
        >>> channel = MislabelledChannel(np.sign, Flip(0.1))
        >>> bool(np.isclose(channel.information(np.ones(1)).value[0], 0.8**2 * 2 / np.pi))
        True
    """

    function: Callable[..., object]
    law: ConfusionLaw
    name: str = "link"

    noiseless = False
    discrete = True

    def __post_init__(self) -> None:
        if abs(self._shape.flat_mass - 1) > SCAN.unseen:
            raise IncompatibleError(
                f"noise_law = {self.law.label} is for labels that take a few values: quantise the link, or give noise"
            )
        _ = self._alphabet

    @property
    def label(self) -> str:
        return f"{self.name}, {self.noise_law}"

    @property
    def noise_law(self) -> str:
        return self.law.label

    @cached_property
    def even(self) -> bool:
        return bool(self._averages(1.0).value[0] < REFINEMENT.nothing)

    @cached_property
    def label_noise(self) -> float:
        return float(self._probabilities @ self._alphabet.spreads)

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        place = self._alphabet.places(self._truth.clean(h))
        return self._alphabet.observed(place, rng.random(place.size)).reshape(np.shape(h))

    def clean(self, h: Array) -> Array:
        """Mean labels, without their noise."""
        place = self._alphabet.places(self._truth.clean(h))
        return np.asarray(self._alphabet.means[place].reshape(np.shape(h)))

    @property
    def values(self) -> tuple[float, ...]:
        """That are observed."""
        return tuple(self._alphabet.values.tolist())

    @property
    def steps(self) -> tuple[float, ...]:
        """Where the link jumps."""
        return tuple(self._shape.breaks.tolist())

    def truth(self, h: Array) -> Array:
        return self._truth.clean(h)

    @property
    def without_noise(self) -> ScalarChannel:
        return self._truth

    def decided(self, omega: Array, variance: float) -> Array:
        log_z, _ = self._known(np.ravel(omega), np.full(np.size(omega), max(variance, _SMALLEST)))
        return np.asarray(self._alphabet.values[np.argmax(log_z, axis=0)].reshape(np.shape(omega)))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._mixture(y, omega, variance)[1]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._mixture(y, omega, variance)[0]

    def information(self, variance: Array) -> Estimate:
        return self._refined(variance, 0)

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._refined(variance, 1)

    def label_error(self, variance: Array) -> dict[str, Array]:
        """``label_error``: the likeliest label is not the noiseless one; others of the mean and of the mean field."""
        named = {name: found.value for name, found in self.label_integrals(variance).items()}
        return {**named, "label_noise": np.full(np.shape(variance), self.label_noise)}

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        names = ("label_error", "prediction_error", "plugin_error")
        return {name: self._refined(variance, which) for which, name in enumerate(names, 2)}

    @cached_property
    def _truth(self) -> LinkChannel:
        return LinkChannel(self.function, name=self.name)

    @cached_property
    def _shape(self) -> LinkShape:
        return link_shape(array_link(self.function))

    @cached_property
    def _alphabet(self) -> Alphabet:
        values = np.sort([flat.value for flat in self._shape.flats])
        return Alphabet.of(values, self.law)

    @property
    def _probabilities(self) -> Array:
        """Of each label without noise."""
        return np.array([np.sum(ndtr(flat.intervals[:, 1]) - ndtr(flat.intervals[:, 0])) for flat in self._flats])

    def _known(self, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        """Log-probabilities and scores of each label without noise, shapes (K, n)."""
        found = [on_intervals(flat, omega, variance) for flat in self._flats]
        return np.array([log_z for log_z, _ in found]), np.array([score for _, score in found])

    @cached_property
    def _flats(self) -> list[Flat]:
        """What takes each label, in their order."""
        return sorted(self._shape.flats, key=lambda flat: flat.value)

    def _places(self, omega: Array) -> Array:
        """Which label each mean field has: on a jump, where the link may say anything, one of those beside it."""
        inside = [
            np.any((flat.intervals[:, 0] <= omega[:, None]) & (omega[:, None] <= flat.intervals[:, 1]), axis=1)
            for flat in self._flats
        ]
        return np.argmax(inside, axis=0)

    def _mixture(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        y, omega, v = np.broadcast_arrays(*(np.asarray(part, dtype=float) for part in (y, omega, variance)))
        log_z, score = self._known(omega.ravel(), v.ravel())
        joint = self._alphabet.log_likelihood(y) + log_z
        top = joint.max(axis=0)
        weight = np.exp(joint - top)
        total = weight.sum(axis=0)
        found = np.log(total) + top, np.sum(weight * score, axis=0) / total
        return found[0].reshape(omega.shape), found[1].reshape(omega.shape)

    def _refined(self, variance: Array, which: int) -> Estimate:
        v = np.asarray(variance, dtype=float)
        found = [self._averages(float(one)) for one in v.ravel()]
        return Estimate(
            *(np.array([part[which] for part in parts]).reshape(v.shape) for parts in zip(*found, strict=True))
        )

    @cached_property
    def _averaged(self) -> dict[float, Estimate]:
        return {}

    def _averages(self, v: float) -> Estimate:
        """Information, E log Z, wrong labels, squared errors of the mean label and of that at the mean field."""
        # No cached method: that would refer to this object, and keep it until garbage is collected.
        if v not in self._averaged:
            if len(self._averaged) >= _KEPT:
                self._averaged.clear()
            levels = (self._sums(v, level) for level in range(len(RULES)))
            self._averaged[v] = refined(levels, REFINEMENT.settled, REFINEMENT.nothing)
        return self._averaged[v]

    def _sums(self, v: float, level: int) -> Array:
        omega, weight = omega_nodes(v, self._shape.breaks, RULES[level], _NODES)
        log_z, score = self._known(omega, v)
        z, seen = np.exp(log_z), self._alphabet.confusion.T
        chance, slope = seen @ z, seen @ (z * score)
        square = np.sum(slope**2 / np.where(chance > 0, chance, 1.0), axis=0)
        log_chance = np.sum(chance * np.log(np.where(chance > 0, chance, 1.0)), axis=0)
        means = self._alphabet.means
        guesses = means @ z, means[self._places(omega)]
        spread, plugin = (np.sum(z * (means[:, None] - guess) ** 2, axis=0) for guess in guesses)
        return np.array([weight @ part for part in (square, log_chance, 1 - z.max(axis=0), spread, plugin)])
