r"""Stochastic gradient descent on the weights of a network whose labels are functions of a few projections.

.. math:: \mathcal L_B(W) = \tfrac1d\sum_{\mu\in B}\bigl\|g(WX_\mu^T/\sqrt d) - y_\mu\bigr\|^2,

a few steps on every batch ``B``, pass after pass over the same data, with weight decay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.designs.projection import ProjectionDesign
from glassformer.integral import Array
from glassformer.settings import MultiPass
from glassformer.solution import Status

# Published: learning rate, and weight decay times the dimension.
LEARNING_RATE, DECAY = 15.0, 0.07
# Share of the passes at the end over which rows must stand still, and how still, to have converged.
_LATE, _STILL = 0.2, 0.01
# Share of the first training error below which something was learned.
_LEARNED = 0.9


class Passed(NamedTuple):
    """Weights after the last pass, gradient steps taken, how training ended, and how far rows still moved."""

    weights: Array
    steps: int
    status: Status
    residual: float


def row_descent(
    design: ProjectionDesign,
    labels: Array,
    link: Callable[[Any], Any],
    weights: Array,
    settings: MultiPass,
    rng: np.random.Generator,
    watch: Callable[[float, Array], None] | None = None,
) -> Passed:
    r"""Train the rows of ``weights`` on the first instance of a design of one head.

    Args:
        design: inputs.
        labels: shape (samples, ...).
        link: traceable function from ``Z``, shape (P, L), to a label.
        weights: initial weights, shape (P, d).
        settings: batches, steps on each, passes, learning rate and weight decay.
        rng: order of the samples in every pass.
        watch: called with the passes made so far, a fraction, and the weights, several times in each.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(400, (1, 20), rng), rng.standard_normal((1, 20))
        >>> link = lambda z: jnp.tanh(z[0, 0])
        >>> labels = np.tanh(design.forward(teacher, 0)[:, 0, 0])
        >>> start = rng.standard_normal((1, 20))
        >>> found = row_descent(design, labels, link, start, MultiPass(batch=50, learning_rate=2.0), rng)
        >>> bool(np.sum(found.weights * teacher) > 0.9 * np.linalg.norm(found.weights) * np.linalg.norm(teacher))
        True
    """
    samples, d = design.samples, design.signal_shape[1]
    batch = min(settings.batch, samples)
    rate = settings.learning_rate or LEARNING_RATE
    decay = rate * (DECAY if settings.weight_decay is None else settings.weight_decay) / d
    blocks = max(1, samples // batch)
    size = -(-blocks // settings.looks)
    kept: list[Array] = []
    with jax.enable_x64(True):
        inputs, targets = jnp.asarray(design.inputs[0], dtype=float), jnp.asarray(labels, dtype=float)
        current, steps = jnp.asarray(weights, dtype=float), 0
        before = float(_loss(link, current, inputs, targets))
        for number in range(settings.passes):
            order = rng.permutation(samples)[: blocks * batch].reshape(blocks, batch)
            for begin in range(0, blocks, size):
                part = jnp.asarray(order[begin : begin + size])
                current = _batches(link, settings.repeats, rate, decay, current, inputs, targets, part)
                steps += settings.repeats * len(part)
                found = np.asarray(current)
                if not np.all(np.isfinite(found)):
                    return Passed(kept[-1] if kept else weights, steps, Status.NON_FINITE, np.inf)
                if watch is not None:
                    watch(number + min(begin + size, blocks) / blocks, found)
            kept.append(found)
            del kept[: -1 - max(1, int(_LATE * settings.passes))]
        after = float(_loss(link, current, inputs, targets))
    residual = float(np.linalg.norm(kept[-1] - kept[0]) / np.linalg.norm(kept[-1])) if len(kept) > 1 else np.inf
    # Rows that stand still without having learned do so for want of a gradient, or of a step.
    learned = after <= _LEARNED * before
    status = Status.CONVERGED if residual <= _STILL and learned else Status.ITERATION_LIMIT
    return Passed(kept[-1], steps, status, residual)


@partial(jax.jit, static_argnames="link")
def _loss(link: Callable[[Any], Any], weights: Any, inputs: Any, labels: Any) -> Any:
    fields = jnp.swapaxes(inputs @ weights.T, 1, 2) / np.sqrt(inputs.shape[-1])
    predicted = jax.vmap(link)(fields).reshape(len(inputs), -1)
    return jnp.sum((predicted - labels.reshape(len(inputs), -1)) ** 2) / inputs.shape[-1]


@partial(jax.jit, static_argnames=("link", "repeats"))
def _batches(
    link: Callable[[Any], Any], repeats: int, rate: Any, decay: Any, weights: Any, inputs: Any, labels: Any, order: Any
) -> Any:
    def one(weights: Any, chosen: Any) -> Any:
        x, y = inputs[chosen], labels[chosen]
        step = lambda _, w: w - rate * jax.grad(_loss, argnums=1)(link, w, x, y) - decay * w  # noqa: E731
        return jax.lax.fori_loop(0, repeats, step, weights), None

    return jax.lax.scan(one, weights, order)[0]
