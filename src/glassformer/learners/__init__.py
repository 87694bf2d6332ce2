"""Learners: algorithms that learn from data, each with its theory.

``base`` defines the interface of a learner, ``registry`` is the table of learners, ``data_set`` their input.

Message passing: the learners are ``gamp``, ``vamp`` and ``blind_message_passing``; ``message_passing`` is the loop,
``gamp_step`` one step, ``gamp_state`` the state and its convergence. Convex fits: the learners are ``ridge``,
``nuclear_norm`` and ``regularised_risk``; ``empirical_risk`` is the risk on data with its certificate, which
``proximal_gradient`` and ``proximal_message_passing`` minimise. Descent: ``gradient_descent`` (its loop is
``training``), ``sgd`` and ``online_sgd``.

For the user's own data: ``data_validation``, ``data_assumptions``, ``risk_path``, ``validation`` and
``leave_one_out``. ``plan`` computes the number of samples for a target error.
"""

from __future__ import annotations

from glassformer.core.public import public_names

_HOMES = {
    "DataSet": "learners.data_set",
    "FitResult": "learners.base",
    "Learner": "learners.base",
    "LearnerInfo": "learners.base",
    "OwnLearner": "learners.own",
    "Theory": "learners.base",
    "learner": "learners.registry",
}

__all__ = sorted(_HOMES)
__getattr__, __dir__ = public_names(__name__, _HOMES)
