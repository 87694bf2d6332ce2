"""Learners on simulated data: ``simulation``, ``trajectories`` step by step, ``instances`` for runs, and ``sweeps``."""
