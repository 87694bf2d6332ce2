"""Results that this process computes once while they are among the latest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

from glassformer.core.hashing import identified

_LATEST = 128

_memory: OrderedDict[str, Any] = OrderedDict()
_lock = Lock()


def memoize(compute: Callable[[], Any], *parts: Any) -> Any:
    """What ``compute`` returns, which nobody may change; computed anew where it cannot be told what determines it.

    Args:
        compute: returns the result.
        parts: all that determines it beside the code of this package.

    Example:
        >>> memoize(lambda: [1], "list", 1) is memoize(lambda: [1], "list", 1)
        True
    """
    key = identified(*parts)
    if key is None:
        return compute()
    with _lock:
        if key in _memory:
            _memory.move_to_end(key)
            return _memory[key]
    found = compute()
    with _lock:
        _memory[key] = found
        while len(_memory) > _LATEST:
            _memory.popitem(last=False)
    return found
