"""State evolution in time: it ends where state evolution does, and message passing follows it step by step."""

import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    BlindMessagePassing,
    IncompatibleError,
    MessagePassing,
    SequenceMultiIndex,
    hysteresis,
    limits,
    trajectory,
)
from glassformer.errors import ParameterError

NOISY = BilinearSequenceRegression(beta=1, rho=0.5, noise=0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [NOISY, AttentionIndexed(rho=0.5), BilinearSequenceRegression(beta=2, rho=0.3, channel="sign")]
)
def test_it_ends_at_the_fixed_point(model):
    table = trajectory(model, [0.3, 0.7], steps=150)
    assert table.converged
    np.testing.assert_allclose(
        table["error"][[150, 301]], limits(model, [0.3, 0.7])["algorithmic_error"], rtol=1e-5, atol=1e-9
    )
    assert np.all(np.diff(table["error"].reshape(2, -1), axis=1) <= 1e-12)


def test_ridge_regression_in_closed_form():
    """Gaussian weights and linear labels: V' = 1 / (1 + alpha / (V + noise))."""
    table = trajectory(BilinearSequenceRegression(beta=1, rho=np.inf, noise=0.3), 0.8, steps=6)
    known = [1.0]
    for _ in range(6):
        known.append(1 / (1 + 0.8 / (known[-1] + 0.3)))
    np.testing.assert_allclose(table["error"], known, rtol=1e-12)
    np.testing.assert_allclose(table["q_hat"][1:], 0.8 / (np.array(known[:-1]) + 0.3), rtol=1e-12)


def test_a_guess_of_even_labels_grows_at_the_rate_of_the_threshold():
    """Phase retrieval: the overlap grows by alpha / alpha_c a step, alpha_c = 1/2."""
    model = SequenceMultiIndex(lambda z: abs(z[0, 0]), indices=1, tokens=1)
    table = trajectory(model, 0.75, steps=6, start="overlap:1e-6")
    overlap = table["overlap"].ravel()
    np.testing.assert_allclose(overlap[1:4] / overlap[:3], 1.5, rtol=2e-3)


@pytest.mark.thorough
def test_the_errors_of_sampled_averages_are_carried_along():
    """A path of four times the points stays within a few of the errors that the short one claims."""
    few, many = (trajectory(_product(n), 1.5, steps=6, start="overlap:0.05") for n in (64, 256))
    gap = np.abs(few["error"] - many["error"])[1:]
    assert np.all(gap <= 4 * few["error_estimate"][1:] + 1e-4)
    assert np.any(gap > 0)


@pytest.mark.slow
def test_message_passing_follows_it():
    table = trajectory(NOISY, [0.5, 0.9], steps=8, d=60, instances=3)
    gap = np.abs(table["measured_error"] - table["error"])
    assert np.isnan(gap[0])
    assert np.nanmax(gap) < 0.05
    assert table["measured_standard_error"].shape == gap.shape


@pytest.mark.thorough
def test_every_row_is_followed():
    table = trajectory(_product(64), [2.0], MessagePassing(), steps=4, d=60, instances=2)
    assert table["measured_row_error"].shape == table["row_error"].shape == (5, 2)
    assert np.nanmax(np.abs(table["measured_row_error"] - table["row_error"])) < 0.3
    assert table.parameters["d"] == 60


def _product(points):
    return SequenceMultiIndex(lambda z: z[0, 0] * z[1, 0] + z[0, 0], indices=2, tokens=1, noise=0.2).at_accuracy(
        Accuracy(points=points)
    )


def test_vector_message_passing_steps_by_the_eigenvalues_of_independent_inputs():
    """Finite sizes move sums over eigenvalues by about 1/n; state evolution is written out here."""
    inputs = np.random.default_rng(0).standard_normal((400, 800)) / np.sqrt(800)
    known, v = np.linalg.eigvalsh(inputs @ inputs.T), 1.0
    path = trajectory(NOISY, 0.5, "vamp", steps=40)
    for theory in path["error"][1:4]:
        free = np.sum(v * known / (v * known + 0.1)) / 800
        precision = free / (v * (1 - free))
        error = NOISY.prior.mmse(np.array([precision])).value[0]
        v = 1 / (1 / error - precision)
        assert theory == pytest.approx(error, rel=5e-3)
    assert path["error"][-1] == pytest.approx(limits(NOISY, 0.5)["error"][0], rel=1e-9)
    assert path["error"][1] < trajectory(NOISY, 0.5, steps=1)["error"][1]


def test_of_gaussian_weights_the_first_step_of_vector_message_passing_is_the_last():
    model = BilinearSequenceRegression(beta=1, rho=np.inf, noise=0.3)
    found = trajectory(model, [0.0, 0.8, 1.5], "vamp", steps=2)["error"].reshape(3, 3)
    np.testing.assert_allclose(found[:, 1:], limits(model, [0.0, 0.8, 1.5])["error"][:, None] * np.ones(2), rtol=1e-9)


@pytest.mark.parametrize("options", [{"start": "overlap:0.5"}, {"learner": MessagePassing(random_start=0.5)}])
def test_runs_beside_equations_of_another_start_are_refused(options):
    with pytest.raises(IncompatibleError, match=r"start = overlap:0\.5|random_start = 0\.5"):
        trajectory(NOISY, 0.9, steps=2, d=20, instances=1, **options)


@pytest.mark.slow
@pytest.mark.parametrize("learner", ["vamp", "blind-gamp", BlindMessagePassing(assumed_rho=1.0)])
def test_message_passing_on_linear_labels_has_runs_beside_its_equations(learner):
    """Finite-size effects at d = 40 are about 0.02."""
    table = trajectory(NOISY, 0.9, learner, steps=5, d=40, instances=2)
    assert np.nanmax(np.abs(table["measured_error"] - table["error"])) < 0.06
    with pytest.raises(IncompatibleError, match=r"start = overlap:0.1 is for gamp"):
        trajectory(NOISY, 0.9, learner, start="overlap:0.1")


@pytest.mark.thorough
def test_a_wrong_width_is_followed_to_its_limit():
    learner = BlindMessagePassing(assumed_rho=1.5)
    path = trajectory(NOISY, [0.0, 0.9], learner, steps=26)["error"].reshape(2, -1)
    np.testing.assert_array_equal(path[0], 1.0)
    assert path[1, -1] == pytest.approx(limits(NOISY, 0.9, learner)["error"][0], rel=1e-6)


def test_assumptions_of_theory_are_noted():
    model = AttentionIndexed(width=2)
    found = trajectory(model, 1.0, steps=1), hysteresis(model, [1.0, 1.2])
    assert all(set(model.remarks) <= set(table.notes) for table in found)
    assert any(note.startswith("width = 2 of 12") for note in trajectory(model, 1.0, steps=1, d=12, instances=1).notes)


def test_reason_if_no_theory_is_known():
    with pytest.raises(IncompatibleError, match="no equations are known for the steps of ridge"):
        trajectory(NOISY, 0.5, "ridge")
    with pytest.raises(IncompatibleError, match="fixed width"):
        trajectory(BilinearSequenceRegression(beta=1, width=1), 0.5)


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"instances": 8}, "instances = 8 needs simulated runs"),
        ({"seed": 3}, "seed = 3 needs simulated runs"),
        ({"learner": MessagePassing(damping=0.5)}, "damping = 0.5 has no effect on the theory"),
        ({"learner": MessagePassing(damping=0.5), "d": 20}, "damping = 0.5 is not allowed: the theory of"),
    ],
)
def test_settings_without_effect_raise(asked, words):
    with pytest.raises(IncompatibleError, match=words):
        trajectory(NOISY, 0.5, **asked)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("steps", 0),
        ("steps", 2.5),
        ("start", "overlap:1.0"),
        ("start", "overlap:nan"),
        ("start", "warm"),
        ("alpha", -1),
    ],
)
def test_bad_input_is_named(name, value):
    with pytest.raises(ParameterError, match=name):
        trajectory(NOISY, **{"alpha": 0.5, name: value})
