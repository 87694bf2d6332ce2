"""Learners on simulated data, sweeps and text."""

from glassformer.core.deprecated import renamed

_INSTANCES = "glassformer.experiments.instances"
__getattr__ = renamed(__name__, {name: f"{_INSTANCES}:{name}" for name in ("Experiment", "Simulation")})
