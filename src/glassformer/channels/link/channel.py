"""The channel of any link of one field, with Gaussian label noise or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.channels.labels import Exponents, LabelNodes, Labels
from glassformer.channels.link.chebyshev import FLOOR, ChebyshevAverages, Row, small_overlap_behaviour
from glassformer.channels.link.contract import Function, array_link
from glassformer.channels.link.exponents import exponents_of, second_moments
from glassformer.channels.link.integrated import IntegratedChannel
from glassformer.channels.link.level_set import LevelSetPosterior, flat_posteriors
from glassformer.channels.link.noisy import NoisyPosterior
from glassformer.channels.link.piecewise import NEGLIGIBLE_MASS, SYMMETRY_FIELDS, PiecewiseLink, find_pieces
from glassformer.channels.link.posterior import AffinePosterior, LinkPosterior
from glassformer.channels.link.prediction_errors import prediction_errors
from glassformer.channels.link.quadrature import NO_INFORMATION, RULES, refine, stack_estimates
from glassformer.channels.scalar.base import Array, Estimate
from glassformer.core.cache import memoize
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.hashing import identity_or_none
from glassformer.numerics.quadrature import normal_nodes

_CACHED = 4096  # number of averages in the cache of one link
_LEAST_NOISE = 1e-6  # smaller label noise needs more nodes and does not change results
_FEW_BRANCHES = 2  # largest number of monotone branches for which averages are cheap enough for the smaller tolerances
# Variance, with and without noise, below which averages follow their asymptotic law: grids around the breaks of a link
# and small scores lose their digits there (measured).
_SMALLEST_VARIANCE = {False: 1e-12, True: 1e-20}
# Tolerances, without and with noise, for few and for many branches. The three numbers are the tolerances of single
# averages, of averages at the nodes of an interpolation (which gain two digits per refinement), and of the
# interpolation.
_TOLERANCES = {
    (True, True): (1e-10, 1e-10, 1e-10),
    (True, False): (1e-8, 1e-6, 1e-6),
    (False, True): (1e-10, 1e-6, 1e-7),
    (False, False): (1e-5, 1e-5, 5e-6),
}


@dataclass(frozen=True)
class LinkChannel(IntegratedChannel):
    r"""Labels :math:`y = \varphi(h) + \sqrt\Delta\, z` for a callable :math:`\varphi`, ``z`` standard normal.

    With noise, :math:`Z_{out} = E_u N(y; \varphi(\omega + \sqrt V u), \Delta)`, a density in ``y``. Without noise the
    posterior lives on the level set of :math:`\varphi`: :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` over
    the solutions of :math:`\varphi(h_b) = y`, a density with respect to Lebesgue measure, except at the values that
    :math:`\varphi` takes on whole intervals (zero for a ReLU, every value of a step function): there it is the
    probability of that value (counting measure).

    ``information`` and ``expected_log_partition`` take ``V`` of shape (batch,). Their ``error`` is the change between
    the last two quadrature rules, refined until that change is small (1e-10 of the result for links of one or two
    monotone branches) or, at the finest rule, ten times that change. Averages at many ``V`` are interpolated by
    Chebyshev polynomials; their error then is twice the difference of two rules at some of the nodes, plus the
    estimated error of the polynomial.

    Kinks, jumps, extrema and flat parts of :math:`\varphi` are located on a grid of spacing 0.002 over [-12, 12];
    finer structure is missed. Noise far below :math:`V\varphi'^2` for an unbounded link at large ``V`` exceeds the
    finest rule, and the error says so. In double precision a saturating function is flat where its values coincide.

    Args:
        function: link of one field, in NumPy, JAX or plain Python, or of an array of fields (see
            :class:`~glassformer.channels.link.contract.Link`).
        noise: label noise :math:`\Delta \ge 0`, a variance.
        name: a label for printing.
        nodes: Gauss nodes per quadrature panel.

    Raises:
        LinkError: the function fails, is random, not finite or of the wrong shape for :math:`|h| \le 8`.
        ParameterError: bad noise or nodes.
        DataError: without noise, a label that no ``h`` produces.

    Example:
        >>> import numpy as np
        >>> channel = LinkChannel(lambda h: np.maximum(h, 0.0), noise=0.1, name="relu")
        >>> result = channel.information(np.array([0.5]))
        >>> result.value.round(6), bool(result.error[0] < 1e-8)
        (array([0.924811]), True)
        >>> LinkChannel(np.tanh).information(np.array([0.25])).value.round(8)
        array([4.])
    """

    function: Callable[..., object]
    noise: float = 0.0
    name: str | None = None
    nodes: int = field(default=12, kw_only=True)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.noise) and self.noise >= 0):
            raise ParameterError("noise", self.noise, "a finite number >= 0")
        if 0 < self.noise < _LEAST_NOISE:
            allowed = f"0, or at least {_LEAST_NOISE:g} for a link that is integrated over labels"
            raise ParameterError("noise", self.noise, allowed, "use 0 for smaller noise")
        if self.nodes < 4:
            raise ParameterError("nodes", self.nodes, "an integer >= 4")
        _ = self._link

    @property
    def label(self) -> str:
        return self.name or "link"

    @property
    def labels(self) -> Labels:
        return self._current.labels

    @property
    def traceable_label(self) -> Callable[[Any], Any]:
        # Imported here because JAX takes a second to import and limits of a link do not need it.
        from glassformer.channels.link.tracing import differentiable_link

        function = differentiable_link(self.function)
        return super().traceable_label if function is None else function

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        labels = self.clean(h)
        if self.noise == 0.0:
            return labels
        return np.asarray(labels + np.sqrt(self.noise) * rng.standard_normal(np.shape(h)))

    def clean(self, h: Array) -> Array:
        """Return the labels without noise."""
        return self._link(np.asarray(h, dtype=float))

    def likeliest_label(self, omega: Array, variance: Array | float) -> Array:
        if not self.labels.discrete:
            return super().likeliest_label(omega, variance)
        if variance == 0:
            return self.clean(omega)
        return most_probable_value(self._analysis.pieces, omega, float(variance))

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[1]

    def score_and_curvature(self, y: Array, omega: Array, variance: Array | float) -> tuple[Array, Array]:
        return self._at_data(self._analysis.law.score_and_curvature, y, omega, variance)

    def curvature(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self.score_and_curvature(y, omega, variance)[1]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[0]

    def information(self, variance: Array) -> Estimate:
        return self._averages(variance, 0)

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._averages(variance, 1)

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Return the errors on a new label without noise.

        ``prediction_error``: squared error of the posterior mean :math:`E_u \varphi(\omega + \sqrt V u)`;
        ``plugin_error``: of :math:`\varphi(\omega)`; ``label_error``, for step functions: probability that the most
        probable label is wrong.
        """
        errors = super().label_error(variance)
        bayes, plugin = errors["prediction_error"], errors["plugin_error"]
        return {**errors, "label_mse": bayes + self.noise, "label_mse_plugin": plugin + self.noise}

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        v = np.maximum(np.asarray(variance, dtype=float), 1e-30)
        # Look up the cache once for all variances, because each look-up hashes the function.
        errors = self._analysis.prediction_errors
        value, error = stack_estimates([errors(x) for x in v.ravel().tolist()], v.shape)
        names = ["prediction_error", "plugin_error", *(["label_error"] if self.labels.discrete else [])]
        return {name: Estimate(value[k], error[k]) for k, name in enumerate(names)}

    @cached_property
    def _link(self) -> Function:
        return array_link(self.function)

    @property
    def _analysis(self) -> _LinkAnalysis:
        return self._current.analysis

    @property
    def _current(self) -> _CurrentLink:
        """The analysis of the link with the present values of its global variables.

        Global variables that the function reads may have changed since the last call, also for another channel that
        shares the memoized analysis.
        """
        content, current = identity_or_none(self.function), self.__dict__.get("_last")
        if current is None or current.content != content:
            own = _LinkAnalysis(self.function, self._link, self.noise, self.nodes)
            shared: _LinkAnalysis = memoize(lambda: own, "link", self.function, self.noise, self.nodes)
            current = _CurrentLink(content, shared if identity_or_none(shared.function) == content else own)
            object.__setattr__(self, "_last", current)
        return current

    def _posterior(self, y: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> tuple[Array, Array]:
        return self._at_data(self._analysis.law.posterior, y, omega, variance)

    def _at_data(
        self, function: Callable[..., tuple[Array, Array]], y: ArrayLike, omega: ArrayLike, variance: ArrayLike
    ) -> tuple[Array, Array]:
        """Return two quantities of every data point, from a function of one-dimensional arrays."""
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (y, omega, variance)))
        if not np.all(np.isfinite(arrays[0])):
            raise DataError("y", arrays[0][~np.isfinite(arrays[0])][0], "finite labels")
        first, second = function(*(x.ravel() for x in arrays))
        return first.reshape(arrays[0].shape), second.reshape(arrays[0].shape)

    def _averages(self, variance: Array, which: int) -> Estimate:
        v = np.asarray(variance, dtype=float)
        current = self._current  # looked up once, because each look-up hashes the function
        smallest = 0.0 if current.analysis.law.closed_form else _SMALLEST_VARIANCE[self.noise == 0]
        rows = current.averages(np.maximum(v, smallest).ravel()).reshape(*v.shape, 4)
        small = v < smallest
        if np.any(small):
            rows[small] = self._small_variance_rows(v[small], smallest)
        return Estimate(rows[..., 2 * which], rows[..., 2 * which + 1])

    def _small_variance_rows(self, v: Array, smallest: float) -> Array:
        r"""Return information, expected log partition and their errors below the smallest variance :math:`V_0`.

        The information is :math:`I_0(V_0/V)^p`, with ``p = 1`` for labels that determine the field, 1/2 for links with
        jumps and 0 for smooth links with noise. Minus its half is the slope of the expected log partition.
        """
        information, error, expected, expected_error = self._current.averages(np.array([smallest]))[0]
        # The change of the information over a factor of four of the variance distinguishes the three laws.
        wider = self._current.averages(np.array([4 * smallest]))[0, 0]
        power = round(np.log2(information / wider)) / 2 if information > 0 else 0.0
        ratio = v / smallest
        with np.errstate(divide="ignore"):  # infinite at V = 0
            scale = ratio**-power
            change = -np.log(ratio) if power == 1 else (1 - ratio ** (1 - power)) / (1 - power)
        # Corrections to the laws are of the order of the square root of the variance.
        error = error + 2 * np.sqrt(smallest) * information
        rows = [scale * information, scale * error, expected + 0.5 * smallest * information * change]
        return np.stack([*rows, np.full(v.shape, expected_error)], axis=-1)


def most_probable_value(pieces: PiecewiseLink, omega: Array, variance: float) -> Array:
    """Return the most probable value of a step function of fields with these means and this variance."""
    log_p, _ = flat_posteriors(pieces, np.ravel(omega), max(variance, 1e-12))
    values = np.array([flat.value for flat in pieces.flats])
    return np.asarray(values[np.argmax(log_p, axis=0)].reshape(np.shape(omega)))


@dataclass(frozen=True)
class _CurrentLink:
    """Hash of a link, its analysis, and the facts about labels and the interpolated averages of one channel."""

    content: str | None
    analysis: _LinkAnalysis

    @cached_property
    def labels(self) -> Labels:
        """Facts about the labels.

        The rank is the probability of labels that determine the field up to finitely many values.
        """
        analysis = self.analysis
        noise, pieces, (slope, square) = analysis.noise, analysis.pieces, analysis.second_moments
        share = 1.0 - pieces.flat_mass if noise == 0.0 else 0.0
        discrete = noise == 0.0 and pieces.is_step_function
        return Labels(
            even=analysis.even,
            rank=share if share > NEGLIGIBLE_MASS else 0.0,
            noise=noise,
            discrete=discrete,
            values=tuple(flat.value for flat in pieces.flats) if discrete else (),
            steps=tuple(pieces.breaks.tolist()),
            exponents=analysis.exponents,
            regression=(slope, max(square - slope**2, 0.0) + noise),
            nodes=analysis.label_nodes,
        )

    @cached_property
    def averages(self) -> ChebyshevAverages:
        """Interpolated averages.

        Other channels do not share them, because they depend on the variances of earlier calls.
        """
        return self.analysis.interpolated_averages()


@dataclass(frozen=True)
class _LinkAnalysis:
    """Properties of a link, each computed once for all channels of it.

    Attributes:
        function: the link as the user gave it.
        link: the link as a function of arrays.
        noise: label noise of the channel.
        nodes: Gauss nodes per panel.
    """

    function: Callable[..., object]
    link: Function
    noise: float
    nodes: int

    @cached_property
    def pieces(self) -> PiecewiseLink:
        return find_pieces(self.link)

    @cached_property
    def exponents(self) -> Exponents:
        return exponents_of(self.pieces)

    @cached_property
    def second_moments(self) -> tuple[float, float]:
        return second_moments(self.pieces)

    def label_nodes(self, finer: float) -> LabelNodes:
        """Return nodes of the field and of the noise. The field is known at each node."""
        h, weight = normal_nodes(self.pieces.breaks, nodes=round(12 * np.sqrt(finer)))
        noise = normal_nodes(panels=4, nodes=round(6 * np.sqrt(finer)))
        x, share = (part if self.noise > 0 else part[:1] * 0 + 1 for part in noise)
        y = self.link(np.asarray(h, dtype=float))[:, None] + np.sqrt(self.noise) * x
        field = np.broadcast_to(h[:, None], y.shape).ravel()
        return LabelNodes(y.ravel(), np.outer(weight, share).ravel(), field, np.zeros_like(field))

    @cached_property
    def law(self) -> LinkPosterior:
        affine = AffinePosterior.of(self.pieces, self.nodes, self.noise)
        if affine is not None:
            return affine
        if self.noise > 0:
            return NoisyPosterior(self.pieces, self.nodes, self.noise)
        return LevelSetPosterior(self.pieces, self.nodes)

    @cached_property
    def even(self) -> bool:
        at, mirrored = self.link(SYMMETRY_FIELDS), self.link(-SYMMETRY_FIELDS)
        if np.all(np.abs(at - mirrored) <= 1e-13 * np.maximum(np.abs(at), np.mean(np.abs(at)))):
            return True
        if self.exponents.information == 1:
            return False
        # At q = 0 the information is E (E[h | y])^2. It is zero, up to rounding, for all labels that do not depend on
        # the sign of h.
        return self._averages_at(1.0, 1)[0] < NO_INFORMATION

    @cached_property
    def prediction_errors(self) -> Callable[[float], Estimate]:
        pieces, nodes = self.pieces, self.nodes
        # Not a cached method: its reference to this object would keep both in memory until garbage collection.
        return lru_cache(maxsize=_CACHED)(lambda v: prediction_errors(pieces, v, nodes))

    def interpolated_averages(self) -> ChebyshevAverages:
        """Return a new interpolation of the averages."""
        averages, (_, at_nodes, interpolation) = self._averages_at, self._tolerances
        rules = [lambda v, level=level: averages(v, level) for level in range(len(RULES))]
        power, floor = small_overlap_behaviour(self.even, self.exponents)
        return ChebyshevAverages(
            self._refined_averages,
            rules,
            rule_tolerance=at_nodes,
            power=power,
            noiseless=self.noise == 0,
            fit_tolerance=interpolation,
            truncation=self.law.truncation,
            closed_form=self.law.closed_form,
            floor=floor,
        )

    @property
    def _tolerances(self) -> tuple[float, float, float]:
        return _TOLERANCES[self.noise == 0, len(self.pieces.branches) <= _FEW_BRANCHES]

    @cached_property
    def _averages_at(self) -> Callable[[float, int], tuple[float, float]]:
        """Return information and expected log partition at a variance, by the quadrature rule of a level."""
        return lru_cache(maxsize=_CACHED)(self.law.averages)

    @cached_property
    def _refined_averages(self) -> Callable[[float], Row]:
        """Return information and expected log partition at one variance, refined until they converge."""
        averages, tolerance, law = self._averages_at, self._tolerances[0], self.law

        def row(v: float) -> Row:
            if law.closed_form:
                information, expected = averages(v, 0)
                return information, law.truncation * abs(information), expected, law.truncation * abs(expected)
            floor = tolerance * max(FLOOR * (1 - v), 1e-12)
            first, second = (
                refine((np.asarray(averages(v, k)[which]) for k in range(len(RULES))), tolerance, floor, law.truncation)
                for which in range(2)
            )
            return float(first.value), float(first.error), float(second.value), float(second.error)

        return lru_cache(maxsize=_CACHED)(row)
