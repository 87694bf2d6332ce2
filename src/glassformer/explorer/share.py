"""What a person takes along: a table, a picture, and the words that give the same numbers elsewhere."""

from __future__ import annotations

import html
import io
import tempfile
from functools import partial
from pathlib import Path

import panel as pn

from glassformer.explorer.answer import Answer
from glassformer.explorer.collapsible import Collapsible

# Lines of the table beside a figure.
_LINES = 200


class Share:
    """Below a figure: what it shows in words and numbers, and what can be downloaded of it."""

    def __init__(self, name: str) -> None:
        self._answer: Answer | None = None
        wide = {"sizing_mode": "stretch_width", "margin": (0, 8)}
        self._said = pn.pane.HTML("", **wide)
        self._table, self._words = Collapsible("Values as a table"), Collapsible("Code that gives the same numbers")
        # What a button does not have yet it makes when it is pressed.
        ready = {"auto": True, "embed": False, "disabled": True, "width": 210, "margin": (4, 8)}
        self._csv = pn.widgets.FileDownload(
            callback=self._as_csv, filename=f"{name}.csv", label=f"CSV: {name}", **ready
        )
        self._png = pn.widgets.FileDownload(
            callback=self._as_png, filename=f"{name}.png", label=f"PNG: {name}", **ready
        )
        self.view = pn.Column(
            self._said,
            pn.FlexBox(self._csv, self._png),
            self._words.view,
            self._table.view,
            sizing_mode="stretch_width",
        )

    def show(self, answer: Answer) -> None:
        """Have the latest answer to offer."""
        self._answer = answer
        self._said.object = f'<p class="said">{html.escape(answer.said)}</p>'
        self._table.show(partial(_table, answer))
        self._words.show(partial(_words, answer))
        self._csv.disabled = self._png.disabled = answer.first_look

    def _as_csv(self) -> io.BytesIO:
        return io.BytesIO(b"" if self._answer is None else self._answer.frame.to_csv(index=False).encode())

    def _as_png(self) -> io.BytesIO:
        if self._answer is None:
            return io.BytesIO()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "figure.png"
            self._answer.plot(path)
            return io.BytesIO(path.read_bytes())


def _table(answer: Answer) -> str:
    lines = answer.frame.head(_LINES).to_html(index=False, border=0, float_format=lambda x: f"{x:.6g}")
    more = f"<p>The first {_LINES} of {len(answer.frame)} rows.</p>" if len(answer.frame) > _LINES else ""
    return f'<div class="wide">{lines}</div>{more}'


def _words(answer: Answer) -> str:
    described = [("Command line", answer.command), ("Python", answer.code)]
    return "".join(f"<h4>{title}</h4><pre>{html.escape(text)}</pre>" for title, text in described if text)
