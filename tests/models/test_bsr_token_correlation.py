"""Bilinear sequence regression on correlated tokens: data, and the theory of ridge regression alone."""

import json

import numpy as np
import pytest

from glassformer import (
    AveragedGradientDescent,
    BilinearSequenceRegression,
    BlindMessagePassing,
    GradientDescent,
    IncompatibleError,
    NuclearNorm,
    RegularisedRisk,
    Ridge,
    Sweep,
    VectorMessagePassing,
    hysteresis,
    landscape,
    limits,
    phase_diagram,
    plan,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.bayes_optimal.conjugate_overlap import conjugate_overlap
from glassformer.bayes_optimal.free_entropy import free_entropy
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.bayes_optimal.staircase import subspace_threshold
from glassformer.bayes_optimal.vector_state_evolution import vector_state_evolution
from glassformer.cli import main
from glassformer.core.hashing import identity
from glassformer.designs.dense import DenseDesign
from glassformer.designs.generated import GeneratedDesign
from glassformer.errors import ParameterError
from glassformer.learners.registry import resolve_learner
from glassformer.sweeps.collect import collect
from glassformer.sweeps.run import run_sweep
from glassformer.verbs.instances import Simulation
from glassformer.verbs.simulate import experiment_of

CORRELATED = BilinearSequenceRegression(beta=0.5, rho=0.3, noise=0.1, token_correlation=0.5)
INDEPENDENT = BilinearSequenceRegression(beta=0.5, rho=0.3, noise=0.1)
REASON = (
    r"token_correlation = 0.5: of bsr with correlated tokens only the theory of ridge is known .*: use learner ridge"
)


def correlation(c, tokens):
    place = np.arange(tokens)
    return c ** np.abs(place[:, None] - place)


def drawn(model, samples, d=8, storage="float64"):
    size = model.at_size(d)
    return size.design.sample(samples, size.input_shape, np.random.default_rng(3), storage)


def test_tokens_have_the_covariance():
    inputs = drawn(CORRELATED, 20_000).inputs[0]
    found = np.einsum("nld,nmd->lm", inputs, inputs) / (20_000 * 8)
    # 160 000 products of two numbers of variance at most 2: five standard errors.
    assert np.max(np.abs(found - correlation(0.5, 4))) < 5 * np.sqrt(2 / 160_000)


def test_inputs_are_the_root_times_independent_ones_and_labels_are_theirs():
    values, vectors = np.linalg.eigh(correlation(0.5, 4))
    root = (vectors * np.sqrt(values)) @ vectors.T
    correlated, independent = (drawn(model, 50) for model in (CORRELATED, INDEPENDENT))
    assert isinstance(correlated, DenseDesign)
    assert np.allclose(correlated.inputs, np.einsum("lm,inmd->inld", root, independent.inputs), atol=1e-12)
    signal = np.random.default_rng(0).standard_normal((4, 8))
    # Labels see C^(1/2) S with independent tokens.
    assert np.allclose(correlated.forward(signal, 0), independent.forward(root @ signal, 0), atol=1e-12)


@pytest.mark.parametrize("storage", ["float64", "float32"])
def test_a_longer_draw_begins_alike(storage):
    short, long = (drawn(CORRELATED, n, storage=storage).inputs for n in (7, 2500))
    assert long.dtype == storage
    assert np.array_equal(short, long[:, :7])


def test_a_matrix_and_its_number_are_one():
    by_matrix = CORRELATED.varied(token_correlation=correlation(0.5, 4))
    assert np.array_equal(drawn(by_matrix, 5).inputs, drawn(CORRELATED, 5).inputs)
    assert by_matrix.at_size(8).model.parameters["token_correlation"] == correlation(0.5, 4).tolist()
    with pytest.raises(IncompatibleError, match=r"token_correlation = <matrix of shape \(4, 4\)>"):
        limits(by_matrix, [0.5])


def test_ridge_has_a_theory_at_any_strength():
    """With the 32 eigenvalues of 32 tokens, 12 runs had 0.4941(62), and 0.4069(40) on new labels."""
    model = BilinearSequenceRegression(rho=0.5, noise=0.1, token_correlation=0.6)
    of_32 = model.varied(token_correlation=correlation(0.6, 32))
    found = [limits(one, [0.7], Ridge(0.2)) for one in (model, of_32)]
    assert [round(table["error"][0], 6) for table in found] == [0.495621, 0.493841]
    assert [round(table["test_error"][0], 6) for table in found] == [0.402128, 0.405868]
    assert np.allclose(found[0]["prediction_error"], found[0]["test_error"] - 0.1)
    best, noise = (limits(model, [0.3, 0.7, 2.0], ridge) for ridge in (Ridge(), Ridge(0.1)))
    assert best.to_pandas().drop(columns="status").equals(noise.to_pandas().drop(columns="status"))
    assert thresholds(model, "ridge")["interpolation"].alpha == 1
    assert limits(model, plan(model, 0.3, "ridge")["ridge"].alpha, "ridge")["error"] == pytest.approx(0.3)
    with pytest.raises(IncompatibleError, match="give the matrix"):
        limits(model.varied(token_correlation=0.999), [0.7], "ridge")


def test_few_correlations_are_none():
    one, other = (BilinearSequenceRegression(rho=0.5, noise=0.1, token_correlation=c) for c in (0.0, 1e-9))
    ratios = [0.3, 1.0, 2.0]
    assert np.allclose(limits(one, ratios, Ridge(0.3))["error"], limits(other, ratios, Ridge(0.3))["error"], atol=1e-12)


@pytest.mark.slow
def test_ridge_agrees_with_runs():
    model = BilinearSequenceRegression(rho=0.5, noise=0.1, token_correlation=0.6)
    found = simulate(model, [0.7], Ridge(0.2), d=32, instances=4)
    # Runs at 32 tokens differ from the limit of many tokens by 0.002.
    assert abs(found["error"] - found["theory"]) < 4 * found["standard_error"] + 0.01
    assert np.isnan(found["theory_bayes_optimal"]).all()


def test_parameters_and_identity_have_it():
    assert CORRELATED.parameters["token_correlation"] == 0.5
    assert CORRELATED.at_size(8).model.token_correlation == 0.5
    assert CORRELATED.varied(noise=0.2).token_correlation == 0.5
    assert identity(CORRELATED.at_size(8)) != identity(INDEPENDENT.at_size(8))


@pytest.mark.parametrize("nothing", [0, 0.0, np.eye(4)])
def test_without_correlations_nothing_changes(nothing):
    model = INDEPENDENT.varied(token_correlation=nothing)
    assert model.theory_unavailable_reason is None
    assert model.parameters == INDEPENDENT.parameters
    assert model.at_size(8).design is DenseDesign
    assert np.array_equal(limits(model, [0.5])["error"], limits(INDEPENDENT, [0.5])["error"])
    first, second = (simulate(one, [0.5], "ridge", d=8, instances=1) for one in (model, INDEPENDENT))
    assert first["error"] == second["error"]
    assert first["theory"] == second["theory"]


ALPHA = np.array([0.4, 0.8])
DOORS = {
    "limits": lambda model: limits(model, ALPHA),
    "limits of many ratios": lambda model: limits(model, np.linspace(0.1, 1, 20)),
    "state_evolution": lambda model: state_evolution(model, ALPHA),
    "thresholds": thresholds,
    "landscape": lambda model: landscape(model, 0.5),
    "free_entropy": lambda model: free_entropy(model, 0.5, np.array([1.0])),
    "hysteresis": lambda model: hysteresis(model, ALPHA),
    "trajectory": lambda model: trajectory(model, ALPHA),
    "trajectory beside runs": lambda model: trajectory(model, ALPHA, d=8),
    "trajectory of risk": lambda model: trajectory(model, ALPHA, RegularisedRisk(strength=0.1)),
    "conjugate_overlap": lambda model: conjugate_overlap(model, 0.5),
    "subspace_threshold": lambda model: subspace_threshold(model, 0),
    "phase_diagram": lambda model: phase_diagram(model, "noise", [0.1, 0.2]),
    "plan": lambda model: plan(model, 0.5),
    "plan of risk": lambda model: plan(model, 0.5, RegularisedRisk("square", "ridge", 0.1)),
    "vector_state_evolution": lambda model: vector_state_evolution(model, np.ones(10), 32),
    "assumed width": lambda model: limits(model, ALPHA, BlindMessagePassing(assumed_rho=0.4)),
}
LEARNERS = [NuclearNorm(), RegularisedRisk(), RegularisedRisk(strength=0.1), BlindMessagePassing()]
LEARNERS = [*LEARNERS, VectorMessagePassing(), resolve_learner("gamp")]


@pytest.mark.parametrize("door", DOORS)
def test_theory_is_refused_with_the_reason(door, monkeypatch):
    monkeypatch.setattr("glassformer.verbs.instances.Experiment.runs", lambda _: pytest.fail("data were drawn"))
    with pytest.raises(IncompatibleError, match=REASON):
        DOORS[door](CORRELATED)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_theory_of_every_learner_is_refused(learner):
    for ask in (
        lambda m: thresholds(m, learner),
        lambda m: limits(m, ALPHA, learner),
        lambda m: hysteresis(m, ALPHA, learner),
    ):
        with pytest.raises(IncompatibleError, match=REASON):
            ask(CORRELATED)


STEPS = {"steps": 100}
FITTED = [NuclearNorm(), RegularisedRisk(strength=0.1), VectorMessagePassing(), resolve_learner("gamp")]
FITTED = [*FITTED, BlindMessagePassing(), GradientDescent(**STEPS)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [*FITTED, pytest.param(AveragedGradientDescent(initialisations=2, **STEPS), marks=pytest.mark.thorough)],
    ids=lambda learner: learner.name,
)
def test_learners_learn_from_it_beside_no_theory(learner):
    found = simulate(CORRELATED, [1.5], learner, d=12, instances=2)
    assert isinstance(found, Simulation)
    assert np.isfinite(found["error"]).all()
    for name in ("theory", "theory_bayes_optimal", "theory_error_estimate"):
        assert np.isnan(found[name]).all()
    assert CORRELATED.theory_unavailable_reason in found.notes
    assert found.parameters["token_correlation"] == 0.5


def test_least_squares_recovers_the_signal_for_correlated_tokens():
    """Without noise and with more samples than entries; that of rotated inputs would be C^(1/2) S."""
    model = CORRELATED.varied(noise=0.0)
    assert simulate(model, [1.5], "ridge", d=12, instances=1)["error"] < 1e-12


def test_errors_on_labels_are_left_out():
    """They are those of fields of independent tokens."""
    model = BilinearSequenceRegression(beta=0.5, rho=0.3, channel="sign", token_correlation=0.5)
    found = simulate(model, [2.0], RegularisedRisk("logistic", strength=0.1), d=12, instances=1)
    assert found["error"][0] > 0
    assert not {"label_error", "prediction_error"} & set(found.columns)


def test_risk_has_no_best_strength():
    with pytest.raises(
        IncompatibleError, match=r"best strength follows from theory.*token_correlation.*give a strength"
    ):
        simulate(CORRELATED, [1.0], "risk", d=12)


def test_inputs_drawn_again_are_correlated():
    experiment = experiment_of(CORRELATED, [1.5], 12, 1, 0, RegularisedRisk(strength=0.1), "generated")
    size = experiment.size
    design = GeneratedDesign(size.design, (0, 1), 40, size.input_shape, block=7)
    independent = GeneratedDesign(DenseDesign, (0, 1), 40, size.input_shape, block=7)
    root, signal = np.array(size.design.root), np.random.default_rng(0).standard_normal(size.input_shape)
    # Single precision: some 70 terms of a relative error of 1e-7 each.
    assert np.allclose(design.forward(signal, 0), independent.forward(root @ signal, 0), atol=1e-5)
    assert np.allclose(design.stored().forward(signal, 0), design.forward(signal, 0), atol=1e-5)
    assert experiment.runs()[0][0].error < 1


def test_inputs_shared_out_are_those_of_one_array():
    ask = {"alpha": [1.5], "d": 12, "instances": 1, "learner": RegularisedRisk(strength=0.1)}
    stored, shared = (simulate(CORRELATED, storage=storage, **ask) for storage in ("float32", "sharded"))
    assert shared["error"] == pytest.approx(stored["error"], rel=1e-3)


NO_CORRELATIONS = [1.0, -1.0, np.nan, "much", None, [], [[1.0]], [[1.0, 0.5]], [[1.0, 2.0], [2.0, 1.0]], 2 * np.eye(3)]


@pytest.mark.parametrize("wrong", NO_CORRELATIONS, ids=repr)
def test_invalid_correlations_raise(wrong):
    with pytest.raises(ParameterError, match="token_correlation"):
        BilinearSequenceRegression(rho=0.3, token_correlation=wrong)


def test_the_number_of_tokens_has_to_be_right():
    with pytest.raises(ParameterError, match=r"token_correlation = .*shape \(4, 4\)"):
        CORRELATED.varied(token_correlation=correlation(0.5, 3)).at_size(8)
    with pytest.raises(ParameterError, match="0 for a single token"):
        CORRELATED.varied(beta=0.1).at_size(8)


def test_command_line(capsys):
    asked = ["bsr", "--rho", "0.3", "--beta", "0.5", "--token-correlation", "0.5", "--alpha", "1.5"]
    assert main(["limits", *asked]) == 2
    assert "of bsr with correlated tokens only the theory of ridge is known" in capsys.readouterr().err
    assert main(["simulate", *asked, "--d", "12", "--instances", "1", "--learner", "ridge", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["points"]
    assert row["error"] > 0
    assert row["theory_bayes_optimal"] is None
    assert row["theory"] == 0  # without noise


def test_sweeps_vary_it(tmp_path):
    """Numbers on this axis were refused, of every model that has it: "expected a name"."""
    grid, fixed = {"token_correlation": [0.0, 0.5], "alpha": [1.5]}, {"rho": 0.3, "beta": 0.5, "noise": 0.1}
    run_sweep(Sweep("bsr", grid, "simulate", fixed, "ridge", {"d": 12}), tmp_path / "store")
    found = collect(tmp_path / "store")
    assert np.isfinite(found["error"]).all()
    assert np.isfinite(found["theory"]).all()


@pytest.mark.slow
def test_drawing_leaves_out_the_theory(tmp_path):
    path = tmp_path / "runs.png"
    simulate(CORRELATED, [0.5, 1.5], "ridge", d=12, instances=2).plot(path)
    assert path.stat().st_size > 0
