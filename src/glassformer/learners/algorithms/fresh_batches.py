r"""Gradient descent on batches of samples that are never seen again.

.. math:: W \leftarrow W - \eta\,\nabla_W\frac1{2b}\sum_{\mu\in B}\bigl\|g(WX_\mu^T/\sqrt d) - y_\mu\bigr\|^2
   - \frac{\eta w}dW
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.errors import ParameterError
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.solution import Status
from glassformer.learners.algorithms.row_descent import Passed
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.numerics.sequences import diverges

if TYPE_CHECKING:
    from glassformer.learners.online_sgd import OnlineSGD

# Numbers of the inputs that one compiled call goes through.
_AT_ONCE = 1 << 22
# Weight at which descent counts as diverging: the teacher's are of order one.
_DIVERGED = 1e6


def fresh_batches(
    design: Any,
    labels: Array,
    link: Callable[[Any], Any],
    weights: Array,
    settings: OnlineSGD,
    watch: Callable[[Array], dict[str, Any]] | None = None,
) -> Passed:
    r"""Train the rows of ``weights`` in one pass over the first instance of a design of one head.

    Equation :eq:`online-steps` of the documentation.

    Args:
        design: inputs, stored or generated.
        labels: shape (samples, ...).
        link: traceable function from ``Z``, shape (P, L), to a label.
        weights: initial weights, shape (P, d).
        settings: batch, learning rate and weight decay, and how often to look.
        watch: called with the weights at the start and after equal shares of the samples; what it returns is recorded,
            with the number of ``samples`` so far and the ``time``, steps over dimension.

    Raises:
        ParameterError: fewer samples than a batch has.

    Example:
        >>> from glassformer.learners.online_sgd import OnlineSGD
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> rng = np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(400, (1, 20), rng), rng.standard_normal((1, 20))
        >>> labels, start = design.forward(teacher, 0)[:, 0, 0], rng.standard_normal((1, 20))
        >>> found = fresh_batches(design, labels, lambda z: z[0, 0], start, OnlineSGD(learning_rate=0.5, batch=1))
        >>> found.steps, bool(np.max(np.abs(found.weights - teacher)) < 0.05)
        (400, True)
    """
    if settings.batch > design.samples:
        allowed = f"at most the number of samples, {design.samples}"
        raise ParameterError("batch", settings.batch, allowed, "raise alpha or d")
    d, batch, looks = weights.shape[1], settings.batch, settings.looks
    steps, watch = design.samples // batch, watch or (lambda weights: {})
    ends = np.rint(np.arange(looks + 1) * steps / looks).astype(int)
    size = min(max(1, _AT_ONCE // (batch * design.inputs_per_sample)), -(-steps // looks))
    stream, flat = _Stream(design.parts()), np.asarray(labels, dtype=float).reshape(len(labels), -1)
    rates = np.array([settings.learning_rate, settings.learning_rate * settings.weight_decay / d])

    def record(step: int, current: Array) -> dict[str, Any]:
        return {"samples": step * batch, "time": step / d, **watch(current)}

    current = previous = np.asarray(weights, dtype=float)
    records, powers = [record(0, current)], [_power(current)]
    for begin, end in pairwise(ends):
        previous = current
        for first in range(begin, end, size):
            count = min(size, end - first)
            inputs = stream.take(count * batch)
            targets = flat[first * batch : (first + count) * batch]
            current = _descended(link, rates, current, inputs, targets, batch)
        if not np.max(np.abs(current)) < _DIVERGED:
            status = Status.NON_FINITE if np.isnan(current).any() else Status.DIVERGING
            return Passed(previous, int(begin), status, np.inf, records)
        powers.append(_power(current))
        records.append(record(int(end), current))
        note(f"step {end} of {steps}")
    moved = float(np.linalg.norm(current - previous) / np.linalg.norm(current))
    grows = diverges(ends.astype(float), np.array(powers), max(1.0, powers[0]))
    return Passed(current, steps, Status.DIVERGING if grows else Status.CONVERGED, moved, records)


def _power(weights: Array) -> float:
    """Largest power of a row."""
    return float(np.max(np.mean(weights**2, axis=1)))


@dataclass
class _Stream:
    """Samples in order, of whatever parts they come in."""

    parts: Iterator[Array]
    left: Array | None = None

    def take(self, count: int) -> Array:
        """The next so many samples."""
        found: list[Array] = []
        while count > 0:
            here = next(self.parts) if self.left is None else self.left
            found.append(here[:count])
            self.left = here[count:] if len(here) > count else None
            count -= len(found[-1])
        return found[0] if len(found) == 1 else np.concatenate(found)


def _descended(
    link: Callable[[Any], Any], rates: Array, weights: Array, inputs: Array, targets: Array, batch: int
) -> Array:
    """Weights after one step on each of consecutive batches."""
    with jax_settings():
        x, y = (jnp.asarray(part, dtype=float) for part in (inputs, targets))
        grouped = (part.reshape(-1, batch, *part.shape[1:]) for part in (x, y))
        return np.asarray(CachedJit(_steps, link=link)(jnp.asarray(rates), jnp.asarray(weights), *grouped))


def _steps(rates: Any, weights: Any, inputs: Any, targets: Any, link: Callable[[Any], Any]) -> Any:
    def loss(weights: Any, x: Any, y: Any) -> Any:
        fields = jnp.swapaxes(x @ weights.T, 1, 2) / np.sqrt(x.shape[-1])
        found = jax.vmap(link)(fields).reshape(len(x), -1)
        return 0.5 * jnp.sum((found - y) ** 2) / len(x)

    def step(weights: Any, batch: Any) -> Any:
        rate, decay = rates
        return weights - rate * jax.grad(loss)(weights, *batch) - decay * weights, None

    return jax.lax.scan(step, weights, (inputs, targets))[0]
