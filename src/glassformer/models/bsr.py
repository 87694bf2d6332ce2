"""Bilinear sequence regression (BSR): learn a product of two matrices from labels of its linear functionals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np

from glassformer.channels.confusion import CONFUSIONS
from glassformer.channels.scalar.named import NAMES, scalar_channel
from glassformer.core.checks import is_number
from glassformer.core.errors import IncompatibleError, ParameterError, no_data_error
from glassformer.core.frozen import set_fields
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_number, parse_text
from glassformer.core.settings import check_settings, non_negative, positive_integer
from glassformer.designs.base import Design
from glassformer.designs.dense import CorrelatedDesign, DenseDesign
from glassformer.models.base import (
    LARGEST,
    SMALLEST,
    FiniteSize,
    Model,
    factor_columns,
    finite_width_warning,
    is_ratio,
    require_teacher_memory,
)
from glassformer.models.token_correlation import (
    are_correlated,
    correlated_entries,
    correlation_record,
    correlation_root,
)
from glassformer.models.trainable.base import Parametrisation
from glassformer.priors.base import ScalarPrior
from glassformer.priors.bilinear import bilinear_prior
from glassformer.priors.factors import FactorPrior, SeparableFactorPrior
from glassformer.priors.laws import NAMES as LAWS
from glassformer.priors.laws import Gaussian
from glassformer.priors.resolve import centred, lone_spectrum, matrix_prior, named, requested_prior, resolve_prior
from glassformer.priors.spectrum import RectangularSpectrumPrior
from glassformer.random_matrices.anisotropic_ridge import RidgeFeatures
from glassformer.random_matrices.given import POWER_LAW
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width


@dataclass(frozen=True)
class BilinearSequenceRegression(Model):
    r"""Bilinear sequence regression: :math:`y = \varphi(h)`, :math:`h = \mathrm{Tr}(X S^T)/\sqrt{dL}`.

    Equation :eq:`model-bsr` of the documentation.

    Tokens ``X`` of shape (L, d) with standard normal entries; :math:`S = U V^T/\sqrt r` with standard normal factors
    of width ``r``; sizes large at fixed :math:`\beta = L/d`. The sample ratio is :math:`\alpha = n/(dL)`, except
    where the width is negligible (``rho = 0`` or ``width`` given): there it is
    :math:`\alpha_{LR} = n/(r(L+d))`. Errors are :math:`\|\hat S - S\|_F^2/(dL)`, one before any data.

    Args:
        beta: :math:`L/d > 0`; ``inf`` for sequences much longer than the token dimension.
        rho: :math:`r/d \ge 0`; 0 and ``inf`` select the limits of negligible and unlimited width.
        noise: variance :math:`\Delta \ge 0` of the Gaussian noise added to the label. As an attribute: the noise of the
            channel.
        channel: ``"gaussian"`` (:math:`\varphi(h) = h`), ``"sign"``, ``"absolute"``, a callable
            :math:`\varphi` acting on arrays, or a :class:`~glassformer.channels.scalar.base.ScalarChannel`.
        link: user-defined :math:`\varphi`, a function from a number to a number in NumPy, JAX or plain Python (see
            :class:`~glassformer.channels.link.contract.Link`); the same as ``channel=link``.
        noise_law: noise of discrete labels, instead of ``noise``: ``"flip:PROBABILITY"``, ``"neighbour:PROBABILITY"``,
            or a :class:`~glassformer.channels.confusion.ConfusionLaw`.
        spectrum: singular values of ``S``, up to their scale, instead of ``rho``: numbers, a file of numbers, or
            ``"power-law:EXPONENT:COUNT"``, as many as the shorter side of ``S`` or fewer; see
            :func:`~glassformer.random_matrices.given.spectrum_of`.
        width: fixed width ``r``, instead of ``rho``. The theory is that of ``rho = 0``, and data can be simulated.
        prior: with ``width``, the law of the factors' entries: ``"rademacher"``, ``"gauss-bernoulli:SPARSITY"`` or
            any :class:`~glassformer.priors.law.Law` of mean zero and variance one; standard normal by default. Without
            ``rho`` and ``width``, a :class:`~glassformer.priors.base.ScalarPrior` of matrices of any spectrum at the
            same ``beta``. As an attribute: the prior of ``S``.
        token_correlation: correlation of the tokens of one sequence: a number ``c`` for
            :math:`C_{lm} = c^{|l-m|}`, or the matrix ``C`` of shape (L, L). Inputs are :math:`X = C^{1/2}Z` with
            standard normal ``Z``. Only the theory of ridge regression is known
            (:func:`~glassformer.random_matrices.anisotropic_ridge.anisotropic_ridge`), that of a number for many
            tokens: labels depend on :math:`C^{1/2}S`, whose law is not invariant under rotations of the tokens.

    Raises:
        ParameterError: an argument is out of range.
        LinkError: the link fails, is random, or returns values that are not real numbers.
        IncompatibleError: ``rho`` and ``width`` are both given, or neither is; the prior is incompatible with them;
            or ``channel`` and ``link`` are both given.

    Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858.

    Example:
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0)
        >>> model.prior.mmse_dimension  # perfect recovery: rho (1 + beta - rho)/beta
        0.75
        >>> BilinearSequenceRegression(beta=1, rho=-0.5)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: rho = -0.5 is not allowed: expected >= 0 (0, 1e-09 to 1e+09, or inf)
    """

    channel_names: ClassVar[tuple[str, ...]] = NAMES
    tokens_parameter: ClassVar[str] = "beta"

    beta: float = parameter("L/d; inf allowed", 1.0, usual=(0.25, 4.0))
    rho: float | None = parameter("width ratio r/d; 0 and inf allowed", None, usual=(0.05, 1.5), begin=0.5)
    noise: float = parameter("label noise variance Delta", 0.0, usual=(0.0, 1.0), check=non_negative)
    channel: Any = parameter(", ".join(NAMES), "gaussian", among=NAMES)
    width: int | None = parameter("fixed width r, instead of rho", None, check=positive_integer)
    link: InitVar[Callable[..., Any] | None] = parameter(
        "function of one sample, from a field h to a number, instead of channel; NumPy or jax.numpy. Its file is run",
        None,
        metavar="FILE.py:FUNCTION",
        opens_file=True,
    )
    noise_law: InitVar[Any] = parameter(
        f"noise of discrete labels, instead of noise: {', '.join(CONFUSIONS)}", None, read=parse_text
    )
    prior: Any = parameter(
        f"law of the factors' entries, with width: {', '.join(LAWS)}",
        None,
        read=parse_text,
    )
    spectrum: Any = parameter(
        f"singular values of S, instead of rho: a file of numbers, or {POWER_LAW}",
        None,
        read=parse_text,
        opens_file=True,
    )
    token_correlation: float | Any = parameter(
        "correlation of neighbouring tokens in (-1, 1); of learners only ridge has a theory",
        0.0,
        read=parse_number,
    )

    name = "bsr"

    def __post_init__(self, link: Callable[..., Any] | None, noise_law: object) -> None:
        check_settings(self)
        if not (is_ratio(self.beta) or (is_number(self.beta) and self.beta == np.inf)):
            raise ParameterError("beta", self.beta, f"> 0 ({SMALLEST:g} to {LARGEST:g}, or inf)")
        given = requested_prior(self.prior)
        if self.spectrum is not None:
            set_fields(self, spectrum=lone_spectrum(self.spectrum, rho=self.rho, width=self.width, prior=given))
        elif self.rho is None and self.width is None and not isinstance(given, ScalarPrior):
            raise IncompatibleError("the width is missing: give rho (0 and inf are allowed), or a fixed width")
        are_correlated(self.token_correlation)  # raises for values that are invalid at every number of tokens
        if self.rho is not None and self.width is not None:
            raise IncompatibleError(f"rho = {self.rho} and width = {self.width} exclude each other: give one of them")
        if self.rho is not None and not (is_ratio(self.rho) or (is_number(self.rho) and self.rho in (0, np.inf))):
            raise ParameterError("rho", self.rho, f">= 0 (0, {SMALLEST:g} to {LARGEST:g}, or inf)")
        if self.width is not None and np.isinf(self.beta):
            raise ParameterError("beta", self.beta, "finite when width is given")
        channel = scalar_channel(self.channel, float(self.noise), link, noise_law)
        self._set_channel(channel, channel=self.channel, link=link, noise_law=noise_law)
        set_fields(self, prior=self._prior(given))

    def _prior(self, given: object) -> ScalarPrior:
        """Return the prior of ``S``: the given one, or that of the spectrum, width or width ratio."""
        if self.spectrum is not None:
            if not np.isfinite(self.beta):
                raise ParameterError("beta", self.beta, "finite when a spectrum is given")
            return resolve_prior(RectangularSpectrumPrior(float(self.beta), self.spectrum))
        if isinstance(given, ScalarPrior):
            if self.rho is not None or self.width is not None:
                name, value = ("rho", self.rho) if self.rho is not None else ("width", self.width)
                raise IncompatibleError(f"prior = {given!r} and {name} = {value} exclude each other: give one of them")
            prior = matrix_prior(given, 1.0)
            if prior.shape_ratio not in (None, self.beta):
                raise IncompatibleError(
                    f"prior = {given!r} and beta = {self.beta} exclude each other: give beta = {prior.shape_ratio:g}"
                )
            return prior
        law = Gaussian() if given is None else centred(given)
        if self.width is not None:
            if law.rotational:
                return resolve_prior(FactorPrior(float(self.beta), int(self.width)))
            return resolve_prior(SeparableFactorPrior(float(self.beta), int(self.width), law), law)
        assert self.rho is not None
        if not law.rotational:
            raise IncompatibleError(
                f"prior = {law.label} and rho = {self.rho} exclude each other: factors of extensive width have "
                "Gaussian entries: give a fixed width instead of rho"
            )
        return resolve_prior(bilinear_prior(float(self.beta), float(self.rho)))

    @property
    def counts_low_rank(self) -> bool:
        r"""True when the sample ratio is :math:`n/(r(L+d))` rather than :math:`n/(dL)`."""
        return self.width is not None or self.rho == 0

    @property
    def parameters(self) -> dict[str, Any]:
        sizes: tuple[tuple[str, Any, type], ...] = (("rho", self.rho, float), ("width", self.width, int))
        unit = "n/(r(L+d))" if self.counts_low_rank else "n/(dL)"
        return {
            "beta": float(self.beta),
            **{name: type_(value) for name, value, type_ in sizes if value is not None},
            **({} if self.spectrum is None else {"spectrum": self.spectrum.name}),
            **named(self.prior),
            "noise": self.noise,
            **({"noise_law": self.channel.labels.noise_law} if self.channel.labels.noise_law else {}),
            "channel": self.channel.label,
            **correlation_record(self.token_correlation, self._correlated),
            "alpha": unit,
        }

    @cached_property
    def _correlated(self) -> bool:
        return are_correlated(self.token_correlation)

    @property
    def theory_unavailable_reason(self) -> str | None:
        """The correlation of the tokens, which state evolution does not describe; None for independent tokens."""
        if not self._correlated:
            return None
        given = self.token_correlation
        what = f"{given:g}" if is_number(given) else f"<matrix of shape {np.shape(given)}>"
        return (
            f"token_correlation = {what}: of bsr with correlated tokens only the theory of ridge is known (labels "
            "depend on C^(1/2) S, whose law is not invariant under rotations of the tokens)"
        )

    @property
    def features(self) -> RidgeFeatures | None:
        """Entries of correlated tokens, for linear labels of a signal of extensive width; None for independent ones."""
        if not (self._correlated and self.channel.labels.linear and self.prior.extensive):
            return None
        return correlated_entries(self.token_correlation, self.noise)

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Perfect recovery by minimal nuclear norm; NaN if labels are noisy or not linear, or the rank is unknown."""
        if not (self.channel.labels.linear and self.channel.labels.rank > 0):
            alpha = np.nan
        elif self.counts_low_rank:
            alpha = nuclear_norm_threshold_low_width(self.beta)
        elif self.rho is None:
            alpha = self.prior.convex_dimension
        else:
            alpha = nuclear_norm_threshold(self.beta, self.rho)
        return {"nuclear_norm_perfect_recovery": float(alpha)}

    @property
    def parametrisation(self) -> Parametrisation:
        from glassformer.models.trainable.factors import FACTORS, factor_parametrisation

        if self.channel.labels.linear:
            return FACTORS
        return factor_parametrisation(self.channel.traceable_label, self.channel.labels.even)

    def inputs_at(self, d: int) -> tuple[type[Design], int]:
        if np.isinf(self.beta):
            raise no_data_error(f"beta = {self.beta}", "give beta = L/d")
        return DenseDesign, max(1, round(self.beta * d))

    def tokens_remedy(self, tokens: int, d: int) -> str:
        return f"beta={tokens / d:.6g}"

    def at_size(self, d: int) -> FiniteSize:
        """Return the model at ``L = round(beta d)`` and, with ``rho``, at ``r = round(rho d)``, both at least one."""
        if np.isinf(self.beta) or (self.rho is not None and (self.rho == 0 or np.isinf(self.rho))):
            remedy = "give finite beta and rho, or width instead of rho = 0"
            raise no_data_error(f"beta = {self.beta}, rho = {self.rho}", remedy)
        shape = (max(1, round(self.beta * d)), d)
        spectrum = None if self.spectrum is None else self.spectrum.resized(min(shape))
        rho = None if self.rho is None else factor_columns(self.width, self.rho, d) / d
        prior = requested_prior(self.prior) if spectrum is None else None
        if isinstance(prior, ScalarPrior) and prior.shape_ratio is not None:
            prior = replace(cast(Any, prior), beta=shape[0] / d)
        model = BilinearSequenceRegression(
            shape[0] / d,
            rho,
            self.noise,
            self.channel,
            self.width,
            prior=prior,
            spectrum=spectrum,
            token_correlation=self.token_correlation,
        )
        root = correlation_root(self.token_correlation, shape[0])
        design = CorrelatedDesign(root) if self._correlated else DenseDesign
        unit = self.width * sum(shape) if self.width is not None else shape[0] * d
        return FiniteSize(model, design, shape, float(unit), finite_width_warning(self.width, shape))

    def require_teacher(self, d: int) -> None:
        shape, columns = (max(1, round(self.beta * d)), d), factor_columns(self.width, self.rho, d)
        name, value = ("rho", self.rho) if self.width is None else ("width", self.width)
        require_teacher_memory({"d": (d, d), "beta": (shape[0], self.beta), name: (columns, value)}, shape, columns)
