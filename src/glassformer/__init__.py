"""Exact limits of learning from sequences of tokens, and the algorithms that reach them."""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

# Public names and where they live; imported at first use, so that the command line answers at once.
_HOME = {
    "AbsoluteChannel": "channels.scalar.absolute",
    "AttentionIndexed": "models",
    "BilinearSequenceRegression": "models",
    "ConvergenceError": "core.errors",
    "check_model": "testing",
    "gamp": "learners.gamp",
    "DataError": "core.errors",
    "GaussianChannel": "channels.scalar.gaussian",
    "GlassformerError": "core.errors",
    "IncompatibleError": "core.errors",
    "DeepAttention": "models.deep_attention",
    "DeepAttentionIndexed": "models.deep_aim",
    "DenseDesign": "designs.dense",
    "Iteration": "core.settings",
    "LinkChannel": "channels.link.channel",
    "ParameterError": "core.errors",
    "AveragedGradientDescent": "learners.gradient_descent",
    "BlindMessagePassing": "learners.blind_message_passing",
    "VectorMessagePassing": "learners.vamp",
    "vamp": "learners.vamp",
    "vector_state_evolution": "bayes_optimal.vector_state_evolution",
    "GradientDescent": "learners.gradient_descent",
    "MessagePassing": "learners.gamp",
    "NuclearNorm": "learners.nuclear_norm",
    "OnlineSGD": "learners.online_sgd",
    "RegularisedRisk": "learners.regularised_risk",
    "Ridge": "learners.ridge",
    "SGD": "learners.sgd",
    "best_nuclear_norm": "risk.nuclear_norm",
    "least_nuclear_norm": "learners.nuclear_norm",
    "ScalarChannel": "channels.scalar.base",
    "RectangularLaw": "random_matrices.rectangular",
    "SignChannel": "channels.scalar.sign",
    "SymmetricLaw": "random_matrices.symmetric",
    "SequenceMultiIndex": "models.smi",
    "Solution": "core.solution",
    "Status": "core.status",
    "Sweep": "experiments.sweeps.sweep",
    "Table": "core.results",
    "collect": "experiments.sweeps.collect",
    "conjugate_overlap": "bayes_optimal.conjugate_overlap",
    "follow_branches": "bayes_optimal.hysteresis",
    "landscape": "bayes_optimal.free_entropy",
    "limits": "bayes_optimal.limits",
    "nuclear_norm_risk": "risk.nuclear_norm",
    "nuclear_norm_threshold": "random_matrices.nuclear_norm",
    "online_sgd": "dynamics.online_sgd",
    "plan": "learners.plan",
    "phase_diagram": "bayes_optimal.phase_diagram",
    "diagnose": "data_analysis.diagnosis",
    "DataWarning": "core.errors",
    "cross_validate": "learners.validation",
    "EstimatedModel": "data_analysis.estimated_model",
    "estimate_model": "data_analysis.estimated_model",
    "leave_one_out": "learners.leave_one_out",
    "risk_path": "learners.risk_path",
    "ridge_error": "learners.ridge",
    "run_sweep": "experiments.sweeps.run",
    "simulate": "experiments.simulation",
    "follow": "experiments.trajectories",
    "state_evolution": "bayes_optimal.solve",
    "subspace_threshold": "bayes_optimal.weak_recovery",
    "thresholds": "bayes_optimal.thresholds",
    "trajectory": "experiments.trajectories",
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
