"""Channels on attention indices by name, or from a function of the indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from glassformer.channels.attention.hardmax_pair import HardmaxPairChannel
from glassformer.channels.attention.linear import CorrelatedLinearChannel, LinearAttentionChannel, LinearUntiedChannel
from glassformer.channels.attention.projected import Root
from glassformer.channels.attention.softmax import (
    CorrelatedSoftmaxChannel,
    SoftmaxAttentionChannel,
    SoftmaxUntiedChannel,
    row_softmax,
)
from glassformer.channels.link.contract import Link, function_name
from glassformer.channels.scalar.base import ScalarChannel
from glassformer.channels.scalar.named import require_alone
from glassformer.core.checks import require_integer
from glassformer.core.errors import IncompatibleError, ParameterError

NAMES = ("linear", "softmax", "hardmax")
# Names of channels for untied keys and queries.
UNTIED = ("linear", "softmax")


def attention_channel(
    channel: str | Callable[..., Any] | ScalarChannel,
    tokens: int,
    noise: float,
    temperature: float,
    power: float,
    link: Callable[..., Any] | None = None,
    root: Root = (),
) -> ScalarChannel:
    """Return the channel given by ``channel`` or ``link``, for indices of variance ``power``.

    Args:
        channel: a name, a function of matrices of indices, or a finished channel.
        tokens: ``T``.
        noise: variance of the label noise.
        temperature: inverse temperature of softmax.
        power: :math:`Q_0`.
        link: a function of one matrix of indices.
        root: square root of the correlation of the tokens; empty for independent tokens.

    Raises:
        ParameterError: an unknown name, or an argument that the channel does not allow.
        IncompatibleError: the combination does not exist. The message names an alternative.

    Example:
        >>> attention_channel("linear", 2, 0.1, 1.0, 1.5)
        LinearAttentionChannel(tokens=2, noise=0.1)
    """
    if link is not None:
        require_alone(channel, "softmax")
        channel = _of_one_sample(link, tokens)
    if isinstance(channel, ScalarChannel):
        _require_match(channel, tokens, noise, temperature, power)
        own, indices = channel.fields.columns, tokens * (tokens + 1) // 2
        if own != indices:
            raise IncompatibleError(
                f"channel = {channel!r} has labels of {own} indices, and tokens = {tokens} have {indices}: "
                f"choose {', '.join(NAMES)}, or another number of tokens"
            )
        if getattr(channel, "root", ()) != root:
            raise IncompatibleError(f"token_correlation and channel = {channel!r} exclude each other: give one of them")
        return channel
    if not isinstance(channel, str) and not callable(channel):
        raise ParameterError("channel", channel, f"one of {', '.join(NAMES)}, or a callable")
    if temperature != 1 and channel != "softmax":
        raise IncompatibleError(f"temperature = {temperature} belongs to channel softmax: leave it out")
    if channel == "linear":
        return CorrelatedLinearChannel(tokens, noise, root) if root else LinearAttentionChannel(tokens, noise)
    if channel == "softmax" and noise == 0:
        shape = (tokens, temperature, power)
        return CorrelatedSoftmaxChannel(*shape, root) if root else SoftmaxAttentionChannel(*shape)
    if channel == "softmax":
        return _sampled(lambda h: row_softmax(temperature * h), tokens, noise, power, "softmax", root)
    if channel == "hardmax":
        require_integer("tokens", tokens, 2)
        if noise != 0:
            raise IncompatibleError(f"noise = {noise} and channel = hardmax exclude each other: labels are discrete")
        if root:
            raise IncompatibleError(
                "token_correlation and channel = hardmax exclude each other: posteriors are integrated index by index "
                "for independent tokens; choose linear, softmax, or a link with noise"
            )
        return _hardmax(tokens, power)
    if callable(channel):
        if noise == 0:
            raise IncompatibleError("a function of the indices needs label noise: give noise > 0")
        return _sampled(channel, tokens, noise, power, function_name(channel), root)
    raise ParameterError("channel", channel, f"one of {', '.join(NAMES)}, or a callable")


def untied_channel(
    channel: str | ScalarChannel,
    tokens: int,
    noise: float,
    temperature: float,
    link: Callable[..., Any] | None = None,
) -> ScalarChannel:
    """Return the channel of this name for indices of untied keys and queries.

    Raises:
        IncompatibleError: the combination does not exist. The message names an alternative.

    Example:
        >>> untied_channel("softmax", 2, 0.0, 1.0)
        SoftmaxUntiedChannel(tokens=2, temperature=1.0)
    """
    if isinstance(channel, ScalarChannel) and link is None:
        _require_match(channel, tokens, noise, temperature, 1.0)
        if channel.fields.shape != (tokens**2,):
            raise IncompatibleError(
                f"channel = {channel!r} and untied exclude each other: choose {' or '.join(UNTIED)}"
            )
        return channel
    if link is not None or channel not in UNTIED:
        what = "a link" if link is not None else f"channel = {channel}"
        raise IncompatibleError(f"{what} and untied exclude each other: choose {' or '.join(UNTIED)}")
    if channel == "linear":
        if temperature != 1:
            raise IncompatibleError(f"temperature = {temperature} belongs to channel softmax: leave it out")
        return LinearUntiedChannel(tokens, noise)
    if noise != 0:
        raise IncompatibleError(f"noise = {noise} and channel = softmax exclude each other where keys are untied")
    return SoftmaxUntiedChannel(tokens, temperature)


def _require_match(channel: ScalarChannel, tokens: int, noise: float, temperature: float, power: float) -> None:
    """Raise unless a finished channel has the parameters of the model. The model may leave out the noise."""
    if power != 1 and not (hasattr(channel, "power") or channel.fields.any_power):
        raise IncompatibleError(
            f"{type(channel).__name__} is for fields of variance 1, indices have {power:g}: choose {', '.join(NAMES)}, "
            "NoisySignChannel with its power, or a function of the indices with noise > 0"
        )
    own = {
        name: getattr(channel, name) for name in ("tokens", "power", "noise", "temperature") if hasattr(channel, name)
    }
    asked = {"tokens": tokens, "power": power, "noise": noise, "temperature": temperature}
    for name, value in own.items():
        if not np.isclose(value, asked[name]) and (name, asked[name]) != ("noise", 0):
            raise IncompatibleError(
                f"the channel has {name} = {value}, the model {name} = {asked[name]}: make them equal"
            )


def _of_one_sample(link: Callable[..., Any], tokens: int) -> Link:
    """Turn a function of one matrix of indices into a function of many matrices."""
    require_integer("tokens", tokens)
    safe = Link(link, (tokens, tokens), symmetric=True)
    if not safe.vectorised:
        raise safe.error(
            "a link that can be evaluated for many samples at once",
            "write it with jax.numpy, without if on values, or for arrays of shape (..., T, T)",
        )
    safe.require_finite()
    return safe


def _hardmax(tokens: int, power: float) -> ScalarChannel:
    if not np.isfinite(power):
        raise IncompatibleError("rho = inf and channel = hardmax exclude each other: the mean alone decides the labels")
    if tokens == 2:
        return HardmaxPairChannel(power)
    if tokens == 3:
        from glassformer.channels.attention.hardmax_triple import HardmaxTripleChannel

        return HardmaxTripleChannel(tokens, power)
    from glassformer.channels.attention.hardmax_sampled import HardmaxChannel

    return HardmaxChannel(tokens, power)


def _sampled(
    function: Callable[..., Any], tokens: int, noise: float, power: float, name: str, root: Root
) -> ScalarChannel:
    if not np.isfinite(power):
        raise IncompatibleError("rho = inf and a sampled channel exclude each other: give a finite rho")
    from glassformer.channels.attention.noisy import NoisyAttentionChannel

    return NoisyAttentionChannel(function, tokens, noise, power, name, root)
