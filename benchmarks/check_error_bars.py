"""Do error estimates cover? Information at random overlaps, against 64 times the work or a value known exactly.

    python benchmarks/check_error_bars.py [--pairs 240] [--seed 0]

Prints for every family in how many of its pairs of model and overlap the actual error exceeds the estimate, and three
times the estimate, and the largest ratio of the two; exits with 1 where more than 5 % exceed the estimate or any three
times the estimate. Takes about ten minutes on two cores.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy import integrate
from scipy.stats import t as student

from glassformer import BilinearSequenceRegression, DeepAttention, DeepAttentionIndexed, SequenceMultiIndex
from glassformer.core.progress import track

WORK = 64
POINTS = 64
# Standard errors that make the error estimate of limits, from eight replicas.
CONFIDENT = student.ppf(0.975, 7)


class Pair(NamedTuple):
    """What is compared: a family, what a small and what a large computation say, and the estimate of the former."""

    family: str
    small: np.ndarray
    large: np.ndarray
    estimate: np.ndarray

    @property
    def ratio(self) -> float:
        """Actual over estimated error, in the norm that state evolution uses."""
        return float(np.linalg.norm(self.small - self.large) / max(np.linalg.norm(self.estimate), 1e-300))


def covariance(rng: np.random.Generator, rows: int, blocks: bool) -> np.ndarray:
    """A random posterior covariance, from almost nothing to almost everything known of every row."""
    variance = 1 - rng.beta(0.7, 0.7, rows) * 0.999
    if not blocks or rows == 1:
        return np.diag(np.maximum(variance, 1e-3))
    turn = np.linalg.qr(rng.standard_normal((rows, rows)))[0]
    return turn @ np.diag(np.maximum(variance, 1e-2)) @ turn.T


LINKS: dict[str, tuple[Callable[[Any], Any], int, int, float]] = {
    "z1 z2": (lambda z: z[0, 0] * z[1, 0], 2, 1, 0.1),
    "z1 tanh z2": (lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2, 1, 0.3),
    "committee": (lambda z: jnp.sum(jnp.tanh(z)), 3, 1, 0.1),
    "two tokens": (lambda z: jnp.tanh(z[0, 0] + z[0, 1] * z[1, 1]), 2, 2, 0.2),
    "vector": (lambda z: jnp.stack([z[0, 0] * z[1, 0], z[0, 0] ** 2]), 2, 1, 0.1),
    "sum of relu": (lambda z: jnp.sum(jnp.maximum(z, 0)), 2, 1, 0.2),
}
NOISELESS: dict[str, tuple[Callable[[Any], Any], int, int]] = {
    "z1 z2": (lambda z: z[0, 0] * z[1, 0], 2, 1),
    "z1 + z2^3": (lambda z: z[0, 0] + z[1, 0] ** 3, 2, 1),
    "sign of a product": (lambda z: jnp.sign(z[0, 0] * z[1, 0]), 2, 1),
    "majority": (lambda z: jnp.sign(jnp.sum(jnp.sign(z))), 3, 1),
    "argmax": (lambda z: jnp.argmax(z[:, 0]), 3, 1),
}


def models() -> dict[str, list[Any]]:
    """The sampled channels by family."""
    attention = [
        DeepAttention(depth=1, points=POINTS),
        DeepAttention(depth=1, tokens=3, points=POINTS),
        DeepAttention(depth=2, points=POINTS),
        DeepAttention(depth=2, skip=0.3, points=POINTS),
        DeepAttention(depth=2, activation="linear", points=POINTS),
    ]
    others = [
        DeepAttention(depth=1, tied=False, points=POINTS),
        DeepAttention(depth=1, heads=2, points=POINTS),
        DeepAttention(depth=1, output="sequence", points=POINTS),
    ]
    return {
        "links with noise": [SequenceMultiIndex(f, p, t, noise=n, points=POINTS) for f, p, t, n in LINKS.values()],
        "links without noise": [SequenceMultiIndex(f, p, t, points=POINTS) for f, p, t in NOISELESS.values()],
        "deep attention": attention,
        "untied, heads, sequences": others,
        "attention of extensive width": [DeepAttentionIndexed(rho=0.5), DeepAttentionIndexed(rho=0.3, skip=0.5)],
    }


def sampled(family: str, model: Any, rng: np.random.Generator) -> Pair:
    """A sampled channel at a random overlap, with few and with 64 times as many data points."""
    channel = model.channel.in_rows.with_points(POINTS)
    power = np.sqrt(np.diag(model.prior.in_rows.self_overlap))
    mixed = not (channel.even or model.prior.in_rows.diagonal)
    variance = covariance(rng, channel.rows, mixed)
    if model.prior.in_rows.diagonal:
        variance = np.diag(rng.uniform(0.02, 1.0, channel.rows) * np.minimum(power**2, 1.0))
    small = channel.information(variance[None])
    large = channel.with_points(WORK * POINTS).information(variance[None])
    return Pair(family, small.value[0], large.value[0], CONFIDENT * small.error[0])


SCALAR: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "square": lambda h: h**2,
    "relu": lambda h: np.maximum(h, 0),
    "cube": lambda h: h**3 / 4,
    "cosine": lambda h: np.cos(2 * h),
}


def scalar(rng: np.random.Generator) -> Pair:
    """A noisy link of one index against nested quadrature on dense grids."""
    name = rng.choice(list(SCALAR))
    noise, variance = float(rng.choice([0.05, 0.3, 1.0])), float(rng.uniform(0.02, 1.0))
    found = BilinearSequenceRegression(rho=0.5, channel=SCALAR[name], noise=noise).channel.information(
        np.array([variance])
    )
    exact = dense_information(SCALAR[name], noise, variance)
    return Pair("links of one index", found.value, np.array([exact]), found.error + 1e-9 * exact)


def dense_information(link: Callable[[np.ndarray], np.ndarray], noise: float, variance: float) -> float:
    """E g^2 by the trapezoid rule over mean, field and label."""
    u = np.linspace(-9, 9, 2401)
    weight = np.exp(-(u**2) / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)
    means, mass = np.linspace(-8, 8, 97), None
    values = []
    for t in means:
        fields = np.sqrt(1 - variance) * t + np.sqrt(variance) * u
        labels = link(fields)
        low, high = labels[weight > 1e-14].min(), labels[weight > 1e-14].max()
        step = np.sqrt(noise) / 6
        y = np.arange(low - 7 * np.sqrt(noise), high + 7 * np.sqrt(noise), step)
        total = 0.0
        for part in np.array_split(y, max(1, len(y) // 200)):
            like = np.exp(-((part[:, None] - labels) ** 2) / (2 * noise)) / np.sqrt(2 * np.pi * noise)
            z, first = like @ weight, like @ (weight * u)
            total += np.sum(np.where(z > 1e-300, first**2 / np.maximum(z, 1e-300), 0.0)) * step
        values.append(total / variance)
    mass = np.exp(-(means**2) / 2) / np.sqrt(2 * np.pi)
    return float(integrate.trapezoid(np.array(values) * mass, means))


def pairs(count: int, seed: int) -> Iterator[Pair]:
    """Pairs of all families in turn."""
    rng, table = np.random.default_rng(seed), models()
    families = [*table, "links of one index"]
    for k in range(count):
        family = families[k % len(families)]
        if family in table:
            every = table[family]
            yield sampled(family, every[rng.integers(len(every))], rng)
        else:
            yield scalar(rng)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=240)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    for pair in track(pairs(options.pairs, options.seed), "pairs", options.pairs):
        found.setdefault(pair.family, []).append(pair.ratio)
    found["all"] = [ratio for ratios in found.values() for ratio in ratios]
    print(f"{'family':30s} {'pairs':>6s} {'> 1':>6s} {'> 3':>6s} {'largest':>8s}")
    for family, ratios in found.items():
        above = [sum(ratio > bound for ratio in ratios) for bound in (1, 3)]
        print(f"{family:30s} {len(ratios):6d} {above[0]:6d} {above[1]:6d} {max(ratios):8.2f}")
    every = np.array(found["all"])
    return int(np.mean(every > 1) > 0.05 or bool(np.any(every > 3)))


if __name__ == "__main__":
    sys.exit(main())
