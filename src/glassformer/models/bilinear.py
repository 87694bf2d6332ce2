"""Bilinear sequence regression: a product of two matrices seen through single linear functionals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.checks import require_integer
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.models.base import LARGEST, SMALLEST, FiniteSize, Model, is_number, is_ratio, no_data, require_teacher
from glassformer.models.channels.gaussian import GaussianChannel
from glassformer.models.channels.scalar import scalar_channel
from glassformer.models.designs.dense import DenseDesign
from glassformer.models.priors.base import Prior
from glassformer.models.priors.bilinear import BilinearPrior
from glassformer.models.priors.factors import FactorPrior
from glassformer.models.priors.limits import GaussianMatrixPrior, LongSequencePrior, LowWidthPrior
from glassformer.theory.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width


@dataclass(frozen=True)
class BilinearSequenceRegression:
    r"""Bilinear sequence regression: :math:`y = \varphi(h)`, :math:`h = \mathrm{Tr}(X S^T)/\sqrt{dL}`.

    Equation :eq:`model-bsr` of the documentation.

    Tokens ``X`` of shape (L, d) with standard normal entries; :math:`S = U V^T/\sqrt r` with standard normal factors
    of width ``r``; sizes large at fixed :math:`\beta = L/d`. The sample ratio is :math:`\alpha = n/(dL)`, except
    where the width is negligible (``rho = 0`` or ``width`` given): there it is
    :math:`\alpha_{LR} = n/(r(L+d))`. Errors are :math:`\|\hat S - S\|_F^2/(dL)`, one before any data.

    Args:
        beta: :math:`L/d > 0`; ``inf`` for sequences much longer than the token dimension.
        rho: :math:`r/d \ge 0`; 0 and ``inf`` select the limits of negligible and unlimited width.
        noise: variance :math:`\Delta \ge 0` of the Gaussian noise added to the label.
        channel: ``"gaussian"`` (:math:`\varphi(h) = h`), ``"sign"``, ``"absolute"``, a callable
            :math:`\varphi` acting on arrays, or a :class:`~glassformer.models.channels.base.Channel`.
        width: a fixed width ``r`` instead of ``rho``; same theory as ``rho = 0``, and data can be simulated.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: ``rho`` and ``width`` are both given, or neither.

    Source: Erba, Troiani, Biggio, Maillard, Zdeborova, arXiv:2410.18858.

    Example:
        >>> model = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.0)
        >>> model.prior.dimension  # perfect recovery: rho (1 + beta - rho)/beta
        0.75
        >>> BilinearSequenceRegression(beta=1, rho=-0.5)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: rho = -0.5 is not allowed: expected >= 0 (0, 1e-09 to 1e+09, or inf)
    """

    beta: float = 1.0
    rho: float | None = None
    noise: float = 0.0
    channel: Any = "gaussian"
    width: int | None = None

    def __post_init__(self) -> None:
        if not (is_ratio(self.beta) or (is_number(self.beta) and self.beta == np.inf)):
            raise ParameterError("beta", self.beta, f"> 0 ({SMALLEST:g} to {LARGEST:g}, or inf)")
        if not (is_number(self.noise) and 0 <= self.noise < np.inf):
            raise ParameterError("noise", self.noise, "finite and >= 0")
        if self.rho is None and self.width is None:
            raise IncompatibleError("the width is missing: give rho (0 and inf included), or a fixed width")
        if self.rho is not None and self.width is not None:
            raise IncompatibleError(f"rho = {self.rho} and width = {self.width} exclude each other: give one of them")
        if self.rho is not None and not (is_ratio(self.rho) or (is_number(self.rho) and self.rho in (0, np.inf))):
            raise ParameterError("rho", self.rho, f">= 0 (0, {SMALLEST:g} to {LARGEST:g}, or inf)")
        if self.width is not None:
            require_integer("width", self.width)
        if self.width is not None and np.isinf(self.beta):
            raise ParameterError("beta", self.beta, "finite when width is given")
        object.__setattr__(self, "channel", scalar_channel(self.channel, float(self.noise)))

    @property
    def name(self) -> str:
        return "bsr"

    @cached_property
    def prior(self) -> Prior:
        """The prior these parameters select, one of the limits included."""
        if self.width is not None:
            return FactorPrior(float(self.beta), int(self.width))
        assert self.rho is not None
        if self.rho == 0:
            return LowWidthPrior(float(self.beta))
        if np.isinf(self.rho):
            return GaussianMatrixPrior()
        if np.isinf(self.beta):
            return LongSequencePrior(float(self.rho))
        return BilinearPrior(float(self.beta), float(self.rho))

    @property
    def counts_low_rank(self) -> bool:
        r"""True when the sample ratio is :math:`n/(r(L+d))` rather than :math:`n/(dL)`."""
        return self.width is not None or self.rho == 0

    @property
    def parameters(self) -> dict[str, Any]:
        width = {"rho": float(self.rho)} if self.rho is not None else {"width": int(self.width or 0)}
        unit = "n/(r(L+d))" if self.counts_low_rank else "n/(dL)"
        return {
            "beta": float(self.beta),
            **width,
            "noise": float(self.noise),
            "channel": self.channel.label,
            "alpha": unit,
        }

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        """Perfect recovery by minimal nuclear norm; NaN where labels are noisy or not linear."""
        if not (isinstance(self.channel, GaussianChannel) and self.channel.noiseless):
            alpha = np.nan
        elif self.counts_low_rank:
            alpha = nuclear_norm_threshold_low_width(self.beta)
        else:
            assert self.rho is not None
            alpha = nuclear_norm_threshold(self.beta, self.rho)
        return {"nuclear_norm_perfect_recovery": float(alpha)}

    def at_size(self, d: int) -> FiniteSize[Model]:
        """The model at ``L = round(beta d)`` and, with ``rho``, at ``r = round(rho d)``, both at least one."""
        if np.isinf(self.beta) or (self.rho is not None and (self.rho == 0 or np.isinf(self.rho))):
            remedy = "give finite beta and rho, or width instead of rho = 0"
            raise no_data(f"beta = {self.beta}, rho = {self.rho}", remedy)
        shape = (max(1, round(self.beta * d)), d)
        width: dict[str, Any] = {"width": self.width}
        if self.rho is not None:
            width = {"rho": max(1, round(self.rho * d)) / d}
        model = BilinearSequenceRegression(beta=shape[0] / d, noise=self.noise, channel=self.channel, **width)
        wide = self.width or round(width["rho"] * d)
        name, value = ("rho", self.rho) if self.width is None else ("width", self.width)
        require_teacher({"d": (d, d), "beta": (shape[0], self.beta), name: (wide, value)}, shape, wide)
        unit = self.width * sum(shape) if self.width is not None else shape[0] * d
        return FiniteSize(model, DenseDesign, shape, float(unit))
