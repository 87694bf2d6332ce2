"""
Does my transformer learn in context, or remember?
==================================================

A question: a transformer is trained on sequences of labelled examples, each from one of several tasks. Has it learned
to solve a new task from its context, or does it recognise the tasks of the training?
"""

# %%
# Regression in context
# ---------------------
# Every sequence has a task ``w``: ``context`` times ``d`` labelled tokens, and a query whose label is to be
# predicted. There are ``tasks`` times ``d`` tasks in training. A layer of linear attention has ``d**2`` weights, so
# that the sample ratio ``alpha`` counts sequences over ``d**2``.

import matplotlib.pyplot as plt
import numpy as np

from glassformer import SGD, InContextRegression, Ridge, compare, limits, simulate, trajectory
from glassformer.models.in_context_references import in_context_references, layer_errors

model = InContextRegression(context=5.0, tasks=0.5, noise=0.1)
table = limits(model, [0.5, 2.0, 8.0], "ridge")
table.to_pandas()[["alpha", "test_error", "new_task_error", "training_error", "strength"]]

# %%
# ``test_error`` is that on new sequences of the training tasks, and ``new_task_error`` that on new tasks, both with
# the noise of the labels. With half as many tasks as dimensions the layer remembers: more sequences lower both errors,
# and the second one stays at more than three times the first.
#
# How many tasks does it take?
# ----------------------------
# More tasks make the first error larger and the second one smaller, until both are the same: the layer has then
# learned to learn. Between the two there is no jump at this length of the context.

tasks = np.geomspace(0.1, 10, 25)
errors = [limits(model.varied(tasks=float(one)), [4.0], "ridge") for one in tasks]
for name, label in {"test_error": "training tasks", "new_task_error": "new tasks"}.items():
    plt.semilogx(tasks, [one[name][0] for one in errors], label=label)
best = in_context_references(model)["best_for_new_tasks"]
plt.axhline(best.new_task_error, color="gray", ls=":", label="best possible for new tasks")
plt.xlabel("tasks over dimension")
plt.ylabel("squared error")
plt.legend()

# %%
# The dotted line is the best that any predictor can do for a new task: ridge regression on the tokens of the context.
# One layer of linear attention stays above it, even with infinitely many sequences. It takes the first step of an
# iteration that ends there, and each further layer could take another step.

trained, new = layer_errors(model.varied(tasks=np.inf), 6)
print("error on new tasks after each layer:", new.round(4), "best possible:", round(best.new_task_error, 4))

# %%
# Runs
# ----
# Data are drawn at a finite dimension, and the layer is fitted to them. Its errors are exact: they are averages over
# all sequences and need no test set. They differ from theory by terms of order ``1/d``.

runs = simulate(model, [2.0], "ridge", d=40, instances=4)
runs.to_pandas()[["test_error", "test_standard_error", "test_theory", "new_task_error", "new_task_theory"]]

# %%
# Without a penalty errors rise towards as many sequences as weights: a double descent, which the best penalty
# removes.

found = compare(model, np.linspace(0.2, 3, 57), ["ridge", Ridge(0.02), Ridge(0.0)], quantity="new_task_error")
found.plot()
plt.ylim(0, 4)

# %%
# When to stop
# ------------
# Descent on the weights has exact errors after every step. It learns the training tasks and the way to new ones at
# first, and noise later: it is best stopped early, earlier for new tasks than for those of the training.

path = trajectory(model, [0.8], SGD(start="small:1e-6"), steps=40)
steps = path.to_pandas()
plt.figure()
for name in ("test_error", "new_task_error", "training_error"):
    plt.plot(steps["iteration"], steps[name], label=name.replace("_", " "))
plt.xlabel("step")
plt.legend()
print("best step for training tasks:", steps["test_error"].argmin(), "for new tasks:", steps["new_task_error"].argmin())

# %%
# Another test
# ------------
# New tasks may come with other contexts and noise than those of the training. A layer that was trained on short
# contexts gains little from long ones: its weights shrink as much as short contexts require.

for context in (5.0, 20.0, np.inf):
    other = limits(model.varied(tasks=2.0, test_context=context), [4.0], "ridge")
    print("test context", context, "error on new tasks", other["new_task_error"].round(4))
