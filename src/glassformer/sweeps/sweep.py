"""A sweep: one verb on a grid of parameters, recorded point by point, and its file in TOML."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from glassformer.core.errors import ParameterError, RenamedError, in_file
from glassformer.core.files import user_path
from glassformer.core.renamed import renamed
from glassformer.sweeps.collect import collect
from glassformer.sweeps.grid import OPTION_NAMES, Grid
from glassformer.sweeps.run import Progress, run_sweep

if TYPE_CHECKING:
    import xarray

# Tables of a file and names in the table [sweep], and the largest file in bytes, more than any grid that fits into
# memory.
_TABLES = ("parameters", "grid", "learner", "runs", "accuracy")
_GENERAL = ("model", "verb", *OPTION_NAMES)
_LARGEST_FILE = 2**24


@dataclass(frozen=True)
class Sweep(Grid):
    r"""One verb on a grid of parameters, whose points are recorded in a folder.

    Args:
        model: its name in the table of models.
        grid: values of everything that varies, by name, each a list, or a text ``"start:stop:count"``: ``alpha`` (not
            for thresholds and plan), parameters of the model, and ``d`` of runs.
        verb: ``"limits"``, ``"thresholds"``, ``"plan"``, ``"trajectory"``, ``"simulate"`` or ``"compare"``.
        parameters: parameters of the model that do not vary.
        learner: name of the learner; or a mapping of ``name`` and settings, where as on the command line ``"best"`` is
            the best strength and ``"FILE.py:FUNCTION"`` a loss; or an object, such as a learner. Training of one's own
            (simulate, and compare with runs) is named ``"FILE.py:FUNCTION"`` as well. For compare a list of these;
            ``learner`` is then the last axis of the results.
        runs: ``d``, ``instances``, ``seed`` and ``storage`` of runs, optional for all verbs but simulate, where
            instance ``k`` has the seed ``seed + k``, and ``seed`` is the last axis of the results. Of a plan ``d``
            alone, for numbers of samples.
        accuracy: fields of :class:`~glassformer.Accuracy` by name, or such an object.
        target: target of a plan.
        quantity: quantity of a plan or comparison; by default the error.
        steps: steps of a trajectory.
        start: start of a trajectory.
        folder: folder of the files named in ``parameters``, ``grid`` and ``learner``.

    Raises:
        ParameterError: an unknown or missing name, or a value out of range.
        IncompatibleError: parameters that exclude each other, a value of the accuracy without effect, or sample ratios
            in different units (``rho = 0`` beside others).

    Example:
        >>> sweep = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": "0.1:1:10"}, parameters={"beta": 1})
        >>> sweep.shape, len(list(sweep.tasks(sweep.points)))
        ((2, 10), 2)
    """

    @classmethod
    def from_toml(cls, path: str | Path, links: Sequence[str | Path] = ()) -> Self:
        """Read a sweep from a file.

        Its tables are ``[sweep]`` (model, verb, and target, quantity, steps and start of verbs that have them),
        ``[parameters]``, ``[grid]``, ``[learner]`` (name and settings; of verb compare several ``[[learner]]``),
        ``[runs]`` and ``[accuracy]``.

        Args:
            path: the file.
            links: Python files that it may name, as ``FILE.py:FUNCTION`` relative to itself. Only the code of these
                files is run.

        Raises:
            ParameterError: the file cannot be read, does not describe a sweep, or names a file that is not in
                ``links``.
            IncompatibleError: parameters that exclude each other.
            RenamedError: a table or an entry has a new name.
        """
        file = user_path(path)
        document = _read_toml(file)
        with in_file(path):
            _check_words(document)
            _check_files(document, file.parent, links)
            tables = {name: document[name] for name in _TABLES if name in document}
            return cls(**{"grid": {}, **document["sweep"], **tables, "folder": os.path.realpath(file.parent)})

    def run(self, store: str | Path, workers: int = 1, scheduler: str | None = None, retry: bool = False) -> Progress:
        """Compute the points that have no record yet.

        Another process may work on the same store: each task is computed by one of them, and this call returns when all
        are done.

        Args:
            store: folder of the records, made if needed.
            workers: local processes.
            scheduler: address of a dask scheduler, whose workers then compute.
            retry: compute points that failed or did not converge once more.

        Raises:
            ParameterError: an argument is out of range, or the scheduler is lost; the store stays usable.
            DataError: the store cannot be written to, or an earlier version wrote it.

        Example:
            >>> import tempfile
            >>> sweep = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.2, 0.4]})
            >>> folder = tempfile.mkdtemp()
            >>> sweep.run(folder).computed, sweep.run(folder).computed
            (4, 0)
        """
        return run_sweep(self, store, workers, scheduler, retry)

    @staticmethod
    def collect(store: str | Path) -> xarray.Dataset:
        """Return all records of the sweep last run in a store, over its axes.

        Points without a record, and values that a record does not have, are NaN; ``status`` says why. Trajectories have
        a dimension ``iteration`` after the axes. Attributes name the model, the verb, the learner, all values that do
        not vary, and the versions of the package that made the records.

        Raises:
            DataError: there is no sweep, or no record with values, or an earlier version wrote the store.

        Example:
            >>> import tempfile
            >>> folder = tempfile.mkdtemp()
            >>> _ = Sweep("bsr", {"rho": [0.2, 0.5], "alpha": [0.2, 0.4, 0.6]}).run(folder)
            >>> dict(Sweep.collect(folder).sizes)
            {'rho': 2, 'alpha': 3}
        """
        return collect(store)


# --- files in TOML ----------------------------------------------------------------------------------------------------


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            # At most this number of bytes is read, since a pipe or a device may have no end.
            content = file.read(_LARGEST_FILE + 1)
        if len(content) > _LARGEST_FILE:
            raise ValueError(f"it has more than {_LARGEST_FILE} bytes")
        return tomllib.loads(content.decode("utf-8-sig"))
    except RecursionError:
        raise ParameterError("sweep", path.name, "a file in TOML (it is nested too deeply)") from None
    except (OSError, ValueError) as error:
        raise ParameterError("sweep", path.name, f"a file in TOML ({error})") from None


def _check_words(document: dict[str, Any]) -> None:
    """Raise for unknown, old and missing names of tables, and of entries in the table [sweep]."""
    from glassformer.sweeps.types import check

    for name, table in document.items():
        if sentence := renamed(f"[{name}]", "sweep"):
            raise RenamedError(sentence)
        if name not in ("sweep", *_TABLES):
            raise ParameterError(name, table, f"the tables sweep, {', '.join(_TABLES[:-1])} and {_TABLES[-1]}")
        check(name, table, list[dict[str, Any]] if name == "learner" and isinstance(table, list) else dict[str, Any])
    general = document.get("sweep", {})
    for name, value in general.items():
        if sentence := renamed(name, "sweep"):
            raise RenamedError(sentence)
        if name not in _GENERAL:
            allowed = f"{', '.join(_GENERAL[:-1])} and {_GENERAL[-1]} in the table [sweep]"
            raise ParameterError(name, value, allowed)
    for name in ("model", "verb"):
        if name not in general:
            raise ParameterError(name, None, "a value in the table [sweep]")


def _check_files(document: Mapping[str, Any], folder: Path, links: Sequence[str | Path]) -> None:
    """Raise unless the files that a document names are those that the user names too: their code is run."""
    trusted, named = {os.path.realpath(user_path(link)) for link in links}, set()
    for name, text in (found for table in ("parameters", "grid", "learner") for found in _texts(table, document)):
        file = user_path(text.rpartition(":")[0], folder)
        if file.is_file() and os.path.realpath(file) not in trusted:
            raise ParameterError(
                name, text, "a file that you also name yourself, since its code is run", f"add --link {file}"
            )
        named.add(os.path.realpath(file))
    for link in links:
        if os.path.realpath(user_path(link)) not in named:
            raise ParameterError("link", str(link), "a file that the sweep names", "leave it out")


def _texts(name: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield all texts below an entry of a table, with the names of the entries that contain them."""
    value = table.get(name)
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield name, item
        elif isinstance(item, Mapping):
            for inner in item:
                yield from _texts(inner, item)
        elif isinstance(item, list):
            yield from _texts(name, {name: item})
