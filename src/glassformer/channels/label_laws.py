"""Non-Gaussian label noise: laws of a label given the value of the link, by their likelihood."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from glassformer.channels.confusion import CONFUSIONS, confusion_law
from glassformer.core.arrays import AnyArray
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.registry import create_by_name
from glassformer.numerics.jax_settings import jax_settings

_SCALES = (1e-100, 1e100)  # scales of noise, so that variances are finite and positive
_LOG_LARGEST_RATE = 20.0  # largest rate of counts, so that exponentials of links stay finite
# Comparison of samples and density of a law: number of quantiles, number of cells with equally many quantiles in which
# the density is integrated, and share of distinct labels below which the law is discrete.
_QUANTILES, _CELLS, _DISCRETE = 20_000, 50, 0.25


class LabelLaw(ABC):
    """The law of one entry of the label given the value of the link.

    For a law of your own derive from this class and pass it: ``SequenceMultiIndex(link, noise_law=Mine())``.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def log_density(self, y: AnyArray, link: AnyArray) -> jax.Array:
        """Return the log density, or log probability, of labels; elementwise, in jax.numpy, smooth in ``link``."""

    @abstractmethod
    def quantile(self, link: Array, uniform: Array) -> Array:
        """Return labels from uniform numbers in (0, 1), elementwise. Data are drawn with it."""

    @abstractmethod
    def mean(self, link: Array) -> Array:
        """Return the mean label, elementwise."""

    @abstractmethod
    def variance(self, link: Array) -> Array:
        """Return the variance of the label, elementwise."""


@dataclass(frozen=True)
class Laplace(LabelLaw):
    """Two-sided exponential noise.

    Args:
        scale: mean absolute value of the noise.

    Raises:
        ParameterError: the scale is out of range.

    Example:
        >>> Laplace(0.5).variance(np.zeros(1))
        array([0.5])
    """

    scale: float

    def __post_init__(self) -> None:
        if not _SCALES[0] <= self.scale <= _SCALES[1]:
            raise ParameterError("noise_law", self.label, f"a scale from {_SCALES[0]:g} to {_SCALES[1]:g}")

    @property
    def label(self) -> str:
        return f"laplace:{self.scale:g}"

    def log_density(self, y: AnyArray, link: AnyArray) -> jax.Array:
        return -jnp.abs(y - link) / self.scale - np.log(2 * self.scale)

    def quantile(self, link: Array, uniform: Array) -> Array:
        side = uniform - 0.5
        return np.asarray(link - self.scale * np.sign(side) * np.log1p(-2 * np.abs(side)))

    def mean(self, link: Array) -> Array:
        return link

    def variance(self, link: Array) -> Array:
        return np.full(np.shape(link), 2 * self.scale**2)


@dataclass(frozen=True)
class Logistic(LabelLaw):
    r"""Labels :math:`\pm1` whose log-odds are the value of the link.

    Example:
        >>> Logistic().mean(np.zeros(1))
        array([0.])
    """

    label = "logistic"

    def log_density(self, y: AnyArray, link: AnyArray) -> jax.Array:
        return -jnp.logaddexp(0.0, -y * link)

    def quantile(self, link: Array, uniform: Array) -> Array:
        return np.where(uniform < 1 / (1 + np.exp(-np.asarray(link))), 1.0, -1.0)

    def mean(self, link: Array) -> Array:
        return np.asarray(np.tanh(np.asarray(link) / 2))

    def variance(self, link: Array) -> Array:
        return np.asarray(1 - self.mean(link) ** 2)


@dataclass(frozen=True)
class Poisson(LabelLaw):
    """Counts whose rate is the exponential of the link, up to a rate of 5e8.

    Example:
        >>> Poisson().mean(np.zeros(1))
        array([1.])
    """

    label = "poisson"

    def log_density(self, y: AnyArray, link: AnyArray) -> jax.Array:
        rate = jnp.minimum(link, _LOG_LARGEST_RATE)
        return rate * y - jnp.exp(rate) - gammaln(y + 1)

    def quantile(self, link: Array, uniform: Array) -> Array:
        # Slow to import.
        from scipy.stats import poisson

        return np.asarray(poisson.ppf(uniform, self.mean(link)), dtype=float)

    def mean(self, link: Array) -> Array:
        return np.exp(np.minimum(link, _LOG_LARGEST_RATE))

    def variance(self, link: Array) -> Array:
        return self.mean(link)


# Name on the command line, with the number that follows it if one does, and the class.
LAWS = {"laplace:SCALE": "label_laws:Laplace", "logistic": "label_laws:Logistic", "poisson": "label_laws:Poisson"}
NAMES = (*LAWS, *CONFUSIONS)


def label_law(given: object) -> LabelLaw:
    """Return the law given by ``noise_law=``, an object or a name.

    Raises:
        ParameterError: there is no law of that name, or its parameter is out of range.

    Example:
        >>> label_law("laplace:0.5")
        Laplace(scale=0.5)
    """
    if isinstance(given, LabelLaw):
        return given
    try:
        law: LabelLaw = create_by_name(given, LAWS, "channels")
    except LookupError as error:
        raise ParameterError("noise_law", given, f"one of {', '.join(NAMES)}, or a LabelLaw") from error
    return law


def noise_label(given: object) -> str:
    """Return the name in tables of the law given by ``noise_law=``, an object or a name.

    Example:
        >>> noise_label("flip:0.1"), noise_label(Logistic())
        ('flip:0.1', 'logistic')
    """
    confusion = confusion_law(given)
    return label_law(given).label if confusion is None else confusion.label


def law_gap(law: LabelLaw, link: float) -> float:
    r"""Return the disagreement of samples, density and moments of a law at one value of the link.

    It is the largest of three numbers: the total variation distance between density and samples,
    :math:`\frac12\sum_k|p_k - n_k/n|`; the difference of means in standard deviations; and the relative difference of
    variances. The samples are quantiles, so none of these has sampling noise.

    Example:
        >>> law_gap(Laplace(0.5), 1.0) < 1e-3
        True
    """
    link, places = float(link), (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    labels = np.sort(np.asarray(law.quantile(np.full(_QUANTILES, link), places), dtype=float))
    mean, variance = (np.asarray(part(np.full(1, link)), dtype=float)[0] for part in (law.mean, law.variance))
    gaps = [_misplaced_mass(law, link, labels)]
    if np.isfinite(variance):
        gaps += [abs(labels.mean() - mean) / np.sqrt(variance), abs(labels.var() / variance - 1)]
    return float(np.max(gaps))


def _misplaced_mass(law: LabelLaw, link: float, labels: Array) -> float:
    values, counts = np.unique(labels, return_counts=True)
    with jax_settings():
        density = np.exp(np.asarray(law.log_density(values, np.full(values.shape, link)), dtype=float))
    if len(values) <= _DISCRETE * _QUANTILES:
        return float(0.5 * np.sum(np.abs(density - counts / _QUANTILES)))
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(values))])
    ends = np.linspace(0, len(values) - 1, _CELLS + 1).astype(int)
    return float(0.5 * np.sum(np.abs(np.diff(below[ends]) - np.diff(np.cumsum(counts)[ends]) / _QUANTILES)))
