"""Learners on simulated data: ``simulation``, ``trajectories`` (errors after every step), ``instances``, ``sweeps``."""
