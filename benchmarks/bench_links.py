"""Cost of limits with a user's link against dedicated channels, once the process has analysed the link.

    python benchmarks/bench_links.py [ratios | --quick]

Every row is one link in up to three models: the dedicated channel, ``BilinearSequenceRegression`` of unlimited width
with ``link=``, and ``SequenceMultiIndex`` of one index and one token. Every call makes a new channel in one process.

Links of two fields follow: ``limits`` of two ratios, warm, and one average over the data by sums over grids beside
sampled ones, with the relative error that each claims.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from glassformer import BilinearSequenceRegression, SequenceMultiIndex, limits
from glassformer.channels.multi_index.latent_channel import LatentInference

# Name: the link of a number in NumPy, the same in JAX, noise, and the dedicated channel if there is one.
LINKS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], float, str | None]] = {
    "linear": (lambda h: h, lambda h: h, 0.0, "gaussian"),
    "sign": (np.sign, jnp.sign, 0.0, "sign"),
    "|h|": (np.abs, jnp.abs, 0.0, "absolute"),
    "tanh": (np.tanh, jnp.tanh, 0.1, None),
    "relu": (lambda h: np.maximum(h, 0), lambda h: jnp.maximum(h, 0), 0.1, None),
    "h^2": (lambda h: h**2, lambda h: h**2, 0.1, None),
    "He3": (lambda h: (h**3 - 3 * h) / np.sqrt(6), lambda h: (h**3 - 3 * h) / np.sqrt(6), 0.1, None),
    "steps of 0.5": (lambda h: 0.5 * np.round(2 * h), lambda h: 0.5 * jnp.round(2 * h), 0.0, None),
}
# Links of two rows, and their noise.
OF_TWO: dict[str, tuple[Callable[[Any], Any], float]] = {
    "z1 z2": (lambda z: z[0, 0] * z[1, 0], 0.1),
    "max(z1, z2)": (lambda z: jnp.maximum(z[0, 0], z[1, 0]), 0.1),
    "z1 [z2 > 0]": (lambda z: z[0, 0] * (z[1, 0] > 0), 0.1),
    "tanh z1 + tanh z2": (lambda z: jnp.tanh(z[0, 0]) + jnp.tanh(z[1, 0]), 0.1),
    "sign(z1 z2)": (lambda z: jnp.sign(z[0, 0] * z[1, 0]), 0.0),
    "sign z1 + sign z2": (lambda z: jnp.sign(z[0, 0]) + jnp.sign(z[1, 0]), 0.0),
    "argmax(z1, z2)": (lambda z: jnp.argmax(z[:, 0]), 0.0),
}


def main() -> None:
    ratios = 2 if "--quick" in sys.argv else int(sys.argv[1]) if len(sys.argv) > 1 else 20
    alpha = np.linspace(0.3, 2.0, ratios)
    print(f"{ratios} ratios, CPU ms {'':10}{'dedicated':>10}{'bsr':>8}{'smi':>8}")
    for name, (plain, traced, noise, dedicated) in LINKS.items():
        models = [
            dedicated and (lambda c=dedicated: BilinearSequenceRegression(rho=np.inf, channel=c)),
            lambda f=plain, v=noise: BilinearSequenceRegression(rho=np.inf, link=f, noise=v),
            lambda f=traced, v=noise: SequenceMultiIndex(lambda z: f(z[0, 0]), noise=v),
        ]
        times = [f"{1e3 * _seconds(model, alpha):.0f}" if model else "-" for model in models]
        print(f"{name:14} noise {noise:<8}{times[0]:>10}{times[1]:>8}{times[2]:>8}", flush=True)
    print(f"\ntwo fields, CPU ms {'limits':>18}{'grids':>8}{'error':>9}{'samples':>9}{'error':>9}")
    for name, (link, noise) in OF_TWO.items():
        _print_two_fields(name, link, noise)


def _print_two_fields(name: str, link: Callable[[Any], Any], noise: float) -> None:
    """Print the time of limits, and of one average by either method with its relative error."""

    def model() -> SequenceMultiIndex:
        return SequenceMultiIndex(link, indices=2, noise=noise)

    inference, variance = model().channel.inference, np.array([[[0.5, 0.1], [0.1, 0.6]]])
    columns = [f"{1e3 * _seconds(model, np.array([0.5, 2.0])):>9.0f}"]
    for one in (inference, LatentInference(inference.channel)):
        one.averages(variance)
        start = time.process_time()
        found = one.averages(variance).information
        seconds = time.process_time() - start
        columns.append(f"{1e3 * seconds:>8.0f}{np.max(found.error) / np.max(found.value):>9.0e}")
    print(f"{name:18} noise {noise:<3}", *columns, flush=True)


def _seconds(model: Callable[[], Any], alpha: np.ndarray[Any, Any]) -> float:
    """Return the least processor time of three calls after a first one, each at other ratios."""
    limits(model(), alpha[:1], throw=False)
    times = []
    for shift in (0.0, 0.01, 0.02):
        start = time.process_time()
        limits(model(), alpha + shift, throw=False)
        times.append(time.process_time() - start)
    return min(times)


if __name__ == "__main__":
    main()
