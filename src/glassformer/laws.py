"""Laws of singular values, eigenvalues and weights, and the transitions that follow from them."""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "Law": "priors.law",
    "RectangularLaw": "random_matrices.rectangular",
    "Spectrum": "random_matrices.given",
    "SymmetricLaw": "random_matrices.symmetric",
    "nuclear_norm_threshold": "random_matrices.nuclear_norm",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
