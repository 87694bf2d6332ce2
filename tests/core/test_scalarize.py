"""Functions written out number by number say what they say of one data point after the other."""

import logging

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from glassformer.numerics import scalarize as module
from glassformer.numerics.scalarize import entry_list, join_entries, no_recompute, on_entries, scalarize, split_entries


def looped(x):
    return jax.lax.fori_loop(0, 3, lambda k, y: y / (1 + k + jnp.sum(y**2)), x)


def branching(x):
    return jax.lax.switch(
        (x[0] > 0).astype(int), [jnp.sin, lambda y: jnp.linalg.inv(jnp.eye(4) + jnp.outer(y, y))[0]], x
    )


FUNCTIONS = {
    "moved": lambda x: jnp.concatenate([x[::-1], x[np.array([2, 0])], jnp.roll(x, 1)[:2], jnp.zeros(0)]),
    "products": lambda x: (x.reshape(2, 2) @ x.reshape(2, 2).T).ravel() + jnp.outer(x, x).sum(axis=1),
    "softmax": jax.nn.softmax,
    "slope": lambda x: jax.jacfwd(lambda y: jnp.tanh(y) * jnp.max(y))(x).ravel(),
    "loop": looped,
    "branches": branching,
    "nothing summed": lambda x: x + jnp.sum(x[:0]),
    "looked up": lambda x: x[jnp.argmax(x)] + jnp.cumsum(x),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_of_many_data_points_at_once(name):
    function = FUNCTIONS[name]
    with jax.enable_x64(True):
        points = np.random.default_rng(0).standard_normal((4, 3, 5))
        found = jax.jit(lambda x: join_entries(on_entries(function)(split_entries(x, 1))))(points)
        expected = jax.jit(jax.vmap(jax.vmap(function, 1, 1), 2, 2))(points)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)
        alone = jax.jit(scalarize(function))(points[:, 0, 0])
        np.testing.assert_allclose(alone, expected[:, 0, 0], rtol=1e-12, atol=1e-14)


def test_shapes_of_entries_broadcast():
    with jax.enable_x64(True):
        x = entry_list([jnp.arange(3.0)[:, None], jnp.ones(2)])
        assert on_entries(lambda v: v[0] * v[1])(x).item().shape == (3, 2)


def test_no_recompute_returns_the_same_numbers():
    values = np.array([0.0, -0.0, 1e-300, np.inf, -np.inf, np.nan])
    with jax.enable_x64(True):
        np.testing.assert_array_equal(no_recompute(jnp.asarray(values)), values)


def test_a_loop_is_written_out(monkeypatch):
    monkeypatch.setattr(module, "_vmap", None)
    with jax.enable_x64(True):
        points = np.random.default_rng(1).standard_normal((3, 4))
        found = join_entries(on_entries(looped)(split_entries(points, 1)))
        np.testing.assert_allclose(found, jax.vmap(looped, 1, 1)(points), rtol=1e-12)


def test_an_equation_whose_parameters_have_other_names_stays_as_it_is(monkeypatch, caplog):
    def unknown(equation, values):
        return equation.params["name of another version"]

    monkeypatch.setitem(module._RULES, "scan", unknown)
    caplog.set_level(logging.DEBUG, module.__name__)
    with jax.enable_x64(True):
        points = np.random.default_rng(1).standard_normal((3, 4))
        found = join_entries(on_entries(looped)(split_entries(points, 1)))
        np.testing.assert_allclose(found, jax.vmap(looped, 1, 1)(points), rtol=1e-12)
    assert "primitive scan is not rewritten on scalars: KeyError: 'name of another version'" in caplog.messages


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (jnp.cumsum, "primitive cumsum is not rewritten on scalars: no rule for it"),
        (lambda x: x[jnp.argsort(x)], "primitive gather is not rewritten on scalars: ValueError: places differ"),
        (
            lambda x: jax.lax.scan(lambda total, own: (total + own, total), 0.0, x)[1],
            "primitive scan is not rewritten on scalars: ValueError: reads or stacks arrays step by step",
        ),
    ],
    ids=["no rule", "places", "stacking loop"],
)
def test_the_log_names_the_operation_that_is_not_rewritten(function, message, caplog):
    caplog.set_level(logging.DEBUG, module.__name__)
    with jax.enable_x64(True):
        jax.make_jaxpr(scalarize(function))(np.arange(3.0))
    assert any(line.startswith(message) for line in caplog.messages)


def test_the_log_says_that_a_function_is_too_large(monkeypatch, caplog):
    monkeypatch.setattr(module, "_LARGEST", 2)
    caplog.set_level(logging.DEBUG, module.__name__)
    with jax.enable_x64(True):
        jax.make_jaxpr(scalarize(lambda x: 2 * x))(np.arange(3.0))
    assert caplog.messages == ["a function of 3 numbers is not rewritten on scalars: more than 2"]


def test_a_function_that_is_rewritten_logs_nothing(caplog):
    caplog.set_level(logging.DEBUG, module.__name__)
    with jax.enable_x64(True):
        jax.make_jaxpr(scalarize(lambda x: jax.nn.softmax(jnp.outer(x, x), axis=-1)))(np.arange(3.0))
    assert caplog.messages == []
