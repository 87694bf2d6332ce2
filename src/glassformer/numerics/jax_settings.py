"""Settings of JAX for the computations of this package, whatever the settings of the process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import jax

from glassformer.core.errors import BackendError

# Environment variables that can prevent JAX from starting, the likeliest first.
_VARIABLES = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS")


@contextmanager
def jax_settings(double: bool | None = True, required: bool = True) -> Iterator[None]:
    """Set double or single precision, full precision of products, and the default rules for promotion and transfers.

    The strict modes of JAX do not allow arrays of NumPy, Python numbers and arrays of JAX in one expression. Graphics
    processors multiply matrices of single precision with three digits unless they are told otherwise.

    Args:
        double: whether new arrays have double precision; None for the precision of the process.
        required: False if the computation may not need JAX at all.

    Raises:
        BackendError: JAX cannot start.

    Example:
        >>> import jax.numpy as jnp
        >>> with jax.numpy_rank_promotion("raise"), jax_settings():
        ...     (jnp.ones((2, 2)) * jnp.ones(2)).dtype
        dtype('float64')
    """
    if required:
        require_backend()
    with (
        jax.enable_x64(jax.config.jax_enable_x64 if double is None else double),  # type: ignore[attr-defined]
        jax.numpy_rank_promotion("allow"),
        jax.numpy_dtype_promotion("standard"),
        jax.transfer_guard("allow"),
        jax.default_matmul_precision("highest"),
    ):
        yield


@cache
def require_backend() -> None:
    """Raise unless JAX has a device to compute on and may compile.

    Raises:
        BackendError: there is no device, or compiling is switched off. The message names the environment variable that
            JAX reads.
    """
    if getattr(jax.config, "jax_no_tracing", False):
        raise BackendError("JAX cannot compile with JAX_NO_TRACING = 1 (jax.config.jax_no_tracing): unset it")
    try:
        jax.default_backend()
    except Exception as error:
        given = (f"{name} = {os.environ[name]}" for name in _VARIABLES if os.environ.get(name))
        found = next(given, f"jax.config.jax_platforms = {jax.config.jax_platforms}")  # type: ignore[attr-defined]
        cause = str(error).splitlines()[0] if str(error) else type(error).__name__
        remedy = "unset it, set JAX_PLATFORMS=cpu, or install the plugin it asks for"
        raise BackendError(f"JAX cannot start with {found} ({cause}): {remedy}") from error
