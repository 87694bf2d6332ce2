"""Options of the compiler: what the first average of a process takes, and every later one, with them and without.

Each pair is two new processes, one after the other, and processor time is counted, which hardly depends on the load.

    python benchmarks/bench_compile.py [--pairs 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time

import numpy as np

from glassformer import Accuracy, DeepAttention, SequenceMultiIndex
from glassformer.numerics import cached_jit as compiled

MODELS = {
    "one layer": lambda: DeepAttention(depth=1).at_accuracy(Accuracy(points=512)),
    "two layers": lambda: DeepAttention(depth=2).at_accuracy(Accuracy(points=512)),
    "z1 z2, noise 0.1": lambda: SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1, noise=0.1).at_accuracy(
        Accuracy(points=512)
    ),
    "z1 z2": lambda: SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1).at_accuracy(Accuracy(points=512)),
}
LATER = 15


def measured(name: str, with_options: bool) -> None:
    """Processor seconds of the first average and the least of later ones."""
    if not with_options:
        compiled._options = lambda: None  # type: ignore[assignment]
    channel = MODELS[name]().channel
    state, spent = 0.5 * np.eye(channel.fields.rows)[None], []
    for _ in range(1 + LATER):
        start = time.process_time()
        channel.inference.information(state)
        spent.append(time.process_time() - start)
    print(spent[0], min(spent[1:]))


def asked(name: str, with_options: bool) -> tuple[float, ...]:
    environment = {**os.environ, "JAX_ENABLE_COMPILATION_CACHE": "false", "OPENBLAS_NUM_THREADS": "1"}
    words = [sys.executable, __file__, "--one", name, *(["--options"] if with_options else [])]
    found = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    return tuple(map(float, found.stdout.split()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one model, to see that it runs")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--options", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measured(options.one, options.options)
        return
    for name in list(MODELS)[: 1 if options.quick else None]:
        both = np.min([[asked(name, choice) for choice in (True, False)] for _ in range(options.pairs)], axis=0)
        (first, later), (first_plain, later_plain) = both
        print(
            f"{name}: first {first:.2f} s, {first / first_plain:.2f} times that without options; "
            f"later {1e3 * later:.0f} ms, {later / later_plain:.2f} times",
            flush=True,
        )


if __name__ == "__main__":
    main()
