"""Inputs that would hang, fill the memory or end in a traceback are refused at once, in one line with both numbers."""

from __future__ import annotations

import math
import shlex

import numpy as np
import pytest

from glassformer import (
    SGD,
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    DeepAttentionIndexed,
    GlassformerError,
    IncompatibleError,
    SequenceMultiIndex,
    Sweep,
    landscape,
    limits,
    phase_diagram,
    simulate,
)
from glassformer.cli import main
from glassformer.core import resources
from glassformer.core.resources import available_memory, require_resources
from glassformer.errors import ParameterError

MODEL = BilinearSequenceRegression(rho=0.5, noise=0.1)
ATTENTION = "limits attention --alpha 0.1"
SMI = "limits smi --alpha 0.1 --link {link}"
# Links whose labels are not what was meant, and a learner of theirs.
ARRAY, STEP = SMI.replace("{link}", "{link}_array"), SMI.replace("{link}", "{link}_step")
FITTED = "--indices 1 --learner risk"
RUN = "simulate bsr --rho 0.5 --alpha 0.5 --d 20 --instances 1"
# Command lines that ask for too much, the parameter that is to blame, and what there is too little of.
TOO_MUCH = [
    ("landscape bsr --rho 0.5 --alpha 0.5 --overlaps 1000000000", "overlaps", "operations"),
    (f"{ATTENTION} --depth 100000", "depth", "operations"),
    (f"{ATTENTION} --depth 40", "depth", "operations"),
    (f"{ATTENTION} --untied --depth 100000", "depth", "operations"),
    (f"{ATTENTION} --limit large-skip --depth 100000", "depth", "operations"),
    ("limits attention --alpha 0:2:10000", "alpha", "hours"),
    (f"{ATTENTION} --tokens 40", "tokens", "operations"),
    (f"{ATTENTION} --tokens 200", "tokens", "operations"),
    (f"{ATTENTION} --tokens 1000000", "tokens", "operations"),
    (f"{ATTENTION} --output sequence --noise 0.1 --tokens 1000000", "tokens", "operations"),
    (f"{ATTENTION} --heads 100000", "heads", "operations"),
    (f"{ATTENTION} --points {2**40}", "points", "operations"),
    (f"{SMI} --indices 1000000", "indices", "operations"),
    (f"{SMI} --indices 1 --tokens 1000000", "tokens", "operations"),
    (f"{SMI} --indices 2 --points {2**40}", "points", "operations"),
    ("limits aim --rho 0.5 --alpha 0.1 --layers 100000", "layers", "operations"),
    ("limits aim --rho 0.5 --alpha 0.1 --layers 2 --tokens 200", "tokens", "operations"),
    ("limits aim --rho 0.5 --alpha 0.1 --noise 0.1 --tokens 40", "tokens", "operations"),
    ("limits aim --rho 0.5 --alpha 0.1 --noise 0.1 --tokens 1000000", "tokens", "operations"),
    ("limits aim --rho 0.5 --alpha 0.1 --channel hardmax --tokens 1000000", "tokens", "operations"),
    (f"{RUN} --alpha 1e12", "alpha", "operations"),
    (f"{RUN} --alpha 1e12 --storage generated", "alpha", "operations"),
    ("simulate aim --rho 0.5 --alpha 1e80 --d 20", "alpha", "operations"),
    ("simulate aim --rho 0.5 --alpha 0.5 --d 10 --tokens 100000", "tokens", "GB"),
    ("simulate attention --alpha 1e80 --d 20", "alpha", "hours"),
    (f"{RUN} --d 100000000000", "d", "GB"),
    (f"{RUN} --instances 1000000000000", "instances", "operations"),
    (f"{RUN} --rho 1e9", "rho", "GB"),
    (f"{RUN} --beta 1e9", "beta", "GB"),
    ("simulate bsr --width 1000000000000 --alpha 0.5 --d 20", "width", "GB"),
    ("simulate attention --alpha 1 --d 20 --learner sgd --passes 1000000000000", "passes", "operations"),
]
# Command lines that are wrong in another way, and what the error must say.
WRONG = [
    (f"{RUN} --alpha 1e300", "alpha = 1e+300 is not allowed: expected finite and >= 0, at most"),
    ("limits bsr --rho 0.5 --alpha 1e300", "alpha = 1e+300 is not allowed: expected finite and >= 0, at most"),
    ("limits aim --rho 0.5 --alpha 0.1 --noise 1e300", "noise = 1e+300 is not allowed"),
    (
        "limits bsr --rho 0.5 --alpha 0.1 --channel absolute --noise 1e-300",
        "noise = 1e-300 is not allowed: expected 0, or",
    ),
    (f"{SMI} --indices 1 --noise 1e-300", "noise = 1e-300 is not allowed: expected 0, or"),
    (f"{SMI} --indices 2 --noise 1e-300", "noise = 1e-300 is not allowed: expected 0, or"),
    (f"{ATTENTION} --noise 1e-300", "noise = 1e-300 is not allowed: expected 0, or"),
    (f"{ATTENTION} --noise 1e300", "noise = 1e+300 is not allowed: expected 0, or"),
    (f"{ATTENTION} --limit large-depth --depth 1000000000000", "depth = 1000000000000 is not allowed"),
    ("limits aim --rho 0.5 --alpha 0.1 --layers 2 --skip nan", "skip = [nan] is not allowed: expected finite"),
    ("limits aim --rho 0.5 --alpha 0.1 --layers 2 --skip inf", "skip = [inf] is not allowed: expected finite"),
    (f"{ATTENTION} --skip nan", "skip = [nan] is not allowed: expected finite"),
    (f"{ATTENTION} --limit large-depth --depth 100000", "depth/skip"),
    (f"{ATTENTION} --depth {'9' * 400}", "depth = "),
    ("phase-diagram attention --skip 0,0", "skip = [0.0, 0.0] is not allowed: expected"),
    ("phase-diagram attention --skip abc", "skip = 'abc' is not allowed"),
    ("phase-diagram attention --skip 1,", "skip = '1,' is not allowed"),
    ("phase-diagram bsr --rho 0.5", "along = None is not allowed: expected NAME=SPEC"),
    ("phase-diagram bsr --rho 0.5 --along skip=0:1:3", "along = 'skip=0:1:3' is not allowed"),
    (
        "phase-diagram bsr --along rho=0.1:0.5:3 --rho 0.3",
        "--along rho=0.1:0.5:3 and --rho 0.3 exclude each other: leave out one of the two",
    ),
    ("phase-diagram bsr --rho 0.5 --along noise=0:1:3 --noise 0", "--along noise=0:1:3 and --noise 0.0 exclude"),
    ("phase-diagram attention --skip 1 --along skip=0:4:3", "--along skip=0:4:3 and --skip 1 exclude"),
    ("phase-diagram attention --along depth=1:2:3", "depth = 1.5 is not allowed: expected whole numbers"),
    ("phase-diagram bsr --rho 0.5 --along noise=a", "noise = 'a' is not allowed"),
    ("phase-diagram attention --skip 0:1:0", "skip = '0:1:0' is not allowed"),
    (
        "limits bsr --beta inf --rho 0.5 --alpha 0.5 --learner risk",
        "no known law of singular values: give finite beta instead of beta = inf",
    ),
    (
        "limits bsr --rho inf --alpha 0.5 --learner risk",
        "no known law of singular values: give finite rho > 0 instead of rho = inf",
    ),
    (f"{RUN} --learner risk --loss logistic", "use square or huber: use ridge or nuclear-norm or gamp"),
    ("limits bsr --rho 0.5 --alpha -1e308:1e308:3", "alpha = "),
    ("limits bsr --rho 0.5 --alpha 0:1:100000000", "count >= 1, at most 1000000"),
    ("hysteresis bsr --rho 0.5 --alpha 0:1:100000000", "count >= 1, at most 1000000"),
    ("landscape bsr --rho 0.5 --alpha 0:1:100000000", "count >= 1, at most 1000000"),
    (f"{RUN} --learner gd --student-width 100000000", "--student-width = 1"),
    (f"{RUN} --learner gd --initialisations 1000000000", "initialisations = 1"),
    ("simulate aim --rho 0.5 --alpha 0.5 --d 20 --learner gd --student-width 100000000", "--student-width = 1"),
    ("phase-diagram attention --skip 0:1:100000000", "count >= 1, at most 1000000"),
    (f"{ARRAY} --indices 1", "expected a number, not an array of shape (1, 1); return one entry of it"),
    (f"{ARRAY} --indices 1 --noise 0.1", "expected a number, not an array of shape (1, 1)"),
    (f"{SMI} --indices 1 --noise-law laplace:1e308", "--noise-law = 'laplace:1e+308' is not allowed: expected a scale"),
    (f"{SMI} {FITTED} --positions 1e308", "positions = [1e+308] is not allowed: expected numbers of at most 10000"),
    (
        f"{SMI} {FITTED} --loss logistic",
        "and the labels of link link are continuous: let the link return +1 and -1, or",
    ),
    (
        f"{STEP} {FITTED} --loss hinge",
        "loss hinge needs labels +1 and -1, and the labels of link link_step are 0 and 1:",
    ),
    (f"{ATTENTION} --learner risk --loss logistic", "the labels of model attention are 4 numbers each: use square or"),
]


@pytest.fixture
def refused(tmp_path, capsys, monkeypatch):
    """The one line that a command is refused with, on a machine of 8 GB."""
    links = {"link": "z[0, 0]", "link_array": "z", "link_step": "1.0 * (z[0, 0] > 0)"}
    text = "\n".join(f"def {name}(z):\n    return {value}\n" for name, value in links.items())
    (tmp_path / "link.py").write_text(text)
    monkeypatch.setattr(resources, "available_memory", lambda: 8e9)

    def call(line):
        assert main(shlex.split(line.format(link=tmp_path / "link.py:link"))) == 2
        (said,) = capsys.readouterr().err.splitlines()
        return said

    return call


@pytest.mark.slow
@pytest.mark.parametrize(("line", "name", "unit"), TOO_MUCH)
def test_what_is_too_much_is_refused_with_both_numbers(line, name, unit, refused):
    said = refused(line)
    assert f"error: --{name} = " in said
    assert said.count("needed") == 1
    assert unit in said
    assert ";" in said, "no remedy"


@pytest.mark.slow
@pytest.mark.parametrize(("line", "words"), WRONG)
def test_other_mistakes_are_named(line, words, refused):
    assert words in refused(line)


def test_the_skip_strength_is_one_unless_given():
    assert DeepAttentionIndexed(rho=0.5).parameters == DeepAttentionIndexed(rho=0.5, skip=1.0).parameters
    assert DeepAttentionIndexed(rho=0.5, skip=None).parameters["skip"] == [1.0]
    from glassformer.models.registry import build

    assert build("aim", {"rho": 0.5, "layers": 2, "skip": None}).parameters["skip"] == [1.0]


def test_a_parameter_that_cannot_be_left_out_may_vary_nonetheless(tmp_path, capsys):
    (tmp_path / "link.py").write_text("def link(z):\n    return z[0, 0]\n")
    asked = f"phase-diagram smi --link {tmp_path / 'link.py:link'} --indices 1 --along indices=1 --points 32"
    assert main(shlex.split(asked)) == 0
    assert "weak_recovery" in capsys.readouterr().out


HUGE, VECTOR = 10**400, np.array([1, 2])
BAD = [math.nan, math.inf, -math.inf, -1, True, None, "a", "1", [], [1, "a"], {}, 1j, HUGE, object(), VECTOR]


def smi(**arguments):
    return SequenceMultiIndex(**{"link": lambda z: z[0, 0], **arguments})


def aim(**arguments):
    return AttentionIndexed(**{"rho": 0.5, **arguments})


def deep_aim(**arguments):
    return DeepAttentionIndexed(**{"rho": 0.5, "temperature": 1.0, **arguments})


def bsr(**arguments):
    return BilinearSequenceRegression(**({"rho": 0.5} | arguments if "width" not in arguments else arguments))


def simulated(**arguments):
    return simulate(MODEL, **{"alpha": [0.5], "d": 4, "instances": 1, **arguments})


def curve(**arguments):
    return landscape(MODEL, **{"alpha": 0.5, "overlaps": 10, **arguments})


# What None, infinity, a truth value or a list mean something to.
ALLOWED = {
    ("bsr", "beta"): [math.inf], ("bsr", "rho"): [math.inf], ("aim", "rho"): [math.inf],
    ("deep_aim", "skip"): [None], ("DeepAttention", "skip"): [-1, VECTOR], ("DeepAttention", "limit"): [None],
    ("DeepAttention", "head_weights"): [None], ("simulated", "seed"): [HUGE], ("simulated", "alpha"): [VECTOR],
}  # fmt: skip


ARGUMENTS = {
    bsr: ("beta", "rho", "noise", "channel", "width"),
    aim: ("rho", "tokens", "noise", "channel", "temperature"),
    deep_aim: ("rho", "tokens", "layers", "skip", "channel", "temperature"),
    DeepAttention: (
        *("depth", "tokens", "skip", "activation", "heads", "output", "noise", "head_weights"),
        *("side_information", "limit"),
    ),
    smi: ("link", "indices", "tokens", "noise", "label_type", "side_information"),
    simulated: ("alpha", "d", "instances", "seed", "learner", "storage"),
    curve: ("alpha", "overlaps"),
}


def bad_arguments():
    """All bad values of a real number, of an integer and of sample ratios; of other arguments three, by turns."""
    turn = 0
    for kind, names in ARGUMENTS.items():
        for name in names:
            every = (kind, name) in ((bsr, "noise"), (aim, "tokens"), (simulated, "alpha"))
            for value in BAD if every else [BAD[(turn + 5 * k) % len(BAD)] for k in range(3)]:
                if not any(value is good for good in ALLOWED.get((kind.__name__, name), [])):
                    yield pytest.param(kind, name, value, id=f"{kind.__name__}-{name}-{type(value).__name__}{turn}")
            turn += 1


@pytest.mark.parametrize(("kind", "name", "value"), list(bad_arguments()))
def test_python_arguments_of_any_kind_are_refused_by_name(kind, name, value):
    with pytest.raises(GlassformerError, match=name) as caught:
        kind(**{name: value})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("alpha", ["a", None, ["a"], {}, object(), [[0.1], [0.1, 0.2]]])
def test_sample_ratios_that_are_no_numbers(alpha):
    with pytest.raises(ParameterError, match="alpha"):
        limits(MODEL, alpha)


@pytest.mark.parametrize(
    ("parameter", "values"), [("rho", ["a"]), ("rho", []), ("rho", [0.1, 0.1]), ("rho", None), ("name", [1])]
)
def test_values_of_a_phase_diagram(parameter, values):
    with pytest.raises(ParameterError, match=r"rho|parameter|values"):
        phase_diagram(MODEL, parameter, values)


def test_sample_ratios_of_different_units_are_not_one_diagram():
    with pytest.raises(IncompatibleError, match=r"n/\(r\(L\+d\)\) at rho = 0.0 and n/\(dL\) at rho = 0.5"):
        phase_diagram(MODEL, "rho", [0.0, 0.5])
    with pytest.raises(IncompatibleError, match=r"n/\(r\(L\+d\)\) at rho = 0 and n/\(dL\) at rho = 0.5"):
        Sweep("bsr", {"rho": [0.5, 0.0]}, verb="thresholds")


@pytest.mark.parametrize(("settings", "name"), [(SGD(passes=10**12), "passes")])
def test_training_without_end(settings, name):
    with pytest.raises(ParameterError, match=name):
        simulate(DeepAttention().at_accuracy(Accuracy(points=32)), [1.0], settings, d=20, instances=1)


def test_what_fits_is_not_refused(monkeypatch):
    monkeypatch.setattr(resources, "available_memory", lambda: 8e9)
    require_resources("d", 10, 7e9, "")
    with pytest.raises(ParameterError, match=r"7\.5 GB needed, 8\.0 GB available"):
        require_resources("d", 10, 7.5e9, "")
    assert DeepAttention(depth=8).depth == 8
    assert DeepAttention(tokens=16).tokens == 16
    assert DeepAttention().at_accuracy(Accuracy(points=2**17)).points == 2**17
    assert aim(noise=0.1, tokens=12).tokens == 12


def test_a_limit_of_the_process_counts():
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    limit = 2**40 if before[1] == resource.RLIM_INFINITY else before[1]
    try:
        resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
        assert 0 < available_memory() <= limit
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
