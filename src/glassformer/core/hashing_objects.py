"""What kind of object something is, as far as its content is concerned, and where it comes from."""

from __future__ import annotations

import dataclasses
import functools
import sys
from types import FunctionType, GetSetDescriptorType, MemberDescriptorType
from typing import Any

import numpy as np

from glassformer.core.errors import UnidentifiedError
from glassformer.core.provenance import is_own, version_of_module


def is_own_data(value: Any) -> bool:
    """Whether this is an instance of a data class of this package."""
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and is_own(type(value))


def is_written(name: str, part: Any) -> bool:
    """Whether this was written into a class, other than what Python keeps there."""
    special = name == "_abc_impl" or (name.startswith("__") and name.endswith("__") and not callable(part))
    return not special and not isinstance(part, (MemberDescriptorType, GetSetDescriptorType))


def is_derived(part: Any) -> bool:
    """Whether this is a property whose value is kept with its object."""
    return isinstance(part, functools.cached_property)


def is_wrapper(value: Any) -> bool:
    """Whether this is a function that an installed package has compiled or cached, not in Python."""
    kind = type(value)
    compiled = not isinstance(getattr(kind, "__call__", None), FunctionType)  # noqa: B004
    return compiled and callable(getattr(value, "__wrapped__", None)) and bool(version_of_module(kind.__module__))


def is_device_array(value: Any) -> bool:
    """Whether this is an array of JAX."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.Array)


def name_of(value: Any) -> str:
    """As it is written within its module; empty where it has none."""
    return str(getattr(value, "__qualname__", None) or getattr(value, "__name__", ""))


def is_importable(value: Any) -> bool:
    """Whether an installed module holds this very object under its name, so that its version tells it."""
    if isinstance(value, np.ufunc):
        modules = [sys.modules.get(name) for name in ("numpy", "scipy.special")]
        return any(getattr(module, value.__name__, None) is value for module in modules)
    module = getattr(value, "__module__", None)
    if not isinstance(module, str) or not version_of_module(module):
        return False
    found: Any = sys.modules[module]
    for part in name_of(value).split("."):
        found = getattr(found, part, None)
    return found is value


def installed(value: Any) -> str:
    """The module and the version of something that belongs to an installed one."""
    module = "numpy" if isinstance(value, np.ufunc) else getattr(value, "__module__", None) or "builtins"
    home = version_of_module(module)
    if not home:
        raise UnidentifiedError(f"{value.__name__} is compiled, and no version is known of it")
    return f"{module} {home}"
