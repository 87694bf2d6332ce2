"""The controls at the side of the page: parameters of the model, settings of the view, and learners that fit."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import panel as pn

from glassformer.core.errors import GlassformerError, ParameterError
from glassformer.core.options import Option
from glassformer.explorer.controls import Control, of_option
from glassformer.explorer.limits_view import learners_with_theory
from glassformer.explorer.question import SETTINGS, Question, learner_options
from glassformer.explorer.session import in_order
from glassformer.explorer.views import View
from glassformer.learners.registry import learner_type

WIDE: dict[str, Any] = {"sizing_mode": "stretch_width", "margin": 0}


class Side:
    """All controls of a view, made from the options of the model, of ``Settings`` and of learners.

    Args:
        change: called with the name of a control and its new text.
    """

    def __init__(self, change: Callable[[str, str], None]) -> None:
        self._change = change
        self.controls: dict[str, Control] = {}
        self.refused: Mapping[str, str] = {}
        self.learners = group()
        self.more = pn.widgets.Toggle(name="More parameters", margin=0)
        self._hidden: list[str] = []
        self._texts: Mapping[str, str] = {}

    def arrange(self, question: Question, view: View, texts: Mapping[str, str]) -> list[Any]:
        """Return the controls of a view, below their titles.

        Args:
            question: asked first.
            view: that is open.
            texts: of all controls, at any time.
        """
        self._texts, settings = texts, [SETTINGS[name] for name in ("alpha", *view.settings)]
        self.controls = {one.field: self._control(one, question) for one in [*question.options, *settings]}
        own_link = question.function is not None
        shown = [one.field for one in question.options if one.usual or one.among or (own_link and one.required)]
        self._hidden = [one.field for one in question.options if one.field not in shown]
        more = group(*(self.controls[name] for name in self._hidden), visible=False)
        self.more = pn.widgets.Toggle(name="More parameters", margin=0)
        self.more.link(more, value="visible")
        parts = [*(self.controls[name] for name in shown), self.more, more, title("Samples"), self.controls["alpha"]]
        parts += [self.controls["at"]] if "at" in self.controls else []
        own = [self.controls[name] for name in view.settings if name not in ("at", "learners")]
        parts += [title(view.title), *own] if own else [title("Learners")] if "learners" in view.settings else []
        self.learners = group()
        self._offer_learners()
        return [*parts, self.learners]

    def _control(self, option: Option, question: Question) -> Control:
        name, given = option.field, dict[str, Any]()
        text = question.texts.get(name, "")
        if name == "at":
            with suppress(GlassformerError):
                top, text = max(question.alpha), f"{question.at:.6g}"
                given = {"kind": "slider", "end": top, "step": top / 100}
        elif name == "horizontal":
            given = {"choices": {one.field: one.name.replace("_", " ") for one in question.options if one.usual}}
        elif name in ("learner", "trained"):
            given = {"choices": self._choices(option)}
        return of_option(option, text, partial(self._choose if name == "learner" else self._change, name), **given)

    def _choices(self, option: Option) -> dict[str, str]:
        words = [word for word in option.among if word not in self.refused]
        return {word: word if word == "none" else learner_type(word).info.title for word in words}

    def offer(self, refused: Mapping[str, str]) -> None:
        """Offer only learners that can learn from the model; the others are refused, with a reason."""
        if refused == self.refused:
            return
        self.refused = refused
        for name in {"learner", "trained"} & {*self.controls}:
            control, choices = self.controls[name], self._choices(SETTINGS[name])
            text = control.text if control.text in choices else next(iter(choices))
            control.param.update(choices=choices, text=text)
        self._offer_learners()

    def _offer_learners(self) -> None:
        """Show the settings of the chosen learners, below a check box where several are chosen of those that fit."""
        parts, many = list[Any](), "learners" in self.controls
        chosen = self._texts["learners"].split(",") if many else [self._texts["learner"]] * ("learner" in self.controls)
        for name in (one for one in (learners_with_theory() if many else chosen) if one not in self.refused):
            text, label = "yes" if name in chosen else "", learner_type(name).info.title
            if many:
                parts.append(Control(partial(self._tick, name), kind="flag", label=label, text=text))
            for option in learner_options(name) if text else ():
                key = f"{name}.{option.field}"
                change = partial(self._change, key)
                self.controls[key] = of_option(option, self._texts.get(key, ""), change, css_classes=["inner"])
                parts.append(self.controls[key])
        reasons = "".join(f'<p class="note">{html.escape(why)}</p>' for why in self.refused.values())
        if many and reasons:
            parts.append(pane(f"<details><summary>Not for this model</summary>{reasons}</details>"))
        self.learners.objects = parts

    def _tick(self, name: str, text: str) -> None:
        chosen = [one for one in self._texts["learners"].split(",") if one != name] + [name] * bool(text)
        self._choose("learners", ",".join(one for one in learners_with_theory() if one in chosen))

    def _choose(self, name: str, text: str) -> None:
        """Change which learners are chosen, and show their settings."""
        self._change(name, text)
        in_order(self._offer_learners)()

    def blame(self, error: Exception | None) -> bool:
        """Say what is wrong beside the control that is to blame, and return whether there is one; None for nothing."""
        name = error.name if isinstance(error, ParameterError) else ""
        # An error names the field or the option, whose words are the label.
        fits = (k for k, one in self.controls.items() if name in (k.rpartition(".")[2], one.label.replace(" ", "_")))
        blamed = next(fits, "") if name else ""
        for key, control in self.controls.items():
            control.error = str(error) if key == blamed else ""
        self.more.value = self.more.value or blamed in self._hidden
        return bool(blamed)


def pane(text: str, **given: Any) -> Any:
    """Return HTML as wide as its place."""
    return pn.pane.HTML(text, **{**WIDE, **given})


def title(text: str) -> Any:
    """Return the title of a group of controls."""
    return pane(f"<h2>{text}</h2>")


def group(*parts: Any, **given: Any) -> Any:
    """Return controls below each other."""
    return pn.Column(*parts, css_classes=["group"], **WIDE, **given)
