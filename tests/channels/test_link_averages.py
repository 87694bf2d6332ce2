"""Links of one index against plain grids: averages, thresholds, exponents, and what they say where there are none."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from glassformer import Accuracy, BilinearSequenceRegression, SequenceMultiIndex, limits, thresholds
from glassformer.bayes_optimal.equation_of_state import StateCurve, equation_of_state
from glassformer.channels.labelling import is_predictable
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.link.exponents import link_exponents
from glassformer.channels.link.piecewise import find_pieces
from glassformer.channels.scalar.absolute import AbsoluteChannel
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.cli import main
from glassformer.core.errors import IncompatibleError, LinkError


def square(z):
    return z**2


def relu(z):
    return np.maximum(z, 0.0)


def third(z):
    return (z**3 - 3 * z) / np.sqrt(6)


def window(z):
    return np.where(np.abs(z) < 1, 1.0, 0.0)


def models_of(function, noise=0.0, label_type="auto"):
    return (
        BilinearSequenceRegression(rho=np.inf, link=function, noise=noise),
        SequenceMultiIndex(lambda z: function(z[0, 0]), noise=noise, label_type=label_type),
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "noise", "breaks"),
    [
        pytest.param(third, 0.1, (), marks=pytest.mark.thorough),
        (square, 0.05, ()),
        (relu, 0.02, (0.0,)),
        (window, 0.1, (-1.0, 1.0)),
        (np.cos, 0.1, ()),
        (lambda z: 0.4 * np.round(z / 0.4), 0.02, tuple(0.4 * (np.arange(-20, 20) + 0.5))),
    ],
    ids=["He3", "square", "relu", "window", "cos", "steps"],
)
@pytest.mark.parametrize("variance", [pytest.param(0.9, marks=pytest.mark.thorough), 0.1])
def test_information_against_plain_grids(plain, function, noise, breaks, variance):
    found = LinkChannel(function, noise).information(np.array([variance]))
    expected = plain.information(function, noise, variance, breaks)
    assert found.value[0] == pytest.approx(expected, rel=2e-7)
    assert found.error[0] < 2e-5 * expected


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-6, 1e-4])
@pytest.mark.parametrize(
    ("function", "limit"), [(np.abs, AbsoluteChannel()), (lambda z: z, GaussianChannel())], ids=["absolute", "linear"]
)
def test_small_noise_tends_to_none(function, limit, noise):
    """Where the posterior is wide against the noise the information is that without it, but for a share of it."""
    v = np.array([0.8, 0.3])
    found = LinkChannel(function, noise).information(v)
    np.testing.assert_allclose(found.value, limit.information(v).value, rtol=4 * noise / 0.3 + 1e-9)


@pytest.mark.slow
def test_interpolated_averages_agree_with_single_ones():
    v = np.concatenate([1 - np.geomspace(1e-5, 0.01, 9), np.linspace(0.5, 0.7, 9)])
    channel, single = (LinkChannel(relu, 0.1) for _ in range(2))
    for name in ("information", "expected_log_partition"):
        found = getattr(channel, name)(v)
        for k in (0, 8, 12):
            exact = getattr(single, name)(v[k : k + 1])
            gap = abs(found.value[k] - exact.value[0])
            assert gap <= found.error[k] + exact.error[0]
            assert gap <= 1e-7 * max(abs(exact.value[0]), 1e-2)


def test_a_jump_with_a_value_of_its_own_is_located_to_rounding():
    """A sign is zero at its jump, which bisection meets."""
    for place in (0.5, 0.67448975):
        (found,) = find_pieces(lambda h, place=place: np.sign(h - place)).breaks
        assert found == pytest.approx(place, rel=1e-12)


# --- thresholds -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "noise", "expected"),
    [
        (square, 0.1, 0.51807),
        (np.abs, 1.0, 1.76206),
        pytest.param(np.abs, 0.1, 0.60429, marks=pytest.mark.thorough),
        pytest.param(square, 1.0, 0.64659, marks=pytest.mark.thorough),
    ],
    ids=["square 0.1", "absolute 1", "absolute 0.1", "square 1"],
)
def test_weak_recovery_of_noisy_even_links(plain, function, noise, expected):
    assert plain.weak_recovery(function, noise, (0.0,)) == pytest.approx(expected, abs=6e-6)
    for model in models_of(function, noise):
        assert equation_of_state(model, np.array([1e-6])).alpha[0] == pytest.approx(expected, abs=2e-5)


@pytest.mark.thorough
def test_quantised_labels_of_many_levels_are_discrete():
    """Quantised labels have probabilities instead of densities, also if there are more than 32 of them."""

    def quantised(z):
        return 0.1 * np.round(10 * z)

    first, second = (limits(model, [0.5, 2.0])["overlap"].ravel() for model in models_of(quantised))
    np.testing.assert_allclose(first, second, rtol=1e-12)
    # The width of a level acts as noise of its variance.
    as_noise = limits(BilinearSequenceRegression(rho=np.inf, noise=0.1**2 / 12), [0.5])["overlap"]
    assert first[0] == pytest.approx(as_noise[0], rel=2e-3)
    assert first[1] < 1
    _, model = models_of(quantised, 0.1, "continuous")
    noisy = limits(model, [0.5])["overlap"].item()
    wider = limits(BilinearSequenceRegression(rho=np.inf, noise=0.1 + 0.1**2 / 12), [0.5])["overlap"].item()
    assert noisy == pytest.approx(wider, rel=1e-5)


@pytest.mark.slow
def test_labels_that_fix_some_of_the_fields_count_as_that_many():
    for model in models_of(relu):
        found = thresholds(model)
        assert found["perfect_recovery"].alpha == found["algorithmic_perfect_recovery"].alpha == pytest.approx(2.0)
        assert limits(model, [2.01])["error"][0] == pytest.approx(0.0, abs=1e-9)
        assert limits(model, [1.95])["error"][0] > 1e-4


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_constant_links_are_refused(noise):
    with pytest.raises(LinkError, match="depends on its field"):
        BilinearSequenceRegression(rho=1, link=lambda z: 1.0, noise=noise)
    with pytest.raises(LinkError, match="depends on its field"):
        SequenceMultiIndex(lambda z: 1.0 + 0 * z[0, 0], noise=noise, label_type="continuous")


# --- exponents --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "information", "generative"),
    [
        (lambda z: z, 1, 1),
        (np.sign, 1, 1),
        (relu, 1, 1),
        (square, 2, 2),
        (np.cos, 2, 2),
        (window, 2, 2),
        (third, 3, 1),
        (lambda z: z**4 - 6 * z**2 + 3, 4, 2),
        (lambda z: z**5 - 10 * z**3 + 15 * z, 5, 1),
        (lambda z: z**6 - 15 * z**4 + 45 * z**2 - 15, 6, 2),
        (lambda z: z**2 * np.exp(-(z**2)), 4, 4),
    ],
)
def test_exponents_of_the_literature(link, information, generative):
    assert link_exponents(link) == (information, generative)


def test_even_polynomials_of_high_degree_are_even_without_noise():
    """Rounding between six solutions of one label must not pass for information at zero overlap."""
    channel = LinkChannel(lambda z: z**6 - 15 * z**4 + 45 * z**2 - 15)
    assert channel.labels.even
    assert channel.labels.exponents.generative == 2


def ring():
    """Label one where a < |z| < b, such that its probability does not change with the variance of the field."""
    a = 0.5
    b = brentq(lambda x: x * np.exp(-(x**2) / 2) - a * np.exp(-(a**2) / 2), 1.0, 3.0, xtol=1e-15)
    return lambda z: np.where((np.abs(z) > a) & (np.abs(z) < b), 1.0, 0.0)


def test_no_weak_recovery_above_generative_exponent_two():
    model = BilinearSequenceRegression(rho=np.inf, link=ring())
    found = thresholds(model)
    assert found.exponents == (4, 4)
    assert found["weak_recovery"].alpha == np.inf
    assert found["hard_phase_end"].alpha == np.inf
    table = limits(model, [2.0, 50.0])
    np.testing.assert_allclose(1 - table["algorithmic_error"], 0, atol=1e-5)


@pytest.mark.slow
def test_exponents_are_printed(tmp_path, capsys):
    (tmp_path / "links.py").write_text("import numpy as np\n\ndef f(h):\n    return h**2\n")
    words = ["thresholds", "bsr", "--rho", "inf", "--link", f"{tmp_path / 'links.py'}:f"]
    assert main(words) == 0
    assert "information exponent: 2, generative exponent: 2" in capsys.readouterr().out
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["information_exponent"], found["generative_exponent"]) == (2, 2)


def test_remedies_name_options_that_exist():
    with pytest.raises(IncompatibleError, match="label_type = continuous"):
        SequenceMultiIndex(lambda z: np.sign(z[0, 0]), noise=0.1)
    assert SequenceMultiIndex(lambda z: np.sign(z[0, 0]), noise=0.1, label_type="continuous").channel.labels.rank == 0


@pytest.mark.parametrize("variance", [0.9, 0.5, 0.05])
def test_labels_that_vanish_far_out(variance):
    """z exp(-z^2): every label has a solution next to zero and one in the tail, where the slope vanishes."""

    def link(h):
        return h * np.exp(-(h**2))

    # Over the solutions beyond the maximum; those before it by bisection, in logarithms.
    edges = np.sqrt(0.5) + np.concatenate([[0.0], np.geomspace(1e-4, 7.5, 60)])
    x, w = np.polynomial.legendre.leggauss(16)
    half = 0.5 * np.diff(edges)[:, None]
    far, weight = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    low, high = np.full_like(far, -80.0), np.full_like(far, np.log(np.sqrt(0.5)))
    for _ in range(80):
        middle = 0.5 * (low + high)
        above = middle - np.exp(2 * middle) > np.log(far) - far**2
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    near = np.exp(0.5 * (low + high))
    steep = [np.abs((1 - 2 * h**2) * np.exp(-(h**2))) for h in (near, far)]
    t = np.arange(-7.5, 7.51, 0.1 * min(1.0, np.sqrt(variance / (1 - variance))))
    omega = np.sqrt(1 - variance) * t[:, None]
    bells = [np.exp(-((h - omega) ** 2) / (2 * variance)) / s for h, s in zip((near, far), steep, strict=True)]
    z = np.maximum(bells[0] + bells[1], 1e-290)
    moment = (bells[0] * (near - omega) + bells[1] * (far - omega)) / variance
    mass = np.exp(-(t**2) / 2) * (t[1] - t[0]) / np.sqrt(2 * np.pi)
    density = steep[1] * weight / np.sqrt(2 * np.pi * variance)
    # Labels of either sign contribute the same.
    expected = 2 * float(mass @ (moment**2 / z) @ density)
    found = LinkChannel(link).information(np.array([variance]))
    assert found.error[0] < 1e-5 * expected
    assert found.value[0] == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_affine_links_are_the_gaussian_channel(noise):
    channel, variance = LinkChannel(lambda h: 1 - 2 * h, noise), np.array([1e-6, 0.3, 1.0])
    closed = GaussianChannel(noise / 4)
    np.testing.assert_allclose(channel.information(variance).value, closed.information(variance).value, rtol=1e-14)
    y, omega = np.array([0.4, -2.0]), np.array([0.1, 0.7])
    np.testing.assert_allclose(channel.score(y, omega, 0.5), closed.score((1 - y) / 2, omega, 0.5), rtol=1e-12)


@pytest.mark.slow
def test_averages_of_seventy_pieces_use_few_nodes():
    """Half the information is the slope of the expected log partition, at few nodes for many breaks."""
    law, v, step = LinkChannel(lambda h: np.sin(10 * h))._analysis.law, 0.05, 1e-4
    (below, above) = (law.averages(v + side * step, 0)[1] for side in (1, -1))
    assert law.averages(v, 0)[0] == pytest.approx((above - below) / step, rel=1e-4)
    assert law.nodes_at().h.size < 4000


@pytest.mark.thorough
def test_exponents_of_every_row_are_printed(tmp_path, capsys):
    link = tmp_path / "link.py"
    link.write_text("def link(z):\n    return z[0, 0] + z[1, 0] ** 2\n")
    model = ["smi", "--link", f"{link}:link", "--indices", "2", "--noise", "0.1", "--points", "32"]
    assert main(["thresholds", *model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["row_exponents"] == {
        f"row {k}": {"information": k, "generative": k} for k in (1, 2)
    }


@pytest.mark.thorough
@pytest.mark.parametrize("variance", [0.05, 8e-4])
def test_many_branches_with_noise_against_plain_grids(plain, variance):
    """Solutions on many branches see each other at the first variance, and next to none do at the second."""

    def wave(z):
        return np.sin(5 * z)

    found = LinkChannel(wave, 0.1).information(np.array([variance]))
    expected = plain.information(wave, 0.1, variance)
    assert found.value[0] == pytest.approx(expected, rel=1e-6)
    assert abs(found.value[0] - expected) < found.error[0] + 1e-8 * expected


def test_states_without_information_have_no_sample_ratio():
    """The information of a fast wave at small overlap is below rounding."""
    q_hat = np.geomspace(1e-2, 1e2, 9)
    curve = StateCurve(q_hat, np.where(q_hat < 0.1, np.inf, 1 + q_hat), 1 / (1 + q_hat), np.zeros(9))
    assert curve.variance_at(np.array([21.0]), np.array([7]))[0] == pytest.approx(1 / 21, rel=0.05)


@pytest.mark.parametrize("variance", [0.9, 0.1, 1e-4])
def test_label_errors_of_steps_against_plain_grids(variance):
    """Three values, one of them on two intervals of unequal lengths."""

    def steps(h):
        return np.where(h < -0.5, 1.0, np.where(h < 0.2, -1.0, np.where(h < 0.9, 1.0, 3.0)))

    found = LinkChannel(steps).label_error(np.array([variance]))
    t = np.linspace(-9, 9, 400_001)
    weight = np.exp(-(t**2) / 2) * (t[1] - t[0]) / np.sqrt(2 * np.pi)
    low, middle, high = (ndtr((edge - np.sqrt(1 - variance) * t) / np.sqrt(variance)) for edge in (-0.5, 0.2, 0.9))
    chance = np.array([middle - low, low + high - middle, 1 - high])
    values = np.array([-1.0, 1.0, 3.0])
    mean = values @ chance
    assert found["label_error"][0] == pytest.approx(weight @ (1 - chance.max(axis=0)), rel=1e-4)
    assert found["prediction_error"][0] == pytest.approx(weight @ (values**2 @ chance - mean**2), rel=1e-8)
    plugin = np.sum(chance * (values[:, None] - steps(np.sqrt(1 - variance) * t)) ** 2, axis=0)
    assert found["plugin_error"][0] == pytest.approx(weight @ plugin, rel=1e-4)


@pytest.mark.thorough
@pytest.mark.parametrize("noise_law", [None, "flip:0.1"])
def test_classes_have_no_squared_errors(noise_law):
    """Differences of positions of maxima have no meaning; differences of counts have."""
    options = {"indices": 2, "tokens": 1, "noise_law": noise_law}
    squares = {"prediction_error", "plugin_error", "label_noise"}
    links = [(lambda z: jnp.argmax(z[:, 0]), True), (lambda z: jnp.sum(z > 0), False)]
    if noise_law is None:
        links.append((lambda z: jnp.argmin(-z, axis=0).astype(float), True))
    for link, classes in links:
        model = SequenceMultiIndex(link, **options).at_accuracy(Accuracy(points=32))
        assert model.channel.labels.classes == classes == (not is_predictable(model.channel))
    estimate = np.eye(2, 20)
    model = SequenceMultiIndex(lambda z: jnp.argmax(z[:, 0]), **options).at_accuracy(Accuracy(points=32))
    measured = model.measured(estimate, estimate)
    assert not squares & set(measured) and "label_error" in measured


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("link", [np.floor, relu, square, lambda h: 2 * h])
def test_averages_follow_their_asymptotic_laws_at_tiny_variances(link, noise):
    """A binary signal is known up to variances near the smallest double: grids around the breaks end long before."""
    channel = LinkChannel(link, noise)
    start = 1e-8
    v = np.array([start, 1e-18, 1e-200])
    # Steps have information in proportion to 1/sqrt(V), other links to 1/V without noise and to a constant with noise.
    power = 0.5 if link is np.floor else float(noise == 0)
    information = channel.information(v).value * (v / start) ** power
    # The laws hold up to corrections of the order of sqrt(start).
    assert information == pytest.approx(information[0], rel=5e-4)
    expected = channel.expected_log_partition(v).value + 0.5 * channel.labels.rank * np.log(v)
    assert expected == pytest.approx(expected[0], abs=5e-4)


@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_binary_signal_of_width_one_is_found_through_any_link(noise):
    model = BilinearSequenceRegression(width=1, prior="rademacher", link=np.floor, noise=noise)
    table = limits(model, [1.5])
    assert table.converged and table["error"][0] < 1e-9


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_averages_do_not_depend_on_the_unit_of_labels(noise):
    """Labels of the extrema of a cubic link are told apart in any unit."""
    unit, v = 2.0**50 if noise else 2.0**-50, np.array([1e-6, 0.01, 0.3])
    plain = LinkChannel(lambda h: h**3 - 2 * h, noise=noise)
    scaled = LinkChannel(lambda h: unit * (h**3 - 2 * h), noise=noise * unit**2)
    np.testing.assert_allclose(scaled.information(v).value, plain.information(v).value, rtol=1e-9)
    errors, expected = scaled.label_integrals(v), plain.label_integrals(v)
    for name, found in errors.items():
        np.testing.assert_allclose(found.value / unit**2, expected[name].value, rtol=1e-9)
        np.testing.assert_allclose(found.error / unit**2, expected[name].error, rtol=1e-3)


@pytest.mark.parametrize("function", [np.tanh, np.sign, lambda h: h**3 - h], ids=["tanh", "sign", "cubic"])
@pytest.mark.parametrize("noise", [0.001, 0.3])
def test_curvature_is_minus_the_slope_of_the_score(function, noise):
    channel, rng, v = LinkChannel(function, noise=noise), np.random.default_rng(0), 0.2
    omega = np.sqrt(1 - v) * rng.standard_normal(40)
    y = channel.sample(omega + np.sqrt(v) * rng.standard_normal(40), rng)
    score, curvature = channel.score_and_curvature(y, omega, v)
    step = 1e-4
    difference = (channel.score(y, omega - step, v) - channel.score(y, omega + step, v)) / (2 * step)
    np.testing.assert_allclose(curvature, difference, atol=1e-6 / v)
    np.testing.assert_array_equal(score, channel.score(y, omega, v))
    np.testing.assert_array_equal(curvature, channel.curvature(y, omega, v))
