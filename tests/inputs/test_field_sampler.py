"""Laws of the inputs that are given by a sampler of the fields."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    IncompatibleError,
    OnlineSGD,
    RegularisedRisk,
    SequenceMultiIndex,
    compare,
    hysteresis,
    limits,
    simulate,
    thresholds,
    trajectory,
)
from glassformer.channels.fields import Fields
from glassformer.cli import main
from glassformer.core.hashing import identity
from glassformer.errors import ParameterError
from glassformer.inputs import FieldSampler, Mixture
from glassformer.learners.rows_risk import RowTheory

NU = 2.0
LOGISTIC = RegularisedRisk("logistic", strength=0.1)


@dataclass(frozen=True)
class Drawn(FieldSampler):
    """A function of a generator, the number of samples, rows and tokens."""

    function: object
    symmetric: bool = False
    label = "drawn"

    def draw(self, rng, samples, rows, tokens):
        return self.function(rng, samples, rows, tokens)


def two_classes(rng, samples, rows, tokens):
    """A mixture of two classes, drawn."""
    return rng.standard_normal((samples, rows, tokens)) + np.sqrt(NU) * rng.choice([-1.0, 1.0], (samples, 1, 1))


@dataclass(frozen=True)
class Tails(FieldSampler):
    """Fields with the law of Student, and tokens that depend on each other."""

    degrees: float = 7.0
    label = "tails"

    def draw(self, rng, samples, rows, tokens):
        fields = rng.standard_t(self.degrees, (samples, rows, tokens))
        return fields + 0.2 * fields[..., ::-1] ** 2


def sign(z):
    return jnp.sign(z[0, 0])


def readout(z):
    return jnp.tanh(z[0, 0]) + 0.3 * z[0, 1]


TAILS = SequenceMultiIndex(readout, 1, 2, noise=0.1, inputs=Tails())


def test_a_mixture_as_a_sampler_is_the_mixture():
    exact, drawn = (
        limits(SequenceMultiIndex(sign, inputs=inputs), [1.5], LOGISTIC)
        for inputs in (Mixture([-(NU**0.5), NU**0.5]), Drawn(two_classes))
    )
    for name in ("overlap", "power", "cosine", "label_error"):
        error = 3 * np.hypot(*(table[f"{name}_error_estimate"].ravel()[0] for table in (exact, drawn)))
        assert abs(exact[name] - drawn[name]).ravel()[0] < error


def test_runs_of_a_risk_agree_with_theory():
    """Finite size: differences are of order 1/d."""
    runs = simulate(SequenceMultiIndex(sign, inputs=Drawn(two_classes)), [1.5], LOGISTIC, d=300, instances=6)
    error = 4 * np.hypot(runs["standard_error"], runs["theory_error_estimate"]) + 0.01
    assert abs(runs["error"] - runs["theory"])[0] < error[0]
    assert any("needs the density of the fields" in note for note in runs.notes)


@pytest.mark.thorough
def test_descent_follows_its_equations():
    learner = SGD(learning_rate=0.3, weight_decay=0.05, start="overlap:0.3")
    table = trajectory(TAILS, [2.0], learner, steps=6, d=600, instances=4).to_pandas()
    error = 4 * table["measured_standard_error"] + table["error_estimate"] + 0.01
    assert np.all(abs(table["measured_error"] - table["error"]) < error)


@pytest.mark.thorough
def test_online_descent_follows_its_equations():
    """The theory starts at the teachers of the runs, whose rows are not orthonormal at this size."""
    learner = OnlineSGD(learning_rate=0.3, batch=2, start="overlap:0.2")
    table = trajectory(TAILS, [2.0], learner, steps=3, d=400, instances=4).to_pandas()
    error = table["measured_standard_error"] + table["error_estimate"]
    assert np.all(abs(table["measured_error"] - table["error"]) < error)
    error = 4 * table["measured_plugin_standard_error"] + 4 * table["plugin_error_estimate"]
    assert np.all(abs(table["measured_plugin_error"] - table["plugin_error"]) < error)


@pytest.mark.parametrize("storage", ["float64", "revealed"])
def test_fields_of_data_are_those_of_the_sampler(storage):
    """Fields of data are drawn ones, whatever the inner products of the rows of the teacher."""
    law = Drawn(lambda rng, samples, rows, tokens: rng.integers(0, 3, (samples, rows, tokens)))
    model = SequenceMultiIndex(lambda z: z[0, 0] + z[1, 1], 2, 2, noise=0.1, inputs=law)
    size, rng = model.at_size(30), np.random.default_rng(0)
    kind = size.design.sample if storage == "float64" else size.design.reveal
    teacher = model.prior.sample((2, 30), rng)
    design, labels = model.labelled(kind(200, size.input_shape, rng), teacher, rng)
    fields = design.forward(teacher, 0)
    assert fields == pytest.approx(np.rint(fields), abs=1e-9)
    assert np.std(labels - fields[:, 0, 0] - fields[:, 1, 1]) == pytest.approx(np.sqrt(0.1), rel=0.2)


def test_equal_points_draw_equal_fields():
    rng = np.random.default_rng(0)
    fields, normal, source = (
        Fields((1, 2), drawn=Tails().drawn(1, 2)),
        rng.standard_normal((9, 1, 2)),
        rng.standard_normal((9, 1)),
    )
    assert np.array_equal(fields.shifted(normal, source), fields.shifted(normal, source))
    assert not np.any(fields.shifted(normal, source) == fields.shifted(normal + 1, source))
    power = np.array([[2.0]])
    assert normal + power @ fields.shifts(normal, source, power) == pytest.approx(fields.shifted(normal, source))


def test_symmetries_hold_for_laws_that_declare_them():
    even = [SequenceMultiIndex(lambda z: z[0, 0] ** 2, noise=0.1, inputs=Drawn(two_classes, one)) for one in (0, 1)]
    assert [model.channel.labels.even for model in even] == [False, True]


def test_samplers_have_names_parameters_and_identity(tmp_path, capsys):
    varied = TAILS.varied(**{"inputs.degrees": 9.0})
    assert varied.inputs == Tails(9.0)
    assert identity(varied) != identity(TAILS)
    laws = [Drawn(lambda rng, *shape, size=size: size * rng.standard_normal(shape)) for size in (1.0, 2.0)]
    assert identity(laws[0]) != identity(laws[1])
    (tmp_path / "laws.py").write_text(
        "from glassformer.inputs import FieldSampler\nclass Cubes(FieldSampler):\n    label = 'cubes'\n"
        "    def draw(self, rng, samples, rows, tokens):\n        return rng.uniform(-2, 2, (samples, rows, tokens))\n"
        "cubes = Cubes()\ndef first(z): return z[0, 0]\n"
    )
    options = ["--link", f"{tmp_path}/laws.py:first", "--indices", "1", "--inputs", f"{tmp_path}/laws.py:cubes"]
    learner = ["--noise", "0.1", "--learner", "risk", "--loss", "square", "--strength", "0.1", "--alpha", "1"]
    assert main(["limits", "smi", *options, *learner]) == 0
    assert "cubes" in capsys.readouterr().out


@pytest.mark.parametrize("verb", [limits, hysteresis, thresholds])
def test_bayes_optimal_learning_is_refused(verb):
    ratios = [] if verb is thresholds else [[1.0]]
    with pytest.raises(IncompatibleError, match="inputs = tails only draw them: use risk"):
        verb(TAILS, *ratios)


def test_message_passing_is_refused_on_data():
    with pytest.raises(IncompatibleError, match="learner gamp needs the density of the fields"):
        simulate(TAILS, [1.0], d=20, instances=1)


@pytest.mark.parametrize("d", [None, 20])
def test_message_passing_is_refused_before_others_are_compared(d, monkeypatch):
    monkeypatch.setattr(RowTheory, "limits", lambda *_: pytest.fail("computed"))
    with pytest.raises(IncompatibleError, match=r"learner gamp needs the density of the fields, .* use risk"):
        compare(TAILS, [1.0], [RegularisedRisk("square", strength=0.1), "gamp"], d=d)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"link": None}, "have no hidden state: give a link of the fields alone"),
        ({"link": lambda z, place: z[0, place]}, "have no hidden state: give a link of the fields alone"),
        ({"link": readout, "token_correlation": 0.5}, "token_correlation = 0.5 exclude each other"),
    ],
)
def test_impossible_combinations_are_refused(parameters, message):
    with pytest.raises(IncompatibleError, match=message):
        SequenceMultiIndex(**parameters, indices=1, tokens=2, inputs=Tails())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda rng, samples, rows, tokens: rng.standard_normal((samples, rows)), "which draws shape"),
        (lambda rng, *shape: np.full(shape, np.nan), "which draws NaN"),
        (lambda rng, *shape: np.random.default_rng().random(shape), "draws from its argument rng alone"),
    ],
)
def test_samplers_are_checked(function, message):
    with pytest.raises(ParameterError, match=message):
        SequenceMultiIndex(sign, inputs=Drawn(function))
    with pytest.raises(IncompatibleError, match="have no hidden states"):
        Drawn(function).states(1, 1)


@pytest.mark.thorough
def test_accuracy_lowers_the_error():
    model = SequenceMultiIndex(sign, inputs=Drawn(two_classes))
    few, many = (
        limits(model, [1.5], LOGISTIC, accuracy=Accuracy(points=points))["error_estimate"][0] for points in (256, 4096)
    )
    assert many < few
