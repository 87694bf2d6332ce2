"""From a user's function of the projections to the channel that suits its labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.confusion import ConfusionLaw, NoisyAlphabet, confusion_law
from glassformer.channels.label_laws import LabelLaw, label_law
from glassformer.channels.link.contract import Link, trace_error
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.link_symmetries import row_symmetries
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.channels.sampling_limits import require_noise
from glassformer.core.cache import memoize
from glassformer.core.checks import require_integer, require_name
from glassformer.core.errors import IncompatibleError, LinkError
from glassformer.core.estimate import Array
from glassformer.numerics.batching import mapped

LABEL_TYPES = ("auto", "discrete", "continuous")


@dataclass(frozen=True)
class Policy:
    """How the labels of a link are told apart, and what follows those of several entries without noise."""

    tried: int = 512  # random fields on which a link is tried
    few: int = 32  # distinct labels among them up to which they are taken for discrete
    many: int = 2**14  # fields among which labels that sets of positive measure share show more than once
    negligible: float = 3e-4  # variance of the noise that stands for none, of labels on a normal scale
    fewer: int = 8  # factor of data points that work on each of them leaves no time for
    least: int = 32  # data points


_POLICY = Policy()


# What a link raises under JAX that compares its fields, or hands them to NumPy.
_CALLS_NUMPY = jax.errors.TracerArrayConversionError | jax.errors.TracerBoolConversionError

# Work per data point of labels of several entries without noise.
_THIN = Effort(points=256, starts=32, steps=12)


def link_channel(
    link: Callable[[Any], Any],
    indices: int,
    tokens: int,
    noise: float = 0.0,
    label_type: str = "auto",
    points: int = 2048,
    noise_law: object = None,
    symmetries: RowSymmetries | None = None,
) -> Channel:
    r"""The channel of ``y = link(Z)``, with Gaussian noise of variance ``noise`` on every entry of the label.

    With noise the posterior is importance sampled, with more latents for fewer data points where the noise is below a
    twentieth of the label's variance. Without, a label of one entry, or a discrete one, is integrated
    along lines on which its level sets are found exactly. Continuous labels of several entries without noise are given
    a noise of variance 3e-4 once every entry is mapped to one that is nearly normal; what four times of it changes is
    part of the errors. Where draws of nearly the same label contradict that, averages are those of such draws. Of all
    that is sampled, what fewer latents or draws say is missing is part of the errors.

    Args:
        link: function from the fields of one sample, shape (P, L), to a number or an array, which JAX can trace; with
            one index and one token NumPy's functions do as well.
        indices: ``P``.
        tokens: ``L``.
        noise: :math:`\Delta\ge 0`.
        label_type: ``"discrete"``, ``"continuous"``, or ``"auto"`` to tell from sampled labels.
        points: data points per replica of sampled averages, a power of two.
        noise_law: of labels around the link, instead of Gaussian noise: a
            :class:`~glassformer.channels.label_laws.LabelLaw` or, of discrete labels, a
            :class:`~glassformer.channels.confusion.ConfusionLaw`, or the name of one.
        symmetries: of the link, where more of them are known than signed permutations of the rows; None to try those.

    Raises:
        LinkError: the link fails, is random, not finite, or not traceable.
        ParameterError: an argument is out of range.
        IncompatibleError: discrete labels with noise.

    Example:
        >>> channel = link_channel(lambda z: jnp.sum(z) + z[0, 0] ** 2, indices=2, tokens=1, noise=0.1)
        >>> channel.field_components, channel.label_shape
        ((2, 1), ())
    """
    for name, value in (("indices", indices), ("tokens", tokens)):
        require_integer(name, value)
    require_noise(noise)
    require_name("label_type", label_type, LABEL_TYPES)
    seen: _Tried = memoize(lambda: _tried(link, indices, tokens), "link of rows", link, indices, tokens)
    safe, tried, error = seen
    scalar = indices * tokens == 1 and safe.label_shape == ()
    if error is not None and not (scalar and isinstance(error, _CALLS_NUMPY)):
        raise _untraceable(safe, error) from error
    confusion = confusion_law(noise_law)
    if confusion is not None:
        return _confused(link, safe, confusion, noise, points)
    if noise_law is not None:
        return _of_law(link, safe, label_law(noise_law), noise, points)
    discrete = label_type == "discrete" or (label_type == "auto" and len(np.unique(tried, axis=0)) <= _POLICY.few)
    # Labels that are all alike are no discrete ones whose noise is to be left out: their link is the matter.
    if discrete and noise > 0 and np.ptp(tried, axis=0).max() > 0:
        raise IncompatibleError(
            f"noise = {noise} and discrete labels exclude each other: use noise = 0, or label_type = continuous for "
            "normal noise on the values of the labels"
        )
    if scalar:
        from glassformer.channels.multi_index.single_index import SingleIndexLink

        return SingleIndexLink(safe, noise)
    flat, shape = _flattened(link), safe.label_shape
    symmetric = symmetries or row_symmetries(flat, indices, tokens, discrete)
    if noise == 0 and (discrete or tried.shape[1] == 1):
        from glassformer.channels.multi_index.line_integrals import LineChannel

        atoms = 1.0 if discrete else _atoms(flat, indices, tokens)
        return LineChannel(flat, indices, tokens, shape, symmetric, atoms, points=points)
    if noise > 0:
        from glassformer.channels.multi_index.noisy_link_rows import NoisyLinkRowsChannel, followed

        power = float(np.mean(np.var(tried, axis=0)))
        effort, fewer = followed(noise / max(power, noise))
        return NoisyLinkRowsChannel(
            flat, indices, tokens, shape, symmetric, noise, effort=effort, points=max(_POLICY.least, points // fewer)
        )
    from glassformer.channels.multi_index.noiseless_link_rows import NoiselessLinkRowsChannel
    from glassformer.channels.multi_index.normal_scores import NormalScores

    # The posterior is a thin shell around a level set: more starts and points follow it, for fewer data points.
    small, fewer, scale = _POLICY.negligible, max(_POLICY.least, points // _POLICY.fewer), NormalScores.of(tried)
    return NoiselessLinkRowsChannel(flat, indices, tokens, shape, symmetric, small, scale, effort=_THIN, points=fewer)


class _Tried(NamedTuple):
    """What has been found out of a link.

    Attributes:
        link: made safe to evaluate on many samples.
        labels: of random fields, shape (n, entries).
        error: what JAX says when it traces the link; None where it can.
    """

    link: Link
    labels: Array
    error: Exception | None


def _tried(link: Callable[[Any], Any], indices: int, tokens: int) -> _Tried:
    safe = Link(link, (indices, tokens), "link")
    safe.require_finite()
    labels = safe(np.random.default_rng(0).standard_normal((_POLICY.tried, indices, tokens))).reshape(_POLICY.tried, -1)
    return _Tried(safe, labels, trace_error(safe.function, safe.shape))


def _atoms(flat: Callable[[Any], Any], indices: int, tokens: int) -> float:
    """Probability of labels that several of many random fields share to the last digit."""
    fields = np.random.default_rng(2).standard_normal((_POLICY.many, indices, tokens))
    counts = np.unique(mapped(flat, fields), axis=0, return_counts=True)[1]
    return float(counts[counts > 1].sum() / _POLICY.many)


def _of_law(link: Callable[[Any], Any], safe: Link, law: LabelLaw, noise: float, points: int) -> Channel:
    if noise != 0:
        raise IncompatibleError(f"noise = {noise} and noise_law = {law.label} exclude each other: give one of them")
    if safe.shape == (1, 1) and safe.label_shape == ():
        from glassformer.channels.multi_index.single_index import SingleIndexLabelLaw

        channel = SingleIndexLabelLaw.of(safe, law)
        if channel is not None:
            return channel
    from glassformer.channels.multi_index.likelihood_rows import LikelihoodRowsChannel

    _require_traceable(safe)
    flat, (indices, tokens) = _flattened(link), safe.shape
    symmetric = row_symmetries(flat, indices, tokens, False)
    return LikelihoodRowsChannel(flat, indices, tokens, safe.label_shape, symmetric, law, points=points)


def _confused(link: Callable[[Any], Any], safe: Link, law: ConfusionLaw, noise: float, points: int) -> Channel:
    """Few values, exchanged for one another."""
    if noise != 0:
        raise IncompatibleError(f"noise = {noise} and noise_law = {law.label} exclude each other: give one of them")
    indices, tokens = safe.shape
    if indices * tokens == 1 and safe.label_shape == ():
        from glassformer.channels.multi_index.single_index import SingleIndexLabelNoise

        return SingleIndexLabelNoise(safe, law)
    from glassformer.channels.multi_index.label_noise import MislabelledRowsChannel

    _require_traceable(safe)
    flat = _flattened(link)
    values = np.unique(safe(np.random.default_rng(2).standard_normal((_POLICY.many, indices, tokens))), axis=0)
    if len(values) > _POLICY.few:
        raise IncompatibleError(
            f"noise_law = {law.label} is for labels of at most {_POLICY.few} values, not {len(values)}: "
            "give noise instead"
        )
    symmetric = row_symmetries(flat, indices, tokens, True)
    # What relabels without noise need not do so with it.
    symmetric = symmetric._replace(relabellings=symmetric.invariances)
    alphabet = NoisyAlphabet.of(values, law)
    shape = (indices, tokens, safe.label_shape)
    return MislabelledRowsChannel(flat, *shape, symmetric, 1.0, points=points, alphabet=alphabet)


def _require_traceable(link: Link) -> None:
    error = trace_error(link.function, link.shape)
    if error is not None:
        raise _untraceable(link, error) from error


def _untraceable(link: Link, error: Exception) -> LinkError:
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return link.error(
        f"a function that JAX can trace on Z of shape {link.shape} ({type(error).__name__}: {cause})",
        "write it with jax.numpy, without if on values of Z and without numpy calls",
    )


def _flattened(link: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda fields: jnp.ravel(jnp.asarray(link(fields), dtype=jnp.float64))
