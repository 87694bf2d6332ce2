"""Parameters of the parts of a model, by names with a dot: ``inputs.signal``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from glassformer.core.errors import ParameterError


def with_nested(parameters: Mapping[str, Any], present: Callable[[str], object]) -> dict[str, Any]:
    """Return parameters with those of parts, whose names have a dot, inserted into copies of the parts.

    Args:
        parameters: values by name.
        present: returns the part of a name that is not among the parameters.

    Raises:
        ParameterError: there is no such part, or it has no such field.

    Example:
        >>> from glassformer.inputs import HiddenToken
        >>> with_nested({"inputs.signal": 2.0}, {"inputs": HiddenToken(1.0)}.get)
        {'inputs': HiddenToken(signal=2.0, row=0, places=None)}
    """
    found = {name: value for name, value in parameters.items() if "." not in name}
    for name, value in parameters.items():
        part, dot, field = name.partition(".")
        if not dot:
            continue
        own: Any = found[part] if part in found else present(part)
        if own is None:
            raise ParameterError(name, value, f"a value for {part} that is given: give {part} as well")
        known = [one.name for one in dataclasses.fields(own)] if dataclasses.is_dataclass(own) else []
        if field not in known:
            raise ParameterError(name, value, f"a field of {part}: {', '.join(known) or 'it has none'}")
        found[part] = dataclasses.replace(own, **{field: value})
    return found
