r"""A small network of attention layers that classifies questions, and when each of its layers is learned.

.. math:: X_0 = \mathrm{embedding}, \qquad
   X_l = c\,X_{l-1} + \mathrm{softmax}\bigl(X_{l-1}W_lW_l^TX_{l-1}^T/\sqrt k\bigr)X_{l-1}, \qquad
   \text{scores} = C\,\overline{X_P} + b.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax  # type: ignore[import-untyped]

from glassformer import __version__
from glassformer.core.checkpoints import Checkpoint, CheckpointFolder, pack_leaves, unpack_leaves
from glassformer.core.estimate import Array
from glassformer.core.hashing import identity
from glassformer.core.progress import note, track
from glassformer.core.random_streams import random_stream
from glassformer.core.settings import check_settings, checked_field, non_negative, positive, positive_integer
from glassformer.numerics.cached_jit import CachedJit
from glassformer.numerics.jax_settings import jax_settings
from glassformer.papers.text.questions import PADDING, QuestionData

Weights = dict[str, jax.Array]
"""Weights of the network by name: ``embedding``, ``attention``, ``readout`` and ``bias``."""


@dataclass(frozen=True)
class ClassifierTraining:
    """The network and how it is trained.

    Args:
        layers: attention layers with tied keys and queries.
        embedding: dimension of the trained embedding of tokens.
        width: columns of the key-query weights.
        skip: strength :math:`c` of the connection past each attention layer.
        masked: padding is neither attended to nor averaged over; False treats it as a word, as published.
        epochs: passes over the training questions.
        batch: questions per step.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        scale: standard deviation of all initial weights.
        looks: times per epoch at which the weights are recorded.

    Raises:
        ParameterError: an argument is out of range.

    Example:
        >>> ClassifierTraining(epochs=0)
        Traceback (most recent call last):
        ...
        glassformer.core.errors.ParameterError: epochs = 0 is not allowed: expected an integer >= 1
    """

    layers: int = checked_field(2, positive_integer)
    embedding: int = checked_field(128, positive_integer)
    width: int = checked_field(64, positive_integer)
    skip: float = checked_field(0.0, non_negative)
    masked: bool = True
    epochs: int = checked_field(30, positive_integer)
    batch: int = checked_field(16, positive_integer)
    learning_rate: float = checked_field(5e-5, positive)
    weight_decay: float = checked_field(0.01, non_negative)
    scale: float = checked_field(0.02, positive)
    looks: int = checked_field(4, positive_integer)

    def __post_init__(self) -> None:
        check_settings(self)


@dataclass(frozen=True)
class ClassifierRun:
    r"""The history of one training run.

    Attributes:
        epochs: passes at every record, a fraction, shape (looks,).
        similarity: :math:`\mathrm{Tr}\,G_tG_T/(\|G_t\|\,\|G_T\|)` of every layer's :math:`G = WW^T` with its final
            value, shape (looks, layers).
        test_accuracy: share of test questions classified correctly, shape (looks,).
        training_loss: mean cross-entropy over the batches since the last record, shape (looks,); NaN at the start.
    """

    epochs: Array
    similarity: Array
    test_accuracy: Array
    training_loss: Array

    def half_time(self) -> Array:
        """Return the epoch at which the similarity of each layer is half way from its start to one, shape (layers,)."""
        middle = 0.5 * (1 + self.similarity[0])
        return np.asarray(self.epochs[np.argmax(self.similarity >= middle, axis=0)])


@jax_settings(None)
def train_classifier(
    data: QuestionData, settings: ClassifierTraining | None = None, seed: int = 0, checkpoint: Checkpoint | None = None
) -> ClassifierRun:
    """Train the network once, by AdamW on the cross-entropy.

    Equation :eq:`classifier` of the documentation.

    Args:
        data: questions, see :func:`~glassformer.papers.text.questions.read_questions`.
        settings: network and training.
        seed: of the initial weights and of the order of the questions.
        checkpoint: file of the state, to continue from; the outcome is that of an uninterrupted run.

    Source: arXiv:2502.00901, figure 3 and appendix F.
    """
    settings, checkpoint = settings or ClassifierTraining(), checkpoint or Checkpoint()
    parameters = _initial(data, settings, random_stream(seed, 0))
    optimizer = optax.adamw(settings.learning_rate, weight_decay=settings.weight_decay)
    steps = CachedJit(_steps, optimizer=optimizer, masked=settings.masked)
    carried, structure = jax.tree.flatten((parameters, optimizer.init(parameters)))
    weights, accuracy, losses = [np.asarray(parameters["attention"])], [_accuracy(parameters, data, settings)], [np.nan]
    stored = checkpoint.load()
    if stored is not None:
        carried = list(map(jnp.asarray, unpack_leaves(stored)))
        weights, accuracy, losses = (list(stored[name]) for name in ("weights", "accuracy", "losses"))
    samples = len(data.training.labels)
    blocks = np.array_split(np.arange(-(-samples // settings.batch)), settings.looks)
    blocks = [block for block in blocks if len(block)]
    tokens, labels = jnp.asarray(data.training.tokens), jnp.asarray(data.training.labels)

    def state() -> dict[str, Array]:
        return {
            **pack_leaves(carried),
            "weights": np.array(weights),
            "accuracy": np.array(accuracy),
            "losses": np.array(losses),
        }

    for epoch in range((len(weights) - 1) // len(blocks), settings.epochs):
        # The order of an epoch does not depend on where the run was continued; the last batch is filled up.
        order = random_stream(seed, 1, epoch).permutation(samples)
        order = np.resize(order, (-(-samples // settings.batch), min(settings.batch, samples)))
        for block in blocks:
            whole = jax.tree.unflatten(structure, carried)
            whole, loss = steps(settings.skip, whole, tokens, labels, jnp.asarray(order[block]))
            carried = jax.tree.leaves(whole)
            weights.append(np.asarray(whole[0]["attention"]))
            accuracy.append(_accuracy(whole[0], data, settings))
            losses.append(float(loss))
        note(f"epoch {epoch + 1} of {settings.epochs}, test accuracy {accuracy[-1]:.3f}")
        checkpoint.offer(state)
    return ClassifierRun(
        epochs=np.arange(len(weights)) / len(blocks),
        similarity=np.array([similarity(found, weights[-1]) for found in weights]),
        test_accuracy=np.array(accuracy),
        training_loss=np.array(losses),
    )


def repeated_runs(
    data: QuestionData, settings: ClassifierTraining, runs: int, folder: Path | None = None
) -> list[ClassifierRun]:
    """Train with the seeds 0, 1, ...; ``folder`` keeps finished runs and the state of an unfinished one."""
    keeper, found = CheckpointFolder(folder), []
    questions = identity(data)
    for seed in track(range(runs), f"{runs} runs of {settings.layers} attention layers"):
        determined = {"package": __version__, "data": questions, "settings": vars(settings), "seed": seed}
        one = partial(train_classifier, data, settings, seed)
        found.append(keeper.run(ClassifierRun, determined, one))
    return found


def similarity(weights: Sequence[Array] | Array, final: Sequence[Array] | Array) -> Array:
    r"""Cosine of :math:`WW^T` with its final value, for every layer.

    Example:
        >>> similarity(np.ones((1, 3, 2)), 2 * np.ones((1, 3, 2)))
        array([1.])
    """
    now, last = np.asarray(weights, dtype=float), np.asarray(final, dtype=float)

    def product(a: Array, b: Array) -> Array:
        return np.asarray(np.sum(np.einsum("ldk,ldm->lkm", a, b) ** 2, axis=(1, 2)))

    return product(now, last) / np.sqrt(product(now, now) * product(last, last))


def class_scores(parameters: Weights, tokens: jax.Array, skip: float | jax.Array, masked: bool) -> jax.Array:
    """Return scores of the classes, shape (questions, classes), of tokens, shape (questions, length)."""
    present = (tokens != PADDING) if masked else jnp.ones(tokens.shape, bool)
    x = parameters["embedding"][tokens]
    for weights in parameters["attention"]:
        projected = x @ weights
        scores = jnp.einsum("nak,nbk->nab", projected, projected) / np.sqrt(weights.shape[1])
        x = skip * x + jax.nn.softmax(jnp.where(present[:, None, :], scores, -jnp.inf), axis=-1) @ x
    pooled = jnp.sum(jnp.where(present[:, :, None], x, 0.0), axis=1) / jnp.sum(present, axis=1)[:, None]
    return pooled @ parameters["readout"] + parameters["bias"]


def _initial(data: QuestionData, settings: ClassifierTraining, rng: np.random.Generator) -> Weights:
    shapes = {
        "embedding": (data.vocabulary, settings.embedding),
        "attention": (settings.layers, settings.embedding, settings.width),
        "readout": (settings.embedding, len(data.classes)),
    }
    weights = {name: settings.scale * rng.standard_normal(shape) for name, shape in shapes.items()}
    weights["bias"] = np.zeros(len(data.classes))
    return {name: jnp.asarray(part, dtype=jnp.float32) for name, part in weights.items()}


def _loss(
    parameters: Weights, tokens: jax.Array, labels: jax.Array, skip: float | jax.Array, masked: bool
) -> jax.Array:
    scores = class_scores(parameters, tokens, skip, masked)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(scores, labels))


def _steps(
    skip: jax.Array,
    carried: tuple[Weights, Any],
    tokens: jax.Array,
    labels: jax.Array,
    order: jax.Array,
    optimizer: Any,
    masked: bool,
) -> tuple[tuple[Weights, Any], jax.Array]:
    """Return weights and state of the optimizer after one step for each batch of the order, and the mean loss."""

    def one(carried: tuple[Weights, Any], chosen: jax.Array) -> tuple[tuple[Weights, Any], jax.Array]:
        parameters, state = carried
        loss, slope = jax.value_and_grad(_loss)(parameters, tokens[chosen], labels[chosen], skip, masked)
        change, state = optimizer.update(slope, state, parameters)
        return (optax.apply_updates(parameters, change), state), loss

    carried, losses = jax.lax.scan(one, carried, order)
    return carried, jnp.mean(losses)


def _accuracy(parameters: Weights, data: QuestionData, settings: ClassifierTraining) -> float:
    scores = CachedJit(class_scores, masked=settings.masked)(parameters, jnp.asarray(data.test.tokens), settings.skip)
    return float(np.mean(np.argmax(scores, axis=1) == data.test.labels))
