"""InterruptedHereError runs continue from what they kept, with the outcome of uninterrupted ones."""

import json

import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    AttentionIndexed,
    AveragedGradientDescent,
    BilinearSequenceRegression,
    GradientDescent,
    MessagePassing,
    NuclearNorm,
    SequenceMultiIndex,
    simulate,
)
from glassformer.core.checkpoints import Checkpoint, CheckpointFolder
from glassformer.core.hashing import identity
from glassformer.errors import DataError
from glassformer.learners import row_descent, training
from glassformer.verbs.instances import _Designs


def linear(z):
    return z[0, 0]


BSR = BilinearSequenceRegression(beta=1, rho=0.2)
RUNS = {
    "gd": (BSR, 0.3, 16, GradientDescent(steps=500, floor=0.0)),
    "averaged-gd": (AttentionIndexed(0.5), 0.1, 16, AveragedGradientDescent(initialisations=3, steps=500)),
    "exploring": (BSR, 0.3, 16, AveragedGradientDescent(initialisations=3, steps=500)),
    "sgd": (SequenceMultiIndex(linear, noise=0.1), 2.0, 40, SGD(batch=20, passes=8)),
    "nuclear-norm": (BSR, 0.3, 16, NuclearNorm()),
    "gamp": (BSR, 0.3, 20, MessagePassing().at_accuracy(Accuracy(max_iterations=30))),
}


class InterruptedHereError(Exception):
    pass


def numbers(result):
    return {name: column for name, column in result.columns.items() if np.asarray(column).dtype == float}


def interrupted(monkeypatch, at):
    """Save after every block or pass, and stop at the given one."""
    calls = 0

    def offer(self, state):
        nonlocal calls
        self.save(state())
        calls += 1
        if calls == at:
            raise InterruptedHereError

    monkeypatch.setattr(Checkpoint, "offer", offer)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.thorough) for name in ("gd", "averaged-gd")),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("exploring", "sgd")),
    ],
)
def test_training_continues_as_if_it_had_not_been_interrupted(name, tmp_path, monkeypatch):
    model, alpha, d, settings = RUNS[name]
    ask = {"d": d, "instances": 2, "learner": settings}
    whole = simulate(model, [alpha], **ask)
    steps = whole.instances[0][0].iterations
    with monkeypatch.context() as patch, pytest.raises(InterruptedHereError):
        interrupted(patch, 3)
        simulate(model, [alpha], checkpoint=tmp_path, **ask)
    assert len(list(tmp_path.glob("*.npz"))) == 1
    taken = []
    with monkeypatch.context() as patch:
        for owner, name in ((training, "_compiled_block"), (row_descent.DescentData, "_after")):
            inner = getattr(owner, name)
            patch.setattr(owner, name, lambda *a, inner=inner: (taken.append(1), inner(*a))[1])
        resumed = simulate(model, [alpha], checkpoint=tmp_path, **ask)
    assert sum(taken) < 2 * steps
    for name, column in numbers(whole).items():
        np.testing.assert_array_equal(column, resumed[name], err_msg=name)
    for one, other in zip(whole.instances[0], resumed.instances[0], strict=True):
        assert one.status is other.status
        assert len(one.history) == len(other.history)
        for name in one.history[-1]:
            np.testing.assert_array_equal(one.history[1][name], other.history[1][name])
            np.testing.assert_array_equal(one.history[-1][name], other.history[-1][name])
    assert not list(tmp_path.glob("*.npz"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "learner",
    [  # All learners: tests/conformance/test_learners.py.
        pytest.param(name, marks=pytest.mark.slow if name == "gd" else pytest.mark.thorough)
        for name in RUNS
        if name != "exploring"
    ],
)
def test_finished_runs_are_read_without_computing_again(learner, tmp_path, monkeypatch):
    model, alpha, d, settings = RUNS[learner]
    ask = {"d": d, "instances": 2, "learner": settings, "checkpoint": tmp_path}
    first = simulate(model, [alpha], **ask)
    stamps = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert len(stamps) == 2
    monkeypatch.setattr(_Designs, "of", lambda *_: pytest.fail("drawn again"))
    again = simulate(model, [alpha], **ask)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == stamps
    for name, column in numbers(first).items():
        np.testing.assert_array_equal(column, again[name], err_msg=name)
    assert first.to_dict() == again.to_dict()


@pytest.mark.slow
def test_every_parameter_of_a_run_changes_its_record(tmp_path):
    ask = {
        "d": 10,
        "instances": 1,
        "checkpoint": tmp_path,
        "learner": MessagePassing().at_accuracy(Accuracy(max_iterations=20)),
    }
    simulate(BSR, [0.5], **ask)
    simulate(BSR, [0.6], **ask)
    simulate(BSR, [0.5], seed=1, **ask)
    simulate(BSR, [0.5], **{**ask, "learner": MessagePassing().at_accuracy(Accuracy(max_iterations=9))})
    simulate(BilinearSequenceRegression(beta=1, rho=0.2, noise=0.1), [0.5], **ask)
    assert len(list(tmp_path.glob("*.json"))) == 5


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_incomplete_files_are_reported_and_computed_again(ending, tmp_path, monkeypatch):
    model, alpha, d, settings = RUNS["gd"]
    ask = {"d": d, "instances": 1, "learner": settings}
    whole = simulate(model, [alpha], **ask)
    if ending == "npz":
        with monkeypatch.context() as patch, pytest.raises(InterruptedHereError):
            interrupted(patch, 2)
            simulate(model, [alpha], checkpoint=tmp_path, **ask)
    else:
        simulate(model, [alpha], checkpoint=tmp_path, **ask)
    (path,) = tmp_path.glob(f"*.{ending}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(RuntimeWarning, match="computed again"):
        again = simulate(model, [alpha], checkpoint=tmp_path, **ask)
    np.testing.assert_array_equal(whole["error"], again["error"])


@pytest.mark.slow
def test_records_can_be_read_by_people(tmp_path):
    simulate(BSR, [0.5], d=20, instances=1, checkpoint=tmp_path)
    (path,) = tmp_path.glob("*.json")
    record = json.loads(path.read_text())
    assert record["identity"]["learner"] == "gamp"
    assert record["run"]["status"] == {"status": "converged"}
    assert 0 < record["run"]["error"] < 2


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="checkpoint"):
        CheckpointFolder(tmp_path / "file" / "below")


SCALE = 2.0


def scaled(z):
    return SCALE * z[0, 0]


def test_the_code_of_a_link_changes_the_record_of_a_run(monkeypatch):
    def model(link):
        return SequenceMultiIndex(link, indices=1, tokens=1, noise=0.1)

    before = identity(model(scaled))
    assert before == identity(model(scaled))
    assert identity(model(lambda z: 2.0 * z[0, 0])) != identity(model(lambda z: 3.0 * z[0, 0]))
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    assert identity(model(scaled)) != before
