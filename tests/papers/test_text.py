"""Attention layers on real text, on a small data set made here."""

import jax
import numpy as np
import pytest

from glassformer.cli import main
from glassformer.core.checkpoints import Checkpoint
from glassformer.errors import DataError, ParameterError
from glassformer.papers.text import attention_classifier as classifier
from glassformer.papers.text.attention_classifier import (
    ClassifierTraining,
    class_scores,
    repeated_runs,
    train_classifier,
)
from glassformer.papers.text.questions import TEST_FILE, TRAINING_FILE, read_questions

SMALL = ClassifierTraining(embedding=16, width=8, epochs=6, learning_rate=5e-3, looks=2)
CUES = {"NUM": "when how-many", "HUM": "who whose", "LOC": "where whither"}


def write(folder, training=240, test=60, seed=0):
    """Questions whose class is told by one of two words, anywhere among others."""
    rng, noise = np.random.default_rng(seed), [f"word{k}" for k in range(30)]
    for name, count in ((TRAINING_FILE, training), (TEST_FILE, test)):
        lines = []
        for k in range(count):
            label = list(CUES)[k % len(CUES)]
            words = [*rng.choice(noise, rng.integers(2, 9)), rng.choice(CUES[label].split())]
            lines.append(f"{label}:fine {' '.join(rng.permutation(words))} ?")
        (folder / name).write_text("\n".join(lines) + "\n", encoding="latin-1")
    return folder


@pytest.fixture
def data(tmp_path):
    return read_questions(write(tmp_path), length=12)


def test_questions_become_tokens(data):
    assert data.classes == ("HUM", "LOC", "NUM")
    assert data.training.tokens.shape == (240, 12)
    assert data.training.tokens.max() == data.vocabulary - 1
    assert set(data.test.labels) == {0, 1, 2}


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        (TRAINING_FILE, "", "empty"),
        (TRAINING_FILE, "NUM:dist How far ?\nno label here\n", "line 2"),
        (TEST_FILE, "SOUND:x What noise ?\n", "SOUND"),
        (TEST_FILE, None, TEST_FILE),
    ],
)
def test_what_is_wrong_with_a_data_set_is_said(tmp_path, name, text, named):
    write(tmp_path)
    if text is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=named):
        read_questions(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("skip", [0.5])
def test_masked_padding_changes_nothing_and_unmasked_does(data, skip):
    parameters = classifier._initial(data, SMALL, np.random.default_rng(0))
    parameters = {name: 10 * part for name, part in parameters.items()}
    tokens = data.test.tokens
    longer, network = np.pad(tokens, ((0, 0), (0, 7))), jax.jit(class_scores, static_argnums=(2, 3))
    for masked in (True, False):
        short, long = (np.asarray(network(parameters, t, skip, masked)) for t in (tokens, longer))
        assert np.allclose(short, long, atol=1e-5) is masked


@pytest.mark.slow
def test_scores_are_those_of_the_network_written_out(data):
    rng = np.random.default_rng(1)
    parameters = {name: np.asarray(part) * 20 for name, part in classifier._initial(data, SMALL, rng).items()}
    words = data.test.tokens[0][data.test.tokens[0] > 0]
    x = parameters["embedding"][words].astype(float)
    for weights in parameters["attention"].astype(float):
        scores = np.exp(x @ weights @ weights.T @ x.T / np.sqrt(8))
        x = 0.5 * x + scores / scores.sum(axis=1, keepdims=True) @ x
    expected = x.mean(axis=0) @ parameters["readout"] + parameters["bias"]
    found = class_scores(parameters, data.test.tokens[:1], 0.5, True)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


@pytest.mark.slow
def test_gradients_agree_with_finite_differences(data):
    with jax.enable_x64(True):
        start = classifier._initial(data, SMALL, np.random.default_rng(0))
        parameters = {name: 10 * np.asarray(part, dtype=float) for name, part in start.items()}
        rng = np.random.default_rng(1)
        direction = {name: rng.standard_normal(part.shape) for name, part in parameters.items()}

        def loss(step):
            moved = {name: part + step * direction[name] for name, part in parameters.items()}
            return classifier._loss(moved, data.training.tokens[:20], data.training.labels[:20], 0.5, True)

        loss = jax.jit(loss)
        slope = float(jax.grad(loss)(0.0))
        difference = float(loss(1e-5) - loss(-1e-5)) / 2e-5
    assert slope == pytest.approx(difference, rel=1e-6)


@pytest.mark.thorough
def test_the_classes_are_learned_and_the_layers_reach_their_final_value(data):
    run = train_classifier(data, SMALL)
    assert run.test_accuracy[-1] > 0.9
    assert run.test_accuracy[0] < 0.7
    np.testing.assert_allclose(run.similarity[-1], 1, atol=1e-6)
    assert np.all(run.similarity[0] < 0.9)
    assert run.training_loss[-1] < 0.5 * run.training_loss[1]
    assert np.all((run.half_time() > 0) & (run.half_time() < SMALL.epochs))


@pytest.mark.thorough
def test_an_interrupted_run_continues_with_the_same_result(data, tmp_path, monkeypatch):
    whole = train_classifier(data, SMALL, seed=3)
    path, calls = tmp_path / "state.npz", []

    def offer(self, state):
        self.save(state())
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Checkpoint, "offer", offer)
        train_classifier(data, SMALL, seed=3, checkpoint=Checkpoint(path))
    resumed = train_classifier(data, SMALL, seed=3, checkpoint=Checkpoint(path))
    for name, value in vars(whole).items():
        np.testing.assert_array_equal(value, getattr(resumed, name))


@pytest.mark.slow
def test_runs_are_kept_by_what_determines_them(data, tmp_path):
    folder = tmp_path / "runs"
    first = repeated_runs(data, SMALL, 2, folder)
    again = repeated_runs(data, SMALL, 2, folder)
    assert len(list(folder.iterdir())) == 2
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.similarity, other.similarity)
    assert not np.array_equal(first[0].similarity, first[1].similarity)


@pytest.mark.parametrize("name", ["layers", "epochs", "batch", "scale", "skip", "learning_rate"])
def test_settings_out_of_range_are_named(name):
    with pytest.raises(ParameterError, match=name):
        ClassifierTraining(**{name: -1})


@pytest.mark.thorough
def test_the_figure(tmp_path, capsys):
    folder = tmp_path / "data"
    folder.mkdir()
    write(folder, 60, 20)
    assert main(["figure", "smi-3-right", "--quick", "--data", str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "padding masked" in capsys.readouterr().out
    assert (tmp_path / "out" / "smi-3-right.png").stat().st_size > 10_000
    assert main(["figure", "smi-3-right", "--data", str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "Li and Roth" in capsys.readouterr().err
