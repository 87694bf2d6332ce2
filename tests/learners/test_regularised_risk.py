"""Regularised risk on data: certificates, agreement with other solvers and with theory, options of the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import scipy.optimize

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    GradientDescent,
    IncompatibleError,
    RegularisedRisk,
    limits,
    simulate,
)
from glassformer.channels.attention.shares import shares_of
from glassformer.cli import main
from glassformer.core.settings import Iteration
from glassformer.core.status import Status
from glassformer.designs.dense import DenseDesign
from glassformer.designs.quadratic import QuadraticDesign
from glassformer.learners.empirical_risk import EmpiricalRisk
from glassformer.learners.nuclear_norm import least_nuclear_norm
from glassformer.learners.proximal_gradient import least_risk
from glassformer.learners.ridge import ridge
from glassformer.risk.cross_entropy import CrossEntropy
from glassformer.risk.losses import Hinge, Huber, Logistic, Square
from glassformer.risk.penalties import ElasticNet

SIGNS = BilinearSequenceRegression(beta=1, rho=0.3, channel="sign")


def data(sign=False, d=10, samples=120):
    rng = np.random.default_rng(3)
    design = DenseDesign.sample(samples, (d, d), rng)
    fields = design.forward(np.outer(rng.standard_normal(d), rng.standard_normal(d)), 0)
    return design, np.sign(fields) if sign else fields + 0.3 * rng.standard_normal(samples)


def test_square_loss_agrees_with_the_other_solvers():
    design, labels = data()
    accurate = Iteration(tolerance=1e-9, max_iterations=20000)
    mine = least_risk(EmpiricalRisk(design, labels, Square(), ElasticNet(2.0)), accurate)
    other = least_nuclear_norm(design, labels, penalty=2.0, settings=Iteration(tolerance=1e-10))
    np.testing.assert_allclose(mine.value, other.value, atol=1e-4)
    flat = least_risk(EmpiricalRisk(design, labels, Square(), ElasticNet(0.0, 0.7)), accurate)
    np.testing.assert_allclose(flat.value, ridge(design, labels, 0.7).value, atol=3e-5)
    assert mine.converged and flat.converged


@pytest.mark.slow
@pytest.mark.parametrize("loss", [Square(), Logistic(), Huber()])
@pytest.mark.parametrize("width", [1.0, 1e4])
def test_smooth_risks_of_inputs_in_single_precision_reach_their_minimum(loss, width):
    """Of inputs, moreover, whose scales are far apart, or all far from one."""
    rng = np.random.default_rng(0)
    inputs = width * rng.standard_normal((200, 10, 10)) * np.geomspace(0.1, 10, 10)
    fields = DenseDesign(inputs).forward(rng.standard_normal((10, 10)), 0)
    labels = fields / fields.std() + rng.standard_normal(200)
    strength, settings = 1e-3 * width**2, Iteration(tolerance=1e-6, max_iterations=3000)
    risks = []
    for stored in (inputs.astype(np.float32), inputs):
        given = np.sign(labels) if isinstance(loss, Logistic) else labels
        found = least_risk(EmpiricalRisk(DenseDesign(stored), given, loss, ElasticNet(0.0, strength)), settings)
        assert found.converged
        risks.append(found.extra["risk"][0])
    np.testing.assert_allclose(*risks, rtol=1e-5)


@pytest.mark.parametrize("loss", [Logistic(), Huber(0.2)])
@pytest.mark.parametrize(("spectral", "square"), [(0.5, 0.0), (0.0, 0.5), (0.3, 0.3)])
def test_gap_bounds_the_distance_from_the_minimum(loss, spectral, square):
    """No small change of the estimate lowers the risk by more than the certified gap."""
    design, labels = data(sign=True)
    risk = EmpiricalRisk(design, labels, loss, ElasticNet(spectral, square))
    found = least_risk(risk, Iteration(tolerance=1e-7, max_iterations=20000))
    nothing = np.sum(loss.value(labels, np.zeros(len(labels))))

    def value(matrix):
        penalty = spectral * np.linalg.svd(matrix, compute_uv=False).sum() + 0.5 * square * np.sum(matrix**2)
        return np.sum(loss.value(labels, design.forward(matrix, 0))) + penalty

    least, rng = value(found.value[0]), np.random.default_rng(0)
    assert found.converged
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            assert value(found.value[0] + size * rng.standard_normal((10, 10))) >= least - 1.1e-7 * nothing


def test_logistic_with_ridge_is_that_of_a_general_solver():
    design, labels = data(sign=True)
    found = least_risk(
        EmpiricalRisk(design, labels, Logistic(), ElasticNet(0.0, 0.5)),
        Iteration(tolerance=1e-10, max_iterations=20000),
    )
    inputs = design.inputs[0].reshape(len(labels), -1) / 10

    def objective(s):
        margin = labels * (inputs @ s)
        slope = -(labels / (1 + np.exp(margin))) @ inputs + 0.5 * s
        return np.sum(np.logaddexp(0, -margin)) + 0.25 * s @ s, slope

    other = scipy.optimize.minimize(objective, np.zeros(100), jac=True, method="L-BFGS-B", options={"ftol": 1e-15})
    np.testing.assert_allclose(found.value[0].ravel(), other.x, atol=1e-4)


@pytest.mark.parametrize(("channel", "tokens"), [("hardmax", 2), ("hardmax", 3), ("softmax", 3)])
def test_cross_entropy_has_a_certified_gap(channel, tokens):
    """No change to another positive matrix lowers the risk by more than the certified gap."""
    model = AttentionIndexed(rho=0.5, tokens=tokens, channel=channel).at_size(8)
    rng, loss = np.random.default_rng(tokens), CrossEntropy(1.0)
    design = QuadraticDesign(rng.standard_normal((60, tokens, 8)))
    teacher = rng.standard_normal((8, 4))
    labels = model.model.channel.sample(design.forward(teacher @ teacher.T / np.sqrt(32), 0), rng)
    risk = EmpiricalRisk(design, shares_of(model.model.channel, labels), loss, ElasticNet(0.6), positive=True)
    found = least_risk(risk, Iteration(tolerance=1e-7, max_iterations=20000))
    nothing = np.sum(loss.value(risk.labels, np.zeros((60, tokens * (tokens + 1) // 2))))

    def value(matrix):
        # The design's inner product is that of free entries, Tr AB/(2/d).
        return np.sum(loss.value(risk.labels, design.forward(matrix, 0))) + 0.6 * np.trace(matrix) * 8 / 2

    least = value(found.value[0])
    assert found.converged and least < nothing
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            values, vectors = np.linalg.eigh(found.value[0] + size * sum_with_transpose(rng.standard_normal((8, 8))))
            assert value((vectors * np.maximum(values, 0)) @ vectors.T) >= least - 1.1e-7 * nothing


def test_known_trace_is_preserved():
    rng = np.random.default_rng(0)
    design = QuadraticDesign(rng.standard_normal((90, 1, 10)))
    teacher = rng.standard_normal((10, 4))
    labels = design.forward(teacher @ teacher.T / np.sqrt(40), 0) + 0.2 * rng.standard_normal((90, 1))
    risk = EmpiricalRisk(design, labels, Square(), ElasticNet(0.0), positive=True, trace=6.0)
    found = least_risk(risk, Iteration(tolerance=1e-8, max_iterations=20000))
    least = np.sum(Square().value(labels, design.forward(found.value[0], 0)))
    assert found.converged and np.trace(found.value[0]) == pytest.approx(6.0, abs=1e-9)
    for size in (1e-3, 1e-2, 0.1):
        for _ in range(20):
            values, vectors = np.linalg.eigh(found.value[0] + size * sum_with_transpose(rng.standard_normal((10, 10))))
            other = (vectors * np.maximum(values, 0)) @ vectors.T
            other *= 6.0 / np.trace(other)
            nothing = 0.5 * np.sum(labels**2)
            assert np.sum(Square().value(labels, design.forward(other, 0))) >= least - 1.1e-8 * nothing


def sum_with_transpose(matrix):
    return matrix + matrix.T


def test_hinge_has_a_certified_gap():
    design, labels = data(sign=True)
    found = least_risk(
        EmpiricalRisk(design, labels, Hinge(), ElasticNet(0.5)), Iteration(tolerance=1e-3, max_iterations=4000)
    )
    assert found.converged and found.residual[0] <= 1e-3
    stopped = least_risk(
        EmpiricalRisk(design, labels, Hinge(), ElasticNet(0.5)), Iteration(tolerance=1e-9, max_iterations=20)
    )
    assert not stopped.converged and stopped.residual[0] > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha", "learner"),
    [
        (SIGNS, 2.0, RegularisedRisk("logistic", strength=0.3)),
        (SIGNS, 1.0, RegularisedRisk("logistic", "elastic", strength=0.5)),
        (BilinearSequenceRegression(beta=1.5, rho=0.4, noise=0.3), 0.8, RegularisedRisk("huber", strength=0.3)),
        (BilinearSequenceRegression(beta=1, rho=0.3, link=np.tanh), 1.0, RegularisedRisk(strength=0.1)),
        (
            AttentionIndexed(rho=0.5, tokens=2, channel="linear", noise=0.1),
            0.1,
            RegularisedRisk("square", "trace", 0.1),
        ),
        (
            AttentionIndexed(rho=0.5, tokens=1, channel="linear", noise=0.1),
            0.6,
            RegularisedRisk("square", "pinned"),
        ),
        pytest.param(
            AttentionIndexed(rho=0.5, channel="softmax"),
            0.3,
            RegularisedRisk("cross-entropy", "trace", 0.3),
            marks=pytest.mark.thorough,
        ),
        (AttentionIndexed(rho=0.5, channel="hardmax"), 0.3, RegularisedRisk("cross-entropy", "trace", 0.5)),
    ],
)
def test_runs_follow_the_theory(model, alpha, learner):
    """Within four standard errors and a correction of the order 1/d."""
    result = simulate(model, [alpha], learner, d=22, instances=6)
    theory = limits(model.at_size(22).model, result["alpha_realised"], learner)
    for name, slack in (("error", 0.12 * result["theory"][0]), ("training_loss", 0.05), ("rank", 0.06)):
        spread = np.array([getattr(run, name) for run in result.instances[0]])
        bar = 4 * spread.std(ddof=1) / np.sqrt(len(spread)) + slack
        assert abs(spread.mean() - theory[name][0]) < bar, name
    assert result.converged


@pytest.mark.thorough
@pytest.mark.parametrize(
    "model",
    [
        BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1),
        AttentionIndexed(rho=0.3, tokens=2, channel="linear", noise=0.1),
    ],
    ids=["factors", "attention"],
)
def test_the_residual_of_descent_is_its_gap_to_the_convex_optimum(model):
    learner = GradientDescent(optimizer="sgd", weight_decay=0.1, momentum=0.9, steps=3000)
    gaps = [
        simulate(model, [0.4], replace(learner, student_width=width), d=8, instances=1).instances[0][0].residual
        for width in (8, 1)
    ]
    assert 0 <= gaps[0] < 1e-4 < 1e-2 < gaps[1]


@pytest.mark.thorough
def test_descent_with_decay_ends_at_the_convex_optimum():
    model = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    convex = simulate(model, [0.8], RegularisedRisk(strength=0.15), d=8, instances=1)
    learner = GradientDescent(weight_decay=0.075, student_width=8, momentum=0.9, steps=20_000)
    descent = simulate(model, [0.8], learner, d=8, instances=1)
    for one, other in zip(convex.instances[0], descent.instances[0], strict=True):
        assert one.error == pytest.approx(other.error, rel=1e-3)
        assert one.training_error == pytest.approx(other.training_error, rel=1e-3)
        assert 0 <= other.residual < 1e-4


@pytest.mark.slow
def test_inputs_that_are_not_kept():
    learner = RegularisedRisk("logistic", strength=0.3)
    found = simulate(SIGNS, [1.0], learner, d=12, instances=1, storage="generated")
    assert found.converged


@pytest.mark.thorough
def test_on_the_command_line(capsys, tmp_path):
    words = ["limits", "bsr", "--alpha", "2", "--rho", "0.3", "--channel", "sign", "--learner", "risk"]
    assert main([*words, "--loss", "logistic", "--strength", "0.3", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)["points"][0]
    assert row["label_error"] == pytest.approx(0.12513830, abs=1e-8)
    own = tmp_path / "losses.py"
    own.write_text("import jax.numpy as jnp\n\n\ndef soft(y, h):\n    return jnp.logaddexp(0.0, -y * h)\n")
    assert main([*words, "--loss", f"{own}:soft", "--strength", "0.3", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)["points"][0]
    assert again["label_error"] == pytest.approx(row["label_error"], abs=1e-8)
    for bad in (
        ["--strength", "x"],
        ["--strength", "-1"],
        ["--penalty", "trace"],
        ["--loss", "hinge", "--strength", "0"],
    ):
        assert main([*words, *bad]) == 2
    assert main(["limits", "bsr", "--alpha", "1", "--rho", "0.3", "--learner", "gd"]) == 2
    assert "no closed equations" in capsys.readouterr().err


def test_interpolator_on_data_names_the_learner_to_use():
    with pytest.raises(IncompatibleError, match="nuclear-norm"):
        simulate(BilinearSequenceRegression(rho=0.3), [0.5], RegularisedRisk(strength=0.0), d=10)


@pytest.mark.parametrize(
    ("penalty", "text"),
    [("nuclear", "learner nuclear-norm"), ("ridge", "learner ridge"), ("elastic", "no solver")],
)
def test_every_interpolator_has_its_own_remedy(penalty, text):
    learner = RegularisedRisk("square", penalty, 0.0)
    with pytest.raises(IncompatibleError, match=f"penalty {penalty} on data: .*{text}"):
        simulate(BilinearSequenceRegression(rho=0.3, noise=0.1), [0.5], learner, d=10)


@pytest.mark.thorough
@pytest.mark.parametrize("d", [16, 30])
def test_the_hinge_reaches_its_default_tolerance(d):
    """Envelopes that only grew narrower ended at 2.1e-5 and 3.9e-5 after all 5000 steps."""
    found = simulate(SIGNS, [1.0], RegularisedRisk("hinge", strength=0.3), d=d, instances=1)
    run = found.instances[0][0]
    assert found.converged and run.residual <= 1e-6 and run.iterations < 1500


@pytest.mark.slow
@pytest.mark.parametrize(("spectral", "square"), [(0.03, 0.0), (0.5, 0.0), (0.0, 0.5), (0.5, 0.5)])
def test_gap_of_a_hinge_bounds_the_distance_from_the_minimum(spectral, square):
    """Also around slopes that are not zero: no small change lowers the risk by more than is certified."""
    design, labels = data(sign=True)
    found = least_risk(
        EmpiricalRisk(design, labels, Hinge(), ElasticNet(spectral, square)),
        Iteration(tolerance=1e-7, max_iterations=5000),
    )

    def value(matrix):
        penalty = spectral * np.linalg.svd(matrix, compute_uv=False).sum() + 0.5 * square * np.sum(matrix**2)
        return np.sum(Hinge().value(labels, design.forward(matrix, 0))) + penalty

    least, rng = value(found.value[0]), np.random.default_rng(0)
    assert found.converged and least == pytest.approx(found.extra["risk"][0])
    for size in (1e-4, 1e-3, 1e-2, 0.1):
        for _ in range(20):
            assert value(found.value[0] + size * rng.standard_normal((10, 10))) >= least - 1.1e-7 * len(labels)


def test_remedies_of_a_run_and_of_its_theory_are_their_own():
    run = Status.ITERATION_LIMIT.remedy_for({"learner": "risk", "strength": 1e-6, "max_iterations": 5000})
    theory = Status.ITERATION_LIMIT.remedy_for({"learner": "risk", "strength": 1e-6})
    assert "alpha" not in run and "raise the strength, or raise max_iterations" in run
    assert "raise the strength" in theory
