"""Training of one's own, measured on new inputs beside the limits."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.linear_model import Ridge as RidgeOfScikitLearn

from glassformer import BilinearSequenceRegression, IncompatibleError, Ridge, SequenceMultiIndex, limits, simulate
from glassformer.core.hashing import identity
from glassformer.errors import ParameterError
from glassformer.learners import OwnLearner

LINEAR = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.2)
SIGNS = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)


def least_squares(X, y, rng):
    flat = X.reshape(len(X), -1)
    weights = np.linalg.solve(flat.T @ flat + 0.2 * X[0].size * np.eye(flat.shape[1]), flat.T @ y)
    return lambda X: X.reshape(len(X), -1) @ weights


def fails(X, y, rng):
    raise ZeroDivisionError("of mine")


def test_a_fit_of_ones_own_has_the_prediction_error_of_the_same_learner():
    """Ridge regression of one's own, of scikit-learn and of the package: errors of one estimate on different inputs."""
    ask = {"d": 12, "instances": 3, "seed": 1}
    known = simulate(LINEAR, [1.2], Ridge(0.2), **ask)
    for learner in (least_squares, RidgeOfScikitLearn(alpha=0.2 * 144, fit_intercept=False)):
        own = simulate(LINEAR, [1.2], learner, **ask)
        assert own["prediction_error"] == pytest.approx(known["error"], rel=0.05)
        assert "error" not in own.columns and own.instances[0][0].error is None
        assert own["prediction_above_optimum"] == own["prediction_error"] - own["prediction_bayes_optimal"]
        assert any("no theory of" in note for note in own.notes)


def test_labels_of_classes_are_compared_with_the_best_possible():
    own = simulate(SIGNS, [4.0], LogisticRegression(C=1e-2), d=80, instances=3)
    best = limits(SIGNS, [4.0])["label_error"][0]
    assert own["label_bayes_optimal"][0] == pytest.approx(best, abs=1e-6)
    assert 0 < own["label_above_optimum"][0] < 0.1


def test_random_numbers_are_those_of_the_run():
    one, other = (simulate(SIGNS, [2.0], SGDClassifier(), d=30, instances=2, seed=s)["label_error"] for s in (0, 0))
    assert one == other
    assert SGDClassifier().random_state is None


def test_content_is_the_identity_and_runs_are_kept(tmp_path, monkeypatch):
    assert identity(OwnLearner(least_squares)) == identity(OwnLearner(least_squares))
    assert identity(OwnLearner(RidgeOfScikitLearn(alpha=1.0))) != identity(OwnLearner(RidgeOfScikitLearn(alpha=2.0)))
    first = simulate(LINEAR, [0.5], least_squares, d=6, instances=2, checkpoint=tmp_path)
    monkeypatch.setattr(OwnLearner, "learn", lambda *_: pytest.fail("computed again"))
    again = simulate(LINEAR, [0.5], least_squares, d=6, instances=2, checkpoint=tmp_path)
    np.testing.assert_array_equal(first["prediction_error"], again["prediction_error"])


def test_errors_of_ones_own_code_are_named_as_such():
    for training, words in (
        (fails, r"fit of fails raised ZeroDivisionError \(of mine\)"),
        (lambda X, y, rng: None, "returns a function of X"),
        (lambda X, y, rng: lambda X: X, "predictions of shape"),
        (lambda X, y, rng: lambda X: np.full(len(X), np.nan), "not finite"),
    ):
        with pytest.raises(ParameterError, match=words):
            simulate(LINEAR, [0.5], training, d=6, instances=1)
    for bad in (3, "newton", LogisticRegression, lambda X: X):
        with pytest.raises((ParameterError, IncompatibleError), match=r"learner|training"):
            simulate(LINEAR, [0.5], bad, d=6, instances=1)
    with pytest.raises(IncompatibleError, match="measured only: use simulate or compare with d"):
        OwnLearner(least_squares).theory(LINEAR)
