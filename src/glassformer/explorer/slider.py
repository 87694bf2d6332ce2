"""A slider that screen readers and keyboards know: the one that browsers have, with a name.

Panel's own (as of 1.9) moves by the keyboard, but has no name: a screen reader says "slider" and a number, not of what.
"""

from __future__ import annotations

from typing import Any

import param
from panel.custom import JSComponent


class Slider(JSComponent):
    """A number between two ends, named by a label."""

    # Panel waits this many milliseconds before it tells of a move; a hand that moves on is heard once more anyway.
    _debounce = 0

    label = param.String(default="")
    value = param.Number(default=0.0)
    start = param.Number(default=0.0)
    end = param.Number(default=1.0)
    step = param.Number(default=0.01)

    _esm = """
export function render({ model }) {
  const input = document.createElement("input");
  Object.assign(input, { type: "range", min: model.start, max: model.end, step: model.step, value: model.value });
  input.setAttribute("aria-label", model.label);
  input.style.width = "100%";
  input.addEventListener("input", () => { model.value = Number(input.value); });
  model.on("value", () => { input.value = model.value; });
  return input;
}
"""

    def __init__(self, **given: Any) -> None:
        super().__init__(sizing_mode="stretch_width", margin=(0, 8), **given)
