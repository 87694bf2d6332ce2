"""Learning curves beyond the data in hand, against estimators that have them."""

import numpy as np
import pandas
import pytest
from sklearn.exceptions import DataConversionWarning
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import NearestCentroid

from glassformer import IncompatibleError
from glassformer.errors import DataError, DataWarning, ParameterError
from glassformer.sklearn import (
    AttentionClassifier,
    AttentionRegressor,
    BilinearClassifier,
    BilinearRegressor,
    forecast,
)


def drawn(seed, size=12, noise=0.2):
    """A source of samples of width 2, in units and around means of their own."""
    rng = np.random.default_rng(seed)
    signal = rng.standard_normal((size, 2)) @ rng.standard_normal((2, size)) / np.sqrt(2) / size

    def samples(n):
        inputs = rng.standard_normal((n, size, size))
        clean = np.einsum("nld,ld->n", inputs, signal)
        return 1 + 2 * inputs, 5 + 3 * (clean + np.sqrt(noise) * rng.standard_normal(n))

    return samples


def reached(estimator, samples, sizes):
    """Mean squared errors on new samples of the estimator that has so many."""
    inputs, labels = samples(4000)
    found = [estimator.fit(*samples(n)).predict(inputs) for n in sizes]
    return np.array([np.mean((one - labels) ** 2) for one in found])


@pytest.fixture(scope="module")
def pilot():
    samples = drawn(0)
    return samples, forecast(BilinearRegressor(solver="bayes"), *samples(130), [260, 520], splits=1)


@pytest.mark.thorough
def test_the_truth_at_larger_sizes_lies_in_the_band(pilot):
    samples, found = pilot
    true = reached(BilinearRegressor(solver="bayes"), samples, [260, 520])
    assert found.status.ok
    assert np.all(found.low <= true)
    assert np.all(true <= found.high)
    assert np.all(np.diff(found.error) < 0)
    assert np.all(found.error < found.checked.min())


@pytest.mark.slow
def test_a_forecast_is_a_table_and_a_plot(pilot, tmp_path):
    found = pilot[1]
    assert found.to_pandas()["n"].tolist() == [65, 97, 260, 520]
    assert found.to_dict()["points"][0]["measured"] == found.measured[0]
    found.plot(tmp_path / "curve.png")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_what_has_no_theory_is_refused():
    inputs, labels = drawn(1)(60)
    with pytest.raises(IncompatibleError, match=r"there is no theory of Ridge.*by = measured"):
        forecast(Ridge(), inputs, labels, 100)
    with pytest.raises(ParameterError, match=r"strength = 1\.0 .*or by = measured with splits >= 2$"):
        forecast(BilinearRegressor(strength=1.0), inputs, labels, 100, splits=1)
    with pytest.raises(DataError, match=r"y = '<60 times 3.5>' .*labels that vary$"):
        forecast(BilinearRegressor(solver="bayes"), inputs, np.full(60, 3.5), 100)
    with pytest.raises(DataError, match="y = '<a masked array>'"):
        forecast(Ridge(), inputs, np.ma.masked_greater(labels, labels[0]), 100, by="measured")
    with pytest.raises(ParameterError, match=r"n = 2\.5"):
        forecast(BilinearRegressor(), inputs, labels, [2.5])
    with pytest.raises(ParameterError, match=r"n = \[\]"):
        forecast(BilinearRegressor(), inputs, labels, [])
    with pytest.raises(ParameterError, match="loss = 'huber'"):
        forecast(BilinearRegressor(loss="huber"), inputs, labels, 100)
    with pytest.raises(ParameterError, match=r"penalty = 'nuclear' .*trace, or by = measured"):
        forecast(AttentionRegressor(), inputs, labels, 100)
    with pytest.raises(IncompatibleError, match=r"loss = 'hinge' .*use by = measured"):
        forecast(BilinearClassifier(loss="hinge"), inputs, labels > 5, 100)
    with pytest.raises(IncompatibleError, match=r"3 classes .*use by = measured"):
        forecast(BilinearClassifier(), inputs, np.digitize(labels, [3, 7]), 100)


def test_attention_that_labels_fall_with_has_no_theory_of_risk():
    inputs, fields = quadratic(0, 200)
    with pytest.raises(IncompatibleError, match="use solver = bayes"):
        forecast(AttentionRegressor(penalty="trace"), inputs, -fields, 400)


def quadratic(seed, n, size=10):
    """Inputs of two tokens, and a positive quadratic form of theirs around its mean, of unit variance."""
    rng = np.random.default_rng(seed)
    factor = np.random.default_rng(9).standard_normal((size, 2))
    matrix = factor @ factor.T
    inputs = rng.standard_normal((n, 2, size))
    seen = np.einsum("ntd,ntd->n", inputs @ matrix, inputs) - 2 * np.trace(matrix)
    return inputs, seen / np.sqrt(4 * np.sum(matrix**2))


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::glassformer.errors.DataWarning")
@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        pytest.param(BilinearClassifier, {"solver": "bayes"}, marks=pytest.mark.thorough),
        (BilinearClassifier, {"penalty": "ridge", "strengths": 5}),
        pytest.param(AttentionRegressor, {"strength": "theory", "penalty": "trace"}, marks=pytest.mark.thorough),
        pytest.param(AttentionClassifier, {"solver": "bayes"}, marks=pytest.mark.thorough),
    ],
)
def test_forecasts_of_classes_and_of_attention_hold_the_truth(kind, arguments):
    """One pilot set each, labels in units of their own; as many as it takes are in benchmarks/check_forecasts.py."""
    if kind is BilinearClassifier:
        inputs, labels = drawn(0)(2450)
        labels = np.where(labels > 5.5, "up", "down")
    else:
        inputs, fields = quadratic(0, 2450)
        labels = 5 + 3 * (fields + 0.5 * np.random.default_rng(1).standard_normal(2450))
        labels = labels if kind is AttentionRegressor else labels > 5.5
    found = forecast(kind(**arguments), inputs[:200], labels[:200], [300, 450], splits=1)
    later = kind(**arguments).fit(inputs[:450], labels[:450]).predict(inputs[450:])
    wrong = later != labels[450:] if found.quantity == "share of wrong classes" else (later - labels[450:]) ** 2
    assert (found.by, found.status.ok, found.agrees) == ("theory", True, True)
    assert found.quantity == ("mean squared error" if kind is AttentionRegressor else "share of wrong classes")
    assert found.low[1] <= wrong.mean() <= found.high[1]
    assert np.all(found.error < found.checked.min()) and np.all(found.high < 4 * found.low)
    assert np.all(np.isnan(found.r2)) == (kind is not AttentionRegressor)


def linear(seed, n=5000):
    """Five features, numbers with noise 1, and classes of two names."""
    rng = np.random.default_rng(seed)
    inputs, signal = rng.standard_normal((n, 5)), rng.standard_normal(5)
    fields = inputs @ signal
    return inputs, fields + rng.standard_normal(n), np.where(fields + rng.standard_normal(n) > 0, "up", "down")


@pytest.mark.slow
def test_the_band_of_what_was_measured_holds_the_truth():
    """Ordinary least squares of five parameters and noise 1 has an error of 1 + 5 / n; 0.95 of 20 with room for one."""
    inside = []
    for seed in range(20):
        inputs, numbers, _ = linear(seed, 200)
        found = forecast(LinearRegression(), inputs, numbers, [400, 1600], by="measured", splits=5)
        true = 1 + 5 / found.n
        inside.append(np.all((found.low <= true) & (true <= found.high)))
    assert np.mean(inside) >= 0.87


def test_what_cannot_be_continued_is_refused():
    rng = np.random.default_rng(0)
    inputs, labels = rng.standard_normal((160, 6)), rng.standard_normal(160)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        forecast(Ridge(), inputs, labels[:150], [320], by="measured")
    with pytest.raises(DataError, match="labels that vary"):
        forecast(Ridge(), inputs, np.ones(160), [320], by="measured")
    labels[3] = np.nan
    with pytest.raises(DataError, match=r"y\[3\] = nan"):
        forecast(Ridge(), inputs, labels, [320], by="measured")


@pytest.mark.slow
def test_what_has_no_theory_is_continued_as_it_was_measured(tmp_path):
    inputs, numbers, names = linear(0)
    found = forecast(Ridge(), inputs[:200], numbers[:200], [400, 800], by="measured")
    assert (found.quantity, found.by, found.estimated) == ("mean squared error", "measured", None)
    assert np.all(np.diff(found.high - found.low) != 0)
    classes = forecast(LogisticRegression(), inputs[:200], names[:200], 600, by="measured")
    assert classes.quantity == "share of wrong classes"
    assert classes.to_dict()["points"][-1]["r2"] is None
    classes.plot(tmp_path / "curve.png")
    with pytest.raises(ParameterError, match="by = 'guess'"):
        forecast(Ridge(), inputs, numbers, 900, by="guess")
    with pytest.raises(ParameterError, match="at least 107 samples"):
        forecast(Ridge(), inputs[:60], numbers[:60], 900, by="measured")


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::glassformer.errors.DataWarning")
@pytest.mark.parametrize("arguments", [{"solver": "bayes"}, {"strengths": 10}], ids=["bayes", "risk"])
def test_bands_hold_what_they_say(arguments):
    """Of forecasts whose message passing settled, which of so few samples is not always so."""
    estimator, inside = BilinearRegressor(**arguments), []
    for seed in range(8):
        samples = drawn(seed, size=16)
        found = forecast(estimator, *samples(200), [400, 800], splits=1)
        if found.status.ok:
            true = reached(estimator, samples, [400, 800])
            inside += ((found.low <= true) & (true <= found.high)).tolist()
    assert len(inside) >= 10
    assert np.mean(inside) >= 0.85


@pytest.mark.thorough
def test_bands_of_shares_of_wrong_classes_hold_the_truth():
    inside = []
    for seed in range(40):
        inputs, _, names = linear(seed)
        found = forecast(LogisticRegression(), inputs[:300], names[:300], [600, 1200], by="measured")
        for n, low, high in zip([600, 1200], found.low, found.high, strict=True):
            wrong = np.mean(LogisticRegression().fit(inputs[:n], names[:n]).predict(inputs[1200:]) != names[1200:])
            inside.append(low <= wrong <= high)
    assert np.mean(inside) >= 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::glassformer.errors.DataWarning")
def test_the_variance_of_so_many_labels_is_in_the_band():
    """Of labels that are noise the error at any size is their variance, known to a tenth from 200 of them."""
    rng = np.random.default_rng(7)
    found = forecast(
        BilinearRegressor(solver="bayes"), rng.standard_normal((200, 8, 8)), rng.standard_normal(200), [800], splits=1
    )
    assert found.low[0] < 1.0 < found.high[0]
    assert found.high[0] - found.error[0] > 1.5 * np.sqrt(2 / 200) * found.error[0]


@pytest.mark.slow
def test_labels_in_a_column_and_inputs_in_a_frame(pilot):
    inputs, labels = pilot[0](160)
    frame = pandas.DataFrame(inputs.reshape(160, -1)).add_prefix("x")
    known = forecast(Ridge(), frame.to_numpy(), labels, [260], by="measured", splits=2)
    with pytest.warns(DataConversionWarning):
        found = forecast(Ridge(), frame, labels[:, None], [260], by="measured", splits=2)
    assert found.error == pytest.approx(known.error, rel=1e-9)
    with pytest.raises(ValueError, match="1d array"):
        forecast(Ridge(), frame, np.stack([labels, labels], axis=1), [260], by="measured")
    with pytest.raises(DataError, match="none of them missing"):
        forecast(Ridge(), frame, [None] * 160, [260], by="measured")


@pytest.fixture
def held_back_errors(monkeypatch):
    """Return given errors on held-out samples in place of measured ones."""

    def given(*errors):
        told = np.array(errors), np.full(2, 0.01)
        monkeypatch.setattr("glassformer.sklearn.forecasts.errors_on_rest", lambda *asked: told)

    return given


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:the data violate the assumptions of message passing")
def test_a_theory_that_did_not_settle_gives_no_number(held_back_errors):
    """Correlated tokens, with which message passing oscillates."""
    rng = np.random.default_rng(3)
    signal = rng.standard_normal((6, 2)) @ rng.standard_normal((2, 6))
    root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(6), np.arange(6))))
    inputs = np.einsum("ab,nbd->nad", root, rng.standard_normal((60, 6, 6)))
    labels = np.einsum("nld,ld->n", inputs, signal / np.linalg.norm(signal)) + 0.55 * rng.standard_normal(60)
    held_back_errors(0.7, 0.4)
    with pytest.warns(
        DataWarning, match=r"no forecast by theory: .*did not converge \(oscillating\); use by = measured"
    ):
        found = forecast(BilinearRegressor(solver="bayes"), inputs, labels, [400], splits=1)
    assert not found.status.ok and not found.agrees
    for numbers in (found.error, found.low, found.high, found.r2, found.checked):
        assert np.all(np.isnan(numbers))
    np.testing.assert_array_equal(found.measured, [0.7, 0.4])
    assert found.to_dict()["points"][-1]["error"] is None


@pytest.mark.slow
def test_a_theory_that_held_back_samples_contradict_gives_no_number(held_back_errors):
    inputs, labels = drawn(0)(130)
    held_back_errors(100.0, 90.0)
    with pytest.warns(DataWarning, match=r"held-out samples contradict it \(100 for .* at n = 65, 90 for .* use by"):
        found = forecast(BilinearRegressor(solver="bayes"), inputs, labels, [260], splits=1)
    assert found.status.ok and not found.agrees and found.widened > 1
    assert np.all(np.isnan(found.error)) and np.all(np.isnan(found.r2)) and np.all(np.isfinite(found.checked))
    assert found.high[0] > 20


def test_no_wrong_class_in_the_pilot_set_does_not_prove_a_zero_error():
    inputs = np.random.default_rng(0).standard_normal((200, 3))
    inputs[:, 0] += 5 * np.sign(inputs[:, 0])
    found = forecast(NearestCentroid(), inputs, inputs[:, 0] > 0, [400], by="measured")
    assert found.measured == pytest.approx(np.full(6, 1 / 202))
    assert 3 / 200 < found.high[0] < 0.1
