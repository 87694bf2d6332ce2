"""Every command shows the options of its model and its learner, takes no others, and explains the others."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import glassformer
from glassformer import IncompatibleError, OnlineSGD
from glassformer.cli import main
from glassformer.cli.accuracy import accuracy_options
from glassformer.cli.commands import COMMANDS
from glassformer.cli.learners import _CANNOT_RUN, add_settings, given_learner, learner_of, listed_learners
from glassformer.cli.parse import parse
from glassformer.cli.parser import Parser, last_parser, parser_for
from glassformer.cli.unknown_option import explain
from glassformer.core.renamed import RENAMED
from glassformer.learners.registry import compatible_learner, names, require_compatible, settings_of
from glassformer.models.registry import MODELS, build, options_of

OF_MODELS = [name for name, command in COMMANDS.items() if command.takes_model]
OF_LEARNERS = [name for name, command in COMMANDS.items() if command.settings]
FLAGS = re.compile(r"^  (?:-\w, )?(--[\w-]+)", re.MULTILINE)


@cache
def models_words(model):
    return {option.word for option in options_of(model)}


@cache
def learners_words(learner, use):
    return {option.word for option in settings_of(learner, use)}


def said(line, capsys):
    """Exit code, standard output and standard error of a command line."""
    try:
        code = main(line.split())
    except SystemExit as leaving:
        code = leaving.code
    return (code, *capsys.readouterr())


def answer(line):
    """The sentence with which a command line is refused before anything is computed."""
    words = line.split()
    with pytest.raises(IncompatibleError) as caught:
        parse(parser_for(words), words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cases(command):
    """Models and learners of a command, and the words that choose the learner."""
    for model in MODELS:
        if COMMANDS[command].settings:
            yield model, names()[0], ""
            yield from ((model, learner, f"--learner {learner}") for learner in names())
        else:
            # Learners of compare are required, one or several.
            yield model, None, "--learner gamp" if command == "compare" else ""


@pytest.mark.parametrize("command", OF_MODELS)
def test_help_shows_the_options_that_are_accepted(command, capsys):
    common = set()
    for model, learner, chosen in cases(command):
        line = f"{command} {model} {chosen}"
        code, out, _ = said(f"{line} --help", capsys)
        shown = set(FLAGS.findall(out)) - {"--learner NAME"}
        parser = last_parser(parser_for(line.split()), line.split())
        accepted = {word for word in parser.options if word.startswith("--")}
        own = models_words(model) | (learners_words(learner, COMMANDS[command].settings) if learner else set())
        accuracy = COMMANDS[command].accuracy
        own |= {one.word for one in accuracy_options(model, accuracy, learner or "")} if accuracy else set()
        assert (code, shown) == (0, accepted), line
        assert own <= shown, line
        # Words of the command that are settings of some learners as well.
        common.add(frozenset(shown - own - {"--steps", "--start"}))
        # All of them at once.
        given = [
            word if parser.options[word].nargs == 0 else f"{word}={_value(parser, word)}"
            for word in sorted(accepted - {"--help", "--learner"})
        ]
        assert parse(parser_for(line.split()), [*line.split(), *given]).model == model, line
    # Beside the options of the model and of the learner there are those of the command alone.
    assert len(common) == 1


def _value(parser, word):
    action = parser.options[word]
    return action.choices[0] if action.choices else "1"


@pytest.mark.parametrize("command", OF_LEARNERS)
def test_plain_help_lists_learners_and_the_settings_of_the_default_alone(command, capsys):
    for model in MODELS:
        _, out, _ = said(f"{command} {model} --help", capsys)
        listed = re.findall(r"^  ([a-z][\w-]*) {2,}\S", out.partition("\nlearners:\n")[2], flags=re.MULTILINE)
        assert listed == listed_learners(model, COMMANDS[command].settings)
        assert "--learner NAME --help shows the settings of a learner" in out
        assert (f"\n{names()[0]}: " in out) is bool(learners_words(names()[0], COMMANDS[command].settings))
    _, out, _ = said(f"{command} bsr --learner risk --help", capsys)
    assert "\nrisk: regularised risk:\n" in out
    assert "blind-gamp" not in out


def test_trajectories_with_runs_take_all_settings(capsys):
    for learner in ("gamp", "sgd"):
        for line, use in (("", "trajectory"), ("--d 20", "runs"), ("--d=20", "runs")):
            _, out, _ = said(f"trajectory smi --learner {learner} {line} --help", capsys)
            found = set(FLAGS.findall(out)) & learners_words(learner, "runs")
            assert found == learners_words(learner, use) | (found & {"--steps", "--overlap"})
    assert learners_words("gamp", "trajectory") < learners_words("gamp", "runs")


def test_a_word_of_the_command_is_no_setting():
    (steps,) = (option for option in settings_of("online-sgd") if option.field == "batch")
    parser = Parser()
    parser.add_argument(steps.word, type=int)
    add_settings(parser, "online-sgd: title", settings_of("online-sgd"))
    learner = learner_of("online-sgd", parser.parse_args([f"{steps.word}=7", "--learning-rate=0.3"]))
    assert (learner.batch, learner.learning_rate) == (OnlineSGD().batch, 0.3)


@pytest.mark.slow
def test_learners_that_are_not_listed_cannot_run():
    required = {"bsr": {"rho": 0.5}, "aim": {"rho": 0.5}, "smi": {"link": lambda z: z[0, 0], "indices": 1}}
    first = [name for name in MODELS if names()[0] not in _CANNOT_RUN[name]]
    assert all(listed_learners(name, "runs")[0] == names()[0] for name in first)
    for name in _CANNOT_RUN:
        model = build(name, required.get(name, {}))
        for learner in set(names()) - set(listed_learners(name, "runs")):
            with pytest.raises(IncompatibleError, match=f"learner {learner} "):
                require_compatible(compatible_learner(learner, model), model)


def test_the_learner_is_found_in_every_form(capsys):
    assert given_learner(["limits", "bsr", "--learner", "risk", "--learner=ridge"]) == "ridge"
    assert given_learner(["limits", "bsr", "--learner", "--json"]) is None
    for form in ("--learner risk", "--learner=risk", "--learner risk:part"):
        assert "--penalty" in said(f"limits bsr {form} --help", capsys)[1]
    assert said("limits bsr --alpha 1 --learner", capsys)[2].endswith("argument --learner: expected one argument\n")
    assert "learner = 'newton' is not allowed: expected one of gamp" in said("limits bsr --learner newton", capsys)[2]


@pytest.mark.parametrize("command", OF_MODELS)
def test_abbreviations_are_refused(command, capsys):
    line = [command, "bsr", *(["--learner", "risk"] if COMMANDS[command].settings else [])]
    parser = last_parser(parser_for(line), line)
    assert not any(one.allow_abbrev for one in (parser, parser_for(line), last_parser(parser_for(line), [command])))
    for word in ("--rho", "--progress", *(["--penalty", "--learner"] if command == "limits" else [])):
        assert f"{command} bsr has no option {word[:-1]}: did you mean {word}? " in answer(
            " ".join([*line, f"{word[:-1]}=1" if word == "--progress" else f"{word[:-1]} 1"])
        )
    code, out, err = said(f"{command} bsr --rh 0.2", capsys)
    assert (code, out) == (2, "")
    assert (
        err == f"glassformer: error: {command} bsr has no option --rh: did you mean --rho? --help lists all options\n"
    )


# Places of old words in the table that are not commands, and a command line of theirs.
LINES = {**{name: f"simulate smi --learner {name}" for name in names()}, **{name: f"limits {name}" for name in MODELS}}


def test_every_old_option_is_answered_with_the_new_one(capsys):
    old = [key for key in RENAMED if "--" in key]
    assert old
    for key in old:
        place, word = key.rpartition(" ")[::2]
        first = place.partition(" ")[0]
        if first in COMMANDS:
            line = f"{place} bsr" if COMMANDS[first].takes_model and place == first else place
        else:
            line = LINES.get(place, "simulate bsr")
        # Its value may look like a command or a model.
        for given in (f"{line} {word} 20", f"{line} {word}=bsr", f"{line} {word} bsr --rho 1"):
            assert said(given, capsys) == (2, "", f"glassformer: error: {word} is now {RENAMED[key]}\n"), given


def test_old_names_of_fields_are_answered_as_options(monkeypatch):
    monkeypatch.setitem(RENAMED, "RegularisedRisk old_field=", "new_field=")
    monkeypatch.setitem(RENAMED, "BilinearSequenceRegression older=", "a model of rows")
    monkeypatch.setitem(RENAMED, "thesholds", "thresholds")
    assert answer("limits bsr --learner risk --old-field 1") == "--old-field is now --new-field"
    assert answer("limits bsr --older 1") == "--older is now a model of rows"
    assert "is now" not in answer("limits bsr --learner ridge --old-field 1")
    assert answer("thesholds bsr") == "thesholds is now thresholds"


@pytest.mark.parametrize("command", OF_LEARNERS)
def test_options_of_other_learners_are_refused_by_name(command):
    settings = COMMANDS[command].settings
    for learner in names():
        line = [command, "bsr", "--learner", learner]
        parser = last_parser(parser_for(line), line)
        for word in sorted(set().union(*(learners_words(name, "runs") for name in names()))):
            if word in parser.options:
                continue
            owners = [name for name in names() if word in learners_words(name, settings)]
            runs = [name for name in names() if word in learners_words(name, "runs")]
            sentence = explain(word, parser, line)
            if " is now " in sentence:
                assert any(key.endswith(f"{word}") or key.endswith(f"{word[2:]}=") for key in RENAMED)
                continue
            if owners:
                have = "have" if len(owners) > 1 else "has"
                expected = (
                    f"learner {learner} has no option {word}: {', '.join(owners)} {have} it (--learner {owners[0]})"
                )
            elif learner in runs:
                expected = f"the theory of learner {learner} does not depend on {word}, a setting of its runs: "
            else:
                have = "have" if len(runs) > 1 else "has"
                expected = (
                    f"learner {learner} has no option {word}: {', '.join(runs)} {have} it for runs (use simulate)"
                )
            assert sentence.startswith(expected)


@pytest.mark.parametrize("command", OF_MODELS)
def test_options_of_other_models_are_refused_by_name(command):
    for model in MODELS:
        parser = last_parser(parser_for([command, model]), [command, model])
        for word in set().union(*map(models_words, MODELS)) - set(parser.options):
            owners = [name for name in MODELS if word in models_words(name)]
            sentence = (
                f"model {model} has no option {word}: {', '.join(owners)} {'have' if len(owners) > 1 else 'has'} it"
            )
            assert sentence in explain(word, parser, [command, model])


ALL = "--help lists all options"
UNKNOWN = {
    "limits bsr --learner ridge --loss x": "learner ridge has no option --loss: risk, sgd have it (--learner risk)",
    "simulate bsr --loss hinge": "learner gamp has no option --loss: risk, sgd have it (--learner risk)",
    "limits bsr --tokens 2": "model bsr has no option --tokens: aim, attention, smi have it",
    "limits bsr --seed 3": "limits has no option --seed: trajectory, simulate, compare have it",
    "sweep status store --workers 3": "sweep status has no option --workers: sweep run has it",
    "landscape bsr --strength 3": "landscape takes no learner, and --strength is a setting of ridge, nuclear-norm, "
    "risk: use limits, thresholds, plan, spectrum, hysteresis, trajectory, simulate, phase-diagram",
    "schema --rho 3": "schema takes no options of models, and --rho is one of bsr, aim",
    "limits bsr --chanel sign": f"limits bsr has no option --chanel: did you mean --channel? {ALL}",
    "limits bsr --stregth 3": "limits bsr has no option --stregth: the closest is --strength, but learner gamp has no "
    "option --strength: ridge, nuclear-norm, risk have it (--learner ridge)",
    "limits bsr --zzz": f"limits bsr has no option --zzz: {ALL}",
    "--alpha 0.3 limits bsr": "glassformer has no option --alpha: give the options of COMMAND after it",
    "limits --rho=0.3 bsr": "glassformer limits has no option --rho: give the options of MODEL after it",
    "limits bsr --alpha 1 stray": f"'stray' is neither an option nor the value of one: {ALL}",
    "limits bsr --alpha 1 -x": f"'-x' is neither an option nor the value of one: {ALL}",
}


@pytest.mark.parametrize(("line", "sentence"), UNKNOWN.items())
def test_unknown_words_are_explained(line, sentence, capsys):
    assert said(line, capsys) == (2, "", f"glassformer: error: {sentence}\n")


def test_parameters_in_messages_are_options(capsys):
    for line, words in (
        ("limits bsr --rho -1 --alpha 0.5", "--rho = -1.0 is not allowed"),
        ("limits bsr --rho 1 --alpha x", "--alpha = 'x' is not allowed"),
        ("limits bsr --rho 1 --alpha 1 --learner risk --strength -1", "--strength = -1.0 is not allowed"),
        ("simulate bsr --rho 1 --alpha 1 --max-iterations 0", "--max-iterations = 0 is not allowed"),
        ("landscape bsr --rho 1 --alpha 1 --overlaps 3", "--overlaps = 3 is not allowed"),
        ("plan bsr --rho 1 --target -1", "--target = -1.0 is not allowed"),
        ("limits bsr --rho 1 --alpha 1 --plot a.png --plot-size x", "--plot-size = 'x' is not allowed"),
        ("schema foo", "kind = 'foo' is not allowed"),
    ):
        code, _, err = said(line, capsys)
        assert (code, err.startswith(f"glassformer: error: {words}")) == (2, True), err


def flags_in(path):
    """Texts of a file, docstrings excepted, that contain an option of the command line."""
    tree = ast.parse(path.read_text())
    documentation = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None
    }
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [node.value for node in texts if node not in documentation and re.search(r"--[a-z]", node.value)]


# Files whose messages still name options.
NAME_OPTIONS = {"sweeps/sweep.py"}


def test_messages_of_the_library_name_parameters_not_options():
    """The page of the explorer shows command lines, and the table of old words has those of the command line."""
    package = Path(glassformer.__file__).parent
    paths = [path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in ("cli", "explorer")]
    found = {str(path.relative_to(package)): flags_in(path) for path in paths if path.name != "renamed.py"}
    assert len(found) > 100
    assert {place: texts for place, texts in found.items() if texts and place not in NAME_OPTIONS} == {}
