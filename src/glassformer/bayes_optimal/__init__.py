"""Bayes-optimal theory: state evolution, limits, thresholds, free entropies and phase diagrams of every model.

- ``limits``, ``hysteresis``, ``trajectory``, ``thresholds``, ``phase_diagram``, ``free_entropy``: what users call
- ``evolution_map``: one step of state evolution; ``fixed_point``, ``sampled_fixed_point``, ``solve``: its fixed points
- ``equation_of_state``: the curve of all fixed points of one row; ``conjugate_overlap``: its inverse
- ``weak_recovery``, ``known_direction``, ``instability``, ``subspaces``, ``row_exponents``, ``bounds``: first overlaps
- ``assumed_width``: wrong priors; ``vector_state_evolution``: inputs of any singular values
"""
