"""Gradient descent on samples that it sees again: its steps on data, its conventions, and its equations beside runs."""

import json
from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    RegularisedRisk,
    SequenceMultiIndex,
    Status,
    limits,
    simulate,
    trajectory,
)
from glassformer.channels.labelling import draw_labels
from glassformer.cli import main
from glassformer.core.errors import RenamedError
from glassformer.designs.projection import ProjectionDesign
from glassformer.errors import ParameterError
from glassformer.learners.data_set import DataSet
from glassformer.learners.online_sgd import one_pass_sgd
from glassformer.learners.row_descent import Batches, record_steps
from glassformer.priors.features import feature_variances
from glassformer.risk.rows.comparison import label_quality
from glassformer.risk.rows.student import student_of

SIGN = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
TANH = SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0]), noise=0.1).at_accuracy(Accuracy(points=32))
LOGISTIC = SGD(learning_rate=1.0, weight_decay=0.05, loss="logistic").at_accuracy(Accuracy(trajectories=4096))


def drawn(samples=12, d=5, seed=0):
    rng = np.random.default_rng(seed)
    design, teacher = ProjectionDesign.sample(samples, (1, d), rng), rng.standard_normal((1, d))
    return DataSet(design, draw_labels(TANH.channel, design.forward(teacher, 0), rng), teacher=teacher)


def by_hand(data, weights, steps, rate, decay, momentum=0.0, nesterov=False):
    """Full-batch steps on half the squared error of tanh(2 z)."""
    x, y = data.design.inputs[0, :, 0], data.labels.reshape(-1)
    velocity = np.zeros_like(weights)
    for _ in range(steps):
        found = np.tanh(2 * x @ weights / np.sqrt(len(weights)))
        slope = x.T @ ((found - y) * 2 * (1 - found**2)) / np.sqrt(len(weights))
        push = -rate * (slope + decay * weights)
        velocity = momentum * velocity + push
        weights = weights + (momentum * velocity + push if nesterov else velocity)
    return weights


@pytest.mark.parametrize(("momentum", "nesterov"), [(0.0, False), (0.6, False), (0.6, True)])
def test_steps_are_those_of_the_formula(momentum, nesterov):
    data = drawn()
    given = f"nesterov:{momentum}" if nesterov else momentum
    learner = SGD(learning_rate=0.2, weight_decay=0.1, momentum=given, steps=7, start="overlap:0.3")
    found = learner.learn(TANH, data)
    start = learner._first_weights(TANH, learner.student_on(TANH), data, data.rng)
    np.testing.assert_allclose(start[0] @ data.teacher[0] / 5, 0.3, rtol=1e-12)
    np.testing.assert_allclose(np.mean(start**2), 1, rtol=1e-12)
    expected = by_hand(data, start[0], 7, 0.2, 0.1, momentum, nesterov)
    np.testing.assert_allclose(found.estimates[0, 0], expected, rtol=1e-10)
    assert [record["step"] for record in found.history] == list(range(8))
    assert [record["step"] for record in replace(learner, record_every=3).learn(TANH, data).history] == [0, 3, 6, 7]
    assert found.residual > 0.01
    assert found.status is Status.ITERATION_LIMIT


@pytest.mark.thorough
def test_runs_converge_where_rows_come_to_rest_away_from_their_start():
    """Or where nothing is learned because steps are too small: these have not converged."""
    data = drawn(60)
    assert SGD(learning_rate=0.2, weight_decay=0.1, steps=200).learn(TANH, data).status is Status.CONVERGED
    slow = SGD(learning_rate=1e-6, steps=200).learn(TANH, data)
    assert slow.residual < 0.01
    assert slow.status is Status.ITERATION_LIMIT
    # A large decay leaves a training loss of almost log 2 at the minimum of a convex risk.
    signs = DataSet(data.design, np.sign(data.labels), teacher=data.teacher)
    decaying = SGD(learning_rate=0.01, weight_decay=30.0, loss="logistic", start="small:0.001", steps=200)
    found = decaying.learn(SIGN, signs)
    assert found.training_loss > 0.9 * found.history[0]["training_loss"]
    assert found.status is Status.CONVERGED
    assert replace(decaying, learning_rate=1e-9).learn(SIGN, signs).status is Status.ITERATION_LIMIT


def test_the_published_steps_are_on_the_squared_error_over_d():
    data = drawn()
    published = SGD.published(5)
    assert (published.learning_rate, published.weight_decay) == (2 * 15 / 5, 0.07 / 2)
    learner = replace(published, learning_rate=2 * 0.5 / 5, weight_decay=0.2 / 2, passes=1)
    start = learner._first_weights(TANH, learner.student_on(TANH), data, data.rng)
    expected = by_hand(data, start[0], 3, 2 * 0.5 / 5, 0.1)
    np.testing.assert_allclose(learner.learn(TANH, data).estimates[0, 0], expected, rtol=1e-10)


def test_batches_of_passes_use_every_sample_once_and_random_ones_have_their_share():
    epochs, random = (Batches(100, 0.25, 2, kind, 3) for kind in (True, False))
    chosen, counted = epochs.of_steps(8, 16)
    assert epochs.per_pass == 8
    assert np.all(counted == 1)
    np.testing.assert_array_equal(chosen[::2], chosen[1::2])
    np.testing.assert_array_equal(np.sort(chosen[::2].ravel()), np.arange(100))
    np.testing.assert_array_equal(epochs.of_steps(9, 16)[0], chosen[1:])
    sizes = random.of_steps(0, 400)[1].sum(axis=1)
    assert abs(sizes.mean() - 25) < 4 * np.sqrt(25 * 0.75 / 200)
    assert abs(sizes.var() / (25 * 0.75) - 1) < 0.5
    assert record_steps(8, 3).tolist() == [0, 3, 6, 8]


@pytest.mark.parametrize(("samples", "share", "batches"), [(103, 0.5, 2), (102, 0.25, 4), (11, 0.3, 3), (3, 0.1, 3)])
def test_passes_over_any_number_of_samples_have_the_steps_of_theory(samples, share, batches):
    kinds = [Batches(samples, share, 1, epochs, 3) for epochs in (True, False)]
    assert [kind.per_pass for kind in kinds] == [batches] * 2
    chosen = kinds[0].of_steps(0, batches)[0]
    assert len(np.unique(chosen)) == chosen.size


@pytest.mark.thorough
def test_the_published_protocol_is_three_steps_on_every_batch_of_200_in_every_pass():
    """Explicit updates of the squared error over d, on the batches of each pass."""
    d, model = 60, SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0])).at_accuracy(Accuracy(points=32))
    rng = np.random.default_rng(3)
    design, teacher = ProjectionDesign.sample(420, (1, d), rng), rng.standard_normal((1, d))
    data = DataSet(design, draw_labels(model.channel, design.forward(teacher, 0), rng), teacher=teacher)
    learner = replace(SGD.published(d), passes=2, record_every=3)
    own = data.rng
    weights, key = own.standard_normal((1, d))[0], int(own.integers(2**63))
    x, y = design.inputs[0, :, 0], data.labels.reshape(-1)
    for one in range(2):
        order = np.random.default_rng([key, one]).permutation(420)
        for batch in (order[:200], order[200:400]):
            for _ in range(3):
                found = np.tanh(2 * x[batch] @ weights / np.sqrt(d))
                slope = 2 / d * x[batch].T @ ((found - y[batch]) * 2 * (1 - found**2)) / np.sqrt(d)
                weights = weights - 15 * (slope + 0.07 / d * weights)
    found = learner.learn(model, data)
    np.testing.assert_allclose(found.estimates[0, 0], weights, rtol=1e-9)
    assert [record["passes"] for record in found.history] == [0, 0.5, 1, 1.5, 2]
    result = simulate(model, [7.0], learner, d=d, instances=1)
    assert {"error", "plugin_error", "prediction_error", "training_loss"} <= set(result.columns)
    quick = SGD.published(d).at_accuracy(Accuracy(trajectories=1024))
    table = trajectory(model, [7.0], quick, steps=4, d=d, instances=1)
    assert any("batches of a pass exclude each other" in note for note in table.notes)
    np.testing.assert_array_equal(table["error"], quick.path(model, 7.0, 4, d).error.value)


def test_no_setting_depends_on_another_or_on_the_caller():
    assert SGD() == SGD(momentum=0.0, weight_decay=0.0, repeats=1, sampling="bernoulli", start="prior", record_every=1)
    assert replace(SGD(momentum=1e-9), momentum=0.0) == SGD()
    assert SGD(batch=5).completed(TANH) == SGD(batch=5)
    for rate in ((1.0, 2.0), lambda step: 1.0 + step):
        assert SGD(learning_rate=rate, batch=50).descent(2.0, 2, d=100).rates.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"convention": "sum"}, "convention is now left out: steps always descend the sum of the losses, and SGD"),
        ({"nesterov": True}, 'nesterov is now momentum="nesterov:0.9"'),
        ({"init": "small"}, 'init is now start="prior" or start="small:0.001"'),
        ({"overlap": 0.3}, 'overlap is now start="overlap:0.3"'),
        ({"looks": 3}, "looks is now record_every="),
    ],
)
def test_old_words_say_the_new_ones(given, words):
    with pytest.raises(RenamedError, match=words):
        SGD(**given)


def test_fresh_samples_have_the_same_steps():
    """One step on a batch: the sum of the losses and a decay, and their mean and a decay per dimension."""
    learner = SGD(learning_rate=0.02, weight_decay=0.3, batch=12, sampling="epochs", passes=1)
    data = drawn()
    start = learner._first_weights(TANH, learner.student_on(TANH), data, data.rng)
    online = learner.fresh(5)
    found = one_pass_sgd(data.design, data.labels, TANH.traceable_label, start, online)
    np.testing.assert_allclose(found.estimates[0], learner.learn(TANH, data).estimates[0], rtol=1e-10)
    for other in ({"momentum": 0.5}, {"batch": 0.5}, {"loss": "huber"}, {"learning_rate": None}):
        with pytest.raises(IncompatibleError, match="fresh needs"):
            replace(learner, **other).fresh(5)


@pytest.mark.slow
def test_rows_of_several_heads_have_the_learning_rate_of_theory(monkeypatch):
    monkeypatch.setattr(
        "glassformer.dynamics.descent_path.descent_path", lambda model, alpha, settings, *rest: settings
    )
    model = DeepAttention(depth=1, heads=2, tokens=2, noise=0.1).at_accuracy(Accuracy(points=32))
    learner, rng = SGD(student=lambda z: z.T @ z, steps=2), np.random.default_rng(0)
    size = model.at_size(20)
    design = size.design.sample(40, size.input_shape, rng)
    settings, _ = learner._on_data(DataSet(design, np.zeros((40, *model.channel.labels.shape))), rng)
    assert learner.path(model, 2.0).learning_rate == settings.learning_rate == pytest.approx(1 / 9)


def test_theory_is_of_independent_batches():
    passes = replace(LOGISTIC, batch=0.25, sampling="epochs", steps=3)
    with pytest.raises(IncompatibleError, match="use sampling = bernoulli"):
        passes.theory(SIGN).of_runs(np.array([1.0]))
    assert passes.draws_passes
    assert not replace(passes, batch=None).draws_passes
    with pytest.raises(IncompatibleError, match="record_every = 2 is not allowed"):
        trajectory(SIGN, [2.0], replace(LOGISTIC, record_every=2), steps=3, d=20)


@pytest.mark.thorough
def test_descent_that_diverges_at_every_ratio_has_the_same_columns():
    table = limits(SIGN, [2.0], replace(LOGISTIC, learning_rate=50.0, weight_decay=1.0, steps=6), throw=False)
    assert table.status == [Status.DIVERGING]
    assert np.isnan(table["error"][0])
    path = replace(LOGISTIC, learning_rate=50.0, weight_decay=1.0, steps=6).path(SIGN, 2.0)
    assert table["early_stopped_test_loss"][0] == path.early_stop()[1].value


def test_decisions_are_between_signs():
    model = SequenceMultiIndex(lambda z: 1.0 * (z[0, 0] > 0))
    quality = label_quality(model, student_of(model, "square", "linear"), np.ones((4, 1, 1)), np.ones((4, 1)))
    assert "label_error" not in quality


@pytest.mark.thorough
def test_runs_lie_on_the_theory():
    """Logistic regression on labels +1 and -1, whole samples and batches; fluctuations are of order d^(-1/2)."""
    for learner in (
        LOGISTIC,
        SGD(learning_rate=0.8, batch=0.4, momentum=0.5, loss="logistic").at_accuracy(Accuracy(trajectories=4096)),
    ):
        table = trajectory(SIGN, [2.0], learner, steps=8, d=500, instances=4)
        for name in ("cosine", "training_loss", "test_loss", "label_error"):
            gap = np.abs(table[f"measured_{name}"] - table[name])[1:]
            assert np.max(gap) < 0.03, name
        assert table.notes[0].startswith("alpha = 2: smallest values over all steps: test_loss")
        # Without weight decay this risk has no finite minimum.
        (arrival,) = [note for note in table.notes if "minimum of the same risk" in note] or [None]
        assert (arrival is None) == (learner.weight_decay == 0)
        if arrival is not None:
            least = limits(SIGN, [2.0], RegularisedRisk("logistic", strength=0.05))["label_error"][0]
            assert f"label_error {least:.4g}" in arrival and "within the error bar: label_error not yet" in arrival


def test_feature_spectra_descend_in_the_coordinates_of_the_features():
    """Two classes of eigenvalues: descent on white features with slopes times eigenvalues is that on the features."""
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1, feature_spectrum=[0.5, 1.5]).at_accuracy(
        Accuracy(points=32)
    )
    learner = SGD(learning_rate=0.1, steps=5)
    size = model.at_size(20)
    rng = np.random.default_rng(1)
    design = size.design.sample(40, size.input_shape, rng)
    labels = design.forward(size.model.prior.sample((1, 20), rng), 0)[:, 0, 0]
    data = DataSet(design, labels)
    root = np.sqrt(feature_variances(size.model.prior, 20))
    start = data.rng.standard_normal((1, 20))[0]
    x, own = design.inputs[0, :, 0] * root, start
    for _ in range(5):
        own = own - 0.1 * x.T @ (x @ own / np.sqrt(20) - labels) / np.sqrt(20)
    np.testing.assert_allclose(learner.learn(size.model, data).estimates[0, 0], own * root, rtol=1e-8)


@pytest.mark.thorough
def test_simulations_have_theory_at_their_number_of_steps():
    learner = SGD(learning_rate=0.5, loss="logistic", weight_decay=0.1, steps=6).at_accuracy(
        Accuracy(trajectories=4096)
    )
    result = simulate(SIGN, [2.0], learner, d=300, instances=4)
    assert abs(result["error"][0] - result["theory"][0]) < 4 * result["standard_error"][0]
    assert {"label_error", "test_loss", "training_loss", "early_stopped_error"} <= set(result.columns)
    assert abs(result["label_error"] - result["label_theory"])[0] < 4 * result["label_standard_error"][0]
    assert result["label_theory"][0] > result["label_bayes_optimal"][0] + 0.01
    even = SequenceMultiIndex(lambda z: z[0, 0] ** 2, noise=0.1).at_accuracy(Accuracy(points=32))
    for model, descent in ((even, SGD(steps=3)), (TANH, SGD(batch=200))):
        with pytest.raises(IncompatibleError, match="use trajectory with d"):
            descent.theory(model).of_runs(np.array([1.0]))


def short(step):
    return [0.1][step]


@pytest.mark.thorough
def test_equal_sample_ratios_are_solved_once(monkeypatch):
    solved, path = [], SGD.path

    def counted(learner, model, ratio, *more):
        solved.append(ratio)
        return path(learner, model, ratio, *more)

    monkeypatch.setattr(SGD, "path", counted)
    table = trajectory(TANH, [2.0, 2.0], SGD().at_accuracy(Accuracy(trajectories=1024)), steps=2)
    assert solved == [2.0] and len(table["error"]) == 6


@pytest.mark.thorough
def test_descent_needs_no_theory_of_its_minimum():
    """A linear row on labels that fall with their field: the risk is refused, the descent has its equations."""
    model = SequenceMultiIndex(lambda z: 1 - 2.0 * (z[0, 0] > 0))
    learner = SGD(learning_rate=0.3, weight_decay=0.1, student="linear").at_accuracy(Accuracy(trajectories=4096))
    assert trajectory(model, [2.0], learner, steps=3).converged


def test_settings_that_do_not_go_together():
    for given, text in (
        ({"batch": 0}, "batch = 0 is not allowed"),
        ({"batch": 1.5}, "or a share of the samples in (0, 1]"),
        ({"learning_rate": [0.1, -0.1]}, "learning_rate = -0.1"),
        ({"learning_rate": np.nan}, "learning_rate = nan"),
        ({"sampling": "random"}, "bernoulli or epochs"),
        ({"sampling": None}, "bernoulli or epochs"),
        ({"momentum": "nesterov:0"}, "a number in [0, 1), or nesterov:NUMBER with a number in (0, 1)"),
        ({"momentum": "nesterov"}, "momentum = 'nesterov' is not allowed"),
        ({"momentum": "heavy:0.5"}, "momentum = 'heavy:0.5' is not allowed"),
        ({"momentum": "0.5"}, "momentum = '0.5' is not allowed"),
        ({"momentum": 1.0}, "momentum = 1.0 is not allowed"),
        ({"record_every": 0}, "record_every = 0 is not allowed: expected an integer >= 1"),
        ({"record_every": 1.5}, "record_every = 1.5 is not allowed: expected an integer >= 1"),
        ({"start": "small"}, "start = 'small' is not allowed: expected prior, small:SIZE with a number > 0"),
        ({"start": "small:-1"}, "start = 'small:-1' is not allowed"),
        ({"start": "overlap:1"}, "overlap:COSINE with a number in [0, 1)"),
        ({"start": "prior:1"}, "start = 'prior:1' is not allowed"),
        ({"start": ([[0.1]], [["a"]])}, "start"),
    ):
        with pytest.raises(ParameterError) as error:
            SGD(**given)
        assert text in str(error.value)
    with pytest.raises(ParameterError, match="32 times a power of two"):
        trajectory(TANH, [2.0], SGD(), steps=2, accuracy=Accuracy(trajectories=1000))
    few = Accuracy(trajectories=1024)
    own = trajectory(TANH, [2.0], SGD(start="overlap:0.3"), steps=3, accuracy=few)
    for start in (([[0.1]], [[1.0]]), "overlap:0.2"):
        again = trajectory(TANH, [2.0], SGD(start=start), steps=3, start="overlap:0.3", accuracy=few)
        np.testing.assert_array_equal(own["error"], again["error"])
    with pytest.raises(IncompatibleError, match="batch = 200 refers to a token dimension: use a batch that is a share"):
        trajectory(TANH, [2.0], SGD(batch=200), steps=3)
    assert SGD(start=(np.array([[0.1]]), np.eye(1))) == SGD(start=[[[0.1]], [[1.0]]])
    assert SGD(learning_rate=np.full(4, 0.5)) == SGD(learning_rate=[0.5] * 4)
    with pytest.raises(ParameterError, match="learning_rate = '<4 numbers>' is not allowed: expected one number"):
        trajectory(TANH, [2.0], SGD(learning_rate=[0.1] * 4), steps=3)
    with pytest.raises(ParameterError, match=r"learning_rate = 'short' .*at step 1 it raised IndexError: list index"):
        trajectory(TANH, [2.0], SGD(learning_rate=short), steps=3)
    with pytest.raises(ParameterError, match=r"batch = 1e-12 .*at least 0.00098, so that a batch has a trajectory"):
        trajectory(TANH, [2.0], SGD(batch=1e-12), steps=3)
    with pytest.raises(ParameterError, match=r"batch = 1e-12 is not allowed: expected one sample or more"):
        SGD(batch=1e-12, steps=3).learn(TANH, drawn())
    for d in (0, -5):
        with pytest.raises(ParameterError, match=f"d = {d} is not allowed"):
            trajectory(TANH, [2.0], "sgd", steps=3, d=d)
    with pytest.raises(ParameterError, match="alpha = 1e-300 is not allowed: expected a number from 1e-100 to"):
        trajectory(TANH, [1e-300], "sgd", steps=3)
    with pytest.raises(
        IncompatibleError, match=r"labels of link .* are continuous: let the link return \+1 and -1, or use"
    ):
        trajectory(TANH, [2.0], SGD(loss="logistic"), steps=3)


@pytest.mark.slow
def test_command_line(tmp_path, capsys):
    own = tmp_path / "own.py"
    own.write_text("def link(z):\n    return 2.0 * (z[0, 0] > 0) - 1\ndef rate(t):\n    return 1 / (1 + t)\n")
    common = ["--alpha", "2", "--learner", "sgd", "--loss", "logistic", "--trajectories", "4096"]
    model = ["smi", "--link", f"{own}:link", "--indices", "1"]
    command = ["trajectory", *model, *common, "--steps", "3", "--json"]
    assert main([*command, "--learning-rate", f"{own}:rate", "--batch", "0.5"]) == 0
    points = json.loads(capsys.readouterr().out)["points"]
    assert [point["iteration"] for point in points] == [0, 1, 2, 3]
    assert {"cosine", "power", "training_loss", "test_loss", "label_error", "generalisation_gap"} <= set(points[0])
    assert main([*command, "--learning-rate", "x"]) == 2
    assert "--learning-rate = 'x' is not allowed" in capsys.readouterr().err


@pytest.mark.thorough
def test_limits_are_the_end_of_the_path_and_plans_know_where_to_stop():
    learner = SGD(steps=15).at_accuracy(Accuracy(trajectories=1024))
    model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=1.0).at_accuracy(Accuracy(points=32))
    table = limits(model, [1.0, 3.0], learner)
    path = learner.path(model, 3.0)
    assert table["error"][1] == path.error.value[-1]
    assert table["early_stopped_test_loss"][0] < table["test_loss"][0]
    assert table["early_stop"][0] == learner.path(model, 1.0).early_stop()[0]
    np.testing.assert_array_equal(table["arrival"][1], path.arrival().value)
    equations = learner.theory(model)
    curves = equations.curves(table, "test_loss")
    assert list(curves) == ["sgd", "sgd_early_stopped"]
    stopped = learner.path(model, 1.0).early_stop()[1]
    assert curves["sgd_early_stopped"][2][0] == table["early_stopped_test_loss_error_estimate"][0] == stopped.error
    assert stopped.error != curves["sgd"][2][0]
    np.testing.assert_array_equal(curves["sgd_early_stopped"][0], table["early_stopped_test_loss"])
    assert equations.remark(1.0) == (f"after 15 steps, smallest test loss at step {table['early_stop'][0]:g}")
    diverged = limits(
        model, [2.0], SGD(learning_rate=3.0, steps=15).at_accuracy(Accuracy(trajectories=1024)), throw=False
    )
    assert diverged.status == [Status.DIVERGING]
    assert "diverges" in diverged.notes[0]


def test_weights_that_are_one_matrix_are_refused_in_theory_and_in_runs():
    model, learner = BilinearSequenceRegression(rho=0.3, noise=0.1), SGD(student="linear")
    for verb in (limits, partial(simulate, d=8), partial(trajectory, steps=2)):
        with pytest.raises(IncompatibleError, match="those of model bsr are one matrix: use gd"):
            verb(model, [0.5], learner)
