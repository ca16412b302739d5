"""Changes of bytes, as in many fuzzing tools."""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

__all__ = ["flipped", "mutated", "spliced"]

_MOST: Final = 4  # changes in one case
_RUN: Final = 24  # bytes of an inserted, removed or repeated run
_INTERESTING: Final = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x00\x00",
    b"\xff\xff",
    b"\x00\x00\x00\x00",
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
)


def mutated(data: bytes, chance: Random, words: Sequence[bytes] = ()) -> bytes:
    """Return ``data`` with one to four changes. Some changes insert one of ``words``."""
    for _ in range(chance.choice((1, 1, 1, 2, 3, _MOST))):
        data = chance.choice(_CHANGES)(data, chance)
        if words and chance.random() < 0.3:
            data = _insert(data, chance.choice(words), chance)
    return data


def flipped(data: bytes, chance: Random) -> bytes:
    """Return ``data`` with one changed bit. Empty data stay empty."""
    if not data:
        return data
    at = chance.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]


def spliced(first: bytes, second: bytes, chance: Random) -> bytes:
    """Return a beginning of ``first``, followed by an end of ``second``."""
    return first[: chance.randrange(len(first) + 1)] + second[chance.randrange(len(second) + 1) :]


def _insert(data: bytes, piece: bytes, chance: Random) -> bytes:
    at = chance.randrange(len(data) + 1)
    return data[:at] + piece + data[at + chance.choice((0, 0, len(piece))) :]


def _span(data: bytes, chance: Random) -> tuple[int, int]:
    start = chance.randrange(len(data) + 1)
    return start, min(len(data), start + chance.randrange(1, _RUN))


def _set(data: bytes, chance: Random) -> bytes:
    return _insert(data, chance.choice(_INTERESTING), chance)


def _insert_random(data: bytes, chance: Random) -> bytes:
    return _insert(data, chance.randbytes(chance.randrange(1, _RUN)), chance)


def _remove(data: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:start] + data[end:]


def _repeat(data: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return data[:end] + data[start:end] * chance.choice((1, 1, 2, 40)) + data[end:]


def _move(data: bytes, chance: Random) -> bytes:
    start, end = _span(data, chance)
    return _insert(data[:start] + data[end:], data[start:end], chance)


def _cut(data: bytes, chance: Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


_CHANGES: Final[tuple[Callable[[bytes, Random], bytes], ...]] = (
    *(flipped, flipped, flipped, _set, _set, _insert_random),
    *(_remove, _repeat, _move, _cut),
)
