"""Vector message passing beside message passing and theory, on inputs of three kinds.

Independent entries, orthogonal inputs (equal singular values), and tokens correlated as 0.7 to the power of their
distance. beta = 1; errors relative to the power of the teachers, in the mean over data sets; theory is state evolution
with the singular values of each data set. Correlated tokens keep tokens and features apart, which theory does not know.

    python benchmarks/check_vamp.py [--d 40] [--instances 6] [--seed 0]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import cholesky, toeplitz

from glassformer import BilinearSequenceRegression
from glassformer.bayes_optimal.vector_state_evolution import vector_state_evolution
from glassformer.errors import DataWarning
from glassformer.learners.gamp import gamp
from glassformer.learners.vamp import vamp

CASES = ((0.3, 0.1, 0.5), (0.2, 0.1, 0.8), (0.5, 0.3, 1.2))


def independent(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_normal((n, d, d))


def orthogonal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Of orthogonal rows, or columns where there are more rows than columns."""
    flat = rng.standard_normal((max(n, d * d), min(n, d * d)))
    turned = np.linalg.qr(flat)[0] * np.sqrt(max(n, d * d))
    return (turned.T if n < d * d else turned).reshape(n, d, d)


def correlated(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    root = cholesky(toeplitz(0.7 ** np.arange(d)), lower=True)
    return np.einsum("ab,nbe->nae", root, rng.standard_normal((n, d, d)), optimize=True)


KINDS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "independent": independent,
    "orthogonal": orthogonal,
    "correlated": correlated,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--d", type=int, default=40)
    parser.add_argument("--instances", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    print(
        f"{'inputs':>12}{'rho':>5}{'noise':>7}{'alpha':>7}{'vamp':>9}{'s.e.':>8}{'theory':>9}{'z':>6}{'ok':>4}{'gamp':>9}{'ok':>4}"
    )
    for rho, noise, alpha in CASES:
        model = BilinearSequenceRegression(beta=1, rho=rho, noise=noise)
        n = int(alpha * args.d**2)
        for kind, draw in KINDS.items():
            found, settled = [], np.zeros(2, dtype=int)
            for k in range(args.instances):
                rng = np.random.default_rng(args.seed + k)
                signal, inputs = model.prior.sample((args.d, args.d), rng), draw(n, args.d, rng)
                clean = np.einsum("nld,ld->n", inputs, signal) / args.d
                labels = clean + np.sqrt(noise) * rng.standard_normal(n)
                runs = [learn(model, inputs, labels) for learn in (vamp, gamp)]
                matrix = inputs.reshape(n, -1) / args.d
                values = np.linalg.svd(matrix, compute_uv=False) ** 2
                theory = vector_state_evolution(model, values, args.d**2).value[0]
                power = np.mean(signal**2)
                found.append([*(np.mean((run.value[0] - signal) ** 2) / power for run in runs), theory])
                settled += [run.status[0].ok for run in runs]
            (mine, other, theory), spread = (
                np.mean(found, axis=0),
                np.std(found, axis=0, ddof=1)[0] / np.sqrt(args.instances),
            )
            print(
                f"{kind:>12}{rho:5g}{noise:7g}{alpha:7g}{mine:9.4f}{spread:8.4f}{theory:9.4f}"
                f"{(mine - theory) / spread:6.1f}{settled[0]:4}{other:9.4f}{settled[1]:4}",
                flush=True,
            )


if __name__ == "__main__":
    main()
