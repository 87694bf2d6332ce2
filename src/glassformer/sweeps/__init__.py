"""Sweeps: one verb on a grid of parameters, recorded point by point.

``sweep`` is the public class and its file; ``grid`` describes the points and tasks, ``learner_entry`` a learner, and
``types`` checks values. ``store`` keeps the records, ``run`` finds missing points, ``compute`` computes them on
``workers``, and ``collect`` returns one data set.
"""
