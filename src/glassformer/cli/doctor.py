"""Checks of the installation: versions, the machine, and computations with known results."""

from __future__ import annotations

import argparse
import contextlib
import platform
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import glassformer
from glassformer.cli.output import FAILED, print_json
from glassformer.core.accuracy import Accuracy
from glassformer.core.cache import VARIABLE, cache_folder
from glassformer.core.errors import BackendError, DataError
from glassformer.core.files import make_folder, require_writable_file
from glassformer.core.resources import available_memory, usable_cores

# Extras that only developers install.
_DEVELOPERS = ("test", "docs", "bench", "release")


def add(parser: argparse.ArgumentParser) -> None:
    """As JSON or as text."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(options: argparse.Namespace) -> int:
    """Print versions, machine and the results of the checks."""
    document, checks = {"versions": versions(), "machine": machine()}, []
    if not options.json:
        for entries in document.values():
            print("\n".join(f"{name:24s}{_text(value)}" for name, value in entries.items()), end="\n\n", flush=True)
    for check in check_all():
        checks.append(check)
        if not options.json:
            text = f"{check.name:24s}{'good' if check.ok else 'FAILED'}  {check.seconds:5.1f} s  {check.found}"
            # Printed at once: on a busy machine all checks together take minutes.
            print(text, flush=True)
    good = all(check.ok for check in checks)
    if options.json:
        print_json("doctor", {**document, "checks": [check._asdict() for check in checks], "ok": good})
    return 0 if good else FAILED


def _text(value: object) -> str:
    if value is None:
        return "not installed"
    if isinstance(value, dict):
        return ", ".join(f"{name} {number}" for name, number in value.items())
    return ", ".join(value) if isinstance(value, list) else str(value)


def versions() -> dict[str, str | None]:
    """Versions of Python, of the package and of all its dependencies; None for those that are not installed.

    Example:
        >>> versions()["numpy"] is None
        False
    """
    found: dict[str, str | None] = {"python": platform.python_version()}
    required: list[str] = []
    # Sources on the path that were not installed name no dependencies.
    with contextlib.suppress(metadata.PackageNotFoundError):
        required = metadata.requires("glassformer") or []
    lines = [line for line in required if not line.rstrip("\"'").endswith(_DEVELOPERS)]
    names = {match.group().lower() for match in (re.match(r"[\w.-]+", line) for line in lines) if match}
    for name in ("glassformer", *sorted(names)):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def machine() -> dict[str, Any]:
    """The system, its devices, threads and free memory, and the folder of caches."""
    import jax
    import threadpoolctl

    from glassformer.numerics.jax_settings import require_backend

    try:
        require_backend()
        devices = [str(device) for device in jax.devices()]
    except BackendError as error:
        devices = [f"none: {error}"]
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": usable_cores(),
        "threads": {pool["internal_api"]: pool["num_threads"] for pool in threadpoolctl.threadpool_info()},
        "devices": devices,
        "free_gigabytes": round(available_memory() / 1e9, 1),
        "cache": str(cache_folder() or "off"),
    }


class CheckResult(NamedTuple):
    """A check: its name, whether it passed, its time, and the result or the error."""

    name: str
    ok: bool
    seconds: float
    found: str


def check_all() -> Iterator[CheckResult]:
    """Run all checks, in half a minute on one core; a check that raises has failed, and the others still run."""
    for name, check in CHECKS.items():
        began = time.perf_counter()
        try:
            ok, found = check()
        except Exception as error:  # any error is a result
            ok, found = False, f"{type(error).__name__}: {error}"
        yield CheckResult(name, ok, round(time.perf_counter() - began, 2), found)


def _closed_form() -> tuple[bool, str]:
    """Linear labels of full width, without noise: the error is the share of the unknowns without an equation."""
    error = glassformer.limits(glassformer.BilinearSequenceRegression(rho=float("inf")), 0.3)["error"][0]
    return bool(abs(error - 0.7) < 1e-9), f"error {error:.9g} at alpha = 0.3, expected 0.7"


def _thresholds() -> tuple[bool, str]:
    alpha = glassformer.thresholds(glassformer.BilinearSequenceRegression(rho=0.5))["perfect_recovery"].alpha
    return bool(abs(alpha - 0.75) < 1e-12), f"perfect recovery at {alpha:.12g}, expected 3/4"


def _compiled() -> tuple[bool, str]:
    """A compiled link in double precision: noisy linear labels of one direction solve a quadratic equation."""
    error = glassformer.limits(glassformer.SequenceMultiIndex(lambda z: z[0, 0], noise=0.5), 1.0)["error"][0]
    exact = (np.sqrt(0.25 + 2) - 0.5) / 2  # V = 1/(1 + alpha/(Delta + V))
    return bool(abs(error - exact) < 1e-6), f"error {error:.9g}, expected {exact:.9g} (closed form)"


def _several_indices() -> tuple[bool, str]:
    """Labels that depend on one of two directions: its error is the one above, that of the other stays 1."""
    link = glassformer.SequenceMultiIndex(lambda z: (z[0, 0] + z[1, 0]) / np.sqrt(2), indices=2, noise=0.5).at_accuracy(
        Accuracy(points=512)
    )
    found = glassformer.limits(link, 1.0)
    error, estimate = (found[name][0] for name in ("error", "error_estimate"))
    exact = (1 + (np.sqrt(0.25 + 2) - 0.5) / 2) / 2
    return bool(abs(error - exact) < 4 * estimate < 0.02), (
        f"error {error:.5g} +- {estimate:.1g}, expected {exact:.5g} (closed form)"
    )


def _message_passing() -> tuple[bool, str]:
    """Runs on data agree with theory at the same ratios, within four standard errors and a term of order 1/d."""
    runs = glassformer.simulate(glassformer.BilinearSequenceRegression(rho=0.5, noise=0.1), 0.6, d=60, instances=4)
    error, bar, theory = (runs[name][0] for name in ("relative_error", "relative_standard_error", "theory"))
    close = abs(error - theory) < 4 * bar + 1 / 60
    text = f"error {error:.4g} +- {bar:.1g} on data of d = 60, theory {theory:.4g}"
    return bool(close and runs.converged), text


def _repeatable() -> tuple[bool, str]:
    model = glassformer.BilinearSequenceRegression(rho=0.5)
    first, second = (glassformer.simulate(model, 0.6, d=20, instances=1, seed=7)["error"][0] for _ in range(2))
    return bool(first == second), "the same seed gives the same bits"


def _picture() -> tuple[bool, str]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "curve.png"
        glassformer.limits(glassformer.BilinearSequenceRegression(rho=0.5), [0.2, 0.4]).plot(path)
        size = path.stat().st_size
    return size > 1000, f"a picture of {size} bytes"


def _cache() -> tuple[bool, str]:
    """Tables and compiled programs are stored between processes, unless the cache is off."""
    folder = cache_folder()
    if folder is None:
        return True, "off: nothing is stored between processes"
    try:
        require_writable_file("cache", make_folder(folder / "tables", "cache", parents=True) / "check")
    except DataError as error:
        return False, f"{error}; or set {VARIABLE} to another folder, or to off"
    return True, f"{folder} can be written to"


CHECKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "closed form": _closed_form,
    "thresholds": _thresholds,
    "compiled link": _compiled,
    "two indices": _several_indices,
    "message passing": _message_passing,
    "repeatable": _repeatable,
    "picture": _picture,
    "cache": _cache,
}
