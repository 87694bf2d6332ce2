"""The interface of a prior, which state evolution, message passing and thresholds use.

:class:`Prior` is the interface for ``P`` rows, :class:`ScalarPrior` the case of one row (a matrix whose overlap is a
number), which is given by functions of numbers and of one matrix.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError, no_data_error
from glassformer.core.estimate import Array, Estimate
from glassformer.random_matrices.atoms import SpectralLaw

# The mutual information is integrated on panels in log(1 + t) no longer than this, the first of which is halved so
# often towards zero, with the nodes of a rule and of the one that checks it (chosen by trial; the difference of the two
# rules is the error estimate).
_LONGEST_PANEL, _HALVINGS, _NODES = 0.25, 12, (8, 5)
# Relative error of a precision above which its effect on the variance is computed, not bounded (a convention).
_SHARP = 1e-9


@dataclass(frozen=True)
class SignalEstimate:
    """The estimate of a signal from one noisy observation.

    Attributes:
        signal: posterior mean, shape ``(L, d)``; of several rows (P, ...).
        variance: posterior variance of the field ``h`` of a new input; of several rows their covariance, shape (P, P).
        onsager: coefficient of the previous score in the next field. Equal to ``variance`` for priors whose denoiser
            depends on the observation only.
        memory: passed to the next call of the denoiser, or None.
    """

    signal: Array
    variance: Any
    onsager: Any
    memory: tuple[Any, ...] | None = None


@dataclass(frozen=True)
class Side:
    r"""Side information :math:`\sqrt s\,W` plus standard normal noise.

    Attributes:
        strength: :math:`s`.
        observation: shape (P, ...).
    """

    strength: float
    observation: Array


class Prior(ABC):
    r"""A prior of ``P`` rows, given by its denoising problem at the precision matrix :math:`\hat Q`, shape (P, P).

    Around its mean every row has unit power: the posterior covariance is the identity before any data, and
    :math:`\hat Q = (\alpha/\mathrm{degrees})\,E\sum_l g_l g_l^T`. Sample sizes count in units that hold ``degrees``
    free entries of a row.

    Rows of weights derive from :class:`~glassformer.priors.rows.WeightRowsPrior`, matrices from :class:`ScalarPrior`.
    """

    # Required: the denoising problem.

    @property
    @abstractmethod
    def rows(self) -> int:
        """``P``."""

    @property
    @abstractmethod
    def mmse_dimension(self) -> float:
        r"""Degrees of freedom per natural sample size, :math:`\lim_{\hat q\to\infty} \hat q\,\mathrm{MMSE}(\hat q)`."""

    @abstractmethod
    def covariance(self, q_hat: Estimate) -> Estimate:
        r"""Return posterior covariance ``V``, shape (batch, P, P), from :math:`\hat Q` and its error, of that shape."""

    @abstractmethod
    def profile(self, points: int) -> tuple[Array, Array]:
        """Return precisions of a single row, from almost no information to almost complete information.

        The second array has its variances at these precisions.
        """

    @abstractmethod
    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        r"""Return the prior part of the free entropy, :math:`\Psi(\hat Q) - \mathrm{Tr}\,Q\hat Q/2`, shape (batch,)."""

    # Required: signals, in the shape that designs take: (P, ...), or (L, d) for one row.

    @abstractmethod
    def sample(self, shape: tuple[Any, ...], rng: np.random.Generator) -> Array:
        """Draw one signal of the given shape."""

    @abstractmethod
    def denoise(self, field: Array, precision: Any, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        r"""Return the posterior mean from ``field`` :math:`A Y`, :math:`Y = S + A^{-1/2}Z`, and ``precision`` ``A``."""

    @abstractmethod
    def gram(self, first: Array, second: Array) -> Array:
        """Return the inner products of rows, shape (P, P), in the unit in which errors and overlaps are counted."""

    # Optional: what is known before any data.

    def mean(self, shape: tuple[Any, ...]) -> Array:
        """Return the estimate before any data; its error is 1."""
        return np.zeros(shape)

    @property
    def self_overlap(self) -> Array:
        """Overlap of a signal known exactly, shape (P, P); the overlap at posterior covariance ``V`` is this less V."""
        return np.eye(self.rows)

    weak_recovery_onset = default_property(
        0.0, r"Largest :math:`\hat q`, or :math:`\hat Q` of a row, at which nothing is known of it."
    )
    side = default_property(0.0, "Precision of the side information on every weight.")

    # Optional: the law of the rows.

    degrees = default_property(1.0, "Free entries of a row per unit of the sample size.")
    symmetric = default_property(False, "True when rows are symmetric matrices.")
    diagonal = default_property(False, "True when every row has its own prior and no row is a weight vector.")
    rotational = default_property(
        False,
        "True when the law of the rows is invariant under rotations, so that a mixture of rows can be learned alone.",
    )
    feature_spectrum = default_property(
        (1.0,), "Eigenvalues of the covariance of the features, each of the same multiplicity."
    )

    @property
    def overlap_shape(self) -> tuple[int, ...]:
        """Shape of an overlap in results: (P, P), empty for numbers."""
        return self.rows, self.rows

    def allowed(self, matrices: Array) -> Array:
        """Return the part of symmetric matrices that overlaps can have: all of it, unless rows never see each other."""
        return matrices

    def power_deviation(self, shape: tuple[Any, ...]) -> float:
        """Return the standard deviation of the power of a row of finite size around its limit 1."""
        return float(np.sqrt(2 / np.prod(shape[bool(self.overlap_shape) :])))

    def factor_width(self, columns: int) -> int:
        """Return the width of the factors of a signal, or of each of its layers, of so many columns.

        Raises:
            IncompatibleError: the signal is no matrix, or the prior is a limit of infinite or vanishing width.
        """
        raise IncompatibleError(
            f"{type(self).__name__} is no prior of products of factors, which have a width: use bsr or aim"
        )

    # Optional: denoisers with a memory.

    stepwise = default_property(False, "True when a denoiser has a memory and converges in several calls.")

    def mix(self, old: SignalEstimate, new: SignalEstimate, weight: float) -> SignalEstimate:
        """Return the estimate ``weight * old + (1 - weight) * new`` that a damped iteration goes on with."""
        return replace(new, signal=weight * old.signal + (1 - weight) * new.signal)


class ScalarPrior(Prior):
    r"""A prior of one row, given by its scalar denoising problem at signal-to-noise ratio :math:`\hat q`.

    :math:`\mathrm{MMSE}(0) = 1` and :math:`\hat q = (\alpha/\mathrm{degrees})\,E|g|^2`. A prior of an infinite or
    vanishing ratio has no ``sample`` and no ``denoise``, because no finite data exist.
    """

    rows = 1
    overlap_shape = ()
    diagonal = True

    # Required, beside ``mmse_dimension``.

    @abstractmethod
    def mmse(self, q_hat: Array) -> Estimate:
        r"""Return :math:`\mathrm{MMSE}(\hat q)` in [0, 1] for ``q_hat`` of shape (batch,) in :math:`[0, \infty]`."""

    # Optional: theory.

    second_moment = default_property(
        1.0, "Power of the signal, mean included; the overlap at variance ``V`` is this minus V."
    )
    extensive = default_property(
        True, "True when sample sizes are per entry of the signal. False if its width is negligible."
    )

    def mutual_information(self, q_hat: Array) -> Estimate:
        r"""Return :math:`I(\hat q) = \frac12\int_0^{\hat q}\mathrm{MMSE}(t)\,dt`, shape (batch,), for finite ``q_hat``.

        The prior part of the free entropy is :math:`\Psi(\hat q) = \hat q/2 - I(\hat q)`.
        """
        q_hat = np.asarray(q_hat, dtype=float)
        # One pass for the whole batch: panels between consecutive values, with a bounded length in log(1 + t),
        # where (1 + t) MMSE(t) is smooth and of order one however large q_hat is.
        ends = np.unique(np.concatenate([[0.0], np.log1p(q_hat)]))
        cuts = ((a, b, int(np.ceil((b - a) / _LONGEST_PANEL))) for a, b in itertools.pairwise(ends))
        pieces = [np.linspace(a, b, count + 1)[1:] for a, b, count in cuts]
        # For small widths the MMSE varies near zero, so the first panel is halved repeatedly.
        start = pieces[0][0] * 0.5 ** np.arange(_HALVINGS, 0, -1.0) if pieces else np.zeros(0)
        edges = np.concatenate([[0.0], start, *pieces])
        fine, coarse = (self._panel_integrals(edges, nodes) for nodes in _NODES)
        total, error = np.cumsum(fine), np.cumsum(np.abs(fine - coarse))
        index = np.searchsorted(edges, np.log1p(q_hat), side="right") - 1
        return Estimate(np.append(0.0, total)[index], np.append(0.0, error)[index])

    def _panel_integrals(self, edges: Array, nodes: int) -> Array:
        """Return half the integral of the MMSE over each panel between consecutive values of log(1 + t)."""
        x, weight = np.polynomial.legendre.leggauss(nodes)
        width = np.diff(edges)[:, None]
        t = np.expm1(edges[:-1, None] + width * (x + 1) / 2)
        value = self.mmse(t.ravel()).value.reshape(t.shape) * (1 + t)
        return np.asarray(0.25 * width[:, 0] * (value @ weight))

    # Optional: what is known of the shape, width and singular values.

    instead: ClassVar[str] = "give finite rho > 0"
    """Remedy if another width or the singular values are required."""
    shape_ratio = default_property(
        None, ":math:`L/d` of the matrices, field ``beta`` of the dataclass; None if the prior holds for any ratio."
    )

    @property
    def convex_dimension(self) -> float:
        """Labels per unknown above which the interpolator of least norm, or trace, is the signal. NaN if unknown."""
        return np.nan

    @property
    def rank(self) -> float:
        """Number of nonzero singular values divided by the length of the smaller side. NaN if unknown."""
        return np.nan

    def noisy_law(self, noise: Array) -> SpectralLaw:
        r"""Return the law of the singular values, or eigenvalues, of the signal seen through noise of variance 1/q_hat.

        Args:
            noise: variances, shape (batch,).

        Raises:
            IncompatibleError: the signal has no known law of singular values.
        """
        raise IncompatibleError(f"{type(self).__name__} has no known law of singular values: {self.instead}")

    def of_width(self, rho: float) -> ScalarPrior:
        """Return the prior of a product of Gaussian factors of width ``rho d`` whose shape is that of this signal.

        Raises:
            IncompatibleError: the signal is no matrix with both sides extensive.
        """
        raise IncompatibleError(f"{type(self).__name__} has no counterpart of another width: {self.instead}")

    # Required for data.

    def factor_width(self, columns: int) -> int:
        raise self._no_data()

    def sample(self, shape: tuple[int, int], rng: np.random.Generator) -> Array:
        raise self._no_data()

    def denoise(self, field: Array, precision: float, memory: tuple[Any, ...] | None = None) -> SignalEstimate:
        raise self._no_data()

    def _no_data(self) -> IncompatibleError:
        return no_data_error(type(self).__name__, "give finite beta and rho, or a width")

    # Derived: the interface of priors, for one row.

    @property
    def self_overlap(self) -> Array:
        return np.array([[float(self.second_moment)]])

    def covariance(self, q_hat: Estimate) -> Estimate:
        found = carried_error(self, np.maximum(q_hat.value.ravel(), 0.0), np.abs(q_hat.error.ravel()))
        return Estimate(*(part.reshape(q_hat.value.shape) for part in found))

    def profile(self, points: int) -> tuple[Array, Array]:
        q_hat = self.weak_recovery_onset + self.mmse_dimension * np.geomspace(1e-2, 1e4, points)
        return q_hat, self.mmse(q_hat).value

    def entropy(self, q_hat: Array, variance: Array) -> Estimate:
        precision = np.maximum(q_hat[:, 0, 0], 0.0)
        information = self.mutual_information(precision)
        value = 0.5 * precision * variance[:, 0, 0] - information.value
        return Estimate(self.degrees * value, self.degrees * information.error)

    def gram(self, first: Array, second: Array) -> Array:
        # Every prior counts the power of a matrix as a multiple of its squared norm.
        unit = signal_power(self, np.ones(first.shape[1:])) / first[0].size
        return np.array([[unit * np.sum(first * second)]])


def signal_power(prior: ScalarPrior, signal: Array) -> float:
    r"""Return the squared norm of a matrix in the unit in which errors are counted.

    It is :math:`\|S\|^2/d` for symmetric matrices and :math:`\|S\|^2/(dL)` for others.
    """
    return float(np.sum(signal**2) / len(signal)) if prior.symmetric else float(np.mean(signal**2))


def carried_error(prior: ScalarPrior, precision: Array, precision_error: Array) -> Estimate:
    """Return the MMSE at precisions of shape (n,) that are known up to an error."""
    value, error = prior.mmse(precision)
    # |dV/dq_hat| is at most V/q_hat, so the relative error of V is at most that of q_hat, if this is small.
    carried = value * np.divide(precision_error, precision, out=np.zeros_like(precision_error), where=precision > 0)
    # Below the onset V does not depend on q_hat, even if the relative error of a tiny q_hat is large.
    vague = precision_error > _SHARP * precision
    if np.any(vague):
        there, wide, old = precision[vague], precision_error[vague], value[vague]
        less, more = (prior.mmse(part).value for part in (np.maximum(there - wide, 0.0), there + wide))
        carried[vague] = np.maximum(np.abs(less - old), np.abs(old - more))
    return Estimate(value, error + carried)
