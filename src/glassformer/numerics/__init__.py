"""Quadrature, roots, quasi-random points and batches; nothing of the theory."""
