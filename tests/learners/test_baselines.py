"""Ridge and minimal nuclear norm: published expressions, closed forms and released curves."""

import csv
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    BilinearSequenceRegression,
    BlindMessagePassing,
    GradientDescent,
    MessagePassing,
    OnlineSGD,
    VectorMessagePassing,
    simulate,
)
from glassformer.core.errors import DataWarning, ParameterError
from glassformer.core.status import Status
from glassformer.learners.gamp import gamp
from glassformer.learners.ridge import ridge_error
from glassformer.learners.vamp import vamp
from glassformer.random_matrices.nuclear_norm import nuclear_norm_threshold, nuclear_norm_threshold_low_width

ALPHA = np.array([0.0, 1e-3, 0.3, 0.9, 1.0, 1.1, 2.0, 50.0])
REFERENCE = Path(__file__).resolve().parents[3] / "shared/reference/bsr/perfect_recovery_thresholds.csv"


def published_at_optimum(alpha, noise):
    root = np.sqrt(2 * (alpha + 1) * noise + (alpha - 1) ** 2 + noise**2)
    return 1 - 2 * alpha / (root + alpha + noise + 1)


def published(alpha, noise, strength):
    p, c = alpha + strength, alpha - strength
    t = np.sqrt((p - 1) ** 2 + 4 * strength)
    last = (p + t + 1) * (p**2 - 2 * c + t**2 + 2 * t * (p + 1) + 1)
    return 1 - 4 * alpha / (p + t + 1) + 4 * alpha * (alpha * (p + t - 3) + (1 + noise) * (p + t + 1)) / last


def simulated_ridge(entries, samples, noise, strength, rng):
    """Error of ridge regression on one data set of ``entries`` unknowns of unit power."""
    signal = rng.standard_normal(entries)
    signal *= np.sqrt(entries) / np.linalg.norm(signal)
    inputs = rng.standard_normal((samples, entries)) / np.sqrt(entries)
    labels = inputs @ signal + np.sqrt(noise) * rng.standard_normal(samples)
    estimate = np.linalg.solve(inputs.T @ inputs + strength * np.eye(entries), inputs.T @ labels)
    return np.mean((estimate - signal) ** 2)


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 1.5])
@pytest.mark.parametrize(("noise", "strength"), [(0.1, 0.1), (0.1, 0.01), (0.1, 2.0), (0.0, 0.3)])
def test_ridge_against_data(alpha, noise, strength):
    entries = 400
    errors = [
        simulated_ridge(entries, round(alpha * entries), noise, strength, np.random.default_rng(seed))
        for seed in range(8)
    ]
    expected = ridge_error(alpha, noise, strength)
    statistical = np.std(errors, ddof=1) / np.sqrt(len(errors))
    # Four standard errors of the mean, and corrections of relative order 1/entries to the limit.
    assert abs(np.mean(errors) - expected) < 4 * statistical + 4 * expected / entries


@pytest.mark.parametrize("alpha", [0.4, 1.7])
def test_least_norm_against_data(alpha):
    entries, noise = 400, 0.2
    # A strength of 1e-9 is far below the smallest non-zero eigenvalue, about (1 - sqrt(alpha))^2.
    errors = [
        simulated_ridge(entries, round(alpha * entries), noise, 1e-9, np.random.default_rng(seed)) for seed in range(8)
    ]
    statistical = np.std(errors, ddof=1) / np.sqrt(len(errors))
    expected = ridge_error(alpha, noise, 0.0)
    assert abs(np.mean(errors) - expected) < 4 * statistical + 4 * expected / entries


@pytest.mark.parametrize("noise", [1e-3, 0.1, 3.0])
@pytest.mark.parametrize("strength", [1e-2, 0.1, 10.0])
def test_ridge_as_published(noise, strength):
    # The published expressions subtract numbers of order one.
    np.testing.assert_allclose(ridge_error(ALPHA, noise, strength), published(ALPHA, noise, strength), atol=1e-13)
    np.testing.assert_allclose(ridge_error(ALPHA, noise), published_at_optimum(ALPHA, noise), atol=1e-14)
    np.testing.assert_allclose(ridge_error(ALPHA, noise, noise), ridge_error(ALPHA, noise), rtol=0)


def test_ridge_in_multiple_precision():
    """The published expression with digits enough for its cancellations, where double precision loses all of them."""
    with mp.workdps(80):
        for alpha in (0.5, 1.0 - 1e-9, 1.0, 30.0, 1e6):
            for noise in (1e-12, 1e-3, 1e3):
                for strength in (1e-14, 1e-6, 1.0, 1e8):
                    a, n, s = mp.mpf(alpha), mp.mpf(noise), mp.mpf(strength)
                    p, c = a + s, a - s
                    t = mp.sqrt((p - 1) ** 2 + 4 * s)
                    last = (p + t + 1) * (p**2 - 2 * c + t**2 + 2 * t * (p + 1) + 1)
                    exact = 1 - 4 * a / (p + t + 1) + 4 * a * (a * (p + t - 3) + (1 + n) * (p + t + 1)) / last
                    assert float(ridge_error(alpha, noise, strength)) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("noise", [0.01, 0.5])
def test_ridge_is_best_at_the_strength_of_the_noise(noise):
    step = 1e-4 * noise
    alpha = ALPHA[1:]
    slope = (ridge_error(alpha, noise, noise + step) - ridge_error(alpha, noise, noise - step)) / (2 * step)
    curvature = (
        ridge_error(alpha, noise, noise + step)
        + ridge_error(alpha, noise, noise - step)
        - 2 * ridge_error(alpha, noise)
    ) / step**2
    # The third derivative, of order E/noise^3, times step^2/6, and rounding 1e-16 E/step.
    assert np.all(np.abs(slope) * noise < 1e-7 * ridge_error(alpha, noise))
    assert np.all(curvature > 0)


def test_ridge_without_noise_and_strength_is_the_least_norm_interpolator():
    np.testing.assert_array_equal(ridge_error(ALPHA), np.maximum(1 - ALPHA, 0.0))
    with_noise = ridge_error(ALPHA, 0.1, 0.0)
    assert with_noise[ALPHA == 1.0] == np.inf
    away = np.abs(ALPHA - 1) > 0.05
    np.testing.assert_allclose(with_noise[away], ridge_error(ALPHA, 0.1, 1e-13)[away], rtol=1e-9)


def test_ridge_keeps_the_shape_of_alpha():
    assert np.shape(ridge_error(0.5)) == ()
    assert ridge_error(np.ones((2, 3)), 0.1).shape == (2, 3)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((-0.1,), "alpha"),
        (([0.1, np.nan],), "alpha"),
        ((0.5, -1.0), "noise"),
        ((0.5, np.inf), "noise"),
        ((0.5, 0.1, -1.0), "regularisation"),
        ((0.5, 0.1, np.nan), "regularisation"),
    ],
)
def test_bad_ridge_parameters_are_named(arguments, name):
    with pytest.raises(ParameterError, match=rf"^{name} = "):
        ridge_error(*arguments)


def published_threshold(beta, rho):
    """The threshold as printed, by adaptive quadrature and a root search in multiple precision."""
    with mp.workdps(25):
        b, rho = 1 / mp.mpf(beta), mp.mpf(rho)
        gamma = b * (1 - rho) / (1 - rho * b)
        low, high = (1 - mp.sqrt(gamma)) ** 2, (1 + mp.sqrt(gamma)) ** 2

        def P(k, x):
            # In the angle of t both square-root edges are regular; for t -> 0 the tanh-sinh rule deals with t^(k-1).
            middle, half = (low + high) / 2, (high - low) / 2
            start = mp.acos(max(min((middle - x) / half, 1), -1))
            return mp.quad(
                lambda a: (middle - half * mp.cos(a)) ** (k - 1) * (half * mp.sin(a)) ** 2 / (2 * mp.pi * gamma),
                [start, mp.pi],
            )

        half = mp.mpf(1) / 2
        level = mp.findroot(
            lambda x: P(half, x * x) - x * P(0, x * x) - x * rho / (1 - rho),
            (mp.mpf("1e-6"), mp.sqrt(high)),
            solver="anderson",
            tol=1e-20,
        )
        x = level * level
        cost = rho * x + (1 - rho) * (P(1, x) - 2 * level * P(half, x) + x * P(0, x))
        return float(rho + b * rho - b * rho**2 + (1 - rho * b) * cost)


# beta = 20 has its optimal level below the whole spectrum.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("beta", "rho"),
    [
        (1.0, 0.05),
        *(
            pytest.param(*one, marks=pytest.mark.thorough)
            for one in ((1.0, 0.7), (5.0, 0.2), (5.0, 0.64), (5.0, 0.881), (1.2, 0.99))
        ),
        (20.0, 0.5),
    ],
)
def test_nuclear_norm_threshold_as_published(beta, rho):
    assert nuclear_norm_threshold(beta, rho) == pytest.approx(published_threshold(beta, rho), rel=1e-12)


@pytest.mark.slow
@pytest.mark.skipif(not REFERENCE.exists(), reason="the published curve is not part of the repository")
def test_nuclear_norm_threshold_against_the_published_curve():
    with REFERENCE.open() as file:
        rows = [row for row in csv.DictReader(file) if float(row["rho"]) > 0]
    published = np.array([float(row["alpha_MNNE"]) for row in rows])
    low_width = np.array([float(row["alpha_LR_MNNE"]) for row in rows])
    parameters = [(float(row["beta"]), float(row["rho"])) for row in rows]
    computed = np.array([nuclear_norm_threshold(beta, rho) for beta, rho in parameters])
    difference = np.abs(computed - published)
    # The curve's own root search scatters: a row in a hundred is off by up to 3e-5, the others by its tolerance.
    assert np.quantile(difference, 0.99) < 1e-6
    assert difference.max() < 5e-5
    units = np.array([beta / (rho * (1 + beta)) for beta, rho in parameters])
    assert np.quantile(np.abs(computed * units - low_width), 0.99) < 1e-6


@pytest.mark.parametrize("beta", [0.5, 1.0, 5.0, np.inf])
def test_low_width_limit_of_the_nuclear_norm_threshold(beta):
    limit = nuclear_norm_threshold_low_width(beta)
    rho = min(1.0, beta) * 10.0 ** -np.arange(3, 13, 2)
    unit = (1 + 1 / beta) * rho
    distance = np.array([limit - nuclear_norm_threshold(beta, r) / u for r, u in zip(rho, unit, strict=True)])
    assert np.all((distance > 0) & (np.append(True, distance[1:] < distance[:-1])))
    # Order rho^(2/5) from the square-root edge of the spectrum; a point spectrum has order rho.
    assert distance[-1] / distance[-2] == pytest.approx(0.01 if np.isinf(beta) else 0.01**0.4, rel=0.1)


@pytest.mark.parametrize("rho", [0.1, 0.5, 0.9])
def test_nuclear_norm_threshold_of_long_sequences(rho):
    limit = nuclear_norm_threshold(np.inf, rho)
    assert limit == pytest.approx(2 * rho - rho**2, rel=1e-15)
    distance = np.array([abs(nuclear_norm_threshold(beta, rho) - limit) for beta in 10.0 ** np.arange(2, 6)])
    assert np.all(distance[1:] < distance[:-1])


@pytest.mark.parametrize("beta", [1.0, 2.0, 30.0])
def test_nuclear_norm_needs_more_than_counting_and_increases(beta):
    rho = np.linspace(0.0, 1.0, 41)
    threshold = np.array([nuclear_norm_threshold(beta, r) for r in rho])
    counting = rho * (1 + beta - rho) / beta
    assert np.all(threshold[1:-1] > counting[1:-1])
    assert np.all(np.diff(threshold) > 0)
    assert (threshold[0], threshold[-1]) == (0.0, 1.0)


def test_nuclear_norm_threshold_does_not_change_under_transposition():
    assert nuclear_norm_threshold(0.25, 0.1) == nuclear_norm_threshold(4.0, 0.4)
    assert nuclear_norm_threshold(0.25, 0.25) == nuclear_norm_threshold(2.0, np.inf) == 1.0
    assert nuclear_norm_threshold_low_width(0.25) == nuclear_norm_threshold_low_width(4.0)


@pytest.mark.parametrize(("beta", "rho", "name"), [(0.0, 0.5, "beta"), (np.nan, 0.5, "beta"), (1.0, -0.1, "rho")])
def test_bad_nuclear_norm_parameters_are_named(beta, rho, name):
    with pytest.raises(ParameterError, match=rf"^{name} = "):
        nuclear_norm_threshold(beta, rho)


def test_bad_low_width_parameter_is_named():
    with pytest.raises(ParameterError, match=r"^beta = "):
        nuclear_norm_threshold_low_width(-1.0)


@pytest.mark.parametrize(
    ("kind", "start", "allowed"),
    [
        (GradientDescent, "overlap:0.3", "prior, or small:SIZE with a number > 0"),
        (GradientDescent, "small", "prior, or small:SIZE with a number > 0"),
        (OnlineSGD, "small:-5", "prior, small:SIZE with a number > 0, or overlap:COSINE with a number in [0, 1)"),
        (
            OnlineSGD,
            ([[0.1]], [[1.0]]),
            "prior, small:SIZE with a number > 0, or overlap:COSINE with a number in [0, 1)",
        ),
        (SGD, "large", "or a pair of matrices, overlap m and power C"),
    ],
)
def test_starts_that_a_learner_does_not_have_are_refused_with_those_it_has(kind, start, allowed):
    with pytest.raises(ParameterError) as error:
        kind(start=start)
    assert str(error.value).startswith("start = ") and str(error.value).endswith(allowed)


@pytest.mark.parametrize(
    ("kind", "settings", "name"),
    [
        (BlindMessagePassing, {"assumed_rho": 0.5, "smoothing": 3.0}, "smoothing"),
    ],
)
def test_settings_without_effect_are_refused(kind, settings, name):
    with pytest.raises(ParameterError, match=rf"{name} = .*no value with"):
        kind(**settings)


def test_more_samples_than_entries_need_a_strength():
    with pytest.raises(ParameterError, match=r"strength = 0.0 .*> 0 with 20 samples"):
        simulate(BilinearSequenceRegression(rho=0.5), [1.25], "nuclear-norm", d=4, instances=1)


def test_every_instance_is_compared_with_its_claimed_error():
    rng = np.random.default_rng(0)
    narrow, wide = (BilinearSequenceRegression(rho=rho, noise=0.1) for rho in (0.2, 2.0))
    signals, inputs = [one.prior.sample((20, 20), rng) for one in (narrow, wide)], rng.standard_normal((2, 400, 20, 20))
    labels = np.einsum("inld,ild->in", inputs, signals) / 20 + np.sqrt(0.1) * rng.standard_normal((2, 400))
    with pytest.warns(DataWarning, match="claimed error"):
        found = gamp(narrow, inputs, labels)
    assert [str(status) for status in found.status] == ["converged", "contradicted_by_residual"]


def test_inputs_of_every_instance_are_examined():
    rng = np.random.default_rng(0)
    model, inputs = BilinearSequenceRegression(rho=0.3, noise=0.1), rng.standard_normal((2, 100, 6, 6))
    inputs[1] += 1
    labels = np.einsum("inld,ld->in", inputs, model.prior.sample((6, 6), rng)) / 6
    short = (
        {"learner": MessagePassing().at_accuracy(Accuracy(max_iterations=2))},
        {"learner": VectorMessagePassing().at_accuracy(Accuracy(max_iterations=2))},
    )
    for learner, options in zip((gamp, vamp), short, strict=True):
        with pytest.warns(DataWarning, match="mean"):
            found = learner(model, inputs, labels, **options)
        assert [str(status) for status in found.status] == ["iteration_limit", str(Status.MISTAKEN)]
