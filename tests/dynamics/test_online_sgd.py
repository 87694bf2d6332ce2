"""Equations of online gradient descent: closed forms, the numbers they were derived with, and error bars that cover."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from glassformer import Accuracy, DeepAttention, SequenceMultiIndex, Status
from glassformer.dynamics.online_sgd import (
    Pace,
    Start,
    cosine_start,
    online_sgd,
    online_trajectory,
    random_start,
    sign_images,
    symmetry_projectors,
)
from glassformer.errors import ParameterError

LAYERS = DeepAttention(depth=2, tokens=2, skip=0.5)
LAYERS_PACE = Pace(1.0, 4, 0.02)
SQUARE = SequenceMultiIndex(lambda z: z[0, 0] ** 2)
GATED = SequenceMultiIndex(lambda z: z[0, 0] * jnp.tanh(z[1, 0]), indices=2, noise=0.1).at_accuracy(Accuracy(points=32))


@pytest.mark.slow
def test_linear_labels_with_noise_and_decay_in_closed_form():
    """M' = eta - eta (1 + w) M and Q' = (eta^2/b)(1 - 2M + Q + noise) - 2 eta (Q - M + w Q)."""
    eta, batch, decay, noise = 0.5, 2, 0.1, 0.3
    model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=noise).at_accuracy(Accuracy(points=32))
    time = np.array([0.0, 0.5, 3.0])

    def slope(_, state):
        m, q = state
        rest = eta**2 / batch * (1 - 2 * m + q + noise) - 2 * eta * (q - m + decay * q)
        return [eta - eta * (1 + decay) * m, rest]

    exact = solve_ivp(slope, (0, 3), [0.2, 1.0], t_eval=time, rtol=1e-10, atol=1e-12).y
    path = online_sgd(model, time, Pace(eta, batch, decay), cosine_start(2, 0.2), points=256)
    for found, known in ((path.overlap, exact[0]), (path.power, exact[1])):
        wanted = known[:, None, None] * np.eye(2)
        assert np.all(np.abs(found.value - wanted) <= found.error + 1e-12)
        assert np.max(np.abs(found.value - wanted)) < 1e-3
    wanted = 2 * (1 - 2 * exact[0] + exact[1])
    assert np.all(np.abs(path.test_error.value - wanted) <= 2e-3)


@pytest.mark.slow
def test_a_teacher_of_rows_that_are_not_orthonormal_in_closed_form():
    """M' = eta (T - (1 + w) M) and Q' = (eta^2/b)(T - M - M^T + Q + noise) - eta (2 (1 + w) Q - M - M^T)."""
    eta, batch, decay, noise = 0.5, 2, 0.1, 0.3
    model = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=noise).at_accuracy(Accuracy(points=32))
    teacher, weights = np.random.default_rng(3).standard_normal((2, 2, 20))
    start = Start(
        *(left @ right.T / 20 for left, right in ((weights, teacher), (weights, weights), (teacher, teacher)))
    )

    def slope(_, state):
        m, q = state.reshape(2, 2, 2)
        drift = eta**2 / batch * (start.teacher - m - m.T + q + noise * np.eye(2))
        return np.stack(
            [eta * (start.teacher - (1 + decay) * m), drift - eta * (2 * (1 + decay) * q - m - m.T)]
        ).ravel()

    begin = np.stack([start.overlap, start.power])
    exact = solve_ivp(slope, (0, 3), begin.ravel(), t_eval=[0, 0.5, 3], rtol=1e-10, atol=1e-12).y.T.reshape(3, 2, 2, 2)
    path = online_sgd(model, [0, 0.5, 3], Pace(eta, batch, decay), start, points=256)
    for found, known in ((path.overlap, exact[:, 0]), (path.power, exact[:, 1])):
        assert np.all(np.abs(found.value - known) <= found.error + 1e-12)
        assert np.max(np.abs(found.value - known)) < 1e-3
    gap = np.trace(exact[:, 1] - 2 * exact[:, 0] + start.teacher, axis1=1, axis2=2)
    np.testing.assert_allclose(path.test_error.value, gap, atol=2e-3)
    np.testing.assert_allclose(path.error.value, gap / 2, atol=1e-3)
    cosines = np.diagonal(start.overlap) / np.sqrt(np.diagonal(start.power) * np.diagonal(start.teacher))
    np.testing.assert_allclose(path.cosine.value[0], cosines, rtol=1e-9)


@pytest.mark.slow
def test_images_of_points_leave_a_teacher_as_it_is():
    """Rows that are not orthogonal change sign together or not at all."""
    mixed = np.array([[1.0, 0.1], [0.1, 1.0]])
    signs = LAYERS.channel.labels.row_symmetries.signs
    assert len(sign_images(signs, np.eye(2))) == 4
    assert np.prod(sign_images(signs, mixed), axis=1).tolist() == [1, 1]
    found = online_sgd(LAYERS, [0, 5], LAYERS_PACE, Start(np.zeros((2, 2)), np.eye(2), mixed), points=64)
    np.testing.assert_allclose(found.overlap.value, 0.0, atol=1e-13)


@pytest.mark.slow
def test_squares_in_closed_form():
    """Moments of two correlated normal numbers up to the sixth order."""
    eta = 0.04

    def slope(_, state):
        m, q = state
        along = 2 * (3 * q**2 - q - 2 * m**2)
        square = 4 * (15 * q**3 - 2 * (3 * q**2 + 12 * q * m**2) + 3 * q + 12 * m**2)
        return [-6 * eta * m * (q - 1), -2 * eta * along + eta**2 * square]

    time = np.linspace(0, 6, 4)
    exact = solve_ivp(slope, (0, 6), [0.4, 0.5], t_eval=time, rtol=1e-10, atol=1e-12).y
    path = online_sgd(SQUARE, time, Pace(eta, 1), Start(np.array([[0.4]]), np.array([[0.5]])))
    found = np.stack([path.overlap.value[:, 0, 0], path.power.value[:, 0, 0]])
    error = np.stack([path.overlap.error[:, 0, 0], path.power.error[:, 0, 0]])
    assert np.all(np.abs(found - exact) <= error)
    assert np.max(error) < 0.02


@pytest.mark.thorough
def test_two_layers_have_the_numbers_of_their_derivation():
    path = online_sgd(LAYERS, [4, 12, 20], LAYERS_PACE, cosine_start(2, 0.3), points=512)
    known = np.array([[0.274, 0.469], [0.311, 0.855], [0.386, 0.943]])
    found, error = (np.diagonal(part, axis1=1, axis2=2) for part in path.overlap)
    assert np.all(np.abs(found - known) <= error + 0.5e-3)
    assert path.status is Status.CONVERGED
    assert np.max(error) < 0.03


@pytest.mark.slow
def test_last_layer_is_learned_first():
    path = online_sgd(LAYERS, np.linspace(0, 4, 21), LAYERS_PACE, cosine_start(2, 0.3), points=64)
    first, last = path.arrival().value
    assert last == pytest.approx(1.85, abs=0.3)
    assert first == np.inf
    earlier = path.arrival(0.1)
    np.testing.assert_array_equal(earlier.value, [0.0, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 101, *(pytest.param(n, marks=pytest.mark.thorough) for n in (2, 21))])
def test_error_of_arrival_times_includes_interpolation(count):
    """Of linear labels the cosine is known in closed form: it is 1/2 at 1.12431."""
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1).at_accuracy(Accuracy(points=32))
    time = [0.0, 2.0, 20.0] if count == 3 else np.linspace(0, 20, count)
    found = online_sgd(model, time, Pace(0.5, 1), points=512).arrival()
    assert abs(found.value[0] - 1.12431) <= found.error[0]
    assert found.error[0] <= 0.02 or count < 101


@pytest.mark.slow
@pytest.mark.parametrize("level", ["a", np.nan, 1.0, -0.1])
def test_levels_are_checked(level):
    path = online_sgd(LAYERS, [0, 0.1], LAYERS_PACE, points=64)
    with pytest.raises(ParameterError, match="level"):
        path.arrival(level)


@pytest.mark.slow
def test_without_overlap_even_labels_are_never_learned():
    path = online_sgd(LAYERS, [0, 5], LAYERS_PACE, points=64)
    np.testing.assert_allclose(path.overlap.value, 0.0, atol=1e-14)
    assert np.all(np.linalg.eigvalsh(path.power.value[1]) > 0.1)


@pytest.mark.thorough
def test_the_time_of_escape_grows_like_the_logarithm_of_the_dimension():
    """Two equal factors of the overlap at the start are two equal delays."""
    starts = [cosine_start(1, cosine) for cosine in (1e-2, 1e-3, 1e-4)]
    time = np.linspace(0, 40, 51)
    escape = [online_sgd(SQUARE, time, Pace(0.15, 4), start, points=64).arrival().value[0] for start in starts]
    delays = np.diff(escape)
    assert delays[0] > 1
    assert delays[1] == pytest.approx(delays[0], rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "pace"),
    [
        pytest.param(LAYERS, LAYERS_PACE, marks=pytest.mark.thorough),
        pytest.param(GATED, Pace(0.4, 1), marks=pytest.mark.thorough),
        (SQUARE, Pace(0.05, 1, 0.01)),
    ],
)
def test_few_points_stay_within_their_error_estimate_of_many(model, pace):
    rows = model.channel.fields.rows
    few, many = (online_sgd(model, [1.0, 4.0], pace, cosine_start(rows, 0.3), points=n) for n in (64, 512))
    for name in ("cosine", "test_error", "error"):
        small, large = getattr(few, name), getattr(many, name)
        gap = np.abs(small.value - large.value)
        assert np.all(gap <= 3 * small.error)
        assert np.mean(gap <= small.error + large.error) >= 0.75
        assert np.all(gap > 0)


@pytest.mark.slow
def test_means_over_starts_are_those_of_single_ones():
    rng = np.random.default_rng(1)
    starts = [random_start(2, 200, rng) for _ in range(2)]
    both = Start(*(np.array(parts) for parts in zip(*starts, strict=True)))
    together = online_sgd(GATED, [0, 2], Pace(0.4, 1), both, points=64)
    alone = [online_sgd(GATED, [0, 2], Pace(0.4, 1), start, points=64) for start in starts]
    np.testing.assert_allclose(together.cosine.value, np.mean([one.cosine.value for one in alone], axis=0), rtol=1e-9)
    np.testing.assert_allclose(together.error.value, np.mean([one.error.value for one in alone], axis=0), rtol=1e-9)


@pytest.mark.thorough
def test_symmetric_students_stay_symmetric():
    """Rows drifted apart by sampling at the unstable symmetric plateau, by far more than the estimate of the error."""
    committee = SequenceMultiIndex(
        lambda z: jnp.sum(jax.scipy.special.erf(z[:, 0] / np.sqrt(2))), indices=3
    ).at_accuracy(Accuracy(points=32))
    equal = Start(np.full((3, 3), 0.05), 0.5 * np.eye(3))
    path = online_sgd(committee, [0.0, 50.0], Pace(0.1, 1), equal, points=4096)
    overlap, power = path.overlap.value[-1], path.power.value[-1]
    assert np.ptp(overlap) < 1e-9 and np.ptp(np.diag(power)) < 1e-9
    # The closed equations of Saad and Solla, integrated to 1e-6.
    assert abs(overlap[0, 0] - 0.288518) < path.overlap.error[-1, 0, 0]
    assert abs(power[0, 0] - 0.514688) < path.power.error[-1, 0, 0]
    assert abs(power[0, 1] - 0.118402) < path.power.error[-1, 0, 1]


def test_starts_without_symmetry_are_followed_as_they_are():
    same = np.array([np.eye(2), np.eye(2)[::-1]])
    start = np.array([[[0.1, 0.2], [0.3, 0.4]], np.eye(2)])
    np.testing.assert_array_equal(symmetry_projectors(same, start, np.eye(2)), [np.eye(4)] * 2)


@pytest.mark.slow
def test_divergence_is_reported():
    table = online_trajectory(SQUARE, [2.0], 4, Pace(20.0, 1), cosine_start(1, 0.5), points=64)
    assert table.status[0] is Status.CONVERGED
    assert table.status[-1] is Status.DIVERGING
    assert np.isnan(table["error"][-1]) and np.isnan(table["plugin_error"][-1])
    assert table.notes[-1].startswith("diverging after time")


@pytest.mark.slow
def test_slow_divergence_is_reported_and_a_large_limit_is_not():
    """Errors of a linear student follow exp(-(2 eta - eta^2) t): they grow beyond eta = 2."""
    model = SequenceMultiIndex(lambda z: z[0, 0], noise=0.1).at_accuracy(Accuracy(points=32))
    table = online_trajectory(model, 75.0, 3, Pace(2.05, 1), points=64)
    assert [str(status) for status in table.status] == ["converged", *["diverging"] * 3]
    assert 1e3 < table["power"][-1, 0, 0] < 1e6
    # Next to it the power approaches some forty: noise times eta / (2 - eta), and the start.
    large = online_sgd(model, [0.0, 75.0], Pace(1.99, 1), points=64)
    assert large.status is Status.CONVERGED and large.power.value[-1, 0, 0] > 10


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("time", {"time": [1.0, 0.5]}),
        ("time", {"time": [-1.0]}),
        ("start", {"start": Start(np.eye(3), np.eye(3))}),
        ("start", {"start": Start(2 * np.eye(2), np.eye(2))}),
        ("start", {"start": Start(np.eye(2), np.eye(2), 0.5 * np.eye(2))}),
        ("start", {"start": Start(np.eye(2), np.eye(2), np.ones((2, 2)))}),
        ("start", {"start": Start(np.eye(2), np.eye(2), np.eye(3))}),
        ("points", {"points": 48}),
        ("learning_rate", {"pace": Pace(0.0, 1)}),
    ],
)
def test_bad_input_is_named(name, change):
    with pytest.raises(ParameterError, match=name):
        online_sgd(**{"model": GATED, "time": [0.0, 1.0], **change})


@pytest.mark.slow
@pytest.mark.parametrize(("law", "mean"), [("poisson", np.exp), ("laplace:0.3", lambda g: g)])
def test_errors_on_labels_are_those_of_mean_labels(law, mean):
    """What a law makes of the link, as measured of runs: at a given overlap two fields are jointly normal."""
    model = SequenceMultiIndex(lambda z: jnp.tanh(3 * z[0, 0]), 1, 1, noise_law=law)
    found = online_trajectory(model, 1.0, 1, Pace(0.3, 1), cosine_start(1, 0.3, 1.0), points=1024)
    t, w = np.polynomial.hermite_e.hermegauss(200)
    own = 0.3 * t[:, None] + np.sqrt(1 - 0.3**2) * t
    gap = mean(np.tanh(3 * own)) - mean(np.tanh(3 * t))[:, None]
    exact = w @ gap**2 @ w / (2 * np.pi)
    assert found["plugin_error"][0] == pytest.approx(exact, abs=found["plugin_error_estimate"][0] + 1e-3)
