"""Channels of one field: sign, absolute value, Gaussian noise and their tables."""
