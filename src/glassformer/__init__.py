"""Exact limits of learning from sequences of tokens, and the algorithms that reach them."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public names and where they live; imported at first use, so that the command line answers at once.
_HOME = {
    "AbsoluteChannel": "channels.absolute",
    "AttentionIndexed": "models",
    "BilinearSequenceRegression": "models",
    "Channel": "channels.base",
    "ConvergenceError": "errors",
    "DataError": "errors",
    "GaussianChannel": "channels.gaussian",
    "GlassformerError": "errors",
    "IncompatibleError": "errors",
    "DeepAttention": "models.deep_attention",
    "DeepAttentionIndexed": "models.deep_attention_indexed",
    "DenseDesign": "designs.dense",
    "Descent": "settings",
    "Iteration": "settings",
    "LinkChannel": "channels.link",
    "MultiPass": "settings",
    "ParameterError": "errors",
    "Regularised": "settings",
    "Training": "settings",
    "least_nuclear_norm": "estimators.nuclear_norm_descent",
    "RectangularLaw": "spectra.rectangular",
    "SignChannel": "channels.sign",
    "SymmetricLaw": "spectra.symmetric",
    "SequenceMultiIndex": "models.multi_index",
    "Solution": "solution",
    "Status": "solution",
    "Sweep": "sweeps.plan",
    "Table": "results",
    "collect": "sweeps.collect",
    "conjugate_overlap": "conjugates",
    "follow_branches": "hysteresis",
    "landscape": "free_entropy",
    "limits": "bayes_optimal",
    "nuclear_norm_threshold": "estimators.nuclear_norm",
    "phase_diagram": "diagrams",
    "ridge_error": "estimators.ridge",
    "run_sweep": "sweeps.run",
    "simulate": "simulation",
    "thresholds": "recovery",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
