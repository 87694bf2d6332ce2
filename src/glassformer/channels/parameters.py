"""Parameters of a channel, which are the fields of its dataclass."""

from __future__ import annotations

import dataclasses
from typing import TypeVar

from glassformer.channels.base import Channel

_C = TypeVar("_C", bound=Channel)


def has_parameter(channel: object, name: str) -> bool:
    """Return whether a channel, or a class of channels, has a parameter of this name.

    Example:
        >>> from glassformer.channels.scalar.gaussian import GaussianChannel
        >>> has_parameter(GaussianChannel, "noise"), has_parameter(GaussianChannel(), "power")
        (True, False)
    """
    return dataclasses.is_dataclass(channel) and any(field.name == name for field in dataclasses.fields(channel))


def at_power(channel: _C, power: float) -> _C:
    """Return the channel for fields of another prior variance, its parameter ``power``.

    Channels without this parameter do not depend on it, and are returned as they are.

    Example:
        >>> from glassformer.channels.scalar.sign import NoisySignChannel
        >>> at_power(NoisySignChannel(0.1), 1.5).power
        1.5
    """
    if not has_parameter(channel, "power"):
        return channel
    changed: _C = dataclasses.replace(channel, power=power)  # type: ignore[type-var]
    return changed
