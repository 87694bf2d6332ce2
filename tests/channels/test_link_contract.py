"""Links of the user's own: one contract for all models, and errors that name what is wrong."""

from __future__ import annotations

import functools
import math

import jax.numpy as jnp
import numpy as np
import pytest

from glassformer import AttentionIndexed, BilinearSequenceRegression, SequenceMultiIndex, limits
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.link.contract import Link
from glassformer.channels.scalar.absolute import AbsoluteChannel
from glassformer.channels.scalar.sign import SignChannel
from glassformer.cli import main
from glassformer.core.errors import GlassformerError, IncompatibleError, LinkError, ParameterError
from glassformer.core.link_parsing import function_from
from glassformer.models.registry import build

MODELS = {
    "bsr": lambda link: BilinearSequenceRegression(rho=np.inf, link=link),
    "bsr channel": lambda link: BilinearSequenceRegression(rho=np.inf, channel=link),
    "aim": lambda link: AttentionIndexed(0.5, 2, link=link, noise=0.1),
    "aim channel": lambda link: AttentionIndexed(0.5, 2, channel=link, noise=0.1),
    "smi": lambda link: SequenceMultiIndex(link),
    "smi of many": lambda link: SequenceMultiIndex(link, 2, 2),
}
every_model = pytest.mark.parametrize("build_model", MODELS.values(), ids=MODELS.keys())


def counting():
    """A link that remembers how often it was called."""
    calls = []

    def link(h):
        calls.append(None)
        return h + len(calls)

    return link


# --- failures --------------------------------------------------------------------------------------------------------


@every_model
@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_labels_that_cannot_be_squared_are_refused(build_model, scale):
    with pytest.raises(LinkError, match=r"size between 1e-100 and 1e\+100.*rescale"):
        build_model(lambda h: scale * h)


@every_model
@pytest.mark.parametrize(
    ("link", "cause"),
    [(lambda h: h * (1 // 0), ZeroDivisionError), (lambda h: {}["a"] * h, KeyError)],
    ids=["division", "key"],
)
def test_an_exception_in_a_link_is_chained_and_placed(build_model, link, cause):
    with pytest.raises(LinkError, match="field") as caught:
        build_model(link)
    assert isinstance(caught.value.__cause__, cause)
    assert cause.__name__ in str(caught.value)
    assert "<lambda>" in str(caught.value)
    assert isinstance(caught.value, ParameterError | GlassformerError)


@every_model
def test_an_exception_at_some_fields_is_placed_there(build_model):
    def link(h):
        if np.max(h) > 1.2:
            raise RuntimeError("too large")
        return np.max(h)

    with pytest.raises(LinkError):
        build_model(link)


def test_the_field_at_which_a_link_fails_is_named():
    def link(h):
        return 1 / (h - 1.5)

    link_of_one = Link(lambda h: link(h) if h == 1.5 else h)
    with pytest.raises(LinkError, match=r"field = 1\.5.*ZeroDivisionError"):
        link_of_one(np.array([0.3, 1.5, 2.0]))


@every_model
@pytest.mark.parametrize("make", [lambda: lambda h: h + np.random.default_rng().normal(), counting])
def test_two_labels_for_one_field_are_refused_as_random(build_model, make):
    with pytest.raises(LinkError, match="one label for one field"):
        build_model(make())


@every_model
@pytest.mark.parametrize(
    "link",
    [lambda h: None, lambda h: "label", lambda h: 1j * h, lambda h: h * np.nan, lambda h: {"y": h}],
    ids=["none", "text", "complex", "not finite", "dictionary"],
)
def test_labels_that_are_no_real_numbers_are_refused_in_one_line(build_model, link):
    with pytest.raises(LinkError, match=r"(link|channel) = ") as caught:
        build_model(link)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["bsr", "aim", "smi", "smi of many"])
def test_labels_of_several_shapes_are_refused(name):
    with pytest.raises(LinkError, match="one shape"):
        MODELS[name](lambda h: [1.0, 2.0] if np.max(h) > 0 else [1.0])


def test_a_vector_is_no_label_of_a_number():
    with pytest.raises(LinkError, match=r"link = .*one real number per field"):
        BilinearSequenceRegression(rho=0.5, link=lambda h: [h, h])


def test_links_that_cannot_be_vectorised_or_traced_are_refused_with_the_remedy():
    with pytest.raises(LinkError, match=r"many samples at once.*jax.numpy"):
        AttentionIndexed(0.5, 2, noise=0.1, link=lambda h: 1.0 if h[0, 0] > 0 else -1.0)
    with pytest.raises(LinkError, match=r"JAX can trace.*jax.numpy") as caught:
        SequenceMultiIndex(lambda z: np.abs(z).sum(), 2, 2)
    assert caught.value.__cause__ is not None


def test_a_link_and_a_channel_exclude_each_other():
    with pytest.raises(IncompatibleError, match="channel = 'sign'"):
        BilinearSequenceRegression(rho=0.5, link=abs, channel="sign")
    with pytest.raises(IncompatibleError, match="channel = 'linear'"):
        AttentionIndexed(0.5, 2, noise=0.1, link=np.tanh, channel="linear")
    with pytest.raises(IncompatibleError, match="layers = 2"):
        build("aim", {"rho": 0.5, "layers": 2, "link": np.tanh})


# --- one contract ----------------------------------------------------------------------------------------------------


class Twice:
    """A callable object."""

    def __call__(self, h):
        return 2.0 * h

    def method(self, h):
        return 2.0 * h


@pytest.mark.parametrize(
    "function",
    [lambda h: 2.0 * h, Twice(), Twice().method, functools.partial(np.multiply, 2.0), lambda h: jnp.asarray(h) * 2],
    ids=["function", "object", "method", "partial", "jax"],
)
@pytest.mark.parametrize("shape", [(), (2, 2), (2, 3)])
def test_anything_callable_is_a_link(function, shape):
    link, fields = Link(function, shape), np.random.default_rng(0).standard_normal((4, 5, *shape))
    np.testing.assert_allclose(link(fields), 2 * fields, rtol=1e-15)
    assert link.label_shape == shape
    assert link.vectorised


def test_links_in_jax_have_double_precision():
    h = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(Link(jnp.tanh)(h), np.tanh(h), rtol=1e-15)
    result = LinkChannel(lambda h: jnp.tanh(h), 0.1).information(np.array([0.5]))
    assert result.value[0] == pytest.approx(LinkChannel(np.tanh, 0.1).information(np.array([0.5])).value[0], rel=1e-13)


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda z: z[0], (2,)),
        (lambda z: z[..., 0], (2,)),
        (lambda z: np.tanh(z[0, 0]), ()),
        (lambda z: jnp.sum(jnp.asarray(z)), ()),
        (lambda z: np.trace(z), ()),
        (lambda z: z @ z, (2, 2)),
    ],
)
def test_a_link_is_defined_by_its_labels_of_one_sample(function, shape):
    link, fields = Link(function, (2, 2)), np.random.default_rng(0).standard_normal((6, 2, 2))
    assert link.label_shape == shape
    np.testing.assert_allclose(link(fields), [function(sample) for sample in fields], rtol=1e-6)


def test_the_unit_of_labels_does_not_decide_how_batches_are_evaluated():
    def centred(z):
        return z - np.mean(z)

    fields = np.random.default_rng(0).standard_normal((20, 3))
    small = Link(lambda z: 1e-20 * centred(z), (3,))
    np.testing.assert_allclose(1e20 * small(fields), [centred(z) for z in fields], rtol=1e-12, atol=1e-12)


def test_functions_of_whole_arrays_are_accepted():
    def link(h):
        out = np.zeros(len(h))
        out[h > 0] = 1.0
        return out

    np.testing.assert_array_equal(Link(link)(np.array([-1.0, 2.0])), [0.0, 1.0])


def test_a_link_may_write_into_its_field():
    def link(z):
        z[0, 0] = 0.0
        return z.sum()

    fields = np.ones((3, 2, 2))
    np.testing.assert_array_equal(Link(link, (2, 2))(fields), 3.0)
    assert np.all(fields == 1)


@pytest.mark.slow
def test_all_models_agree_on_one_link():
    v = np.array([0.4])
    exact = AbsoluteChannel().information(v).value[0]
    for function in (abs, np.abs, jnp.abs):
        channel = BilinearSequenceRegression(rho=np.inf, link=function).channel
        assert channel.information(v).value[0] == pytest.approx(exact, rel=1e-12)
        assert channel == BilinearSequenceRegression(rho=np.inf, channel=function).channel
    for function in (lambda z: np.abs(z[0, 0]), lambda z: jnp.abs(z[0, 0])):
        rows = SequenceMultiIndex(function).channel
        assert rows.inference.information(v.reshape(1, 1, 1)).value[0, 0, 0] == pytest.approx(exact, rel=1e-12)
    assert AttentionIndexed(0.5, 2, noise=0.1, link=lambda h: h[0]).channel.labels.shape == (2,)


@pytest.mark.slow
@pytest.mark.parametrize(
    "function", [jnp.sign, jnp.abs, lambda h: (h**3 - 3 * h) / 6**0.5, lambda h: jnp.maximum(h, 0)]
)
def test_one_index_has_the_prediction_errors_of_a_scalar_link(function):
    """Not sampled ones: rows of one index have the errors of a scalar link, each with the error of its quadrature."""
    v = np.array([1e-6, 0.1, 0.9])
    scalar = LinkChannel(function).label_error(v)
    rows = SequenceMultiIndex(lambda z: function(z[0, 0])).channel.inference.label_errors(v[:, None, None])
    names = {"prediction_error", "plugin_error", "label_noise"} | {name for name in scalar if name == "label_error"}
    assert {name for name in rows if "standard" not in name} == names
    for name in names:
        np.testing.assert_allclose(rows[name], scalar[name], rtol=1e-12)
    for name in names - {"label_noise"}:
        assert np.all(rows[name.replace("error", "standard_error")] <= 1e-6 * rows[name])


def test_label_errors_of_signs_are_within_their_standard_errors():
    v = np.array([1e-6, 0.1, 0.9])
    rows = SequenceMultiIndex(lambda z: jnp.sign(z[0, 0])).channel.inference.label_errors(v[:, None, None])
    gap = np.abs(rows["label_error"] - np.arccos(np.sqrt(1 - v)) / np.pi)
    assert np.all(gap <= rows["label_standard_error"] + 1e-10 * rows["label_error"])


# --- files and the command line --------------------------------------------------------------------------------------


FILE = """
import math
import jax.numpy as jnp
import numpy as np

class Steep:
    def __call__(self, h):
        return math.tanh(3 * h)

def of_number(h):
    return np.sign(h)

def of_matrix(h):
    return np.tanh(h[0])

def of_fields(z):
    return jnp.sign(z[0, 0])
"""


def test_files_give_functions_and_objects(tmp_path, monkeypatch, capsys):
    (tmp_path / "links.py").write_text(FILE)
    assert function_from("links.py:Steep", tmp_path)(1.0) == math.tanh(3.0)
    model = build("bsr", {"rho": 0.5, "link": "links.py:Steep"}, tmp_path)
    assert model.channel.label == "Steep"
    assert build("aim", {"rho": 0.5, "noise": 0.1, "link": "links.py:of_matrix"}, tmp_path).channel.labels.shape == (2,)
    (tmp_path / "broken.py").write_text("raise KeyError('a')")
    with pytest.raises(ParameterError, match=r"broken.py:f.*KeyError") as caught:
        function_from("broken.py:f", tmp_path)
    assert isinstance(caught.value.__cause__, KeyError)
    (tmp_path / "ends.py").write_text("import sys; sys.exit(3)")
    with pytest.raises(ParameterError, match=r"ends.py:f.*SystemExit"):
        function_from("ends.py:f", tmp_path)
    monkeypatch.setattr("glassformer.core.link_parsing._PATIENCE", 0.02)
    (tmp_path / "slow.py").write_text("import time; time.sleep(0.2); f = abs")
    assert function_from("slow.py:f", tmp_path) is abs
    assert "slow.py has been running for 0.02 s (Ctrl-C ends it)\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["bsr", "--rho", "inf", "--link", "of_number"], ["smi", "--indices", "1", "--link", "of_fields"]],
    ids=["bsr", "smi"],
)
def test_links_from_the_command_line(words, tmp_path, capsys):
    (tmp_path / "links.py").write_text(FILE)
    words[-1] = f"{tmp_path / 'links.py'}:{words[-1]}"
    assert main(["limits", *words, "--alpha", "1.0"]) == 0
    expected = limits(BilinearSequenceRegression(rho=np.inf, channel="sign"), [1.0])["error"][0]
    assert f"{expected:.4g}"[:5] in capsys.readouterr().out


def test_a_link_that_fails_ends_the_command_in_one_line(tmp_path, capsys):
    (tmp_path / "links.py").write_text("def f(h):\n    return 1 / 0\n\ndef g(h):\n    raise SystemExit(5)\n")
    for model in (["bsr", "--rho", "1"], ["aim", "--rho", "1", "--noise", "0.1"], ["smi", "--indices", "2"]):
        for name, cause in (("f", "ZeroDivisionError"), ("g", r"calls sys.exit(5)")):
            assert main(["limits", *model, "--link", f"{tmp_path / 'links.py'}:{name}", "--alpha", "1.0"]) == 2
            error = capsys.readouterr().err
            assert cause in error
            assert "Traceback" not in error


# --- curves ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "exact"), [(np.abs, AbsoluteChannel()), (np.sign, SignChannel())], ids=["absolute", "sign"]
)
def test_averages_at_many_variances_are_interpolated(function, exact):
    v = np.concatenate([1 - np.geomspace(1e-6, 0.5, 20), np.geomspace(0.5, 1e-2, 40)])
    channel = LinkChannel(function)
    for name in ("information", "expected_log_partition"):
        found, expected = (getattr(part, name)(v) for part in (channel, exact))
        gap = np.abs(found.value - expected.value)
        np.testing.assert_array_less(gap, found.error + expected.error + 1e-12)
        np.testing.assert_array_less(found.error, 1e-8 * np.maximum(np.abs(expected.value), 1e-6))
    assert len(channel._current.averages.panels) >= 2
    at_zero = LinkChannel(function).information(np.array([1.0])).value[0]
    assert channel.information(np.array([1.0])).value[0] == pytest.approx(at_zero, abs=1e-12)


@pytest.mark.slow
def test_labels_of_many_levels_cost_no_more_than_few():
    """Quantised labels tend to the field itself: the information per level set grows towards 1/V."""
    v = np.array([0.3])
    found = [LinkChannel(lambda h, s=step: s * np.round(h / s)).information(v).value[0] for step in (1.0, 0.2, 0.05)]
    assert found[0] < found[1] < found[2] < 1 / 0.3
    assert found[2] == pytest.approx(1 / (0.3 + 0.05**2 / 12), rel=1e-4)


@pytest.mark.slow
def test_a_global_that_a_link_reads_may_change_under_a_channel():
    """What was found out of the link as it was goes on for no other one."""
    link = eval("lambda h: np.tanh(GAIN * h)", scope := {"np": np, "GAIN": 1.0})
    channel = LinkChannel(link, noise=0.1)
    before = channel.information(np.array([0.5])).value
    scope["GAIN"] = 3.0
    after = channel.information(np.array([0.5])).value
    assert after == pytest.approx(LinkChannel(lambda h: np.tanh(3.0 * h), noise=0.1).information(np.array([0.5])).value)
    assert abs(after - before) > 0.05


def test_an_index_out_of_bounds_is_an_error():
    """JAX takes the last one for them: a forgotten number of tokens is an error, not another model."""
    for link in (lambda z: z[0, 0] * jnp.tanh(z[1, 0]), lambda z: jnp.tanh(z[0, 0] + z[0, 1])):
        with pytest.raises(LinkError, match="out of bounds"):
            SequenceMultiIndex(link, 1, 1, noise=0.1)
    with pytest.raises(LinkError, match="out of bounds"):
        AttentionIndexed(rho=0.5, tokens=1, link=lambda h: jnp.tanh(h[0, 1]), noise=0.1)
