"""Penalties of regularised risk: of singular values, eigenvalues and weights."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "ElasticNet": "risk.penalties",
    "GroupNorm": "risk.penalties",
    "Penalty": "risk.penalty_base",
    "penalty_of": "risk.penalties",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
