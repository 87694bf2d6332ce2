"""Laws of the inputs by name, and from files of users."""

from __future__ import annotations

from pathlib import Path

from glassformer.core.errors import ParameterError
from glassformer.core.link_parsing import object_from
from glassformer.core.registry import create_by_name
from glassformer.inputs.law import FieldLaw

# Names of laws, and their classes.
LAWS = {"hidden-token:SIGNAL": "hidden_token:HiddenToken"}
NAMES = tuple(LAWS)


def inputs_of(given: object, folder: Path | None = None) -> FieldLaw | None:
    """Return the law that the argument ``inputs=`` is, or names; None for standard normal inputs.

    Args:
        given: a law, the name of one, such as ``"hidden-token:2.0"``, or ``"FILE.py:OBJECT"``.
        folder: folder that the file name refers to.

    Raises:
        ParameterError: no law of that name, or a number out of its range.

    Example:
        >>> inputs_of("hidden-token:2.0")
        HiddenToken(signal=2.0, row=0, places=None)
    """
    if given is None or isinstance(given, FieldLaw):
        return given
    allowed = f"one of {', '.join(NAMES)}, FILE.py:OBJECT, or a law such as HiddenToken(2.0)"
    try:
        if isinstance(given, str) and ".py:" in given:
            found = object_from(given, folder, "inputs", "an object")
        else:
            found = create_by_name(given, LAWS, "inputs")
    except LookupError as error:
        raise ParameterError("inputs", given, allowed) from error
    if not isinstance(found, FieldLaw):
        raise ParameterError("inputs", given, allowed)
    return found
