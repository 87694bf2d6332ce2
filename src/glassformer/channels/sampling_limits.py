"""Where posteriors of fields can be sampled: which label noise, and how many fields and data points."""

from __future__ import annotations

from dataclasses import dataclass

from glassformer.channels.field_averages import REPLICAS
from glassformer.core.checks import is_number
from glassformer.core.errors import ParameterError
from glassformer.core.resources import require_resources


@dataclass(frozen=True)
class Limits:
    """Noise in which posteriors are no thin shells and scores do not drown, and what sampling is taken to cost."""

    faintest: float = 1e-8  # least noise
    loudest: float = 1e9  # most
    evaluations: int = 50  # of the averages in a fixed point
    drawn: int = 512  # sampled latents of a data point
    at_once: int = 64 * 512  # sampled latents of all those treated in one go


LIMITS = Limits()


def require_noise(noise: object) -> None:
    """Raise unless labels with this noise, or none, can be averaged over.

    Example:
        >>> require_noise(0.1)
    """
    if not (is_number(noise) and (noise == 0 or LIMITS.faintest <= noise <= LIMITS.loudest)):  # type: ignore[operator]
        raise ParameterError("noise", noise, f"0, or from {LIMITS.faintest:g} to {LIMITS.loudest:g}: finite and >= 0")


def require_sampling(name: str, value: object, fields: int, images: float, points: int, effort: float = 400.0) -> None:
    """Raise if posteriors of so many fields cannot be sampled, before anything is compiled for them.

    Args:
        name: the parameter to blame.
        value: its value.
        fields: ``P K``.
        images: of a latent under symmetries.
        points: data points per replica.
        effort: steps of the search for modes of one data point.

    Example:
        >>> require_sampling("tokens", 4, fields=8, images=2, points=2048)
    """
    data, size = float(REPLICAS * points), float(fields)
    memory = 8 * (data * (6 * size**2 + 10 * size) + 3.0 * LIMITS.at_once * images * size)
    work = LIMITS.evaluations * data * (effort * size**3 + LIMITS.drawn * images * size**2)
    remedy = "use fewer tokens, layers, heads, indices or data points"
    require_resources(name, value, memory, remedy, work, "moments")
