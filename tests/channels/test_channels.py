"""Every channel: score, information, free entropy and their exact identities, against brute force."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import TYPE_CHECKING

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import log_ndtr

from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.parameters import at_power
from glassformer.channels.regression import regression
from glassformer.channels.scalar.absolute import AbsoluteChannel
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.channels.scalar.sign import NoisySignChannel, SignChannel
from glassformer.core.errors import DataError, ParameterError

if TYPE_CHECKING:
    from glassformer.channels.scalar.base import Array, ScalarChannel


def relu(h: Array) -> Array:
    return np.maximum(h, 0.0)


def square(h: Array) -> Array:
    return h**2


def cubic(h: Array) -> Array:
    return h**3 - 3 * h


def leaky(h: Array) -> Array:
    return np.where(h > 0.3, h, 0.1 * h + 0.27)


def stairs(h: Array) -> Array:
    return np.floor(np.clip(h, -1.5, 1.5))


CHANNELS = {
    "sign": SignChannel(),
    "threshold": NoisySignChannel(0.3, 0.5),
    "absolute": AbsoluteChannel(),
    "link tanh": LinkChannel(np.tanh),
    "link square": LinkChannel(square),
    "link relu": LinkChannel(relu),
    "link leaky": LinkChannel(leaky),
    "link stairs": LinkChannel(stairs),
    "link tanh noisy": LinkChannel(np.tanh, 0.1),
    "link relu noisy": LinkChannel(relu, 0.1),
    "link sign noisy": LinkChannel(np.sign, 0.2),
    "link square noisy": LinkChannel(square, 0.3),
}
WITH_NOISE = [name for name in CHANNELS if name.endswith("noisy")]
every_channel = pytest.mark.parametrize("channel", CHANNELS.values(), ids=CHANNELS.keys())


def draw(channel: ScalarChannel, variance: float, count: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    omega = np.sqrt(1 - variance) * rng.standard_normal(count)
    return channel.sample(omega + np.sqrt(variance) * rng.standard_normal(count), rng), omega


def slope(f: object, x: Array | float, step: float) -> Array:
    """Fourth-order central difference."""
    assert callable(f)
    return (8 * (f(x + step) - f(x - step)) - (f(x + 2 * step) - f(x - 2 * step))) / (12 * step)


# --- identities that hold for every channel -----------------------------------------------------------------------


@every_channel
@pytest.mark.parametrize("variance", [0.9, 0.3, 1e-3])
def test_score_is_the_slope_of_the_log_partition(channel: ScalarChannel, variance: float) -> None:
    y, omega = draw(channel, variance, 40)
    scale = np.sqrt(variance)
    expected = slope(lambda w: channel.log_partition(y, w, variance), omega, 1e-3 * scale)
    np.testing.assert_allclose(channel.score(y, omega, variance) * scale, expected * scale, rtol=1e-8, atol=1e-8)


@pytest.mark.slow
@every_channel
def test_information_is_twice_the_slope_of_the_free_entropy(channel: ScalarChannel) -> None:
    variance, step = 0.6, 1e-3
    grid = variance + step * np.array([-2, -1, 1, 2])
    e = channel.expected_log_partition(grid).value
    # The overlap is 1 - V, hence the sign.
    derivative = -(e[0] - 8 * e[1] + 8 * e[2] - e[3]) / (12 * step)
    assert derivative == pytest.approx(channel.information(np.array([variance])).value[0] / 2, rel=1e-8)


@pytest.mark.slow
@every_channel
def test_nishimori_second_moment_is_minus_the_mean_slope(channel: ScalarChannel) -> None:
    """E[g^2 + dg/domega] = 0 and E[g^2] = information, both by Monte Carlo at five standard errors."""
    variance = 0.5
    y, omega = draw(channel, variance, 1500, seed=1)
    g = channel.score(y, omega, variance)
    derivative = slope(lambda w: channel.score(y, w, variance), omega, 1e-3)
    for sample in (g**2 + derivative, g**2 - channel.information(np.array([variance])).value):
        assert abs(sample.mean()) < 5 * sample.std() / np.sqrt(sample.size) + 1e-9


@pytest.mark.slow
@every_channel
def test_batches_equal_single_values(channel: ScalarChannel) -> None:
    v = np.array([0.8, 0.25])
    for method in (channel.information, channel.expected_log_partition):
        batch = method(v)
        assert batch.value.shape == batch.error.shape == (2,)
        assert np.all(batch.error >= 0)
        np.testing.assert_allclose(batch.value[1], method(v[1:]).value[0], rtol=1e-13)


@every_channel
def test_score_is_finite_far_from_equilibrium(channel: ScalarChannel) -> None:
    y, _ = draw(channel, 0.5, 6)
    omega = np.array([-30.0, -8.0, 0.0, 1e-9, 8.0, 30.0])
    for v in (1.0, 1e-3, 1e-8):
        assert np.all(np.isfinite(channel.score(y, omega, v)))


# --- a threshold of a noisy field ---------------------------------------------------------------------------------


def test_a_threshold_of_a_stronger_field_is_one_of_a_weaker_one_in_other_units() -> None:
    """sign(h + b + noise) for a field of variance 1.7, all of it divided by the root of that."""
    power, variance = 1.7, np.array([0.2, 1.0, 1.6])
    own, plain = NoisySignChannel(0.3, 0.5, power), NoisySignChannel(0.3 / power, 0.5 / np.sqrt(power))
    np.testing.assert_allclose(own.information(variance).value * power, plain.information(variance / power).value)
    for method in ("expected_log_partition", "label_error"):
        one, other = getattr(own, method)(variance), getattr(plain, method)(variance / power)
        one, other = (one["label_error"], other["label_error"]) if method == "label_error" else (one.value, other.value)
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert own == at_power(NoisySignChannel(0.3, 0.5), power)
    slope, rest = regression(own)
    np.testing.assert_allclose(regression(plain), (slope * np.sqrt(power), rest))
    y, nothing = np.array([-1.0, 1.0]), np.zeros(2)
    pull = np.exp(own.log_partition(y, nothing, power)) * own.score(y, nothing, power) * y
    np.testing.assert_allclose((slope, rest), (pull.sum(), 1 - pull.sum() ** 2 * power), rtol=1e-12)


# --- sign ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [1e-12, 1e-4, 0.1, 0.5, 0.99])
def test_sign_information_against_quadrature(variance: float) -> None:
    q = 1 - variance

    def density(t: float) -> float:
        a = np.sqrt(q) * t
        mills_squared = np.exp(-(a**2) - log_ndtr(a)) / (2 * np.pi)
        return float(2 / np.sqrt(variance) * np.exp(-variance * t**2 / 2) / np.sqrt(2 * np.pi) * mills_squared)

    expected = sum(quad(density, a, b, epsabs=0, epsrel=1e-13)[0] for a, b in [(-14, -3), (-3, 0), (0, 3), (3, 14)])
    result = SignChannel().information(np.array([variance]))
    assert result.value[0] == pytest.approx(expected, rel=1e-12)
    assert result.error[0] < 1e-12 * expected


def test_sign_limits() -> None:
    assert SignChannel().information(np.array([1.0])).value[0] == pytest.approx(2 / np.pi, rel=1e-14)
    assert SignChannel().expected_log_partition(np.array([1.0])).value[0] == pytest.approx(-np.log(2), rel=1e-14)
    wide = SignChannel().information(np.array([1e-12, 1e-14])).value
    assert wide[1] / wide[0] == pytest.approx(10, rel=1e-11)
    # Far on the wrong side the field is pulled back to zero: g = -omega / V, up to the Mills correction.
    assert SignChannel().score(np.array([1.0]), np.array([-1e4]), 1.0)[0] == pytest.approx(1e4 + 1e-4, rel=1e-14)


def test_sign_label_errors() -> None:
    v = np.array([0.36, 1e-12, 1.0])
    errors = SignChannel().label_error(v)
    assert errors["label_error"][0] == pytest.approx(np.arccos(0.8) / np.pi, rel=1e-14)
    assert errors["label_mse"][0] == pytest.approx(1 - 2 / np.pi * np.arcsin(0.64), rel=1e-14)
    assert errors["label_error"][1] == pytest.approx(1e-6 / np.pi, rel=1e-10)
    assert errors["label_error"][2] == pytest.approx(0.5)
    link = LinkChannel(np.sign).label_error(v[:1])
    assert link["label_mse"][0] == pytest.approx(errors["label_mse"][0], rel=1e-9)
    assert link["label_mse_plugin"][0] == pytest.approx(4 * errors["label_error"][0], rel=1e-9)


# --- absolute value -----------------------------------------------------------------------------------------------


def absolute_information_by_quadrature(variance: float) -> float:
    """V times the information, from the definition, as a nested Gauss rule in scaled fields."""
    q = 1 - variance
    u, w = np.polynomial.legendre.leggauss(120)
    u, w = 10 * u, 10 * w

    def given(t: float) -> float:
        a = np.sqrt(q / variance) * t
        # Without the sign of t the integral over u is split at h = 0, where the score turns over a width 1/a.
        cut = np.clip(-a, -10, 10)
        total = 0.0
        for low, high in ((-10.0, cut), (cut, 10.0)):
            x = 0.5 * (low + high) + 0.05 * (high - low) * u
            h = x + a
            total += 0.05 * (high - low) * w @ (np.exp(-(x**2) / 2) * (h * np.tanh(h * a) - a) ** 2)
        return float(total / np.sqrt(2 * np.pi) * np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi))

    t, weight = np.polynomial.legendre.leggauss(60)
    panels = [(0.0, 0.5), (0.5, 2.0), (2.0, 4.0), (4.0, 9.0)]
    return sum((b - a) * weight @ [given(x) for x in 0.5 * (a + b) + 0.5 * (b - a) * t] for a, b in panels)


@pytest.mark.parametrize("variance", [0.05, 0.3, 0.5, 0.8])
def test_absolute_information_against_quadrature(variance: float) -> None:
    result = AbsoluteChannel().information(np.array([variance]))
    assert variance * result.value[0] == pytest.approx(absolute_information_by_quadrature(variance), rel=1e-10)
    assert result.error[0] < 1e-10 * result.value[0]


def test_absolute_limits_keep_relative_precision() -> None:
    q = 2.0 ** -np.array([20.0, 30.0, 40.0, 50.0])
    slopes = AbsoluteChannel().information(1 - q).value / q
    # The series is 2 q (1 - 4 q + ...): every term but the first is below 1e-10 from the second point on.
    np.testing.assert_allclose(slopes[1:], 2.0, rtol=1e-8)
    np.testing.assert_allclose(slopes[2:], 2.0, rtol=1e-10)
    assert AbsoluteChannel().information(np.array([1.0])).value[0] == 0.0
    v = np.array([1e-6, 1e-10, 1e-14])
    loss = (1 - v * AbsoluteChannel().information(v).value) / np.sqrt(v)
    np.testing.assert_allclose(loss, loss[0], rtol=2e-6, atol=2e-8)


def test_absolute_score_is_the_signed_posterior_mean() -> None:
    y, omega, v = np.array([1.3]), np.array([0.4]), 0.7
    weight = np.exp(-((np.array([1.3, -1.3]) - 0.4) ** 2) / (2 * v))
    mean = (weight[0] - weight[1]) * 1.3 / weight.sum()
    assert AbsoluteChannel().score(y, omega, v)[0] == pytest.approx((mean - 0.4) / v, rel=1e-13)
    density = weight.sum() / np.sqrt(2 * np.pi * v)
    assert AbsoluteChannel().log_partition(y, omega, v)[0] == pytest.approx(np.log(density), rel=1e-13)


# --- link: exact cases --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "exact"),
    [
        (LinkChannel(np.sign), SignChannel()),
        (LinkChannel(np.abs), AbsoluteChannel()),
        (LinkChannel(lambda h: h, 0.1), GaussianChannel(0.1)),
        (LinkChannel(lambda h: h), GaussianChannel(0.0)),
    ],
    ids=["sign", "abs", "linear noisy", "linear"],
)
def test_link_agrees_with_the_exact_channel(link: ScalarChannel, exact: ScalarChannel) -> None:
    v = np.array([1e-6, 0.3])
    for result, expected, scale in (
        (link.information(v), exact.information(v), exact.information(v).value),
        (link.expected_log_partition(v), exact.expected_log_partition(v), 1.0),
    ):
        gap = np.abs(result.value - expected.value)
        assert np.all(gap <= result.error + expected.error + 1e-14)
        np.testing.assert_array_less(gap / scale, 1e-10)
    for variance in (0.5, 1e-4):
        y, omega = draw(exact, variance, 200)
        for name in ("score", "log_partition"):
            got, want = (getattr(channel, name)(y, omega, variance) for channel in (link, exact))
            np.testing.assert_allclose(got * np.sqrt(variance), want * np.sqrt(variance), rtol=1e-9, atol=1e-9)
    assert (link.labels.even, link.labels.rank) == (exact.labels.even, exact.labels.rank)


@pytest.mark.parametrize(
    "function", [np.tanh, np.exp, leaky, lambda h: h**3 + h], ids=["tanh", "exp", "leaky", "cubic"]
)
def test_monotone_noiseless_link_fixes_the_field(function: object) -> None:
    channel = LinkChannel(function)  # type: ignore[arg-type]
    v = np.array([0.5, 1e-6])
    np.testing.assert_allclose(channel.information(v).value * v, 1.0, rtol=1e-10)
    h, omega = np.linspace(-2, 2, 21), np.linspace(1, -1, 21)
    y = channel.sample(h, np.random.default_rng(0))
    np.testing.assert_allclose(channel.score(y, omega, 0.5), (h - omega) / 0.5, rtol=1e-10, atol=1e-10)
    assert channel.labels.rank == 1
    assert not channel.labels.even


def test_one_to_one_maps_of_labels_keep_the_information() -> None:
    v = np.array([0.7])
    exact = AbsoluteChannel().information(v).value
    for function in (lambda h: h**2 - 1, lambda h: np.exp(-np.abs(h))):
        result = LinkChannel(function).information(v)
        np.testing.assert_allclose(result.value, exact, rtol=1e-9)
        assert np.all(np.abs(result.value - exact) <= result.error)


def test_relu_without_noise_is_a_density_and_an_atom() -> None:
    channel, v = LinkChannel(relu), 0.4
    y, omega = np.array([0.0, 0.7]), np.array([0.3, 0.3])
    a = 0.3 / np.sqrt(v)
    mills = np.exp(-(a**2) / 2 - log_ndtr(-a)) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(channel.score(y, omega, v), [-mills / np.sqrt(v), 0.4 / v], rtol=1e-12)
    gaussian = -0.16 / (2 * v) - 0.5 * np.log(2 * np.pi * v)
    np.testing.assert_allclose(channel.log_partition(y, omega, v), [log_ndtr(-a), gaussian], rtol=1e-12)
    assert channel.labels.rank == 0.5


def test_several_branches_against_the_sum_over_roots() -> None:
    y, omega, v = 1.1, 0.2, 0.8
    roots = np.roots([1, 0, -3, -y]).real
    weight = np.exp(-((roots - omega) ** 2) / (2 * v)) / np.abs(3 * roots**2 - 3)
    expected = (weight @ roots / weight.sum() - omega) / v
    got = LinkChannel(cubic).score(np.array([y]), np.array([omega]), v)[0]
    assert got == pytest.approx(expected, rel=1e-10)


# --- link: with noise ---------------------------------------------------------------------------------------------


def brute_posterior(function: object, y: float, omega: float, v: float, noise: float) -> tuple[float, float]:
    assert callable(function)
    u = np.linspace(-10, 10, 400_001)
    exponent = -(u**2) / 2 - (y - function(omega + np.sqrt(v) * u)) ** 2 / (2 * noise)
    top = exponent.max()
    weight = np.exp(exponent - top)
    step = u[1] - u[0]
    return top + np.log(weight.sum() * step / (2 * np.pi * np.sqrt(noise))), weight @ u / weight.sum() / np.sqrt(v)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.3, 1e-2, 1e-6])
@pytest.mark.parametrize("variance", [0.8, 1e-2])
@pytest.mark.parametrize("function", [np.tanh, square, lambda h: np.sin(5 * h)], ids=["tanh", "square", "sin"])
def test_noisy_score_against_brute_force(function: object, variance: float, noise: float) -> None:
    channel = LinkChannel(function, noise)  # type: ignore[arg-type]
    y, omega = draw(channel, variance, 4, seed=3)
    expected = np.array([brute_posterior(function, *pair, variance, noise) for pair in zip(y, omega, strict=True)]).T
    np.testing.assert_allclose(channel.log_partition(y, omega, variance), expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(channel.score(y, omega, variance), expected[1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("function", [np.tanh, relu, np.sign], ids=["tanh", "relu", "sign"])
@pytest.mark.parametrize("variance", [0.7, 0.05])
def test_noisy_information_against_a_plain_grid(function: object, variance: float) -> None:
    """The definition on plain grids: nothing is shared with the panels of the channel but the formula."""
    assert callable(function)
    noise = 0.2
    omega = np.sqrt(1 - variance) * np.linspace(-8, 8, 241)
    # Every kink and jump lies at zero, where the two Gauss rules meet.
    x, w = np.polynomial.legendre.leggauss(160)
    h, w = np.concatenate([4.5 * x - 4.5, 4.5 * x + 4.5]), 4.5 * np.concatenate([w, w])
    values = function(h)
    y = np.arange(values.min() - 4, values.max() + 4, 0.06)
    prior = w * np.exp(-((h - omega[:, None]) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    likelihood = np.exp(-((y - values[:, None]) ** 2) / (2 * noise)) / np.sqrt(2 * np.pi * noise)
    z = np.maximum(prior @ likelihood, 1e-280)
    z1 = (prior * (h - omega[:, None]) / variance) @ likelihood
    weight = np.exp(-(np.linspace(-8, 8, 241) ** 2) / 2) * (16 / 240) / np.sqrt(2 * np.pi)
    expected = weight @ (z1 * (z1 / z)).sum(1) * 0.06
    result = LinkChannel(function, noise).information(np.array([variance]))
    assert result.value[0] == pytest.approx(expected, rel=1e-8)
    assert result.error[0] < 1e-9


def test_smooth_link_approaches_the_local_gaussian_channel() -> None:
    """As V vanishes the information is E[phi'(omega)^2] / noise."""
    expected = quad(lambda x: np.exp(-(x**2) / 2) / np.cosh(x) ** 4 / np.sqrt(2 * np.pi), -12, 12, epsabs=1e-13)[0]
    result = LinkChannel(np.tanh, 0.1).information(np.array([1e-12]))
    assert result.value[0] == pytest.approx(expected / 0.1, rel=1e-9)


@pytest.mark.slow
def test_reported_error_covers_coarse_rules() -> None:
    """With few nodes the result is worse, and says so."""
    for function, noise in ((np.tanh, 0.01), (relu, 0.1), (square, 0.0)):
        v = np.array([0.4])
        coarse, fine = (LinkChannel(function, noise, nodes=n).information(v) for n in (4, 12))
        assert abs(coarse.value[0] - fine.value[0]) <= coarse.error[0] + fine.error[0]


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_link_label_errors(noise: float) -> None:
    v, q = 0.3, 0.7
    errors = LinkChannel(square, noise).label_error(np.array([v]))
    # h^2 has posterior mean omega^2 + V and variance 2 V^2 + 4 V omega^2; the plug-in misses V besides.
    assert errors["label_mse"][0] == pytest.approx(noise + 2 * v**2 + 4 * v * q, rel=1e-11)
    assert errors["label_mse_plugin"][0] == pytest.approx(noise + 3 * v**2 + 4 * v * q, rel=1e-11)


# --- declared properties and mistakes -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "noise", "even", "noiseless"),
    [
        (np.abs, 0.0, True, True),
        (np.abs, 0.1, True, False),
        (np.cos, 0.5, True, False),
        (lambda h: np.abs(h) > 0.7, 0.0, True, False),
        (cubic, 0.0, False, True),
        (relu, 0.0, False, False),
        (np.tanh, 0.1, False, False),
    ],
    ids=["abs", "abs noisy", "cos noisy", "window", "cubic", "relu", "tanh noisy"],
)
def test_even_and_noiseless_are_found(function: object, noise: float, even: bool, noiseless: bool) -> None:
    channel = LinkChannel(function, noise)  # type: ignore[arg-type]
    assert (channel.labels.even, channel.labels.rank == 1) == (even, noiseless)


def test_link_channels_are_values() -> None:
    channel, twin = (LinkChannel(np.tanh, 0.1) for _ in range(2))
    channel.information(np.array([0.5]))
    assert channel == twin
    assert hash(channel) == hash(twin)
    assert repr(channel) == "LinkChannel(function=<ufunc 'tanh'>, noise=0.1, name=None, nodes=12)"
    assert (channel.label, LinkChannel(np.tanh, name="tanh").label) == ("link", "tanh")
    with pytest.raises(FrozenInstanceError):
        channel.noise = 0.2  # type: ignore[misc]


def test_scalar_functions_are_applied_elementwise() -> None:
    def scalar(h: float) -> float:
        return 1.0 if h > 0 else -1.0

    v = np.array([0.5])
    assert LinkChannel(scalar).information(v).value[0] == pytest.approx(
        SignChannel().information(v).value[0], rel=1e-11
    )


@pytest.mark.parametrize(
    "function",
    [
        lambda h: np.log(h),
        lambda h: h / 0.0 if np.ndim(h) == 0 else np.full(h.shape, np.inf),
        "tanh",
        lambda h: "label",
    ],
    ids=["not finite", "infinite", "not callable", "not a number"],
)
def test_bad_functions_are_named(function: object) -> None:
    with pytest.raises(ParameterError, match="channel"):
        LinkChannel(function)  # type: ignore[arg-type]


def test_bad_parameters_and_labels_are_named() -> None:
    zero = np.zeros(1)
    with pytest.raises(ParameterError, match="noise"):
        LinkChannel(np.tanh, noise=-1.0)
    with pytest.raises(ParameterError, match="nodes"):
        LinkChannel(np.tanh, nodes=1)
    for channel, label in (
        (SignChannel(), 0.5),
        (AbsoluteChannel(), -1.0),
        (LinkChannel(np.tanh), 1.5),
        (LinkChannel(square), -0.1),
        (LinkChannel(np.sign), 0.3),
        (LinkChannel(relu), -0.2),
        (LinkChannel(np.tanh, 0.1), np.nan),
    ):
        with pytest.raises(DataError, match=r"^y = "):
            channel.score(np.array([label]), zero, 0.5)
