"""What a page is doing between a question and the whole answer: the phases, and what leads from one to the other."""

from __future__ import annotations

from enum import Enum, auto


class Event(Enum):
    """What happens to a computation: asked for, partly shown, taking longer than a moment, ended."""

    ASK = auto()
    PART = auto()
    MOMENT = auto()
    END = auto()


class Phase(Enum):
    """The phase of a page.

    Attributes:
        IDLE: nothing is computed.
        ASKED: the picture is that of an earlier question; the page does not say yet that it computes.
        PARTIAL: a part of the answer is shown; the page does not say yet that it computes.
        LATE: the picture is that of an earlier question; the page says that it computes.
        GROWING: a part of the answer is shown; the page says that it computes.

    Example:
        >>> Phase.IDLE.after(Event.ASK).after(Event.MOMENT).after(Event.PART)
        <Phase.GROWING: 5>
    """

    IDLE = auto()
    ASKED = auto()
    PARTIAL = auto()
    LATE = auto()
    GROWING = auto()

    @property
    def busy(self) -> bool:
        """Whether the page says that it computes."""
        return self in (Phase.LATE, Phase.GROWING)

    def after(self, event: Event) -> Phase:
        """Return the phase after an event; the same one if the event changes nothing."""
        return _TRANSITIONS[event].get(self, self)


_TRANSITIONS = {
    Event.ASK: {Phase.IDLE: Phase.ASKED, Phase.PARTIAL: Phase.ASKED, Phase.GROWING: Phase.LATE},
    Event.PART: {Phase.ASKED: Phase.PARTIAL, Phase.LATE: Phase.GROWING},
    Event.MOMENT: {Phase.ASKED: Phase.LATE, Phase.PARTIAL: Phase.GROWING},
    Event.END: dict.fromkeys(Phase, Phase.IDLE),
}
