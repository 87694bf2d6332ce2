"""Numerical methods: quadrature, roots, quasi-random points, small matrices, compiled functions."""
