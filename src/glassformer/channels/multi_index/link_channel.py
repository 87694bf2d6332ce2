"""The channel of a user's function of the projections: the method that integrates it depends on its labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.channels.base import Channel
from glassformer.channels.confusion import ConfusionLaw, NoisyAlphabet, confusion_law, distinct_labels
from glassformer.channels.label_laws import label_law
from glassformer.channels.link.contract import Link
from glassformer.channels.link.tracing import trace_error
from glassformer.channels.multi_index.conditionally_linear import (
    ConditionallyLinearChannel,
    rows_of_linear_labels,
)
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.line_channel import LineChannel
from glassformer.channels.multi_index.link_rows import (
    THICK_SHELL,
    LikelihoodRowsChannel,
    NoisyLinkRowsChannel,
    shell_effort,
)
from glassformer.channels.multi_index.link_symmetries import row_symmetries
from glassformer.channels.multi_index.mislabelled_rows import MislabelledRowsChannel
from glassformer.channels.multi_index.noiseless_labels import NoiselessLinkRowsChannel, NormalScores
from glassformer.channels.multi_index.noisy_line_channel import NoisyLineChannel
from glassformer.channels.multi_index.single_index import SingleIndexLabelLaw, SingleIndexLabelNoise, SingleIndexLink
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.channels.sampling_limits import require_noise
from glassformer.core.cache import memoize
from glassformer.core.checks import require_integer, require_name
from glassformer.core.errors import IncompatibleError, LinkError
from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_points

LABEL_TYPES = ("auto", "discrete", "continuous")

# Random fields on which a link is tried, and number of distinct labels among them up to which it is discrete.
_TRIALS, _FEW_LABELS = 512, 32
# Random fields that show the atoms of a continuous label, and the values of a discrete one with label noise: a value of
# probability 1e-4 is missed with probability 2e-6.
_MANY_FIELDS, _FIELDS_FOR_VALUES = 2**14, 2**17
# Share of the noise in the variance of labels whose latents links of several entries that jump need, because the parts
# of their posteriors are far apart (measured: with the latents of smooth links results are wrong by four errors).
_SHARE_AT_JUMPS = 1 / 64
# Halvings of the segments between random fields that find jumps, and share of the largest label that is a jump.
_HALVINGS, _JUMP = 40, 1e-6
# Variance of the regularising noise of noiseless labels, on the scale of normal scores (measured).
_SMALL_NOISE = 3e-4
# Work per data point of continuous labels of several entries without noise: the posterior is a thin shell around a
# level set. More starts and latents follow it, for an eighth of the data points, but no fewer than 32.
_THIN_SHELL, _FEWER_POINTS, _FEWEST_POINTS = Effort(points=256, starts=32, steps=12), 8, 32

# Errors that JAX raises where a link compares its fields or hands them to NumPy.
_CALLS_NUMPY = jax.errors.TracerArrayConversionError | jax.errors.TracerBoolConversionError


@dataclass(frozen=True)
class LabelSettings:
    r"""How labels follow from the values of a link.

    Attributes:
        noise: variance :math:`\Delta\ge 0` of Gaussian noise on every entry of the label.
        label_type: ``"discrete"``, ``"continuous"``, or ``"auto"`` to decide from sampled labels.
        noise_law: law of labels around the link, instead of Gaussian noise: a
            :class:`~glassformer.channels.label_laws.LabelLaw` or, for discrete labels, a
            :class:`~glassformer.channels.confusion.ConfusionLaw`, or the name of one.
    """

    noise: float = 0.0
    label_type: str = "auto"
    noise_law: object = None


NOISELESS = LabelSettings()


def link_channel(
    link: Callable[[Any], Any],
    indices: int,
    tokens: int,
    settings: LabelSettings = NOISELESS,
    points: int = 2048,
    symmetries: RowSymmetries | None = None,
) -> Channel:
    r"""Return the channel of ``y = link(Z)``, with the noise of the settings.

    ================================ ====================================================================
    labels                           averages over data
    ================================ ====================================================================
    one entry, two fields            sums over grids, of discrete labels and of labels with normal noise that is not
                                     very small; nothing but the link is compiled
    others with noise or a label law importance sampling; for several entries with noise below a
                                     twentieth of the label's variance more latents on fewer data points
    one entry, noise below that      the same as without noise, the noise being one more row; for links that jump
                                     with any noise
    one entry, conditionally linear  quasi-Monte Carlo over the rows in which labels are piecewise constant, the others,
                                     in which they are linear, in closed form; noise is one more of these
    one entry, or discrete, no noise integrals over level sets along lines
    several continuous entries       a small regularising noise on normal scores, or nearest labels
    one index and one token          quadrature, as for scalar channels
    ================================ ====================================================================

    Errors of sampled averages include the bias, estimated from fewer latents, places or draws, or from longer cells.

    Args:
        link: function from the fields of one sample, shape (P, L), to a number or an array, which JAX can trace; with
            one index and one token NumPy functions do as well.
        indices: ``P``.
        tokens: ``L``.
        settings: noise and type of the labels.
        points: data points per replica of sampled averages, a power of two.
        symmetries: symmetries of the link; by default, signed permutations of the rows are tried.

    Raises:
        LinkError: the link fails, is random, not finite, or not traceable; or for one index and one token it returns
            an array of one number.
        ParameterError: an argument is out of range.
        IncompatibleError: discrete labels with noise.

    Example:
        >>> channel = link_channel(lambda z: jnp.sum(z) + z[0, 0] ** 2, 2, 1, LabelSettings(noise=0.1))
        >>> channel.fields.shape, channel.labels.shape
        ((2, 1), ())
    """
    for name, value in (("indices", indices), ("tokens", tokens)):
        require_integer(name, value)
    noise, label_type, noise_law = settings.noise, settings.label_type, settings.noise_law
    require_noise(noise)
    require_name("label_type", label_type, LABEL_TYPES)
    trial: _Trial = memoize(lambda: _try(link, indices, tokens), "link of rows", link, indices, tokens)
    shape = trial.link.label_shape
    if indices * tokens == 1 and shape != () and trial.labels.shape[1] == 1:
        raise trial.link.error(f"a number, not an array of shape {shape}", "return one entry of it, such as Z[0, 0]")
    scalar = indices * tokens == 1 and shape == ()
    if trial.error is not None and not (scalar and isinstance(trial.error, _CALLS_NUMPY)):
        raise _untraceable(trial.link, trial.error) from trial.error
    confusion = confusion_law(noise_law)
    law = label_law(noise_law) if noise_law is not None and confusion is None else None
    given = confusion if law is None else law
    if given is not None and noise != 0:
        raise IncompatibleError(f"noise = {noise} and noise_law = {given.label} exclude each other: give one of them")
    labels = trial.labels
    discrete = label_type == "discrete" or (label_type == "auto" and len(distinct_labels(labels)) <= _FEW_LABELS)
    # A constant link is refused elsewhere, with a message of its own.
    if given is None and discrete and noise > 0 and np.ptp(labels, axis=0).max() > 0:
        raise IncompatibleError(
            f"noise = {noise} and discrete labels exclude each other: use noise = 0, or label_type = continuous for "
            "normal noise on the values of the labels"
        )
    if scalar and confusion is not None:
        return SingleIndexLabelNoise(trial.link, confusion)
    if scalar:
        channel = SingleIndexLink(trial.link, noise) if law is None else SingleIndexLabelLaw.of(trial.link, law)
        if channel is not None:
            return channel
    if trial.error is not None:
        raise _untraceable(trial.link, trial.error) from trial.error

    def flat(fields: jax.Array) -> jax.Array:
        return jnp.ravel(jnp.asarray(link(fields), dtype=jnp.float64))

    parts = (flat, indices, tokens, trial.link.label_shape)
    if confusion is not None:
        return _label_noise_channel(parts, trial.link, confusion, points)
    if law is not None:
        return LikelihoodRowsChannel(*parts, row_symmetries(flat, indices, tokens, False), law, points=points)
    symmetric = symmetries or row_symmetries(flat, indices, tokens, discrete)
    if noise > 0:
        share = noise / max(float(np.mean(np.var(labels, axis=0))), noise)
        jumps: bool = memoize(lambda: _jumps(flat, indices, tokens), "link jumps", link, indices, tokens)
        if labels.shape[1] == 1 and (share < THICK_SHELL or jumps):
            return NoisyLineChannel(*parts, symmetric, noise, points=points, jumps=jumps)
        effort, fewer = shell_effort(min(share, _SHARE_AT_JUMPS) if jumps else share)
        points = max(_FEWEST_POINTS, points // fewer)
        return NoisyLinkRowsChannel(*parts, symmetric, noise, effort=effort, points=points, jumps=jumps)
    linear = rows_of_linear_labels(flat, indices, tokens) if not discrete and labels.shape[1] == 1 else ()
    if linear:
        return ConditionallyLinearChannel(*parts, symmetric, linear, points=points)
    if discrete or labels.shape[1] == 1:
        return LineChannel(*parts, symmetric, 1.0 if discrete else _atoms(flat, indices, tokens), points=points)
    points, scale = max(_FEWEST_POINTS, points // _FEWER_POINTS), NormalScores.of(labels)
    return NoiselessLinkRowsChannel(*parts, symmetric, _SMALL_NOISE, scale, effort=_THIN_SHELL, points=points)


class _Trial(NamedTuple):
    """Results of evaluating a link on random fields.

    Attributes:
        link: the link, wrapped for evaluation on many samples.
        labels: of random fields, shape (n, entries).
        error: error that JAX raises when it traces the link; None if tracing succeeds.
    """

    link: Link
    labels: Array
    error: Exception | None


def _try(link: Callable[[Any], Any], indices: int, tokens: int) -> _Trial:
    safe = Link(link, (indices, tokens), "link")
    safe.require_finite()
    fields = np.random.default_rng(0).standard_normal((_TRIALS, indices, tokens))
    labels = safe(fields).reshape(_TRIALS, -1)
    return _Trial(safe, labels, trace_error(safe.function, safe.shape))


def _untraceable(link: Link, error: Exception) -> LinkError:
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return link.error(
        f"a function that JAX can trace on Z of shape {link.shape} ({type(error).__name__}: {cause})",
        "write it with jax.numpy, without if on values of Z and without numpy calls",
    )


def _label_noise_channel(parts: tuple[Any, Any, Any, Any], link: Link, law: ConfusionLaw, points: int) -> Channel:
    flat, indices, tokens, _ = parts
    values = distinct_labels(link(np.random.default_rng(2).standard_normal((_FIELDS_FOR_VALUES, indices, tokens))))
    if len(values) > _FEW_LABELS:
        raise IncompatibleError(
            f"noise_law = {law.label} is for labels of at most {_FEW_LABELS} values, not {len(values)}: "
            "give noise instead"
        )
    symmetric = row_symmetries(flat, indices, tokens, True)
    # With label noise, a symmetry that relabels noiseless labels need not be a relabelling.
    symmetric = symmetric._replace(relabellings=symmetric.invariances)
    return MislabelledRowsChannel(*parts, symmetric, 1.0, points=points, alphabet=NoisyAlphabet.of(values, law))


def _jumps(flat: Callable[[Any], Any], indices: int, tokens: int) -> bool:
    """Return whether labels jump: whether a change between two random fields remains while the fields approach."""
    low, high = np.random.default_rng(3).standard_normal((2, _TRIALS, indices, tokens))
    first, last = map_points(flat, low), map_points(flat, high)
    size = np.maximum(np.max(np.abs(first), axis=0), np.finfo(float).tiny)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        label = map_points(flat, middle)
        here = np.linalg.norm((label - first) / size, axis=1) > np.linalg.norm((last - label) / size, axis=1)
        low, high = (np.where(here[:, None, None], *pair) for pair in ((low, middle), (middle, high)))
        first, last = (np.where(here[:, None], *pair) for pair in ((first, label), (label, last)))
    return bool(np.any(np.abs(last - first) > _JUMP * size))


def _atoms(flat: Callable[[Any], Any], indices: int, tokens: int) -> float:
    """Return the probability of labels that several of many random fields share to the last digit."""
    fields = np.random.default_rng(2).standard_normal((_MANY_FIELDS, indices, tokens))
    counts = np.unique(map_points(flat, fields), axis=0, return_counts=True)[1]
    return float(counts[counts > 1].sum() / _MANY_FIELDS)
