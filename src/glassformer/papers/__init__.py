"""Figures of the papers.

``catalogue`` names them and writes their files. ``bsr``, ``aim``, ``risk``, ``smi``, ``layer_order``, ``online_sgd``
and ``text.figure`` have a recipe for each, which returns a ``FigureContent``; ``drawing`` draws it. ``error_curves``
computes errors against the sample ratio, with runs beside them; ``published`` reads published numbers.
"""
