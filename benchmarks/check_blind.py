"""Message passing that takes another width for the signal's, or none, against theory and against the Bayes-optimal one.

beta = 1, rho = 0.3, alpha = 0.5, noise = 0.1, inputs in single precision, errors relative to the power of the teachers.
First every assumed width at one size, beside the theory of that width. Then the law estimated from singular values at
several sizes, on the very data on which message passing that knows the width is run: the ratio of the two is free of
most of what varies between instances.

    python benchmarks/check_blind.py [--d 100] [--instances 8] [--sizes 50 100 200] [--size-instances 16 8 3]
        [--seed 0]
"""

from __future__ import annotations

import argparse

import numpy as np

from glassformer import BilinearSequenceRegression, BlindMessagePassing, simulate
from glassformer.learners.base import Learner
from glassformer.verbs.instances import Simulation

ALPHA, WIDTHS = 0.5, (0.1, 0.2, 0.3, 0.5, 1.0)


def measure(d: int, instances: int, algorithm: str | Learner, seed: int) -> Simulation:
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    return simulate(model, [ALPHA], algorithm, d=d, instances=instances, seed=seed, storage="float32")


def told(found: Simulation) -> str:
    error, spread, theory = (found[name][0] for name in ("relative_error", "relative_standard_error", "theory"))
    settled = sum(run.status.ok for run in found.instances[0])
    return f"{error:9.5f}{spread:9.5f}{theory:9.5f}{(error - theory) / spread:7.2f}{settled:6}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=100)
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="*", default=[50, 100, 200])
    parser.add_argument("--size-instances", type=int, nargs="*", default=[16, 8, 3], help="one for each size")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    head = f"{'error':>9}{'s.e.':>9}{'theory':>9}{'z':>7}{'conv.':>6}"
    print(f"assumed width at d = {args.d}, {args.instances} instances\n{'width':>8}{head}", flush=True)
    for width in WIDTHS:
        print(f"{width:8g}{told(measure(args.d, args.instances, BlindMessagePassing(width), args.seed))}", flush=True)
    print(f"\nestimated law\n{'d':>8}{head}{'to Bayes':>10}{'s.e.':>9}", flush=True)
    for d, instances in zip(args.sizes, args.size_instances, strict=True):
        blind, known = measure(d, instances, "blind-gamp", args.seed), measure(d, instances, "gamp", args.seed)
        ratio = np.array([b.error / k.error for b, k in zip(blind.instances[0], known.instances[0], strict=True)])
        spread = ratio.std(ddof=1) / np.sqrt(instances)
        print(f"{d:8}{told(blind)}{ratio.mean():10.5f}{spread:9.5f}", flush=True)


if __name__ == "__main__":
    main()
