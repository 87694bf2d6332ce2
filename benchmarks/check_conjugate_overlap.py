"""Deep attention: posteriors against an independent grid that is refined where the mass is, and Q_hat to 1e-3.

For the same data points the square of the score, sampled as carefully as conjugate_overlap does, and that of the grid
are averaged; their difference, with its standard error, is what sampling the posterior changes. The error of the
average over data is that of conjugate_overlap.

    python benchmarks/check_conjugate_overlap.py [data points | --quick]
"""

from __future__ import annotations

import sys
import time

import numpy as np

from glassformer import DeepAttention
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap

OVERLAPS = [
    (0.05, 0.5),
    (0.5, 0.5),
    (0.2, 0.98),
    (0.5, 0.99),
    (0.9, 0.5),
    (0.9, 0.999),
    (0.05, 0.9999),
    (0.9999, 0.9999),
]
# Cells per side of the first grid on [-8, 8]^2, parts each kept cell is split into, and the size of the last cells in
# units of the narrowest width of the posterior: sums over so fine a grid are exact for a Gaussian.
FIRST, PARTS, FINEST = 48, 3, 0.6
# Cells whose mass is below this share of the total are not split.
SMALL = 2e-6


def softmax(scores: np.ndarray) -> np.ndarray:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def log_density(u: np.ndarray, omega: np.ndarray, v: np.ndarray, vector: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log density of both signs at whitened first rows, shape (n, 2), and whitened deviations of both rows, (n, 4)."""
    first = omega[0] + np.sqrt(v[0]) * u
    mixing = np.eye(2) + softmax(first[:, :, None] * first[:, None, :])
    det = mixing[:, 0, 0] * mixing[:, 1, 1] - mixing[:, 0, 1] * mixing[:, 1, 0]
    last = (
        np.stack(
            [
                mixing[:, 1, 1] * vector[0] - mixing[:, 0, 1] * vector[1],
                mixing[:, 0, 0] * vector[1] - mixing[:, 1, 0] * vector[0],
            ],
            axis=1,
        )
        / det[:, None]
    )
    gaps = np.stack([(sign * last - omega[1]) / np.sqrt(v[1]) for sign in (1, -1)], axis=1)
    cost = 0.5 * np.sum(u**2, axis=1)[:, None] + 0.5 * np.sum(gaps**2, axis=2) + np.log(np.abs(det))[:, None]
    whole = np.concatenate([np.broadcast_to(u[:, None], gaps.shape), gaps], axis=2)
    return -cost, whole


def on_grid(omega: np.ndarray, v: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Posterior means of the whitened deviations of both rows, shape (4,), by local refinement of a grid."""
    side = 16 / FIRST
    axis = -8 + side * (np.arange(FIRST) + 0.5)
    cells = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    offsets = (np.arange(PARTS) - (PARTS - 1) / 2) / PARTS
    shifts = np.stack(np.meshgrid(offsets, offsets, indexing="ij"), axis=-1).reshape(-1, 2)
    settled: list[tuple[np.ndarray, np.ndarray]] = []
    finest = FINEST / np.sqrt(1 + v[0] / v[1])
    while len(cells):
        log_p, whole = log_density(cells, omega, v, vector)
        mass = log_p + 2 * np.log(side)
        top = np.max(mass, axis=1)
        # A ridge narrower than a cell may pass between centres: what its log mass could be instead is kept.
        slack = 3.0 + 0.5 * (1.5 * side) ** 2 * (1 + v[0] / v[1])
        kept = top > np.max(top) + np.log(SMALL) - slack
        if side <= finest:
            kept[:] = False
        settled.append((mass[~kept], whole[~kept]))
        cells = (cells[kept][:, None] + side * shifts).reshape(-1, 2)
        side /= PARTS
    mass, whole = (np.concatenate([part[k] for part in settled]) for k in (0, 1))
    weight = np.exp(mass - mass.max())
    return np.einsum("ns,nsk->k", weight, whole) / weight.sum()


def main() -> None:
    quick = "--quick" in sys.argv
    count = 2 if quick else int(sys.argv[1]) if len(sys.argv) > 1 else 300
    model = DeepAttention()
    channel = model.channel.inference.high_accuracy().channel
    for overlap in OVERLAPS[1:2] if quick else OVERLAPS:
        rng, q = np.random.default_rng(0), np.array(overlap)
        v = 1 - q
        omega = np.sqrt(q)[:, None] * rng.standard_normal((count, 2, 2))
        fields = omega + np.sqrt(v)[:, None] * rng.standard_normal((count, 2, 2))
        vectors = model.channel.observation_from(fields, np.empty((count, 0)))
        found = channel.posterior(vectors, omega, np.tile(np.diag(v), (count, 1, 1)))
        ours = np.sum(found.first * found.second, axis=2) * v
        grid = np.array([on_grid(*item) for item in zip(omega, [v] * count, vectors, strict=True)])
        exact = np.sum(grid.reshape(count, 2, 2) ** 2, axis=2)
        gap = ours - exact
        change, error = gap.mean(axis=0) / exact.mean(axis=0), gap.std(axis=0) / np.sqrt(count) / exact.mean(axis=0)
        start = time.perf_counter()
        whole = conjugate_overlap(model, overlap, accuracy=0.1 if quick else 1e-3)
        spent = time.perf_counter() - start
        print(
            f"Q = {overlap}: sampling changes the square by {change.round(5)} +- {error.round(5)} (relative); "
            f"Q_hat {np.diag(whole.value).round(5)} +- {whole.accuracy:.1e} with {whole.points} points, {spent:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
