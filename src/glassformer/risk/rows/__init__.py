"""Regularised risk of models of rows: any student on any sequence multi-index model.

- ``student``: what is fitted, and the loss; ``proximal_map``, ``averages``: its state evolution on any teacher
- ``weights``, ``problem``, ``fixed_points``, ``limits``: one step, its fixed points, and what they reach
- ``one_row`` and its ``averages``, ``labels``, ``weights``: one convex row, by quadrature
- ``comparison``, ``margins``, ``thresholds``, ``trajectory``: quality of the student, where it changes, and in time
"""
