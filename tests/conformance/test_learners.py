"""The same checks for every learner in the table. A new one needs one line in ``FOR``."""

import copy
import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    IncompatibleError,
    limits,
    simulate,
)
from glassformer.core.checkpoints import Checkpoint
from glassformer.core.errors import RenamedError
from glassformer.core.options import options_in
from glassformer.errors import ParameterError
from glassformer.learners.registry import (
    LEARNERS,
    compatible_learner,
    learner,
    learner_type,
    names,
    require_compatible,
    resolve_learner,
    runs_on,
)

LINEAR = BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
NETWORK = DeepAttention(depth=1).at_accuracy(Accuracy(points=64))
# A model that each is for, one that it is not for, and settings with which it is quick.
FOR = {
    "gamp": (LINEAR, None, {"damping": 0.1}),
    "blind-gamp": (LINEAR, NETWORK, {"damping": 0.1}),
    "vamp": (LINEAR, NETWORK, {"damping": 0.1}),
    "ridge": (LINEAR, AttentionIndexed(0.5), {"strength": 0.2}),
    "nuclear-norm": (LINEAR, NETWORK, {"strength": 0.2}),
    "risk": (LINEAR, AttentionIndexed(0.5, tokens=2, channel="softmax"), {"strength": 0.2}),
    "gd": (LINEAR, NETWORK, {"steps": 60, "learning_rate": 0.2}),
    "averaged-gd": (LINEAR, NETWORK, {"steps": 60, "learning_rate": 0.2, "initialisations": 2}),
    "sgd": (NETWORK, LINEAR, {"passes": 2, "batch": 0.5}),
    "online-sgd": (NETWORK, LINEAR, {"batch": 2, "record_every": 3}),
}
BAD = {bool: "yes", int: 2.5, float: float("nan"), str: "nonsense"}


# The accuracy at which each is quick.
ACCURACY = Accuracy(max_iterations=20, trajectories=1024, matrix_size=20, draws=2)


def quick(name):
    return learner(name, **FOR[name][2]).at_accuracy(ACCURACY)


def ask(name):
    return {"model": FOR[name][0], "alpha": [0.6], "d": 12, "instances": 2, "learner": quick(name)}


@pytest.fixture(scope="module", params=LEARNERS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def result(name):
    return simulate(**ask(name))


def test_every_learner_is_checked():
    assert set(FOR) == set(LEARNERS) == set(names())
    assert all(learner(name).name == name and learner(name).info.title for name in names())


def test_what_it_is_not_for_is_refused_with_a_remedy(name):
    fitting, other, _ = FOR[name]
    assert runs_on(learner(name), fitting)
    if other is None:
        return
    with pytest.raises(IncompatibleError) as caught:
        require_compatible(learner(name), other)
    found = str(caught.value)
    remedies = found.rpartition("use ")[2].split(" or ")
    assert found.startswith(f"learner {name} ")
    assert remedies
    # Settings that a learner needs for this model stand behind its name.
    assert all(runs_on(compatible_learner(remedy.partition(" ")[0], other), other) for remedy in remedies)
    with pytest.raises(IncompatibleError, match=f"learner {name}"):
        simulate(other, [0.5], name, d=10)


@pytest.mark.slow
def test_settings_are_described_checked_and_kept(name, result):
    kind = learner_type(name)
    for one in (one for one in fields(kind) if not one.name.startswith("_")):
        assert one.metadata["help"]
        option = next(option for option in options_in(kind) if option.field == one.name)
        for value in (BAD[option.kind], [], *([] if option.flag else [True])):
            with pytest.raises(ParameterError, match=f"^{one.name} = "):
                learner(name, **{one.name: value})
    with pytest.raises(ParameterError, match="one of the settings"):
        learner(name, speed=1)
    assert FOR[name][2].items() <= result.parameters.items()


def test_a_name_stands_for_the_learner_with_its_defaults(name):
    own = quick(name)
    assert resolve_learner(own) is own
    assert resolve_learner(name) == learner_type(name)()


def test_learners_are_copied_and_replaced(name):
    own = learner(name, **FOR[name][2])
    assert pickle.loads(pickle.dumps(own)) == copy.deepcopy(own) == copy.copy(own) == replace(own) == own


def test_variants_have_the_settings_of_a_dimension():
    assert learner("sgd:published", d=60) == SGD.published(60)
    assert learner("sgd:published", d=60, passes=20) == replace(SGD.published(60), passes=20)
    with pytest.raises(IncompatibleError, match="depend on the token dimension: give d"):
        resolve_learner("sgd:published")
    with pytest.raises(ParameterError, match="sgd or sgd:published"):
        learner("sgd:fast", d=60)
    with pytest.raises(ParameterError, match="learner = 'gd:published' is not allowed: expected gd"):
        learner("gd:published", d=60)


@pytest.mark.parametrize(
    ("name", "given", "words"),
    [
        ("averaged-gd", {"starts": 3}, "starts is now initialisations"),
        ("gd", {"max_steps": 3}, "max_steps is now steps"),
        ("gd", {"init": "small"}, 'init is now start="prior" or start="small:0.001"'),
        ("online-sgd", {"overlap": 0.3}, 'overlap is now start="overlap:0.3"'),
        ("risk", {"start": "informed"}, "start is now branch"),
    ],
)
def test_old_words_of_settings_say_the_new_ones(name, given, words):
    with pytest.raises(RenamedError, match=words):
        learner_type(name)(**given)


@pytest.mark.slow
def test_limits_are_known_where_it_says_so(name):
    model = FOR[name][0]
    if learner_type(name).info.limit_settings is None:
        with pytest.raises(IncompatibleError, match=r"no theory is known|no closed equations"):
            limits(model, [0.6], learner(name))
    else:
        found = limits(model, [0.6], quick(name))
        assert np.isfinite(found["error"]).all()
        assert name == "gamp" or found.parameters["learner"] == name


@pytest.mark.slow
def test_it_has_a_theory_or_says_why_not(name, result):
    try:
        found = quick(name).completed(FOR[name][0]).theory(FOR[name][0]).of_runs(np.array([0.6]))
    except IncompatibleError as error:
        assert np.isnan(result["theory"]).all()
        assert any(str(error) in note for note in result.notes)
    else:
        assert np.isfinite(found["error"]).all()
        assert np.isfinite(result["theory"]).all()


@pytest.mark.slow
def test_records_hold_what_there_is(result):
    for run in result.instances[0]:
        assert np.isfinite(run.error)
        assert run.prior_error > 0
        assert run.iterations > 0
        assert None not in run.to_dict().values()
    assert {"error", "theory", "theory_bayes_optimal", "relative_error"} <= set(result.columns)


def test_inputs_it_cannot_learn_from_are_refused(name):
    if "generated" in learner_type(name).info.storages:
        return
    with pytest.raises(IncompatibleError, match=r"is for learner gamp.*use float64 or float32"):
        simulate(**ask(name), storage="generated")


@pytest.mark.slow
def test_states_and_finished_runs_are_kept_and_one_seed_gives_identical_bits(name, result, tmp_path, monkeypatch):
    """Interruptions themselves: tests/core/test_checkpoints.py."""
    kept = []
    monkeypatch.setattr(Checkpoint, "offer", lambda self, state: kept.append(state()))
    again = simulate(**ask(name), checkpoint=tmp_path)
    assert bool(kept) == learner_type(name).info.resumable
    assert again.to_dict() == result.to_dict()
    assert simulate(**ask(name), checkpoint=tmp_path).to_dict() == result.to_dict()
