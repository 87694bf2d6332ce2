"""Message passing on inputs larger than memory, drawn from their seed whenever they are needed.

python benchmarks/bench_large.py [d iterations | --quick]
"""

from __future__ import annotations

import resource
import sys
import time

from glassformer import Accuracy, BilinearSequenceRegression, MessagePassing, simulate

RATIO = 0.5


def main() -> None:
    d, steps = (
        (int(word) for word in sys.argv[1:3]) if len(sys.argv) == 3 else (20, 3) if "--quick" in sys.argv else (100, 30)
    )
    model = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1)
    size = RATIO * d**4 * 4 / 1e9
    start = time.perf_counter()
    found = simulate(
        model,
        [RATIO],
        MessagePassing().at_accuracy(Accuracy(max_iterations=steps)),
        d=d,
        instances=1,
        storage="generated",
    )
    spent = time.perf_counter() - start
    run = found.instances[0][0]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(
        f"d = L = {d}: inputs of {size:.1f} GB in single precision, peak memory {memory:.1f} GB; "
        f"{run.iterations} steps in {spent:.0f} s, {spent / (2 * run.iterations + 1) / size:.2f} s per GB drawn; "
        f"error {found['error'][0]:.4f}, theory {found['theory'][0]:.4f}, {run.status}"
    )


if __name__ == "__main__":
    main()
