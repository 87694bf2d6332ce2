"""Priors of the signal and their denoising problems.

- ``base``: the interface; ``resolve``: the argument ``prior=`` of models
- ``bilinear``, ``wishart``, ``spectrum``: matrices of extensive width, denoised by ``spectral``
- ``factors``: products of fixed width; ``layered``: independent layers
- ``rows``, ``separable``: rows of weights; ``law``, ``laws``, ``denoised``: laws of one weight
- ``measured``: denoisers that are not Bayes-optimal, with the error measured on data
"""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "Discrete": "priors.laws",
    "GaussBernoulli": "priors.laws",
    "Gaussian": "priors.laws",
    "Law": "priors.law",
    "MixtureLaw": "priors.law",
    "Prior": "priors.base",
    "Rademacher": "priors.laws",
    "ScalarPrior": "priors.base",
    "Side": "priors.base",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
