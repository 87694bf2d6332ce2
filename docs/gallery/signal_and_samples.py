"""
Signal against samples
======================

Where the hidden token is found, and where its content is learned: the share of hidden places that the best estimator
finds (one in three by chance), and the overlap with the direction that the label reads, against the sample ratio and
the signal.
"""

import matplotlib.pyplot as plt
import numpy as np

from glassformer import Accuracy, SequenceMultiIndex, limits
from glassformer.inputs import HiddenToken


def value(Z, place):
    return Z[1, place]


alpha, signals = np.geomspace(0.1, 8, 8), np.geomspace(0.25, 16, 8)
model = SequenceMultiIndex(value, indices=2, tokens=3, noise=0.1, inputs=HiddenToken()).at_accuracy(Accuracy(points=64))
tables = [limits(model.varied(**{"inputs.signal": signal}), alpha, throw=False) for signal in signals]
maps = {
    "places found": np.array([1 - table["state_error"] for table in tables]),
    "overlap with the value row": np.array([1 - table["row_error"][:, 1] for table in tables]),
}
figure, panels = plt.subplots(1, 2, sharey=True, figsize=(9, 3.6))
for (name, shares), panel in zip(maps.items(), panels, strict=True):
    drawn = panel.contourf(alpha, signals, shares, levels=np.linspace(0, 1, 11))
    panel.set(xscale="log", yscale="log", xlabel=r"$\alpha = n/d$", title=name)
    panel.set_xticks([0.1, 1], ["0.1", "1"])
    panel.minorticks_off()
    figure.colorbar(drawn, ax=panel)
panels[0].set_ylabel("signal")
