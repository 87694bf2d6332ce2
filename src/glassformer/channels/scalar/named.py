"""Table of scalar channels, and the argument ``channel=`` of models."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.channels.confusion import CONFUSIONS, confusion_law
from glassformer.channels.parameters import has_parameter
from glassformer.channels.scalar.base import ScalarChannel
from glassformer.core.errors import IncompatibleError, LinkError, ParameterError
from glassformer.core.registry import import_string

# Name on the command line, and the class. A parameter ``noise`` of the class is the variance of the noise.
CHANNELS = {
    "gaussian": "gaussian:GaussianChannel",
    "sign": "sign:SignChannel",
    "absolute": "absolute:AbsoluteChannel",
}
NAMES = tuple(CHANNELS)
# Labels of channels without the parameter, which are links once there is noise.
LINKS: dict[str, Callable[..., Any]] = {"sign": np.sign, "absolute": np.abs}


def scalar_channel(
    channel: str | ScalarChannel | Callable[..., Any] = "gaussian",
    noise: float = 0.0,
    link: Callable[..., Any] | None = None,
    noise_law: object = None,
) -> ScalarChannel:
    """Return the channel given by ``channel``, with Gaussian label noise of variance ``noise``.

    Args:
        channel: a name, a function from fields to labels, or a finished channel.
        noise: variance of the label noise. A finished channel has its own noise.
        link: a function of one field, instead of ``channel``.
        noise_law: law of discrete label noise instead of Gaussian noise: a confusion law or its name.

    Raises:
        ParameterError: an unknown name.
        LinkError: a function that cannot be used.
        IncompatibleError: ``noise`` is given together with a finished channel that has another noise, or ``link`` with
        a channel.

    Example:
        >>> scalar_channel("gaussian", 0.1)
        GaussianChannel(noise=0.1)
        >>> scalar_channel("relu")
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: channel = 'relu' is not allowed: expected one of gaussian, sign, \
absolute, or a callable
    """
    if noise_law is not None:
        return _confused(channel, noise, link, noise_law)
    if link is not None:
        require_alone(channel, "gaussian")
        return _link(link, noise, "link")
    if isinstance(channel, ScalarChannel):
        if noise not in (0.0, getattr(channel, "noise", 0.0)):
            raise IncompatibleError(f"noise = {noise} and channel = {channel!r} exclude each other: give noise to one")
        if channel.fields.shape or channel.fields.power != 1:
            raise IncompatibleError(
                f"channel = {channel!r} is not for one field of variance 1: choose {', '.join(NAMES)}, or a callable"
            )
        return channel
    if isinstance(channel, str) and channel in CHANNELS:
        named: type[ScalarChannel] = import_string("channels.scalar", CHANNELS[channel])
        if has_parameter(named, "noise"):
            return named(noise)  # type: ignore[call-arg]
        if noise == 0:
            return named()
        if channel in LINKS:
            return _link(LINKS[channel], noise, "channel", channel)
        raise IncompatibleError(f"noise = {noise} and channel = {channel} exclude each other: leave one of them out")
    if callable(channel):
        return _link(channel, noise, "channel")
    raise ParameterError("channel", channel, f"one of {', '.join(NAMES)}, or a callable")


def require_alone(channel: Any, default: str) -> None:
    """Raise if a link is given together with a channel other than the default."""
    if not (isinstance(channel, str) and channel == default):
        raise IncompatibleError(f"channel = {channel!r} and a link exclude each other: give one of them")


def _link(function: Callable[..., Any], noise: float, slot: str, name: str | None = None) -> ScalarChannel:
    # Imported here because its splines and root finders would double the start-up time of every other channel.
    from glassformer.channels.link.channel import LinkChannel
    from glassformer.channels.link.contract import function_name

    try:
        return LinkChannel(function, noise, name=name or function_name(function))
    except LinkError as error:
        raise error.named(slot) from error.__cause__


def _confused(channel: Any, noise: float, link: Callable[..., Any] | None, noise_law: object) -> ScalarChannel:
    """Return the channel of discrete labels with a confusion law."""
    from glassformer.channels.link.contract import function_name
    from glassformer.channels.link.label_noise import LabelNoiseChannel

    law = confusion_law(noise_law)
    if law is None:
        raise ParameterError("noise_law", noise_law, f"one of {', '.join(CONFUSIONS)}, or a ConfusionLaw")
    if noise != 0:
        raise IncompatibleError(f"noise = {noise} and noise_law = {law.label} exclude each other: give one of them")
    named = link is None and isinstance(channel, str) and channel in CHANNELS
    if link is not None:
        require_alone(channel, "gaussian")
    function = channel if link is None else link
    if named:
        function = LINKS.get(channel)
    if not callable(function):
        raise IncompatibleError(f"noise_law = {law.label} is for discrete labels, not for channel = {channel}")
    try:
        return LabelNoiseChannel(function, law, name=channel if named else function_name(function))
    except LinkError as error:
        raise error.named("channel" if link is None else "link") from error.__cause__
