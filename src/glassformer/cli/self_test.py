"""Is this installation sound? Versions, what the machine has, and computations whose outcome is known."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable
from importlib import metadata
from typing import Any, NamedTuple

_NAME = re.compile(r"[\w.-]+")
_NOT_FOR_USERS = ("test", "docs", "bench", "release")


class Check(NamedTuple):
    """A check: its name, whether it went well, how long it took, and what was found or went wrong."""

    name: str
    ok: bool
    seconds: float
    found: str


def versions() -> dict[str, str | None]:
    """Versions of Python, of the package and of all it can use; None for what is not installed.

    Example:
        >>> versions()["numpy"] is None
        False
    """
    lines = metadata.requires("glassformer") or []
    asked = [line for line in lines if not line.rstrip("\"'").endswith(_NOT_FOR_USERS)]
    names = sorted({found.group().lower() for found in map(_NAME.match, asked) if found})
    known = {name: _version(name) for name in ("glassformer", *names)}
    return {"python": platform.python_version(), **known}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """The system, its devices, threads and free memory, and where things are kept."""
    import threadpoolctl

    from glassformer.core.cache import cache_folder
    from glassformer.core.resources import available_memory

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    pools = threadpoolctl.threadpool_info()
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": cores,
        "threads": {pool["internal_api"]: pool["num_threads"] for pool in pools},
        "devices": _devices(),
        "free_gigabytes": round(available_memory() / 1e9, 1),
        "cache": str(cache_folder() or "off"),
    }


def _devices() -> list[str]:
    import jax

    from glassformer.core.errors import BackendError
    from glassformer.numerics.jax_settings import require_backend

    try:
        require_backend()
    except BackendError as error:
        return [f"none: {error}"]
    return [str(device) for device in jax.devices()]


def check_all() -> list[Check]:
    """All checks, in half a minute on one core: what is wrong with one does not keep the others from being made."""
    return [_checked(name, check) for name, check in CHECKS.items()]


def _checked(name: str, check: Callable[[], tuple[bool, str]]) -> Check:
    began = time.perf_counter()
    try:
        ok, found = check()
    except Exception as error:  # whatever goes wrong is what is looked for
        ok, found = False, f"{type(error).__name__}: {error}"
    return Check(name, ok, round(time.perf_counter() - began, 2), found)


def _closed_form() -> tuple[bool, str]:
    """Linear labels of full width, without noise: the error is what is left of the unknowns."""
    from glassformer import BilinearSequenceRegression, limits

    error = limits(BilinearSequenceRegression(rho=float("inf")), 0.3)["error"][0]
    return bool(abs(error - 0.7) < 1e-9), f"error {error:.9g} at alpha = 0.3, 0.7 by counting"


def _thresholds() -> tuple[bool, str]:
    from glassformer import BilinearSequenceRegression, thresholds

    alpha = thresholds(BilinearSequenceRegression(rho=0.5))["perfect_recovery"].alpha
    return bool(abs(alpha - 0.75) < 1e-12), f"perfect recovery at {alpha:.12g}, 3/4 by counting"


def _compiled() -> tuple[bool, str]:
    """A link that is compiled, in double precision: noisy linear labels of one direction solve a quadratic equation."""
    import numpy as np

    from glassformer import SequenceMultiIndex, limits

    error = limits(SequenceMultiIndex(lambda z: z[0, 0], noise=0.5), 1.0)["error"][0]
    exact = (np.sqrt(0.25 + 2) - 0.5) / 2  # V = 1/(1 + alpha/(Delta + V))
    return bool(abs(error - exact) < 1e-6), f"error {error:.9g}, {exact:.9g} in closed form"


def _several_indices() -> tuple[bool, str]:
    """Labels of one direction out of two: of that one the error is the one above, of the other nothing is learned."""
    import numpy as np

    from glassformer import SequenceMultiIndex, limits

    link = SequenceMultiIndex(lambda z: (z[0, 0] + z[1, 0]) / np.sqrt(2), indices=2, noise=0.5, points=512)
    found = limits(link, 1.0)
    error, bar = (found[name][0] for name in ("error", "error_estimate"))
    exact = (1 + (np.sqrt(0.25 + 2) - 0.5) / 2) / 2
    return bool(abs(error - exact) < 4 * bar < 0.02), f"error {error:.5g} +- {bar:.1g}, {exact:.5g} in closed form"


def _message_passing() -> tuple[bool, str]:
    """Runs on data, beside theory at the same finite ratios: within four standard errors and a term of order 1/d."""
    from glassformer import BilinearSequenceRegression, simulate

    runs = simulate(BilinearSequenceRegression(rho=0.5, noise=0.1), 0.6, d=60, instances=4)
    error, bar, theory = (runs[name][0] for name in ("relative_error", "relative_standard_error", "theory"))
    close = abs(error - theory) < 4 * bar + 1 / 60
    text = f"error {error:.4g} +- {bar:.1g} on data of d = 60, {theory:.4g} in theory of large ones"
    return bool(close and runs.converged), text


def _repeated() -> tuple[bool, str]:
    from glassformer import BilinearSequenceRegression, simulate

    first, second = (
        simulate(BilinearSequenceRegression(rho=0.5), 0.6, d=20, instances=1, seed=7)["error"][0] for _ in range(2)
    )
    return bool(first == second), "the same seed gives the same bits"


def _picture() -> tuple[bool, str]:
    import tempfile
    from pathlib import Path

    from glassformer import BilinearSequenceRegression, limits
    from glassformer.plotting.plots import plot_limits

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "curve.png"
        plot_limits(limits(BilinearSequenceRegression(rho=0.5), [0.2, 0.4]), path)
        size = path.stat().st_size
    return size > 1000, f"a picture of {size} bytes"


def _cache() -> tuple[bool, str]:
    """Whether tables and compiled programs can be kept between processes, where that is not declined."""
    from glassformer.core.cache import VARIABLE, cache_folder
    from glassformer.core.errors import DataError
    from glassformer.core.files import require_writable_file

    folder = cache_folder()
    if folder is None:
        return True, "off: every process computes its tables and compiles its programs itself"
    try:
        require_writable_file("cache", folder / "tables" / "check", make=True)
    except DataError as error:
        return False, f"{error}; or set {VARIABLE} to another folder, or to off"
    return True, f"{folder} can be written to"


CHECKS: dict[str, Callable[[], tuple[bool, str]]] = {
    "closed form": _closed_form,
    "thresholds": _thresholds,
    "compiled link": _compiled,
    "two indices": _several_indices,
    "message passing": _message_passing,
    "repeatable": _repeated,
    "picture": _picture,
    "cache": _cache,
}
