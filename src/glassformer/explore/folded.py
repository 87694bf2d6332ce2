"""What is folded away, and is made only when it is looked at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import param
from panel.custom import JSComponent


class Folded(JSComponent):
    """A title that unfolds."""

    title = param.String(default="")
    content = param.String(default="")
    unfolded = param.Boolean(default=False)

    _esm = """
export function render({ model }) {
  const details = document.createElement("details");
  const summary = document.createElement("summary");
  const body = document.createElement("div");
  summary.textContent = model.title;
  body.innerHTML = model.content;
  details.open = model.unfolded;
  details.append(summary, body);
  details.addEventListener("toggle", () => { model.unfolded = details.open; });
  model.on("content", () => { body.innerHTML = model.content; });
  return details;
}
"""

    def __init__(self, title: str, **given: Any) -> None:
        self._make: Callable[[], str] | None = None
        super().__init__(title=title, sizing_mode="stretch_width", margin=(0, 8), **given)
        self.param.watch(lambda _: self._fill(), "unfolded")

    def show(self, make: Callable[[], str]) -> None:
        """Have HTML made, at once if it is unfolded."""
        self._make = make
        self._fill()

    def _fill(self) -> None:
        if self.unfolded and self._make is not None:
            self.content = self._make()
