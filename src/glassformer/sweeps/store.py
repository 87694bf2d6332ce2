"""The store of a sweep: a folder of records, one line of JSON per point, with a checksum.

Points that are computed together share a file, which is replaced as a whole: one file per point would cost more than
computing the point.
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
from glassformer.core.files import make_folder, read_regular, replace_file, user_path
from glassformer.core.renamed import renamed
from glassformer.sweeps.grid import FORMAT, Grid, GridPoint, json_values

FAILED = "failed"
# Fields of a described sweep that are read, see Grid.to_dict.
_DESCRIBED = {
    **dict.fromkeys(("model", "verb"), str),
    **dict.fromkeys(("parameters", "axes", "units", "runs", "accuracy", "options"), dict),
    "learner": dict | list,
}


class OtherFormatError(DataError):
    """Another version of the package wrote the store, in another format."""


@dataclass(frozen=True)
class Record:
    """The result at one point.

    Attributes:
        status: how its computation ended, by the name of a :class:`~glassformer.Status`, or ``"failed"``.
        values: numbers, vectors and matrices by name; empty for a failure.
        message: the error of a failure, or notes on the numbers of thresholds and simulations, for instance on theory
            that did not converge.
        seconds: time of the computation, a share of the time of its batch.
        version: version of the package that computed it.
    """

    status: str
    values: dict[str, Any]
    message: str = ""
    seconds: float = 0.0
    version: str = __version__

    @property
    def good(self) -> bool:
        """Whether the point needs no other attempt: it converged, or is bistable, which is a result."""
        return self.status in ("converged", "bistable")


@dataclass(frozen=True)
class Store:
    """The records of one sweep or of several.

    Args:
        folder: made if needed, with the folders above it.

    Raises:
        DataError: the folder cannot be made, or one of its own folders is a symbolic link.
    """

    folder: Path

    def __post_init__(self) -> None:
        make_folder(self.folder, "store", parents=True)
        for own in (self.points, self.locks):
            # A link that somebody else puts into the store could redirect files to another place.
            if own.is_symlink():
                raise DataError("store", str(own), "a folder, not a symbolic link", "remove the link")
            make_folder(own, "store")

    @classmethod
    def existing(cls, folder: str | Path) -> Store:
        """Open a store that exists already.

        Raises:
            DataError: it does not exist.
        """
        path = user_path(folder)
        if not (path / "sweep.json").is_file():
            raise DataError("store", str(folder), "a folder with records of `sweep run`", "run the sweep first")
        return cls(path)

    @property
    def points(self) -> Path:
        """The folder of the records."""
        return self.folder / "points"

    @property
    def locks(self) -> Path:
        """The folder of the files by which processes lock tasks."""
        return self.folder / "locks"

    def write_sweep(self, sweep: Grid, points: Sequence[GridPoint]) -> str:
        """Write the sweep and the keys of its points; return the other sweep that it hides, or an empty text.

        Raises:
            OtherFormatError: the sweep of the store has another format; it is left as it is.
        """
        keys, described, hidden = [point.key for point in points], sweep.to_dict(), ""
        try:
            before, known = self.read_sweep()
        except OtherFormatError:
            raise
        except DataError:
            pass
        else:
            # A wider grid contains all earlier points; another version of the package has other keys.
            if before != described and not set(known) <= set(keys):
                hidden = " ".join([before["verb"], before["model"], "over", ", ".join(before["axes"])])
        with replace_file(self.folder / "sweep.json", "store") as part:
            part.write_text(json.dumps({"format": FORMAT, "sweep": described, "keys": keys}, indent=1))
        return hidden

    def read_sweep(self) -> tuple[dict[str, Any], list[str]]:
        """Return the sweep last run, and the keys of its points, the last axis running fastest.

        Raises:
            OtherFormatError: it has another format.
            DataError: it cannot be read.
        """
        try:
            document = json.loads(read_regular(self.folder / "sweep.json"))
            form = document.get("format") if isinstance(document, dict) else None
            if form != FORMAT:
                if isinstance(form, int):
                    raise self._other_format(form, document.get("sweep"))
                raise ValueError(f"it is of format {form}, this version reads format {FORMAT}")
            sweep, keys = document.get("sweep"), document.get("keys")
            whole = isinstance(sweep, dict) and all(isinstance(sweep.get(n), kind) for n, kind in _DESCRIBED.items())
            if not whole or not all(isinstance(values, list) for values in sweep["axes"].values()):
                raise ValueError("it does not describe a sweep")
            points = math.prod(map(len, sweep["axes"].values()))
            if not (isinstance(keys, list) and len(keys) == points and all(isinstance(key, str) for key in keys)):
                raise ValueError(f"it does not have the keys of {points} points")
        except OtherFormatError:
            raise
        except (OSError, ValueError, RecursionError) as error:
            raise DataError(
                "store", str(self.folder), "a complete sweep.json", f"run the sweep again ({error})"
            ) from None
        return sweep, keys

    def _other_format(self, form: int, sweep: object) -> OtherFormatError:
        """Return the error for a sweep of another format, with the new names of the words in it."""
        given = sweep if isinstance(sweep, dict) else {}
        words = ", ".join(filter(None, (renamed(f"{name}=", "Sweep") for name in given)))
        text = f"it is of format {form}{': ' if words else ''}{words}"
        return OtherFormatError(
            "store",
            str(self.folder),
            f"a store of format {FORMAT}, that of this version",
            f"run the sweep again in another folder ({text})",
        )

    def write(self, task: str, records: Mapping[str, tuple[GridPoint, Record]]) -> None:
        """Add the records of points of a task, by their keys: all or none of them."""
        path = self.points / f"{task}.jsonl"
        lines = {key: text for key, (text, _) in _read_lines(path).items()}
        lines |= {key: _to_line(point, record) for key, (point, record) in records.items()}
        with replace_file(path, "store", durable=False) as part:
            part.write_bytes("".join(lines.values()).encode())

    def read(self, task: str | None = None) -> dict[str, Record]:
        """Return the records of one task or of all, by the keys of their points; warn of damaged lines.

        Sweeps that overlap may have a point in different tasks. A result then counts more than a failure.
        """
        found: dict[str, Record] = {}
        for path in sorted(self.points.glob("*.jsonl")) if task is None else [self.points / f"{task}.jsonl"]:
            for key, (_, record) in _read_lines(path).items():
                if record.good or key not in found:
                    found[key] = record
        return found


# A line consists of this, the checksum of the record, the next part, the record, and a brace with a line break.
_HEAD, _NECK, _TAIL = '{"checksum": "', '", "record": ', "}\n"


def _with_checksum(text: str) -> str:
    return f"{_HEAD}{zlib.crc32(text.encode()):08x}{_NECK}{text}{_TAIL}"


def _to_line(point: GridPoint, record: Record) -> str:
    versions = {"format": FORMAT, "glassformer": record.version}
    content = {name: value for name, value in vars(record).items() if name != "version"}
    coordinates = json_values(point.coordinates)
    return _with_checksum(json.dumps({"key": point.key, **versions, "coordinates": coordinates, **content}))


def _read_lines(path: Path) -> dict[str, tuple[str, Record]]:
    """Return text and record of every undamaged line."""
    try:
        lines = read_regular(path).decode().splitlines(keepends=True)
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError):
        _warn_of_damage(path, "it cannot be read")
        return {}
    found, damaged = {}, []
    for number, line in enumerate(lines, start=1):
        text = line[len(_HEAD) + 8 + len(_NECK) : -len(_TAIL)]
        try:
            if line != _with_checksum(text):
                raise ValueError
            content = json.loads(text)
            names = ("status", "values", "message", "seconds", "glassformer")
            found[content["key"]] = line, Record(*(content[name] for name in names))
        except (ValueError, KeyError, TypeError, RecursionError):
            damaged.append(str(number))
    if damaged:
        _warn_of_damage(path, f"line{'s' if len(damaged) > 1 else ''} {', '.join(damaged)}")
    return found


def _warn_of_damage(path: Path, part: str) -> None:
    warnings.warn(f"{path} is damaged ({part}): its points count as missing", RuntimeWarning, stacklevel=2)
