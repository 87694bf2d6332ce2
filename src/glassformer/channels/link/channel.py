"""Any scalar function of the field, with Gaussian noise or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from glassformer.channels.confusion import Flip
from glassformer.channels.link.affine import AffineLink
from glassformer.channels.link.curve import Curve, Row
from glassformer.channels.link.exponents import exponents_of
from glassformer.channels.link.field_quadrature import REFINEMENT, RULES, SLOW
from glassformer.channels.link.function import Function, array_link, traced_link
from glassformer.channels.link.level_set import LevelSet
from glassformer.channels.link.noisy import NoisyLink
from glassformer.channels.link.piecewise import SCAN, LinkShape, link_shape
from glassformer.channels.link.posterior import LinkPosterior
from glassformer.channels.link.second_moments import second_moments
from glassformer.channels.link.smooth_errors import smooth_errors
from glassformer.channels.link.step_errors import step_errors
from glassformer.channels.scalar.base import Array, Estimate, LabelNodes, ScalarChannel
from glassformer.channels.scalar.exponents import Exponents
from glassformer.core.errors import DataError, ParameterError
from glassformer.core.hashing import identified
from glassformer.core.memoize import memoize
from glassformer.numerics.quadrature import normal_nodes

Averages = Callable[[float, int], tuple[float, float]]

_KEPT = 4096  # averages that are kept
# Less label noise than this takes nodes without end, and is none for all that it does.
_FAINTEST = 1e-6


@dataclass(frozen=True)
class LinkChannel(ScalarChannel):
    r"""Labels :math:`y = \varphi(h) + \sqrt\Delta\, z` for a callable :math:`\varphi`, ``z`` standard normal.

    With noise, :math:`Z_{out} = E_u N(y; \varphi(\omega + \sqrt V u), \Delta)`, a density in ``y``. Without noise the
    posterior lives on the level set of :math:`\varphi`: :math:`Z_{out} = \sum_b N(h_b; \omega, V)/|\varphi'(h_b)|` over
    the solutions of :math:`\varphi(h_b) = y`, a density with respect to Lebesgue measure, except at the values that
    :math:`\varphi` takes on whole intervals (zero for a ReLU, every value of a step function): there it is the
    probability of that value (counting measure).

    ``information`` and ``expected_log_partition`` take ``V`` of shape (batch,); their ``error`` is the change between
    the last two quadrature rules, refined until that change is small (1e-10 of the result for links of one or two
    monotone pieces) or, at the largest rule, ten times that change. Asked for many ``V``, they are read off curves:
    the error is then twice the difference of two rules at some of the nodes, and what the curve leaves open.
    Kinks, jumps, extrema and flat parts of :math:`\varphi` are located on a grid of spacing 0.002 over [-12, 12];
    finer structure is not seen. Noise far below :math:`V\varphi'^2` for an unbounded link at large ``V`` exceeds the
    largest rule: the error then says so. In double precision a saturating function is flat where its values coincide.

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
        if 0 < self.noise < _FAINTEST:
            allowed = f"0, or at least {_FAINTEST:g} for a link that is integrated over labels"
            raise ParameterError("noise", self.noise, allowed, "0 is the limit")
        if self.nodes < 4:
            raise ParameterError("nodes", self.nodes, "an integer >= 4")
        _ = self._link

    @property
    def label(self) -> str:
        return self.name or "link"

    @property
    def even(self) -> bool:
        return self._facts.even

    @property
    def trainable_link(self) -> Callable[[Any], Any] | None:
        """The function itself, where JAX can differentiate it and it has a slope somewhere."""
        return traced_link(self.function)

    @property
    def noiseless(self) -> bool:
        return self.noise == 0.0 and self._facts.shape.flat_mass < SCAN.unseen

    @property
    def rank(self) -> float:
        r"""Probability of the labels that fix the field up to finitely many values, without noise."""
        share = 1.0 - self._facts.shape.flat_mass if self.noise == 0.0 else 0.0
        return share if share > SCAN.unseen else 0.0

    @property
    def exponents(self) -> Exponents:
        return self._facts.exponents

    def sample(self, h: Array, rng: np.random.Generator) -> Array:
        labels = self.clean(h)
        if self.noise == 0.0:
            return labels
        return np.asarray(labels + np.sqrt(self.noise) * rng.standard_normal(np.shape(h)))

    def clean(self, h: Array) -> Array:
        """Labels without noise."""
        return self._link(np.asarray(h, dtype=float))

    @property
    def discrete(self) -> bool:
        return self.noise == 0.0 and self._facts.shape.stepped

    def truth(self, h: Array) -> Array:
        return self.clean(h) if self.discrete else super().truth(h)

    def decided(self, omega: Array, variance: float) -> Array:
        return self._facts.exchanged.decided(omega, variance)

    def score(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[1]

    def log_partition(self, y: Array, omega: Array, variance: Array | float) -> Array:
        return self._posterior(y, omega, variance)[0]

    def information(self, variance: Array) -> Estimate:
        return self._refined(variance, 0)

    def expected_log_partition(self, variance: Array) -> Estimate:
        return self._refined(variance, 1)

    @property
    def values(self) -> tuple[float, ...]:
        """Of a step function without noise."""
        shape = self._facts.shape
        return tuple(sorted(flat.value for flat in shape.flats)) if self.discrete else ()

    @property
    def steps(self) -> tuple[float, ...]:
        """Where the link jumps."""
        return tuple(self._facts.shape.breaks.tolist())

    def label_nodes(self, finer: float = 1.0) -> LabelNodes:
        """At each node of the field, and of the noise, the field is known."""
        h, weight = normal_nodes(self._facts.shape.breaks, nodes=round(12 * np.sqrt(finer)))
        noise = normal_nodes(panels=4, nodes=round(6 * np.sqrt(finer)))
        x, share = (part if self.noise > 0 else part[:1] * 0 + 1 for part in noise)
        y = self.clean(h)[:, None] + np.sqrt(self.noise) * x
        field = np.broadcast_to(h[:, None], y.shape).ravel()
        return LabelNodes(y.ravel(), np.outer(weight, share).ravel(), field, np.zeros_like(field))

    @property
    def regression(self) -> tuple[float, float]:
        slope, square = self._facts.second_moments
        return slope, max(square - slope**2, 0.0) + self.noise

    @property
    def label_noise(self) -> float:
        return self.noise

    def label_error(self, variance: Array) -> dict[str, Array]:
        r"""Squared errors on a new label without its own noise.

        ``prediction_error``: of the posterior mean :math:`E_u \varphi(\omega + \sqrt V u)`; ``plugin_error``: of
        :math:`\varphi(\omega)`; ``label_error``, where labels take few values: the most probable one is wrong.
        """
        named = {name: found.value for name, found in self.label_integrals(variance).items()}
        bayes, plugin = named["prediction_error"], named["plugin_error"]
        named["label_noise"] = np.full(bayes.shape, self.label_noise)
        return {**named, "label_mse": bayes + self.noise, "label_mse_plugin": plugin + self.noise}

    def label_integrals(self, variance: Array) -> dict[str, Estimate]:
        v = np.maximum(np.asarray(variance, dtype=float), 1e-30)
        facts = self._facts
        found = [facts.label_errors(x) for x in v.ravel().tolist()]
        values, errors = (np.stack(parts, axis=-1).reshape(-1, *v.shape) for parts in zip(*found, strict=True))
        names = ["prediction_error", "plugin_error", *(["label_error"] if self.discrete else [])]
        return {name: Estimate(values[k], errors[k]) for k, name in enumerate(names)}

    @cached_property
    def _link(self) -> Function:
        return array_link(self.function)

    @property
    def _facts(self) -> _Facts:
        return self._known.facts

    @property
    def _known(self) -> _Known:
        """What has been found out of the link as it is now.

        Globals that it reads may have changed since, also those of the link that another channel began with.
        """
        content, known = identified(self.function), self.__dict__.get("_found")
        if known is None or known.content != content:
            own = _Facts(self.function, self._link, self.noise, self.nodes)
            facts: _Facts = memoize(lambda: own, "link", self.function, self.noise, self.nodes)
            facts = facts if identified(facts.function) == content else own
            known = _Known(content, facts)
            object.__setattr__(self, "_found", known)
        return known

    def _posterior(self, y: ArrayLike, omega: ArrayLike, variance: ArrayLike) -> tuple[Array, Array]:
        arrays = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (y, omega, variance)))
        if not np.all(np.isfinite(arrays[0])):
            raise DataError("y", arrays[0][~np.isfinite(arrays[0])][0], "finite labels")
        log_z, g = self._known.law.posterior(*(x.ravel() for x in arrays))
        return log_z.reshape(arrays[0].shape), g.reshape(arrays[0].shape)

    def _refined(self, variance: Array, which: int) -> Estimate:
        v = np.asarray(variance, dtype=float)
        rows = self._known.curve(v.ravel())
        return Estimate(rows[:, 2 * which].reshape(v.shape), rows[:, 2 * which + 1].reshape(v.shape))


@dataclass(frozen=True)
class _Known:
    """Identity of a link, what is known of it, and the curve of one channel."""

    content: str | None
    facts: _Facts

    @cached_property
    def curve(self) -> Curve:
        """Of its own: where it is read off panels depends on what it was asked before."""
        return self.facts.curve()

    @property
    def law(self) -> LinkPosterior:
        """The posterior of the field behind one label."""
        return self.facts.law


@dataclass(frozen=True)
class _Facts:
    """What is found out of a link once, when it is first needed, for all channels of it.

    Attributes:
        function: as given.
        link: the same, of arrays.
        noise, nodes: of the channel.
    """

    function: Callable[..., object]
    link: Function
    noise: float
    nodes: int

    @cached_property
    def shape(self) -> LinkShape:
        return link_shape(self.link)

    @cached_property
    def exponents(self) -> Exponents:
        return exponents_of(self.shape)

    @cached_property
    def second_moments(self) -> tuple[float, float]:
        return second_moments(self.shape)

    @cached_property
    def exchanged(self) -> ScalarChannel:
        """The channel whose labels are exchanged for one another with the probability zero: it decides for one."""
        from glassformer.channels.link.label_noise import MislabelledChannel

        return MislabelledChannel(self.function, Flip(0.0))

    @cached_property
    def law(self) -> LinkPosterior:
        affine = AffineLink.recognised(self.shape, self.nodes, self.noise)
        if affine is not None:
            return affine
        return NoisyLink(self.shape, self.nodes, self.noise) if self.noise > 0 else LevelSet(self.shape, self.nodes)

    @cached_property
    def averages(self) -> Averages:
        # Information and free entropy come from one computation and are usually asked for together.
        return lru_cache(maxsize=_KEPT)(self.law.averages)

    @cached_property
    def even(self) -> bool:
        h = np.linspace(0.0, SCAN.seen, SCAN.pairs)
        there, mirrored = self.link(h), self.link(-h)
        if np.all(np.abs(there - mirrored) <= 1e-13 * np.maximum(np.abs(there), np.mean(np.abs(there)))):
            return True
        if self.exponents.information == 1:
            return False
        # At q = 0 the information is E (E[h | y])^2, zero for labels blind to the sign of h in any other way; between
        # many solutions of one label rounding leaves more of it.
        return self.averages(1.0, 1)[0] < 1e-16

    @cached_property
    def label_errors(self) -> Callable[[float], Estimate]:
        """At one variance, of the posterior mean of the label and of that at omega, and the share of wrong ones."""
        shape, nodes = self.shape, self.nodes
        errors = step_errors if shape.stepped else smooth_errors
        # Without a reference to this object, which would keep both until garbage is collected.
        return lru_cache(maxsize=_KEPT)(lambda v: errors(shape, v, nodes))

    def curve(self) -> Curve:
        """A new one."""
        # At generative exponent k the information begins with the overlap to the power k - 1.
        power = (
            int(self.exponents.generative) - 1 if self.even and self.exponents.generative < np.inf else int(self.even)
        )
        # Where there is no exponent, information at small overlaps is none.
        rest = self.law.left_out, self.law.closed, 0.0 if self.exponents.generative < np.inf else REFINEMENT.floor
        return Curve(self.row, self._rules, self._targets[1], power, self.noise == 0, self._targets[2], *rest)

    @cached_property
    def _targets(self) -> tuple[float, float, float]:
        simple = len(self.shape.branches) <= REFINEMENT.branches
        if self.noise == 0:
            return REFINEMENT.exact if simple else REFINEMENT.sharp
        return REFINEMENT.simple if simple else REFINEMENT.hard

    @cached_property
    def _rules(self) -> list[Callable[[float], tuple[float, float]]]:
        return [partial(_at_level, self.averages, level) for level in range(len(RULES))]

    @cached_property
    def row(self) -> Callable[[float], Row]:
        """Information, its error, expected log partition and its error, each refined by itself."""
        refined = partial(_refined, self.averages, self.law.left_out, self._targets[0])
        return lru_cache(maxsize=_KEPT)(lambda v: (*refined(v, 0), *refined(v, 1)))


def _refined(averages: Averages, left_out: float, target: float, v: float, which: int) -> tuple[float, float]:
    """Double the rule until it stops changing; the last change bounds the error of a converging rule."""
    value, error = averages(v, 0)[which], np.inf
    for level in range(1, len(RULES)):
        finer = averages(v, level)[which]
        value, error = finer, abs(finer - value) + left_out * abs(finer)
        if error < target * max(abs(value), REFINEMENT.floor * (1 - v), 1e-12):
            return value, error
    # A rule that is still changing converges slowly: its last change may be a fraction of what is left.
    return value, SLOW * error


def _at_level(averages: Averages, level: int, v: float) -> tuple[float, float]:
    return averages(v, level)
