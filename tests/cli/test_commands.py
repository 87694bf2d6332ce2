"""The same checks for every command in the table. A new one needs one line in ``ASK``."""

import json
import os
import shlex
import shutil
import subprocess

import pytest
from pydantic import ValidationError

from glassformer.cli import main
from glassformer.cli.commands import COMMANDS
from glassformer.cli.doctor import CHECKS
from glassformer.cli.output import KINDS, schema_name
from glassformer.cli.schema import document, json_schema
from glassformer.models.registry import MODELS

# A question to each that is answered at once, and what its answer contains.
ASK = {
    "limits": ("bsr --alpha 0.3 --rho inf", "0.7"),
    "thresholds": ("bsr --rho 0.5", "0.75"),
    "plan": ("bsr --rho inf --target 0.4", "0.6"),
    "landscape": ("bsr --alpha 0.5 --rho inf", "no hard phase"),
    "spectrum": ("bsr --alpha 0.5 --rho 0.3 --noise 0.1 --learner ridge", "0 % of the values are zero"),
    "hysteresis": ("bsr --alpha 0.3,0.6 --rho inf", "0.4"),
    "trajectory": ("bsr --alpha 0.5 --rho 0.5 --noise 0.1 --steps 3", "0.5071"),
    "simulate": ("bsr --alpha 0.8 --rho 1 --d 10 --instances 1 --learner ridge", "converged"),
    "compare": ("bsr --alpha 0.8 --rho 1 --noise 0.1 --learner gamp --learner 'ridge strength=0.1'", "ridge, strength"),
    "phase-diagram": ("bsr --along noise=1 --rho 0.3", "weak_recovery"),
    "figure": ("--list", "bsr-1"),
    "sweep": ("run sweep.toml --store results", "1 point"),
    "doctor": ("--json", '"ok": true'),
    "completion": ("bash", "phase-diagram"),
    "schema": ("table", "glassformer/table/1"),
    "cite": ("bsr", "2410.18858"),
    "explore": ("bsr --check", "127.0.0.1"),
}
SWEEP = '[sweep]\nmodel = "bsr"\nverb = "limits"\n[grid]\nalpha = [0.5]\nrho = [1]\n'


@pytest.fixture(params=COMMANDS)
def command(request):
    return request.param


def call(line):
    try:
        return main(shlex.split(line))
    except SystemExit as leaving:
        return leaving.code


def test_every_command_is_checked():
    assert set(ASK) == set(COMMANDS)


@pytest.mark.slow
def test_it_answers(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    # The check of two indices compiles for seconds and is that of tests/core/test_jax_settings.py.
    checks = {name: check for name, check in CHECKS.items() if name != "two indices"}
    monkeypatch.setattr("glassformer.cli.doctor.CHECKS", checks)
    question, answer = ASK[command]
    assert call(f"{command} {question}") == 0
    assert answer in capsys.readouterr().out


def test_it_explains_itself(command, capsys):
    assert call(f"{command} --help") == 0
    assert COMMANDS[command].text in " ".join(capsys.readouterr().out.split())
    if COMMANDS[command].takes_model:
        model = next(word for word in shlex.split(ASK[command][0]) if word in MODELS)
        assert call(f"{command} {model} --help") == 0
        assert "--json" in capsys.readouterr().out


def test_a_mistake_is_one_line(command, capsys):
    assert call(f"{command} {ASK[command][0]} --nonsense") == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.slow
def test_what_it_says_of_a_model_is_json_as_well(command, capsys):
    if not COMMANDS[command].takes_model:
        pytest.skip("no model follows")
    assert call(f"{command} {ASK[command][0]} --json") == 0
    assert validated(capsys.readouterr().out)


def validated(printed):
    """The document, which must be what the schema that it names allows."""
    found = json.loads(printed)
    name, kind, version = found["schema"].split("/")
    assert (name, int(version)) == ("glassformer", KINDS[kind])
    return document(kind).model_validate(found)


@pytest.mark.slow
def test_other_documents_name_their_schema(capsys, tmp_path, monkeypatch):
    question, _ = ASK["sweep"]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    assert call(f"sweep {question} --json") == 0
    assert validated(capsys.readouterr().out).complete
    checks = {"sound": lambda: (True, "as it should be"), "broken": lambda: (1 / 0, "never")}
    monkeypatch.setattr("glassformer.cli.doctor.CHECKS", checks)
    assert call("doctor --json") == 1
    found = validated(capsys.readouterr().out)
    assert [check.ok for check in found.checks] == [True, False]
    assert "ZeroDivisionError" in found.checks[1].found
    assert call("doctor") == 1
    assert "FAILED" in capsys.readouterr().out


def test_a_document_of_another_shape_is_refused():
    with pytest.raises(ValidationError, match="points"):
        document("table").model_validate({"schema": "glassformer/table/1", "model": "bsr", "parameters": {}})
    assert {kind: json_schema(kind)["$id"] for kind in KINDS} == {kind: schema_name(kind) for kind in KINDS}


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_words_are_completed(capsys, tmp_path):
    assert call("completion bash") == 0
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)
    for line, expected in (
        ("th", {"thresholds"}),
        ("limits a", {"aim", "attention"}),
        ("limits bsr --no", {"--noise", "--noise-law"}),
        ("limits bsr --channel s", {"sign"}),
        ("simulate bsr --learner gam", {"gamp"}),
        ("limits bsr --s", {"--spectrum"}),
        ("limits bsr --learner ridge --s", {"--spectrum", "--strength"}),
        ("limits bsr --learner=ridge --s", {"--spectrum", "--strength"}),
        ("limits bsr --learner = ridge --s", {"--spectrum", "--strength"}),
        ("simulate smi --learner sgd : published --mom", {"--momentum"}),
        ("limits smi --learner s", {"sgd"}),
        ("limits bsr --learner s", set()),
    ):
        words = ["glassformer", *line.split(" ")]
        ask = f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; _glassformer; "
        answer = subprocess.run(
            ["bash", "-c", f'{ask} printf "%s\\n" "${{COMPREPLY[@]}}"'], capture_output=True, text=True, check=True
        )
        assert set(answer.stdout.split()) == expected, line


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_words_are_completed_in_fish(capsys, tmp_path):
    assert call("completion fish") == 0
    script = tmp_path / "completion.fish"
    script.write_text(capsys.readouterr().out)
    # Fish completes arguments of commands that exist.
    (tmp_path / "glassformer").write_text("#!/bin/sh\n")
    (tmp_path / "glassformer").chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    for line, expected in (
        ("limits bsr --no", {"--noise", "--noise-law"}),
        ("limits bsr --s", {"--spectrum"}),
        ("limits bsr --learner ridge --s", {"--spectrum", "--strength"}),
        ("limits bsr --learner=ridge --s", {"--spectrum", "--strength"}),
        ("simulate smi --learner sgd:published --mom", {"--momentum"}),
    ):
        ask = f"source {script}; complete -C 'glassformer {line}'"
        answer = subprocess.run(["fish", "-c", ask], capture_output=True, text=True, check=True, env=environment)
        assert {words.split("\t")[0] for words in answer.stdout.splitlines()} == expected, line
