"""The same checks for every model in the table. A new one needs one line in ``EXAMPLES``."""

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import Sweep, limits, simulate
from glassformer.core.hashing import identity
from glassformer.core.results import error_column
from glassformer.errors import ParameterError
from glassformer.models.registry import MODELS, build, options_of
from glassformer.papers.citations import bibtex
from glassformer.plotting.plots import plot_limits
from glassformer.results import Table

# Parameters with which each is quick, and a sample ratio at which there is something to learn.
EXAMPLES = {
    "bsr": ({"rho": 0.5, "noise": 0.1}, 0.5),
    "aim": ({"rho": 0.5}, 0.1),
    "attention": ({"depth": 1}, 0.8),
    "icl": ({"tasks": 2.0, "noise": 0.0}, 0.5),
    "smi": ({"link": lambda z: jnp.tanh(z[0, 0]), "noise": 0.1}, 1.0),
}
# Learners of models whose map message passing cannot infer.
LEARNERS = {"icl": "ridge"}


@pytest.fixture(scope="module", params=MODELS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def model(name):
    return build(name, EXAMPLES[name][0])


@pytest.fixture(scope="module")
def table(name, model):
    return limits(model, [0.0, EXAMPLES[name][1]], LEARNERS.get(name, "gamp"), throw=False)


def test_every_model_is_checked():
    assert set(EXAMPLES) == set(MODELS)


def test_it_goes_by_its_name_and_counts_the_ratio_of_the_table(name, model):
    assert model.name == name
    assert model.parameters["alpha"] in MODELS[name].ratio
    assert MODELS[name].title


def test_its_options_are_explained_and_differ(name):
    assert all(option.text for option in options_of(name))
    assert len({option.word for option in options_of(name)}) == len(options_of(name))


def test_unknown_parameters_are_refused(name):
    with pytest.raises(ParameterError, match=f"one of {name}'s parameters"):
        build(name, {**EXAMPLES[name][0], "size": 1})


def test_equal_models_have_one_identity_and_others_another(name, model):
    assert identity(model) == identity(build(name, EXAMPLES[name][0]))
    assert len({identity(build(other, EXAMPLES[other][0])) for other in EXAMPLES}) == len(EXAMPLES)


@pytest.mark.slow
def test_limits_begin_with_nothing_known_and_fall(table):
    assert isinstance(table, Table)
    assert table[table.main][0] == pytest.approx(1.0, abs=1e-3)
    assert 0 <= table[table.main][1] < 0.99


@pytest.mark.slow
def test_runs_reach_its_theory(name, model):
    result = simulate(model, [EXAMPLES[name][1]], LEARNERS.get(name, "gamp"), d=60, instances=2)
    assert result[result.main] == pytest.approx(result[error_column(result.main, "theory")], abs=0.25)


@pytest.mark.slow
def test_it_is_drawn_swept_and_cited(name, table, tmp_path):
    parameters, alpha = EXAMPLES[name]
    plot_limits(table, tmp_path / "limits.png")
    assert (tmp_path / "limits.png").stat().st_size > 1000
    sweep = Sweep(name, {"alpha": [alpha]}, parameters=parameters, learner=LEARNERS.get(name, "gamp"))
    assert len(list(sweep.tasks(sweep.points))) == 1
    assert np.all([entry.startswith("@") for entry in bibtex([name]).split("\n\n")])
