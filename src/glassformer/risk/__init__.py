"""Regularised risk in the limit of large sizes: losses, penalties, fixed-point equations, tuning and thresholds."""
