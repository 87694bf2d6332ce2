r"""Any function of the attention indices with Gaussian label noise, by importance sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtri

from glassformer.channels.attention.prediction import prediction_errors
from glassformer.channels.attention.projected import Root
from glassformer.channels.labels import Labels
from glassformer.channels.link.contract import label_size_problem, same_labels
from glassformer.channels.sampled import (
    SampledChannel,
    SampledPosterior,
    batched_posterior,
    require_average_resources,
    weighted_posterior,
)
from glassformer.channels.sampling_limits import MOST_NOISE
from glassformer.channels.scalar.base import Array
from glassformer.core.checks import require_integer
from glassformer.core.errors import DataError, LinkError, ParameterError
from glassformer.designs.token_pairs import to_matrices

# Gauss-Newton steps to the mode, and step of the finite differences of the Jacobian of a link.
_STEPS, _DIFFERENCE = 6, 1e-5
# Width of the sampling density over that of the Gaussian approximation, and share of the prior in it (by trial).
_WIDENING, _PRIOR_SHARE = 1.3, 0.25
# Variance, in units of the noise, below which labels are nearly linear in the field. The table ends there.
_LINEAR_REGIME = 0.01
# Number and standard deviation of the matrices of indices on which a link is tested. Its labels must not be constant.
_TRIALS, _TRIAL_DEVIATION = 512, 4.0
# Numbers in one temporary array, so that memory stays bounded.
_NUMBERS_AT_ONCE = 2_000_000


@dataclass(frozen=True, eq=False)
class NoisyAttentionChannel(SampledChannel):
    r"""Labels :math:`y = g(h) + \sqrt\Delta\,z`, ``z`` independent and standard normal on every entry of the label.

    The posterior of ``h`` is sampled with importance weights from a mixture of the prior and of the Gaussian
    approximation around its mode, which Gauss-Newton steps from :math:`\omega` find. The two halves of the sample give
    independent scores. Their product estimates the information without bias from sampling noise.

    Args:
        function: maps matrices of indices, shape (..., T, T), to labels, shape (..., m) or (..., m1, m2).
        tokens: ``T >= 1``.
        noise: :math:`\Delta > 0`, a variance.
        power: :math:`Q_0 = E h_{ab}^2` off the diagonal.
        name: name of the channel in files and on the command line.
        root: square root :math:`C^{1/2}` of the correlation of the tokens. The argument of the function is
            :math:`C^{1/2}hC^{1/2}`. Empty for independent tokens.
        draws: sampled fields per data point, a power of two.

    Raises:
        ParameterError: an argument is out of range, or the function does not treat each matrix separately.

    Example:
        >>> channel = NoisyAttentionChannel(lambda h: np.tanh(h), tokens=2, noise=0.1)
        >>> channel.labels.shape
        (2, 2)
    """

    function: Callable[[Array], Array]
    tokens: int
    noise: float
    power: float = 1.0
    name: str = "link"
    root: Root = ()
    draws: int = field(default=256, kw_only=True)

    def __post_init__(self) -> None:
        require_integer("tokens", self.tokens)
        if not 0 < self.noise <= MOST_NOISE:
            allowed = f"> 0 and at most {MOST_NOISE:g} for labels whose posterior is sampled"
            raise ParameterError("noise", self.noise, allowed, "labels with more noise carry no information")
        if self.draws < 32 or self.draws & (self.draws - 1):
            raise ParameterError("draws", self.draws, "a power of two >= 32")
        fields, entries = self.components, self.tokens**2
        require_average_resources(
            self.tokens, _STEPS * (fields**2 * (fields + entries)) + 2 * self.draws * (fields**2 + entries)
        )
        self._require_labels()

    def _labels(self, matrices: Array) -> Any:
        """Return the labels of matrices of indices of independent tokens."""
        root = np.array(self.root)
        return self.function(root @ matrices @ root if self.root else matrices)

    def _require_labels(self) -> None:
        """Raise unless labels are finite, not constant, and depend on their own matrix of indices only."""
        matrices = to_matrices(np.random.default_rng(5).standard_normal((3, self.components)), self.tokens)
        try:
            probe, turned = (np.asarray(self._labels(h.copy())) for h in (matrices, matrices[::-1]))
        except LinkError:
            raise
        except Exception as error:
            # A user's function may raise anything.
            words = f"it fails at fields of shape {matrices.shape} ({type(error).__name__}: {error})"
            raise LinkError("channel", self.function, "a function from shape (n, T, T) to labels", words) from error
        if probe.dtype.kind not in "biuf" or probe.ndim < 1 or len(probe) != 3 or not np.all(np.isfinite(probe)):
            allowed = "a function from shape (n, T, T) to finite labels (n, m)"
            raise LinkError("channel", self.function, allowed, "a function of one matrix of indices is given as link")
        unfit = label_size_problem(probe)
        if unfit:
            raise LinkError("channel", self.function, *unfit)
        if not same_labels(probe, turned[::-1]):
            allowed = "a link that gives one label for one field"
            raise LinkError("channel", self.function, allowed, "it is random, or mixes samples")
        wide = _TRIAL_DEVIATION * np.random.default_rng(6).standard_normal((_TRIALS, self.components))
        if not np.any(np.ptp(np.asarray(self._labels(to_matrices(wide, self.tokens)), dtype=float), axis=0)):
            allowed = "a link that depends on the indices"
            raise LinkError("channel", self.label, allowed, "constant labels carry no information")

    @property
    def label(self) -> str:
        return self.name

    @cached_property
    def labels(self) -> Labels:
        shape = tuple(np.asarray(self._labels(np.zeros((1, self.tokens, self.tokens)))).shape[1:])
        # Errors are per token, for labels of any shape.
        unit = float(self.tokens)
        return Labels(shape=shape, noise=float(self.noise * np.prod(shape) / unit), error_unit=unit)

    @property
    def components(self) -> int:
        return self.tokens * (self.tokens + 1) // 2

    @property
    def smallest_tabulated(self) -> float:
        return min(super().smallest_tabulated, _LINEAR_REGIME * self.noise)

    @property
    def source_dimensions(self) -> int:
        return int(np.prod(self.labels.shape))

    def clean(self, field: Array) -> Array:
        return np.asarray(self._labels(to_matrices(field, self.tokens)), dtype=float)

    def label_from(self, field: Array, source: Array) -> Array:
        clean = self.clean(field)
        return np.asarray(clean + np.sqrt(self.noise) * source.reshape(clean.shape))

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return ``prediction_error``, :math:`E\|y - E[y\mid\omega]\|^2/T`, and ``plugin_error``."""
        sizes = (self.components, self.tokens)
        return prediction_errors(self.clean, *sizes, self.power, variance, self.labels.noise)

    def posterior(self, y: Array, omega: Array, variance: Array | float) -> SampledPosterior:
        v = np.broadcast_to(np.asarray(variance, dtype=float), (len(omega),))
        labels = np.asarray(y, dtype=float).reshape(len(omega), -1)
        if np.any(np.isnan(labels)):
            raise DataError("y", "nan", "labels that are numbers", "guard divisions, logarithms and roots of the link")
        size = max(1, _NUMBERS_AT_ONCE // (2 * self.draws * self.tokens**2))

        def block(part: slice, uniform: Array) -> SampledPosterior:
            return self._block(labels[part], omega[part], v[part], uniform)

        return batched_posterior(len(omega), size, self.components + 1, self.draws, block)

    def _values(self, field: Array) -> Array:
        """Return labels without noise, flattened, of fields of shape (..., K)."""
        flat = field.reshape(-1, self.components)
        return self.clean(flat).reshape(*field.shape[:-1], -1)

    def _jacobian(self, field: Array) -> Array:
        """Return derivatives of the labels, shape (n, m, K), by differences.

        They only determine the sampling density.
        """
        steps = _DIFFERENCE * np.eye(self.components)
        return np.stack(
            [(self._values(field + e) - self._values(field - e)) / (2 * _DIFFERENCE) for e in steps], axis=-1
        )

    def _block(self, y: Array, omega: Array, v: Array, uniform: Array) -> SampledPosterior:
        size = self.components
        centre, root = self._approximation(y, omega, v)
        # The last coordinate selects the component of the mixture.
        points, prior = ndtri(uniform[..., :size]), uniform[..., size:] < _PRIOR_SHARE
        near = centre[:, None] + points @ np.swapaxes(root, 1, 2)
        field = np.where(prior, omega[:, None] + np.sqrt(v)[:, None, None] * points, near)
        misfit = np.sum((self._values(field) - y[:, None]) ** 2, axis=-1)
        distance = (field - omega[:, None]) / np.sqrt(v)[:, None, None]
        log_prior = -0.5 * np.sum(distance**2, axis=-1) - 0.5 * size * np.log(v)[:, None]
        white = np.einsum("nkl,nfl->nfk", np.linalg.inv(root), field - centre[:, None])
        log_near = -0.5 * np.sum(white**2, axis=-1) - np.linalg.slogdet(root)[1][:, None]
        log_mixture = np.logaddexp(np.log(_PRIOR_SHARE) + log_prior, np.log(1 - _PRIOR_SHARE) + log_near)
        log_weight = log_prior - 0.5 * misfit / self.noise - log_mixture
        log_weight -= 0.5 * y.shape[1] * np.log(2 * np.pi * self.noise)
        scores = np.swapaxes(distance, 1, 2) / np.sqrt(v)[:, None, None]
        return weighted_posterior(log_weight, scores, np.sum(1 - distance**2, axis=-1) / v[:, None])

    def _approximation(self, y: Array, omega: Array, v: Array) -> tuple[Array, Array]:
        """Return the mode of the posterior and a square root of its widened covariance, shapes (n, K) and (n, K, K)."""
        field, best = omega, np.full(len(omega), np.inf)
        mode = omega
        for _ in range(_STEPS):
            cost = np.sum((field - omega) ** 2, axis=1) / v + np.sum((self._values(field) - y) ** 2, 1) / self.noise
            better = cost < best
            mode, best = np.where(better[:, None], field, mode), np.where(better, cost, best)
            slope = self._jacobian(mode)
            precision = np.eye(self.components) / v[:, None, None] + np.swapaxes(slope, 1, 2) @ slope / self.noise
            pull = (y - self._values(mode))[:, :, None] / self.noise
            gradient = (np.swapaxes(slope, 1, 2) @ pull)[:, :, 0] - (mode - omega) / v[:, None]
            step = np.linalg.solve(precision, gradient[:, :, None])[:, :, 0]
            # If the last step raised the cost, the next one is shorter.
            field = mode + np.where(better, 1.0, 0.3)[:, None] * step
        covariance = np.linalg.inv(precision)
        return mode, _WIDENING * np.linalg.cholesky(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))
