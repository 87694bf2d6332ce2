r"""Attention-indexed models (AIM): attention with key-query matrices of extensive width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from glassformer.channels.attention.named import NAMES, attention_channel, untied_channel
from glassformer.channels.parameters import at_power
from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError, no_data_error
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_number, parse_text
from glassformer.core.settings import boolean, check_settings, non_negative, positive, positive_integer
from glassformer.designs.base import Design
from glassformer.designs.pairs import PairDesign
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.models.base import FiniteSize, Model, factor_columns, finite_width_warning, require_teacher_memory
from glassformer.models.token_correlation import correlation_record, correlation_root
from glassformer.models.trainable.base import Parametrisation
from glassformer.priors.base import ScalarPrior
from glassformer.priors.bilinear import bilinear_prior
from glassformer.priors.laws import law_of
from glassformer.priors.resolve import lone_spectrum, matrix_prior, named, requested_prior, resolve_prior
from glassformer.priors.spectrum import SymmetricSpectrumPrior
from glassformer.priors.wishart import (
    FixedWidthWishartPrior,
    NarrowWishartPrior,
    SymmetricGaussianPrior,
    WishartPrior,
)
from glassformer.random_matrices.given import POWER_LAW

# Outside this range of rho results equal those of the limits rho = 0 and inf, and the law of eigenvalues loses digits.
_SMALLEST_RHO, _LARGEST_RHO = 1e-3, 1e6
# Up to this width the attention indices are far from Gaussian, and results carry a note.
_FEW_COLUMNS = 4


@dataclass(frozen=True)
class AttentionIndexed(Model):
    r"""Attention-indexed model: :math:`y = g(h)`, :math:`h_{ab} = (x_a^T S x_b - \delta_{ab}\mathrm{Tr} S)/\sqrt d`.

    Equation :eq:`model-aim` of the documentation.

    Each sample has ``T`` tokens with standard normal entries; :math:`S = W W^T/\sqrt{rd}` with standard normal ``W`` of
    shape (d, r); sizes large at fixed :math:`\rho = r/d`. The sample ratio is :math:`\alpha = n/d^2`, at ``rho = 0`` it
    is :math:`\bar\alpha = n/(rd)`. Errors are :math:`\|\hat S - S\|_F^2/d`, one before any data (the mean
    :math:`\sqrt\rho\,I` is known). The overlap increases from :math:`\rho` to :math:`1 + \rho`; at ``rho = inf``, where
    the mean is subtracted, from 0 to 1.

    Args:
        rho: :math:`r/d`, from 1e-3 to 1e6; 0 and ``inf`` select the limits of negligible and unlimited width.
        tokens: ``T``, tokens per sample.
        channel: ``"linear"``, ``"softmax"``, ``"hardmax"``, or a function from matrices of indices, shape
            (..., T, T), to labels, shape (..., m), which needs label noise.
        noise: variance :math:`\Delta \ge 0` of the Gaussian label noise. For the linear channel the noise is a
            symmetric matrix with entries of variance :math:`\Delta(1 + \delta_{ab})`; for other channels it is
            independent on all entries of the label.
        temperature: inverse temperature of the softmax.
        link: function, in NumPy or JAX, from the indices of one sample, a symmetric matrix of shape (T, T), to a label
            of any shape; instead of ``channel``, with label noise. See
            :class:`~glassformer.channels.link.contract.Link`.
        prior: without ``rho``, a :class:`~glassformer.priors.base.ScalarPrior` of symmetric matrices of any spectrum.
            As an attribute: the prior of ``S``.
        spectrum: eigenvalues of ``S``, instead of ``rho``: numbers, a file of numbers, or
            ``"power-law:EXPONENT:COUNT"`` (see :func:`~glassformer.random_matrices.given.spectrum_of`), as many as
            ``S`` has rows or fewer. They are divided by their standard deviation, and their mean is known, so that
            errors start from one.
        width: fixed width ``r``, instead of ``rho``. The theory is that of ``rho = 0``, for :math:`1\ll r\ll d`, and
            data can be simulated. At width one or two the indices are far from Gaussian, and
            :class:`~glassformer.models.smi.SequenceMultiIndex` with ``r`` indices and the link :math:`g(ZZ^T/\sqrt r)`
            is exact.
        untied: True for independent key and query matrices, :math:`S = QK^T/\sqrt{rd}`, with linear and softmax
            channels: :math:`h_{ab} = x_a^TSz_b/\sqrt d` for ``T`` tokens each of two sequences. The ``T x T`` indices
            are independent and of unit variance, errors are one before any data, noise is independent on all indices,
            and at ``rho = 0`` the sample ratio is :math:`n/(2rd)`.
        token_correlation: correlation of the tokens of one sample, a number ``c`` for :math:`C_{ab} = c^{|a-b|}` or the
            matrix ``C``, for tied linear and softmax channels and for links with noise. Indices
            :math:`h_{ab} = (x_a^TSx_b - C_{ab}\mathrm{Tr}S)/\sqrt d` have mean zero and equal
            :math:`C^{1/2}\tilde hC^{1/2}`, with the indices :math:`\tilde h` of the independent tokens that data
            contain: multiply correlated tokens by :math:`C^{-1/2}`.

    Raises:
        ParameterError: an argument is out of range.
        LinkError: the link fails, is random, or returns values that are not real numbers.
        IncompatibleError: the channel is not available at this noise, width or number of tokens, or arguments exclude
            each other.

    Source: Boncoraglio, Troiani, Erba, Zdeborova, arXiv:2506.01582.

    Example:
        >>> from glassformer import thresholds
        >>> model = AttentionIndexed(rho=0.5, tokens=2, channel="softmax")
        >>> thresholds(model)["perfect_recovery"].alpha  # rho (2 - rho)/(T^2 + T - 2)
        0.1875
    """

    channel_names: ClassVar[tuple[str, ...]] = NAMES

    rho: float | None = parameter("width ratio r/d; 0 and inf allowed", None, usual=(0.05, 1.5), begin=0.5)
    tokens: int = parameter("tokens T per sample", 2, check=positive_integer)
    channel: Any = parameter(", ".join(NAMES), "softmax", among=NAMES)
    noise: float = parameter("label noise variance Delta", 0.0, usual=(0.0, 1.0), check=non_negative)
    temperature: float = parameter("inverse temperature of softmax", 1.0, usual=(0.1, 10.0), check=positive)
    link: InitVar[Callable[..., Any] | None] = parameter(
        "function of one sample, from indices (T, T), instead of channel; NumPy or jax.numpy. Its file is run",
        None,
        metavar="FILE.py:FUNCTION",
        opens_file=True,
    )
    prior: Any = None
    untied: bool = parameter("independent key and query matrices", False, check=boolean)
    width: int | None = parameter("fixed width r, instead of rho", None, check=positive_integer)
    token_correlation: float | Any = parameter("correlation of neighbouring tokens in (-1, 1)", 0.0, read=parse_number)
    spectrum: Any = parameter(
        f"eigenvalues of S, instead of rho: a file of numbers, or {POWER_LAW}",
        None,
        read=parse_text,
        opens_file=True,
    )

    name = "aim"

    def __post_init__(self, link: Callable[..., Any] | None) -> None:
        check_settings(self)
        given = requested_prior(self.prior)
        if self.spectrum is not None:
            others = {"rho": self.rho, "width": self.width, "prior": given, "untied": self.untied or None}
            set_fields(self, spectrum=lone_spectrum(self.spectrum, **others))
        elif self.width is not None:
            others = {"rho": self.rho is not None, "untied": self.untied, "prior": given is not None}
            for name, is_given in others.items():
                if is_given:
                    value = getattr(self, name)
                    raise IncompatibleError(f"{name} = {value} and width = {self.width} exclude each other: give one")
        elif not isinstance(given, ScalarPrior):
            rho: Any = self.rho
            if not (is_number(rho) and (_SMALLEST_RHO <= rho <= _LARGEST_RHO or rho in (0, np.inf))):
                allowed = f"0, {_SMALLEST_RHO:g} to {_LARGEST_RHO:g}, or inf"
                raise ParameterError("rho", rho, allowed, "give rho, width or spectrum")
        prior, root = self._prior(given), correlation_root(self.token_correlation, int(self.tokens))
        if self.untied and root:
            raise IncompatibleError("token_correlation and untied exclude each other: give one of them")
        if self.untied:
            channel = untied_channel(self.channel, self.tokens, self.noise, self.temperature, link)
        else:
            power = prior.second_moment if self.rho is None else 1 + float(self.rho)
            channel = attention_channel(self.channel, self.tokens, self.noise, self.temperature, power, link, root)
        self._set_channel(channel, channel=self.channel, link=link)
        set_fields(self, prior=prior)

    @property
    def counts_low_rank(self) -> bool:
        r"""True when the sample ratio is :math:`n/(rd)` rather than :math:`n/d^2`."""
        return self.width is not None or self.rho == 0

    @classmethod
    def select(cls, given: dict[str, Any]) -> dict[str, Any] | None:
        given.pop("layers", None)
        if given.get("skip") is not None:
            raise IncompatibleError(f"skip = {given['skip']} needs several layers: give layers >= 2, or leave skip out")
        given.pop("skip", None)
        return given

    def _prior(self, given: object) -> ScalarPrior:
        """Return the prior of ``S``: the given one, or that of the spectrum, width or width ratio."""
        if self.spectrum is not None:
            return resolve_prior(SymmetricSpectrumPrior(self.spectrum))
        if isinstance(given, ScalarPrior):
            if self.untied:
                raise IncompatibleError(f"prior = {given!r} and untied exclude each other: give rho")
            if self.rho is not None:
                raise IncompatibleError(f"prior = {given!r} and rho = {self.rho} exclude each other: give one of them")
            return matrix_prior(given, SymmetricGaussianPrior().degrees)
        if given is not None and not law_of(given).rotational:
            raise IncompatibleError(
                f"prior = {law_of(given).label} and rho = {self.rho} exclude each other: factors of extensive width "
                "have Gaussian entries: leave prior out"
            )
        if self.width is not None:
            return resolve_prior(FixedWidthWishartPrior(int(self.width)))
        assert self.rho is not None
        if self.untied:
            return resolve_prior(bilinear_prior(1.0, float(self.rho)))
        if self.rho == 0:
            return resolve_prior(NarrowWishartPrior())
        return resolve_prior(SymmetricGaussianPrior() if np.isinf(self.rho) else WishartPrior(float(self.rho)))

    @property
    def parameters(self) -> dict[str, Any]:
        label = self.channel.label
        temperature = {"temperature": float(self.temperature)} if label == "softmax" else {}
        return {
            **({} if self.rho is None else {"rho": float(self.rho)}),
            **({} if self.width is None else {"width": int(self.width)}),
            **({} if self.spectrum is None else {"spectrum": self.spectrum.name}),
            **named(self.prior),
            "tokens": int(self.tokens),
            "noise": self.noise,
            "channel": label,
            **temperature,
            **({"untied": True} if self.untied else {}),
            **correlation_record(self.token_correlation, correlation_root(self.token_correlation, int(self.tokens))),
            "alpha": ("n/(2rd)" if self.untied else "n/(rd)") if self.counts_low_rank else "n/d^2",
        }

    @property
    def remarks(self) -> tuple[str, ...]:
        if self.width is None or self.width > _FEW_COLUMNS or self.untied:
            return ()
        return (
            f"width = {self.width}: the theory assumes 1 << r << d, and indices of so few columns are not Gaussian. "
            "The exact model is smi with r indices and the link g(Z Z^T / sqrt(r))",
        )

    @property
    def parametrisation(self) -> Parametrisation:
        from glassformer.models.trainable.attention import attention_parametrisation

        if self.untied:
            raise IncompatibleError("fits tied attention only, and this model is untied")
        return attention_parametrisation(self.channel, float(self.temperature))

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        del d
        return (PairDesign, 2 * int(self.tokens)) if self.untied else (QuadraticDesign, int(self.tokens))

    def tokens_remedy(self, tokens: int, d: int) -> str:
        del d
        if self.untied:
            return f"tokens={tokens // 2}: every sample has its query tokens first, then as many key tokens"
        return f"tokens={tokens}"

    def at_size(self, d: int) -> FiniteSize:
        """Return the model at ``r = round(rho d)``, at least one, or at its fixed width."""
        if self.rho is not None and (self.rho == 0 or np.isinf(self.rho)):
            raise no_data_error(f"rho = {self.rho}", "give finite rho > 0, or width instead of rho = 0")
        columns = factor_columns(self.width, self.rho, d)
        rho = None if self.rho is None else columns / d
        channel = self.channel if rho is None or self.untied else at_power(self.channel, 1 + rho)
        spectrum = None if self.spectrum is None else self.spectrum.resized(d)
        if spectrum is not None:
            channel = at_power(channel, SymmetricSpectrumPrior(spectrum).second_moment)
        prior = self.prior if rho is None and self.width is None and spectrum is None else None
        model = replace(self, rho=rho, channel=channel, prior=prior, link=None, spectrum=spectrum)
        remarks = finite_width_warning(self.width, (d, d))
        if self.untied:
            return FiniteSize(model, PairDesign, (2 * self.tokens, d), float(d * d), remarks)
        unit = columns * d if self.width is not None else d * d
        return FiniteSize(model, QuadraticDesign, (self.tokens, d), float(unit), remarks)

    def require_teacher(self, d: int) -> None:
        columns = factor_columns(self.width, self.rho, d)
        name, value = ("rho", self.rho) if self.width is None else ("width", self.width)
        require_teacher_memory({"d": (d, d), name: (columns, value)}, (d, d), columns)
