r"""Figures of the papers: recipes, and the one function that computes them.

``catalogue`` is the table of figures and writes their files. ``bsr``, ``aim``, ``risk``, ``row_risk``,
``positional``, ``smi``, ``layer_order``, ``online_sgd``, ``descent``, ``universality`` and ``text.figure`` have a
recipe for each figure; ``recipe`` computes one, ``drawing`` draws it.
``curves`` and ``panels`` have the panels that figures share; ``published`` compares with published numbers.

A new figure is a function that returns its :class:`~glassformer.papers.recipe.Recipe`, and a line of
``catalogue.FIGURES``. This one draws the Bayes-optimal error of two widths and that of the nuclear norm, with runs on
the second and marks of perfect recovery; two columns of the data say which curve a row belongs to:

    >>> import numpy as np
    >>> from glassformer import BilinearSequenceRegression, NuclearNorm, RegularisedRisk
    >>> from glassformer.papers.curves import Curve, CurvesPanel, Runs
    >>> from glassformer.papers.recipe import Recipe, compute
    >>> def widths(quick: bool) -> Recipe:
    ...     # Smaller sizes and fewer points where the figure shall be quick.
    ...     size, points = ((12, 2), 5) if quick else ((50, 8), 200)
    ...     model = BilinearSequenceRegression(beta=1, rho=0.2)
    ...     # One mark is the mean of the runs at one sample ratio, with its standard error.
    ...     runs = Runs("nuclear norm", NuclearNorm(), [0.5], *size, column="relative_error")
    ...     curves = [
    ...         # Without a learner: the Bayes-optimal error. With one: its theory.
    ...         Curve(r"$\rho = 0.2$", model),
    ...         Curve(r"nuclear norm, $\rho = 0.2$", model, RegularisedRisk(strength=0.0), [runs], style="--"),
    ...     ]
    ...     panel = CurvesPanel(curves, np.linspace(0, 1, points)[1:], "no noise", marks=["perfect_recovery"])
    ...     return Recipe([panel], ("source", "curve", "alpha", "error", "status"), ["source", "curve"])
    >>> content = compute(widths(quick=True), quick=True)
    >>> content.data["source"].unique().tolist()
    ['theory', 'nuclear norm']
    >>> content.axes[0].settings["title"]
    'no noise\nmarks: mean of 2 runs at $d = 12$ and its standard error, relative to $\\|S\\|_F^2$'
"""
