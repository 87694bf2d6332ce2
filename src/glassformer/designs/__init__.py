"""Designs: random or observed inputs, and the linear maps from signals to fields."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "DenseDesign": "designs.dense",
    "Design": "designs.base",
    "ProjectionDesign": "designs.projection",
    "QuadraticDesign": "designs.quadratic",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
