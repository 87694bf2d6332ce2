"""
Does my attention find the token that matters?
==============================================

A question: one of the tokens of a sequence carries the answer, and nobody says which one. How many samples does it take
to find it, and does an attention layer that is trained by gradient descent find it?
"""

# %%
# A hidden token
# --------------
# All tokens are noise, but one, at a hidden place, carries a signal of size ``sqrt(signal)`` along a row ``k``. The
# label reads a second row ``v`` at this place: the model has two rows, and a link of the fields and the place.

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.nn import softmax

from glassformer import SGD, Accuracy, SequenceMultiIndex, limits, simulate, trajectory
from glassformer.inputs import HiddenToken


def value(Z, place):
    return Z[1, place]


model = SequenceMultiIndex(value, indices=2, tokens=3, noise=0.1, inputs=HiddenToken(2.0))
model = model.at_accuracy(Accuracy(points=256))

# %%
# The best possible error
# -----------------------
# The signal is seen in the inputs alone, so that ``k`` is learned at any sample ratio. ``state_error`` is the share of
# hidden places that the best estimator misses on new inputs, and ``state_with_label_error`` the share that it misses if
# it also sees the label.

alpha = np.array([0.5, 1.0, 2.0, 4.0])
table = limits(model, alpha)
table.to_pandas()[["alpha", "row_error_1", "row_error_2", "prediction_error", "state_error", "state_with_label_error"]]

# %%
# The place remains uncertain for many samples as well: this signal is not much larger than the noise. A stronger one is
# found more often.

for signal in (1.0, 4.0, 9.0):
    found = limits(model.varied(**{"inputs.signal": signal}), [4.0])
    print(signal, found["state_error"].round(3), found["prediction_error"].round(3))

# %%
# Message passing reaches these errors on data.

runs = simulate(model, [2.0], "gamp", d=300, instances=3)
runs.to_pandas()[["alpha", "error", "standard_error", "theory", "status"]]

# %%
# What attention learns
# ---------------------
# A layer with a key and a value weighs the values by the softmax of its keys. The equations of gradient descent give
# its errors after every step: the cosine of its key with ``k`` says whether it finds the token.


def attention(Z):
    return jnp.sum(softmax(Z[0]) * Z[1])


learner = SGD(student=attention, learning_rate=0.1, weight_decay=0.05, start="overlap:0.3")
few = Accuracy(trajectories=4096)
path = trajectory(model, [4.0], learner, steps=10, accuracy=few)
steps = path.to_pandas()
steps[["iteration", "cosine_1", "cosine_2", "prediction_error", "training_loss"]].iloc[::5]

# %%
# The picture: the key is found after the value, and the error stays above the best possible one.

plt.plot(steps["iteration"], steps["cosine_1"], label="key")
plt.plot(steps["iteration"], steps["cosine_2"], label="value")
plt.plot(steps["iteration"], steps["prediction_error"], label="prediction error")
plt.axhline(table["prediction_error"][-1], color="gray", ls=":", label="best possible error")
plt.xlabel("step")
plt.legend()
