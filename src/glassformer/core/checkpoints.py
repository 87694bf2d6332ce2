"""Files from which interrupted computations continue."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.files import make_folder, read_arrays, read_document, write_arrays, write_document
from glassformer.core.hashing import identity
from glassformer.core.status import Status

# Seconds between two checkpoints, unless writing takes more than a share of that time.
_EVERY, _SHARE = 20.0, 0.05
_STATUS = {str(status): status for status in Status}


class Stateful(Protocol):
    """An object that changes during a computation, and continues from its state."""

    def state(self) -> dict[str, Array]:
        """Return the state as named arrays."""
        ...

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Set the state to one that :meth:`state` returned."""
        ...


@dataclass
class Checkpoint:
    """The state of one computation, saved to a file at regular times. Without a ``path`` nothing is written.

    Args:
        path: the file, or None.
        every: seconds between two writes; longer if writing takes more than a twentieth of that time.
        part: an object whose state belongs to that of the computation, or None.

    Example:
        >>> Checkpoint().load() is None
        True
    """

    path: Path | None = None
    every: float = _EVERY
    written: float = field(default_factory=time.monotonic)
    part: Stateful | None = None

    def load(self) -> dict[str, Array] | None:
        """Return the arrays that were saved last, and restore the part.

        Return None if there are none, and warn if the file is damaged.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            arrays = read_arrays(self.path)
        except (OSError, ValueError):
            _warn_of_damage(self.path)
            return None
        if self.part is not None:
            self.part.restore(arrays)
        return arrays

    def offer(self, state: Callable[[], dict[str, Array]]) -> None:
        """Save ``state()`` and that of the part if ``every`` seconds have passed since the last write."""
        begin = time.monotonic()
        if self.path is not None and begin - self.written >= self.every:
            self.save({**state(), **({} if self.part is None else self.part.state())})
            self.written = time.monotonic()
            self.every = max(self.every, (self.written - begin) / _SHARE)

    def save(self, arrays: dict[str, Array]) -> None:
        """Replace the file."""
        if self.path is not None:
            write_arrays(self.path, arrays, "checkpoint")

    def clear(self) -> None:
        """Remove the file of a finished computation."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def pack_records(records: list[dict[str, Any]]) -> dict[str, Array]:
    """Return records with the same names as one array per name."""
    return {f"record_{name}": np.array([record[name] for record in records]) for name in (records or [{}])[0]}


def unpack_records(arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """Return the records that :func:`pack_records` stored among other arrays.

    Example:
        >>> unpack_records({**pack_records([{"a": 1.0}, {"a": 2.0}]), "b": np.zeros(3)}) == [{"a": 1.0}, {"a": 2.0}]
        True
    """
    named = {name.removeprefix("record_"): part for name, part in arrays.items() if name.startswith("record_")}
    return [dict(zip(named, entry, strict=True)) for entry in zip(*named.values(), strict=True)]


def pack_leaves(values: Iterable[Any]) -> dict[str, Array]:
    """Return a list of arrays as a dictionary with numbered names.

    Example:
        >>> sorted(pack_leaves([np.zeros(2), np.ones(3)]))
        ['leaf_0', 'leaf_1']
    """
    return {f"leaf_{k}": np.asarray(value) for k, value in enumerate(values)}


def unpack_leaves(arrays: dict[str, Array]) -> list[Array]:
    """Return the list of arrays that :func:`pack_leaves` stored among other arrays."""
    return [arrays[f"leaf_{k}"] for k in range(sum(name.startswith("leaf_") for name in arrays))]


@dataclass(frozen=True)
class CheckpointFolder:
    """Records of finished runs and checkpoints of unfinished runs, in files named by the identity of the run.

    Args:
        folder: the folder, which is created if it is missing, with the folders above it. None writes nothing.

    Raises:
        DataError: the folder cannot be created or written to.
    """

    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            make_folder(self.folder, "checkpoint", parents=True)

    def run(self, kind: type, determines: dict[str, Any] | None, compute: Callable[[Checkpoint], Any]) -> Any:
        """Return the finished run from its record. If there is no record, compute the run and write one.

        Args:
            kind: the dataclass of the run.
            determines: all that determines the run, in types that JSON knows; None where that is not known, and
                nothing is written.
            compute: called with the checkpoint of the computation.
        """
        if self.folder is None or determines is None:
            return compute(Checkpoint())
        key = identity(determines)
        record, checkpoint = self.folder / f"{key}.json", Checkpoint(self.folder / f"{key}.npz")
        result = _read_run(record, kind)
        if result is None:
            result = compute(checkpoint)
            write_document(record, {"identity": determines, "run": vars(result)}, "checkpoint", _to_json)
        checkpoint.clear()
        return result


def _read_run(path: Path, kind: type) -> Any:
    if not path.exists():
        return None
    try:
        return kind(**_from_json(read_document(path)["run"]))
    except (OSError, ValueError, KeyError, TypeError):
        _warn_of_damage(path)
        return None


def _to_json(value: object) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Status):
        return {"status": str(value)}
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _from_json(value: object) -> Any:
    if isinstance(value, list):
        return [_from_json(part) for part in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"array"}:
        return np.array(value["array"])
    return _STATUS[value["status"]] if value.keys() == {"status"} else {key: _from_json(v) for key, v in value.items()}


def _warn_of_damage(path: Path) -> None:
    warnings.warn(f"{path} cannot be read: its content is computed again", RuntimeWarning, stacklevel=2)
