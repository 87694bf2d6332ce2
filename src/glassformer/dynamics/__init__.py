"""Dynamics: exact equations of training as a function of time.

- ``online_sgd``, ``online_path``: a new sample at every step, and the results
- ``mean_field``: samples that are used again; ``descent_settings``, ``descent_path``: their settings and results
"""
