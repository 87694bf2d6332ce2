"""Attention weights of several directions: labels, posteriors against quadrature, counting, rotations, options."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from scipy.special import softmax

from glassformer import Accuracy, DeepAttention, IncompatibleError, limits, simulate
from glassformer.bayes_optimal.instability import instability
from glassformer.bayes_optimal.subspaces import group_named
from glassformer.channels.multi_index.importance_sampling import Effort
from glassformer.channels.multi_index.tied_attention import label_dimension, rotations
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.cli import main
from glassformer.errors import ParameterError
from glassformer.testing import check_model


@pytest.mark.slow
@pytest.mark.parametrize("untied", [False, True])
def test_scores_are_sums_over_directions(untied):
    model = DeepAttention(depth=2, tokens=3, rank=(2, 1), untied=untied, skip=0.5, noise=0.1)
    fields = np.random.default_rng(0).standard_normal((model.prior.rows, 3))
    keys, queries = fields[:3], fields[3:] if untied else fields[:3]
    mixing = 0.5 * np.eye(3) + softmax(keys[:2].T @ queries[:2], axis=1)
    expected = softmax(mixing @ np.outer(keys[2], queries[2]) @ mixing.T, axis=1)
    found = model.channel.label_from(fields[None], np.zeros((1, 9)))[0]
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_rows_go_by_layer_direction_and_head():
    model = DeepAttention(depth=2, rank=(2, 1), heads=2, untied=True, noise=0.1)
    assert model.row_names[:4] == tuple(f"key of layer 1, direction {k}, head {h}" for k in (1, 2) for h in (1, 2))
    assert model.row_names[-1] == "query of layer 2, head 2"
    assert model.row_groups["key of layer 1, head 2"] == (1, 3)
    assert model.last_layer.tolist() == 2 * [0, 0, 0, 0, 1, 1]
    assert model.network.groups[1] == ((1, 3), (7, 9))


def _turned(directions, hidden):
    """All directions with the same label on a grid: both orientations, and for softmax the hidden mean."""
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    turns = np.concatenate([turn, turn * np.array([1, -1])[None, :, None]], axis=2)
    shift = np.linspace(-8, 8, 201) if hidden else np.zeros(1)
    left = np.linalg.svd(directions - hidden * directions.mean(axis=1, keepdims=True))[0]
    base = (left.T @ directions)[None] + np.zeros((len(shift), 1, 1))
    if hidden:
        base[:, 1] = shift[:, None]
    return np.einsum("abk,nbl->knal", turns, base).reshape(-1, 2, 2)


@pytest.mark.thorough
@pytest.mark.parametrize("activation", ["linear", pytest.param("softmax", marks=pytest.mark.thorough)])
def test_posterior_agrees_with_a_grid_over_rotations(activation):
    """Two directions and tokens: an angle and an orientation, and for softmax the hidden component of the mean."""
    model = DeepAttention(depth=1, rank=2, activation=activation)
    channel = replace(model.channel, effort=Effort(1024, 8, 12))
    rng, variance = np.random.default_rng(1), np.array([[0.5, 0.1], [0.1, 0.3]])
    omega, root = rng.standard_normal((4, 2, 2)), np.linalg.cholesky(variance)
    fields = omega + root @ rng.standard_normal((4, 2, 2))
    labels = channel.label_from(fields, np.empty((4, 0)))
    spread = np.broadcast_to(variance, (4, 2, 2))
    found = channel.posterior(labels, omega, spread)
    hidden = int(activation == "softmax")
    for k in range(4):
        gaps = _turned(fields[k], hidden) - omega[k]
        weight = np.exp(-0.5 * np.einsum("nal,ab,nbl->n", gaps, np.linalg.inv(variance), gaps))
        mean = np.einsum("n,nal->al", weight, gaps) / weight.sum()
        np.testing.assert_allclose(found.score[k], np.linalg.solve(variance, mean), atol=0.12)
    # A label and what data are drawn with instead say the same.
    drawn = channel.observation_from(fields, np.empty((4, 0)))
    np.testing.assert_allclose(channel.posterior(drawn, omega, spread).score, found.score, atol=0.12)


@pytest.mark.parametrize(
    "tokens, activation",
    [(2, "softmax"), (3, "softmax"), (2, "linear")],
)
@pytest.mark.thorough
def test_labels_fix_as_many_fields_as_they_have_dimensions(tokens, activation):
    model = DeepAttention(depth=1, tokens=tokens, rank=2, activation=activation).at_accuracy(Accuracy(points=64))
    variance = 1e-4 * np.eye(2)
    found = model.channel.inference.information(variance[None])
    seen = label_dimension(2, tokens, activation == "softmax")
    assert model.channel.labels.rank == seen
    allowed = 5 * 1e-4 * np.trace(found.error[0]) + 1e-3
    assert 1e-4 * np.trace(found.value[0]) == pytest.approx(seen, abs=allowed)


@pytest.mark.slow
def test_rotations_cover_every_orthogonal_matrix_alike():
    """Traces of powers of uniform matrices: E(tr O)^2 = 1, E tr O^2 = 1, by integration over the charts."""
    angle = np.tan(np.linspace(-np.pi, np.pi, 2001)[1:-1] / 2)
    with jax.enable_x64(True):
        matrices, log_weight = map(np.asarray, jax.vmap(lambda a: rotations(a, 2))(angle[:, None]))
    weight = np.exp(log_weight) * (1 + angle**2)
    traces, squares = np.trace(matrices, axis1=2, axis2=3), np.trace(matrices @ matrices, axis1=2, axis2=3)
    for values in (traces**2, squares):
        assert np.average(values.mean(axis=1), weights=weight) == pytest.approx(1, abs=1e-6)


def test_estimates_are_turned_before_they_are_compared():
    model = DeepAttention(depth=1, rank=2)
    rng = np.random.default_rng(0)
    signal = rng.standard_normal((2, 50))
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    found = model.measured(turn @ signal, signal)
    assert found["error"] < 1e-20
    np.testing.assert_allclose(found["cosine"], 1)
    groups = (((0, 1), (3, 4)), ((2,), (5,)))
    cross = rng.standard_normal((6, 6))
    aligning = RowSymmetries.of_rotations(groups).alignment(cross)
    np.testing.assert_allclose(aligning @ aligning.T, np.eye(6), atol=1e-12)
    np.testing.assert_array_equal(aligning[:2, :2], aligning[3:5, 3:5])
    assert abs(aligning[2, 2]) == 1


@pytest.mark.thorough
def test_threshold_of_a_linear_layer_agrees_with_its_gram_matrix():
    """D = (S/r - 1) I, so alpha_c = r/(L(L + 1)); the bound of labels in cells is not passed."""
    model = DeepAttention(depth=1, rank=2, activation="linear").at_accuracy(Accuracy(points=64))
    found = instability(model, np.eye(2), np.eye(2), np.inf)
    np.testing.assert_allclose(found.matrix, 0.5 * np.eye(2), atol=1e-12)
    assert not found.degenerate
    assert group_named(found.matrix, model.row_groups) == "layer 1"
    assert abs(found.rate - 3) < 4 * found.error < 1


@pytest.mark.slow
def test_ranks_that_are_refused():
    for rank in (0, 1.5, (1, 2, 3), "2", (1, 0)):
        with pytest.raises(ParameterError, match="rank"):
            DeepAttention(depth=2, rank=rank)
    for given in ({"prior": "rademacher"}, {"limit": "large-skip"}, {"untied": True}, {"heads": 2}):
        with pytest.raises(IncompatibleError, match="rank"):
            DeepAttention(rank=2, **given)
    assert DeepAttention(rank=2, untied=True, noise=0.1).channel.fields.rows == 8
    assert DeepAttention(depth=1, rank=1).parameters == DeepAttention(depth=1).parameters


@pytest.mark.thorough
def test_the_command_line_takes_one_rank_or_one_per_layer(capsys):
    words = ["limits", "attention", "--depth", "1", "--rank", "2", "--activation", "linear", "--alpha", "0.2"]
    assert main([*words, "--points", "32", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["parameters"]["rank"] == [2]


def test_a_rank_that_is_none_is_named(capsys):
    assert main(["limits", "attention", "--rank", "two", "--alpha", "0.2"]) == 2
    assert "rank = 'two'" in capsys.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("options", "points", "d"), [({}, 512, 60), ({"noise": 0.05}, 512, 60), ({"untied": True, "noise": 0.05}, 128, 12)]
)
def test_parts_agree(options, points, d):
    """Posteriors of untied layers have eight latents: few data points take minutes."""
    report = check_model(DeepAttention(depth=1, rank=2, **options).at_accuracy(Accuracy(points=points)), alpha=1.2, d=d)
    assert report.ok, str(report)


@pytest.mark.thorough
def test_message_passing_agrees_with_theory():
    model = DeepAttention(depth=1, rank=2, activation="linear").at_accuracy(Accuracy(points=256))
    found = simulate(model, [0.6], d=1000, instances=1, seed=1)
    assert np.all(np.abs(found["row_error"] - found["row_theory"]) < 0.06)


@pytest.mark.thorough
def test_effort_suffices():
    """Eight times the work per data point moves information by less than its error estimate."""
    channel = DeepAttention(depth=1, rank=2).channel
    more = type(channel)(channel.network, effort=Effort(256, 16, 12), points=channel.inference.points)
    for v in (0.8, 0.3, 0.01):
        first, second = (one.inference.information(v * np.eye(2)[None]) for one in (channel, more))
        assert np.all(np.abs(first.value - second.value) <= 3 * np.hypot(first.error, second.error) + 1e-12)


@pytest.mark.thorough
def test_two_layers_of_two_directions():
    found = limits(DeepAttention(depth=2, rank=(1, 2)).at_accuracy(Accuracy(points=128)), [0.3], throw=False)
    assert np.all(np.abs(found["overlap"]) < 0.1)
