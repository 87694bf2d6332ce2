"""Laws of the fields along the rows of the teacher: hidden tokens, mixtures, and laws of users."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "FieldLaw": "inputs.law",
    "FieldSampler": "inputs.field_sampler",
    "HiddenStates": "inputs.hidden_states",
    "HiddenToken": "inputs.hidden_token",
    "Mixture": "inputs.mixture",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
