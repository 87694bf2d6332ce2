"""Limits in which earlier layers are a committee: labels, quadrature of one's own, layers that trade places."""

import itertools

import numpy as np
import pytest
from scipy.special import softmax

from glassformer import Accuracy, DeepAttention, simulate, thresholds
from glassformer.bayes_optimal.instability import instability
from glassformer.bayes_optimal.subspaces import symmetric_basis
from glassformer.channels.row_symmetries import RowSymmetries
from glassformer.testing import check_model

NO_DETAILS = np.empty((5, 0))


def _vector(fields, skip):
    committee = sum(softmax(np.outer(z, z), axis=1) / c for z, c in zip(fields[:-1], skip, strict=True))
    return (np.eye(fields.shape[1]) + committee) @ fields[-1]


def _labels(model, fields):
    return model.channel.label_from(fields, np.zeros((len(fields), model.tokens**2)))


def test_labels_are_linear_attention_behind_a_committee_of_softmax_layers():
    skip = (0.5, 2.0, 1.0)
    model = DeepAttention(depth=3, tokens=3, skip=skip, limit="linear-committee", head_weights=[[1.0], [1.0], [3.0]])
    fields = np.random.default_rng(0).standard_normal((5, 3, 3))
    vectors = np.array([_vector(z, skip[:2]) for z in fields])
    labels = _labels(model, fields)
    np.testing.assert_allclose(labels, 3 * vectors[:, :, None] * vectors[:, None], atol=1e-12)
    # Labels show the vector up to its sign.
    shown = model.channel.observation(labels)
    np.testing.assert_allclose(shown * np.sign(np.sum(shown * vectors, axis=1, keepdims=True)), vectors, atol=1e-9)


def test_weight_of_the_last_layer_is_in_the_labels_of_a_committee():
    model = DeepAttention(limit="large-skip", head_weights=[[1.0], [2.0]])
    np.testing.assert_allclose(_labels(model, np.ones((1, 2, 2)))[0].sum(axis=1), 2.0)


@pytest.mark.slow
def test_networks_converge_to_the_committee():
    """Two layers are one at any skip; more up to a few times 1/skip."""
    rng = np.random.default_rng(1)
    for depth, skip, accuracy in ((2, 0.7, 1e-9), (3, 2000.0, 5e-3)):
        fields = rng.standard_normal((5, depth, 2))
        options = {"depth": depth, "skip": skip}
        exact, committee = (DeepAttention(**options, limit=limit).channel for limit in (None, "linear-committee"))
        vectors = exact.observation_from(fields, NO_DETAILS) / skip ** (depth - 1)
        np.testing.assert_allclose(vectors, committee.observation_from(fields, NO_DETAILS), atol=accuracy)
    linear = (DeepAttention(skip=0.7, activation="linear", limit=limit) for limit in (None, "linear-committee"))
    fields = rng.standard_normal((5, 2, 2))
    exact, committee = (_labels(model, fields) for model in linear)
    np.testing.assert_allclose(exact / 0.7**2, committee, rtol=1e-9)


def _last_layer_by_quadrature(skip):
    """Growth of the last of two layers at zero overlap: a sum over vectors on a grid and nodes of the first layer."""
    x, weight = np.polynomial.hermite_e.hermegauss(24)
    first = np.array(list(itertools.product(x, x)))
    weight = np.array([a * b for a, b in itertools.product(weight, weight)]) / (2 * np.pi)
    mixing = np.eye(2) + softmax(first[:, :, None] * first[:, None, :], axis=2) / skip
    axis = np.arange(-13, 13.01, 0.4)
    vectors = np.array(list(itertools.product(axis, axis)))
    fields = np.einsum("nij,vj->vni", np.linalg.inv(mixing), vectors)
    joint = weight / np.linalg.det(mixing) * np.exp(-0.5 * np.sum(fields**2, axis=2)) / (2 * np.pi)
    density = joint.sum(axis=1)
    second = np.einsum("vn,vni,vnj->vij", joint, fields, fields) / density[:, None, None] - np.eye(2)
    return 0.4**2 * np.sum(density), 0.4**2 * np.sum(density * np.sum(second**2, axis=(1, 2)))


@pytest.mark.thorough
@pytest.mark.parametrize("limit", ["linear-committee", "large-skip"])
def test_first_threshold_agrees_with_quadrature(limit):
    """Labels of both limits show the same vectors."""
    mass, growth = _last_layer_by_quadrature(1.0)
    assert mass == pytest.approx(1, abs=1e-6)
    found = instability(
        DeepAttention(limit=limit).at_accuracy(Accuracy(points=128)), np.eye(2), np.eye(2), accuracy=0.02
    )
    assert np.diag(found.matrix) == pytest.approx([0, 1], abs=1e-6)
    # Five standard errors of sampled averages, and what sampled posteriors leave out.
    assert found.rate == pytest.approx(growth, abs=5 * found.error + 3 * abs(found.missing))
    assert found.error < 0.02 * growth


@pytest.mark.slow
@pytest.mark.parametrize("limit", ["large-skip", "linear-committee"])
def test_layers_of_a_committee_trade_places(limit):
    model = DeepAttention(depth=4, skip=(2.0, 1.0, 2.0, 1.0), limit=limit)
    assert model.network.exchangeable == ((0, 2),)
    assert model.row_groups == {"layer 2": (1,), "layer 4": (3,), "committee of layer 1, layer 3": (0, 2)}
    fields = np.random.default_rng(2).standard_normal((4, 2))
    labels = _labels(model, model.channel.labels.row_symmetries.invariances @ fields)
    assert len(labels) == 2 * 2**4
    np.testing.assert_allclose(labels, np.broadcast_to(labels[0], np.shape(labels)), atol=1e-12)
    assert DeepAttention(depth=4, skip=2.0).network.exchangeable == ()


def test_exchanges_are_undone_and_averaged_over():
    groups = tuple(((k,),) for k in range(6))
    rows = RowSymmetries.of_rotations(groups, (tuple(range(5)),))
    rng = np.random.default_rng(3)
    turn = np.diag([1.0, -1, -1, 1, -1, -1])[[3, 0, 4, 1, 2, 5]]
    cross = turn @ (np.eye(6) + 0.1 * rng.standard_normal((6, 6)))
    np.testing.assert_allclose(rows.alignment(cross), turn.T)
    level = rows.invariant_part(np.diag(np.arange(6.0))[None])[0]
    np.testing.assert_allclose(level, np.diag([2.0, 2, 2, 2, 2, 5]))
    np.testing.assert_allclose(rows.symmetrise(np.diag(np.arange(6.0)), np.zeros((6, 6)) + np.diag([1.0] * 6)), level)


def test_growth_outside_a_part_of_a_committee_is_that_of_its_rows():
    model = DeepAttention(depth=3, limit="linear-committee")
    assert len(symmetric_basis(np.diag([1.0, 1, 0]), model).matrices) == 1
    assert len(symmetric_basis(np.diag([0.0, 1, 0]), model).matrices) == 1


@pytest.mark.thorough
@pytest.mark.slow
def test_layers_of_a_committee_have_one_threshold():
    found = thresholds(DeepAttention(depth=3, limit="linear-committee").at_accuracy(Accuracy(points=64)))
    assert found["weak_recovery"].layer == "layer 3"
    assert found["weak_recovery_2"].layer == "committee of layer 1, layer 2"
    assert found["weak_recovery"].alpha < found["weak_recovery_2"].alpha < found["perfect_recovery"].alpha


@pytest.mark.thorough
@pytest.mark.slow
def test_labels_say_as_much_of_every_layer_of_a_committee():
    channel = DeepAttention(depth=3, limit="linear-committee").at_accuracy(Accuracy(points=64)).channel
    information = channel.inference.information(np.diag([0.5, 0.5, 0.1])[None]).value[0]
    assert information[0, 0] == pytest.approx(information[1, 1], rel=1e-9)
    assert 0 < information[0, 0] < information[2, 2]


@pytest.mark.thorough
@pytest.mark.slow
def test_message_passing_finds_the_committee():
    model = DeepAttention(depth=2, limit="linear-committee").at_accuracy(Accuracy(points=128))
    run = simulate(model, 1.2, d=200, instances=2)
    assert np.all(np.diagonal(run["overlap"], axis1=-2, axis2=-1) > 0.5)


@pytest.mark.thorough
def test_the_linear_committee_passes_the_checks_of_a_model():
    report = check_model(DeepAttention(limit="linear-committee").at_accuracy(Accuracy(points=256)), d=20)
    assert report.ok, str(report)
