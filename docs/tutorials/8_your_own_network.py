"""
Your own network
================

A question: how close does a small transformer, trained in the usual way, come to the best possible error on data whose
optimum is known? The network and its training are a function of JAX and optax. ``compare`` draws them beside the
Bayes-optimal curve.
"""

# %%
# The task
# --------
# Labels are the attention matrices of two softmax layers with a skip connection, on two tokens, with Gaussian noise on
# every entry. The sample ratio is ``alpha = n/d``. The averages of the theory are sampled: 128 data points per replica
# keep this page quick.

import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import optax

from glassformer import Accuracy, DeepAttention, compare
from glassformer.learners import OwnLearner

model = DeepAttention(depth=2, tokens=2, skip=1.0, noise=0.01)

# %%
# The network
# -----------
# Keys and queries are matrices of shape (d, width). A layer adds to every token the mean of the tokens under its
# attention, and the output is the attention of the last layer. A network whose keys are its queries, of width one, can
# represent the labels. A wide network with keys and queries of its own is what one would write without knowing them.


def scores(layer, X):
    """Logarithms of an attention matrix, of one sequence of shape (L, d)."""
    return (X @ layer[0]) @ (X @ layer[-1]).T / X.shape[-1]


def network(weights, X):
    *first, last = weights
    for layer in first:
        X = X + jax.nn.softmax(scores(layer, X)) @ X
    return jax.nn.softmax(scores(last, X))


# %%
# Its training
# ------------
# ``fit(X, y, rng)`` has inputs of shape (n, L, d), labels of shape (n, L, L) and a generator of NumPy, and returns a
# function of new inputs. Adam descends the mean squared error with weight decay and a cosine schedule of its rate.


def training(width, tied, decay, steps=600, rate=0.1):
    def fit(X, y, rng):
        shape = (2, 1 if tied else 2, X.shape[-1], width)
        weights = jnp.asarray(rng.standard_normal(shape)) / width**0.5
        optimizer = optax.adamw(optax.cosine_decay_schedule(rate, steps), weight_decay=decay)

        def loss(weights):
            return jnp.mean((jax.vmap(network, (None, 0))(weights, X) - y) ** 2)

        def step(carry, _):
            weights, state = carry
            updates, state = optimizer.update(jax.grad(loss)(weights), state, weights)
            return (optax.apply_updates(weights, updates), state), None

        @jax.jit
        def descended(weights):
            return jax.lax.scan(step, (weights, optimizer.init(weights)), length=steps)[0][0]

        weights = descended(weights)
        return jax.vmap(lambda X: network(weights, X))

    return fit


# %%
# Beside the limits
# -----------------
# A function is a learner; ``OwnLearner`` gives it a name for the legend. Training claims no signal, so that the
# quantity is an error on labels: ``prediction_error``, the squared error on new labels without their noise.

learners = [
    "gamp",
    OwnLearner(training(width=1, tied=True, decay=0.1), title="network of the teacher's shape"),
    OwnLearner(training(width=4, tied=False, decay=0.1), title="keys and queries of width 4"),
]
found = compare(
    model,
    [0.25, 0.5, 1, 2, 4, 8],
    learners,
    d=40,
    run_alpha=[1, 2, 4, 8],
    instances=2,
    quantity="prediction_error",
    accuracy=Accuracy(points=128),
)
found.to_pandas()[["learner", "kind", "alpha", "prediction_error", "bar"]]

# %%

picture = Path(tempfile.gettempdir()) / "own_network.png"
print("picture saved:", picture)
found.plot(ax=plt.figure().subplots())
plt.yscale("log")
plt.ylim(0.0003, 1.5)
plt.legend(loc="lower left", fontsize="small")
plt.savefig(picture)

# %%
# Message passing reaches the best possible error at this size already. Training does not where few samples are left per
# weight. Below two samples per dimension the network of the teacher's shape fits the noise; at eight it is within a
# few times the best error. The wide network has eight times as many weights and is still far away.

best, *_, shape, wide = (curve.value[-1] for curve in found.curves)
print(f"at alpha = 8: best {best:.3f}, teacher's shape {shape:.3f}, wide {wide:.3f}")
assert best < shape < wide

# %%
# ``simulate(model, alpha, learner, d=...)`` has the same runs with the distance from the best error,
# ``prediction_above_optimum``, and more instances make the bars shorter. An estimator of scikit-learn is a learner as
# well. On the command line, with ``fit`` in a file ``train.py``::
#
#     glassformer compare attention --depth 2 --noise 0.01 --alpha 0.5,1,2,4,8 --points 128 --d 40 --instances 2 \
#         --quantity prediction_error --learner gamp --learner train.py:fit --plot own_network.png
#
# :doc:`/auto/tutorials/4_own_learner` has a learner with a theory of its own.
