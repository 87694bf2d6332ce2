"""Dynamics: exact equations of training as a function of time."""
