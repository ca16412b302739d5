"""The text of a file that a person wrote, or what the file is instead of text."""

from typing import Final

from keyhouse.base.errors import Problem

_SAVE: Final = "save it as UTF-8 without a byte-order mark"
_MARKS: Final = (
    (b"\xef\xbb\xbf", "begins with a byte-order mark"),
    (b"\xff\xfe", "is UTF-16, not UTF-8"),
    (b"\xfe\xff", "is UTF-16, not UTF-8"),
)
_OTHERS: Final = (
    (b"-----BEGIN ", "is PEM"),
    (b"\x1f\x8b", "is compressed (gzip)"),
    (b"PK\x03\x04", "is a ZIP archive"),
    (b"0\x82", "is binary (DER?)"),
    (b"\x7fELF", "is a program"),
)
_WRONG_FILE: Final = "is it the right file?"


class NotTextError(Exception):
    """The bytes are not text in UTF-8, or an empty one: ``problem`` says what they are."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem = Problem("", problem, hint)


def text_of(data: bytes) -> str:
    """Return ``data`` as text. Raises ``NotTextError``; nothing of the bytes is in its problem."""
    for mark, problem in _MARKS:
        if data.startswith(mark):
            raise NotTextError(problem, _SAVE)
    for beginning, problem in _OTHERS:
        if data.startswith(beginning):
            raise NotTextError(problem, _WRONG_FILE)
    if not data.strip(b" \t\r\n"):
        raise NotTextError("is empty", _WRONG_FILE)
    if (zero := data.find(b"\0")) >= 0:
        raise NotTextError(f"is binary: byte {zero + 1} is zero", _WRONG_FILE)
    try:
        return data.decode()
    except UnicodeDecodeError as failure:  # it carries the bytes, so it is not chained
        start = failure.start
    line = data.count(b"\n", 0, start) + 1
    raise NotTextError(f"is not UTF-8, byte {start + 1} in line {line}", _SAVE)
