r"""Sequence multi-index models: any function of a few projections of the tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from glassformer.core.checks import require_integer
from glassformer.core.errors import ParameterError
from glassformer.core.resources import furthest
from glassformer.models.base import FiniteSize, is_number
from glassformer.models.channels.multi_index.base import MultiIndexChannel, require_sampling
from glassformer.models.designs.projection import projection_design
from glassformer.models.matrix import MatrixModel
from glassformer.models.priors.gaussian_rows import GaussianRowsPrior
from glassformer.models.priors.matrix import MatrixPrior


@dataclass(frozen=True)
class SequenceMultiIndex(MatrixModel):
    r"""Labels :math:`y = g(Z) + \sqrt\Delta\,` noise with :math:`Z = WX^T/\sqrt d`, learned from ``n = alpha d``.

    Equation :eq:`model-smi` of the documentation.

    ``Z`` has shape (P, L); tokens ``X``, shape (L, d), and weights ``W``, shape (P, d), have standard normal
    entries. Overlaps are matrices :math:`Q = \hat W W^T/d`, errors their complement :math:`I - Q`.

    Args:
        link: ``g``, a function that JAX can trace, from ``Z`` to a number or an array.
        indices: ``P``.
        tokens: ``L``.
        noise: :math:`\Delta\ge 0`, the variance of noise on every entry of the label.
        label_type: ``"discrete"``, ``"continuous"``, or ``"auto"`` to tell from sampled labels.
        side_information: :math:`\lambda` in [0, 1), the strength of what is known of the weights beforehand.
        points: data points per replica of sampled averages, a power of two; errors fall about as its inverse.

    Raises:
        ParameterError: an argument is out of range, or the link is not traceable or not finite.
        IncompatibleError: discrete labels with noise.

    Source: Troiani, Cui, Dandi, Krzakala, Zdeborova, arXiv:2502.00901.

    Example:
        >>> from glassformer import limits
        >>> model = SequenceMultiIndex(lambda z: z[0, 0], indices=1, tokens=1)  # noiseless linear: q = alpha
        >>> limits(model, [0.5])["overlap"].round(6).tolist()
        [[[0.5]]]
    """

    link: Callable[[Any], Any]
    indices: int = 1
    tokens: int = 1
    noise: float = 0.0
    label_type: str = "auto"
    side_information: float = 0.0
    points: int = 2048

    def __post_init__(self) -> None:
        if not (is_number(self.side_information) and 0 <= self.side_information < 1):
            raise ParameterError("side_information", self.side_information, "a number in [0, 1)")
        points = self.points
        if not isinstance(points, int | np.integer) or points < 32 or points & (points - 1):
            raise ParameterError("points", points, "a power of two >= 32")
        for name in ("indices", "tokens"):
            require_integer(name, getattr(self, name))
        images = 2.0 ** min(self.indices, 10)
        require_sampling(*furthest(self, "indices", "tokens", "points"), self.indices * self.tokens, images, points)
        # A link that cannot be used is refused now, not when the first number is asked for.
        assert self.channel.rows == self.indices

    @property
    def name(self) -> str:
        return "smi"

    @cached_property
    def channel(self) -> MultiIndexChannel:  # type: ignore[override]
        """The channel that suits the labels."""
        from glassformer.models.channels.multi_index.link_channel import link_channel

        return link_channel(self.link, self.indices, self.tokens, self.noise, self.label_type, self.points)

    @cached_property
    def prior(self) -> MatrixPrior:
        return GaussianRowsPrior(self.indices, 1, self.side_information)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "link": getattr(self.link, "__name__", repr(self.link)),
            "indices": int(self.indices),
            "tokens": int(self.tokens),
            "noise": float(self.noise),
            "label_type": self.label_type,
            "side_information": float(self.side_information),
            "points": int(self.points),
            "alpha": "n/d",
        }

    def at_size(self, d: int) -> FiniteSize[MatrixModel]:
        """The model itself."""
        return FiniteSize(self, projection_design(1), (int(self.tokens), d), float(d))
