"""One family of penalties: the same object serves matrices, positive matrices, one row and several rows."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    RegularisedRisk,
    SequenceMultiIndex,
    limits,
    simulate,
    thresholds,
)
from glassformer.data_analysis import leave_one_out, risk_path
from glassformer.designs import DenseDesign
from glassformer.errors import IncompatibleError, ParameterError
from glassformer.penalties import ElasticNet, GroupNorm, Penalty, penalty_of
from glassformer.risk.penalties import PENALTIES

MATRIX = BilinearSequenceRegression(rho=0.3, noise=0.1)
POSITIVE = AttentionIndexed(rho=0.3, noise=0.2, channel="linear")
LINE = SequenceMultiIndex(lambda z: z[0, 0], noise=0.5)
SPARSE = SequenceMultiIndex(lambda z: z[0, 0], noise=0.5, prior="gauss-bernoulli:0.2")
FEATURES = SequenceMultiIndex(lambda z: z[0, 0], noise=0.5, feature_spectrum=[0.5, 1.5])
ROWS = SequenceMultiIndex(lambda z: jnp.stack([z[0, 0] + 0.5 * z[1, 0], z[1, 0]]), indices=2, noise=0.3)
FEW = Accuracy(points=256)


@dataclass(frozen=True)
class Absolute(Penalty):
    """The absolute value, as a user writes it: what must be there, and no more."""

    def value(self, x):
        return np.abs(x)

    def proximal(self, x, step):
        return np.sign(x) * np.maximum(np.abs(x) - step, 0.0)


@dataclass(frozen=True)
class Bridge(Penalty):
    r"""The penalty :math:`|x|^{3/2}`, without a kink at zero."""

    def value(self, x):
        return np.abs(x) ** 1.5

    def proximal(self, x, step):
        root = 2 * np.abs(x) / (1.5 * step + np.sqrt(2.25 * step**2 + 4 * np.abs(x)))
        return np.sign(x) * root**2


@pytest.mark.parametrize("penalty", [*PENALTIES.values(), Absolute(), Bridge(), Bridge().times(0.7, 1.3)])
def test_a_penalty_agrees_with_itself(penalty):
    assert penalty_of(penalty) is penalty
    x = np.array([[-2.0, -0.3, 0.1, 1.4, 3.0]])
    step, size = 0.4, 1e-6
    slopes = (penalty.value(x + size) - penalty.value(x - size)).ravel() / (2 * size)
    np.testing.assert_allclose(penalty.slope(x).ravel(), slopes, rtol=1e-6, atol=1e-9)
    p = penalty.proximal(x, step)
    moved = p != 0
    np.testing.assert_allclose((p + step * penalty.slope(p))[moved], x[moved], rtol=1e-7)
    assert np.all(np.abs(x[~moved]) <= step * penalty.kink)
    if penalty.separable:
        change = (penalty.proximal(x + size, step) - penalty.proximal(x - size, step)) / (2 * size)
        np.testing.assert_allclose(penalty.proximal_slope(x, step), change, rtol=1e-6, atol=1e-6)


def test_a_slope_at_zero_is_found():
    assert Absolute().kink == pytest.approx(1.0, abs=1e-11)
    assert Absolute().times(0.3, 2.0).kink == pytest.approx(0.6, abs=1e-11)
    assert Bridge().kink == 0.0


@pytest.mark.parametrize("name", ["nuclear", "elastic", "group"])
def test_a_conjugate_bound_is_one(name):
    """Slopes inside the unit ball of the dual norm give zero; beyond, no point of the set gives more."""
    penalty, rng = penalty_of(name), np.random.default_rng(0)
    slopes = rng.standard_normal((2, 3))
    bound = penalty.conjugate_bound(slopes, 0.5, 3.0)
    for _ in range(200):
        x = rng.standard_normal((2, 3)) * rng.exponential(2.0)
        cost = 0.5 * float(np.sum(penalty.value(x)))
        x, cost = (x, cost) if cost <= 3 else (x * 3 / cost, 0.5 * float(np.sum(penalty.value(x * 3 / cost))))
        assert np.sum(slopes * x) - cost <= bound
    if name == "elastic":
        own = ElasticNet(0.5, 0.5)
        assert Penalty.conjugate_bound(own, slopes, 0.5, 1e6) == pytest.approx(own.conjugate_bound(slopes, 0.5, 1e6))


CASES = [
    (MATRIX, "nuclear", 1.0),
    (POSITIVE, "trace", 0.5),
    (LINE, "lasso", 2.0),
    (SPARSE, "lasso", 1.0),
    (FEATURES, "lasso", 1.0),
]


@pytest.mark.parametrize(("model", "name", "alpha"), CASES)
def test_an_own_penalty_has_the_theory_of_the_named_one(model, name, alpha):
    own, named = (limits(model, [alpha, 2 * alpha], RegularisedRisk("square", one, 0.3)) for one in (Absolute(), name))
    for column in ("error", "power", "training_loss"):
        np.testing.assert_allclose(own[column].ravel(), named[column].ravel(), rtol=1e-7)
    assert own.parameters["penalty"] == "absolute"


@pytest.mark.thorough
def test_an_own_penalty_of_several_rows_has_the_theory_of_the_named_one():
    learners = (RegularisedRisk("square", one, 0.5, student="linear") for one in (Absolute(), "lasso"))
    own, named = (limits(ROWS, [2.0], learner, accuracy=FEW) for learner in learners)
    np.testing.assert_allclose(own["error"], named["error"], rtol=1e-6)
    np.testing.assert_allclose(own["stability"], named["stability"], rtol=1e-5)


def test_a_best_strength_and_thresholds_of_an_own_penalty():
    own, named = (limits(MATRIX, [0.8], RegularisedRisk(penalty=one)) for one in (Absolute(), "nuclear"))
    np.testing.assert_allclose(own["strength"], named["strength"], rtol=1e-4)
    assert own["error"] == pytest.approx(named["error"], rel=1e-8)
    found = [thresholds(MATRIX, RegularisedRisk("square", one, 2.0)) for one in (Absolute(), "nuclear")]
    assert found[0]["weak_recovery"].alpha == pytest.approx(found[1]["weak_recovery"].alpha, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "alpha", "d"),
    [pytest.param(MATRIX, 1.0, 60, marks=pytest.mark.thorough), (POSITIVE, 0.5, 60), (LINE, 2.0, 300)],
)
def test_theory_of_an_own_penalty_agrees_with_its_minimiser_on_data(model, alpha, d):
    learner = RegularisedRisk("square", Bridge(), 0.3)
    theory, runs = limits(model, [alpha], learner), simulate(model, [alpha], learner, d=d, instances=6)
    assert [str(one) for one in runs.status] == ["converged"]
    # Four standard errors and a finite-size effect of order 1/d.
    assert abs(runs["error"] - theory["error"]) < 4 * runs["standard_error"] + 1 / d
    other = limits(model, [alpha], RegularisedRisk("square", Absolute(), 0.3))
    assert abs(theory["error"] - other["error"]) > 4 * runs["standard_error"] + 1 / d


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), [(MATRIX, "nuclear"), (POSITIVE, "trace"), (LINE, "lasso")])
def test_an_own_penalty_has_the_minimiser_of_the_named_one(model, name):
    own, named = (
        simulate(model, [1.0], RegularisedRisk("square", one, 0.3), d=20, instances=2) for one in (Absolute(), name)
    )
    assert own.status == named.status
    np.testing.assert_allclose(own["error"], named["error"], rtol=3e-3)


def test_an_own_penalty_has_a_path_and_no_approximate_leave_one_out():
    rng = np.random.default_rng(0)
    design = DenseDesign.sample(60, (6, 6), rng)
    labels = design.forward(rng.standard_normal((6, 6)), 0)
    paths = [risk_path(design, labels, "square", one, [1.0, 0.3]) for one in (Absolute(), "nuclear")]
    assert paths[0].converged
    np.testing.assert_allclose(paths[0].estimates, paths[1].estimates, atol=0.02)
    with pytest.raises(IncompatibleError, match=r"penalty absolute has no closed forms.*use nuclear or ridge"):
        leave_one_out(design, labels, paths[0].estimates[0], 1.0, "square", Absolute())


@dataclass(frozen=True)
class OfRows(Absolute):
    """A penalty that is for rows alone."""

    signals = ("rows",)


@dataclass(frozen=True)
class Wrong(Absolute):
    """A penalty whose proximal map is that of another strength."""

    def proximal(self, x, step):
        return super().proximal(x, 2 * step)


@dataclass(frozen=True)
class Root(Absolute):
    """A penalty that is not convex."""

    def value(self, x):
        return np.sqrt(np.abs(x))


@pytest.mark.parametrize(
    ("model", "penalty", "words"),
    [
        (MATRIX, OfRows(), "penalty = 'ofrows' .*this one is for rows"),
        (LINE, PENALTIES["nuclear"], "penalty = 'nuclear' .*one of ridge, elastic, lasso, group"),
        (LINE, Wrong(), "penalty = 'wrong' .*the minimiser of"),
        (LINE, Root(), "penalty = 'root' .*convex"),
        (LINE, 3, "penalty = 3 .*one of nuclear"),
    ],
)
def test_what_a_penalty_is_not_for_is_refused(model, penalty, words):
    with pytest.raises((ParameterError, IncompatibleError), match=words):
        limits(model, [1.0], RegularisedRisk("square", penalty, 0.3))


def test_the_norm_of_one_row_is_its_lasso():
    group, lasso = (RegularisedRisk("square", one, 0.5, student="linear") for one in (GroupNorm(), "lasso"))
    found = limits(LINE, [2.0], group, accuracy=FEW), limits(LINE, [2.0], lasso)
    assert abs(found[0]["error"] - found[1]["error"]) < found[0]["error_estimate"]
