"""Links of the literature against plain grids: information, weak recovery and exponents, and what all of it costs.

    python benchmarks/check_links.py [LINK ...]

Every row is one link with one noise: the largest relative difference of the information at three variances from sums
on plain grids, its largest claimed error, the weak-recovery threshold beside that of a plain sum, both exponents, and
the processor time of 20 ratios with all thresholds, through bsr at rho = inf and through smi.
"""

from __future__ import annotations

import importlib.util
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import BilinearSequenceRegression, SequenceMultiIndex, limits, thresholds
from glassformer.channels.link.channel import LinkChannel

Link = Callable[[Any], Any]

# Name: the link and its breaks.
LINKS: dict[str, tuple[Link, tuple[float, ...]]] = {
    "He1": (lambda z: z, ()),
    "He2": (lambda z: (z**2 - 1) / np.sqrt(2), ()),
    "He3": (lambda z: (z**3 - 3 * z) / np.sqrt(6), ()),
    "He4": (lambda z: (z**4 - 6 * z**2 + 3) / np.sqrt(24), ()),
    "He5": (lambda z: (z**5 - 10 * z**3 + 15 * z) / np.sqrt(120), ()),
    "He6": (lambda z: (z**6 - 15 * z**4 + 45 * z**2 - 15) / np.sqrt(720), ()),
    "z^3 - 3z": (lambda z: z**3 - 3 * z, ()),
    "z^2": (lambda z: z**2, ()),
    "|z|": (np.abs, (0.0,)),
    "sign": (np.sign, (0.0,)),
    "relu": (lambda z: np.maximum(z, 0.0), (0.0,)),
    "leaky relu": (lambda z: np.where(z > 0, z, 0.1 * z), (0.0,)),
    "tanh": (np.tanh, ()),
    "erf-like": (lambda z: z / np.sqrt(1 + z**2), ()),
    "softplus": (lambda z: np.logaddexp(0.0, z), ()),
    "cos": (np.cos, ()),
    "sin": (np.sin, ()),
    "cos 3z": (lambda z: np.cos(3 * z), ()),
    "z exp(-z^2)": (lambda z: z * np.exp(-(z**2)), ()),
    "z^2 exp(-z^2)": (lambda z: z**2 * np.exp(-(z**2)), ()),
    "|z| < 1": (lambda z: np.where(np.abs(z) < 1, 1.0, 0.0), (-1.0, 1.0)),
    "clip": (lambda z: np.clip(z, -1, 1), (-1.0, 1.0)),
    "steps of 0.5": (lambda z: 0.5 * np.round(2 * z), tuple(0.5 * (np.arange(-16, 16) + 0.5))),
    "steps of 0.05": (lambda z: 0.05 * np.round(20 * z), tuple(0.05 * (np.arange(-150, 150) + 0.5))),
}
NOISES = (0.0, 1e-6, 1e-4, 0.1, 1.0)
# Noise from which on plain grids are fine enough, and the variances of the comparison.
PLAIN, VARIANCES = 0.05, np.array([0.9, 0.4, 0.05])


def main() -> None:
    columns = f"{'difference':>12}{'claimed':>10}{'weak':>12}{'plain':>12}{'IE':>4}{'GE':>4}{'bsr s':>8}{'smi s':>8}"
    print(f"{'link':14}{'noise':>8}{columns}")
    for name in sys.argv[1:] or list(LINKS):
        for noise in NOISES:
            print(f"{name:14}{noise:8g}{_row(*LINKS[name], noise)}", flush=True)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f} MB")


def _row(link: Link, breaks: tuple[float, ...], noise: float) -> str:
    oracle = plain()
    difference = claimed = weak = np.nan
    if noise >= PLAIN:
        found = LinkChannel(link, noise).information(VARIANCES)
        expected = np.array([oracle.information(link, noise, v, breaks) for v in VARIANCES])
        difference, claimed = np.max(np.abs(found.value / expected - 1)), np.max(found.error / expected)
    exponents, threshold, first = _seconds(lambda: BilinearSequenceRegression(rho=np.inf, link=link, noise=noise))
    _, other, second = _seconds(
        lambda: SequenceMultiIndex(lambda z: link(z[0, 0]), noise=noise, label_type="continuous")
    )
    assert other == threshold or abs(other - threshold) < 1e-6 * threshold, (other, threshold)
    if noise >= PLAIN and 0 < threshold < np.inf:
        weak = oracle.weak_recovery(link, noise, breaks)
    numbers = f"{difference:12.1e}{claimed:10.1e}{threshold:12.6g}{weak:12.6g}"
    return f"{numbers}{exponents.information:4g}{exponents.generative:4g}{first:8.2f}{second:8.2f}"


def _seconds(model: Callable[[], Any]) -> tuple[Any, float, float]:
    """Exponents, weak-recovery threshold, and processor time of a new model in a warm process."""
    start = time.process_time()
    fresh = model()
    limits(fresh, np.linspace(0.1, 2.5, 20), throw=False)
    found = thresholds(fresh)
    return found.exponents, found["weak_recovery"].alpha, time.process_time() - start


def plain() -> Any:
    """The sums on plain grids that the tests compare with."""
    path = Path(__file__).parents[1] / "tests" / "channels" / "plain_link.py"
    spec = importlib.util.spec_from_file_location("glassformer_plain_link", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main()
