"""Quadrature, roots, quasi-random points, small matrices, compiled functions; nothing of the theory."""
