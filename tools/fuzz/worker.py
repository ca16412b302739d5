"""The process in which a target runs: it may crash or hang, and its supervisor knows on what."""

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

_HEAD: Final = struct.Struct("<QQ")  # cases begun, bytes of the present one
_LARGEST: Final = 8 << 20
_REPORT_EVERY: Final = 0.5  # seconds


class Limits(msgspec.Struct, frozen=True):
    """When a run ends by itself: after so many seconds or cases, whichever is first."""

    seconds: float
    count: int | None = None


class Progress(msgspec.Struct):
    """What a worker tells: all of it so far. ``finding`` is set, or ``done``, in its last words."""

    outcomes: dict[str, int]
    finding: str = ""
    done: bool = False


class Shared:
    """Memory of worker and supervisor: how many cases were begun, and the present one."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _LARGEST + _HEAD.size)

    def begin(self, number: int, case: bytes) -> None:
        """Note the case that is tried now."""
        if len(case) > _LARGEST:
            raise ValueError("a case is too large to be kept")
        self._memory[_HEAD.size : _HEAD.size + len(case)] = case
        _HEAD.pack_into(self._memory, 0, number, len(case))

    @property
    def begun(self) -> int:
        """How many cases were begun."""
        number, _ = _HEAD.unpack_from(self._memory)
        return int(number)

    @property
    def case(self) -> bytes:
        """The case that was begun last."""
        _, length = _HEAD.unpack_from(self._memory)
        return self._memory[_HEAD.size : _HEAD.size + length]


def work(make: Callable[[], Target], seed: int, limits: Limits, shared: Shared, pipe: int) -> None:
    """Try cases until the limits or a finding; say through ``pipe`` how it goes."""
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
    """Return what was found, or nothing."""
    try:
        case = target.draw(chance)
        shared.begin(number, case)
        outcomes[target.judge(case)] += 1
    except FindingError as finding:
        return str(finding)
    except Exception:  # noqa: BLE001 - that any exception comes out is what is looked for
        return f"an exception came out\n{traceback.format_exc()}"
    return ""


def _say(pipe: int, progress: Progress) -> None:
    words = msgspec.json.encode(progress) + b"\n"
    while words:
        words = words[os.write(pipe, words) :]
