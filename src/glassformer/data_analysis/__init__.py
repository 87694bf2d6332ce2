"""Analysis of the user's own data. ``forecast``, which needs scikit-learn, is in :mod:`glassformer.sklearn`.

===============  =======================================================================
diagnosis        ``diagnose``: properties of inputs and labels, and the theories that apply to them
directions       singular values of an estimate beside those of noise alone
estimated_model  ``estimate_model``: width of the signal and noise of the labels
signals          families of signals of unknown width
targets          labels and the parameters of their channel
width            posterior of the width
===============  =======================================================================
"""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "CrossValidation": "learners.validation",
    "Diagnosis": "data_analysis.diagnosis",
    "Directions": "data_analysis.directions",
    "EstimatedModel": "data_analysis.estimated_model",
    "RiskPath": "learners.risk_path",
    "cross_validate": "learners.validation",
    "diagnose": "data_analysis.diagnosis",
    "estimate_model": "data_analysis.estimated_model",
    "leave_one_out": "learners.leave_one_out",
    "risk_path": "learners.risk_path",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
