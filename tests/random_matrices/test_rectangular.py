"""The law of a noisy product of matrices: against the published quartic in many digits, and random matrices."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer.core.errors import ParameterError
from glassformer.numerics.roots import bracketed_root
from glassformer.priors.bilinear import BilinearPrior, GaussianMatrixPrior, LongSequencePrior, LowWidthPrior
from glassformer.random_matrices.rectangular import RectangularLaw

# What is promised for beta in [1, 1000], rho in [0.01, 5], R in [1e-6, 1e6].
PROMISE = 1e-8
RANGE = np.log([[1.0, 1000.0], [0.01, 5.0], [1e-6, 1e6]])

TWO_BULKS = [(2.0, 0.5, 0.1), (1.0, 0.3, 0.25), (5.0, 0.05, 3.0), (1.001, 0.5, 1e-3)]
ONE_BULK = [(1.0, 0.5, 0.3), (3.0, 1.5, 0.3), (1.0, 5.0, 1.0), (20.0, 0.5, 10.0)]
HARD = [
    (1.0, 0.01, 1e-6),
    (1.0, 0.01, 1e6),
    (1.0, 5.0, 1e-6),
    (1.0, 1.0, 1e-6),  # the hard wall of a square matrix of full rank
    (1000.0, 0.01, 1e-6),
    (1000.0, 0.01, 1e6),
    (1000.0, 5.0, 1e6),
    (1.0 + 1e-9, 1.0, 1e-4),  # a wall that has hardly lifted off zero
    (1.001, 2.0, 1e-6),
    (3.0, 1.0, 1e-6),  # the signal's smallest singular value at zero
    (3.0, 3.0, 1e-3),
    (1000.0, 0.99, 1e-4),
]
# The oracle takes longest where walls are all but there.
LONG = [(1.0, 1.0, 1e-6), (1.0 + 1e-9, 1.0, 1e-4)]
CORNERS = list(itertools.product((1.0, 1000.0), (0.01, 5.0), (1e-6, 1e6)))

moderate = st.tuples(
    st.floats(0.0, np.log(1000.0)).map(np.exp),
    st.floats(np.log(0.01), np.log(5.0)).map(np.exp),
    st.floats(np.log(1e-6), np.log(1e6)).map(np.exp),
)


def check_mmse(oracle, point):
    exact, quadrature, mass = oracle(*point).mmse()
    assert max(quadrature, mass) < 1e-12  # the oracle certifies itself
    value, error = (float(x[0]) for x in RectangularLaw(*point).mmse())
    assert abs(value - exact) <= PROMISE * exact
    assert abs(value - exact) <= error + 2e-14 * exact  # the estimate covers the truth, up to rounding of 161 terms


def relative_rounding(law, s):
    """Relative error allowed to the Stieltjes transform at ``s``.

    1e-9 where ``s`` is a millionth of the bulk away from an edge, which magnifies its rounding; and near a hard wall,
    where ``Re m`` moves by ``s^2`` only, the rounding of ``Re m`` over that.
    """
    return 1e-9 + np.finfo(float).eps * (np.nanmax(law.support) / s) ** 2


def merging_noise(beta, rho):
    """Largest noise, to rounding, at which the law has two bulks."""
    low, high = RANGE[2]
    for _ in range(60):
        middle = 0.5 * (low + high)
        two_bulks = np.isfinite(RectangularLaw(beta, rho, np.exp(middle)).support[0, 1, 0])
        low, high = (middle, high) if two_bulks else (low, middle)
    return float(np.exp(low))


@pytest.mark.slow
# The corners of the range are a test of their own.
@pytest.mark.parametrize(
    "point", [pytest.param(p, marks=pytest.mark.thorough if p in CORNERS + LONG else ()) for p in HARD]
)
def test_mmse_at_hard_points(oracle, point):
    check_mmse(oracle, point)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "factor",
    [1 - 1e-3, *(pytest.param(f, marks=pytest.mark.thorough) for f in (1 + 1e-6, 1 - 1e-6, 1 + 1e-4, 1 + 1e-2))],
)
@pytest.mark.parametrize(("beta", "rho"), [(1.0, 0.3), pytest.param(30.0, 0.5, marks=pytest.mark.thorough)])
def test_mmse_where_two_bulks_merge(oracle, beta, rho, factor):
    check_mmse(oracle, (beta, rho, merging_noise(beta, rho) * factor))


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(6))
def test_mmse_over_the_promised_range(oracle, seed):
    for point in np.exp(np.random.default_rng(seed).uniform(*RANGE.T, (15, 3))):
        check_mmse(oracle, point)


@pytest.mark.thorough
def test_mmse_at_the_corners_of_the_promised_range(oracle):
    for point in itertools.product(*np.exp(RANGE)):
        check_mmse(oracle, point)


@pytest.mark.thorough
@pytest.mark.parametrize("beta", [1.0, 1.2, 5.0, 1000.0])
def test_mmse_just_above_the_merging_of_two_bulks(oracle, beta):
    for rho in (0.02, 0.2, 0.5, 0.7, 0.9):
        check_mmse(oracle, (beta, rho, merging_noise(beta, rho) * (1 + 1e-6)))


def test_total_mass_is_one():
    beta, rho, noise = np.exp(np.random.default_rng(1).uniform(*RANGE.T, (500, 3))).T
    # Rounding, and the integrand's double poles at m = 0 and p = 0 where a bulk is narrow.
    np.testing.assert_allclose(RectangularLaw(beta, rho, noise).mass(), 1.0, atol=PROMISE)


@pytest.mark.parametrize("point", TWO_BULKS + ONE_BULK)
def test_edges(oracle, point):
    expected = oracle(*point).edges()
    support = RectangularLaw(*point).support[0]
    found = support[np.isfinite(support[:, 0])]
    assert len(found) == len(expected) == (2 if point in TWO_BULKS else 1)
    # A lower edge is a difference of nearly equal numbers where it is close to zero: rounding relative to the largest.
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("point", TWO_BULKS + ONE_BULK)
def test_density_and_hilbert_transform_inside_every_bulk(oracle, point):
    exact = oracle(*point)
    law = RectangularLaw(*point)
    for low, high in exact.edges():
        s = low + (high - low) * np.array([1e-6, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1 - 1e-6])
        expected = np.array([exact.stieltjes(x) for x in s])
        allowed = relative_rounding(law, s)
        assert np.all(np.abs(np.pi * law.density(s) - expected.imag) <= allowed * expected.imag)
        assert np.all(np.abs(law.hilbert(s) - expected.real) <= allowed * np.abs(expected))


def transform_by_integration(law, x, nodes=600):
    """Integral of ``mu(t)/(x - t)`` over both signs, in the angle in which square-root edges are regular."""
    angle = (np.arange(nodes) + 0.5) * np.pi / nodes
    total = np.zeros_like(x)
    for low, high in law.support[0][np.isfinite(law.support[0, :, 0])]:
        # A bulk that touches zero is half of one that is symmetric about it.
        middle, half = (0.0, high) if low == 0 else ((low + high) / 2, (high - low) / 2)
        t = middle - half * np.cos(angle)
        weight = law.density(np.abs(t)) * half * np.sin(angle) * np.pi / nodes
        kernel = 2 * x[:, None] / (x[:, None] ** 2 - t**2)
        total += (kernel @ weight) * (0.5 if low == 0 else 1.0)
    return total


@pytest.mark.parametrize("point", [*TWO_BULKS[:3], *ONE_BULK])
def test_hilbert_transform_outside_the_support(point):
    law = RectangularLaw(*point)
    edges = law.support[0][np.isfinite(law.support[0])].tolist()
    s = [1.2 * edges[-1], 5 * edges[-1]]
    s += [0.5 * edges[0], 0.9 * edges[0]] if edges[0] > 0 else []
    s += [0.5 * (edges[1] + edges[2])] if len(edges) == 4 else []
    s = np.array(s)
    found = law.stieltjes(s)
    assert np.all(found.imag == 0)
    # Midpoint rule on an analytic periodic integrand; 1e-10 is left by the narrowest gap.
    np.testing.assert_allclose(found.real, transform_by_integration(law, s), rtol=1e-9, atol=1e-11)


def test_hilbert_transform_decays_like_one_over_s():
    s = np.array([1e3, 1e6])
    np.testing.assert_allclose(s * RectangularLaw(2.0, 0.5, 0.1).hilbert(s), 1.0, atol=1e-5)


@pytest.mark.parametrize("point", TWO_BULKS + ONE_BULK)
def test_denoiser_is_the_published_expression(point):
    beta, _, R = point
    law = RectangularLaw(*point)
    for low, high in law.support[0][np.isfinite(law.support[0, :, 0])]:
        s = low + (high - low) * np.linspace(0.01, 0.99, 25)
        published = s - 2 * R / np.sqrt(beta) * ((beta - 1) / (2 * s) + law.hilbert(s))
        rounding = 2 * R / np.sqrt(beta) * np.abs(law.stieltjes(s)) * relative_rounding(law, s)
        assert np.all(np.abs(law.denoise(s) - published) <= rounding + 1e-14 * high)


@pytest.mark.parametrize("point", TWO_BULKS + ONE_BULK)
def test_denoiser_is_continuous_across_edges(point):
    law = RectangularLaw(*point)
    for edge in law.support[0][np.isfinite(law.support[0])]:
        if edge == 0:
            continue
        jumps = []
        for step in (1e-6, 1e-10):
            inside_and_outside = law.denoise(edge * np.array([1 - step, 1 + step]))
            jumps.append(float(np.ptp(inside_and_outside)) / edge)
        # It leaves an edge like the square root of the distance: 1e4 times closer is a hundred times less.
        assert jumps[1] < 0.02 * jumps[0]


@pytest.mark.parametrize("point", [(1.5, 0.5, 0.3), (1.0, 0.3, 0.1), (1.0, 1.5, 2.0)])
def test_denoiser_on_a_random_matrix(point):
    beta, rho, R = point
    d = 400
    L = round(beta * d)
    rng = np.random.default_rng(3)
    S = BilinearPrior(beta, rho).sample((L, d), rng)
    law = RectangularLaw(*point)
    left, s, right = np.linalg.svd(S + np.sqrt(R) * rng.standard_normal((L, d)), full_matrices=False)
    scale = np.sqrt(np.sqrt(d * L))
    shrunk = law.denoise(s / scale) * scale

    def error(factor):
        return np.mean(((left * (factor * shrunk)) @ right - S) ** 2)

    mmse = float(law.mmse().value[0])
    # Fluctuations of such linear statistics, relative to their value, are a few times 1/d.
    assert abs(error(1.0) / mmse - 1) < 0.02
    assert error(1.0) < min(error(0.97), error(1.03))


def assert_convergence(errors, rate):
    """Each error is smaller than the one before, in the end by ``rate``, the power of the step by a factor of ten."""
    assert np.all(errors[1:] < errors[:-1])
    assert errors[-1] / errors[-2] == pytest.approx(rate, rel=0.1)


@pytest.mark.parametrize("rho", [0.2, 1.0, 3.0])
def test_long_sequences(rho):
    q_hat = np.array([0.3, 3.0, 30.0])
    limit = LongSequencePrior(rho).mmse(q_hat).value
    values = np.array([BilinearPrior(beta, rho).mmse(q_hat).value for beta in 10.0 ** np.arange(1, 7)])
    for column in np.abs(values - limit).T:
        assert_convergence(column, 0.1)


@pytest.mark.parametrize("beta", [1.0, 3.0])
def test_unlimited_width(beta):
    q_hat = np.array([0.3, 3.0, 30.0])
    limit = GaussianMatrixPrior().mmse(q_hat).value
    values = np.array([BilinearPrior(beta, rho).mmse(q_hat).value for rho in 10.0 ** np.arange(1, 6)])
    for column in np.abs(values - limit).T:
        assert_convergence(column, 0.01)  # the first correction is of order 1/rho^2


@pytest.mark.parametrize("beta", [1.0, 3.0, 0.5])
def test_vanishing_width(beta):
    q_hat = np.array([0.7, 2.0, 20.0])  # per n/(r(L+d)), above the onset
    limit = LowWidthPrior(beta).mmse(q_hat).value
    values = np.array(
        [
            BilinearPrior(beta, rho).mmse(q_hat * rho * (1 + beta) / beta).value
            for rho in min(1.0, beta) * 10.0 ** -np.arange(1, 6)
        ]
    )
    for column in np.abs(values - limit).T:
        assert_convergence(column, 0.1)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(moderate)
def test_mmse_is_below_prior_variance_and_noise(point):
    R = point[2]
    value = float(RectangularLaw(*point).mmse().value[0])
    # The linear estimator's error R/(1+R) bounds it, and lies below both; equality up to rounding for large R.
    assert 0 < value <= R / (1 + R) * (1 + 4e-16)


@settings(deadline=None, max_examples=60)
@given(moderate, st.floats(1e-3, 3.0))
def test_mmse_increases_with_the_noise(point, step):
    beta, rho, R = point
    low, high = RectangularLaw(beta, rho, np.array([R, R * (1 + step)])).mmse().value
    # Beyond R ~ 1e12 step the increase would drop below the rounding of 1; here it never does.
    assert low < high


@settings(deadline=None, max_examples=60)
@given(moderate, st.floats(-2.0, 2.0).map(np.exp))
def test_both_forms_of_the_mmse_agree(point, R):
    law = RectangularLaw(point[0], point[1], R)
    (overlap,), (deficit,), _, _ = law._integrals()
    error = float(law.mmse().error[0])
    # 1 - overlap and R (1 - deficit) carry the same quadrature error only by coincidence.
    assert abs((1 - overlap) - R * (1 - deficit)) <= 2 * (1 + R) * (error + 1e-14)


@settings(deadline=None, max_examples=40)
@given(moderate)
def test_transposition(point):
    beta, rho, R = point
    q_hat = np.array([1 / R])
    upright, transposed = BilinearPrior(beta, rho), BilinearPrior(1 / beta, rho / beta)
    np.testing.assert_allclose(upright.mmse(q_hat).value, transposed.mmse(q_hat).value, rtol=1e-12)
    laws = RectangularLaw(beta, rho, R), RectangularLaw(1 / beta, rho / beta, R)
    np.testing.assert_allclose(laws[0].mmse().value, laws[1].mmse().value, rtol=1e-12)


def test_batch_equals_single_laws():
    beta, rho, R = np.array([1.0, 2.0, 30.0]), np.array([0.3, 1.5, 0.05]), np.array([0.1, 2.0, 40.0])
    batch = RectangularLaw(beta, rho, R)
    for i in range(3):
        single = RectangularLaw(beta[i], rho[i], R[i])
        # NumPy may sum rows of a batch in another order than a single row.
        assert batch.mmse().value[i] == pytest.approx(single.mmse().value[0], rel=1e-14)
        np.testing.assert_allclose(batch.support[i], single.support[0], rtol=1e-14)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((0.0, 0.5, 0.1), "beta"),
        ((np.inf, 0.5, 0.1), "beta"),
        ((1.0, 0.0, 0.1), "rho"),
        ((1.0, np.nan, 0.1), "rho"),
        ((1.0, 0.5, 0.0), "noise"),
        ((1.0, 0.5, [0.1, -1.0]), "noise"),
    ],
)
def test_bad_parameters_are_named(arguments, name):
    with pytest.raises(ParameterError, match=rf"^{name} = ") as caught:
        RectangularLaw(*arguments)
    assert caught.value.name == name


@pytest.mark.parametrize("s", [[0.0], [-1.0], [np.nan], [np.inf]])
def test_bad_singular_values_are_named(s):
    with pytest.raises(ParameterError, match=r"^s = "):
        RectangularLaw(2.0, 0.5, 0.1).density(s)


def test_densities_take_a_single_law():
    with pytest.raises(ParameterError, match=r"a single law"):
        RectangularLaw(2.0, 0.5, [0.1, 0.2]).density([1.0])


def test_roots_end_where_further_digits_are_rounding():
    """Values are cancelled to eight digits near one root; near the other they follow a sign over many decades."""
    calls = []

    def cancelled(x):
        calls.append(x)
        return (x - 0.3) + 1e8 - 1e8, np.ones_like(x)

    assert bracketed_root(cancelled, np.zeros(3), np.array([0.7, 1.0, 1.3]), 1e-12, cancels=True) == pytest.approx(
        0.3, 1e-6
    )
    assert len(calls) < 20
    root, high = 5e-9, np.array([80.0])

    def steep(x):
        return np.sign(x - root) * np.log1p(np.abs(x - root) / 1e-12), 1 / (1e-12 + np.abs(x - root))

    assert bracketed_root(steep, -high, high, 1e-13, cancels=True) == pytest.approx(root, abs=1e-13)
