"""Priors of the signal and their denoising problems.

- ``base``: the interface; ``resolve``: the argument ``prior=`` of models
- ``bilinear``, ``wishart``, ``spectrum``: matrices of extensive width, denoised by ``spectral``
- ``factors``: products of fixed width; ``layered``: independent layers
- ``rows``, ``separable``: rows of weights; ``law``, ``laws``, ``denoised``: laws of one weight
- ``measured``: denoisers that are not Bayes-optimal, with the error measured on data
"""
