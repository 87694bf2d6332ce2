"""
A model of your own
===================

From a function to its learning curve: from how many samples it can be learned, and which error message passing
reaches. The function is a *link*: it takes the fields of one sample, ``Z = W X^T / sqrt(d)``, and returns the label.
"""

# %%
# The link
# --------
# Two hidden directions and one token: the second direction decides how much of the first one is seen. JAX must be able
# to trace the function, so it is written with ``jax.numpy``. Averages over data are sampled. The ``Accuracy`` is an
# argument of every verb: 64 data points per replica keep this page quick, with error bars (``error_estimate``) of some
# per cent. With the default, 2048, they are about ten times smaller.

import tempfile
from pathlib import Path

import jax.numpy as jnp

from glassformer import Accuracy, SequenceMultiIndex, limits, simulate, thresholds


def gated(Z):  # one row per direction, one column per token
    return Z[0, 0] * jnp.tanh(Z[1, 0])


model = SequenceMultiIndex(gated, indices=2, tokens=1, noise=0.1)
quick = Accuracy(points=64)

# %%
# Where does learning begin?
# --------------------------
# Results are shown as tables. Statuses other than ``converged`` are marked, and their remedies are below the table.

thresholds(model, accuracy=quick)

# %%
# The learning curve
# ------------------
# Theory raises a ``ConvergenceError`` if a point did not converge. ``throw=False`` returns the table instead, in which
# such points have another status.

curve = limits(model, [1.5, 3.0, 5.0], throw=False, accuracy=quick)
curve

# %%
# Every result has a method ``plot``. With a path it saves the picture as well, in the format of the ending. ``.figure``
# is the figure of Matplotlib.

picture = Path(tempfile.gettempdir()) / "own_model.png"
print("picture saved:", picture)
curve.plot(picture)

# %%
# Does message passing reach this error?
# --------------------------------------
# ``simulate`` draws data and learns from them. The table has the error of the runs and the theory of the same sizes.

runs = simulate(model, 5.0, d=60, instances=1, seed=0, accuracy=quick)
runs.plot()

# %%
# What next: ``glassformer.testing.check_model(model)`` compares the parts of a model with each other, and explains what
# does not fit. Label noise of any law, priors and channels of your own are in :doc:`/own-parts`; the same model on the
# command line is ``glassformer limits smi --link links.py:gated --indices 2 --tokens 1 --noise 0.1 --alpha 1:5:5``.
