r"""Stochastic gradient descent on the weights of a network whose labels are functions of a few projections.

.. math:: \mathcal L_B(W) = \tfrac1d\sum_{\mu\in B}\bigl\|g(WX_\mu^T/\sqrt d) - y_\mu\bigr\|^2,

a few steps on every batch ``B``, pass after pass over the same data, with weight decay.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer.core.checkpoints import Checkpoint, pack_records, unpack_records
from glassformer.core.estimate import Array
from glassformer.core.progress import note
from glassformer.core.resources import require_resources
from glassformer.core.solution import Status
from glassformer.designs.projection import ProjectionDesign
from glassformer.learners.base import FitResult
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings

if TYPE_CHECKING:
    from glassformer.learners.sgd import SGD

# Published: learning rate, and weight decay times the dimension.
LEARNING_RATE, DECAY = 15.0, 0.07


@dataclass(frozen=True)
class Settled:
    """When descent has converged."""

    late: float = 0.2  # share of the passes, the last ones, over which rows must stand still
    still: float = 0.01  # how far they may move then
    learned: float = 0.9  # share of the first training error below which something was learned


_POLICY = Settled()


class Passed(NamedTuple):
    """Weights in the end, gradient steps taken, how training ended, how far rows still moved, and records."""

    weights: Array
    steps: int
    status: Status
    residual: float
    records: list[dict[str, Any]]

    @property
    def reached(self) -> FitResult:
        """As a learner says it."""
        return FitResult(
            self.weights[None], status=self.status, iterations=self.steps, residual=self.residual, history=self.records
        )


@dataclass
class _Run:
    """Weights after each of the last passes, gradient steps, records."""

    kept: list[Array]
    steps: int
    records: list[dict[str, Any]]

    def arrays(self) -> dict[str, Array]:
        return {"kept": np.array(self.kept), "steps": np.array(self.steps), **pack_records(self.records)}

    @classmethod
    def restored(cls, arrays: dict[str, Array]) -> _Run:
        return cls(list(arrays["kept"]), int(arrays["steps"]), unpack_records(arrays))


def row_descent(
    design: ProjectionDesign,
    labels: Array,
    link: Callable[[Any], Any],
    weights: Array,
    settings: SGD,
    rng: np.random.Generator,
    watch: Callable[[Array], dict[str, Any]] | None = None,
    checkpoint: Checkpoint | None = None,
) -> Passed:
    r"""Train the rows of ``weights`` on the first instance of a design of one head.

    Equation :eq:`batches` of the documentation.

    Args:
        design: inputs.
        labels: shape (samples, ...).
        link: traceable function from ``Z``, shape (P, L), to a label.
        weights: initial weights, shape (P, d).
        settings: batches, steps on each, passes, learning rate and weight decay.
        rng: order of the samples in every pass.
        watch: called with the weights several times in each pass; what it returns is recorded,
            with the ``passes`` made, a fraction.
        checkpoint: where to continue from, and to leave the state now and then; the outcome is that of one go.

    Example:
        >>> from glassformer.learners.sgd import SGD
        >>> rng = np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(400, (1, 20), rng), rng.standard_normal((1, 20))
        >>> link = lambda z: jnp.tanh(z[0, 0])
        >>> labels = np.tanh(design.forward(teacher, 0)[:, 0, 0])
        >>> start = rng.standard_normal((1, 20))
        >>> found = row_descent(design, labels, link, start, SGD(batch=50, learning_rate=2.0), rng)
        >>> bool(np.sum(found.weights * teacher) > 0.9 * np.linalg.norm(found.weights) * np.linalg.norm(teacher))
        True
    """
    samples, d = design.samples, design.signal_shape[1]
    steps = float(settings.passes) * settings.repeats
    kept, work = 8 * _POLICY.late * settings.passes * weights.size, 6 * steps * design.inputs.size * len(weights)
    require_resources("passes", settings.passes, kept, "train for fewer passes", work, "weights")
    batch = min(settings.batch, samples)
    rate = settings.learning_rate or LEARNING_RATE
    decay = rate * (DECAY if settings.weight_decay is None else settings.weight_decay) / d
    blocks = max(1, samples // batch)
    size = -(-blocks // settings.looks)
    # Every pass has an order of its own, which does not depend on where the run began.
    key, checkpoint = int(rng.integers(2**63)), checkpoint or Checkpoint()
    watch = watch or (lambda weights: {})
    stored = checkpoint.load()
    run = _Run([np.asarray(weights)], 0, []) if stored is None else _Run.restored(stored)
    with jax_settings():
        inputs, targets = jnp.asarray(design.inputs[0], dtype=float), jnp.asarray(labels, dtype=float)
        loss = CachedJit(_loss, link=link)
        before = float(loss(jnp.asarray(weights, dtype=float), inputs, targets))
        for number in range(run.steps // (settings.repeats * blocks), settings.passes):
            order = np.random.default_rng([key, number]).permutation(samples)[: blocks * batch].reshape(blocks, batch)
            current = jnp.asarray(run.kept[-1], dtype=float)
            for begin in range(0, blocks, size):
                part = jnp.asarray(order[begin : begin + size])
                current = _batches(link, settings.repeats, rate, decay, current, inputs, targets, part)
                run.steps += settings.repeats * len(part)
                found = np.asarray(current)
                if not np.all(np.isfinite(found)):
                    return Passed(run.kept[-1], run.steps, Status.NON_FINITE, np.inf, run.records)
                run.records.append({"passes": number + min(begin + size, blocks) / blocks, **watch(found)})
            run.kept.append(found)
            del run.kept[: -1 - max(1, int(_POLICY.late * settings.passes))]
            note(f"pass {number + 1} of {settings.passes}")
            checkpoint.offer(run.arrays)
        after = float(loss(jnp.asarray(run.kept[-1], dtype=float), inputs, targets))
    residual = float(np.linalg.norm(run.kept[-1] - run.kept[0]) / np.linalg.norm(run.kept[-1]))
    # Rows that stand still without having learned do so for want of a gradient, or of a step.
    learned = after <= _POLICY.learned * before
    status = Status.CONVERGED if residual <= _POLICY.still and learned else Status.ITERATION_LIMIT
    return Passed(run.kept[-1], run.steps, status, residual, run.records)


def _loss(weights: Any, inputs: Any, labels: Any, link: Callable[[Any], Any]) -> Any:
    fields = jnp.swapaxes(inputs @ weights.T, 1, 2) / np.sqrt(inputs.shape[-1])
    predicted = jax.vmap(link)(fields).reshape(len(inputs), -1)
    return jnp.sum((predicted - labels.reshape(len(inputs), -1)) ** 2) / inputs.shape[-1]


def _batches(link: Callable[[Any], Any], repeats: int, *arrays: Any) -> Any:
    return CachedJit(_steps, link=link, repeats=repeats)(*arrays)


def _steps(
    rate: Any, decay: Any, weights: Any, inputs: Any, labels: Any, order: Any, link: Callable[[Any], Any], repeats: int
) -> Any:
    def one(weights: Any, chosen: Any) -> Any:
        x, y = inputs[chosen], labels[chosen]
        step = lambda _, w: w - rate * jax.grad(_loss)(w, x, y, link) - decay * w  # noqa: E731
        return jax.lax.fori_loop(0, repeats, step, weights), None

    return jax.lax.scan(one, weights, order)[0]
