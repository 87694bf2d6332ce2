"""What is asked, its address, and the words that give the same numbers elsewhere."""

import shlex

import numpy as np
import pytest

from glassformer.cli import main
from glassformer.core import cache
from glassformer.core.errors import ParameterError
from glassformer.explorer.answer import Request
from glassformer.explorer.question import (
    VIEW,
    address,
    beginning,
    built,
    from_address,
    given,
    offered,
    positive,
)
from glassformer.explorer.work import Work
from glassformer.models.registry import MODELS


@pytest.mark.parametrize("name", [name for name in MODELS if name != "smi"])
def test_what_a_look_begins_with_is_a_model(name):
    texts = beginning(name)
    assert built(name, texts).name == name
    assert not {option.field for option in offered(name)} & {*VIEW, "alpha", "tab", "family"}, "two things of one name"


def test_no_control_opens_a_file():
    for name in MODELS:
        assert not {"link", "spectrum"} & {option.field for option in offered(name)}
    with pytest.raises(ParameterError, match="prior"):
        built("bsr", {**beginning("bsr"), "rho": "", "width": "1", "prior": "/etc/passwd"})


def test_an_address_holds_all_that_was_asked():
    start = beginning("aim")
    texts = {
        **start,
        "rho": "",
        "width": "2",
        "untied": "yes",
        "alpha": "0.1,0.2",
        "learners": "ridge,risk",
        "at": "&=?#",
    }
    found = from_address(address("aim", texts, start))
    assert found.pop("tab") == "aim"
    assert {**start, **found} == texts


def test_bad_values_get_the_errors_of_the_library():
    for name, text, said in [
        ("rho", "-1", "expected >= 0"),
        ("rho", "wide", "a number"),
        ("width", "1.5", "a whole number"),
        ("width", "1e400", "a whole number"),
        ("channel", "nope", "one of gaussian"),
    ]:
        with pytest.raises(ParameterError, match=said):
            built("bsr", {**beginning("bsr"), name: text})


def test_code_and_command_give_the_numbers_of_the_page(tmp_path, monkeypatch, capsys):
    from glassformer.explorer.panels.curve import Curve

    monkeypatch.chdir(tmp_path)
    texts = {**beginning("bsr"), "noise": "0.1", "rho": "inf", "alpha": "0:1:5", "learners": "ridge"}
    asked = Request("bsr", built("bsr", texts), texts)
    answer = Curve.compute(Curve.__new__(Curve), asked, lambda part: None)
    page = answer.frame.set_index("learner")
    names = {}
    exec(answer.code, names)
    np.testing.assert_array_equal(names["result"]["error"], page.loc["Bayes-optimal", "error"])
    np.testing.assert_array_equal(names["ridge"]["error"], page.loc["ridge", "error"])
    optimum, _, ridge = answer.command.splitlines()
    for line, name in ((optimum, "Bayes-optimal"), (ridge, "ridge")):
        assert main([*shlex.split(line)[1:], "--csv", f"{name}.csv"]) == 0
        described = np.genfromtxt(tmp_path / f"{name}.csv", delimiter=",", names=True, usecols=(0, 1))
        np.testing.assert_allclose(described["error"], page.loc[name, "error"], rtol=1e-14)
    capsys.readouterr()


def test_learners_that_do_not_fit_are_named_before_the_numbers_are_there():
    from glassformer.explorer.panels.curve import answered

    texts, first = {**beginning("bsr"), "alpha": "0.2,0.4"}, []
    whole = answered(Request("bsr", built("bsr", texts), texts), first.append)
    assert first[0].content.thresholds is None
    assert "sgd" in first[0].content.refused and "ridge" not in first[0].content.refused
    assert whole.content.refused == first[0].content.refused


def test_runs_one_after_the_other_are_those_of_one_command(tmp_path):
    from glassformer.explorer.panels.data import Data

    size = {"d": "12", "instances": "2", "places": "2", "algorithm": "ridge"}
    texts = {**beginning("bsr"), "noise": "0.1", "alpha": "0:1:7", **size}
    asked = Request("bsr", built("bsr", texts), texts)
    seen = []
    answer = Data.compute(Data.__new__(Data), asked, seen.append)
    assert [len(part.frame) for part in seen] == [1, 2]
    path = tmp_path / "runs.csv"
    assert main([*shlex.split(answer.command)[1:], "--csv", str(path)]) == 0
    described = np.genfromtxt(path, delimiter=",", names=True, usecols=(0, 1))
    np.testing.assert_array_equal(described["error"], answer.frame["error"])


@pytest.mark.slow
def test_a_diagram_is_a_sweep(tmp_path, monkeypatch):
    from glassformer.explorer.panels.diagram import Diagram

    monkeypatch.chdir(tmp_path)
    texts = {**beginning("bsr"), "grid": "2", "horizontal": "noise", "alpha": "0:1:3"}
    diagram = Diagram.__new__(Diagram)
    answer = diagram.compute(Request("bsr", built("bsr", texts), texts), lambda part: None)
    names = {}
    exec(answer.code, names)
    cells = answer.frame.set_index(["noise", "alpha"])["error"].to_xarray()
    np.testing.assert_allclose(names["result"]["error"].transpose("noise", "alpha"), cells, rtol=1e-6)
    (tmp_path / "sweep.toml").write_text(answer.command.split("\n\n")[1])
    assert main(["sweep", "run", "sweep.toml", "--store", "results"]) == 0


def test_a_table_comes_back_from_disk_digit_by_digit(tmp_path, monkeypatch):
    from glassformer import limits

    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(cache, "_SLOW", 0.0)
    table = cache.cached_table(lambda: limits(built("bsr", beginning("bsr")), [0.0, 0.3, 0.8]), "digit by digit")
    cache._in_memory.cache_clear()
    again = cache.cached_table(lambda: pytest.fail("computed again"), "digit by digit")
    assert (again.model, list(again.status), again.parameters) == (table.model, list(table.status), table.parameters)
    for name, column in table.columns.items():
        np.testing.assert_array_equal(again[name], column)


def test_what_was_asked_before_is_dropped():
    from threading import Event

    from glassformer.core.progress import note

    done, begun, seen = Event(), Event(), []
    work = Work(lambda function: function())

    def slow(so_far):
        begun.set()
        while True:
            note("still at it")

    silent = (seen.append, lambda text: None, lambda: None)
    work.start(slow, seen.append, *silent)
    assert begun.wait(10)
    work.start(lambda so_far: "the last", seen.append, seen.append, lambda text: None, done.set)
    assert done.wait(10)
    work.end()
    work.start(lambda so_far: "after the end", seen.append, seen.append, lambda text: None, done.set)
    assert seen == ["the last"]


def test_ratios_of_learners_begin_above_zero():
    assert given("bsr", beginning("bsr")) == {"rho": 0.5}
    assert positive({"alpha": "0"}) == ""
    with pytest.raises(ParameterError, match="at most"):
        positive({"alpha": "0:1:100000"})
