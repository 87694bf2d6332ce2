"""
A hard phase
============

Free entropy of labels `|h|`: between two sample ratios a second maximum hides the signal from every known
algorithm.
"""

import matplotlib.pyplot as plt

from glassformer import BilinearSequenceRegression, landscape, thresholds

model = BilinearSequenceRegression(beta=1, rho=0.5, channel="absolute")
for alpha in [0.65, 0.75, 0.85]:
    curve = landscape(model, alpha, overlaps=120)
    seen = curve.overlap < 0.97
    plt.plot(curve.overlap[seen], (curve.free_entropy - curve.free_entropy[0])[seen], label=rf"$\alpha = {alpha}$")
found = thresholds(model)
start, end = (found[name].alpha for name in ("hard_phase_start", "hard_phase_end"))
plt.title(f"hard phase from {start:.3f} to {end:.3f}, optimum from {found['bayes_optimal_transition'].alpha:.3f}")
plt.xlabel("overlap $q$")
plt.ylabel(r"$\Phi(q) - \Phi(0)$ [nats]")
plt.legend()
