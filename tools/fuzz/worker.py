"""The process of a target. Shared memory has the current case, for a crash or a hang."""

import mmap
import os
import struct
import time
import traceback
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Final

import msgspec
from fuzz.target import FindingError, Target

__all__ = ["Limits", "Progress", "Shared", "work"]

_HEAD: Final = struct.Struct("<QQ")  # number of the current case, and its length in bytes
_LARGEST: Final = 8 << 20  # bytes of a case
_REPORT_EVERY: Final = 0.5  # seconds


class Limits(msgspec.Struct, frozen=True):
    """The limits of a run. The first reached limit ends the run. None: no limit of cases."""

    seconds: float
    count: int | None = None


class Progress(msgspec.Struct):
    """A message of a worker: the counts since its start.

    The last message has a ``finding``, or ``done`` is true.
    """

    outcomes: dict[str, int]
    finding: str = ""
    done: bool = False


class Shared:
    """Shared memory of worker and supervisor: the current case and its number."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _LARGEST + _HEAD.size)

    def begin(self, number: int, case: bytes) -> None:
        """Store the current case."""
        if len(case) > _LARGEST:
            raise ValueError(f"a case has {len(case)} bytes, at most {_LARGEST} fit")
        self._memory[_HEAD.size : _HEAD.size + len(case)] = case
        _HEAD.pack_into(self._memory, 0, number, len(case))

    @property
    def begun(self) -> int:
        """The number of the current case. The first case has the number 1."""
        number, _ = _HEAD.unpack_from(self._memory)
        return int(number)

    @property
    def case(self) -> bytes:
        """The current case."""
        _, length = _HEAD.unpack_from(self._memory)
        return self._memory[_HEAD.size : _HEAD.size + length]


def work(make: Callable[[], Target], seed: int, limits: Limits, shared: Shared, pipe: int) -> None:
    """Try cases until the limits or a finding. Write ``Progress`` messages to ``pipe``."""
    target = make()
    try:
        _try_many(target, seed, limits, shared, pipe)
    finally:
        target.close()


def _try_many(target: Target, seed: int, limits: Limits, shared: Shared, pipe: int) -> None:
    chance = Random(seed)  # noqa: S311 - cases, not keys
    outcomes = Counter[str]()
    begin = said = time.monotonic()
    number, now = 0, begin
    while now - begin < limits.seconds and (limits.count is None or number < limits.count):
        number += 1
        finding = _try_one(target, chance, number, shared, outcomes)
        if finding:
            _say(pipe, Progress(dict(outcomes), finding))
            return
        now = time.monotonic()
        if now - said >= _REPORT_EVERY:
            said = now
            _say(pipe, Progress(dict(outcomes)))
    _say(pipe, Progress(dict(outcomes), done=True))


def _try_one(
    target: Target, chance: Random, number: int, shared: Shared, outcomes: Counter[str]
) -> str:
    """Try one case; return the text of a finding, or an empty text."""
    try:
        case = target.draw(chance)
        shared.begin(number, case)
        outcomes[target.judge(case)] += 1
    except FindingError as finding:
        return str(finding)
    except Exception:  # noqa: BLE001 - every exception is a finding
        return f"an unexpected exception\n{traceback.format_exc()}"
    return ""


def _say(pipe: int, progress: Progress) -> None:
    words = msgspec.json.encode(progress) + b"\n"
    while words:
        words = words[os.write(pipe, words) :]
