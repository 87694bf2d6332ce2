"""Models: each combines a prior, a design and a channel, and is constructed from the parameters of the papers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from glassformer.models.aim import AttentionIndexed
    from glassformer.models.base import FiniteSize, Model, counting_threshold
    from glassformer.models.bsr import BilinearSequenceRegression

__all__ = ["AttentionIndexed", "BilinearSequenceRegression", "FiniteSize", "Model", "counting_threshold"]

# Imported at first use: every command line reads the table of models, and few need the classes.
_HOME = {"AttentionIndexed": "aim", "BilinearSequenceRegression": "bsr"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME.get(name, 'base')}"), name)
