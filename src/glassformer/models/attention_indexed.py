r"""Attention-indexed models: attention with key-query matrices of extensive width."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.models.base import FiniteSize, Model, is_number, no_data, require_teacher
from glassformer.models.channels.attention_indexed.named import attention_channel
from glassformer.models.designs.quadratic import QuadraticDesign
from glassformer.models.priors.base import Prior
from glassformer.models.priors.wishart import NarrowWishartPrior, SymmetricGaussianPrior, WishartPrior

# Widths beyond these are as good as their limits, while the law of eigenvalues loses digits to its bulk of noise.
_NARROWEST, _WIDEST = 1e-3, 1e6


@dataclass(frozen=True)
class AttentionIndexed:
    r"""Attention-indexed model: :math:`y = g(h)`, :math:`h_{ab} = (x_a^T S x_b - \delta_{ab}\mathrm{Tr} S)/\sqrt d`.

    Equation :eq:`model-aim` of the documentation.

    Each sample has ``T`` tokens with standard normal entries; :math:`S = W W^T/\sqrt{rd}` with standard normal ``W`` of
    shape (d, r); sizes large at fixed :math:`\rho = r/d`. The sample ratio is :math:`\alpha = n/d^2`, at ``rho = 0`` it
    is :math:`\bar\alpha = n/(rd)`. Errors are :math:`\|\hat S - S\|_F^2/d`, one before any data (the mean
    :math:`\sqrt\rho\,I` is known); the overlap runs from :math:`\rho` to :math:`1 + \rho` (at ``rho = inf``, where the
    mean's power is left out, from 0 to 1).

    Args:
        rho: :math:`r/d`, from 1e-3 to 1e6; 0 and ``inf`` select the limits of negligible and unlimited width.
        tokens: ``T``.
        channel: ``"linear"``, ``"softmax"``, ``"hardmax"``, or a function from matrices of indices, shape
            (..., T, T), to labels, shape (..., m), which needs label noise.
        noise: variance :math:`\Delta \ge 0` of the Gaussian label noise: of shape :math:`1 + \delta_{ab}` and symmetric
            for the linear channel, independent on all entries of the label for the others.
        temperature: inverse temperature of the softmax.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: a channel that cannot be had at this noise, width or number of tokens.

    Source: Boncoraglio, Troiani, Erba, Zdeborova, arXiv:2506.01582.

    Example:
        >>> from glassformer import thresholds
        >>> model = AttentionIndexed(rho=0.5, tokens=2, channel="softmax")
        >>> thresholds(model)["perfect_recovery"].alpha  # rho (2 - rho)/(T^2 + T - 2)
        0.1875
    """

    rho: float
    tokens: int = 2
    channel: Any = "softmax"
    noise: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if not (is_number(self.rho) and (_NARROWEST <= self.rho <= _WIDEST or self.rho in (0, np.inf))):
            raise ParameterError("rho", self.rho, f"0, {_NARROWEST:g} to {_WIDEST:g}, or inf")
        if not (is_number(self.noise) and 0 <= self.noise < np.inf):
            raise ParameterError("noise", self.noise, "finite and >= 0")
        if not (is_number(self.temperature) and 0 < self.temperature < np.inf):
            raise ParameterError("temperature", self.temperature, "an inverse temperature, finite and > 0")
        channel = attention_channel(self.channel, self.tokens, self.noise, self.temperature, 1 + float(self.rho))
        object.__setattr__(self, "channel", channel)

    @property
    def name(self) -> str:
        return "aim"

    @cached_property
    def prior(self) -> Prior:
        """The prior this width selects, one of the limits included."""
        if self.rho == 0:
            return NarrowWishartPrior()
        return SymmetricGaussianPrior() if np.isinf(self.rho) else WishartPrior(float(self.rho))

    @property
    def parameters(self) -> dict[str, Any]:
        label = self.channel.label
        temperature = {"temperature": float(self.temperature)} if label == "softmax" else {}
        return {
            "rho": float(self.rho),
            "tokens": int(self.tokens),
            "noise": float(self.noise),
            "channel": label,
            **temperature,
            "alpha": "n/(rd)" if self.rho == 0 else "n/d^2",
        }

    @property
    def baseline_thresholds(self) -> dict[str, float]:
        return {}

    def at_size(self, d: int) -> FiniteSize[Model]:
        """The model at ``r = round(rho d)``, at least one."""
        if self.rho == 0 or np.isinf(self.rho):
            raise no_data(f"rho = {self.rho}", "give finite rho > 0")
        rho = max(1, round(self.rho * d)) / d
        require_teacher({"d": (d, d), "rho": (self.rho * d, self.rho)}, (d, d), round(rho * d))
        channel = self.channel.at_power(1 + rho)
        model = AttentionIndexed(rho, self.tokens, channel, self.noise, self.temperature)
        return FiniteSize(model, QuadraticDesign, (self.tokens, d), float(d * d))
