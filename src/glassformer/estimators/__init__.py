"""Baselines: other estimators and their theory."""
