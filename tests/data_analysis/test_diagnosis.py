"""What inputs contradict, and which theory may be believed of them."""

from time import process_time

import numpy as np
import pytest
from scipy.integrate import quad

from glassformer import BilinearSequenceRegression
from glassformer.data_analysis import diagnose
from glassformer.data_analysis.diagnosis import marchenko_pastur
from glassformer.errors import DataError
from glassformer.learners.data_assumptions import ENTRIES_BEFORE_A_RUN, input_sample, violations
from glassformer.learners.gamp import gamp


def drawn(shape=(400, 10, 12), seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def wrong(found):
    return {one.name for one in found.findings if not one.harmless}


def correlated(x):
    distance = np.abs(np.subtract.outer(np.arange(x.shape[1]), np.arange(x.shape[1])))
    return np.einsum("ab,nbd->nad", np.linalg.cholesky(0.7**distance), x)


@pytest.mark.slow
def test_independent_numbers_of_any_law_are_trusted():
    shapes = [(12, 4, 4), (20, 5, 7), (50, 10, 10), (100, 3, 40), (10, 2, 100), (30, 1, 8), (300, 17, 18), (3000, 4, 4)]
    for k in range(32):
        assert not wrong(diagnose(drawn(shapes[k % 8], k)))
    for x in (np.sign(drawn()), np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, (400, 10, 12))):
        assert "as it is" in diagnose(x).trusted[0]


@pytest.mark.parametrize(
    ("changed", "names", "trusted"),
    [
        (lambda x: x + 0.5, {"mean"}, "standardised"),
        (lambda x: 3 * x, {"scale"}, "standardised"),
        (lambda x: x * np.exp(np.linspace(-1, 1, 12)), {"feature scales"}, "standardised"),
        (lambda x: x * np.exp(np.linspace(-1, 1, 10))[:, None], {"token scales"}, "standardised"),
        (correlated, {"token correlation", "spectrum"}, "whitened"),
        (lambda x: np.swapaxes(correlated(np.swapaxes(x, 1, 2)), 1, 2), {"feature correlation"}, "whitened"),
        (lambda x: np.random.default_rng(1).standard_t(2.5, x.shape), {"heavy tails"}, "convex"),
        (lambda x: x * np.exp(np.random.default_rng(1).standard_normal(len(x)))[:, None, None], {"leverage"}, "convex"),
    ],
)
def test_every_contradiction_is_named_with_what_may_be_trusted(changed, names, trusted):
    found = diagnose(changed(drawn()))
    assert names <= wrong(found)
    assert trusted in found.trusted[0]
    for name in names:
        assert f"HIGH {name}" in str(found)


def test_correlations_between_tokens_and_features_at_once_show_in_the_spectrum_alone():
    """Entries that are copies of others elsewhere: neither tokens nor features are correlated on average."""
    x = drawn((600, 10, 10))
    copied = x.copy()
    copied[:, 5:] = np.roll(x[:, :5], 3, axis=2)
    assert "spectrum" in wrong(diagnose(copied))


@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.95])
def test_the_law_of_independent_numbers(ratio):
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    for x in (0.5, 1.0, 1.3):
        exact = quad(lambda t: np.sqrt((high - t) * (t - low)) / (2 * np.pi * ratio * t), low, max(x, low))[0]
        assert marchenko_pastur(np.array([x]), ratio)[0] == pytest.approx(exact, abs=2e-4)


def test_labels_are_looked_at():
    x = drawn()
    assert [one.harmless for one in diagnose(x, np.ones(400)).labels] == [False, True]
    heavy = np.random.default_rng(0).standard_t(1.5, 400)
    assert [one.harmless for one in diagnose(x, heavy).labels] == [True, False, True, True]
    table = diagnose(x, x[:, 0, 0]).to_pandas()
    assert set(table["property"]) >= {"mean", "spectrum", "tails of labels"} and table["harmless"].all()


@pytest.mark.parametrize(
    ("inputs", "labels", "words"),
    [
        (drawn((5, 2, 2)), None, "at least 10 samples"),
        (drawn((20, 4)), None, r"X = \(20, 4\)"),
        (np.where(np.arange(80).reshape(20, 2, 2) == 7, np.nan, 1.0), None, r"X = .*nan"),
        (drawn((20, 2, 2)), np.ones(19), "20 numbers"),
        (drawn((20, 2, 2)), ["a"] * 20, "20 numbers"),
    ],
)
def test_what_is_refused(inputs, labels, words):
    with pytest.raises(DataError, match=words):
        diagnose(inputs, labels)


def test_looking_before_a_run_does_not_grow_with_the_samples():
    """As many numbers of ten times the samples, drawn among all of them, not the first ones."""
    few, many = (input_sample(drawn((n, 20, 20)), ENTRIES_BEFORE_A_RUN).centred for n in (1000, 10000))
    assert few.shape == many.shape == (625, 20, 20)
    x = drawn((10000, 20, 20))
    x[1000:] += 0.2
    assert [one.name for one in violations(x)] == ["mean"]


@pytest.mark.thorough
@pytest.mark.parametrize("shape", [(540, 30, 30), (2000, 60, 60)])
def test_looking_takes_a_twentieth_of_a_run(shape):
    """The least of nine processor times each, in alternation."""
    model, rng = BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1), np.random.default_rng(0)
    x, signal = drawn(shape), model.prior.sample(shape[1:], rng)
    y = np.tensordot(x, signal, 2) / shape[1] + np.sqrt(0.1) * rng.standard_normal(len(x))
    times = {gamp: [], violations: []}
    for _ in range(9):
        for called, given in ((gamp, (model, x, y)), (violations, (x,))):
            start = process_time()
            called(*given)
            times[called].append(process_time() - start)
    assert min(times[violations]) <= 0.05 * min(times[gamp])


@pytest.mark.parametrize(
    ("link", "skewed", "named"),
    [
        (lambda h: h, False, []),
        (lambda h: h, True, []),
        (lambda h: np.tanh(2 * h), False, ["bent labels"]),
        (lambda h: h**2, False, ["quadratic labels"]),
        (lambda h: np.sign(h), False, []),  # classes are not asked
    ],
)
def test_labels_that_are_not_linear_are_named(link, skewed, named):
    rng = np.random.default_rng(0)
    x = rng.exponential(size=(1500, 6, 6)) if skewed else rng.standard_normal((1500, 6, 6))
    h = np.tensordot(x - x.mean(axis=0), np.outer(rng.standard_normal(6), rng.standard_normal(6)), 2)
    h /= h.std()
    noise = 0.3 * rng.standard_normal(1500) * (len(np.unique(link(h))) > 2)
    found = diagnose(x, link(h) + noise).labels
    assert [one.name for one in found if not one.harmless and "labels" in one.name and "tails" not in one.name] == named


def test_inputs_that_do_not_vary_and_labels_that_overflow():
    rng = np.random.default_rng(0)
    found = diagnose(np.ones((40, 2, 3)), rng.standard_normal(40))
    assert [one.name for one in found.labels] == ["constant labels", "tails of labels"]
    with pytest.raises(DataError, match=r"y\[0\] = 1.*divide y by a constant"):
        diagnose(rng.standard_normal((40, 2, 3)), np.full(40, 1e200))
