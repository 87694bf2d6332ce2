"""Questions with classes, read from the two files of a question classification task as tokens."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from glassformer.core.errors import DataError
from glassformer.core.files import user_path

TRAINING_FILE, TEST_FILE = "train_5500.label", "TREC_10.label"
_SOURCE = (
    "they are the question classification data of Li and Roth (2002), published by the Cognitive Computation Group of "
    "the University of Illinois"
)
_Lines = list[tuple[str, list[str]]]
_LINE = re.compile(r"^([A-Z]+):\w+ (.*\S.*)$")
# Tokens of padding, and of a word that is not in the training file.
PADDING, UNKNOWN = 0, 1


@dataclass(frozen=True)
class Questions:
    """Questions as tokens, with their classes.

    Attributes:
        tokens: shape (questions, length); 0 is padding, 1 a word not in the vocabulary.
        labels: class of each question, shape (questions,).
    """

    tokens: NDArray[np.int32]
    labels: NDArray[np.int32]


@dataclass(frozen=True)
class QuestionData:
    """Training and test questions over one vocabulary.

    Attributes:
        training: questions to learn from.
        test: questions to measure accuracy on.
        classes: names of the classes.
        vocabulary: number of different tokens, padding and the unknown word included.
    """

    training: Questions
    test: Questions
    classes: tuple[str, ...]
    vocabulary: int


def read_questions(folder: str | Path, length: int = 32) -> QuestionData:
    r"""Read ``train_5500.label`` and ``TREC_10.label``: lines ``CLASS:detail words``, in Latin-1.

    Words are separated by spaces and lower-cased; questions are cut or padded to ``length``. Classes and vocabulary are
    those of the training file. If all words of both files are whole numbers, they are the token ids of a tokeniser of
    your own: they keep their order, and ids that only the test file has are known words.

    Args:
        folder: folder of the two files.
        length: tokens per question.

    Raises:
        DataError: a file is missing or empty, a line is not a labelled question, or a test class has no training
            question.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "train_5500.label").write_text("NUM:dist How far is it ?\nHUM:ind Who was it ?\n")
        >>> _ = (folder / "TREC_10.label").write_text("HUM:desc Who is she ?\n")
        >>> data = read_questions(folder, length=5)
        >>> data.classes, data.vocabulary, data.test.tokens.tolist()
        (('HUM', 'NUM'), 9, [[7, 4, 1, 6, 0]])
        >>> _ = (folder / "train_5500.label").write_text("NUM:dist 101 7 5\nHUM:ind 101 3\n")
        >>> _ = (folder / "TREC_10.label").write_text("HUM:desc 101 9\n")
        >>> data = read_questions(folder, length=3)
        >>> data.vocabulary, data.test.tokens.tolist()
        (104, [[103, 11, 0]])
    """
    training, test = (_lines(user_path(folder), name) for name in (TRAINING_FILE, TEST_FILE))
    classes = tuple(sorted({label for label, _ in training}))
    for label, _ in test:
        if label not in classes:
            raise DataError(TEST_FILE, label, f"a class of {TRAINING_FILE}: {', '.join(classes)}")
    ids = {word for _, question in [*training, *test] for word in question}
    if all(word.isdecimal() for word in ids):
        numbers = {word: int(word) + UNKNOWN + 1 for word in ids}
    else:
        words = dict.fromkeys(word for _, question in training for word in question)
        numbers = {word: k for k, word in enumerate(words, start=UNKNOWN + 1)}
    parts = [_encoded(lines, classes, numbers, length) for lines in (training, test)]
    return QuestionData(parts[0], parts[1], classes, max(numbers.values()) + 1)


def _lines(folder: Path, name: str) -> _Lines:
    path = folder / name
    try:
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise DataError("data", str(folder), f"a folder with {TRAINING_FILE} and {TEST_FILE}", _SOURCE) from error
    found = []
    for number, line in enumerate(text.splitlines(), start=1):
        match = _LINE.match(line)
        if match is None:
            raise DataError(f"{name}, line {number}", line, "CLASS:detail and the words of a question", _SOURCE)
        found.append((match[1], match[2].lower().split()))
    if not found:
        raise DataError(name, "<empty>", "at least one labelled question", _SOURCE)
    return found


def _encoded(lines: _Lines, classes: tuple[str, ...], numbers: dict[str, int], length: int) -> Questions:
    tokens = np.full((len(lines), length), PADDING, np.int32)
    for row, (_, words) in zip(tokens, lines, strict=True):
        known = [numbers.get(word, UNKNOWN) for word in words[:length]]
        row[: len(known)] = known
    return Questions(tokens, np.array([classes.index(label) for label, _ in lines], np.int32))
