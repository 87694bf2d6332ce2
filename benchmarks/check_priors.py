"""Does message passing reach the theory for weights that are not Gaussian? Rows of multi-index models and factors.

One line per case: mean error of message passing with its standard error, the theory, and how many runs converged. At
finite size, errors near a threshold exceed the theory; cases lie beyond.

    python benchmarks/check_priors.py [--d 400] [--instances 8]
"""

from __future__ import annotations

import argparse
from typing import Any

import jax.numpy as jnp

from glassformer import BilinearSequenceRegression, SequenceMultiIndex, simulate


def _sign(z: Any) -> Any:
    return jnp.sign(z[0, 0])


def _linear(z: Any) -> Any:
    return z[0, 0]


def _product(z: Any) -> Any:
    return z[0, 0] + z[0, 0] * z[1, 0]


CASES: list[tuple[Any, float]] = [
    (SequenceMultiIndex(_sign, prior="rademacher"), 0.9),
    (SequenceMultiIndex(_sign, prior="gauss-bernoulli:0.2"), 1.0),
    (SequenceMultiIndex(_linear, prior="gauss-bernoulli:0.5"), 0.5),
    (SequenceMultiIndex(_product, indices=2, noise=0.1, prior="rademacher"), 1.0),
    (SequenceMultiIndex(_product, indices=2, noise=0.1, prior="gauss-bernoulli:0.5"), 1.0),
    (BilinearSequenceRegression(beta=1.0, width=1, noise=0.5, prior="rademacher"), 2.0),
    (BilinearSequenceRegression(beta=2.0, width=1, noise=0.3, prior="rademacher"), 1.3),
    (BilinearSequenceRegression(beta=1.0, width=2, noise=0.5, prior="rademacher"), 2.0),
    (BilinearSequenceRegression(beta=1.0, width=1, noise=0.5, prior="gauss-bernoulli:0.5"), 2.0),
    (BilinearSequenceRegression(beta=1.0, width=2, noise=0.5, prior="gauss-bernoulli:0.5"), 2.0),
]


def main() -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=400)
    parser.add_argument("--instances", type=int, default=8)
    arguments = parser.parse_args()
    for model, alpha in CASES:
        # Matrices have d^2 entries and rows d: sizes of the same cost.
        d = arguments.d // 2 if model.name == "bsr" else arguments.d
        result = simulate(model, [alpha], d=d, instances=arguments.instances, seed=1)
        converged = sum(run.status.ok for run in result.instances[0])
        error, blur, theory = (float(result[name][0]) for name in ("error", "standard_error", "theory"))
        sizes = {name: value for name, value in model.parameters.items() if name in ("prior", "width", "beta", "link")}
        print(
            f"{model.name} {sizes} alpha {alpha}: {error:.4f} +- {blur:.4f}, theory {theory:.4f}, {converged} converged"
        )


if __name__ == "__main__":
    main()
