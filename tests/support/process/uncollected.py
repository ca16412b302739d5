"""Runs ``keyhouse serve`` with the garbage collector off, in a new process.

At SIGUSR1 the process collects once, and writes a line to ``REPORT`` for each large value in a
cycle: the type of the object with the value, and the size. The arguments of this program are the
path of ``REPORT``, and then the words of the command.
"""

import gc
import os
import signal
import sys
from pathlib import Path
from types import FrameType

_LARGE = 100_000  # bytes
_TEXTS = (bytes, bytearray, str)


def _never() -> None:
    """Take the place of ``gc.enable``."""


def _report(*_: object) -> None:
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    lines = [
        f"{_name(holder)} {len(held)}\n"
        for holder in gc.garbage
        for held in gc.get_referents(holder)
        if isinstance(held, _TEXTS) and len(held) > _LARGE
    ]
    gc.garbage.clear()
    whole = Path(f"{_REPORT}.new")
    whole.write_text("".join(lines), encoding="utf-8")
    whole.rename(_REPORT)


def _name(holder: object) -> str:
    if isinstance(holder, FrameType):
        return f"frame of {holder.f_code.co_qualname}"
    return type(holder).__name__


if __name__ == "__main__":
    _REPORT, *sys.argv = sys.argv[1:]
    gc.disable()
    gc.enable = _never
    signal.signal(signal.SIGUSR1, _report)
    os.umask(0o077)
    from keyhouse.cli import main

    main()
