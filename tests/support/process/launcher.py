"""Runs `keyhouse run` as a real process: the launcher, or the executed program, ends."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, Final, NamedTuple

from support.process.start import KEYHOUSE, Started, start

__all__ = ["ISOLATED", "Launched", "command", "launch"]

ISOLATED: Final = (sys.executable, "-I", "-B", "-m", "keyhouse.cli")
"""The command in an enclave's manifest."""

_LONGEST: Final = 120.0


class Launched(NamedTuple):
    """The end of a launcher, or of the executed program."""

    code: int
    out: str
    err: str
    pid: int

    @property
    def shown(self) -> Any:
        """The program's output, as JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def command(port: int, *words: str) -> list[str]:
    """Return a command that joins as type ``web`` at 127.0.0.1."""
    given = ["--coordinator", f"127.0.0.1:{port}", "--type", "web", "--timeout", "60"]
    return [KEYHOUSE, "run", *given, *words]


def launch(
    port: int,
    *words: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    keyhouse: Sequence[str] = (),
) -> Launched:
    """Run the launcher in ``folder`` with only these variables; return the end.

    ``keyhouse``: the words of a command with a separate interpreter; empty: the usual start.
    """
    arguments = command(port, *words)[1:]
    with TemporaryFile() as given, TemporaryFile() as output, TemporaryFile() as errors:
        given.write(stdin.encode())
        given.seek(0)
        process: Started
        if keyhouse:
            process = subprocess.Popen(
                [*keyhouse, *arguments],
                cwd=folder,
                env=dict(env or {}),
                stdin=given,
                stdout=output,
                stderr=errors,
            )
        else:
            process = start(
                arguments,
                stdin=given,
                output=output,
                errors=errors,
                environment=env or {},
                folder=folder,
            )
        try:
            code = process.wait(_LONGEST)
        finally:
            process.kill()
        output.seek(0)
        errors.seek(0)
        return Launched(code, output.read().decode(), errors.read().decode(), process.pid)
