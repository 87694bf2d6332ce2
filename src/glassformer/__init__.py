"""Exact limits of learning from sequences of tokens, and the algorithms that reach them."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public names and where they live; imported at first use, so that the command line answers at once.
_HOME = {
    "AbsoluteChannel": "models.channels.absolute",
    "AttentionIndexed": "models",
    "BilinearSequenceRegression": "models",
    "ConvergenceError": "core.errors",
    "DataError": "core.errors",
    "GaussianChannel": "models.channels.gaussian",
    "GlassformerError": "core.errors",
    "IncompatibleError": "core.errors",
    "DeepAttention": "models.deep_attention",
    "DeepAttentionIndexed": "models.deep_attention_indexed",
    "DenseDesign": "models.designs.dense",
    "Iteration": "core.settings",
    "LinkChannel": "models.channels.link.channel",
    "ParameterError": "core.errors",
    "AveragedGradientDescent": "learners.gradient_descent",
    "BlindMessagePassing": "learners.blind",
    "VectorMessagePassing": "learners.vamp",
    "vamp": "learners.vamp",
    "vector_state_evolution": "theory.vector_state_evolution",
    "GradientDescent": "learners.gradient_descent",
    "MessagePassing": "learners.bayes",
    "NuclearNorm": "learners.convex",
    "OnlineSGD": "learners.online_sgd",
    "RegularisedRisk": "learners.regularised_risk",
    "Ridge": "learners.convex",
    "SGD": "learners.sgd",
    "best_nuclear_norm": "theory.nuclear_norm_risk",
    "least_nuclear_norm": "learners.algorithms.proximal",
    "ScalarChannel": "models.channels.scalar",
    "RectangularLaw": "models.spectra.rectangular",
    "SignChannel": "models.channels.sign",
    "SymmetricLaw": "models.spectra.symmetric",
    "SequenceMultiIndex": "models.multi_index",
    "Solution": "core.solution",
    "Status": "core.solution",
    "Sweep": "experiments.sweeps.plan",
    "Table": "core.results",
    "collect": "experiments.sweeps.collect",
    "conjugate_overlap": "theory.conjugate_overlap",
    "follow_branches": "theory.hysteresis",
    "landscape": "theory.free_entropy",
    "limits": "theory.limits",
    "nuclear_norm_risk": "theory.nuclear_norm_risk",
    "nuclear_norm_threshold": "models.spectra.nuclear_norm",
    "online_sgd": "theory.online_sgd",
    "plan": "learners.plan",
    "phase_diagram": "theory.phase_diagram",
    "diagnose": "learners.own_data.diagnosis",
    "DataWarning": "core.errors",
    "cross_validate": "learners.validation",
    "EstimatedModel": "learners.own_data.width",
    "estimate_model": "learners.own_data.width",
    "leave_one_out": "learners.validation",
    "risk_path": "learners.risk_path",
    "ridge_error": "learners.ridge",
    "run_sweep": "experiments.sweeps.run",
    "simulate": "experiments.simulation",
    "follow": "experiments.trajectories",
    "subspace_threshold": "theory.weak_recovery",
    "thresholds": "theory.thresholds",
    "trajectory": "theory.trajectory",
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
