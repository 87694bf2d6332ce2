"""Files of sweeps that are not what they should be, or that somebody else has written."""

from __future__ import annotations

import json

import pytest

from glassformer import IncompatibleError, Sweep
from glassformer.cli import main
from glassformer.core.hashing import identity
from glassformer.errors import ParameterError
from glassformer.models.registry import MODELS
from glassformer.sweeps.types import of_model

GENERAL = {"model": "'bsr'", "verb": "'limits'"}
SIMULATED = {"model": "'bsr'", "verb": "'simulate'"}
TABLES = {"sweep": GENERAL, "parameters": {"rho": "0.5"}, "grid": {"alpha": "[0.2, 0.4]"}}
# What is wrong, as tables of the file that replace those of a good one, and the key that the error must name.
MALFORMED = [
    ({"sweep": "3"}, "sweep"),
    ({"sweep": "[1, 2]"}, "sweep"),
    ({"parameters": "3"}, "parameters"),
    ({"grid": "'alpha'"}, "grid"),
    ({"runs": "true"}, "runs"),
    ({"learner": "0.5"}, "learner"),
    ({"learner": "'ridge'"}, "learner"),
    ({"learner": "[1]"}, "learner[0]"),
    ({"learner": {"strength": "1.0"}}, "name"),
    ({"accuracy": "0.5"}, "accuracy"),
    ({"sweeps": {"model": "'bsr'"}}, "sweeps"),
    ({"sweep": {"model": "'bsr'"}}, "verb"),
    ({"sweep": {"verb": "'limits'"}}, "model"),
    ({"sweep": {**GENERAL, "name": "1"}}, "name"),
    ({"sweep": {**GENERAL, "model": "['bsr']"}}, "model"),
    ({"sweep": {**GENERAL, "model": "'ising'"}}, "model"),
    ({"sweep": {**GENERAL, "verb": "['limits']"}}, "verb"),
    ({"sweep": {**GENERAL, "verb": "1979-05-27T07:32:00Z"}}, "verb"),
    ({"grid": {}}, "grid"),
    ({"grid": {"alpha": "['a']"}}, "alpha"),
    ({"grid": {"alpha": "[0.1, true]"}}, "alpha"),
    ({"grid": {"alpha": "[0.1, nan]"}}, "alpha"),
    ({"grid": {"alpha": "[0.1, inf]"}}, "alpha"),
    ({"grid": {"alpha": "[0.1, -0.1]"}}, "alpha"),
    ({"grid": {"alpha": "1979-05-27"}}, "alpha"),
    ({"grid": {"alpha": "0.5"}}, "alpha"),
    ({"grid": {"alpha": "[]"}}, "alpha"),
    ({"grid": {"alpha": "{start = 0}"}}, "alpha"),
    ({"grid": {"alpha": "'0:1'"}}, "alpha"),
    ({"grid": {"alpha": "'0:1:-3'"}}, "alpha"),
    ({"grid": {"alpha": "'0:inf:3'"}}, "alpha"),
    ({"grid": {"alpha": "'0:1:1000000000000'"}}, "alpha"),
    ({"grid": {"alpha": "[0.1]", "rho": "[0.5, 'a']"}, "parameters": {}}, "rho"),
    ({"grid": {"alpha": "[0.1]", "rho": "[0.5, [1]]"}, "parameters": {}}, "rho"),
    ({"grid": {"alpha": "[0.1]", "rho": "true"}, "parameters": {}}, "rho"),
    ({"grid": {"alpha": "[0.1]", "channel": "[1, 2]"}}, "channel"),
    ({"grid": {"alpha": "[0.1]", "colour": "[1, 2]"}}, "colour"),
    ({"grid": {"alpha": "[0.1]", "d": "[10, 20]"}}, "d"),
    ({"grid": {"alpha": "[0.1]", "rho": "[0.5]"}}, "rho"),
    ({"parameters": {"rho": "'a'"}}, "rho"),
    ({"parameters": {"rho": "[0.5]"}}, "rho"),
    ({"parameters": {"rho": "{a = 1}"}}, "rho"),
    ({"parameters": {"rho": "0.5", "noise": "true"}}, "noise"),
    ({"parameters": {"rho": "0.5", "channel": "['sign']"}}, "channel"),
    ({"parameters": {"rho": "0.5", "channel": "1979-05-27"}}, "channel"),
    ({"parameters": {"width": "2.5"}}, "width"),
    ({"parameters": {"rho": "-1"}}, "rho"),
    ({"runs": {"d": "10"}}, "d"),
    ({"learner": {"name": "'gamp'", "damping": "0.5"}}, "damping"),
    ({"sweep": SIMULATED, "runs": {"instances": "2.5"}}, "instances"),
    ({"sweep": SIMULATED, "runs": {"instances": "0"}}, "instances"),
    ({"sweep": SIMULATED, "runs": {"instances": "1000000000000"}}, "instances"),
    ({"sweep": SIMULATED, "runs": {"seed": "'a'"}}, "seed"),
    ({"sweep": SIMULATED, "runs": {"seed": "-1"}}, "seed"),
    ({"sweep": SIMULATED, "runs": {"d": "'a'"}}, "d"),
    ({"sweep": SIMULATED, "runs": {"storage": "'float16'"}}, "storage"),
    ({"sweep": SIMULATED, "learner": {"name": "['gamp']"}}, "learner"),
    ({"sweep": SIMULATED, "runs": {"speed": "3"}}, "speed"),
    ({"sweep": SIMULATED, "grid": {"alpha": "[0.1]", "d": "[10, 'a']"}}, "d"),
    ({"sweep": SIMULATED, "learner": {"name": "'gamp'", "damping": "'a'"}}, "damping"),
    ({"sweep": SIMULATED, "learner": {"name": "'gamp'", "damping": "2"}}, "damping"),
    ({"sweep": SIMULATED, "accuracy": {"max_iterations": "2.5"}}, "max_iterations"),
    ({"sweep": SIMULATED, "accuracy": {"speed": "1"}}, "speed"),
    ({"sweep": {**GENERAL, "verb": "'plan'"}, "grid": {}}, "target"),
    ({"sweep": {**GENERAL, "verb": "'plan'", "target": "'a'"}, "grid": {}}, "target"),
    ({"sweep": {**GENERAL, "verb": "'plan'", "target": "0.5"}}, "grid"),
    ({"sweep": {**GENERAL, "steps": "5"}}, "steps"),
    ({"sweep": {**GENERAL, "verb": "'trajectory'", "steps": "2.5"}}, "steps"),
    ({"sweep": {**GENERAL, "verb": "'compare'"}}, "learner"),
    ({"sweep": {**GENERAL, "verb": "'compare'"}, "learner": {"name": "'gamp'"}}, "learner"),
    ({"sweep": SIMULATED, "learner": {"name": "'gamp'", "speed": "1"}}, "speed"),
    ({"sweep": {**GENERAL, "model": "'attention'"}, "parameters": {"depth": "'a'"}}, "depth"),
    ({"sweep": {**GENERAL, "model": "'attention'"}, "parameters": {"skip": "['a']"}}, "skip"),
    ({"sweep": {**GENERAL, "model": "'attention'"}, "parameters": {"untied": "'no'"}}, "untied"),
    ({"sweep": {**GENERAL, "model": "'attention'"}, "parameters": {"head_weights": "[[1, 'a']]"}}, "head_weights"),
    ({"sweep": {**GENERAL, "model": "'aim'"}, "parameters": {"rho": "0.5", "tokens": "'2'"}}, "tokens"),
    ({"sweep": {**GENERAL, "model": "'aim'"}, "parameters": {"rho": "0.5", "layers": "'2'"}}, "layers"),
    ({"sweep": {**GENERAL, "model": "'smi'"}, "parameters": {"link": "3"}}, "link"),
    ({"sweep": {**GENERAL, "model": "'smi'"}, "parameters": {"link": "'no.py:f'"}}, "link"),
    ({"sweep": {**GENERAL, "model": "'smi'"}, "parameters": {}}, "link"),
]


def written(tables):
    """A good file but for these tables."""
    tables = {**TABLES, **tables}
    plain = [f"{name} = {content}" for name, content in tables.items() if isinstance(content, str)]
    whole = [
        f"[{name}]\n" + "".join(f"{key} = {value}\n" for key, value in content.items())
        for name, content in tables.items()
        if not isinstance(content, str)
    ]
    return "\n".join([*plain, *whole])


@pytest.mark.slow
@pytest.mark.parametrize(("tables", "key"), MALFORMED)
def test_a_malformed_file_is_refused_in_one_line_before_anything_is_computed(tables, key, tmp_path, capsys):
    file, store = tmp_path / "sweep.toml", tmp_path / "store"
    file.write_text(written(tables))
    assert main(["sweep", "run", str(file), "--store", str(store)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{file}: {key}" in line
    assert "expected" in line
    assert not store.exists()


def test_the_file_that_these_differ_from_is_good(tmp_path):
    (tmp_path / "sweep.toml").write_text(written({}))
    assert Sweep.from_toml(tmp_path / "sweep.toml").shape == (2,)


@pytest.mark.parametrize(
    "text", [b"\xff\xfe", b"[sweep\n", b"model = 1\nmodel = 2\n", b"a = " + b"9" * 5000, b"a = " + b"[" * 5000]
)
def test_a_file_that_is_no_toml_is_named(text, tmp_path):
    (tmp_path / "sweep.toml").write_bytes(text)
    with pytest.raises(ParameterError, match=r"sweep\.toml.*TOML"):
        Sweep.from_toml(tmp_path / "sweep.toml")


def test_a_file_without_end_is_refused():
    with pytest.raises(ParameterError, match=r"zero.*TOML \(it has more than 16777216 bytes\)"):
        Sweep.from_toml("/dev/zero")


def test_a_mark_of_the_byte_order_is_no_part_of_the_file(tmp_path):
    (tmp_path / "sweep.toml").write_bytes(b"\xef\xbb\xbf" + written({}).encode())
    assert Sweep.from_toml(tmp_path / "sweep.toml").shape == (2,)


DESCRIBED = {"model": "bsr", "verb": "limits", "parameters": {}, "axes": {"alpha": [0.1]}, "units": {}}
MORE = {"learner": {"name": "gamp"}, "runs": {}, "accuracy": {}, "options": {}}


@pytest.mark.parametrize(
    "text",
    [
        "[1, 2]",
        "3",
        "[" * 100_000,
        "{}",
        '{"format": 3}',
        '{"format": 3, "sweep": [], "keys": []}',
        '{"format": 3, "sweep": {}, "keys": []}',
        json.dumps({"format": 3, "sweep": DESCRIBED, "keys": ["a"]}),
        json.dumps({"format": 3, "sweep": {**DESCRIBED, **MORE}, "keys": []}),
        json.dumps({"format": 3, "sweep": {**DESCRIBED, **MORE}, "keys": [1]}),
        json.dumps({"format": 3, "sweep": {**DESCRIBED, "axes": {"alpha": 1}, **MORE}}),
    ],
)
def test_a_store_whose_sweep_is_damaged_is_one_line(text, tmp_path, capsys):
    (tmp_path / "points").mkdir()
    (tmp_path / "sweep.json").write_text(text)
    for action in ("status", "collect", "plot"):
        assert main(["sweep", action, str(tmp_path)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "expected a complete sweep.json; run the sweep again (" in line


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        ({"model": ["bsr"]}, "model"),
        ({"grid": None}, "grid"),
        ({"grid": {"alpha": None}}, "alpha"),
        ({"grid": {"alpha": [0.1, "a"]}}, r"alpha\[1\]"),
        ({"parameters": "rho"}, "parameters"),
        ({"parameters": {"rho": object()}}, "rho"),
        ({"verb": "simulate", "runs": {"seed": "a"}}, "seed"),
        ({"verb": "simulate", "learner": {"name": "gamp", "damping": "a"}}, "damping"),
    ],
)
def test_a_sweep_built_in_python_is_checked_by_the_same_rules(arguments, key):
    with pytest.raises(ParameterError, match=rf"^{key} = "):
        Sweep(**{"model": "bsr", "grid": {"alpha": [0.1]}, "parameters": {"rho": 0.5}, **arguments})


@pytest.mark.parametrize("model", MODELS)
def test_every_parameter_of_every_model_has_a_type(model):
    assert of_model(model)


def test_parameters_that_exclude_each_other_are_told_with_the_file(tmp_path):
    (tmp_path / "sweep.toml").write_text(written({"parameters": {"rho": "0.5", "width": "2"}}))
    with pytest.raises(IncompatibleError, match=r"sweep\.toml: .*exclude each other"):
        Sweep.from_toml(tmp_path / "sweep.toml")


# --- what executes code -----------------------------------------------------------------------------------------------

EVIL = "from pathlib import Path\nPath({marker!r}).write_text('')\ndef f(z):\n    return z[0, 0]\n"
NAMED_BY = [
    {"sweep": {**GENERAL, "model": "'smi'"}, "parameters": {"link": "'{file}:f'"}},
    {"sweep": {**GENERAL, "model": "'smi'"}, "parameters": {}, "grid": {"alpha": "[0.1]", "link": "['{file}:f']"}},
    {"parameters": {"rho": "0.5", "channel": "'{file}:f'"}},
    {"parameters": {}, "grid": {"alpha": "[0.1]", "rho": "'{file}:f'"}},
    {"sweep": SIMULATED, "learner": {"name": "'{file}:f'"}},
    {"sweep": {**GENERAL, "verb": "'compare'"}, "learner": "[{name = 'gamp'}, {name = 'risk', loss = '{file}:f'}]"},
    {"sweep": SIMULATED, "learner": "{name = 'risk', loss = [{a = [['{file}:f']]}]}"},
]


@pytest.fixture
def evil(tmp_path):
    """A folder with a file whose code tells that it was run, and the place where it does."""
    (tmp_path / "evil.py").write_text(EVIL.format(marker=str(tmp_path / "marker")))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tables", "name"),
    [
        *((tables, "evil.py") for tables in NAMED_BY),
        *((NAMED_BY[0], name) for name in ("./evil.py", "sub/../evil.py", "alias.py", "{folder}/evil.py")),
    ],
)
def test_a_file_of_somebody_else_runs_no_code(tables, name, evil, capsys):
    (evil / "sub").mkdir()
    (evil / "alias.py").symlink_to(evil / "evil.py")
    text = written(tables).replace("{file}", name.replace("{folder}", str(evil)))
    (evil / "sweep.toml").write_text(text)
    command = ["sweep", "run", str(evil / "sweep.toml"), "--store", str(evil / "store")]
    other = evil / "other.py"
    other.write_text("def f(z):\n    return z[0, 0]\n")
    for options in ([], ["--link", str(other)]):
        assert main([*command, *options]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "--link" in line
    assert not (evil / "marker").exists()


def test_a_file_named_on_the_command_line_runs(evil):
    (evil / "sweep.toml").write_text(written(NAMED_BY[0]).replace("{file}", "evil.py"))
    assert Sweep.from_toml(evil / "sweep.toml", links=[evil / "evil.py"]).model == "smi"
    assert (evil / "marker").exists()


def test_training_of_ones_own_named_on_the_command_line_runs(evil):
    (evil / "evil.py").write_text("def f(X, y, rng):\n    return lambda X: X[:, 0, 0]\n")
    (evil / "sweep.toml").write_text(written(NAMED_BY[4]).replace("{file}", "evil.py"))
    sweep = Sweep.from_toml(evil / "sweep.toml", links=[evil / "evil.py"])
    assert sweep.to_dict()["learner"] == {"name": "evil.py:f"}


def test_a_loss_is_code_as_well(evil, capsys):
    learner = {"learner": {"name": "'risk'", "loss": "'evil.py:f'"}}
    (evil / "sweep.toml").write_text(written(learner))
    assert main(["sweep", "run", str(evil / "sweep.toml"), "--store", str(evil / "store")]) == 2
    assert "--link" in capsys.readouterr().err
    assert not (evil / "marker").exists()


def test_a_file_that_the_sweep_does_not_name_is_refused(evil, capsys):
    (evil / "sweep.toml").write_text(written({}))
    command = ["sweep", "run", str(evil / "sweep.toml"), "--store", str(evil / "store")]
    assert main([*command, "--link", str(evil / "evil.py")]) == 2
    assert "expected a file that the sweep names" in capsys.readouterr().err


def test_a_store_of_somebody_else_runs_no_code(evil, capsys):
    store = evil / "store"
    (store / "points").mkdir(parents=True)
    link = f"{evil / 'evil.py'}:f"
    sweep = {"model": "smi", "verb": "limits", "parameters": {"link": link}, "axes": {"alpha": [0.1]}}
    entries = {"sweep": {**sweep, "units": {}, **MORE}, "keys": [identity(link)]}
    document = {"format": 3, **entries}
    (store / "sweep.json").write_text(str(document).replace("'", '"'))
    for action in ("status", "collect", "plot"):
        assert main(["sweep", action, str(store)]) in (2, 3)
    assert "Traceback" not in capsys.readouterr().err
    assert not (evil / "marker").exists()


def test_arrays_that_need_unpickling_are_not_read(tmp_path):
    import numpy as np

    from glassformer.core.checkpoints import Checkpoint

    with (tmp_path / "state.npz").open("wb") as file:
        np.savez(file, leaf_0=np.array([object()], dtype=object))
    with pytest.warns(RuntimeWarning, match="cannot be read"):
        assert Checkpoint(tmp_path / "state.npz").load() is None
