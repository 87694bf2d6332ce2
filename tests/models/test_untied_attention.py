"""Attention of extensive width with keys and queries of their own."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, IncompatibleError, limits, simulate, thresholds
from glassformer.bayes_optimal.vector_state_evolution import vector_trajectory
from glassformer.channels.parameters import at_power
from glassformer.cli import main
from glassformer.designs.pairs import PairDesign
from glassformer.errors import DataError
from glassformer.testing import check_model

MODELS = {
    "linear": AttentionIndexed(0.3, channel="linear", noise=0.2, untied=True),
    "softmax": AttentionIndexed(0.3, tokens=3, untied=True),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["softmax", pytest.param("linear", marks=pytest.mark.thorough)])
def test_channel_and_design_agree(name):
    report = check_model(MODELS[name], d=24)
    assert report.ok, str(report)
    assert sum(check.made for check in report.checks) >= 4


@pytest.mark.parametrize(("channel", "seen"), [("linear", 9), ("softmax", 6)])
def test_counting(channel, seen):
    found = thresholds(AttentionIndexed(0.3, tokens=3, channel=channel, untied=True))["perfect_recovery"]
    assert found.alpha == pytest.approx((2 * 0.3 - 0.3**2) / seen)


@pytest.mark.slow
def test_message_passing_recovers_above_the_counting_threshold_and_not_below():
    found = simulate(AttentionIndexed(0.3, untied=True), [0.15, 0.4], d=30, instances=2)
    assert found["error"][0] > 0.3
    assert found["error"][1] < 1e-5


def test_linear_indices_are_as_many_labels_of_bilinear_regression():
    """``T^2`` independent fields a sample: the same errors at as many labels."""
    alpha = np.array([0.1, 0.3])
    one = limits(BilinearSequenceRegression(beta=1, rho=0.3, noise=0.2), 4 * alpha)
    np.testing.assert_allclose(limits(MODELS["linear"], alpha)["error"], one["error"], rtol=1e-9)


def test_forward_and_adjoint_are_transposes():
    rng = np.random.default_rng(0)
    design = PairDesign.sample(7, (6, 5), rng)
    signal, score = rng.standard_normal((5, 5)), rng.standard_normal((7, 9))
    fields = design.forward(signal, 0)
    assert fields.shape == (7, 9)
    x, z = design.inputs[0][:, :3], design.inputs[0][:, 3:]
    np.testing.assert_allclose(fields[2, 1 * 3 + 2], x[2, 1] @ signal @ z[2, 2] / 5)
    assert np.sum(fields * score) == pytest.approx(np.sum(signal * design.adjoint(score, 0)))


@pytest.mark.parametrize(
    "given",
    [
        {"channel": "hardmax"},
        {"noise": 0.1},
        {"link": lambda h: h},
        {"channel": "linear", "temperature": 2.0},
    ],
)
def test_impossible_combinations_are_refused(given):
    with pytest.raises(IncompatibleError):
        AttentionIndexed(0.3, untied=True, **given)


def test_labels_must_be_attention():
    channel = MODELS["softmax"].channel
    with pytest.raises(DataError, match="sum to one"):
        channel.score(np.ones((1, 3, 3)), np.zeros((1, 9)), 1.0)


def test_the_command_line(capsys):
    assert (
        main(["limits", "aim", "--alpha", "0.1", "--rho", "0.3", "--untied", "--channel", "linear", "--noise", "0.2"])
        == 0
    )
    assert "untied = True" in capsys.readouterr().out


def test_vector_message_passing_counts_all_labels_of_a_sample():
    model, alpha = MODELS["linear"], [0.15, 0.4]
    found = vector_trajectory(model, alpha, 60)["error"].reshape(2, -1)[:, -1]
    np.testing.assert_allclose(found, limits(model, alpha)["error"], rtol=1e-6)


def test_finished_channels_must_be_those_of_untied_keys():
    tied, wide = AttentionIndexed(0.3).channel, AttentionIndexed(0.3, tokens=3, untied=True).channel
    with pytest.raises(IncompatibleError, match="untied exclude each other"):
        AttentionIndexed(0.3, channel=at_power(tied, 1.0), untied=True)
    with pytest.raises(IncompatibleError, match="the channel has tokens = 3, the model tokens = 2"):
        AttentionIndexed(0.3, channel=wide, untied=True)
