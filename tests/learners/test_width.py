"""Width and noise that nobody knows: within a tenth of the truth, or inside their own bars."""

import numpy as np
import pytest

from glassformer import BilinearSequenceRegression
from glassformer.data_analysis import estimate_model
from glassformer.data_analysis.width import estimate_width, even_moments
from glassformer.errors import DataError, DataWarning

GRID = [((30, 30), 0.1, 0.1, 0.8), ((30, 30), 0.5, 0.3, 1.5), ((24, 48), 0.2, 0.2, 0.8), ((30, 30), 1.0, 0.1, 1.5)]


def drawn(shape, rho, noise, alpha, seed):
    rng = np.random.default_rng(seed)
    model = BilinearSequenceRegression(beta=shape[0] / shape[1], rho=rho, noise=noise)
    signal = model.prior.sample(shape, rng)
    inputs = rng.standard_normal((round(alpha * signal.size), *shape))
    fields = np.einsum("nld,ld->n", inputs, signal) / np.sqrt(signal.size)
    return inputs, fields + np.sqrt(noise) * rng.standard_normal(len(fields)), signal


def close(found, rho, noise):
    """Whether the width, and the noise in units of the labels, are within a tenth or their bars."""
    low, high = found.rho_interval
    width = abs(found.rho - rho) < 0.1 * rho or low <= rho <= high
    bar = max(0.1 * noise, found.noise_error * found.power)
    return width, abs(found.noise * found.power - noise) <= bar


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "rho", "noise", "alpha"),
    [*(pytest.param(*one, marks=pytest.mark.thorough) for one in GRID[:2]), GRID[2]],
)
def test_width_and_noise_are_found(shape, rho, noise, alpha):
    inputs, labels, signal = drawn(shape, rho, noise, alpha, seed=1)
    found = estimate_model(inputs, 7 + 2 * labels)
    assert found.status.ok and found.offset == pytest.approx(7, abs=0.4)
    assert all(close(found, round(rho * shape[1]) / shape[1], noise * 4))
    assert found.power == pytest.approx(4 * np.mean(signal**2), rel=0.15)
    error = np.mean((np.sqrt(found.power) * found.solution.value[0] / 2 - signal) ** 2)
    claimed = found.solution.error_estimate[0] * np.mean(signal**2)
    assert error == pytest.approx(claimed, rel=0.4)


@pytest.mark.thorough
def test_bars_cover_the_truth_over_the_grid():
    """Of 64 data sets at most eight outside one of two intervals of 95 per cent, where 6.4 are expected."""
    right = [
        close(estimate_model(*drawn(shape, rho, noise, alpha, seed)[:2]), round(rho * shape[1]) / shape[1], noise)
        for shape, rho, noise, alpha in GRID
        for seed in range(100, 116)
    ]
    assert np.sum(~np.array(right)) <= 8


@pytest.mark.thorough
def test_a_width_of_one_behind_much_noise_is_in_its_interval():
    """The end of the range: quantiles of a posterior of widths above it never hold it where the width is open."""
    rng = np.random.default_rng(0)

    def drawn(width):
        signal = rng.standard_normal((8, width)) @ rng.standard_normal((width, 16)) / np.sqrt(width)
        return even_moments(np.linalg.svd(signal + 2 * rng.standard_normal((8, 16)), compute_uv=False), (4, 6))

    found = [estimate_width(drawn(1), 32, drawn).interval for _ in range(30)]
    assert np.median([high for _, high in found]) > 8
    # 28.5 are expected, fewer than 25 once in 300 times.
    assert sum(low <= 1 for low, _ in found) >= 25


@pytest.mark.slow
def test_width_of_zero_labels_is_undetermined():
    """Labels without a signal: almost all of their variance is noise."""
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((400, 20, 20)), rng.standard_normal(400)
    with pytest.warns(DataWarning, match="labels show no signal"):
        found = estimate_model(inputs, labels)
    assert found.power < 1e-3 and found.noise_error == np.inf


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (np.ones((9, 4)), np.ones(9), r"X = \(9, 4\)"),
        (np.random.default_rng(0).standard_normal((9, 4, 4)), np.ones(9), "labels that vary"),
        (np.ones((9, 4, 4)), np.ones(8), "matches X"),
        (np.ones((9, 2, 4)), np.ones(9), "each at least 4"),
    ],
)
def test_invalid_arguments_raise(inputs, labels, words):
    with pytest.raises(DataError, match=words):
        estimate_model(inputs, labels)


def of_width_two(noise, samples, seed=5, size=30):
    """A signal of unit power at hand."""
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((size, 2)) @ rng.standard_normal((2, size))
    inputs = rng.standard_normal((samples, size, size))
    fields = np.einsum("nld,ld->n", inputs, signal) / np.linalg.norm(signal)
    return inputs, fields + np.sqrt(noise) * rng.standard_normal(samples)


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [pytest.param(1e-4, marks=pytest.mark.thorough), 1e-8])
def test_labels_almost_without_noise(noise):
    """The signal of these inputs has a mean of its own; widths of two hardly fluctuate there."""
    found = estimate_model(*of_width_two(noise, 600))
    assert abs(found.noise - noise) <= max(found.noise_error, 1e-9)
    assert found.noise_error < 0.3 * noise + 1e-9
    assert found.offset == pytest.approx(0, abs=5 * np.sqrt(noise / 600))


@pytest.mark.thorough
def test_the_power_of_a_faint_signal_is_in_the_error_of_the_noise():
    """Without it 12 of 24 intervals held a noise of one, 8 of 24 one of five."""
    found = [estimate_model(*of_width_two(4.0, 500, seed, 20)) for seed in range(2)]
    assert all(abs(one.noise - 4.0) <= one.noise_error for one in found)
    assert all(one.noise_error > 0.3 * one.noise for one in found)


def test_few_samples_have_wide_intervals():
    """Spreads of drawn noises that are as large as the noises."""
    inputs, labels, _ = drawn((8, 6), 1 / 3, 0.1, 8 / 48, seed=8)
    found = estimate_model(inputs, labels)
    assert np.ptp(found.rho_interval) > 0.3 and found.noise_error > 0.3


@pytest.mark.filterwarnings("ignore::glassformer.errors.DataWarning")
def test_inputs_in_units_beyond_numbers_have_no_estimates():
    """Squares of what is seen overflow, or vanish."""
    inputs, labels, _ = drawn((6, 5), 0.4, 0.1, 1.5, seed=0)
    large, small = (estimate_model(unit * inputs, labels) for unit in (1e90, 1e-200))
    assert not large.status.ok and np.isnan(large.rho) and np.isnan(large.noise)
    assert small.noise_error == large.noise_error == np.inf
