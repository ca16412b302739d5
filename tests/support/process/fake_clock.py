"""A coordinator with a clock that the test sets at any time, by libfaketime."""

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from support.process.server import Server

__all__ = ["OtherClock"]

# The coordinator drops LD_PRELOAD when it executes itself again for isolation. So the shell starts
# the coordinator in isolation, with its process id; the coordinator completes its hardening. The
# shell runs without the library, because its shared memory would remain after the next execution.
_ISOLATED: Final = (
    f'LD_PRELOAD=$CLOCK KEYHOUSE_ISOLATED=$$ exec {sys.executable} -I -B -m keyhouse.cli "$@"'
)


class OtherClock:
    """A machine's clock with an offset from the true time.

    ``all_clocks``: the offset also applies to the monotonic clocks, as under Gramine.
    """

    def __init__(self, folder: Path, *, all_clocks: bool = False) -> None:
        self._file = folder / "clock"
        self._environment = {
            "CLOCK": _library(),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "0" if all_clocks else "1",
            # Without this, timed waits end at once, and threads that wait for the GIL spin.
            "FAKETIME_FORCE_MONOTONIC_FIX": "1" if all_clocks else "0",
            "NO_FAKE_STAT": "1",
        }
        self.set_right()

    def server(self, data: Path, *arguments: str) -> Server:
        """Return a coordinator that uses this clock."""
        return Server(
            data,
            arguments=arguments,
            environment=self._environment,
            wrapper=["/bin/sh", "-c", _ISOLATED],
        )

    def set_ahead(self, by: timedelta) -> None:
        """Set this clock ``by`` ahead of the true time, for all its processes."""
        beside = self._file.with_suffix(".new")
        beside.write_text(f"+{by.total_seconds():.0f}\n", encoding="ascii")
        beside.replace(self._file)  # atomic for readers

    def set_right(self) -> None:
        """Set this clock to the true time."""
        self.set_ahead(timedelta())


def _library() -> str:
    for place in ("/usr/lib", "/usr/lib64"):
        for found in sorted(Path(place).glob("**/faketime/libfaketimeMT.so.1")):
            return str(found)
    if os.environ.get("CI"):
        pytest.fail("libfaketime is missing: a clock that jumps cannot be shown")
    pytest.skip("libfaketime is not installed (Debian: faketime)")
