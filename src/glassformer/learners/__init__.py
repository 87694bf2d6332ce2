"""Learners: ways to learn from data, each with its theory and its algorithm.

``base`` says what a learner declares, ``registry`` is the table of all of them, ``data_set`` what they receive.

Message passing: ``gamp``, ``vamp`` and ``blind_message_passing`` are the learners; ``message_passing`` is the loop,
``gamp_step`` one step, ``gamp_state`` its state and convergence. Convex fits: ``ridge``, ``nuclear_norm`` and
``regularised_risk`` are the learners; ``empirical_risk`` is the risk on data with its certificate, which
``proximal_gradient`` and ``proximal_message_passing`` minimise. Descent: ``gradient_descent`` (its loop is
``training``), ``sgd`` and ``online_sgd``.

For people's own data: ``data_validation``, ``data_assumptions``, ``risk_path``, ``validation`` and ``leave_one_out``.
``plan`` says how many samples a target error takes.
"""
