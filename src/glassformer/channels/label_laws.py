"""Laws of labels around what a link says: the noise that a likelihood describes, other than Gaussian."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy.stats import poisson

from glassformer.channels.confusion import CONFUSIONS, confusion_law
from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.tables import by_name

# Logarithm of the largest rate of counts.
_BUSIEST = 20.0


class LabelLaw(ABC):
    """The law of one entry of the label, given what the link says of it.

    A law of one's own is a subclass; ``SequenceMultiIndex(link, noise_law=Mine())`` takes it.
    """

    @property
    @abstractmethod
    def label(self) -> str:
        """Name in tables."""

    @abstractmethod
    def log_density(self, y: Any, link: Any) -> Any:
        """Logarithm of the density, or of the probability, of labels; elementwise, in jax.numpy, smooth in ``link``."""

    @abstractmethod
    def quantile(self, link: Array, uniform: Array) -> Array:
        """Labels from uniform numbers in (0, 1), elementwise: how data are drawn."""

    @abstractmethod
    def mean(self, link: Array) -> Array:
        """Labels without their noise."""

    @abstractmethod
    def variance(self, link: Array) -> Array:
        """Mean square of the noise."""


@dataclass(frozen=True)
class Laplace(LabelLaw):
    """Two-sided exponential noise.

    Args:
        scale: mean of its absolute value.

    Raises:
        ParameterError: the scale is out of range.

    Example:
        >>> Laplace(0.5).variance(np.zeros(1))
        array([0.5])
    """

    scale: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.scale) and self.scale > 0):
            raise ParameterError("noise_law", self.label, "a scale that is finite and > 0")

    @property
    def label(self) -> str:
        return f"laplace:{self.scale:g}"

    def log_density(self, y: Any, link: Any) -> Any:
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
    r"""Labels :math:`\pm1` whose log-odds are what the link says.

    Example:
        >>> Logistic().mean(np.zeros(1))
        array([0.])
    """

    label = "logistic"

    def log_density(self, y: Any, link: Any) -> Any:
        return -jnp.logaddexp(0.0, -y * link)

    def quantile(self, link: Array, uniform: Array) -> Array:
        return np.where(uniform < 1 / (1 + np.exp(-np.asarray(link))), 1.0, -1.0)

    def mean(self, link: Array) -> Array:
        return np.asarray(np.tanh(np.asarray(link) / 2))

    def variance(self, link: Array) -> Array:
        return np.asarray(1 - self.mean(link) ** 2)


@dataclass(frozen=True)
class Poisson(LabelLaw):
    """Counts whose rate is the exponential of what the link says, up to a rate of 5e8.

    Example:
        >>> Poisson().mean(np.zeros(1))
        array([1.])
    """

    label = "poisson"

    def log_density(self, y: Any, link: Any) -> Any:
        rate = jnp.minimum(link, _BUSIEST)
        return y * rate - jnp.exp(rate) - gammaln(y + 1)

    def quantile(self, link: Array, uniform: Array) -> Array:
        return np.asarray(poisson.ppf(uniform, self.mean(link)), dtype=float)

    def mean(self, link: Array) -> Array:
        return np.exp(np.minimum(link, _BUSIEST))

    def variance(self, link: Array) -> Array:
        return self.mean(link)


# Name on the command line, with the number that follows it if one does, and the class.
LAWS = {"laplace:SCALE": "label_laws:Laplace", "logistic": "label_laws:Logistic", "poisson": "label_laws:Poisson"}
NAMES = (*LAWS, *CONFUSIONS)


def label_law(given: object) -> LabelLaw:
    """The law that ``noise_law=`` is or names.

    Raises:
        ParameterError: no law of that name, or a number out of its range.

    Example:
        >>> label_law("laplace:0.5")
        Laplace(scale=0.5)
    """
    if isinstance(given, LabelLaw):
        return given
    try:
        law: LabelLaw = by_name(given, LAWS, "channels")
    except LookupError as error:
        raise ParameterError("noise_law", given, f"one of {', '.join(NAMES)}, or a LabelLaw") from error
    return law


def noise_label(given: object) -> str:
    """What the law, or the confusion of discrete labels, that ``noise_law=`` is or names is called in tables.

    Example:
        >>> noise_label("flip:0.1"), noise_label(Logistic())
        ('flip:0.1', 'logistic')
    """
    confusion = confusion_law(given)
    return label_law(given).label if confusion is None else confusion.label
