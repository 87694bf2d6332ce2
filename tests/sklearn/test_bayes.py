"""Estimators that know how data are made once they have estimated it: message passing, and strengths by theory."""

import numpy as np
import pytest

from glassformer import DataWarning
from glassformer.sklearn import AttentionRegressor, BilinearClassifier, BilinearRegressor


def of_a_model(seed=0, shape=(16, 16), samples=200):
    """Inputs that are scaled and shifted, labels of width 2 with noise, and clean labels of new inputs."""
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((shape[0], 2)) @ rng.standard_normal((2, shape[1]))
    inputs = rng.standard_normal((samples + 1000, *shape))
    fields = np.einsum("nld,ld->n", inputs, matrix) / 16
    labels = 5 + 3 * (fields[:samples] + 0.5 * rng.standard_normal(samples))
    return 4 + 2 * inputs[:samples], labels, 4 + 2 * inputs[samples:], 5 + 3 * fields[samples:]


def test_bayes_and_theory_need_no_validation_and_do_better():
    inputs, labels, new, clean = of_a_model()
    lost = {}
    for name, arguments in {
        "cv": {"strengths": 10},
        "theory": {"strength": "theory"},
        "bayes": {"solver": "bayes"},
    }.items():
        found = BilinearRegressor(**arguments).fit(inputs, labels)
        lost[name] = np.mean((found.predict(new) - clean) ** 2)
        assert (found.cross_validation_ is None) == (name != "cv")
    low, high = found.estimated_model_.rho_interval
    assert low <= 2 / 16 <= high and np.isnan(found.strength_)
    assert lost["theory"] < 1.15 * lost["cv"]
    assert lost["bayes"] < 0.8 * lost["cv"]


def test_message_passing_that_does_not_settle_falls_back_and_says_so():
    """Tokens that are almost copies of one another: standardised inputs are far from independent numbers."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((150, 1, 8)) + 0.3 * rng.standard_normal((150, 8, 8))
    labels = inputs[:, 0, 0] + 0.1 * rng.standard_normal(150)
    with pytest.warns(DataWarning) as caught:
        found = BilinearRegressor(solver="bayes", strengths=5).fit(inputs, labels)
    told = [str(one.message) for one in caught]
    assert not found.estimated_model_.status.ok
    assert any("token correlation" in one for one in told)
    assert any("regularised risk is fitted instead" in one for one in told)
    plain = BilinearRegressor(strengths=5).fit(inputs, labels)
    np.testing.assert_array_equal(found.predict(inputs), plain.predict(inputs))


def test_where_there_is_no_theory():
    inputs, labels = np.random.default_rng(0).standard_normal((40, 4, 4)), np.arange(40.0)
    for kind, arguments in ((AttentionRegressor, {"solver": "bayes"}), (BilinearClassifier, {"strength": "theory"})):
        with pytest.raises(ValueError, match=f"{kind.__name__} exclude each other: use solver = risk"):
            kind(**arguments).fit(inputs, labels > 20)
    with pytest.raises(ValueError, match="sample_weight exclude each other"):
        BilinearRegressor(solver="bayes").fit(inputs, labels, sample_weight=2 * np.ones(40))


def test_intervals_hold_as_many_new_labels_as_they_say():
    """Of 1000 noisy labels of one data set each; as many data sets as it takes are in benchmarks/check_coverage.py."""
    inputs, labels, new, clean = of_a_model()
    later = clean + 1.5 * np.random.default_rng(1).standard_normal(1000)
    for arguments in ({"solver": "bayes"}, {"strength": 0.3}):
        found = BilinearRegressor(**arguments).fit(inputs, labels)
        low, high = found.predict_interval(new, coverage=0.9).T
        assert 0.85 <= np.mean((low <= later) & (later <= high)) <= 0.95
        mean, deviation = found.predict(new, return_std=True)
        assert 0.75 < np.mean(deviation**2) / np.mean((mean - later) ** 2) < 1.33
        assert np.all(np.diff(found.predict_interval(new[:1], coverage=0.5)) < high[0] - low[0])
    with pytest.raises(ValueError, match=r"coverage = 1.5 .*\(0, 1\)"):
        found.predict_interval(new, coverage=1.5)
