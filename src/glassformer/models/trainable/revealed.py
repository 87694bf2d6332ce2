"""Training errors on inputs that are only revealed along directions.

Such inputs are no array that a compiled function could read: signals, errors of fields and their derivatives are
compiled, and the products between them are those of the design.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from glassformer.core.estimate import Array
from glassformer.numerics.cached_jit import CachedJit

if TYPE_CHECKING:
    from glassformer.designs.revealed import RevealedDesign

Arrays = tuple[jax.Array, ...]


def revealed_data(design: RevealedDesign, labels: Array) -> tuple[NDArray[Any], ...]:
    """Return labels and numbers of the samples, the data of a student on revealed inputs."""
    return labels, np.arange(design.samples, dtype=np.int32)


@dataclass(frozen=True)
class RevealedLoss:
    """Training errors of all starts on some of the samples of revealed inputs, and their gradient.

    Attributes:
        design: the inputs.
        signals: signals of all starts from the parameters, traceable.
        error: ``error(fields, labels, *more)``, training errors of all starts, traceable. Fields have the shape
            (starts, samples, ...).
    """

    design: RevealedDesign
    signals: Callable[[Arrays], jax.Array]
    error: Callable[..., jax.Array]

    def __call__(self, parameters: Arrays, data: Arrays) -> jax.Array:
        """Return the training errors, shape (starts,), on data of :func:`revealed_data` and further arguments."""
        errors: jax.Array = CachedJit(_errors, error=self.error)(self._fields(parameters), *data)
        return errors

    def gradient(self, parameters: Arrays, data: Arrays) -> Arrays:
        """Return the gradient of the sum of the training errors in the parameters."""
        scores = np.asarray(CachedJit(_scores, error=self.error)(self._fields(parameters), *data), dtype=float)
        slopes = np.stack([self.design.metric * self.design.adjoint(one, 0) for one in scores])
        gradient: Arrays = CachedJit(_pulled_back, signals=self.signals)(parameters, slopes.astype(parameters[0].dtype))
        return gradient

    def _fields(self, parameters: Arrays) -> Array:
        signals = CachedJit(_signals, signals=self.signals)(parameters)
        fields = [self.design.forward(one, 0) for one in np.asarray(signals, dtype=float)]
        return np.stack(fields).astype(signals.dtype)


def _signals(parameters: Arrays, signals: Callable[[Arrays], jax.Array]) -> jax.Array:
    return signals(parameters)


def _errors(
    fields: jax.Array, labels: jax.Array, chosen: jax.Array, *more: jax.Array, error: Callable[..., jax.Array]
) -> jax.Array:
    return error(fields[:, chosen], labels, *more)


def _scores(fields: jax.Array, *data: jax.Array, error: Callable[..., jax.Array]) -> jax.Array:
    """Return the derivative of the errors in the fields, zero for samples that are not chosen."""
    return jax.grad(lambda fields: jnp.sum(_errors(fields, *data, error=error)))(fields)


def _pulled_back(parameters: Arrays, slopes: jax.Array, signals: Callable[[Arrays], jax.Array]) -> Arrays:
    """Return derivatives in the parameters from those in the signals."""
    gradient: Arrays = jax.vjp(signals, parameters)[1](slopes)[0]
    return gradient
