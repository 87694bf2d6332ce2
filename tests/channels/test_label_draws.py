"""A law of labels of one's own: what is drawn has the density, the mean and the variance that are given."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import SequenceMultiIndex
from glassformer.channels.label_laws import LabelLaw, Laplace, Logistic, Poisson, law_gap
from glassformer.testing import check_model


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
@pytest.mark.parametrize("link", [-3, 0.0, 0.7, 4.0])
def test_sound_laws_have_no_gap(law, link):
    assert law_gap(law, link) < 3e-3


@pytest.mark.parametrize(
    "law",
    [Louder(0.5), Moved(0.5), Unnormalised(0.4), Steeper(), WrongMean(), WrongVariance(0.5)],
    ids=lambda law: type(law).__name__,
)
def test_mistakes_are_seen(law):
    assert law_gap(law, 0.7) > 0.02


LOUDER = SequenceMultiIndex(lambda z: 2 * z[0, 0], noise_law=Louder(0.5), points=32)


@pytest.mark.slow
def test_channels_know_the_gap_of_their_law():
    assert LOUDER.channel.law_gap > 0.02
    assert SequenceMultiIndex(lambda z: 2 * z[0, 0], noise_law="logistic", points=32).channel.law_gap < 3e-3


@pytest.mark.statistics
def test_check_model_names_a_law_that_draws_from_another_one():
    report = check_model(LOUDER, d=20)
    (found,) = (check for check in report.checks if check.name == "Nishimori")
    assert not found.passed
    assert "draws from the law" in found.explanation
