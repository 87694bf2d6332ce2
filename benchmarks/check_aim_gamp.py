"""AMP on attention-indexed models: does a run ever diverge, and does its error approach theory like 1/d?

Stability: d in {40, 80, 120}, rho in {0.1, 0.5, 2}, alpha from 0.02 to 3 times perfect recovery (to 3 for hardmax), ten
seeds, all closed-form channels. A run must end finite, with an error <= 1.05 x its start, or say why in its status.

Agreement: the relative error (summed over instances, over their prior errors) against theory at the same ratios, with
the fit of bias = c/d over the sizes and what is left of the difference at each d, in standard errors.

    python benchmarks/check_aim_gamp.py stability [--d 40 80 120] [--seeds 10] [--budget-seconds S]
    python benchmarks/check_aim_gamp.py agreement [--d 60 100 200] [--instances 16]
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter

import numpy as np

from glassformer import AttentionIndexed, simulate, thresholds
from glassformer.verbs.instances import Simulation

CHANNELS = (("linear", 1), ("linear", 2), ("softmax", 2), ("softmax", 3), ("hardmax", 2))
WIDTHS, ALLOWED = (0.1, 0.5, 2.0), 1.05
# Sample ratios of the agreement, in units of perfect recovery; of hardmax, themselves.
RATIOS, HARDMAX = (0.3, 0.6, 0.85, 1.3), (0.25, 0.75, 1.5)


def scale(model: AttentionIndexed) -> float:
    recovery = thresholds(model)["perfect_recovery"].alpha
    return recovery if np.isfinite(recovery) else 1.0


def stability(sizes: list[int], seeds: int, budget: float) -> None:
    for d in sizes:
        start, counts, offenders = time.perf_counter(), Counter[str](), []
        cases = [(channel, tokens, rho) for rho in WIDTHS for channel, tokens in CHANNELS]
        for done, (channel, tokens, rho) in enumerate(cases, 1):
            model = AttentionIndexed(rho, tokens, channel)
            alpha = np.geomspace(max(0.02, 1 / d**2), 3 * scale(model), 6)
            result = simulate(model, alpha, d=d, instances=seeds, storage="float32")
            for a, runs in zip(alpha, result.instances, strict=True):
                for run in runs:
                    counts[str(run.status)] += 1
                    if not run.error <= ALLOWED * run.prior_error:
                        offenders.append((channel, tokens, rho, float(a), run))
            if time.perf_counter() - start > budget:
                print(f"d = {d}: budget spent after {done} of {len(cases)} cases")
                break
        print(
            f"\nd = {d}, {time.perf_counter() - start:.0f} s: " + ", ".join(f"{n} {name}" for name, n in counts.items())
        )
        print(f"  error not finite (must be 0): {sum(not np.isfinite(run.error) for *_, run in offenders)}")
        converged = [entry for entry in offenders if entry[-1].status.ok]
        print(f"  converged, error > {ALLOWED} x start (must be 0): {len(converged)}; others: {len(offenders)}")
        for channel, tokens, rho, a, run in offenders[:20]:
            where = f"{channel} T {tokens} rho {rho:g} alpha {a:.4f} seed {run.seed}"
            print(f"    {where}: {run.error / run.prior_error:.3f} x start, {run.status}", flush=True)


def agreement(sizes: list[int], instances: int) -> None:
    for channel, tokens in CHANNELS:
        model = AttentionIndexed(0.5, tokens, channel)
        ratios = np.array(HARDMAX if channel == "hardmax" else RATIOS) * scale(model)
        results = {d: simulate(model, ratios, d=d, instances=instances, storage="float32") for d in sizes}
        print(f"\n{channel}, T = {tokens}, rho = 0.5, {instances} instances")
        for i, alpha in enumerate(ratios):
            report(float(alpha), i, results)


def report(alpha: float, point: int, results: dict[int, Simulation]) -> None:
    d = np.array(list(results), dtype=float)
    theory = np.array([result["theory"][point] for result in results.values()])
    error = np.array([result["relative_error"][point] for result in results.values()])
    spread = np.array([max(result["relative_standard_error"][point], 1e-9) for result in results.values()])
    information = np.sum(1 / (d * spread) ** 2)
    c = np.sum((error - theory) / (d * spread**2)) / information
    print(f"  alpha {alpha:.4f}: bias {c:.2f}/d +- {information**-0.5:.2f}/d")
    for k, (size, result) in enumerate(results.items()):
        good = sum(run.status.ok for run in result.instances[point])
        total = len(result.instances[point])
        gap, left = (error[k] - theory[k]) / spread[k], (error[k] - theory[k] - c / size) / spread[k]
        numbers = f"theory {theory[k]:.5f}  AMP {error[k]:.5f} +- {spread[k]:.5f}"
        print(
            f"    d {size:4}  {numbers}  difference {gap:+6.2f}, without c/d {left:+6.2f}  {good}/{total}", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["stability", "agreement"])
    parser.add_argument("--d", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--instances", type=int, default=16)
    parser.add_argument("--budget-seconds", type=float, default=np.inf, help="for each d of the stability grid")
    args = parser.parse_args()
    print(f"AMP on attention-indexed models, float32 storage; {os.cpu_count()} cores", flush=True)
    if args.part == "stability":
        stability(args.d or [40, 80, 120], args.seeds, args.budget_seconds)
    else:
        agreement(args.d or [60, 100, 200], args.instances)


if __name__ == "__main__":
    main()
