"""Command lines of the demo. Each line runs exactly as shown on the screen."""

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
    """The result of a command."""

    code: int
    output: bytes
    errors: str


class Shell:
    """Runs command lines in ``folder``, with ``keyhouse`` and ``python`` of this environment.

    Variables for proxies and the personal settings of curl have no effect.
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
        """Run ``line`` to its end. Raises ``UnexpectedError`` after 60 seconds."""
        try:
            done = subprocess.run(  # noqa: S603 (the demo's own lines)
                ["bash", "-c", line],  # noqa: S607 (a terminal also uses PATH)
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=_PATIENCE,
            )
        except subprocess.TimeoutExpired:
            raise UnexpectedError(f"not finished within {_PATIENCE:.0f} s: {line}") from None
        return Done(done.returncode, done.stdout, done.stderr.decode(errors="replace"))


def typed(words: Sequence[str]) -> str:
    """Return ``words`` as one quoted command, wrapped to the width of the screen."""
    lines = [""]
    for word in map(shlex.quote, words):
        if lines[-1] and len(lines[-1]) + len(word) > _ROOM:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return " \\\n".join(lines)
