"""
From equations to your training run
===================================

A question: a training script does gradient descent on the same samples again and again. What does it reach after each
step, when should it stop, and what do its batches and its momentum do? Mean-field equations answer without data. Every
number below is computed while this page is built.
"""

# %%
# A training script
# -----------------
# Labels are signs of one direction of the inputs, and one in ten is flipped. The script is an ordinary one: uniform
# first weights of variance ``1/(3d)``, the mean logistic loss of a batch, and weight decay.

import tempfile
from dataclasses import replace
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from glassformer import SGD, Accuracy, DeepAttention, RegularisedRisk, SequenceMultiIndex, limits, trajectory

ALPHA, FLIPS, STEPS = 2.0, 0.1, 40


def save(name):
    """Save the picture of a section, and say where."""
    picture = Path(tempfile.gettempdir()) / f"training_{name}.png"
    plt.savefig(picture)
    print("picture saved:", picture)


def train(d, seed, lr=1.0, decay=0.15, share=1.0, steps=STEPS):
    """Cosine of the weights with the truth after each step."""
    rng = np.random.default_rng(seed)
    n = int(ALPHA * d)
    X, truth = rng.standard_normal((n, d)), rng.standard_normal(d)
    y = np.sign(X @ truth) * np.where(rng.random(n) < FLIPS, -1, 1)
    w = rng.uniform(-1, 1, d) / np.sqrt(d)
    cosines = []
    for _ in range(steps + 1):
        cosines.append(w @ truth / np.linalg.norm(w) / np.linalg.norm(truth))
        batch = rng.random(n) < share
        slope = -y[batch] / (1 + np.exp(y[batch] * (X[batch] @ w)))
        w -= lr * (X[batch].T @ slope / (share * n) + decay * w)
    return np.array(cosines)


# %%
# Its settings in the theory
# --------------------------
# The theory has weights :math:`W = \sqrt d\,w` with entries of order one and fields :math:`Z = WX^T/\sqrt d`, and
# descends the sum of the losses of a batch. With ``alpha = n/d`` and a share ``b`` of the samples in a batch, the step
# of the script is one with
#
# .. math:: \eta = \frac{\mathrm{lr}}{\alpha b}, \qquad \lambda = \mathrm{decay}\cdot\alpha b.
#
# ``alpha``, ``b``, the learning rate :math:`\eta`, the decay :math:`\lambda` and the number of steps are held fixed as
# ``d`` grows. For this script that is the same as fixing ``lr`` and ``decay``. Other conventions:
#
# ===============================================  ===============================  =================================
# loss of a step                                   :math:`\eta`                     :math:`\lambda`
# ===============================================  ===============================  =================================
# mean of a batch, fields ``w x``                  :math:`\mathrm{lr}/(\alpha b)`   :math:`\mathrm{decay}\,\alpha b`
# mean of a batch, fields ``W x / sqrt(d)``        :math:`\mathrm{lr}/(\alpha bd)`  :math:`\mathrm{decay}\,\alpha bd`
# squared error of a batch over ``d`` (published)  :math:`2\,\mathrm{lr}/d`         :math:`\mathrm{decay}/2`
# ===============================================  ===============================  =================================

model = SequenceMultiIndex(lambda Z: jnp.sign(Z[0, 0]), indices=1, noise_law=f"flip:{FLIPS}")


def theory(lr=1.0, decay=0.15, share=1.0, trajectories=4096, **other):
    """The learner whose steps are those of the script."""
    rate, strength = lr / (ALPHA * share), decay * ALPHA * share
    given = {"batch": share, "loss": "logistic", "start": f"small:{3**-0.5}"}
    sgd = SGD(learning_rate=rate, weight_decay=strength, **given, **other)
    return sgd.at_accuracy(Accuracy(trajectories=trajectories))


published = SGD.published(500).descent(ALPHA, d=500)
assert np.allclose([published.learning_rate, published.batch, published.weight_decay], [0.06, 0.2, 0.035])

# %%
# Step by step
# ------------
# ``path`` solves the equations: overlap with the truth, power, cosine, losses and errors after every step. Step ``t``
# depends on earlier steps only, so that one pass over time is enough.

path = theory().path(model, ALPHA, STEPS)
path.to_pandas()[["iteration", "cosine_1", "training_loss", "test_loss", "label_error"]].iloc[[0, 1, 2, 5, 10, 20, 40]]

# %%
# ``trajectory`` puts runs of the package beside the same equations. The script agrees with both.

tables = {d: trajectory(model, [ALPHA], theory(), steps=STEPS, d=d, instances=8) for d in (100, 400)}
scripts = np.array([train(400, seed) for seed in range(8)])
noise = scripts.std(0, ddof=1) / np.sqrt(len(scripts))

steps, cosine = np.arange(STEPS + 1), path.cosine
plt.figure()
plt.fill_between(steps, *(cosine.value[:, 0] + sign * cosine.error[:, 0] for sign in (-1, 1)), alpha=0.3)
plt.plot(steps, cosine.value, label="theory, with its 95 % error")
for k, (d, table) in enumerate(tables.items()):
    bars = 2 * table["measured_cosine_standard_error"][:, 0]
    at = slice(k, None, 3)
    plt.errorbar(steps[at], table["measured_cosine"][at, 0], bars[at], fmt="o", ms=4, label=f"8 runs, d = {d}")
plt.errorbar(steps[2::3], scripts.mean(0)[2::3], 2 * noise[2::3], fmt="k^", ms=4, label="script, d = 400")
plt.xlim(-0.5, 20.5)
plt.xlabel("step")
plt.ylabel("cosine with the truth")
plt.legend()
save("steps")

gap = np.abs(scripts.mean(0) - cosine.value[:, 0])[1:]
assert np.all(gap < 4 * np.hypot(noise, cosine.error[:, 0] / 2)[1:])

# %%
# What is exact, and what the error bars are
# ------------------------------------------
# The equations are exact in the limit of large ``d`` at a fixed number of steps. They contain averages over the fields
# of one sample during all steps, and these averages are means over ``trajectories``: the equations are solved with an
# error that falls like one over the square root of their number. Eight independent sets of an eighth of the
# trajectories are solved as well, and their spread gives ``error``, with 95 % confidence. A solution with sixteen times
# as many trajectories lies within the bars:

fine = theory(trajectories=16 * 4096).path(model, ALPHA, STEPS)
for name in ("overlap", "power", "cosine"):
    one, other = getattr(path, name), getattr(fine, name)
    covered = np.abs(one.value - other.value)[1:] <= np.hypot(one.error, other.error)[1:]
    ratio = np.mean(one.error) / np.mean(other.error)
    print(f"{name}: {np.mean(covered):.0%} of the steps covered, bars {ratio:.1f} times longer")
    assert np.mean(covered) >= 0.9

# %%
# What a finite size does
# -----------------------
# Every run differs from the limit by its own data. The root mean square of the distance, over 32 runs at step 10,
# falls like :math:`d^{-1/2}`.

sizes = np.array([50, 100, 200, 400])
runs = np.array([[train(d, seed, steps=10)[-1] for seed in range(32)] for d in sizes])
distance = np.sqrt(np.mean((runs - fine.cosine.value[10, 0]) ** 2, axis=1))
slope, offset = np.polyfit(np.log(sizes), np.log(distance), 1)
assert -0.7 < slope < -0.3

plt.figure()
plt.errorbar(sizes, distance, 2 * distance / np.sqrt(2 * 32), fmt="o", label="distance of a run from theory")
plt.loglog(sizes, np.exp(offset) * sizes**slope, label=f"slope {slope:.2f}")
plt.xticks(sizes, sizes)
plt.yticks([0.02, 0.03, 0.05], [0.02, 0.03, 0.05])
plt.minorticks_off()
plt.xlabel("d")
plt.ylabel("distance of cosines")
plt.legend()
save("sizes")

# %%
# When to stop
# ------------
# After many steps descent on a convex loss is at the minimum of its risk, which
# :class:`~glassformer.RegularisedRisk` has in closed equations. Without decay the minimum is at infinity. The error on
# new labels passes through a least value and rises, while the training loss falls.

minimum = limits(model, [ALPHA], RegularisedRisk("logistic", strength=0.15 * ALPHA))
last = fine.errors["label_error"]
assert abs(last.value[-1] - minimum["label_error"][0]) <= 2 * last.error[-1]

free = theory(decay=0.0, trajectories=16 * 4096).path(model, ALPHA, STEPS)
step, least = free.early_stop("label_error")
print(
    f"without decay, step {step}: {least.value:.4f} +- {least.error:.4f}; with decay: {minimum['label_error'][0]:.4f}"
)
assert free.errors["label_error"].value[-1] > least.value + 0.005
assert np.all(np.diff(free.errors["training_loss"].value) < 0)

plt.figure()
for name, one in (("decay 0.15", fine), ("no decay", free)):
    value, error = one.errors["label_error"].value[1:], one.errors["label_error"].error[1:]
    plt.fill_between(steps[1:], value - error, value + error, alpha=0.3)
    plt.plot(steps[1:], value, label=name)
plt.plot(step, least.value, "o", color="C1", label=f"early stop at step {step}")
plt.axhline(minimum["label_error"][0], color="C0", ls=":", label="minimum of the risk, decay 0.15")
plt.axhline(limits(model, [ALPHA])["label_error"][0], color="k", ls="--", label="best possible")
plt.xlabel("step")
plt.ylabel("wrong new labels")
plt.legend()
save("stopping")

# %%
# Batches and momentum at equal work
# ----------------------------------
# A step on a quarter of the samples costs a quarter of the work. At the same learning rate small batches are noisier
# and stay at a larger error. A quarter of the rate removes most of the difference. With momentum 3/4 a step counts
# four times. A sample is in a batch with the same probability at every step; runs with ``sampling="epochs"`` use every
# sample once in each pass instead.

passes = np.arange(1, 11)
cases = {
    "all samples, lr 1": (theory(), 1),
    "all samples, lr 1/4": (theory(lr=0.25), 1),
    "all samples, lr 1/4, momentum 3/4": (theory(lr=0.25, momentum=0.75), 1),
    "batches of 1/4, lr 1": (theory(share=0.25), 4),
    "batches of 1/4, lr 1/4": (theory(lr=0.25, share=0.25), 4),
}
errors = []
plt.figure()
for name, (learner, per_pass) in cases.items():
    found = learner.path(model, ALPHA, STEPS).errors["label_error"].value
    errors.append(found[per_pass::per_pass][: len(passes)])
    plt.plot(passes, errors[-1], label=name)
script = np.array([train(400, seed, lr=0.25, share=0.25)[4::4] for seed in range(4)])
plt.plot(passes, np.arccos(script).mean(0) / np.pi, "C4^", ms=4, label="the same, script, d = 400")
plt.xlabel("passes over the samples")
plt.ylabel("wrong new labels")
plt.legend()
save("batches")

full, slow, pushed, noisy, small = errors
assert noisy[-1] > full[-1] + 0.02 and abs(small[-1] - full[-1]) < 0.02
assert pushed[2] < slow[2] - 0.02

# %%
# A learning rate that is too large
# ---------------------------------
# The decay multiplies the weights by ``1 - lr * decay`` in every step. Beyond ``lr = 2 / decay`` they grow without
# bound. With ``throw=False`` theory returns its table instead of an error, with the step at which it begins.

table = trajectory(model, [ALPHA], theory(lr=20.0), steps=STEPS, throw=False)
assert str(table.status[-1]) == "diverging"
print(table.notes[0])

# %%
# Attention
# ---------
# The same equations hold for a student that is not linear in its fields. One layer of attention on two tokens, with
# labels ``softmax(Z^T Z)`` and noise of variance 0.04 on every entry, square loss and 3 samples per dimension, from a
# cosine of 0.3 with the truth:

attention = DeepAttention(depth=1, tokens=2, noise=0.04)
learner, accurate = SGD(learning_rate=0.3, weight_decay=0.02, start="overlap:0.3"), Accuracy(trajectories=16_384)
table = trajectory(attention, [3.0], learner, steps=24, d=400, instances=4, accuracy=accurate)
cosine, bars = table["cosine"][:, 0], table["cosine_error_estimate"][:, 0]
plt.figure()
plt.fill_between(table["iteration"], cosine - bars, cosine + bars, alpha=0.3)
plt.plot(table["iteration"], cosine, label="theory, with its 95 % error")
bars = 2 * table["measured_cosine_standard_error"][:, 0]
plt.errorbar(table["iteration"], table["measured_cosine"][:, 0], bars, fmt="o", ms=4, label="4 runs, d = 400")
plt.xlabel("step")
plt.ylabel("cosine with the truth")
plt.legend()
save("attention")

# %%
# The labels do not change with the sign of the weights. A start without overlap therefore never finds the truth in the
# limit, and a small overlap grows by the same factor whatever its size. A random start has an overlap of about
# :math:`d^{-1/2}` and needs a number of steps that grows like :math:`\log d`: runs from random starts have no limit at
# a fixed number of steps, and theory needs the overlap at which it begins.

small = [replace(learner, start=f"overlap:{m}").at_accuracy(accurate) for m in (0.0, 0.01, 0.03)]
nothing, first, second = (one.path(attention, 3.0, 24).overlap.value[:, 0, 0] for one in small)
assert np.all(np.abs(nothing) < 1e-9)
print(f"growth in ten steps: {first[10] / 0.01:.2f} from 0.01, {second[10] / 0.03:.2f} from 0.03")
assert abs(first[10] / 0.01 / (second[10] / 0.03) - 1) < 0.1

# %%
# On the command line, with the link ``sign`` in a file ``links.py``::
#
#     glassformer trajectory smi --link links.py:sign --indices 1 --noise-law flip:0.1 --alpha 2 --steps 40 \
#         --learner sgd --loss logistic --learning-rate 0.5 --weight-decay 0.3 --start small:0.577 --d 400
#     glassformer trajectory attention --depth 1 --noise 0.04 --alpha 3 --steps 24 --start overlap:0.3 \
#         --learner sgd --learning-rate 0.3 --weight-decay 0.02 --d 400
#
# :doc:`/theory-training` derives the equations and says what is proven. A network without equations of its steps is
# drawn beside the best possible error in :doc:`/auto/tutorials/8_your_own_network`.
