"""Descent that sees its samples again: closed forms, the numbers of the prototype, limits that other theories know."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import SGD, Accuracy, IncompatibleError, SequenceMultiIndex, Status
from glassformer.dynamics import descent_path as module
from glassformer.dynamics.descent_path import descent_limits, descent_path, descent_table
from glassformer.dynamics.descent_settings import DescentSettings, DescentStart
from glassformer.dynamics.mean_field import shared_moments
from glassformer.dynamics.online_sgd import Pace, cosine_start, online_sgd
from glassformer.errors import ParameterError
from glassformer.risk.rows.student import student_of

SIGN = SequenceMultiIndex(lambda z: 2.0 * (z[0, 0] > 0) - 1)
# Two rows that do not interact, so that labels are drawn with exact second moments.
LINEAR = SequenceMultiIndex(lambda z: z[:, 0], indices=2, noise=0.3).at_accuracy(Accuracy(points=32))
LOGISTIC = student_of(SIGN, "logistic")
# Numbers of steps from 32 to 47 share an executable.
STEPS, MANY = 12, 47


def linear_descent(alpha, settings, overlap, power, noise):
    """Overlap, power and training loss of one row and the square loss: averages over the Marchenko-Pastur law."""
    count = 2000
    angle = (np.arange(count) + 0.5) * np.pi / count
    x = 1 + alpha + 2 * np.sqrt(alpha) * np.cos(angle)
    weight = 2 * alpha * np.sin(angle) ** 2 / x / count
    if alpha < 1:
        x, weight = np.append(x, 0.0), np.append(weight, 1 - alpha)
    # Weights along an eigenvector: coefficients of the start, of the teacher, of the noise.
    now, velocity = np.stack([np.ones_like(x), 0 * x, 0 * x]), np.zeros((3, len(x)))
    drive = np.stack([0 * x, x, np.sqrt(x)])
    rows = []
    for step in range(settings.steps + 1):
        begin, teacher, random = now
        m = weight @ (begin * overlap + teacher)
        q = weight @ (begin**2 * power + 2 * begin * teacher * overlap + teacher**2 + noise * random**2)
        fit = begin**2 * power + 2 * begin * (teacher - 1) * overlap + (teacher - 1) ** 2
        inside = (x > 0) * (np.sqrt(x) * random - 1) ** 2
        loss = (weight @ (x * fit) + noise * weight @ inside + noise * max(alpha - 1, 0)) / (2 * alpha)
        rows.append((m, q, loss))
        if step < settings.steps:
            change = (x + settings.weight_decay) * now - drive
            rate = settings.rates[step]
            velocity = settings.momentum * velocity - rate * change
            now = now + (settings.momentum * velocity - rate * change if settings.nesterov else velocity)
    return np.array(rows).T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("alpha", "settings"),
    [
        (1.5, {"learning_rate": 0.3, "weight_decay": 0.1}),
        (0.6, {"learning_rate": 0.4, "momentum": 0.6}),
        (2.0, {"learning_rate": lambda t: 0.2 / (1 + 0.1 * t), "momentum": 0.5, "nesterov": True}),
    ],
)
def test_square_loss_of_a_linear_student_in_closed_form(alpha, settings):
    settings = DescentSettings(steps=STEPS, trajectories=4096, sets=4, **settings)
    path = descent_path(LINEAR, alpha, settings, start=DescentStart.of_cosine(2, 2, 0.2))
    overlap, power, loss = linear_descent(alpha, settings, 0.2, 1.0, 0.3)
    for found, known in ((path.overlap, overlap), (path.power, power)):
        np.testing.assert_allclose(found.value, known[:, None, None] * np.eye(2), atol=1e-9)
    np.testing.assert_allclose(path.errors["training_loss"].value, 2 * loss, atol=1e-9)
    np.testing.assert_allclose(path.error.value, 1 - 2 * overlap + power, atol=1e-9)


@pytest.mark.thorough
def test_no_learning_rate_changes_nothing():
    path = descent_path(
        SIGN, 1.0, DescentSettings(STEPS, 0.0, trajectories=4096), LOGISTIC, start=DescentStart.of_cosine(1, 1, 0.3)
    )
    np.testing.assert_allclose(path.overlap.value, 0.3, atol=1e-15)
    np.testing.assert_allclose(path.correlation.value, 1.0, atol=1e-12)
    assert np.ptp(path.errors["training_loss"].value) < 1e-12


def close(estimate, step, known, error, widest=0.05):
    """Whether the first entry at a step is within its error, a small one, and that of a known number."""
    value, own = (np.ravel(part[step])[0] for part in estimate)
    assert own < widest * max(abs(known), 0.3)
    return abs(value - known) <= np.hypot(own, error)


@pytest.mark.thorough
def test_logistic_regression_full_batch():
    path = descent_path(SIGN, 2.0, DescentSettings(32, weight_decay=0.05), LOGISTIC)
    for step, power, overlap, loss in ((1, 1.510, 0.797, 0.359), (5, 3.850, 1.606, 0.1965), (20, 6.763, 2.203, 0.1348)):
        assert close(path.power, step, power, 0.005 * power)
        assert close(path.overlap, step, overlap, 0.002)
        assert close(path.errors["training_loss"], step, loss, 0.002)
    # The error on signs is the angle between student and teacher.
    exact = np.arccos(path.cosine.value[:, 0]) / np.pi
    assert np.all(np.abs(path.errors["label_error"].value - exact) < 2 * path.errors["label_error"].error + 2e-3)
    assert path.early_stop("label_error")[0] > 5
    assert path.arrival(0.5).value == np.argmax(path.cosine.value > 0.5)


@pytest.mark.thorough
@pytest.mark.slow
def test_logistic_regression_on_batches():
    path = descent_path(SIGN, 2.0, DescentSettings(20, weight_decay=0.05, batch=0.3), LOGISTIC)
    assert close(path.power, 5, 1.323, 0.01)
    assert close(path.overlap, 5, 0.767, 0.005)
    assert close(path.errors["training_loss"], 5, 0.379, 0.002)


def attention(fields):
    return jax.nn.softmax(fields.T @ fields, axis=-1)


@pytest.mark.thorough
def test_attention():
    model = SequenceMultiIndex(attention, indices=1, tokens=2, noise=0.04)
    settings = DescentSettings(20, 0.3, weight_decay=0.02)
    path = descent_path(model, 3.0, settings, start=DescentStart.of_cosine(1, 1, 0.3))
    for step, power, overlap, loss in (
        (5, 0.6127, 0.4722, 0.1323),
        (10, 0.6756, 0.6725, 0.1014),
        (20, 0.8779, 0.9002, 0.0763),
    ):
        assert close(path.power, step, power, 0.008)
        assert close(path.overlap, step, overlap, 0.008)
        assert close(path.errors["training_loss"], step, loss, 0.001)


@pytest.mark.thorough
@pytest.mark.slow
def test_attention_with_several_steps_on_the_same_batch():
    model = SequenceMultiIndex(attention, indices=1, tokens=2, noise=0.01)
    settings = DescentSettings(24, 0.4, 0.25, 3, weight_decay=0.03, trajectories=2**16)
    path = descent_path(model, 2.0, settings, start=DescentStart.of_cosine(1, 1, 0.4))
    for step, power, overlap in ((6, 0.7475, 0.4188), (24, 0.5155, 0.5203)):
        assert close(path.power, step, power, 0.006, 0.1)
        assert close(path.overlap, step, overlap, 0.005, 0.1)


@pytest.mark.thorough
def test_a_convex_risk_is_minimised_in_the_end():
    """Ridge logistic regression at alpha = 3, strength 1, whose limit is known to seven digits."""
    path = descent_path(SIGN, 3.0, DescentSettings(MANY, 0.6, weight_decay=1.0), LOGISTIC)
    assert close(path.power, -1, 0.5913993, 1e-4)
    assert close(path.overlap, -1, 0.6655164, 1e-4)
    assert close(path.errors["label_error"], -1, 0.1670625, 1e-3)
    np.testing.assert_allclose(path.power.value[-1], path.power.value[-2], rtol=1e-3)
    first, distance = path.arrivals(0.1670625, "label_error")[0], np.abs(path.errors["label_error"].value - 0.1670625)
    assert np.all(distance[first:] <= 0.01 * distance[0]) and distance[first - 1] > 0.01 * distance[0]
    assert path.arrivals(0.2, "label_error") == (None, None)
    # Weights that settle end the run.
    assert 30 < path.settles_at < MANY
    assert np.ptp(path.power.value[path.settles_at :]) < 1e-6
    assert f"weights settle at step {path.settles_at}" in descent_table([path]).notes[0]


@pytest.mark.thorough
@pytest.mark.slow
def test_many_batches_are_new_samples():
    """One sample per dimension and step: e' = e (1 - 2 eta + 2 eta^2) + eta^2 noise for the error e of a linear row."""
    eta, noise, alpha = 0.4, 0.3, 400.0
    settings = DescentSettings(4, eta, batch=1 / alpha, trajectories=2**17, sets=4)
    path = descent_path(LINEAR, alpha, settings)
    error = [2.0]
    for _ in range(4):
        error.append(error[-1] * (1 - 2 * eta + 2 * eta**2) + eta**2 * noise)
    assert np.all(np.abs(path.error.value - error) < path.error.error + 0.02 * np.array(error))


@pytest.mark.thorough
def test_many_batches_are_online_descent():
    """Few new samples per dimension and step: the equations of online SGD in continuous time."""
    alpha, share, rate, steps = 100.0, 0.0025, 0.2, 12
    model = SequenceMultiIndex(lambda z: jnp.tanh(2 * z[0, 0]), noise=0.1).at_accuracy(Accuracy(points=32))
    start = DescentStart.of_cosine(1, 1, 0.3)
    path = descent_path(
        model, alpha, DescentSettings(steps, rate, batch=share, trajectories=2**17, sets=4), None, start
    )
    # Batches of one sample: time is samples over dimension.
    time = alpha * share * np.arange(steps + 1)
    online = online_sgd(model, time, Pace(rate, 1), cosine_start(1, 0.3), points=256)
    for found, known in ((path.overlap, online.overlap), (path.power, online.power)):
        moved = np.abs(known.value[-1] - known.value[0])
        assert np.all(found.error < 0.02)
        # Steps are finite: a change of 0.05 of the weights in each.
        assert np.all(np.abs(found.value - known.value) < found.error + known.error + 0.05 * moved)


@pytest.mark.slow
def test_one_step_from_no_weights_is_a_sum_of_inputs():
    """W = (eta/2) sum_mu y_mu x_mu / sqrt(d): overlap eta alpha E|z| / 2, power its square and eta^2 alpha / 4."""
    eta, alpha = 0.7, 2.0
    start = DescentStart(np.zeros((1, 1)), np.zeros((1, 1)))
    path = descent_path(SIGN, alpha, DescentSettings(STEPS, eta, trajectories=4096), LOGISTIC, start)
    overlap = eta * alpha * np.sqrt(2 / np.pi) / 2
    assert close(path.overlap, 1, overlap, 1e-4)
    assert close(path.power, 1, overlap**2 + eta**2 * alpha / 4, 1e-4)
    np.testing.assert_allclose(path.errors["training_loss"].value[0], np.log(2), rtol=1e-12)


def runs(case, d, instances, steps, rate, decay, spectrum):
    """Overlap and power of runs of one row from the cosine 0.3, shape (instances, steps + 1, 2)."""
    link, slope, noise, alpha = case
    found = []
    for seed in range(instances):
        rng = np.random.default_rng(seed)
        scales = np.repeat(spectrum, d // len(spectrum))
        inputs = rng.standard_normal((int(alpha * d), d)) * np.sqrt(scales / d)
        teacher, other = np.linalg.qr(rng.standard_normal((d, 2)))[0].T * np.sqrt(d)
        weights = 0.3 * teacher + np.sqrt(1 - 0.09) * other
        labels = link(inputs @ teacher) + np.sqrt(noise) * rng.standard_normal(len(inputs))
        path = []
        for _ in range(steps + 1):
            path.append((weights * scales @ teacher / d, weights * scales @ weights / d))
            fields = inputs @ weights
            weights = weights - rate * (((link(fields) - labels) * slope(fields)) @ inputs + decay * weights)
        found.append(path)
    return np.array(found)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "slope", "function", "spectrum"),
    [
        (lambda z: np.tanh(2 * z), lambda z: 2 - 2 * np.tanh(2 * z) ** 2, lambda z: jnp.tanh(2 * z[0, 0]), [0.2, 1.8]),
        # The gradient has a jump at zero.
        (lambda z: np.maximum(z, 0), lambda z: z > 0, lambda z: jnp.maximum(z[0, 0], 0.0), None),
    ],
)
def test_runs_with_features_of_two_variances_and_with_a_kink(link, slope, function, spectrum):
    model = SequenceMultiIndex(function, noise=0.1, feature_spectrum=spectrum).at_accuracy(Accuracy(points=32))
    settings = DescentSettings(STEPS, 0.15, weight_decay=0.1, trajectories=2**14)
    path = descent_path(model, 3.0, settings, start=DescentStart.of_cosine(1, 1, 0.3))
    found = runs((link, slope, 0.1, 3.0), 300, 8, STEPS, 0.15, 0.1, spectrum or [1.0])
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(8)
    for number, known in enumerate((path.overlap, path.power)):
        distance = np.abs(mean[:, number] - known.value[:, 0, 0])
        assert np.all(distance < 3.5 * error[:, number] + known.error[:, 0, 0] + 3 / 300)


@pytest.mark.thorough
def test_trajectories_are_shared_out_over_devices(monkeypatch):
    """With the axis of devices that a machine of several has, here of one."""
    settings = DescentSettings(2, 1.0, batch=0.5, trajectories=4096)
    known = descent_path(SIGN, 2.0, settings, LOGISTIC)
    monkeypatch.setattr(module, "descent_moments", lambda *given, student: shared_moments(*given, student, 1))
    found = descent_path(SIGN, 2.0, settings, LOGISTIC)
    np.testing.assert_allclose(found.correlations, known.correlations, rtol=1e-12)
    np.testing.assert_allclose(found.measures["training_loss"], known.measures["training_loss"], rtol=1e-12)


@pytest.mark.thorough
def test_descent_leaves_a_plateau():
    """A student of two rows, equal but for 1e-5, does not settle where the rows would be equal."""
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]) + jnp.tanh(z[1, 0]), indices=2)
    rest = 1e-5 * np.array([[1.0, -1.0], [-1.0, 1.0]])
    start = DescentStart(0.3 + rest, 0.3 + 4e-5 * rest)
    path = descent_path(model, 10.0, DescentSettings(127, 0.05, trajectories=4096), start=start)
    # Runs at d = 400 have a training loss of 0.0198 at step 60, on the plateau, and 0.0120 at step 120.
    assert abs(path.errors["training_loss"].value[60] - 0.0198) < 0.002
    assert path.errors["training_loss"].value[120] < 0.016 and path.settles_at is None


@pytest.mark.thorough
def test_weights_that_move_to_and_fro_do_not_settle():
    model = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0]), noise_law="flip:0.1")
    settings = DescentSettings(60, 5.0, weight_decay=0.06, trajectories=4096)
    path = descent_path(model, 2.0, settings, student_of(model, "logistic"))
    correlation = path.correlation.value[-2:, -2:, 0, 0]
    assert path.settles_at is None
    assert correlation[0, 0] + correlation[1, 1] - 2 * correlation[0, 1] > correlation[1, 1]


@pytest.mark.thorough
def test_few_trajectories_do_not_follow_a_small_overlap():
    """Overlaps of the sets, which have fewer trajectories, decay instead of growing."""
    model = SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0] ** 2))
    start = DescentStart.of_cosine(1, 1, 1e-4)
    path = descent_path(model, 40.0, DescentSettings(60, 0.02, trajectories=8192), start=start)
    assert path.status is Status.INTEGRATION_NOT_CONVERGED
    table = descent_table([path])
    begins = path.undetermined_from
    assert table.status == [Status.CONVERGED] * begins + [path.status] * (61 - begins)
    assert f"from step {begins} on the sets of trajectories contradict each other" in table.notes[1]
    assert table.notes[1] in descent_limits([path]).notes


@pytest.mark.slow
def test_divergence_is_told_with_its_step():
    settings = DescentSettings(STEPS, [0.3] * 4 + [1.5] * (STEPS - 4), trajectories=4096, sets=4)
    table = descent_table([descent_path(LINEAR, 2.0, settings)])
    assert table.status[:4] == [Status.CONVERGED] * 4
    assert table.status[-1] is Status.DIVERGING
    (note,) = table.notes
    assert "descent diverges, the training loss only grows from step 4 on" in note
    assert "after step" in note
    assert not np.isfinite(table["error"][-1])
    assert np.all(np.isfinite(table["error"][:6]))


def test_settings_out_of_range():
    for given, text in (
        ({"batch": 0.0}, "batch = 0.0 is not allowed: expected a share of the samples in (0, 1]"),
        (
            {"steps": 5, "learning_rate": [0.1] * 4},
            "learning_rate = '<4 numbers>' is not allowed: expected one number, or 5, one per step",
        ),
        ({"trajectories": 1000}, "trajectories = 1000 is not allowed: expected 32 times a power of two"),
        ({"momentum": 1.0}, "momentum = 1.0"),
        ({"nesterov": True}, "a number > 0 with nesterov"),
        ({"learning_rate": -1.0}, "learning_rate = -1.0"),
    ):
        with pytest.raises(ParameterError) as error:
            DescentSettings(**given)
        assert text in str(error.value)
    with pytest.raises(ParameterError, match="positive semi-definite"):
        descent_path(SIGN, 1.0, student=LOGISTIC, start=DescentStart(np.array([[1.2]]), np.eye(1)))
    with pytest.raises(ParameterError, match="less than a day"):
        descent_path(SIGN, 1.0, DescentSettings(100_000), LOGISTIC)
    with pytest.raises(IncompatibleError, match="logistic"):
        SGD(loss="logistic").path(SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0])), 1.0)
