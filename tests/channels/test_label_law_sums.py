"""Discrete labels of any law around a link of one index: sums against quadratures of their own, and closed forms."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.special import gammaln
from scipy.special import expit
from scipy.stats import binom, poisson

from glassformer import SequenceMultiIndex, limits
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.weak_recovery import weak_recovery
from glassformer.channels.label_laws import LabelLaw, Laplace, Logistic, Poisson
from glassformer.channels.link.label_law import LabelLawChannel, label_support
from glassformer.core.errors import DataError


@dataclass(frozen=True)
class Binomial(LabelLaw):
    """Of one's own: successes of several trials, whose log-odds are the link."""

    trials: int = 5
    label = "binomial"

    def log_density(self, y, link):
        n = self.trials
        ways = gammaln(n + 1.0) - gammaln(y + 1) - gammaln(n - y + 1)
        return ways - y * jnp.logaddexp(0.0, -link) - (n - y) * jnp.logaddexp(0.0, link)

    def quantile(self, link, uniform):
        return binom.ppf(uniform, self.trials, expit(link))

    def mean(self, link):
        return self.trials * expit(link)

    def variance(self, link):
        return self.trials * expit(link) * expit(-link)


LAWS = {
    "poisson": (Poisson(), lambda y, h: poisson.pmf(y, np.exp(h)), np.arange(800.0)),
    "poisson-even": (Poisson(), lambda y, h: poisson.pmf(y, np.exp(-(h**2))), np.arange(20.0)),
    "logistic": (Logistic(), lambda y, h: expit(3 * y * h), np.array([-1.0, 1.0])),
    "binomial": (Binomial(), lambda y, h: binom.pmf(y, 5, expit(2 * h)), np.arange(6.0)),
}
LINKS = {
    "poisson": lambda z: z[0, 0],
    "poisson-even": lambda z: -(z[0, 0] ** 2),
    "logistic": lambda z: 3 * z[0, 0],
    "binomial": lambda z: 2 * z[0, 0],
}


def by_trapezoids(name, q, means=80, deviations=500):
    """E g^2 and E log Z by the trapezoid rule over the mean and the deviation: exact to rounding once they resolve."""
    _, chance, labels = LAWS[name]
    t, u = (np.linspace(-9, 9, count + 1) for count in (means, deviations))
    known, unknown = (np.exp(-(x**2) / 2) * (x[1] - x[0]) / np.sqrt(2 * np.pi) for x in (t, u))
    information = expected = 0.0
    for mean, weight in zip(np.sqrt(q) * t, known, strict=True):
        if weight < 1e-14:
            continue
        given = chance(labels[:, None], mean + np.sqrt(1 - q) * u)
        z, slope = given @ unknown, given @ (unknown * u) / np.sqrt(1 - q)
        z, slope = z[z > 1e-300], slope[z > 1e-300]
        information += weight * np.sum(slope**2 / z)
        expected += weight * np.sum(z * np.log(z))
    return information, expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "q"),
    [
        *(pytest.param("poisson", q, marks=pytest.mark.thorough) for q in (0.2, 0.4, 0.7)),
        *((name, q) for name in ("poisson-even", "logistic", "binomial") for q in (0.2, 0.7)),
    ],
)
def test_averages_agree_with_the_trapezoid_rule(name, q):
    model = SequenceMultiIndex(LINKS[name], noise_law=LAWS[name][0])
    found = conjugate_overlap(model, [q], accuracy=2e-3)
    information, expected = by_trapezoids(name, q)
    # What the quadratures leave, and rounding of the reference.
    assert abs(found.value[0, 0] - information) <= found.error_estimate[0, 0] + 1e-9 * information
    assert found.error_estimate[0, 0] < 1e-6 * information
    log_partition = model.channel.inference.averages(np.array([[[1 - q]]])).log_partition
    assert abs(log_partition.value[0] - expected) <= log_partition.error[0] + 1e-9
    assert not model.channel.inference.sampled


@pytest.mark.slow
def test_known_counts():
    """Rare labels, which samples miss, carry a thousandth of the information."""
    counts = SequenceMultiIndex(LINKS["poisson"], noise_law="poisson")
    found = [conjugate_overlap(counts, [q]).value[0, 0] for q in (0.2, 0.4, 0.7)]
    # By two quadratures, to all digits given.
    np.testing.assert_allclose(found, [0.5898354, 0.6810112, 0.9097986], atol=6e-8)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["poisson", "binomial"])
@pytest.mark.parametrize("v", [1.0, 0.3, 1e-4])
def test_posteriors_agree_with_the_trapezoid_rule(name, v):
    law, chance, _ = LAWS[name]
    channel = LabelLawChannel.of(lambda h: h if name == "poisson" else 2 * h, law)
    y = np.array([0.0, 1.0, 3.0, 5.0, *([60.0] if name == "poisson" else [])])
    omega = np.linspace(-1.5, 2.5, len(y))
    u = np.linspace(-12, 12, 200_001)
    given = chance(y[:, None], omega[:, None] + np.sqrt(v) * u) * np.exp(-(u**2) / 2)
    total = given.sum(axis=1)
    mean = given @ u / total
    spread = given @ u**2 / total - mean**2
    np.testing.assert_allclose(channel.score(y, omega, v), mean / np.sqrt(v), rtol=1e-8, atol=1e-9 / np.sqrt(v))
    np.testing.assert_allclose(channel.curvature(y, omega, v), (1 - spread) / v, rtol=1e-7, atol=1e-8 / v)
    log_z = np.log(total * (u[1] - u[0]) / np.sqrt(2 * np.pi))
    np.testing.assert_allclose(channel.log_partition(y, omega, v), log_z, atol=1e-9)


@pytest.mark.thorough
def test_errors_cover_labels_outside_the_support():
    """Rates of exp(2 z) have too many labels to sum over: the error bounds the contribution of the others."""
    law, link = Poisson(), lambda h: 2 * h
    v = np.array([0.6])
    most = LabelLawChannel.of(link, law)
    few = LabelLawChannel(link, law, most.support[:500])
    (value, error), (exact, rest) = few.information(v), most.information(v)
    assert np.all(rest < 3e-5 * exact)
    assert np.all(np.abs(value - exact) <= error + rest)
    assert np.all(value < exact)


@pytest.mark.slow
def test_weak_recovery_of_even_counts():
    model = SequenceMultiIndex(LINKS["poisson-even"], noise_law="poisson")
    h = np.linspace(-9, 9, 2001)
    weight = np.exp(-(h**2) / 2) * (h[1] - h[0]) / np.sqrt(2 * np.pi)
    given = LAWS["poisson-even"][1](np.arange(20.0)[:, None], h)
    z, second = given @ weight, given @ (weight * (h**2 - 1))
    # 1/E[E[h^2 - 1 | y]^2].
    assert weak_recovery(model)[0].alpha == pytest.approx(1 / np.sum(second**2 / z), rel=1e-6)
    assert model.channel.labels.exponents == (2.0, 2.0)


@pytest.mark.thorough
def test_limits_and_errors_on_counts():
    """Rates of exp(z / 2): those of exp(z) have thousands of labels to sum over."""
    counts = SequenceMultiIndex(lambda z: 0.5 * z[0, 0], noise_law="poisson")
    table = limits(counts, [1.0])
    q = table["overlap"][0, 0, 0]
    assert q / (1 - q) == pytest.approx(conjugate_overlap(counts, [q]).value[0, 0], rel=1e-8)
    # Moments of log-normal rates: E[e^h] = e^{1/2}, and their mean given omega has square e^{(1 + q)/4} on average.
    assert table["prediction_error"][0] == pytest.approx(np.exp(0.5) - np.exp((1 + q) / 4), rel=1e-8)
    assert table["label_noise"][0] == pytest.approx(np.exp(0.125), rel=1e-8)
    points = np.array([1 - q + 1e-3, 1 - q - 1e-3])
    phi = free_entropy(counts, 1.0, 1 / points - 1, points).value
    assert abs(phi[1] - phi[0]) < 1e-6  # stationary


@pytest.mark.parametrize(("law", "label"), [(Logistic(), 0.0), (Logistic(), np.nan), (Poisson(), 2.5), (Poisson(), -1)])
def test_labels_that_a_law_does_not_give_are_refused(law, label):
    channel = LabelLawChannel.of(lambda h: h, law)
    with pytest.raises(DataError, match="labels of the law"):
        channel.score(np.array([1.0, label]), np.zeros(2), 1.0)
    # Counts beyond those of the sums are rare, not impossible.
    beyond = channel.support[-1] + (1 if isinstance(law, Poisson) else 0)
    assert np.isfinite(channel.score(np.array([beyond]), np.zeros(1), 1.0)).all()


def test_supports_of_laws():
    links = np.linspace(-3, 3, 9)
    np.testing.assert_array_equal(label_support(Logistic(), links), [-1, 1])
    np.testing.assert_array_equal(label_support(Binomial(), links), np.arange(6))
    assert label_support(Laplace(0.5), links) is None
    assert label_support(Poisson(), np.array([18.0])) is None  # too many
    counts = label_support(Poisson(), links)
    assert counts[0] == 0 and np.all(np.diff(counts) == 1) and poisson.sf(counts[-1], np.exp(3)) < 1e-14


@pytest.mark.slow
def test_links_that_jax_cannot_trace_are_accepted():
    found = SequenceMultiIndex(lambda z: float(np.sign(z[0, 0])), noise_law="logistic").channel
    assert found.inference.information(np.ones((1, 1, 1))).value[0, 0, 0] == pytest.approx(
        np.tanh(0.5) ** 2 * 2 / np.pi
    )
