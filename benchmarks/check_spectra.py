"""Singular values of estimates of runs against their law, at three sizes, and outliers of teachers of rank two.

The Kolmogorov distance of the pooled values of runs from the law falls like a power of the dimension. Of a teacher of
finite rank, the estimate has outliers, whose places and overlaps with the teacher are those of theory.

    python benchmarks/check_spectra.py [--quick]
"""

from __future__ import annotations

import argparse

import numpy as np

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    NuclearNorm,
    RegularisedRisk,
    simulate,
    spectrum,
)
from glassformer.core.estimate import Array
from glassformer.learners.base import Learner
from glassformer.models.base import Model

LINEAR = BilinearSequenceRegression(rho=0.3, noise=0.1)
ATTENTION = AttentionIndexed(rho=0.3, noise=0.1, channel="linear", tokens=1)
ASKED: dict[str, tuple[Model, float, str | Learner, str]] = {
    "bsr, gamp": (LINEAR, 0.5, "gamp", "revealed"),
    "bsr, nuclear norm": (LINEAR, 0.5, NuclearNorm(strength=0.1), "revealed"),
    "bsr, ridge": (LINEAR, 0.5, "ridge", "revealed"),
    "bsr, beta = 2, gamp": (LINEAR.varied(beta=2.0), 0.5, "gamp", "revealed"),
    "aim, gamp": (ATTENTION, 0.2, "gamp", "revealed-equivalent"),
    "aim, trace": (ATTENTION, 0.2, RegularisedRisk("square", "trace", 0.1), "revealed-equivalent"),
}
STEPS = 10


def values_of_runs(model: Model, alpha: float, learner: str | Learner, d: int, instances: int, storage: str) -> Array:
    """Return the singular values of runs, shape (instances, 1, values)."""
    settings = {"d": d, "instances": instances, "storage": storage, "throw": False}
    return simulate(model, [alpha], learner, keep=("singular_values",), **settings).of_instances("singular_values")[0]


def distances(sizes: list[int], instances: int) -> None:
    """Print the Kolmogorov distance of runs from the law at each size."""
    print("Kolmogorov distance of the values of runs from the law, d = " + ", ".join(map(str, sizes)))
    for name, (model, alpha, learner, storage) in ASKED.items():
        law, far = spectrum(model, alpha, learner), []
        for d in sizes:
            far.append(law.distance(values_of_runs(model, alpha, learner, d, instances, storage)))
        power = np.polyfit(np.log(sizes), np.log(far), 1)[0]
        print(f"  {name:22s}" + "".join(f"{one:9.4f}" for one in far) + f"   power of d {power:.2f}", flush=True)


def in_time(sizes: list[int], instances: int) -> None:
    """Print the distance of runs of gradient descent from the law of drawn matrices after some steps."""
    law, far = spectrum(LINEAR, 0.5, GradientDescent("sgd", 0.2), step=STEPS), []
    learner = GradientDescent("sgd", 0.2, steps=STEPS, explore=0)
    for d in sizes:
        far.append(law.distance(values_of_runs(LINEAR, 0.5, learner, d, instances, "revealed")))
    print(f"  gd after {STEPS} steps     " + "".join(f"{one:9.4f}" for one in far) + "   (a law of drawn matrices)")


def outliers(sizes: list[int], instances: int) -> None:
    """Print the two largest values of runs beside the outliers of the law, for a teacher of rank two."""
    print("outliers of a teacher of rank two, bsr, nuclear norm .1: theory, then mean and standard error of runs")
    for d in sizes:
        model = BilinearSequenceRegression(noise=0.1, spectrum=np.repeat([0.0, 1.0, 2.0], [d - 2, 1, 1]))
        learner, alpha = NuclearNorm(strength=0.1), 8.0 / d
        law = spectrum(model, alpha, learner)
        drawn = values_of_runs(model, alpha, learner, d, instances, "revealed")
        values = np.sort(drawn.reshape(instances, -1), axis=1)[:, -2:]
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(instances)
        for k, outlier in enumerate(law.outliers):
            print(f"  d = {d}: {outlier.value:.3f}   {mean[k]:.3f} +- {error[k]:.3f}   overlap {outlier.overlap:.3f}")


def main() -> None:
    """Run all checks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    quick = parser.parse_args().quick
    sizes, instances = ([20, 40], 2) if quick else ([100, 200, 400], 8)
    distances(sizes, instances)
    in_time(sizes, instances)
    outliers(sizes, instances)


if __name__ == "__main__":
    main()
