"""Runs `keyhouse run` as a real process: it, or the program that it becomes, ends."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from support.process.start import KEYHOUSE

__all__ = ["ISOLATED", "Launched", "command", "launch"]

ISOLATED: Final = (sys.executable, "-I", "-B", "-m", "keyhouse.cli")
"""The command as an enclave's manifest starts it."""


class Launched(NamedTuple):
    """How a launcher, or the program that it became, ended."""

    code: int
    out: str
    err: str
    pid: int

    @property
    def shown(self) -> Any:
        """What the program printed, JSON."""
        assert self.code == 0, self.err
        return json.loads(self.out)


def command(port: int, *words: str) -> list[str]:
    """Return the command that joins as a ``web`` at 127.0.0.1."""
    given = ["--coordinator", f"127.0.0.1:{port}", "--type", "web", "--timeout", "60"]
    return [KEYHOUSE, "run", *given, *words]


def launch(
    port: int,
    *words: str,
    folder: Path,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    keyhouse: Sequence[str] = (KEYHOUSE,),
) -> Launched:
    """Return how it ended, started in ``folder`` with these variables only."""
    process = subprocess.Popen(
        [*keyhouse, *command(port, *words)[1:]],
        cwd=folder,
        env=dict(env or {}),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(stdin, timeout=120)
    return Launched(process.returncode, out, err, process.pid)
