"""What must hold for message passing on the data of every model."""

from __future__ import annotations

import numpy as np
import pytest

from glassformer import Accuracy, BilinearSequenceRegression, Status
from glassformer.core.errors import DataWarning
from glassformer.designs.dense import DenseDesign
from glassformer.learners.gamp import MessagePassing, gamp
from glassformer.verbs.simulate import simulate

TIGHT = MessagePassing(floor=1e-16).at_accuracy(Accuracy(tolerance=1e-9, max_iterations=2000))
# Where message passing moves over random starts (even channels), and where it does not.
LINEAR = BilinearSequenceRegression(beta=2, rho=0.4, noise=0.1)
SIGN = BilinearSequenceRegression(beta=0.5, rho=0.4, channel="sign")
ABSOLUTE = BilinearSequenceRegression(beta=1, rho=0.3, channel="absolute")
NARROW = BilinearSequenceRegression(beta=1.5, width=2, noise=0.1)
BOUND = 1.05


def runs(case):
    return case.result.instances[0]


def error_of(solution, signal):
    return float(np.mean((solution.value[0] - signal) ** 2))


def transposed(model):
    if model.width is not None:
        return BilinearSequenceRegression(1 / model.beta, noise=model.noise, channel=model.channel, width=model.width)
    return BilinearSequenceRegression(1 / model.beta, model.rho / model.beta, model.noise, model.channel)


# --- against theory, on every model with data -------------------------------------------------------------------------


@pytest.mark.slow
def test_every_run_converges(case):
    assert [str(run.status) for run in runs(case)] == ["converged"] * len(runs(case))


def test_agrees_with_theory(case):
    """Within five standard errors and a finite-size term 1/d, errors counted in units of the teacher's power."""
    gap = abs(case.result["relative_error"][0] - case.result["theory"][0])
    assert gap <= 5 * case.result["relative_standard_error"][0] + 1 / case.d


def test_claims_its_true_error(case):
    gap = np.array([run.claimed_error - run.error for run in runs(case)])
    assert abs(gap.mean()) <= 5 * gap.std(ddof=1) / np.sqrt(gap.size) + 1 / case.d


def test_measured_and_predicted_residuals_agree(case):
    ratio = np.log([run.nishimori_ratio for run in runs(case)])
    shape = (round(case.model.beta * case.d), case.d)
    samples = case.alpha * (case.model.width * sum(shape) if case.model.width else shape[0] * shape[1])
    chance = np.sqrt(2 / samples) + case.model.prior.power_deviation(shape)
    assert abs(ratio.mean()) <= 5 * chance / np.sqrt(ratio.size)


@pytest.mark.slow
def test_estimate_overlaps_with_the_signal_as_with_itself(draw):
    """Nishimori: posterior mean and teacher are exchangeable, |<S>|^2 = <S>.S* on average."""
    differences = []
    for seed in range(6):
        signal, design, labels = draw(LINEAR, 20, 0.6, seed)
        estimate = gamp(LINEAR, design, labels).value[0]
        differences.append(np.mean(estimate * (estimate - signal)))
    assert abs(np.mean(differences)) <= 5 * np.std(differences, ddof=1) / np.sqrt(6) + 1e-3


@pytest.mark.thorough
def test_an_even_channel_is_solved_up_to_a_global_sign():
    result = simulate(ABSOLUTE, [1.0], d=30, instances=2, seed=2)
    for run in result.instances[0]:
        assert run.error < 1e-6 or not run.status.ok
    assert any(run.error < 1e-6 for run in result.instances[0])


# --- symmetries and repetition ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    "model", [SIGN, NARROW, pytest.param(LINEAR, marks=pytest.mark.thorough)], ids=["sign", "narrow", "linear"]
)
def test_transposed_data_give_the_transposed_estimate(model, draw):
    signal, design, labels = draw(model, 24, 2.0 if model.width else 0.6)
    turned = DenseDesign(np.ascontiguousarray(np.swapaxes(design.inputs, 2, 3)))
    direct, other = gamp(model, design, labels, TIGHT), gamp(transposed(model), turned, labels, TIGHT)
    assert direct.converged
    assert other.converged
    assert error_of(direct, signal) == pytest.approx(error_of(other, signal.T), abs=1e-6)
    np.testing.assert_allclose(direct.value[0], other.value[0].T, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    # Linear labels: tests/conformance/test_learners.py.
    [SIGN, *(pytest.param(one, marks=pytest.mark.thorough) for one in (LINEAR, ABSOLUTE, NARROW))],
    ids=["sign", "linear", "absolute", "narrow"],
)
def test_one_seed_gives_identical_bits(model):
    first, second = (simulate(model, [0.5, 0.9], d=16, instances=2, seed=7) for _ in range(2))
    assert first.to_dict() == second.to_dict()


@pytest.mark.slow
def test_instances_are_the_runs_of_consecutive_seeds():
    together = simulate(LINEAR, [0.7], d=24, instances=2, seed=5).instances[0]
    alone = simulate(LINEAR, [0.7], d=24, instances=1, seed=6).instances[0]
    assert together[1] == alone[0]
    assert together[0].error != together[1].error


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model",
    [LINEAR, *(pytest.param(one, marks=pytest.mark.thorough) for one in (SIGN, NARROW))],
    ids=["linear", "sign", "narrow"],
)
def test_a_smaller_sample_is_the_beginning_of_a_larger_one(model):
    nested = simulate(model, [0.4, 0.8, 1.2], d=16, instances=2, seed=1)
    for point, alpha in enumerate([0.4, 0.8]):
        single = simulate(model, [alpha], d=16, instances=2, seed=1)
        for a, b in zip(nested.instances[point], single.instances[0], strict=True):
            assert a.error == pytest.approx(b.error, rel=1e-12)
    short, long = (DenseDesign.sample(n, (5, 4), np.random.default_rng(0)) for n in (10, 30))
    np.testing.assert_array_equal(long.first(10).inputs, short.inputs)
    assert np.shares_memory(long.first(10).inputs, long.inputs)


@pytest.mark.slow
@pytest.mark.parametrize("model", [LINEAR, SIGN, NARROW], ids=["linear", "sign", "narrow"])
def test_single_precision_storage_changes_little(model, draw):
    signal, design, labels = draw(model, 24, 2.0 if model.width else 0.6)
    stored = DenseDesign(design.inputs.astype(np.float32))
    exact, rounded = gamp(model, design, labels), gamp(model, stored, labels)
    assert rounded.value.dtype == np.float64
    assert rounded.status == exact.status
    assert error_of(rounded, signal) == pytest.approx(error_of(exact, signal), abs=1e-3)


@pytest.mark.thorough
def test_single_precision_simulation_agrees_with_theory():
    result = simulate(LINEAR, [0.6], d=30, instances=4, seed=3, storage="float32")
    assert result.converged
    gap = abs(result["relative_error"][0] - result["theory"][0])
    assert gap <= 5 * result["relative_standard_error"][0] + 1 / 40


@pytest.mark.slow
def test_instances_of_one_design_do_not_mix(draw):
    parts = [draw(LINEAR, 20, 0.6, seed) for seed in (0, 1)]
    both = DenseDesign(np.concatenate([design.inputs for _, design, _ in parts]))
    batch = gamp(LINEAR, both, np.array([labels for *_, labels in parts]))
    for k, (_, design, labels) in enumerate(parts):
        np.testing.assert_allclose(batch.value[k], gamp(LINEAR, design, labels).value[0], atol=1e-12)


# --- self-diagnosis ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wrong_noise_is_contradicted_by_the_residual(draw):
    """A student told that labels are exact, when they are not, must not call its answer converged."""
    _, design, labels = draw(BilinearSequenceRegression(beta=1, rho=0.3, noise=0.5), 40, 1.2)
    exact = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.0)
    with pytest.warns(DataWarning, match="the noise of the model is wrong"):
        assert not gamp(exact, design, labels).converged


def test_iteration_limit_is_reported(draw):
    _, design, labels = draw(LINEAR, 24, 0.6)
    solution = gamp(LINEAR, design, labels, MessagePassing().at_accuracy(Accuracy(max_iterations=2)))
    assert solution.status == [Status.ITERATION_LIMIT]
    assert solution.iterations[0] == 2


@pytest.mark.thorough
def test_fixed_damping_reaches_the_same_estimate(draw):
    signal, design, labels = draw(LINEAR, 20, 0.6)
    free = gamp(LINEAR, design, labels, MessagePassing().at_accuracy(Accuracy(tolerance=1e-7, max_iterations=1000)))
    damped = gamp(
        LINEAR, design, labels, MessagePassing(damping=0.4).at_accuracy(Accuracy(tolerance=1e-7, max_iterations=1000))
    )
    assert damped.converged
    assert error_of(damped, signal) == pytest.approx(error_of(free, signal), abs=1e-5)


# --- it never diverges ------------------------------------------------------------------------------------------------

OTHER_SHAPES = [(0.5, 0.2), (0.5, 1.0), (1.0, 0.2), (2.0, 0.2), (2.0, 1.0)]


def stays_bounded(d, beta, rho, noise):
    """Every run ends finite, and no better than no knowledge at all only where its status says so."""
    model = BilinearSequenceRegression(beta=beta, rho=rho, noise=noise)
    result = simulate(model, [0.05, 0.2, 0.5, 1.1], d=d, instances=1, seed=0)
    for point in result.instances:
        for run in point:
            assert np.isfinite(run.error)
            assert run.error <= BOUND * run.prior_error or not run.status.ok
            assert np.isfinite(run.claimed_error)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, pytest.param(0.1, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    ("beta", "rho"),
    [(1.0, 1.0), *(pytest.param(*pair, marks=pytest.mark.thorough) for pair in OTHER_SHAPES)],
)
def test_never_diverges_at_small_size(beta, rho, noise):
    stays_bounded(24, beta, rho, noise)


@pytest.mark.thorough
@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("rho", [0.2, 1.0])
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_never_diverges_at_moderate_size(beta, rho, noise):
    stays_bounded(60, beta, rho, noise)


OTHERS = {
    "sign": {"rho": 0.3, "channel": "sign"},
    "absolute": {"rho": 0.3, "channel": "absolute"},
    "narrow": {"width": 2},
    "narrow noisy": {"width": 1, "noise": 0.1},
    "narrow sign": {"width": 2, "channel": "sign"},
    "narrow absolute": {"width": 1, "channel": "absolute"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("model", OTHERS)
@pytest.mark.parametrize("alpha", [0.05, 0.5, 0.9, 1.3])
def test_other_models_never_diverge_either(model, alpha):
    model = BilinearSequenceRegression(beta=1, **OTHERS[model])
    for run in simulate(model, [alpha], d=24, instances=3, seed=0).instances[0]:
        assert np.isfinite(run.error)
        assert run.error <= BOUND * run.prior_error or not run.status.ok
