"""Does message passing ever diverge? Every run must end finite, at an error <= 1.05 x its start, or say why it did not.

The grid: d, beta in {0.5, 1, 2}, rho in {0.2, 1}, noise in {0, 0.1}, alpha from 0.05 to 1.1, ten seeds each. Inputs are
drawn once per (d, beta, seed), in single precision; smaller samples begin larger ones. The start is the prior mean, its
error the power of the teacher. A run is that of ``glassformer simulate bsr --instances 1 --storage float32`` with the
same seed. Every run is one line of the CSV file.

    python benchmarks/check_gamp_stability.py [--d 30 60 100] [--seeds 10] [--alphas 0.05 0.2 ...] [--budget-seconds S]
"""

from __future__ import annotations

import argparse
import csv
import itertools
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np

from glassformer import BilinearSequenceRegression, Status
from glassformer.designs import DenseDesign
from glassformer.learners.gamp import gamp

SIZES, BETAS, RHOS, NOISES = (30, 60, 100), (0.5, 1.0, 2.0), (0.2, 1.0), (0.0, 0.1)
ALPHAS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.1)
ALLOWED = 1.05


@dataclass(frozen=True)
class Run:
    """One line of the CSV file."""

    d: int
    beta: float
    rho: float
    noise: float
    alpha: float
    seed: int
    status: str
    error: float
    prior_error: float
    claimed_error: float
    nishimori_ratio: float
    damping: float
    iterations: int
    seconds: float

    @property
    def growth(self) -> float:
        """Error at the end over error at the start."""
        return self.error / self.prior_error

    @property
    def too_large(self) -> bool:
        return not self.growth <= ALLOWED

    @property
    def converged(self) -> bool:
        return self.status == str(Status.CONVERGED)

    def __str__(self) -> str:
        where = f"d {self.d:3}  beta {self.beta:3g}  rho {self.rho:3g}  noise {self.noise:3g}  alpha {self.alpha:4g}"
        end = f"error/start {self.growth:7.4f}  residual ratio {self.nishimori_ratio:5.2f}  {self.status}"
        return f"{where}  seed {self.seed:2}  {end}"


def runs_on(d: int, beta: float, seed: int, alphas: Sequence[float]) -> Iterator[Run]:
    """All runs that share one draw of inputs."""
    shape = (round(beta * d), d)
    counts = [max(1, round(alpha * shape[0] * d)) for alpha in alphas]
    longest = DenseDesign.sample(max(counts), shape, np.random.default_rng([seed, 1]), "float32")
    for rho, noise in itertools.product(RHOS, NOISES):
        model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
        signal = model.prior.sample(shape, np.random.default_rng([seed, 0]))
        for alpha, samples in zip(alphas, counts, strict=True):
            design = longest.first(samples)
            labels = model.channel.sample(design.forward(signal, 0), np.random.default_rng([seed, 2]))
            start = time.perf_counter()
            solution = gamp(model, design, labels, seed=seed)
            yield Run(
                d=d,
                beta=beta,
                rho=rho,
                noise=noise,
                alpha=alpha,
                seed=seed,
                status=str(solution.status[0]),
                error=float(np.mean((solution.value[0] - signal) ** 2)),
                prior_error=float(np.mean(signal**2)),
                claimed_error=float(solution.error_estimate[0]),
                nishimori_ratio=float(solution.extra["nishimori_ratio"][0]),
                damping=float(solution.extra["damping"][0]),
                iterations=int(solution.iterations[0]),
                seconds=time.perf_counter() - start,
            )


def sweep(d: int, seeds: int, alphas: Sequence[float], budget: float) -> list[Run]:
    """Seeds outermost, so that a budget that runs out leaves the whole grid covered by the seeds before."""
    start = time.perf_counter()
    runs: list[Run] = []
    draws = list(itertools.product(range(seeds), BETAS))
    for done, (seed, beta) in enumerate(draws, 1):
        runs += runs_on(d, beta, seed, alphas)
        spent = time.perf_counter() - start
        progress = f"d = {d}: {done} of {len(draws)} draws of inputs, {len(runs)} runs, {spent:.0f} s"
        print(progress, file=sys.stderr, flush=True)
        if spent > budget:
            print(f"d = {d}: budget of {budget:g} s spent after {done} of {len(draws)} draws of inputs", flush=True)
            break
    return runs


def write(path: Path, runs: Sequence[Run]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Run)])
        writer.writeheader()
        writer.writerows(asdict(run) for run in runs)


def summary(runs: Sequence[Run]) -> str:
    statuses = Counter(run.status for run in runs)
    converged, others = [run for run in runs if run.converged], [run for run in runs if not run.converged]
    lines: list[tuple[str, object]] = [("runs", len(runs))]
    lines += [(f"  {status}", statuses[str(status)]) for status in Status if status.ok or statuses[str(status)]]
    lines += [
        ("error not finite (must be 0)", sum(not np.isfinite(run.error) for run in runs)),
        (f"converged, error > {ALLOWED} x start (must be 0)", sum(run.too_large for run in converged)),
        (f"not converged, error > {ALLOWED} x start", sum(run.too_large for run in others)),
        ("iterations, median and largest", f"{np.median([r.iterations for r in runs]):.0f}, {_longest(runs)}"),
    ]
    text = [f"{label:45} {value}" for label, value in lines]
    for label, group in (("worst converged", converged), ("worst other", others)):
        if group:
            text.append(f"{label}: {max(group, key=lambda run: np.nan_to_num(run.growth, nan=np.inf))}")
    offenders = sorted((run for run in runs if run.too_large), key=lambda run: -run.growth)
    text += [f"error > {ALLOWED} x start:" for _ in offenders[:1]] + [f"  {run}" for run in offenders]
    return "\n".join(text)


def _longest(runs: Sequence[Run]) -> int:
    return max(run.iterations for run in runs)


def unsettled(runs: Sequence[Run]) -> str:
    """Where the runs that did not converge lie."""
    cells: dict[tuple[float, float, float], Counter[float]] = {}
    for run in runs:
        if not run.converged:
            cells.setdefault((run.beta, run.rho, run.noise), Counter())[run.alpha] += 1
    if not cells:
        return "every run converged"
    text = ["runs that did not converge: beta, rho, noise, then alpha (number)"]
    for cell, count in sorted(cells.items()):
        places = "  ".join(f"{alpha:g} ({number})" for alpha, number in sorted(count.items()))
        text.append(f"  {cell[0]:3g} {cell[1]:4g} {cell[2]:4g}   {places}")
    return "\n".join(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, nargs="+", default=SIZES)
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--alphas", type=float, nargs="+", default=ALPHAS)
    parser.add_argument("--budget-seconds", type=float, default=np.inf, help="for each d; overrun by at most a draw")
    parser.add_argument("--out", type=Path, default=Path("out/gamp_stability.csv"))
    args = parser.parse_args()
    print(f"GAMP on the stability grid, float32 storage; {os.cpu_count()} cores")
    print(f"alpha {', '.join(f'{alpha:g}' for alpha in args.alphas)}; up to {args.seeds} seeds", flush=True)
    runs: list[Run] = []
    for d in args.d:
        start = time.perf_counter()
        new = sweep(d, args.seeds, args.alphas, args.budget_seconds)
        runs += new
        write(args.out, runs)
        print(f"\nd = {d}, {time.perf_counter() - start:.0f} s\n{summary(new)}\n{unsettled(new)}", flush=True)


if __name__ == "__main__":
    main()
