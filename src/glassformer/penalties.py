"""Penalties of regularised risk: of matrices, and of rows of weights."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "MatrixPenalty": "risk.penalties",
    "Penalty": "risk.penalties",
    "RowPenalty": "risk.rows.penalties",
    "WeightPenalty": "risk.rows.one_row_penalties",
    "penalty_of": "risk.penalties",
    "row_penalty": "risk.rows.penalties",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
