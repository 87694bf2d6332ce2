"""Cross-entropy on labels of attention: the loss, its averages by several rules, fixed points, best strengths."""

import numpy as np
import pytest
import scipy.optimize

from glassformer import AttentionIndexed, BilinearSequenceRegression, IncompatibleError, limits
from glassformer.channels.attention.prediction import row_disagreement
from glassformer.errors import ParameterError
from glassformer.risk.attention_averages import HardmaxAverages, ProductAverages, SampledAverages
from glassformer.risk.cross_entropy import CrossEntropy, minimise, minimise_two_tokens
from glassformer.risk.limits import risk_limits
from glassformer.risk.losses import loss_of
from glassformer.risk.order_parameters import OrderParameters
from glassformer.risk.penalties import penalty_of


def risk(model, alpha, strength, loss="cross-entropy"):
    return risk_limits(model, alpha, loss_of(loss), penalty_of("trace"), strength)


def aim(channel, tokens=2, rho=0.5, **more):
    return AttentionIndexed(rho=rho, tokens=tokens, channel=channel, **more)


def found(overlap, power, susceptibility):
    zeros = {name: np.zeros(1) for name in OrderParameters._fields}
    given = {"overlap": overlap, "power": power, "susceptibility": susceptibility}
    return OrderParameters(**{**zeros, **{name: np.array([value]) for name, value in given.items()}})


@pytest.mark.slow
@pytest.mark.parametrize(("tokens", "temperature"), [(2, 2.5), (3, 1.0), (4, 2.5)])
def test_slopes_minimisers_and_traces(tokens, temperature):
    """By finite differences and by a general solver, for labels of either kind and small and large variances."""
    rng, loss = np.random.default_rng(tokens), CrossEntropy(temperature)
    size = tokens * (tokens + 1) // 2
    y = rng.dirichlet(np.ones(tokens), size=(6, tokens))
    y[:3] = np.eye(tokens)[rng.integers(0, tokens, (3, tokens))]
    omega, unit = 2 * rng.standard_normal((6, size)), np.eye(size)
    slope = [(loss.value(y, omega + 1e-6 * e) - loss.value(y, omega - 1e-6 * e)) / 2e-6 for e in unit]
    np.testing.assert_allclose(loss.slope(y, omega), np.stack(slope, axis=-1), atol=1e-7)
    for v in (0.01, 1.0, 50.0, 3e3):
        p, (g, curvature) = loss.proximal(y, omega, v), loss.score(y, omega, v)
        np.testing.assert_allclose(p, omega + v * g, atol=1e-9 * (1 + v))

        def objective(x, v=v):
            return loss.value(y[0], x) + np.sum((x - omega[0]) ** 2) / (2 * v)

        def gradient(x, v=v):
            return loss.slope(y[0], x) + (x - omega[0]) / v

        other = scipy.optimize.minimize(objective, omega[0], jac=gradient, tol=1e-11)
        assert objective(p[0]) <= other.fun + 1e-12
        np.testing.assert_allclose(p[0], other.x, atol=1e-5)
        changes = [loss.score(y, omega + 1e-5 * e, v)[0] - loss.score(y, omega - 1e-5 * e, v)[0] for e in unit]
        trace = sum(change[:, k] for k, change in enumerate(changes)) / 2e-5
        np.testing.assert_allclose(curvature, -trace, rtol=1e-6, atol=1e-10)
    bend = [loss.slope(y, omega + 1e-5 * e) - loss.slope(y, omega - 1e-5 * e) for e in unit]
    matrices = np.stack(bend, axis=-1) / 2e-5
    assert np.max(np.linalg.eigvalsh(matrices)) <= loss.sharpness
    np.testing.assert_allclose(loss.score(y, omega, 0.0)[1], np.trace(matrices, axis1=1, axis2=2), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("variance", [0.0, 1.0, 30.0])
@pytest.mark.parametrize("spread", [0.5, 300.0])
def test_two_tokens_are_as_any_number(variance, spread):
    """The plane of row differences against all components, for labels of either kind."""
    rng, scale = np.random.default_rng(0), 2.5
    y = np.moveaxis(rng.dirichlet(np.ones(2), size=(200, 2)), 0, -1)
    y[:, :, 100:] = np.round(y[:, :, 100:])
    omega, v = spread * rng.standard_normal((3, 200)), np.full(200, variance)
    for one, other in zip(minimise_two_tokens(y, omega, v, scale), minimise(y, omega, v, scale), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("tokens", [2, 3])
def test_the_conjugate_of_slopes(tokens):
    """Equal to Fenchel's for all of the slopes, and never less than any field says for a share of them."""
    rng, loss, size = np.random.default_rng(0), CrossEntropy(), tokens * (tokens + 1) // 2
    y = np.eye(tokens)[rng.integers(0, tokens, (20, tokens))]
    h, other = rng.standard_normal((2, 20, size))
    u = loss.slope(y, h)
    whole = np.sum(u * h, axis=-1) - loss.value(y, h)
    np.testing.assert_allclose(loss.conjugate_at(y, h, u, 1.0), whole, atol=1e-12)
    for share in (0.0, 0.4, 0.9):
        for field in (h, other, 5 * other):
            assert np.all(loss.conjugate_at(y, h, u, share) >= share * np.sum(u * field, -1) - loss.value(y, field))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "rule", "levels", "state"),
    [
        ("hardmax", HardmaxAverages, (1, 2), (0.0, 0.0, 0.0)),
        ("hardmax", HardmaxAverages, (1, 2), (2.6, 6.5, 8.0)),
        ("softmax", ProductAverages, (4, 5), (0.0, 0.0, 0.0)),
        ("softmax", ProductAverages, (4, 5), (1.1, 0.9, 1.0)),
        ("softmax", ProductAverages, (4, 5), (1.49, 1.485, 0.1)),
    ],
)
def test_rules_agree_with_samples(channel, rule, levels, state):
    """Quadrature with the label's law against quasi-random points with an integration by parts instead."""
    model, loss, seen = aim(channel), CrossEntropy(1.0), found(*state)
    fine, finer = (np.array(rule(model.channel, 1.5, loss, accuracy=level).averages(seen)) for level in levels)
    np.testing.assert_allclose(fine, finer, rtol=1e-6, atol=1e-9)
    sampled = SampledAverages(model.channel, 1.5, loss, accuracy=1)
    parts = np.array([part.averages(seen) for part in sampled.replicas])[:, :, 0]
    mean, bar = parts.mean(axis=0), parts.std(axis=0, ddof=1) / np.sqrt(len(parts))
    np.testing.assert_allclose(mean, np.array(sampled.averages(seen))[:, 0], rtol=1e-10)
    assert np.all(np.abs(mean - finer[:, 0]) <= 5 * bar + 1e-9)


@pytest.mark.slow
def test_hardmax_labels_of_two_tokens():
    row = risk(aim("hardmax"), [0.3], 0.05)
    numbers = [row["overlap"][0], row["power"][0], row["label_error"][0]]
    np.testing.assert_allclose(numbers[:2], [2.632089, 6.495057], rtol=0, atol=5e-7)
    assert numbers[2] == pytest.approx(0.18063123, abs=5e-9)
    assert row["error"][0] == pytest.approx(1.5 - 2 * row["overlap"][0] + row["power"][0], abs=1e-9)
    assert row["label_error"][0] == pytest.approx(np.arccos(row["cosine"][0]) / np.pi, abs=1e-10)
    assert 0 < row["error_estimate"][0] < 1e-7


@pytest.mark.slow
def test_the_risk_falls_as_the_trace_says():
    """The least risk changes with the strength by the trace of its minimiser."""
    model, alpha, strength, step = aim("hardmax"), 0.1, 0.2, 0.002
    rows = [risk(model, [alpha], strength + shift) for shift in (-step, 0.0, step)]
    traces = [trace(model, row) for row in rows]
    least = [
        alpha * row["training_loss"][0] + row["strength"][0] * part for row, part in zip(rows, traces, strict=True)
    ]
    assert (least[2] - least[0]) / (2 * step) == pytest.approx(traces[1], rel=1e-4)


def trace(model, row):
    s, weight, _ = model.prior.noisy_law(row["effective_noise"]).nodes(row["threshold"])
    kept = np.maximum(s - row["threshold"][:, None], 0.0)
    gain = np.sqrt(row["power"][0] / np.sum(weight * kept**2))
    return gain * np.sum(weight * kept)


def test_averages_do_not_jump():
    """Where narrow panels were left out coarse ones did, by a millionth, and fixed points ended up in between."""
    labels = HardmaxAverages(aim("hardmax").channel, 1.5, CrossEntropy(1.0))
    values = [labels.averages(found(11.6, 92.0, v)).v_hat[0] for v in np.linspace(1.915, 1.948, 21)]
    assert np.max(np.abs(np.diff(np.log(values), 3))) < 1e-8


@pytest.mark.slow
def test_a_colder_student_is_a_weaker_penalty():
    one, other = risk(aim("hardmax"), [0.3], 0.3), risk(aim("hardmax"), [0.3], 0.6, CrossEntropy(2.0))
    np.testing.assert_allclose(other["overlap"], one["overlap"] / 2, rtol=1e-7)
    np.testing.assert_allclose(other["label_error"], one["label_error"], rtol=1e-7)
    np.testing.assert_allclose(other["training_loss"], one["training_loss"], rtol=1e-7)


@pytest.mark.slow
def test_softmax_labels_of_two_tokens():
    """Weak penalties recover the signal from the threshold of exact fits on; strong ones leave nothing."""
    assert risk(aim("softmax"), [0.2], 50.0)["error"][0] == 1.5
    warm = risk(aim("softmax", temperature=0.5), [0.3], 0.05)
    assert warm["error_estimate"][0] < 1e-7 and warm["training_loss"][0] < warm["test_loss"][0]
    assert warm["error"][0] > limits(aim("softmax"), [0.15])["error"][0]


@pytest.mark.thorough
def test_the_end_of_exact_fits():
    weak = [risk(aim("softmax"), [0.4], strength)["error"][0] for strength in (1e-2, 1e-3)]
    assert 0 < weak[1] < 0.02 * weak[0]
    best = risk(aim("softmax"), [0.15, 0.25], None)
    assert best["error"][0] > limits(aim("softmax"), [0.15])["error"][0] and best["error"][1] == 0
    assert "no penalty" in " ".join(best.notes)
    # The entropy of the labels, whatever has been learned.
    assert best["training_loss"][1] == pytest.approx(0.8952478, abs=1e-6)


@pytest.mark.thorough
def test_never_better_than_bayes():
    rng = np.random.default_rng(0)
    for _ in range(6):
        model, alpha = aim("hardmax", rho=rng.uniform(0.2, 1.2)), [rng.uniform(0.1, 1.0)]
        optimum, found = limits(model, alpha), risk(model, alpha, np.exp(rng.uniform(-3, 0)))
        assert found["error"][0] > optimum["error"][0] and found["label_error"][0] > optimum["label_error"][0]


@pytest.mark.thorough
@pytest.mark.parametrize(("rho", "alpha"), [(0.13369584, 2.5489897), (1.5, 0.70267556)])
def test_the_best_strength_is_that_of_fine_averages(rho, alpha):
    """Coarse ones had it .7 times as large where labels are nearly fitted, and 40 times too small in the other case."""
    model = aim("hardmax", rho=rho)
    best = risk(model, [alpha], None)
    for factor in (0.8, 1.25):
        assert risk(model, [alpha], factor * best["strength"][0])["label_error"] > best["label_error"] * (1 + 1e-4)


@pytest.mark.thorough
def test_the_best_strength():
    row = risk(aim("hardmax"), [0.3], None)
    for factor in (0.8, 1.25):
        assert risk(aim("hardmax"), [0.3], factor * row["strength"][0])["label_error"][0] > row["label_error"][0]
    assert row["label_error"][0] > limits(aim("hardmax"), [0.3])["label_error"][0]


@pytest.mark.thorough
@pytest.mark.parametrize("channel", ["hardmax", "softmax"])
def test_error_estimates_of_samples(channel):
    """Those of two tokens cover what quadrature says, and three tokens teach more than two."""
    from glassformer.risk.fixed_points import fixed_points, refine_averages
    from glassformer.risk.problem import RiskProblem

    model, alpha, strength = aim(channel), np.array([0.2]), np.array([0.1])
    exact = risk(model, alpha, 0.1)["error"][0]
    labels = SampledAverages(model.channel, 1.5, CrossEntropy(1.0))
    problem = RiskProblem(model, CrossEntropy(1.0), penalty_of("trace"), labels)
    point = refine_averages(problem, alpha, fixed_points(problem, alpha, strength))
    assert abs(point.order.error[0] - exact) <= 1.5 * point.error_estimate[0] < 0.05 * exact
    three = risk(aim(channel, 3), alpha, 0.1)
    assert three.converged and three["cosine"][0] > risk(model, alpha, 0.1)["cosine"][0]
    assert 0 < three["error_estimate"][0] < 0.05 * three["error"][0]


@pytest.mark.slow
def test_rows_that_disagree():
    """Closed forms against sampled rows."""
    cosine = np.array([0.0, 0.4, 0.95])
    np.testing.assert_allclose(row_disagreement(2, cosine), np.arccos(cosine) / np.pi, atol=1e-12)
    rng, spread = np.random.default_rng(0), np.array([np.sqrt(2), 1, 1])
    h, rest = spread * rng.standard_normal((2, 400_000, 3))
    for c, expected in zip(cosine, row_disagreement(3, cosine), strict=True):
        other = c * h + np.sqrt(1 - c**2) * rest
        assert np.mean(np.argmax(h, -1) != np.argmax(other, -1)) == pytest.approx(expected, abs=4e-3)
    np.testing.assert_allclose(row_disagreement(3, np.array([1.0, 1 - 1e-12])), 0.0, atol=2e-6)
    wide = row_disagreement(5, np.array([0.0, 0.5, 1.0]))
    assert 0.7 < wide[0] < 0.8 and wide[0] > wide[1] > wide[2] >= 0


def test_refusals():
    for strength, model, loss in (
        (0.0, aim("hardmax"), "cross-entropy"),
        (0.1, aim("linear"), "cross-entropy"),
        (0.1, aim("softmax", noise=0.1), "cross-entropy"),
        (0.1, aim("hardmax"), "square"),
        (0.1, aim("hardmax"), "logistic"),
    ):
        with pytest.raises(IncompatibleError):
            risk(model, [0.5], strength, loss)
    with pytest.raises(IncompatibleError, match="rows of probabilities"):
        signs = BilinearSequenceRegression(rho=0.3, channel="sign")
        risk_limits(signs, [0.5], CrossEntropy(), penalty_of("nuclear"), 0.1)
    for temperature in (0.0, -1.0, np.inf):
        with pytest.raises(ParameterError, match="temperature"):
            CrossEntropy(temperature)
