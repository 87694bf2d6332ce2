"""From what a user writes to a channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.models.channels.absolute import AbsoluteChannel
from glassformer.models.channels.base import Channel
from glassformer.models.channels.gaussian import GaussianChannel
from glassformer.models.channels.sign import SignChannel

_NOISELESS: dict[str, Callable[[], Channel]] = {"sign": SignChannel, "absolute": AbsoluteChannel}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {"sign": np.sign, "absolute": np.abs}
NAMES = ("gaussian", *_NOISELESS)


def scalar_channel(channel: str | Channel | Callable[..., Any], noise: float = 0.0) -> Channel:
    """The channel named or defined by ``channel``, with Gaussian label noise of variance ``noise``.

    Args:
        channel: a name, a function from fields to labels, or a finished channel.
        noise: label noise; a finished channel carries its own.

    Raises:
        ParameterError: an unknown name.
        IncompatibleError: ``noise`` is given together with a finished channel that has another noise.

    Example:
        >>> scalar_channel("gaussian", 0.1)
        GaussianChannel(noise=0.1)
        >>> scalar_channel("relu")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: channel = 'relu' is not allowed: expected one of gaussian, sign, \
absolute, or a callable
    """
    if isinstance(channel, Channel):
        if noise not in (0.0, getattr(channel, "noise", 0.0)):
            raise IncompatibleError(f"noise = {noise} and channel = {channel!r} exclude each other: give noise to one")
        return channel
    if isinstance(channel, str) and channel == "gaussian":
        return GaussianChannel(noise)
    if isinstance(channel, str) and channel in _NOISELESS:
        if noise == 0:
            return _NOISELESS[channel]()
        return _link(_FUNCTIONS[channel], noise, channel)
    if callable(channel):
        return _link(channel, noise, getattr(channel, "__name__", None))
    raise ParameterError("channel", channel, f"one of {', '.join(NAMES)}, or a callable")


def _link(function: Callable[..., Any], noise: float, name: str | None) -> Channel:
    # Imported here because its splines and root finders would double the start-up time of every other channel.
    from glassformer.models.channels.link.channel import LinkChannel

    return LinkChannel(function, noise, name=name)
