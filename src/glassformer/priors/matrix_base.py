"""What a prior of one row must provide: how well the signal is known from a Gaussian observation of it."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.core.defaults import default_property
from glassformer.core.errors import IncompatibleError, no_data
from glassformer.core.estimate import Array, Estimate
from glassformer.priors.base import SignalEstimate, SignalPrior

if TYPE_CHECKING:
    from glassformer.priors.layered import LayeredPrior
    from glassformer.random_matrices.nodes import SpectralLaw


@dataclass(frozen=True)
class Panels:
    """How the mutual information is integrated."""

    longest: float = 0.25  # panel in log(1 + t)
    halvings: int = 12  # of the first towards zero
    nodes: tuple[int, int] = (8, 5)  # of a panel, and of the rule that checks it


_POLICY = Panels()


class ScalarPrior(SignalPrior):
    r"""A prior of one row seen through its scalar denoising problem at signal-to-noise ratio :math:`\hat q`.

    :math:`\mathrm{MMSE}(0) = 1` and :math:`\hat q = (\alpha/\mathrm{degrees})\,E|g|^2`. One that neither draws nor
    denoises is a limit without data.
    """

    extensive = default_property(
        True, "True when sample sizes count per entry of the signal; False where its width is negligible."
    )
    instead: ClassVar[str] = "give finite rho > 0"
    """What to do where matrices of other widths, or their singular values, are asked for."""
    second_moment = default_property(
        1.0, "Power of the signal, mean included; the overlap at variance ``V`` is this minus V."
    )

    @property
    def in_rows(self) -> LayeredPrior:
        """The same prior as one of a single row, whose overlaps are 1 x 1 matrices."""
        from glassformer.priors.layered import LayeredPrior

        return LayeredPrior(self, 1)

    @abstractmethod
    def mmse(self, q_hat: Array) -> Estimate:
        r""":math:`\mathrm{MMSE}(\hat q)` in [0, 1] for ``q_hat`` of shape (batch,) in :math:`[0, \infty]`."""

    @property
    def ratios(self) -> tuple[float, float]:
        """:math:`L/d` and :math:`r/d` of a product of factors of extensive width.

        Raises:
            IncompatibleError: the signal is none.
        """
        raise IncompatibleError(f"{type(self).__name__} is no product of factors of extensive width")

    @property
    def convex_dimension(self) -> float:
        """Labels per unknown from which on the interpolator of least norm, or trace, is the signal; NaN if unknown."""
        return np.nan

    @property
    def rank(self) -> float:
        """Singular values that are not zero, as a share of the entries of the smaller side; NaN if unknown."""
        return np.nan

    def noisy_law(self, noise: Array) -> SpectralLaw:
        r"""Law of the singular values, or eigenvalues, of the signal seen through noise of variance 1/q_hat.

        Args:
            noise: variances, shape (batch,).

        Raises:
            IncompatibleError: the signal is no matrix of which it is known.
        """
        raise IncompatibleError(f"{type(self).__name__} has no known law of singular values: {self.instead}")

    def of_width(self, rho: float) -> ScalarPrior:
        """The prior of a product of Gaussian factors of width ``rho d`` whose shape is that of this signal.

        Raises:
            IncompatibleError: the signal is no matrix with both sides extensive.
        """
        raise IncompatibleError(f"{type(self).__name__} has no relatives of other widths: {self.instead}")

    def factor_width(self, columns: int) -> int:
        """Width of the factors of a signal of so many columns.

        Raises:
            IncompatibleError: the prior is a limit of infinite or vanishing width.
        """
        raise self._no_data()

    def power(self, signal: Array) -> float:
        """Squared norm in the unit in which errors are counted."""
        return float(np.mean(signal**2))

    def sample(self, shape: tuple[Any, ...], rng: np.random.Generator) -> Array:
        raise self._no_data()

    def denoise(self, field: Array, precision: Any, memory: Any = None) -> SignalEstimate:
        raise self._no_data()

    def _no_data(self) -> IncompatibleError:
        return no_data(type(self).__name__, "give finite beta and rho, or a width")

    def mutual_information(self, q_hat: Array) -> Estimate:
        r""":math:`I(\hat q) = \frac12\int_0^{\hat q}\mathrm{MMSE}(t)\,dt`, shape (batch,), for finite ``q_hat``.

        The prior part of the free entropy is :math:`\Psi(\hat q) = \hat q/2 - I(\hat q)`.
        """
        q_hat = np.asarray(q_hat, dtype=float)
        # One pass for the whole batch: panels between consecutive values, none too long in log(1 + t),
        # where (1 + t) MMSE(t) is smooth and of order one however large q_hat is.
        ends = np.unique(np.concatenate([[0.0], np.log1p(q_hat)]))
        cuts = ((a, b, int(np.ceil((b - a) / _POLICY.longest))) for a, b in itertools.pairwise(ends))
        pieces = [np.linspace(a, b, count + 1)[1:] for a, b, count in cuts]
        # A small width makes the MMSE vary towards zero: the first panel is halved again and again.
        start = pieces[0][0] * 0.5 ** np.arange(_POLICY.halvings, 0, -1.0) if pieces else np.zeros(0)
        edges = np.concatenate([[0.0], start, *pieces])
        fine, coarse = (self._panel_integrals(edges, nodes) for nodes in _POLICY.nodes)
        total, error = np.cumsum(fine), np.cumsum(np.abs(fine - coarse))
        index = np.searchsorted(edges, np.log1p(q_hat), side="right") - 1
        return Estimate(np.append(0.0, total)[index], np.append(0.0, error)[index])

    def _panel_integrals(self, edges: Array, nodes: int) -> Array:
        """Half the integral of the MMSE over each panel between consecutive values of log(1 + t)."""
        x, weight = np.polynomial.legendre.leggauss(nodes)
        width = np.diff(edges)[:, None]
        t = np.expm1(edges[:-1, None] + width * (x + 1) / 2)
        value = self.mmse(t.ravel()).value.reshape(t.shape) * (1 + t)
        return np.asarray(0.25 * width[:, 0] * (value @ weight))
