"""One convex row: fixed points by quadrature against closed forms, published numbers, identities and scikit-learn."""

from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from sklearn.linear_model import Ridge as RidgeRegression
from sklearn.svm import SVC, LinearSVC

from glassformer import Accuracy, RegularisedRisk, SequenceMultiIndex, limits, thresholds, trajectory
from glassformer.channels.labelling import draw_labels
from glassformer.core.errors import IncompatibleError, ParameterError
from glassformer.priors.law import Law
from glassformer.priors.laws import Discrete, GaussBernoulli
from glassformer.risk.custom_loss import CustomLoss
from glassformer.risk.losses import HardMargin, Hinge, Huber, Logistic, Square, SquaredHinge
from glassformer.risk.order_parameters import ConjugateParameters
from glassformer.risk.penalties import penalty_of
from glassformer.risk.rows.one_row import one_row_points
from glassformer.risk.rows.one_row_weights import weight_moments


def sign(z):
    return jnp.sign(z[0, 0])


def shifted_sign(z):
    return jnp.sign(z[0, 0] - 0.7)


def field(z):
    return z[0, 0]


def logits(z):
    return np.sqrt(5) * z[0, 0]


SIGNS, NUMBERS = SequenceMultiIndex(sign), SequenceMultiIndex(field, noise=0.1)
LOGISTIC = SequenceMultiIndex(logits, noise_law="logistic")
FLIPPED = SequenceMultiIndex(sign, noise_law="flip:0.1")
SPARSE = SequenceMultiIndex(field, noise=0.1, prior="gauss-bernoulli:0.2")


def columns(model, alpha, loss, penalty="ridge", strength=None, intercept=False):
    found = one_row_points(
        model, np.atleast_1d(np.asarray(alpha, float)), loss, penalty_of(penalty), strength, intercept
    )
    assert all(status.ok for status in found.statuses())
    return {name: np.ravel(value) for name, value in found.columns().items()}


@pytest.mark.parametrize(
    ("alpha", "strength", "power", "overlap", "error"),
    [(1, 0.1, 2.3173829, 1.0564126, 0.2558643), (3, 1, 0.5913993, 0.6655164, 0.1670625)],
)
def test_logistic_ridge_on_signs_has_the_known_order_parameters(alpha, strength, power, overlap, error):
    found = limits(SIGNS, [alpha], RegularisedRisk("logistic", "ridge", strength=strength))
    values = [np.ravel(found[name])[0] for name in ("power", "overlap", "label_error")]
    np.testing.assert_allclose(values, [power, overlap, error], atol=1e-7)


def test_the_maximum_likelihood_estimator_has_the_published_bias_and_variance():
    """Sur and Candes: bias 1.4994, standard deviation 4.7436 and lambda 3.0269 at kappa = 0.2 and gamma^2 = 5."""
    found = one_row_points(LOGISTIC, np.array([5.0]), Logistic(), penalty_of("ridge"), 0.0)
    order = found.points.order
    bias, kappa = order.overlap[0] / np.sqrt(5), 0.2
    deviation = np.sqrt((order.power[0] - order.overlap[0] ** 2) / kappa)
    np.testing.assert_allclose([bias, deviation, order.susceptibility[0] / kappa], [1.4994, 4.7436, 15.1345], atol=1e-3)


@pytest.mark.parametrize("alpha", [0.3, 0.9, 1.5, 4.0])
def test_least_squares_of_least_norm_descends_twice(alpha):
    """Hastie et al.: bias 1 - alpha, variance alpha/(1 - alpha) below one sample per weight, 1/(alpha - 1) above it."""
    row = columns(NUMBERS, alpha, Square(), strength=0.0)
    error = 1 - alpha + 0.1 * alpha / (1 - alpha) if alpha < 1 else 0.1 / (alpha - 1)
    np.testing.assert_allclose(row["error"][0], error, rtol=1e-9)
    np.testing.assert_allclose(row["stability"][0], min(alpha, 1 / alpha), rtol=1e-9)


def test_least_squares_of_as_many_noisy_labels_as_weights_has_an_infinite_error():
    found = limits(NUMBERS, [1.0, 2.0], RegularisedRisk("square", "ridge", strength=0.0))
    assert np.isinf(found["error"][0]) and found["error"][1] == pytest.approx(0.1)


def test_ridge_regression_solves_the_equation_of_its_resolvent():
    alpha, strength, spectrum = 0.8, 0.3, np.array([0.2, 0.5, 2.3])
    model = SequenceMultiIndex(field, noise=0.1, feature_spectrum=spectrum)
    row = columns(model, alpha, Square(), strength=strength)
    kappa = 1.0
    for _ in range(2000):
        kappa = strength / (alpha - np.mean(spectrum / (spectrum + kappa)))
    share = spectrum / (spectrum + kappa)
    inflation = 1 / (1 - np.mean(share**2) / alpha)
    error = inflation * np.mean(spectrum * (1 - share) ** 2) + 0.1 * (inflation - 1)
    np.testing.assert_allclose(row["error"][0], error, rtol=1e-9)


def test_min_norm_interpolation_of_correlated_features_is_the_limit_of_ridge():
    model = SequenceMultiIndex(field, noise=0.1, feature_spectrum=[0.2, 0.5, 2.3])
    limit, weak = (columns(model, 0.6, Square(), strength=strength) for strength in (0.0, 1e-8))
    np.testing.assert_allclose(limit["error"], weak["error"], rtol=1e-6)


@pytest.mark.parametrize("penalty", ["ridge", "lasso", "elastic"])
@pytest.mark.parametrize(
    ("model", "loss", "intercept"),
    [
        (SIGNS, Logistic(), False),
        (LOGISTIC, Hinge(), False),
        (FLIPPED, SquaredHinge(), False),
        (SequenceMultiIndex(shifted_sign), Logistic(), True),
        (SequenceMultiIndex(shifted_sign), Hinge(), True),
        (SPARSE, Square(), False),
        (SPARSE, Huber(0.4), True),
        (SequenceMultiIndex(field, noise_law="laplace:0.5"), Huber(0.4), False),
    ],
)
def test_the_free_energy_is_stationary(model, loss, intercept, penalty):
    """Its slope in the strength is the penalty, and in the ratio the mean envelope.

    Differences of free energies with a step of 1e-3 have a relative error of about 1e-6.
    """
    alpha, strength, step = 1.5, 0.4, 1e-3

    def free_energy(alpha, strength):
        return columns(model, alpha, loss, penalty, strength, intercept)["free_energy"][0]

    row = columns(model, alpha, loss, penalty, strength, intercept)
    slope = (free_energy(alpha, strength + step) - free_energy(alpha, strength - step)) / (2 * step)
    norm = (row["free_energy"][0] - alpha * row["training_loss"][0]) / strength
    np.testing.assert_allclose(slope, norm, rtol=1e-5)
    found = one_row_points(model, np.array([alpha]), loss, penalty_of(penalty), strength, intercept)
    proximal = 0.5 * found.points.order.susceptibility[0] * found.points.averages.q_hat[0]
    slope = (free_energy(alpha + step, strength) - free_energy(alpha - step, strength)) / (2 * step)
    np.testing.assert_allclose(slope, row["training_loss"][0] + proximal, rtol=1e-5)


@pytest.mark.parametrize("loss", [Logistic(), Hinge(), SquaredHinge()])
def test_losses_of_separable_labels_lead_to_the_largest_margin(loss):
    limit, weak = columns(SIGNS, 2.0, loss, strength=0.0), columns(SIGNS, 2.0, loss, strength=1e-6)
    largest = columns(SIGNS, 2.0, HardMargin(), strength=1.0)
    assert limit["label_error"][0] == pytest.approx(largest["label_error"][0], rel=1e-9)
    # Logistic weights approach their direction as the inverse logarithm of the strength.
    tolerance = 0.05 if loss.unbounded else 1e-4
    assert weak["label_error"][0] == pytest.approx(limit["label_error"][0], rel=tolerance)
    assert limit["training_loss"][0] == 0 and np.isinf(limit["power"][0]) == loss.unbounded
    assert limit["stability"][0] < 1


@pytest.mark.parametrize("loss", [Logistic(), Hinge()])
def test_no_penalty_is_the_limit_of_a_small_one_beyond_separability(loss):
    limit, weak = columns(FLIPPED, 5.0, loss, strength=0.0), columns(FLIPPED, 5.0, loss, strength=1e-6)
    for name in ("error", "label_error", "training_loss"):
        assert weak[name][0] == pytest.approx(limit[name][0], rel=1e-4)
    lasso = columns(FLIPPED, 5.0, loss, "lasso", 0.0)
    assert lasso["error"][0] == pytest.approx(limit["error"][0], rel=1e-6)


def test_separability_ends_at_the_line_of_candes_and_sur():
    """The minimum of E (Z + c y h)_+^2 over c, by another quadrature."""
    from scipy.integrate import quad
    from scipy.optimize import minimize_scalar
    from scipy.special import expit, ndtr

    def mean_square(c):
        def integrand(h):
            total = 0.0
            for y in (-1, 1):
                t = c * y * h
                density = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
                total += expit(y * np.sqrt(5) * h) * ((1 + t**2) * ndtr(t) + t * density)
            return total * np.exp(-(h**2) / 2) / np.sqrt(2 * np.pi)

        return quad(integrand, -12, 12, epsabs=1e-12, limit=200)[0]

    best = minimize_scalar(mean_square, bounds=(-5, 0), method="bounded", options={"xatol": 1e-9})
    found = thresholds(LOGISTIC, RegularisedRisk("logistic", "ridge", strength=0.0))
    assert found["interpolation"].alpha == pytest.approx(1 / best.fun, rel=1e-8)


def test_sparse_weights_are_recovered_from_the_threshold_of_donoho_and_tanner():
    """The weak threshold of the cross-polytope at a share of 0.1 of non-zero weights is 0.3288."""
    model = SequenceMultiIndex(field, prior="gauss-bernoulli:0.1")
    found = thresholds(model, RegularisedRisk("square", "lasso", strength=0.0))
    threshold = found["perfect_recovery"].alpha
    assert threshold == pytest.approx(0.3288, abs=5e-5)
    row = columns(model, [threshold - 1e-3, threshold + 1e-3], Square(), "lasso", 0.0)
    assert 0 < row["error"][0] < 0.02 and row["error"][1] == 0
    assert thresholds(model, RegularisedRisk("square", "ridge", strength=0.0))["perfect_recovery"].alpha == 1


SOLVERS = [
    (SIGNS, Logistic(), "ridge", lambda c, n: LogisticRegression(C=1 / c, fit_intercept=False, tol=1e-8)),
    (SIGNS, Hinge(), "ridge", lambda c, n: SVC(kernel="linear", C=1 / c)),
    (SIGNS, SquaredHinge(), "ridge", lambda c, n: LinearSVC(C=0.5 / c, fit_intercept=False, tol=1e-7)),
    (NUMBERS, Square(), "ridge", lambda c, n: RidgeRegression(alpha=c, fit_intercept=False)),
    (SPARSE, Square(), "lasso", lambda c, n: Lasso(alpha=c / n, fit_intercept=False, tol=1e-8)),
    (SPARSE, Square(), "elastic", lambda c, n: ElasticNet(alpha=c / n, l1_ratio=0.5, fit_intercept=False, tol=1e-8)),
    (SequenceMultiIndex(shifted_sign), Logistic(), "ridge", lambda c, n: LogisticRegression(C=1 / c, tol=1e-8)),
    (SequenceMultiIndex(shifted_sign), Hinge(), "ridge", lambda c, n: SVC(kernel="linear", C=1 / c)),
    (
        SequenceMultiIndex(field, noise=0.1, feature_spectrum=[0.2, 1.8]),
        Square(),
        "ridge",
        lambda c, n: RidgeRegression(alpha=c, fit_intercept=False),
    ),
    (
        SequenceMultiIndex(field, noise=0.1, feature_spectrum=[0.2, 1.8]),
        Square(),
        "lasso",
        lambda c, n: Lasso(alpha=c / n, fit_intercept=False, tol=1e-8),
    ),
]


@pytest.mark.parametrize(("model", "loss", "penalty", "solver"), SOLVERS)
def test_scikit_learn_reaches_the_limit(model, loss, penalty, solver):
    """Four standard errors of six draws at d = 400, and a term of order 1/d.

    Features have the covariance of the spectrum; the penalty is on the weights of these features.
    """
    d, alpha, strength, rng = 400, 2.0, 0.3, np.random.default_rng(0)
    has_intercept = model is not SIGNS and loss.binary
    if model is SIGNS and loss.name == "hinge":
        # Equal classes: the intercept of this solver is zero up to finite size.
        has_intercept = True
    row = columns(model, alpha, loss, penalty, strength, has_intercept)
    spectrum = np.array(getattr(model.prior, "spectrum", (1.0,)))
    root, runs = np.sqrt(np.repeat(spectrum, d // len(spectrum))), []
    for _ in range(6):
        x, seen = rng.standard_normal((int(alpha * d), d)), np.ravel(model.prior.sample((1, d), rng))
        y = np.ravel(draw_labels(model.channel, (x @ seen / np.sqrt(d)).reshape(-1, 1, 1), rng))
        features = x * root / np.sqrt(d)
        fitted = solver(strength, len(y)).fit(features, y)
        weights, shift = np.ravel(fitted.coef_), float(np.ravel(fitted.intercept_)[0]) if has_intercept else 0.0
        own = weights * root
        kind = penalty_of(penalty)
        cost = kind.absolute * np.abs(weights).sum() + 0.5 * kind.square * np.sum(weights**2)
        risk = np.sum(loss.value(y, features @ weights + shift)) + strength * cost
        runs.append([own @ own / d, own @ seen / d, np.mean((own - seen) ** 2), risk / d])
    names = ("power", "overlap", "error", "free_energy")
    far = 4 * np.std(runs, axis=0, ddof=1) / np.sqrt(len(runs)) + 5 / d
    difference = np.abs(np.mean(runs, axis=0) - [row[name][0] for name in names])
    assert np.all(difference < far), dict(zip(names, difference / far, strict=True))


@dataclass(frozen=True)
class Opaque(Law):
    """A law that hides that it is a mixture."""

    law: Any
    label = "opaque"
    mean = 0.0
    mmse_dimension = 1.0
    fourth_moment = 3.0

    def sample(self, shape, rng):
        return self.law.sample(shape, rng)

    def posterior(self, field, precision):
        return self.law.posterior(field, precision)

    def log_partition(self, field, precision):
        return self.law.log_partition(field, precision)

    def estimates(self, precision, function):
        return self.law.estimates(precision, function)


@pytest.mark.parametrize("law", [GaussBernoulli(0.2), Discrete.standardised([-1, 0, 2], [0.3, 0.5, 0.2])])
def test_closed_moments_of_mixtures_are_those_of_a_quadrature(law):
    closed, numeric = (SequenceMultiIndex(field, prior=one).prior for one in (law, Opaque(law)))
    conjugate = ConjugateParameters(*(np.array(part) for part in ([0.3, 0.02], [1.0, 2.0], [0.8, 1.5])))
    strength = np.array([0.4, 0.3])
    for penalty in map(penalty_of, ("ridge", "lasso", "elastic")):
        one, other = (weight_moments(penalty, prior, strength, conjugate) for prior in (closed, numeric))
        for first, second in zip(one.order[:5], other.order[:5], strict=True):
            np.testing.assert_allclose(first, second, rtol=1e-8)
        np.testing.assert_allclose(one.penalty, other.penalty, rtol=1e-8)
        np.testing.assert_allclose(one.order.error, 1 - 2 * one.order.overlap + one.order.power, rtol=1e-9)


@pytest.mark.parametrize(
    ("model", "loss", "penalty"),
    [(SIGNS, "logistic", "ridge"), (SPARSE, "square", "lasso"), (FLIPPED, "hinge", "elastic")],
)
def test_the_best_strength_is_an_optimum_above_bayes(model, loss, penalty):
    name = "label_error" if model is not SPARSE else "error"
    best = limits(model, [1.5], RegularisedRisk(loss, penalty, strength=None))
    for factor in (0.8, 1.25):
        other = limits(model, [1.5], RegularisedRisk(loss, penalty, strength=factor * best["strength"][0]))
        assert other[name][0] > best[name][0]
    optimum = np.sqrt(np.ravel(limits(model, [1.5])["overlap"])[0])
    assert np.ravel(best["cosine"])[0] <= optimum + 1e-9


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_best_strengths_that_fall_to_zero_are_those_of_single_ratios(loss):
    """Next to ratios whose best strength is the smallest one, searches begin at interpolated strengths."""
    model, learner = SequenceMultiIndex(shifted_sign), RegularisedRisk(loss, strength=None, intercept=True)
    alpha = np.geomspace(3, 20, 48)
    many, few = limits(model, alpha, learner), limits(model, alpha[1::5], learner)
    np.testing.assert_allclose(many["label_error"][1::5], few["label_error"], rtol=1e-6)
    np.testing.assert_allclose(many["strength"][1::5], few["strength"], rtol=0.02)


def test_lasso_beats_ridge_on_sparse_weights_and_loses_on_dense_ones():
    errors = {
        (model.parameters.get("prior"), penalty): columns(model, 0.8, Square(), penalty)["error"][0]
        for model in (SPARSE, NUMBERS)
        for penalty in ("ridge", "lasso")
    }
    assert errors["gauss-bernoulli:0.2", "lasso"] < errors["gauss-bernoulli:0.2", "ridge"]
    assert errors[None, "lasso"] > errors[None, "ridge"]


def test_steps_of_message_passing_lead_to_the_limit_at_the_rate_of_stability():
    learner = RegularisedRisk("logistic", "ridge", strength=0.5)
    steps = trajectory(SIGNS, np.array([2.0]), learner, steps=25)
    limit = limits(SIGNS, [2.0], learner)
    assert steps["error"][-1] == pytest.approx(limit["error"][0], abs=1e-8)
    assert 0 < limit["stability"][0] < 1


def absolute(y, h):
    return jnp.abs(y - h)


@pytest.mark.thorough
def test_a_wide_huber_loss_is_the_square_and_a_narrow_one_the_absolute_error():
    square, wide = columns(NUMBERS, 1.5, Square(), strength=0.2), columns(NUMBERS, 1.5, Huber(50.0), strength=0.2)
    for name in ("error", "training_loss", "free_energy", "stability"):
        assert wide[name][0] == pytest.approx(square[name][0], rel=1e-9)
    # A Huber loss over its knee tends to the absolute error, by the knee.
    knee = 1e-3
    narrow = columns(NUMBERS, 1.5, Huber(knee), strength=0.2 * knee)
    exact = columns(NUMBERS, 1.5, CustomLoss(absolute), strength=0.2)
    assert narrow["error"][0] == pytest.approx(exact["error"][0], rel=3e-3)


@pytest.mark.parametrize(
    ("model", "loss", "penalty", "strength", "message"),
    [
        (SequenceMultiIndex(lambda z: jnp.abs(z[0, 0])), Square(), "ridge", 0.1, "learns nothing"),
        (SequenceMultiIndex(lambda z: -z[0, 0]), Square(), "ridge", 0.1, "turn the sign"),
        (NUMBERS, Hinge(), "ridge", 0.1, "labels \\+1 and -1"),
        (NUMBERS, CustomLoss(absolute), "ridge", 0.0, "give one > 0"),
        (SIGNS, Logistic(), "elastic", 0.0, "grows without end"),
        (SequenceMultiIndex(field, tokens=2, noise=0.1), Square(), "ridge", 0.1, "one index and one token"),
    ],
)
def test_what_has_no_theory_is_refused(model, loss, penalty, strength, message):
    with pytest.raises(IncompatibleError, match=message):
        one_row_points(model, np.array([1.0]), loss, penalty_of(penalty), strength)


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_label_errors_of_small_weights_follow_their_cosine(loss):
    model = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]))
    table = limits(model, [2.0], RegularisedRisk(loss, strength=1e12))
    assert table["power"][0] < 1e-20
    assert table["label_error"][0] == pytest.approx(np.arccos(table["cosine"][0, 0]) / np.pi, rel=1e-9)


def half_square(y, h):
    return 0.5 * (y - h) ** 2


@pytest.mark.slow
def test_a_loss_of_ones_own_sees_one_linear_row_whatever_the_link():
    model = SequenceMultiIndex(lambda z: 0.5 * z[0, 0], noise=0.1)
    own = limits(model, [2.0], RegularisedRisk(half_square, strength=0.5))
    known = limits(model, [2.0], RegularisedRisk("square", strength=0.5, student="linear"))
    np.testing.assert_allclose(own["error"], known["error"], rtol=1e-6)


@pytest.mark.thorough
def test_poisson_regression():
    """The rate is exp(z/2); 8 fits with SciPy at d = 2000 give 0.7450 +- 0.0061."""
    model = SequenceMultiIndex(lambda z: 0.5 * z[0, 0], noise_law="poisson").at_accuracy(Accuracy(points=64))
    learner = RegularisedRisk(lambda y, h: jnp.exp(h) - y * h, strength=0.5)
    assert abs(limits(model, [2.0], learner)["error"][0] - 0.7450) < 3 * 0.0061


@pytest.mark.slow
def test_a_default_student_is_not_blamed_for_a_loss():
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]) + z[1, 0], indices=2, noise=0.1).at_accuracy(
        Accuracy(points=32)
    )
    with pytest.raises(ParameterError, match="loss = 'constant' is not allowed: expected a function whose"):
        limits(model, [2.0], RegularisedRisk(constant, strength=0.5))


def constant(y, h):
    return 0 * y + 1.0
