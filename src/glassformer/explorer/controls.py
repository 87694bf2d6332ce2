"""Controls made from options: labelled inputs of the browser, with sliders, and errors beside them."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import param
from panel.custom import JSComponent

from glassformer.core.options import Option


class Control(JSComponent):
    """A text that a person changes: by a slider, an input, a choice, a check box or tabs.

    The inputs are those of the browser, which screen readers and keyboards know; the sliders of Panel have no name.
    """

    # Panel waits this many milliseconds before it sends a move of a slider.
    _debounce = 0

    kind = param.Selector(default="text", objects=["text", "slider", "choice", "flag", "tabs"])
    label = param.String(default="")
    help = param.String(default="")
    text = param.String(default="")
    choices = param.Dict(default={})
    start = param.Number(default=0.0)
    end = param.Number(default=1.0)
    step = param.Number(default=0.01)
    error = param.String(default="")

    _esm = Path(__file__).with_name("control.js").read_text()

    def __init__(self, changed: Callable[[str], None], **given: Any) -> None:
        super().__init__(**{"sizing_mode": "stretch_width", "margin": 0, **given})
        self.param.watch(lambda event: changed(event.new), "text")


def of_option(option: Option, text: str, changed: Callable[[str], None], **given: Any) -> Control:
    """Return the control of an option: its kind follows from the type, the usual range and the allowed words."""
    label = option.name.replace("_", " ")
    kind, more = "text", dict[str, Any]()
    if option.flag:
        kind, label = "flag", f"{label}: {option.meaning}"
    elif option.among:
        kind, more = "choice", {"choices": {word: word for word in option.among}}
    elif option.usual:
        kind, (start, end) = "slider", option.usual
        step = 10.0 ** math.floor(math.log10(end - start)) / 100
        more = {"start": start, "end": end, "step": max(step, 1.0) if option.whole else step}
    return Control(changed, **{"kind": kind, "label": label, "help": option.meaning, "text": text, **more, **given})
