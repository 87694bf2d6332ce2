"""Golden numbers: what every command prints, recorded once and compared after every change of the structure.

python tests/golden/golden.py              # compare with golden.json
python tests/golden/golden.py --record     # write golden.json anew
python tests/golden/golden.py risk simulate  # only commands and functions whose line contains one of these words
"""

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import sys
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
FILE = HERE / "golden.json"
# Numbers that are computed alike agree to rounding; iterations stop within their tolerance.
RELATIVE, ABSOLUTE = 1e-7, 1e-9
# Of long lists so many entries are compared.
ENTRIES = 10
# Residuals and error estimates of converged results are rounding themselves; times and versions differ.
UNCOMPARED = {"seconds", "time", "elapsed", "version", "versions", "provenance", "residual", "error_estimate", "schema"}
UNCOMPARED |= {"created", "command", "environment", "peak_memory", "nishimori_ratio"}


def data_fits():
    """Estimators and functions for people's own data."""
    import numpy as np

    from glassformer.data_analysis import cross_validate, diagnose, estimate_model
    from glassformer.designs import DenseDesign
    from glassformer.sklearn import BilinearClassifier, BilinearRegressor

    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8, 10))
    S = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 10)) / math.sqrt(2)
    y = np.einsum("nld,ld->n", X, S) / math.sqrt(80) + 0.3 * rng.standard_normal(200)
    out = {}
    for solver in ("bayes", "risk"):
        fit = BilinearRegressor(solver=solver).fit(X, y)
        out[f"regressor {solver}"] = fit.predict(X[:5]).tolist()
    fit = BilinearClassifier().fit(X, (y > 0).astype(int))
    out["classifier"] = fit.predict_proba(X[:5]).tolist()
    design = DenseDesign(X)
    found = cross_validate(design, y, strengths=5)
    out["cross_validate"] = {name: np.asarray(getattr(found, name)).tolist() for name in ("strengths", "losses")}
    found = estimate_model(X, y)
    out["estimate_model"] = {name: getattr(found, name) for name in ("rho", "noise") if hasattr(found, name)}
    out["diagnose"] = str(diagnose(X, y))
    return out


def overlaps():
    """Conjugate overlaps, subspaces and the nuclear-norm transition."""
    import numpy as np
    from links import gated, rate

    import glassformer as gf
    from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
    from glassformer.laws import nuclear_norm_threshold

    poisson = gf.SequenceMultiIndex(rate, noise_law="poisson")
    two = gf.SequenceMultiIndex(gated, indices=2, tokens=1, noise=0.1).at_accuracy(gf.Accuracy(points=64))
    return {
        "poisson": np.asarray(conjugate_overlap(poisson, [0.4], accuracy=2e-3).value).tolist(),
        "gated": np.asarray(conjugate_overlap(two, np.diag([0.3, 0.2]), accuracy=1e-1).value).tolist(),
        "nuclear_norm_threshold": float(np.asarray(nuclear_norm_threshold(0.5, 1.0)).ravel()[0]),
    }


FUNCTIONS = {function.__name__: function for function in (data_fits, overlaps)}


def numbers(value, path=""):
    """Leaves of a nested result: path to number or text."""
    if isinstance(value, dict):
        for key in value:
            if key not in UNCOMPARED:
                yield from numbers(value[key], f"{path}.{key}")
    elif isinstance(value, (list, tuple)):
        for index in range(0, len(value), math.ceil(max(len(value), 1) / ENTRIES)):
            yield from numbers(value[index], f"{path}[{index}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield path, float(value)
    elif isinstance(value, str) and path.rsplit(".", 1)[-1].split("[")[0] in ("status", "inf"):
        yield path, value


def run(line):
    """Numbers of one command or function, and its time."""
    start = time.perf_counter()
    sys.path.insert(0, str(HERE))
    os.chdir(HERE)
    warnings.simplefilter("ignore")
    try:
        if line in FUNCTIONS:
            result = FUNCTIONS[line]()
        else:
            from glassformer.cli import main

            out = io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
                main([*line.split(), "--json"])
            result = json.loads(out.getvalue())
        found = {key: repr(v) if isinstance(v, float) else v for key, v in numbers(result)}
    except Exception as error:
        found = {"failed": f"{type(error).__name__}: {error}"}
    return line, found, time.perf_counter() - start


def differences(expected, found):
    """Lines that say where two sets of numbers differ."""
    for key in sorted(expected.keys() | found.keys()):
        before, now = expected.get(key), found.get(key)
        if before == now:
            continue
        try:
            if math.isclose(float(before), float(now), rel_tol=RELATIVE, abs_tol=ABSOLUTE):
                continue
        except (TypeError, ValueError):
            pass
        yield f"  {key}: {before} -> {now}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--lines", type=int, default=6)
    asked = parser.parse_args()
    lines = [line for line in (HERE / "commands.txt").read_text().splitlines() if line and line[0] != "#"]
    lines = [*FUNCTIONS, *lines]
    if asked.words:
        lines = [line for line in lines if any(word in line for word in asked.words)]
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    wrong, times = 0, {}
    with multiprocessing.get_context("spawn").Pool(asked.processes, maxtasksperchild=8) as pool:
        for line, found, seconds in pool.imap_unordered(run, lines):
            times[line] = seconds
            if asked.record:
                recorded[line] = found
                if "failed" in found or not found:
                    print(f"FAILED {line}: {found}")
                continue
            different = list(differences(recorded.get(line, {}), found))
            if different:
                wrong += 1
                print(
                    f"DIFFERENT {line} ({len(different)} of {len(found)})",
                    *different[: asked.lines],
                    sep="\n",
                    flush=True,
                )
    if asked.record:
        FILE.write_text(json.dumps(dict(sorted(recorded.items())), indent=0) + "\n")
    slow = sorted(times.items(), key=lambda item: -item[1])[:8]
    print(f"{len(lines)} commands, {wrong} different; slowest: " + "; ".join(f"{s:.0f} s {line}" for line, s in slow))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
