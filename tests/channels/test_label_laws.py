"""Label noise of any law: information against dense quadrature, data against theory."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit, ndtri

from glassformer import Accuracy, IncompatibleError, SequenceMultiIndex, simulate
from glassformer.channels.label_errors import prediction_errors
from glassformer.channels.label_laws import LabelLaw, Laplace, Logistic, Poisson, label_law, law_gap
from glassformer.channels.multi_index.link_rows import LikelihoodRowsChannel
from glassformer.channels.multi_index.link_symmetries import row_symmetries
from glassformer.cli import main
from glassformer.errors import ParameterError
from glassformer.numerics.quasi_random import confidence_factor
from glassformer.testing import check_model


@dataclass(frozen=True)
class Normal(LabelLaw):
    """What the channel with noise does, as a law of one's own."""

    label = "normal"

    def log_density(self, y, link):
        return -((y - link) ** 2) / (2 * 0.3) - 0.5 * np.log(2 * np.pi * 0.3)

    def quantile(self, link, uniform):
        return link + np.sqrt(0.3) * ndtri(uniform)

    def mean(self, link):
        return link

    def variance(self, link):
        return np.full_like(link, 0.3)


CASES = {
    "laplace": (Laplace(0.5), 1.0, np.linspace(-12, 12, 2001)),
    "logistic": (Logistic(), 3.0, np.array([-1.0, 1.0])),
    "poisson": (Poisson(), 1.0, np.arange(200.0)),
    "own": (Normal(), 1.0, np.linspace(-9, 9, 601)),
}


def sampled(slope, law, points):
    """The channel of links of several indices, whose averages are sampled, of one index."""

    def link(z):
        return jnp.ravel(slope * z[0, 0])

    return LikelihoodRowsChannel(link, 1, 1, (), row_symmetries(link, 1, 1, False), law, points=points)


def exact_information(law, slope, labels, variance):
    """E g^2 for the link slope * z, by grids over label, field and mean."""
    u, means = np.linspace(-8, 8, 401), np.linspace(-7, 7, 41)
    weight = np.exp(-(u**2) / 2) * (u[1] - u[0]) / np.sqrt(2 * np.pi)
    step = labels[1] - labels[0] if len(labels) > 300 else 1.0
    rows = []
    for t in means:
        link = slope * (np.sqrt(1 - variance) * t + np.sqrt(variance) * u)
        like = np.exp(np.asarray(law.log_density(labels[:, None], link[None])))
        z, first = like @ weight, like @ (weight * u)
        rows.append(np.sum(np.where(z > 1e-300, first**2 / np.maximum(z, 1e-300), 0)) * step / variance)
    return integrate.trapezoid(np.array(rows) * np.exp(-(means**2) / 2) / np.sqrt(2 * np.pi), means)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name",
    ["own", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("logistic", "laplace", "poisson"))],
)
def test_information(name):
    law, slope, labels = CASES[name]
    found = sampled(slope, law, 256).inference.information(np.array([[[0.3]]]))
    exact = exact_information(law, slope, labels, 0.3)
    assert abs(found.value[0, 0, 0] - exact) < 5 * found.error[0, 0, 0] + 1e-6
    assert found.error[0, 0, 0] < 0.01 * exact


@pytest.mark.thorough
def test_information_where_labels_say_little():
    """The same latents without labels take most of the noise away."""
    law, slope, labels = CASES["logistic"]
    found = sampled(slope, law, 1024).inference.averages(np.array([[[0.02]]]))
    exact = exact_information(law, slope, labels, 0.02)
    bar = found.information.error[0, 0, 0]
    assert abs(found.information.value[0, 0, 0] - exact) < 3 * bar
    assert bar < 0.006 * exact


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_labels_are_drawn_from_the_law(name):
    law, slope, _ = CASES[name]
    model = SequenceMultiIndex(lambda z: slope * z[0, 0], 1, 1, noise_law=law).at_accuracy(Accuracy(points=32))
    fields = np.full((40_000, 1, 1), 0.4)
    labels, link = model.channel.sample(fields, np.random.default_rng(0)), np.array([slope * 0.4])
    mean, variance = law.mean(link)[0], law.variance(link)[0]
    assert abs(labels.mean() - mean) < 5 * np.sqrt(variance / len(fields))
    assert labels.var() == pytest.approx(variance, rel=0.06)


def test_label_noise_of_votes():
    model = SequenceMultiIndex(lambda z: 3 * z[0, 0], 1, 1, noise_law="logistic").at_accuracy(Accuracy(points=32))
    z = np.linspace(-8, 8, 4001)
    density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    exact = 1 - integrate.trapezoid(np.tanh(1.5 * z) ** 2 * density, z)
    assert model.channel.labels.noise == pytest.approx(exact, rel=2e-3)


@pytest.mark.thorough
def test_message_passing_on_votes():
    model = SequenceMultiIndex(lambda z: 3 * z[0, 0], 1, 1, noise_law="logistic").at_accuracy(Accuracy(points=64))
    found = simulate(model, [4.0], d=60, instances=2)
    assert abs(found["error"][0] - found["theory"][0]) < 5 * found["standard_error"][0] + 0.01


@pytest.mark.slow
def test_two_indices_and_the_prediction():
    model = SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0], 2, 1, noise_law=Poisson()).at_accuracy(Accuracy(points=64))
    errors = prediction_errors(model.channel, np.array([0.2 * np.eye(2)]))
    assert 0 < errors.bayes.value[0] < errors.plugin.value[0]


@pytest.mark.thorough
def test_rare_labels_have_posteriors_within_reach():
    """Far from the mode slopes of such likelihoods are as large as the counts, and led steps out of all that counts."""
    channel = (
        SequenceMultiIndex(lambda z: 2 * z[0, 0] * z[1, 0], 2, 1, noise_law="poisson")
        .at_accuracy(Accuracy(points=128))
        .channel
    )
    found = channel.inference.response(np.eye(2), wider=np.eye(2))
    # Second moments of fields that are drawn to some seven standard deviations.
    assert np.abs(found.first).max() < 100


def test_refusals():
    with pytest.raises(IncompatibleError, match="noise_law"):
        SequenceMultiIndex(lambda z: z[0, 0], 1, 1, noise=0.1, noise_law="logistic")
    for given in ("cauchy", "laplace", "laplace:0", "laplace:a", 3):
        with pytest.raises(ParameterError, match="noise_law"):
            SequenceMultiIndex(lambda z: z[0, 0], 1, 1, noise_law=given)


def test_laws_by_name():
    assert label_law("poisson") == Poisson()
    assert label_law(Normal()).label == "normal"


@pytest.mark.slow
def test_the_command_line(tmp_path, capsys):
    (tmp_path / "link.py").write_text("def link(z):\n    return 3 * z[0, 0]\n")
    line = f"limits smi --link {tmp_path}/link.py:link --indices 1 --noise-law logistic --alpha 1 --points 64"
    assert main(line.split(" ")) == 0
    assert "noise_law = logistic" in capsys.readouterr().out


# The same averages of fewer points, within three errors: test_information_where_labels_say_little.
@pytest.mark.thorough
@pytest.mark.parametrize("points", [1024, 4096])
def test_errors_cover_shared_random_numbers(points):
    """Next to a known field slopes magnify it, and more data points, which share the pool, do not lessen it."""
    x, w = np.polynomial.hermite_e.hermegauss(100)
    v, w = 0.0177, w / w.sum()
    omega = np.arange(-7, 7, 0.002)
    chance = np.exp(-(omega**2) / 2 / (1 - v))
    up = expit(3 * (omega[:, None] + np.sqrt(v) * x))
    z, slope = up @ w, (up * x) @ w / np.sqrt(v)
    exact = chance @ (slope**2 / z / (1 - z)) / chance.sum()
    value, error = (part.item() for part in sampled(3, Logistic(), points).inference.information(np.full((1, 1, 1), v)))
    assert abs(value - exact) <= confidence_factor(8) * error < 0.1 * exact


# --- samples, density and moments of a law agree --------------------------------------------------------------------


class Cauchy(LabelLaw):
    label = "cauchy"

    def log_density(self, y, link):
        return -jnp.log(jnp.pi * (1 + (y - link) ** 2))

    def quantile(self, link, uniform):
        return link + np.tan(np.pi * (uniform - 0.5))

    def mean(self, link):
        return link

    def variance(self, link):
        return np.full_like(link, np.inf)


class Louder(Laplace):
    """Draws noise of another scale."""

    def quantile(self, link, uniform):
        return link + 1.1 * (super().quantile(link, uniform) - link)


class Moved(Laplace):
    def quantile(self, link, uniform):
        return super().quantile(link, uniform) + 0.1


class Unnormalised(Laplace):
    def log_density(self, y, link):
        return -jnp.abs(y - link) / self.scale


class Steeper(Logistic):
    def log_density(self, y, link):
        return super().log_density(y, 1.2 * link)


class WrongMean(Poisson):
    def mean(self, link):
        return super().mean(link) + 0.1

    def quantile(self, link, uniform):
        return Poisson().quantile(link, uniform)


class WrongVariance(Laplace):
    def variance(self, link):
        return super().variance(link) / 2


@pytest.mark.slow
@pytest.mark.parametrize("law", [Laplace(0.5), Logistic(), Poisson(), Cauchy()], ids=lambda law: law.label)
@pytest.mark.parametrize("link", [-3, 0.7])
def test_sound_laws_have_no_gap(law, link):
    assert law_gap(law, link) < 3e-3


@pytest.mark.parametrize(
    "law",
    [Louder(0.5), Moved(0.5), Unnormalised(0.4), Steeper(), WrongMean(), WrongVariance(0.5)],
    ids=lambda law: type(law).__name__,
)
def test_mistakes_in_a_law_are_detected(law):
    assert law_gap(law, 0.7) > 0.02


LOUDER = SequenceMultiIndex(lambda z: 2 * z[0, 0], noise_law=Louder(0.5)).at_accuracy(Accuracy(points=32))


@pytest.mark.slow
def test_channels_know_the_gap_of_their_law():
    quiet = SequenceMultiIndex(lambda z: 2 * z[0, 0], noise_law="logistic").at_accuracy(Accuracy(points=32))
    assert LOUDER.channel.labels.law_gap() > 0.02
    assert quiet.channel.labels.law_gap() < 3e-3


@pytest.mark.thorough
def test_check_model_names_a_law_that_draws_from_another_one():
    report = check_model(LOUDER, d=20)
    (found,) = (check for check in report.checks if check.name == "Nishimori")
    assert not found.passed
    assert "draws from the law" in found.explanation
