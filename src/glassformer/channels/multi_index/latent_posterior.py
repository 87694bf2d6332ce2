"""The functions that define a posterior of latent normal variables, compiled once for all channels that are alike."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from glassformer.core.estimate import Array
from glassformer.numerics.batching import map_points

Datum = tuple[jax.Array, ...]
"""The observation, the mean fields of shape (P, K), and the lower triangular root of their posterior covariance.

The root has the shape (P, P). With charts a datum is what ``on_chart`` returns, and the kind if there are several.
"""


def identity_image(x: jax.Array, datum: Datum) -> jax.Array:
    """Return the images of a latent if no symmetry is known: the latent alone, shape (1, m)."""
    del datum
    return x[None]


def prior_start(x: jax.Array, datum: Datum) -> jax.Array:
    """Return the start of the search for modes if every latent is possible: the draw from the prior itself."""
    del datum
    return x


def same_datum(datum: Datum, kind: int, number: int) -> Datum:
    """Return the datum of the only chart."""
    del kind, number
    return datum


class LatentPosterior(NamedTuple):
    r"""Likelihood of latent variables ``x`` of shape (m,), prior standard normal, as traceable functions.

    The second argument of all functions but ``label`` is the datum.

    Attributes:
        target: residuals of the ``s`` branches, shape (s, k), and their log-weights, shape (s,).
        features: quantities to average on each branch, shape (s, f): the whitened deviations
            :math:`R^{-1}(z - \omega)` of all fields, f = P K.
        label: noiseless label of fields of shape (P, K).
        images: a latent and its images under involutions that leave the likelihood as it is, shape (i, m).
        start: a possible latent from a draw of the prior, at which the search for modes begins.
        charts: numbers of charts of every kind. Charts of one kind are compiled and computed together.
        on_chart: arrays that the functions need, from the datum, the kind of a chart and its number among its kind.
        all_fields: whether the latents are the deviations themselves, on one branch. Their prior moments are then
            control variates.
    """

    target: Callable[[jax.Array, Datum], tuple[jax.Array, jax.Array]]
    features: Callable[[jax.Array, Datum], jax.Array]
    label: Callable[[jax.Array], jax.Array]
    images: Callable[[jax.Array, Datum], jax.Array] = identity_image
    start: Callable[[jax.Array, Datum], jax.Array] = prior_start
    charts: tuple[int, ...] = (1,)
    on_chart: Callable[[Datum, int, int], Datum] = same_datum
    all_fields: bool = False


class PosteriorFamily(NamedTuple):
    """Functions that differ in a few numbers only: they are compiled once for all values of these numbers.

    Attributes:
        make: returns the functions of given numbers. It may not branch on them: they are traced.
        numbers: the numbers of one channel.
    """

    make: Callable[..., Any]
    numbers: tuple[float, ...] = ()

    def functions(self) -> Any:
        """Return the functions of this channel."""
        return self.make(*self.numbers)

    def evaluate(self, data: Array) -> Array:
        """Return the values of a family of single functions at every data point."""
        return np.asarray(map_points(partial(_evaluate, self.make), np.asarray(data, dtype=float), *self.numbers))


def _evaluate(make: Callable[..., Any], datum: jax.Array, *numbers: jax.Array) -> jax.Array:
    return make(*numbers)(datum)
