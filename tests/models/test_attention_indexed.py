"""Attention-indexed models: published numbers, collapses, limits, thresholds, and message passing on data."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import dblquad
from scipy.stats import multivariate_normal, norm

from glassformer import (
    Accuracy,
    AttentionIndexed,
    IncompatibleError,
    MessagePassing,
    Status,
    landscape,
    limits,
    simulate,
    thresholds,
)
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.channels import AbsoluteChannel, LinkChannel, SignChannel
from glassformer.channels.attention.hardmax_pair import HardmaxPairChannel
from glassformer.channels.attention.hardmax_sampled import HardmaxChannel
from glassformer.channels.attention.hardmax_triple import HardmaxTripleChannel
from glassformer.channels.attention.linear import LinearAttentionChannel
from glassformer.channels.attention.noisy import NoisyAttentionChannel
from glassformer.channels.attention.softmax import (
    CorrelatedSoftmaxChannel,
    SoftmaxAttentionChannel,
    SoftmaxUntiedChannel,
)
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.designs.token_pairs import to_components, to_matrices
from glassformer.errors import DataError, ParameterError
from glassformer.learners.gamp import gamp
from glassformer.priors.wishart import WishartPrior

REFERENCE = Path(__file__).parents[3] / "shared" / "reference"
NETWORK, HARDMAX = (
    REFERENCE / name
    for name in ("aim/quadratic_network_rho0.5_noiseless.csv", "attention_indexed/hardmax_T2_rho0.5.csv")
)
RATIOS = np.array([0.1, 0.3, 0.5, 0.7, 0.9, 1.2])


def counted(channel, tokens):
    """Components of the indices that a noiseless label shows, times two."""
    return tokens * (tokens + 1) - (2 if channel == "softmax" else 0)


# --- limits -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not NETWORK.is_file(), reason="the published data lie beside the repository, not in it")
def test_published_quadratic_network():
    """To 1e-6, or, where the published value misses its own fixed-point equation, to what that explains."""
    import pandas

    published = pandas.read_csv(NETWORK)
    published = published[(published["alpha"] > 0.02) & (published["alpha"] < 0.375 - 1e-9)]
    alpha, error = published["alpha"].to_numpy(), published["gen_error"].to_numpy()
    computed = limits(AttentionIndexed(rho=0.5, tokens=1, channel="linear"), alpha)["error"]
    missed = np.abs(WishartPrior(0.5).mmse(2 * alpha / error).value - error)
    assert np.all(np.abs(computed - error) <= 1e-6 + 20 * missed)
    assert np.mean(np.abs(computed - error) <= 1e-6) > 0.9


def test_the_score_of_hardmax_is_no_bivariate_density():
    """The published curve takes the bivariate density for the derivative of Phi_2, and lies above the optimum."""
    h, k, r, step = 1.0, 1.0, 0.4, 1e-3
    law = multivariate_normal(cov=[[1, r], [r, 1]])
    slope = (law.cdf([h + step, k]) - law.cdf([h - step, k])) / (2 * step)
    assert slope == pytest.approx(norm.pdf(h) * norm.cdf((k - r * h) / np.sqrt(1 - r**2)), rel=1e-4)
    assert abs(slope - law.pdf([h, k])) > 0.05
    optimum = limits(AttentionIndexed(rho=0.5, tokens=2, channel="hardmax"), [0.22, 5.0, 10.0])["error"]
    assert optimum[0] == pytest.approx(0.487, abs=1e-3)
    assert np.log2(optimum[1] / optimum[2]) == pytest.approx(2, abs=0.05)


@pytest.mark.skipif(not HARDMAX.is_file(), reason="the published data lie beside the repository, not in it")
def test_published_hardmax_is_above_the_optimum():
    import pandas

    published = pandas.read_csv(HARDMAX)
    assert np.interp(0.22, published["alpha"], published["mmse"]) == pytest.approx(0.707, abs=1e-3)
    tail = published.iloc[-2:]
    assert -np.diff(np.log(tail["mmse"])) / np.diff(np.log(tail["alpha"])) < 1


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.0, 0.2, pytest.param(1.0, marks=pytest.mark.thorough), np.inf])
@pytest.mark.parametrize("tokens", [2, pytest.param(3, marks=pytest.mark.thorough), 5])
@pytest.mark.parametrize("channel", ["linear", "softmax"])
def test_all_numbers_of_tokens_collapse(channel, tokens, rho):
    first = AttentionIndexed(rho, 1, "linear")
    other = AttentionIndexed(rho, tokens, channel)
    alpha = RATIOS * thresholds(first)["perfect_recovery"].alpha
    rescaled = limits(other, alpha * 2 / counted(channel, tokens))["error"]
    assert np.allclose(rescaled, limits(first, alpha)["error"], atol=1e-10)


@pytest.mark.parametrize("noise", [0.05, 1.0])
def test_noise_collapses_too(noise):
    pair = [AttentionIndexed(0.4, tokens, "linear", noise) for tokens in (1, 3)]
    alpha = np.array([0.1, 0.5, 2.0])
    assert np.allclose(limits(pair[0], alpha)["error"], limits(pair[1], alpha / 6)["error"], atol=1e-10)


def test_the_temperature_drops_out_of_everything_but_the_label():
    cold, warm = (AttentionIndexed(0.5, 2, "softmax", temperature=b) for b in (0.1, 10.0))
    first, second = limits(cold, [0.1]), limits(warm, [0.1])
    assert first["error"][0] == second["error"][0]
    assert first["label_mse"][0] < 0.1 * second["label_mse"][0]
    rng = np.random.default_rng(0)
    h, omega = rng.standard_normal((2, 50, 3))
    scores = [m.channel.score(m.channel.sample(h, rng), omega, 0.3) for m in (cold, warm)]
    assert np.allclose(*scores, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rho", "dimension"),
    [
        (0.1, 0.19),
        (1.0, 1.0),
        *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in [(0.5, 0.75), (3.0, 1.0)]),
    ],
)
@pytest.mark.parametrize(("channel", "tokens"), [("linear", 1), ("linear", 2), ("softmax", 2), ("softmax", 4)])
def test_perfect_recovery_counts_degrees_of_freedom(channel, tokens, rho, dimension):
    model = AttentionIndexed(rho, tokens, channel)
    threshold = thresholds(model)["perfect_recovery"].alpha
    assert threshold == pytest.approx(dimension / counted(channel, tokens), rel=1e-12)
    below, above = limits(model, np.array([0.98, 1.02]) * threshold)["error"]
    assert below > 1e-5
    assert above < 1e-10


@pytest.mark.parametrize("tokens", [2, 3])
def test_small_width(tokens):
    """Softmax, rho -> 0: q = (kappa - 1)^2 with kappa = abar (T^2 + T - 2), from weak recovery at 1 to perfect at 2."""
    scale = counted("softmax", tokens)
    model = AttentionIndexed(0, tokens, "softmax")
    kappa = np.array([0.5, 0.9, 1.2, 1.5, 1.9])
    table = limits(model, kappa / scale)
    assert np.allclose(table["overlap"], np.maximum(kappa - 1, 0) ** 2, atol=1e-9)
    found = thresholds(model)
    assert found["weak_recovery"].alpha == pytest.approx(1 / scale)
    assert found["perfect_recovery"].alpha == pytest.approx(2 / scale)


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["linear", "softmax", "hardmax"])
def test_small_width_is_approached(channel):
    abar = np.array([0.4, 0.8]) if channel == "hardmax" else np.array([1.3, 1.7]) / counted(channel, 2)
    limit = limits(AttentionIndexed(0, 2, channel), abar)["error"]
    gaps = [np.abs(limits(AttentionIndexed(r, 2, channel), abar * r)["error"] - limit).max() for r in (3e-2, 1e-3)]
    assert gaps[1] < 0.3 * gaps[0]
    assert gaps[1] < 0.1


@pytest.mark.parametrize("channel", ["linear", "softmax"])
def test_unlimited_width(channel):
    alpha = np.array([0.1, 0.5]) / counted(channel, 2)
    wide = limits(AttentionIndexed(np.inf, 2, channel), alpha)["error"]
    assert np.allclose(wide, [0.9, 0.5], atol=1e-9)
    assert np.allclose(limits(AttentionIndexed(1e4, 2, channel), alpha)["error"], wide, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("model", [("linear", 0.0), ("softmax", 0.0), ("hardmax", 0.0), ("linear", 0.3)], ids=str)
@pytest.mark.parametrize("rho", [0.05, 0.5, 2.0])
def test_error_decreases_and_free_entropy_is_stationary(model, rho):
    channel, noise = model
    model = AttentionIndexed(rho, 2, channel, noise)
    alpha = np.linspace(0, 0.9, 10) * (0.2 if channel != "hardmax" else 2)
    table = limits(model, alpha)
    assert table["error"][0] == pytest.approx(1, abs=1e-9)
    assert np.all(np.diff(table["error"]) <= 1e-9)
    keep = (table["error"] < 0.999) & (table["error"] > 1e-3)
    q_hat, step = table["q_hat"][keep], 1e-4
    above, below = (free_entropy(model, alpha[keep], q_hat * (1 + s)).value for s in (step, -step))
    overlap = [model.prior.mmse(q_hat * (1 + s)).value for s in (step, -step)]
    slope = (above - below) / (overlap[1] - overlap[0])
    assert np.all(np.abs(slope) < 1e-5 * q_hat)


@pytest.mark.slow
@pytest.mark.parametrize("rho", [1e-3, 1e-2, 10.0, 1e4, 1e6])
@pytest.mark.parametrize(("channel", "noise"), [("linear", 0.0), ("linear", 0.1), ("softmax", 0.0), ("hardmax", 0.0)])
def test_everything_converges_over_the_allowed_widths(channel, noise, rho):
    model = AttentionIndexed(rho, 2, channel, noise)
    table = limits(model, [0, 1e-9, 0.01, 0.1, 1, 10, 1e9], throw=False)
    assert [str(status) for status in table.status] == ["converged"] * 7
    assert not thresholds(model).hard_phase


def test_landscape_peaks_at_the_limit():
    model = AttentionIndexed(0.3, 2, "hardmax")
    curve = landscape(model, 0.5, overlaps=60)
    expected = limits(model, [0.5])["overlap"][0]
    assert not curve.hard_phase
    assert curve.maxima[0] == pytest.approx(expected, abs=1e-8)
    assert curve.overlap.min() >= 0.3
    assert curve.overlap.max() <= 1.3
    recovered = landscape(AttentionIndexed(0.3, 2, "softmax"), 0.2, overlaps=60)
    assert recovered.peaks == "1.3 (perfect recovery)"


# --- hardmax for two tokens, by routes that share nothing -------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("v", [1.4, 0.05, *(pytest.param(v, marks=pytest.mark.thorough) for v in (0.5, 1e-3))])
def test_hardmax_information_by_integration_over_the_shared_index(v):
    """Products of two one-dimensional rules, over the plane of row differences and over h_12: nothing in common."""
    channel, size = HardmaxPairChannel(1.5), np.sqrt((1.5 - v) * 3)
    nodes, weight = np.polynomial.legendre.leggauss(10)
    # Panels that shrink towards zero, where the labels change on the scale sqrt(V).
    edges = 9 * size * np.concatenate([[0.0], np.geomspace(min(1.0, np.sqrt(v)) / 10, 1, 9)])
    edges = np.concatenate([-edges[:0:-1], edges])
    x = np.concatenate([a + (b - a) * (nodes + 1) / 2 for a, b in itertools.pairwise(edges)])
    w = np.concatenate([weight * (b - a) / 2 for a, b in itertools.pairwise(edges)])
    first, second = np.meshgrid(x, x, indexing="ij")
    density = multivariate_normal(np.zeros(2), (1.5 - v) * np.array([[3.0, 1.0], [1.0, 3.0]]))
    mass = np.outer(w, w) * density.pdf(np.stack([first, second], axis=-1))
    kept = mass > 1e-18
    omega = np.stack([first[kept], np.zeros(kept.sum()), second[kept]], axis=-1) / [np.sqrt(2), 1, np.sqrt(2)]
    value = 0.0
    for y in ([0, 0], [0, 1], [1, 0], [1, 1]):
        labels = np.broadcast_to(np.array(y, dtype=float), (len(omega), 2))
        z, g = np.exp(channel.log_partition(labels, omega, v)), channel.score(labels, omega, v)
        value += float(np.sum(mass[kept] * z * np.sum(g**2, axis=1)))
    assert channel.information(np.array([v])).value[0] == pytest.approx(value, rel=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("v", [0.5])
def test_hardmax_information_by_brute_force(v):
    """Average of |g|^2 over the plane of row differences, with SciPy's bivariate normal and finite differences."""
    power = 1.5
    covariance = np.array([[3.0, 1.0], [1.0, 3.0]])
    root = np.linalg.cholesky(covariance)

    def integrand(s, t):
        omega = np.sqrt(power - v) * root @ [t, s]
        total = 0.0
        for signs in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
            flip = np.diag(signs)
            law = multivariate_normal(np.zeros(2), v * flip @ covariance @ flip)
            z = law.cdf(flip @ omega)
            if z < 1e-12:
                continue
            g = []
            for k in range(2):
                conditional = covariance[0, 1] / covariance[k, k]
                other = 1 - k
                scale = np.sqrt(v * (covariance[other, other] - conditional * covariance[0, 1]))
                density = np.exp(-(omega[k] ** 2) / (2 * v * 3)) / np.sqrt(2 * np.pi * v * 3)
                from scipy.stats import norm

                g.append(signs[k] * density * norm.cdf(signs[other] * (omega[other] - conditional * omega[k]) / scale))
            total += np.array(g) @ covariance @ np.array(g) / z
        return total * np.exp(-(s**2 + t**2) / 2) / (2 * np.pi)

    value, _ = dblquad(integrand, -7, 7, -7, 7, epsabs=1e-7, epsrel=1e-7)
    assert HardmaxPairChannel(power).information(np.array([v])).value[0] == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("v", [1.0, 0.1, 0.01])
def test_hardmax_on_samples(v):
    """The integral over the shared index, used on data, averages to the closed form used for limits."""
    channel, rng, count = HardmaxPairChannel(1.5), np.random.default_rng(0), 40000
    omega = np.sqrt(1.5 - v) * rng.standard_normal((count, 3))
    field = omega + np.sqrt(v) * rng.standard_normal((count, 3))
    y = channel.sample(field, rng)
    score, curvature = channel.score_and_curvature(y, omega, v)
    square, log_z = np.sum(score**2, axis=1), channel.log_partition(y, omega, v)
    for sample, expected in (
        (square, channel.information(np.array([v])).value[0]),
        (curvature, channel.information(np.array([v])).value[0]),
        (np.sum(score * (field - omega), axis=1) / v, channel.information(np.array([v])).value[0]),
        (log_z, channel.expected_log_partition(np.array([v])).value[0]),
    ):
        assert abs(np.mean(sample) - expected) <= 5 * np.std(sample) / np.sqrt(count)


def test_hardmax_label_errors():
    """Zero-one error arccos(q/Q0)/pi, Brier 1/2 - arcsin(q/Q0)/pi, per row."""
    power, v = 1.5, np.array([1e-6, 0.1, 0.7, 1.4])
    errors = HardmaxPairChannel(power).label_error(v)
    ratio = (power - v) / power
    assert np.allclose(errors["label_error"], np.arccos(np.sqrt(ratio)) / np.pi, rtol=1e-6)
    assert np.allclose(errors["label_brier"], 0.5 - np.arcsin(ratio) / np.pi, rtol=1e-6)
    assert errors["label_error"][0] == pytest.approx(np.sqrt(v[0] / power) / np.pi, rel=1e-5)
    rng = np.random.default_rng(0)
    omega = np.sqrt(power - 0.7) * rng.standard_normal((100000, 3))
    truth = omega + np.sqrt(0.7) * rng.standard_normal(omega.shape)
    labels = [np.argmax(to_matrices(x, 2), axis=-1)[:, 0] for x in (truth, omega)]
    assert np.mean(labels[0] != labels[1]) == pytest.approx(errors["label_error"][2], abs=0.006)


# --- scores -----------------------------------------------------------------------------------------------------------

CHANNELS = {
    "linear": (LinearAttentionChannel(2, 0.1), 1e-6),
    "softmax": (SoftmaxAttentionChannel(3, 2.0), 1e-6),
    "hardmax": (HardmaxPairChannel(1.5), 1e-6),
    "hardmax 3": (HardmaxTripleChannel(3, 1.5), 1e-6),
    "hardmax sampled": (HardmaxChannel(3, 1.5, draws=8192), 0.05),
    "noisy": (NoisyAttentionChannel(np.tanh, 2, 0.2, 1.5, draws=16384), 0.05),
}


ROOT = ((1.0, 0.3, 0.0), (0.3, 1.1, -0.2), (0.0, -0.2, 0.9))


@pytest.mark.parametrize(
    ("channel", "hidden"),
    [
        (SoftmaxAttentionChannel(3, 2.0), 1),
        (SoftmaxUntiedChannel(3, 2.0), 3),
        (CorrelatedSoftmaxChannel(3, 2.0, root=ROOT), 1),
    ],
)
def test_softmax_labels_show_the_indices_but_for_the_hidden_directions(channel, hidden):
    """At the indices themselves the score vanishes; elsewhere it is a projection of what is missing, over V."""
    rng, v = np.random.default_rng(5), 0.6
    h = rng.standard_normal((50, channel.fields.shape[0]))
    y = channel.sample(h, rng)
    assert np.allclose(channel.score(y, h, v), 0, atol=1e-12)
    missing = rng.standard_normal(h.shape)
    shown = v * channel.score(y, h - missing, v)
    assert np.linalg.matrix_rank(missing - shown, tol=1e-9) == hidden
    assert np.allclose(np.sum(shown * (missing - shown), axis=1), 0, atol=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANNELS)
def test_score_and_curvature_are_derivatives_of_log_z(name):
    channel, tolerance = CHANNELS[name]
    # Sampled posteriors are smooth on the scale of their points only.
    rng, v, step = np.random.default_rng(1), 0.6, (1e-4 if tolerance < 1e-3 else 0.1)
    size = channel.tokens * (channel.tokens + 1) // 2
    omega = 0.7 * rng.standard_normal((8 if tolerance < 1e-3 else 3, size))
    y = channel.sample(omega + np.sqrt(v) * rng.standard_normal(omega.shape), rng)
    score, curvature = channel.score(y, omega, v), channel.curvature(y, omega, v)
    shifts = step * np.eye(size)
    slopes = [channel.log_partition(y, omega + e, v) - channel.log_partition(y, omega - e, v) for e in shifts]
    assert np.allclose(score, np.stack(slopes, axis=-1) / (2 * step), atol=tolerance)
    bends = [channel.score(y, omega - e, v) - channel.score(y, omega + e, v) for e in shifts]
    divergence = sum(bend[:, k] for k, bend in enumerate(bends)) / (2 * step)
    assert np.allclose(curvature, divergence, atol=4 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("tokens", [3, 4])
def test_sampled_hardmax_against_rejection(tokens):
    """Posterior mean of the indices among prior draws that give the same label."""
    channel, rng, v = HardmaxChannel(tokens, 1.5, draws=2048), np.random.default_rng(3), 0.8
    size = tokens * (tokens + 1) // 2
    omega = 0.5 * rng.standard_normal((3, size))
    y = channel.sample(omega + np.sqrt(v) * rng.standard_normal(omega.shape), rng)
    for row in range(3):
        draws = omega[row] + np.sqrt(v) * rng.standard_normal((200000, size))
        kept = draws[np.all(channel.label_from(draws, draws[:, :0]) == y[row], axis=1)]
        expected, spread = kept.mean(axis=0), kept.std(axis=0) / np.sqrt(len(kept))
        found = omega[row] + v * channel.score(y[[row]], omega[[row]], v)[0]
        assert np.all(np.abs(found - expected) <= 5 * spread + 0.06)
        assert channel.log_partition(y[[row]], omega[[row]], v)[0] == pytest.approx(
            np.log(len(kept) / len(draws)), abs=0.1
        )


@pytest.mark.parametrize("v", [0.9, 0.1, 0.01])
def test_probabilities_of_all_labels_of_three_tokens_add_up(v):
    channel, omega = HardmaxTripleChannel(3, 1.5), np.random.default_rng(4).standard_normal((1, 6))
    cyclic = [[1, 2, 0], [2, 0, 1]]
    labels = np.array([y for y in itertools.product(range(3), repeat=3) if list(y) not in cyclic], dtype=float)
    z = np.exp(channel.log_partition(labels, np.repeat(omega, len(labels), axis=0), v))
    assert np.sum(z) == pytest.approx(1, abs=1e-6)
    with pytest.raises(DataError, match="cycle"):
        channel.score(np.array(cyclic[:1], dtype=float), omega, v)


@pytest.mark.parametrize("v", [0.9, 0.1, 0.01])
def test_sampled_posteriors_of_three_tokens_are_those_of_integrals(v):
    channel, rng = HardmaxTripleChannel(3), np.random.default_rng(6)
    omega = np.sqrt(1 - v) * rng.standard_normal((200, 6))
    y = channel.sample(omega + np.sqrt(v) * rng.standard_normal(omega.shape), rng)
    found, exact = (c.posterior(y, omega, v) for c in (HardmaxChannel(3), channel))
    assert np.sqrt(v * np.mean((found.score - exact.score) ** 2)) < 0.03
    assert v * abs(np.mean(found.curvature - exact.curvature)) < 0.01
    assert np.sqrt(np.mean((found.log_partition - exact.log_partition) ** 2)) < 0.04


@pytest.mark.slow
def test_probabilities_of_all_labels_of_four_tokens_add_up():
    rng, v = np.random.default_rng(7), 0.4
    labels = np.array(list(itertools.product(range(4), repeat=4)), dtype=float)
    circular = [list(y) for y in labels if _points_in_a_circle(y.astype(int))]
    labels = np.array([y for y in labels if list(y) not in circular])
    omega = np.repeat(rng.standard_normal((1, 10)), len(labels), axis=0)
    z = np.exp(HardmaxChannel(4, draws=1024).log_partition(labels, omega, v))
    assert np.sum(z) == pytest.approx(1, abs=2e-3)
    for one in circular[:3]:
        with pytest.raises(DataError, match="cycle"):
            HardmaxChannel(4).score(np.array([one]), omega[:1], v)


def _points_in_a_circle(y):
    """Whether three rows or more lead back to where they began."""
    for start in range(len(y)):
        way = [start]
        while y[way[-1]] not in way:
            way.append(int(y[way[-1]]))
        if len(way) - way.index(y[way[-1]]) > 2:
            return True
    return False


@pytest.mark.thorough
@pytest.mark.parametrize("v", [0.95, 0.6])
def test_few_fields_of_five_tokens_are_in_the_error(v):
    few = HardmaxChannel(5, draws=64).averages_at(v, 256)
    many = HardmaxChannel(5, draws=256).averages_at(v, 256)
    assert abs(few[0] - many[0]) < np.hypot(few[1], many[1])
    assert many[1] < 0.1 * many[0]


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [1e-2, pytest.param(1e-6, marks=pytest.mark.thorough)])
def test_tables_hold_between_their_nodes_and_below_them(noise):
    """One token and the identity as a link: linear labels of half the noise."""
    channel = NoisyAttentionChannel(_same, 1, noise, draws=32)
    v = np.array([0.9, 0.75, 0.13, 0.0134, 1e-5, 1e-8, 1e-12])
    found, expected = channel.information(v), channel.expected_log_partition(v)
    assert np.all(np.abs(found.value - 2 / (2 * v + noise)) < found.error)
    exact = -0.5 * np.log(2 * np.pi * np.e * (2 * v + noise))
    assert np.all(np.abs(expected.value - exact) < 2 * expected.error)
    # Of the fewest fields that are allowed.
    assert np.all(found.error[:4] < 5e-3 * found.value[:4]) and np.all(found.error < 0.2 * found.value)


def _same(h):
    return h


@pytest.mark.slow
def test_a_linear_link_with_noise_by_sampling():
    """A channel that is also known in closed form: iid noise on all entries, symmetrised."""
    noise, v = 0.5, 0.3
    channel = NoisyAttentionChannel(lambda h: h, 2, noise, 1.5)
    expected = 0.5 * (4 * 2 / (2 * v + noise) + 2 / (v + noise / 2))
    value, error, *_ = channel.averages_at(0.3, 256)
    assert abs(value - expected) <= 5 * error + 0.01 * expected
    assert error < 0.02 * expected


@pytest.mark.thorough
def test_hardmax_of_three_tokens_has_the_checked_limits():
    table = limits(AttentionIndexed(0.5, 3, "hardmax"), [0.3, 0.8])
    for error, estimate, checked in zip(table["error"], table["error_estimate"], (0.1412, 0.0281), strict=True):
        assert abs(error - checked) <= 3 * estimate
        assert estimate < 0.06 * checked


# --- design and message passing ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_fields_and_their_transpose(storage):
    rng, (n, tokens, d) = np.random.default_rng(0), (7, 3, 12)
    design = QuadraticDesign.sample(n, (tokens, d), rng, storage)
    signal = WishartPrior(0.5).sample((d, d), rng)
    x = design.inputs[0].astype(float)
    h = (np.einsum("nai,ij,nbj->nab", x, signal, x) - np.eye(tokens) * np.trace(signal)) / np.sqrt(d)
    tolerance = 1e-12 if storage == "float64" else 1e-5
    assert np.allclose(design.forward(signal, 0), to_components(h), atol=tolerance)
    score = rng.standard_normal(design.field_shape)
    back = design.adjoint(score, 0)
    assert np.allclose(back, back.T)
    # <forward(S), g> = Tr(S adjoint(g)) d/2, for symmetric S.
    assert np.sum(design.forward(signal, 0) * score) == pytest.approx(np.sum(signal * back) * d / 2, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "tokens", "ratio"),
    [
        pytest.param("linear", 1, 0.6, marks=pytest.mark.thorough),
        ("softmax", 2, 0.5),
        pytest.param("softmax", 3, 0.8, marks=pytest.mark.thorough),
        ("hardmax", 2, 2.5),
    ],
)
def test_message_passing_agrees_with_theory(channel, tokens, ratio):
    """Within five standard errors and a finite-size term 2/d, errors in units of the teacher's power."""
    d = 50
    scale = 0.75 / counted(channel, tokens)
    result = simulate(AttentionIndexed(0.5, tokens, channel), [ratio * scale], d=d, instances=4, seed=1)
    gap = abs(result["relative_error"][0] - result["theory"][0])
    assert gap <= 5 * result["relative_standard_error"][0] + 2 / d
    assert [str(run.status) for run in result.instances[0]] == ["converged"] * 4
    assert all(abs(np.log(run.nishimori_ratio)) < 0.3 for run in result.instances[0])


@pytest.mark.thorough
@pytest.mark.parametrize("rho", [0.1, 0.5, 2.0])
@pytest.mark.parametrize(("channel", "tokens"), [("linear", 1), ("linear", 2), ("softmax", 2), ("hardmax", 2)])
def test_message_passing_never_diverges(channel, tokens, rho):
    model = AttentionIndexed(rho, tokens, channel)
    largest = 1.0 if channel == "hardmax" else 3 * thresholds(model)["perfect_recovery"].alpha
    result = simulate(
        model,
        np.geomspace(0.02, largest, 5),
        MessagePassing().at_accuracy(Accuracy(max_iterations=150)),
        d=40,
        instances=2,
    )
    for point in result.instances:
        for run in point:
            assert np.isfinite(run.error)
            assert run.error <= 1.05 * run.prior_error or not run.status.ok


@pytest.mark.slow
def test_one_seed_gives_identical_bits():
    model = AttentionIndexed(0.5, 2, "softmax")
    first, second = (simulate(model, [0.1], d=12, instances=2, seed=7) for _ in range(2))
    assert first.to_dict() == second.to_dict()


def test_memory_is_that_of_the_tokens():
    import tracemalloc

    model, d = AttentionIndexed(0.5, 2, "softmax"), 80
    rng = np.random.default_rng(0)
    design = QuadraticDesign.sample(3000, (2, d), rng)
    labels = model.channel.sample(design.forward(model.prior.sample((d, d), rng), 0), rng)
    tracemalloc.start()
    gamp(model, design, labels, MessagePassing().at_accuracy(Accuracy(max_iterations=3)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * design.inputs.nbytes
    assert peak < 0.2 * 8 * design.samples * d * d


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"rho": -1}, ParameterError, "rho = -1"),
        ({"rho": np.nan}, ParameterError, "rho = nan"),
        ({"tokens": 0, "channel": "linear"}, ParameterError, "tokens = 0"),
        ({"tokens": 1}, ParameterError, "tokens = 1"),
        ({"tokens": 2.5}, ParameterError, "tokens = 2.5"),
        ({"noise": -1}, ParameterError, "noise = -1"),
        ({"temperature": 0}, ParameterError, "temperature = 0"),
        ({"channel": "relu"}, ParameterError, "one of linear, softmax, hardmax"),
        ({"channel": np.tanh}, IncompatibleError, "noise > 0"),
        ({"channel": "hardmax", "noise": 0.1}, IncompatibleError, "discrete"),
        ({"channel": "hardmax", "rho": np.inf}, IncompatibleError, "rho = inf"),
        ({"channel": "linear", "temperature": 2}, IncompatibleError, "softmax"),
        ({"channel": lambda h: h[0], "noise": 0.1}, ParameterError, "function from shape"),
        ({"channel": "hardmax", "tokens": 1}, ParameterError, ">= 2"),
        ({"temperature": "hot"}, ParameterError, "temperature = 'hot'"),
        ({"channel": HardmaxPairChannel(1.5), "tokens": 3}, IncompatibleError, "tokens = 2"),
        ({"channel": HardmaxPairChannel(1.0)}, IncompatibleError, "power = 1.0"),
    ],
)
def test_bad_models_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        AttentionIndexed(**{"rho": 0.5, **arguments})


def test_limits_without_data_and_bad_labels_are_refused():
    with pytest.raises(IncompatibleError, match="simulation needs a finite size"):
        simulate(AttentionIndexed(0, 2), [0.1], d=20)
    design = QuadraticDesign.sample(5, (2, 6), np.random.default_rng(0))
    with pytest.raises(DataError, match="shape"):
        gamp(AttentionIndexed(0.5, 2), design, np.ones((5, 3, 3)))
    with pytest.raises(ParameterError, match="give tokens=2"):
        gamp(AttentionIndexed(0.5, 3), design, np.ones((5, 3, 3)))
    with pytest.raises(DataError, match="sum to one"):
        gamp(AttentionIndexed(0.5, 2), design, np.ones((5, 2, 2)))
    with pytest.raises(DataError, match="0 or 1"):
        gamp(AttentionIndexed(0.5, 2, "hardmax"), design, np.full((5, 2), 2.0))
    with pytest.raises(DataError, match="symmetric"):
        gamp(AttentionIndexed(0.5, 2, "linear"), design, np.arange(20.0).reshape(5, 2, 2))


def test_user_link_with_vector_labels():
    """Simulated at a width that whole numbers round, with labels of shape (n, m)."""
    model = AttentionIndexed(0.5, 2, lambda h: np.tanh(h[..., 0]), noise=0.3)
    size = model.at_size(15)
    assert size.model.rho == pytest.approx(8 / 15)
    assert size.model.channel.power == pytest.approx(1 + 8 / 15)
    rng = np.random.default_rng(0)
    design = QuadraticDesign.sample(60, (2, 15), rng)
    labels = model.channel.sample(design.forward(model.prior.sample((15, 15), rng), 0), rng)
    assert labels.shape == (60, 2)
    solution = gamp(size.model, design, labels, MessagePassing().at_accuracy(Accuracy(max_iterations=6)))
    assert np.isfinite(solution.value).all()
    assert 0 < model.channel.label_error(np.array([0.5]))["label_mse"][0] < 1


def test_a_function_that_bears_a_channels_name_stays_itself():
    def softmax(h):
        return np.tanh(h)

    model = AttentionIndexed(0.5, 2, softmax, noise=0.3)
    assert model.at_size(15).model.channel.function is softmax


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [pytest.param(1.0, marks=pytest.mark.thorough), 10.0])
def test_sampled_slopes_are_unbiased_for_weakly_informative_labels(noise):
    """The slope that message passing is given, against the closed form of iid noise on all entries."""
    channel, rng, v = NoisyAttentionChannel(lambda h: h, 2, noise, 1.5), np.random.default_rng(0), 0.5
    omega = rng.standard_normal((2000, 3))
    y = channel.sample(omega + np.sqrt(v) * rng.standard_normal(omega.shape), rng)
    exact = 2 * 2 / (2 * v + noise) + 1 / (v + noise / 2)
    _, slope = channel.score_and_curvature(y, omega, v)
    assert abs(slope.mean() - exact) <= 5 * slope.std() / np.sqrt(2000) + 0.02 * exact
    assert abs(channel.curvature(y, omega, v).mean() - exact) <= 0.01 * 3 / v


def test_status_is_text():
    assert str(Status.CONVERGED) == limits(AttentionIndexed(0.5, 2), [0.1]).to_dict()["points"][0]["status"]


@pytest.mark.parametrize("channel", [SignChannel(), AbsoluteChannel(), LinkChannel(np.tanh, 0.1)])
def test_channels_of_fields_of_variance_one_are_refused(channel):
    """Indices have variance 1 + rho: what such a channel says of them would be wrong."""
    with pytest.raises(IncompatibleError, match="fields of variance 1, indices have"):
        AttentionIndexed(0.3, tokens=1, channel=channel)
