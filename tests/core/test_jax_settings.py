"""The settings of JAX that a process or its environment has chosen change no number; a broken one is named."""

from __future__ import annotations

import threading

import jax
import jax.numpy as jnp
import pytest

from glassformer import (
    BilinearSequenceRegression,
    GradientDescent,
    OnlineSGD,
    SequenceMultiIndex,
    limits,
    simulate,
)
from glassformer.cli import doctor
from glassformer.core.errors import BackendError
from glassformer.core.resources import usable_cores
from glassformer.numerics.batching import on_all_cores
from glassformer.numerics.jax_settings import require_backend

STRICT = {
    "jax_numpy_rank_promotion": "raise",
    "jax_numpy_dtype_promotion": "strict",
    "jax_transfer_guard": "disallow",
}


COMPUTATIONS = {
    "link of two indices": lambda: doctor.CHECKS["two indices"](),
    "gradient descent": lambda: simulate(
        BilinearSequenceRegression(rho=0.5, noise=0.1), 0.6, GradientDescent(steps=20), d=8, instances=1, seed=0
    )["error"],
    "online": lambda: simulate(SequenceMultiIndex(lambda z: z[0, 0] ** 2), 1.0, OnlineSGD(), d=10, instances=1, seed=0)[
        "error"
    ],
}


@pytest.fixture
def strict():
    before = {name: getattr(jax.config, name) for name in STRICT}
    for name, value in STRICT.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.thorough if "link" in name else ()) for name in COMPUTATIONS],
)
def test_results_do_not_depend_on_strict_modes_of_jax(name, strict):
    found = COMPUTATIONS[name]()
    for option, value in zip(STRICT, ("allow", "standard", "allow"), strict=True):
        jax.config.update(option, value)
    assert found == COMPUTATIONS[name]()


@pytest.fixture
def broken(monkeypatch):
    """As with JAX_PLATFORMS=cuda and no plugin for it."""

    def refuse():
        raise AssertionError

    require_backend.cache_clear()
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    monkeypatch.setattr(jax, "default_backend", refuse)
    yield
    require_backend.cache_clear()


def test_a_platform_that_is_missing_is_named(broken):
    with pytest.raises(BackendError, match=r"JAX_PLATFORMS = cuda .*set JAX_PLATFORMS=cpu"):
        limits(SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), noise=0.5), 1.0)
    assert doctor.machine()["devices"][0].startswith("none: JAX cannot start with JAX_PLATFORMS = cuda")


def test_a_link_that_fails_for_want_of_a_platform_is_not_blamed(broken):
    def failing(h):
        raise AssertionError

    with pytest.raises(BackendError, match="JAX_PLATFORMS"):
        BilinearSequenceRegression(rho=0.5, channel=failing)


def test_a_link_is_not_blamed_where_compiling_is_switched_off():
    require_backend.cache_clear()
    jax.config.update("jax_no_tracing", True)
    try:
        with pytest.raises(BackendError, match="JAX_NO_TRACING = 1"):
            limits(SequenceMultiIndex(lambda z: jnp.tanh(z[0, 0]), noise=0.5), 1.0)
    finally:
        jax.config.update("jax_no_tracing", False)
        require_backend.cache_clear()


def test_work_on_all_cores_takes_the_threads_that_a_job_allows(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cores = usable_cores()
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert usable_cores() == 1
    threads = set(on_all_cores(lambda _: threading.get_ident(), list(range(8))))
    assert threads == {threading.get_ident()}
    for text in ("many", "", "1000000"):
        monkeypatch.setenv("OMP_NUM_THREADS", text)
        assert usable_cores() == cores
