"""Random laws of the inputs against runs, and statements of papers on mixtures and on hidden tokens.

The laws are those of hidden states, with the limits of message passing and of logistic regression, and those of
samplers, with the limits of regularised risks.

python benchmarks/check_hidden_states.py --settings 24 --d 1000
python benchmarks/check_hidden_states.py --kind sampler --settings 24 --d 400
python benchmarks/check_hidden_states.py --kind published
"""

import argparse
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax.nn import softmax

from glassformer import Accuracy, RegularisedRisk, SequenceMultiIndex, limits, simulate
from glassformer.inputs import FieldSampler, HiddenToken, Mixture

# Shifts of the fields, in standard deviations.
_LARGEST = 1.5
# Tokens and signal of the hidden token, and samples of averages over its fields.
_TOKENS, _SIGNAL, _SAMPLES = 3, 4.0, 2**20


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


@dataclass(frozen=True)
class Curved(FieldSampler):
    """Heavy-tailed fields that are mixed, with a square of each added to the next one."""

    degrees: float
    curvature: float
    mixing: tuple
    label = "curved"

    def draw(self, rng, samples, rows, tokens):
        fields = np.array(self.mixing) @ rng.standard_t(self.degrees, (samples, rows, tokens))
        return fields + self.curvature * np.roll(fields, 1, axis=2) ** 2


def sampler_model(rng):
    """A random law without a density that anybody knows, and labels of a random link."""
    rows, tokens = (int(rng.integers(1, 3)) for _ in range(2))
    readings = rng.standard_normal((2, rows, tokens)) / np.sqrt(rows * tokens)

    def link(z):
        return jnp.sum(readings[0] * z) + jnp.tanh(jnp.sum(readings[1] * z))

    mixing = np.eye(rows) + 0.3 * rng.standard_normal((rows, rows))
    law = Curved(rng.uniform(6.0, 12.0), rng.uniform(0.0, 0.2), tuple(map(tuple, mixing)))
    model = SequenceMultiIndex(link, rows, tokens, noise=float(rng.uniform(0.05, 0.5)), inputs=law)
    learner = RegularisedRisk(str(rng.choice(["square", "huber"])), strength=float(rng.uniform(0.1, 1.0)))
    return model.at_accuracy(Accuracy(points=8192)), float(rng.uniform(1.0, 4.0)), learner


def main():
    """Print the distance of runs from theory, in standard errors, for every setting; or statements of papers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", choices=["states", "sampler", "published"], default="states")
    parser.add_argument("--settings", type=int, default=24)
    parser.add_argument("--d", type=int, default=1000)
    parser.add_argument("--instances", type=int, default=6)
    options = parser.parse_args()
    if options.kind == "published":
        mixtures()
        hidden_tokens()
        return
    far, drawn = 0, options.kind == "sampler"
    for number in range(options.settings):
        rng = np.random.default_rng([1 + drawn, number])
        of_states = linear_model if number % 3 else classes_model
        model, alpha, learner = (sampler_model if drawn else of_states)(rng)
        theory = limits(model, [alpha], learner, throw=False)
        storage = {"storage": "revealed"} if learner == "gamp" else {}
        runs = simulate(model, [alpha], learner, d=options.d, instances=options.instances, seed=number, **storage)
        gap = float(runs["error"][0] - theory["error"][0])
        error = float(np.hypot(runs["standard_error"][0], np.nan_to_num(theory["error_estimate"][0])))
        far += abs(gap) > 3 * error + 2 / options.d
        shape = f"P = {model.indices}, L = {model.tokens}, {model.inputs.label[:20]}"
        print(
            f"{number:3d} {shape}, alpha {alpha:.2f}: theory {theory['error'][0]:.4f}, runs {runs['error'][0]:.4f} "
            f"+- {error:.4f}, {gap / error:+.1f}, {theory.status[0]}, {runs.status[0]}",
            flush=True,
        )
    print(f"{far} of {options.settings} settings are farther than three standard errors and 2/d")


def mixtures():
    """Print errors of classifiers of two classes: arXiv:2002.11544 states which strength reaches the best possible one.

    Classes of equal weight: every loss reaches it at infinite strength. Unequal ones: the best strength is finite, and
    the error stays above. Few samples without penalty: a peak where the labels can just be fitted (square, n = d).
    """
    strengths = [0.001, 0.1, 1.0, 10.0, 1e4, None]
    for share in (0.5, 0.2):
        model = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0], [share, 1 - share]))
        print(f"weights {share:g} and {1 - share:g}, alpha 2: least error {limits(model, [2.0])['label_error'][0]:.6f}")
        for loss in ("square", "logistic", "hinge"):
            tables = [limits(model, [2.0], RegularisedRisk(loss, strength=one, intercept=True)) for one in strengths]
            errors = ", ".join(f"{table['strength'][0]:g}: {table['label_error'][0]:.6f}" for table in tables)
            print(f"  {loss:8s} {errors}")
    model, alpha = SequenceMultiIndex(None, inputs=Mixture([-1.0, 1.0])), [0.5, 0.8, 1.0, 1.25, 2.0]
    peak = limits(model, alpha, RegularisedRisk("square", strength=1e-4))["label_error"]
    print("square, strength 0.0001:", ", ".join(f"alpha {a:g}: {one:.4f}" for a, one in zip(alpha, peak, strict=True)))


def hidden_tokens():
    """Print errors of softmax and linear attention on a hidden token: arXiv:2509.21936 states how they compare.

    Known rows: softmax is the posterior of the place and reaches the least error, and linear attention does not.
    Finitely many samples: softmax is above the least error, and below linear attention.
    """
    rng, places = np.random.default_rng(0), np.arange(_TOKENS)
    keys = rng.standard_normal((_SAMPLES, _TOKENS)) + _SIGNAL**0.5 * (places == 0)
    shares = np.asarray(softmax(_SIGNAL**0.5 * keys, axis=1))
    print(f"known rows: least {1 - np.mean(np.sum(shares**2, axis=1)):.4f}, ", end="")
    print(f"linear attention {_TOKENS / (_SIGNAL + _TOKENS):.4f}")
    model = SequenceMultiIndex(lambda z, place: z[1, place], 2, _TOKENS, noise=0.01, inputs=HiddenToken(_SIGNAL))
    for alpha in (4.0, 16.0, 64.0):
        print(f"alpha {alpha:g}: least {limits(model, [alpha], throw=False)['prediction_error'][0]:.4f}")
        students = {"softmax": lambda z: jnp.sum(softmax(z[0]) * z[1]), "linear": lambda z: z[0] @ z[1]}
        for name, student in students.items():
            learner = RegularisedRisk("square", strength=0.3, student=student, student_rows=2, branch="informed")
            runs = simulate(model, [alpha], learner, d=100, instances=3, accuracy=Accuracy(points=4096))
            error, bar = runs["prediction_error"][0], runs["prediction_standard_error"][0]
            failed = [note for note in runs.notes if note.startswith("theory at alpha")]
            theory = "did not converge" if failed else f"{runs['prediction_theory'][0]:.4f}"
            print(f"  {name}: theory {theory}, runs {error:.4f} +- {bar:.4f}", flush=True)


if __name__ == "__main__":
    main()
