"""Several attention layers: posterior against brute force, state evolution, message passing, command line."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import roots_hermitenorm, softmax

from glassformer import AttentionIndexed, DeepAttentionIndexed, IncompatibleError, landscape, limits, simulate
from glassformer import thresholds as find_thresholds
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.channels.attention.deep import DeepAttentionIndexedChannel
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.cli import main
from glassformer.core.estimate import Estimate
from glassformer.designs.token_pairs import to_components, to_matrices
from glassformer.errors import ParameterError
from glassformer.priors.layered import LayeredPrior, couples_to_second_order
from glassformer.priors.wishart import NarrowWishartPrior, SymmetricGaussianPrior, WishartPrior

MODEL = DeepAttentionIndexed(rho=0.5, tokens=2, layers=2, skip=1.0)


def network(fields, skip, temperature=1.0):
    """The layers written out for one sample; fields of shape (L, K)."""
    tokens = int((np.sqrt(8 * fields.shape[1] + 1) - 1) / 2)
    mixing = np.eye(tokens)
    for c, row in zip(skip, fields[:-1], strict=True):
        score = mixing @ to_matrices(row, tokens) @ mixing.T
        mixing = (c * np.eye(tokens) + softmax(temperature * score, axis=1)) @ mixing
    return mixing @ to_matrices(fields[-1], tokens) @ mixing.T, mixing


@pytest.mark.slow
@pytest.mark.parametrize("tokens, skip, temperature", [(2, (1.0,), 1.0), (3, (0.5, 2.0), 0.7), (4, (1.5,), 1.3)])
def test_labels_are_those_of_the_network(tokens, skip, temperature):
    channel = DeepAttentionIndexedChannel(tokens, skip, temperature=temperature)
    fields = np.random.default_rng(0).standard_normal((5, len(skip) + 1, tokens * (tokens + 1) // 2))
    labels = channel.label_from(fields, np.empty((5, 0)))
    for field, label in zip(fields, labels, strict=True):
        np.testing.assert_allclose(
            label, softmax(temperature * network(field, skip, temperature)[0], axis=1), atol=1e-12
        )


@pytest.mark.thorough
@pytest.mark.parametrize("variance", [pytest.param((1.0, 1.0), marks=pytest.mark.thorough), (0.3, 0.2)])
def test_posterior_of_two_layers_agrees_with_a_grid(variance):
    """Scores and log partition from Gauss-Hermite quadrature over all three fields of the first layer."""
    channel = DeepAttentionIndexedChannel(2, (1.0,), 1.5, effort=Effort(2048, 8, 10))
    rng, root = np.random.default_rng(1), np.sqrt(np.array(variance))[:, None]
    omega = rng.standard_normal((2, 2, 3))
    labels = channel.label_from(omega + root * rng.standard_normal((2, 2, 3)), np.empty((2, 0)))
    found = channel.posterior(labels, omega, np.broadcast_to(np.diag(variance), (2, 2, 2)))
    node, weight = roots_hermitenorm(40)
    x = np.stack(np.meshgrid(node, node, node, indexing="ij"), axis=-1).reshape(-1, 3)
    w = np.prod(np.stack(np.meshgrid(weight, weight, weight, indexing="ij"), axis=-1), axis=-1).ravel()
    for k in range(2):
        logits = np.log(labels[k])
        shift = 0.5 * (logits[0, 1] - logits[1, 0])
        scores = logits - np.array([[shift], [-shift]])
        mixing = np.eye(2) + softmax(to_matrices(omega[k, 0] + root[0] * x, 2), axis=-1)
        inverse = np.linalg.inv(mixing)
        seen = to_components(inverse @ scores @ np.swapaxes(inverse, 1, 2)) - omega[k, 1]
        ones = np.array([0.5, np.sqrt(0.5), 0.5])
        seen = seen - np.outer(seen @ ones, ones)
        likelihood = np.exp(-0.5 * np.sum(seen**2, axis=1) / variance[1]) / np.abs(np.linalg.det(mixing)) ** 3
        total = np.sum(w * likelihood)
        expected = [
            np.sum((w * likelihood)[:, None] * values, axis=0) / total for values in (x / root[0], seen / variance[1])
        ]
        np.testing.assert_allclose(found.score[k], expected, atol=0.02)
        level = np.log(total / np.sum(w)) - np.log(2 * np.pi * variance[1])
        assert found.log_partition[k] == pytest.approx(level, abs=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("variance", [(1.0, 1.0), (0.4, 0.05), (1e-3, 1e-3)])
def test_squares_of_scores_equal_their_slopes_on_average(variance):
    """Nishimori; without the determinant of the mixing the two differ by tens of per cent."""
    channel = DeepAttentionIndexedChannel(2, (1.0,), 1.5)
    v = np.diag(variance)
    rng = np.random.default_rng(2)
    t, u = rng.standard_normal((2, 4000, 2, 3))
    omega = np.linalg.cholesky(channel.fields.self_overlap - v) @ t
    labels = channel.label_from(omega + np.sqrt(np.array(variance))[:, None] * u, np.empty((4000, 0)))
    found = channel.posterior(labels, omega, np.broadcast_to(v, (4000, 2, 2)))
    square = np.einsum("nak,nak->na", found.first, found.second)
    gap = (square - np.einsum("naa->na", found.curvature)) * np.array(variance)
    error = gap.std(axis=0) / np.sqrt(len(gap))
    assert np.all(np.abs(gap.mean(axis=0)) < 4 * error + 0.01)


@pytest.mark.thorough
def test_strong_skip_leaves_one_layer_visible():
    channel = DeepAttentionIndexedChannel(2, (1e4,), 1.5, last="linear", points=64)
    value = channel.inference.information(np.diag([1.0, 0.5])[None]).value[0]
    assert value[1, 1] == pytest.approx(3 / 0.5, rel=1e-3)  # T (T + 1)/(2 V), one linear layer
    assert abs(value[0, 0]) < 1e-3


@pytest.mark.thorough
def test_information_is_the_slope_of_the_expected_log_partition():
    channel = MODEL.channel.inference.with_points(512).channel
    v, step = np.array([0.5, 0.3]), 0.05
    information = channel.inference.information(np.diag(v)[None])
    for k in range(2):
        ends = np.stack([np.diag(v - s * step * np.eye(2)[k]) for s in (-1, 1)])
        low, high = channel.inference.averages(ends).log_partition.value
        slope = (high - low) / (2 * step)
        assert slope == pytest.approx(0.5 * information.value[0, k, k], rel=0.03)


Q_HAT = np.array([[0.9, -0.4, 0.1], [-0.4, 0.6, 0.2], [0.1, 0.2, 2.0]])


def exactly(q_hat):
    return Estimate(q_hat[None], np.zeros((1, *q_hat.shape)))


def test_gaussian_layers_are_coupled_exactly():
    prior = LayeredPrior(SymmetricGaussianPrior(), 3)
    found = prior.covariance(exactly(Q_HAT)).value
    # Differences of errors with a relative step of 1e-3 are known to its square.
    np.testing.assert_allclose(found[0], np.linalg.inv(np.eye(3) + Q_HAT), atol=1e-6)
    information = 0.5 * np.linalg.slogdet(np.eye(3) + Q_HAT)[1]
    entropy = 0.5 * np.sum(Q_HAT * found[0]) - information
    assert prior.entropy(Q_HAT[None], found).value[0] / prior.degrees == pytest.approx(entropy, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("entry", [(0, 0), (0, 1), (1, 2)])
def test_covariances_of_layers_are_the_slope_of_their_mutual_information(entry):
    prior = LayeredPrior(WishartPrior(0.5), 3)

    def information(q_hat):
        variance = prior.covariance(exactly(q_hat)).value
        return 0.5 * np.sum(q_hat * variance[0]) - prior.entropy(q_hat[None], variance).value[0] / prior.degrees

    along = np.zeros((3, 3))
    along[entry] = along[entry[::-1]] = 1.0
    slope = (information(Q_HAT + 1e-3 * along) - information(Q_HAT - 1e-3 * along)) / 2e-3
    found, error = (part[0] for part in prior.covariance(exactly(Q_HAT)))
    assert slope == pytest.approx(0.5 * np.sum(along * found), abs=1e-6)
    apart = prior.covariance(exactly(np.diag(np.diag(Q_HAT)))).value[0]
    # The second-order change is known to the next order, which is less.
    assert np.all(error >= 0) and 0 < error[0, 0] < abs(found - apart)[0, 0]
    assert np.all(np.diag(found) > np.diag(apart))


def test_layers_of_negligible_width_do_not_couple():
    prior = LayeredPrior(NarrowWishartPrior(), 3)
    found = prior.covariance(exactly(Q_HAT)).value[0]
    np.testing.assert_array_equal(found, np.diag(np.diag(found)))
    assert not couples_to_second_order(prior)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("layers", "skip", "least"), [(2, 1.0, 0.01), pytest.param(3, (1.0, 2.0), 0.5, marks=pytest.mark.thorough)]
)
def test_limits_follow_overlaps_between_layers(layers, skip, least):
    """Off-diagonal conjugate overlaps of two thirds of the diagonal are followed, and the next order is in the bar."""
    model = DeepAttentionIndexed(0.5, 2, layers, skip)
    model = replace(model, channel=model.channel.inference.with_points(64).channel)
    table = limits(model, [0.1])
    assert table["q_hat_off_diagonal"][0] > least
    assert layers == 2 or "couple the rows" in table.notes[0]
    overlap, q_hat, error = table["overlap"][0], table["q_hat"][0], table["error_estimate"][0]
    assert overlap[0, 1] > 0.5 + 0.02 * least  # of independent layers, it is that of their means
    found = model.prior.covariance(exactly(q_hat))
    np.testing.assert_allclose(model.prior.self_overlap - found.value[0], overlap, atol=error)
    # The fixed point is off by the next order at least.
    assert error > np.linalg.norm(found.error[0])


@pytest.mark.thorough
def test_limits_report_overlaps_per_layer():
    table = limits(MODEL, [0.15])
    overlap, error = table["overlap"][0], table["row_error"][0]
    np.testing.assert_allclose(np.diag(overlap), 1.5 - error)
    assert error[1] < error[0] < 1
    assert overlap[0, 1] == pytest.approx(0.5, abs=0.02)
    assert 0.01 < table["q_hat_off_diagonal"][0] < 0.05
    assert table["prediction_error"][0] <= table["plugin_error"][0]
    assert table["residual"][0] < 5e-3


@pytest.mark.thorough
def test_fixed_points_make_the_free_entropy_stationary():
    channel = MODEL.channel.inference.with_points(512).channel
    model = DeepAttentionIndexed(0.5, 2, 2, 1.0, channel)
    solution = state_evolution(model, [0.1])
    v = np.diag(solution.value[0])
    alpha, step = np.full(2, 0.1), 0.04
    for k in range(2):
        shifted = np.stack([v + s * step * np.eye(2)[k] for s in (-1, 1)])
        matrices = np.stack([np.diag(row) for row in shifted])
        # The conjugate overlaps that belong to the shifted variances, by inverting the prior's error.
        q_hat = np.stack([np.diag([_inverse(MODEL.prior.layer, x) for x in row]) for row in shifted])
        low, high = free_entropy(model, alpha, q_hat, matrices).value
        either_part = 0.25 * solution.extra["q_hat"][0, k, k]
        assert abs(high - low) / (2 * step) < 0.1 * either_part


def _inverse(prior, variance):
    from scipy.optimize import brentq

    return brentq(lambda q: prior.mmse(np.array([q])).value[0] - variance, 1e-6, 100)


@pytest.mark.thorough
def test_perfect_recovery_is_where_labels_are_as_many_as_unknowns():
    found = find_thresholds(replace(MODEL, channel=MODEL.channel.inference.with_points(64).channel))
    assert found["perfect_recovery"].alpha == pytest.approx(2 * 0.75 / 4)
    assert found.hard_phase is None


@pytest.mark.thorough
def test_state_evolution_recovers_perfectly_above_the_counting_threshold_only():
    # Averages over a few hundred data points are not what is tested.
    table = limits(MODEL, [0.34, 0.41], throw=False)
    assert np.all(table["row_error"][0] > 1e-3)
    assert np.all(table["row_error"][1] < 1e-5)


@pytest.mark.thorough
def test_message_passing_approaches_theory_layer_by_layer():
    near, far = (simulate(MODEL, [0.15], d=d, instances=instances, seed=1) for d, instances in ((80, 4), (30, 8)))
    for result, allowed in ((near, 0.08), (far, 0.25)):
        gap = (result["row_error"] - result["row_theory"])[0]
        assert np.all(np.abs(gap) < allowed + 3 * result["row_standard_error"][0])
    assert near.converged


@pytest.mark.slow
def test_several_layers_from_the_command_line(capsys):
    assert main(["thresholds", "aim", "--rho", "0", "--layers", "2", "--skip", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [entry["name"] for entry in found["thresholds"]] == [
        "weak_recovery",
        "perfect_recovery",
        "bayes_optimal_transition",
    ]
    assert "layer 2" in found["thresholds"][0]["note"]
    assert main(["limits", "aim", "--rho", "0.5", "--skip", "1", "--alpha", "0.1"]) == 2
    assert "layers" in capsys.readouterr().err


def test_combinations_that_do_not_exist_are_refused():
    with pytest.raises(IncompatibleError, match="layers = 2"):
        DeepAttentionIndexed(rho=0.5, channel="hardmax")
    with pytest.raises(ParameterError, match="skip"):
        DeepAttentionIndexed(rho=0.5, layers=3, skip=[1.0, 1.0, 1.0])
    with pytest.raises(ParameterError, match="layers"):
        DeepAttentionIndexed(rho=0.5, layers=1)
    with pytest.raises(IncompatibleError, match="inf"):
        DeepAttentionIndexed(rho=np.inf)
    with pytest.raises(ParameterError, match="rho"):
        DeepAttentionIndexed(rho=-1)
    with pytest.raises(IncompatibleError, match=r"the channel has skip = \(1.0,\), the model skip = \(2.0,\)"):
        replace(MODEL, skip=2.0)
    with pytest.raises(IncompatibleError, match=r"the channel has skip = \(1e-09,\), the model skip = \(2e-09,\)"):
        replace(MODEL.varied(skip=1e-9), skip=2e-9)
    assert AttentionIndexed(0.5).tokens == 2


@pytest.mark.parametrize("changed", [{"skip": 2.0}, {"temperature": 3.0}, {"rho": 0.2}, {"tokens": 3}, {"layers": 3}])
def test_varied_models_have_the_channel_of_their_parameters(changed):
    given = {"rho": 0.5, "tokens": 2, "layers": 2, "skip": 1.0} | changed
    varied = MODEL.varied(**changed)
    assert varied.parameters == DeepAttentionIndexed(**given).parameters
    assert repr(varied.channel) == repr(DeepAttentionIndexed(**given).channel) != repr(MODEL.channel)


@pytest.mark.thorough
def test_landscape_of_one_layer_peaks_at_its_fixed_point():
    model = DeepAttentionIndexed(rho=0.5)
    reached = limits(model, [0.2], throw=False)["overlap"][0]
    curve = landscape(model, 0.2, overlaps=12, row=0)
    assert curve.maxima == pytest.approx(reached[0, 0], abs=0.03)
    assert not curve.hard_phase
    assert curve.overlap[[0, -1]] == pytest.approx([0.5, 1.5], abs=0.02)
    nearest = np.argmin(np.abs(curve.overlap - reached[0, 0]))
    assert abs(np.argmax(curve.free_entropy) - nearest) <= 1
