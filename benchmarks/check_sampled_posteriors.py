"""Does the error estimate hold what sampled posteriors leave out? Information against sixteen times the latents.

    python benchmarks/check_sampled_posteriors.py [--points 16] [--share 16] [--quick]

Labels of several indices with noise are averaged by latents that are sampled given the label: with few of them the
information is biased, all data points alike. For links, noises and covariances the bias is measured: one sample of
``share`` times the latents, and means over its parts with as many latents as are used, a fourth and a sixteenth of
them, on the same few data points, so that little sampling noise is left in what they differ by. Prints the bias beside
its estimate, both relative to the information, the noise of the former, and their ratio; exits with 1 where more than
5 % of the estimates are exceeded, beyond twice the noise, or any by three times.

Noise 0 stands for labels of several entries, for which a small noise stands in. Ten minutes of one core; ``--quick``
leaves out what takes most of it.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer import SequenceMultiIndex
from glassformer.channels.control_variates import information
from glassformer.numerics.sequences import remaining_change

LINKS = {
    "tanh + tanh": (lambda z: jnp.sum(jnp.tanh(z)), 2),
    "z1 z2": (lambda z: z[0, 0] * z[1, 0], 2),
    "z1 tanh(z2)": (lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2),
    "committee of 3": (lambda z: jnp.sum(jnp.tanh(z)), 3),
    "relu + relu": (lambda z: jnp.sum(jnp.maximum(z, 0)), 2),
}
SEVERAL = {
    "(z1 z2, z1^2)": (lambda z: jnp.stack([z[0, 0] * z[1, 0], z[0, 0] ** 2]), 2),
    "(z1 + z2 z3, z1^2)": (lambda z: jnp.stack([z[0, 0] + z[1, 0] * z[2, 0], z[0, 0] ** 2]), 3),
}
NOISES, VARIANCES = (1.0, 0.1, 1e-2, 1e-4, 1e-5), (0.9, 0.3)


def measured(link: Any, indices: int, noise: float, v: float, points: int, share: int) -> tuple[float, float, float]:
    """Bias, its noise and its estimate, relative to the norm of the information."""
    channel = SequenceMultiIndex(link, indices, noise=noise).channel.inference.with_points(points).channel
    effort = replace(channel.effort, points=share * channel.effort.points, parts=(share, 4 * share, 16 * share))
    variance = v * np.eye(indices)
    omega, true, labels = (part[0] for part in replace(channel, effort=effort).inference._data(variance[None]))
    found = replace(channel, effort=effort).posteriors(
        labels, omega, np.broadcast_to(variance, (len(omega), *variance.shape))
    )
    levels = [[part.reshape(8, points, *part.shape[1:]) for part in own[:3]] for own in found]
    true = true.reshape(8, points, *true.shape[1:])
    replicas = [information([level], true, variance, points)[0] for level in levels]
    whole, *fewer = (part.mean(axis=0) for part in replicas)
    scale, gap = np.linalg.norm(whole), (replicas[1] - replicas[0])
    noise_of = np.linalg.norm(np.std(gap, axis=0, ddof=1)) / np.sqrt(8)
    return tuple(
        float(x / scale) for x in (np.linalg.norm(gap.mean(axis=0)), noise_of, np.linalg.norm(remaining_change(fewer)))
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=16, help="data points per replica")
    parser.add_argument("--share", type=int, default=16, help="how many times more latents the comparison takes")
    parser.add_argument("--quick", action="store_true", help="noise from 0.01 on alone")
    options = parser.parse_args()
    noises = [noise for noise in NOISES if noise >= 1e-2 or not options.quick]
    cases = [(name, noise) for name in LINKS for noise in noises] + [(name, 0.0) for name in SEVERAL]
    ratios = []
    print("| Link | Noise | V | Bias | Its noise | Estimate | Ratio | Processor time |")
    print("|---|---|---|---|---|---|---|---|")
    for name, noise in cases:
        for v in VARIANCES:
            start = time.process_time()
            bias, blur, estimate = measured(*(LINKS | SEVERAL)[name], noise, v, options.points, options.share)
            # Few data points can leave bias and estimate at zero.
            estimate = max(estimate, np.finfo(float).tiny)
            ratios.append(max(bias - 2 * blur, 0.0) / estimate)
            spent = time.process_time() - start
            row = f"{bias:.1e} | {blur:.0e} | {estimate:.1e} | {bias / estimate:.2f} | {spent:.0f} s"
            print(f"| {name} | {noise:g} | {v} | {row} |", flush=True)
    found = np.array(ratios)
    print(f"above the estimate: {np.mean(found > 1):.1%}, above three times: {np.mean(found > 3):.1%}")
    return int(np.mean(found > 1) > 0.05 or bool(np.any(found > 3)))


if __name__ == "__main__":
    sys.exit(main())
