"""A folder of records, one line per point: whole, checked, and read by people as well.

Points that are computed together share a file, which is replaced as a whole: a file per point would cost more than
computing it.
"""

from __future__ import annotations

import json
import math
import warnings
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glassformer import __version__
from glassformer.core.errors import DataError
from glassformer.core.files import make_folder, read_regular, replace_file
from glassformer.experiments.sweeps.axes import plain_values
from glassformer.experiments.sweeps.plan import FORMAT, Point, Sweep

FAILED = "failed"


@dataclass(frozen=True)
class Record:
    """What is known of one point.

    Attributes:
        status: how its computation ended, by the name of a :class:`~glassformer.Status`, or ``"failed"``.
        values: numbers, vectors and matrices by name; empty where it failed.
        message: what went wrong where it failed.
        seconds: what it took, its share of a batch.
        version: of the package that computed it.
    """

    status: str
    values: dict[str, Any]
    message: str = ""
    seconds: float = 0.0
    version: str = __version__

    @property
    def good(self) -> bool:
        """Whether there is nothing to gain from another attempt: it converged, or is bistable, which is a result."""
        return self.status in ("converged", "bistable")


@dataclass(frozen=True)
class Store:
    """The records of one sweep or of several.

    Args:
        folder: made if needed.

    Raises:
        DataError: the folder cannot be made, or a symbolic link stands for one of its own folders.
    """

    folder: Path

    def __post_init__(self) -> None:
        for own in (self.points, self.locks):
            # Somebody else who can write to the store could have files written elsewhere.
            if own.is_symlink():
                raise DataError("store", str(own), "a folder, not a symbolic link", "remove the link")
            make_folder(own, "store")

    @classmethod
    def existing(cls, folder: str | Path) -> Store:
        """A store that is there already.

        Raises:
            DataError: there is none.
        """
        if not (Path(folder) / "sweep.json").is_file():
            raise DataError("store", str(folder), "a folder that `sweep run` has filled", "run the sweep first")
        return cls(Path(folder))

    @property
    def points(self) -> Path:
        """The folder of the records."""
        return self.folder / "points"

    @property
    def locks(self) -> Path:
        """The folder of the files by which processes tell each other what they work on."""
        return self.folder / "locks"

    def keep_sweep(self, sweep: Sweep, points: Sequence[Point]) -> str:
        """Remember the sweep, with the keys of its points, and name another one that it hides; empty for none."""
        keys = [point.key for point in points]
        hidden = self._hidden_by(sweep, keys)
        with replace_file(self.folder / "sweep.json", "store") as part:
            part.write_text(json.dumps({"format": FORMAT, "sweep": sweep.to_dict(), "keys": keys}, indent=1))
        return hidden

    def _hidden_by(self, sweep: Sweep, keys: Sequence[str]) -> str:
        try:
            before, known = self.sweep()
        except DataError:
            return ""
        # A wider grid shows all that was shown, and another version of the package never finds the old points again.
        if before == sweep.to_dict() or set(known) <= set(keys):
            return ""
        return " ".join([before["compute"], before["model"], "over", ", ".join(before["axes"])])

    def sweep(self) -> tuple[dict[str, Any], list[str]]:
        """The sweep last run, and the keys of its points, the last axis running fastest.

        Raises:
            DataError: it cannot be read.
        """
        try:
            return _described(json.loads(read_regular(self.folder / "sweep.json")))
        except (OSError, ValueError, RecursionError) as error:
            raise DataError("store", str(self.folder), "a whole sweep.json", f"run the sweep again ({error})") from None

    def write(self, task: str, records: Mapping[str, tuple[Point, Record]]) -> None:
        """Keep the records of points of a task, by their keys, beside what is there of it: all or none of them."""
        before = self._lines(self._path(task))
        lines = {key: text for key, (text, _) in before.items()}
        lines |= {key: _line(point, record) for key, (point, record) in records.items()}
        with replace_file(self._path(task), "store", durable=False) as part:
            part.write_bytes("".join(lines.values()).encode())

    def read(self, task: str | None = None) -> dict[str, Record]:
        """The whole records by the keys of their points, of one task or of all; damaged ones are named in a warning."""
        paths = sorted(self.points.glob("*.jsonl")) if task is None else [self._path(task)]
        return {key: record for path in paths for key, (_, record) in self._lines(path).items()}

    def _lines(self, path: Path) -> dict[str, tuple[str, Record]]:
        """Text and record of every line that is what was written."""
        try:
            text = read_regular(path).decode()
        except FileNotFoundError:
            return {}
        except (OSError, UnicodeDecodeError):
            _damaged(path, "none of it")
            return {}
        found, lost = {}, []
        for number, line in enumerate(text.splitlines(keepends=True), start=1):
            try:
                key, record = _parsed(line)
            except (ValueError, KeyError, TypeError, RecursionError):
                lost.append(str(number))
            else:
                found[key] = line, record
        if lost:
            _damaged(path, f"line{'s' if len(lost) > 1 else ''} {', '.join(lost)}")
        return found

    def _path(self, task: str) -> Path:
        return self.points / f"{task}.jsonl"


# What a sweep is described by, see Sweep.to_dict.
_DESCRIBED = {
    **dict.fromkeys(("model", "compute"), str),
    **dict.fromkeys(("parameters", "axes", "units", "simulation", "settings"), dict),
}


def _described(document: Any) -> tuple[dict[str, Any], list[str]]:
    """The sweep in a document and the keys of its points.

    Raises:
        ValueError: it is no such document.
    """
    form = document.get("format") if isinstance(document, dict) else None
    if form != FORMAT:
        raise ValueError(f"it is of format {form}, this version reads format {FORMAT}")
    sweep, keys = document.get("sweep"), document.get("keys")
    whole = isinstance(sweep, dict) and all(isinstance(sweep.get(name), kind) for name, kind in _DESCRIBED.items())
    if not whole or not all(isinstance(values, list) for values in sweep["axes"].values()):
        raise ValueError("it does not describe a sweep")
    points = math.prod(map(len, sweep["axes"].values()))
    if not (isinstance(keys, list) and len(keys) == points and all(isinstance(key, str) for key in keys)):
        raise ValueError(f"it does not have the keys of {points} points")
    return sweep, keys


# A line begins with this, the checksum of the rest and the next one, and ends with a brace and a line break.
_HEAD, _NECK, _TAIL = '{"checksum": "', '", "record": ', "}\n"


def _line(point: Point, record: Record) -> str:
    versions = {"format": FORMAT, "glassformer": record.version}
    known = {name: value for name, value in vars(record).items() if name != "version"}
    text = json.dumps({"key": point.key, **versions, "coordinates": plain_values(point.coordinates), **known})
    return f"{_HEAD}{zlib.crc32(text.encode()):08x}{_NECK}{text}{_TAIL}"


def _parsed(line: str) -> tuple[str, Record]:
    begin = len(_HEAD) + 8 + len(_NECK)
    text = line[begin : -len(_TAIL)]
    if line != f"{_HEAD}{zlib.crc32(text.encode()):08x}{_NECK}{text}{_TAIL}":
        raise ValueError
    content = json.loads(text)
    names = ("status", "values", "message", "seconds", "glassformer")
    return content["key"], Record(*(content[name] for name in names))


def _damaged(path: Path, part: str) -> None:
    warnings.warn(f"{path} is damaged ({part}): what it held counts as missing", RuntimeWarning, stacklevel=2)
