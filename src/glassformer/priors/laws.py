"""Laws by name: Gaussian, Rademacher, Gauss-Bernoulli, and any finite number of values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from glassformer.core.errors import ParameterError
from glassformer.core.frozen import set_fields
from glassformer.core.registry import create_by_name
from glassformer.priors.law import Components, Law, MixtureLaw

# A smaller deviation from unit variance counts as rounding (a convention).
_ROUNDING = 1e-9
# Smallest probability of a weight. Averages over rarer weights are below rounding.
_RAREST = 1e-12
_PROBABILITIES = f"probabilities, at least {_RAREST:g} and of sum one"


@dataclass(frozen=True)
class Gaussian(MixtureLaw):
    """Standard normal weights.

    Example:
        >>> Gaussian().rotational
        True
    """

    label = "gaussian"
    rotational = True

    @property
    def components(self) -> Components:
        return Components(np.ones(1), np.zeros(1), np.ones(1))


@dataclass(frozen=True)
class Rademacher(MixtureLaw):
    r"""Signs: :math:`w = \pm1` with equal probability.

    Example:
        >>> mean, covariance = Rademacher().posterior(np.array([[0.5]]), np.eye(1))
        >>> bool(np.isclose(mean[0, 0], np.tanh(0.5)))
        True
    """

    label = "rademacher"

    @property
    def components(self) -> Components:
        return Components(np.full(2, 0.5), np.array([-1.0, 1.0]), np.zeros(2))


@dataclass(frozen=True)
class GaussBernoulli(MixtureLaw):
    r"""Sparse weights: zero, or with probability :math:`\rho` Gaussian of variance :math:`1/\rho`.

    Args:
        sparsity: :math:`\rho` in [1e-12, 1], the share of weights that are not zero.

    Raises:
        ParameterError: ``sparsity`` is out of range.

    Example:
        >>> GaussBernoulli(0.1).mmse_dimension
        0.1
    """

    sparsity: float

    def __post_init__(self) -> None:
        if not _RAREST <= self.sparsity <= 1:
            allowed = f"in [{_RAREST:g}, 1], the share of weights that are not zero"
            raise ParameterError("sparsity", self.sparsity, allowed)

    @property
    def label(self) -> str:
        return f"gauss-bernoulli:{self.sparsity:g}"

    @property
    def components(self) -> Components:
        share = float(self.sparsity)
        if share == 1:
            return Gaussian().components
        return Components(np.array([1 - share, share]), np.zeros(2), np.array([0.0, 1 / share]))


@dataclass(frozen=True)
class Discrete(MixtureLaw):
    """Weights that take a finite number of values.

    Args:
        values: the values, of unit variance. Models require mean zero.
        weights: their probabilities, at least 1e-12 and of sum one. Equal by default.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> Discrete.standardised([1, 3]).values
        (-1.0, 1.0)
        >>> Discrete([0, 1])
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: values = (0.0, 1.0) is not allowed: expected finite numbers of unit \
variance (theirs is 0.25); Discrete.standardised shifts and scales
    """

    values: Sequence[float]
    weights: Sequence[float] | None = None

    def __post_init__(self) -> None:
        values = tuple(float(value) for value in self.values)
        given = self.weights if self.weights is not None else np.full(len(values), 1 / max(len(values), 1))
        weights = tuple(float(weight) for weight in given)
        likely = np.all(np.array(weights) >= _RAREST)
        if len(weights) != len(values) or not (likely and abs(sum(weights) - 1) < _ROUNDING):
            raise ParameterError("weights", self.weights, f"{len(values)} {_PROBABILITIES}")
        mean, variance = _mean_and_variance(values, weights)
        if not abs(variance - 1) < _ROUNDING * max(1.0, mean**2):
            allowed = f"finite numbers of unit variance (theirs is {variance:.6g})"
            raise ParameterError("values", values, allowed, "Discrete.standardised shifts and scales")
        set_fields(self, values=values, weights=weights)

    @classmethod
    def standardised(cls, values: Sequence[float], weights: Sequence[float] | None = None) -> Self:
        """Return the law of these values less their mean, over their standard deviation."""
        shares = np.full(len(values), 1 / max(len(values), 1)) if weights is None else np.asarray(weights, dtype=float)
        if shares.shape != np.shape(values):
            raise ParameterError("weights", weights, f"{len(values)} {_PROBABILITIES}")
        mean, variance = _mean_and_variance(values, shares)
        if not (np.isfinite(variance) and variance > 0):
            raise ParameterError("values", tuple(values), "finite numbers that are not all equal")
        return cls(tuple(((np.asarray(values) - mean) / np.sqrt(variance)).tolist()), tuple(shares.tolist()))

    @property
    def label(self) -> str:
        pairs = zip(self.values, self.weights or (), strict=True)
        return "discrete:" + ",".join(f"{value!r}@{weight!r}" for value, weight in pairs)

    @property
    def components(self) -> Components:
        return Components(np.array(self.weights), np.array(self.values), np.zeros(len(self.values)))


def _mean_and_variance(values: Sequence[float], weights: ArrayLike) -> tuple[float, float]:
    mean = float(np.dot(weights, values))
    return mean, float(np.dot(weights, (np.asarray(values, dtype=float) - mean) ** 2))


# Name on the command line, with the number that follows it if one does, and the class.
LAWS = {
    "gaussian": "laws:Gaussian",
    "rademacher": "laws:Rademacher",
    "gauss-bernoulli:SPARSITY": "laws:GaussBernoulli",
}
NAMES = tuple(LAWS)


def law_of(prior: object) -> Law:
    """Return the law that the argument ``prior=`` is, or names.

    Args:
        prior: a law, or the name of one, such as ``"rademacher"`` and ``"gauss-bernoulli:0.1"``.

    Raises:
        ParameterError: no law of that name, or a number out of its range.

    Example:
        >>> law_of("gauss-bernoulli:0.1")
        GaussBernoulli(sparsity=0.1)
    """
    if isinstance(prior, Law):
        return prior
    try:
        law: Law = create_by_name(prior, LAWS, "priors")
    except LookupError as error:
        raise ParameterError(
            "prior", prior, f"one of {', '.join(NAMES)}, or a law such as GaussBernoulli(0.1)"
        ) from error
    return law
