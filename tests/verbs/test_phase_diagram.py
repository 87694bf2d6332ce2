"""Thresholds against one parameter, those that a finished channel holds included."""

import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, limits, phase_diagram, thresholds
from glassformer.bayes_optimal.threshold_results import Threshold, Thresholds
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.verbs.phase_diagram import PhaseDiagram


@pytest.mark.parametrize(
    ("kind", "given", "name", "value"),
    [
        (BilinearSequenceRegression, {}, "noise", 0.2),
        (BilinearSequenceRegression, {"noise": 0.4}, "noise", 0.2),
        (BilinearSequenceRegression, {"channel": "sign"}, "noise", 0.2),
        (BilinearSequenceRegression, {"link": np.sign}, "noise", 0.2),
        (BilinearSequenceRegression, {"channel": "sign", "noise_law": "flip:0.1"}, "beta", 2.0),
        (AttentionIndexed, {"channel": "linear"}, "noise", 0.2),
        (AttentionIndexed, {"channel": "softmax"}, "temperature", 2.0),
    ],
)
def test_a_varied_model_is_the_one_made_with_that_value(kind, given, name, value):
    varied = kind(rho=0.5, **given).varied(**{name: value})
    made = kind(rho=0.5, **{**given, name: value})
    assert varied.parameters == made.parameters
    # Varied again it is no other than at first.
    assert varied.varied(rho=0.3).varied(rho=0.5).parameters == made.parameters
    np.testing.assert_array_equal(limits(varied, [0.3])["error"], limits(made, [0.3])["error"])


def test_thresholds_over_noise():
    diagram = phase_diagram(BilinearSequenceRegression(rho=0.5, noise=0.3), "noise", [0.0, 0.1])
    np.testing.assert_array_equal(diagram.curve("perfect_recovery"), [0.75, np.nan])
    assert "noise" not in diagram.parameters


def test_noise_of_a_channel_given_as_an_object():
    model = BilinearSequenceRegression(rho=0.5, channel=GaussianChannel(0.1))
    with pytest.raises(IncompatibleError, match=r"noise = 0.2 and channel = GaussianChannel\(noise=0.1\)"):
        phase_diagram(model, "noise", [0.1, 0.2])


def test_thresholds_along_whole_numbers(tmp_path):
    model = AttentionIndexed(rho=0.5)
    diagram = phase_diagram(model, "tokens", [2.0, 4.0])
    assert [type(value) for value in diagram.values] == [int, int]
    alone = [thresholds(model.varied(tokens=tokens))["perfect_recovery"].alpha for tokens in (2, 4)]
    np.testing.assert_array_equal(diagram.curve("perfect_recovery"), alone)
    assert {row["tokens"] for row in diagram.to_dict()["points"]} == {2, 4}
    with pytest.raises(ParameterError, match=r"tokens = 2.5 is not allowed: expected whole numbers"):
        phase_diagram(model, "tokens", [2, 2.5])


def test_a_layer_more_brings_thresholds_that_the_first_value_has_not():
    both = (Threshold("weak_recovery", 0.2, 0.0, ""), Threshold("weak_recovery_2", 0.7, 0.0, ""))
    found = [Thresholds("attention", {"depth": depth}, both[:depth], None) for depth in (1, 2)]
    diagram = PhaseDiagram("attention", "depth", [1, 2], found)
    assert diagram.names == ["weak_recovery", "weak_recovery_2"]
    np.testing.assert_array_equal(diagram.curve("weak_recovery_2"), [np.nan, 0.7])
