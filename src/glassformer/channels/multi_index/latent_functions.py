"""The functions of a channel of latent variables: what is compiled, once for all channels that are alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.batching import mapped

Target = Callable[[Any, Any], tuple[Any, Any]]
"""``target(x, datum)``: residuals of the branches, (s, k), and their log-weights, (s,), at a latent of shape (m,)."""
Images = Callable[[Any, Any], Any]
"""``images(x, datum)``: a latent and its images under symmetries of the likelihood, involutions, shape (i, m)."""
Features = Callable[[Any, Any], Any]
"""``features(x, datum)``: what to average on each branch, shape (s, f)."""


def itself(x: Any, datum: Any) -> Any:
    """The images of a latent where no symmetry is known: itself.

    Example:
        >>> itself(np.zeros(2), None).shape
        (1, 2)
    """
    del datum
    return x[None]


def anywhere(x: Any, datum: Any) -> Any:
    """Where the search for modes begins if every latent is possible: where the prior says."""
    del datum
    return x


class Functions(NamedTuple):
    r"""What is compiled: the same objects for all channels that are alike.

    Attributes:
        target: residuals and log-weights of the branches at a latent; a datum is what is observed, the mean fields,
            shape (P, K), and the root of their posterior covariance, shape (P, P).
        features: whitened deviations :math:`x = R^{-1}(z - \omega)` of all fields on each branch, shape (s, P K).
        label: the label of fields of shape (P, K), without noise.
        images: a latent and its images under symmetries of the likelihood: every mode stands for its images as well.
        entrance: a latent that is possible, from one drawn from the prior.
        charts: number of charts; if there are several, their index is the last entry of the datum of all functions.
        whole: whether latents are the deviations themselves, on one branch: their moments are known where labels say
            nothing.
    """

    target: Target
    features: Features
    label: Any
    images: Images = itself
    entrance: Callable[[Any, Any], Any] = anywhere
    charts: int = 1
    whole: bool = False


class Family(NamedTuple):
    """Functions that differ in some numbers alone: compiled once, they serve all values.

    Attributes:
        make: the functions from these numbers, which it may not look at: while it is compiled they are not known.
        numbers: those of one channel.
    """

    make: Callable[..., Any]
    numbers: tuple[float, ...] = ()

    @property
    def own(self) -> Any:
        """The functions of this channel."""
        return self.make(*self.numbers)

    def mapped(self, data: Array) -> Array:
        """Where what is made is one function: its values at every data point."""
        return np.asarray(mapped(partial(_called, self.make), np.asarray(data, dtype=float), *self.numbers))


def _called(make: Callable[..., Any], datum: Any, *numbers: Any) -> Any:
    return make(*numbers)(datum)
