"""Sweeps: one computation on a grid of parameters, kept point by point."""
