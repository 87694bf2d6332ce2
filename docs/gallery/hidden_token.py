"""
What attention gains when the signal hides
==========================================

One of three tokens carries a signal at a hidden place, and the label reads a second direction there. A linear student
sums all tokens; attention weighs them. The weaker the signal, the less both differ, and the further both are from the
best possible error. Points are runs of message passing; few sampled data points are used (``Accuracy(points=64)``, and
256 for students).
"""

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from jax.nn import softmax

from glassformer import Accuracy, RegularisedRisk, SequenceMultiIndex, limits, simulate
from glassformer.inputs import HiddenToken


def value(Z, place):
    return Z[1, place]


def attention(Z):
    return jnp.sum(softmax(Z[0]) * Z[1])


def bag(Z):
    return jnp.sum(Z[0])


alpha, few = np.array([1.0, 2.0, 4.0, 6.0]), Accuracy(points=64)
students = {
    "attention": RegularisedRisk("square", strength=0.3, student=attention, branch="informed"),
    "linear": RegularisedRisk("square", strength=0.3, student=bag, student_rows=1),
}
figure, panels = plt.subplots(1, 3, sharey=True, figsize=(10, 3.4))
for signal, panel in zip((1.0, 4.0, 9.0), panels, strict=True):
    model = SequenceMultiIndex(value, indices=2, tokens=3, noise=0.1, inputs=HiddenToken(signal)).at_accuracy(few)
    panel.plot(alpha, limits(model, alpha, throw=False)["prediction_error"], "k-", label="best possible")
    runs = simulate(model, alpha[:3], "gamp", d=300, instances=4)
    panel.errorbar(alpha[:3], runs["prediction_error"], runs["prediction_standard_error"], fmt="ko", ms=4)
    for (name, learner), style in zip(students.items(), ("o--", "s:"), strict=True):
        table = limits(model, alpha, learner, throw=False, accuracy=Accuracy(points=256))
        settled = [status.ok for status in table.status]
        panel.plot(alpha[settled], table["prediction_error"][settled], style, ms=4, label=name)
    panel.set_title(f"signal {signal:g}")
    panel.set_xlabel(r"$\alpha = n/d$")
panels[0].set_ylabel("prediction error")
panels[0].legend()
