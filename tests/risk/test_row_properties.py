"""One row: no risk is below the Bayes-optimal error, of random models; ridge on a row and on a matrix are the same."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import BilinearSequenceRegression, RegularisedRisk, SequenceMultiIndex, limits, simulate

# Relative accuracy of errors by quadrature of labels with noise of any law.
ACCURACY = 1e-6


def random_model(rng):
    """A model of one row with labels that are signs, or numbers, and losses that go with them."""
    prior = rng.choice(["gaussian", "rademacher", "gauss-bernoulli:0.2"])
    shift, slope = rng.normal(0, 0.5), rng.uniform(0.5, 3)

    def sign(z):
        return jnp.sign(z[0, 0] - shift)

    def log_odds(z):
        return 2 * slope * (z[0, 0] - shift)

    def band(z):
        return jnp.sign(slope - jnp.abs(z[0, 0] - 1))

    def bent(z):
        return jnp.tanh(slope * (z[0, 0] - shift))

    def rectified(z):
        return jnp.maximum(slope * z[0, 0], 0.0)

    def field(z):
        return z[0, 0]

    noise = rng.uniform(0.02, 0.5)
    kinds = {
        "sign": (sign, {}),
        "flipped": (sign, {"noise_law": f"flip:{rng.uniform(0.02, 0.3):.3f}"}),
        "logistic": (log_odds, {"noise_law": "logistic"}),
        "band": (band, {}),
        "bent": (bent, {"noise": noise}),
        "rectified": (rectified, {"noise": noise}),
        "linear": (field, {"noise": noise}),
        "laplace": (field, {"noise_law": f"laplace:{rng.uniform(0.2, 1):.3f}"}),
    }
    kind = rng.choice(list(kinds))
    link, settings = kinds[kind]
    signs = kind in ("sign", "flipped", "logistic", "band")
    losses = ["square", "logistic", "hinge", "squared-hinge"] if signs else ["square", "huber"]
    return SequenceMultiIndex(link, prior=prior, **settings), losses, signs


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 3, 5, 9, 11, *(pytest.param(n, marks=pytest.mark.thorough) for n in (2, 7, 8))])
def test_no_risk_is_below_the_bayes_optimal_error(seed):
    rng = np.random.default_rng(seed)
    model, losses, signs = random_model(rng)
    ratios = rng.uniform(0.3, 4, size=3)
    best = limits(model, ratios, throw=False)
    assert np.isfinite(best["error"]).all()
    power = np.ravel(best["overlap"])
    for _ in range(3):
        learner = RegularisedRisk(
            rng.choice(losses),
            rng.choice(["ridge", "lasso", "elastic"]),
            float(np.exp(rng.uniform(np.log(0.02), np.log(1)))),
            student="linear",
            intercept=bool(rng.integers(2)),
        )
        found = limits(model, ratios, learner, throw=False)
        told = f"{model.parameters}, {learner}"
        assert np.all(np.ravel(found["cosine"]) <= np.sqrt(power) + ACCURACY), told
        asked = {"error", "label_error" if signs else "prediction_error"}
        for name in asked & set(best.columns) & set(found.columns):
            slack = ACCURACY * (1 + found[name]) + best["error_estimate"]
            assert np.all(found[name] >= best[name] - slack), (name, told)


@pytest.mark.parametrize(("beta", "rho"), [(1.0, 0.3), (0.01, 1e-4)])
@pytest.mark.parametrize("loss", ["square", "huber", "logistic", "hinge"])
def test_ridge_of_a_matrix_is_ridge_of_its_entries_in_a_row(loss, beta, rho):
    """Without regard to the rank, entries of a matrix are a row: two theories that were written apart are one."""
    if loss in ("square", "huber"):
        matrix, row = BilinearSequenceRegression(beta, rho, noise=0.1), SequenceMultiIndex(lambda z: z[0, 0], noise=0.1)
    else:
        matrix = BilinearSequenceRegression(beta, rho, channel="sign")
        row = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]))
    one, other = (limits(model, [0.7, 2.0], RegularisedRisk(loss, "ridge", 0.3)) for model in (matrix, row))
    for name in {"error", "cosine", "training_loss", "label_error"} & set(one.columns) & set(other.columns):
        np.testing.assert_allclose(np.ravel(one[name]), np.ravel(other[name]), rtol=1e-7, err_msg=name)


def test_bayes_optimal_estimates_of_a_full_matrix_are_those_of_a_row():
    """A matrix of many independent factors has normal entries: nothing is left to know of its rank."""
    row = limits(SequenceMultiIndex(lambda z: z[0, 0], noise=0.1), [0.5, 1.5])
    wide = limits(BilinearSequenceRegression(1.0, 1e6, noise=0.1), [0.5, 1.5])
    np.testing.assert_allclose(wide["error"], row["error"], rtol=1e-5)


@pytest.mark.thorough
def test_labels_that_are_random_at_any_field_have_a_label_error():
    """Bayes, theory of a risk and runs count new labels with their noise, and the Bayes-optimal share is the least."""
    model = SequenceMultiIndex(lambda z: 2 * z[0, 0], noise_law="logistic")
    learner = RegularisedRisk("logistic", strength=0.5)
    optimum, theory = limits(model, [2.0])["label_error"][0], limits(model, [2.0], learner)["label_error"][0]
    assert 0.3 < optimum < theory < 0.34
    runs = simulate(model, [2.0], learner, d=200, instances=8)
    assert abs(runs["label_error"][0] - theory) < 4 * runs["label_standard_error"][0] + 0.01
