"""Gradient descent on data against its mean-field equations: eleven models, with the trend in the dimension.

    python benchmarks/check_descent.py [D [INSTANCES [WORD]]]

With a word only the cases with it in their name. Every case is simulated at dimensions D, 2 D and 4 D, with INSTANCES,
INSTANCES / 2 and INSTANCES / 4 runs that begin with exactly the overlap and power of the theory. Means of a quantity
over runs at three steps are a + b/d with two numbers that are fitted; ``a`` has to agree with the theory of infinite
size, within the errors of both. The table has, per case and dimension, the largest relative distance of a mean from
theory, and for the fit the largest distance in standard errors. The exit code is 1 where a distance is beyond four
standard errors, or more than a twentieth beyond two and a half.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from glassformer import SGD, DeepAttention, SequenceMultiIndex
from glassformer.core.estimate import Array
from glassformer.learners.base import StepContext
from glassformer.models.base import Model
from glassformer.verbs.simulate import experiment_of

# Distances in standard errors: none beyond the first, a twentieth at most beyond the second.
_NONE, _FEW, _SHARE = 4.0, 2.5, 0.05
# Error estimates of theory are 95 % intervals.
_INTERVAL = 1.96
_NAMES = ("error", "cosine", "overlap", "power", "training_loss", "test_loss", "label_error", "prediction_error")


class Case(NamedTuple):
    """A teacher, a sample ratio, the steps that are compared, and the descent."""

    name: str
    model: Model
    alpha: float
    steps: tuple[int, ...]
    descent: SGD


def sign(z: Any) -> Any:
    return jnp.sign(z[0, 0])


def square(z: Any) -> Any:
    return z[0, 0] ** 2


def largest(z: Any) -> Any:
    return jnp.argmax(z[:, 0])


def two_tokens(z: Any) -> Any:
    return jnp.stack([jnp.sum(jnp.tanh(z[0])), jnp.sum(jnp.tanh(2 * z[0]) * z[1])])


def attention(z: Any) -> Any:
    return jax.nn.softmax(z.T @ z, axis=-1)


def two_heads(z: Any) -> Any:
    return attention(z[:1]) + attention(z[1:])


def cases() -> Iterator[Case]:
    flips = SequenceMultiIndex(sign, noise_law="flip:0.1")
    momentum = SGD(learning_rate=0.4, loss="logistic", momentum="nesterov:0.8", weight_decay=0.1)
    yield Case("logistic, flips, Nesterov", flips, 2.0, (2, 8, 20), momentum)
    tanh = SequenceMultiIndex(two_tokens, indices=2, tokens=2, noise=0.1)
    batches = SGD(learning_rate=0.15, batch=0.3, momentum=0.5, weight_decay=0.05, start="overlap:0.4")
    yield Case("two rows, two tokens, batches", tanh, 2.0, (3, 10, 25), batches)
    softmax = SequenceMultiIndex(attention, indices=1, tokens=2, noise=0.04)
    yield Case("attention", softmax, 3.0, (2, 8, 20), SGD(learning_rate=0.3, weight_decay=0.02, start="overlap:0.3"))
    repeated = SGD(learning_rate=0.3, batch=0.25, repeats=3, weight_decay=0.03, start="overlap:0.4")
    yield Case("attention, repeated batches", softmax, 2.0, (3, 9, 24), repeated)
    correlated = DeepAttention(depth=1, tokens=2, noise=0.05, token_correlation=0.5)
    yield Case("attention, correlated tokens", correlated, 3.0, (2, 8, 20), SGD(learning_rate=0.3, start="overlap:0.3"))
    deep = DeepAttention(depth=2, tokens=2, noise=0.05)
    yield Case("two layers of attention", deep, 4.0, (3, 10, 20), SGD(learning_rate=0.2, start="overlap:0.4"))
    classes = SequenceMultiIndex(largest, indices=3)
    schedule = SGD(learning_rate=lambda step: 2 / (1 + 0.1 * step), loss="cross-entropy", weight_decay=0.05)
    yield Case("three classes, schedule", classes, 2.0, (2, 8, 20), schedule)
    laplace = SequenceMultiIndex(lambda z: z[0, 0], noise_law="laplace:0.5")
    huber = SGD(learning_rate=0.25, loss="huber", student="linear")
    yield Case("Huber, Laplace noise", laplace, 2.0, (2, 8, 20), huber)
    spectrum = SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0]), noise=0.1, feature_spectrum=[0.2, 0.8, 2.0])
    yield Case("features of three variances", spectrum, 3.0, (2, 8, 20), SGD(learning_rate=0.15, start="overlap:0.3"))
    heads = DeepAttention(depth=1, tokens=2, heads=2, noise=0.05)
    yield Case("two heads", heads, 3.0, (2, 8, 20), SGD(learning_rate=0.15, start="overlap:0.3", student=two_heads))
    yield Case(
        "phase retrieval",
        SequenceMultiIndex(square, noise=0.1),
        4.0,
        (2, 6, 12),
        SGD(learning_rate=0.01, start="overlap:0.4"),
    )


def measured(case: Case, d: int, instances: int) -> tuple[dict[str, Array], float]:
    """Return quantities at the steps of a case by name, shape (instances, steps, ...), and the seconds of a run."""
    learner = case.descent.theory(case.model).simulated(StepContext(case.steps[-1], d=d))
    begin = time.perf_counter()
    runs = experiment_of(case.model, [case.alpha], d, instances, 0, learner).runs()[0]
    records = [[run.history[step] for step in case.steps] for run in runs]
    found = {
        name: np.array([[one[name] for one in run] for run in records]) for name in _NAMES if name in records[0][0]
    }
    return found, (time.perf_counter() - begin) / instances


def compare(case: Case, sizes: list[tuple[int, int]]) -> list[float]:
    """Print what a case shows, and return its distances in standard errors."""
    begin = time.perf_counter()
    estimates = (
        case.descent.theory(case.model).simulated(StepContext(case.steps[-1])).path(case.model, case.alpha).estimates
    )  # type: ignore[attr-defined]
    line = f"{case.name:32s} theory {time.perf_counter() - begin:5.1f} s"
    means, squares = dict[str, list[Array]](), dict[str, list[Array]]()
    for d, instances in sizes:
        found, seconds = measured(case, d, instances)
        far = 0.0
        for name, values in found.items():
            means.setdefault(name, []).append(values.mean(axis=0))
            squares.setdefault(name, []).append(d * values.var(axis=0) * instances)
            theory = estimates[name].value[list(case.steps)]
            far = max(far, float(np.max(np.abs(means[name][-1] - theory) / np.maximum(np.abs(theory), 0.1))))
        line += f" | d = {d}: {far:6.2%}, {seconds:.1f} s"
    inverse = 1 / np.array([d for d, _ in sizes])
    design, distances, worst = np.stack([np.ones(len(sizes)), inverse], axis=1), [], (0.0, "")
    for name in means:
        estimate = estimates[name]
        for place in np.ndindex(means[name][0].shape):
            mean = np.array([one[place] for one in means[name]])
            # Variances fall like 1/d: their coefficient is that of the runs at all sizes together.
            spread = sum(float(one[place]) for one in squares[name]) / sum(count - 1 for _, count in sizes)
            weight = np.diag([d * count / max(spread, 1e-20) for d, count in sizes])
            covariance = np.linalg.inv(design.T @ weight @ design)
            limit = (covariance @ design.T @ weight @ mean)[0]
            at = (case.steps[place[0]], *place[1:])
            error = np.hypot(np.sqrt(covariance[0, 0]), estimate.error[at] / _INTERVAL)
            distances.append(float(abs(limit - estimate.value[at]) / max(error, 1e-12)))
            worst = max(worst, (distances[-1], f"{name} at step {at[0]}: {limit:.4f}, theory {estimate.value[at]:.4f}"))
    print(f"{line} | {len(distances)} fits, largest {worst[0]:.2f} ({worst[1]})", flush=True)
    return distances


def main() -> int:
    d, instances, *word = [*sys.argv[1:], *("500", "16")[len(sys.argv) - 1 :]]
    sizes = [(int(d) * 2**k, max(int(instances) >> k, 2)) for k in range(3)]
    chosen = [case for case in cases() if all(one in case.name for one in word)]
    distances = np.array([one for case in chosen for one in compare(case, sizes)])
    share = float(np.mean(distances > _FEW))
    print(f"{len(distances)} comparisons: {share:.1%} beyond {_FEW:g} standard errors, largest {distances.max():.2f}")
    return int(distances.max() > _NONE or share > _SHARE)


if __name__ == "__main__":
    sys.exit(main())
