"""Names of the version before, importable with a note for one more version."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

# Modules by their names of version 0.1, and where what they held is now.
MOVED = {
    "baselines": "learners.registry",
    "bayes_optimal": "theory.limits",
    "channels": "models.channels",
    "channels.absolute": "models.channels.absolute",
    "channels.attention": "models.channels.attention_indexed.projected",
    "channels.attention_channel": "models.channels.attention_indexed.named",
    "channels.attention_link": "models.channels.multi_index.attention_network",
    "channels.attention_matrices": "models.channels.multi_index.attention_matrices",
    "channels.base": "models.channels.scalar",
    "channels.compiled": "core.numerics.batching",
    "channels.deep_attention": "models.channels.multi_index.deep_attention",
    "channels.deep_attention_indexed": "models.channels.attention_indexed.deep",
    "channels.field_quadrature": "models.channels.link.field_quadrature",
    "channels.gaussian": "models.channels.gaussian",
    "channels.hardmax": "models.channels.attention_indexed.hardmax",
    "channels.hardmax_sampled": "models.channels.attention_indexed.hardmax_sampled",
    "channels.hardmax_triple": "models.channels.attention_indexed.hardmax_triple",
    "channels.label_sampling": "core.numerics.quasi_random",
    "channels.latent": "models.channels.multi_index.latent",
    "channels.latent_sampling": "models.channels.multi_index.importance_sampling",
    "channels.level_set": "models.channels.link.level_set",
    "channels.line_channel": "models.channels.multi_index.line_integrals",
    "channels.link": "models.channels.link.channel",
    "channels.link_channel": "models.channels.multi_index.link_channel",
    "channels.link_function": "models.channels.link.function",
    "channels.link_posterior": "models.channels.link.posterior",
    "channels.link_rows": "models.channels.multi_index.link_rows",
    "channels.link_shape": "models.channels.link.piecewise",
    "channels.multi_index": "models.channels.base",
    "channels.noisy_attention": "models.channels.attention_indexed.noisy",
    "channels.noisy_link": "models.channels.link.noisy",
    "channels.noisy_link_rows": "models.channels.multi_index.noisy_link_rows",
    "channels.normal": "core.numerics.normal",
    "channels.pairs": "models.channels.attention_indexed.pairs",
    "channels.preimages": "models.channels.link.inverse_branches",
    "channels.sampled": "models.channels.sampled",
    "channels.scalar": "models.channels.named",
    "channels.scalar_rows": "models.channels.multi_index.scalar_rows",
    "channels.sign": "models.channels.sign",
    "channels.small_matrices": "core.numerics.small_matrices",
    "channels.untied_attention": "models.channels.multi_index.untied_attention",
    "checkpoints": "core.checkpoints",
    "citations": "interface.citations",
    "cli": "interface.cli",
    "conjugates": "theory.conjugate_overlap",
    "damping": "learners.algorithms.message_passing",
    "designs": "models.designs",
    "designs.base": "models.designs.base",
    "designs.dense": "models.designs.dense",
    "designs.generated": "models.designs.generated",
    "designs.layered": "models.designs.layered",
    "designs.projection": "models.designs.projection",
    "designs.quadratic": "models.designs.quadratic",
    "designs.sharded": "models.designs.sharded",
    "designs.stored": "models.designs.stored",
    "designs.wrapped": "models.designs.wrapped",
    "diagrams": "theory.phase_diagram",
    "errors": "core.errors",
    "estimators": "learners",
    "estimators.arrays": "learners.algorithms.arrays",
    "estimators.attention_descent": "models.students.attention",
    "estimators.factor_descent": "models.students.factors",
    "estimators.nuclear_norm": "models.spectra.nuclear_norm",
    "estimators.nuclear_norm_descent": "learners.algorithms.proximal",
    "estimators.ridge": "learners.ridge",
    "estimators.row_descent": "learners.algorithms.row_descent",
    "estimators.signal_descent": "learners.algorithms.signal_descent",
    "estimators.training": "learners.algorithms.training",
    "figures": "interface.figures",
    "files": "core.files",
    "fingerprint": "core.fingerprint",
    "free_entropy": "theory.free_entropy",
    "gamp": "learners.gamp",
    "hysteresis": "theory.hysteresis",
    "integral": "core.integral",
    "models.attention": "models.attention_indexed",
    "models.matrix": "models.base",
    "models.named": "models.registry",
    "overlap_evolution": "theory.state_evolution",
    "overlap_gamp": "learners.gamp",
    "overlap_limits": "theory.limits",
    "overlap_map": "theory.evolution_map",
    "overlap_simulation": "experiments.simulation",
    "priors": "models.priors",
    "priors.base": "models.priors.scalar",
    "priors.bilinear": "models.priors.bilinear",
    "priors.factors": "models.priors.factors",
    "priors.gaussian_rows": "models.priors.gaussian_rows",
    "priors.layered": "models.priors.layered",
    "priors.limits": "models.priors.limits",
    "priors.matrix": "models.priors.base",
    "priors.wishart": "models.priors.wishart",
    "progress": "core.progress",
    "recovery": "theory.thresholds",
    "results": "core.results",
    "settings": "core.settings",
    "simulation": "experiments.simulation",
    "solution": "core.solution",
    "spectra": "models.spectra",
    "spectra.quadrature": "core.numerics.quadrature",
    "spectra.rectangular": "models.spectra.rectangular",
    "spectra.roots": "core.numerics.roots",
    "spectra.symmetric": "models.spectra.symmetric",
    "staircase": "theory.weak_recovery",
    "state_curve": "theory.equation_of_state",
    "state_evolution": "theory.state_evolution",
    "sweeps": "experiments.sweeps",
    "text": "experiments.text",
}

# What had a name of its own where one row and several were two worlds, by the former names of the modules.
MERGED = {
    "channels.multi_index": {"MultiIndexChannel": "Channel"},
    "free_entropy": {"overlap_free_entropy": "free_entropy"},
    "models.matrix": {"MatrixModel": "Model"},
    "overlap_evolution": {"overlap_evolution": "state_evolution"},
    "overlap_gamp": {"overlap_gamp": "gamp"},
    "overlap_map": {"OverlapMap": "EvolutionMap"},
    "priors.base": {"Prior": "ScalarPrior"},
    "priors.matrix": {"MatrixEstimate": "Estimate", "MatrixPrior": "Prior"},
}


class _Moved(MetaPathFinder, Loader):
    """Imports a module under its former name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        package, _, name = fullname.partition(".")
        return ModuleSpec(fullname, self) if package == "glassformer" and name in MOVED else None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__.partition(".")[2]
        new = f"glassformer.{MOVED[name]}"
        _note(module.__name__, new)
        sys.modules[module.__name__] = found = importlib.import_module(new)
        for former, present in MERGED.get(name, {}).items():
            setattr(found, former, getattr(found, present))


def install() -> None:
    """Make former module names importable; once."""
    if not any(isinstance(finder, _Moved) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Moved())


def renamed(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """A ``__getattr__`` for a module that knows former names: each leads to ``"module:name"``, with a note.

    Example:
        >>> getattr_of_module = renamed("glassformer.core.solution", {"End": "glassformer.core.solution:Status"})
        >>> with warnings.catch_warnings(record=True):
        ...     warnings.simplefilter("always")
        ...     getattr_of_module("End").__name__
        'Status'
    """

    def found(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        home, _, new = names[name].partition(":")
        _note(f"{module}.{name}", f"{home}.{new}")
        return getattr(importlib.import_module(home), new)

    return found


def former(old: str, new: str) -> Any:
    """An attribute under its former name.

    Example:
        >>> class Box:
        ...     size = 2.0
        ...     length = former("length", "size")
        >>> with warnings.catch_warnings(record=True):
        ...     warnings.simplefilter("always")
        ...     Box().length
        2.0
    """

    def found(self: Any) -> Any:
        _note(f"{type(self).__name__}.{old}", new)
        return getattr(self, new)

    return property(found)


def _note(old: str, new: str) -> None:
    text = f"{old} is now {new}; the former name goes with the next version"
    warnings.warn(text, DeprecationWarning, stacklevel=3)
