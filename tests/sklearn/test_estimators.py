"""Estimators: scikit-learn's own checks, forms of inputs, what is learned, and that nothing leaks."""

import pickle
import re

import numpy as np
import pandas
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, check_sample_weight_equivalence_on_dense_data

from glassformer.core.errors import DataError, DataWarning, IncompatibleError
from glassformer.learners.data_validation import refuse_dates
from glassformer.sklearn import AttentionClassifier, AttentionRegressor, BilinearClassifier, BilinearRegressor

ALL = [BilinearRegressor, BilinearClassifier, AttentionRegressor, AttentionClassifier]
QUICK = {"strengths": 3, "folds": 2}
FIT_OF_ZERO, FEWER_FOLDS = "ignore:strength = .* gives a fit of zero", "ignore:cross-validation does not count"


def bilinear(n=240, shape=(5, 6), noise=0.3, seed=0):
    rng = np.random.default_rng(seed)
    inputs = 2 + rng.standard_normal((n, *shape)) * np.exp(rng.standard_normal(shape[1]))
    matrix = np.outer(rng.standard_normal(shape[0]), rng.standard_normal(shape[1]))
    labels = np.einsum("nld,ld->n", inputs, matrix)
    return inputs, 3 + labels + noise * labels.std() * rng.standard_normal(n), matrix


def scores(fields):
    return np.where(fields > np.median(fields), "high", "low")


def unmet(estimator):
    """Checks of scikit-learn that an estimator fails."""
    reports = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(reports) > 50
    return [(one["check_name"], one["exception"]) for one in reports if one["status"] == "failed"]


# The few samples of the checks have classes too small to be held out, and fits of zero.
@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:X = .* is flat", "ignore:y = .*a class with", "ignore:the best strength", FIT_OF_ZERO, FEWER_FOLDS
)
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (BilinearRegressor, QUICK),
        pytest.param(BilinearClassifier, {"strengths": 2, "folds": 2, "tolerance": 1e-3}, marks=pytest.mark.thorough),
        (AttentionRegressor, {"strength": 1.0, "tolerance": 1e-3}),
        pytest.param(AttentionClassifier, {"strength": 1.0, "tolerance": 1e-3}, marks=pytest.mark.thorough),
    ],
)
def test_the_checks_of_scikit_learn(kind, arguments):
    """Defaults but for fewer strengths and folds or none, and looser gaps; with all it takes many times as long."""
    assert not unmet(kind(**arguments))


@pytest.mark.thorough
@pytest.mark.filterwarnings(FIT_OF_ZERO)
def test_the_checks_with_tokens_of_one_feature():
    """Not those of attention: forms of single features do not depend on the order, and cannot learn what checks ask."""
    assert not unmet(BilinearClassifier((-1, 1), strength=1.0, tolerance=1e-3))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:X = .* is flat", "ignore:folds = 5, but there are 4", FEWER_FOLDS)
@pytest.mark.filterwarnings("ignore:y = .*a class with", "ignore:the best strength")
@pytest.mark.parametrize("kind", ALL)
def test_the_checks_of_scikit_learn_with_all_defaults(kind):
    assert not unmet(kind())


def test_weights_are_repetitions_with_cross_validation_too():
    check_sample_weight_equivalence_on_dense_data("BilinearRegressor", BilinearRegressor((1, -1), strengths=5))


def test_all_forms_of_inputs_are_one():
    inputs, labels, _ = bilinear()
    one = BilinearRegressor(strength=0.1).fit(inputs, labels)
    flat = inputs.reshape(len(inputs), -1)
    for shape in ((5, 6), (5, -1), (-1, 6)):
        other = BilinearRegressor(shape, strength=0.1).fit(flat, labels)
        np.testing.assert_array_equal(one.predict(inputs), other.predict(flat))
    listed = BilinearRegressor(strength=0.1).fit(list(inputs), labels)
    np.testing.assert_array_equal(one.predict(inputs), listed.predict(list(inputs)))
    np.testing.assert_allclose(one.predict(inputs), np.einsum("nld,ld->n", inputs, one.coef_) + one.intercept_)
    assert one.shape_ == (5, 6) and one.singular_values_.shape == (5,) and one.n_features_in_ == 30


@pytest.mark.parametrize(("scale", "least"), [("features", 0.99), ("whiten", 0.99), ("none", 0.9)])
def test_what_is_learned_is_the_matrix(scale, least):
    inputs, labels, matrix = bilinear(n=600, noise=0.1)
    found = BilinearRegressor(scale=scale, strength="simplest", strengths=12).fit(inputs, labels)
    cosine = np.sum(found.coef_ * matrix) / np.linalg.norm(found.coef_) / np.linalg.norm(matrix)
    assert cosine > least and found.cross_validation_.converged


def test_low_rank_beats_ridge_where_the_matrix_has_it():
    inputs, labels, _ = bilinear(n=160, shape=(8, 10), noise=0.3)
    test, truth, _ = bilinear(n=1000, shape=(8, 10), noise=0.3)
    rng = np.random.default_rng(1)
    new = test + rng.standard_normal(test.shape)
    matrix = bilinear(n=160, shape=(8, 10))[2]
    clean = np.einsum("nld,ld->n", new, matrix) + 3
    mine = BilinearRegressor(strengths=10).fit(inputs, labels)
    flat = Ridge(1.0).fit(inputs.reshape(160, -1), labels)
    lost = np.mean((flat.predict(new.reshape(1000, -1)) - clean) ** 2)
    assert np.mean((mine.predict(new) - clean) ** 2) < 0.7 * lost
    del truth


def test_classes_of_several_kinds():
    inputs, fields, _ = bilinear()
    two = BilinearClassifier(strength=0.5).fit(inputs, scores(fields))
    assert two.score(inputs, scores(fields)) > 0.8 and two.classes_.tolist() == ["high", "low"]
    three = np.digitize(fields, np.quantile(fields, [1 / 3, 2 / 3]))
    several = BilinearClassifier(strength=0.5).fit(inputs, three)
    assert several.coef_.shape == (3, 5, 6) and several.rank_.shape == (3,)
    np.testing.assert_allclose(several.predict_proba(inputs).sum(axis=1), 1)
    assert several.score(inputs, three) > 0.55
    at_once = BilinearClassifier(loss="softmax", strength=0.5).fit(inputs, three)
    np.testing.assert_allclose(at_once.predict_proba(inputs).sum(axis=1), 1)
    assert at_once.score(inputs, three) > 0.55
    assert at_once.rank_.shape == (3,)
    assert BilinearClassifier(loss="softmax", strength=0.5).fit(inputs, scores(fields)).coef_.shape == (5, 6)
    odds = two.decision_function(inputs)
    np.testing.assert_allclose(odds, np.einsum("nld,ld->n", inputs, two.coef_) + two.intercept_, atol=1e-9)


def test_probabilities_are_those_of_the_labels():
    """Of 3000 new samples, in ten bins: shares within four standard errors, and those of the strength's own bias."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((4000, 3, 4))
    odds = inputs[:, 0, 0] - inputs[:, 1, 2]
    classes = rng.random(4000) < 1 / (1 + np.exp(-odds))
    found = BilinearClassifier(strengths=6).fit(inputs[:1000], classes[:1000])
    chance = found.predict_proba(inputs[1000:])[:, 1]
    for bin_ in np.array_split(np.argsort(chance), 10):
        share, said = classes[1000:][bin_].mean(), chance[bin_].mean()
        assert abs(share - said) < 4 * np.sqrt(said * (1 - said) / len(bin_)) + 0.03


def test_losses_without_probabilities_have_none():
    inputs, fields, _ = bilinear(n=60)
    found = BilinearClassifier(loss="hinge", strength=2.0, tolerance=1e-2).fit(inputs, scores(fields))
    assert not hasattr(found, "predict_proba") and found.score(inputs, scores(fields)) > 0.7


def test_attention_sees_pairs_and_any_order_of_tokens():
    rng = np.random.default_rng(0)
    inputs, w = rng.standard_normal((400, 3, 5)), rng.standard_normal(5)
    for pairs, labels in (("self", ((inputs @ w) ** 2).mean(axis=1)), ("all", (inputs @ w).mean(axis=1) ** 2)):
        found = AttentionRegressor(pairs=pairs, strength="simplest", strengths=8).fit(inputs, labels)
        assert found.score(inputs, labels) > 0.95
        np.testing.assert_allclose(found.predict(inputs[:, [2, 0, 1]]), found.predict(inputs))
        cosine = np.sum(found.coef_ * np.outer(w, w)) / np.linalg.norm(found.coef_) / (w @ w)
        assert cosine > 0.97
    assert BilinearRegressor(strengths=5).fit(inputs, labels).score(inputs, labels) < 0.3


def test_positive_matrices_are_weight_decay_of_equal_keys_and_queries():
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((200, 2, 4))
    labels = inputs[:, :, 0] ** 2 @ np.ones(2)
    found = AttentionRegressor(penalty="trace", strength=1.0, linear=False).fit(inputs, labels)
    assert np.linalg.eigvalsh(found.coef_).min() > -1e-9


def test_unequal_lengths_are_masked():
    """What stands in the padding does not matter: labels depend on tokens that are there."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(2, 6, 300)
    parts = [1 + rng.standard_normal((k, 4)) for k in lengths]
    w = rng.standard_normal(4)
    labels = np.array([np.mean((one @ w) ** 2) for one in parts])
    found = AttentionRegressor(strengths=8).fit(parts, labels)
    assert found.score(parts, labels) > 0.9
    alone = found.predict([parts[0]])
    np.testing.assert_allclose(alone, found.predict(parts)[:1])
    sums = np.array([one[0] @ w for one in parts])
    linear = BilinearRegressor(strengths=8).fit(parts, sums)
    assert linear.score(parts, sums) > 0.95 and linear.coef_.shape == (5, 4)
    with pytest.raises(ValueError, match=r"at most 5 of dimension 4, as fitted.*cut the sequences, or use Attention"):
        linear.predict([np.zeros((7, 4))])


def test_attention_takes_sequences_of_any_length():
    """Learned from at most five tokens, sequences of nine are predicted as well, as a list or an array."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(4)
    parts = [1 + rng.standard_normal((k, 4)) for k in rng.integers(2, 6, 300)]
    found = AttentionRegressor(strengths=8).fit(parts, [np.mean((one @ w) ** 2) for one in parts])
    longer = 1 + rng.standard_normal((200, 9, 4))
    labels = np.mean((longer @ w) ** 2, axis=1)
    assert found.score(longer, labels) > 0.9
    np.testing.assert_allclose(found.predict(list(longer)), found.predict(longer))
    np.testing.assert_allclose(found.predict([*parts, longer[0]])[:300], found.predict(parts))
    assert AttentionClassifier(strength=0.5).fit(parts, np.arange(300) % 2).predict_proba(longer).shape == (200, 2)
    with pytest.raises(ValueError, match=r"samples of shape \(5, 4\), as fitted"):
        found.predict(longer[:, :, :3])
    with pytest.raises(ValueError, match="tokens of dimension 4, as fitted"):
        found.predict([longer[0, :, :3]])
    with pytest.raises(ValueError, match="NaN"):
        found.predict(np.where(longer > 3, np.nan, longer))


def test_pipelines_grids_clones_and_processes():
    inputs, labels, _ = bilinear(n=120)
    flat = inputs.reshape(len(inputs), -1)
    line = make_pipeline(FunctionTransformer(np.tanh), BilinearRegressor((5, 6), strength=0.3))
    grid = GridSearchCV(line, {"bilinearregressor__strength": [0.03, 0.3]}, cv=3).fit(flat, labels)
    assert grid.best_params_["bilinearregressor__strength"] in (0.03, 0.3)
    assert cross_val_score(BilinearRegressor(strength=0.1), inputs, labels, cv=3, n_jobs=1).mean() > 0.5
    found = clone(BilinearRegressor(strength=0.1)).fit(inputs, labels)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(inputs), found.predict(inputs))


def test_scaling_is_learned_from_what_is_fitted_alone():
    inputs, labels, _ = bilinear()
    found = BilinearRegressor(strength=0.1).fit(inputs[:100], labels[:100])
    np.testing.assert_allclose(found.scaling_.mean, inputs[:100].mean(axis=0))
    before = found.predict(inputs[100:101])
    found.predict(1000 * inputs)
    np.testing.assert_array_equal(before, found.predict(inputs[100:101]))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"shape": (4, 4)}, r"shape = \(4, 4\) .*L d = 30"),
        ({"shape": 5}, "shape = 5"),
        ({"solver": "magic"}, "solver = 'magic' .*risk"),
        ({"loss": "log"}, "loss = 'log'"),
        ({"penalty": "lasso"}, "penalty = 'lasso'"),
        ({"strength": "best"}, "strength = 'best' .*cv"),
        ({"strength": -1.0}, "strength = -1.0 .*> 0"),
        ({"scale": "unit"}, "scale = 'unit' .*features"),
        ({"folds": 1}, "folds = 1"),
        ({"tolerance": 0.0}, "tolerance = 0.0"),
    ],
)
def test_what_is_refused(arguments, words):
    inputs, labels, _ = bilinear(n=20)
    with pytest.raises(ValueError, match=words):
        BilinearRegressor(**{"shape": (1, -1), **arguments}).fit(inputs.reshape(20, -1), labels)


@pytest.mark.parametrize(
    ("kind", "penalty", "allowed"),
    [
        (BilinearRegressor, "trace", "one of nuclear, ridge, elastic$"),
        (BilinearClassifier, "pinned", "one of nuclear, ridge, elastic$"),
        (AttentionRegressor, "pinned", "one of nuclear, ridge, elastic, trace$"),
        (AttentionClassifier, "lasso", "one of nuclear, ridge, elastic, trace$"),
        (AttentionRegressor, ["trace"], "one of nuclear, ridge, elastic, trace$"),
    ],
)
def test_penalties_of_other_matrices_are_refused(kind, penalty, allowed):
    """Of square matrices too, which might be positive."""
    inputs = np.random.default_rng(0).standard_normal((20, 6, 6))
    with pytest.raises(ValueError, match=rf"^penalty = {re.escape(repr(penalty))} is not allowed: expected {allowed}"):
        kind(penalty=penalty, strength=1.0).fit(inputs, np.arange(20) % 2)


def test_bad_data():
    inputs, labels, _ = bilinear(n=20)
    found = BilinearRegressor(strength=1.0).fit(inputs, labels)
    with pytest.raises(ValueError, match="samples of shape"):
        found.predict(inputs[:, :, :3])
    with pytest.raises(ValueError, match="NaN"):
        found.fit(np.where(inputs > 4, np.nan, inputs), labels)
    with pytest.raises(ValueError, match=r"y\[3\] = nan"):
        found.fit(inputs, np.where(np.arange(20) == 3, np.nan, labels))
    with pytest.raises(ValueError, match="one class"):
        BilinearClassifier().fit(inputs, np.ones(20))
    with pytest.raises(ValueError, match="tokens of one dimension"):
        found.fit([np.zeros((2, 3)), np.zeros((2, 4))], [0.0, 1.0])
    with pytest.raises(ValueError, match=r"pairs = 'some'"):
        AttentionRegressor(pairs="some").fit(inputs, labels)


def test_bad_entries_are_named_by_their_place():
    inputs, labels, _ = bilinear(n=20)
    bad, found = inputs.copy(), BilinearRegressor(strength=1.0)
    bad[7, 2, 3] = np.nan
    with pytest.raises(ValueError, match=r"X\[7, 2, 3\] = nan"):
        found.fit(bad, labels)
    with pytest.raises(ValueError, match=r"X\[7, 2, 3\] = nan"):
        AttentionRegressor(strength=0.1).fit(inputs, labels).predict(list(bad))
    with pytest.raises(ValueError, match=rf"X\[7, {2 * inputs.shape[2] + 3}\] = nan"):
        found.fit(bad.reshape(20, -1), labels)
    with pytest.raises(ValueError, match=r"shape = \(4, 4\)"):
        BilinearRegressor((4, 4), strength=1.0).fit(inputs, labels)
    with pytest.raises(ValueError, match=r"X = \(20, 1, .* expected a shape \(n, L, d\)"):
        found.fit(inputs[:, None], labels)


@pytest.mark.parametrize("kind", [BilinearRegressor, AttentionRegressor])
@pytest.mark.parametrize("form", [lambda x: x, lambda x: x.reshape(len(x), 30), list], ids=["array", "flat", "list"])
def test_no_samples_are_refused_as_scikit_learn_does(kind, form):
    inputs, labels, _ = bilinear(n=20)
    found = kind((5, 6), strength=0.1).fit(form(inputs), labels)
    said = r"^Found array with 0 sample\(s\) \(shape=\(0,.*\)\) while a minimum of {} is required by " + kind.__name__
    with pytest.raises(ValueError, match=said.format(1)):
        found.predict(form(inputs[:0]))
    with pytest.raises(ValueError, match=said.format(2)):
        kind((5, 6), strength=1.0).fit(form(inputs[:0]), labels[:0])


@pytest.mark.parametrize(
    ("kind", "scale"), [(BilinearRegressor, "features"), (BilinearRegressor, "none"), (AttentionRegressor, "whiten")]
)
def test_data_whose_squares_overflow_are_refused_by_name(kind, scale):
    inputs, labels, _ = bilinear(n=20)
    labels, found = labels / np.abs(labels).max(), kind(strength=0.1, scale=scale)
    inputs = inputs / np.abs(inputs).max()
    np.testing.assert_allclose(
        found.fit(1e100 * inputs, 1e100 * labels).predict(1e100 * inputs) / 1e100,
        found.fit(inputs, labels).predict(inputs),
        rtol=1e-6,
    )
    found.fit(inputs.astype(np.float32), labels)
    allowed = r"is not allowed: expected a number from -1e\+100 to 1e\+100; divide [Xy] by a constant$"
    with pytest.raises(ValueError, match=rf"^y\[0\] = -?[0-9.]*e\+\d* {allowed}"):
        found.fit(inputs, 1e200 * labels)
    for form, place in ((lambda x: x, "0, 0, 0"), (lambda x: x.reshape(20, 30), "0, 0"), (list, "0, 0, 0")):
        with pytest.raises(ValueError, match=rf"^X\[{place}\] = -?[0-9.]*e\+\d* {allowed}"):
            found.fit(form(1e200 * inputs), labels)
    with pytest.raises(ValueError, match=rf"^X\[2, 0, 0\] = .* {allowed}"):
        found.predict(np.where(np.arange(20)[:, None, None] < 2, inputs, 1e200 * inputs))


@pytest.mark.parametrize("kind", [BilinearRegressor, AttentionRegressor])
def test_data_that_do_not_vary_teach_the_mean(kind):
    inputs, labels, _ = bilinear(n=20)
    for arguments in ({"strength": 1.0}, {"strengths": 2, "folds": 2, "max_iterations": 500}):
        for same in (np.ones_like(inputs), np.full_like(inputs, 0.1)):
            found = kind(**arguments).fit(same, labels)
            np.testing.assert_allclose(found.predict(inputs), labels.mean())
        np.testing.assert_allclose(kind(**arguments).fit(inputs, np.full(20, 0.1)).predict(inputs), 0.1)
    with pytest.raises(ValueError, match="expected samples that differ"):
        kind(solver="bayes").fit(np.ones_like(inputs), labels)


@pytest.mark.thorough
@pytest.mark.parametrize("strength", [1e-3, pytest.param(1e-6, marks=pytest.mark.thorough)])
def test_errors_of_fits_that_follow_every_label_are_those_of_other_samples(strength):
    inputs, labels, _ = bilinear(n=28)
    found = BilinearRegressor(strength=strength).fit(inputs, labels)
    missed = [
        labels[k] - BilinearRegressor(strength=strength).fit(inputs[rest], labels[rest]).predict(inputs[[k]])[0]
        for k in range(0, 28, 4)
        for rest in [np.arange(28) != k]
    ]
    assert 0.5 < found.predict(inputs[:1], return_std=True)[1][0] / np.sqrt(np.mean(np.square(missed))) < 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("penalty", "samples", "within"),
    [
        # Gaps of the fits, and the scale of the inputs, which single samples hardly change.
        ("ridge", 34, 0.02),
        ("ridge", 40, 0.02),
        # The mean of 20 squares out of 41.
        ("elastic", 41, 0.35),
    ],
)
def test_errors_next_to_as_many_samples_as_unknowns_are_those_without_one(penalty, samples, within, monkeypatch):
    """Nine tenths of 41 samples are at the peak of the error of 36 unknowns, those of 34 are far from it."""
    inputs, labels, _ = bilinear(n=samples, shape=(6, 6))
    settings = {"penalty": penalty, "strength": 1e-4, "tolerance": 1e-6, "max_iterations": 50000}
    deviations = BilinearRegressor(**settings).fit(inputs, labels).predict(inputs, return_std=True)[1]
    monkeypatch.setattr("glassformer.sklearn.solvers._directions_and_errors", lambda *problem: {})
    missed = []
    for k in range(samples):
        rest = np.arange(samples) != k
        missed.append(labels[k] - BilinearRegressor(**settings).fit(inputs[rest], labels[rest]).predict(inputs[[k]])[0])
    assert np.mean(deviations**2) == pytest.approx(np.mean(np.square(missed)), rel=2 * within)


def test_weights_are_repetitions_in_errors_of_predictions_too():
    inputs, labels, _ = bilinear(n=60)
    weights = np.random.default_rng(0).integers(1, 4, 60)
    often = np.repeat(np.arange(60), weights)
    settings = {**QUICK, "strength": 0.3, "tolerance": 1e-7}
    weighted = BilinearRegressor(**settings).fit(inputs, labels, sample_weight=weights)
    repeated = BilinearRegressor(**settings).fit(inputs[often], labels[often])
    for told in (lambda one: one.predict(inputs[:1], return_std=True)[1], lambda one: one.predict_interval(inputs[:1])):
        np.testing.assert_allclose(told(weighted), told(repeated), rtol=1e-4)


def test_repetitions_promise_no_smaller_errors():
    inputs, labels, _ = bilinear(n=100)
    once = BilinearRegressor(**QUICK).fit(inputs, labels)
    often = BilinearRegressor(**QUICK).fit(np.concatenate([inputs] * 4), np.concatenate([labels] * 4))
    assert often.predict(inputs[:1], return_std=True)[1] > 0.8 * once.predict(inputs[:1], return_std=True)[1]


@pytest.mark.thorough
def test_no_interval_holds_more_than_its_residuals_can_tell():
    inputs, labels, _ = bilinear(n=30)
    found = BilinearRegressor(**QUICK).fit(inputs, labels)
    assert np.all(np.isinf(found.predict_interval(inputs[:2], coverage=0.99)))
    assert np.all(np.isfinite(found.predict_interval(inputs[:2], coverage=0.9)))


def test_the_unit_of_weights_does_not_change_intervals():
    inputs, labels, _ = bilinear(n=30)
    widths = [
        np.ptp(
            BilinearRegressor(strength=unit, tolerance=1e-8)
            .fit(inputs, labels, np.full(30, unit))
            .predict_interval(inputs)
        )
        for unit in (0.01, 1.0, 100.0)
    ]
    np.testing.assert_allclose(widths, widths[1], rtol=1e-3)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_a_class_without_weight_has_no_probability(loss):
    inputs, fields, _ = bilinear(n=60)
    classes = np.digitize(fields, np.quantile(fields, [0.3, 0.6]))
    found = BilinearClassifier(strength=1.0, loss=loss, class_weight={0: 1.0, 1: 1.0, 2: 0.0}).fit(inputs, classes)
    assert np.max(found.predict_proba(inputs)[:, 2]) < 1e-3
    assert np.all(np.isfinite(found.predict_proba(inputs)))


@pytest.mark.parametrize("estimator", [AttentionRegressor(), BilinearRegressor()])
def test_inputs_that_are_all_alike_tell_nothing(estimator):
    labels = np.random.default_rng(0).standard_normal(40)
    fitted = estimator.fit(np.full((40, 3, 4), 0.7), labels)
    np.testing.assert_array_equal(fitted.coef_, 0.0)
    np.testing.assert_allclose(fitted.predict(np.full((2, 3, 4), 0.7)), labels.mean())


def test_tiny_labels_are_told_from_constant_ones():
    """Their squares are below the smallest number."""
    samples, numbers, _ = bilinear(60)
    plain, tiny = (BilinearRegressor(strength=0.1).fit(samples, unit * numbers) for unit in (1.0, 1e-200))
    np.testing.assert_allclose(1e200 * tiny.predict(samples), plain.predict(samples), rtol=1e-9)


def test_fewer_folds_than_asked_for_are_told():
    samples, numbers, _ = bilinear(60)
    with pytest.warns(DataWarning, match="folds = 5, but there are 3 different samples: cross-validation has 3 folds"):
        BilinearRegressor(strengths=2).fit(samples[:3], numbers[:3])


@pytest.mark.parametrize("arguments", [{}, {"penalty": "ridge", "strength": "simplest"}])
def test_a_class_of_one_sample_is_not_learned_by_heart(arguments):
    """No fold can tell how well it is predicted: its probability was 0.998."""
    inputs, labels = np.random.default_rng(0).standard_normal((61, 4, 5)), np.arange(61) == 60
    with pytest.warns(DataWarning, match=r"a class with 1 sample.* The strength is not chosen by cross-validation"):
        found = BilinearClassifier(**arguments).fit(inputs, labels)
    assert not found.predict(inputs[60:])[0] and found.predict_proba(inputs[60:])[0, 1] < 0.05
    # The square loss of a class that is held out is finite, so that cross-validation can choose the strength.
    assert not BilinearClassifier(loss="square", **arguments).fit(inputs, labels).predict(inputs[60:])[0]


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (lambda x, y: (np.ma.masked_greater(x, 3), y), "^X = '<a masked array>' .*fill the masked entries"),
        (lambda x, y: (list(np.ma.masked_greater(x, 3)), y), "^X = '<a masked array>'"),
        (lambda x, y: (x, np.ma.masked_greater(y, y.mean())), "^y = '<a masked array>'"),
        (lambda x, y: (x.astype("datetime64[D]"), y), r"^X = '<datetime64\[D\]>' .*convert dates to numbers"),
        (lambda x, y: (x, y.astype("datetime64[D]")), r"^y = '<datetime64\[D\]>'"),
        (
            lambda x, y: (x, y.astype("timedelta64[D]").tolist()),
            "^Unknown label type: y has entries that are not numbers",
        ),
        (lambda x, y: (pandas.DataFrame({"a": list(x[:, 0])}), y), "^X = '<cells of type ndarray>' .*stack the series"),
        (lambda x, y: (panel(x), y), r"^X = '<100 rows of 20 samples>' .*give X.to_numpy\(\).reshape\(20, 5, 6\)"),
        (lambda x, y: (panel(x)[1:], y), r"^X = '<99 rows of 20 samples>' .*for _, one in X.groupby\(level=0\)"),
    ],
)
def test_data_that_are_no_numbers_are_refused(form, words):
    """Masks and dates were taken as numbers; data frames of series had messages of NumPy."""
    with pytest.raises(ValueError, match=words):
        BilinearRegressor(strength=1.0).fit(*form(*bilinear(n=20)[:2]))


def panel(inputs):
    """A data frame with one row per token, as sktime has them."""
    index = pandas.MultiIndex.from_product([range(inputs.shape[0]), range(inputs.shape[1])])
    return pandas.DataFrame(inputs.reshape(-1, inputs.shape[2]), index=index)


def test_classes_of_numbers_and_texts_are_refused():
    """A list would become texts, and other containers were a TypeError."""
    inputs = bilinear(n=20)[0]
    for labels in ([1, "a"] * 10, np.array([1, "a"] * 10, dtype=object)):
        with pytest.raises(ValueError, match=r"^y = .*expected numbers only, or texts only"):
            BilinearClassifier(strength=1.0).fit(inputs, labels)
        with pytest.raises(ValueError, match=r"^groups = .*expected numbers only, or texts only"):
            BilinearRegressor(strength=1.0).fit(inputs, np.arange(20), groups=np.array(labels, dtype=object))


class Table:
    """A data frame of another package: columns by name, and NumPy's protocol."""

    def __init__(self, values):
        self.values, self.columns, self.shape = values, [f"c{k}" for k in range(values.shape[1])], values.shape
        self.dtypes = ["Float64"] * values.shape[1]

    def __getitem__(self, name):
        return self.values[:, self.columns.index(name)]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype=dtype)


def test_data_frames_of_any_package_have_names_of_features():
    inputs, labels, _ = bilinear(n=20)
    flat = inputs.reshape(20, 30)
    found = BilinearRegressor((5, 6), strength=1.0).fit(Table(flat), labels)
    assert found.feature_names_in_.tolist() == Table(flat).columns
    np.testing.assert_array_equal(found.predict(Table(flat)), found.predict(pandas.DataFrame(flat).add_prefix("c")))
    with pytest.raises(ValueError, match="feature names should match"):
        found.predict(pandas.DataFrame(flat).add_prefix("d"))
    # Tables of Arrow have columns without names, and types of columns may be those of another package.
    unnamed = Table(flat)
    unnamed.columns = list(flat.T)
    again = BilinearRegressor((5, 6), strength=1.0).fit(unnamed, labels)
    np.testing.assert_allclose(again.coef_, found.coef_, atol=1e-12)
    refuse_dates("y", Table(flat))
    with pytest.raises(DataError, match=r"y = '<datetime64\[D\]>'"):
        refuse_dates("y", Table(flat.astype("datetime64[D]")))


@pytest.mark.parametrize("kind", ["csr", "coo", "dia", "bsr"])
def test_sparse_inputs_are_refused_as_scikit_learn_does(kind):
    inputs, labels, _ = bilinear(n=20)
    with pytest.raises(TypeError, match="Sparse data was passed for X, but dense data is required"):
        BilinearRegressor((5, 6), strength=1.0).fit(
            scipy.sparse.csr_array(inputs.reshape(20, 30)).asformat(kind), labels
        )


def test_sequences_without_a_token_are_refused_by_their_place():
    samples, numbers, _ = bilinear(60)
    given = [*samples]
    given[3] = given[3][:0]
    with pytest.raises(ValueError, match=r"no token in X\[3\].*remove empty sequences"):
        AttentionRegressor(strengths=2).fit(given, numbers)


@pytest.mark.parametrize("solver", ["risk", "bayes"])
@pytest.mark.parametrize(
    "arguments",
    [{"loss": "log"}, {"strength": "best"}, {"strengths": -1}, {"folds": 1}, {"tolerance": 0.0}, {"max_iterations": 0}],
)
def test_values_without_a_meaning_are_refused_where_they_are_not_needed(solver, arguments):
    inputs, labels, _ = bilinear(n=20)
    (name,) = arguments
    with pytest.raises(ValueError, match=f"^{name} = "):
        BilinearRegressor(**{"solver": solver, "strength": 1.0, **arguments}).fit(inputs, labels)


def test_a_loss_that_message_passing_does_not_have_is_refused():
    inputs, labels, _ = bilinear(n=60)
    with pytest.raises(ValueError, match=r"solver = bayes and loss = 'huber' .*use solver = risk"):
        BilinearRegressor(solver="bayes", loss="huber").fit(inputs, labels)


def test_tokens_of_zeros_are_no_missing_ones():
    """Sequences that differ in how many they have are no repetitions of one another."""
    rng = np.random.default_rng(0)
    starts = rng.integers(-1, 2, (40, 2, 3)).astype(float)
    given = [np.vstack([one, np.zeros((length - 2, 3))]) for one in starts for length in (2, 5, 9)]
    labels = np.arange(120) // 3 % 7.0
    found = AttentionRegressor(strength=0.05).fit(given, labels)
    other = [one + 1e-9 * rng.standard_normal(one.shape) for one in given]
    apart = AttentionRegressor(strength=0.05).fit(other, labels)
    deviations = [one.predict(given[:1], return_std=True)[1][0] for one in (found, apart)]
    assert deviations[0] == pytest.approx(deviations[1], rel=0.05)


@pytest.mark.slow
def test_deviations_tell_the_peak_of_errors_where_samples_are_as_many_as_unknowns():
    """Nine tenths of the samples lie off it: 0.96 was said for 2.09."""
    rng, said, missed = np.random.default_rng(0), [], []
    for _ in range(6):
        signal = np.outer(rng.standard_normal(10), rng.standard_normal(10)) / 10
        inputs = rng.standard_normal((500, 10, 10))
        labels = np.tensordot(inputs, signal, 2) + 0.3 * rng.standard_normal(500)
        found = BilinearRegressor(penalty="ridge", strength=1e-4).fit(inputs[:100], labels[:100])
        guess, deviation = found.predict(inputs[100:], return_std=True)
        said.append(np.mean(deviation**2))
        missed.append(np.mean((guess - labels[100:]) ** 2))
    assert 0.7 < np.sqrt(np.mean(said) / np.mean(missed)) < 1.4


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [{"strengths": 6}, {"solver": "bayes"}, {"penalty": "ridge", "strength": 0.1}])
def test_ranks_are_numbers_of_directions_that_stand_out_of_the_noise(arguments):
    """More singular values are not zero, since weak directions help to predict."""
    rng = np.random.default_rng(0)
    for width in (1, 3):
        matrix = rng.standard_normal((10, width)) @ rng.standard_normal((width, 10))
        inputs = rng.standard_normal((500, 10, 10))
        labels = np.tensordot(inputs, matrix, 2) / np.linalg.norm(matrix) + 0.3 * rng.standard_normal(500)
        found = BilinearRegressor(**arguments).fit(inputs, labels)
        assert found.signal_rank_ == width < found.rank_ == np.sum(found.singular_values_ > 1e-10)


def test_a_refit_at_the_rank_above_the_noise_has_no_bias():
    """The nuclear norm shrinks the matrix by a tenth and more, and keeps weak directions."""
    rng = np.random.default_rng(0)
    matrix = np.outer(rng.standard_normal(10), rng.standard_normal(10))
    matrix /= np.linalg.norm(matrix)
    inputs = rng.standard_normal((160, 10, 10))
    labels = np.tensordot(inputs, matrix, 2) + 0.5 * rng.standard_normal(160)
    shrunk, fitted = (BilinearRegressor(strengths=10, refit=refit).fit(inputs, labels) for refit in (None, "rank"))
    size = [float(np.sum(one.coef_ * matrix)) for one in (shrunk, fitted)]
    assert size[0] < 0.9 and 0.93 < size[1] < 1.05
    assert fitted.rank_ == 1 == np.linalg.matrix_rank(fitted.coef_) < np.linalg.matrix_rank(shrunk.coef_)
    assert np.linalg.norm(fitted.coef_ - matrix) < 0.8 * np.linalg.norm(shrunk.coef_ - matrix)
    with pytest.raises(IncompatibleError, match="refit"):
        fitted.predict_interval(inputs)
    with pytest.raises(IncompatibleError, match="refit"):
        BilinearRegressor(solver="bayes", refit="rank").fit(inputs, labels)
    assert BilinearClassifier(strength=0.1, refit=2).fit(inputs, labels > 0).singular_values_[2] < 1e-9
    with pytest.warns(DataWarning, match="strength = 1000 gives a fit of zero"):
        assert not BilinearRegressor(strength=1e3, refit=1).fit(inputs, labels).coef_.any()


@pytest.mark.parametrize("scale", ["features", "whiten"])
def test_patterns_are_zero_where_inputs_only_cancel_noise(scale):
    """One token has signal and noise, the other one the same noise: it helps to predict, without any signal."""
    rng = np.random.default_rng(0)
    signal, noise = rng.standard_normal((2, 4000, 3))
    inputs = np.stack([signal + noise, noise], axis=1) * [1.0, 2.0, 0.5]
    labels = signal[:, 0] + 0.1 * rng.standard_normal(4000)
    found = BilinearRegressor(strength=1e-3, scale=scale).fit(inputs, labels)
    assert found.coef_[1, 0] < -0.9 and abs(found.patterns_[1, 0]) < 0.05
    np.testing.assert_allclose(found.patterns_[0], [1.0, 0.0, 0.0], atol=0.15)


def test_ranks_of_classes_and_of_attention():
    rng = np.random.default_rng(0)
    inputs, w = rng.standard_normal((500, 2, 8)), rng.standard_normal(8)
    noise = 0.3 * rng.standard_normal(500)
    fields = ((inputs @ w) ** 2).mean(axis=1) / (w @ w) + noise
    assert AttentionRegressor(strength=0.03, linear=False).fit(inputs, fields).signal_rank_ == 1
    classes = inputs[:, 0] @ w / np.linalg.norm(w) + noise > 0.3
    assert BilinearClassifier(strength=1.0).fit(inputs, classes).signal_rank_ == 1
    shuffled = BilinearClassifier(strength=1.0).fit(inputs, rng.permutation(classes))
    assert shuffled.signal_rank_ == 0
    # Values of labels without signal are those of noise of the same size and strength.
    assert shuffled.spectrum_.seen == pytest.approx(shuffled.spectrum_.noise, rel=0.15)


@pytest.mark.parametrize("scale", ["features", "whiten"])
@pytest.mark.parametrize("kind", [BilinearRegressor, AttentionRegressor])
def test_single_precision_stays(kind, scale):
    """Also of inputs far from zero, and of a list of sequences; the result is that of double precision."""
    inputs, labels, _ = bilinear(n=60)
    single = (100 + inputs).astype(np.float32)
    found = kind(strength=0.1, scale=scale, tolerance=1e-6).fit(single, labels)
    assert found._new_design(single).inputs.dtype == np.float32 == found._new_design(list(single)).inputs.dtype
    double = kind(strength=0.1, scale=scale, tolerance=1e-6).fit(single.astype(float), labels)
    np.testing.assert_allclose(found.predict(single), double.predict(single.astype(float)), atol=1e-3)


def test_flat_samples_without_a_shape_are_said_to_be_single_tokens():
    inputs, labels, _ = bilinear(n=30)
    flat = inputs.reshape(30, -1)
    with pytest.warns(DataWarning, match=r"X = \(30, 30\) is flat.*give shape=\(L, d\), or shape=\(1, -1\)") as caught:
        told = BilinearRegressor(strength=1.0).fit(flat, labels)
    assert [one.filename for one in caught] == [__file__]
    np.testing.assert_array_equal(
        told.predict(flat), BilinearRegressor((1, -1), strength=1.0).fit(flat, labels).predict(flat)
    )


@pytest.mark.parametrize("kind", ALL)
def test_unknown_parameters_are_blamed_on_their_own_class(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__.* 'rank'"):
        kind(rank=3)


def test_nested_lists_of_unequal_length_are_sequences():
    inputs, labels, _ = bilinear(n=30)
    lengths = 2 + np.arange(30) % 4
    parts = [one[:length] for one, length in zip(inputs, lengths, strict=True)]
    nested = [one.tolist() for one in parts]
    plain, listed = (BilinearRegressor(strength=1.0).fit(given, labels) for given in (parts, nested))
    np.testing.assert_array_equal(plain.predict(parts), listed.predict(nested))
    nested[4][1] = nested[4][1][:2]
    with pytest.raises(ValueError, match=r"^X\[4\] = .* is not allowed: expected tokens of one dimension"):
        BilinearRegressor(strength=1.0).fit(nested, labels)


@pytest.mark.parametrize("kind", [BilinearClassifier, AttentionClassifier])
def test_weights_of_classes_are_those_of_their_samples(kind):
    inputs, fields, _ = bilinear(n=100)
    classes = np.where(fields > np.quantile(fields, 0.8), "high", "low")
    share = np.mean(classes == "high")
    weights = np.where(classes == "high", 0.5 / share, 0.5 / (1 - share))
    plain = kind(strength=0.5).fit(inputs, classes, sample_weight=weights)
    for given in ("balanced", {"high": 0.5 / share, "low": 0.5 / (1 - share)}):
        found = kind(strength=0.5, class_weight=given).fit(inputs, classes)
        np.testing.assert_allclose(found.coef_, plain.coef_)
    assert np.sum(found.predict(inputs) == "high") > np.sum(
        kind(strength=0.5).fit(inputs, classes).predict(inputs) == "high"
    )
    with pytest.raises(ValueError, match=r"class_weight = 'even' .*balanced, a dictionary"):
        kind(strength=0.5, class_weight="even").fit(inputs, classes)
    with pytest.raises(ValueError, match="solver = bayes and class_weight exclude each other"):
        BilinearClassifier(solver="bayes", class_weight="balanced").fit(inputs, classes)


@pytest.mark.slow
def test_groups_are_held_back_together():
    """Ten samples of every subject, whose labels have a number of their own: only other subjects tell the error."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(12), 10)
    inputs = rng.standard_normal((12, 4, 5))[subject] + 0.1 * rng.standard_normal((120, 4, 5))
    labels = rng.standard_normal(12)[subject] + 0.1 * rng.standard_normal(120)
    settings = {"strengths": 6, "folds": 4}
    apart = BilinearRegressor(**settings).fit(inputs, labels)
    together = BilinearRegressor(**settings).fit(inputs, labels, groups=np.array(list("abcdefghijkl"))[subject])
    assert apart.cross_validation_.mean.min() < 0.3 < 0.45 < together.cross_validation_.mean.min()
    with pytest.warns(DataWarning, match="folds = 4, but there are 3 different groups: cross-validation has 3 folds"):
        BilinearRegressor(**settings).fit(inputs, labels, groups=subject % 3)
    # Equal samples of two groups link these.
    inputs[10], labels[10] = inputs[0], labels[0]
    with pytest.warns(DataWarning, match="2 different groups"):
        BilinearRegressor(**settings).fit(inputs, labels, groups=subject % 3)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        BilinearRegressor(**settings).fit(inputs, labels, groups=subject[:-1])
    for missing in (np.where(subject == 3, np.nan, subject), np.where(subject == 3, None, "one")):
        with pytest.raises(ValueError, match=r"groups = '<\w+ of sample 30>' is not allowed"):
            BilinearRegressor(**settings).fit(inputs, labels, groups=missing)
    with pytest.raises(ValueError, match=r"one group of 120 samples.*expected two or more groups"):
        BilinearRegressor(**settings).fit(inputs, labels, groups=np.ones(120))


def test_errors_of_predictions_leave_out_whole_groups():
    """Samples of one subject have nearly the same input and the same label, which is noise."""
    rng = np.random.default_rng(0)
    subject = np.repeat(np.arange(12), 5)
    inputs = rng.standard_normal((12, 3, 3))[subject] + 0.01 * rng.standard_normal((60, 3, 3))
    labels = rng.standard_normal(12)[subject]
    alone, whole = (
        BilinearRegressor(strength=1e-2).fit(inputs, labels, groups=groups).predict(inputs, return_std=True)[1].mean()
        for groups in (None, subject)
    )
    assert alone < 0.5
    assert whole > 1


def test_errors_of_predictions_grow_out_of_the_range_of_the_inputs():
    """Where inputs have powers of their own, errors of large ones are nearer to what is said of them."""
    missed = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        signal = rng.standard_normal((8, 8)) / 8
        inputs = rng.standard_normal((2120, 8, 8)) * np.exp(0.7 * rng.standard_normal(2120))[:, None, None]
        labels = np.tensordot(inputs, signal, 2) + 0.5 * rng.standard_normal(2120)
        found = BilinearRegressor(penalty="ridge", strengths=6).fit(inputs[:120], labels[:120])
        guess, deviation = found.predict(inputs[120:], return_std=True)
        large = np.argsort(np.sum(inputs[120:] ** 2, axis=(1, 2)))[-400:]
        missed.append(np.mean(((guess - labels[120:]) / deviation)[large] ** 2))
    # 2.6 where inputs are not asked.
    assert np.mean(missed) < 1.8
    near, far = inputs[120:121], 1000 * inputs[120:121]
    assert found.predict(far, return_std=True)[1] > 100 * found.predict(near, return_std=True)[1]
    assert np.ptp(found.predict_interval(far)) > 100 * np.ptp(found.predict_interval(near))


def test_a_strength_above_the_largest_useful_one_is_said():
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((30, 3, 3)), rng.standard_normal(30)
    with pytest.warns(DataWarning, match=r"strength = 1000 gives a fit of zero: the largest useful one is [\d.]+"):
        BilinearRegressor(strength=1e3).fit(inputs, labels)
