"""Models: each combines a prior, a design and a channel, and is constructed from the parameters of the papers."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "AttentionIndexed": "models.aim",
    "BilinearSequenceRegression": "models.bsr",
    "DeepAttention": "models.deep_attention",
    "DeepAttentionIndexed": "models.deep_aim",
    "FiniteSize": "models.base",
    "Model": "models.base",
    "SequenceMultiIndex": "models.smi",
    "counting_threshold": "models.base",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
