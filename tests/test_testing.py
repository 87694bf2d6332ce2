"""The public conformance checks pass sound models, and find the mistakes that broken ones have."""

from dataclasses import dataclass, replace
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    SequenceMultiIndex,
    testing,
)
from glassformer.channels import GaussianChannel
from glassformer.core.estimate import Estimate
from glassformer.priors.bilinear import BilinearPrior
from glassformer.testing import check_model

SOUND = {
    "linear": BilinearSequenceRegression(beta=1, rho=0.5),
    "sign": BilinearSequenceRegression(beta=2, rho=0.3, channel="sign"),
    "narrow": BilinearSequenceRegression(beta=1.5, width=2, noise=0.1),
    "limit": BilinearSequenceRegression(beta=1, rho=0.0, noise=0.1),
    "softmax": AttentionIndexed(0.5),
    "hardmax": AttentionIndexed(0.5, 2, "hardmax"),
}
SLOW = {
    "link": BilinearSequenceRegression(beta=1, rho=0.5, channel=np.tanh, noise=0.1),
    "rows": SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0] + z[0, 1] * z[1, 1]), 2, 2, noise=0.2).at_accuracy(
        Accuracy(points=256)
    ),
    "one layer": DeepAttention(depth=1).at_accuracy(Accuracy(points=32)),
    "attention": DeepAttention().at_accuracy(Accuracy(points=256)),
}
SLOW_MARKS = {
    "linear": pytest.mark.thorough,
    "softmax": pytest.mark.thorough,
    "hardmax": pytest.mark.thorough,
    "narrow": pytest.mark.thorough,
    "link": pytest.mark.thorough,
    "rows": pytest.mark.thorough,
    "one layer": pytest.mark.thorough,
    "attention": pytest.mark.thorough,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW_MARKS.get(name, ())) for name in (*SOUND, *SLOW)])
def test_sound_models_pass(name):
    report = check_model({**SOUND, **SLOW}[name], d=40 if name in (*SOUND, "link") else 20)
    assert report.ok, str(report)
    names = ["score", "Nishimori", "information", "thresholds", "gradient", "denoiser", "size"]
    assert [check.name for check in report.checks] == names
    made = {check.name for check in report.checks if check.made}
    assert made >= ({"score", "Nishimori", "gradient"} if name == "limit" else {"score", "Nishimori", "size"})


@dataclass(frozen=True)
class WrongScore(GaussianChannel):
    def score(self, y, omega, variance):
        return 1.1 * super().score(y, omega, variance)


@dataclass(frozen=True)
class WrongSample(GaussianChannel):
    times: float = 2.0

    def sample(self, h, rng):
        return h + self.times * np.sqrt(self.noise) * rng.standard_normal(h.shape)


@dataclass(frozen=True)
class Biased(GaussianChannel):
    def sample(self, h, rng):
        return super().sample(h, rng) + 0.5 * np.sqrt(self.noise)


@dataclass(frozen=True)
class WrongSlope(GaussianChannel):
    def curvature(self, y, omega, variance):
        return 1.1 * super().curvature(y, omega, variance)


@dataclass(frozen=True)
class Unnormalised(GaussianChannel):
    def log_partition(self, y, omega, variance):
        return super().log_partition(y, omega, variance) + 0.1


@dataclass(frozen=True)
class WrongInformation(GaussianChannel):
    def information(self, variance):
        value, error = super().information(variance)
        return Estimate(1.2 * value, error)


@dataclass(frozen=True)
class Raises(GaussianChannel):
    def log_partition(self, y, omega, variance):
        raise ValueError("no such thing")


@cache
def report_of(channel):
    return check_model(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.3, channel=channel), d=20)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("channel", "failing"),
    [
        (WrongScore(0.3), {"score", "Nishimori"}),
        pytest.param(WrongSample(0.3), {"Nishimori"}, marks=pytest.mark.thorough),
        pytest.param(Biased(0.3), {"Nishimori"}, marks=pytest.mark.thorough),
        pytest.param(WrongSample(0.3, times=1.2), {"Nishimori"}, marks=pytest.mark.thorough),
        pytest.param(WrongSlope(0.3), {"Nishimori"}, marks=pytest.mark.thorough),
        (Unnormalised(0.3), {"Nishimori"}),
        pytest.param(WrongInformation(0.3), {"Nishimori", "gradient"}, marks=pytest.mark.thorough),
        (Raises(0.3), {"score"}),
    ],
)
def test_mistakes_in_a_channel_are_detected_and_explained(channel, failing):
    report = report_of(channel)
    assert not report.ok
    assert failing <= {check.name for check in report.checks if not check.passed}
    assert "FAIL" in str(report)
    if "score" in failing:
        assert "score" in str(report).partition("FAIL")[2]


@pytest.mark.slow
def test_mistake_in_a_prior_is_detected(monkeypatch):
    whole = BilinearPrior.denoise

    def wrong(self, field, precision, memory=None):
        found = whole(self, field, precision, memory)
        return replace(found, signal=0.5 * found.signal)

    monkeypatch.setattr(BilinearPrior, "denoise", wrong)
    report = check_model(BilinearSequenceRegression(beta=1, rho=0.5, noise=0.3), d=40)
    assert {"denoiser", "size"} <= {check.name for check in report.checks if not check.passed}


def only(monkeypatch, wanted):
    """One check alone: all of them are many times the work."""
    for name, (_, explanation) in testing.CHECKS.items():
        if name != wanted:
            monkeypatch.setitem(testing.CHECKS, name, (lambda case: 0.0, explanation))


@pytest.mark.thorough
def test_mistake_in_a_channel_of_several_rows_is_detected(monkeypatch):
    # The link of the README, whose programs are compiled once for all tests.
    model = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), 2, 1, noise=0.1).at_accuracy(Accuracy(points=64))
    kind = type(model.channel)
    whole = kind.label_from
    monkeypatch.setattr(kind, "label_from", lambda self, fields, noise: 1.5 * whole(self, fields, noise))
    only(monkeypatch, "Nishimori")
    (failed,) = (check.name for check in check_model(model, d=20).checks if not check.passed)
    assert failed == "Nishimori"


@pytest.mark.thorough
def test_report_of_wrong_information_has_both_numbers():
    report = report_of(WrongInformation(0.3))
    found = next(check for check in report.checks if check.name == "information")
    assert not found.passed
    used, other = (float(part.split(" +- ")[0].split()[-1]) for part in found.explanation.split(": ")[1].split(", "))
    assert used == pytest.approx(1.2 * other, rel=0.05)


@pytest.mark.slow
def test_report_of_a_threshold_above_its_bound_has_both_numbers(monkeypatch):
    from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds

    wrong = Thresholds("smi", {}, (Threshold("weak_recovery", 0.55, 1e-3, ""),), None)
    monkeypatch.setattr(testing.checks, "thresholds", lambda model: wrong)
    only(monkeypatch, "thresholds")
    report = check_model(SequenceMultiIndex(lambda z: jnp.abs(z[0, 0]), 1, 1), d=20)
    found = next(check for check in report.checks if check.name == "thresholds")
    assert not found.passed
    assert "weak_recovery = 0.55" in found.explanation
    assert "at most 0.5" in found.explanation or "at most 0.49" in found.explanation
