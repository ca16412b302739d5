"""Report the findings of `keyhouse watch`: print lines, and run a program for each alert."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from keyhouse.base.errors import RefusedError
from keyhouse.base.printable import os_reason, printable
from keyhouse.cli.output.show import show_json
from keyhouse.cli.watch.log_poll import LogFinding


class Reporter:
    """Prints findings, and runs ``program`` for each alert; None: no program.

    After ``limit`` seconds, the program is killed. Raises ``RefusedError`` for a missing program at
    once, because an error at the first alert would be too late.
    """

    def __init__(self, program: Path | None, limit: int, *, as_json: bool) -> None:
        if program is not None and shutil.which(program) is None:
            raise RefusedError(
                f"cannot run {printable(str(program))}: there is no such program",
                hint="pass the path of an executable file",
            )
        self._program = program
        self._limit = limit
        self._as_json = as_json

    def __call__(self, finding: LogFinding) -> None:
        """Print ``finding``; if it is an alert, run the program of ``--exec``."""
        if self._as_json:
            show_json(finding)
        else:
            sys.stdout.write(_line(finding))
        sys.stdout.flush()
        if finding.alert and self._program is not None:
            content = msgspec.json.encode(finding) + b"\n"
            if problem := run_program(self._program, content, self._limit):
                sys.stderr.write(f"warning: {problem}\n")


def run_program(program: Path, content: bytes, limit: float) -> str:
    """Run ``program`` with ``content`` as its standard input; return the problem, or "".

    After ``limit`` seconds, the function kills the program and all processes of its process group.
    Raises ``RefusedError`` for a program that cannot run.
    """
    name = printable(str(program))
    try:
        started = subprocess.Popen([program], stdin=subprocess.PIPE, process_group=0)  # noqa: S603 named by the user
    except OSError as error:
        raise RefusedError(
            f"cannot run {name}: {os_reason(error)}", hint="pass the path of an executable file"
        ) from None
    with started:
        try:
            started.communicate(content, limit)
        except BaseException as error:  # also Ctrl-C, which does not reach the program
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            return f"{name} did not end within {limit:g} s, and the command killed it"
    return f"{name} ended with code {started.returncode}" if started.returncode else ""


def _line(finding: LogFinding) -> str:
    when = finding.claimed or f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    number = "" if finding.index is None else f" {finding.index}"
    mark = "!" if finding.alert else " "
    why = f" ({'; '.join(finding.why)})" if finding.why else ""
    text = f"{mark} {when} {finding.host}{number} {finding.kind}: {finding.text}{why}"
    return printable(text) + "\n"
