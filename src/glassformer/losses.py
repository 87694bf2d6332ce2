"""Losses of regularised risk, convex in the prediction."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "CrossEntropy": "risk.cross_entropy",
    "CustomLoss": "risk.custom_loss",
    "HardMargin": "risk.losses",
    "Hinge": "risk.losses",
    "Huber": "risk.losses",
    "Logistic": "risk.losses",
    "Loss": "risk.loss_base",
    "Square": "risk.losses",
    "SquaredHinge": "risk.losses",
    "loss_of": "risk.losses",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
