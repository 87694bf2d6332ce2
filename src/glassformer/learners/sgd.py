r"""Stochastic gradient descent (SGD) on the weights of a network: several passes over the same data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from glassformer.core.settings import decay_rate, positive, positive_integer, setting
from glassformer.learners.base import FitResult, LearnerInfo
from glassformer.learners.descent import RowDescent, initialisation, small_size, squared_errors
from glassformer.learners.online_sgd import OnlineSGD

if TYPE_CHECKING:
    from glassformer.core.checkpoints import Checkpoint
    from glassformer.core.estimate import Array
    from glassformer.core.results import Table
    from glassformer.designs.projection import ProjectionDesign
    from glassformer.dynamics.descent_settings import DescentSettings
    from glassformer.learners.data_set import DataSet

# Learning rate, and weight decay times the dimension, as published for deep attention.
_LEARNING_RATE, _DECAY = 15.0, 0.07
# Training has converged if during this last share of the passes the rows change by at most this share of their norm,
# and the training error is below this share of the initial one (chosen by trial on deep attention).
_LAST_SHARE, _STILL, _LEARNED = 0.2, 0.01, 0.9


@dataclass(frozen=True)
class SGD(RowDescent):
    r"""Gradient descent on batches of samples, several passes over the same data.

    Every step descends :math:`\frac1d\sum_{\mu\in B}\|\hat y_\mu - y_\mu\|^2 + \frac w{2d}\|W\|^2`.

    Args:
        learning_rate: None for 15, as published for deep attention, on the squared error over ``d``.
        weight_decay: ``w``; None for 0.07, as published.
        init: ``"prior"``, standard normal weights, or ``"small"``, ``small`` times as large.
        small: size of a small initialisation.
        batch: number of samples per batch.
        repeats: number of gradient steps on every batch.
        passes: number of passes over the data.
        looks: number of entries of the history per pass.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> SGD(batch=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: batch = 0 is not allowed: expected an integer >= 1
    """

    info: ClassVar[LearnerInfo] = LearnerInfo(
        name="sgd", title="stochastic gradient descent", family="descent", resumable=True
    )

    learning_rate: float | None = setting(None, "length of a step (default 15)", positive)
    weight_decay: float | None = setting(None, "weight w of the term w |W|^2/(2d) (default 0.07)", decay_rate)
    init: str = initialisation()
    small: float = small_size()
    batch: int = setting(200, "number of samples per batch", positive_integer)
    repeats: int = setting(3, "number of gradient steps on every batch", positive_integer)
    passes: int = setting(40, "number of passes over the data", positive_integer)
    looks: int = setting(8, "number of entries of the history per pass", positive_integer)

    @property
    def rates(self) -> tuple[float, float]:
        """Learning rate and weight decay, with the published values as defaults."""
        rate = _LEARNING_RATE if self.learning_rate is None else self.learning_rate
        return rate, _DECAY if self.weight_decay is None else self.weight_decay

    def theory(self, model: Any, alpha: Array, optimum: Table | None = None) -> Array | str:
        return "no closed equations are available for several passes over the same samples"

    def fresh(self, d: int) -> OnlineSGD:
        """Return online SGD with the same step length and decay; its equations hold if no sample is used twice.

        Example:
            >>> found = SGD(learning_rate=15.0, batch=200, weight_decay=0.07).fresh(500)
            >>> found.learning_rate, found.batch, round(found.weight_decay, 4)
            (12.0, 200, 0.0875)
        """
        rate, decay = self.rates
        return OnlineSGD(
            learning_rate=2 * self.batch * rate / d,
            batch=self.batch,
            weight_decay=decay * d / (2 * self.batch),
            init=self.init,
            small=self.small,
        )

    def mean_field_settings(self, d: int, alpha: float, steps: int | None = None) -> DescentSettings:
        r"""Return the settings of the mean-field equations of these steps at a dimension, for the square loss.

        A step of length :math:`\eta'` on the squared error over ``d`` is one of :math:`2\eta'/d` on the sum of half the
        squared errors, and the decay is :math:`\lambda = w/2`. Limits of large ``d`` hold :math:`\eta'/d` and the share
        of the samples in a batch fixed. The equations draw every batch anew; a pass here uses each sample once.

        Args:
            d: token dimension.
            alpha: samples over dimension.
            steps: number of gradient steps; None for those of all passes.

        Example:
            >>> found = SGD(learning_rate=15.0, batch=200, weight_decay=0.07).mean_field_settings(500, 2.0)
            >>> found.learning_rate, found.batch, found.weight_decay, found.repeats, found.steps
            (0.06, 0.2, 0.035, 3, 600)
        """
        from glassformer.dynamics.descent_settings import DescentSettings

        rate, decay = self.rates
        samples = max(1, round(alpha * d))
        batch = min(self.batch, samples)
        return DescentSettings(
            steps=self.passes * (samples // batch) * self.repeats if steps is None else steps,
            learning_rate=2 * rate / d,
            batch=batch / samples,
            repeats=self.repeats,
            weight_decay=decay / 2,
        )

    def learn(self, model: Any, data: DataSet) -> FitResult:
        rng = data.rng
        start = self.initial_size * rng.standard_normal(model.signal_shape(data.design))

        def watch(weights: Array) -> dict[str, Any]:
            return data.errors_of(model, weights)

        return multi_pass_sgd(data.design, data.labels, model.traceable_label, start, self, rng, watch, data.checkpoint)


def multi_pass_sgd(
    design: ProjectionDesign,
    labels: Array,
    link: Callable[[Any], Any],
    weights: Array,
    settings: SGD,
    rng: np.random.Generator,
    watch: Callable[[Array], dict[str, Any]] | None = None,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    r"""Return the result of training the rows of ``weights`` on the first instance of a design of one head.

    A few steps on every batch ``B`` descend
    :math:`\mathcal L_B(W) = \tfrac1d\sum_{\mu\in B}\bigl\|g(WX_\mu^T/\sqrt d) - y_\mu\bigr\|^2`, with weight decay.
    Equation :eq:`batches` of the documentation.

    Args:
        design: inputs.
        labels: shape (samples, ...).
        link: differentiable JAX function from ``Z``, shape (P, L), to a label.
        weights: initial weights, shape (P, d).
        settings: batches, steps on each, passes, learning rate and weight decay.
        rng: random generator of the order of the samples.
        watch: called with the weights several times in each pass; its result is recorded with the (fractional) number
            of ``passes`` so far.
        checkpoint: checkpoint to continue from and to save to; an interrupted run gives the same result.

    Returns:
        :class:`~glassformer.learners.base.FitResult` with the weights at the end; ``residual`` is their relative change
        over the last passes.

    Example:
        >>> import jax.numpy as jnp
        >>> from glassformer.designs.projection import ProjectionDesign
        >>> rng = np.random.default_rng(0)
        >>> design, teacher = ProjectionDesign.sample(400, (1, 20), rng), rng.standard_normal((1, 20))
        >>> link = lambda z: jnp.tanh(z[0, 0])
        >>> labels = np.tanh(design.forward(teacher, 0)[:, 0, 0])
        >>> start = rng.standard_normal((1, 20))
        >>> found = multi_pass_sgd(design, labels, link, start, SGD(batch=50, learning_rate=2.0), rng).estimates[0]
        >>> bool(np.sum(found * teacher) > 0.9 * np.linalg.norm(found) * np.linalg.norm(teacher))
        True
    """
    import jax.numpy as jnp

    from glassformer.core.checkpoints import Checkpoint, pack_records, unpack_records
    from glassformer.core.progress import note
    from glassformer.core.resources import require_resources
    from glassformer.core.status import Status
    from glassformer.numerics.cached_jit import CachedJit
    from glassformer.numerics.jax_settings import jax_settings

    samples, d = design.samples, design.signal_shape[1]
    work = 6 * float(settings.passes) * settings.repeats * design.inputs.size * len(weights)
    memory = 8 * _LAST_SHARE * settings.passes * weights.size
    require_resources("passes", settings.passes, memory, "train for fewer passes", work, "weights")
    batch = min(settings.batch, samples)
    rate, decay = settings.rates
    decay = rate * decay / d
    batches = max(1, samples // batch)
    batches_per_record = -(-batches // settings.looks)
    # The order of the samples in a pass does not depend on whether the run was interrupted.
    key, checkpoint = int(rng.integers(2**63)), checkpoint or Checkpoint()
    # Weights after each of the last passes, gradient steps so far, and records.
    last, steps, records = [np.asarray(weights)], 0, list[dict[str, Any]]()
    stored = checkpoint.load()
    if stored is not None:
        last, steps, records = list(stored["kept"]), int(stored["steps"]), unpack_records(stored)

    def result(residual: float, status: Status) -> FitResult:
        return FitResult(last[-1][None], status=status, iterations=steps, residual=residual, history=records)

    def state() -> dict[str, Array]:
        return {"kept": np.array(last), "steps": np.array(steps), **pack_records(records)}

    with jax_settings():
        inputs = jnp.asarray(design.inputs[0], dtype=float)
        targets = jnp.asarray(labels, dtype=float).reshape(samples, -1)
        loss = CachedJit(_loss, link=link)
        before = float(loss(jnp.asarray(weights, dtype=float), inputs, targets))
        for number in range(steps // (settings.repeats * batches), settings.passes):
            order = np.random.default_rng([key, number]).permutation(samples)[: batches * batch].reshape(batches, batch)
            current = jnp.asarray(last[-1], dtype=float)
            for begin in range(0, batches, batches_per_record):
                part = jnp.asarray(order[begin : begin + batches_per_record])
                current = _train_on_batches(link, settings.repeats, rate, decay, current, inputs, targets, part)
                steps += settings.repeats * len(part)
                new_weights = np.asarray(current)
                if not np.all(np.isfinite(new_weights)):
                    return result(np.inf, Status.NON_FINITE)
                passes = number + min(begin + batches_per_record, batches) / batches
                records.append({"passes": passes, **(watch(new_weights) if watch else {})})
            last.append(new_weights)
            del last[: -1 - max(1, int(_LAST_SHARE * settings.passes))]
            note(f"pass {number + 1} of {settings.passes}")
            checkpoint.offer(state)
        after = float(loss(jnp.asarray(last[-1], dtype=float), inputs, targets))
    residual = float(np.linalg.norm(last[-1] - last[0]) / np.linalg.norm(last[-1]))
    # Rows that do not change before anything is learned have a vanishing gradient or too small a step.
    learned = after <= _LEARNED * before
    return result(residual, Status.CONVERGED if residual <= _STILL and learned else Status.ITERATION_LIMIT)


def _loss(weights: Any, inputs: Any, labels: Any, link: Callable[[Any], Any]) -> Any:
    return squared_errors(weights, inputs, labels, link) / inputs.shape[-1]


def _train_on_batches(link: Callable[[Any], Any], repeats: int, *arrays: Any) -> Any:
    from glassformer.numerics.cached_jit import CachedJit

    return CachedJit(_steps, link=link, repeats=repeats)(*arrays)


def _steps(
    rate: Any, decay: Any, weights: Any, inputs: Any, labels: Any, order: Any, link: Callable[[Any], Any], repeats: int
) -> Any:
    import jax

    def one_batch(weights: Any, chosen: Any) -> Any:
        x, y = inputs[chosen], labels[chosen]

        def step(_: int, weights: Any) -> Any:
            return weights - rate * jax.grad(_loss)(weights, x, y, link) - decay * weights

        return jax.lax.fori_loop(0, repeats, step, weights), None

    return jax.lax.scan(one_batch, weights, order)[0]
