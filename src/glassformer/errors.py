"""Errors and warnings of the package, one class for each kind of mistake."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "BackendError": "core.errors",
    "ConvergenceError": "core.errors",
    "DataError": "core.errors",
    "DataWarning": "core.errors",
    "GlassformerError": "core.errors",
    "IncompatibleError": "core.errors",
    "LinkError": "core.errors",
    "ParameterError": "core.errors",
    "RenamedError": "core.errors",
    "UnidentifiedError": "core.errors",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
