"""The command of the manifest that lets a program load its changed files.

One command runs at a time, with the program's environment and without input. A change during its
run leads to another run. A failed run, or a run of more than 30 seconds, is repeated at most twice.
"""

import signal
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from keyhouse.base.errors import KeyhouseError
from keyhouse.base.secret import Secret
from keyhouse.launcher.program import Program
from keyhouse.launcher.supervise.processes import EndedChild, Processes, send
from keyhouse.launcher.supervise.schedule import NEVER

LIMIT: Final = 30.0  # seconds of a run

_PAUSES: Final = (1.0, 5.0)  # seconds before the repetitions
_PROCESS_ID: Final = b"MAINPID"
"""The variable with the process id of the program, as systemd names it."""


class ReloadCommand:
    """Runs the command of the manifest after changes. All times are seconds of one clock."""

    def __init__(
        self,
        processes: Processes,
        progress: Callable[[str], None],
        warning: Callable[[str], None],
    ) -> None:
        self._processes = processes
        self._progress = progress
        self._warning = warning
        self._command: Program | None = None
        self._process = 0  # 0: none runs
        self._is_late = False  # whether the run has exceeded the limit
        self._failures = 0
        self._at = NEVER  # the next start, or the limit of the present run
        self._again = False

    @property
    def due(self) -> float:
        """The time to start the command, or to end a run that takes too long."""
        return self._at

    def request(self, argv: tuple[bytes, ...], program: Program, process: int, now: float) -> None:
        """Run the command ``argv`` at once, or after the end of a present run.

        The command has the environment of ``program``. A further variable has ``process``, the
        process id of the program. ``now``: seconds.
        """
        env = {**program.env, _PROCESS_ID: Secret(str(process).encode("ascii"))}
        self._command = replace(program, file=argv[0], argv=argv, env=env)
        self._failures = 0
        if self._process:
            self._again = True
        else:
            self._at = now

    def act(self, now: float) -> None:
        """Start the requested command, or kill a run that takes too long, if due at ``now``.

        ``due`` is the time of the next step. Without a request, do nothing.
        """
        if now < self._at or self._command is None:
            return
        if self._process:
            self._is_late, self._at = True, NEVER
            send(self._process, signal.SIGKILL)
            return
        self._again = self._is_late = False
        try:
            self._process = self._processes.start(self._command, with_input=False).process
            self._at = now + LIMIT
        except KeyhouseError as error:
            self._fail(f"{error}", now)

    def record_end(self, ended: EndedChild, now: float) -> None:
        """Record the end of a child. The child may be the command, or another process.

        ``now``: seconds, on the clock of ``act``.
        """
        if ended.process != self._process or not self._process:
            return
        self._process, self._at = 0, NEVER
        if self._again:
            self._at = now
        elif self._is_late:
            self._fail(f"the command of OnChange took more than {LIMIT:.0f} s", now)
        elif ended.code:
            self._fail(f"the command of OnChange ended with code {ended.code}", now)
        else:
            self._progress("the command of OnChange has ended with code 0")

    def _fail(self, problem: str, now: float) -> None:
        self._at = NEVER
        if self._failures < len(_PAUSES):
            pause = _PAUSES[self._failures]
            self._failures += 1
            self._at = now + pause
            self._warning(f"{problem}; trying again in {pause:.0f} s")
        else:
            self._warning(
                f"{problem}, for the third time: the program may use the old files; correct the"
                " command in the manifest"
            )
