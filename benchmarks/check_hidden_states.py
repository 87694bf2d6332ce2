"""Random laws of the inputs against runs: limits of message passing, and of logistic regression on random mixtures.

python benchmarks/check_hidden_states.py --settings 24 --d 1000
"""

import argparse

import jax.numpy as jnp
import numpy as np

from glassformer import Accuracy, RegularisedRisk, SequenceMultiIndex, limits, simulate
from glassformer.inputs import Mixture

# Shifts of the fields, in standard deviations.
_LARGEST = 1.5


def linear_model(rng):
    """A random law of two to four states, and labels that read a direction of the state's own, with noise."""
    rows, tokens, states = (int(rng.integers(1, most)) for most in (4, 4, 5))
    states = max(states, 2)
    means = rng.uniform(-_LARGEST, _LARGEST, (states, rows, tokens))
    weights = rng.dirichlet(np.full(states, 3.0))
    readings = rng.standard_normal((states, rows, tokens)) / np.sqrt(tokens)

    def link(z, state):
        return jnp.sum(readings[state] * z)

    noise = float(rng.uniform(0.05, 0.5))
    model = SequenceMultiIndex(link, rows, tokens, noise=noise, inputs=Mixture(means, weights / weights.sum()))
    return model.at_accuracy(Accuracy(points=1024)), float(rng.uniform(0.5, 4.0)), "gamp"


def classes_model(rng):
    """Two classes of unequal weight, with logistic regression and intercept."""
    nu, share = rng.uniform(0.5, 4.0), rng.uniform(0.1, 0.5)
    model = SequenceMultiIndex(None, inputs=Mixture([-(nu**0.5), nu**0.5], [share, 1 - share]))
    learner = RegularisedRisk("logistic", strength=float(rng.uniform(0.05, 1.0)), intercept=True)
    return model, float(rng.uniform(0.5, 4.0)), learner


def main():
    """Print the distance of runs from theory, in standard errors, for every setting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=24)
    parser.add_argument("--d", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=6)
    options = parser.parse_args()
    far = 0
    for number in range(options.settings):
        rng = np.random.default_rng([1, number])
        model, alpha, learner = (linear_model if number % 3 else classes_model)(rng)
        theory = limits(model, [alpha], learner, throw=False)
        storage = {"storage": "revealed"} if learner == "gamp" else {}
        runs = simulate(model, [alpha], learner, d=options.d, instances=options.instances, seed=number, **storage)
        gap = float(runs["error"][0] - theory["error"][0])
        error = float(np.hypot(runs["standard_error"][0], np.nan_to_num(theory["error_estimate"][0])))
        far += abs(gap) > 3 * error + 2 / options.d
        shape = f"P = {model.indices}, L = {model.tokens}, H = {len(model.inputs.means)}"
        print(
            f"{number:3d} {shape}, alpha {alpha:.2f}: theory {theory['error'][0]:.4f}, runs {runs['error'][0]:.4f} "
            f"+- {error:.4f}, {gap / error:+.1f}, {theory.status[0]}, {runs.status[0]}",
            flush=True,
        )
    print(f"{far} of {options.settings} settings are farther than three standard errors and 2/d")


if __name__ == "__main__":
    main()
