"""What is asked, its address, and the code that gives the same numbers elsewhere."""

import shlex
from urllib.parse import parse_qsl

import numpy as np
import pytest

from glassformer import Accuracy, limits, trajectory
from glassformer.cli import main
from glassformer.core import cache
from glassformer.core.errors import ParameterError
from glassformer.core.link_parsing import function_from
from glassformer.core.results import Steps
from glassformer.explorer.question import SETTINGS, Question, beginning, learner_options, offered
from glassformer.models.registry import MODELS

pytest.importorskip("panel")

from glassformer.explorer import views
from glassformer.explorer.fields import option_field
from glassformer.explorer.limits_view import best_error, learner_errors, refusals
from glassformer.explorer.views import diagram, free_entropy, runs, samples, steps


def asked(name, **texts):
    return Question(name, {**beginning(name), **texts})


def ignore(answer):
    pass


@pytest.mark.parametrize("name", [name for name in MODELS if name != "smi"])
def test_the_first_question_about_every_model_can_be_asked(name):
    assert asked(name).model.name == name
    reserved = {*SETTINGS, "model", "tab", "view", "family"}
    assert not {option.field for option in offered(name)} & reserved, "two controls of one name"


def test_no_control_opens_a_file(tmp_path):
    for name in MODELS:
        assert not {"link", "spectrum"} & {option.field for option in offered(name)}
    for inputs in ("laws.py:law", "hidden-token:laws.py:law"):
        with pytest.raises(ParameterError, match="opens no files"):
            _ = Question("smi", {**beginning("smi"), "inputs": inputs}, lambda z: z[0, 0]).model
    with pytest.raises(ParameterError, match="prior"):
        _ = asked("bsr", rho="", width="1", prior="/etc/passwd").model
    (tmp_path / "loss.py").write_text("raise SystemExit('run')\n")
    with pytest.raises(ParameterError, match="opens no files"):
        asked("bsr", **{"risk.loss": f"{tmp_path / 'loss.py'}:loss"}).learner("risk")


def test_the_law_of_the_inputs_is_chosen_by_name():
    question = Question("smi", {**beginning("smi"), "tokens": "2", "inputs": "hidden-token:2.0"}, lambda z: z[0, 0])
    assert question.model.inputs.signal == 2.0
    assert "--inputs hidden-token:2.0" in question.command("limits")
    assert "inputs='hidden-token:2.0'" in question.code("limits(model, [1.0])")


def test_settings_of_learners_have_their_types():
    assert asked("bsr", **{"ridge.strength": "0.3"}).learner("ridge").strength == 0.3
    assert asked("bsr", **{"ridge.strength": "best"}).learner("ridge").strength is None
    assert asked("bsr", **{"risk.loss": "huber", "blind-gamp.assumed_rho": "0.4"}).learner("risk").loss == "huber"
    assert asked("bsr", **{"blind-gamp.assumed_rho": "0.4"}).learner("blind-gamp").assumed_rho == 0.4


def test_losses_and_penalties_are_chosen_by_name():
    fields = {one.field: option_field(one, {}, "risk.") for one in learner_options("risk")}
    assert {"": "square", "hinge": "hinge"}.items() <= fields["loss"]["choices"].items()
    assert {"": "automatic", "trace": "trace", "lasso": "lasso"}.items() <= fields["penalty"]["choices"].items()
    assert fields["strength"]["kind"] == "text"


def test_an_address_holds_all_that_was_asked():
    texts = {"rho": "", "width": "2", "untied": "yes", "alpha": "0.1,0.2", "at": "&=?#", "risk.strength": "0.5"}
    question = asked("aim", **texts)
    found = dict(parse_qsl(question.address(model="aim", tab="learn")[1:], keep_blank_values=True))
    assert (found.pop("model"), found.pop("tab")) == ("aim", "learn")
    assert {**beginning("aim"), **found} == question.texts


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("rho", "-1", "expected >= 0"),
        ("rho", "wide", "a number"),
        ("width", "1.5", "an integer"),
        ("width", "1e400", "an integer"),
        ("channel", "nope", "one of gaussian"),
    ],
)
def test_bad_values_get_the_errors_of_the_library(name, text, message):
    with pytest.raises(ParameterError, match=message):
        _ = asked("bsr", **{name: text}).model


def test_too_many_sample_ratios_are_refused_and_learners_begin_above_zero():
    assert asked("bsr").parameters == {"rho": 0.5}
    assert asked("bsr", alpha="0").positive_alpha == ""
    assert asked("bsr", alpha="0:1:5").positive_alpha == "0.25:1.0:4"
    assert asked("bsr", alpha="0,0.5").positive_alpha == "0.5"
    with pytest.raises(ParameterError, match="at most"):
        _ = asked("bsr", alpha="0:1:100000").alpha


def test_code_and_command_give_the_numbers_of_the_page(tmp_path, capsys):
    settings = {"learners": "ridge", "ridge.strength": "0.3"}
    answer = learner_errors(asked("bsr", noise="0.1", rho="inf", alpha="0:1:5", **settings), ignore)
    page = answer.frame.set_index("learner")
    names = {}
    exec(answer.code, names)
    np.testing.assert_array_equal(names["result"]["error"], page.loc["bayes-optimal", "error"])
    np.testing.assert_array_equal(names["ridge"]["error"], page.loc["ridge", "error"])
    best, _, ridge = answer.command.splitlines()
    for line, name in ((best, "bayes-optimal"), (ridge, "ridge")):
        assert main([*shlex.split(line)[1:], "--csv", str(tmp_path / f"{name}.csv")]) == 0
        written = np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", names=True, usecols=(0, 1))
        np.testing.assert_allclose(written["error"], page.loc[name, "error"], rtol=1e-14)
    capsys.readouterr()


@pytest.mark.parametrize(
    ("view", "texts"),
    [
        (free_entropy, {}),
        (steps, {"steps": "5"}),
        (samples, {"learner": "ridge", "noise": "0.1", "target": "0.6"}),
        (diagram, {"horizontal": "noise", "rho": "inf"}),
        (runs, {"d": "12", "learner": "ridge", "noise": "0.1", "alpha": "0,0.3,0.6"}),
    ],
)
def test_every_view_has_code_and_a_command_that_work(view, texts, tmp_path, capsys):
    partial = []
    answer = view(asked("bsr", **texts), partial.append)
    names = {}
    exec(answer.code, names)
    frame = names["result"].to_pandas()
    column = next(name for name in ("error", "free_entropy", "alpha") if name in frame)
    np.testing.assert_array_equal(frame[column].to_numpy(float), answer.frame[column].to_numpy(float))
    assert main([*shlex.split(answer.command)[1:], "--csv", str(tmp_path / "numbers.csv")]) == 0
    capsys.readouterr()
    assert [len(one.frame) for one in partial] == ([1, 2] if view is runs else [])


@pytest.mark.thorough
def test_steps_of_descent_have_a_preview_and_the_code_has_their_settings(monkeypatch, tmp_path, capsys):
    # Preview and curve have one shape, which is compiled once.
    monkeypatch.setattr(views, "_FEW", Accuracy(trajectories=32_768))
    (tmp_path / "line.py").write_text("def line(z):\n    return z[0, 0]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    texts = {"learner": "sgd", "steps": "3", "quantity": "loss", "sgd.momentum": "0.5", "noise": "0.1", "at": "2"}
    link = function_from("line.py:line", tmp_path)
    question = Question("smi", {**beginning("smi"), "indices": "1", "tokens": "1", **texts}, link, "line.py:line")
    partial = []
    answer = steps(question, partial.append)
    assert [one.preview for one in partial] == [True]
    assert [one.name for one in answer.picture.series] == ["training loss, theory", "test loss, theory"]
    assert "the training loss of gradient descent on the same samples goes from" in answer.sentence
    assert "smallest values over all steps: test_loss" in answer.notes[0]
    names = {}
    exec(answer.code, names)
    np.testing.assert_array_equal(names["result"]["test_loss"], answer.frame["test_loss"])
    assert main([*shlex.split(answer.command)[1:], "--csv", str(tmp_path / "numbers.csv")]) == 0
    capsys.readouterr()
    written = np.genfromtxt(tmp_path / "numbers.csv", delimiter=",", names=True, usecols=range(4))
    np.testing.assert_allclose(written["error"], answer.frame["error"], rtol=1e-14)
    with pytest.raises(ParameterError, match="expected one of error for gamp"):
        steps(asked("bsr", quantity="cosine"), ignore)


def test_learners_that_do_not_fit_are_named_with_the_reason():
    refused = refusals(asked("bsr").model)
    assert "sgd" in refused and "ridge" not in refused
    softmax = refusals(asked("aim").model)
    assert "risk" not in softmax and "ridge" in softmax


def test_the_sentence_says_what_is_seen_and_calls_errors_below_their_estimate_zero():
    answer = best_error(asked("bsr", alpha="0:1.5:4", at="1.5"), ignore)
    assert 0 < answer.frame["error"].iloc[-1] < 1e-12, "the table has the number as it is"
    start = "With 1.5 samples per entry the best possible error is 0; perfect recovery begins at 0.75"
    assert answer.sentence.startswith(start)
    assert [name for _, name in answer.picture.marks] == ["perfect recovery", "nuclear norm"]


@pytest.mark.thorough
def test_a_preview_comes_before_sampled_numbers_and_covers_them(monkeypatch, tmp_path):
    monkeypatch.setenv("GLASSFORMER_CACHE", str(tmp_path))
    question = asked("attention", depth="1", points="128", alpha="0.4,0.8,0.6")
    seen = []
    answer = best_error(question, seen.append)
    previews = [one for one in seen if one.preview]
    # The point without data comes first, and stays.
    assert [len(one.frame) for one in previews] == [2, 3, 4]
    table = limits(question.model, question.alpha, throw=False)
    np.testing.assert_array_equal(answer.frame["error"], table["error"])
    order = np.argsort(question.alpha)
    preview = previews[-1].frame.iloc[1:]
    distance = np.abs(preview["error"] - table["algorithmic_error"][order])
    assert np.all(distance <= preview["error_estimate"] + table["error_estimate"][order])
    again = []
    best_error(question, again.append)
    assert not any(one.preview for one in again), "the numbers are in the cache"


def test_a_curve_that_takes_long_is_drawn_at_some_ratios_first(monkeypatch):
    from glassformer.explorer import limits_view

    seen = []
    monkeypatch.setitem(limits_view._seconds, "bsr", 1.0)
    whole = best_error(asked("bsr", alpha="0:1:23", rho="0.37", at="0.5"), seen.append)
    assert [one.preview for one in seen] == [True, False]
    first, last = (one.frame.set_index("alpha")["error"] for one in (seen[0], whole))
    assert len(first) == 8 and len(last) == 23
    np.testing.assert_allclose(first, last[first.index], rtol=1e-6)
    assert whole.sentence.startswith(seen[0].sentence.removesuffix("."))


def test_a_table_comes_back_from_disk_digit_by_digit(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(cache, "_SLOW", 0.0)
    table = cache.cached_table(lambda: limits(asked("bsr").model, [0.0, 0.3, 0.8]), "digit by digit")
    steps = cache.cached_table(lambda: trajectory(asked("bsr").model, [0.3], steps=2), "steps")
    cache._in_memory.cache_clear()
    assert type(cache.cached_table(lambda: pytest.fail("computed again"), "steps")) is type(steps) is Steps
    again = cache.cached_table(lambda: pytest.fail("computed again"), "digit by digit")
    assert (again.model, list(again.status), again.parameters) == (table.model, list(table.status), table.parameters)
    for name, column in table.columns.items():
        np.testing.assert_array_equal(again[name], column)


CORRELATED = {"rho": "0.5", "noise": "0.1", "token_correlation": "0.5", "alpha": "0.5,1.0"}
WITHOUT_OPTIMUM = {"icl": {"alpha": "0.5,2.0", "d": "10"}, "bsr": {**CORRELATED, "d": "10"}}


@pytest.mark.parametrize("name", WITHOUT_OPTIMUM)
def test_models_without_state_evolution_begin_with_ridge(name):
    """Every view but the free entropy, and its command and code."""
    question = asked(name, **WITHOUT_OPTIMUM[name], learner="ridge", learners="ridge")
    for view in (best_error, learner_errors, runs, samples, diagram):
        answer = view(question, ignore)
        assert answer.picture.series, view
        assert "glassformer" in answer.command
    code = best_error(question, ignore).code
    assert "limits(model, [0.5, " in code and "'ridge'" in code
    if name == "icl":
        descent = question.changed(learner="sgd", **{"sgd.start": "small:0.001"})
        assert [one.name for one in steps(descent, ignore).picture.series][:2] == [
            "test error, theory",
            "new task error, theory",
        ]
