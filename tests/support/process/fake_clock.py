"""A coordinator whose clock a test sets while it runs, by libfaketime."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from support.process.server import Server

__all__ = ["OtherClock"]

# The process drops LD_PRELOAD when it executes itself again. So it is started as what it becomes
# by that: isolated, under its own number. It does the rest of its hardening itself. The shell is
# without the library, whose shared memory would stay behind when it executes another program.
_ISOLATED: Final = (
    f'LD_PRELOAD=$CLOCK KEYHOUSE_ISOLATED=$$ exec {sys.executable} -I -B -m keyhouse.cli "$@"'
)


class OtherClock:
    """A machine's clock, set apart from the true time.

    ``all_clocks``: the monotonic ones are the time of day, as they are under Gramine.
    """

    def __init__(self, folder: Path, *, all_clocks: bool = False) -> None:
        self._file = folder / "clock"
        self._environment = {
            "CLOCK": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "0" if all_clocks else "1",
            # Else timed waits end at once, and threads that wait for the interpreter spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "1" if all_clocks else "0",
            "NO_FAKE_STAT": "1",
        }
        self.set_right()

    def server(self, data: Path, *arguments: str) -> Server:
        """Return a coordinator that lives by this clock."""
        return Server(
            data,
            arguments=arguments,
            environment=self._environment,
            wrapper=["/bin/sh", "-c", _ISOLATED],
        )

    def set_ahead(self, by: timedelta) -> None:
        """Let every process that lives by this clock see it ``by`` ahead of the true time."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"+{by.total_seconds():.0f}\n", encoding="ascii")
        beside.replace(self._file)  # a reader sees the one or the other

    def set_right(self) -> None:
        """Set it to the true time."""
        self.set_ahead(timedelta())


def _library() -> str:
    for place in ("/usr/lib", "/usr/lib64"):
        for found in sorted(Path(place).glob("**/faketime/libfaketimeMT.so.1")):
            return str(found)
    if os.environ.get("CI"):
        pytest.fail("libfaketime is missing: a clock that jumps cannot be shown")
    pytest.skip("libfaketime is not installed (Debian: faketime)")
