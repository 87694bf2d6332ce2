"""Exact equations of training in time."""
