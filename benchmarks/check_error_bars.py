"""Do error estimates cover? Information at random overlaps, against 64 times the work or a value known exactly.

    python benchmarks/check_error_bars.py [--pairs 208] [--seed 0] [--results error_bars.jsonl]

A pair is a model and a posterior covariance, both drawn at random; families take turns. Sampled averages are compared
with those of eight times the data points and, where posteriors are sampled too, eight times the work on each of them,
for a sampled posterior has a bias that no number of data points removes; quadratures are compared with plain grids.
Prints for every family in how many pairs the actual error exceeds the estimate, and three times the estimate, and the
largest ratio of the two; exits with 1 where more than 5 % exceed the estimate or any three times the estimate.

Every pair has a seed of its own, and what is found is kept in the file of results: a run that was ended goes on where
it was. Takes less than half an hour of one core.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from check_links import plain

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    DeepAttentionIndexed,
    SequenceMultiIndex,
)
from glassformer.core.progress import track
from glassformer.numerics.quasi_random import confidence_factor

# How many times more data points, and work on each, the comparison takes.
MORE = 8


class Pair(NamedTuple):
    """What is compared: what a small and what a large computation say, and the error estimate of the former."""

    small: np.ndarray
    large: np.ndarray
    estimate: np.ndarray

    @property
    def ratio(self) -> float:
        """Actual over estimated error, in the norm that state evolution uses."""
        return float(np.linalg.norm(self.small - self.large) / max(np.linalg.norm(self.estimate), 1e-300))


Draw = Callable[[np.random.Generator], Pair]


def covariance(rng: np.random.Generator, rows: int, blocks: bool) -> np.ndarray:
    """A random posterior covariance, from almost nothing to almost everything known of every row."""
    variance = 1 - rng.beta(0.7, 0.7, rows) * 0.999
    if not blocks or rows == 1:
        return np.diag(np.maximum(variance, 1e-3))
    turn = np.linalg.qr(rng.standard_normal((rows, rows)))[0]
    return turn @ np.diag(np.maximum(variance, 1e-2)) @ turn.T


def product(z: Any) -> Any:
    return z[0, 0] * z[1, 0]


def link(function: Callable[[Any], Any], indices: int = 2, tokens: int = 1, **options: Any) -> Callable[[], Any]:
    return lambda: SequenceMultiIndex(function, indices, tokens, **options)


def attention(**options: Any) -> Callable[[], Any]:
    return lambda: DeepAttention(**options)


# Data points per replica: as many as 64 times their work leaves time for.
POINTS = {
    "attention indices, sampled": 64,
    "links with noise": 64,
    "laws of labels": 16,
    "deep attention": 64,
    "untied, heads, sequences": 64,
    "attention of extensive width": 16,
    "links without noise": 16,
}
# Families of sampled averages over rows, and how their models are made.
SAMPLED: dict[str, dict[str, Callable[[], Any]]] = {
    "links with noise": {
        "z1 z2": link(product, noise=0.1),
        "z1 tanh z2": link(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), noise=0.3),
        "committee": link(lambda z: jnp.sum(jnp.tanh(z)), 3, noise=0.1),
        "two tokens": link(lambda z: jnp.tanh(z[0, 0] + z[0, 1] * z[1, 1]), 2, 2, noise=0.2),
        "vector": link(lambda z: jnp.stack([z[0, 0] * z[1, 0], z[0, 0] ** 2]), noise=0.1),
        "sum of relu": link(lambda z: jnp.sum(jnp.maximum(z, 0)), noise=0.2),
    },
    "laws of labels": {
        "logistic product": link(product, noise_law="logistic"),
        "Laplace product": link(product, noise_law="laplace:0.5"),
    },
    "deep attention": {
        "one layer": attention(depth=1),
        "three tokens": attention(depth=1, tokens=3),
        "two layers": attention(depth=2),
        "two layers, skip 0.3": attention(depth=2, skip=0.3),
        "two linear layers": attention(depth=2, activation="linear"),
    },
    "untied, heads, sequences": {
        "untied": attention(depth=1, untied=True),
        "two heads": attention(depth=1, heads=2),
        "sequence": attention(depth=1, output="sequence"),
    },
    "attention of extensive width": {
        "two layers": lambda: DeepAttentionIndexed(rho=0.5),
        "skip 0.5": lambda: DeepAttentionIndexed(rho=0.3, skip=0.5),
    },
    "links without noise": {
        "z1 z2": link(product),
        "z1 + z2^3": link(lambda z: z[0, 0] + z[1, 0] ** 3),
        "sign of a product": link(lambda z: jnp.sign(z[0, 0] * z[1, 0])),
        "majority": link(lambda z: jnp.sign(jnp.sum(jnp.sign(z))), 3),
        "argmax": link(lambda z: jnp.argmax(z[:, 0]), 3),
        "sum of relu": link(lambda z: jnp.sum(jnp.maximum(z, 0))),
        "committee": link(lambda z: jnp.sum(jnp.tanh(z))),
    },
}
# Channels of one overlap whose averages are sampled.
TABULATED: dict[str, Callable[[], Any]] = {
    "noisy softmax": lambda: AttentionIndexed(rho=0.5, noise=0.2),
    "noisy link": lambda: AttentionIndexed(rho=0.5, channel=lambda h: np.tanh(h), noise=0.5),
    "hardmax, four tokens": lambda: AttentionIndexed(rho=0.5, tokens=4, channel="hardmax"),
}


def sampled(make: Callable[[], Any], points: int, rng: np.random.Generator) -> Pair:
    """A channel of several rows at a random overlap."""
    model = make()
    channel, inference, prior = model.channel, model.channel.inference.with_points(points), model.prior
    power = np.diag(prior.self_overlap)
    variance = covariance(rng, channel.fields.rows, not (channel.labels.even or prior.diagonal))
    if prior.diagonal:
        variance = np.diag(rng.uniform(0.02, 1.0, channel.fields.rows) * np.minimum(power, 1.0))
    small = inference.averages(variance[None])
    large = inference.high_accuracy().with_points(MORE * points).information(variance[None])
    return Pair(
        small.information.value[0],
        large.value[0],
        confidence_factor(small.replicas.shape[1]) * small.information.error[0],
    )


def tabulated(make: Callable[[], Any], points: int, rng: np.random.Generator) -> Pair:
    """A channel of one overlap at a random one, with 64 times the data points."""
    channel = make().channel
    variance = float(rng.uniform(0.02, 1.0) * channel.power)
    small, error, _, _ = channel.averages_at(variance, points)
    large = channel.averages_at(variance, MORE**2 * points)[0]
    return Pair(np.array([small]), np.array([large]), np.array([error]))


# Links of one index, and their breaks.
SCALAR: dict[str, tuple[Callable[[Any], Any], tuple[float, ...]]] = {
    "tanh": (np.tanh, ()),
    "square": (lambda h: h**2, ()),
    "relu": (lambda h: np.maximum(h, 0), (0.0,)),
    "cube": (lambda h: h**3 / 4, ()),
    "cosine": (lambda h: np.cos(2 * h), ()),
}


def quadrature(link: tuple[Callable[[Any], Any], tuple[float, ...]], rng: np.random.Generator) -> Pair:
    """A noisy link of one index against sums on plain grids."""
    (function, breaks), noise = link, float(rng.choice([0.05, 0.3, 1.0]))
    variance = float(rng.uniform(0.02, 1.0))
    found = BilinearSequenceRegression(rho=0.5, channel=function, noise=noise).channel.information(np.array([variance]))
    return Pair(found.value, np.array([plain().information(function, noise, variance, breaks)]), found.error)


def families() -> dict[str, dict[str, Draw]]:
    """Every family's models, by name, and how a pair of each is drawn."""
    found: dict[str, dict[str, Draw]] = {
        "attention indices, sampled": _drawn("attention indices, sampled", tabulated, TABULATED),
        "links of one index": {name: partial(quadrature, found) for name, found in SCALAR.items()},
    }
    return found | {family: _drawn(family, sampled, models) for family, models in SAMPLED.items()}


def _drawn(family: str, kind: Callable[..., Pair], models: dict[str, Callable[[], Any]]) -> dict[str, Draw]:
    return {name: partial(kind, make, POINTS[family]) for name, make in models.items()}


def plan(count: int, seed: int) -> list[tuple[int, str, str]]:
    """Number, family and model of every pair, one model after the other: what is compiled for it is used again."""
    table = families()
    names = list(table)
    drawn = []
    for number in range(count):
        family = names[number % len(names)]
        rng = np.random.default_rng([seed, number])
        drawn.append((number, family, str(rng.choice(list(table[family])))))
    return sorted(drawn, key=lambda row: (names.index(row[1]), row[2], row[0]))


def known(path: Path, seed: int) -> dict[int, dict[str, Any]]:
    """Pairs of this seed that an earlier run has found."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return {row["number"]: row for row in rows if row["seed"] == seed}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=208)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path("error_bars.jsonl"))
    options = parser.parse_args()
    table, found = families(), known(options.results, options.seed)
    drawn = plan(options.pairs, options.seed)
    todo = [row for row in drawn if row[0] not in found]
    with options.results.open("a") as file:
        for number, family, name in track(todo, "pairs", len(todo)):
            start = time.process_time()
            # The first number of this generator chose the model.
            rng = np.random.default_rng([options.seed, number, 1])
            pair = table[family][name](rng)
            row = {"number": number, "seed": options.seed, "family": family, "model": name, "ratio": pair.ratio}
            found[number] = {**row, "seconds": round(time.process_time() - start, 1)}
            file.write(json.dumps(found[number]) + "\n")
            file.flush()
    return report([found[number] for number, _, _ in drawn])


def report(rows: list[dict[str, Any]]) -> int:
    """Print the table; 1 where error estimates do not cover."""
    print("| Family | Pairs | Above the estimate | Above three times | Largest ratio | Processor time |")
    print("|---|---|---|---|---|---|")
    for family in [*dict.fromkeys(row["family"] for row in rows), "all"]:
        own = [row for row in rows if family in (row["family"], "all")]
        ratios = np.array([row["ratio"] for row in own])
        worst = own[int(np.argmax(ratios))]["model"]
        above = [f"{np.mean(ratios > bound):.1%}" for bound in (1, 3)]
        seconds = sum(row["seconds"] for row in own)
        print(f"| {family} | {len(own)} | {above[0]} | {above[1]} | {ratios.max():.2f} ({worst}) | {seconds:.0f} s |")
    every = np.array([row["ratio"] for row in rows])
    return int(np.mean(every > 1) > 0.05 or bool(np.any(every > 3)))


if __name__ == "__main__":
    sys.exit(main())
