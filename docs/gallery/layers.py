"""
Layer after layer
=================

Two layers of attention: the last one is found with far fewer samples than the first. This example uses few sampled
data points (``Accuracy(points=32)``, 2048 by default); ``error_estimate`` is the error of the averages.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import Accuracy, DeepAttention, limits

model = DeepAttention(depth=2, tokens=2, skip=1.0)
curve = limits(model, np.array([0.15, 0.3, 0.5, 0.7, 0.9]), throw=False, accuracy=Accuracy(points=32))
settled = [status.ok for status in curve.status]
for row, name in enumerate(model.row_names):
    plt.plot(curve["alpha"][settled], 1 - curve["row_error"][settled, row], "o:", label=name)
plt.xlabel(r"$\alpha = n/d$")
plt.ylabel("overlap")
plt.legend()
