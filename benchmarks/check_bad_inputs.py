"""Several hundred bad command lines: none may hang, fill the memory of 6 GB or end in a traceback.

    python benchmarks/check_bad_inputs.py [WORDS THAT A LINE MUST CONTAIN]

A line is good if it is refused in one line (exit code 2) or computed (0, 3). What needs more time may be a long, honest
computation: the machine decides, so a hang is a line to look at.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from glassformer.cli import main

SECONDS, BYTES = 60, 6 << 30
NUMBERS = ("nan", "inf", "-1", "0", "1e300", "1e-300", "a", "", "1,2")
WHOLE = ("0", "-1", "2.5", "a", "", "nan", "100000", "1000000000000", "1" + 30 * "0")
SPECS = (
    "nan",
    "inf",
    "-1",
    "1e300",
    "a",
    "",
    ",",
    "0:1",
    "0:1:0",
    "0:1:100000000",
    "1:2:3:4",
    "0:inf:3",
    "-1e308:1e308:3",
)
NAMES = ("", "nothing", "3")
# A good command line, and the options of it that are then given every bad value of their kind.
LINES = {
    "limits bsr --alpha 0.3 --rho 0.5": {
        "alpha": SPECS,
        "rho": NUMBERS,
        "beta": NUMBERS,
        "noise": NUMBERS,
        "channel": NAMES,
    },
    "limits bsr --alpha 0.3": {"width": WHOLE},
    "limits aim --alpha 0.1 --rho 0.5": {
        "alpha": SPECS,
        "rho": NUMBERS,
        "tokens": WHOLE,
        "temperature": NUMBERS,
        "layers": WHOLE,
        "channel": NAMES,
        "skip": SPECS,
    },
    "limits aim --alpha 0.1 --rho 0.5 --channel linear": {"noise": NUMBERS, "tokens": WHOLE},
    "limits aim --alpha 0.1 --rho 0.5 --channel hardmax": {"tokens": WHOLE, "noise": NUMBERS},
    "limits aim --alpha 0.1 --rho 0.5 --layers 2": {
        "skip": SPECS,
        "tokens": WHOLE,
        "noise": NUMBERS,
        "temperature": NUMBERS,
    },
    "limits attention --alpha 0.1 --points 32": {
        "alpha": SPECS,
        "depth": (*WHOLE, "40"),
        "tokens": (*WHOLE, "40", "200"),
        "heads": WHOLE,
        "skip": SPECS,
        "noise": NUMBERS,
        "side-information": NUMBERS,
        "data-points": (*WHOLE, "1099511627776"),
        "activation": NAMES,
        "output": NAMES,
        "limit": NAMES,
    },
    "limits attention --alpha 0.1 --points 32 --limit large-depth": {
        "depth": WHOLE,
        "tokens": WHOLE,
        "skip": NUMBERS,
    },
    "limits attention --alpha 0.1 --points 32 --untied": {"depth": WHOLE, "tokens": WHOLE, "heads": WHOLE},
    "limits smi --alpha 0.1 --link link.py:link --indices 1": {
        "indices": WHOLE,
        "tokens": WHOLE,
        "noise": NUMBERS,
        "link": ("", "a", "a.py", "link.py:", "link.py:no", "bad.py:f", ".:f"),
        "data-points": WHOLE,
        "label-type": NAMES,
        "side-information": NUMBERS,
    },
    "thresholds bsr --rho 0.5": {"rho": NUMBERS, "beta": NUMBERS, "noise": NUMBERS},
    "thresholds aim --rho 0.5": {"rho": NUMBERS, "tokens": WHOLE},
    "landscape bsr --alpha 0.5 --rho 0.5": {"alpha": SPECS, "points": WHOLE, "row": WHOLE},
    "hysteresis bsr --alpha 0.4,0.5 --rho 0.5": {"alpha": SPECS, "rho": NUMBERS},
    "simulate bsr --alpha 0.5 --rho 0.5 --d 10 --instances 1": {
        "alpha": SPECS,
        "d": WHOLE,
        "instances": WHOLE,
        "seed": WHOLE,
        "rho": (*NUMBERS, "1e9"),
        "beta": (*NUMBERS, "1e9"),
        "noise": NUMBERS,
        "storage": NAMES,
        "learner": NAMES,
        "max-iterations": WHOLE,
        "strength": NUMBERS,
    },
    "simulate bsr --alpha 1e12 --rho 0.5 --d 20 --instances 1": {
        "storage": ("float64", "float32", "generated", "sharded")
    },
    "simulate bsr --alpha 0.5 --rho 0.5 --d 10 --instances 1 --learner ridge": {"strength": NUMBERS},
    "simulate bsr --alpha 0.5 --rho 0.5 --d 10 --instances 1 --learner gd --steps 20": {
        "student-width": WHOLE,
        "initialisations": WHOLE,
        "learning-rate": NUMBERS,
        "momentum": NUMBERS,
        "weight-decay": NUMBERS,
        "optimizer": NAMES,
        "start": NAMES,
        "explore": WHOLE,
    },
    "simulate aim --alpha 0.5 --rho 0.5 --d 10 --instances 1": {
        "alpha": SPECS,
        "d": WHOLE,
        "rho": (*NUMBERS, "1e6"),
        "tokens": WHOLE,
    },
    "simulate attention --alpha 2 --d 10 --instances 1 --points 32 --learner sgd": {
        "batch": WHOLE,
        "passes": WHOLE,
        "d": WHOLE,
        "heads": WHOLE,
    },
    "phase-diagram attention --depth 1 --points 32": {"skip": (*SPECS, "0,0", "abc"), "tokens": WHOLE},
    "figure": {"out": ("/proc/no",), "reference": ("/nothing",)},
    "figure nothing": {},
    "cite nothing": {},
    "sweep run nothing.toml --store s": {},
    "sweep status nothing": {},
    "sweep plot link.py": {},
}


def lines() -> list[str]:
    """Every good line with one option replaced by a bad value."""
    found = []
    for line, options in LINES.items():
        found += [line] if not options else []
        for option, values in options.items():
            words = shlex.split(line)
            if f"--{option}" in words:
                place = words.index(f"--{option}")
                words = words[:place] + words[place + 2 :]
            found += [shlex.join([*words, f"--{option}={value}"]) for value in values]
    return found


def outcome(line: str, folder: Path) -> str:
    """What became of a line in a process of its own."""
    log = folder / "log"
    child = os.fork()
    if child == 0:
        os.setsid()
        out = os.open(log, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(out, 1), os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        code = 1
        try:
            code = main(shlex.split(line))
        except SystemExit as leaving:
            code = leaving.code
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(Exception):
                sys.stdout.flush(), sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return told(os.waitstatus_to_exitcode(status), log.read_text(errors="replace"))
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "HANG"


def told(code: int, text: str) -> str:
    last = text.strip().splitlines()[-1] if text.strip() else ""
    if "MemoryError" in text or "RESOURCE_EXHAUSTED" in text or "bad_alloc" in text:
        return f"MEMORY {last}"
    if code not in (0, 2, 3) or "Traceback" in text:
        return f"TRACEBACK {code} {last}"
    if "Warning" in text:
        return f"WARNING {last}"
    return f"refused {last}" if code == 2 else f"computed {code}"


def run(wanted: str) -> int:
    import pandas  # noqa: F401  # what every line imports, once
    import scipy.optimize  # noqa: F401

    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("link.py").write_text("def link(z):\n    return z[0, 0]\n")
        Path("bad.py").write_text("1 / 0\n")
        for line in lines():
            if wanted in line:
                begin = time.monotonic()
                found = outcome(line, Path(folder))
                counts[found.split()[0]] += 1
                print(f"{time.monotonic() - begin:5.1f} s  {line}  {found[:160]}", flush=True)
    print(dict(counts))
    return int(any(kind.isupper() for kind in counts))


if __name__ == "__main__":
    raise SystemExit(run(" ".join(sys.argv[1:])))
