"""
Your data
=========

From a NumPy array to a fitted model, its rank, its intervals, and what more samples would bring. The array ``X`` has
the shape ``(n, L, d)``: ``n`` samples, each a sequence of ``L`` tokens of dimension ``d``; ``y`` has one number for
each. The data here are drawn, so that the truth is known; put yours in their place.
"""

# %%
# An array
# --------
# Labels see the tokens through a matrix of rank two, in units of their own and with noise.

import numpy as np

from glassformer.data_analysis import diagnose
from glassformer.sklearn import BilinearRegressor, forecast

rng = np.random.default_rng(0)
n, L, d = 400, 16, 16
C = rng.standard_normal((L, 2)) @ rng.standard_normal((2, d)) / np.sqrt(2 * L * d)


def draw(samples):
    X = rng.standard_normal((samples, L, d))
    clean = np.einsum("nld,ld->n", X, C)
    return 1 + 2 * X, 5 + 3 * (clean + np.sqrt(0.2) * rng.standard_normal(samples))


X, y = draw(n)

# %%
# Does theory apply to it?
# ------------------------
# Theory and message passing assume independent standard normal inputs. ``diagnose`` names the deviations, and says
# whether scaling removes them. Estimators scale their inputs.

print(diagnose(X, y))

# %%
# A fit, and its directions above the noise
# -----------------------------------------
# ``BilinearRegressor`` minimises the square loss with a nuclear norm, at the strength that cross-validation finds best.
# ``"simplest"`` takes the strongest penalty that is not measurably worse.

fitted = BilinearRegressor(strength="simplest", strengths=10).fit(X, y)
later, truth = draw(1000)
print(fitted.signal_rank_, fitted.singular_values_[:4].round(3), fitted.score(later, truth))

# %%
# With ``solver="bayes"`` width and noise are estimated from the data, and message passing uses them. It needs no
# validation, and is the best known polynomial-time algorithm for such inputs.

bayes = BilinearRegressor(solver="bayes").fit(X, y)
found = bayes.estimated_model_
print(bayes.score(later, truth), found.rho * d, np.multiply(found.rho_interval, d), found.noise, found.noise_error)

# %%
# Intervals
# ---------
# Ninety of a hundred new labels should lie in these intervals. They follow from the posterior of message passing, or
# from leave-one-out predictions.

for name, estimator in (("risk", fitted), ("bayes", bayes)):
    low, high = estimator.predict_interval(later, coverage=0.9).T
    inside = np.mean((low <= truth) & (truth <= high))
    print(name, "width", np.mean(high - low).round(2), "holds", inside)

# %%
# What is the error with more samples?
# ------------------------------------
# ``forecast`` computes it from theory at the estimated width and noise, with a band, and compares it with held-out
# samples.

ahead = forecast(BilinearRegressor(solver="bayes"), X, y, [800, 1600], splits=1)
print(ahead.to_pandas().round(3), ahead.agrees, ahead.status)

# %%
# The data are simulated, so the truth is known: the error of the estimator with 1600 samples.

more = BilinearRegressor(solver="bayes").fit(*draw(1600))
print(np.mean((more.predict(later) - truth) ** 2))
