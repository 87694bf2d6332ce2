"""Seeded mistakes in formulas, each of which the tests must catch.

    python benchmarks/check_mutations.py            # all, some twenty minutes
    python benchmarks/check_mutations.py vamp ridge # those whose file or tests contain one of these words

Every mistake is put into a copy of the sources, and the tests of its subject are run until the first failure.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HOME = Path(__file__).resolve().parents[1]
# File, formula, formula with the mistake, tests of the subject.
MUTATIONS = (
    ("random_matrices/rectangular.py", "R * (1 - deficit), 1", "R * (1 - 1.001 * deficit), 1", "random_matrices"),
    ("random_matrices/symmetric.py", "4 / 3 * noise", "4 / 3.01 * noise", "random_matrices"),
    (
        "random_matrices/nuclear_norm.py",
        "cost = rho * level**2",
        "cost = 1.001 * rho * level**2",
        "learners/test_baselines.py",
    ),
    (
        "priors/wishart.py",
        "self.rho * (2 - self.rho)",
        "self.rho * (2 - 1.01 * self.rho)",
        "models/test_attention_indexed.py",
    ),
    (
        "channels/scalar/sign.py",
        "y * omega / scale) / scale)",
        "y * omega / scale) / scale**2)",
        "channels/test_channels.py",
    ),
    (
        "channels/scalar/gaussian.py",
        "(y - omega) / (self.noise",
        "(y - omega) / (1.01 * self.noise",
        "channels/test_channels.py",
    ),
    ("channels/scalar/absolute.py", "+ a * erf(a", "- a * erf(a", "channels conformance"),
    (
        "channels/attention/hardmax_pair.py",
        "np.sqrt(3 * variance)",
        "np.sqrt(2 * variance)",
        "models/test_attention_indexed.py",
    ),
    (
        "channels/attention/softmax.py",
        "self.temperature * h))",
        "1.01 * self.temperature * h))",
        "models/test_attention_indexed.py",
    ),
    ("channels/link/level_set.py", "-((h - omega) ** 2) / (2 * v)", "-((h - omega) ** 2) / (2.01 * v)", "channels"),
    (
        "channels/multi_index/importance_sampling.py",
        "log_prior = -0.5",
        "log_prior = -0.49",
        "channels/test_sampled_posteriors.py",
    ),
    (
        "channels/label_errors.py",
        "0.5 * differences",
        "0.51 * differences",
        "conformance/test_label_errors.py verbs",
    ),
    (
        "bayes_optimal/evolution_map.py",
        "None, None] / self.prior.degrees",
        "None, None] / self.prior.degrees * 1.001",
        "bayes_optimal/test_limits.py",
    ),
    (
        "learners/gamp_step.py",
        "onsager=new.onsager * gain",
        "onsager=0.7 * new.onsager * gain",
        "learners/test_message_passing.py conformance/test_algorithm.py",
    ),
    ("learners/vamp.py", "(old.signal - eta * state", "(old.signal - 0.8 * eta * state", "learners/test_vamp.py"),
    (
        "learners/ridge.py",
        "(strength + v) / (strength + v**2)",
        "(strength + v) / (strength + 1.01 * v**2)",
        "learners/test_baselines.py",
    ),
    (
        "learners/leave_one_out.py",
        "np.maximum(1 - leverage",
        "np.maximum(1 - 0.9 * leverage",
        "learners/test_risk_path.py sklearn",
    ),
    ("risk/losses.py", "variance * (y - omega) / (1 + variance)", "variance * (y - omega) / (1.01 + variance)", "risk"),
    ("risk/penalties.py", "np.maximum(s - threshold[:, None]", "np.maximum(s - 1.01 * threshold[:, None]", "risk"),
    ("dynamics/online_sgd.py", "eta**2 / batch *", "eta**2 *", "dynamics"),
    ("verbs/instances.py", "ddof=1", "ddof=0", "verbs"),
)


def copy(folder):
    """Sources and tests, and what the tests read beside them."""
    for name in ("src", "tests", "benchmarks", "docs"):
        shutil.copytree(HOME / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "_build", "auto"))
    for name in ("pyproject.toml", "README.md", "CONTRIBUTING.md", "conftest.py"):
        if (HOME / name).exists():
            shutil.copy(HOME / name, folder)


def caught(folder, file, formula, mistake, tests):
    """True if a test fails with the mistake in place."""
    path = folder / "src" / "glassformer" / file
    text = path.read_text()
    if formula not in text:
        raise SystemExit(f"{file} has no {formula!r}: correct the table of this script")
    path.write_text(text.replace(formula, mistake, 1))
    try:
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", "not thorough"]
        command += [str(folder / "tests" / name) for name in tests.split()]
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "GLASSFORMER_CACHE": "off"}
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 1
    finally:
        path.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("words", nargs="*")
    parser.add_argument("--quick", action="store_true", help="one mistake alone")
    asked = parser.parse_args()
    chosen = [one for one in MUTATIONS if not asked.words or any(word in one[0] + one[3] for word in asked.words)]
    chosen = [one for one in chosen if "ridge" in one[0]] if asked.quick else chosen
    missed = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        copy(folder)
        for one in chosen:
            start = time.monotonic()
            found = caught(folder, *one)
            print(
                f"{'caught' if found else 'MISSED'}  {time.monotonic() - start:4.0f} s  {one[0]}: {one[2]}", flush=True
            )
            if not found:
                missed.append(one[0])
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mistakes are caught")
    return bool(missed)


if __name__ == "__main__":
    sys.exit(main())
