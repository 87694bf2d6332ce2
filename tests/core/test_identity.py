"""One identity for each thing that determines a result: different settings never share one, equal ones do."""

import functools
import gc
import importlib
import os
import subprocess
import sys
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glassformer import (
    SGD,
    Accuracy,
    AttentionIndexed,
    BilinearSequenceRegression,
    DeepAttention,
    DeepAttentionIndexed,
    GradientDescent,
    IncompatibleError,
    MessagePassing,
    OnlineSGD,
    SequenceMultiIndex,
    Sweep,
    simulate,
)
from glassformer.channels.attention.linear import LinearAttentionChannel
from glassformer.channels.attention.softmax import SoftmaxAttentionChannel
from glassformer.channels.link.channel import LinkChannel
from glassformer.channels.scalar.gaussian import GaussianChannel
from glassformer.core.errors import UnidentifiedError
from glassformer.core.hashing import identity, identity_or_none
from glassformer.core.settings import Iteration
from glassformer.learners.nuclear_norm import NuclearNorm
from glassformer.numerics import cached_jit as compiled
from glassformer.sweeps.collect import collect
from glassformer.sweeps.run import run_sweep

TENTH = float(np.nextafter(0.1, 1.0))
NUMBERS = (0.1, TENTH, 0.25, 0.5, 1, 1.0)
LINKS = tuple(lambda z, a=a: a * jnp.sum(z) for a in (1.0, 2.0)) + tuple(
    lambda z, *, a=a: a * jnp.sum(z) for a in (1.0, 2.0)
)
SCALARS = tuple(functools.partial(np.multiply, a) for a in (2.0, 3.0))
# Fields of everything that has an identity, and values of each: any two different choices are different things.
KINDS = {
    BilinearSequenceRegression: {
        "beta": NUMBERS,
        "rho": NUMBERS,
        "channel": (*(GaussianChannel(noise) for noise in (0, 0.1, TENTH)), "sign", "absolute", *SCALARS),
    },
    AttentionIndexed: {"rho": NUMBERS, "tokens": (2, 3), "channel": ("linear", "softmax"), "noise": (0, 0.1, TENTH)},
    DeepAttentionIndexed: {
        "rho": NUMBERS,
        "tokens": (2, 3),
        "layers": (2, 3),
        "skip": (0.0, 1, 1.0, TENTH),
        "channel": ("linear", "softmax"),
        "temperature": NUMBERS,
    },
    DeepAttention: {
        "depth": (2,),
        "tokens": (2, 3),
        "skip": NUMBERS,
        "untied": (False, True),
        "heads": (1,),
        "output": ("attention", "sequence"),
        "noise": (0.0, 0.1, TENTH),
        "head_weights": (((1.0,), (2.0,)), ((1.0,), (2.0 + 4e-16,)), np.array([[1.0], [3.0]])),
        "side_information": (0.0, 0.1, TENTH),
        "_accuracy": (Accuracy(points=32), Accuracy(points=64)),
    },
    SequenceMultiIndex: {
        "link": LINKS,
        "indices": (1, 2),
        "noise": (0.1, TENTH),
        "_accuracy": (Accuracy(points=32), Accuracy(points=64)),
    },
    Iteration: {"tolerance": (0.1, TENTH), "max_iterations": (1, 2), "damping": (None, 0, 0.0, 0.1)},
    MessagePassing: {
        "_accuracy": (Accuracy(tolerance=0.1), Accuracy(tolerance=TENTH), Accuracy(max_iterations=1)),
        "random_start": (None, 0, 0.0, 0.1),
    },
    GradientDescent: {
        "optimizer": (None, "sgd", "adam"),
        "learning_rate": (None, 0.1, TENTH),
        "initialisations": (None, 1, 2),
    },
    OnlineSGD: {"batch": (1, 2), "learning_rate": (0.1, TENTH), "start": ("prior", "small:0.1", "overlap:0.1")},
    SGD: {"batch": (10, 20), "passes": (1, 2), "learning_rate": (None, 0.1, TENTH)},
    NuclearNorm: {"strength": (None, 0, 0.0, 0.1, TENTH)},
    GaussianChannel: {"noise": (0, 0.0, 0.1, TENTH)},
    LinkChannel: {"function": (*SCALARS, np.tanh), "noise": (0.1, TENTH), "nodes": (12, 13)},
    SoftmaxAttentionChannel: {"tokens": (2, 3), "temperature": NUMBERS, "power": NUMBERS},
}


def chosen(kind, draw):
    return {name: draw(st.sampled_from(range(len(values)))) for name, values in KINDS[kind].items()}


def made(kind, places):
    return kind(**{name: KINDS[kind][name][place] for name, place in places.items()})


@st.composite
def pairs(draw):
    """Two things, most often alike but for one field, and whether they are the same."""
    kind = draw(st.sampled_from(list(KINDS)))
    one = chosen(kind, draw)
    if draw(st.booleans()):
        name = draw(st.sampled_from(list(one)))
        kind_too, other = kind, {**one, name: draw(st.sampled_from(range(len(KINDS[kind][name]))))}
    else:
        kind_too = draw(st.sampled_from(list(KINDS)))
        other = chosen(kind_too, draw)

    def same(name):
        first, second = KINDS[kind][name][one[name]], KINDS[kind][name][other[name]]
        return first is second or (isinstance(first, int | float) and first == second)

    equal = kind is kind_too and all(map(same, one))
    return made(kind, one), made(kind_too, other), equal


@pytest.mark.slow
@settings(max_examples=150, deadline=None, derandomize=True, database=None)
@given(pairs())
def test_different_things_never_share_an_identity_and_equal_ones_do(pair):
    one, other, equal = pair
    assert (identity(one) == identity(other)) == equal


def enclosing(value):
    return lambda z: value * z[0, 0]


def looking_up(table):
    return lambda z: table["a"] * z[0, 0]


def with_default(value):
    def link(z, *, scale=value):
        return scale * z[0, 0]

    return link


class Scaled:
    """A callable object."""

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, z):
        return self.scale * z[0, 0]

    def method(self, z):
        return self.scale * z[0, 0]


class Slotted:
    __slots__ = ("scale",)

    def __init__(self, scale):
        self.scale = scale

    def __call__(self, z):
        return self.scale * z[0, 0]


def nested(value):
    def outer(z):
        def inner(y):
            return enclosing(value)(y)

        return inner(z)

    return outer


def wrapped(value):
    inner = enclosing(value)

    @functools.wraps(inner)
    def outer(z):
        return inner(z)

    return outer


def recursive(value):
    def link(z, depth=1):
        return link(value * z, depth - 1) if depth else z[0, 0]

    return link


MAKERS = {
    "closure": enclosing,
    "array": lambda value: enclosing(np.array([1.0] * 2000 + [value])),
    "array on a device": lambda value: enclosing(jnp.array([1.0, value])),
    "dictionary": lambda value: looking_up({"a": value}),
    "keyword-only default": with_default,
    "partial": lambda value: functools.partial(with_default(1.0), scale=value),
    "object": Scaled,
    "slots": Slotted,
    "method": lambda value: Scaled(value).method,
    "jitted": lambda value: jax.jit(enclosing(value)),
    "jitted partial": lambda value: jax.jit(functools.partial(with_default(1.0), scale=value)),
    "mapped": lambda value: jax.vmap(enclosing(value)),
    "derivative": lambda value: jax.grad(enclosing(value)),
    "cached": lambda value: functools.lru_cache(enclosing(value)),
    "vectorised": lambda value: np.vectorize(enclosing(value)),
    "nested": nested,
    "wrapped": wrapped,
    "recursive": recursive,
}


@pytest.mark.parametrize("name", MAKERS)
def test_functions_count_by_content(name):
    make = MAKERS[name]
    assert identity(make(2.0)) == identity(make(2.0))
    assert len({identity(make(value)) for value in (2.0, 2.0 + 1e-6, 3.0)}) == 3
    # In a function the type of a number may matter; an array has one type for all.
    assert name.startswith("array") or identity(make(2)) != identity(make(2.0)) != identity(make(2.0 + 1e-15))


def test_a_global_that_is_read_counts_however_deep(monkeypatch):
    before = identity(via)
    assert before == identity(via)
    monkeypatch.setitem(globals(), "FACTOR", 3.0)
    assert identity(via) != before


FACTOR = 2.0


def scaled(z):
    return FACTOR * z[0, 0] + z[1, 0] ** 2


def via(z):
    return [scaled(part) for part in (z,)]


@pytest.mark.parametrize(
    "hidden",
    [
        (n for n in [1]),
        enclosing(n for n in [1]),
        lambda z: open("table.txt").read() + z,  # noqa: SIM115
        lambda z: np.load("table.npy")[0] * z,
        np.frompyfunc(abs, 1, 1),
        functools.partial(max, key=enclosing(map(abs, (n for n in [1])))),
    ],
)
def test_objects_with_hidden_state_have_no_identity(hidden):
    with pytest.raises(UnidentifiedError, match=r"cannot be (read|hashed)"):
        identity({"link": hidden})
    assert identity_or_none(hidden) is None


MODULE = """
import functools
import numpy as np
from glassformer import BilinearSequenceRegression, DeepAttention
from glassformer.core.hashing import identity

TABLE = {"b": {1.5, "x", None}, "a": frozenset("abc")}

class Link:
    names = {"z", "y", "x"}
    def __call__(self, h):
        return h if h in TABLE["b"] or h in {1, 2, 3} else np.tanh(h)

THINGS = [
    BilinearSequenceRegression(rho=0.5, channel=np.tanh, noise=0.1),
    DeepAttention(head_weights=np.ones((2, 1))),
    Link(),
    functools.partial(Link(), 1.0),
    lambda h: TABLE,
]
KEYS = " ".join(map(identity, THINGS))
"""


@pytest.mark.slow
def test_identities_are_those_of_another_process(tmp_path, monkeypatch):
    (tmp_path / "things_with_identity.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    here = importlib.import_module("things_with_identity").KEYS
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", "import things_with_identity; print(things_with_identity.KEYS)"]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == here
    assert len(set(here.split())) == 5


@pytest.mark.slow
def test_a_folder_of_checkpoints_tells_channels_apart(tmp_path):
    ask = {"alpha": [0.5], "d": 20, "instances": 1, "checkpoint": tmp_path}
    noisy = BilinearSequenceRegression(rho=0.2, channel=GaussianChannel(2.0))
    clean = BilinearSequenceRegression(rho=0.2, channel=GaussianChannel(0.01))
    low = simulate(clean, **ask)["error"][0]
    assert simulate(noisy, **ask)["error"][0] > 0.5 > 0.2 > low
    assert simulate(BilinearSequenceRegression(rho=0.2, noise=0.01), **ask)["error"][0] == low
    assert len(list(tmp_path.glob("*.json"))) == 2


@pytest.mark.slow
def test_runs_without_identity_are_computed_and_not_stored(tmp_path):
    source = (n for n in [1])
    model = BilinearSequenceRegression(rho=0.5, noise=0.1, channel=lambda h: h if source else -h)
    with pytest.warns(RuntimeWarning, match=r"not stored.*source: the state of a generator") as said:
        found = simulate(model, [0.5], d=10, instances=2, checkpoint=tmp_path)
    assert len(said) == 1
    assert np.isfinite(found["error"][0])
    assert not list(tmp_path.iterdir())


def test_noise_has_one_home():
    one, other = (
        BilinearSequenceRegression(rho=0.5, **given) for given in ({"channel": GaussianChannel(0.5)}, {"noise": 0.5})
    )
    assert one == other
    assert one.noise == one.parameters["noise"] == one.at_size(10).model.noise == 0.5
    given = {"d": 20, "instances": 1, "learner": "ridge"}
    assert simulate(one, [1.2], **given)["error"][0] == simulate(other, [1.2], **given)["error"][0] < 1
    one, other = (
        AttentionIndexed(0.5, **given)
        for given in ({"channel": LinearAttentionChannel(2, 0.5)}, {"channel": "linear", "noise": 0.5})
    )
    assert one == other
    assert one.noise == one.parameters["noise"] == 0.5
    with pytest.raises(IncompatibleError, match="noise"):
        BilinearSequenceRegression(rho=0.5, noise=0.1, channel=GaussianChannel(0.5))
    with pytest.raises(IncompatibleError, match="noise"):
        AttentionIndexed(0.5, noise=0.1, channel=LinearAttentionChannel(2, 0.5))
    with pytest.raises(IncompatibleError, match="not for one field of variance 1"):
        BilinearSequenceRegression(rho=0.5, channel=LinearAttentionChannel(2, 0.5))
    with pytest.raises(IncompatibleError, match="labels of 1 indices, and tokens = 2 have 3"):
        AttentionIndexed(0.5, channel=GaussianChannel(0.5))


def test_weights_of_heads_are_parameters():
    weights = np.array([[1.0], [2.0]])
    model = DeepAttention(head_weights=weights)
    before = identity(model)
    weights[0] = 5.0
    assert identity(model) == before
    assert model.parameters["head_weights"] == [[1.0], [2.0]]
    assert "head_weights" not in DeepAttention().parameters


@pytest.mark.slow
def test_two_functions_on_one_axis_are_two_points(tmp_path):
    links = [lambda h: 2.0 * h, lambda h: 3.0 * h]
    sweep = Sweep("bsr", {"channel": links, "alpha": [0.5]}, parameters={"rho": 0.5, "noise": 1.0})
    assert run_sweep(sweep, tmp_path).computed == 2
    assert run_sweep(sweep, tmp_path).computed == 0
    found = collect(tmp_path)
    assert len(set(found["channel"].values)) == 2
    expected = simulate_free(2.0), simulate_free(3.0)
    np.testing.assert_allclose(found["error"].values[:, 0], expected, rtol=1e-6)


def simulate_free(scale):
    from glassformer import limits

    return limits(BilinearSequenceRegression(rho=0.5, noise=1 / scale**2), [0.5])["error"][0]


def test_objects_and_equal_numbers_on_an_axis(tmp_path):
    channels = [GaussianChannel(0.5), GaussianChannel(1.0)]
    sweep = Sweep("bsr", {"channel": channels, "alpha": [0.5]}, parameters={"rho": 0.5})
    assert run_sweep(sweep, tmp_path).computed == 2
    assert len(set(collect(tmp_path)["channel"].values)) == 2
    with pytest.raises(ValueError, match="rho"):
        Sweep("bsr", {"rho": [1, 1.0], "alpha": [0.5]})


@pytest.mark.slow
def test_points_without_identity_are_never_read_from_the_cache(tmp_path):
    source = (n for n in [1])
    parameters = {"rho": 0.5, "noise": 0.1, "channel": lambda h: h if source else -h}
    sweep = Sweep("bsr", {"alpha": [0.5]}, parameters=parameters)
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="channel"):
            assert run_sweep(sweep, tmp_path).computed == 1
    assert np.isfinite(collect(tmp_path)["error"]).all()


def test_files_on_an_axis_count_by_their_functions(tmp_path):
    def keys():
        grid = {"link": ["links.py:one", "links.py:two"], "alpha": [0.5]}
        parameters = {"indices": 1, "noise": 0.1}
        return [point.key for point in Sweep("smi", grid, parameters=parameters, folder=str(tmp_path)).points]

    text = "def one(z):\n    return z[0, 0]\n\ndef two(z):\n    return 2.0 * z[0, 0]\n"
    (tmp_path / "links.py").write_text(text)
    before = keys()
    (tmp_path / "links.py").write_text(text.replace("2.0", "3.0"))
    after = keys()
    assert before[0] == after[0]
    assert before[1] != after[1]


@pytest.mark.slow
def test_a_compiled_link_follows_the_globals_that_it_reads(monkeypatch):
    fields = np.ones((3, 2, 1))
    model = SequenceMultiIndex(scaled, indices=2, tokens=1, noise=0.1).at_accuracy(Accuracy(points=32))
    targets = set()
    for factor in (2.0, 5.0):
        monkeypatch.setitem(globals(), "FACTOR", factor)
        again = SequenceMultiIndex(scaled, indices=2, tokens=1, noise=0.1).at_accuracy(Accuracy(points=32))
        for channel in (model.channel, again.channel):
            np.testing.assert_allclose(channel.label_from(fields, np.zeros(3)).ravel(), factor + 1)
        targets |= {identity(channel.functions) for channel in (model.channel, again.channel)}
    assert len(targets) == 2


def test_functions_without_identity_are_compiled_for_each_object():
    def link(held, factor):
        return lambda z: factor * z if held else z

    ones = np.ones(3)
    for factor in (2.0, 3.0):
        with jax.enable_x64(True):
            run = compiled.CachedJit(lambda z, inner: inner(z), inner=link((n for n in [1]), factor))
            np.testing.assert_allclose(run(ones), factor * ones)


@pytest.mark.slow
def test_the_number_of_compiled_functions_is_bounded(monkeypatch):
    monkeypatch.setattr(compiled, "_LARGEST", 4)

    class Held:
        """Lives as long as what was compiled with it."""

        def __init__(self, value):
            self.value = value

        def __call__(self, z):
            return self.value * z

    alive = []
    for k in range(compiled._LARGEST + 3):
        held = Held(float(k))
        alive.append(weakref.ref(held))
        assert compiled.CachedJit(lambda z, inner: inner(z), inner=held)(1.0).item() == k
        # Alike, and so not compiled again.
        compiled.CachedJit(lambda z, inner: inner(z), inner=Held(float(k)))(1.0)
        assert len(compiled._executables) <= compiled._LARGEST
    del held
    gc.collect()
    assert [reference() is None for reference in alive[:3]] == [True] * 3
