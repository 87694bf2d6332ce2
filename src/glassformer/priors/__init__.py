"""Priors of the signal and their denoising problems."""
