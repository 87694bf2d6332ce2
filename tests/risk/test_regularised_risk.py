"""Regularised risk in the limit of large sizes: known numbers, identities, ends of the range of strengths."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    DeepAttentionIndexed,
    IncompatibleError,
    RegularisedRisk,
    Status,
    limits,
    simulate,
    thresholds,
)
from glassformer.channels.confusion import Confusion
from glassformer.channels.regression import regression
from glassformer.channels.scalar.sign import NoisySignChannel
from glassformer.core.settings import Iteration
from glassformer.errors import ParameterError
from glassformer.laws import nuclear_norm_threshold
from glassformer.learners.registry import runs_on
from glassformer.learners.ridge import ridge_error
from glassformer.random_matrices.nuclear_norm import trace_dimension
from glassformer.risk.fixed_points import fixed_points
from glassformer.risk.limits import risk_limits
from glassformer.risk.losses import CustomLoss, Hinge, Huber, Logistic, Square, loss_of
from glassformer.risk.penalties import penalty_of
from glassformer.risk.problem import RiskProblem
from glassformer.risk.thresholds import risk_thresholds

# beta, rho, noise; alpha, strength; error, mean squared training residual, rank, power.
SQUARE = [
    ((1, 0.3, 0.0), 0.5, 0.1, 0.24076464, 0.01607258, 0.43453289, 0.54237776),
    ((1, 0.3, 0.5), 1.5, 1.0, 0.26032458, 0.45888930, 0.39799040, 0.49140355),
    ((2, 0.5, 0.2), 0.8, 0.3, 0.30321773, 0.10901130, 0.68258193, 0.57584495),
    ((0.5, 0.25, 0.2), 0.8, 0.3, 0.30321773, 0.10901130, 0.68258193, 0.57584495),
    ((1, 0.3, 0.1), 0.5, 0.0, 0.44624148, 0.0, 0.58849930, 0.80214960),
]


def risk(model, alpha, loss="square", penalty="nuclear", strength=0.1):
    return risk_limits(model, alpha, loss_of(loss), penalty_of(penalty), strength)


def bsr(beta=1.0, rho=0.3, noise=0.0, **more):
    return BilinearSequenceRegression(beta=beta, rho=rho, noise=noise, **more)


@pytest.mark.parametrize(("ratios", "alpha", "strength", "error", "training", "rank", "power"), SQUARE)
def test_square_loss_and_nuclear_norm(ratios, alpha, strength, error, training, rank, power):
    row = risk(bsr(*ratios), [alpha], strength=strength)
    found = [row["error"][0], 2 * row["training_loss"][0], row["rank"][0], row["power"][0]]
    np.testing.assert_allclose(found, [error, training, rank, power], atol=1e-8)
    assert row["effective_noise"][0] == pytest.approx((ratios[2] + error) / alpha, rel=1e-7)
    assert row["threshold"][0] * (alpha - row["degrees"][0]) == pytest.approx(strength, abs=1e-9)


@pytest.mark.parametrize(
    ("loss", "overlap", "power", "rank", "wrong"),
    [
        ("logistic", 2.27065408, 6.04265330, 0.45998527, 0.12513830),
        ("hinge", 1.80963227, 4.02371458, 0.71351094, 0.14199124),
    ],
)
def test_sign_labels(loss, overlap, power, rank, wrong):
    row = risk(bsr(channel="sign"), [2.0], loss, strength=0.3)
    found = [row[name][0] for name in ("overlap", "power", "rank", "label_error")]
    np.testing.assert_allclose(found, [overlap, power, rank, wrong], atol=1e-8)
    assert row["label_error"][0] == pytest.approx(np.arccos(row["cosine"][0]) / np.pi, abs=1e-10)


def shifted(h):
    return np.where(h > 0.5, 1.0, -1.0)


@pytest.mark.parametrize(
    ("labels", "threshold"),
    [
        ({"channel": "sign", "noise_law": Confusion([[1.0, 0.0], [0.3, 0.7]])}, 0.0),
        ({"channel": shifted, "noise_law": "neighbour:0.2"}, 0.5),
        ({"channel": NoisySignChannel(1.0, 0.5)}, -0.5),
    ],
)
def test_wrong_labels_are_counted_without_their_own_noise(labels, threshold):
    """Of the fitted field and the true one, as the optimum and runs count them."""
    model, learner = bsr(**labels), RegularisedRisk("logistic", "ridge", 1.0)
    row = limits(model, [2.0], learner)
    cosine, own = row["cosine"][0], threshold / np.sqrt(row["power"][0])

    def missed(h):
        away = (own - cosine * h) / np.sqrt(1 - cosine**2)
        return norm.pdf(h) * norm.cdf(away if h > threshold else -away)

    wrong = quad(missed, -9, threshold, epsabs=1e-11)[0] + quad(missed, threshold, 9, epsabs=1e-11)[0]
    assert row["label_error"][0] == pytest.approx(wrong, abs=1e-9)
    assert row["label_error"][0] > limits(model, [2.0])["label_error"][0]
    runs = simulate(model, [2.0], learner, d=20, instances=4, seed=0)
    # Four standard errors, and a term of order 1/d.
    far = 4 * runs["label_standard_error"][0] + 0.2 / 20
    assert runs["label_error"][0] == pytest.approx(row["label_error"][0], abs=far)


@pytest.mark.parametrize(
    ("rho", "alpha", "noise", "strength", "tokens", "error", "training", "rank"),
    [
        (0.5, 0.3, 0.1, 0.1, 1, 0.43062980, 0.06807931, 0.39091440),
        (0.5, 0.1, 0.1, 0.1, 2, 0.43062980, 0.06807931, 0.39091440),
        (0.2, 0.2, 0.05, 0.1, 1, 0.30925508, None, None),
    ],
)
def test_weight_decay_at_full_width(rho, alpha, noise, strength, tokens, error, training, rank):
    model = AttentionIndexed(rho=rho, tokens=tokens, channel="linear", noise=noise)
    row = risk(model, [alpha], penalty="trace", strength=strength)
    assert row["error"][0] == pytest.approx(error, abs=1e-8)
    if training is not None:
        components = tokens * (tokens + 1) / 2
        found = [2 * row["training_loss"][0] / components, row["rank"][0]]
        np.testing.assert_allclose(found, [training, rank], atol=1e-8)


@pytest.mark.thorough
def test_losses_of_linear_attention_act_on_each_component():
    """One token has one component and two have three, of which a wide Huber loss is half the square."""
    one, two = (AttentionIndexed(rho=0.5, tokens=t, channel="linear", noise=0.5) for t in (1, 2))
    learner = RegularisedRisk("huber", "trace", 0.1)
    assert runs_on(learner, one) and runs_on(learner, two)
    alone, both = limits(one, [0.3], learner), limits(two, [0.1], learner)
    assert both["error"][0] == pytest.approx(alone["error"][0], rel=1e-8)
    assert both["training_loss"][0] == pytest.approx(3 * alone["training_loss"][0], rel=1e-7)
    square, wide = (limits(two, [0.1], RegularisedRisk(loss, "trace", 0.1)) for loss in ("square", Huber(1e3)))
    for name in ("error", "training_loss", "test_loss", "degrees"):
        assert wide[name][0] == pytest.approx(square[name][0], rel=1e-7)
    ran = [
        simulate(two, [0.1], RegularisedRisk(loss, "trace", 0.1), d=30, instances=4, seed=0)["error"][0]
        for loss in ("huber", "square")
    ]
    # Of the same data: what sizes and draws change is mostly common to both.
    assert ran[0] / ran[1] == pytest.approx(both["error"][0] / square["error"][0], abs=0.02)


def test_a_pinned_trace():
    """The threshold keeps the trace; what the noise and the fixed point are is that of square loss on one token."""
    model, alpha = AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1), np.array([0.45, 0.8])
    found = risk(model, alpha, penalty="pinned", strength=None)
    np.testing.assert_allclose(found["effective_noise"], (2 * found["error"] + 0.2) / (4 * alpha), rtol=1e-8)
    law = model.prior.noisy_law(found["effective_noise"])
    s, weight, _ = law.nodes(found["threshold"])
    kept = np.sum(weight * np.maximum(s - found["threshold"][:, None], 0.0), axis=1)
    np.testing.assert_allclose(kept, np.sqrt(0.5), rtol=1e-9)
    assert np.all(found["error"] > limits(model, alpha)["error"]) and np.all(found["error_estimate"] < 1e-7)
    # It is the penalty of some strength, whose threshold is the same.
    strength = found["threshold"] * (2 * alpha - found["degrees"]) / 2
    for a, value, error in zip(alpha, strength, found["error"], strict=True):
        assert risk(model, [a], penalty="trace", strength=value)["error"][0] == pytest.approx(error, abs=1e-8)
    for other, strength in ((model, 0.1), (AttentionIndexed(rho=0.5, channel="hardmax"), None)):
        with pytest.raises(IncompatibleError, match=r"trace|pinned"):
            risk(other, [0.5], penalty="pinned", strength=strength)


@pytest.mark.thorough
def test_a_pinned_trace_without_noise(monkeypatch):
    """Below the statistical dimension of the trace many positive matrices fit the labels, above it only the signal."""
    # Below it there is no fixed point to converge to, however many steps are allowed.
    monkeypatch.setattr("glassformer.risk.fixed_points._SETTINGS", Iteration(tolerance=1e-13, max_iterations=60))
    model, threshold = AttentionIndexed(rho=0.5, tokens=1, channel="linear"), trace_dimension(0.5) / 2
    found = limits(model, [0.9 * threshold, 1.001 * threshold], RegularisedRisk("square", "pinned"), throw=False)
    assert [status.ok for status in found.status] == [False, True]
    assert found["error"][1] == 0
    assert "alpha = 0.379957: several positive matrices" in found.notes[0]


@pytest.mark.slow
def test_the_best_strength():
    row = risk(bsr(noise=0.1), [0.5], strength=None)
    assert row["error"][0] == pytest.approx(0.37289523, abs=1e-8)
    assert row["strength"][0] == pytest.approx(0.1158, abs=1e-4)
    for factor in (0.97, 1.03):
        assert risk(bsr(noise=0.1), [0.5], strength=factor * row["strength"][0])["error"][0] > row["error"][0]
    ridge = risk(bsr(noise=0.1), [0.3, 1.0, 2.0], penalty="ridge", strength=None)
    np.testing.assert_allclose(ridge["strength"], 0.1, rtol=1e-3)
    signs = risk(bsr(channel="sign"), [2.0], "logistic", strength=None)
    for factor in (0.8, 1.25):
        other = risk(bsr(channel="sign"), [2.0], "logistic", strength=factor * signs["strength"][0])
        assert other["label_error"][0] > signs["label_error"][0]


@pytest.mark.thorough
def test_never_better_than_bayes():
    rng = np.random.default_rng(0)
    for _ in range(6):
        beta, rho, noise = np.exp(rng.uniform(-1, 1)), rng.uniform(0.1, 1.2), rng.uniform(0, 0.5)
        model, alpha = bsr(beta, rho, noise), np.sort(rng.uniform(0.1, 2, 3))
        assert np.all(risk(model, alpha, strength=None)["error"] >= limits(model, alpha)["error"] - 1e-8)


@pytest.mark.parametrize(
    ("loss", "penalty"),
    [
        ("square", "elastic"),
        ("hinge", "ridge"),
        pytest.param("huber", "nuclear", marks=pytest.mark.thorough),
        pytest.param("logistic", "nuclear", marks=pytest.mark.thorough),
    ],
)
def test_no_loss_or_penalty_is_better_than_bayes(loss, penalty):
    """A few of the sets of benchmarks/check_risk_parameters.py: of signs the cosine counts, sqrt(1 - E) at best."""
    rng, signs = np.random.default_rng(len(loss + penalty)), loss in ("logistic", "hinge")
    beta, rho, noise = np.exp(rng.uniform(-1, 1)), rng.uniform(0.1, 1.2), rng.uniform(0, 0.5)
    model = bsr(beta, rho, channel="sign") if signs else bsr(beta, rho, noise)
    alpha = np.sort(rng.uniform(0.2, 2, 2))
    best, optimum = risk(model, alpha, loss, penalty, None), limits(model, alpha)
    errors = 1 - best["cosine"] ** 2 if signs else best["error"]
    assert np.all(errors >= optimum["error"] - best["error_estimate"] - optimum["error_estimate"])


def test_the_best_strength_between_slopes_that_bend_away():
    """Hinge at few samples: the objective is flat on the one side, and searches went back and forth."""
    model = bsr(1.5137923299851046, 0.5284245637319771, channel="sign")
    found = risk(model, [0.16599736], "hinge", "ridge", None)
    for factor in (0.9, 0.95, 1.05, 1.1):
        other = risk(model, [0.16599736], "hinge", "ridge", factor * found["strength"][0])
        assert other["cosine"][0] < found["cosine"][0]


@pytest.mark.thorough
def test_the_elastic_interpolator_next_to_its_threshold():
    """Where the map hardly contracts; the error as Newton's method with slopes to both sides finds it."""
    found = risk(bsr(), [0.915], penalty="elastic", strength=0.0)
    assert found.converged
    assert found["error"][0] == pytest.approx(2.45333833e-05, rel=1e-7)


def test_error_below_its_error_estimate_is_not_converged():
    found = fixed_points(
        RiskProblem(bsr(), Square(), penalty_of("nuclear")), np.array([0.5, 0.6]), np.array([0.1, 0.1])
    )
    rough = found._replace(error_estimate=found.order.error * [1.1, 0.9])
    assert found.statuses() == [Status.CONVERGED] * 2
    assert rough.statuses() == [Status.INTEGRATION_NOT_CONVERGED, Status.CONVERGED]


@pytest.mark.slow
def test_the_interpolator_of_narrow_signals():
    """Four times the strength that stood for none led away from its fixed point, and nothing was said to be known."""
    model, alpha = bsr(rho=1e-3), [0.5 * 0.0055382768]
    found = risk(model, alpha, strength=0.0)
    assert found["error_estimate"][0] < 1e-9
    assert found["error"][0] == pytest.approx(risk(model, alpha, strength=1e-8)["error"][0], rel=1e-8)


def test_ridge_through_the_loop_is_the_closed_form():
    for noise, strength in ((0.0, 0.3), (0.4, 0.1), (0.4, 0.4)):
        alpha = np.array([0.2, 0.9, 1.0, 1.7])
        found = risk(bsr(noise=noise), alpha, penalty="ridge", strength=strength)
        np.testing.assert_allclose(found["error"], ridge_error(alpha, noise, strength), atol=1e-9)
    any_width = BilinearSequenceRegression(beta=np.inf, rho=np.inf, noise=0.1)
    assert risk(any_width, [0.7], penalty="ridge", strength=0.3)["error"][0] == pytest.approx(
        ridge_error(0.7, 0.1, 0.3), abs=1e-9
    )


def test_least_squares_of_least_norm_around_its_divergence():
    alpha = np.array([0.5, 0.7071, 0.98, 0.9999, 1.02, 1.5])
    table = risk(bsr(noise=0.1), alpha, penalty="ridge", strength=0.0)
    exact = np.where(alpha < 1, 1 - alpha + 0.1 * alpha / (1 - alpha), 0.1 / (alpha - 1))
    assert table.converged
    assert np.all(np.abs(table["error"] - exact) <= table["error_estimate"] + 1e-9 * exact)
    assert np.all(table["error_estimate"] <= 0.01 * exact)


@pytest.mark.slow
def test_transposition_and_wide_knees():
    one = risk(bsr(2.0, 0.5, 0.1), [0.3, 0.9], "huber", strength=0.2)
    other = risk(bsr(0.5, 0.25, 0.1), [0.3, 0.9], "huber", strength=0.2)
    np.testing.assert_allclose(one["error"], other["error"], atol=1e-9)
    wide = risk(bsr(noise=0.1), [0.3, 0.9], Huber(knee=50.0), strength=0.2)
    np.testing.assert_allclose(wide["error"], risk(bsr(noise=0.1), [0.3, 0.9], strength=0.2)["error"], atol=1e-8)


@pytest.mark.slow
def test_custom_loss():

    def soft(y, h):
        return jnp.logaddexp(0.0, -y * h)

    alpha, model = [1.0], bsr(channel="sign")
    own = risk(model, alpha, soft, "elastic", 0.4)
    np.testing.assert_allclose(own["error"], risk(model, alpha, "logistic", "elastic", 0.4)["error"], atol=1e-7)
    with pytest.raises(ParameterError, match="convex"):
        CustomLoss(lambda y, h: -((y - h) ** 2))


@pytest.mark.thorough
def test_custom_losses_with_kinks():
    """Least absolute residuals are the limit of Huber's loss."""
    model = bsr(noise=0.1)
    own = risk(model, [0.5], CustomLoss(lambda y, h: jnp.abs(y - h)), strength=0.2)
    far, near = (risk(model, [0.5], Huber(knee), strength=0.2 * knee)["error"][0] for knee in (2e-4, 1e-4))
    assert own["error"][0] == pytest.approx(2 * near - far, rel=1e-6)


@pytest.mark.thorough
def test_custom_hinge_equals_the_named_hinge():
    hinge = risk(bsr(channel="sign"), [1.0], CustomLoss(lambda y, h: jnp.maximum(0.0, 1 - y * h)), strength=0.2)
    assert hinge["error"][0] == pytest.approx(risk(bsr(channel="sign"), [1.0], "hinge", strength=0.2)["error"][0])


def test_square_loss_on_any_link():
    """The linear model for the linear part of the link, with the rest of it as noise."""
    model, alpha = bsr(rho=0.5, link=np.tanh), np.array([0.4, 1.3])
    slope, rest = regression(model.channel)
    linear = risk(bsr(rho=0.5, noise=rest / slope**2), alpha, strength=0.2 / slope)
    found = risk(model, alpha, strength=0.2)
    np.testing.assert_allclose(found["overlap"], slope * linear["overlap"], rtol=1e-8)
    np.testing.assert_allclose(found["power"], slope**2 * linear["power"], rtol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "strength"), [(0.1, 0.3), (2.0, 0.0), (0.1, None)])
def test_identity_link_equals_the_linear_channel(noise, strength):
    """Its second moments, and that of the noise, are all that square loss knows."""
    own = risk(bsr(noise=noise, link=lambda h: h), [0.6], strength=strength)
    np.testing.assert_allclose(own["error"], risk(bsr(noise=noise), [0.6], strength=strength)["error"], rtol=1e-12)


@pytest.mark.parametrize("link", [lambda h: expit(50 * (h - 1)), lambda h: np.exp(2 * h), lambda h: np.sin(20 * h) + h])
def test_second_moments_of_steep_fast_and_wavy_links(link):
    slope, rest = regression(bsr(link=link).channel)
    parts = [
        quad(lambda h, k=k: h**k * link(h) ** (2 - k) * norm.pdf(h), -14, 14, points=[0.9, 1.0, 1.1], limit=500)[0]
        for k in (1, 0)
    ]
    np.testing.assert_allclose([slope, rest + slope**2], parts, rtol=1e-10)


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (BilinearSequenceRegression(beta=1, width=2, noise=0.1), "width = 2: .*rho > 0"),
        (BilinearSequenceRegression(beta=1, rho=0, noise=0.1), "rho = 0: .*rho > 0"),
        (AttentionIndexed(rho=0.5, tokens=2), "channel softmax of several indices: use cross-entropy"),
    ],
)
def test_incompatible_risks_raise_with_the_remedy(model, text):
    with pytest.raises(IncompatibleError, match=text):
        risk(model, [1.0], penalty="trace" if model.name == "aim" else "nuclear", strength=0.3)


def test_correlated_tokens_are_refused_by_name():
    for channel, loss in (("linear", "square"), ("softmax", "cross-entropy")):
        model = AttentionIndexed(rho=0.5, tokens=2, channel=channel, token_correlation=0.9)
        with pytest.raises(IncompatibleError, match=r"token_correlation = 0.9.*independent tokens"):
            risk(model, [0.2], loss, "trace", 0.3)


@pytest.mark.slow
def test_the_end_of_the_interpolator():
    threshold = nuclear_norm_threshold(1, 0.3)
    alpha = np.array([threshold - 0.03, threshold - 5e-3, threshold + 1e-6, 1.0])
    found = risk(bsr(), alpha, strength=0.0)
    assert np.all(found["error"][:2] > 0) and found["error"][1] < 2e-4 and np.all(found["error"][2:] == 0)
    np.testing.assert_allclose(found["degrees"][:2], alpha[:2], rtol=1e-8)
    least_squares = risk(bsr(noise=0.1), [1.5, 3.0], strength=0.0)
    np.testing.assert_allclose(least_squares["error"], [0.2, 0.05], atol=1e-9)
    assert trace_dimension(0.3) / 2 == pytest.approx(0.327155, abs=1e-6)
    model = AttentionIndexed(rho=0.3, tokens=1, channel="linear")
    network = risk(model, [0.32, 0.328], penalty="trace", strength=0.0)
    assert 0 < network["error"][0] < 1e-3 and network["error"][1] == 0


@pytest.mark.thorough
def test_an_elastic_penalty_recovers_later_than_the_nuclear_norm():
    """Where its error vanishes with the strength, and not where that of the nuclear norm does."""
    found = thresholds(bsr(), RegularisedRisk("square", "elastic", 0.0))["perfect_recovery"]
    assert nuclear_norm_threshold(1, 0.3) + 0.1 < found.alpha < 1
    assert 0 < found.error_estimate < 1e-5
    alpha = found.alpha * np.array([0.85, 0.95, 1.03])
    none, little = (risk(bsr(), alpha, penalty="elastic", strength=strength)["error"] for strength in (0.0, 1e-4))
    assert np.all(none[:2] > 1e-3 * (1 - alpha[:2] / found.alpha)) and none[2] == 0
    np.testing.assert_allclose(little[:2], none[:2], rtol=1e-2)
    assert little[2] < 1e-4
    # The same extrapolation of the nuclear norm ends at its closed form.
    problem = RiskProblem(bsr(), Square(), penalty_of("nuclear"))
    assert problem.extrapolated_dimension()[0] == pytest.approx(nuclear_norm_threshold(1, 0.3), abs=1e-6)


@pytest.mark.thorough
def test_the_best_strengths_of_many_ratios_cost_a_few_times_a_fixed_one(monkeypatch):
    """Counted in evaluations of the map, which the processor time follows and other processes do not change."""
    evaluations, learned = [0], RiskProblem.order_parameters

    def counted(self, strength, fields):
        evaluations[0] += len(strength)
        return learned(self, strength, fields)

    monkeypatch.setattr(RiskProblem, "order_parameters", counted)
    model, alpha, spent = bsr(channel="sign"), np.linspace(0.05, 2, 100), []
    for strength in (0.1, None):
        evaluations[0] = 0
        assert risk(model, alpha, "hinge", strength=strength).converged
        spent.append(evaluations[0])
    assert spent[1] < 5 * spent[0]


@pytest.mark.slow
def test_search_for_the_best_strength_ends_on_a_flat_objective():
    """Hinge at few samples: once all labels are fitted with room to spare, weaker penalties change nothing."""
    model, alpha = bsr(channel="sign"), 0.11
    best = risk(model, [alpha], "hinge", strength=None)
    weaker = risk(model, [alpha], "hinge", strength=0.5 * best["strength"][0])
    assert best["cosine"][0] == pytest.approx(weaker["cosine"][0], abs=1e-8)
    assert risk(model, [alpha], "hinge", strength=2 * best["strength"][0])["cosine"][0] < best["cosine"][0]


@pytest.mark.slow
def test_the_best_strength_beyond_the_first_looks():
    model = BilinearSequenceRegression(beta=3.02, rho=0.63, channel="sign")
    best = risk(model, [0.18], "logistic", strength=None)
    for factor in (0.5, 2.0):
        other = risk(model, [0.18], "logistic", strength=factor * best["strength"][0])
        assert other["cosine"][0] < best["cosine"][0]
    network = AttentionIndexed(rho=0.053, tokens=2, channel="linear")
    assert np.all(risk(network, [0.08, 0.1], penalty="trace", strength=None)["error"] == 0)


def test_the_largest_useful_strength():
    model = bsr(noise=0.1)
    problem = RiskProblem(model, Square(), penalty_of("nuclear"))
    largest = problem.lambda_max(np.array([0.5]))[0]
    assert risk(model, [0.5], strength=1.001 * largest)["error"][0] == 1
    assert 0.99 < risk(model, [0.5], strength=0.999 * largest)["error"][0] < 1


@pytest.mark.slow
def test_batched_ratios_agree_with_single_ratios():
    alpha = np.linspace(0.1, 2.0, 13)
    for loss, model in (("square", bsr(noise=0.1)), ("logistic", bsr(channel="sign"))):
        many = risk(model, alpha, loss, strength=0.2)
        few = risk(model, alpha[::6], loss, strength=0.2)
        np.testing.assert_allclose(many["error"][::6], few["error"], rtol=1e-7)
        assert many.converged and np.all(many["error_estimate"] < 1e-6)


def test_refusals():
    for strength, loss, penalty, model, text in (
        (0.0, "logistic", "nuclear", bsr(channel="sign"), "strength = 0"),
        (0.1, "logistic", "nuclear", bsr(), "labels"),
        (0.1, "square", "trace", bsr(), "nuclear"),
        (0.1, "square", "nuclear", AttentionIndexed(rho=0.3, channel="linear"), "trace"),
        (0.1, "square", "nuclear", BilinearSequenceRegression(width=2), "extensive"),
        (0.1, "square", "nuclear", bsr(channel="absolute"), "do not correlate with their fields"),
    ):
        with pytest.raises(IncompatibleError, match=text):
            risk(model, [0.5], loss, penalty, strength)
    for alpha in ([0.0], [-1.0], [np.nan]):
        with pytest.raises(ParameterError, match="alpha"):
            risk(bsr(), alpha)
    with pytest.raises(ParameterError, match="loss"):
        loss_of("cubic")


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), Huber(0.7), Square()])
def test_losses_and_their_conjugates(loss):
    """Fenchel's equality at the proximal point, the score as a slope, and its own slope by differences."""
    rng = np.random.default_rng(1)
    y, omega, v = rng.choice([-1.0, 1.0], 200), 3 * rng.standard_normal(200), np.exp(rng.standard_normal(200))
    p, (g, curvature) = loss.proximal(y, omega, v), loss.score(y, omega, v)
    np.testing.assert_allclose(p, omega + v * g, atol=1e-10)
    np.testing.assert_allclose(loss.value(y, p) + loss.conjugate(y, -g), -g * p, atol=1e-9)
    step = 1e-6
    slope = (loss.score(y, omega - step, v)[0] - loss.score(y, omega + step, v)[0]) / (2 * step)
    smooth = np.min([np.abs(omega - place) for place in loss.breakpoints(y, v)] or [np.ones(200)], axis=0) > 1e-3
    np.testing.assert_allclose(curvature[smooth], slope[smooth], atol=1e-6)


@pytest.mark.parametrize("model", [DeepAttention(depth=1), DeepAttentionIndexed(rho=0.5, layers=2)])
def test_models_of_several_rows_are_referred_to_the_learner(model):
    """They were told to give a width, which attention does not have and several layers had given."""
    with pytest.raises(IncompatibleError, match=r"models of one matrix.*use learner risk") as caught:
        risk(model, [1.0], penalty="ridge")
    assert "rho" not in str(caught.value)


@pytest.mark.thorough
def test_note_if_the_best_strength_does_not_minimise_the_error():
    """Of labels of signs the scale of a logistic fit is free, and grows with the samples."""
    signs = bsr(channel="sign")
    found = risk(signs, [5.0], "logistic", strength=None)
    assert found["error"][0] > 20 and ["least label_error" in note for note in found.notes] == [False, True]
    (only,) = risk(signs, [5.0], strength=None).notes
    assert only.startswith("best strength: 1.35") and not risk(signs, [5.0], "logistic", strength=0.2).notes


@pytest.mark.parametrize("noise", [1e6, 1e12, 1e150])
def test_interpolation_in_any_noise(noise):
    """Half of the eigenvalues of noise are positive: half as many labels as unknowns, 0.5/2, up to 1/sqrt of it."""
    model = AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=noise)
    found = risk_thresholds(model, Square(), penalty_of("trace"), 0.0)["interpolation"]
    assert abs(found.alpha - 0.25) < 10 * found.error_estimate + 0.1 / noise
    assert found.error_estimate < 1e-8


def test_the_onset_of_any_strength():
    """A large strength is reached in proportion to the samples; next to none at next to none."""
    model = BilinearSequenceRegression(rho=0.5, noise=0.1)

    def weak_recovery_onset(strength):
        return risk_thresholds(model, Square(), penalty_of("nuclear"), strength)["weak_recovery"].alpha

    assert weak_recovery_onset(1e150) == pytest.approx(1e50 * weak_recovery_onset(1e100), rel=1e-9)
    assert weak_recovery_onset(1e-100) == 0
    assert weak_recovery_onset(1e-10) == pytest.approx(1e-10 * weak_recovery_onset(1e-5), rel=1e-4)
