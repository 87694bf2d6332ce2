"""Bayes-optimal theory: state evolution, limits, thresholds, free entropies and phase diagrams of every model."""
