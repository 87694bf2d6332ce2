"""A learner as a sweep names it: its name and settings, or an object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.core.errors import ParameterError
from glassformer.core.files import user_path
from glassformer.core.results import name_or_value
from glassformer.core.settings import non_default_fields
from glassformer.learners.base import Learner
from glassformer.learners.labels import settings_words
from glassformer.learners.own import OwnLearner
from glassformer.learners.registry import learner, learner_type, parse_settings, resolve_learner


@dataclass(frozen=True)
class LearnerEntry:
    """A learner of a sweep.

    Attributes:
        name: name of the learner, or ``FILE.py:FUNCTION`` for a training of one's own.
        settings: settings by name, as on the command line: ``"best"`` is the best strength, ``"FILE.py:FUNCTION"`` a
            loss.
        given: the learner as an object; None if it follows from name and settings.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    given: Learner | None = None

    @classmethod
    def of(cls, given: object) -> LearnerEntry:
        """Return the entry of a name, of a mapping with ``name`` and settings, or of an object.

        Raises:
            ParameterError: there is no name, or the object is no learner.

        Example:
            >>> print(LearnerEntry.of({"name": "risk", "strength": 0.5}), LearnerEntry.of("ridge"), sep="; ")
            risk, strength 0.5; ridge
        """
        # Imported here: pydantic is slow to import, and not needed without a sweep.
        from glassformer.sweeps.types import check

        if isinstance(given, str):
            return cls(given)
        if isinstance(given, Mapping):
            if "name" not in given:
                raise ParameterError("name", None, "a value in the table [learner]")
            check("learner", given["name"], str)
            return cls(given["name"], {name: value for name, value in given.items() if name != "name"})
        if isinstance(given, list | tuple):
            raise ParameterError("learner", given, "one learner; verb compare takes several")
        found = resolve_learner(given)
        settings = {} if found.info.family == "own" else non_default_fields(found)
        return cls(found.name, {name: name_or_value(value) for name, value in settings.items()}, found)

    def __str__(self) -> str:
        return ", ".join([self.name, *settings_words(self.settings)])

    @property
    def is_own(self) -> bool:
        """Whether the name is that of a function in a file."""
        return self.given is None and ".py:" in self.name

    def types(self, only: tuple[str, ...] | None = None) -> dict[str, Any]:
        """Return the types of the settings; with ``only`` of some of them.

        Raises:
            ParameterError: there is no learner of this name.
        """
        from glassformer.sweeps.types import of_settings

        kind = OwnLearner if self.is_own else learner_type(self.name) if self.given is None else type(self.given)
        types = of_settings(kind)
        types.pop("training", None)
        return types if only is None else {name: types[name] for name in only if name in types}

    def theory_settings(self, steps: bool) -> tuple[str, ...]:
        """Return the names of the settings that change the limits, or with ``steps`` the trajectory."""
        info = self.given.info if self.given else learner_type(self.name).info
        return (*info.trajectory_settings, "steps") if steps else info.limit_settings or ()

    def resolve(self, folder: Path | None, d: int | None = None) -> Learner:
        """Return the learner; files are relative to a folder, and code in them is run.

        Args:
            folder: the folder.
            d: token dimension of runs, for learners that refer to one.

        Raises:
            ParameterError: the name, a file or a setting is unknown, or a value is out of range.
        """
        if self.given is not None:
            return self.given
        if self.is_own:
            return learner(str(user_path(self.name, folder)), **self.settings)
        return learner(self.name, d, **parse_settings(self.name, self.settings, folder))

    def values(self, folder: Path | None) -> dict[str, Any]:
        """Return the settings with texts replaced by their values, for checks of types."""
        if self.given is not None or self.is_own:
            return dict(self.settings)
        return parse_settings(self.name, self.settings, folder)
