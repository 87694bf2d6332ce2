"""Rows and factors of weights of any law: posteriors, averages over them, and models that use them."""

from dataclasses import dataclass, replace
from itertools import pairwise

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import norm

from glassformer import (
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    SequenceMultiIndex,
    limits,
    simulate,
    thresholds,
)
from glassformer.bayes_optimal.solve import state_evolution
from glassformer.core.estimate import Estimate
from glassformer.errors import ParameterError
from glassformer.models.registry import build
from glassformer.numerics.decompositions import square_root
from glassformer.priors import laws
from glassformer.priors.base import ScalarPrior
from glassformer.priors.bilinear import BilinearPrior, LowWidthPrior
from glassformer.priors.denoised import Denoised
from glassformer.priors.factors import SeparableFactorPrior
from glassformer.priors.laws import Discrete, GaussBernoulli, Gaussian, Rademacher, law_of
from glassformer.priors.rows import GaussianRowsPrior
from glassformer.priors.separable import SeparablePrior
from glassformer.priors.wishart import NarrowWishartPrior, WishartPrior

# A new law needs one line here; those of the table are named as a user names them.
LAWS = [
    law_of("gaussian"),
    law_of("rademacher"),
    law_of("gauss-bernoulli:0.3"),
    Discrete.standardised([-1, 0, 2], [0.3, 0.5, 0.2]),
]
TWO = np.array([[1.5, 0.6], [0.6, 0.8]])
THREE = np.array([[1.5, 0.6, 0.2], [0.6, 0.8, -0.3], [0.2, -0.3, 1.0]])
SIGNS = Denoised(lambda b, a: np.tanh(b), lambda shape, rng: rng.choice([-1.0, 1.0], shape), mmse_dimension=0.0)


def variance_of(prior, precision, error=0.0):
    matrix = np.atleast_2d(precision)[None]
    return prior.covariance(Estimate(matrix, np.full(matrix.shape, error)))


def density(law, w):
    """Of the continuous part of a mixture."""
    parts = zip(*law.components, strict=True)
    return sum(p * norm.pdf(w, m, np.sqrt(s)) for p, m, s in parts if s > 0)


def points_of(law):
    return [(p, m) for p, m, s in zip(*law.components, strict=True) if s == 0]


def test_every_law_of_the_table_is_checked():
    assert {law.label.partition(":")[0] for law in LAWS} >= {name.partition(":")[0] for name in laws.LAWS}


# --- one weight, several weights --------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.label[:15])
@pytest.mark.parametrize("field", [0.4, -2.0])
def test_posterior_of_one_weight_is_the_integral_over_it(law, field):
    def moment(power):
        def weight(w):
            return w**power * np.exp(field * w - 0.5 * 1.3 * w**2)

        smooth = (
            quad(lambda w: weight(w) * density(law, w), -15, 15, epsabs=1e-13, limit=200)[0]
            if law.mmse_dimension
            else 0
        )
        return smooth + sum(p * weight(m) for p, m in points_of(law))

    mean, covariance = law.posterior(np.array([[field]]), np.array([[1.3]]))
    total = moment(0)
    assert law.log_partition(np.array([[field]]), np.array([[1.3]]))[0] == pytest.approx(np.log(total), abs=1e-9)
    assert mean[0, 0] == pytest.approx(moment(1) / total, abs=1e-9)
    assert covariance[0, 0, 0] == pytest.approx(moment(2) / total - (moment(1) / total) ** 2, abs=1e-9)


def test_posterior_of_two_coupled_weights_is_the_integral_over_both():
    law, field = GaussBernoulli(0.3), np.array([0.7, -1.1])
    # A grid on which the trapezoid rule is exact to rounding; the point at zero has its own weight.
    step = 0.05
    grid = step * np.arange(-300, 301)
    mass = step * density(law, grid)
    mass[300] += 0.7
    w = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    weight = np.outer(mass, mass) * np.exp(w @ field - 0.5 * np.einsum("uva,ab,uvb->uv", w, TWO, w))
    exact = np.einsum("uv,uva->a", weight, w) / weight.sum()
    square = np.einsum("uv,uva,uvb->ab", weight, w, w) / weight.sum()
    mean, covariance = law.posterior(field[None], TWO)
    np.testing.assert_allclose(mean[0], exact, atol=1e-10)
    np.testing.assert_allclose(covariance[0], square - np.outer(exact, exact), atol=1e-10)
    assert law.log_partition(field[None], TWO)[0] == pytest.approx(np.log(weight.sum()), abs=1e-10)


def test_rows_of_signs_have_the_known_error():
    prior = SeparablePrior(Rademacher(), 1)
    for q in (0.2, 1.0, 6.0):
        exact = 1 - quad(lambda z, q=q: np.tanh(q + np.sqrt(q) * z) * norm.pdf(z), -12, 12, epsabs=1e-13)[0]
        found = variance_of(prior, q)
        assert found.value[0, 0, 0] == pytest.approx(exact, abs=1e-11)
        assert found.error[0, 0, 0] < 1e-11


def test_sparse_rows_have_the_error_of_the_direct_integral():
    prior, slab = SeparablePrior(GaussBernoulli(0.1), 1), 10.0
    for q in (0.3, 4.0, 400.0):

        def square(b, q=q):
            spike, broad = 0.9 * norm.pdf(b, 0, np.sqrt(q)), 0.1 * norm.pdf(b, 0, np.sqrt(q + slab * q**2))
            share, gain = broad / (spike + broad), slab / (1 + slab * q)
            return (spike + broad) * (share * (gain + (gain * b) ** 2) - (share * gain * b) ** 2)

        scale = np.sqrt(q) * np.array([0, 2, 4, 6, 9, 30, 12 * np.sqrt(slab * q) + 40])
        exact = 2 * sum(quad(square, a, b, epsrel=1e-11, limit=200)[0] for a, b in pairwise(scale))
        assert variance_of(prior, q).value[0, 0, 0] == pytest.approx(exact, rel=1e-9)


def test_a_share_of_the_weights_counts_as_degrees_of_freedom():
    for law in (Gaussian(), GaussBernoulli(0.3), Rademacher()):
        found = 1e8 * variance_of(SeparablePrior(law, 1), 1e8).value[0, 0, 0]
        assert found == pytest.approx(law.mmse_dimension, abs=2e-3)


@pytest.mark.parametrize("precision", [TWO, THREE], ids=["two", "three"])
def test_gaussian_rows_are_those_of_the_closed_form(precision):
    general, closed = (kind(len(precision)) for kind in (lambda p: SeparablePrior(Gaussian(), p), GaussianRowsPrior))
    found, exact = variance_of(general, precision), variance_of(closed, precision)
    np.testing.assert_allclose(found.value, exact.value, atol=1e-12)
    first, second = (prior.entropy(precision[None], exact.value) for prior in (general, closed))
    assert abs(first.value - second.value)[0] <= 5 * first.error[0] + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS[1:3], ids=lambda law: law.label)
@pytest.mark.parametrize("precision", [TWO, THREE], ids=["two", "three"])
def test_coupled_rows_have_the_error_that_draws_have(law, precision):
    rng, size = np.random.default_rng(0), len(precision)
    signal = law.sample((60_000, size), rng)
    field = signal @ precision + rng.standard_normal(signal.shape) @ square_root(precision)
    drawn = law.posterior(field, precision)[1]
    found = variance_of(SeparablePrior(law, size), precision)
    allowed = 5 * drawn.std(axis=0) / np.sqrt(len(drawn)) + 5 * found.error[0]
    assert np.all(np.abs(drawn.mean(axis=0) - found.value[0]) <= allowed)
    assert np.all(found.error < 0.01)


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.label[:15])
@pytest.mark.parametrize("precision", [np.diag([1.0, 2.0]), TWO], ids=["apart", "coupled"])
def test_entropy_has_half_the_overlap_as_gradient(law, precision):
    prior, step = SeparablePrior(law, 2, side_information=0.2), 1e-3
    found = variance_of(prior, precision)
    for direction in (np.diag([1.0, 0.0]), np.array([[0.0, 1.0], [1.0, 0.0]])):
        ends = [
            prior.entropy((precision + sign * step * direction)[None], prior.self_overlap[None]).value[0]
            for sign in (1, -1)
        ]
        expected = 0.5 * np.sum(direction * (prior.self_overlap - found.value[0]))
        assert (ends[0] - ends[1]) / (2 * step) == pytest.approx(expected, abs=1e-5 + 10 * found.error.max())


@pytest.mark.slow
def test_the_first_data_reduce_the_variance_of_every_law_equally():
    """V = I - Q_hat to first order: thresholds at zero overlap do not depend on the law."""
    small = 1e-4 * TWO
    for law in LAWS:
        found = variance_of(SeparablePrior(law, 2), small)
        np.testing.assert_allclose(np.eye(2) - found.value[0], small, atol=5e-7)


def test_an_error_of_the_precision_carries_over():
    prior = SeparablePrior(GaussBernoulli(0.2), 1)
    low, high = (variance_of(prior, q).value[0, 0, 0] for q in (2.01, 1.99))
    claimed = variance_of(prior, 2.0, 0.01).error[0, 0, 0]
    assert claimed == pytest.approx(0.5 * (high - low), rel=1e-3)


def test_side_information_adds_to_the_precision():
    side = SeparablePrior(Rademacher(), 2, side_information=0.25)
    plain = SeparablePrior(Rademacher(), 2)
    np.testing.assert_allclose(
        variance_of(side, TWO).value, variance_of(plain, TWO + side.side * np.eye(2)).value, rtol=1e-12
    )


def test_heads_are_independent():
    prior = SeparablePrior(Rademacher(), 2, heads=2)
    alone = SeparablePrior(Rademacher(), 1)
    found = variance_of(prior, TWO).value[0]
    np.testing.assert_allclose(found, np.diag([variance_of(alone, q).value[0, 0, 0] for q in (1.5, 0.8)]), rtol=1e-12)


@pytest.mark.parametrize("law", LAWS[1:], ids=lambda law: law.label[:15])
def test_denoiser_makes_the_error_it_claims(law):
    prior, rng = SeparablePrior(law, 2), np.random.default_rng(1)
    signal = prior.sample((2, 20_000), rng)
    found = prior.denoise(TWO @ signal + square_root(TWO) @ rng.standard_normal(signal.shape), TWO)
    gap, expected = found.signal - signal, variance_of(prior, TWO)
    np.testing.assert_allclose(prior.gram(gap, gap), expected.value[0], atol=0.02)
    np.testing.assert_allclose(found.variance, expected.value[0], atol=0.01)


@pytest.mark.slow
def test_a_profile_runs_from_no_information_to_almost_complete_information():
    for law in LAWS:
        precision, variance = SeparablePrior(law, 1).profile(9)
        assert np.all(np.diff(precision) > 0)
        assert variance[0] == pytest.approx(1 / (1 + np.exp(-6)), abs=1e-3)
        assert variance[-1] == pytest.approx(1 / (1 + np.exp(6)), rel=0.1)


# --- laws -------------------------------------------------------------------------------------------------------------


def test_a_denoiser_stands_for_its_law():
    given, named = SeparablePrior(SIGNS, 1), SeparablePrior(Rademacher(), 1)
    found, exact = variance_of(given, 1.0), variance_of(named, 1.0)
    assert abs(found.value - exact.value)[0, 0, 0] <= 5 * found.error[0, 0, 0]
    precision = np.ones((1, 1))
    field = np.linspace(-3, 3, 7)[:, None]
    exact = named.law.log_partition(field, precision)
    np.testing.assert_allclose(SIGNS.log_partition(field, precision), exact, atol=1e-6)
    for mine, theirs in zip(SIGNS.posterior(field, precision), named.law.posterior(field, precision), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-9)


@pytest.mark.parametrize(
    ("denoiser", "what"),
    [
        (lambda b, a: b / (2 + a), "unit variance"),
        (lambda b, a: np.tanh(b) * (1 - 0.1 * a), "no posterior mean"),
        (lambda b, a: np.tanh(b)[:, 0], "finite posterior means of shape"),
    ],
)
def test_denoisers_that_are_not_posterior_means_are_refused(denoiser, what):
    with pytest.raises(ParameterError, match=what):
        SeparablePrior(Denoised(denoiser, SIGNS.draw), 1)


def test_a_denoiser_of_single_weights_cannot_take_several_rows():
    with pytest.raises(ParameterError, match="row by row"):
        SeparablePrior(SIGNS, 2)


def test_draws_of_another_law_are_refused():
    with pytest.raises(ParameterError, match="draw = "):
        SeparablePrior(Denoised(SIGNS.denoiser, lambda shape, rng: 2 * rng.standard_normal(shape)), 1)


@pytest.mark.parametrize(
    ("prior", "what"),
    [
        ("cauchy", "expected one of gaussian, rademacher, gauss-bernoulli:SPARSITY"),
        ("gauss-bernoulli", "expected one of"),
        ("gauss-bernoulli:2", "sparsity = 2.0"),
        ("gauss-bernoulli:1e-300", r"sparsity = 1e-300 is not allowed: expected in \[1e-12, 1\]"),
        ("rademacher:3", "expected one of"),
        (3.0, "prior = 3.0"),
        (Discrete([0, 2]), "has the mean 1"),
        (SeparablePrior(Rademacher(), 2), "2 rows|1 rows"),
    ],
)
def test_priors_that_do_not_exist_are_refused_by_name(prior, what):
    with pytest.raises((ParameterError, IncompatibleError), match=what):
        SequenceMultiIndex(lambda z: z[0, 0], prior=prior)


def test_values_without_unit_variance_are_refused_with_the_remedy():
    with pytest.raises(ParameterError, match=r"theirs is 0.25.*standardised"):
        Discrete([0, 1])
    with pytest.raises(ParameterError, match="weights"):
        Discrete([-1, 1], [0.5, 0.6])


def test_more_states_than_can_be_summed_are_refused():
    with pytest.raises(ParameterError, match="rows = 11"):
        SeparablePrior(Rademacher(), 11)


# --- multi-index models -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["rademacher", "gauss-bernoulli:0.2"])
def test_state_evolution_of_linear_labels_solves_the_scalar_equation(prior):
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.3, prior=prior)
    single = SeparablePrior(model.prior.law, 1)
    found = state_evolution(model, [0.8])

    def gap(v):
        return variance_of(single, 0.8 / (0.3 + v)).value[0, 0, 0] - v

    assert found.value[0, 0, 0] == pytest.approx(brentq(gap, 1e-6, 1), abs=1e-6)
    assert model.parameters["prior"] == prior


@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "alpha", "prior"),
    [(lambda z: jnp.sign(z[0, 0]), 0.9, "rademacher"), (lambda z: z[0, 0], 0.5, "gauss-bernoulli:0.5")],
    ids=["signs of signs", "linear of sparse"],
)
def test_message_passing_reaches_the_theory(link, alpha, prior):
    model = SequenceMultiIndex(link, prior=prior)
    result = simulate(model, [alpha], d=600, instances=1, seed=3)
    assert result.instances[0][0].status.ok
    assert result["error"][0] == pytest.approx(result["theory"][0], rel=0.2)


@pytest.mark.slow
def test_one_weak_recovery_threshold_for_all_laws():
    models = [SequenceMultiIndex(lambda z: z[0, 0] ** 2, prior=prior) for prior in (None, "rademacher")]
    first, second = (thresholds(model)["weak_recovery"].alpha for model in models)
    assert first == pytest.approx(0.5, abs=1e-3)
    assert second == pytest.approx(first, abs=1e-6)


@pytest.mark.thorough
def test_any_data_recover_discrete_weights_perfectly():
    """Any number of labels without noise fixes them; of laws that do not say so nothing is known."""
    model = SequenceMultiIndex(lambda z: z[0, 0], prior="rademacher")
    assert thresholds(model)["perfect_recovery"].alpha == 0
    assert limits(model, [0.01])["error"][0] < 1e-12
    law = Denoised(lambda b, a: np.tanh(b), lambda shape, rng: rng.choice([-1.0, 1.0], shape))
    found = thresholds(SequenceMultiIndex(lambda z: z[0, 0], prior=law))
    assert np.isnan(found["perfect_recovery"].alpha)
    assert "the prior is discrete" in found["perfect_recovery"].note
    # Sampled averages of the law do not resolve a transition that is at zero.
    assert np.isnan(found["bayes_optimal_transition"].alpha)
    assert "Not determined: error +- " in found["bayes_optimal_transition"].note
    sparse = thresholds(SequenceMultiIndex(lambda z: z[0, 0], prior=GaussBernoulli(0.25)))["perfect_recovery"]
    assert sparse.alpha == pytest.approx(0.25)


def test_copies_of_a_model_choose_their_prior_anew():
    model = DeepAttention(depth=2, prior="rademacher", side_information=0.1)
    other = replace(model, depth=3, side_information=0.2)
    assert other.prior == SeparablePrior(Rademacher(), 3, 1, 0.2)
    assert model.parameters["prior"] == "rademacher"
    assert "prior" not in DeepAttention(prior="gaussian").parameters
    assert DeepAttention(prior="gaussian") == DeepAttention()


@pytest.mark.slow
def test_names_of_priors_work_wherever_models_have_names():
    assert build("attention", {"prior": "rademacher"}).prior.rows == 2
    assert build("bsr", {"width": 1, "prior": "rademacher"}).parameters["prior"] == "rademacher"


# --- factors and whole matrices ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_gaussian_factors_are_those_of_the_closed_form(beta):
    general, closed = SeparableFactorPrior(beta, 1, Gaussian()), LowWidthPrior(beta)
    q_hat = np.concatenate(
        [[0.0, closed.weak_recovery_onset], closed.weak_recovery_onset * np.geomspace(1.00001, 1e5, 30)]
    )
    np.testing.assert_allclose(general.mmse(q_hat).value, closed.mmse(q_hat).value, rtol=1e-10)
    np.testing.assert_allclose(
        general.mutual_information(q_hat).value, closed.mutual_information(q_hat).value, atol=1e-8
    )


def test_factors_of_signs_solve_their_two_equations():
    prior, overlap = SeparableFactorPrior(2.0, 1, Rademacher()), SeparablePrior(Rademacher(), 1)

    def known(precision):
        return 1 - variance_of(overlap, precision).value[0, 0, 0]

    for q_hat in (0.6, 1.5):
        x = 3 * q_hat
        left = brentq(lambda q, x=x: known(x / 2 * known(x * q)) - q, 0.05, 1, xtol=1e-13)
        assert prior.mmse(np.array([q_hat])).value[0] == pytest.approx(1 - left * known(x * left), abs=1e-9)


def test_information_of_factors_has_half_the_error_as_derivative():
    prior = SeparableFactorPrior(2.0, 1, Rademacher())
    q_hat, step = prior.weak_recovery_onset * np.array([0.5, 1.5, 3.0]), 1e-3
    ends = [prior.mutual_information(q_hat + sign * step).value for sign in (1, -1)]
    np.testing.assert_allclose((ends[0] - ends[1]) / step, prior.mmse(q_hat).value, atol=1e-6)


def test_message_passing_on_factors_of_signs_reaches_the_theory():
    model = BilinearSequenceRegression(beta=1.0, width=1, noise=0.5, prior="rademacher")
    result = simulate(model, [2.2], d=60, instances=2, seed=1)
    assert result["error"].max() < 0.1
    assert result["theory"][0] < 0.02


@pytest.mark.thorough
@pytest.mark.parametrize("sparsity", [0.1, 1e-12])
def test_factors_with_a_hard_phase_are_refused(sparsity):
    """Those so sparse that they are known below the onset as well."""
    with pytest.raises(IncompatibleError, match="hard phase of their own"):
        BilinearSequenceRegression(width=1, prior=GaussBernoulli(sparsity))


@dataclass(frozen=True)
class Matrix(ScalarPrior):
    """Independent normal entries, as a user would write them."""

    weak_recovery_onset = 0.0
    mmse_dimension = 1.0

    def mmse(self, q_hat):
        value = 1 / (1 + np.asarray(q_hat))
        return Estimate(value, np.zeros_like(value))


def test_a_prior_of_whole_matrices_takes_the_place_of_a_width():
    model = BilinearSequenceRegression(noise=0.2, prior=Matrix())
    exact = BilinearSequenceRegression(rho=np.inf, noise=0.2)
    assert limits(model, [0.5])["error"] == pytest.approx(limits(exact, [0.5])["error"])
    assert model.parameters["prior"] == "Matrix()"
    rounded = BilinearSequenceRegression(beta=0.5, prior=BilinearPrior(0.5, 0.3)).at_size(25).model
    assert rounded.prior == BilinearPrior(rounded.beta, 0.3) == BilinearPrior(12 / 25, 0.3)
    spectrum = AttentionIndexed(prior=WishartPrior(0.5), tokens=2)
    assert limits(spectrum, [0.1])["error"] == pytest.approx(limits(AttentionIndexed(0.5, 2), [0.1])["error"])


@pytest.mark.parametrize(
    ("make", "what"),
    [
        (
            lambda: BilinearSequenceRegression(rho=0.5, prior=Matrix()),
            "prior = Matrix.* and rho = 0.5 exclude",
        ),
        (lambda: BilinearSequenceRegression(width=2, prior=Matrix()), "width = 2 exclude"),
        (lambda: BilinearSequenceRegression(rho=0.5, prior="rademacher"), "rademacher and rho = 0.5 exclude"),
        (lambda: BilinearSequenceRegression(prior=WishartPrior(0.5)), "not symmetric"),
        (lambda: BilinearSequenceRegression(beta=2, prior=BilinearPrior(1.0, 0.5)), "give beta = 1"),
        (lambda: BilinearSequenceRegression(prior=LowWidthPrior(1.0)), "give rho = 0"),
        (lambda: AttentionIndexed(prior=NarrowWishartPrior()), "give rho = 0"),
        (lambda: AttentionIndexed(0.5, prior=WishartPrior(0.5)), "rho = 0.5 exclude each other"),
        (lambda: AttentionIndexed(prior=Matrix()), "are symmetric"),
        (lambda: AttentionIndexed(), "rho = None"),
        (lambda: AttentionIndexed(0.5, prior="rademacher"), "factors of extensive width"),
    ],
)
def test_combinations_that_do_not_exist_are_refused_by_name(make, what):
    with pytest.raises((ParameterError, IncompatibleError), match=what):
        make()


def test_copies_of_bilinear_models_choose_their_prior_anew():
    assert replace(BilinearSequenceRegression(rho=0.5), rho=0.3) == BilinearSequenceRegression(rho=0.3)
    signs = BilinearSequenceRegression(width=1, prior="rademacher")
    assert replace(signs, beta=2.0).prior == SeparableFactorPrior(2.0, 1, Rademacher())


@pytest.mark.slow
def test_signs_behind_signs_have_the_known_hard_phase():
    """Perfect recovery is possible from 1.2447 on, and found by message passing from 1.4926 on."""
    found = limits(SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), prior="rademacher"), [1.2, 1.3, 1.45, 1.55])
    assert (found["error"] < 1e-9).tolist() == [False, True, True, True]
    assert (found["algorithmic_error"] < 1e-9).tolist() == [False, False, False, True]
