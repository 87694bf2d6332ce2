"""Words that have a new name: one table for Python, the command line and sweep files.

An old word is an error that says the new one; none of them works any more.
"""

from __future__ import annotations

RENAMED = {
    # Public functions and classes.
    "follow": "trajectory",
    "follow_branches": "hysteresis",
    # Arguments of functions and classes.
    "algorithm=": "learner=",
    "settings=": "learner=, an object with its settings",
    # Options of the command line.
    "--algorithm": "--learner",
}
"""What to write now, by the old word: a name, an argument ``NAME=``, an option ``--NAME``, a table ``[NAME]``.

A word that is old in one place alone has the place in front of it: ``landscape --points``, ``SGD start=``.
"""


def new_word(word: str, *places: str) -> str | None:
    """Return what replaces an old word; None for a word that is not old.

    Args:
        word: the word.
        places: where it was given, such as a command or a class, the closest first.

    Example:
        >>> new_word("--algorithm", "simulate")
        '--learner'
        >>> new_word("--learner") is None
        True
    """
    keys = (*(f"{place} {word}" for place in places), word)
    return next((RENAMED[key] for key in keys if key in RENAMED), None)


def renamed(word: str, *places: str) -> str | None:
    """Return the sentence on an old word; None for a word that is not old.

    Example:
        >>> renamed("follow")
        'follow is now trajectory'
    """
    new = new_word(word, *places)
    return None if new is None else f"{word.rstrip('=')} is now {new.rstrip('=')}"
