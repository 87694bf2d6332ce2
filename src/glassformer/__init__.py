"""Exact limits of learning from sequences of tokens, and the algorithms that reach them.

Every question is a verb of a model, sample ratios and a learner::

    import glassformer as gf

    model = gf.BilinearSequenceRegression(beta=1, rho=0.3, noise=0.1)
    gf.limits(model, [0.5, 1.0])  # Bayes-optimal error
    gf.limits(model, [0.5, 1.0], gf.RegularisedRisk())  # minimiser of a regularised risk at its best strength
    gf.thresholds(model)  # sample ratios at which learning begins and is perfect
    gf.simulate(model, [0.5, 1.0], "gamp", d=100)  # runs on data, beside theory
    gf.compare(model, [0.5, 1.0], ["gamp", "ridge"], d=50).plot("curves.png")
    gf.plan(model, 0.2, "ridge", d=100)  # number of samples for a target error

For gradient descent in time beside runs::

    network = gf.DeepAttention(depth=1)
    gf.trajectory(network, [4.0], gf.SGD(learning_rate=0.3, start="overlap:0.3"), steps=20, d=200)

Further parts are in ``glassformer.errors``, ``channels``, ``priors``, ``designs``, ``inputs``, ``laws``, ``losses``,
``penalties``, ``results``, ``learners``, ``models``, ``data_analysis`` and ``sklearn``.
"""

from __future__ import annotations

from glassformer.core.public import public_names

__version__ = "0.1.0"

_HOMES = {
    # Models.
    "BilinearSequenceRegression": "models.bsr",
    "AttentionIndexed": "models.aim",
    "DeepAttentionIndexed": "models.deep_aim",
    "SequenceMultiIndex": "models.smi",
    "DeepAttention": "models.deep_attention",
    "InContextRegression": "models.in_context",
    # Learners.
    "MessagePassing": "learners.gamp",
    "BlindMessagePassing": "learners.blind_message_passing",
    "VectorMessagePassing": "learners.vamp",
    "Ridge": "learners.ridge",
    "NuclearNorm": "learners.nuclear_norm",
    "RegularisedRisk": "learners.regularised_risk",
    "GradientDescent": "learners.gradient_descent",
    "AveragedGradientDescent": "learners.gradient_descent",
    "SGD": "learners.sgd",
    "OnlineSGD": "learners.online_sgd",
    # Verbs.
    "limits": "verbs.limits",
    "thresholds": "verbs.thresholds",
    "trajectory": "verbs.trajectory",
    "simulate": "verbs.simulate",
    "compare": "verbs.compare",
    "plan": "verbs.plan",
    "fit": "verbs.fit",
    "phase_diagram": "verbs.phase_diagram",
    "hysteresis": "verbs.hysteresis",
    "landscape": "verbs.landscape",
    "spectrum": "verbs.spectrum",
    # What all of them share.
    "Accuracy": "core.accuracy",
    "Sweep": "sweeps.sweep",
    "check_model": "testing",
    "Status": "core.status",
    "GlassformerError": "core.errors",
    "IncompatibleError": "core.errors",
    "ConvergenceError": "core.errors",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
