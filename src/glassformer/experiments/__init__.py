"""Learners on simulated data, sweeps and text."""
