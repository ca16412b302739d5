"""Command lines: shown as a person would type them, and run exactly as shown."""

import os
import shlex
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from examples.demo.screen import WIDTH, UnexpectedError

__all__ = ["Done", "Shell", "typed"]

_ROOM: Final = WIDTH - 8
_PATIENCE: Final = 60.0  # seconds
_KEPT: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")


class Done(msgspec.Struct, frozen=True):
    """How a command ended."""

    code: int
    output: bytes
    errors: str


class Shell:
    """Runs lines in ``folder``, where ``keyhouse`` and ``python`` are those of this environment.

    Proxies, personal settings of curl and the like have no effect: what it shows is what is meant.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder
        self.bin: Final = Path(sysconfig.get_path("scripts"))
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        path = f"{self.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        self.environment: Final = {**kept, "PATH": path, "HOME": str(folder)}

    def script(self, name: str) -> str:
        """Return the path of a script of the demo."""
        return str(Path(__file__).with_name(name))

    def run(self, line: str) -> Done:
        """Run ``line`` to its end. Raises ``UnexpectedError`` if it takes more than a minute."""
        try:
            done = subprocess.run(  # noqa: S603 (the demo's own lines)
                ["bash", "-c", line],  # noqa: S607 (found as a person's terminal finds it)
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            raise UnexpectedError(f"this did not end within {_PATIENCE:.0f} s: {line}") from None
        return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def typed(words: Sequence[str]) -> str:
    """Return ``words`` as one command, quoted, on as many lines as it needs."""
    lines = [""]
    for word in map(shlex.quote, words):
        if lines[-1] and len(lines[-1]) + len(word) > _ROOM:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return " \\\n".join(lines)
