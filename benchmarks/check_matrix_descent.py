"""Descent on matrices in time: theory against runs with the trend of their size, and how often error bars cover.

Runs on stored data at two sizes are extrapolated in 1/d, for three tokens in 1/sqrt(d).

    python benchmarks/check_matrix_descent.py runs [WORD ...] [--sizes D D] [--quick]   # settings with one of the words
    python benchmarks/check_matrix_descent.py coverage [--quick] [--size D] [--steps T]
    python benchmarks/check_matrix_descent.py small [--quick]                # a small start at full width
    python benchmarks/check_matrix_descent.py published [--reference DIR] [--ratios N] [WORD ...]   # released runs
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer import (
    Accuracy,
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    GradientDescent,
    NuclearNorm,
    limits,
    trajectory,
)
from glassformer.core.results import error_column
from glassformer.dynamics.matrix_descent import Rule, descend_matrix, student_of
from glassformer.dynamics.matrix_path import MatrixSettings, _averaged, _drawn, extrapolate
from glassformer.dynamics.mean_field_samples import Samples
from glassformer.learners.data_set import DataSet

BSR = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
CLEAN = BilinearSequenceRegression(beta=1, rho=0.2)
LONG = BilinearSequenceRegression(beta=2, rho=0.3, noise=0.1)
TANH = BilinearSequenceRegression(beta=1, rho=0.2, link=jnp.tanh, noise=0.05)
LINEAR = AttentionIndexed(rho=0.3, tokens=1, channel="linear", noise=0.1)
SOFTMAX = AttentionIndexed(rho=0.5, tokens=2, channel="softmax")
THREE = AttentionIndexed(rho=0.5, tokens=3, channel="softmax")
SIGNS = AttentionIndexed(rho=0.5, tokens=2, channel="hardmax")

# Name, model, alpha, learner, power of 1/d of the corrections of runs.
CASES: tuple[tuple[str, Any, float, Any, float], ...] = (
    ("bsr", BSR, 0.5, GradientDescent(learning_rate=0.2), 1.0),
    ("bsr small", CLEAN, 0.3, GradientDescent(learning_rate=0.5, start="small:0.1", student_width=1.0), 1.0),
    ("bsr long", LONG, 0.4, GradientDescent(learning_rate=0.1, momentum=0.6), 1.0),
    ("bsr adam", BSR, 0.5, GradientDescent("adam", 0.05), 1.0),
    ("bsr decay", BSR, 0.5, GradientDescent(learning_rate=0.2, weight_decay=0.1, student_width=1.0), 1.0),
    ("bsr tanh", TANH, 0.8, GradientDescent("adam", 0.05), 1.0),
    ("bsr mean", CLEAN, 0.3, AveragedGradientDescent(learning_rate=0.2, initialisations=3), 1.0),
    ("aim linear", LINEAR, 0.3, GradientDescent("sgd", 0.1), 1.0),
    ("aim softmax", SOFTMAX, 0.3, GradientDescent("sgd", 1.2), 1.0),
    ("aim adam", SOFTMAX, 0.1, GradientDescent("adam", 0.05), 1.0),
    ("aim three", THREE, 0.1, GradientDescent("sgd", 0.8), 0.5),
    ("aim signs", SIGNS, 0.5, GradientDescent("adam", 0.05), 1.0),
)
NAMES = ("error", "training_error", "nuclear_norm")
STEPS = (1, 5, 20, 40)
# Theory beside runs is computed apart, once; the smaller size of this one has a sample at every ratio.
_LEAST = Accuracy(matrix_size=16, draws=2, trajectories=32)


def check_runs(words: list[str], sizes: list[int], quick: bool) -> None:
    """Compare theory with runs at two sizes."""
    sizes, instances, steps = ([8, 16], 2, 3) if quick else (sizes, 12, 40)
    accuracy = Accuracy(matrix_size=16, draws=2) if quick else Accuracy(draws=16)
    inside = []
    for name, model, alpha, learner, power in CASES:
        if words and not any(word in name for word in words):
            continue
        theory = trajectory(model, [alpha], learner, steps=steps, accuracy=accuracy, throw=False)
        runs = [
            trajectory(model, [alpha], learner, steps=steps, d=d, instances=instances, accuracy=_LEAST) for d in sizes
        ]
        weight = 1 / ((sizes[1] / sizes[0]) ** power - 1)
        for quantity in NAMES:
            bar = error_column(quantity, "standard_error")
            means = [table[f"measured_{quantity}"] for table in runs]
            errors = [table[f"measured_{bar}"] for table in runs]
            limit = means[1] + weight * (means[1] - means[0])
            spread = 2.2 * np.hypot((1 + weight) * errors[1], weight * errors[0])
            estimate = theory[error_column(quantity)]
            score = (limit - theory[quantity]) / np.hypot(estimate, spread)
            at = [step for step in STEPS if step <= steps]
            inside += (np.abs(score[at]) <= 1).tolist()
            each = ", ".join(
                f"{step}: {theory[quantity][step]:.4f}({estimate[step]:.4f}) {means[0][step]:.4f} {means[1][step]:.4f} "
                f"-> {limit[step]:.4f}({spread[step]:.4f}) {score[step]:+.1f}"
                for step in at
            )
            print(f"{name:12s} {quantity:15s} {each}", flush=True)
    print(f"all: {sum(inside)} of {len(inside)} inside the joint 95 % intervals")


def check_coverage(size: int, steps: int, quick: bool) -> None:
    """Count how often the error bars of few draws cover the limit of twice the size and all draws."""
    size, groups, steps = (16, 2, 3) if quick else (size, 16, steps)
    shown = np.unique(np.geomspace(1, steps, 12).astype(int))
    for name, model, alpha, rate in (("bsr", BSR, 0.5, 0.2), ("softmax", SOFTMAX, 0.3, 1.2)):
        settings = MatrixSettings(Rule("sgd", rate, 0.0, 0.0, steps))
        errors = {}
        for d, count in ((size // 4, 16 * groups), (size, 4 * groups), (size // 2, 6 * groups), (2 * size, 2 * groups)):
            drawn = [_drawn(model.at_size(d), alpha, settings, True, draw) for draw in range(count)]
            errors[d] = np.array([_averaged(model, settings, one)["error"] for one in drawn])
        known = extrapolate(errors[size // 2], errors[2 * size])
        bars = [
            extrapolate(errors[size // 4][16 * g : 16 * g + 16], errors[size][4 * g : 4 * g + 4]) for g in range(groups)
        ]
        inside = np.array([np.abs(bar.value - known.value) <= bar.error for bar in bars])
        print(f"{name}: {100 * inside.mean():.0f} % inside at all steps")
        for step in shown:
            value, error = known.value[step], known.error[step]
            mean, bar = (np.mean([getattr(one, part)[step] for one in bars]) for part in ("value", "error"))
            text = f"limit {value:.4f} +- {error:.4f}, few draws {mean:.4f} +- {bar:.4f} on average"
            print(f"  step {step}: {text}, {100 * inside[:, step].mean():.0f} % inside", flush=True)


def check_small(quick: bool) -> None:
    """Compare a small start at full width with the minimum nuclear norm: theory, and runs on the same stored data."""
    alpha, rule = 0.3, Rule("sgd", 0.2, 0.0, 0.0, 10 if quick else 800)
    settings = MatrixSettings(rule, start=0.001, width=1.0)
    minimum = limits(CLEAN, [alpha], NuclearNorm(0.0))["error"][0]
    print(f"minimum nuclear norm, limit: {minimum:.4f}")
    for d, draws in ((8, 2),) if quick else ((20, 64), (40, 24), (80, 8)):
        drawn = [_drawn(CLEAN.at_size(d), alpha, settings, True, draw) for draw in range(draws)]
        print(
            f"theory at d = {d}: {_mean([_averaged(CLEAN, settings, one)['error'][-1] for one in drawn])}", flush=True
        )
    for d, runs in ((8, 2),) if quick else ((20, 32), (40, 16)):
        pairs = np.array([_small_run(d, alpha, rule, run) for run in range(runs)])
        texts = (_mean(pairs[:, 0]), _mean(pairs[:, 1]), _mean(pairs[:, 0] - pairs[:, 1]))
        print("runs at d = {}: {}, minimum on the same data {}, difference {}".format(d, *texts), flush=True)


def _small_run(d: int, alpha: float, rule: Rule, run: int) -> tuple[float, float]:
    """Return the errors of descent from a small start and of the minimum nuclear norm on stored data."""
    size, rng = CLEAN.at_size(d), np.random.default_rng([7, run])
    teacher = size.model.prior.sample((d, d), rng)
    design = size.design.sample(round(alpha * size.unit), (d, d), rng)
    data = DataSet(design, design.forward(teacher, 0), run, teacher=teacher)
    samples = Samples(design, data.labels, design.samples)
    student = student_of(size.model, samples, d)
    start = [0.001 * rng.standard_normal((1, *shape)) for shape in student.parameters]
    errors = list[float]()
    descend_matrix(samples, student, start, rule, lambda _, s, e: errors.append(float(np.mean((s[0] - teacher) ** 2))))
    minimum = NuclearNorm(0.0).learn(size.model, data).estimates
    return errors[-1], float(np.mean((minimum.reshape(d, d) - teacher) ** 2))


def _mean(values: Any) -> str:
    """Return a mean with its standard error."""
    return f"{np.mean(values):.4f} +- {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}"


def check_published(folder: Path, words: list[str], count: int, quick: bool) -> None:
    """Print theory beside released runs, at so many sample ratios of each file."""
    attention = [
        (f"attention_indexed/gd_softmax_T{tokens}_*.csv", AttentionIndexed(rho=0.5, tokens=tokens, channel="softmax"))
        for tokens in (2, 3, 5)
    ]
    adam = GradientDescent("adam", 0.1)
    cases = [("bsr/gd_*.csv", CLEAN, GradientDescent(), 600), *((*one, adam, 1000) for one in attention)]
    size, draws, count = (16, 2, 1) if quick else (64, 4, count)
    accuracy = Accuracy(matrix_size=size, draws=draws)
    for file, model, learner, steps in cases:
        for path in sorted(folder.glob(file)):
            if words and not any(word in path.name for word in words):
                continue
            with path.open() as lines:
                rows = [[float(cell) for cell in row] for row in list(csv.reader(lines))[1:]]
            # The smaller size needs a sample.
            rows = [row for row in rows if row[0] * (size / 4) ** 2 >= 1]
            for place in np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).astype(int)):
                alpha, mean, spread = rows[place]
                found = trajectory(model, [alpha], learner, steps=2 if quick else steps, accuracy=accuracy, throw=False)
                text = f"{found['error'][-1]:.4f} +- {found['error_estimate'][-1]:.4f}, {found['status'][-1]}"
                print(f"{path.name}: alpha {alpha:.3g}: {mean:.4f} ({spread:.4f}) published, {text}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", default="runs", choices=("runs", "coverage", "small", "published"))
    parser.add_argument("--quick", action="store_true", help="small sizes and few steps")
    parser.add_argument("--reference", type=Path, default=Path("reference"), help="folder of released data")
    parser.add_argument("--sizes", type=int, nargs=2, default=[30, 60], help="dimensions of the runs")
    parser.add_argument("--size", type=int, default=120, help="larger dimension of the error bars that are counted")
    parser.add_argument("--steps", type=int, default=50, help="steps of the descents of these error bars")
    parser.add_argument("--ratios", type=int, default=100, help="sample ratios of every file of released data")
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    if given.what == "runs":
        check_runs(given.words, given.sizes, given.quick)
    elif given.what == "coverage":
        check_coverage(given.size, given.steps, given.quick)
    elif given.what == "small":
        check_small(given.quick)
    else:
        check_published(given.reference, given.words, given.ratios, given.quick)


if __name__ == "__main__":
    main()
