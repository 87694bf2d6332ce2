"""What is asked, and what a panel answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from glassformer.explorer import words


@dataclass(frozen=True)
class Request:
    """One question: a model, and what is to be shown of it.

    Attributes:
        name: of the model in the table.
        model: itself.
        texts: what was asked, in the words of the command line.
        link: ``FILE.py:FUNCTION``, where labels are a function of one's own.
        function: that function.
    """

    name: str
    model: Any
    texts: dict[str, str]
    link: str = ""
    function: Callable[..., Any] | None = None

    def command(self, name: str, **other: Any) -> str:
        """A command line about this model."""
        return words.command(name, self.name, self.texts, self.link, **other)

    def code(self, call: str, **imports: str) -> str:
        """Python code about this model."""
        return words.code(call, self.model, self.texts, self.link, imports)


@dataclass(frozen=True)
class Answer:
    """What a panel shows.

    Attributes:
        content: what its figure is made of.
        frame: the numbers, as a data frame.
        said: what the figure shows, in words.
        command: the command line that gives the numbers; empty where there is none.
        code: the Python code that does.
        plot: draws them into a file.
        notes: what else there is to say.
        first_look: whether these are numbers of a moment, which others follow: nothing to take along.
    """

    content: Any
    frame: Any
    said: str
    command: str
    code: str
    plot: Callable[[Path], None]
    notes: list[str] = field(default_factory=list)
    first_look: bool = False
