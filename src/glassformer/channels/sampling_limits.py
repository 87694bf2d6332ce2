"""Limits of sampled posteriors: label noise, and the number of fields and data points."""

from __future__ import annotations

from glassformer.channels.sampled_error_bars import REPLICAS
from glassformer.core.checks import is_number
from glassformer.core.errors import ParameterError
from glassformer.core.resources import require_resources

# Below the least noise posteriors are too thin to sample. Above the largest noise scores are below rounding.
LEAST_NOISE, MOST_NOISE = 1e-8, 1e9
# Estimated cost: number of averages in a fixed point, sampled latents per data point, and per block of data points.
_AVERAGES, _LATENTS, _LATENTS_AT_ONCE = 50, 512, 64 * 512


def require_noise(noise: object) -> None:
    """Raise unless the noise is zero or large enough for posteriors to be sampled.

    Example:
        >>> require_noise(0.1)
    """
    if not (is_number(noise) and (noise == 0 or LEAST_NOISE <= noise <= MOST_NOISE)):
        raise ParameterError("noise", noise, f"0, or from {LEAST_NOISE:g} to {MOST_NOISE:g}: finite and >= 0")


def require_sampling(name: str, value: object, fields: int, images: float, points: int, effort: float = 400.0) -> None:
    """Raise if posteriors of so many fields need too much memory or time, before anything is compiled.

    Args:
        name: the parameter named in the error.
        value: its value.
        fields: number of fields, ``P K``.
        images: number of images of a latent under symmetries.
        points: data points per replica.
        effort: number of steps of the search for modes of one data point.

    Example:
        >>> require_sampling("tokens", 4, fields=8, images=2, points=2048)
    """
    data, size = float(REPLICAS * points), float(fields)
    memory = 8 * (data * (6 * size**2 + 10 * size) + 3.0 * _LATENTS_AT_ONCE * images * size)
    work = _AVERAGES * data * (effort * size**3 + _LATENTS * images * size**2)
    remedy = "use fewer tokens, layers, heads, indices or data points"
    require_resources(name, value, memory, remedy, work, "moments")
