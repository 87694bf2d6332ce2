"""Sweeps: one computation on a grid of parameters, recorded point by point.

``sweep`` describes the grid and its tasks, ``types`` checks its values, ``store`` keeps the records, ``run`` computes
missing points on ``workers``, and ``collect`` returns one data set.
"""
