"""Analysis of people's own data: ``diagnose``, ``estimate_model``, and the basis of the estimators' ``forecast``."""
