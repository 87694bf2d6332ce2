"""The same checks for every command in the table. A new one needs one line in ``ASK``."""

import json
import shlex

import pytest

from glassformer.interface.cli import main
from glassformer.interface.cli.commands import COMMANDS
from glassformer.models.registry import MODELS

# A question to each that is answered at once, and what its answer contains.
ASK = {
    "limits": ("bsr --alpha 0.3 --rho inf", "0.7"),
    "thresholds": ("bsr --rho 0.5", "0.75"),
    "plan": ("bsr --rho inf --target-error 0.4", "0.6"),
    "landscape": ("bsr --alpha 0.5 --rho inf", "no hard phase"),
    "hysteresis": ("bsr --alpha 0.3,0.6 --rho inf", "0.4"),
    "trajectory": ("bsr --alpha 0.5 --rho 0.5 --noise 0.1 --steps 3", "0.5071"),
    "simulate": ("bsr --alpha 0.8 --rho 1 --d 10 --instances 1 --algorithm ridge", "converged"),
    "phase-diagram": ("attention --depth 1 --data-points 32 --skip 1", "weak_recovery"),
    "figure": ("--list", "bsr-1"),
    "sweep": ("run sweep.toml --store results", "1 point"),
    "explore": ("--check", "answered with"),
    "cite": ("bsr", "2410.18858"),
}


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


def test_it_answers(command, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.toml").write_text(
        '[sweep]\nmodel = "bsr"\ncompute = "limits"\n[grid]\nalpha = [0.5]\nrho = [1]\n'
    )
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


def test_what_it_says_of_a_model_is_json_as_well(command, capsys):
    if not COMMANDS[command].takes_model:
        pytest.skip("no model follows")
    assert call(f"{command} {ASK[command][0]} --json") == 0
    assert json.loads(capsys.readouterr().out)
