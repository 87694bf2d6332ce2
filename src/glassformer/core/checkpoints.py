"""What an interrupted computation leaves on disk, and what it continues from."""

from __future__ import annotations

import io
import json
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.core.estimate import Array
from glassformer.core.files import (
    made,
    read_regular,
    replaced,
    sealed,
    sealed_document,
    unsealed,
    unsealed_document,
)
from glassformer.core.hashing import identity as identity_of
from glassformer.core.status import Status

# Seconds of work that an interruption may cost.
_EVERY = 20.0
_STATUS = {str(status): status for status in Status}


@dataclass
class Checkpoint:
    """The state of one computation in a file, replaced now and then as a whole; nothing without a ``path``.

    Args:
        path: the file, or None to keep nothing.
        every: seconds between two writes.

    Example:
        >>> Checkpoint().load() is None
        True
    """

    path: Path | None = None
    every: float = _EVERY
    written: float = field(default_factory=time.monotonic)

    def load(self) -> dict[str, Array] | None:
        """The arrays last saved; None if there are none, or (with a warning) none that are whole."""
        if self.path is None or not self.path.exists():
            return None
        try:
            content = io.BytesIO(unsealed(self.path.name, read_regular(self.path)))
            with np.load(content, allow_pickle=False) as stored:
                return {name: stored[name] for name in stored.files}
        except (OSError, ValueError):
            _discarded(self.path)
            return None

    def offer(self, state: Callable[[], dict[str, Array]]) -> None:
        """Save ``state()`` if the last write is long enough ago."""
        if self.path is not None and time.monotonic() - self.written >= self.every:
            self.save(state())
            self.written = time.monotonic()

    def save(self, arrays: dict[str, Array]) -> None:
        """Replace the file."""
        if self.path is not None:
            content = io.BytesIO()
            np.savez(content, **arrays)  # type: ignore[arg-type]
            with replaced(self.path, "checkpoint") as part:
                part.write_bytes(sealed(self.path.name, content.getvalue()))

    def clear(self) -> None:
        """Forget the state: the computation is finished."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def stacked(records: list[dict[str, Any]]) -> dict[str, Array]:
    """Records with the same names, as one array per name."""
    return {f"record_{name}": np.array([record[name] for record in records]) for name in (records or [{}])[0]}


def unstacked(arrays: dict[str, Array]) -> list[dict[str, Any]]:
    """The records in what :func:`stacked` made of them, among other arrays.

    Example:
        >>> unstacked({**stacked([{"a": 1.0}, {"a": 2.0}]), "b": np.zeros(3)}) == [{"a": 1.0}, {"a": 2.0}]
        True
    """
    named = {name.removeprefix("record_"): part for name, part in arrays.items() if name.startswith("record_")}
    return [dict(zip(named, entry, strict=True)) for entry in zip(*named.values(), strict=True)]


def leaves(values: Iterable[Any]) -> dict[str, Array]:
    """Arrays in a given order, each under a name.

    Example:
        >>> sorted(leaves([np.zeros(2), np.ones(3)]))
        ['leaf_0', 'leaf_1']
    """
    return {f"leaf_{k}": np.asarray(value) for k, value in enumerate(values)}


def unleaved(arrays: dict[str, Array]) -> list[Array]:
    """What :func:`leaves` was given, among other arrays."""
    return [arrays[f"leaf_{k}"] for k in range(sum(name.startswith("leaf_") for name in arrays))]


@dataclass(frozen=True)
class Keeper:
    """Finished runs and states of unfinished ones in a folder, under a key of all that determines them.

    Args:
        folder: created if missing; None to keep nothing.

    Raises:
        DataError: the folder cannot be made or written to.
    """

    folder: Path | None = None

    def __post_init__(self) -> None:
        if self.folder is not None:
            made(self.folder, "checkpoint")

    def run(self, kind: type, identity: dict[str, Any] | None, compute: Callable[[Checkpoint], Any]) -> Any:
        """The finished run of this identity, read or else computed and kept.

        Args:
            kind: the data class of the run.
            identity: all that determines the run, in types that JSON knows; None where that is not known, and nothing
                is kept.
            compute: called with the checkpoint of the computation.
        """
        if self.folder is None or identity is None:
            return compute(Checkpoint())
        key = identity_of(identity)
        record, checkpoint = self.folder / f"{key}.json", Checkpoint(self.folder / f"{key}.npz")
        found = _read(record, kind)
        if found is None:
            found = compute(checkpoint)
            _write(record, identity, found)
        checkpoint.clear()
        return found


def _read(path: Path, kind: type) -> Any:
    if not path.exists():
        return None
    try:
        found = read_regular(path)
        unsealed_document(path.name, found)
        return kind(**json.loads(found, object_hook=_decoded)["run"])
    except (OSError, ValueError, KeyError, TypeError):
        _discarded(path)
        return None


def _write(path: Path, identity: dict[str, Any], run: Any) -> None:
    plain = json.loads(json.dumps({"identity": identity, "run": vars(run)}, default=_encoded))
    with replaced(path, "checkpoint") as part:
        part.write_text(json.dumps(sealed_document(path.name, plain), indent=1))


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {"array": value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Status):
        return {"status": str(value)}
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _decoded(found: dict[str, Any]) -> Any:
    if found.keys() == {"array"}:
        return np.array(found["array"])
    return _STATUS[found["status"]] if found.keys() == {"status"} else found


def _discarded(path: Path) -> None:
    warnings.warn(f"{path} cannot be read: what it held is computed again", RuntimeWarning, stacklevel=2)
