r"""Deep attention-indexed models: several attention layers with key-query matrices of extensive width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.parameters import at_power
from glassformer.channels.sampling_limits import require_sampling
from glassformer.core.checks import is_number, real_numbers, require_integer, unwrap_numbers
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.core.options import parameter
from glassformer.core.parsing import parse_grid
from glassformer.core.resources import farthest_from_default
from glassformer.designs.quadratic import LayeredQuadraticDesign
from glassformer.models.aim import AttentionIndexed
from glassformer.models.base import FiniteSize, Model
from glassformer.models.trainable.base import Parametrisation
from glassformer.priors.base import Prior
from glassformer.priors.layered import LayeredPrior

# Data points per replica of the averages, and steps of the search for posterior modes at each point.
_POINTS, _EFFORT = 256, 100.0


@dataclass(frozen=True)
class DeepAttentionIndexed(Model):
    r"""Attention-indexed model of :math:`L` layers with skip connections, noiseless.

    Equation :eq:`model-deep-aim` of the documentation.

    :math:`B_0 = I,\; B_l = (c_l I + \sigma(B_{l-1} h^l B_{l-1}^T)) B_{l-1},\; y = \sigma(B_{L-1} h^L B_{L-1}^T)` with
    :math:`\sigma` the row softmax and :math:`h^l` the indices of layer ``l``
    (:class:`~glassformer.models.aim.AttentionIndexed`). Sample ratio, errors and overlaps are defined as for one layer:
    every layer starts from error 1 and overlap :math:`\rho`.

    The off-diagonal part of :math:`\hat Q` couples the layers. Its effect is computed to second order
    (:class:`~glassformer.priors.layered.LayeredPrior`). Message passing denoises layer by layer.

    Args:
        rho: :math:`r/d` of every layer; ``inf`` is not available.
        tokens: ``T >= 2``.
        layers: ``L >= 2``.
        skip: skip strength :math:`c \ge 0` of every layer but the last, or a sequence of ``L - 1`` strengths; None
            for 1.
        channel: ``"softmax"`` or ``"linear"``, the activation of the last layer.
        temperature: inverse temperature of the softmax.

    Raises:
        ParameterError: an argument is out of range.
        IncompatibleError: arguments that exclude each other.

    Source: Boncoraglio, Troiani, Erba, Zdeborova, arXiv:2506.01582.

    Example:
        >>> model = DeepAttentionIndexed(rho=0.5, tokens=2, layers=2, skip=1.0)
        >>> model.prior.self_overlap
        array([[1.5, 0.5],
               [0.5, 1.5]])
    """

    rho: float
    tokens: int = 2
    layers: int = parameter("attention layers L", 2)
    skip: float | Sequence[float] | None = parameter(
        "skip strength c >= 0 (default 1), or a comma list of L - 1 of them", None, read=parse_grid
    )
    channel: Any = "softmax"
    temperature: float = 1.0

    name = "aim"

    def __post_init__(self) -> None:
        unwrap_numbers(self)
        require_integer("layers", self.layers, 2)
        if is_number(self.rho) and np.isinf(self.rho):
            raise IncompatibleError(
                "rho = inf and several layers exclude each other: the mean of S alone determines the mixing. "
                "Give finite rho"
            )
        strengths = tuple(float(c) for c in real_numbers("skip", 1.0 if self.skip is None else self.skip).ravel())
        strengths = strengths * (self.layers - 1) if len(strengths) == 1 else strengths
        if isinstance(self.channel, Channel):
            self._require_match(self.channel, strengths)
            return
        AttentionIndexed(self.rho, self.tokens, temperature=self.temperature)
        if not isinstance(self.channel, str) or self.channel not in ("softmax", "linear"):
            raise IncompatibleError(f"channel = {self.channel} and layers = {self.layers}: choose softmax or linear")
        fields = self.layers * self.tokens * (self.tokens + 1) // 2
        require_sampling(*farthest_from_default(self, "tokens", "layers"), fields, 1, _POINTS, _EFFORT)
        from glassformer.channels.attention.deep import DeepAttentionIndexedChannel

        if len(strengths) != self.layers - 1:
            raise ParameterError("skip", self.skip, f"one number, or {self.layers - 1} of them")
        channel = DeepAttentionIndexedChannel(
            self.tokens, strengths, 1 + float(self.rho), self.channel, float(self.temperature)
        )
        self._set_channel(channel, channel=self.channel)

    def _require_match(self, channel: Channel, strengths: tuple[float, ...]) -> None:
        """Raise unless a finished channel has the parameters of the model."""
        asked: dict[str, Any] = {
            "tokens": self.tokens,
            "skip": strengths,
            "power": 1 + self.rho,
            "temperature": self.temperature,
        }
        for name, value in asked.items():
            own = getattr(channel, name)
            if np.shape(own) != np.shape(value) or not np.allclose(own, value, atol=0):
                raise IncompatibleError(f"the channel has {name} = {own}, the model {name} = {value}: make them equal")

    @classmethod
    def select(cls, given: dict[str, Any]) -> dict[str, Any] | None:
        layers = given.get("layers", 1)
        if layers == 1:
            return None
        for name, default in (("link", None), ("noise", 0), ("spectrum", None), ("token_correlation", 0)):
            if given.pop(name, default) not in (default, None):
                raise IncompatibleError(f"{name} and layers = {layers} exclude each other: leave {name} out, or layers")
        if given.get("skip") is None:
            given.pop("skip", None)
        return given

    @cached_property
    def prior(self) -> Prior:
        """One prior of width ratio ``rho`` per layer."""
        return LayeredPrior(AttentionIndexed(self.rho, self.tokens).prior, self.layers)

    @property
    def row_names(self) -> tuple[str, ...]:
        return tuple(f"layer {k + 1}" for k in range(self.layers))

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "rho": float(self.rho),
            "tokens": int(self.tokens),
            "layers": int(self.layers),
            "skip": list(self.channel.skip),
            "noise": 0.0,
            "channel": self.channel.label,
            "temperature": float(self.temperature),
            "alpha": "n/(rd)" if self.rho == 0 else "n/d^2",
        }

    @property
    def parametrisation(self) -> Parametrisation:
        from glassformer.models.trainable.attention import layered_parametrisation

        return layered_parametrisation(self.channel)

    def at_size(self, d: int) -> FiniteSize:
        """Return the model at ``r = round(rho d)``, at least one."""
        one = AttentionIndexed(self.rho, self.tokens).at_size(d)
        rho = one.model.parameters["rho"]
        channel = at_power(self.channel, 1 + rho)
        model = DeepAttentionIndexed(rho, self.tokens, self.layers, self.skip, channel, self.temperature)
        return FiniteSize(model, LayeredQuadraticDesign, one.input_shape, one.unit)

    def require_teacher(self, d: int) -> None:
        AttentionIndexed(self.rho, self.tokens).require_teacher(d)
