"""Error bars of the mean-field equations of descent: how often they cover what 64 times the trajectories give.

For every model several seeds are compared at four steps, in overlap, power, cosine, losses and errors on new labels.

    python benchmarks/check_mean_field.py [--quick] [WORD ...]      # only models whose names contain one of the words
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from glassformer import SequenceMultiIndex
from glassformer.dynamics import descent_path as module
from glassformer.dynamics.descent_path import DescentPath, descent_path
from glassformer.dynamics.descent_settings import DescentSettings, DescentStart
from glassformer.dynamics.trajectories import draw_trajectories
from glassformer.risk.rows.student import student_of

SIGN = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
LINEAR = SequenceMultiIndex(lambda z: z[0, 0], noise=0.3)
TANH = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]) + 2 * jnp.tanh(z[1, 0]), indices=2, noise=0.09)
RELU = SequenceMultiIndex(lambda z: jnp.maximum(z[0, 0], 0.0), noise=0.1)
ATTENTION = SequenceMultiIndex(lambda z: jax.nn.softmax(z.T @ z, axis=-1), indices=1, tokens=2, noise=0.04)
SPECTRUM = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1, feature_spectrum=[0.4, 1.6])

# Name, model, alpha, settings of the steps, loss, cosine of the start.
CASES: tuple[tuple[str, Any, float, dict[str, Any], str, float], ...] = (
    ("square, linear", LINEAR, 1.5, {"learning_rate": 0.3, "weight_decay": 0.1}, "square", 0.2),
    ("logistic, sign", SIGN, 2.0, {"learning_rate": 1.0, "weight_decay": 0.05}, "logistic", 0.0),
    ("logistic, batches", SIGN, 2.0, {"learning_rate": 1.0, "weight_decay": 0.05, "batch": 0.3}, "logistic", 0.0),
    ("logistic, momentum", SIGN, 2.0, {"learning_rate": 0.3, "momentum": 0.7, "weight_decay": 0.05}, "logistic", 0.0),
    ("hinge, sign", SIGN, 2.0, {"learning_rate": 0.3, "weight_decay": 0.3}, "hinge", 0.0),
    ("logistic, spectrum", SPECTRUM, 2.0, {"learning_rate": 0.6, "weight_decay": 0.05}, "logistic", 0.0),
    ("tanh, two rows", TANH, 4.0, {"learning_rate": 0.1, "weight_decay": 0.1}, "square", 0.2),
    ("relu", RELU, 3.0, {"learning_rate": 0.2, "weight_decay": 0.1}, "square", 0.3),
    ("attention", ATTENTION, 3.0, {"learning_rate": 0.3, "weight_decay": 0.02}, "square", 0.3),
)
STEPS = (1, 5, 20, 40)
# What is rounding, where second moments are exact.
_ROUNDING = 1e-8
# New samples of the reference in every set.
_SAMPLES = 1 << 16


def quantities(path: DescentPath) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Return names, values and errors of what is compared, shape (quantities, steps)."""
    parts = {"overlap": path.overlap, "power": path.power, "cosine": path.cosine, **path.errors}
    parts.pop("generalisation_gap")
    steps = [step for step in STEPS if step <= path.descent.steps]
    flat = [[np.asarray(part).reshape(len(part), -1)[steps, 0] for part in parts[name]] for name in parts]
    return list(parts), np.array([value for value, _ in flat]), np.array([error for _, error in flat])


def seeded(seed: int, seeds: int) -> Callable[..., Any]:
    """Return the function that draws trajectories, with a seed."""

    def draw(*arguments: Any) -> Any:
        *others, sets, number = arguments
        return draw_trajectories(*others, seeds * sets, seed * sets + number)

    return draw


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few steps and trajectories")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    steps, trajectories, seeds = (5, 1024, 2) if given.quick else (40, 8192, 5)
    inside_all, bias_all = [], []
    print("model                 inside   mean deviation over error, by quantity")
    for name, model, alpha, chosen, loss, cosine in CASES:
        if given.words and not any(word in name for word in given.words):
            continue
        student = student_of(model, loss)
        start = DescentStart.of_cosine(student.rows, int(model.channel.fields.rows), cosine)
        run = partial(descent_path, model, alpha, student=student, start=start)
        samples = module._MOST_SAMPLES, module._FEWEST_SAMPLES
        module._MOST_SAMPLES = module._FEWEST_SAMPLES = _SAMPLES
        module.draw_trajectories = seeded(seeds, seeds + 1)
        names, known, _ = quantities(run(settings=DescentSettings(steps, trajectories=64 * trajectories, **chosen)))
        module._MOST_SAMPLES, module._FEWEST_SAMPLES = samples
        deviations = []
        for seed in range(seeds):
            module.draw_trajectories = seeded(seed, seeds + 1)
            _, found, error = quantities(run(settings=DescentSettings(steps, trajectories=trajectories, **chosen)))
            deviations.append((found - known) / (error + _ROUNDING))
        inside = np.abs(deviations) <= 1
        means = np.mean(deviations, axis=(0, 2))
        inside_all.append(inside.ravel())
        bias_all.append(means)
        each = ", ".join(f"{key} {mean:+.2f}" for key, mean in zip(names, means, strict=True))
        print(f"{name:20s}  {inside.sum():3d}/{inside.size:3d}  {each}", flush=True)
    total = np.concatenate(inside_all)
    print(f"all: {total.sum()} of {total.size} inside, {100 * total.mean():.1f} %")


if __name__ == "__main__":
    main()
