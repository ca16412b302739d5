"""A coordinator process of the trial: start it, connect to it, and stop it, with times."""

import re
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason
from keyhouse.cli.dev.coordinator import RunningCoordinator, served_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from keyhouse.client import ClientIdentity, Coordinator, Trust

_RESIDENT: Final = re.compile(r"^VmRSS:\s*([0-9]+) kB$", re.MULTILINE)
_HINT: Final = "check the installation with keyhouse doctor, then try again"


class ProgramUnusableError(RefusedError):
    """The program of the coordinator is missing, or cannot be executed."""

    code = "program-unusable"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The command, files and variables to start a trial's coordinator, and to verify it."""

    platform: str  # of the coordinator process
    words: tuple[str, ...]
    state: Path  # its state directory on this machine
    environment: dict[str, str]
    folder: Path | None = None  # the working directory
    trust: "Callable[[], Trust]"  # after the start, because a simulated machine begins then


class CoordinatorProcess:
    """A coordinator process for a ``with`` block; the end of the block stops the process.

    ``launch``: how to start and verify the coordinator. ``log``: the file for its log.
    """

    def __init__(self, launch: Launch, log: Path) -> None:
        self._launch = launch
        self._log = log
        self._ends = ExitStack()
        self._began = 0.0
        self._serving: RunningCoordinator | None = None

    def start(self) -> int:
        """Start the process; return the milliseconds until it serves.

        Raises ``StartRefusedError``, ``ProgramUnusableError``, ``UnavailableError`` or
        ``BrokenError``.
        """
        self._began = time.monotonic()
        launch = self._launch
        serving = served_by(
            launch.words,
            self._log,
            folder=launch.folder,
            environment=launch.environment,
            hint=_HINT,
        )
        try:
            self._serving = self._ends.enter_context(serving)
        except OSError as error:
            raise ProgramUnusableError(
                f"cannot start {launch.words[0]}: {os_reason(error)}",
                hint="install the program, and put its directory into PATH",
            ) from None
        return self.age()

    def age(self) -> int:
        """Return the milliseconds since the start of the process, at least 1."""
        return elapsed(self._began)

    def connect(self, user: "ClientIdentity | None" = None) -> "Coordinator":
        """Verify the coordinator, and return a session as ``user``; None: an anonymous client."""
        from keyhouse.client import Coordinator

        assert self._serving is not None  # noqa: S101 a step needs a passed start
        return Coordinator.connect(self._serving.client, self._launch.trust(), user)

    def resident_kib(self) -> int | None:
        """Return the resident memory of the process in KiB, or None if unknown."""
        assert self._serving is not None  # noqa: S101 a step needs a passed start
        try:
            status = Path(f"/proc/{self._serving.process.pid}/status").read_text("ascii", "replace")
        except OSError:
            return None
        found = _RESIDENT.search(status)
        return int(found[1]) if found else None

    def stop(self) -> int:
        """Stop the coordinator with SIGTERM; return the milliseconds until its end."""
        began = time.monotonic()
        self._ends.close()
        return elapsed(began)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ends.close()


def elapsed(began: float) -> int:
    """Return the milliseconds since ``began``, at least 1.

    ``began`` is a time of the monotonic clock in seconds.
    """
    return max(1, round((time.monotonic() - began) * 1000))
